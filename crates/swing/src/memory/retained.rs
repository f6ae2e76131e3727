//! The memfds of closed areas, which this process keeps open for others.
//!
//! A memfd lives as long as a process has it open. A process that closes a named area in order
//! keeps its memfds. So the rule is simple: such an area lives as long as a process that wrote it
//! or reads it.
//!
//! **Fork.** The list's lock is held over a fork, so that the child finds the list in order.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use crate::model::units::AreaId;
use crate::namespace::files::HOLDERS;
use crate::sys::file::{self, Folder};
use crate::sys::kept_file::{self, KeptFile};
use crate::sys::memfd;
use crate::sys::sync::{Mutex, MutexGuard};

/// What this process keeps open of an area it has closed.
#[derive(Debug)]
struct Retained {
    area: AreaId,
    /// Its own memory and that of the areas it depends on.
    _memory: Vec<Arc<KeptFile>>,
    /// Locked shared; without a name when the area has been removed. It is a descriptor as the
    /// memory is, which is gone for others when the program has closed both.
    holders: Option<KeptFile>,
}

/// See [`lock_retained`].
pub(crate) struct RetainedLock {
    _guard: MutexGuard<'static, Vec<Retained>>,
}

static RETAINED: Mutex<Vec<Retained>> = Mutex::new(Vec::new());

/// Held over a fork, so that the child finds the list in order.
pub(crate) fn lock_retained() -> RetainedLock {
    RetainedLock { _guard: RETAINED.lock() }
}

/// Keeps the memfds of a closed area open as long as this process lives, or until it is opened
/// again or removed.
pub(crate) fn retain<'a>(
    folder: &Folder,
    area: AreaId,
    files: impl Iterator<Item = &'a Arc<KeptFile>>,
) {
    let is_memfd = |file: &&Arc<KeptFile>| file.here().is_ok_and(memfd::is_one);
    let memory: Vec<Arc<KeptFile>> = files.filter(is_memfd).cloned().collect();
    if memory.is_empty() {
        return;
    }
    let holders = folder.open_write(HOLDERS).or_else(|_| folder.create_new(HOLDERS));
    // Without the lock a collector in another container may take the area for lost: only then.
    let locked = |file: &File| file::try_lock(file, false, &folder.join(HOLDERS)).unwrap_or(false);
    let holders = holders.ok().filter(locked);
    let holders = holders.and_then(|file| KeptFile::new(file, kept_file::Access::Write).ok());
    let mut list = RETAINED.lock();
    prune(&mut list);
    list.retain(|r| r.area != area);
    list.push(Retained { area, _memory: memory, holders });
}

/// The area is open again, or gone.
pub(crate) fn release(area: AreaId) {
    RETAINED.lock().retain(|r| r.area != area);
}

/// Lets go of areas that others have removed.
pub(crate) fn release_removed() {
    prune(&mut RETAINED.lock());
}

fn prune(list: &mut MutexGuard<'_, Vec<Retained>>) {
    let facts = |file: &KeptFile| file::facts(file.here().ok()?, Path::new(HOLDERS)).ok();
    let removed = |file: &KeptFile| facts(file).is_some_and(|facts| facts.links == 0);
    list.retain(|r| !r.holders.as_ref().is_some_and(removed));
}
