//! TPC-H on 1, 2, 4 and 8 nodes: the answers of one database that has all rows.

mod common;

use common::{asked, cluster, expected, nodes, with_room};
use swingdb::{Connection, Database};
use swingdb_cluster::{Cut, Session};
use swingdb_generate::tpch::TpchTable;

const SCALE: f64 = 0.01;

fn cut(table: TpchTable) -> Cut {
    let hash = |column: &str| Cut::Hash { column: column.to_string() };
    match table {
        TpchTable::Region | TpchTable::Nation => Cut::Replicated,
        TpchTable::LineItem => hash("l_orderkey"),
        TpchTable::Orders => hash("o_orderkey"),
        TpchTable::PartSupp => hash("ps_partkey"),
        TpchTable::Part | TpchTable::Supplier | TpchTable::Customer => Cut::AsItLies,
    }
}

/// Loads all tables into the cluster and into one database.
fn load(session: &Session) -> Connection {
    let one = Database::private().unwrap().connect();
    for table in TpchTable::ALL {
        let mut batches = Vec::new();
        for part in 1..=table.parts(SCALE) {
            batches.extend(table.part(SCALE, part, table.parts(SCALE)).map(Result::unwrap));
        }
        let name = table.name();
        one.register("rows", table.schema(), batches.clone()).unwrap();
        one.query(&format!("CREATE TABLE {name} AS SELECT * FROM rows")).unwrap();
        one.deregister("rows");
        session.connection().register("loaded", table.schema(), batches).unwrap();
        let made = format!("CREATE TABLE {name} AS SELECT * FROM loaded");
        let rows = session.execute(&made, &cut(table)).unwrap().rows_changed();
        let count = expected(&one, &format!("SELECT count(*) FROM {name}"))[0][0].clone();
        assert_eq!(rows.unwrap().to_string(), count, "{name}");
        session.connection().deregister("loaded");
    }
    one
}

fn queries() -> Vec<(String, String)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/tpch");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut files =
        files.filter(|file| file.extension().is_some_and(|e| e == "sql")).collect::<Vec<_>>();
    files.sort();
    let read = |file: std::path::PathBuf| {
        (
            file.file_stem().unwrap().to_string_lossy().into_owned(),
            std::fs::read_to_string(file).unwrap(),
        )
    };
    files.into_iter().map(read).collect()
}

fn same_answers(count: usize) {
    let nodes = nodes(count);
    let session = cluster(&nodes).session().unwrap();
    let one = load(&session);
    let (mut staged, mut rows) = (0, 0);
    for (name, sql) in queries() {
        let start = std::time::Instant::now();
        let ours = asked(&session, &sql);
        let took = start.elapsed();
        assert_eq!(ours, expected(&one, &sql), "{name} on {count} nodes");
        rows += ours.len();
        let plan = asked(&session, &format!("EXPLAIN {sql}")).concat().concat();
        let is_staged = plan.contains("DistributedExec");
        staged += usize::from(is_staged);
        println!("{name}: {} rows, {took:?}, in stages: {is_staged}", ours.len());
    }
    println!("{staged} queries ran in stages; {rows} rows");
    assert!(rows > 500);
    if count > 1 {
        assert_eq!(staged, 22, "queries that ran at the nodes");
    }
}

#[test]
fn one_node() {
    with_room(|| same_answers(1));
}

#[test]
fn two_nodes() {
    with_room(|| same_answers(2));
}

#[test]
fn four_nodes() {
    with_room(|| same_answers(4));
}

#[test]
fn eight_nodes() {
    with_room(|| same_answers(8));
}
