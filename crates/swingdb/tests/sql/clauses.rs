//! Every clause that the parser takes is carried out, or refused by its name: none is dropped.

use super::common::{Fixture, fixture};
use swingdb::Error;

/// Tables for the clauses: each clause below changes what a query of them gives.
fn world() -> Fixture {
    let f = fixture();
    f.run(
        "CREATE TABLE t (id INT PRIMARY KEY, g VARCHAR, n INT); \
         INSERT INTO t VALUES (1, 'a', 10), (2, 'a', 30), (3, 'b', 20), (4, NULL, NULL); \
         CREATE TABLE u (id INT, w INT); \
         INSERT INTO u VALUES (1, 100), (1, 101), (9, 109)",
    );
    f
}

/// Statements with clauses that are honoured, and what shows it.
const HONOURED: &[(&str, &[&str])] = &[
    ("SELECT n FROM t WHERE n > 10 ORDER BY n", &["20", "30"]),
    ("SELECT n FROM t ORDER BY n DESC NULLS LAST", &["30", "20", "10", "-"]),
    ("SELECT n FROM t ORDER BY n NULLS FIRST LIMIT 1", &["-"]),
    ("SELECT n FROM t ORDER BY id LIMIT 1 OFFSET 2", &["20"]),
    ("SELECT n FROM t ORDER BY id LIMIT 2, 1", &["20"]),
    ("SELECT n FROM t ORDER BY id OFFSET 1 ROW FETCH NEXT 1 ROWS ONLY", &["30"]),
    ("SELECT DISTINCT g FROM t WHERE g = 'a'", &["a"]),
    ("SELECT DISTINCT ON (g) n FROM t WHERE g = 'a' ORDER BY n DESC", &["30"]),
    ("SELECT ALL g FROM t WHERE g = 'a'", &["a", "a"]),
    ("SELECT g, sum(n) FROM t GROUP BY g HAVING sum(n) > 30", &["a|40"]),
    (
        "SELECT g, sum(n) FROM t WHERE n > 0 GROUP BY ROLLUP (g) ORDER BY 2",
        &["b|20", "a|40", "-|60"],
    ),
    ("SELECT n FROM t QUALIFY row_number() OVER (ORDER BY n DESC NULLS LAST) = 1", &["30"]),
    ("SELECT sum(n) OVER w FROM t WHERE id < 3 WINDOW w AS (ORDER BY id)", &["10", "40"]),
    ("SELECT sum(n) OVER (ORDER BY id ROWS 1 PRECEDING) FROM t WHERE id < 4", &["10", "40", "50"]),
    ("SELECT sum(n) FILTER (WHERE g = 'b') FROM t", &["20"]),
    ("SELECT count(DISTINCT g) FROM t", &["2"]),
    ("SELECT string_agg(g, ',' ORDER BY id DESC) FROM t", &["b,a,a"]),
    ("SELECT quantile_disc(n, 0.5) FROM t", &["20"]),
    ("SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY n) FROM t", &["20"]),
    ("SELECT first_value(n IGNORE NULLS) OVER (ORDER BY id DESC) FROM t WHERE id = 3", &["20"]),
    (
        "SELECT t.id, w FROM t LEFT JOIN u USING (id) WHERE t.id < 3 ORDER BY ALL",
        &["1|100", "1|101", "2|-"],
    ),
    ("SELECT id FROM t SEMI JOIN u USING (id)", &["1"]),
    ("SELECT id FROM t ANTI JOIN u USING (id) ORDER BY id", &["2", "3", "4"]),
    ("SELECT count(*) FROM t CROSS JOIN u", &["12"]),
    ("SELECT id FROM t NATURAL JOIN u WHERE w = 101", &["1"]),
    ("SELECT x.i FROM t AS x (i, j, k) WHERE k = 30", &["2"]),
    ("WITH c AS MATERIALIZED (SELECT 1 AS a) SELECT a FROM c", &["1"]),
    (
        "WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 3) \
      SELECT x FROM c ORDER BY x LIMIT 2",
        &["1", "2"],
    ),
    ("SELECT * EXCLUDE (g, n) FROM t WHERE id = 1", &["1"]),
    ("SELECT * EXCEPT (g, n) FROM t WHERE id = 1", &["1"]),
    ("SELECT * REPLACE (n + 1 AS n) FROM t WHERE id = 1", &["1|a|11"]),
    ("SELECT * ILIKE 'I%' FROM t WHERE id = 1", &["1"]),
    ("SELECT 1 AS a UNION ALL BY NAME SELECT 2 AS a ORDER BY a", &["1", "2"]),
    ("SELECT g FROM t EXCEPT ALL SELECT 'a' EXCEPT SELECT 'b' ORDER BY g", &["a", "-"]),
    ("FROM t |> WHERE n > 10 |> SELECT n |> ORDER BY n |> LIMIT 1", &["20"]),
    ("SELECT /*+ any hint is a comment */ 1", &["1"]),
    ("SELECT list_transform([1, 2], x -> x + 1)[1]", &["2"]),
    ("SELECT count(ALL g), count(*) FROM t", &["3|4"]),
];

