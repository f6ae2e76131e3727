//! SHOW, DESCRIBE, SUMMARIZE, information_schema, EXPLAIN and settings.

use super::common::fixture;
use swingdb::Error;

#[test]
fn describe_names_types_keys_and_defaults() {
    let f = fixture();
    f.run(
        "CREATE TABLE t (id BIGINT PRIMARY KEY, name VARCHAR NOT NULL DEFAULT 'x', \
           price DECIMAL(10, 2), at TIMESTAMP, tags VARCHAR[])",
    );
    let rows = f.rows("DESCRIBE T");
    assert_eq!(rows[0], "id|BIGINT|NO|PRI|-");
    assert!(rows[1].starts_with("name|VARCHAR|NO|-|'x'"), "{}", rows[1]);
    assert_eq!(rows[2], "price|DECIMAL(10,2)|YES|-|-");
    assert_eq!(rows[3], "at|TIMESTAMP|YES|-|-");
    assert_eq!(rows[4], "tags|VARCHAR[]|YES|-|-");
    assert_eq!(f.rows("SHOW COLUMNS FROM t"), rows);
    assert_eq!(f.rows("DESCRIBE SELECT id + 1 AS next FROM t"), ["next|BIGINT|NO|-|-"]);
    assert!(matches!(f.error("DESCRIBE nothing"), Error::NotFound { .. }));
}

#[test]
fn show_tables_views_and_schemas() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT 1 AS a");
    f.run("CREATE VIEW v AS SELECT a FROM t");
    f.run("CREATE SCHEMA s");
    f.run("CREATE TABLE s.u (b INT)");
    let tables = f.rows("SHOW TABLES");
    assert_eq!(tables, ["t|main|swingdb|table|1", "v|main|swingdb|view|-", "u|s|swingdb|table|0"]);
    assert_eq!(f.rows("SHOW SCHEMAS"), ["main", "s"]);
    assert!(f.rows("SHOW FUNCTIONS").iter().any(|row| row == "sum|aggregate"));
    let mut names = f.con.tables().unwrap();
    names.sort();
    assert_eq!(names, ["s.u", "t", "v"]);
    assert_eq!(f.con.columns("S.U").unwrap(), ["b"]);
}

#[test]
fn information_schema() {
    let f = fixture();
    f.run("CREATE TABLE t (a INT NOT NULL, b VARCHAR)");
    f.run("CREATE VIEW v AS SELECT a FROM t");
    let tables = f.rows(
        "SELECT table_schema, table_name, table_type FROM information_schema.tables \
         WHERE table_schema = 'main' ORDER BY table_name",
    );
    assert_eq!(tables, ["main|t|BASE TABLE", "main|v|VIEW"]);
    let columns = f.rows(
        "SELECT column_name, is_nullable FROM information_schema.COLUMNS \
         WHERE table_name = 't' ORDER BY ordinal_position",
    );
    assert_eq!(columns, ["a|NO", "b|YES"]);
    assert!(matches!(f.error("SELECT * FROM information_schema.nothing"), Error::NotFound { .. }));
}

#[test]
fn settings_are_set_shown_and_reset() {
    let f = fixture();
    f.run("SET threads = 3");
    assert_eq!(f.rows("SHOW threads"), ["threads|3"]);
    f.run("SET memory_limit = '2GB'");
    assert_eq!(f.rows("SHOW memory_limit"), ["memory_limit|2000000000"]);
    f.run("RESET threads");
    assert_ne!(f.rows("SHOW threads"), ["threads|3"]);
    f.run("SET datafusion.execution.batch_size = 100");
    assert_eq!(f.value("SELECT count(*) FROM generate_series(1, 1000)"), "1000");
    let error = f.error("SET thread = 1");
    assert!(
        matches!(&error, Error::NotFound { suggestion: Some(s), .. } if s == "threads"),
        "{error}"
    );
    // Another session has its own.
    let other = f.database.connect();
    let rows = super::common::rows(other.query("SHOW memory_limit").unwrap()).unwrap();
    assert_ne!(rows, ["memory_limit|2000000000"]);
}

#[test]
fn explain_shows_plans_and_analyze_figures() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT value AS n FROM generate_series(1, 1000) AS value");
    let plan = f.rows("EXPLAIN SELECT sum(n) FROM t WHERE n > 10").join("\n");
    assert!(
        plan.contains("DataSourceExec: table=main.t, segments=1 of 1, projection=[n]"),
        "{plan}"
    );
    let plan = f.rows("EXPLAIN ANALYZE SELECT sum(n) FROM t WHERE n > 10").join("\n");
    assert!(plan.contains("output_rows=990") && plan.contains("bytes_scanned="), "{plan}");
}

#[test]
fn explaining_a_change_changes_nothing() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT value AS n FROM generate_series(1, 10) AS value");
    f.rows("EXPLAIN DELETE FROM t WHERE n > 3");
    f.rows("EXPLAIN UPDATE t SET n = 0");
    assert_eq!(f.value("SELECT count(*), max(n) FROM t"), "10|10");
}

