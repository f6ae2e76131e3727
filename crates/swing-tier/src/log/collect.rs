//! Garbage collection: files of which much is dead are emptied and removed.
//!
//! The live pieces of a file are written anew, small ones together, and a commit says where they
//! are now. The file goes when its last live byte has gone. Readers that found a piece in it before
//! have it open, and go on. A failure at any point (a full disk, a damaged record) leaves the old
//! pieces in place: what was written anew is dead, and collected later.
//!
//! Records that are freed, and that a checkpoint or a lease still shows, are moved like others:
//! else a few of their bytes would hold a whole file. While pieces are on the way, the collector
//! holds an epoch that shows each of their records, as a lease does. So a checkpoint that is
//! released meanwhile, or a lease that ends, takes no record away that a commit is about to move
//! (INV-TIER-8).

use std::collections::BTreeSet;

use crate::error::CommitError;
use crate::log::batch::Batch;
use crate::log::files::{Usage, lock};
use crate::log::format::Piece;
use crate::log::read::{Target, read_pieces};
use crate::log::shared::Shared;
use crate::units::{Epoch, FileId, RecordId};

/// The most bytes that are moved by one commit.
const STEP_BYTES: u64 = 8 << 20;
/// The most files that one collection empties; the next goes on.
const MAX_FILES_A_RUN: usize = 64;

/// What a collection did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollectReport {
    /// Files emptied and removed.
    pub files: u64,
    /// Bytes of live records that were written anew.
    pub moved_bytes: u64,
    /// Bytes of files that were given back to the file system.
    pub freed_bytes: u64,
}

/// A piece to be moved: whose it is, and which of its record's.
type Item = ((RecordId, u32), Piece);

/// Pieces to be moved. Their records stay in the state until this is dropped.
struct Step<'a> {
    items: Vec<Item>,
    shared: &'a Shared,
    /// Epochs that are held; each of the records is visible at one of them.
    held: BTreeSet<Epoch>,
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        let mut live = lock(&self.shared.live);
        let last = self.held.iter().filter(|epoch| live.release(**epoch)).count() > 0;
        let waits = last && !live.limbo.is_empty();
        drop(live);
        if waits {
            self.shared.reclaim();
        }
    }
}

impl Shared {
    /// Empties the files of which at least `dead_fraction` is dead, the deadest first.
    pub(crate) fn collect(&self, dead_fraction: f64) -> Result<CollectReport, CommitError> {
        self.check_writable()?;
        let mut total = CollectReport::default();
        self.reclaim();
        for _ in 0..MAX_FILES_A_RUN {
            let Some((id, usage)) = self.victim(dead_fraction) else { break };
            total.moved_bytes += self.empty_file(id, &usage)?;
            self.reclaim();
            self.keep_spare();
            if self.files.get(id).is_some() {
                // Somebody still needs it: a lease, a batch under way.
                break;
            }
            total.files += 1;
            total.freed_bytes += usage.used;
        }
        Ok(total)
    }

    /// The file with the largest dead part, if that is large enough and nobody else is in the way.
    fn victim(&self, dead_fraction: f64) -> Option<(FileId, Usage)> {
        let journal = lock(&self.committer).journal_id();
        let dead = |usage: &Usage| 1.0 - usage.live as f64 / usage.used as f64;
        let mut files = self.files.usage();
        files.retain(|(file, usage)| {
            let sealed = self.files.is_sealed(file.id) && journal != Some(file.id);
            sealed && usage.used > 0 && usage.live > 0 && dead(usage) >= dead_fraction
        });
        let deadest = files.into_iter().max_by(|(_, a), (_, b)| dead(a).total_cmp(&dead(b)));
        deadest.map(|(file, usage)| (file.id, usage))
    }

    /// Moves all live pieces out of a file; returns their bytes.
    fn empty_file(&self, id: FileId, usage: &Usage) -> Result<u64, CommitError> {
        // Half of the spare room: commits take their part of it.
        let uses_spare = usage.live <= self.options.spare_bytes / 2;
        if lock(&self.live).manifest.iter().any(|piece| piece.file == id) {
            self.renew_manifest(uses_spare)?;
        }
        let (mut moved, mut after) = (0, None);
        loop {
            let step = self.next_step(id, after);
            let Some((last, _)) = step.items.last() else { return Ok(moved) };
            after = Some(last.0);
            moved += self.move_items(&step.items, uses_spare)?;
        }
    }

    /// The pieces in a file of the records behind `after`, of some [`STEP_BYTES`]; each record
    /// whole.
    fn next_step(&self, id: FileId, after: Option<RecordId>) -> Step<'_> {
        let mut live = lock(&self.live);
        let start = after.map_or(0, |id| id.0 + 1);
        let (mut items, mut bytes, mut held) = (Vec::new(), 0, BTreeSet::new());
        for (&record, entry) in live.state.records.range(RecordId(start)..) {
            if bytes >= STEP_BYTES {
                break;
            }
            if !entry.pieces.iter().any(|piece| piece.file == id) {
                continue;
            }
            // A record that nobody shows goes with the next sweep.
            let Some(epoch) = live.shown_at(entry) else { continue };
            held.insert(epoch);
            for (index, piece) in entry.pieces.iter().enumerate() {
                if piece.file == id {
                    bytes += u64::from(piece.len);
                    items.push(((record, index as u32), *piece));
                }
            }
        }
        held.iter().for_each(|epoch| live.hold(*epoch));
        Step { items, shared: self, held }
    }

    fn move_items(&self, items: &[Item], uses_spare: bool) -> Result<u64, CommitError> {
        let mut buffers: Vec<_> = items.iter().map(|(_, p)| vec![0; p.len as usize]).collect();
        let mut targets = Vec::with_capacity(items.len());
        for ((_, piece), into) in items.iter().zip(&mut buffers) {
            let file = self.file_of(piece).map_err(crate::error::Fault::Io)?;
            targets.push(Target { file, piece: *piece, into });
        }
        let mut queue = self.queue().map_err(crate::error::Fault::Io)?;
        read_pieces(&mut *queue, targets, &self.options.cost())?;
        drop(queue);
        let mut batch = Batch::new(self)?.with_spare(uses_spare);
        for ((whose, piece), bytes) in items.iter().zip(&buffers) {
            batch.move_piece(*whose, *piece, bytes)?;
        }
        if batch.has_changes() {
            batch.commit()?;
        }
        Ok(items.iter().map(|(_, piece)| u64::from(piece.len)).sum())
    }

    /// Writes the manifest anew, somewhere else.
    pub(crate) fn renew_manifest(&self, uses_spare: bool) -> Result<(), CommitError> {
        let mut committer = lock(&self.committer);
        if committer.broken {
            return Err(CommitError::Broken);
        }
        self.check_whole()?;
        let state = lock(&self.live).state.clone();
        self.switch(&mut committer, &state, uses_spare)
    }

    /// Whether a collection would find something to do.
    pub(crate) fn has_garbage(&self) -> bool {
        self.victim(self.options.dead_fraction).is_some()
    }
}
