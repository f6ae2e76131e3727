//! What a statement means goes by its session, also where nodes carry it out: time zone, variables,
//! temporary tables. What one node alone would mean by it is refused.

mod common;

use common::by_hand::ByHand;
use common::{Node, asked, cluster, expected, nodes, with_room};
use swingdb::{Connection, Database};
use swingdb_cluster::{Cut, Error, Session};

fn hash(column: &str) -> Cut {
    Cut::Hash { column: column.to_string() }
}

/// A cluster of two nodes and one database, which get the same statements.
struct Both {
    nodes: Vec<Node>,
    session: Session,
    one: Connection,
}

impl Both {
    fn new() -> Self {
        let nodes = nodes(2);
        let session = cluster(&nodes).session().unwrap();
        Self { nodes, session, one: Database::private().unwrap().connect() }
    }

    fn run(&self, sql: &str) {
        self.run_cut(sql, &hash("k"));
    }

    fn run_cut(&self, sql: &str, cut: &Cut) {
        let count = self.one.query(sql).unwrap().rows_changed();
        let ours = self.session.execute(sql, cut);
        let ours = ours.unwrap_or_else(|error| panic!("{sql}\n{error}"));
        if count.is_some_and(|count| count > 0) {
            assert!(ours.rows_changed().is_none_or(|ours| Some(ours) == count), "{sql}");
        }
    }

    fn same(&self, sql: &str) {
        assert_eq!(asked(&self.session, sql), expected(&self.one, sql), "{sql}");
    }

    fn refuses(&self, sql: &str) {
        let refused = self.session.query(sql).err();
        assert!(matches!(refused, Some(Error::Unsupported(_))), "{sql}: {refused:?}");
    }
}

#[test]
fn times_go_by_the_zone_of_the_session() {
    const ALL: &str = "SELECT k, d, ts::VARCHAR AS shown, s FROM z";
    with_room(|| {
        let mut both = Both::new();
        both.run("SET timezone = 'Asia/Tokyo'");
        both.run(
            "CREATE TABLE z (k INTEGER PRIMARY KEY, d DATE, ts TIMESTAMPTZ, s VARCHAR, \
             made TIMESTAMPTZ DEFAULT '2000-01-01 00:00:00'::TIMESTAMPTZ)",
        );
        both.run(
            "INSERT INTO z (k, d, ts) SELECT i, DATE '2020-01-01' + i::INTEGER, \
             '2020-03-01 00:00:00'::TIMESTAMPTZ FROM generate_series(1, 40) AS q(i)",
        );
        both.same("SELECT DISTINCT made FROM z");
        // What nodes are told of such casts has letters that are not ASCII.
        both.same("SELECT ts::TIMESTAMP, hour(ts), TRY_CAST(ts AS TIME) FROM z WHERE k < 9");
        both.same("SELECT ts::TIMESTAMP AS at, count(*) FROM z GROUP BY at");
        both.run("UPDATE z SET ts = '2021-01-01 00:00:00' WHERE k % 3 = 0");
        both.run("UPDATE z SET ts = d, s = ts::VARCHAR WHERE k % 3 = 1");
        both.run("DELETE FROM z WHERE ts = '2020-03-01 00:00:00'::TIMESTAMPTZ AND k > 20");
        both.same(ALL);
        both.run(
            "INSERT INTO z (k) VALUES (1), (2), (50) ON CONFLICT (k) DO UPDATE \
             SET ts = '2022-01-01 00:00:00'",
        );
        both.run(
            "MERGE INTO z USING (SELECT 3 AS k UNION ALL SELECT 60) AS q ON z.k = q.k \
             WHEN MATCHED THEN UPDATE SET ts = '2023-01-01 00:00:00' \
             WHEN NOT MATCHED THEN INSERT (k, ts) VALUES (q.k, '2024-01-01 00:00:00')",
        );
        both.same(ALL);
        // The zone of each statement counts, inside of one transaction too.
        both.run("BEGIN; UPDATE z SET ts = '2025-01-01 00:00:00' WHERE k < 5");
        both.run("SET timezone = 'America/New_York'");
        both.run("UPDATE z SET ts = '2026-01-01 00:00:00' WHERE k > 15; COMMIT");
        both.same(ALL);
        // A node that carries a change out again does so in the same zone.
        let by_hand = ByHand::new(both.session.change() + 1);
        for node in &both.nodes {
            by_hand.begin(node, &both.nodes[0]);
            by_hand.step_in(node, "UPDATE z SET ts = '2027-01-01 00:00:00'", "Asia/Tokyo");
            by_hand.order(node, "prepare").unwrap();
        }
        by_hand.order(&both.nodes[0], "commit").unwrap();
        both.nodes[1].restart();
        let again = cluster(&both.nodes);
        again.recover().unwrap();
        let session = again.session().unwrap();
        session.query("SET timezone = 'Asia/Tokyo'").unwrap();
        let shown = asked(&session, "SELECT DISTINCT ts::VARCHAR FROM z");
        assert_eq!(shown, [["2027-01-01 00:00:00+09"]]);
    });
}

