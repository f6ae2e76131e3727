//! Changes whose nodes need rows of others, RETURNING, ON CONFLICT, and transactions of several
//! statements.

mod common;

use common::{asked, cluster, expected, nodes, texts, with_room};
use swingdb::{Connection, Database, Value};
use swingdb_cluster::{Cluster, Cut, Error, Options, Session};

fn hash(column: &str) -> Cut {
    Cut::Hash { column: column.to_string() }
}

/// A cluster of three nodes and one database with the same tables.
struct Both {
    _nodes: Vec<common::Node>,
    cluster: Cluster,
    session: Session,
    one: Connection,
}

const TABLES: [(&str, &str); 3] = [
    ("t", "SELECT i AS k, i % 40 AS g, 'row ' || i AS s FROM generate_series(1, 600) AS q(i)"),
    ("u", "SELECT i * 3 AS k, i % 13 AS g, i AS n FROM generate_series(1, 150) AS q(i)"),
    ("r", "SELECT i AS g, i * 10 AS z FROM generate_series(0, 20) AS q(i)"),
];

impl Both {
    fn new(cuts: [Cut; 3]) -> Self {
        let nodes = nodes(3);
        let cluster = cluster(&nodes);
        let session = cluster.session().unwrap();
        let one = Database::private().unwrap().connect();
        for ((table, query), cut) in TABLES.into_iter().zip(cuts) {
            let sql = format!("CREATE TABLE {table} AS {query}");
            one.query(&sql).unwrap();
            session.execute(&sql, &cut).unwrap();
        }
        Self { _nodes: nodes, cluster, session, one }
    }

    /// A change of both, and what it returns; then the tables are the same.
    fn change(&self, sql: &str) {
        self.change_with(sql, &[]);
    }

    /// The same of one with parameters.
    fn change_with(&self, sql: &str, values: &[Value]) {
        let theirs = self.one.execute(sql, values).unwrap();
        let count = theirs.rows_changed();
        let mut theirs = texts(&theirs.collect().unwrap());
        theirs.sort();
        let ours = self.session.query_with(sql, values);
        let ours = ours.unwrap_or_else(|error| panic!("{sql}\n{error}"));
        assert_eq!(ours.rows_changed(), count, "{sql}");
        let mut ours = texts(&ours.collect().unwrap());
        ours.sort();
        assert_eq!(ours, theirs, "{sql}");
        for (table, _) in TABLES {
            let all = format!("SELECT * FROM {table}");
            assert_eq!(asked(&self.session, &all), expected(&self.one, &all), "{sql}: {table}");
        }
    }

    fn refuses(&self, sql: &str) {
        let refused = self.session.query(sql).err();
        assert!(matches!(refused, Some(Error::Unsupported(_))), "{sql}: {refused:?}");
    }
}

#[test]
fn nodes_are_lent_what_subqueries_read() {
    with_room(|| {
        for cuts in [
            [hash("k"), hash("k"), Cut::Replicated],
            [Cut::AsItLies, hash("n"), Cut::AsItLies],
            [Cut::Replicated, hash("k"), hash("g")],
        ] {
            let both = Both::new(cuts);
            both.change("DELETE FROM t WHERE k IN (SELECT k FROM u WHERE n > 100)");
            both.change("UPDATE t SET s = s || '!' WHERE g = (SELECT max(g) FROM u)");
            both.change("UPDATE t SET g = (SELECT count(*) FROM u) WHERE k < 10");
            both.change(
                "DELETE FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.n < 20)",
            );
            both.change("UPDATE t SET g = (SELECT max(n) FROM u WHERE u.g = t.g) WHERE k % 7 = 0");
            both.change("UPDATE t SET s = 'from ' || u.n FROM u WHERE t.k = u.k AND u.n > 50");
            both.change(
                "UPDATE t SET g = r.z FROM r, (SELECT max(g) AS m FROM u) AS q \
                WHERE t.g = r.g AND r.g < q.m",
            );
            both.change(
                "DELETE FROM t USING u JOIN r ON u.g = r.g WHERE t.k = u.k + 1 AND r.z > 90",
            );
            both.change("DELETE FROM t WHERE k > (SELECT avg(k) FROM t) AND g < 5");
            both.change("DELETE FROM u WHERE k NOT IN (SELECT k FROM t)");
            both.change(
                "DELETE FROM r WHERE g IN (SELECT g FROM t) AND g IN (SELECT max(g) FROM r)",
            );
        }
    });
}

