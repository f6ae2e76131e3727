//! A writer that is killed at any moment loses nothing that was committed and leaves nothing
//! behind; one that runs out of memory rolls back and goes on; damaged bytes are an error.

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use common::{Home, seeded};
use fastrand::Rng;
use swing::Namespace;
use swingdb::Error;
use swingdb::store::{
    Catalog, ColumnDef, IfExists, Macro, MacroKind, MacroVariant, RowId, RowIds, Store, TableDef,
};

const CHILD_HOME: &str = "SWINGDB_TEST_CHILD_HOME";
const CHILD_SEED: &str = "SWINGDB_TEST_CHILD_SEED";

fn def(name: &str) -> TableDef {
    let column = |name: &str, data_type| ColumnDef {
        name: name.into(),
        data_type,
        nullable: true,
        is_uuid: false,
        enumeration: None,
        default_sql: None,
    };
    let columns = vec![column("k", DataType::Int64), column("s", DataType::Utf8)];
    TableDef { schema: "main".into(), name: name.into(), columns, constraints: Vec::new() }
}

fn batch(keys: &[i64]) -> RecordBatch {
    let fields =
        vec![Field::new("k", DataType::Int64, true), Field::new("s", DataType::Utf8, true)];
    let texts = keys.iter().map(|k| Some(format!("text of row {k}")));
    let arrays: Vec<ArrayRef> =
        vec![Arc::new(Int64Array::from(keys.to_vec())), Arc::new(texts.collect::<StringArray>())];
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

fn contents(catalog: &Catalog, table: &str) -> Vec<(RowId, i64)> {
    let table = catalog.table("main", table).unwrap().unwrap();
    let mut rows = Vec::new();
    for (at, segment) in table.segments().unwrap().iter().enumerate() {
        let (keys, texts) = (segment.array(0).unwrap(), segment.array(1).unwrap());
        let (keys, texts) = (keys.as_primitive::<Int64Type>(), texts.as_string::<i32>());
        for row in 0..segment.rows() {
            if segment.deleted().is_none_or(|d| !d.value(row)) {
                let key = keys.value(row);
                assert_eq!(texts.value(row), format!("text of row {key}"));
                rows.push((RowId::new(at as u32, row as u32), key));
            }
        }
    }
    rows
}

/// The step a state is of: the only row of table `step`, and what macro `step` stands for.
fn step_of(catalog: &Catalog) -> Option<i64> {
    catalog.table("main", "step").unwrap()?;
    let step = contents(catalog, "step").first().map(|(_, k)| *k)?;
    let kept = catalog.find_macro("main", "step", MacroKind::Scalar).unwrap();
    assert_eq!(kept.variants[0].sql, step.to_string(), "rows and macros of one state");
    Some(step)
}

/// What step `step` does to the rows, decided by the seed alone.
fn plan(seed: u64, step: i64) -> (Vec<i64>, i64, i64) {
    let mut rng = Rng::with_seed(seed ^ (step as u64).wrapping_mul(0x9e37_79b9));
    let count = if rng.u8(..) < 200 { rng.i64(0..50) } else { rng.i64(0..40_000) };
    let first = step * 100_000;
    ((first..first + count).collect(), rng.i64(3..20), rng.i64(3..20))
}

fn model_step(rows: &mut Vec<i64>, seed: u64, step: i64) {
    let (new, delete, update) = plan(seed, step);
    rows.retain(|k| k % delete != 0);
    rows.iter_mut().filter(|k| **k % update == 0).for_each(|k| *k += 1);
    rows.extend(new);
}

fn store_step(store: &Store, seed: u64, step: i64) -> Result<(), Error> {
    let (new, delete, update) = plan(seed, step);
    let mut txn = store.begin()?;
    if step == 0 {
        txn.create_table(def("t"), IfExists::Fail)?;
        txn.create_table(def("step"), IfExists::Fail)?;
        txn.append("main", "step", &[batch(&[0])])?;
    }
    let gone = contents(&txn.view(), "t").into_iter().filter(|(_, k)| k % delete == 0);
    txn.delete_rows("main", "t", &RowIds::new(gone.map(|(id, _)| id).collect()))?;
    let old: Vec<(RowId, i64)> =
        contents(&txn.view(), "t").into_iter().filter(|(_, k)| k % update == 0).collect();
    if !old.is_empty() {
        let new: Vec<i64> = old.iter().map(|(_, k)| k + 1).collect();
        let ids = RowIds::new(old.iter().map(|(id, _)| *id).collect());
        txn.update_rows("main", "t", &ids, &[0, 1], &[batch(&new)])?;
    }
    txn.append("main", "t", &[batch(&new)])?;
    if step > 0 {
        let first = RowIds::new(vec![RowId::new(0, 0)]);
        txn.update_rows("main", "step", &first, &[0, 1], &[batch(&[step])])?;
    }
    let variants = vec![MacroVariant { parameters: Vec::new(), sql: step.to_string() }];
    let kept = Macro { name: "step".into(), kind: MacroKind::Scalar, variants };
    txn.create_macro("main", kept, IfExists::Replace)?;
    if step % 10 == 3 && txn.view().table("main", "copy")?.is_some() {
        txn.drop_table("main", "copy")?;
    } else if step % 10 == 8 {
        let table = txn.view().table("main", "t")?.unwrap();
        let own = txn.store().clone();
        txn.clone_table("main", "copy", &table, &own, IfExists::Replace)?;
    }
    txn.commit()?;
    Ok(())
}

/// Not a test of its own: what the process that is killed runs.
#[test]
fn child_that_is_killed() {
    let Ok(home) = std::env::var(CHILD_HOME) else { return };
    let seed: u64 = std::env::var(CHILD_SEED).unwrap().parse().unwrap();
    let namespace = Namespace::open(Path::new(&home)).unwrap();
    let store = Store::open(&namespace, "victim").unwrap();
    let mut step = step_of(&store.latest()).map_or(0, |s| s + 1);
    println!("@ready");
    loop {
        store_step(&store, seed, step).unwrap();
        println!("@{step}");
        if step % 3 == 0 {
            store.share().unwrap();
        }
        step += 1;
    }
}

fn run_and_kill(home: &Home, seed: u64, rng: &mut Rng) -> i64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["child_that_is_killed", "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD_HOME, home.path())
        .env(CHILD_SEED, seed.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut last = -1;
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if let Some(step) = line.strip_prefix('@').and_then(|s| s.parse().ok()) {
                last = step;
            }
        }
        last
    });
    std::thread::sleep(Duration::from_micros(rng.u64(5_000..150_000)));
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