#[test]
fn clauses_are_honoured() {
    let f = world();
    for (sql, expected) in HONOURED {
        assert_eq!(f.rows(sql), *expected, "{sql}");
    }
}

/// Clauses of other databases, and what the refusal says.
const REFUSED: &[(&str, &str)] = &[
    ("SELECT n FROM t FOR UPDATE", "FOR UPDATE"),
    ("SELECT n FROM t FOR SHARE OF t NOWAIT", "FOR SHARE"),
    ("SELECT n FROM t FOR JSON AUTO", "FOR JSON"),
    ("SELECT n FROM t SETTINGS max_threads = 1", "SETTINGS"),
    ("SELECT n FROM t FORMAT JSON", "FORMAT"),
    ("SELECT n INTO copy FROM t", "CREATE TABLE name AS"),
    ("SELECT TOP 2 n FROM t", "TOP"),
    ("SELECT n FROM t PREWHERE n > 10", "PREWHERE"),
    ("SELECT n FROM t START WITH id = 1 CONNECT BY PRIOR id = n", "CONNECT BY"),
    ("SELECT n FROM t SORT BY n", "SORT BY"),
    ("SELECT n FROM t CLUSTER BY n", "CLUSTER BY"),
    ("SELECT n FROM t DISTRIBUTE BY n", "DISTRIBUTE BY"),
    ("SELECT n FROM t LATERAL VIEW explode(n) x AS y", "LATERAL VIEW"),
    ("SELECT n FROM t LIMIT 1 BY g", "BY"),
    ("SELECT n FROM t ORDER BY n FETCH FIRST 1 ROWS WITH TIES", "WITH TIES"),
    ("SELECT n FROM t ORDER BY n FETCH FIRST 1 PERCENT ROWS ONLY", "PERCENT"),
    ("SELECT n FROM t ORDER BY n WITH FILL FROM 1 TO 9", "WITH FILL"),
    ("SELECT g, sum(n) FROM t GROUP BY g WITH ROLLUP", "WITH ROLLUP"),
    ("SELECT g, sum(n) FROM t GROUP BY g WITH CUBE", "WITH CUBE"),
    ("SELECT g, sum(n) FROM t GROUP BY g WITH TOTALS", "WITH TOTALS"),
    ("SELECT g, sum(n) FROM t GROUP BY ALL WITH ROLLUP", "WITH ROLLUP"),
    ("SELECT * FROM t JOIN u", "ON or USING"),
    ("SELECT * FROM t LEFT JOIN u", "ON or USING"),
    ("SELECT * FROM t CROSS JOIN u ON t.id = u.id", "found ON"),
    ("SELECT * FROM t STRAIGHT_JOIN u ON t.id = u.id", ""),
    ("SELECT * FROM t CROSS APPLY (SELECT 1) x", "join"),
    ("SELECT * FROM t AS x (i INT, j VARCHAR, k INT)", "type"),
    ("SELECT * FROM unnest([1, 2]) WITH ORDINALITY", "ORDINALITY"),
    ("SELECT * FROM unnest([1, 2]) WITH OFFSET", "OFFSET"),
    ("SELECT * FROM range(3) WITH ORDINALITY", "ORDINALITY"),
    ("SELECT * FROM t WITH (NOLOCK)", "hints"),
    ("SELECT * FROM t USE INDEX (a)", "INDEX"),
    ("SELECT * FROM t PARTITION (p)", "PARTITION"),
    ("SELECT * FROM t FOR SYSTEM_TIME AS OF '2024-01-01'", "SYSTEM_TIME"),
    ("SELECT * FROM range(stop := 3, start := 1)", "places"),
    (
        "WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 9 LIMIT 2) \
      SELECT * FROM c",
        "LIMIT",
    ),
    (
        "WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 9 ORDER BY 1) \
      SELECT * FROM c",
        "ORDER BY",
    ),
    (
        "WITH RECURSIVE c (x) AS ((SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 9) LIMIT 2) \
      SELECT * FROM c",
        "LIMIT",
    ),
    ("SELECT 1 INTERSECT BY NAME SELECT 1", "BY NAME"),
    ("SELECT count(DISTINCT *) FROM t", "count(DISTINCT *)"),
    ("SELECT count(t.*) FROM t", "count(t.*)"),
    ("SELECT count(* EXCLUDE (n)) FROM t", "COLUMNS"),
    ("SELECT sum(*) FROM t", "sum(*)"),
    ("SELECT quantile(0.5)(n) FROM t", "brackets"),
    ("SELECT sqrt(9) FILTER (WHERE false)", "FILTER"),
    ("SELECT sqrt(DISTINCT 9)", "DISTINCT"),
    ("SELECT sqrt(9 ORDER BY 1)", "ORDER BY"),
    ("SELECT sqrt(9) OVER ()", "OVER"),
    ("SELECT sqrt(9) IGNORE NULLS", "IGNORE NULLS"),
    ("SELECT sqrt(9) WITHIN GROUP (ORDER BY 1)", "WITHIN GROUP"),
    ("SELECT year(DATE '2024-01-01') FILTER (WHERE false)", "FILTER"),
    ("SELECT year(DATE '2024-01-01') IGNORE NULLS", "IGNORE NULLS"),
    ("SELECT list_transform([1], x -> x) FILTER (WHERE false)", "FILTER"),
    ("SELECT unnest([1, 2]) FILTER (WHERE false)", "FILTER"),
    ("SELECT unnest(DISTINCT [1, 1])", "DISTINCT"),
    ("SELECT map([1], [2]) FILTER (WHERE false)", "FILTER"),
    ("SELECT row_number() FILTER (WHERE n > 1) OVER () FROM t", "FILTER"),
    ("SELECT lag(DISTINCT n) OVER (ORDER BY id) FROM t", "DISTINCT"),
    ("SELECT rank() IGNORE NULLS OVER (ORDER BY id) FROM t", "IGNORE NULLS"),
    ("SELECT sum(n) RESPECT NULLS OVER () FROM t", "RESPECT NULLS"),
    ("SELECT sum(n) IGNORE NULLS FROM t", "NULLS"),
    ("SELECT string_agg(g, ',' LIMIT 2) FROM t", "LIMIT"),
    ("SELECT listagg(g, ',' ON OVERFLOW TRUNCATE WITH COUNT) FROM t", "OVERFLOW"),
    ("SELECT listagg(g, ',') WITHIN GROUP (ORDER BY id DESC) FROM t", "WITHIN GROUP"),
    ("SELECT g LIKE ANY ('a', 'b') FROM t", "ANY"),
    ("SELECT g COLLATE nocase FROM t", "COLLATE"),
    ("SELECT CAST('1' AS INT FORMAT 'x')", "FORMAT"),
    ("SELECT INTERVAL '1' YEAR TO MONTH", "YEAR TO ..."),
    ("SELECT INTERVAL '5' DAY (2)", "expected the end"),
    ("SELECT ceil(1.55, 1)", "round"),
    ("SELECT floor(DATE '2024-01-05' TO MONTH)", "date_trunc"),
    ("SELECT MATCH (g) AGAINST ('a') FROM t", "expression"),
    ("SELECT list_aggr([1, 2], 'sum', 1, 2)", "takes 2 arguments, and has 4"),
    ("SELECT * FROM (INSERT INTO t VALUES (7, 'x', 1) RETURNING id)", ""),
];