#[test]
fn changes_return_their_rows() {
    with_room(|| {
        let both = Both::new([hash("k"), Cut::AsItLies, Cut::Replicated]);
        both.change(
            "INSERT INTO t VALUES (1000, 1, 'a'), (1001, 2, 'b') RETURNING k + 1 AS next, s",
        );
        both.change("UPDATE t SET g = g + 1 WHERE k % 50 = 0 RETURNING k, g");
        both.change("DELETE FROM t WHERE k IN (SELECT k FROM u WHERE n > 140) RETURNING *");
        both.change("DELETE FROM r WHERE g > 15 RETURNING z");
        both.change("INSERT INTO r SELECT 100 + g, z FROM r WHERE g < 2 RETURNING g, z");
        both.change("INSERT INTO t BY NAME SELECT 'c' AS s, k + 5000 AS K FROM t WHERE k < 9");
        both.change("WITH w AS (SELECT 5 AS z, 300 AS g) INSERT INTO r BY NAME FROM w RETURNING g");
        let unknown = "INSERT INTO r BY NAME SELECT 1 AS g, 2 AS nothing";
        assert!(matches!(both.session.query(unknown).err(), Some(Error::Table { .. })));
        both.change("INSERT INTO r BY POSITION SELECT 400, 1");
        both.change("INSERT INTO u SELECT * FROM u WHERE k < 0 RETURNING n");
        both.change("DELETE FROM u WHERE k < 0 RETURNING n AS gone");
        both.refuses("DELETE FROM t WHERE k = 1 RETURNING (SELECT max(n) FROM u)");
    });
}

#[test]
fn conflicts_are_found_where_equal_keys_are_on_one_node() {
    with_room(|| {
        let both = Both::new([hash("k"), Cut::AsItLies, Cut::Replicated]);
        let make = |sql: &str, cut: &Cut| {
            both.one.query(sql).unwrap();
            both.session.execute(sql, cut).unwrap();
        };
        make("CREATE TABLE c (k INTEGER PRIMARY KEY, n INTEGER, s VARCHAR)", &hash("k"));
        make("CREATE TABLE d (a INTEGER, b INTEGER, n INTEGER, PRIMARY KEY (a, b))", &hash("b"));
        make("CREATE TABLE e (k INTEGER PRIMARY KEY, n INTEGER)", &Cut::Replicated);
        let change = |sql: &str| {
            both.change(sql);
            for table in ["c", "d", "e"] {
                let all = format!("SELECT * FROM {table}");
                assert_eq!(asked(&both.session, &all), expected(&both.one, &all), "{sql}: {table}");
            }
        };
        change("INSERT INTO c SELECT i, i, 'old' FROM generate_series(1, 50) AS q(i)");
        change(
            "INSERT INTO c SELECT i, 0, 'new' FROM generate_series(40, 60) AS q(i) \
            ON CONFLICT DO NOTHING",
        );
        change(
            "INSERT INTO c SELECT i, 7, 'new' FROM generate_series(55, 70) AS q(i) \
            ON CONFLICT (k) DO UPDATE SET n = c.n + excluded.n, s = excluded.s WHERE c.k < 58 \
            RETURNING k, n",
        );
        change("INSERT OR REPLACE INTO c VALUES (1, 100, 'one'), (200, 2, 'more')");
        change("INSERT OR IGNORE INTO c VALUES (1, 101, 'two'), (201, 2, 'more')");
        change("INSERT INTO d SELECT i % 5, i % 7, i FROM generate_series(1, 30) AS q(i)");
        change("INSERT INTO d VALUES (1, 1, 5), (9, 9, 9) ON CONFLICT (a, b) DO UPDATE SET n = 0");
        change("INSERT INTO e VALUES (1, 1), (2, 2)");
        change("INSERT INTO e VALUES (2, 5), (3, 5) ON CONFLICT DO UPDATE SET n = excluded.n");
        for sql in [
            "INSERT INTO c VALUES (1, 1, 'x') ON CONFLICT (k) DO UPDATE SET k = 9",
            "INSERT INTO u VALUES (1, 1, 1) ON CONFLICT DO NOTHING",
        ] {
            both.refuses(sql);
        }
        // One statement, however many rows it has: they come to the nodes in several parts.
        let twice =
            "SELECT i % 299999 AS k, i AS n, '' AS s FROM generate_series(0, 299999) AS q(i)";
        for sql in [
            format!("INSERT OR REPLACE INTO c {twice}"),
            format!("INSERT INTO c {twice} ON CONFLICT DO UPDATE SET n = excluded.n"),
        ] {
            for error in [
                both.one.query(&sql).err().unwrap().to_string(),
                both.session.query(&sql).err().unwrap().to_string(),
            ] {
                assert!(error.contains("twice in one statement"), "{error}");
            }
        }
        change(&format!("INSERT OR IGNORE INTO c {twice} WHERE i % 1000 = 0"));
    });
}

