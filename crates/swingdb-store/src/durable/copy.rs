//! Writing a state into a log of its own: a copy of the database.

use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use parking_lot::Mutex;
use swing_tier::Log;
use swingdb_common::error::{Result, StoreProblem};

use crate::catalog::history::History;
use crate::catalog::state::Catalog;
use crate::durable::disk::CheckpointInfo;
use crate::durable::format::Head;
use crate::durable::ledger::Ledger;
use crate::durable::write::{Checkpoint, Written, root_of};
use crate::errors::log::{commit_error, problem};

/// Writes a state into the log in `path`, which holds nothing yet, as database `name`.
pub(crate) fn write_copy(
    catalog: &Catalog,
    log: &Log,
    path: &Path,
    name: &str,
) -> Result<CheckpointInfo> {
    let start = Instant::now();
    if !log.lease().root().is_empty() {
        let message = "it holds a database already; choose an empty directory";
        return Err(problem(path, StoreProblem::NotAStore, message));
    }
    let failed = |error| commit_error(path, error);
    let mut batch = log.batch().map_err(failed)?;
    let mut written = Written::default();
    let mut checkpoint = Checkpoint {
        batch: &mut batch,
        ledger: &Ledger::default(),
        known: &Mutex::default(),
        written: &mut written,
        path,
        notes: false,
        copied: HashMap::new(),
        prepared: HashMap::new(),
    };
    let root = checkpoint.write(catalog, &root_of(catalog, name, &History::new()))?;
    let head = Head::new(catalog.version, root);
    batch.set_root(&head.encode()).and_then(|()| batch.commit()).map_err(failed)?;
    let (version, written_bytes) = (catalog.version, written.bytes);
    Ok(CheckpointInfo { version, written_bytes, duration: start.elapsed() })
}
