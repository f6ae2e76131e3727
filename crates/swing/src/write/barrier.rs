//! The write barrier: makes a range of an area private to its owner, copying what others may still
//! see.
//!
//! | state of the extent | what happens |
//! |---|---|
//! | private | nothing; one atomic load |
//! | absent | a plane is populated and mapped |
//! | frozen, no live manifest shows it | write-protection is taken off: written in place |
//! | frozen, else | copied into a free plane, which is mapped over it in one step |
//!
//! An extent that will be overwritten wholly is not copied; its new plane is only populated.
//!
//! Work is planned and extents are claimed under the lock, done outside it, and recorded under it
//! again. A failure undoes the part that failed and leaves what succeeded before; in both cases the
//! bytes of the range are what they were.

use std::ops::Range;

use crate::area::core::Core;
use crate::area::handle::Area;
use crate::area::locking::AtWork;
use crate::area::tables::Tables;
use crate::model::error::{Fault, Result, WriteError};
use crate::model::extent_word::{ABSENT, BUSY, FROZEN, HOT, note};
use crate::model::old_versions::visible;
use crate::model::own_versions::Own;
use crate::model::units::{AreaOffset, Epoch, ExtentId};
use crate::sys::block_signals::Quiet;
use crate::sys::file;
use crate::sys::kept_file::KeptFile;
use crate::write::plan::{Step, Way, WriteIntent};

/// Manifests examined before something is copied because of them.
const PROBES_PER_WRITE: usize = 4;

impl Area {
    /// Makes `range` writable for its owner: the explicit write barrier. Cheap when it is already.
    /// Whole extents become private, so neighbouring bytes do, too.
    ///
    /// After the next publish the extents are write-protected again; a store without a new barrier
    /// call is trapped.
    pub fn make_writable(
        &self,
        range: Range<AreaOffset>,
        intent: WriteIntent,
    ) -> Result<(), WriteError> {
        let core = &*self.core;
        let result = core.make_writable(&range, intent);
        result.map_err(|fault| WriteError::from_fault(fault, &core.context()))
    }
}

impl Core {
    fn make_writable(&self, range: &Range<AreaOffset>, intent: WriteIntent) -> Result<()> {
        self.check_range(range)?;
        let extents = self.geometry.covering(range);
        self.check_fork()?;
        if self.keep_open(extents.clone()) {
            return Ok(());
        }
        match self.make_private(range, extents.clone(), intent) {
            // Of memory, of planes, or of what the file may grow to.
            Err(Fault::OutOfMemory { .. } | Fault::PlanesExhausted { .. } | Fault::Io(_)) => {
                // Old versions may have become reclaimable, and the dead may have left something.
                self.reclaim_all()?;
                self.ns.collect_garbage();
                match self.make_private(range, extents.clone(), intent) {
                    Err(Fault::OutOfMemory { file_system, .. })
                        if file_system.starts_with(self.ns.path()) && self.move_on()? =>
                    {
                        self.make_private(range, extents, intent)
                    }
                    other => other,
                }
            }
            other => other,
        }
    }

    fn make_private(
        &self,
        range: &Range<AreaOffset>,
        extents: Range<u32>,
        intent: WriteIntent,
    ) -> Result<()> {
        self.let_others_go_first();
        let _at_work = AtWork::begin(self);
        // Of a tracked area: until nothing is claimed any more.
        let (steps, file, _quiet) = {
            let mut state = self.lock_for_change()?;
            self.look_before_copying(&mut state, extents.clone())?;
            drop(state);
            let (mut state, closed) = self.lock_settled(extents.clone())?;
            let (steps, file) = self.plan(&mut state, range, extents, intent)?;
            (steps, file, closed.is_some().then(Quiet::begin))
        };
        let Some(file) = file else { return Ok(()) };
        assert!(!steps.is_empty(), "memory is wanted for something");
        let taken = steps.iter().filter(|step| step.way != Way::InPlace).map(|step| step.len);
        let mut failure = self.take_room(taken.sum()).err();
        let begun = failure.is_none();
        let mut done = 0;
        let mut replaced = 0;
        for step in steps.iter().filter(|_| begun) {
            replaced = 0;
            if let Err(fault) = self.perform(step, &file, &mut replaced) {
                failure = Some(fault);
                break;
            }
            done += 1;
        }
        let mut state = self.state.lock();
        let mut written = 0;
        for (i, step) in steps.iter().enumerate() {
            if i < done {
                self.record(&mut state, step);
                written += step.len;
            } else {
                let replaced = if i == done { replaced } else { 0 };
                self.undo(&mut state, step, &file, begun && i == done, replaced);
            }
        }
        let claimed: u32 = steps.iter().map(|s| s.count).sum();
        assert!(state.busy >= claimed, "INV-AREA-3: every claimed extent is given back once");
        state.busy -= claimed;
        self.idle.notify_all();
        // What cannot be given back now is given back later.
        let _ = self.punch_after_writing(&mut state, written);
        drop(state);
        failure.map_or(Ok(()), Err)
    }