fn count(session: &Session, table: &str) -> String {
    asked(session, &format!("SELECT count(*) FROM {table}"))[0][0].clone()
}

#[test]
fn transactions_of_several_statements_are_all_or_nothing() {
    with_room(|| {
        let both = Both::new([hash("k"), hash("k"), Cut::Replicated]);
        let (session, other) = (&both.session, both.cluster.session().unwrap());
        let run = |sql: &str| session.query(sql).map(|rows| rows.rows_changed());
        run("BEGIN").unwrap();
        assert_eq!(run("DELETE FROM t WHERE k <= 100").unwrap(), Some(100));
        assert_eq!(run("INSERT INTO u SELECT 9000 + g, g, z FROM r").unwrap(), Some(21));
        // It reads what it has changed; others do not see it, nor change anything.
        assert_eq!((count(session, "t"), count(session, "r")), ("500".into(), "21".into()));
        let joined = "SELECT count(*) FROM u JOIN r ON u.k = 9000 + r.g";
        assert_eq!(asked(session, joined), [["21"]]);
        other.refresh().unwrap();
        assert_eq!((count(&other, "t"), count(&other, "u")), ("600".into(), "150".into()));
        assert!(other.query("DELETE FROM t").is_err());
        assert!(session.refresh().is_err() && run("BEGIN").is_err());
        run("COMMIT").unwrap();
        assert_eq!((count(session, "t"), count(session, "u")), ("500".into(), "171".into()));
        other.refresh().unwrap();
        assert_eq!((count(&other, "t"), count(&other, "u")), ("500".into(), "171".into()));
        // Nothing of what is rolled back is left.
        session.query("BEGIN; DELETE FROM u; UPDATE t SET g = 0").unwrap();
        assert_eq!((count(session, "u"), count(session, "t")), ("0".into(), "500".into()));
        assert_eq!(asked(session, "SELECT DISTINCT g FROM t"), [["0"]]);
        run("ROLLBACK").unwrap();
        assert_eq!((count(session, "t"), count(session, "u")), ("500".into(), "171".into()));
        assert_eq!(asked(session, "SELECT max(g) FROM t"), [["39"]]);
        session.query("INSERT INTO r VALUES (500, 1)").unwrap();
        assert_eq!((count(session, "t"), count(session, "u")), ("500".into(), "171".into()));
        // Nor of what has failed.
        run("BEGIN").unwrap();
        run("DELETE FROM t").unwrap();
        assert!(run("INSERT INTO t SELECT 'x', 1, 's'").is_err());
        assert!(run("SELECT count(*) FROM r").is_err());
        assert!(run("DELETE FROM u").is_err());
        assert!(run("COMMIT").is_err());
        assert_eq!(count(session, "t"), "500");
        assert!(run("COMMIT").is_err() && run("ROLLBACK").is_err());
        // A session that ends in the middle is in nobody's way.
        other.query("BEGIN; DELETE FROM t").unwrap();
        drop(other);
        run("DELETE FROM t WHERE k <= 110").unwrap();
        assert_eq!(count(session, "t"), "490");
        // A transaction reads the newest state.
        let late = both.cluster.session().unwrap();
        run("DELETE FROM t WHERE k <= 120").unwrap();
        late.query("BEGIN").unwrap();
        assert_eq!(count(&late, "t"), "480");
        late.query("INSERT INTO r SELECT count(*), 0 FROM t; COMMIT").unwrap();
        assert_eq!(asked(&late, "SELECT g FROM r WHERE z = 0 AND g > 0"), [["480"]]);
    });
}

