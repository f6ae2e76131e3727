//! `?`, `$1` and `$name`.

use super::common::{fixture, rows};
use swingdb::{Error, Value};

#[test]
fn by_position_by_number_and_by_name() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT value AS n FROM generate_series(1, 100) AS value");
    let run = |sql: &str, values: &[Value]| rows(f.con.execute(sql, values).unwrap()).unwrap();
    assert_eq!(
        run("SELECT count(*) FROM t WHERE n > ? AND n <= ?", &[10.into(), 20.into()]),
        ["10"]
    );
    assert_eq!(run("SELECT $2 || $1 || $2", &["a".into(), "b".into()]), ["bab"]);
    let named = [("low", Value::from(98)), ("text", Value::from("x"))];
    let result = f.con.execute_named("SELECT n, $text FROM t WHERE n >= $low AND n > $low", &named);
    assert_eq!(rows(result.unwrap()).unwrap(), ["99|x", "100|x"]);
}

#[test]
fn every_type_keeps_its_value() {
    let f = fixture();
    let values = [
        (Value::Null, "-"),
        (Value::Bool(true), "true"),
        (Value::Int64(-5), "-5"),
        (Value::UInt64(u64::MAX), "18446744073709551615"),
        (Value::Float64(0.5), "0.5"),
        (Value::from("it's ?"), "it's ?"),
        (Value::Blob(vec![0, 255]), "00ff"),
        (Value::Date32(19_000), "2022-01-08"),
        (Value::Time64(3_600_000_000), "01:00:00"),
        (Value::Timestamp(0, None), "1970-01-01T00:00:00"),
        (Value::Decimal { unscaled: 12345, precision: 10, scale: 2 }, "123.45"),
    ];
    for (value, text) in values {
        let result = f.con.execute("SELECT ?", std::slice::from_ref(&value)).unwrap();
        assert_eq!(rows(result).unwrap(), [text], "{value:?}");
    }
}

#[test]
fn in_limit_case_and_subqueries() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT value AS n FROM generate_series(1, 10) AS value");
    let sql = "SELECT n FROM t WHERE n IN (SELECT n FROM t WHERE n < ?) \
         ORDER BY CASE WHEN n = ? THEN 0 ELSE n END LIMIT ?";
    let result = f.con.execute(sql, &[5.into(), 3.into(), 2.into()]).unwrap();
    assert_eq!(rows(result).unwrap(), ["3", "1"]);
}

#[test]
fn in_the_order_of_the_text() {
    let f = fixture();
    for (sql, values, expected) in [
        ("FROM range(10) OFFSET ? LIMIT ?", &[2, 3][..], "2 3 4"),
        ("FROM range(10) LIMIT ? OFFSET ?", &[2, 3], "3 4"),
        ("FROM (SELECT ? AS c) SELECT ?, c WHERE c > ?", &[10, 5, 7], "5|10"),
        ("SELECT [x + ? FOR x IN [?, 3] IF x > ?]", &[1, 2, 2], "[4]"),
        ("SELECT DISTINCT ON (r % ?) r, ? FROM range(5) t(r) ORDER BY r", &[2, 7], "0|7 1|7"),
        ("SELECT ?; SELECT ?, ?", &[1, 2, 3], "2|3"),
        ("PREPARE p AS FROM range(9) OFFSET ? LIMIT ?; EXECUTE p(?, ?)", &[6, 2], "6 7"),
    ] {
        let values: Vec<Value> = values.iter().map(|value| Value::from(*value)).collect();
        let result = f.con.execute(sql, &values).unwrap_or_else(|e| panic!("{sql}: {e}"));
        assert_eq!(rows(result).unwrap().join(" "), expected, "{sql}");
    }
}

#[test]
fn a_question_mark_in_a_string_is_none() {
    let f = fixture();
    let result = f.con.execute("SELECT '?', \"?\" FROM (SELECT ? AS \"?\")", &[1.into()]).unwrap();
    assert_eq!(rows(result).unwrap(), ["?|1"]);
}

#[test]
fn missing_and_mixed_parameters_are_errors() {
    let f = fixture();
    let fails = |sql: &str, values: &[Value]| {
        f.con.execute(sql, values).and_then(|r| r.collect()).expect_err(sql)
    };
    assert!(matches!(fails("SELECT ?, ?", &[1.into()]), Error::Plan { .. }));
    assert!(matches!(fails("SELECT ?, $name", &[1.into()]), Error::Plan { .. }));
    let error = f.con.execute_named("SELECT $missing", &[("other", Value::from(1))]);
    assert!(error.unwrap_err().to_string().contains("$missing"));
}

#[test]
fn parameters_have_the_types_of_their_places() {
    use swingdb::arrow::datatypes::DataType;

    let f = fixture();
    f.run("CREATE TABLE t (id BIGINT, day DATE, price DECIMAL(8, 2), name VARCHAR)");
    let types = |sql: &str| {
        let fields = f.con.parameter_types(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
        let types = fields.iter().map(|field| field.as_ref().map(|f| f.data_type().clone()));
        types.collect::<Vec<_>>()
    };
    assert_eq!(
        types("SELECT name FROM t WHERE day > $2 AND id = $1 AND price < $3 LIMIT $4"),
        [
            Some(DataType::Int64),
            Some(DataType::Date32),
            Some(DataType::Decimal128(8, 2)),
            Some(DataType::Int64)
        ]
    );
    assert_eq!(types("SELECT $1"), [None]);
    assert_eq!(types("SELECT id FROM t WHERE id IN (?, 7)"), [Some(DataType::Int64)]);
    assert!(types("SELECT 1").is_empty());
    assert!(types("INSERT INTO t VALUES ($1, $2, $3, $4)").is_empty());
    assert!(f.con.parameter_types("SELECT nothing FROM t WHERE id = $1").is_err());
}
