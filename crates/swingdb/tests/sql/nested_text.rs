//! Texts cast to lists, structs and maps, and back.

use super::common::{fixture, seeded};
use swingdb::Error;

#[test]
fn lists() {
    let f = fixture();
    for (text, to, expected) in [
        ("[1, 2,3 ]", "INT[]", "[1, 2, 3]"),
        (" [ ] ", "INT[]", "[]"),
        ("[NULL, 4, null]", "BIGINT[]", "[-, 4, -]"),
        (r#"["one two", 'three', four five ]"#, "VARCHAR[]", "[one two, three, four five]"),
        (r#"["a, b", "NULL", NULL, ""]"#, "VARCHAR[]", "[a, b, NULL, -, ]"),
        (r#"["q\"", \'r, s\t]"#, "VARCHAR[]", r#"[q", 'r, s\t]"#),
        ("[x,,y,]", "VARCHAR[]", "[x, , y, ]"),
        ("[[3], [], NULL, [4, NULL]]", "INT[][]", "[[3], [], -, [4, -]]"),
        ("[[3], x y]", "VARCHAR[]", "[[3], x y]"),
        ("[5, 6]", "INT[2]", "[5, 6]"),
        ("[[5, 6], NULL]", "INT[2][]", "[[5, 6], -]"),
        ("[1.5, 2.25]", "DECIMAL(5, 2)[]", "[1.50, 2.25]"),
        (
            "[2024-01-02 03:04:05, '2024-01-02 03:04']",
            "TIMESTAMP[]",
            "[2024-01-02T03:04:05, 2024-01-02T03:04:00]",
        ),
        (r#"[\\xAA, "a\\x00"]"#, "VARCHAR[]", r"[\\xAA, a\x00]"),
    ] {
        let text = text.replace('\'', "''");
        let sql = format!("SELECT '{text}'::{to}");
        assert_eq!(f.value(&sql), expected, "{sql}");
    }
}

#[test]
fn structs_and_maps() {
    let f = fixture();
    for (text, to, expected) in [
        ("{a: 1, b: two words}", "STRUCT(a INT, b VARCHAR)", "{a: 1, b: two words}"),
        (r#"{"b": "x, }", 'a': NULL}"#, "STRUCT(a INT, b VARCHAR)", "{a: -, b: x, }}"),
        ("{B: 7:30}", "STRUCT(a INT, b VARCHAR)", "{a: -, b: 7:30}"),
        ("(3, x)", "STRUCT(a INT, b VARCHAR)", "{a: 3, b: x}"),
        ("[{a: [1]}, {a: NULL}, NULL]", "STRUCT(a INT[])[]", "[{a: [1]}, {a: -}, -]"),
        ("{1=one, 2='t=w'}", "MAP(INT, VARCHAR)", "{1: one, 2: t=w}"),
        ("{}", "MAP(INT, VARCHAR)", "{}"),
        ("{k=[1, NULL], 'l m'=NULL}", "MAP(VARCHAR, INT[])", "{k: [1, -], l m: -}"),
    ] {
        let text = text.replace('\'', "''");
        let sql = format!("SELECT '{text}'::{to}");
        assert_eq!(f.value(&sql), expected, "{sql}");
    }
}

#[test]
fn what_cannot_be_read_is_named() {
    let f = fixture();
    for (text, to, expected) in [
        ("[1, x]", "INT[]", "'x' is no valid INTEGER"),
        ("[1, 2", "INT[]", "'[1, 2' is no valid INTEGER[]: a list is in [ ]"),
        ("[1] 2]", "INT[]", "'[1] 2]' is no valid INTEGER[]: something behind its last bracket"),
        ("[[1]", "INT[]", "'[[1]' is no valid INTEGER[]: a bracket is not closed"),
        ("[1]", "INT[2]", "'[1]' is no valid INTEGER[2]: another number of elements"),
        ("{a: 1, z: 2}", "STRUCT(a INT)", "has a field that the STRUCT does not have"),
        ("{a: 1, }", "STRUCT(a INT)", "a name without a value"),
        ("(1, 2)", "STRUCT(a INT)", "more values than fields"),
        ("{1=2, 01=3}", "MAP(INT, INT)", "a key is there twice"),
        ("{NULL=3}", "MAP(INT, INT)", "a key is NULL"),
    ] {
        let error = f.error(&format!("SELECT '{text}'::{to}"));
        assert!(matches!(error, Error::Conversion { .. }), "{text}: {error}");
        assert!(error.to_string().contains(expected), "{text}: {error}");
        let whole = text != "[1, x]";
        let found = f.value(&format!("SELECT TRY_CAST('{text}' AS {to})"));
        assert_eq!(found, if whole { "-" } else { "[1, -]" }, "{text}");
    }
}

#[test]
fn texts_in_columns() {
    let f = fixture();
    f.run(
        "CREATE TABLE t AS SELECT range AS id, CASE WHEN range % 10 > 0 THEN \
           '[' || range || ', ' || (range + 1) || ']' END AS s FROM range(20000)",
    );
    let sums = "SELECT count(l), sum(l[2] - l[1]), max(l[1]) FROM (SELECT s::INT[] AS l FROM t)";
    assert_eq!(f.value(sums), "18000|18000|19999");
    f.run("UPDATE t SET s = '[7, x' WHERE id = 15001");
    let tried = "SELECT count(TRY_CAST(s AS INT[])), count(s) FROM t";
    assert_eq!(f.value(tried), "17999|18000");
    assert!(f.error("SELECT count(s::INT[]) FROM t").to_string().contains("'[7, x'"));
    f.run("CREATE TABLE n (l INT[], s STRUCT(a INT, b VARCHAR), m MAP(VARCHAR, INT))");
    f.run("INSERT INTO n VALUES ('[1, NULL]', '{b: x, a: 2}', '{k=1}')");
    f.run("INSERT INTO n SELECT s, NULL, NULL FROM t WHERE id = 3");
    f.run("UPDATE n SET m = '{}', s = '(4, y)' WHERE l[1] = 3");
    assert_eq!(
        f.rows("SELECT * FROM n ORDER BY l"),
        ["[1, -]|{a: 2, b: x}|{k: 1}", "[3, 4]|{a: 4, b: y}|{}"]
    );
    let error = f.error("INSERT INTO n (l) SELECT s FROM t WHERE id = 15001");
    assert!(error.to_string().contains("column \"l\": row 1: '[7, x' is no valid"), "{error}");
}

#[test]
fn structs_by_the_names_of_their_fields() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT {'a': range, 'b': [range]} AS s FROM range(3)");
    for (sql, expected) in [
        ("SELECT {'a': 7, 'b': [8]}::STRUCT(b INT[], A INT)", "{b: [8], A: 7}"),
        ("SELECT {'a': 7, 'b': 8}::STRUCT(B VARCHAR, c INT)", "{B: 8, c: -}"),
        ("SELECT [{'X': 1.5}]::STRUCT(x INT)[]", "[{x: 2}]"),
        ("SELECT row(1, 'x')::STRUCT(n INT, s VARCHAR)", "{n: 1, s: x}"),
        ("SELECT {'a': 1, 'b': 2}::MAP(VARCHAR, INT)", "{a: 1, b: 2}"),
        ("SELECT {'1': 'x', '2': NULL}::MAP(INT, VARCHAR)", "{1: x, 2: -}"),
        ("SELECT sum((s::STRUCT(B INT[], A BIGINT)).A) FROM t", "3"),
        ("SELECT max(map_extract({'a': s.a}::MAP(VARCHAR, INT), 'a')[1]) FROM t", "2"),
    ] {
        assert_eq!(f.value(sql), expected, "{sql}");
    }
    f.run("CREATE TABLE u (s STRUCT(B INT[], A INT))");
    f.run("INSERT INTO u SELECT s FROM t");
    assert_eq!(f.value("SELECT sum(s.A), sum(s.B[1]) FROM u"), "3|3");
}

/// The type and the literal of a random value; `None` at its end is NULL.
struct Kind {
    name: String,
    values: Vec<String>,
}

fn leaf(random: &mut fastrand::Rng) -> Kind {
    const TEXTS: [&str; 16] = [
        "", " ", "a b", "a, b", "it''s", "\"", "\\", "NULL", "null", "[x", "}", "a: b", "a=b",
        "\t", "ü (", "x\ny ",
    ];
    let (name, values): (&str, Vec<String>) = match random.usize(0..8) {
        0 => ("INT", vec!["7".into(), "-12".into()]),
        1 => ("DOUBLE", vec!["1.5".into(), "'NaN'::DOUBLE".into(), "1e300".into()]),
        2 => ("DECIMAL(9, 2)", vec!["1.25".into(), "-0.5".into()]),
        3 => ("BLOB", vec![r"'\x00\xFFa'::BLOB".into(), "'b c'::BLOB".into()]),
        4 => ("TIMESTAMP", vec!["TIMESTAMP '2024-01-02 03:04:05.25'".into()]),
        5 => ("DATE", vec!["DATE '1999-12-31'".into()]),
        _ => ("VARCHAR", TEXTS.iter().map(|text| format!("'{text}'")).collect()),
    };
    Kind { name: name.into(), values }
}

fn nested(random: &mut fastrand::Rng, depth: usize) -> Kind {
    if depth == 0 {
        return leaf(random);
    }
    let of = |random: &mut fastrand::Rng| {
        let depth = random.usize(0..depth);
        nested(random, depth)
    };
    let one = |random: &mut fastrand::Rng, kind: &Kind| match random.usize(0..5) {
        0 => format!("NULL::{}", kind.name),
        _ => format!("{}::{}", kind.values[random.usize(0..kind.values.len())], kind.name),
    };
    match random.usize(0..3) {
        0 => {
            let element = of(random);
            let mut list = || {
                let parts = (0..random.usize(0..4)).map(|_| one(random, &element));
                format!("[{}]", parts.collect::<Vec<_>>().join(", "))
            };
            let values = (0..5).map(|_| list()).collect();
            Kind { name: format!("{}[]", element.name), values }
        }
        1 => {
            let (a, b) = (of(random), of(random));
            let mut pair = || {
                let (x, y) = (one(random, &a), one(random, &b));
                format!("{{'a': {x}, 'b c''d': {y}}}")
            };
            let values = (0..5).map(|_| pair()).collect();
            Kind { name: format!("STRUCT(a {}, \"b c'd\" {})", a.name, b.name), values }
        }
        _ => {
            let value = of(random);
            let mut map = || {
                let (x, y) = (one(random, &value), one(random, &value));
                format!("MAP {{'k=': {x}, '': {y}}}")
            };
            let values = (0..5).map(|_| map()).collect();
            Kind { name: format!("MAP(VARCHAR, {})", value.name), values }
        }
    }
}

#[test]
fn random_values_read_back_from_their_text() {
    let f = fixture();
    let (mut random, _) = seeded();
    for _ in 0..40 {
        let kind = nested(&mut random, 3);
        f.run(&format!("CREATE OR REPLACE TABLE t (v {})", kind.name));
        for value in &kind.values {
            f.run(&format!("INSERT INTO t SELECT {value}"));
        }
        let back = format!("v::VARCHAR::{}", kind.name);
        let lost = format!(
            "SELECT v::VARCHAR, ({back})::VARCHAR FROM t \
             WHERE ({back})::VARCHAR <> v::VARCHAR OR v < {back} OR v > {back} OR {back} IS NULL"
        );
        assert_eq!(f.rows(&lost), [""; 0], "{}", kind.name);
    }
}