#[test]
fn transactions_define_and_read_what_they_have_defined() {
    with_room(|| {
        let both = Both::new([hash("k"), hash("k"), Cut::Replicated]);
        let session = &both.session;
        let begin =
            "BEGIN; CREATE TABLE w (k INTEGER, n INTEGER); INSERT INTO w SELECT k, n FROM u";
        session.query(begin).unwrap();
        session.query("ALTER TABLE w ADD COLUMN x INTEGER DEFAULT 5").unwrap();
        session.query("CREATE VIEW sums AS SELECT sum(x) AS s FROM w").unwrap();
        assert_eq!(asked(session, "SELECT s FROM sums"), [["750"]]);
        // Rows are read as they were, and those that they give are added to them.
        session
            .query("INSERT INTO w SELECT k, n, x FROM w; INSERT INTO w SELECT * FROM w")
            .unwrap();
        assert_eq!(count(session, "w"), "600");
        session.query("ROLLBACK").unwrap();
        assert!(session.query("SELECT * FROM sums").is_err());
        assert!(session.query("SELECT * FROM w").is_err());
        session.query(begin).unwrap();
        session.query("DROP TABLE t; COMMIT").unwrap();
        assert_eq!(count(session, "w"), "150");
        assert!(session.query("SELECT * FROM t").is_err());
    });
}

#[test]
fn rows_move_with_the_column_of_the_cut() {
    with_room(|| {
        for cuts in [
            [hash("k"), hash("n"), Cut::Replicated],
            [
                Cut::Range { column: "k".to_string(), bounds: vec!["100".into(), "400".into()] },
                hash("k"),
                Cut::Replicated,
            ],
        ] {
            let both = Both::new(cuts);
            both.change("UPDATE t SET k = k + 1000 WHERE k % 3 = 0");
            both.change("UPDATE t SET g = k, k = g WHERE g > 30");
            both.change("UPDATE t SET k = NULL WHERE k BETWEEN 1100 AND 1200 RETURNING s, k");
            both.change("UPDATE t SET k = (SELECT max(n) FROM u) WHERE k IN (SELECT k FROM u)");
            both.change("UPDATE t SET k = (SELECT max(n) FROM u WHERE u.g = t.g) WHERE k < 200");
            both.change("UPDATE u AS x SET n = x.k, k = x.n WHERE x.g < 5");
            both.change("UPDATE t SET (g, s) = (1, 'both') WHERE k IS NULL");
            for key in [7, 9, 31, 150, 1003] {
                let sql = format!("SELECT * FROM t WHERE k = {key}");
                assert_eq!(asked(&both.session, &sql), expected(&both.one, &sql), "{sql}");
            }
            both.refuses("UPDATE t SET k = u.n FROM u WHERE u.k = t.k");
            both.refuses("UPDATE t SET k = nextval('s')");
            let moved = both.session.query("UPDATE t SET k = (random() * 1e9)::BIGINT WHERE g = 3");
            let moved = moved.unwrap().rows_changed();
            let found =
                asked(&both.session, "SELECT count(DISTINCT k) FROM t WHERE g = 3").concat();
            assert_eq!(moved.map(|rows| rows.to_string()), found.into_iter().next());
        }
    });
}

#[test]
fn tables_are_altered_and_their_cuts_follow() {
    with_room(|| {
        let both = Both::new([hash("k"), hash("k"), Cut::Replicated]);
        for sql in [
            "ALTER TABLE t RENAME COLUMN k TO key",
            "ALTER TABLE t ADD COLUMN x INTEGER DEFAULT 3",
            "ALTER TABLE t ALTER COLUMN x TYPE BIGINT",
            "ALTER TABLE t DROP COLUMN g",
            "ALTER TABLE t RENAME TO w",
            "ALTER TABLE w ADD PRIMARY KEY (key)",
            "CREATE INDEX by_s ON w (s)",
            "CREATE UNIQUE INDEX by_key ON w (s, key)",
            "INSERT INTO w SELECT k + 1000, 'new', n FROM u",
            "WITH more AS (SELECT k + 2000 AS key FROM u) INSERT INTO w (key) FROM more",
        ] {
            both.one.query(sql).unwrap();
            both.session.query(sql).unwrap_or_else(|error| panic!("{sql}\n{error}"));
        }
        assert_eq!(both.session.cut("w"), Some(hash("key")));
        for sql in ["SELECT * FROM w", "SELECT * FROM w WHERE key = 17"] {
            assert_eq!(asked(&both.session, sql), expected(&both.one, sql), "{sql}");
        }
        let again = both.session.query("INSERT INTO w (key) VALUES (17)");
        assert!(matches!(again, Err(Error::Statement { .. })));
        for sql in [
            "ALTER TABLE w DROP COLUMN key",
            "ALTER TABLE w ALTER COLUMN key TYPE VARCHAR",
            "CREATE UNIQUE INDEX by_x ON w (x)",
            "ALTER TABLE u ADD UNIQUE (n)",
        ] {
            both.refuses(sql);
        }
        both.session.query("DROP INDEX by_s").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rows.csv");
        std::fs::write(&file, "n;k\n7;9001\n8;9002\n").unwrap();
        let copy = format!("COPY u (n, k) FROM '{}' (HEADER, DELIMITER ';')", file.display());
        both.one.query(&copy).unwrap();
        assert_eq!(both.session.query(&copy).unwrap().rows_changed(), Some(2));
        let sql = "SELECT * FROM u WHERE k > 9000";
        assert_eq!(asked(&both.session, sql), expected(&both.one, sql));
    });
}

