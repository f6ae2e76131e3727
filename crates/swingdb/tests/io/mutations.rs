//! Real files of which something is changed: whatever it is, reading them is an answer or an error
//! that says what is wrong. A test that fails may take all others with it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use swingdb::Error;
use swingdb::arrow::array::{Int64Array, RecordBatch, new_null_array};
use swingdb::arrow::compute::{cast, concat};
use swingdb::arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};
use swingdb::arrow::ipc::writer::{FileWriter, StreamWriter};
use swingdb::io::{ExportOptions, ImportOptions};

use super::support::{Place, seeded};

/// Numbers that a program which believes them does not survive, or that are just not true.
const NUMBERS: [i64; 14] = [
    -1,
    -2,
    0,
    1,
    127,
    1 << 16,
    1 << 20,
    (1 << 31) - 1,
    1 << 31,
    1 << 40,
    1 << 46,
    1 << 62,
    i64::MAX,
    i64::MIN,
];

/// Held by tests that make the decoders of Parquet files panic, and by those that count the panics
/// of Arrow's decoders.
static PANICS: Mutex<()> = Mutex::new(());

/// Set where a test runs alone in a process of its own.
const ALONE: &str = "SWINGDB_TEST_ALONE";

/// Runs a test of this module again in a process of its own, which must end well and print nothing
/// of a panic. Returns whether the caller is that process.
fn runs_quietly_alone(test: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let name = format!("mutations::{test}");
    command.args(["--exact", &name, "--nocapture", "--test-threads=1"]).env(ALONE, "1");
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (printed, errors) = (text(&output.stdout), text(&output.stderr));
    print!("{printed}");
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}\n{errors}");
    for sign in ["panicked at", "panic:", "range end"] {
        assert!(!errors.contains(sign), "{errors}");
    }
    false
}

pub(crate) fn alone() -> MutexGuard<'static, ()> {
    PANICS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file with numbers, texts, NULLs, lists and structs.
fn exported(place: &Place, name: &str, compression: Option<&str>) -> Vec<u8> {
    place.run(
        "CREATE OR REPLACE TABLE src AS SELECT value AS n, concat('text ', value % 7) AS t, \
         CASE WHEN value % 3 = 0 THEN CAST(value AS DOUBLE) END AS d, [value, NULL] AS l, \
         {a: value, b: [{c: 'x'}]} AS s FROM range(700) r(value)",
    );
    let compression = compression.map(str::to_string);
    let options = ExportOptions { compression, ..Default::default() };
    place.con.export_file("src", place.path(name), options).unwrap();
    std::fs::read(place.path(name)).unwrap()
}

/// Reads a file in all ways that there are; an error must not be that of a defect.
fn read(place: &Place, function: &str, name: &str, bytes: &[u8], what: &str) {
    place.file(name, bytes);
    let checked = |result: Result<(), Error>| match result {
        Err(Error::Internal { message }) => panic!("{name}, {what}: {message}"),
        Err(Error::Import { path, message, .. }) => {
            assert!(path.ends_with(name), "{name}, {what}: {}", path.display());
            assert!(!message.contains("panic"), "{name}, {what}: {message}");
        }
        // What a Parquet file says of its values is not the engine's to fail by.
        Err(error @ Error::Execution { .. }) if function == "read_parquet" => {
            panic!("{name}, {what}: {error}")
        }
        _ => {}
    };
    checked(place.import(name, "t", ImportOptions::default()).map(drop));
    place.run("DROP TABLE IF EXISTS t");
    let from = format!("FROM {function}('{{}}/{name}')");
    checked(place.run_in(&format!("SELECT count(*) {from}")));
    checked(place.run_in(&format!("SELECT * {from} WHERE n > 5 LIMIT 100000")));
}

/// Where a struct of Thrift's compact protocol has numbers: those of lists' lengths, too.
struct Numbers<'a> {
    bytes: &'a [u8],
    at: usize,
    found: Vec<(usize, usize, bool)>,
}

