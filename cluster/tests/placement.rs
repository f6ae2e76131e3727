//! Work stays where its rows are: nodes that are left out, joins and groups on the column of a cut,
//! replicated tables.

mod common;

use common::{Node, asked, cluster, expected, nodes, with_room};
use swingdb::{Connection, Database};
use swingdb_cluster::{Cut, Session};

fn hash(column: &str) -> Cut {
    Cut::Hash { column: column.to_string() }
}

fn range(column: &str, bounds: &[&str]) -> Cut {
    let bounds = bounds.iter().map(|bound| bound.to_string()).collect();
    Cut::Range { column: column.to_string(), bounds }
}

/// Tables in a cluster of three nodes, and in one database.
struct Both {
    nodes: Vec<Node>,
    session: Session,
    one: Connection,
}

impl Both {
    fn new(tables: &[(&str, Cut, &str)]) -> Self {
        let nodes = nodes(3);
        let session = cluster(&nodes).session().unwrap();
        let one = Database::private().unwrap().connect();
        for (name, cut, query) in tables {
            let sql = format!("CREATE TABLE {name} AS {query}");
            one.query(&sql).unwrap();
            session.execute(&sql, cut).unwrap();
        }
        Self { nodes, session, one }
    }

    fn plan(&self, sql: &str) -> String {
        asked(&self.session, &format!("EXPLAIN {sql}")).concat().join("\n")
    }

    fn same(&self, sql: &str) {
        assert_eq!(
            asked(&self.session, sql),
            expected(&self.one, sql),
            "{sql}\n{}",
            self.plan(sql)
        );
    }

    /// The answer is that of one database, and no rows are dealt out over the network.
    fn stays(&self, sql: &str) {
        self.same(sql);
        let plan = self.plan(sql);
        let is_moved = plan.contains("NetworkShuffle") || plan.contains("NetworkBroadcast");
        assert!(plan.contains("DistributedExec") && !is_moved, "{sql}\n{plan}");
    }

    /// The answer is that of one database, and rows are dealt out over the network.
    fn moves(&self, sql: &str) {
        self.same(sql);
        let plan = self.plan(sql);
        let is_moved = plan.contains("NetworkShuffle") || plan.contains("NetworkBroadcast");
        assert!(is_moved, "{sql}\n{plan}");
    }
}

/// The shuffles by cuts of a plan.
fn sent(plan: &str) -> usize {
    plan.matches("RepartitionExec: partitioning=Hash([partition_by_cut[").count()
}

const ROWS: &str = "SELECT i AS k, i % 50 AS g, 'row ' || i::VARCHAR AS s \
    FROM generate_series(1, 3000) AS q(i)";

#[test]
fn conditions_on_the_column_of_a_cut_leave_out_nodes() {
    with_room(|| {
        let days = "SELECT DATE '2024-01-01' + (i % 300)::INTEGER AS d, i AS n \
            FROM generate_series(1, 3000) AS q(i)";
        let bounds = ["DATE '2024-04-01'", "DATE '2024-07-01'"];
        let mut both = Both::new(&[
            ("h", hash("k"), ROWS),
            ("t", hash("s"), ROWS),
            ("r", range("d", &bounds), days),
        ]);
        for (sql, count) in [
            ("SELECT * FROM h WHERE k = 17", 1),
            ("SELECT * FROM h WHERE 17 = k AND g > 3", 1),
            ("SELECT * FROM t WHERE s = 'row 17'", 1),
            ("SELECT count(*), sum(g) FROM h WHERE k = 17 OR k = 17 + 0", 1),
            ("SELECT sum(k) FROM h WHERE k > 17", 3),
            ("SELECT * FROM h WHERE k IS NULL", 1),
            ("SELECT * FROM r WHERE d = DATE '2024-05-05'", 1),
            ("SELECT sum(n) FROM r WHERE d >= DATE '2024-04-01' AND d < DATE '2024-06-30'", 1),
            ("SELECT sum(n) FROM r WHERE d BETWEEN DATE '2024-03-01' AND DATE '2024-04-30'", 2),
            ("SELECT sum(n) FROM r WHERE d > DATE '2024-04-01'", 2),
            ("SELECT sum(n) FROM r WHERE d <> DATE '2024-04-01'", 3),
        ] {
            both.same(sql);
            let plan = both.plan(sql);
            assert!(plan.contains(&format!("{count} of 3 nodes=[")), "{sql}\n{plan}");
        }
        // Which node has which key.
        let asked_for = |key: u32| {
            let plan = both.plan(&format!("SELECT * FROM h WHERE k = {key}"));
            both.nodes.iter().position(|node| plan.contains(&node.address)).unwrap()
        };
        let here = (1..).find(|key| asked_for(*key) == 0).unwrap();
        let there = (1..).find(|key| asked_for(*key) == 2).unwrap();
        // Those that are left out are not needed at all.
        both.nodes[1].kill();
        both.nodes[2].kill();
        both.same(&format!("SELECT * FROM h WHERE k = {here}"));
        both.same(&format!("SELECT count(*), max(s) FROM h WHERE k = {here} GROUP BY g"));
        both.same(&format!("SELECT h.g, t.s FROM h JOIN h AS t USING (k) WHERE k = {here}"));
        both.same(
            "SELECT g, count(*) FROM r, h WHERE d < DATE '2024-03-01' AND k = n AND k IS NULL \
            GROUP BY g",
        );
        let lost = both.session.query(&format!("SELECT * FROM h WHERE k = {there}"));
        assert!(lost.and_then(|rows| rows.collect()).is_err());
    });
}