#[test]
fn files_are_copied_by_the_types_and_names_of_the_table() {
    with_room(|| {
        let both = Both::new([hash("k"), hash("k"), Cut::Replicated]);
        let made = "CREATE TABLE f (k BIGINT, s VARCHAR, d INTEGER DEFAULT 5, at TIMESTAMPTZ \
                    DEFAULT '2000-01-01 00:00:00'::TIMESTAMPTZ)";
        both.one.query(made).unwrap();
        both.session.execute(made, &hash("k")).unwrap();
        let folder = tempfile::tempdir().unwrap();
        for (nth, rows) in
            ["s,k\n007,1\n1e3,2\n,3\n", "k,s,d,at\n4,0x1,6,2024-01-01 00:00:00\n5,true,,\n"]
                .into_iter()
                .enumerate()
        {
            let file = folder.path().join(format!("{nth}.csv"));
            std::fs::write(&file, rows).unwrap();
            let copy = format!("COPY f FROM '{}'", file.display());
            let count = both.one.query(&copy).unwrap().rows_changed();
            assert_eq!(both.session.query(&copy).unwrap().rows_changed(), count);
            let sql = "SELECT k, s, d, at::VARCHAR FROM f";
            assert_eq!(asked(&both.session, sql), expected(&both.one, sql), "{rows}");
        }
        assert_eq!(asked(&both.session, "SELECT s, d FROM f WHERE k = 1"), [["007", "5"]]);
    });
}

#[test]
fn changes_read_the_state_that_they_change() {
    with_room(|| {
        let both = Both::new([hash("k"), hash("k"), Cut::Replicated]);
        let late = both.cluster.session().unwrap();
        both.session.query("DELETE FROM u WHERE k > 3").unwrap();
        // This session has not seen that; its statement does.
        let changed = late.query("DELETE FROM t WHERE k IN (SELECT k FROM u)").unwrap();
        assert_eq!(changed.rows_changed(), Some(1));
        let added = late.query("INSERT INTO r SELECT k, g FROM u").unwrap();
        assert_eq!(added.rows_changed(), Some(1));
        // Macros that hide a subquery would read the rows of one node.
        both.session.query("CREATE MACRO most() AS (SELECT max(k) FROM t)").unwrap();
        both.refuses("DELETE FROM t WHERE k = most()");
    });
}

#[test]
fn rows_are_merged_at_their_nodes() {
    with_room(|| {
        let cuts = [
            [hash("k"), hash("n"), Cut::Replicated],
            [Cut::Replicated, hash("k"), Cut::AsItLies],
            [
                Cut::Range { column: "k".to_string(), bounds: vec!["100".into(), "400".into()] },
                Cut::AsItLies,
                Cut::Replicated,
            ],
        ];
        for cuts in cuts {
            let both = Both::new(cuts);
            both.change(
                "MERGE INTO t USING u ON t.k = u.k WHEN MATCHED AND u.n % 2 = 0 THEN DELETE \
                 WHEN MATCHED THEN UPDATE SET g = u.n, s = t.s || '!'",
            );
            both.change(
                "MERGE INTO t AS x USING (SELECT k * 5 AS key, n FROM u) q \
                 ON q.key = x.k AND x.g > 3 \
                 WHEN MATCHED THEN UPDATE SET s = 'there' \
                 WHEN NOT MATCHED THEN INSERT (k, s) VALUES (q.key, 'new ' || q.n)",
            );
            both.change(
                "MERGE INTO t USING (SELECT * FROM u WHERE n < 20) AS u ON t.k = u.k \
                 WHEN NOT MATCHED BY SOURCE AND t.k > 300 THEN DELETE",
            );
        }
        let both = Both::new([hash("k"), Cut::AsItLies, Cut::Replicated]);
        let count = count(&both.session, "t");
        for sql in [
            // It cannot be seen which node has the partner, or a row would be where nobody looks.
            "MERGE INTO t USING u ON t.g = u.g WHEN MATCHED THEN DELETE",
            "MERGE INTO t USING (SELECT k::DOUBLE AS k FROM u) AS u ON t.k = u.k \
             WHEN MATCHED THEN DELETE",
            "MERGE INTO t USING u ON t.k = u.k OR t.g = u.g WHEN MATCHED THEN DELETE",
            "MERGE INTO u USING t ON u.k = t.k WHEN MATCHED THEN DELETE",
            "MERGE INTO t USING u ON t.k = u.k WHEN NOT MATCHED THEN INSERT VALUES (9, 1, '')",
            "MERGE INTO t USING u ON t.k = u.k WHEN MATCHED THEN UPDATE SET k = t.k + 1",
        ] {
            both.refuses(sql);
        }
        assert_eq!(self::count(&both.session, "t"), count);
    });
}

