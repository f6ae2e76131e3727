//! Every type through every format and back, by names of files and by options.

use std::sync::Arc;

use swingdb::arrow::array::*;
use swingdb::arrow::buffer::NullBuffer;
use swingdb::arrow::datatypes::*;
use swingdb::io::{ExportOptions, FileFormat, ImportOptions};

use super::support::{Place, seeded};

/// Columns of all types that a table keeps, with NULLs, NaN, extremes, and odd strings.
fn all_types(random: &mut fastrand::Rng, rows: usize) -> RecordBatch {
    let nulls = NullBuffer::from((0..rows).map(|_| random.u8(0..5) > 0).collect::<Vec<bool>>());
    let texts = ["", "NULL", "a,b", "\"q\"", "line\nbreak", "漢字🚕", " pad ", "\\x41", "0"];
    let text = |random: &mut fastrand::Rng| {
        let mut text = texts[random.usize(0..texts.len())].to_string();
        text.extend(std::iter::repeat_n('z', random.usize(0..20)));
        text
    };
    macro_rules! numbers {
        ($array:ident, $one:expr) => {{
            let values: Vec<_> = (0..rows).map(|_| $one).collect();
            Arc::new($array::new(values.into(), Some(nulls.clone()))) as ArrayRef
        }};
    }
    let f64s = [0.0, -0.0, 1.5, f64::MAX, f64::MIN_POSITIVE, f64::INFINITY, 1e-7, 123_456_789.123];
    let f32s = [0.0f32, 1.1, f32::MAX, f32::MIN_POSITIVE, -3.25];
    let strings: StringViewArray =
        (0..rows).map(|row| nulls.is_valid(row).then(|| text(random))).collect();
    let blobs: BinaryViewArray = (0..rows)
        .map(|row| nulls.is_valid(row).then(|| text(random).into_bytes().repeat(2)))
        .collect();
    let decimals = Decimal128Array::from_iter(
        (0..rows).map(|row| nulls.is_valid(row).then(|| random.i64(..).into())),
    );
    let list = ListArray::from_iter_primitive::<Int64Type, _, _>(
        (0..rows).map(|row| nulls.is_valid(row).then(|| vec![Some(row as i64), None, Some(-1)])),
    );
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("i8", numbers!(Int8Array, random.i8(..))),
        ("i16", numbers!(Int16Array, random.i16(..))),
        ("i32", numbers!(Int32Array, random.i32(..))),
        ("i64", numbers!(Int64Array, random.i64(..))),
        ("u8", numbers!(UInt8Array, random.u8(..))),
        ("u16", numbers!(UInt16Array, random.u16(..))),
        ("u32", numbers!(UInt32Array, random.u32(..))),
        ("u64", numbers!(UInt64Array, random.u64(..))),
        ("f32", numbers!(Float32Array, f32s[random.usize(0..f32s.len())])),
        ("f64", numbers!(Float64Array, f64s[random.usize(0..f64s.len())])),
        ("dec", Arc::new(decimals.with_precision_and_scale(20, 3).unwrap())),
        ("day", numbers!(Date32Array, random.i32(-700_000..2_900_000))),
        ("time", numbers!(Time64MicrosecondArray, random.i64(0..86_400_000_000))),
        ("s", numbers!(TimestampSecondArray, random.i64(-60_000_000_000..200_000_000_000))),
        (
            "ms",
            numbers!(TimestampMillisecondArray, random.i64(-60_000_000_000_000..4_000_000_000_000)),
        ),
        (
            "us",
            numbers!(
                TimestampMicrosecondArray,
                random.i64(-6_000_000_000_000_000..9_000_000_000_000_000)
            ),
        ),
        (
            "ns",
            numbers!(
                TimestampNanosecondArray,
                random.i64(-6_000_000_000_000_000_000..9_000_000_000_000_000_000)
            ),
        ),
        (
            "b",
            Arc::new(
                (0..rows)
                    .map(|row| nulls.is_valid(row).then(|| random.bool()))
                    .collect::<BooleanArray>(),
            ),
        ),
        ("text", Arc::new(strings)),
        ("blob", Arc::new(blobs)),
        ("list", Arc::new(list)),
    ];
    RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )
    .unwrap()
}