#[test]
fn joins_and_groups_on_the_column_of_a_cut_stay_at_their_nodes() {
    with_room(|| {
        let both = Both::new(&[
            ("a", hash("k"), ROWS),
            (
                "b",
                hash("n"),
                "SELECT i * 2 AS n, i % 7 AS x, CASE WHEN i % 5 > 0 THEN i END AS o \
                FROM generate_series(1, 2500) AS q(i)",
            ),
            ("c", hash("k"), "SELECT i AS k, i * 3 AS y FROM generate_series(2900, 3100) AS q(i)"),
            ("lies", Cut::AsItLies, ROWS),
            ("r", range("k", &["1000", "2000"]), ROWS),
            ("q", range("k", &["1000", "2000"]), ROWS),
            ("other", range("k", &["500", "2000"]), ROWS),
            (
                "wide",
                hash("k"),
                "SELECT i % 9000 AS k, (i * 7) % 20000 AS i FROM generate_series(1, 20000) AS q(i)",
            ),
        ]);
        for join in ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"] {
            both.stays(&format!("SELECT k, s, x FROM a {join} b ON k = n"));
            both.stays(&format!("SELECT a.k, s, y FROM a {join} c ON a.k = c.k"));
            both.stays(&format!("SELECT r.s, q.g FROM r {join} q ON r.k = q.k AND r.g < q.k"));
            both.moves(&format!("SELECT r.s, o.g FROM r {join} other o ON r.k = o.k"));
            both.moves(&format!("SELECT a.s, l.g FROM a {join} lies l ON a.k = l.k"));
            both.moves(&format!("SELECT a.s, l.g FROM a {join} r l ON a.k = l.k"));
            both.moves(&format!("SELECT a.s, l.g FROM a {join} a l ON a.k = l.g"));
        }
        for sql in [
            "SELECT k, count(*), max(s) FROM a GROUP BY k",
            "SELECT k, g, count(DISTINCT s) FROM a GROUP BY k, g",
            "SELECT DISTINCT k, g FROM a WHERE g < 10",
            "SELECT k + 1, c FROM (SELECT k, count(*) AS c FROM r GROUP BY k) WHERE c > 0",
            "SELECT k, sum(x) FROM a JOIN b ON k = n GROUP BY k",
            "SELECT n, sum(x) FROM a JOIN b ON k = n GROUP BY n",
            "SELECT a.k, b.x, c.y FROM a JOIN b ON a.k = b.n JOIN c ON c.k = a.k",
            "SELECT k FROM a WHERE k IN (SELECT n FROM b WHERE x = 3)",
            "SELECT k FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE n = a.k)",
            "SELECT k, g, row_number() OVER (PARTITION BY k ORDER BY g) FROM a",
            "SELECT q.k, q.t, x FROM (SELECT k, sum(g) AS t FROM a GROUP BY k) q \
                JOIN b ON q.k = b.n",
        ] {
            both.stays(sql);
        }
        for sql in [
            // The column of the cut is not among the keys, or has NULLs of an outer join.
            "SELECT i, count(*) FROM wide GROUP BY i",
            "SELECT i, count(*) FROM a LEFT JOIN wide ON a.k = wide.k GROUP BY i",
            "SELECT a.k, b.n FROM a JOIN b ON a.k = b.o",
            "SELECT i + 1, count(*) FROM wide GROUP BY 1",
            // One side stays and the other cannot.
            "SELECT q.k, t, l.s FROM (SELECT k, sum(g) AS t FROM a GROUP BY k) q \
                JOIN lies l ON q.k = l.k",
            "SELECT q.k, t, z FROM (SELECT k, sum(g) AS t FROM a GROUP BY k) q \
                FULL JOIN (SELECT k, count(*) AS z FROM lies GROUP BY k) l ON q.k = l.k",
            "SELECT q.k, t, z FROM (SELECT k, sum(g) AS t FROM a GROUP BY k) q \
                LEFT JOIN (SELECT k, count(*) AS z FROM r GROUP BY k) l ON q.k = l.k",
            "SELECT k, count(*) FROM (SELECT k FROM wide UNION ALL SELECT i FROM wide) GROUP BY k",
        ] {
            both.moves(sql);
        }
        both.same("SELECT k, count(*) FROM (SELECT k FROM a UNION ALL SELECT n FROM b) GROUP BY k");
        both.same("SELECT k, count(*) FROM a GROUP BY GROUPING SETS ((k), ())");
        // Pruned on one side only.
        both.stays("SELECT a.k, x FROM a LEFT JOIN (SELECT * FROM b WHERE n = 18) b ON k = n");
        both.stays(
            "SELECT q.s, r.s FROM r RIGHT JOIN (SELECT * FROM q WHERE k > 1500) q USING (k)",
        );
        both.same("SELECT k FROM a WHERE k NOT IN (SELECT o FROM b)");
        both.same("SELECT k FROM a WHERE k NOT IN (SELECT n FROM b)");
    });
}

