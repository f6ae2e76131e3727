//! Bounds of Parquet row groups leave out NaN, which is greater than all numbers: no row is lost by
//! trusting them.

use std::sync::Arc;

use parquet::arrow::ArrowWriter;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use swingdb::arrow::array::{ArrayRef, Float32Array, Float64Array, Int64Array, RecordBatch};

use super::support::Place;

const NAN: f64 = f64::NAN;
/// 1 and NaN; 1; 5 and 2; a NaN with a sign and 1; NaN alone.
const X: [f64; 10] = [1.0, NAN, 1.0, 1.0, 5.0, 2.0, -NAN, 1.0, NAN, NAN];

fn write(place: &Place, name: &str, x: ArrayRef, statistics: EnabledStatistics) {
    let n: ArrayRef = Arc::new(Int64Array::from_iter_values(0..x.len() as i64));
    let batch = RecordBatch::try_from_iter_with_nullable([("n", n, true), ("x", x, true)]).unwrap();
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(2))
        .set_statistics_enabled(statistics)
        .build();
    let file = std::fs::File::create(place.path(name)).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

#[test]
fn nan_is_never_pruned() {
    let place = Place::new();
    for statistics in [EnabledStatistics::Chunk, EnabledStatistics::Page] {
        let wide: ArrayRef = Arc::new(Float64Array::from(X.to_vec()));
        let narrow = X.iter().map(|x| *x as f32).collect::<Vec<f32>>();
        write(&place, "wide.parquet", wide, statistics);
        write(&place, "narrow.parquet", Arc::new(Float32Array::from(narrow)), statistics);
        for name in ["wide", "narrow"] {
            for (condition, expected) in [
                ("x = 1", "4"),
                ("x <> 1", "6"),
                ("NOT (x = 1)", "6"),
                ("x > 2", "5"),
                ("x > 100", "4"),
                ("x >= 5", "5"),
                ("NOT (x < 2)", "6"),
                ("NOT (x <= 5)", "4"),
                ("x = CAST('NaN' AS DOUBLE)", "4"),
                ("x IN (1, 2)", "5"),
                ("x NOT IN (1, 2, 5)", "4"),
                ("x BETWEEN 3 AND CAST('NaN' AS DOUBLE)", "5"),
                ("isnan(x)", "4"),
                ("x IS DISTINCT FROM 1", "6"),
                ("x < 0", "0"),
                ("x < 3 AND n < 100", "5"),
            ] {
                let query = format!("SELECT count(*) FROM '{{}}/{name}.parquet' WHERE {condition}");
                assert_eq!(place.value(&query), expected, "{name}: {condition}");
            }
            let extremes = format!("SELECT max(x), min(x) FROM '{{}}/{name}.parquet'");
            assert_eq!(place.rows(&extremes), [["NaN", "1.0"]], "{name}");
            let first = format!("SELECT x FROM '{{}}/{name}.parquet' ORDER BY x DESC LIMIT 5");
            let found = place.rows(&first).concat();
            assert_eq!(found, ["NaN", "NaN", "NaN", "NaN", "5.0"], "{name}");
        }
    }
}

/// What can be known is still made use of.
#[test]
fn other_bounds_prune() {
    let place = Place::new();
    place.run("CREATE TABLE t AS SELECT range AS n, range::DOUBLE AS x FROM range(100000)");
    place.run_in("COPY t TO '{}/f.parquet' (row_group_size 10000)").unwrap();
    for condition in ["n = 55555", "x < 5.0", "n > 99990 AND x <> 3"] {
        let query = format!("EXPLAIN ANALYZE SELECT * FROM '{{}}/f.parquet' WHERE {condition}");
        let plan = place.rows(&query).concat().join("\n");
        let pruned = plan.split("row_groups_pruned_statistics=").nth(1).unwrap_or_default();
        assert!(pruned.starts_with("10 total → 1 matched"), "{condition}: {plan}");
    }
    assert_eq!(place.value("SELECT count(*) FROM '{}/f.parquet'"), "100000");
}
