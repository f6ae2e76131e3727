//! Files that say what would end a process that believed it: lengths without end, nesting without
//! end. A test that fails takes all others with it.

use std::io::Write;
use std::sync::Arc;

use parquet::arrow::arrow_writer::{ArrowWriter, ArrowWriterOptions};
use parquet::arrow::encode_arrow_schema;
use parquet::data_type::FixedLenByteArrayType;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use swingdb::Error;
use swingdb::arrow::array::{
    ArrayRef, DictionaryArray, Int64Array, RecordBatch, StringArray, new_null_array,
};
use swingdb::arrow::datatypes::{DataType, Field, Int32Type, Schema};
use swingdb::arrow::ipc::CompressionType;
use swingdb::arrow::ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use swingdb::io::{ExportOptions, ImportOptions};

use super::support::{Place, import_error, seeded};

const ROWS: usize = 1000;

fn batch() -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS as i64));
    let texts = (0..ROWS).map(|row| format!("a text of row {}", row % 9));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    let kinds: DictionaryArray<Int32Type> =
        (0..ROWS).map(|row| ["one kind", "another kind"][row % 2]).collect();
    let columns = [("n", numbers), ("t", texts), ("k", Arc::new(kinds))];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn arrow(stream: bool, codec: Option<CompressionType>) -> Vec<u8> {
    let options = IpcWriteOptions::default().try_with_compression(codec).unwrap();
    let (batch, mut bytes) = (batch(), Vec::new());
    if stream {
        let schema = &batch.schema();
        let mut writer = StreamWriter::try_new_with_options(&mut bytes, schema, options).unwrap();
        writer.write(&batch).and_then(|()| writer.finish()).unwrap();
    } else {
        let schema = &batch.schema();
        let mut writer = FileWriter::try_new_with_options(&mut bytes, schema, options).unwrap();
        writer.write(&batch).and_then(|()| writer.finish()).unwrap();
    }
    bytes
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).unwrap()
}

/// The message of the error of reading a file.
fn refused(place: &Place, name: &str, bytes: impl AsRef<[u8]>) -> String {
    place.file(name, bytes);
    let error = place.import(name, "t", ImportOptions::default()).unwrap_err();
    let (path, _, message) = import_error(error);
    assert_eq!(path, place.path(name));
    message
}

const CODECS: [CompressionType; 2] = [CompressionType::LZ4_FRAME, CompressionType::ZSTD];

#[test]
fn lengths_of_compressed_buffers() {
    let place = Place::new();
    for (stream, codec) in [false, true].into_iter().flat_map(|s| CODECS.map(|c| (s, c))) {
        let good = arrow(stream, Some(codec));
        place.file("good.arrow", &good);
        assert_eq!(place.import("good.arrow", "g", ImportOptions::default()).unwrap(), ROWS as u64);
        assert_eq!(place.value("SELECT count(*) FROM g WHERE k = 'one kind'"), "500");
        place.run("DROP TABLE g");
        // The column of numbers has eight bytes a row.
        let length = (8 * ROWS as i64).to_le_bytes();
        let at = good.windows(8).position(|bytes| bytes == length).unwrap();
        for wrong in [i64::MIN, -2, i64::MAX, 1 << 62, 1 << 46, 8 * ROWS as i64 + 1] {
            let mut bad = good.clone();
            bad[at..at + 8].copy_from_slice(&wrong.to_le_bytes());
            let message = refused(&place, "bad.arrow", &bad);
            assert!(message.contains("readable"), "{stream} {codec:?} {wrong}: {message}");
            if stream {
                refused(&place, "bad.arrows.gz", packed(&bad));
            }
        }
    }
}

/// The body of a message is as long as its header says.
#[test]
fn lengths_of_messages() {
    let place = Place::new();
    let good = arrow(true, None);
    // Somewhere in the header of the batch: the length of its body, a multiple of 64.
    let word = |at: usize| i64::from_le_bytes(good[at..at + 8].try_into().unwrap());
    let lengths: Vec<usize> = (0..good.len() / 8 * 8)
        .step_by(8)
        .filter(|at| (8_000..good.len() as i64).contains(&word(*at)) && word(*at) % 64 == 0)
        .collect();
    assert!(!lengths.is_empty(), "no length of a body");
    for wrong in [i64::MIN, -1, i64::MAX, 1 << 46, 1 << 40] {
        for at in &lengths {
            let mut bad = good.clone();
            bad[*at..at + 8].copy_from_slice(&wrong.to_le_bytes());
            refused(&place, "bad.arrows", &bad);
            refused(&place, "bad.arrows.gz", packed(&bad));
        }
    }
    // A header of 2 GiB: no memory is taken for what is not there.
    let long = [&[0xFF; 7][..], &[0x7F]].concat();
    assert!(refused(&place, "long.arrows", &long).contains("longer than the file"));
    assert!(refused(&place, "long.arrows.gz", packed(&long)).contains("longer than the file"));
}

