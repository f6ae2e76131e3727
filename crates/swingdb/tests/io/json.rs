//! JSON is read exactly, in the order of the file, or refused with the line. Types are those that
//! DuckDB 2.0 finds, but where these would lose something.

use swingdb::io::{ExportOptions, ImportOptions};

use super::support::{Place, import_error, seeded};

fn kinds(place: &Place, text: &str) -> String {
    place.file("k.json", text);
    let rows = place.rows(&place.fill_in("DESCRIBE SELECT * FROM '{}/k.json'"));
    let kinds: Vec<String> = rows.iter().map(|row| format!("{} {}", row[0], row[1])).collect();
    // HUGEINT has no other type than DECIMAL(38, 0).
    kinds.join(", ").replace('"', "").replace("DECIMAL(38,0)", "HUGEINT")
}

#[test]
fn columns_and_fields_are_in_the_order_of_the_file() {
    let place = Place::new();
    let text = "{\"z\":1,\"a\":5}\n{\"b\":1,\"z\":2}\n";
    assert_eq!(kinds(&place, text), "z BIGINT, a BIGINT, b BIGINT");
    let nested = "{\"s\":{\"z\":1,\"a\":2}}\n{\"s\":{\"c\":1}}\n";
    assert_eq!(kinds(&place, nested), "s STRUCT(z BIGINT, a BIGINT, c BIGINT)");
    place.file("f.json", "{\"z\":1,\"a\":5}\n");
    place.run("CREATE TABLE t (z INT, a INT)");
    place.run_in("INSERT INTO t(z, a) SELECT * FROM '{}/f.json'").unwrap();
    assert_eq!(place.rows("SELECT z, a FROM t"), [["1", "5"]]);
    assert_eq!(
        kinds(&place, "[{\"z\":1,\"a\":true},{\"b\":\"x\"}]"),
        "z BIGINT, a BOOLEAN, b VARCHAR"
    );
}

#[test]
fn types_that_lose_nothing() {
    let place = Place::new();
    for (values, kind, shown) in [
        (&["1", "1.5"][..], "DOUBLE", "1.0 1.5"),
        (&["18446744073709551615", "-1"], "HUGEINT", "18446744073709551615 -1"),
        (&["123456789012345678901234567890"], "HUGEINT", "123456789012345678901234567890"),
        (&["9007199254740993", "0.5"], "VARCHAR", "9007199254740993 0.5"),
        (&["1e400"], "VARCHAR", "1e400"),
        (&["1", "\"x\""], "VARCHAR", "1 \"x\""),
        (&["1", "true"], "VARCHAR", "1 true"),
        (&["{\"x\":1}", "[1]"], "VARCHAR", "{\"x\":1} [1]"),
        (&["null"], "VARCHAR", "NULL"),
        (&["\"2024-01-31\""], "DATE", "2024-01-31"),
        (&["\"x\\u00e9\\n\\ud83d\\ude00\""], "VARCHAR", "xé\n😀"),
    ] {
        let lines: String = values.iter().map(|value| format!("{{\"a\": {value}}}\n")).collect();
        assert_eq!(kinds(&place, &lines), format!("a {kind}"), "{values:?}");
        let rows = place.rows("SELECT a FROM '{}/k.json'").concat().join(" ");
        assert_eq!(rows, shown, "{values:?}");
    }
    assert_eq!(kinds(&place, "{\"a\":{\"d\":\"2024-01-31\"}}\n"), "a STRUCT(d DATE)");
    assert_eq!(kinds(&place, "{\"a\":1,\"A\":2}\n"), "a BIGINT, A_1 BIGINT");
}

#[test]
fn what_the_sample_did_not_show() {
    let place = Place::new();
    for (usual, odd) in [
        ("{\"a\": 7}", "{\"a\": 1.5}"),
        ("{\"a\": 7}", "{\"a\": true}"),
        ("{\"a\": 7}", "{\"a\": \"5\"}"),
        ("{\"a\": 7}", "{\"a\": 9223372036854775808}"),
        ("{\"a\": 7.5}", "{\"a\": true}"),
        ("{\"a\": 7.5}", "{\"a\": 9007199254740993}"),
        ("{\"a\": true}", "{\"a\": 7}"),
        ("{\"a\": \"x\"}", "{\"a\": 5}"),
        ("{\"a\": \"2024-01-31\"}", "{\"a\": \"x\"}"),
        ("{\"o\": {\"a\": 7}}", "{\"o\": {\"a\": 1.5}}"),
        ("{\"o\": {\"a\": 7}}", "{\"o\": {\"b\": 1}}"),
        ("{\"a\": [7]}", "{\"a\": [1.5]}"),
        ("{\"a\": 7}", "{\"a\": 7, \"b\": 1}"),
        ("{\"a\": 7}", "{\"a\": 7, \"a\": 8}"),
        ("{\"a\": 7}", "{\"a\": 7} {\"a\": 8}"),
        ("{\"a\": 7}", "{\"a\": 07}"),
    ] {
        let text = format!("{}{odd}\n{usual}\n", format!("{usual}\n").repeat(25_000));
        place.file("f.json", text);
        for sql in ["SELECT * FROM '{}/f.json'", "CREATE TABLE t AS SELECT * FROM '{}/f.json'"] {
            let (_, line, message) = import_error(place.run_in(sql).unwrap_err());
            assert_eq!(line, Some(25_001), "{odd}: {message}");
        }
    }
    // A key that no row of the sample has is an error also where another column is asked for.
    place.file("f.json", "{\"a\":1,\"c\":2}\n".repeat(25_000) + "{\"a\":1,\"b\":2}\n");
    let (_, line, message) = import_error(place.run_in("SELECT a FROM '{}/f.json'").unwrap_err());
    assert!(line == Some(25_001) && message.contains("sample_size -1"), "{message}");
    // As whole numbers these are the same.
    place.file("f.json", "{\"a\": 7}\n".repeat(25_000) + "{\"a\": 7.0}\n{\"a\": 7e0}\n");
    assert_eq!(place.value("SELECT sum(a) FROM '{}/f.json'"), "175014");
}