#[test]
fn one_side_of_a_join_is_sent_to_the_nodes_of_the_other() {
    with_room(|| {
        let more = "SELECT i AS n, CASE WHEN i % 9 > 0 THEN (i * 7) % 3100 END AS f, \
            'row ' || ((i * 7) % 3100)::VARCHAR AS t, i % 4 AS m \
            FROM generate_series(1, 6000) AS q(i)";
        let both = Both::new(&[
            ("a", hash("k"), ROWS),
            ("texts", hash("s"), ROWS),
            ("r", range("k", &["1000", "2000"]), ROWS),
            ("far", hash("n"), more),
            ("lies", Cut::AsItLies, more),
        ]);
        let joins = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"];
        for (table, key, of) in
            [("a", "k", "f"), ("r", "k", "f"), ("texts", "s", "t"), ("a", "k", "n + 1")]
        {
            for (other, join) in ["far", "lies"].into_iter().flat_map(|o| joins.map(|j| (o, j))) {
                for sql in [
                    format!(
                        "SELECT g, m, s, t FROM {table} x {join} {other} y ON x.{key} = y.{of}"
                    ),
                    format!("SELECT g, n FROM {other} y {join} {table} x ON x.{key} = y.{of}"),
                    format!(
                        "SELECT {key}, count(*), sum(m) FROM {table} x {join} {other} y \
                         ON x.{key} = y.{of} AND x.g = y.m GROUP BY {key}"
                    ),
                ] {
                    both.same(&sql);
                    let plan = both.plan(&sql);
                    let is_broadcast = plan.contains("NetworkBroadcast");
                    assert!(sent(&plan) == 1 && !is_broadcast, "{sql}\n{plan}");
                }
            }
        }
        for (sql, count) in [
            ("SELECT k FROM a WHERE k IN (SELECT f FROM far WHERE m > 0)", 1),
            ("SELECT k FROM a WHERE NOT EXISTS (SELECT 1 FROM lies WHERE f = k)", 1),
            ("SELECT n FROM far WHERE NOT EXISTS (SELECT 1 FROM a WHERE f = k)", 1),
            ("SELECT x.k, y.n FROM a x JOIN far y ON x.k IS NOT DISTINCT FROM y.f", 1),
            // Rows that have come to a node by a cut meet further ones there.
            ("SELECT y.n, z.g FROM a x JOIN far y ON x.k = y.f JOIN a z ON y.f = z.k", 1),
            ("SELECT y.n, z.n FROM a x JOIN far y ON x.k = y.f JOIN lies z ON z.f = x.k", 2),
            // Only one node has rows of one side.
            ("SELECT n, s FROM (SELECT * FROM a WHERE k = 77) x RIGHT JOIN far y ON x.k = y.f", 0),
        ] {
            both.same(sql);
            let plan = both.plan(sql);
            assert_eq!(sent(&plan), count, "{sql}\n{plan}");
        }
        // Each input of a union has some of the nodes only.
        both.same(
            "SELECT k, n FROM a JOIN far ON k = f UNION ALL SELECT k, n FROM a JOIN lies ON k = f",
        );
        both.same("SELECT k FROM a WHERE k NOT IN (SELECT f FROM far WHERE f IS NOT NULL)");
        both.same("SELECT k FROM a WHERE k NOT IN (SELECT f FROM far)");
    });
}