#[test]
fn temporary_tables_come_before_those_of_the_cluster() {
    with_room(|| {
        let both = Both::new();
        both.run("CREATE TABLE t AS SELECT i AS k FROM generate_series(1, 10) AS q(i)");
        both.run("CREATE TEMP TABLE t AS SELECT 70 AS k");
        both.run("INSERT INTO t VALUES (71), (72), (73)");
        both.run("INSERT INTO T SELECT k + 100 FROM main.t");
        both.run("UPDATE t SET k = k + 1 WHERE k < 73");
        both.run("DELETE FROM t WHERE k = 71");
        for sql in ["SELECT * FROM t", "SELECT * FROM temp.t", "SELECT * FROM main.t"] {
            both.same(sql);
        }
        both.run("DELETE FROM main.t WHERE k IN (SELECT k - 100 FROM t WHERE k < 105)");
        both.run("INSERT INTO temp.t VALUES (5)");
        both.run("DELETE FROM main.t USING t AS x WHERE x.k = main.t.k");
        for sql in ["SELECT * FROM t", "SELECT * FROM main.t"] {
            both.same(sql);
        }
        both.run("DROP TABLE t");
        both.same("SELECT * FROM t");
        both.run("DELETE FROM t WHERE k = 6");
        both.same("SELECT * FROM t");
        // Its rows are no part of the change.
        both.run("CREATE TEMP TABLE other (k INTEGER)");
        both.run("BEGIN");
        both.refuses("INSERT INTO other VALUES (1)");
        both.refuses("CREATE TEMP TABLE more (k INTEGER)");
        both.run("ROLLBACK");
        both.same("SELECT count(*) FROM other");
        // A table of the cluster may be called so.
        both.run("CREATE TABLE temp (k INTEGER)");
        both.run("INSERT INTO temp VALUES (1)");
        both.same("SELECT * FROM temp");
    });
}

#[test]
fn what_only_one_node_would_know_is_refused() {
    with_room(|| {
        let both = Both::new();
        both.run("CREATE TABLE t AS SELECT i AS k, 0 AS n FROM generate_series(1, 10) AS q(i)");
        both.run("SET VARIABLE x = 3");
        both.same("SELECT * FROM t WHERE k = getvariable('x')");
        both.run("UPDATE t SET n = 1 WHERE k = getvariable('x')");
        both.same("SELECT * FROM t");
        for sql in [
            "UPDATE t SET n = 1 WHERE k = getvariable('x' || 'y')",
            "DELETE FROM t WHERE rand() < 0.5",
            "DELETE FROM t WHERE rowid = 0",
            "DELETE FROM t WHERE k = 1 RETURNING rowid",
            "INSERT INTO t VALUES (1, 1) RETURNING rowid",
            "MERGE INTO t USING (SELECT 1 AS k) AS q ON t.k = q.k \
             WHEN MATCHED THEN UPDATE SET n = random()",
            // Rows of several nodes have no order, wherever the join is written.
            "SELECT * FROM t POSITIONAL JOIN t AS u",
            "CREATE VIEW p AS SELECT u.k FROM t POSITIONAL JOIN t AS u",
            "CREATE MACRO p() AS TABLE SELECT u.k FROM t POSITIONAL JOIN t AS u",
            "UPDATE t SET n = u.k FROM (SELECT u.k FROM t POSITIONAL JOIN t AS u) AS u",
        ] {
            both.refuses(sql);
        }
        both.same("SELECT * FROM t");
    });
}

