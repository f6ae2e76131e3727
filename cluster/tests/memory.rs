//! `SET memory_limit` of a session holds at each node for all that runs there for it.

mod common;

use common::{Node, asked, cluster, nodes, texts, with_room};
use swingdb_cluster::{Cut, Error, Session};

/// A join whose rows are where they are needed: nodes hold one side, and the coordinator nothing.
const JOIN: &str = "SELECT a.n, b.s FROM t a JOIN t b ON a.n = b.n";

/// Less than the join needs, and enough to plan it.
const LITTLE: u64 = 1 << 18;

fn filled(count: usize) -> (Vec<Node>, Session) {
    let nodes = nodes(count);
    let session = cluster(&nodes).session().unwrap();
    let sql = "CREATE TABLE t AS SELECT i AS n, 'row number ' || i AS s \
               FROM generate_series(1, 100000) q(i)";
    session.execute(sql, &Cut::Hash { column: "n".to_string() }).unwrap();
    (nodes, session)
}

/// The rows of a statement, counted as they come.
fn read(session: &Session, sql: &str) -> Result<usize, Error> {
    let rows = session.query(sql)?;
    rows.map(|batch| batch.map(|batch| batch.num_rows())).sum()
}

fn set(session: &Session, bytes: u64) {
    session.query(&format!("SET memory_limit = '{bytes}'")).unwrap();
}

/// The node that is out of memory.
fn short(error: &Error) -> &str {
    match error {
        Error::NodeFailed { node, message } if message.contains("out of memory") => node,
        other => panic!("{other:?}"),
    }
}

/// The least power of two that is enough.
fn enough(session: &Session, sql: &str, nodes: &[Node]) -> u64 {
    for shift in LITTLE.trailing_zeros()..30 {
        set(session, 1 << shift);
        match read(session, sql) {
            Ok(rows) => {
                assert!(
                    1 << shift > LITTLE && rows == 100_000,
                    "{rows} rows with {} bytes",
                    1 << shift
                );
                return 1 << shift;
            }
            Err(error) => {
                let node = short(&error);
                assert!(nodes.iter().any(|one| one.address == node), "{error}");
            }
        }
    }
    panic!("nothing is enough");
}

#[test]
fn a_statement_that_needs_more_fails_and_names_the_node() {
    with_room(|| {
        let (nodes, session) = filled(2);
        let other = cluster(&nodes).session().unwrap();
        let least = enough(&session, JOIN, &nodes);
        println!("{least} bytes are enough");
        set(&session, LITTLE);
        short(&read(&session, JOIN).unwrap_err());
        // Other sessions have limits of their own, and what has failed leaves nothing.
        assert_eq!(read(&other, JOIN).unwrap(), 100_000);
        // What a run needs depends on which parts of it are ahead of others.
        set(&session, least * 4);
        assert_eq!(read(&session, JOIN).unwrap(), 100_000);
        set(&session, LITTLE);
        session.query("RESET memory_limit").unwrap();
        assert_eq!(read(&session, JOIN).unwrap(), 100_000);
    });
}

#[test]
fn changes_at_nodes_have_the_limit_too() {
    with_room(|| {
        let (nodes, session) = filled(2);
        let update = "UPDATE t SET s = s || ' and a text that is longer'";
        set(&session, 1 << 16);
        let error = session.query(update).err().unwrap();
        let node = short(&error).to_string();
        assert!(nodes.iter().any(|one| one.address == node), "{error}");
        let long = "SELECT count(*) FROM t WHERE s LIKE '%longer'";
        assert_eq!(asked(&session, long), [["0"]]);
        // It can be set inside of a transaction.
        session.query("BEGIN").unwrap();
        session.query("RESET memory_limit").unwrap();
        session.query(update).unwrap();
        session.query("COMMIT").unwrap();
        assert_eq!(asked(&session, long), [["100000"]]);
    });
}

/// With little memory a statement gives the right rows or says that it is too little, and ends.
#[test]
fn exchanges_that_go_to_a_disk_end() {
    const SORT: &str = "SELECT count(*), sum(r), max(s) FROM (SELECT g, s, row_number() OVER \
                        (PARTITION BY g ORDER BY n) r FROM t) q";
    const GROUPS: &str = "SELECT count(*), sum(c) FROM (SELECT g, count(DISTINCT s) c FROM t \
                          GROUP BY g) q";
    with_room(|| {
        let nodes = nodes(2);
        let first = cluster(&nodes).session().unwrap();
        let sql = "CREATE TABLE t AS SELECT i AS n, i % 4000 AS g, 'row number ' || i AS s \
                   FROM generate_series(1, 200000) q(i)";
        first.execute(sql, &Cut::Hash { column: "n".to_string() }).unwrap();
        let wanted = [SORT, GROUPS].map(|sql| asked(&first, sql));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let session = cluster(&nodes).session().unwrap();
                    session.query("SET statement_timeout = '120s'").unwrap();
                    for limit in [8, 16, 28, 32, 36, 64] {
                        set(&session, limit << 20);
                        for (sql, wanted) in [SORT, GROUPS].iter().zip(&wanted) {
                            match session.query(sql).and_then(|rows| rows.collect()) {
                                Ok(rows) => assert_eq!(texts(&rows), *wanted),
                                Err(error) => {
                                    let error = error.to_string();
                                    let is_short = error.contains("out of memory");
                                    assert!(is_short && limit < 64, "{limit}: {error}");
                                }
                            }
                        }
                    }
                });
            }
        });
    });
}
