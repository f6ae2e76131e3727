//! CSV against a naive reader, at every chunk boundary, with every error at its line.

use swingdb::io::{DateStyle, ImportOptions};
use swingdb::{Error, Value};

use super::support::{Place, import_error, seeded};

fn text(options: ImportOptions) -> ImportOptions {
    ImportOptions { all_text: true, header: Some(true), delimiter: Some(b','.into()), ..options }
}

/// A field as a CSV writer might write it, and its value.
fn random_field(random: &mut fastrand::Rng) -> (String, Option<String>) {
    const PIECES: [&str; 12] =
        ["a", "b c", ",", "\"", "\n", "\r\n", "é", "漢字", "🚕", "'", "\\", "NULL"];
    match random.u8(0..10) {
        0 => (String::new(), None),
        1 => ("\"\"".to_string(), Some(String::new())),
        _ => {
            let count = random.usize(1..6);
            let value: String = (0..count).map(|_| PIECES[random.usize(0..PIECES.len())]).collect();
            let special = value.contains([',', '"', '\n', '\r']);
            let written = match special || random.bool() {
                true => format!("\"{}\"", value.replace('"', "\"\"")),
                false => value.clone(),
            };
            (written, Some(value))
        }
    }
}

#[test]
fn random_files_in_chunks_of_any_size() {
    let mut random = seeded();
    for round in 0..60 {
        let place = Place::new();
        let columns = random.usize(2..6);
        let names: Vec<String> = (0..columns).map(|column| format!("c{column}")).collect();
        let end = if random.bool() { "\n" } else { "\r\n" };
        let mut file = names.join(",") + end;
        let mut expected = Vec::new();
        for _ in 0..random.usize(0..200) {
            let fields: Vec<_> = (0..columns).map(|_| random_field(&mut random)).collect();
            let written: Vec<_> = fields.iter().map(|(text, _)| text.as_str()).collect();
            file += &(written.join(",") + end);
            expected.push(
                fields.into_iter().map(|(_, value)| value.unwrap_or("NULL!".into())).collect(),
            );
        }
        if random.bool() {
            file.truncate(file.len() - end.len());
        }
        place.file("f.csv", &file);
        let block_bytes = Some(random.usize(1..300));
        let threads = Some(random.usize(1..4));
        place
            .import(
                "f.csv",
                "t",
                text(ImportOptions { block_bytes, threads, ..Default::default() }),
            )
            .unwrap();
        let list: Vec<_> = names.iter().map(|name| format!("coalesce({name}, 'NULL!')")).collect();
        let found = place.rows(&format!("SELECT {} FROM t", list.join(", ")));
        let expected: Vec<Vec<String>> = expected;
        assert_eq!(found, expected, "round {round}\n{file}");
    }
}

#[test]
fn typed_values_survive_any_chunk_size() {
    let mut random = seeded();
    let place = Place::new();
    let mut file = "i,f,d,t,b,s\n".to_string();
    for row in 0..2_000 {
        file += &format!(
            "{row},{}.5,2024-02-{:02},2024-01-01 00:00:{:02}.25,{},\"r\n{row}\"\n",
            row * 3,
            row % 29 + 1,
            row % 60,
            row % 2 == 0
        );
    }
    place.file("f.csv", &file);
    for table in 0..12 {
        let options = ImportOptions {
            block_bytes: Some(random.usize(1..5_000)),
            threads: Some(3),
            ..Default::default()
        };
        let table = format!("t{table}");
        assert_eq!(place.import("f.csv", &table, options).unwrap(), 2_000);
        let sums = format!(
            "SELECT sum(i), sum(f), max(d), max(t), count(*) FILTER (WHERE b), max(length(s)), \
             sum(CASE WHEN s = concat('r\n', i) THEN 1 ELSE 0 END) FROM {table}"
        );
        let expected =
            ["1999000", "5998000.0", "2024-02-29", "2024-01-01T00:00:59.250", "1000", "6", "2000"];
        assert_eq!(place.rows(&sums), [expected]);
        // The order of the file is the order of the table.
        let first = place.rows(&format!("SELECT i FROM {table} LIMIT 3"));
        assert_eq!(first, [["0"], ["1"], ["2"]]);
    }
}

