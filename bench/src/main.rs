//! What the benchmarks measure from Rust: `swingdb-bench JOB DATABASE [ARGUMENT]`.
//!
//! Each job is one process of a benchmark; the scripts in this directory start them, keep the
//! conditions equal, and write down the results. A job prints one JSON object.

#![deny(unsafe_code)]

use std::error::Error;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use swingdb::arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchReader};
use swingdb::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use swingdb::arrow::error::ArrowError;
use swingdb::io::{ExportOptions, ImportOptions};
use swingdb::{Connection, Database};
use swingdb_generate::{TaxiOptions, fill_taxi};

/// The allocator of the command line and of the Python package: it keeps memory that imports use
/// again.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// As in the command line.
#[allow(unsafe_code)]
#[unsafe(export_name = "_rjem_malloc_conf")]
static ALLOCATOR_OPTIONS: Option<&[u8; 11]> = Some(b"thp:always\0");

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Bytes of a row of the table `numbers`.
const ROW_BYTES: u64 = 32;
const BATCH_ROWS: u64 = 131_072;
const CREATE: &str = "CREATE TABLE numbers (
    id BIGINT NOT NULL, a BIGINT NOT NULL, b DOUBLE NOT NULL, c DOUBLE NOT NULL)";
const SNAPSHOTS: usize = 1_000;
const SHARES: usize = 200;
const LARGE_SHARES: usize = 7;
/// What is done after an import before it is shared.
const LARGE_CHANGES: [(&str, Option<&str>); 3] = [
    ("import", None),
    ("import, UPDATE of all rows", Some("UPDATE large SET a = a + 1")),
    ("import, DROP TABLE", Some("DROP TABLE large")),
];
const FIRST_QUERIES: usize = 100;
const SUMS: usize = 7;

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |i: usize| arguments.get(i).map(String::as_str).ok_or("an argument is missing");
    let name = argument(1)?;
    let result = match argument(0)? {
        "fill" => fill(name, argument(2)?.parse()?)?,
        "snapshot" => snapshot(name)?,
        "first-query" => first_query(name)?,
        "share" => share(name)?,
        "share-large" => share_large(name, argument(2)?.parse()?)?,
        "sum-as-writer" => sum(&Database::open(name)?, Instant::now())?,
        "sum-as-reader" => sum_as_reader(name, argument(2)?)?,
        "read-all-and-hold" => read_all_and_hold(name)?,
        "taxi-files" => taxi_files(Path::new(name), argument(2)?.parse()?)?,
        "import" => import(Path::new(name))?,
        other => return Err(format!("no job {other:?}").into()),
    };
    println!("{result}");
    Ok(())
}

/// Rows of numbers: `id` counts up, the other columns are random.
struct Numbers {
    schema: SchemaRef,
    next: u64,
    rows: u64,
    random: fastrand::Rng,
}

impl Numbers {
    fn new(bytes: u64) -> Self {
        let field = |name: &str, of| Field::new(name, of, false);
        let schema = Schema::new(vec![
            field("id", DataType::Int64),
            field("a", DataType::Int64),
            field("b", DataType::Float64),
            field("c", DataType::Float64),
        ]);
        let rows = (bytes / ROW_BYTES).max(1);
        Self { schema: Arc::new(schema), next: 0, rows, random: fastrand::Rng::with_seed(1) }
    }
}

impl Iterator for Numbers {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let ids = self.next..self.rows.min(self.next + BATCH_ROWS);
        self.next = ids.end;
        if ids.is_empty() {
            return None;
        }
        let random = &mut self.random;
        let a = Int64Array::from_iter_values(ids.clone().map(|_| random.i64(-1_000..1_000)));
        let b = Float64Array::from_iter_values(ids.clone().map(|_| random.f64()));
        let c = Float64Array::from_iter_values(ids.clone().map(|_| random.f64()));
        let ids = Int64Array::from_iter_values(ids.map(|id| id as i64));
        let columns: Vec<ArrayRef> = vec![Arc::new(ids), Arc::new(a), Arc::new(b), Arc::new(c)];
        Some(RecordBatch::try_new(self.schema.clone(), columns))
    }
}

impl RecordBatchReader for Numbers {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// Makes and shares a database with `bytes` of data.
fn fill(name: &str, bytes: u64) -> Outcome<Value> {
    let database = Database::open(name)?;
    let con = database.connect();
    con.query(CREATE)?;
    let begun = Instant::now();
    let rows = con.append("numbers", Numbers::new(bytes))?;
    let took = begun.elapsed();
    database.share()?;
    Ok(json!({ "rows": rows, "bytes": rows * ROW_BYTES, "seconds": took.as_secs_f64() }))
}

/// Takes a snapshot again and again, each with a fresh handle; the first one separately.
fn snapshot(name: &str) -> Outcome<Value> {
    let (mut takes, mut looks) = (Vec::new(), Vec::new());
    for _ in 0..SNAPSHOTS {
        let begun = Instant::now();
        let snapshot = Database::snapshot(name)?;
        takes.push(micros(begun.elapsed()));
        // The full path to the data: up to the first value of a column, without SQL.
        let first = snapshot.connect().table("numbers")?.next().transpose()?;
        looks.push(micros(begun.elapsed()));
        assert!(first.is_some_and(|batch| batch.num_rows() > 0), "the table is empty");
    }
    Ok(json!({ "first_us": takes[0], "take_us": takes, "to_first_batch_us": looks }))
}

/// The first query on a fresh snapshot, again and again: from taking the snapshot to the result.
fn first_query(name: &str) -> Outcome<Value> {
    let rows = count(&Database::snapshot(name)?.connect())?;
    let mut random = fastrand::Rng::with_seed(3);
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..FIRST_QUERIES {
        let id = random.i64(0..rows);
        let queries = [
            "SELECT count(*) FROM numbers".to_string(),
            format!("SELECT a FROM numbers WHERE id = {id}"),
        ];
        for (query, times) in queries.iter().zip(&mut times) {
            let begun = Instant::now();
            let snapshot = Database::snapshot(name)?;
            let batches = snapshot.connect().query(query)?.collect()?;
            times.push(micros(begun.elapsed()));
            assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 1, "one row");
        }
    }
    let [count, point] = times;
    Ok(json!({ "count_us": count, "point_us": point }))
}