#[test]
fn few_groups_are_put_together_by_one_task() {
    with_room(|| {
        let both = Both::new(&[
            ("a", hash("k"), ROWS),
            (
                "many",
                hash("k"),
                "SELECT i AS k, (i * 7) % 90000 AS g FROM generate_series(1, 100000) AS q(i)",
            ),
            ("lies", Cut::AsItLies, ROWS),
        ]);
        for sql in [
            "SELECT g, count(*), min(s) FROM a GROUP BY g",
            "SELECT DISTINCT g FROM lies",
            "SELECT g, sum(k) AS t FROM lies GROUP BY g HAVING sum(k) > 10 ORDER BY t, g LIMIT 7",
            "SELECT a.g, count(*) FROM a JOIN many ON a.k = many.k GROUP BY a.g",
        ] {
            both.same(sql);
            let plan = both.plan(sql);
            let is_one = plan.contains("mode=Final,") && !plan.contains("NetworkShuffle");
            assert!(is_one && plan.contains("DistributedExec"), "{sql}\n{plan}");
        }
        for sql in [
            "SELECT g, count(*) FROM many GROUP BY g",
            // Joins count on the partitions of both inputs.
            "SELECT x.g, c, d FROM (SELECT g, count(*) AS c FROM many GROUP BY g) x FULL JOIN \
                (SELECT g, sum(k) AS d FROM lies GROUP BY g) y ON x.g = y.g",
        ] {
            both.same(sql);
            let plan = both.plan(sql);
            assert!(plan.contains("NetworkShuffle"), "{sql}\n{plan}");
        }
    });
}

#[test]
fn scans_at_nodes_are_told_what_joins_have_found() {
    with_room(|| {
        let both = Both::new(&[
            ("a", hash("k"), ROWS),
            ("lies", Cut::AsItLies, ROWS),
            ("c", hash("k"), "SELECT i AS k, i * 3 AS y FROM generate_series(2900, 3100) AS q(i)"),
            (
                "small",
                Cut::Replicated,
                "SELECT i AS g, 'g' || i::VARCHAR AS t FROM generate_series(0, 60) AS q(i)",
            ),
        ]);
        for sql in [
            // On the column of the cut, by a broadcast, with a table that is everywhere.
            "SELECT a.s, y FROM c JOIN a ON a.k = c.k WHERE y % 7 = 0",
            "SELECT l.s, y FROM c JOIN lies l ON l.k = c.k WHERE y % 7 = 0",
            "SELECT a.k, t FROM small JOIN a ON a.g = small.g WHERE t LIKE '%5'",
            "SELECT k, s FROM a ORDER BY s DESC, k LIMIT 5",
        ] {
            both.same(sql);
            let plan = both.plan(sql);
            assert!(plan.contains("filter=DynamicFilter"), "{sql}\n{plan}");
        }
        // Rows behind the first ones do not take the places of those that are left out.
        for sql in [
            "SELECT count(*) FROM (SELECT k FROM a LIMIT 1000) q JOIN c ON q.k = c.k + 9000",
            "SELECT a.s, y FROM c RIGHT JOIN a ON a.k = c.k",
            "SELECT a.k FROM a WHERE NOT EXISTS (SELECT 1 FROM c WHERE c.k = a.k)",
        ] {
            both.same(sql);
        }
    });
}

#[test]
fn values_of_subqueries_are_computed_first() {
    with_room(|| {
        let both = Both::new(&[("a", hash("k"), ROWS), ("lies", Cut::AsItLies, ROWS)]);
        for sql in [
            "SELECT g, count(*) FROM a WHERE k > (SELECT avg(k) FROM lies) GROUP BY g",
            "SELECT k, (SELECT max(g) FROM lies) AS m FROM a WHERE g = (SELECT min(g) FROM a)",
            "SELECT k FROM a WHERE k < (SELECT avg(k) FROM a WHERE g > (SELECT avg(g) FROM lies))",
            "SELECT g, sum(k) AS s FROM a GROUP BY g HAVING sum(k) > (SELECT sum(k) / 51 FROM a)",
            "SELECT k FROM a WHERE k = (SELECT k FROM lies WHERE k < 0)",
        ] {
            both.same(sql);
            let plan = both.plan(sql);
            let asks = plan.contains("Query 1, whose rows are asked for first");
            assert!(plan.contains("DistributedExec") && asks, "{sql}\n{plan}");
        }
        let several = both.session.query("SELECT k FROM a WHERE k = (SELECT k FROM lies)");
        let error = several.and_then(|rows| rows.collect()).err().unwrap().to_string();
        assert!(error.contains("more than one row"), "{error}");
    });
}