#[test]
fn what_is_drawn_is_drawn_as_often_as_on_one_machine() {
    with_room(|| {
        let both = Both::new();
        both.run("CREATE TABLE t AS SELECT i AS k FROM generate_series(1, 1000) AS q(i)");
        for sql in [
            // Each subquery draws for itself.
            "SELECT (SELECT random()) = (SELECT random())",
            "SELECT DISTINCT (SELECT random()) = (SELECT random()) FROM t",
            "SELECT (SELECT max(random()) FROM t) = (SELECT max(random()) FROM t)",
            "SELECT (SELECT k + random() FROM t WHERE k = 1) = \
             (SELECT k + random() FROM t WHERE k = 1)",
            "SELECT count(*) FROM t WHERE (SELECT uuid()) = (SELECT uuid())",
            // A value is the same wherever it is used, and so is what has a name.
            "SELECT DISTINCT x = x FROM (SELECT (SELECT random()) AS x FROM t)",
            "WITH w AS (SELECT random() AS r) \
             SELECT DISTINCT (SELECT r FROM w) = (SELECT r FROM w) FROM t",
            "WITH w AS (SELECT random() AS r FROM t) SELECT (SELECT max(r) FROM w) = \
             (SELECT max(r) FROM w)",
            "WITH w AS (SELECT random() AS r FROM t) SELECT count(*) FROM w \
             WHERE r = (SELECT max(r) FROM w)",
            "WITH w AS (SELECT k FROM t USING SAMPLE 10 ROWS) SELECT (SELECT sum(k) FROM w) = \
             (SELECT sum(k) FROM w), (SELECT count(*) FROM w a JOIN w b USING (k))",
        ] {
            both.same(sql);
        }
    });
}

#[test]
fn rows_of_several_nodes_are_not_paired_by_their_order() {
    with_room(|| {
        let both = Both::new();
        both.run("CREATE TABLE t AS SELECT i AS k, 0 AS n FROM generate_series(1, 10) AS q(i)");
        let three = "CREATE TABLE r AS SELECT i AS a FROM generate_series(1, 3) AS q(i)";
        both.run_cut(three, &Cut::Replicated);
        both.run("CREATE VIEW v AS SELECT k AS w FROM t");
        both.run("CREATE VIEW p AS SELECT a.w FROM v AS a POSITIONAL JOIN v AS b");
        both.run("CREATE MACRO f() AS TABLE SELECT a.w FROM v AS a POSITIONAL JOIN v AS b");
        for sql in [
            "SELECT * FROM v POSITIONAL JOIN generate_series(1, 3) AS q(i)",
            "SELECT * FROM (VALUES (1)) AS a(x) POSITIONAL JOIN r POSITIONAL JOIN v",
            "SELECT max(w) FROM p",
            "SELECT * FROM f()",
            "EXPLAIN SELECT * FROM p",
            "INSERT INTO t SELECT w, w FROM p",
            "CREATE TABLE x AS SELECT * FROM f()",
            "UPDATE t SET n = (SELECT max(w) FROM p)",
            "UPDATE t SET n = (SELECT max(a.w) FROM v AS a POSITIONAL JOIN v AS b)",
            "DELETE FROM t WHERE k IN (SELECT w FROM p)",
        ] {
            both.refuses(sql);
        }
        both.same("SELECT * FROM t");
        both.same("SELECT b.a, c.a FROM r AS b POSITIONAL JOIN r AS c");
        both.same("SELECT * FROM (VALUES (1), (2)) AS a(x) POSITIONAL JOIN (VALUES (3)) AS b(y)");
    });
}