/// A query of no column at all has nothing but the batch's own word for the number of rows.
#[test]
fn rows_that_no_column_has() {
    let place = Place::new();
    for stream in [false, true] {
        let good = arrow(stream, None);
        let rows = (ROWS as i64).to_le_bytes();
        let places = good.windows(8).enumerate().filter(|(_, word)| *word == rows);
        let places: Vec<usize> = places.map(|(at, _)| at).filter(|at| at % 8 == 0).collect();
        let mut refusals = 0;
        for (at, wrong) in places.into_iter().flat_map(|at| [-1, 7, 1 << 50].map(|n| (at, n))) {
            let mut bad = good.clone();
            bad[at..at + 8].copy_from_slice(&i64::to_le_bytes(wrong));
            place.file("rows.arrow", &bad);
            match place.con.query(&place.fill_in("SELECT count(*) FROM '{}/rows.arrow'")) {
                Ok(result) => match result.collect() {
                    Ok(_) => {
                        assert_eq!(place.value("SELECT count(*) FROM '{}/rows.arrow'"), "1000")
                    }
                    Err(_) => refusals += 1,
                },
                Err(_) => refusals += 1,
            }
        }
        assert!(refusals >= 3, "{stream}: {refusals}");
    }
}

#[test]
fn words_of_files_made_extreme() {
    let mut random = seeded();
    let place = Place::new();
    place
        .run("CREATE TABLE src AS SELECT value AS a, [value, NULL] AS l FROM range(3000) r(value)");
    place.con.export_file("src", place.path("f.parquet"), ExportOptions::default()).unwrap();
    let parquet = std::fs::read(place.path("f.parquet")).unwrap();
    let mut files = vec![("x.parquet", parquet)];
    for codec in [None, Some(CODECS[0]), Some(CODECS[1])] {
        files.extend([("x.arrow", arrow(false, codec)), ("x.arrows", arrow(true, codec))]);
    }
    let lens = [-1, -2, 0, 1, 127, 1 << 20, 1 << 31, 1 << 40, 1 << 46, 1 << 62, i64::MAX];
    for _ in 0..150 {
        for (name, good) in &files {
            let mut bad = good.clone();
            // Lengths are near the ends, and where there are few other bytes.
            let words = bad.len() / 4 - 2;
            let near = random.usize(..words.min(200));
            let word = match random.u8(..3) {
                0 => near,
                1 => words - 1 - near,
                _ => random.usize(..words),
            };
            let value =
                if random.bool() { lens[random.usize(..lens.len())] } else { random.i64(..) };
            let width = [1, 2, 4, 8][random.usize(..4)];
            bad[4 * word..4 * word + width].copy_from_slice(&value.to_le_bytes()[..width]);
            place.file(name, &bad);
            let _ =
                place.run_in(&format!("CREATE OR REPLACE TABLE t AS SELECT * FROM '{{}}/{name}'"));
        }
    }
}

#[test]
fn json_nested_without_end() {
    let place = Place::new();
    let nested = |open: &str, inner: &str, close: &str, levels: usize| {
        format!("{}{inner}{}", open.repeat(levels), close.repeat(levels))
    };
    let lists = |levels| format!("{{\"a\": {}, \"b\": 1}}\n", nested("[", "1", "]", levels));
    let simple = |rows| "{\"a\": [[1]], \"b\": 1}\n".repeat(rows);
    for levels in [128, 100_000] {
        // In the sample, after it, and in what nobody asks for.
        let deep = lists(levels);
        assert!(refused(&place, "f.json", &deep).contains("127 levels"));
        let late = simple(30_000) + &deep;
        assert!(refused(&place, "f.json", &late).contains("127 levels"));
        for query in ["count(*) FROM '{}/f.json' WHERE a IS NULL", "sum(b) FROM '{}/f.json'"] {
            let error = place.run_in(&format!("SELECT {query}")).unwrap_err();
            let (_, line, message) = import_error(error);
            assert!(message.contains("127 levels") && line == Some(30_001), "{message}");
        }
        let objects = nested("{\"a\":", "1", "}", levels) + "\n";
        assert!(refused(&place, "f.json", objects).contains("127 levels"));
        let file = format!("[{}, {}]", simple(1).trim(), deep.trim());
        assert!(refused(&place, "f.json", file).contains("127 levels"));
    }
    // Brackets in strings are none, however many, nor are those that are closed again.
    let text = "[{\\\"\\\\".repeat(5000);
    let pairs = vec!["[]"; 500].join(",");
    place.file("f.json", format!("{{\"a\": \"{text}\", \"b\": [{pairs}]}}\n"));
    assert_eq!(place.import("f.json", "brackets", ImportOptions::default()).unwrap(), 1);
    assert_eq!(place.value("SELECT length(a) + len(b) FROM brackets"), "20500");
}

