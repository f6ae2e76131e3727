//! Damaged or hostile catalog bytes are an error, never a panic or an access outside the area; a
//! full file system is an error, and the database goes on.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use common::{Home, seeded};
use fastrand::Rng;
use swing::{Area, AreaName, AreaOffset, ExtentId, ExtentState, Namespace, Publish, WriteIntent};
use swingdb::Error;
use swingdb::store::{
    ColumnDef, Constraint, IfExists, Macro, MacroKind, MacroParameter, MacroVariant, RowId, RowIds,
    Store, TableDef, View,
};
use xxhash_rust::xxh3::Xxh3;

const FRAME: usize = 24;

fn def(name: &str) -> TableDef {
    let column = |name: &str, data_type, nullable| ColumnDef {
        name: name.into(),
        data_type,
        nullable,
        is_uuid: false,
        enumeration: None,
        default_sql: Some("1 + 1".into()),
    };
    let item = Arc::new(Field::new("item", DataType::Utf8, true));
    let columns = vec![
        column("k", DataType::Int64, true),
        column("s", DataType::Utf8, true),
        column("l", DataType::List(item), true),
    ];
    let constraints = vec![Constraint::Unique(vec![0])];
    TableDef { schema: "main".into(), name: name.into(), columns, constraints }
}

fn batch(rows: i64) -> RecordBatch {
    let columns = def("t").columns;
    let fields: Vec<Field> =
        columns.iter().map(|c| Field::new(&c.name, c.data_type.clone(), true)).collect();
    let texts = (0..rows).map(|k| (k % 5 > 0).then(|| format!("text of row {k}")));
    let mut rng = Rng::with_seed(1);
    let lists = common::random_array(&mut rng, &columns[2].data_type, rows as usize, true);
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(0..rows)),
        Arc::new(texts.collect::<StringArray>()),
        lists,
    ];
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

fn victim(namespace: &Namespace) {
    let store = Store::open(namespace, "victim").unwrap();
    let mut txn = store.begin().unwrap();
    txn.create_table(def("t"), IfExists::Fail).unwrap();
    txn.append("main", "t", &[batch(5000)]).unwrap();
    txn.commit().unwrap();
    // Rows changed later lie beside their columns.
    let mut txn = store.begin().unwrap();
    let ids = RowIds::new([7, 4000].map(|row| RowId::new(0, row)).to_vec());
    let texts_and_lists = batch(2).project(&[1, 2]).unwrap();
    txn.update_rows("main", "t", &ids, &[1, 2], &[texts_and_lists]).unwrap();
    let view = View { name: "v".into(), sql: "select 1".into(), columns: Some(vec!["x".into()]) };
    txn.create_view("main", view, IfExists::Fail).unwrap();
    for kind in [MacroKind::Scalar, MacroKind::Table] {
        let parameter = |name: &str, default: Option<&str>| MacroParameter {
            name: name.into(),
            default: default.map(str::to_owned),
        };
        let parameters = vec![parameter("a", None), parameter("b", Some("1"))];
        let variants = vec![
            MacroVariant { parameters, sql: "a + b".into() },
            MacroVariant { parameters: Vec::new(), sql: "1".into() },
        ];
        let one = Macro { name: "m".into(), kind, variants };
        txn.create_macro("main", one, IfExists::Fail).unwrap();
    }
    // More tables than a root has in itself.
    txn.create_schema("many", IfExists::Fail).unwrap();
    for i in 0..70 {
        let table = TableDef { schema: "many".into(), ..def(&format!("t{i}")) };
        txn.create_table(table, IfExists::Fail).unwrap();
    }
    txn.commit().unwrap();
    store.share().unwrap();
}

#[expect(clippy::mut_from_ref, reason = "the memory is the area's, not the handle's")]
fn slice(area: &Area, at: u64, len: usize) -> &mut [u8] {
    let base = area.base();
    // SAFETY: the caller stays inside extents that have memory; this test is the only user of the
    // area.
    unsafe { std::slice::from_raw_parts_mut(base.as_ptr().add(at as usize), len) }
}

/// Offsets and lengths of the catalog records that are in the area, old ones too.
fn records(area: &Area) -> Vec<(u64, usize)> {
    let geometry = *area.geometry();
    let mut found = Vec::new();
    for extent in 0..geometry.extent_count() {
        let extent = ExtentId(extent);
        if !geometry.is_small(extent) {
            break;
        }
        if area.extent_state(extent) == ExtentState::Absent {
            continue;
        }
        let range = geometry.range(extent);
        for at in (range.start.0..range.end.0).step_by(128) {
            let head = slice(area, at, FRAME);
            let len = u64::from_le_bytes(head[8..16].try_into().unwrap()) as usize;
            if head.starts_with(b"SwDB") && len < 30_000 {
                found.push((at, len));
            }
        }
    }
    found
}

/// Reads everything the catalog says, values aside.
fn exercise(namespace: &Namespace) -> Result<(), Error> {
    let store = Store::hook(namespace, "victim")?;
    let catalog = store.latest();
    for schema in catalog.schema_names() {
        for view in catalog.view_names(&schema) {
            catalog.view(&schema, &view)?;
        }
        for kind in [MacroKind::Scalar, MacroKind::Table] {
            for name in catalog.macro_names(&schema, kind) {
                assert!(catalog.find_macro(&schema, &name, kind).is_some());
            }
        }
        for name in catalog.table_names(&schema)? {
            let Some(table) = catalog.table(&schema, &name)? else { continue };
            for segment in table.segments()?.iter() {
                for column in 0..segment.columns() {
                    segment.stats(column)?;
                    segment.array(column)?;
                    segment.slice(column, 0..segment.rows().min(100))?;
                    segment.slice(column, segment.rows() / 2..segment.rows())?;
                }
                segment.deleted();
            }
            for column in 0..table.columns().len() {
                table.stats(column)?;
            }
        }
    }
    store.info()?;
    Ok(())
}

