//! Sessions for SQL that is not trusted: no files, locked settings, limits of time and size.

use std::time::{Duration, Instant};

use super::common::{Fixture, fixture, rows};
use swingdb::Error;

fn shown(f: &Fixture, name: &str) -> String {
    f.value(&format!("SHOW {name}")).split('|').nth(1).unwrap_or_default().to_string()
}

#[test]
fn without_external_access_there_are_no_files_and_no_databases() {
    let f = fixture();
    let path = f.home.path().join("x.csv");
    std::fs::write(&path, "a\n1\n").unwrap();
    let path = path.to_str().unwrap();
    f.run(&format!("CREATE VIEW v AS SELECT * FROM '{path}'"));
    assert_eq!(f.value("SELECT a FROM v"), "1");
    f.run("CREATE TABLE t AS SELECT 1 AS a");
    f.run("SET enable_external_access = false");
    for sql in [
        format!("SELECT * FROM '{path}'"),
        format!("SELECT * FROM read_csv('{path}')"),
        format!("SELECT * FROM READ_CSV_AUTO('{path}')"),
        format!("SELECT * FROM parquet_scan('{path}')"),
        format!("SELECT (SELECT count(*) FROM read_json('{path}'))"),
        "SELECT * FROM v".to_string(),
        format!("COPY t FROM '{path}'"),
        format!("COPY t TO '{path}'"),
        format!("COPY (SELECT 1) TO '{path}'"),
        format!("CREATE TABLE y AS SELECT * FROM '{path}'"),
        format!("INSERT INTO t SELECT a FROM '{path}'"),
        format!("CREATE TEMP TABLE y AS SELECT * FROM '{path}'"),
        format!("CREATE VIEW y AS SELECT * FROM '{path}'"),
        format!("CREATE TABLE y (a INT DEFAULT (SELECT max(a) FROM '{path}'))"),
        format!("CREATE EXTERNAL TABLE y STORED AS CSV LOCATION '{path}'"),
        format!("DESCRIBE '{path}'"),
        format!("DESCRIBE SELECT * FROM '{path}'"),
        format!("SUMMARIZE '{path}'"),
        format!("EXPLAIN SELECT * FROM '{path}'"),
        "ATTACH 'other' AS o".to_string(),
        "SHOW SNAPSHOTS".to_string(),
        "SET enable_external_access = true".to_string(),
        "RESET enable_external_access".to_string(),
    ] {
        let error = f.error(&sql);
        let denied = matches!(error, Error::NotAllowed { .. });
        assert!(denied || error.to_string().contains("not allowed"), "{sql}: {error}");
    }
    let check = format!("CREATE TABLE y (a INT CHECK (a IN (SELECT a FROM '{path}')))");
    let error = f.error(&check).to_string();
    assert!(error.contains("not allowed") || error.contains("are not possible"), "{error}");
    f.run("RESET ALL; SET memory_limit = '1GB'");
    assert!(matches!(f.error("SHOW SNAPSHOTS"), Error::NotAllowed { .. }));
    assert_eq!(std::fs::read_to_string(path).unwrap(), "a\n1\n");
    assert_eq!(f.value("SELECT sum(a) FROM t, range(3)"), "3");
    // Another session of the same database has not said so.
    assert_eq!(rows(f.database.connect().query("SELECT a FROM v").unwrap()).unwrap(), ["1"]);
}

#[test]
fn locked_settings_stay() {
    let f = fixture();
    f.run("SET threads = 2, lock_configuration = true");
    for sql in [
        "SET threads = 3",
        "RESET threads",
        "RESET ALL",
        "SET timezone = 'UTC'",
        "SET lock_configuration = false",
        "RESET lock_configuration",
        "SET datafusion.execution.batch_size = 7",
    ] {
        assert!(matches!(f.error(sql), Error::NotAllowed { .. }), "{sql}");
    }
    assert_eq!(shown(&f, "threads"), "2");
    assert_eq!(shown(&f, "lock_configuration"), "true");
}