#[test]
fn replicated_tables_are_read_where_they_are_needed() {
    with_room(|| {
        let both = Both::new(&[
            ("a", hash("k"), ROWS),
            ("lies", Cut::AsItLies, ROWS),
            (
                "small",
                Cut::Replicated,
                "SELECT i AS g, 'g' || i::VARCHAR AS t, i % 3 AS m \
                FROM generate_series(0, 60) AS q(i)",
            ),
            (
                "tiny",
                Cut::Replicated,
                "SELECT i AS m, i * 10 AS z FROM generate_series(0, 2) AS q(i)",
            ),
        ]);
        for sql in [
            "SELECT k, t FROM a JOIN small USING (g)",
            "SELECT k, t FROM a LEFT JOIN small ON a.g = small.g AND t LIKE '%1%'",
            "SELECT k, t, z FROM a JOIN small USING (g) JOIN tiny USING (m)",
            "SELECT k FROM a WHERE g IN (SELECT g FROM small WHERE m = 1)",
            "SELECT k FROM a WHERE g NOT IN (SELECT g FROM small WHERE m = 1)",
            "SELECT k, count(*) FROM a JOIN small USING (g) GROUP BY k",
            "SELECT k, t FROM a, small WHERE a.g < small.g AND k < 100",
        ] {
            both.same(sql);
            let plan = both.plan(sql);
            assert!(!plan.contains("NetworkShuffle"), "{sql}\n{plan}");
        }
        let plan = both.plan("SELECT k, t FROM a JOIN small USING (g)");
        assert!(!plan.contains("NetworkBroadcast") && plan.contains("one of nodes="), "{plan}");
        // Each of its rows is there once.
        for sql in [
            "SELECT count(*), sum(g) FROM small",
            "SELECT t, k FROM small LEFT JOIN a USING (g)",
            "SELECT t FROM small WHERE g NOT IN (SELECT g FROM a)",
            "SELECT t FROM small WHERE EXISTS (SELECT 1 FROM a WHERE a.g = small.g)",
            "SELECT t, k FROM small FULL JOIN a ON small.g = a.k",
            "SELECT g FROM small UNION ALL SELECT g FROM a",
            "SELECT g FROM small EXCEPT SELECT k FROM a",
            "SELECT g, count(*) FROM (SELECT g FROM small UNION ALL SELECT k FROM a) GROUP BY g",
            "SELECT s.g, l.g FROM small s JOIN small l ON s.g = l.m",
            "SELECT count(*) FROM small, tiny, lies WHERE lies.k < tiny.z",
            "SELECT l.k, s.t FROM lies l LEFT JOIN (SELECT * FROM small ORDER BY g LIMIT 5) s \
                ON l.g = s.g",
        ] {
            both.same(sql);
        }
    });
}

#[test]
fn bounds_mean_the_same_in_all_sessions() {
    with_room(|| {
        let nodes = nodes(2);
        let cluster = cluster(&nodes);
        let session = |zone: &str| {
            let session = cluster.session().unwrap();
            session.query(&format!("SET timezone = '{zone}'")).unwrap();
            session.refresh().unwrap();
            session
        };
        let first = session("Asia/Tokyo");
        let rows = "CREATE TABLE z AS SELECT i, TIMESTAMPTZ '2023-12-31 12:00:00+00' \
             + i * INTERVAL '1 hour' AS ts FROM generate_series(0, 11) AS q(i)";
        first.execute(rows, &range("ts", &["'2024-01-01 00:00:00'"])).unwrap();
        for zone in ["UTC", "Asia/Tokyo", "America/New_York"] {
            let other = session(zone);
            for hour in 0..12 {
                let at = format!("TIMESTAMPTZ '2023-12-31 {}:00:00+00'", 12 + hour);
                let query = format!("SELECT i FROM z WHERE ts = {at}");
                assert_eq!(asked(&other, &query), [[hour.to_string()]], "{zone} {at}");
                let plan = asked(&other, &format!("EXPLAIN {query}")).concat().join("\n");
                assert!(plan.contains("1 of 2 nodes"), "{plan}");
                let update = format!("UPDATE z SET i = i WHERE ts = {at}");
                assert_eq!(other.query(&update).unwrap().rows_changed(), Some(1), "{zone} {at}");
            }
        }
        // What is another value each time is computed once.
        let sql = "CREATE TABLE r AS SELECT i AS k FROM generate_series(0, 99) AS q(i)";
        first.execute(sql, &range("k", &["(random() * 100)::INTEGER"])).unwrap();
        let other = session("UTC");
        for key in 0..100 {
            let query = format!("SELECT k FROM r WHERE k = {key}");
            assert_eq!(asked(&other, &query), [[key.to_string()]]);
        }
    });
}

