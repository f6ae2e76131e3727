//! INSERT, conversions, defaults, ON CONFLICT.

use swingdb::{ConstraintKind, Error, Value};

use crate::support::Db;

#[test]
fn values_and_column_lists() {
    let db = Db::with("CREATE TABLE t (a INT, b VARCHAR DEFAULT 'none', c DOUBLE)");
    assert_eq!(db.run("INSERT INTO t VALUES (1, 'x', 1.5), (2, NULL, -2)"), 2);
    assert_eq!(db.run("INSERT INTO t (c, a) VALUES (0.1, 3)"), 1);
    assert_eq!(db.run("INSERT INTO t VALUES (4, DEFAULT, DEFAULT), (2 + 3, upper('y'), 1e3)"), 2);
    assert_eq!(db.run("INSERT INTO t DEFAULT VALUES"), 1);
    db.check(
        "SELECT * FROM t ORDER BY a NULLS LAST",
        &["1|x|1.5", "2|NULL|-2.0", "3|none|0.1", "4|none|NULL", "5|Y|1000.0", "NULL|none|NULL"],
    );
}

#[test]
fn from_queries() {
    let db = Db::with("CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 2), (3, 4)");
    assert_eq!(db.run("INSERT INTO t SELECT b, a FROM t"), 2);
    assert_eq!(db.run("INSERT INTO t (b) SELECT a FROM t WHERE a > 2"), 2);
    assert_eq!(db.run("WITH x AS (SELECT 9 AS n) INSERT INTO t SELECT n, n FROM x"), 1);
    assert_eq!(db.run("INSERT INTO t VALUES (7, 8), (5, 6) ORDER BY 1 LIMIT 1"), 1);
    db.check(
        "SELECT * FROM t ORDER BY a NULLS LAST, b",
        &["1|2", "2|1", "3|4", "4|3", "5|6", "9|9", "NULL|3", "NULL|4"],
    );
}

#[test]
fn a_table_inserted_into_itself_doubles() {
    let db = Db::with("CREATE TABLE t AS SELECT range AS a FROM range(100000)");
    for rows in [100_000, 200_000, 400_000] {
        assert_eq!(db.run("INSERT INTO t SELECT * FROM t"), rows);
    }
    db.check("SELECT count(*), sum(a) FROM t", &["800000|39999600000"]);
}

#[test]
fn by_name() {
    let db = Db::with("CREATE TABLE t (a INT, b VARCHAR, c INT DEFAULT 7)");
    assert_eq!(db.run("INSERT INTO t BY NAME SELECT 'x' AS b, 1 AS A"), 1);
    db.check("SELECT * FROM t", &["1|x|7"]);
    db.fails("INSERT INTO t BY NAME SELECT 1 AS nosuch", &["column \"nosuch\" does not exist"]);
}

#[test]
fn every_type_takes_its_text() {
    let db = Db::with(
        "CREATE TABLE t (b BOOLEAN, i1 TINYINT, i2 SMALLINT, i4 INTEGER, i8 BIGINT, u1 UTINYINT,
            u8 UBIGINT, f4 REAL, f8 DOUBLE, d DECIMAL(20, 4), s VARCHAR, x BLOB, day DATE,
            at TIME, ts TIMESTAMP, tz TIMESTAMPTZ, iv INTERVAL)",
    );
    db.run(
        "INSERT INTO t VALUES (TRUE, -128, 32767, -2147483648, 9223372036854775807, 255,
            18446744073709551615, 1.5, 0.1, 1234567890123456.7891, 'text', X'00ff', '2024-02-29',
            '12:34:56', '2024-02-29 12:34:56.789', '2024-02-29T12:34:56+01:00', '1 day')",
    );
    db.check(
        "SELECT b, i1, i2, i4, i8, u1, u8, f4, f8, d, s, encode(x, 'hex'), day FROM t",
        &["true|-128|32767|-2147483648|9223372036854775807|255|18446744073709551615|1.5|0.1|\
           1234567890123456.7891|text|00ff|2024-02-29"],
    );
    db.check(
        "SELECT at, ts, tz, iv FROM t",
        &["12:34:56|2024-02-29T12:34:56.789|2024-02-29T11:34:56Z|1 days"],
    );
    db.run("INSERT INTO t (s) VALUES (NULL)");
    db.check("SELECT count(*), count(b), count(iv) FROM t", &["2|1|1"]);
}