#[test]
fn statements_end_at_their_timeout() {
    let f = fixture();
    f.run("SET statement_timeout = '200ms'");
    assert_eq!(shown(&f, "statement_timeout"), "200ms");
    let begun = Instant::now();
    let endless = "SELECT count(*) FROM range(100000000) a, range(100000000) b WHERE a.a < b.b";
    let error = f.error(endless);
    assert!(matches!(error, Error::TimedOut { limit_ms: 200 }), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    f.run("CREATE TABLE t (a BIGINT)");
    let change = format!("INSERT INTO t {endless}");
    assert!(matches!(f.error(&change), Error::TimedOut { .. }));
    assert_eq!(f.value("SELECT count(*) FROM t"), "0");
    f.run("SET statement_timeout = 0");
    assert_eq!(f.value("SELECT count(*) FROM range(1000)"), "1000");
}

#[test]
fn results_are_as_large_as_settings_allow() {
    let f = fixture();
    f.run("SET max_result_rows = 10");
    assert_eq!(f.rows("SELECT * FROM range(10)").len(), 10);
    let error = f.error("SELECT * FROM range(11)");
    assert!(matches!(error, Error::LimitReached { setting: "max_result_rows", limit: 10 }));
    // What is changed is no result; what RETURNING gives is.
    f.run("CREATE TABLE t AS SELECT range AS a, 'x' || range AS b FROM range(1000)");
    assert!(matches!(f.error("DELETE FROM t RETURNING a"), Error::LimitReached { .. }));
    assert_eq!(f.value("SELECT sum(a) FROM t"), "499500");
    f.run("RESET max_result_rows; SET max_result_bytes = '1kB'");
    assert_eq!(f.rows("SELECT a FROM t LIMIT 100").len(), 100);
    assert!(matches!(f.error("SELECT a FROM t"), Error::LimitReached { .. }));
    assert!(matches!(f.error("SELECT repeat('x', 2000)"), Error::LimitReached { .. }));
    f.run("SET max_result_bytes = DEFAULT");
    assert_eq!(f.rows("SELECT a FROM t").len(), 1000);
}

#[test]
fn several_settings_are_set_together_or_not_at_all() {
    let f = fixture();
    f.run("SET threads = 2");
    f.refuses(&[
        ("SET threads = 3, nothing = 1", "does not exist"),
        ("SET threads = 0", "from 1 to"),
        ("SET threads = 'many'", "from 1 to"),
        ("SET datafusion.execution.batch_size = 0", "from 1 to"),
        ("SET statement_timeout = 'soon'", "span of time"),
        ("SET max_result_rows = -1", "number of rows"),
        ("SET enable_external_access = 'maybe'", "neither true nor false"),
    ]);
    assert_eq!(shown(&f, "threads"), "2");
    f.run("SET threads = DEFAULT");
    assert_ne!(shown(&f, "threads"), "0");
}

#[test]
fn options_of_the_engine_that_change_answers_are_fixed() {
    let f = fixture();
    for option in [
        "optimizer.max_passes = 0",
        "optimizer.skip_failed_rules = true",
        "optimizer.filter_null_join_keys = true",
        "optimizer.enable_dynamic_filter_pushdown = true",
        "sql_parser.parse_float_as_decimal = false",
        "sql_parser.dialect = 'MySQL'",
        "sql_parser.default_null_ordering = 'nulls_first'",
        "execution.enable_ansi_mode = true",
        "execution.parquet.binary_as_string = true",
        "catalog.default_schema = 's'",
    ] {
        let error = f.error(&format!("SET datafusion.{option}"));
        assert!(matches!(error, Error::Unsupported { .. }), "{option}: {error}");
    }
    f.run("SET datafusion.optimizer.repartition_joins = false");
    assert_eq!(shown(&f, "datafusion.optimizer.repartition_joins"), "false");
    f.run("RESET datafusion.optimizer.repartition_joins");
    assert_eq!(shown(&f, "datafusion.optimizer.repartition_joins"), "true");
}