#[test]
fn damaged_records_are_errors() {
    let mut rng = seeded("damaged_records_are_errors");
    let home = Home::new();
    victim(&home.namespace);
    let area = home.namespace.open_area(&AreaName::new("victim").unwrap()).unwrap();
    let payload = area.payload();
    let all = records(&area);
    assert!(all.len() >= 3, "root, table and page: {all:?}");
    let (mut refused, mut accepted) = (0, 0);
    for round in 0..5000 {
        let (at, len) = all[rng.usize(..all.len())];
        let range = AreaOffset(at)..AreaOffset(at + (FRAME + len) as u64);
        area.make_writable(range, WriteIntent::Keep).unwrap();
        let record = slice(&area, at, FRAME + len);
        let before = record.to_vec();
        let checksum_too = round % 10 != 0;
        for _ in 0..rng.usize(1..4) {
            let position =
                if checksum_too { rng.usize(FRAME..FRAME + len) } else { rng.usize(..FRAME + len) };
            record[position] =
                if rng.bool() { rng.u8(..) } else { record[position] ^ 1 << rng.u8(..8) };
        }
        if checksum_too {
            let mut hash = Xxh3::new();
            hash.update(&record[6..8]);
            hash.update(&record[FRAME..]);
            record[16..24].copy_from_slice(&hash.digest().to_le_bytes());
        }
        area.publish(Publish::Shared, &payload).unwrap();
        match catch_unwind(AssertUnwindSafe(|| exercise(&home.namespace))) {
            Ok(Ok(())) => accepted += 1,
            Ok(Err(Error::Corrupt { name, .. })) => {
                assert_eq!(name, "victim");
                refused += 1;
            }
            Ok(Err(other)) => panic!("{other:?}"),
            Err(_) => panic!("round {round}: a panic on hostile bytes"),
        }
        let range = AreaOffset(at)..AreaOffset(at + (FRAME + len) as u64);
        area.make_writable(range, WriteIntent::Keep).unwrap();
        slice(&area, at, FRAME + len).copy_from_slice(&before);
    }
    println!("{refused} refused, {accepted} accepted (a name or a number, still consistent)");
    assert!(refused > 100);
    for payload in [&b""[..], b"nonsense", &[0; 32], &rng.u128(..).to_le_bytes()] {
        area.publish(Publish::Shared, payload).unwrap();
        assert!(matches!(exercise(&home.namespace), Err(Error::Corrupt { .. })));
    }
    area.publish(Publish::Shared, &payload).unwrap();
    exercise(&home.namespace).unwrap();
}

/// A small file system of its own, when this process may mount one.
struct SmallHome {
    directory: tempfile::TempDir,
}

impl SmallHome {
    fn new(megabytes: u32) -> Option<Self> {
        let directory = tempfile::tempdir_in("/dev/shm").ok()?;
        let options = format!("size={megabytes}m");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(directory.path())
            .stderr(std::process::Stdio::null())
            .status()
            .ok()?;
        mounted.success().then_some(Self { directory })
    }
}

impl Drop for SmallHome {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.directory.path()).status();
    }
}

#[test]
fn a_full_file_system_is_an_error() {
    let Some(home) = SmallHome::new(48) else {
        println!("skipped: this process may not mount a file system");
        return;
    };
    let path = home.directory.path().join("home");
    // Without this the database would go on in the rest of the machine's memory.
    let namespace = Namespace::open(&path).unwrap().with_backing(swing::Backing::File);
    let store = Store::open(&namespace, "victim").unwrap();
    let mut txn = store.begin().unwrap();
    txn.create_table(def("t"), IfExists::Fail).unwrap();
    txn.commit().unwrap();
    let mut rows = 0;
    let full = batch(100_000);
    let error = loop {
        let mut txn = store.begin().unwrap();
        let keys = Arc::new(Int64Array::from_iter_values(rows..rows + 100_000));
        let mut columns = full.columns().to_vec();
        columns[0] = keys;
        let next = RecordBatch::try_new(full.schema(), columns).unwrap();
        let result = txn.append("main", "t", &[next]).and_then(|_| txn.commit());
        match result {
            Ok(_) => rows += 100_000,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::OutOfMemory { .. }), "{error:?}");
    assert!(rows > 0);
    store.verify().unwrap();
    let count = || store.latest().table("main", "t").unwrap().unwrap().row_count();
    assert_eq!(count(), rows as u64);
    // What is there can be read, shared and taken; after making room it goes on.
    let mut snapshot = None;
    if store.share().is_ok() {
        snapshot = Some(Store::hook(&namespace, "victim").unwrap());
    }
    drop(snapshot.take());
    let mut txn = store.begin().unwrap();
    txn.truncate_table("main", "t").unwrap();
    txn.commit().unwrap();
    let mut txn = store.begin().unwrap();
    txn.append("main", "t", &[batch(1000)]).unwrap();
    txn.commit().unwrap();
    store.verify().unwrap();
    assert_eq!(count(), 1000);
    store.close().unwrap();
    drop(namespace);
}