#[test]
fn bounds_that_do_not_ascend_are_refused() {
    with_room(|| {
        let nodes = nodes(3);
        let session = cluster(&nodes).session().unwrap();
        for bounds in [["20", "10"], ["NULL", "10"], ["10", "CAST(NULL AS INTEGER)"]] {
            let made = session.execute("CREATE TABLE t (k INTEGER)", &range("k", &bounds));
            let message = made.err().unwrap().to_string();
            assert!(message.contains("of its cut"), "{message}");
        }
        session.execute("CREATE TABLE t (k INTEGER)", &range("k", &["10", "10"])).unwrap();
        assert_eq!(session.cut("t"), Some(range("k", &["10", "10"])));
        let (sql, cut) =
            ("CREATE TABLE d (d DATE)", range("d", &["DATE '2024-01-01'", "'2025-1-1'"]));
        session.execute(sql, &cut).unwrap();
        let kept = ["DATE '2024-01-01'", "CAST('2025-01-01' AS DATE)"];
        assert_eq!(session.cut("d"), Some(range("d", &kept)));
    });
}

#[test]
fn operators_of_the_database_run_at_nodes_or_are_left_out() {
    with_room(|| {
        let both = Both::new(&[("a", hash("k"), ROWS), ("lies", Cut::AsItLies, ROWS)]);
        for sql in [
            "SELECT k, g FROM (SELECT *, row_number() OVER (PARTITION BY g ORDER BY k DESC) AS r \
             FROM a) WHERE r <= 2",
            "SELECT k, g FROM lies QUALIFY rank() OVER (PARTITION BY g ORDER BY k % 9, s IS NULL) \
             < 3",
        ] {
            both.same(sql);
            let plan = both.plan(sql);
            let has = |name: &str| plan.contains(name);
            assert!(has("DistributedExec") && has("TopOfGroupsExec"), "{sql}\n{plan}");
        }
        both.stays("SELECT k, g FROM a QUALIFY row_number() OVER (PARTITION BY k ORDER BY g) <= 1");
        // Where the coordinator has little memory.
        both.session.query("SET memory_limit = '400KB'").unwrap();
        for sql in [
            "SELECT a.s, l.s AS t FROM a JOIN lies AS l ON a.g = l.g",
            "SELECT s, k FROM lies ORDER BY s",
        ] {
            let plan = both.plan(sql);
            assert!(plan.contains("DistributedExec"), "{sql}\n{plan}");
        }
    });
}

#[test]
fn windows_are_sent_with_all_that_they_say() {
    with_room(|| {
        let both = Both::new(&[("a", hash("k"), ROWS)]);
        let plain = "SELECT k, lag(g) OVER (PARTITION BY g ORDER BY k), \
             sum(k) OVER (PARTITION BY g ORDER BY k ROWS 1 PRECEDING) FROM a";
        both.same(plain);
        let done = carried_out(&both.session, plain);
        let (above, stages) = done.split_once("Stage").unwrap();
        assert!(stages.contains("WindowAggExec") && !above.contains("WindowAggExec"), "{done}");
        for function in [
            "lag(nullif(k % 7, 3) IGNORE NULLS)",
            "lead(nullif(k % 7, 3), 2, -1 IGNORE NULLS)",
            "first_value(nullif(k % 7, 3) IGNORE NULLS)",
            "nth_value(nullif(k % 7, 3), 2 IGNORE NULLS)",
            "sum(k) FILTER (WHERE k % 3 = 1)",
            "list(DISTINCT k % 3)",
        ] {
            for over in [
                "PARTITION BY g ORDER BY k",
                "PARTITION BY k ORDER BY g",
                "PARTITION BY g ORDER BY k DESC ROWS 2 PRECEDING",
                "PARTITION BY g ORDER BY k ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
            ] {
                both.same(&format!(
                    "SELECT k, {function} OVER ({over}), row_number() OVER ({over}), \
                     last_value(k) OVER (PARTITION BY g ORDER BY k DESC) FROM a"
                ));
            }
        }
    });
}