#[test]
fn what_does_not_fit_is_an_error_that_names_it() {
    let db = Db::with("CREATE TABLE t (a TINYINT, d DATE, n DECIMAL(4, 1), u UTINYINT, b BOOLEAN)");
    db.fails("INSERT INTO t (a) VALUES (1), (128)", &["column \"a\"", "row 2", "128", "TINYINT"]);
    db.fails("INSERT INTO t (a) VALUES ('abc')", &["column \"a\"", "'abc'"]);
    db.fails("INSERT INTO t (d) VALUES ('2024-02-30')", &["column \"d\"", "2024-02-30"]);
    db.fails("INSERT INTO t (d) VALUES (5)", &["column \"d\"", "cannot be stored as DATE"]);
    db.fails("INSERT INTO t (n) VALUES (12345.6)", &["column \"n\"", "12345.6"]);
    db.fails("INSERT INTO t (u) VALUES (-1)", &["column \"u\"", "-1"]);
    db.fails("INSERT INTO t (b) VALUES ('maybe')", &["column \"b\"", "maybe"]);
    db.fails("INSERT INTO t (a) SELECT range FROM range(300)", &["column \"a\"", "128"]);
    assert!(matches!(db.error("INSERT INTO t (a) VALUES (1000)"), Error::Conversion { .. }));
    db.check("SELECT count(*) FROM t", &["0"]);
}

#[test]
fn fractions_are_rounded_and_decimals_exact() {
    let db = Db::with("CREATE TABLE t (i INT, d DECIMAL(38, 10), s DECIMAL(3, 1))");
    db.run("INSERT INTO t VALUES (2.5, 1234567890123456789012345678.0123456789, 1.25)");
    db.run("INSERT INTO t SELECT CAST(3.5 AS DOUBLE), 0.1, 9.99");
    db.check(
        "SELECT * FROM t ORDER BY i",
        &["3|1234567890123456789012345678.0123456789|1.3", "4|0.1000000000|10.0"],
    );
}

#[test]
fn nested_values() {
    let db = Db::with("CREATE TABLE t (l INT[], s STRUCT(a INT, b VARCHAR), m MAP(VARCHAR, INT))");
    db.run("INSERT INTO t SELECT [1, 2, NULL], named_struct('a', 1, 'b', 'x'), MAP {'k': 7}");
    db.run("INSERT INTO t (l) VALUES ([3]), (NULL)");
    db.check(
        "SELECT l[1], s['a'], s['b'] FROM t ORDER BY 1 NULLS LAST",
        &["1|1|x", "3|NULL|NULL", "NULL|NULL|NULL"],
    );
    db.check("SELECT map_extract(m, 'k')[1] FROM t WHERE m IS NOT NULL", &["7"]);
}

#[test]
fn parameters_go_straight_in() {
    let db = Db::with("CREATE TABLE t (a INT, b VARCHAR, c DOUBLE)");
    for n in 0..50 {
        let params = [Value::from(n), Value::from(format!("row {n}")), Value::Null];
        assert_eq!(db.execute("INSERT INTO t VALUES (?, ?, ?)", &params), 1);
    }
    let swapped = [Value::from("second"), Value::from(100)];
    db.execute("INSERT INTO t (b, a) VALUES ($1, $2)", &swapped);
    db.check("SELECT count(*), sum(a), min(b) FROM t", &["51|1325|row 0"]);
    let error = db.con.execute("INSERT INTO t (a) VALUES (?)", &["x".into()]).unwrap_err();
    assert!(matches!(error, Error::Conversion { .. }), "{error:?}");
}

#[test]
fn defaults_once_and_for_each_row() {
    let db = Db::with(
        "CREATE TABLE t (a INT, at TIMESTAMP DEFAULT now(), r DOUBLE DEFAULT random(),
            n INT DEFAULT 1 + 2, day DATE DEFAULT '2024-05-06')",
    );
    db.run("INSERT INTO t (a) SELECT range FROM range(1000)");
    db.check(
        "SELECT count(DISTINCT at), count(DISTINCT r) > 990, min(n), max(day) FROM t",
        &["1|true|3|2024-05-06"],
    );
}

#[test]
fn constraints_hold_within_and_across_statements() {
    let db =
        Db::with("CREATE TABLE t (a INT, b VARCHAR NOT NULL, c INT UNIQUE, PRIMARY KEY (a, b))");
    db.run("INSERT INTO t VALUES (1, 'x', 10), (1, 'y', NULL), (2, 'x', NULL)");
    let error = db.error("INSERT INTO t VALUES (3, 'z', 11), (1, 'y', 12)");
    match &error {
        Error::Constraint { table, kind, columns, .. } => {
            assert_eq!((table.as_str(), *kind), ("t", ConstraintKind::PrimaryKey));
            assert_eq!(columns, &["a", "b"]);
        }
        other => panic!("{other:?}"),
    }
    db.fails("INSERT INTO t VALUES (5, 'a', 1), (5, 'a', 2)", &["PRIMARY KEY", "5"]);
    db.fails("INSERT INTO t VALUES (6, 'a', 10)", &["UNIQUE", "10"]);
    db.fails("INSERT INTO t VALUES (6, NULL, 10)", &["NOT NULL", "b"]);
    db.fails("INSERT INTO t (b) VALUES ('no a')", &["NOT NULL", "a"]);
    db.check("SELECT count(*) FROM t", &["3"]);
}

