//! Room that is kept on the disk for commits that make room.
//!
//! A commit needs room itself: for a journal and a manifest, in a log that was just opened. On a
//! full disk nothing could ever be freed. So a file without contents takes room while there is
//! some, and gives it to the first commit that finds none and frees what it takes at least. It gets
//! its room back with the next commit for which there is enough.

use std::sync::PoisonError;

use crate::storage::{Access, Storage};
use crate::sync::{Mutex, MutexGuard};

/// The file that takes the room.
const SPARE_NAME: &str = "spare";

/// The room of one directory.
#[derive(Debug)]
pub struct Spare {
    /// How many bytes are known to be kept. Locked while the file is made or removed: commits and
    /// the collector do both.
    kept: Mutex<u64>,
}

impl Default for Spare {
    fn default() -> Self {
        Spare { kept: Mutex::new(0) }
    }
}

impl Spare {
    /// Keeps `bytes`, if they can be had. A failure is made good by a later call.
    pub fn keep(&self, storage: &dyn Storage, bytes: u64) {
        let mut kept = self.kept();
        if *kept >= bytes {
            return;
        }
        // One may be there, and a crash may have kept it from getting its room.
        let there = storage.open(SPARE_NAME, Access::Write).ok().flatten();
        let Some(file) = there.or_else(|| storage.create(SPARE_NAME).ok()) else { return };
        if file.preallocate(0, bytes).is_ok() {
            *kept = bytes;
        } else if *kept == 0 {
            // No part of it: others need what is left.
            let _ = storage.remove(SPARE_NAME);
        } else {
            let _ = file.truncate(*kept);
        }
    }

    /// The count means something whatever has panicked: it is set last.
    fn kept(&self) -> MutexGuard<'_, u64> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the room to a commit that has found none. False: there is none, or it is not known
    /// that it came free.
    pub fn give(&self, storage: &dyn Storage) -> bool {
        let mut kept = self.kept();
        *kept = 0;
        storage.remove(SPARE_NAME).and_then(|()| storage.sync_directory()).is_ok()
    }
}