/// What runs at nodes, by EXPLAIN ANALYZE: there keys have been asked for.
fn carried_out(session: &Session, sql: &str) -> String {
    asked(session, &format!("EXPLAIN ANALYZE {sql}")).concat().join("\n")
}

#[test]
fn few_keys_of_joins_are_asked_for_first() {
    with_room(|| {
        let few = "SELECT i AS n, i % 7 AS x, nullif(i % 40, 3) AS h FROM range(200) AS q(i)";
        let both = Both::new(&[("a", hash("k"), ROWS), ("b", hash("n"), few)]);
        for sql in [
            // Below groups of another column than that of the cut.
            "SELECT n, t FROM b JOIN (SELECT g, sum(k) AS t FROM a GROUP BY g) q \
             ON n = g WHERE x = 3",
            "SELECT n, t FROM b LEFT JOIN (SELECT g, sum(k) AS t FROM a GROUP BY g) q ON h = g \
             WHERE x = 3",
            "SELECT g, t FROM (SELECT g, sum(k) AS t FROM a GROUP BY g) q \
             RIGHT JOIN b ON n = g WHERE x = 3",
            // Where each row of the few comes out once, it cannot be sent to all nodes.
            "SELECT n FROM b WHERE x = 3 AND NOT EXISTS (SELECT * FROM a WHERE g = n)",
            // None.
            "SELECT n, t FROM b JOIN (SELECT g, sum(k) AS t FROM a GROUP BY g) q \
             ON n = g WHERE x = 9",
        ] {
            both.same(sql);
            assert!(both.plan(sql).contains("Query 1"), "{sql}\n{}", both.plan(sql));
            let done = carried_out(&both.session, sql);
            let is_told = |line: &str| line.contains("table=a") && line.contains("conditions=1");
            let is_empty = sql.ends_with("x = 9");
            assert!(done.lines().any(is_told) || is_empty, "{sql}\n{done}");
            let (_, before) = done.split_once("Query 1, whose rows are asked for first").unwrap();
            assert!(before.contains("table=b") && before.contains("output_rows="), "{sql}\n{done}");
        }
        for sql in [
            "SELECT k FROM a WHERE k IN \
             (SELECT n FROM b GROUP BY n HAVING count(*) > 0 AND n < 20)",
            "SELECT k FROM a WHERE g IN (SELECT h FROM b GROUP BY h HAVING sum(x) > 15)",
            "SELECT k FROM a WHERE g IN (SELECT h FROM b GROUP BY h HAVING sum(x) > 1500)",
        ] {
            both.same(sql);
            let done = carried_out(&both.session, sql);
            assert!(!done.contains("JoinExec"), "{sql}\n{done}");
        }
        // Not for rows that come out without a match, that are drawn, or that lie with the others.
        for sql in [
            "SELECT n FROM b WHERE x = 3 AND NOT EXISTS (SELECT * FROM a WHERE k = n)",
            "SELECT g, t, n FROM (SELECT g, sum(k) AS t FROM a GROUP BY g) q \
             LEFT JOIN (SELECT * FROM b WHERE x = 3) AS b ON n = g",
            "SELECT g, n FROM (SELECT g, sum(k) AS t FROM a GROUP BY g) q \
             FULL JOIN (SELECT * FROM b WHERE x = 3) AS b ON n = g",
        ] {
            both.same(sql);
            let done = carried_out(&both.session, sql);
            let is_told = |line: &str| line.contains("table=a") && line.contains("conditions=1");
            assert!(!done.lines().any(is_told), "{sql}\n{done}");
        }
    });
}

#[test]
fn a_plan_of_one_node_runs_there() {
    with_room(|| {
        let both = Both::new(&[("a", hash("k"), ROWS), ("r", Cut::Replicated, ROWS)]);
        for sql in [
            "SELECT g, count(*) FROM a WHERE k = 17 GROUP BY g",
            "SELECT s, count(*) FROM r GROUP BY s ORDER BY s LIMIT 3",
            "SELECT a.s, r.g FROM a JOIN r ON a.g = r.k WHERE a.k = 40",
        ] {
            both.same(sql);
            let plan = both.plan(sql);
            assert!(plan.contains("DistributedExec"), "{sql}\n{plan}");
            let done = carried_out(&both.session, sql);
            assert!(done.contains("tasks=1") && done.contains("output_rows"), "{sql}\n{done}");
        }
    });
}