#[test]
fn values_for_columns_of_a_table() {
    let place = Place::new();
    let mut number = 0;
    let mut stored = |kind: &str, value: &str| {
        number += 1;
        place.run(&format!("CREATE TABLE t{number} (a {kind})"));
        place.file("f.json", format!("{{\"a\": {value}}}\n"));
        place.run_in(&format!("COPY t{number} FROM '{{}}/f.json'"))?;
        Ok::<String, swingdb::Error>(place.value(&format!("SELECT a FROM t{number}")))
    };
    for (kind, value, expected) in [
        ("BIGINT", "\"5\"", "5"),
        ("BIGINT", "1e3", "1000"),
        ("DECIMAL(38, 0)", "9007199254740993", "9007199254740993"),
        ("DECIMAL(10, 2)", "1.50", "1.50"),
        ("DOUBLE", "9007199254740993", "9007199254740992.0"),
        ("VARCHAR", "1.50", "1.50"),
        ("VARCHAR", "{\"x\": [1, null]}", "{\"x\": [1, null]}"),
        ("VARCHAR", "\"x\"", "x"),
        ("BOOLEAN", "\"true\"", "true"),
        ("TIMESTAMP", "\"2024-01-31\"", "2024-01-31T00:00:00"),
        ("INT[]", "[1, null]", "[1, NULL]"),
    ] {
        assert_eq!(stored(kind, value).unwrap(), expected, "{kind} {value}");
    }
    for (kind, value) in [
        ("BIGINT", "1.5"),
        ("BIGINT", "1e300"),
        ("TINYINT", "300"),
        ("DECIMAL(10, 2)", "1.505"),
        ("DOUBLE", "1e400"),
        ("BOOLEAN", "1"),
        ("TIMESTAMP", "1700000000"),
        ("DATE", "\"2023-02-29\""),
        ("INT[]", "[1.5]"),
        ("STRUCT(a INT)", "{\"b\": 1}"),
        ("STRUCT(a INT)", "{\"a\": 1, \"a\": 2}"),
    ] {
        let (_, line, message) = import_error(stored(kind, value).unwrap_err());
        assert_eq!(line, Some(1), "{kind} {value}: {message}");
    }
}

#[test]
fn files_that_are_not_whole() {
    let place = Place::new();
    place.file("cut.json", "[{\"a\": 1}, {\"a\": 2},");
    let (_, _, message) = import_error(place.run_in("SELECT * FROM '{}/cut.json'").unwrap_err());
    assert!(message.contains("not closed"), "{message}");
    place.file("marked.jsonl", "\u{FEFF}{\"prénom\": \"René\"}\n");
    assert_eq!(place.rows("SELECT prénom FROM '{}/marked.jsonl'"), [["René"]]);
    place.file("marked.json", "\u{FEFF}[{\"prénom\": \"René\"}]");
    assert_eq!(place.rows("SELECT prénom FROM '{}/marked.json'"), [["René"]]);
}

/// JSON has no such numbers: they are strings, which a column of numbers takes.
#[test]
fn what_is_no_number_comes_back() {
    let place = Place::new();
    place.run("CREATE TABLE t (x DOUBLE, y REAL)");
    place.run("INSERT INTO t VALUES ('NaN', 'inf'), ('-inf', 'NaN'), (1.5, 0.1), (NULL, NULL)");
    place.run_in("COPY t TO '{}/f.json'").unwrap();
    let text = std::fs::read_to_string(place.path("f.json")).unwrap();
    assert!(text.starts_with("{\"x\":\"NaN\",\"y\":\"Infinity\"}\n"), "{text}");
    assert!(text.contains("{\"x\":1.5,\"y\":0.1}"), "{text}");
    place.run("CREATE TABLE u (x DOUBLE, y REAL)");
    place.run_in("COPY u FROM '{}/f.json'").unwrap();
    assert_eq!(place.rows("SELECT * FROM u"), place.rows("SELECT * FROM t"));
}

/// Random rows are read as they are written, wherever blocks are cut.
#[test]
fn random_rows_come_back() {
    let mut random = seeded();
    let place = Place::new();
    for round in 0..20 {
        let rows = random.usize(1..400);
        place.run(&format!(
            "CREATE OR REPLACE TABLE t AS SELECT range AS z, range % 3 = 0 AS b, \
             CASE WHEN range % 4 = 0 THEN NULL ELSE range / 7.0::DOUBLE END AS x, \
             concat('é\"\\\\', chr(10), range) AS s, [range, NULL] AS l, \
             {{q: range, a: [{{t: 'x'}}]}} AS o, DATE '2024-01-31' + range::INT AS d, \
             (range * 1.5)::DECIMAL(12, 2) AS m FROM range({rows})"
        ));
        place.con.export_file("t", place.path("f.json"), ExportOptions::default()).unwrap();
        place.run("CREATE OR REPLACE TABLE u AS SELECT * FROM t WHERE false");
        let options = ImportOptions {
            block_bytes: Some(random.usize(1..5_000)),
            threads: Some(random.usize(1..4)),
            ..ImportOptions::default()
        };
        place.import("f.json", "u", options).unwrap();
        assert!(place.table("t") == place.table("u"), "round {round}");
    }
}