#[test]
fn on_conflict_do_nothing() {
    let db =
        Db::with("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR); INSERT INTO t VALUES (1, 'a')");
    let sql = "INSERT INTO t VALUES (1, 'b'), (2, 'c'), (2, 'd'), (3, 'e') ON CONFLICT DO NOTHING";
    assert_eq!(db.run(sql), 2);
    assert_eq!(db.run("INSERT OR IGNORE INTO t VALUES (1, 'z'), (4, 'f')"), 1);
    assert_eq!(db.run("INSERT INTO t VALUES (4, 'z') ON CONFLICT (id) DO NOTHING"), 0);
    db.check("SELECT * FROM t ORDER BY id", &["1|a", "2|c", "3|e", "4|f"]);
}

#[test]
fn on_conflict_do_update() {
    let db = Db::with(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT, note VARCHAR);
         INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b')",
    );
    let sql = "INSERT INTO t VALUES (1, 5, 'x'), (3, 30, 'c')
        ON CONFLICT (id) DO UPDATE SET v = v + excluded.v, note = t.note || excluded.note";
    assert_eq!(db.run(sql), 2);
    let sql = "INSERT INTO t AS old VALUES (1, 0, 'no'), (2, 100, 'yes')
        ON CONFLICT (id) DO UPDATE SET v = excluded.v WHERE excluded.v > old.v";
    assert_eq!(db.run(sql), 1);
    db.check("SELECT * FROM t ORDER BY id", &["1|15|ax", "2|100|b", "3|30|c"]);
    assert_eq!(db.run("INSERT OR REPLACE INTO t (id, v) VALUES (1, 1), (4, 4)"), 2);
    db.check("SELECT * FROM t WHERE id IN (1, 4) ORDER BY id", &["1|1|ax", "4|4|NULL"]);
    db.fails(
        "INSERT INTO t VALUES (1, 1, ''), (1, 2, '') ON CONFLICT (id) DO UPDATE SET v = 0",
        &["key (1) twice"],
    );
    db.fails(
        "INSERT INTO t VALUES (8, 1, ''), (8, 2, '') ON CONFLICT (id) DO UPDATE SET v = 0",
        &["key (8) twice"],
    );
    db.fails(
        "INSERT INTO t VALUES (1, 1, '') ON CONFLICT (v) DO UPDATE SET v = 0",
        &["no PRIMARY KEY or UNIQUE constraint on (v)"],
    );
}

#[test]
fn a_null_key_conflicts_with_nothing() {
    let db = Db::with("CREATE TABLE t (k INT UNIQUE, v INT); INSERT INTO t VALUES (NULL, 1)");
    assert_eq!(db.run("INSERT INTO t VALUES (NULL, 2), (NULL, 3) ON CONFLICT DO NOTHING"), 2);
    db.check("SELECT count(*) FROM t", &["3"]);
}

#[test]
fn only_the_named_key_is_handled() {
    let db =
        Db::with("CREATE TABLE t (a INT PRIMARY KEY, b INT UNIQUE); INSERT INTO t VALUES (1, 1)");
    db.fails("INSERT INTO t VALUES (2, 1) ON CONFLICT (a) DO NOTHING", &["UNIQUE"]);
    assert_eq!(db.run("INSERT INTO t VALUES (2, 1), (3, 3) ON CONFLICT (b) DO NOTHING"), 1);
    db.fails("INSERT INTO t VALUES (1, 9) ON CONFLICT DO UPDATE SET b = 0", &["name the columns"]);
}

#[test]
fn returning() {
    let db = Db::with("CREATE TABLE t (id INT PRIMARY KEY, v INT DEFAULT 5)");
    assert_eq!(db.rows("INSERT INTO t (id) VALUES (1), (2) RETURNING *"), ["1|5", "2|5"]);
    let upsert = "INSERT INTO t VALUES (2, 6), (3, 7) ON CONFLICT (id) DO UPDATE SET v = excluded.v
        RETURNING id, v * 10 AS tenfold";
    let mut returned = db.rows(upsert);
    returned.sort();
    assert_eq!(returned, ["2|60", "3|70"]);
    let none = "INSERT INTO t VALUES (1, 9) ON CONFLICT DO NOTHING RETURNING id";
    assert_eq!(db.rows(none), [""; 0]);
}