/// Changes one row and shares, again and again; only the sharing is timed.
fn share(name: &str) -> Outcome<Value> {
    let database = Database::open(name)?;
    let con = database.connect();
    let rows = count(&con)?;
    let mut random = fastrand::Rng::with_seed(2);
    let (mut changes, mut shares) = (Vec::new(), Vec::new());
    for _ in 0..SHARES {
        let id = random.i64(0..rows);
        let begun = Instant::now();
        con.query(&format!("UPDATE numbers SET a = a + 1 WHERE id = {id}"))?;
        changes.push(micros(begun.elapsed()));
        let begun = Instant::now();
        database.share()?;
        shares.push(micros(begun.elapsed()));
    }
    Ok(json!({ "change_us": changes, "share_us": shares }))
}

/// Shares after an import of `bytes` and what follows it, again and again: in a database of its
/// own, and in a named snapshot of the database `name`, whose first share it is.
fn share_large(name: &str, bytes: u64) -> Outcome<Value> {
    let mut rows = Vec::new();
    for (what, change) in LARGE_CHANGES {
        let (mut imports, mut writer, mut snapshot) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..LARGE_SHARES {
            for (times, is_snapshot) in [(&mut writer, false), (&mut snapshot, true)] {
                let database = match is_snapshot {
                    true => Database::get_snapshot(name, "large")?,
                    false => Database::open("large")?,
                };
                let con = database.connect();
                con.query(&CREATE.replace("numbers", "large"))?;
                let begun = Instant::now();
                con.append("large", Numbers::new(bytes))?;
                imports.push(micros(begun.elapsed()));
                if let Some(change) = change {
                    con.query(change)?;
                }
                let begun = Instant::now();
                database.share()?;
                times.push(micros(begun.elapsed()));
                drop((con, database));
                swingdb::drop("large")?;
            }
        }
        let times = json!({ "import_us": imports, "writer_us": writer, "snapshot_us": snapshot });
        rows.push(json!({ "change": what, "times": times }));
    }
    Ok(json!({ "bytes": bytes, "rows": rows }))
}

fn count(con: &Connection) -> Outcome<i64> {
    let batches = con.query("SELECT count(*) FROM numbers")?.collect()?;
    let column = batches.first().ok_or("count(*) has a row")?.column(0).clone();
    let column = column.as_any().downcast_ref::<Int64Array>().ok_or("count(*) is a number")?;
    Ok(column.value(0))
}

/// Sums one column several times. The first time counts from `begun`, so that for a reader it has
/// the snapshot in it.
fn sum(database: &Database, mut begun: Instant) -> Outcome<Value> {
    let con = database.connect();
    let mut times = Vec::new();
    for _ in 0..SUMS {
        con.query("SELECT sum(a) FROM numbers")?.collect()?;
        times.push(begun.elapsed().as_secs_f64() * 1e3);
        begun = Instant::now();
    }
    Ok(json!({ "sum_ms": times }))
}

/// The same in a process that takes a snapshot: `started` when the query engine has run a query
/// before, so that what the first query of any process costs is not in the times; `cold` when not.
fn sum_as_reader(name: &str, engine: &str) -> Outcome<Value> {
    if engine == "started" {
        let other = Database::private()?;
        let con = other.connect();
        con.query("CREATE TABLE numbers AS SELECT 1 AS a")?;
        con.query("SELECT sum(a) FROM numbers")?.collect()?;
    }
    let begun = Instant::now();
    sum(&Database::snapshot(name)?, begun)
}

/// Reads every value of a snapshot, says so, and holds it until the input closes.
fn read_all_and_hold(name: &str) -> Outcome<Value> {
    let snapshot = Database::snapshot(name)?;
    let con = snapshot.connect();
    con.query("SELECT sum(id), sum(a), sum(b), sum(c) FROM numbers")?.collect()?;
    println!("{}", json!({ "read": true }));
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(json!({}))
}

fn micros(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e3
}

/// Writes taxi reports as CSV and as Parquet, as other programs would.
fn taxi_files(directory: &Path, rows: u64) -> Outcome<Value> {
    let database = Database::private()?;
    let con = database.connect();
    fill_taxi(&con, "taxi", &TaxiOptions { rows, ..TaxiOptions::default() })?;
    // Receivers report six digits, and speeds one.
    let query = "SELECT taxi_id, time, round(longitude, 6) AS longitude, round(latitude, 6) AS \
        latitude, \
                 round(CAST(speed AS DOUBLE), 1) AS speed, heading, occupied FROM taxi";
    let mut bytes = serde_json::Map::new();
    for name in ["taxi.csv", "taxi.parquet"] {
        let report = con.export_file(query, directory.join(name), ExportOptions::default())?;
        bytes.insert(name.to_string(), json!(report.bytes));
    }
    Ok(Value::Object(bytes))
}

/// Imports a file into a new table of a private database.
fn import(path: &Path) -> Outcome<Value> {
    let database = Database::private()?;
    let con = database.connect();
    let report = con.import_file(path, "t", ImportOptions::default())?;
    Ok(json!({"rows": report.rows, "ms": report.duration.as_secs_f64() * 1e3}))
}