/// A file whose schema has one group in another, so many times.
fn deep_parquet(levels: usize) -> Vec<u8> {
    let mut footer = vec![0x15, 2, 0x19, 0xFC];
    let mut left = levels + 2;
    while left > 0x7F {
        footer.push(left as u8 | 0x80);
        left >>= 7;
    }
    footer.push(left as u8);
    for _ in 0..=levels {
        // Optional, a name, one child.
        footer.extend([0x35, 2, 0x18, 1, b'g', 0x15, 2, 0]);
    }
    footer.extend([0x15, 2, 0x25, 2, 0x18, 1, b'l', 0]);
    // No rows, no row groups.
    footer.extend([0x16, 0, 0x19, 0x0C, 0]);
    let length = (footer.len() as u32).to_le_bytes();
    [b"PAR1", &footer[..], &length, b"PAR1"].concat()
}

#[test]
fn parquet_nested_without_end() {
    let place = Place::new();
    place.file("deep.parquet", deep_parquet(30));
    assert_eq!(place.import("deep.parquet", "d", ImportOptions::default()).unwrap(), 0);
    for levels in [500, 5_000, 1_000_000] {
        let message = refused(&place, "deep.parquet", deep_parquet(levels));
        assert!(message.contains("levels deep"), "{message}");
        assert!(place.run_in("SELECT * FROM '{}/deep.parquet'").is_err());
    }
    // Row groups, as many as a number can say.
    let mut endless = deep_parquet(3);
    let end = endless.len() - 8;
    endless.splice(end - 2..end - 1, [0xFC, 0xFF, 0xFF, 0xFF, 0xFF, 0x07]);
    let length = (endless.len() as u32 - 12).to_le_bytes();
    let end = endless.len() - 8;
    endless[end..end + 4].copy_from_slice(&length);
    assert!(refused(&place, "endless.parquet", endless).contains("footer"));
}

/// A file of rows without values, of which each is said to be as long as can be.
fn wide_parquet(list: bool) -> Vec<u8> {
    let (rows, mut bytes) = (1000, Vec::new());
    let item = Arc::new(Field::new("item", DataType::Int64, true));
    let told = match list {
        true => DataType::FixedSizeList(Arc::clone(&item), i32::MAX),
        false => DataType::FixedSizeBinary(i32::MAX),
    };
    let told = encode_arrow_schema(&Schema::new(vec![Field::new("c", told, true)]));
    let told = KeyValue::new("ARROW:schema".to_string(), told);
    let properties = WriterProperties::builder().set_key_value_metadata(Some(vec![told])).build();
    if list {
        let lists = new_null_array(&DataType::List(item), rows);
        let batch = RecordBatch::try_from_iter([("c", lists)]).unwrap();
        let options = ArrowWriterOptions::new().with_properties(properties);
        let options = options.with_skip_arrow_metadata(true);
        let mut writer =
            ArrowWriter::try_new_with_options(&mut bytes, batch.schema(), options).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    } else {
        let schema = "message m { optional fixed_len_byte_array(2147483647) c; }";
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let mut writer =
            SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties)).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let typed = column.typed::<FixedLenByteArrayType>();
        typed.write_batch(&[], Some(&vec![0; rows]), None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        writer.close().unwrap();
    }
    bytes
}

#[test]
fn parquet_of_wide_values_that_are_not_there() {
    let place = Place::new();
    for list in [false, true] {
        let bytes = wide_parquet(list);
        assert!(bytes.len() < 2000);
        assert!(refused(&place, "wide.parquet", bytes).contains("in each row"));
        assert!(place.run_in("SELECT * FROM '{}/wide.parquet'").is_err());
    }
}

/// What is just allowed does not need more stack than a thread usually has.
#[test]
fn the_deepest_files_on_an_ordinary_thread() {
    let place = Place::new();
    let deepest = (1..1000).rev().find(|levels| {
        place.file("p.parquet", deep_parquet(*levels));
        let result = place.import("p.parquet", "t", ImportOptions::default());
        !matches!(result, Err(Error::Import { .. }))
    });
    assert!(deepest.is_some_and(|levels| levels > 300), "{deepest:?}");
    let levels = 127;
    let text = format!("{}1{}\n", "{\"a\":".repeat(levels), "}".repeat(levels));
    place.file("o.json", text);
    place.file("l.json", format!("{{\"a\":{}{}}}\n", "[".repeat(126), "]".repeat(126)));
    let read = || {
        for name in ["p.parquet", "o.json", "l.json"] {
            let _ = place.import(name, "deep", ImportOptions::default());
            for query in ["SELECT * FROM", "SELECT a FROM", "SELECT count(*), g FROM", "TABLE"] {
                let _ = place.run_in(&format!("{query} '{{}}/{name}' GROUP BY ALL ORDER BY ALL"));
                let _ = place.run_in(&format!("{query} '{{}}/{name}'"));
            }
        }
    };
    std::thread::scope(|scope| {
        std::thread::Builder::new().stack_size(2 << 20).spawn_scoped(scope, read).unwrap();
    });
}