#[test]
fn merges_return_their_rows() {
    with_room(|| {
        for cut in [hash("k"), Cut::Replicated] {
            let both = Both::new([cut, hash("k"), Cut::Replicated]);
            both.change(
                "MERGE INTO t USING u ON t.k = u.k WHEN MATCHED AND u.n % 3 = 0 THEN DELETE \
                 WHEN MATCHED AND u.n % 3 = 1 THEN UPDATE SET g = u.n \
                 WHEN NOT MATCHED THEN INSERT VALUES (u.k, u.g, 'new') \
                 RETURNING merge_action, t.k, g + 1 AS h, s",
            );
            // By name, the column of the cut gets the value that it has to be equal to.
            both.change(
                "MERGE INTO t USING (SELECT n AS g, k * 2 AS k, 'by name' AS s FROM u) AS q \
                 ON t.k = q.k WHEN MATCHED THEN UPDATE BY NAME \
                 WHEN NOT MATCHED THEN INSERT BY NAME RETURNING upper(merge_action) AS what, t.*",
            );
            both.change(
                "MERGE INTO t USING (VALUES (1, 'one'), (5000, 'more')) AS q(key, text) \
                 ON t.k = q.key WHEN MATCHED THEN UPDATE SET s = text \
                 WHEN NOT MATCHED THEN INSERT (k, s) VALUES (q.key, q.text) RETURNING t.k, t.s",
            );
            both.change(
                "MERGE INTO t USING u ON t.k = u.k AND t.k < 0 \
                 WHEN MATCHED THEN DELETE RETURNING *",
            );
        }
        let both = Both::new([hash("k"), hash("k"), Cut::Replicated]);
        for sql in [
            "MERGE INTO t USING (SELECT k AS q, n AS k FROM u) AS u ON t.k = u.q \
             WHEN NOT MATCHED THEN INSERT BY NAME",
            "MERGE INTO t USING (SELECT k AS q, n AS k FROM u) AS u ON t.k = u.q \
             WHEN MATCHED THEN UPDATE BY NAME",
            "MERGE INTO t USING u ON t.k = u.k WHEN MATCHED THEN DELETE \
             RETURNING (SELECT max(k) FROM u)",
            "MERGE INTO t USING u ON t.k = u.k WHEN MATCHED THEN DELETE RETURNING now()",
        ] {
            both.refuses(sql);
        }
    });
}

