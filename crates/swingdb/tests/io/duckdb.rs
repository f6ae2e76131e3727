//! CSV files as DuckDB 2.0 reads them: `duckdb/make.py` has written files and answers.

use swingdb::io::ImportOptions;

use super::support::{Place, text_rows};

#[test]
fn names_types_and_values_are_duckdbs() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/io/duckdb");
    let place = Place::new();
    let mut files = 0;
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|end| end != "csv") {
            continue;
        }
        let name = path.file_stem().unwrap().to_str().unwrap().to_string();
        let table = |kind: &str| format!("\"{kind}_{name}\"");
        place.con.import_file(&path, &table("csv"), ImportOptions::default()).unwrap();
        let answer = path.with_extension("parquet");
        place.con.import_file(&answer, &table("answer"), ImportOptions::default()).unwrap();
        let ours = place.table(&table("csv"));
        let theirs = place.table(&table("answer"));
        let kinds = |batch: &swingdb::arrow::array::RecordBatch| -> Vec<_> {
            let fields = batch.schema_ref().fields().iter();
            fields.map(|field| (field.name().clone(), field.data_type().clone())).collect()
        };
        assert_eq!(kinds(&ours), kinds(&theirs), "{name}");
        assert_eq!(text_rows(&ours), text_rows(&theirs), "{name}");
        files += 1;
    }
    assert!(files >= 16, "{files} files");
}
