//! All 22 queries of TPC-H at scale factor 0.01 against answers computed by DuckDB 2.0 over the
//! same data.

use super::common::{Fixture, fixture, rows};

const ANSWERS: &str = include_str!("../data/tpch_sf001.tsv");

fn load(f: &Fixture) {
    for table in swingdb::generate::TpchTable::ALL {
        let batches = table.part(0.01, 1, 1).collect::<Result<Vec<_>, _>>().unwrap();
        f.con.register("generated", table.schema(), batches).unwrap();
        f.run(&format!("CREATE TABLE {} AS SELECT * FROM generated", table.name()));
    }
}

/// Equal as text, or as numbers but for rounding.
fn same(ours: &str, theirs: &str) -> bool {
    let (ours, theirs) = (ours.replace('-', "NULL"), theirs.replace('-', "NULL"));
    if ours == theirs {
        return true;
    }
    match (ours.replace("NULL", "-").parse::<f64>(), theirs.replace("NULL", "-").parse::<f64>()) {
        (Ok(a), Ok(b)) => (a - b).abs() <= 1e-4 + 1e-6 * b.abs(),
        _ => false,
    }
}

#[test]
fn all_22_queries() {
    let f = fixture();
    load(&f);
    let mut answers = ANSWERS.split("# ").skip(1);
    for number in 1..=22 {
        let answer = answers.next().unwrap();
        let mut lines = answer.lines();
        assert!(lines.next().unwrap().starts_with(&format!("{number} ")));
        let path = format!("{}/../../bench/tpch/q{number:02}.sql", env!("CARGO_MANIFEST_DIR"));
        let sql = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
        let result = f.con.query(&sql).unwrap_or_else(|e| panic!("query {number}: {e}"));
        let ours = rows(result).unwrap_or_else(|e| panic!("query {number}: {e}"));
        let theirs = lines.collect::<Vec<_>>();
        assert_eq!(ours.len(), theirs.len(), "query {number}");
        for (row, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            let (ours, theirs) = (ours.split('|'), theirs.split('\t'));
            for (ours, theirs) in ours.zip(theirs) {
                assert!(same(ours, theirs), "query {number}, row {row}: {ours} for {theirs}");
            }
        }
    }
}
