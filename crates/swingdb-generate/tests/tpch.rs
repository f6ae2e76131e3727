//! All 22 queries of TPC-H at scale factor 0.01 against answers computed by DuckDB 2.0 over the
//! same data.

mod common;

use common::Place;
use swingdb_generate::TpchTable;

const ANSWERS: &str = include_str!("data/tpch_sf001.tsv");

fn load(place: &Place) {
    for table in TpchTable::ALL {
        let batches = table.part(0.01, 1, 1).collect::<Result<Vec<_>, _>>().unwrap();
        place.con.register("generated", table.schema(), batches).unwrap();
        place.run(&format!("CREATE TABLE {} AS SELECT * FROM generated", table.name()));
    }
}

/// Equal as texts, or as numbers but for rounding; NULL is `-` in the file.
fn same(ours: &str, theirs: &str) -> bool {
    if ours == theirs || (ours == "NULL" && theirs == "-") {
        return true;
    }
    match (ours.parse::<f64>(), theirs.parse::<f64>()) {
        (Ok(a), Ok(b)) => (a - b).abs() <= 1e-4 + 1e-6 * b.abs(),
        _ => false,
    }
}

#[test]
fn all_22_queries() {
    let place = Place::new();
    load(&place);
    let mut answers = ANSWERS.split("# ").skip(1);
    for number in 1..=22 {
        let answer = answers.next().unwrap();
        let mut lines = answer.lines();
        assert!(lines.next().unwrap().starts_with(&format!("{number} ")));
        let path = format!("{}/../../bench/tpch/q{number:02}.sql", env!("CARGO_MANIFEST_DIR"));
        let sql = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
        let ours = place.rows(&sql);
        let theirs = lines.collect::<Vec<_>>();
        assert_eq!(ours.len(), theirs.len(), "query {number}");
        for (row, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            for (ours, theirs) in ours.iter().zip(theirs.split('\t')) {
                assert!(same(ours, theirs), "query {number}, row {row}: {ours} for {theirs}");
            }
        }
    }
}