#[test]
fn a_killed_writer_loses_nothing_and_leaves_nothing() {
    let mut rng = seeded("a_killed_writer_loses_nothing_and_leaves_nothing");
    let kills = std::env::var("SWINGDB_TEST_KILLS").ok().and_then(|k| k.parse().ok()).unwrap_or(25);
    let home = Home::new();
    let seed = rng.u64(..);
    let (mut rows, mut done) = (Vec::new(), -1);
    let mut states: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for _ in 0..kills {
        let reported = run_and_kill(&home, seed, &mut rng);
        let store = Store::open(&home.namespace, "victim").unwrap();
        let found = step_of(&store.latest()).unwrap_or(-1);
        assert!(found >= reported.max(done), "step {reported} was committed, {found} is there");
        while done < found {
            done += 1;
            model_step(&mut rows, seed, done);
            states.insert(done, rows.clone());
        }
        if found >= 0 {
            let keys: Vec<i64> = contents(&store.latest(), "t").iter().map(|(_, k)| *k).collect();
            assert!(keys == rows, "the state of step {found} is wrong");
        }
        store.verify().unwrap();
        if let Ok(snapshot) = Store::hook(&home.namespace, "victim")
            && let Some(step) = step_of(&snapshot.latest())
        {
            let keys: Vec<i64> =
                contents(&snapshot.latest(), "t").iter().map(|(_, k)| *k).collect();
            assert!(keys == states[&step], "the shared state of step {step} is wrong");
        }
    }
    println!("{kills} kills, {} steps", done + 1);
    assert!(done > 0, "the children never came to commit anything");
}

#[test]
fn limbo_of_a_dead_process_is_freed() {
    let home = Home::new();
    let store = Store::open(&home.namespace, "limbo").unwrap();
    let mut txn = store.begin().unwrap();
    txn.create_table(def("t"), IfExists::Fail).unwrap();
    txn.append("main", "t", &[batch(&(0..100_000).collect::<Vec<_>>())]).unwrap();
    txn.commit().unwrap();
    let old = store.latest();
    let mut txn = store.begin().unwrap();
    txn.truncate_table("main", "t").unwrap();
    txn.commit().unwrap();
    store.share().unwrap();
    let pinned = store.verify().unwrap();
    assert!(pinned.limbo_bytes > 1 << 20, "{pinned:?}");
    assert_eq!(contents(&old, "t").len(), 100_000);
    // Who continues from the shared state frees what the first one could not.
    let snapshot = Store::hook_named(&home.namespace, "limbo", "next").unwrap();
    let mut txn = snapshot.begin().unwrap();
    txn.append("main", "t", &[batch(&[1])]).unwrap();
    txn.commit().unwrap();
    snapshot.share().unwrap();
    assert!(snapshot.verify().unwrap().limbo_bytes < 1 << 16);
    drop(old);
    let mut txn = store.begin().unwrap();
    txn.append("main", "t", &[batch(&[1])]).unwrap();
    txn.commit().unwrap();
    assert!(store.verify().unwrap().limbo_bytes < 1 << 16);
}
