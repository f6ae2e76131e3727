//! What all handles of an open log share.
//!
//! Order of the locks: `committer`, then `live`, then the table of [`Files`]; `pending` alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::{Cause, CommitError, IoError};
use crate::log::commit::{Committer, Pending};
use crate::log::files::{Files, LogFile, lock};
use crate::log::format::Piece;
use crate::log::options::LogOptions;
use crate::log::queues::{QueueGuard, QueueOwner, queue};
use crate::log::room;
use crate::log::spare::Spare;
use crate::log::state::{Entry, State};
use crate::process::ProcessMark;
use crate::storage::{Access, IoResult, Locked, Storage};
use crate::sync::{AtomicU64, Mutex, is_poisoned};
use crate::units::{Epoch, FileId, RecordId};

/// The spare room grows in steps of so many bytes, with the manifest.
const SPARE_STEP: u64 = 1 << 20;

/// An open log.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) options: LogOptions,
    pub(crate) access: Access,
    pub(crate) files: Files,
    pub(crate) live: Mutex<Live>,
    pub(crate) committer: Mutex<Committer>,
    pub(crate) pending: Mutex<Pending>,
    pub(crate) next_record: AtomicU64,
    pub(crate) spare: Spare,
    pub(crate) owner: QueueOwner,
    pub(crate) mark: ProcessMark,
    /// Held as long as the log is open.
    pub(crate) _lock: Locked,
}

/// The newest committed state, and who still needs older ones.
#[derive(Debug, Default)]
pub(crate) struct Live {
    pub(crate) state: State,
    /// How many leases each epoch has.
    pub(crate) leases: BTreeMap<Epoch, usize>,
    /// The records that are freed and still there.
    pub(crate) limbo: Vec<RecordId>,
    /// Where the manifest of the root lies.
    pub(crate) manifest: Vec<Piece>,
}

impl Live {
    /// Holds the state of an epoch that is held, retained or the newest.
    pub(crate) fn hold(&mut self, epoch: Epoch) {
        *self.leases.entry(epoch).or_default() += 1;
    }

    /// Ends one hold; `true` if it was the epoch's last.
    pub(crate) fn release(&mut self, epoch: Epoch) -> bool {
        match self.leases.get_mut(&epoch) {
            Some(count) if *count > 1 => {
                *count -= 1;
                false
            }
            _ => self.leases.remove(&epoch).is_some(),
        }
    }

    /// An epoch that somebody can ask for and that shows the record.
    pub(crate) fn shown_at(&self, entry: &Entry) -> Option<Epoch> {
        let Some(freed) = entry.freed else { return Some(self.state.epoch) };
        let leased = self.leases.range(entry.born..freed).next().map(|(&epoch, _)| epoch);
        let mut retained = self.state.retained.values().map(|retained| retained.epoch);
        leased.or_else(|| retained.find(|&epoch| entry.is_visible(epoch)))
    }
}

impl Shared {
    /// A queue of the current thread.
    pub(crate) fn queue(&self) -> IoResult<QueueGuard> {
        self.check_process()?;
        queue(&*self.storage, &self.options.queue, &self.owner)
    }

    pub(crate) fn new_record(&self) -> RecordId {
        RecordId(self.next_record.fetch_add(1, Ordering::Relaxed))
    }

    /// A forked child has its parent's log, and must not use it.
    pub(crate) fn check_process(&self) -> IoResult<()> {
        if self.mark.is_stale() {
            return Err(IoError::new("use the log in", self.storage.path(), Cause::Forked));
        }
        Ok(())
    }

    pub(crate) fn check_writable(&self) -> Result<(), CommitError> {
        self.check_process()?;
        self.check_whole()?;
        if self.access == Access::Read { Err(CommitError::ReadOnly) } else { Ok(()) }
    }

    /// INV-TIER-11: whether no thread has met a broken invariant of the tables. Otherwise nothing
    /// is committed or removed: what a file holds may be needed though it is counted as dead.
    pub(crate) fn check_whole(&self) -> Result<(), CommitError> {
        let whole = !is_poisoned(&self.live) && self.files.are_whole();
        if whole { Ok(()) } else { Err(CommitError::Broken) }
    }

    /// Takes records out that nobody can ask for any more, then removes files that nobody needs.
    pub(crate) fn reclaim(&self) {
        let mut live = lock(&self.live);
        if self.check_whole().is_err() {
            return;
        }
        let Live { state, leases, limbo, .. } = &mut *live;
        let dead = state.sweep(limbo, leases);
        self.files.add_dead(&dead);
        drop(live);
        if self.access == Access::Write {
            self.remove_dead_files();
        }
    }

    /// Runs what may find the disk full, again while room can be had; from the spare room if
    /// `makes_room`. The caller has the committer, which holds no unknown outcome.
    pub(crate) fn with_room<T>(
        &self,
        journal: Option<FileId>,
        makes_room: bool,
        run: impl FnMut() -> Result<T, CommitError>,
    ) -> Result<T, CommitError> {
        room::with_room(|| self.discard_dead(journal), self.spare_for(makes_room), run)
    }

