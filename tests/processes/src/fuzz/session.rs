//! Changes, shares and snapshots against a model.
//!
//! Bytes become a sequence of changes, shares, and snapshots of one database. After each, the
//! database must hold what the model holds, and every snapshot taken on the way what it held then.

use swingdb::Database;

use super::bytes::Bytes;
use crate::apply;
use crate::contents::{difference, read};
use crate::home::Home;
use crate::model::{Change, State};

/// Longer inputs only repeat what shorter ones do.
const MAX_ACTIONS: usize = 60;
/// Snapshots held at once.
const MAX_SNAPSHOTS: usize = 4;

/// A change made from bytes; `first` is a key that is free.
fn change(bytes: &mut Bytes<'_>, first: i64, deep: bool) -> Change {
    let (kind, size, number) = (bytes.next(), bytes.next(), bytes.next());
    let (rows, modulus) = (1 + size * 3, 1 + number % 40);
    match kind % if deep { 12 } else { 6 } {
        0 => Change::Insert { first, rows },
        1 => Change::Append { first, rows },
        2 => Change::Import { first, rows },
        3 => Change::Update { add: size - 128, modulus, remainder: size % modulus },
        4 => Change::Delete { modulus: modulus + 1, remainder: size % (modulus + 1) },
        5 => Change::Forget { below: first - size * 500 },
        6 => Change::Duplicate { first, rows },
        7 => Change::Derive { modulus },
        8 => Change::Alter,
        9 => Change::RolledBack(several(bytes, first)),
        _ => Change::Transaction(several(bytes, first)),
    }
}

fn several(bytes: &mut Bytes<'_>, first: i64) -> Vec<Change> {
    let count = 1 + bytes.next() % 4;
    (0..count).map(|i| change(bytes, first + i * 1_000, false)).collect()
}

/// Runs one session; panics when the database differs from the model.
pub fn session(input: &[u8]) {
    let home = Home::new();
    let files = tempfile::tempdir().expect("a directory for files");
    let csv = files.path().join("import.csv");
    let database = Database::open_in(home.path(), "db").expect("a new database");
    let con = database.connect();
    con.query(apply::CREATE).expect("creating the table");
    let (mut bytes, mut state) = (Bytes::new(input), State::default());
    let mut snapshots: Vec<(Database, State)> = Vec::new();
    for action in 1..=MAX_ACTIONS as i64 {
        if bytes.is_empty() {
            break;
        }
        if bytes.next() % 4 == 0 {
            database.share().expect("sharing");
            snapshots.truncate(MAX_SNAPSHOTS - 1);
            let snapshot = Database::snapshot_in(home.path(), "db").expect("a snapshot");
            snapshots.insert(0, (snapshot, state.clone()));
            continue;
        }
        let change = change(&mut bytes, action * 10_000, true);
        apply::prepare(&change, &csv).expect("writing a file to import");
        apply::apply(&con, &change, &csv).unwrap_or_else(|error| panic!("{change:?}: {error}"));
        state.apply(&change);
        let found = read(&database).expect("reading");
        assert!(found == state, "after {change:?}: {}", difference(&found, &state));
    }
    for (snapshot, expected) in &snapshots {
        let found = read(snapshot).expect("reading a snapshot");
        assert!(found == *expected, "a snapshot changed: {}", difference(&found, expected));
    }
}
