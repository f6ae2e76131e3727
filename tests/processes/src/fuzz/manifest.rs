//! A manifest somebody else wrote: an error or a state, never a crash.
//!
//! Some inputs are damaged manifests as they are; others get valid checksums again, so that the
//! fields behind them are looked at too.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use swingdb::{Database, Error};
use xxhash_rust::xxh3::xxh3_64;

use super::bytes::{Bytes, damage};
use crate::home::Home;

/// Lengths and places of `docs/format.md`.
const HEADER: usize = 128;
const BODY_SUM_AT: usize = 96;
const HEADER_SUM_AT: usize = HEADER - 8;

/// A database with shared states. It is made once for as long as somebody holds it, and goes with
/// its directory then.
pub struct Shared {
    /// Closed before its directory goes.
    _database: Database,
    home: Home,
    manifest: PathBuf,
    intact: Vec<u8>,
}

/// The database that manifests are tried on: the one that is held, else a new one.
pub fn shared() -> Arc<Shared> {
    static HELD: Mutex<Weak<Shared>> = Mutex::new(Weak::new());
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    held.upgrade().unwrap_or_else(|| {
        let new = Arc::new(Shared::new());
        *held = Arc::downgrade(&new);
        new
    })
}

impl Shared {
    /// Its directory.
    pub fn path(&self) -> &Path {
        self.home.path()
    }

    fn new() -> Self {
        let home = Home::new();
        let database = Database::open_in(home.path(), "db").expect("a new database");
        let con = database.connect();
        con.query("CREATE TABLE t AS SELECT range AS id, 'row ' || range AS s FROM range(1000)")
            .expect("creating the table");
        database.share().expect("sharing");
        con.query("DELETE FROM t WHERE id % 3 = 0").expect("deleting");
        database.share().expect("sharing again");
        let is_shared =
            |path: &PathBuf| path.file_name().is_some_and(|n| n.as_bytes() == b"shared");
        let manifest = home.files().into_iter().find(is_shared).expect("a shared manifest");
        let intact = fs::read(&manifest).expect("the manifest can be read");
        Self { home, _database: database, manifest, intact }
    }
}

/// Puts the right checksums into a manifest, however wrong the rest is.
fn seal(manifest: &mut [u8]) {
    if manifest.len() < HEADER {
        return;
    }
    let body = xxh3_64(&manifest[HEADER..]).to_le_bytes();
    manifest[BODY_SUM_AT..BODY_SUM_AT + 8].copy_from_slice(&body);
    let header = xxh3_64(&manifest[..HEADER_SUM_AT]).to_le_bytes();
    manifest[HEADER_SUM_AT..HEADER].copy_from_slice(&header);
}

/// Hooks a database whose manifest was replaced, and reads all of it.
pub fn manifest(input: &[u8]) {
    let shared = shared();
    let Shared { home, manifest, intact, .. } = shared.as_ref();
    let mut bytes = Bytes::new(input);
    let (whole, sealed) = (bytes.byte().is_multiple_of(16), !bytes.byte().is_multiple_of(4));
    let mut contents = intact.clone();
    if whole {
        contents = bytes.rest().to_vec();
    } else {
        damage(&mut contents, &mut bytes);
    }
    if sealed {
        seal(&mut contents);
    }
    // A new file: leases of the old one hold.
    let temporary = manifest.with_file_name("t.fuzz");
    fs::write(&temporary, &contents).expect("writing a manifest");
    fs::rename(&temporary, manifest).expect("replacing the manifest");
    let read = Database::snapshot_in(home.path(), "db").and_then(|snapshot| {
        let con = snapshot.connect();
        con.query("SELECT count(*), sum(id), count(DISTINCT s) FROM t")?.collect()
    });
    if let Err(Error::Internal { message }) = &read {
        panic!("an internal error: {message}");
    }
    let _ = swingdb::list_in(home.path());
    fs::write(&temporary, intact).expect("writing the manifest back");
    fs::rename(&temporary, manifest).expect("putting the manifest back");
    if let (false, Ok(batches)) = (sealed, read) {
        let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
        assert_eq!(rows, 1, "a manifest with wrong checksums that is not the old one was taken");
    }
}