fn round_trip(place: &Place, file: &str, export: ExportOptions, import: ImportOptions) {
    let report = place.con.export_file("t", place.path(file), export).unwrap();
    let back = format!("back_{}", file.replace('.', "_"));
    // The types of text formats are those of the table; the others bring their own.
    place.run(&format!("CREATE TABLE {back} AS SELECT * FROM t WHERE false"));
    assert_eq!(place.import(file, &back, import).unwrap(), report.rows, "{file}");
    let (expected, found) = (place.table("t"), place.table(&back));
    for (index, field) in expected.schema().fields().iter().enumerate() {
        assert_eq!(expected.column(index), found.column(index), "{file}: column {}", field.name());
    }
    assert_eq!(report.bytes, std::fs::metadata(place.path(file)).unwrap().len());
    // Nothing is left beside the file.
    let left = std::fs::read_dir(place.directory.path()).unwrap();
    assert!(left.flatten().all(|entry| !entry.file_name().to_string_lossy().contains(".tmp")));
}

#[test]
fn all_types_survive_every_format() {
    let mut random = seeded();
    for rows in [0, 1, 1_000, 40_000] {
        let place = Place::new();
        let batch = all_types(&mut random, rows);
        let reader = RecordBatchIterator::new([Ok(batch.clone())], batch.schema());
        place.con.register("source", batch.schema(), vec![batch.clone()]).unwrap();
        place.run("CREATE TABLE t AS SELECT * FROM source WHERE false");
        place.con.append("t", reader).unwrap();
        for file in ["f.parquet", "f.arrow", "f.feather", "f.arrows"] {
            round_trip(&place, file, ExportOptions::default(), ImportOptions::default());
        }
        if rows == 0 {
            continue;
        }
        for file in ["f.csv", "f.csv.gz", "f.csv.zst", "f.tsv"] {
            let import = ImportOptions {
                header: Some(true),
                delimiter: Some(b','.into()),
                ..Default::default()
            };
            round_trip(&place, file, ExportOptions::default(), import);
        }
        // JSON has no NaN and no infinity.
        place.run("UPDATE t SET f64 = NULL WHERE f64 > CAST('1e300' AS DOUBLE)");
        for file in ["f.json", "f.ndjson.gz"] {
            round_trip(&place, file, ExportOptions::default(), ImportOptions::default());
        }
    }
}

#[test]
fn codecs_and_small_row_groups() {
    let place = Place::new();
    place.run(
        "CREATE TABLE t AS SELECT value AS a, concat('text ', value % 7) AS b FROM \
        generate_series(1, 50000) AS value",
    );
    for codec in ["none", "snappy", "zstd", "gzip", "lz4"] {
        let export = ExportOptions {
            compression: Some(codec.into()),
            row_group_rows: Some(1_000),
            ..Default::default()
        };
        round_trip(&place, &format!("{codec}.parquet"), export, ImportOptions::default());
    }
    for codec in ["none", "lz4", "zstd"] {
        let export = ExportOptions { compression: Some(codec.into()), ..Default::default() };
        round_trip(&place, &format!("{codec}.arrow"), export, ImportOptions::default());
    }
    let odd = ExportOptions { compression: Some("rar".into()), ..Default::default() };
    assert!(place.con.export_file("t", place.path("x.parquet"), odd).is_err());
    assert!(!place.path("x.parquet").exists());
}

#[test]
fn the_order_of_rows_survives() {
    let place = Place::new();
    place.run("CREATE TABLE t AS SELECT value AS a FROM generate_series(1, 300000) AS value");
    for file in ["f.parquet", "f.csv", "f.arrow", "f.json"] {
        place
            .con
            .export_file(
                "SELECT a FROM t ORDER BY a DESC",
                place.path(file),
                ExportOptions::default(),
            )
            .unwrap();
        let table = file.replace('.', "_");
        place.import(file, &table, ImportOptions::default()).unwrap();
        let batch = place.table(&table);
        let values = batch.column(0).as_primitive::<Int64Type>().values();
        assert!(values.iter().rev().copied().eq(1..=300_000), "{file}");
        // Read in place, the order is the same, and LIMIT takes the first rows.
        if !file.ends_with("parquet") {
            assert_eq!(place.value(&format!("SELECT a FROM '{{}}/{file}' LIMIT 1")), "300000");
        }
    }
}

