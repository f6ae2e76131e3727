//! Keeping the number of mappings small, however many commits there were.
//!
//! A new version of an extent lies in another plane than the one before, so it does not join its
//! neighbours: the mapping gets *seams*, places where two runs meet that are neighbours in the area
//! but not in the file. Hooking costs a system call a run. The barrier picks planes that join
//! neighbours when it can ([`crate::model::old_versions`]); what is left is mended here, at each
//! publish, by copying the shortest runs into the planes of their neighbours.
//!
//! After a publish a zone with `n` extents has at most [`MAX_SEAMS`]` + n / `[`EXTENTS_PER_SEAM`]
//! seams (INV-AREA-11), unless memory for a copy could not be had. Among so many runs the shortest
//! has at most [`EXTENTS_PER_SEAM`] extents, so removing a seam has a bounded price, and only a
//! commit that made seams pays it. In the small zone, whose extents are cheap to copy, a few seams
//! are mended already below that bound.
//!
//! Only own versions are moved in the data zone: what belongs to another area is shared, and stays
//! so. In the small zone also extents of the origin are copied: they are the metadata that every
//! commit touches.
//!
//! Tracked areas ([`crate::tracked`]) are left as they are: threads that fault there copy extents
//! without the lock, into planes that were decided before, and must not be waited for here.
//!
//! Everything happens under the area's lock, after the private extents were write-protected: no
//! byte changes, and whoever reads meanwhile sees the same bytes from either place.

use std::ops::Range;

use crate::area::core::Core;
use crate::area::tables::Tables;
use crate::model::error::Result;
use crate::model::own_versions::Own;
use crate::model::runs::Run;
use crate::model::units::{AreaOffset, ExtentId};
use crate::sys::file;
use crate::sys::kept_file::KeptFile;

/// Seams a zone may have whatever its size.
pub(crate) const MAX_SEAMS: u64 = 24;
/// One more for so many extents.
pub(crate) const EXTENTS_PER_SEAM: u64 = 32;
/// Seams of the small zone that are not worth a copy.
const EASY_SEAMS: u64 = 2;
/// Small extents that a publish copies to come down to that.
const EASY_EXTENTS: u64 = 4;

/// A run, or two neighbours, and the plane to put them into.
struct Move {
    runs: Vec<Run>,
    plane: u32,
    extents: u64,
}

impl Core {
    /// Removes seams; private extents have been protected. Failing to get memory is no failure:
    /// everything stays as it is.
    pub(crate) fn consolidate(&self, state: &mut Tables) {
        if self.tracked.get().is_some() {
            return;
        }
        let (small, all) = (self.geometry.small_zone().0, self.geometry.reserve().0);
        assert!(state.busy == 0, "INV-AREA-3: nobody works on extents during a publish");
        self.consolidate_zone(state, 0..small);
        self.consolidate_zone(state, small..all);
    }

    fn consolidate_zone(&self, state: &mut Tables, zone: Range<u64>) {
        if zone.is_empty() || state.storage.memory.is_none() {
            return;
        }
        let is_small = zone.end <= self.geometry.small_zone().0;
        let mut copied = 0;
        loop {
            let runs = state.runs.overlapping(zone.start, zone.end);
            let extents: u64 = runs.iter().map(|r| self.extents_of(r)).sum();
            let most = MAX_SEAMS + extents / EXTENTS_PER_SEAM;
            let seams = runs.windows(2).filter(|w| is_seam(&w[0], &w[1], is_small)).count() as u64;
            assert!(seams < extents.max(1), "there is no seam inside an extent");
            if seams <= if is_small { EASY_SEAMS } else { most } {
                return;
            }
            let Some(step) = self.cheapest_move(state, &runs, is_small) else { return };
            if seams <= most && copied + step.extents > EASY_EXTENTS {
                return;
            }
            assert!(step.extents > 0 && !step.runs.is_empty(), "a move moves something");
            copied += step.extents;
            for run in &step.runs {
                if self.move_run(state, run, step.plane).is_err() {
                    return;
                }
            }
        }
    }

    fn extents_of(&self, run: &Run) -> u64 {
        self.geometry.covering(&(AreaOffset(run.start)..AreaOffset(run.end()))).len() as u64
    }

    /// The plane of a run of this area's own memory.
    fn plane_of(&self, run: &Run) -> Option<u32> {
        let plane = (run.file_offset - run.start) / self.geometry.reserve().0;
        (run.source == 0).then_some(plane as u32)
    }

