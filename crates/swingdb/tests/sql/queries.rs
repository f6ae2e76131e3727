//! Results against literals.

use super::common::{analyzed, fixture, planned};
use swingdb::Error;

#[test]
fn joins_windows_and_common_table_expressions() {
    let f = fixture();
    f.run("CREATE TABLE city (id INT, name VARCHAR, country INT)");
    f.run(
        "INSERT INTO city VALUES (1, 'Oslo', 1), (2, 'Bergen', 1), (3, 'Lund', 2), (4, \
        'Nuuk', NULL)",
    );
    f.run("CREATE TABLE country (id INT, name VARCHAR)");
    f.run("INSERT INTO country VALUES (1, 'Norway'), (2, 'Sweden'), (3, 'Chad')");
    let joined = f.rows(
        "SELECT c.name, k.name FROM city c LEFT JOIN country k ON c.country = k.id ORDER BY c.id",
    );
    assert_eq!(joined, ["Oslo|Norway", "Bergen|Norway", "Lund|Sweden", "Nuuk|-"]);
    let ranked = f.rows(
        "SELECT name, row_number() OVER (PARTITION BY country ORDER BY name DESC) FROM city \
         WHERE country = 1 ORDER BY name",
    );
    assert_eq!(ranked, ["Bergen|2", "Oslo|1"]);
    let recursive = f.rows(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) \
         SELECT sum(i), count(*) FROM n",
    );
    assert_eq!(recursive, ["15|5"]);
    let missing = f.rows(
        "SELECT name FROM country k WHERE NOT EXISTS \
         (SELECT 1 FROM city WHERE city.country = k.id)",
    );
    assert_eq!(missing, ["Chad"]);
}

#[test]
fn counts_and_bounds_need_no_scan() {
    let f = fixture();
    f.run("CREATE TABLE n AS SELECT value AS v FROM generate_series(1, 300000) AS value");
    let plan = analyzed(&f, "SELECT count(*), min(v), max(v) FROM n");
    assert!(!plan.contains("DataSourceExec: table"), "{plan}");
    assert_eq!(f.value("SELECT count(*), min(v), max(v) FROM n"), "300000|1|300000");
    f.run("DELETE FROM n WHERE v > 299990 OR v = 1");
    assert_eq!(f.value("SELECT count(*), min(v), max(v) FROM n"), "299989|2|299990");
}

#[test]
fn numbers_with_a_point_are_exact() {
    let f = fixture();
    assert_eq!(f.value("SELECT 0.1 + 0.2 = 0.3"), "true");
    f.run("CREATE TABLE d (x DECIMAL(15, 2))");
    f.run("INSERT INTO d VALUES (0.05), (0.06), (0.07)");
    assert_eq!(f.value("SELECT count(*) FROM d WHERE x BETWEEN 0.06 - 0.01 AND 0.06 + 0.01"), "3");
}

#[test]
fn from_first_exclude_and_equal_names() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT 1 AS a, 2 AS b, 3 AS c");
    assert_eq!(f.rows("FROM t"), ["1|2|3"]);
    assert_eq!(f.rows("SELECT * EXCLUDE (b) FROM t"), ["1|3"]);
    assert_eq!(f.rows("SELECT a, a, 1, 1 FROM t"), ["1|1|1|1"]);
    let schema = f.run("SELECT a, a, a + 1, count(*) OVER () FROM t").schema();
    let names = schema.fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>();
    assert_eq!(names, ["a", "a_1", "a + 1", "count(*) OVER ()"]);
}

#[test]
fn several_statements_give_the_last_result() {
    let f = fixture();
    assert_eq!(
        f.rows("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2); SELECT sum(a) FROM t;"),
        ["3"]
    );
    let nothing = f.run("  ; -- nothing here\n ");
    assert!(!nothing.has_rows());
    // A typing error anywhere runs nothing.
    assert!(matches!(f.error("INSERT INTO t VALUES (3); SELEC 1"), Error::Parse { .. }));
    assert_eq!(f.value("SELECT count(*) FROM t"), "2");
}

#[test]
fn errors_say_what_is_wrong() {
    let f = fixture();
    f.run("CREATE TABLE trips (id INT, distance DOUBLE)");
    let error = f.error("SELECT * FROM tripz");
    assert!(
        matches!(&error, Error::NotFound { suggestion: Some(s), .. } if s == "trips"),
        "{error}"
    );
    let error = f.error("SELECT distanse FROM trips");
    assert!(
        matches!(&error, Error::NotFound { suggestion: Some(s), .. } if s == "distance"),
        "{error}"
    );
    let error = f.error("SELECT\n 1 +");
    assert!(matches!(&error, Error::Parse { .. }), "{error:?}");
    let error = f.error("SELECT CAST('seven' AS INT)");
    assert!(matches!(&error, Error::Conversion { .. }), "{error:?}");
    let error = f.error("SELECT nofunction(1)");
    assert!(matches!(&error, Error::NotFound { .. } | Error::Plan { .. }), "{error:?}");
}

