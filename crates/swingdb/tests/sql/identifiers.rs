//! Names without regard to case.

use super::common::fixture;
use swingdb::Error;

#[test]
fn case_is_kept_and_does_not_matter() {
    let f = fixture();
    f.run("CREATE TABLE Trips (TripId INT, \"km Driven\" DOUBLE)");
    f.run("INSERT INTO TRIPS (tripid, \"km Driven\") VALUES (1, 2.5)");
    assert_eq!(f.rows("SELECT tripid, \"km Driven\" FROM trips"), ["1|2.5"]);
    let schema = f.run("SELECT TRIPID FROM trips T WHERE t.TripID = 1").schema();
    assert_eq!(schema.field(0).name(), "TripId");
    assert_eq!(f.rows("SELECT T.* FROM trips t"), ["1|2.5"]);
    assert!(matches!(f.error("SELECT \"TRIPID\" FROM trips"), Error::NotFound { .. }));
}

#[test]
fn names_that_differ_only_in_case_are_one() {
    let f = fixture();
    let error = f.error("CREATE TABLE t (\"a\" INT, \"A\" INT)");
    assert!(matches!(error, Error::AlreadyExists { .. }), "{error:?}");
}

#[test]
fn aliases_and_common_table_expressions() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT 1 AS x, 10 AS y UNION ALL SELECT 1, 20 UNION ALL SELECT 2, 5");
    assert_eq!(
        f.rows("SELECT X, sum(Y) AS Total FROM T GROUP BY x HAVING sum(y) > 1 ORDER BY TOTAL DESC"),
        ["1|30", "2|5"]
    );
    assert_eq!(
        f.rows(
            "WITH Sums AS (SELECT x, sum(y) AS S FROM t GROUP BY X) SELECT s FROM \
        sums WHERE SUMS.x = 2"
        ),
        ["5"]
    );
    assert_eq!(
        f.rows("SELECT A.x FROM t a JOIN t B USING (X, Y) ORDER BY a.X, b.y"),
        ["1", "1", "2"]
    );
    assert_eq!(f.rows("SELECT * EXCLUDE (Y) FROM t WHERE X = 2"), ["2"]);
}

#[test]
fn fully_qualified_names() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT 7 AS n");
    f.run("CREATE SCHEMA Other");
    f.run("CREATE TABLE other.T2 AS SELECT 8 AS n");
    assert_eq!(f.rows("SELECT n FROM main.t"), ["7"]);
    assert_eq!(f.rows("SELECT n FROM swingdb.MAIN.T"), ["7"]);
    assert_eq!(f.rows("SELECT OTHER.t2.n FROM other.t2"), ["8"]);
    assert_eq!(f.rows("SELECT t.n FROM swingdb.main.t"), ["7"]);
}

#[test]
fn odd_characters() {
    let f = fixture();
    f.run("CREATE TABLE \"my table; \"\"x\"\"\" (\"a b\" INT, \"ünïcode\" INT, \"select\" INT)");
    f.run("INSERT INTO \"my table; \"\"x\"\"\" VALUES (1, 2, 3)");
    assert_eq!(
        f.rows("SELECT \"a b\", ÜNÏCODE, \"select\" FROM \"my table; \"\"x\"\"\""),
        ["1|2|3"]
    );
}

#[test]
fn names_that_differ_only_in_case_belong_to_their_tables() {
    let f = fixture();
    f.run("CREATE TABLE u (\"ID\" INT, x INT); INSERT INTO u VALUES (1, 2)");
    f.run("CREATE TABLE w (\"Id\" INT, y INT); INSERT INTO w VALUES (1, 3)");
    for (sql, expected) in [
        ("SELECT a.id, b.id FROM u a JOIN w b ON a.id = b.id", "1|1"),
        ("SELECT u.ID, main.w.id FROM u, w", "1|1"),
        ("SELECT max(u.id) FROM u WHERE EXISTS (SELECT 1 FROM w WHERE w.id = u.id)", "1"),
        ("SELECT t.id FROM (SELECT x AS id FROM u) AS t, u", "2"),
        ("UPDATE u SET x = 7 FROM w WHERE w.id = u.id RETURNING u.id, x", "1|7"),
    ] {
        assert_eq!(f.value(sql), expected, "{sql}");
    }
}

#[test]
fn tables_of_one_name_in_two_schemas_are_two_tables() {
    let f = fixture();
    f.run("CREATE SCHEMA old");
    f.run("CREATE TABLE t AS SELECT range AS id, range * 10 AS v FROM range(5)");
    f.run("CREATE TABLE old.t AS SELECT range + 2 AS id, range * 7 + 20 AS v FROM range(5)");
    // The same, with names that nothing else has.
    f.run("CREATE VIEW a AS FROM t");
    f.run("CREATE VIEW b AS FROM old.t");
    for (query, same) in [
        (
            "SELECT * FROM t, old.t ORDER BY t.id, old.t.id",
            "SELECT * FROM a, b ORDER BY a.id, b.id",
        ),
        (
            "SELECT t.id, old.t.v FROM t JOIN old.t ON t.id = old.t.id ORDER BY ALL",
            "SELECT a.id, b.v FROM a JOIN b ON a.id = b.id ORDER BY ALL",
        ),
        (
            "SELECT * FROM t JOIN old.t USING (id) ORDER BY old.t.v DESC",
            "SELECT * FROM a JOIN b USING (id) ORDER BY b.v DESC",
        ),
        (
            "SELECT old.t.*, t.v FROM old.t LEFT JOIN t ON t.id = old.t.id ORDER BY old.t.id",
            "SELECT b.*, a.v FROM b LEFT JOIN a ON a.id = b.id ORDER BY b.id",
        ),
        (
            "SELECT count(*) FROM main.t, Old.T WHERE main.t.v < OLD.t.v",
            "SELECT count(*) FROM a, b WHERE a.v < b.v",
        ),
        (
            "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM old.t WHERE old.t.id = main.t.id)
             ORDER BY 1",
            "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.id = a.id) ORDER BY 1",
        ),
        (
            "SELECT t.id, (SELECT max(v) FROM old.t WHERE old.t.id > main.t.id) FROM t, old.t
             WHERE t.id = old.t.id ORDER BY ALL",
            "SELECT a.id, (SELECT max(v) FROM b x WHERE x.id > a.id) FROM a, b
             WHERE a.id = b.id ORDER BY ALL",
        ),
        (
            "SELECT id FROM t JOIN old.t USING (id)
             UNION ALL SELECT old.t.id FROM old.t ORDER BY 1",
            "SELECT id FROM a JOIN b USING (id) UNION ALL SELECT id FROM b ORDER BY 1",
        ),
        (
            "WITH c AS (SELECT old.t.v AS w FROM t JOIN old.t ON t.id = old.t.id)
             SELECT sum(w) FROM c",
            "SELECT sum(b.v) FROM a JOIN b ON a.id = b.id",
        ),
    ] {
        assert_eq!(f.rows(query), f.rows(same), "{query}");
    }
    f.run("UPDATE t SET v = old.t.v FROM old.t WHERE t.id = old.t.id");
    assert_eq!(f.rows("FROM t ORDER BY id"), ["0|0", "1|10", "2|20", "3|27", "4|34"]);
    let error = f.error("MERGE INTO t USING old.t ON t.id = old.t.id WHEN MATCHED THEN DELETE");
    assert!(error.to_string().contains("another name with AS"), "{error}");
    f.run("DELETE FROM t USING old.t WHERE t.id = old.t.id");
    assert_eq!(f.rows("FROM t ORDER BY id"), ["0|0", "1|10"]);
}