impl Numbers<'_> {
    fn of(bytes: &[u8]) -> Vec<(usize, usize, bool)> {
        let mut numbers = Numbers { bytes, at: 0, found: Vec::new() };
        numbers.value(12);
        numbers.found
    }

    fn byte(&mut self) -> u8 {
        self.at += 1;
        self.bytes[self.at - 1]
    }

    fn number(&mut self, signed: bool) -> usize {
        let (start, mut number, mut shift) = (self.at, 0, 0);
        loop {
            let byte = self.byte();
            number |= usize::from(byte & 0x7F) << shift;
            shift += 7;
            if byte < 0x80 {
                self.found.push((start, self.at, signed));
                return number;
            }
        }
    }

    fn value(&mut self, kind: u8) {
        match kind {
            1 | 2 => {}
            3 => self.at += 1,
            4..=6 => drop(self.number(true)),
            7 => self.at += 8,
            8 => self.at += self.number(false),
            9 | 10 => {
                let head = self.byte();
                let count = if head >> 4 == 15 { self.number(false) } else { (head >> 4).into() };
                (0..count).for_each(|_| self.value(head & 15));
            }
            12 => loop {
                let head = self.byte();
                match head {
                    0 => break,
                    1..=15 => panic!("a field with a long number"),
                    _ => self.value(head & 15),
                }
            },
            other => panic!("a field of kind {other}"),
        }
    }
}