#[test]
fn tables_with_named_columns_are_made_once() {
    with_room(|| {
        let both = Both::new();
        both.run_cut("CREATE TABLE v(a, \"b c\") AS VALUES (1, 'x'), (2, 'y')", &hash("b c"));
        both.run_cut("CREATE TABLE w(n) AS SELECT a FROM v", &Cut::AsItLies);
        both.run_cut("CREATE OR REPLACE TABLE w(m) AS FROM (SELECT a FROM v)", &Cut::Replicated);
        for sql in ["SELECT a, \"b c\" FROM v", "SELECT m FROM w"] {
            both.same(sql);
        }
        for sql in [
            "CREATE TABLE IF NOT EXISTS v (other INTEGER)",
            "CREATE TABLE IF NOT EXISTS v AS SELECT 7 AS other",
            "CREATE TABLE IF NOT EXISTS y AS SELECT a FROM v",
        ] {
            both.run_cut(sql, &Cut::AsItLies);
            both.same("SELECT a, \"b c\" FROM v");
        }
        both.same("SELECT * FROM y");
        assert!(both.session.query("CREATE TABLE x(a, b) AS SELECT 1").is_err());
        both.refuses("CREATE TABLE x(a INTEGER) AS SELECT 1");
    });
}

#[test]
fn values_become_the_types_of_their_columns_one_by_one() {
    with_room(|| {
        let both = Both::new();
        both.run("CREATE TABLE t (k INTEGER, s VARCHAR, d DOUBLE, l DECIMAL(4, 1)[], u UUID)");
        both.run(
            "INSERT INTO t VALUES (1, 1, 'inf', NULL, NULL), (2, 1.50, 1e-20, [1], \
             '00000000-0000-0000-0000-000000000001'), ('3', true, 0.1, ['2.5'], NULL), \
             (4, DATE '2024-01-01', 7, [], NULL), (5, [1, 2], -0.0, [NULL], NULL)",
        );
        both.run("INSERT INTO t (d, k) VALUES (1, (SELECT max(k) + 1 FROM t))");
        both.same("SELECT k, s, d, l, u::VARCHAR AS u FROM t");
        assert!(both.session.query("INSERT INTO t (k, s) VALUES (1, 'a', 2)").is_err());
        assert!(both.session.query("INSERT INTO t (k) VALUES ('x')").is_err());
        both.refuses("INSERT INTO t (k, s) VALUES (1, DEFAULT)");
        both.run("BEGIN; INSERT INTO t (k) VALUES (70); COMMIT");
        both.same("SELECT k, s FROM t");
        // Not only the name of a type is that of the query's.
        both.run(
            "CREATE TABLE spans AS SELECT i AS k, TIMESTAMP '2024-01-01' - TIMESTAMP '1970-01-01' \
             AS d FROM generate_series(1, 4) AS q(i)",
        );
        both.same("SELECT d::VARCHAR AS d, avg(d)::VARCHAR AS a FROM spans GROUP BY d");
    });
}

#[test]
fn recursion_and_constants_are_computed_at_one_place() {
    with_room(|| {
        let both = Both::new();
        both.run(
            "CREATE TABLE edge AS SELECT i AS k, i + 1 AS n FROM generate_series(1, 9) AS q(i)",
        );
        both.run(
            "CREATE TABLE three AS SELECT * FROM (VALUES (5, NULL, 6), (5, 6, NULL)) q(k, b, c)",
        );
        for sql in [
            "WITH RECURSIVE w(n) AS (SELECT 1 UNION SELECT e.n FROM edge e JOIN w ON e.k = w.n) \
             SELECT n FROM w",
            "WITH RECURSIVE r AS (SELECT k, b, c FROM three UNION SELECT k, b, c FROM r) FROM r",
            "SELECT list(x) FROM (SELECT 1 AS x UNION ALL SELECT 2 UNION ALL SELECT 3)",
        ] {
            both.same(sql);
        }
    });
}