    /// The move that removes most seams for what it copies.
    fn cheapest_move(&self, state: &Tables, runs: &[Run], is_small: bool) -> Option<Move> {
        let mut best: Option<(u64, Move)> = None;
        for (i, run) in runs.iter().enumerate() {
            if run.source != 0 && !is_small {
                continue;
            }
            let left = i.checked_sub(1).map(|j| &runs[j]).filter(|l| l.end() == run.start);
            let right = runs.get(i + 1).filter(|r| run.end() == r.start);
            let (left, right) =
                (left.and_then(|r| self.plane_of(r)), right.and_then(|r| self.plane_of(r)));
            let extents = self.extents_of(run);
            for plane in [left, right].into_iter().flatten() {
                // Twice the price, so that a move that removes two seams counts half.
                let price = if left == right { extents } else { 2 * extents };
                let better = best.as_ref().is_none_or(|(least, _)| price < *least);
                if better && self.is_free(state, run, plane) {
                    best = Some((price, Move { runs: vec![*run], plane, extents }));
                }
            }
        }
        best.map(|(_, step)| step).or_else(|| self.cheapest_pair(state, runs, is_small))
    }

    /// Two neighbours and a plane that neither uses: what is left when old versions that somebody
    /// still reads are in the way of every simple move.
    fn cheapest_pair(&self, state: &Tables, runs: &[Run], is_small: bool) -> Option<Move> {
        let pairs = runs.windows(2).filter(|w| is_seam(&w[0], &w[1], is_small));
        let pair = pairs.min_by_key(|w| w[0].len + w[1].len)?;
        let free = |plane: &u32| pair.iter().all(|run| self.is_free(state, run, *plane));
        let plane = (0..crate::model::geometry::MAX_PLANES).find(free)?;
        let extents = pair.iter().map(|run| self.extents_of(run)).sum();
        Some(Move { runs: pair.to_vec(), plane, extents })
    }

    /// Whether a plane can take a run: no live manifest and no current version is there.
    fn is_free(&self, state: &Tables, run: &Run, plane: u32) -> bool {
        let range = AreaOffset(run.start)..AreaOffset(run.end());
        self.geometry.covering(&range).map(ExtentId).all(|extent| {
            state.versions.is_free(extent, plane)
                && state.own.get(extent).is_none_or(|own| own.plane != plane)
        })
    }

    /// Copies a run into a plane and shows it from there.
    fn move_run(&self, state: &mut Tables, run: &Run, plane: u32) -> Result<()> {
        assert!(self.is_free(state, run, plane), "INV-AREA-1: nobody sees what is overwritten");
        assert!(state.runs.covers(run.start, run.end()), "what is copied is there");
        self.take_room(run.len)?;
        let range = AreaOffset(run.start)..AreaOffset(run.end());
        let extents = self.geometry.covering(&range);
        let len = u64::from(plane + 1) * self.geometry.reserve().0;
        let file = self.memory_of_len(state, len)?;
        let target =
            Run { source: 0, file_offset: self.geometry.plane_offset(plane, range.start), ..*run };
        for extent in extents.clone().map(ExtentId) {
            state.versions.take(&self.geometry, extent, plane);
        }
        let mut replaced = 0;
        if let Err(fault) = self.copy_run(run, &target, &file, &mut replaced) {
            self.restore(state, run.start, run.start + replaced);
            let path = self.memory_path();
            let punch = |file| file::punch(file, target.file_offset, run.len, &path);
            let _ = file.here_for(&path).and_then(punch);
            return Err(fault);
        }
        let born = state.manifests.next_epoch;
        for extent in extents.map(ExtentId) {
            let Tables { own, versions, manifests, .. } = &mut *state;
            if let Some(old) = own.set(extent, Some(Own { plane, born })) {
                assert_ne!(old.plane, plane, "INV-AREA-2: a version moves to another plane");
                let version = (extent, old.plane);
                versions.free(&self.geometry, &manifests.live, version, old.born, born);
            }
        }
        state.runs.set(target);
        state.changed.dirty = true;
        Ok(())
    }

    fn copy_run(&self, run: &Run, target: &Run, file: &KeptFile, replaced: &mut u64) -> Result<()> {
        // SAFETY: the range is mapped readable, and frozen under the lock that this call holds:
        // nobody stores there.
        unsafe { self.copy_shown(run.start, run.len, (file, target.file_offset), false, replaced) }
    }
}

/// Whether copying could make one run of two.
fn is_seam(left: &Run, right: &Run, is_small: bool) -> bool {
    left.end() == right.start && (is_small || (left.source == 0 && right.source == 0))
}
