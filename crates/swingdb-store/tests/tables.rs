//! Many tables: their list against a naive model, through random transactions, shares, snapshots
//! that write, and reopening.

use std::collections::BTreeMap;

use arrow::datatypes::DataType;
use swing::Namespace;
use swingdb_common::error::Error;
use swingdb_store::{Catalog, ColumnDef, IfExists, Store, TableDef, WriteTxn};

/// The number of columns of each table, by its name.
type Model = BTreeMap<String, usize>;

fn create(txn: &mut WriteTxn, name: &str, columns: usize) {
    let column = |i: usize| ColumnDef {
        name: format!("c{i}"),
        data_type: DataType::Int64,
        nullable: true,
        is_uuid: false,
        enumeration: None,
        default_sql: None,
    };
    let columns = (0..columns).map(column).collect();
    let def =
        TableDef { schema: "main".into(), name: name.into(), columns, constraints: Vec::new() };
    txn.create_table(def, IfExists::Fail).unwrap();
}

fn seen(catalog: &Catalog) -> Model {
    let names = catalog.table_names("main").unwrap();
    let columns = |name: &String| catalog.table("main", name).unwrap().unwrap().columns().len();
    names.iter().map(|name| (name.clone(), columns(name))).collect()
}

/// A name that is there, if any is.
fn any(model: &Model, random: &mut fastrand::Rng) -> Option<String> {
    let at = random.usize(0..model.len().max(1));
    model.keys().nth(at).cloned()
}

/// Some changes: mostly new tables while there are few, mostly dropped ones while there are many.
fn change(txn: &mut WriteTxn, model: &mut Model, random: &mut fastrand::Rng, most: usize) {
    for _ in 0..random.usize(1..40) {
        let new = format!("{}{}", random.alphabetic(), random.u32(0..1_000));
        let known = any(model, random);
        match (random.usize(0..10), known) {
            (0..7, _) if !model.contains_key(&new) && random.usize(0..most) > model.len() / 2 => {
                let columns = random.usize(1..5);
                create(txn, &new, columns);
                model.insert(new, columns);
            }
            (7, Some(old)) if !model.contains_key(&new) => {
                txn.rename_table("main", &old, &new).unwrap();
                let columns = model.remove(&old).unwrap();
                model.insert(new, columns);
            }
            (8, Some(old)) => {
                let named = |txn: &mut WriteTxn| txn.drop_table("main", &old);
                named(txn).unwrap();
                assert!(matches!(named(txn), Err(Error::NotFound { .. })));
                model.remove(&old);
            }
            (9, Some(old)) => {
                let before = txn.savepoint();
                txn.drop_table("main", &old).unwrap();
                txn.rollback_to(&before).unwrap();
            }
            _ => {}
        }
    }
}

#[test]
fn lists_of_tables_are_what_a_model_says() {
    let given = std::env::var("SWING_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    println!("SWING_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let namespace = Namespace::open(home.path()).unwrap();
    for most in [10, 100, 600] {
        let mut store = Store::open(&namespace, "many").unwrap();
        let mut model = seen(&store.latest());
        for _ in 0..60 {
            let mut changed = model.clone();
            let mut txn = store.begin().unwrap();
            change(&mut txn, &mut changed, &mut random, most);
            assert_eq!(seen(&txn.view()), changed);
            if random.bool() {
                txn.commit().unwrap();
                model = changed;
            } else {
                txn.rollback();
            }
            match random.u32(0..12) {
                0 => {
                    store.close().unwrap();
                    store = Store::open(&namespace, "many").unwrap();
                }
                1 => {
                    store.share().unwrap();
                    let snapshot = Store::hook(&namespace, "many").unwrap();
                    // Some names first: their pages alone are read.
                    for name in (0..4).filter_map(|_| any(&model, &mut random)) {
                        let table = snapshot.latest().table("main", &name).unwrap().unwrap();
                        assert_eq!(table.columns().len(), model[&name]);
                    }
                    let mut own = model.clone();
                    let mut txn = snapshot.begin().unwrap();
                    change(&mut txn, &mut own, &mut random, most);
                    txn.commit().unwrap();
                    assert_eq!(seen(&snapshot.latest()), own);
                    snapshot.verify().unwrap();
                }
                2 => {
                    store.verify().unwrap();
                }
                _ => {}
            }
            assert_eq!(seen(&store.latest()), model);
        }
        store.verify().unwrap();
    }
}