#[test]
fn summarize_tells_bounds_and_nulls() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT 1 AS a, 'x' AS b UNION ALL SELECT 3, NULL");
    let numbers = "a|BIGINT|1|3|2|2.0|1.4142135623730951|1.0|2.0|3.0|2|0";
    assert_eq!(f.rows("SUMMARIZE t"), [numbers, "b|VARCHAR|x|x|1|-|-|-|-|-|2|1"]);
}

#[test]
fn show_snapshots_lists_the_databases_of_the_namespace() {
    let f = fixture();
    let home = f.home.path();
    let taxi = swingdb::Database::open_in(home, "taxi").unwrap();
    taxi.connect().query("CREATE TABLE t AS SELECT 1 AS a").unwrap();
    taxi.share().unwrap();
    let clean = swingdb::Database::get_snapshot_in(home, "taxi", "clean").unwrap();
    clean.connect().query("INSERT INTO t VALUES (2)").unwrap();
    clean.share().unwrap();
    let rows = super::common::rows(taxi.connect().query("SHOW SNAPSHOTS").unwrap()).unwrap();
    let names = rows.iter().map(|r| r.split('|').take(2).collect::<Vec<_>>().join("|"));
    assert_eq!(names.collect::<Vec<_>>(), ["clean|taxi", "taxi|"]);
    let lineage = swingdb::lineage_in(home).unwrap();
    assert_eq!(lineage[1].children, ["clean"]);
}

#[test]
fn what_is_told_is_a_relation() {
    let f = fixture();
    f.run("CREATE TABLE t (a INT, b VARCHAR NOT NULL); CREATE TABLE \"U u\" (x DOUBLE)");
    f.run("INSERT INTO t VALUES (1, 'x'), (3, 'y'); INSERT INTO \"U u\" VALUES (0.5)");
    for (sql, rows) in [
        ("SELECT column_name FROM (DESCRIBE t) WHERE column_type = 'VARCHAR'", vec!["b"]),
        ("SELECT d.column_name FROM (describe t) AS d ORDER BY 1 DESC", vec!["b", "a"]),
        ("FROM (SHOW TABLES) SELECT name ORDER BY name", vec!["U u", "t"]),
        ("SELECT \"max\" FROM (SUMMARIZE \"U u\")", vec!["0.5"]),
        (
            "SELECT column_name FROM (DESCRIBE SELECT 'it''s' AS \"q\"\"\", (1) AS w)",
            vec!["q\"", "w"],
        ),
        ("SELECT t.a FROM t JOIN (DESCRIBE t) d ON d.column_name = 'a' ORDER BY a", vec!["1", "3"]),
        ("WITH c AS (FROM (DESCRIBE t)) SELECT count(*) FROM c, c AS e", vec!["4"]),
    ] {
        assert_eq!(f.rows(sql), rows, "{sql}");
    }
    assert!(f.error("FROM (DESCRIBE nosuch)").to_string().contains("nosuch"));
    let error = f.error("CREATE VIEW v AS FROM (SHOW TABLES)").to_string();
    assert!(error.contains("(SHOW TABLES) in a view"), "{error}");
    // Brackets around a name are brackets.
    assert_eq!(f.rows("SELECT show FROM (SELECT 1 AS show)"), ["1"]);
}

#[test]
fn lists_are_filtered_by_name() {
    let f = fixture();
    f.run("CREATE SCHEMA s; CREATE TABLE trips (id INT, km INT); CREATE TABLE s.zones (id INT)");
    f.run("CREATE VIEW long_trips AS SELECT * FROM trips WHERE km > 9");
    assert_eq!(f.rows("SHOW TABLES LIKE 'Tr%'"), ["trips|main|swingdb|table|0"]);
    assert_eq!(f.rows("SHOW TABLES FROM s"), ["zones|s|swingdb|table|0"]);
    assert_eq!(f.rows("SHOW TABLES FROM s LIKE 'x%'"), [""; 0]);
    assert_eq!(f.rows("SHOW COLUMNS FROM trips LIKE 'k_'"), ["km|INTEGER|YES|-|-"]);
    assert_eq!(f.rows("SHOW FUNCTIONS LIKE 'sqrt'"), ["sqrt|scalar"]);
    // Names that stand for calls of other functions, and functions that take lambdas.
    assert_eq!(f.rows("SHOW FUNCTIONS LIKE 'monthname'"), ["monthname|scalar"]);
    assert_eq!(f.rows("SHOW FUNCTIONS LIKE 'arg_max'"), ["arg_max|aggregate"]);
    assert_eq!(f.rows("SHOW FUNCTIONS LIKE 'list_transform'"), ["list_transform|scalar"]);
    // Functions of plans.
    assert_eq!(f.rows("SHOW FUNCTIONS LIKE 'only_element'"), [""; 0]);
    assert_eq!(f.rows("SHOW SCHEMAS LIKE 'm%'"), ["main"]);
    assert_eq!(f.rows("SHOW VIEWS FROM s"), [""; 0]);
    assert_eq!(f.rows("SHOW VIEWS LIKE 'long%'").len(), 1);
    assert!(matches!(f.error("SHOW TABLES FROM nosuch"), Error::NotFound { .. }));
    let views = f.rows("SELECT table_name, view_definition FROM information_schema.views");
    assert_eq!(views, ["long_trips|SELECT * FROM trips WHERE km > 9"]);
}