/// Imports into a table that has rows, expects an error, and checks that the rows are untouched.
fn fails(place: &Place, name: &str, options: ImportOptions) -> Error {
    let before = place.rows("SELECT * FROM t ORDER BY 1");
    let error = place.import(name, "t", options).unwrap_err();
    assert_eq!(place.rows("SELECT * FROM t ORDER BY 1"), before);
    error
}

#[test]
fn errors_name_the_true_line_in_every_chunk() {
    let mut random = seeded();
    let cases = [
        ("x,1.5,z", "column 1 (\"a\"): \"x\" is no BIGINT"),
        ("1,one,z", "column 2 (\"b\"): \"one\" is no DOUBLE"),
        ("1,2.5", "2 fields where 3 are expected: \"1,2.5\""),
        ("1,2.5,z,4", "4 fields where 3 are expected"),
        ("1,2.5,\"z\"y", "goes on after its closing quote"),
        ("1,2.5,\"never closed", "is never closed"),
        ("9223372036854775808,1,z", "is no BIGINT"),
    ];
    let place = Place::new();
    place.run("CREATE TABLE t (a BIGINT, b DOUBLE, c VARCHAR)");
    place.run("INSERT INTO t VALUES (7, 7.5, 'kept')");
    for (bad, expected) in cases {
        for _ in 0..8 {
            let before = random.usize(0..400);
            let mut file = "a,b,c\n".to_string();
            let mut line = 2;
            for row in 0..before {
                // Rows of one to three lines.
                let breaks = random.usize(0..3);
                file += &format!("{row},{row}.25,\"x{}\"\n", "\n".repeat(breaks));
                line += 1 + breaks as u64;
            }
            file += bad;
            if !bad.contains("never") {
                for row in 0..random.usize(0..400) {
                    file += &format!("\n{row},0.5,after");
                }
            }
            let path = place.file("bad.csv", &file);
            let options = ImportOptions {
                block_bytes: Some(random.usize(1..600)),
                threads: Some(random.usize(1..4)),
                header: Some(true),
                ..Default::default()
            };
            let (error_path, error_line, message) = import_error(fails(&place, "bad.csv", options));
            assert_eq!((error_path, error_line), (path, Some(line)), "{message}");
            assert!(message.contains(expected), "{message}");
        }
    }
}

#[test]
fn the_first_of_many_errors_is_reported() {
    let place = Place::new();
    place.run("CREATE TABLE t (a BIGINT)");
    let mut file = "a\n".to_string();
    for row in 0..5_000 {
        file += if row >= 1_234 && row % 7 == 0 { "bad\n" } else { "1\n" };
    }
    place.file("f.csv", file);
    for _ in 0..20 {
        let options =
            ImportOptions { block_bytes: Some(50), threads: Some(4), ..Default::default() };
        let (_, line, _) = import_error(fails(&place, "f.csv", options));
        // Row 1 239 is the first bad one, behind the header.
        assert_eq!(line, Some(1_241));
    }
}

#[test]
fn bytes_that_are_no_text() {
    let place = Place::new();
    place.run("CREATE TABLE t (a BIGINT, b VARCHAR)");
    place.file("f.csv", b"a,b\n1,x\n2,\xFF\xFEy\n");
    let (_, line, message) = import_error(fails(&place, "f.csv", ImportOptions::default()));
    assert_eq!(line, Some(3));
    assert!(message.contains("UTF-8"), "{message}");
}