fn varint(number: i64, signed: bool) -> Vec<u8> {
    let mut rest = if signed { ((number << 1) ^ (number >> 63)) as u64 } else { number as u64 };
    let mut bytes = Vec::new();
    while rest > 0x7F {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
    bytes
}

#[test]
fn numbers_in_the_footers_of_parquet_files() {
    if !runs_quietly_alone("numbers_in_the_footers_of_parquet_files") {
        return;
    }
    let mut random = seeded();
    let place = Place::new();
    let good = exported(&place, "f.parquet", None);
    let tail = good.len() - 8;
    let length = u32::from_le_bytes(good[tail..tail + 4].try_into().unwrap()) as usize;
    let (data, footer) = good[..tail].split_at(tail - length);
    let numbers = Numbers::of(footer);
    assert!(numbers.len() > 100);
    // Each of them as memory that no machine has, then whatever chance brings.
    let absurd = (0..numbers.len()).map(|place| (place, 1 << 40));
    let chance: Vec<(usize, i64)> = (0..rounds())
        .map(|_| (random.usize(..numbers.len()), NUMBERS[random.usize(..NUMBERS.len())]))
        .collect();
    for (place_of, number) in absurd.chain(chance) {
        let (start, end, signed) = numbers[place_of];
        let changed = [&footer[..start], &varint(number, signed), &footer[end..]].concat();
        let length = (changed.len() as u32).to_le_bytes();
        let bad = [data, &changed, &length, b"PAR1"].concat();
        read(&place, "read_parquet", "x.parquet", &bad, &format!("{number} at {start}"));
    }
}

/// How often chance is asked: `SWINGDB_TEST_ROUNDS`, or a few times.
fn rounds() -> usize {
    std::env::var("SWINGDB_TEST_ROUNDS").map_or(40, |text| text.parse().unwrap())
}

/// `good` with a few bytes, words or stretches changed.
fn changed(random: &mut fastrand::Rng, good: &[u8]) -> Vec<u8> {
    let mut bad = good.to_vec();
    for _ in 0..random.usize(1..4) {
        // What says how long something is stands near the ends, or anywhere.
        let near = random.usize(..bad.len().min(400));
        let at = match random.u8(..3) {
            0 => near,
            1 => bad.len() - 1 - near,
            _ => random.usize(..bad.len()),
        };
        match random.u8(..5) {
            0 => bad[at] = random.u8(..),
            1 => bad.truncate(at.max(1)),
            2 => drop(
                bad.splice(at..at, good[random.usize(..good.len())..].iter().take(40).copied()),
            ),
            _ => {
                let at = at / 4 * 4;
                let width = [1, 2, 4, 8][random.usize(..4)].min(bad.len() - at);
                let number = match random.bool() {
                    true => NUMBERS[random.usize(..NUMBERS.len())],
                    false => random.i64(..),
                };
                bad[at..at + width].copy_from_slice(&number.to_le_bytes()[..width]);
            }
        }
    }
    bad
}

#[test]
fn bytes_of_parquet_files() {
    if !runs_quietly_alone("bytes_of_parquet_files") {
        return;
    }
    let mut random = seeded();
    let place = Place::new();
    for codec in ["uncompressed", "snappy", "zstd", "lz4", "gzip"] {
        let good = exported(&place, "f.parquet", Some(codec));
        for round in 0..rounds() {
            let bad = changed(&mut random, &good);
            read(&place, "read_parquet", "x.parquet", &bad, &format!("{codec}, round {round}"));
        }
    }
}

/// A Parquet file whose pages are damaged, one at a time: every way to read it says so, and where.
#[test]
fn pages_of_parquet_files() {
    if !runs_quietly_alone("pages_of_parquet_files") {
        return;
    }
    let place = Place::new();
    place.run(
        "CREATE TABLE src AS SELECT value AS n, concat('text ', value) AS t \
         FROM range(700) r(value)",
    );
    let options = ExportOptions { compression: Some("snappy".to_string()), ..Default::default() };
    place.con.export_file("src", place.path("good.parquet"), options).unwrap();
    let good = std::fs::read(place.path("good.parquet")).unwrap();
    let chunk = |column: &str, what: &str| -> usize {
        let sql = format!(
            "SELECT {what} FROM parquet_metadata('{{}}/good.parquet') \
             WHERE path_in_schema = '{column}'"
        );
        place.value(&sql).parse().unwrap()
    };
    let mut placed = 0;
    for column in ["n", "t"] {
        let start = chunk(column, "coalesce(dictionary_page_offset, data_page_offset)");
        let bytes = chunk(column, "total_compressed_size");
        for at in (start..start + bytes).step_by(bytes / 40 + 1) {
            let mut bad = good.clone();
            bad[at..(at + 9).min(start + bytes)].fill(0xFF);
            placed += pages_damaged(&place, &bad, column, at);
        }
    }
    // Some bytes are values, whose damage cannot be seen.
    assert!(placed > 40, "{placed}");
}

/// Reads a file with a damaged column in several ways; counts the errors that name the column.
fn pages_damaged(place: &Place, bad: &[u8], column: &str, at: usize) -> usize {
    place.file("bad.parquet", bad);
    let from = "FROM read_parquet(['{}/good.parquet', '{}/bad.parquet'])";
    let mut results = vec![
        place.import("bad.parquet", "u", ImportOptions::default()).map(drop),
        place.run_in("SELECT * FROM '{}/bad.parquet'"),
        place.run_in(&format!("SELECT max(n), max(t) {from}")),
        place.run_in(&format!("SELECT * {from} WHERE n > 5 ORDER BY t LIMIT 3")),
    ];
    place.run("DROP TABLE IF EXISTS u");
    results.push(place.run_in(&format!("CREATE TABLE u AS SELECT n, upper(t) AS t {from}")));
    place.run("DROP TABLE IF EXISTS u");
    let wanted = format!("column {column:?} of row group 0");
    let errors = results.into_iter().filter_map(Result::err);
    let named = errors.filter(|error| match error {
        Error::Import { path, message, .. } => {
            assert!(path.ends_with("bad.parquet"), "{column} at {at}: {error}");
            assert!(!message.contains("panic"), "{column} at {at}: {error}");
            message.contains(&wanted)
        }
        other => panic!("{column} at {at}: {other}"),
    });
    named.count()
}

/// Panics inside of the decoders of Arrow files, which are caught, and would be printed: a file is
/// looked at before it is believed, so there are none.
fn count_decoder_panics() -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let file = panic.location().map_or("", |location| location.file());
        if ["arrow-ipc", "arrow-buffer", "arrow-data"].iter().any(|part| file.contains(part)) {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        before(panic);
    }));
    count
}