#[test]
fn clauses_of_others_are_refused() {
    let f = world();
    for (sql, expected) in REFUSED {
        let error = f.error(sql);
        let kind =
            matches!(error, Error::Unsupported { .. } | Error::Plan { .. } | Error::Parse { .. });
        assert!(kind && error.to_string().contains(expected), "{sql}: {error}");
    }
    assert_eq!(f.value("SELECT count(*) FROM t"), "4");
}

#[test]
fn changes_with_clauses_of_others_change_nothing() {
    let f = world();
    f.refuses(&[
        ("INSERT OR ROLLBACK INTO t VALUES (5, 'x', 1)", "ROLLBACK"),
        ("INSERT OR FAIL INTO t VALUES (5, 'x', 1)", "FAIL"),
        ("INSERT OVERWRITE TABLE t VALUES (5, 'x', 1)", "OVERWRITE"),
        ("INSERT OR REPLACE INTO t VALUES (1, 'x', 1) ON CONFLICT DO NOTHING", "write one"),
        ("INSERT OR IGNORE INTO t VALUES (1, 'x', 1) ON CONFLICT (id) DO UPDATE SET n = 1", "one"),
        ("UPDATE OR IGNORE t SET n = 1", "OR REPLACE"),
        ("DELETE t FROM t WHERE id = 1", "FROM"),
        ("TRUNCATE t RESTART IDENTITY", "RESTART IDENTITY"),
        ("DROP TABLE t PURGE", "PURGE"),
        ("DROP TEMPORARY TABLE t", "TEMPORARY"),
        ("ALTER TABLE t ADD CONSTRAINT c CHECK (n > 0) NOT VALID", "NOT VALID"),
        ("ALTER TABLE t DROP COLUMN n CASCADE", "CASCADE"),
        ("ALTER TABLE t ADD COLUMN m INT FIRST", "FIRST"),
        ("ALTER TABLE t ADD UNIQUE NULLS NOT DISTINCT (n)", "NULLS NOT DISTINCT"),
        ("CREATE TABLE x (a INT UNIQUE DEFERRABLE INITIALLY DEFERRED)", "DEFERRABLE"),
        ("CREATE TABLE x (a INT, PRIMARY KEY (a DESC))", "KEY"),
        ("CREATE TABLE x (a INT NULL PRIMARY KEY)", "both NULL and NOT NULL"),
        ("CREATE TABLE x (a INT COMMENT 'no')", "COMMENT"),
        ("CREATE TABLE x (a VARCHAR COLLATE nocase)", "COLLATE"),
        ("CREATE TABLE x (a INT) WITH (fillfactor = 70)", "WITH (...)"),
        ("CREATE TABLE x (a INT) PARTITIONED BY (b INT)", "PARTITIONED BY"),
        ("CREATE TABLE x (a INT) PARTITION BY a", "PARTITION BY"),
        ("CREATE TABLE x (a INT) CLUSTER BY (a)", "CLUSTER BY"),
        ("CREATE TABLE x (a INT) COMMENT 'no'", ""),
        ("CREATE TABLE x (a INT) STRICT", "STRICT"),
        ("CREATE TABLE x (a INT) WITHOUT ROWID", "WITHOUT ROWID"),
        ("CREATE TABLE x (a INT) INHERITS (t)", "INHERITS"),
        ("CREATE GLOBAL TEMPORARY TABLE x (a INT)", "GLOBAL"),
        ("CREATE TRANSIENT TABLE x (a INT)", "TRANSIENT"),
        ("CREATE TABLE x (a INT) CLONE t", "CLONE"),
        ("CREATE MATERIALIZED VIEW x AS SELECT 1", "MATERIALIZED"),
        ("CREATE VIEW x WITH (security_barrier = true) AS SELECT 1 AS a", "WITH (...)"),
        ("CREATE VIEW x COMMENT = 'no' AS SELECT 1 AS a", "COMMENT"),
        ("CREATE VIEW x AS SELECT n FROM t FOR UPDATE", "FOR UPDATE"),
        ("CREATE SCHEMA x WITH (a = 1)", "WITH (...)"),
        ("CREATE SCHEMA x DEFAULT COLLATE 'und:ci'", "COLLATE"),
        ("CREATE MACRO x(a) AS TABLE SELECT n FROM t WHERE id = a FOR UPDATE", "FOR UPDATE"),
        ("PREPARE x (INT) AS SELECT $1", "types"),
        ("PREPARE x AS SELECT n FROM t FOR UPDATE", "FOR UPDATE"),
        ("SUMMARIZE SELECT n FROM t FOR UPDATE", "FOR UPDATE"),
        ("COPY (SELECT n FROM t FOR UPDATE) TO '/dev/null'", "FOR UPDATE"),
        ("EXPLAIN SELECT n FROM t FOR UPDATE", "FOR UPDATE"),
        ("COMMIT AND CHAIN", "CHAIN"),
        ("BEGIN TRANSACTION READ ONLY, READ WRITE", "either READ ONLY or READ WRITE"),
        ("SET LOCAL threads = 1", "LOCAL"),
        ("SET GLOBAL threads = 1", "GLOBAL"),
        ("SHOW FULL TABLES", "FULL"),
        ("SHOW TABLES WHERE name = 't'", "WHERE"),
        ("DESCRIBE EXTENDED t", "EXTENDED"),
        ("CREATE EXTERNAL TABLE x STORED AS CSV PARTITIONED BY (a) LOCATION '/dev/null'", "PART"),
    ]);
    assert_eq!(f.rows("SHOW TABLES"), ["t|main|swingdb|table|4", "u|main|swingdb|table|3"]);
}