#[test]
fn sniffed_columns_become_a_table() {
    let place = Place::new();
    place.file(
        "f.csv",
        "id;name;price;day;at;ok;code\n\
         1;\"Ann; B\";1,5;2024-01-31;2024-01-31 10:00:00;true;007\n\
         2;;2,5;2024-02-01;2024-02-01 11:30:00.5;false;010\n",
    );
    place.import("f.csv", "t", ImportOptions::default()).unwrap();
    let types =
        place.rows("SELECT data_type FROM information_schema.columns WHERE table_name = 't'");
    assert_eq!(types.len(), 7);
    assert_eq!(
        place.rows("SELECT * FROM t"),
        [
            ["1", "Ann; B", "1,5", "2024-01-31", "2024-01-31T10:00:00", "true", "007"],
            ["2", "NULL", "2,5", "2024-02-01", "2024-02-01T11:30:00.500", "false", "010"],
        ]
    );
}

#[test]
fn a_value_behind_the_sample_is_an_error_with_advice() {
    let place = Place::new();
    let mut file = "a,b\n".to_string();
    for row in 0..60_000 {
        file += &format!("{row},1\n");
    }
    // Behind the first rows, and between the pieces that are looked at.
    let before = file.match_indices("37000,1\n").next().unwrap().0;
    file.insert(before, 'x');
    place.file("f.csv", &file);
    let error = place.import("f.csv", "t", ImportOptions::default()).unwrap_err();
    let (_, _, message) = import_error(error);
    assert!(message.contains("sample_size"), "{message}");
    assert!(matches!(place.con.query("SELECT * FROM t"), Err(Error::NotFound { .. })));
    let options = ImportOptions { sample_rows: Some(u64::MAX), ..Default::default() };
    assert_eq!(place.import("f.csv", "t", options).unwrap(), 60_000);
}

#[test]
fn options_decide() {
    let place = Place::new();
    place.file("f.csv", "junk\nmore junk\n1|~a|b~|NA\n2|c|31.12.2024\n");
    let options = ImportOptions {
        skip: 2,
        header: Some(false),
        delimiter: Some(b'|'.into()),
        quote: Some(Some(b'~')),
        nulls: vec!["NA".into()],
        dates: Some(DateStyle::DayFirst(b'.')),
        ..Default::default()
    };
    place.import("f.csv", "t", options).unwrap();
    let expected = [["1", "a|b", "NULL"], ["2", "c", "2024-12-31"]];
    assert_eq!(place.rows("SELECT * FROM t"), expected);

    place.file("short.csv", "a,b,c\n1\n2,3\n4,5,6\n");
    let options = ImportOptions { null_padding: true, ..Default::default() };
    place.import("short.csv", "s", options).unwrap();
    assert_eq!(place.value("SELECT sum(a) * 100 + sum(b) * 10 + sum(c) FROM s"), "786");
}

#[test]
fn columns_by_name_by_position_and_with_defaults() {
    let place = Place::new();
    place.run("CREATE TABLE t (a BIGINT, b VARCHAR DEFAULT 'dd', c DOUBLE)");
    place.file("names.csv", "c,A\n1.5,1\n");
    place.import("names.csv", "t", ImportOptions::default()).unwrap();
    place.file("bare.csv", "2,x,2.5\n");
    place.import("bare.csv", "t", ImportOptions::default()).unwrap();
    let listed = ImportOptions {
        columns: vec!["c".into(), "a".into()],
        header: Some(true),
        ..Default::default()
    };
    place.file("listed.csv", "p,q\n3.5,3\n");
    place.import("listed.csv", "t", listed).unwrap();
    let expected = [["1", "dd", "1.5"], ["2", "x", "2.5"], ["3", "dd", "3.5"]];
    assert_eq!(place.rows("SELECT * FROM t ORDER BY a"), expected);

    place.file("half.csv", "a,nothing\n1,2\n");
    let (_, _, message) = import_error(fails(&place, "half.csv", ImportOptions::default()));
    assert!(message.contains("nothing"), "{message}");
    place.file("few.csv", "1,2\n");
    let (_, _, message) = import_error(fails(&place, "few.csv", ImportOptions::default()));
    assert!(message.contains("2 columns"), "{message}");
}