/// All kinds of columns that another program may write.
fn every_kind() -> RecordBatch {
    let rows = 50;
    let item = |kind: DataType| Arc::new(Field::new("item", kind, true));
    let pair = [Field::new("k", DataType::Utf8, false), Field::new("v", DataType::Int8, true)];
    let pairs = DataType::Struct(pair.into_iter().map(Arc::new).collect());
    let kinds = [
        DataType::Null,
        DataType::Boolean,
        DataType::UInt16,
        DataType::Float16,
        DataType::Utf8View,
        DataType::LargeUtf8,
        DataType::FixedSizeBinary(3),
        DataType::Decimal128(20, 3),
        DataType::Decimal256(50, 3),
        DataType::Date64,
        DataType::Time32(TimeUnit::Second),
        DataType::Timestamp(TimeUnit::Millisecond, Some("Europe/Berlin".into())),
        DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::Duration(TimeUnit::Second),
        DataType::List(item(DataType::Utf8)),
        DataType::LargeList(item(DataType::Boolean)),
        DataType::FixedSizeList(item(DataType::Int32), 2),
        DataType::Map(Arc::new(Field::new("entries", pairs, false)), false),
        DataType::Dictionary(Box::new(DataType::Int16), Box::new(DataType::Utf8)),
        DataType::Struct([item(DataType::BinaryView)].into_iter().collect()),
    ];
    let columns = kinds.iter().enumerate().map(|(number, kind)| {
        let column = match kind {
            DataType::Null => new_null_array(kind, rows),
            // Half of the rows have values, where there is a way to make them.
            _ => match cast(&Int64Array::from_iter_values(0..rows as i64 / 2), kind) {
                Ok(half) => {
                    let rest = new_null_array(kind, rows - rows / 2);
                    concat(&[&half, &rest]).unwrap()
                }
                Err(_) => new_null_array(kind, rows),
            },
        };
        (format!("c{number}"), column, true)
    });
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

#[test]
fn bytes_of_arrow_files_of_every_kind() {
    let _alone = alone();
    let mut random = seeded();
    let panics = count_decoder_panics();
    let place = Place::new();
    let batch = every_kind();
    let schema = batch.schema();
    let (mut file, mut stream) = (Vec::new(), Vec::new());
    let mut writer = FileWriter::try_new(&mut file, &schema).unwrap();
    writer.write(&batch).and_then(|()| writer.finish()).unwrap();
    drop(writer);
    let mut writer = StreamWriter::try_new(&mut stream, &schema).unwrap();
    writer.write(&batch).and_then(|()| writer.finish()).unwrap();
    drop(writer);
    let mut refused = 0;
    for (name, good) in [("x.arrow", file), ("x.arrows", stream)] {
        place.file(name, &good);
        assert_eq!(place.value(&format!("SELECT count(*) FROM '{{}}/{name}'")), "50");
        for round in 0..rounds() * 10 {
            let bad = changed(&mut random, &good);
            place.file(name, &bad);
            let result = place.run_in(&format!("SELECT * FROM '{{}}/{name}'"));
            refused += usize::from(result.is_err());
            if let Err(Error::Internal { message }) = result {
                panic!("{name}, round {round}: {message}");
            }
        }
    }
    assert!(refused > rounds(), "{refused}");
    assert_eq!(panics.load(Ordering::Relaxed), 0, "panics of the decoder");
}

#[test]
fn bytes_of_arrow_files_and_streams() {
    let mut random = seeded();
    let place = Place::new();
    let names = ["x.arrow", "x.arrows"];
    let codecs = ["none", "lz4", "zstd"];
    for (codec, name) in codecs.into_iter().flat_map(|codec| names.map(|name| (codec, name))) {
        let good = exported(&place, name, Some(codec));
        for round in 0..rounds() {
            let bad = changed(&mut random, &good);
            read(&place, "read_arrow", name, &bad, &format!("{codec}, round {round}"));
        }
    }
}

#[test]
fn bytes_of_json_files() {
    let mut random = seeded();
    let place = Place::new();
    let lines = exported(&place, "f.json", None);
    let array = [b"[", lines.trim_ascii().to_vec().as_slice(), b"]"].concat();
    let array = String::from_utf8(array).unwrap().replace('\n', ",\n").into_bytes();
    let pieces = ["[", "]", "{", "}", "{\"a\":", "\"", "\\", ",", "1e999", "-", "\u{1}", "\\ud800"];
    for (name, good) in [("x.json", lines), ("x.json", array)] {
        for round in 0..rounds() {
            let mut bad = match random.bool() {
                true => changed(&mut random, &good),
                false => good.clone(),
            };
            let piece = pieces[random.usize(..pieces.len())];
            let times = [1, 2, 60, 130, 200_000][random.usize(..5)];
            let at = random.usize(..bad.len());
            bad.splice(at..at, piece.repeat(times).into_bytes());
            read(&place, "read_json", name, &bad, &format!("round {round}: {times} {piece}"));
        }
    }
}