    /// Copying costs far more than looking whether the readers for whom it would be done are still
    /// there.
    fn look_before_copying(&self, state: &mut Tables, extents: Range<u32>) -> Result<()> {
        // What a current manifest shows is copied in any case.
        let current = state.manifests.shared.max(state.manifests.committed).unwrap_or(Epoch(0));
        let frozen = extents.map(ExtentId).filter(|e| self.words.get(*e) == FROZEN);
        let born = frozen.filter_map(|e| state.own.get(e)).map(|own| own.born);
        let Some(oldest) = born.filter(|b| *b > current).min() else { return Ok(()) };
        if !visible(&state.manifests.live, oldest, state.manifests.next_epoch) {
            return Ok(());
        }
        let showing = state.manifests.live.range(oldest..).map(|(e, ())| *e);
        for epoch in showing.take(PROBES_PER_WRITE).collect::<Vec<_>>() {
            self.retire_if_possible(state, epoch)?;
        }
        Ok(())
    }

    /// Writes down what a performed step changed.
    fn record(&self, state: &mut Tables, step: &Step) {
        let born: Epoch = state.manifests.next_epoch;
        for extent in step.extents() {
            assert_eq!(self.words.get(extent), BUSY, "INV-AREA-3: {extent} was claimed");
            let before = state.own.get(extent);
            let plane = match step.way {
                Way::InPlace => {
                    assert!(before.is_some(), "INV-AREA-2: {extent} has a version of its own");
                    before.map_or(0, |own| own.plane)
                }
                Way::Fresh { plane, .. } | Way::Copy { plane } => {
                    let free = state.versions.is_free(extent, plane);
                    assert!(free, "INV-AREA-1: {extent} in plane {plane} is visible");
                    plane
                }
            };
            let old = state.own.set(extent, Some(Own { plane, born }));
            if let Some(old) = old.filter(|_| step.way != Way::InPlace) {
                assert_ne!(old.plane, plane, "INV-AREA-1: a visible version is never overwritten");
                state.versions.free(
                    &self.geometry,
                    &state.manifests.live,
                    (extent, old.plane),
                    old.born,
                    born,
                );
            }
            note(&mut state.changed.private, extent);
        }
        if let Way::Fresh { plane, .. } | Way::Copy { plane } = step.way {
            state.runs.set(self.plane_run(step.start, step.len, plane));
        }
        state.changed.dirty = true;
        for extent in step.extents() {
            let word = self.private_word(state, extent) | HOT;
            self.words.set(extent, word);
        }
    }

    /// Takes back a step that failed half-way (`touched`) or was never begun.
    pub(crate) fn undo(
        &self,
        state: &mut Tables,
        step: &Step,
        file: &KeptFile,
        touched: bool,
        replaced: u64,
    ) {
        assert!(replaced <= step.len && (touched || replaced == 0), "only what was begun changed");
        let all_or_nothing = self.tracked.get().is_none() || replaced == 0;
        assert!(all_or_nothing, "INV-AREA-13: others may have stored into what was shown");
        let replaced = if step.mapped { step.len } else { replaced };
        // Only what was really replaced: mapping the rest again could itself fail, when what
        // failed is the number of mappings.
        self.restore(state, step.start, step.start + replaced);
        let mut open = Vec::new();
        match step.way {
            // Mappings before the one that it failed at may be open.
            Way::InPlace if touched => open = self.close_again(step),
            Way::InPlace => {}
            Way::Fresh { plane, .. } | Way::Copy { plane } if touched => {
                // What a failed population has allocated must not stay: the file system is full.
                let offset = self.geometry.plane_offset(plane, AreaOffset(step.start));
                let punch = |file| file::punch(file, offset, step.len, &self.memory_path());
                let _ = file.here_for(&self.memory_path()).and_then(punch);
            }
            Way::Fresh { .. } | Way::Copy { .. } => self.give_planes_back(state, step),
        }
        for extent in step.extents() {
            assert_eq!(self.words.get(extent), BUSY, "INV-AREA-3: {extent} was claimed");
            if open.contains(&extent) {
                let (start, len) = (self.geometry.start(extent).0, self.geometry.len(extent).0);
                self.record(state, &Step { first: extent, count: 1, start, len, ..*step });
                continue;
            }
            let mapped =
                state.runs.covers(self.geometry.start(extent).0, self.geometry.range(extent).end.0);
            self.settle(state, extent, if mapped { FROZEN } else { ABSENT });
        }
    }

    /// Protects what was to be written in place; returns what cannot be, and so is open.
    fn close_again(&self, step: &Step) -> Vec<ExtentId> {
        // Together they are closed as they were opened; one by one that might take mappings, too.
        let protected = self.mapping.span().protect(step.start as usize, step.len as usize, false);
        if protected.is_ok() { Vec::new() } else { self.protect_each(step.extents()) }
    }
}