#[test]
fn constraints_hold_for_imports() {
    let place = Place::new();
    place.run("CREATE TABLE t (a BIGINT PRIMARY KEY, b VARCHAR NOT NULL)");
    place.run("INSERT INTO t VALUES (2, 'old')");
    place.file("null.csv", "a,b\n1,x\n3,\n");
    assert!(matches!(
        fails(&place, "null.csv", ImportOptions::default()),
        Error::Constraint { .. }
    ));
    place.file("key.csv", "a,b\n1,x\n2,y\n");
    assert!(matches!(fails(&place, "key.csv", ImportOptions::default()), Error::Constraint { .. }));
    place.file("good.csv", "a,b\n1,x\n3,\"\"\n");
    assert_eq!(place.import("good.csv", "t", ImportOptions::default()).unwrap(), 2);
}

#[test]
fn an_import_inside_a_transaction_is_undone_with_it() {
    let place = Place::new();
    place.run("CREATE TABLE t (a BIGINT)");
    place.file("f.csv", "a\n1\n2\n");
    place.file("bad.csv", "a\nx\n");
    place.con.begin().unwrap();
    place.import("f.csv", "t", ImportOptions::default()).unwrap();
    place.import("f.csv", "u", ImportOptions::default()).unwrap();
    place.import("bad.csv", "t", ImportOptions::default()).unwrap_err();
    assert_eq!(place.value("SELECT count(*) FROM t"), "2");
    place.con.rollback().unwrap();
    assert_eq!(place.value("SELECT count(*) FROM t"), "0");
    assert!(place.con.query("SELECT * FROM u").is_err());
}

#[test]
fn several_files_packed_files_and_byte_order_marks() {
    use std::io::Write;
    let place = Place::new();
    place.file("p1.csv", "a,b\n1,x\n");
    place.file("p2.csv", "\u{FEFF}b,a\ny,2\n");
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(b"a,b\n3,z\n").unwrap();
    place.file("p3.csv.gz", gz.finish().unwrap());
    place.file("p4.csv.zst", zstd::bulk::compress(b"a,b\n4,w\n", 1).unwrap());
    place.import("p*", "t", ImportOptions::default()).unwrap();
    let expected = [["1", "x"], ["2", "y"], ["3", "z"], ["4", "w"]];
    assert_eq!(place.rows("SELECT a, b FROM t"), expected);
    place.file("p5.csv", "a,c\n1,x\n");
    let (path, _, _) = import_error(fails(&place, "p*", ImportOptions::default()));
    assert_eq!(path, place.path("p5.csv"));
}

#[test]
fn all_sql_types_are_parsed() {
    let place = Place::new();
    place.run(
        "CREATE TABLE t (a TINYINT, b SMALLINT, c INTEGER, d BIGINT, e REAL, f DOUBLE, \
         g DECIMAL(10, 2), h BOOLEAN, i DATE, j TIME, k TIMESTAMP, l BYTEA)",
    );
    place.file(
        "f.csv",
        "-128,32767,-5,6,1.25,-2.5e10,12345678.90,yes,2024-02-29,23:59:59.5,\
         2024-01-01T01:02:03.000004,a\\x00b\n,,,,,,,,,,,\n",
    );
    place
        .import("f.csv", "t", ImportOptions { header: Some(false), ..Default::default() })
        .unwrap();
    let rows = place.rows("SELECT a, b, c, d, e, f, g, h, i, j, k, encode(l, 'hex') FROM t");
    let expected = [
        "-128",
        "32767",
        "-5",
        "6",
        "1.25",
        "-25000000000.0",
        "12345678.90",
        "true",
        "2024-02-29",
        "23:59:59.500",
        "2024-01-01T01:02:03.000004",
        "610062",
    ];
    assert_eq!(rows[0], expected);
    assert!(rows[1].iter().all(|value| value == "NULL"));
    let bad =
        ["128", "1.5", "0x1", "", "1e39x", "nan?", "1.234", "maybe", "2023-02-29", "24:00", "x"];
    for (column, value) in bad.iter().enumerate().filter(|(_, value)| !value.is_empty()) {
        let fields: Vec<&str> = (0..12).map(|at| if at == column { value } else { "" }).collect();
        place.file("bad.csv", fields.join(",") + "\n");
        let options = ImportOptions {
            header: Some(false),
            delimiter: Some(b','.into()),
            ..Default::default()
        };
        let error = place.import("bad.csv", "t", options).unwrap_err();
        let (_, line, message) = import_error(error);
        assert_eq!(line, Some(1), "{message}");
        assert!(message.contains(&format!("column {}", column + 1)), "{message}");
    }
}