#[test]
fn subqueries_of_one_value_have_one_row() {
    with_room(|| {
        let both = Both::new();
        both.run("CREATE TABLE t AS SELECT i AS k, i % 3 AS g FROM generate_series(1, 30) AS q(i)");
        for sql in ["SELECT (SELECT k FROM t)", "SELECT k FROM t WHERE k > (SELECT k FROM t)"] {
            let rows = both.session.query(sql).and_then(|rows| rows.collect());
            let error = rows.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains("row"), "{sql}: {error}");
        }
        for sql in [
            "SELECT (SELECT k FROM t WHERE k = 7) AS x, (SELECT k FROM t WHERE k > 99) AS y",
            "SELECT count(*) FROM t WHERE k > (SELECT avg(k) FROM t)",
            "SELECT g, sum(k) FROM t GROUP BY g HAVING sum(k) > (SELECT sum(k) / 3 FROM t)",
        ] {
            both.same(sql);
        }
    });
}

#[test]
fn views_that_are_dropped_are_gone() {
    with_room(|| {
        let both = Both::new();
        let other = cluster(&both.nodes).session().unwrap();
        both.run("CREATE TABLE t AS SELECT 1 AS k");
        both.run("CREATE VIEW v AS SELECT k + 1 AS n FROM t");
        both.run("CREATE MACRO m(x) AS x + 1");
        both.run("CREATE VIEW IF NOT EXISTS main.w AS SELECT * FROM v");
        both.same("SELECT m(n) AS k FROM w");
        other.refresh().unwrap();
        assert_eq!(asked(&other, "SELECT m(n) FROM w"), [["3"]]);
        both.run("DROP VIEW v");
        both.run("DROP MACRO m");
        other.refresh().unwrap();
        for session in [&both.session, &other] {
            for sql in ["SELECT * FROM v", "SELECT * FROM w", "SELECT m(1)"] {
                assert!(session.query(sql).and_then(|rows| rows.collect()).is_err(), "{sql}");
            }
        }
    });
}

#[test]
fn definitions_are_listed_as_on_one_machine() {
    with_room(|| {
        let both = Both::new();
        for sql in [
            "CREATE TYPE mood AS ENUM ('sad', 'glad')",
            "CREATE TABLE t (k INTEGER PRIMARY KEY, m mood DEFAULT 'glad', s VARCHAR NOT NULL, \
             CHECK (k > 0))",
            "CREATE INDEX by_s ON t (s)",
            "COMMENT ON TABLE t IS 'of tests'",
            "COMMENT ON COLUMN t.s IS 'a text'",
            "CREATE VIEW v AS SELECT k, m FROM t",
        ] {
            both.run(sql);
        }
        let listings = [
            "DESCRIBE t",
            "DESCRIBE SELECT m, count(*) FROM t GROUP BY m",
            "PRAGMA table_info('t')",
            "SELECT table_name, table_type FROM information_schema.tables \
             WHERE table_schema = 'main'",
            "SELECT constraint_type, constraint_text FROM duckdb_constraints()",
            "SELECT index_name, sql FROM duckdb_indexes()",
            "SELECT table_name, comment FROM duckdb_tables()",
            "SELECT column_name, column_default, is_nullable, comment FROM duckdb_columns() \
             WHERE table_name = 't'",
            "SELECT view_name FROM duckdb_views() WHERE view_name = 'v'",
            "SELECT relname, relkind FROM pg_class WHERE relname IN ('t', 'v', 'by_s')",
        ];
        listings.iter().for_each(|sql| both.same(sql));
        both.run("BEGIN");
        both.run("ALTER TABLE t ADD COLUMN x DOUBLE");
        both.run("DROP INDEX by_s");
        listings.iter().for_each(|sql| both.same(sql));
        both.run("ROLLBACK");
        listings.iter().for_each(|sql| both.same(sql));
        // These have rows, whatever they and their columns are called.
        both.run("INSERT INTO t (k, s) VALUES (1, 'a')");
        both.run("CREATE VIEW pg_v AS SELECT k AS pg_k, s FROM t");
        both.run("CREATE MACRO rows_of() AS TABLE SELECT k FROM t");
        both.same("SELECT pg_k FROM pg_v");
        both.same("SELECT k AS pg_k FROM rows_of()");
    });
}