#[test]
fn an_alias_called_global_is_no_asof_join() {
    let f = world();
    let sql = "SELECT global.n FROM t global JOIN u ON global.id = u.id WHERE w = 100";
    assert_eq!(f.rows(sql), ["10"]);
}

#[test]
fn explain_analyze_carries_changes_out() {
    let f = world();
    let plan = f.rows("EXPLAIN ANALYZE INSERT INTO u SELECT id, n FROM t WHERE n > 10").join("\n");
    assert!(plan.contains("Plan with Metrics") && plan.contains("INSERT: 2 rows"), "{plan}");
    assert_eq!(f.value("SELECT count(*) FROM u"), "5");
    f.rows("EXPLAIN ANALYZE UPDATE u SET w = 0 WHERE id = 9");
    assert_eq!(f.rows("SELECT id FROM u WHERE w = 0"), ["9"]);
    f.rows("EXPLAIN ANALYZE DELETE FROM u WHERE w = 0");
    f.rows("EXPLAIN ANALYZE MERGE INTO u USING t ON u.id = t.id WHEN MATCHED THEN DELETE");
    assert_eq!(f.value("SELECT count(*) FROM u"), "0");
    f.rows("EXPLAIN ANALYZE CREATE TABLE made AS SELECT 7 AS a");
    assert_eq!(f.value("SELECT a FROM made"), "7");
    f.rows("EXPLAIN ANALYZE INSERT INTO made VALUES (8)");
    assert_eq!(f.value("SELECT count(*) FROM made"), "2");
    f.run("CREATE TEMP TABLE mine (a INT)");
    let plan = f.rows("EXPLAIN ANALYZE INSERT INTO mine SELECT a FROM made").join("\n");
    assert!(plan.contains("Plan with Metrics"), "{plan}");
    assert_eq!(f.value("SELECT count(*) FROM mine"), "2");
    f.run("BEGIN; EXPLAIN ANALYZE DELETE FROM made; ROLLBACK");
    assert_eq!(f.value("SELECT count(*) FROM made"), "2");
    f.refuses(&[("EXPLAIN ANALYZE DROP TABLE made", "changes no rows")]);
}

#[test]
fn read_only_transactions_change_nothing() {
    let f = world();
    f.run("CREATE TEMP TABLE mine (a INT)");
    f.run("BEGIN TRANSACTION READ ONLY");
    for sql in ["INSERT INTO u VALUES (7, 7)", "CREATE TABLE x (a INT)", "DROP TABLE u"] {
        assert!(matches!(f.error(sql), Error::Transaction { .. }), "{sql}");
    }
    assert_eq!(f.value("SELECT count(*) FROM u"), "3");
    // Temporary tables are nobody else's.
    f.run("INSERT INTO mine VALUES (1)");
    f.run("COMMIT");
    f.run("INSERT INTO u VALUES (7, 7)");
    f.run("START TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ WRITE");
    f.run("INSERT INTO u VALUES (8, 8); COMMIT");
    assert_eq!(f.value("SELECT count(*) FROM u"), "5");
    assert_eq!(f.value("SELECT count(*) FROM mine"), "1");
}