/// A plan that only the coordinator can carry out reads what nodes have made of the rows.
#[test]
fn parts_of_a_plan_that_stays_at_the_coordinator_run_at_nodes() {
    with_room(|| {
        let both = Both::new(&[("a", hash("k"), ROWS), ("b", hash("g"), ROWS)]);
        let groups = "SELECT g, sum(k) AS t FROM a GROUP BY g";
        let rest = "SELECT x.g, x.t, y.t FROM s AS x JOIN s AS y ON x.g = y.g + 1";
        for sql in [
            // Computed once: the sum of what was drawn meets itself.
            format!(
                "WITH s AS (SELECT g, sum(k) + 0 * floor(random()) AS t FROM a GROUP BY g) {rest}"
            ),
            format!("WITH s AS (SELECT * FROM ({groups}) ORDER BY t DESC LIMIT 7) {rest}"),
            // Within a subquery, too.
            format!(
                "WITH s AS (SELECT * FROM ({groups}) ORDER BY t DESC LIMIT 7) \
                 SELECT g FROM s WHERE t = (SELECT max(t) FROM s)"
            ),
            // One part in another, and both by name.
            format!(
                "WITH s AS (SELECT * FROM ({groups}) ORDER BY t DESC LIMIT 9), \
                 u AS (SELECT * FROM s ORDER BY g LIMIT 4) \
                 SELECT s.g, p.g, q.g FROM s, u AS p, u AS q WHERE p.g < q.g AND s.g > q.g"
            ),
            format!(
                "WITH RECURSIVE n AS (SELECT min(t) AS v FROM ({groups}) UNION ALL \
                 SELECT v + 1 FROM n WHERE v < (SELECT min(t) + 5 FROM ({groups}))) SELECT v FROM n"
            ),
            format!(
                "SELECT p.t, q.t FROM ({groups}) AS p ASOF JOIN ({groups}) AS q ON p.t > q.t + 100"
            ),
        ] {
            both.same(&format!("SELECT * FROM ({sql}) ORDER BY ALL"));
            let plan = both.plan(&sql);
            let staged = plan.split("StagedExec").nth(1).unwrap_or_else(|| panic!("{sql}\n{plan}"));
            assert!(staged.contains("DistributedExec"), "{sql}\n{plan}");
            // No table is read besides.
            let is_read = |line: &str| line.trim_start().starts_with("ShardScan");
            assert!(!plan.lines().any(is_read), "{sql}\n{plan}");
            let done = carried_out(&both.session, &sql);
            let staged = done.split("StagedExec").nth(1).unwrap_or_else(|| panic!("{sql}\n{done}"));
            // What the scans have done at their nodes.
            let has_figures = |line: &str| line.contains("bytes_scanned=");
            assert!(staged.lines().any(has_figures), "{sql}\n{done}");
        }
    });
}

/// Rows that are at the same node are joined first, also where others would leave fewer.
#[test]
fn the_order_of_joins_counts_what_moves() {
    with_room(|| {
        let lines = "SELECT i % 3000 AS k, i AS v FROM generate_series(1, 9000) AS q(i)";
        let people = "SELECT i AS p, i::VARCHAR AS name, 'a' || i::VARCHAR AS a, \
            'b' || i::VARCHAR AS b, 'c' || i::VARCHAR AS c, 'd' || i::VARCHAR AS d \
            FROM generate_series(1, 2000) AS q(i)";
        let orders =
            "SELECT i AS k, i % 2000 AS p, i % 3 AS g FROM generate_series(1, 3000) AS q(i)";
        let both = Both::new(&[
            ("lines", hash("k"), lines),
            ("orders", hash("k"), orders),
            ("people", hash("p"), people),
        ]);
        let sql = "SELECT name, a, b, c, d, sum(v) FROM people JOIN orders ON people.p = orders.p \
            JOIN lines ON lines.k = orders.k WHERE g = 1 GROUP BY ALL";
        both.same(sql);
        let plan = both.plan(sql);
        // Orders and their lines go to the people, and not the people to the lines.
        assert_eq!(sent(&plan), 1, "{plan}");
        let at = |join: &str| plan.find(&format!("Inner Join: {join}")).unwrap();
        assert!(at("people.p = orders.p") < at("orders.k = lines.k"), "{plan}");
    });
}
