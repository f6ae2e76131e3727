//! Hash joins at nodes are the database's own: built by all threads, and in temporary files where
//! they do not fit into memory.

mod common;

use common::{asked, cluster, expected, nodes, with_room};
use swingdb_cluster::{Cut, Session};

const TABLES: [(&str, &str); 2] = [
    ("a", "SELECT i AS k, i % 7 AS x FROM generate_series(1, 1200000) q(i)"),
    ("b", "SELECT i * 2 AS k, 'b' || i % 1000 AS y FROM generate_series(1, 400000) q(i)"),
];

/// Joins of all kinds, with what stands above them: groups that count on where rows are, too.
const JOINS: [&str; 8] = [
    "SELECT count(*), sum(a.x), min(b.y) FROM a JOIN b ON a.k = b.k",
    "SELECT a.x, count(*), count(b.y) FROM a LEFT JOIN b ON a.k = b.k GROUP BY a.x",
    "SELECT count(*), sum(a.x), count(b.y) FROM a FULL JOIN b ON a.k = b.k AND a.x > 2",
    "SELECT count(*), sum(x) FROM a WHERE k IN (SELECT k FROM b WHERE y <> 'b7')",
    "SELECT count(*), sum(x) FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE a.k = b.k)",
    "SELECT count(*), sum(x) FROM a WHERE k NOT IN (SELECT k FROM b)",
    "SELECT sum(n), max(n), count(*) FROM (SELECT a.k, count(*) AS n FROM a JOIN b ON a.k = b.k \
     JOIN a c ON b.k = c.k GROUP BY a.k) q",
    "SELECT a.k, a.x, b.y FROM a JOIN b ON a.k = b.k WHERE a.x = 3 ORDER BY a.k DESC LIMIT 5",
];

fn filled(session: &Session) {
    for (name, query) in TABLES {
        let cut = Cut::Hash { column: "k".to_string() };
        session.execute(&format!("CREATE TABLE {name} AS {query}"), &cut).unwrap();
    }
}

fn database() -> swingdb::Connection {
    let connection = swingdb::Database::private().unwrap().connect();
    for (name, query) in TABLES {
        connection.query(&format!("CREATE TABLE {name} AS {query}")).unwrap();
    }
    connection
}

fn plan(session: &Session, sql: &str) -> String {
    asked(session, &format!("EXPLAIN {sql}")).concat().concat()
}

#[test]
fn tables_of_joins_are_built_by_all_threads() {
    with_room(|| {
        let one = database();
        for count in [1, 2, 3] {
            let nodes = nodes(count);
            let session = cluster(&nodes).session().unwrap();
            filled(&session);
            // So many build tables together that one would build, too.
            session.query("SET threads = 8").unwrap();
            for sql in JOINS {
                let shown = plan(&session, sql);
                assert!(shown.contains("DistributedExec"), "{count} nodes: {sql}\n{shown}");
                let is_alone = sql.contains("k NOT IN") && count > 1;
                let is_shared = shown.contains("SharedHashJoinExec");
                assert!(is_shared || is_alone, "{count} nodes: {sql}\n{shown}");
                assert_eq!(asked(&session, sql), expected(&one, sql), "{count} nodes: {sql}");
            }
            // The scan of the larger table is told the keys of the smaller one, as on one machine.
            let few = "SELECT sum(a.x) FROM a JOIN (SELECT k FROM b WHERE y = 'b7') b ON a.k = b.k";
            assert!(plan(&session, few).contains("filter=DynamicFilter"), "{count} nodes");
            let told = asked(&session, &format!("EXPLAIN ANALYZE {}", JOINS[0]));
            let told = told.concat().concat();
            assert!(told.contains("SharedHashJoinExec") && told.contains("build_input_rows"));
            assert!(told.contains("output_rows=400"), "{told}");
        }
    });
}

#[test]
fn joins_that_do_not_fit_go_on_in_files() {
    with_room(|| {
        let one = database();
        for (count, less) in [(1, "12MB"), (2, "8MB")] {
            let nodes = nodes(count);
            let session = cluster(&nodes).session().unwrap();
            filled(&session);
            session.query("SET memory_limit = '16MB'").unwrap();
            for sql in [0, 1, 2, 3, 4].map(|nth| JOINS[nth]) {
                let shown = plan(&session, sql);
                assert!(shown.contains("DistributedExec"), "{count} nodes: {sql}\n{shown}");
                assert!(shown.contains("GraceHashJoinExec"), "{count} nodes: {sql}\n{shown}");
                assert_eq!(asked(&session, sql), expected(&one, sql), "{count} nodes: {sql}");
            }
            // Less than the tables take, which the engine's joins would not do with.
            session.query(&format!("SET memory_limit = '{less}'")).unwrap();
            assert_eq!(asked(&session, JOINS[0]), expected(&one, JOINS[0]), "{count} nodes");
            let analyzed = asked(&session, &format!("EXPLAIN ANALYZE {}", JOINS[0]));
            let spilled = analyzed.concat().concat();
            let join = spilled.split("GraceHashJoinExec").nth(1).unwrap_or("").to_string();
            let count = join.split("spill_count=").nth(1).and_then(|text| text.chars().next());
            assert!(count.is_some_and(|digit| digit != '0'), "{spilled}");
        }
    });
}