#[test]
fn json_of_all_shapes() {
    let place = Place::new();
    place.file(
        "array.json",
        "[\n {\"a\": 1, \"b\": {\"c\": [1, 2]}},\n {\"a\": null, \"d\": \"x\"}\n]\n",
    );
    place.import("array.json", "t", ImportOptions::default()).unwrap();
    let rows = place.rows("SELECT a, t.b['c'][2], d FROM t");
    assert_eq!(rows, [["1", "2", "NULL"], ["NULL", "NULL", "x"]]);
    place.file(
        "times.json",
        "{\"d\":\"2024-01-31\",\"t\":\"2024-01-31T10:00:00\"}\n\n{\"d\":null}\n",
    );
    place.import("times.json", "u", ImportOptions::default()).unwrap();
    let rows = place.rows("SELECT d + INTERVAL '1 day', date_trunc('hour', t) FROM u");
    assert_eq!(rows[0][1], "2024-01-31T10:00:00");
    assert_eq!(rows[1], ["NULL", "NULL"]);
}

#[test]
fn the_format_is_found_in_the_contents() {
    let place = Place::new();
    place.run("CREATE TABLE t AS SELECT 1 AS a, 'x' AS b");
    for (name, format) in [
        ("one", FileFormat::Parquet),
        ("two", FileFormat::Arrow),
        ("three", FileFormat::Json),
        ("four", FileFormat::Csv),
    ] {
        let export = ExportOptions { format: Some(format), ..Default::default() };
        round_trip(&place, name, export, ImportOptions::default());
    }
    assert!(place.con.export_file("t", place.path("five"), ExportOptions::default()).is_err());
}

#[test]
fn dictionaries_and_small_batches_of_others() {
    use swingdb::arrow::ipc::writer::FileWriter;
    let place = Place::new();
    let keys: DictionaryArray<Int32Type> =
        vec![Some("a"), None, Some("b"), Some("a")].into_iter().collect();
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("k", Arc::new(keys) as ArrayRef, true),
        ("s", Arc::new(LargeStringArray::from(vec!["1", "2", "3", "4"])), false),
    ])
    .unwrap();
    let file = std::fs::File::create(place.path("f.arrow")).unwrap();
    let mut writer = FileWriter::try_new(file, &batch.schema()).unwrap();
    for _ in 0..1_000 {
        writer.write(&batch).unwrap();
    }
    writer.finish().unwrap();
    assert_eq!(place.import("f.arrow", "t", ImportOptions::default()).unwrap(), 4_000);
    let rows = place.rows("SELECT k, count(*) FROM t GROUP BY k ORDER BY k NULLS LAST");
    assert_eq!(rows, [["a", "2000"], ["b", "1000"], ["NULL", "1000"]]);
}

/// Values are DuckDB's, which writes no Arrow schema; the engine's decoder leaves out the months.
#[test]
fn intervals_of_parquet_keep_their_months() {
    let place = Place::new();
    // DuckDB 2.0: COPY (SELECT * FROM (VALUES (1, INTERVAL '1 month 3 days 1.001 seconds'),
    // (2, NULL), (3, INTERVAL '2 years'), (4, INTERVAL '1000 hours')) v(a, i)) TO 'i.parquet'
    place.file("i.parquet", include_bytes!("intervals.parquet"));
    let expected = [
        ["1", "1 month 3 days 00:00:01.001"],
        ["2", "NULL"],
        ["3", "2 years"],
        ["4", "41 days 16:00:00"],
    ];
    let text = "SELECT a, i::VARCHAR FROM";
    assert_eq!(place.rows(&format!("{text} '{{}}/i.parquet'")), expected);
    place.run("CREATE TABLE t (a INT, i INTERVAL)");
    place.run_in("COPY t FROM '{}/i.parquet'").unwrap();
    assert_eq!(place.rows(&format!("{text} t")), expected);
    assert_eq!(place.value("SELECT sum(a) FROM '{}/i.parquet' WHERE a > 2"), "7");
    assert_eq!(place.value("SELECT i::VARCHAR FROM '{}/i.parquet' WHERE a = 3"), "2 years");
    place.file("l.parquet", include_bytes!("intervals_nested.parquet"));
    let error = place.run_in("SELECT * FROM '{}/l.parquet'").unwrap_err();
    assert!(error.to_string().contains("write it as a text"), "{error}");
}