#[test]
fn parts_of_statements_have_their_parameters() {
    with_room(|| {
        for cuts in
            [[hash("k"), hash("k"), Cut::Replicated], [Cut::Replicated, Cut::AsItLies, hash("g")]]
        {
            let both = Both::new(cuts);
            both.change_with(
                "UPDATE t SET s = ? || s, g = (SELECT max(n) FROM u WHERE n < ?) \
                 WHERE k IN (SELECT k FROM u WHERE n > ?) AND g < ? RETURNING k, g, s",
                &["a ".into(), 90.into(), 100.into(), 30.into()],
            );
            both.change_with(
                "DELETE FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.n > $2) \
                 AND k < $1",
                &[200.into(), 20.into()],
            );
            both.change_with(
                "UPDATE t SET s = $1 || u.n FROM (SELECT k, n FROM u WHERE n <> $2) AS u \
                 WHERE t.k = u.k AND u.n > $3",
                &["from ".into(), 60.into(), 50.into()],
            );
            // Rows that may move.
            both.change_with(
                "UPDATE t SET k = k + $1 + (SELECT min(n) FROM u WHERE n > $3) WHERE g = $2",
                &[10_000.into(), 5.into(), 7.into()],
            );
            both.change_with(
                "MERGE INTO t USING (SELECT k * 5 AS key, n FROM u WHERE n < $2) q ON q.key = t.k \
                 WHEN MATCHED AND t.g > $3 THEN UPDATE SET s = $1 \
                 WHEN NOT MATCHED THEN INSERT (k, s) VALUES (q.key, $1 || q.n)",
                &["by merge ".into(), 40.into(), 3.into()],
            );
        }
        let both = Both::new([hash("k"), hash("k"), hash("g")]);
        let key = "ALTER TABLE r ADD PRIMARY KEY (g)";
        both.one.query(key).unwrap();
        both.session.query(key).unwrap();
        both.change_with(
            "INSERT INTO r VALUES ($2, 1), (1000, $1) ON CONFLICT (g) DO UPDATE \
             SET z = excluded.z + $3 WHERE r.z < $4",
            &[2.into(), 7.into(), 500.into(), 100.into()],
        );
        both.change_with(
            "INSERT INTO r SELECT g, $1 FROM r WHERE g < $2 ON CONFLICT DO UPDATE SET z = $3 + r.z",
            &[2.into(), 7.into(), 500.into()],
        );
    });
}

#[test]
fn the_moment_and_variables_are_the_same_at_all_nodes() {
    with_room(|| {
        for cut in [hash("k"), Cut::Replicated] {
            let both = Both::new([cut, hash("k"), Cut::Replicated]);
            both.one.query("SET VARIABLE x = 7; SET VARIABLE text = 'it''s'").unwrap();
            both.session.query("SET VARIABLE x = 7; SET VARIABLE text = 'it''s'").unwrap();
            both.change("DELETE FROM t WHERE k = getvariable('x')");
            both.change(
                "UPDATE t SET s = getvariable('text'), g = getvariable ( 'x' ) + g \
                 WHERE k % 2 = 0 AND k < 50 OR k IN (SELECT getvariable('x') * n FROM u)",
            );
            let session = &both.session;
            session.query("ALTER TABLE t ADD COLUMN seen TIMESTAMPTZ").unwrap();
            session.query("ALTER TABLE t ADD COLUMN day DATE").unwrap();
            let set = "UPDATE t SET seen = now(), day = current_date WHERE k > ?";
            session.query_with(set, &[0.into()]).unwrap();
            let one = "SELECT count(DISTINCT seen), count(seen) = count(*), \
                       bool_and(seen BETWEEN now() - INTERVAL 1 MINUTE AND now()), \
                       bool_and(day BETWEEN today() - 1 AND today()) FROM t";
            assert_eq!(asked(session, one), [["1", "true", "true", "true"]]);
            session
                .query(
                    "MERGE INTO t USING u ON t.k = u.k WHEN MATCHED THEN \
                     UPDATE SET seen = current_timestamp + INTERVAL 1 DAY",
                )
                .unwrap();
            let two = "SELECT count(DISTINCT seen) FROM t";
            assert_eq!(asked(session, two), [["2"]]);
            for sql in [
                "UPDATE t SET seen = now() RETURNING now()",
                "UPDATE t SET g = 1 RETURNING random()",
                "DELETE FROM t WHERE rowid = 1",
            ] {
                both.refuses(sql);
            }
        }
    });
}

