//! What a log does on a full disk, before a caller hears of it.
//!
//! Some things make room without writing. *Reserved room*: data files take room ahead, in large
//! steps, which a journal may need more. *Dead bytes*: files are emptied when half of them is dead
//! (`collect.rs`), which needs room for the other half. On a full disk the dead parts go back to
//! the file system instead, as holes in their files. *Spare room* (`spare.rs`) goes to a commit
//! that frees what it adds at least, and to the collector where it moves little.
//!
//! **Why no reader misses a hole.** A hole takes no unit in which a piece of any record or of the
//! manifest lies. Only a piece that was moved may still be read at its old place. Whoever reads
//! has found the piece, and holds its file, under the lock of the state. So holes are made under
//! that lock, in files that nobody holds (INV-TIER-13). After a crash the state is not older than
//! the one that the holes were made for: each commit before was durable.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::error::CommitError;
use crate::log::files::{Files, file_name};
use crate::log::format::Piece;
use crate::log::spare::Spare;
use crate::log::state::FileKind;
use crate::storage::{Access, Storage};
use crate::units::{FileId, UNIT_BYTES, round_down, round_up};

/// Runs what may find the disk full, again while room can be had: from what `discard` gives back,
/// and from the spare room, if there is some for this.
pub(crate) fn with_room<T>(
    discard: impl FnOnce() -> u64,
    spare: Option<(&Spare, &dyn Storage)>,
    mut run: impl FnMut() -> Result<T, CommitError>,
) -> Result<T, CommitError> {
    let is_full = |outcome: &_| matches!(outcome, Err(CommitError::Full(_)));
    let mut outcome = run();
    if is_full(&outcome) && discard() > 0 {
        outcome = run();
    }
    if is_full(&outcome) && spare.is_some_and(|(spare, storage)| spare.give(storage)) {
        outcome = run();
    }
    outcome
}

/// Gives back to the file system what is reserved ahead, and the dead parts of files: what lies
/// beside the pieces of all records and of the manifest. Returns how many bytes these are. The
/// caller holds the state, and no outcome is unknown; the file `journal` stays as it is.
pub(crate) fn discard<'a>(
    files: &Files,
    storage: &dyn Storage,
    journal: Option<FileId>,
    pieces: impl Iterator<Item = &'a Piece>,
) -> u64 {
    let mut given = files.trim();
    let mut quiet = files.quiet();
    quiet.retain(|file| Some(file.id) != journal);
    if quiet.is_empty() {
        return given;
    }
    let mut needed: BTreeMap<FileId, Vec<Range<u64>>> =
        quiet.iter().map(|file| (file.id, Vec::new())).collect();
    for piece in pieces {
        if let Some(ranges) = needed.get_mut(&piece.file) {
            ranges.push(round_down(piece.offset)..round_up(piece.end()));
        }
    }
    for file in quiet {
        let name = file_name(FileKind::Data, file.id);
        let Ok(Some(open)) = storage.open(&name, Access::Write) else { continue };
        for hole in holes(needed.remove(&file.id).unwrap_or_default(), file.end) {
            match open.discard(hole.start, hole.end - hole.start) {
                Ok(true) => given += hole.end - hole.start,
                Ok(false) => return given,
                // Also a hole may need room; others are tried.
                Err(_) => {}
            }
        }
        files.note_discarded(file.id, file.dead);
    }
    given
}

/// What lies between ranges of whole units, up to `end`.
fn holes(mut needed: Vec<Range<u64>>, end: u64) -> Vec<Range<u64>> {
    debug_assert!(end.is_multiple_of(UNIT_BYTES));
    needed.sort_unstable_by_key(|range| range.start);
    let (mut holes, mut at) = (Vec::new(), 0);
    for range in needed {
        if range.start.min(end) > at {
            holes.push(at..range.start.min(end));
        }
        at = at.max(range.end);
    }
    if end > at {
        holes.push(at..end);
    }
    holes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_lie_between_what_is_needed() {
        type Units<'a> = &'a [(u64, u64)];
        let found = |needed: Units<'_>, end: u64| -> Vec<(u64, u64)> {
            let ranges = needed.iter().map(|&(from, to)| from * UNIT_BYTES..to * UNIT_BYTES);
            let holes = holes(ranges.collect(), end * UNIT_BYTES);
            holes.iter().map(|hole| (hole.start / UNIT_BYTES, hole.end / UNIT_BYTES)).collect()
        };
        assert_eq!(found(&[], 4), [(0, 4)]);
        assert_eq!(found(&[(0, 4)], 4), []);
        assert_eq!(found(&[(3, 4), (1, 2), (1, 3)], 6), [(0, 1), (4, 6)]);
        // A file that is longer on the disk than what is asked about.
        assert_eq!(found(&[(0, 2), (8, 9)], 6), [(2, 6)]);
        assert_eq!(found(&[], 0), []);
    }
}