    /// As [`Shared::with_room`], for callers without the committer.
    pub(crate) fn with_room_beside<T>(
        &self,
        makes_room: bool,
        run: impl FnMut() -> Result<T, CommitError>,
    ) -> Result<T, CommitError> {
        let discard = || {
            let committer = lock(&self.committer);
            // What an unknown outcome may have made current has to stay.
            if committer.broken { 0 } else { self.discard_dead(committer.journal_id()) }
        };
        room::with_room(discard, self.spare_for(makes_room), run)
    }

    fn spare_for(&self, makes_room: bool) -> Option<(&Spare, &dyn Storage)> {
        makes_room.then_some((&self.spare, &*self.storage))
    }

    fn discard_dead(&self, journal: Option<FileId>) -> u64 {
        if self.access == Access::Read || self.check_whole().is_err() {
            return 0;
        }
        // From here on nobody finds a piece.
        let live = lock(&self.live);
        let pieces = live.state.records.values().flat_map(|entry| entry.pieces.iter());
        room::discard(&self.files, &*self.storage, journal, pieces.chain(&live.manifest))
    }

    /// Sees to it that spare room is kept, if there is enough.
    pub(crate) fn keep_spare(&self) {
        if self.options.spare_bytes > 0 && self.access == Access::Write {
            let manifest: u64 = lock(&self.live).manifest.iter().map(|p| u64::from(p.len)).sum();
            let bytes = (self.options.spare_bytes + 2 * manifest).next_multiple_of(SPARE_STEP);
            self.spare.keep(&*self.storage, bytes);
        }
    }

    /// Removes the files without a live byte. A failure is not an error of anybody's: the file is
    /// removed when the log is opened the next time.
    pub(crate) fn remove_dead_files(&self) {
        let committer = match self.committer.try_lock() {
            Ok(committer) => committer,
            // A commit under way does it at its end.
            Err(_) => return,
        };
        // What an unknown outcome may have made current has to stay.
        if committer.broken || self.check_whole().is_err() {
            return;
        }
        self.remove_dead_files_but(committer.journal_id());
    }

    pub(crate) fn remove_dead_files_but(&self, journal: Option<FileId>) {
        for (file, usage) in self.files.usage() {
            let dead = usage.live == 0 && self.files.is_sealed(file.id);
            if dead && journal != Some(file.id) {
                let mut live = lock(&self.live);
                live.state.files.remove(&file.id);
                drop(live);
                let _ = self.files.remove(file.id);
            }
        }
    }

    /// The open file that a piece lies in.
    pub(crate) fn file_of(&self, piece: &Piece) -> IoResult<Arc<LogFile>> {
        self.files.get(piece.file).ok_or_else(|| {
            IoError::new("find a file of", self.storage.path(), Cause::Os(libc::ENOENT))
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::disk::{Directory, DirectoryOptions};
    use crate::log::handle::Log;

    #[test]
    fn after_a_panic_nothing_is_committed_or_removed_and_what_was_committed_is_there() {
        let panics: [fn(&Shared); 2] = [
            |shared| {
                let _live = lock(&shared.live);
                panic!("what a broken invariant does");
            },
            |shared| {
                let live = lock(&shared.live);
                let pieces: Vec<Piece> =
                    live.state.records.values().flat_map(|entry| entry.pieces.to_vec()).collect();
                drop(live);
                // Counted dead twice.
                shared.files.add_dead(&pieces);
                shared.files.add_dead(&pieces);
            },
        ];
        for act in panics {
            let folder = tempfile::tempdir().unwrap();
            let open = || {
                let directory = Directory::open(folder.path(), DirectoryOptions::default());
                Arc::new(directory.unwrap())
            };
            let log = Log::create(open(), LogOptions::default()).unwrap();
            let mut batch = log.batch().unwrap();
            let id = batch.put(&[7; 100_000]).unwrap();
            batch.commit().unwrap();
            let mut under_way = log.batch().unwrap();
            under_way.put(b"under way").unwrap();
            assert!(catch_unwind(AssertUnwindSafe(|| act(&log.shared))).is_err());
            let committed = under_way.commit();
            assert!(matches!(committed, Err(CommitError::Broken)), "{committed:?}");
            assert!(matches!(log.batch().err(), Some(CommitError::Broken)));
            assert!(matches!(log.compact(), Err(CommitError::Broken)));
            assert_eq!(log.lease().read(id).unwrap(), [7; 100_000]);
            drop(log);
            let log = Log::open(open(), LogOptions::default()).unwrap();
            assert_eq!(log.lease().read(id).unwrap(), [7; 100_000]);
            log.batch().unwrap().commit().unwrap();
        }
    }
}