#[test]
fn random_values_are_drawn_once() {
    with_room(|| {
        // Two copies of each shard.
        let nodes = nodes(4);
        let list = [[0, 1], [2, 3]].map(|of| of.map(|nth: usize| nodes[nth].place()).join(", "));
        let session = Cluster::connect(&list, Options::default()).unwrap().session().unwrap();
        let rows = "SELECT i AS k, 0.0::DOUBLE AS x, NULL::UUID AS u, i % 10 AS g \
            FROM generate_series(1, 2000) q(i)";
        let made = "CREATE TABLE t (k BIGINT PRIMARY KEY, x DOUBLE, u UUID, g BIGINT)";
        session.execute(made, &hash("k")).unwrap();
        session.query(&format!("INSERT INTO t {rows}")).unwrap();
        for (name, cut) in [("nokey", hash("g")), ("every", Cut::Replicated)] {
            session.execute(&format!("CREATE TABLE {name} AS {rows}"), &cut).unwrap();
        }
        let one = |sql: &str| asked(&session, sql).concat();
        let changed = |sql: &str| session.query(sql).unwrap().rows_changed().unwrap();
        for table in ["t", "nokey", "every"] {
            let sql = format!("UPDATE {table} SET x = random(), u = uuid() WHERE g > 4");
            assert_eq!(changed(&sql), 1000, "{table}");
            let sql = format!(
                "SELECT count(DISTINCT x) > 990, count(DISTINCT u), count(*), sum(g), min(x) = 0, \
                 max(x) < 1 FROM {table}"
            );
            assert_eq!(one(&sql), ["true", "1000", "2000", "9000", "true", "true"], "{table}");
        }
        // Which rows it is about is drawn, too.
        let returned = asked(&session, "DELETE FROM t WHERE random() < 0.5 RETURNING k, g");
        assert!((700..1300).contains(&returned.len()), "{}", returned.len());
        assert!(returned.iter().all(|row| row.len() == 2));
        assert_eq!(one("SELECT count(*) FROM t"), [(2000 - returned.len()).to_string()]);
        let gone = returned.iter().map(|row| row[0].as_str()).collect::<Vec<_>>().join(", ");
        assert_eq!(one(&format!("SELECT count(*) FROM t WHERE k IN ({gone})")), ["0"]);
        let some = changed("UPDATE t AS y SET x = x + 5, g = -1 WHERE random() < 0.5 AND y.g > 4");
        assert_eq!(one("SELECT count(*) FROM t WHERE x >= 5 AND g = -1"), [some.to_string()]);
        assert!(some > 100, "{some}");
        changed("DELETE FROM nokey WHERE k IN (SELECT k FROM every WHERE x < random())");
        for sql in
            ["DELETE FROM nokey WHERE random() < 0.5", "UPDATE every SET g = 1 WHERE u > uuid()"]
        {
            let error = session.query(sql).err().unwrap().to_string();
            assert!(error.contains("PRIMARY KEY"), "{error}");
        }
        // The other copies have the same rows.
        let sums = ["t", "nokey", "every"].map(|table| {
            format!("SELECT count(*), sum(hash(k, x, u, g) % 1000000007) FROM {table}")
        });
        let before = sums.clone().map(|sql| one(&sql));
        drop(session);
        let mut nodes = nodes;
        nodes[0].kill();
        nodes[2].kill();
        let session = Cluster::connect(&list, Options::default()).unwrap().session().unwrap();
        assert_eq!(sums.map(|sql| asked(&session, &sql).concat()), before);
    });
}

#[test]
fn tables_are_found_with_their_schema() {
    with_room(|| {
        let both = Both::new([hash("k"), hash("k"), Cut::Replicated]);
        for sql in [
            "SELECT count(*), sum(k) FROM main.t",
            "SELECT t.g, count(*) FROM main.t JOIN main.r ON t.g = r.g GROUP BY t.g",
            "SELECT main.t.k FROM main.t WHERE main.t.g = 3",
            "WITH x AS (SELECT k FROM MAIN.u) SELECT count(*) FROM x, main.t WHERE x.k = t.k",
        ] {
            assert_eq!(asked(&both.session, sql), expected(&both.one, sql), "{sql}");
        }
        for sql in [
            "UPDATE main.t SET g = g + 1 WHERE k IN (SELECT k FROM main.u)",
            "DELETE FROM main.t USING main.u WHERE t.k = u.k AND u.g = 3",
            "INSERT INTO main.t SELECT k + 1000, g, 'new' FROM main.u",
            "DELETE FROM t WHERE EXISTS (SELECT 1 FROM main.u AS \"from\" WHERE \"from\".k = t.k)",
        ] {
            both.change(sql);
        }
        assert!(both.session.query("SELECT * FROM main.missing").is_err());
        assert!(both.session.query("SELECT * FROM other.t").is_err());
    });
}

#[test]
fn rows_that_are_only_counted_come_from_one_node() {
    with_room(|| {
        let nodes = nodes(1);
        let session = cluster(&nodes).session().unwrap();
        session.query("CREATE TABLE t AS SELECT i AS n FROM generate_series(1, 100) s(i)").unwrap();
        assert_eq!(asked(&session, "SELECT count(*) FROM t WHERE n < 10"), [["9"]]);
        assert_eq!(asked(&session, "SELECT 1 FROM t WHERE n > 99"), [["1"]]);
    });
}