#[test]
fn mistakes_are_named() {
    let db = Db::with("CREATE TABLE t (alpha INT, beta INT); CREATE VIEW v AS SELECT * FROM t");
    db.fails("INSERT INTO t VALUES (1)", &["2 columns", "1 value"]);
    db.fails("INSERT INTO t (alpha) VALUES (1, 2)", &["1 column", "2 values"]);
    db.fails("INSERT INTO t VALUES (1, 2), (3)", &["row 2"]);
    db.fails("INSERT INTO t SELECT 1, 2, 3", &["2 columns", "3 values"]);
    db.fails("INSERT INTO t (alpha, Alpha) VALUES (1, 2)", &["\"alpha\" is given twice"]);
    db.fails("INSERT INTO t (gamma) VALUES (1)", &["column \"gamma\" does not exist"]);
    db.fails("INSERT INTO t (alpa) VALUES (1)", &["did you mean \"alpha\""]);
    db.fails("INSERT INTO v VALUES (1, 2)", &["\"v\" is a view"]);
    db.fails("INSERT INTO nosuch VALUES (1)", &["table \"nosuch\" does not exist"]);
    db.fails("INSERT INTO information_schema.tables VALUES (1)", &["information_schema"]);
}

#[test]
fn fractions_inside_of_values_are_rounded_too() {
    let db = Db::with("CREATE TABLE t (l INT[], s STRUCT(a INT, b VARCHAR), n INT[][])");
    db.run("INSERT INTO t VALUES ([1.5, NULL, -2.5], {'a': 0.7, 'b': 'x'}, [[1.5], NULL])");
    db.check("SELECT l[1], l[2], l[3], s['a'], n[1][1] FROM t", &["2|NULL|-3|1|2"]);
    db.run("UPDATE t SET l = [CAST(2.5 AS DOUBLE)], s = named_struct('b', 'y', 'a', 1.5)");
    db.check("SELECT l[1], s['a'], s['b'] FROM t", &["2|2|y"]);
}

#[test]
fn bytes_and_lists_are_not_made_of_numbers_and_dates() {
    let db = Db::with("CREATE TABLE t (b BLOB, l INT[], bs BLOB[], d DATE[], s STRUCT(a BLOB))");
    for (column, value, message) in [
        ("b", "1", "BIGINT cannot be stored as BLOB"),
        ("b", "1.5", "cannot be stored as BLOB"),
        ("l", "DATE '2024-01-01'", "DATE cannot be stored as"),
        ("l", "3", "cannot be stored as"),
        ("l", "[DATE '2024-01-01']", "cannot be stored as"),
        ("bs", "[1]", "cannot be stored as"),
        ("d", "[3]", "cannot be stored as"),
        ("s", "{'a': 1}", "cannot be stored as"),
    ] {
        for values in [format!("VALUES ({value})"), format!("SELECT {value}")] {
            let sql = format!("INSERT INTO t ({column}) {values}");
            db.fails(&sql, &[&format!("column \"{column}\": "), message]);
        }
    }
    db.run("INSERT INTO t VALUES ('ab', [1.5], ['x', NULL], ['2024-01-01'], {'a': 'y'})");
    db.check("SELECT l, d FROM t", &["[2]|[2024-01-01]"]);
}

#[test]
fn or_replace_changes_what_is_given() {
    let db = Db::with(
        "CREATE TABLE r (id INT PRIMARY KEY, a INT, b INT DEFAULT 4);
         INSERT INTO r VALUES (1, 2, 3)",
    );
    assert_eq!(db.run("INSERT OR REPLACE INTO r (id, a) VALUES (1, 20)"), 1);
    db.check("SELECT * FROM r", &["1|20|3"]);
    db.run("INSERT OR REPLACE INTO r BY NAME SELECT 1 AS id, 9 AS b");
    db.check("SELECT * FROM r", &["1|20|9"]);
    db.run("INSERT OR REPLACE INTO r (id) VALUES (1)");
    db.check("SELECT * FROM r", &["1|20|9"]);
    db.run("INSERT OR REPLACE INTO r (id, b) VALUES (1, DEFAULT)");
    db.check("SELECT * FROM r", &["1|20|4"]);
    db.run("INSERT OR REPLACE INTO r SELECT 1, 5, 6 UNION ALL SELECT 2, 7, 8");
    db.check("SELECT * FROM r ORDER BY id", &["1|5|6", "2|7|8"]);
    db.run("INSERT OR REPLACE INTO r (id, a) VALUES (3, 8)");
    db.check("SELECT * FROM r WHERE id = 3", &["3|8|4"]);
}