#[test]
fn progress_reaches_the_end() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    let place = Place::new();
    let bytes = place.file("f.csv", "a\n1\n".repeat(10)).metadata().unwrap().len();
    let last = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&last);
    place.con.set_progress(Some(Arc::new(move |done: u64, total: Option<u64>, unit: &str| {
        assert_eq!((total, unit), (Some(40), "bytes"));
        seen.store(done, Ordering::Relaxed);
    })));
    let options = ImportOptions { all_text: true, header: Some(true), ..Default::default() };
    place.import("f.csv", "t", options).unwrap();
    place.con.set_progress(None);
    assert_eq!(last.load(Ordering::Relaxed), bytes);
    let count =
        place.con.execute("SELECT count(*) FROM t WHERE a = ?", &[Value::from("1")]).unwrap();
    assert_eq!(count.collect().unwrap()[0].num_rows(), 1);
}

#[test]
fn intervals_come_back() {
    let place = Place::new();
    place.run(
        "CREATE TABLE t AS \
         SELECT to_months(n) + to_days(n * 3 - 50) + to_minutes(n * 77 - 900) AS i, n \
         FROM generate_series(-40, 40) AS r(n)",
    );
    place.run("INSERT INTO t VALUES (NULL, 99), (INTERVAL '-0.000001 seconds', 100)");
    place.run("CREATE TABLE u (i INTERVAL, n BIGINT)");
    place.run_in("COPY t TO '{}/t.csv'").unwrap();
    place.run_in("COPY u FROM '{}/t.csv'").unwrap();
    let same = "SELECT count(*) FROM t JOIN u USING (n) WHERE t.i IS NOT DISTINCT FROM u.i";
    assert_eq!(place.value(same), "83");
    let text = std::fs::read_to_string(place.path("t.csv")).unwrap();
    assert!(text.contains("-3 years -4 months -170 days -66:20:00,-40\n"), "{text}");
    assert!(text.ends_with("\n,99\n-00:00:00.000001,100\n"), "{text}");
}

/// A cast to text, and DuckDB, write lists, structs and maps so.
#[test]
fn nested_values_may_be_written_as_casts_write_them() {
    let place = Place::new();
    place
        .run("CREATE TABLE t (l VARCHAR[], s STRUCT(a INT, \"B c\" VARCHAR), m MAP(VARCHAR, INT))");
    place.file(
        "t.csv",
        "l,s,m\n\"[a, NULL, 'x, y']\",\"{'a': 1, 'B c': two words}\",\"{k=1, l=NULL}\"\n\
         \"[\"\"a\"\", null]\",\"{\"\"a\"\": 2, \"\"B c\"\": null}\",\"{\"\"k\"\": 3}\"\n,,\n",
    );
    place.run_in("COPY t FROM '{}/t.csv'").unwrap();
    let rows = place.rows("SELECT l::VARCHAR, s::VARCHAR, m::VARCHAR FROM t");
    assert_eq!(
        rows,
        [
            ["[a, NULL, 'x, y']", "{'a': 1, 'B c': two words}", "{k=1, l=NULL}"],
            ["[a, NULL]", "{'a': 2, 'B c': NULL}", "{k=3}"],
            ["NULL", "NULL", "NULL"],
        ]
    );
    for wrong in ["\"[1, x\"", "\"{'a': x}\"", "text"] {
        place.file("w.csv", format!("l,s,m\n,{wrong},\n"));
        let error = place.run_in("COPY t FROM '{}/w.csv'").unwrap_err();
        assert_eq!(import_error(error).1, Some(2), "{wrong}");
    }
}