#[test]
fn what_does_not_fit_is_an_error_and_not_a_wrong_number() {
    let f = fixture();
    f.run("CREATE TABLE big AS SELECT 9223372036854775807 AS n");
    assert!(matches!(f.error("SELECT CAST(n AS INT) FROM big"), Error::Conversion { .. }));
    assert!(matches!(f.error("SELECT 1 / (n - n) FROM big"), Error::Execution { .. }));
}

#[test]
fn a_memory_limit_is_an_error_of_its_own() {
    let f = fixture();
    f.run("CREATE TABLE n AS SELECT value AS v FROM generate_series(1, 400000) AS value");
    f.run("SET memory_limit = '1MB'");
    let error = f.error("SELECT a.v FROM n a JOIN n b ON a.v = b.v + 1 ORDER BY a.v");
    assert!(matches!(error, Error::OutOfMemory { .. }), "{error:?}");
    f.run("RESET memory_limit");
    assert_eq!(f.value("SELECT count(*) FROM n a JOIN n b ON a.v = b.v + 1"), "399999");
}

#[test]
fn views_see_the_tables_as_they_are_now() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT 1 AS Aa");
    f.run("CREATE VIEW doubled AS SELECT aa * 2 AS twice FROM t");
    f.run("INSERT INTO t VALUES (21)");
    assert_eq!(f.rows("SELECT TWICE FROM doubled ORDER BY 1"), ["2", "42"]);
    f.run("DROP TABLE t");
    assert!(matches!(f.error("SELECT * FROM doubled"), Error::NotFound { .. }));
}

#[test]
fn a_join_of_many_tables_is_reordered_and_right() {
    let f = fixture();
    f.run(
        "CREATE TABLE big AS SELECT i AS id, i % 1000 AS mid FROM generate_series(1, 50000) AS i",
    );
    f.run("CREATE TABLE mid AS SELECT i AS id, i % 10 AS small FROM generate_series(0, 999) AS i");
    f.run("CREATE TABLE small AS SELECT i AS id, 'n' || i AS name FROM generate_series(0, 9) AS i");
    let sql = "SELECT name, count(*) FROM big, mid, small \
         WHERE big.mid = mid.id AND mid.small = small.id AND name = 'n3' GROUP BY name";
    assert_eq!(f.rows(sql), ["n3|5000"]);
    // Without a condition between two of them.
    let cross = "SELECT count(*) FROM small a, small b, mid WHERE mid.small = a.id AND mid.id < 20";
    assert_eq!(f.rows(cross), ["200"]);
    // The columns stay in the order of the text.
    let all = f.rows(
        "SELECT * FROM big, mid, small WHERE big.mid = mid.id AND mid.small = \
        small.id AND big.id = 1234",
    );
    assert_eq!(all, ["1234|234|234|4|4|n4"]);
}

#[test]
fn joins_on_computed_keys_know_how_few_there_are() {
    let f = fixture();
    f.run(
        "CREATE TABLE cells AS SELECT value AS id, (value / 6) * 0.5 AS south, \
         (value % 6) * 0.5 AS west FROM generate_series(0, 23) AS value",
    );
    f.run(
        "CREATE TABLE weather AS SELECT c.id, h.h AS hour, c.id * 100 + h.h AS rain \
         FROM cells c, generate_series(0, 335) h",
    );
    f.run(
        "CREATE TABLE reports AS SELECT value AS n, value % 336 AS hour, \
         (value * 7919 % 10007) / 10007e0 * 3 AS x, (value * 104729 % 10009) / 10009e0 * 2 AS y \
         FROM generate_series(1, 200000) AS value",
    );
    let sql = "SELECT count(*), sum(rain), sum(n) FROM reports r \
               JOIN cells c ON CAST(floor(r.x / 0.5) AS INT) = CAST(round(c.west / 0.5) AS INT) \
                           AND CAST(floor(r.y / 0.5) AS INT) = CAST(round(c.south / 0.5) AS INT) \
               JOIN weather w ON w.id = c.id AND w.hour = r.hour";
    // The many rows are only ever looked up, never put into a hash table.
    let plan = planned(&f, sql);
    let places = ["main.cells", "main.weather", "main.reports"].map(|table| plan.find(table));
    assert!(places[2] > places[0] && places[2] > places[1] && places[0].is_some(), "{plan}");
    let (mut rain, mut sum) = (0i64, 0i64);
    for n in 1..=200_000i64 {
        let x = (n * 7919 % 10007) as f64 / 10007.0 * 3.0;
        let y = (n * 104_729 % 10009) as f64 / 10009.0 * 2.0;
        let cell = (y / 0.5).floor() as i64 * 6 + (x / 0.5).floor() as i64;
        rain += cell * 100 + n % 336;
        sum += n;
    }
    assert_eq!(f.value(sql), format!("200000|{rain}|{sum}"));
}