#[test]
fn transactions_are_what_they_say_or_refused() {
    with_room(|| {
        let both = Both::new();
        both.run("CREATE TABLE t (k INTEGER)");
        both.refuses("BEGIN TRANSACTION READ ONLY");
        both.refuses("BEGIN ISOLATION LEVEL SERIALIZABLE");
        both.run("BEGIN TRANSACTION");
        both.run("INSERT INTO t VALUES (1)");
        both.refuses("COMMIT AND CHAIN");
        both.run("COMMIT");
        both.same("SELECT * FROM t");
    });
}

#[test]
fn keys_that_nobody_would_check_are_refused() {
    with_room(|| {
        let both = Both::new();
        for (sql, cut) in [
            ("CREATE TABLE t (k INTEGER PRIMARY KEY, n INTEGER)", hash("n")),
            ("CREATE TABLE t (k INTEGER PRIMARY KEY, n INTEGER)", Cut::AsItLies),
            ("CREATE TABLE t (k INTEGER PRIMARY KEY, n INTEGER UNIQUE)", hash("k")),
            ("CREATE TABLE t (k INTEGER, n INTEGER, UNIQUE (k, n))", Cut::AsItLies),
        ] {
            let refused = both.session.execute(sql, &cut).err();
            let is_told = |message: &str| message.contains("hash:COLUMN");
            let right = matches!(&refused, Some(Error::Unsupported(text)) if is_told(text));
            assert!(right, "{sql}: {refused:?}");
        }
        both.run("CREATE TABLE t (k INTEGER, n INTEGER, PRIMARY KEY (n, k))");
        both.run_cut("CREATE TABLE r (k INTEGER PRIMARY KEY, n INTEGER UNIQUE)", &Cut::Replicated);
        both.run("INSERT INTO r VALUES (1, 1)");
        assert!(both.session.query("INSERT INTO r VALUES (2, 1)").is_err());
        both.same("SELECT * FROM r");
    });
}

#[test]
fn keys_of_floats_are_checked_whatever_their_bits() {
    with_room(|| {
        let both = Both::new();
        for (nth, cut) in
            [hash("k"), Cut::Range { column: "k".to_string(), bounds: vec!["0.0".to_string()] }]
                .into_iter()
                .enumerate()
        {
            both.run_cut(&format!("CREATE TABLE f{nth} (k DOUBLE PRIMARY KEY)"), &cut);
            both.run(&format!("INSERT INTO f{nth} VALUES (0.0), ('nan'), (1.5)"));
            for again in ["-0.0::DOUBLE", "-('nan'::DOUBLE)", "1.5"] {
                let sql = format!("INSERT INTO f{nth} VALUES ({again})");
                let refused = both.session.query(&sql).err();
                assert!(both.one.query(&sql).is_err());
                assert!(matches!(refused, Some(Error::Statement { .. })), "{sql}: {refused:?}");
            }
            both.same(&format!("SELECT k FROM f{nth}"));
            both.run(&format!("INSERT INTO f{nth} VALUES (-7.0)"));
            both.same(&format!("SELECT count(*) FROM f{nth} WHERE k < -0.0"));
        }
    });
}
