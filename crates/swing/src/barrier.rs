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

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::io::Errno;

use crate::area::{Area, Core, State};
use crate::error::{Context, Fault, Result, WriteError};
use crate::extents::{ABSENT, BUSY, FROZEN, HOT, Own, PRIVATE};
use crate::mapping::mapping_fault;
use crate::runs::Run;
use crate::sys::file;
use crate::sys::mem::{SPAN_ALIGN, Span};
use crate::sys::room;
use crate::units::{AreaOffset, ByteLen, Epoch, ExtentId};
use crate::versions::visible;

/// How much is populated by one system call, so that a huge request can be interrupted.
const POPULATE_STEP: u64 = 256 << 20;
/// Manifests examined before something is copied because of them.
const PROBES_PER_WRITE: usize = 4;
/// How much is copied through one scratch mapping.
const COPY_STEP: u64 = 32 << 20;

/// What the caller will do with a range it makes writable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteIntent {
    /// The bytes are kept; memory that did not exist reads as zeros.
    Keep,
    /// The caller overwrites every byte of the range. Extents wholly inside hold unspecified bytes
    /// until then; edge extents keep theirs.
    Overwrite,
}

/// How an extent becomes private.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Map `plane`; there was nothing, or it will all be overwritten. `zero`: the plane holds old
    /// bytes that must not show.
    Fresh { plane: u32, zero: bool },
    /// Take off the write-protection.
    InPlace,
    /// Copy into `plane`.
    Copy { plane: u32 },
}

/// What a new version is filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fill {
    Copy,
    /// `true`: the plane holds old bytes.
    Zeros(bool),
}

/// Adjacent extents of one zone that go the same way.
#[derive(Clone, Copy, Debug)]
struct Step {
    first: ExtentId,
    count: u32,
    start: u64,
    len: u64,
    way: Way,
}

impl Step {
    fn extents(&self) -> impl Iterator<Item = ExtentId> + use<> {
        (self.first.0..self.first.0 + self.count).map(ExtentId)
    }
}

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
    pub(crate) fn context(&self) -> Context<'_> {
        Context { name: self.name.as_ref(), id: Some(self.id), path: self.folder.path() }
    }

    pub(crate) fn check_range(&self, range: &Range<AreaOffset>) -> Result<()> {
        if self.geometry.contains(range) {
            return Ok(());
        }
        Err(Fault::OutOfRange { start: range.start, end: range.end })
    }

    fn make_writable(&self, range: &Range<AreaOffset>, intent: WriteIntent) -> Result<()> {
        self.check_range(range)?;
        let extents = self.geometry.covering(range);
        self.check_fork()?;
        if self.keep_open(extents.clone()) {
            return Ok(());
        }
        match self.make_private(range, extents.clone(), intent) {
            Err(Fault::OutOfMemory { .. }) => {
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
        let (steps, file) = {
            let mut state = self.lock_for_change()?;
            self.look_before_copying(&mut state, extents.clone())?;
            drop(state);
            let (mut state, _closed) = self.lock_settled(extents.clone())?;
            self.plan(&mut state, range, extents, intent)?
        };
        let Some(file) = file else { return Ok(()) };
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
        let punched = self.punch_after_writing(&mut state, written);
        drop(state);
        failure.map_or(punched, Err)
    }

    /// Before memory is taken: whether there is so much, on the file system and in all.
    pub(crate) fn take_room(&self, len: u64) -> Result<()> {
        self.check_headroom(len)?;
        if !self.in_memory || len == 0 {
            return Ok(());
        }
        room::take(len).map_err(|shortage| Fault::OutOfMemory {
            needed: ByteLen(len),
            file_system: shortage.limit.to_owned(),
            free: shortage.free,
        })
    }

    /// Copying costs far more than looking whether the readers for whom it would be done are still
    /// there.
    fn look_before_copying(&self, state: &mut State, extents: Range<u32>) -> Result<()> {
        // What a current manifest shows is copied in any case.
        let current = state.shared.max(state.committed).unwrap_or(Epoch(0));
        let frozen = extents.map(ExtentId).filter(|e| self.states.get(*e) == FROZEN);
        let born = frozen.filter_map(|e| state.own.get(e)).map(|own| own.born);
        let Some(oldest) = born.filter(|b| *b > current).min() else { return Ok(()) };
        if !visible(&state.live, oldest, state.next_epoch) {
            return Ok(());
        }
        let showing = state.live.range(oldest..).map(|(e, ())| *e);
        for epoch in showing.take(PROBES_PER_WRITE).collect::<Vec<_>>() {
            self.retire_if_possible(state, epoch)?;
        }
        Ok(())
    }

    /// Claims the extents that are not private yet and decides what to do with each.
    #[allow(clippy::type_complexity)]
    fn plan(
        &self,
        state: &mut State,
        range: &Range<AreaOffset>,
        extents: Range<u32>,
        intent: WriteIntent,
    ) -> Result<(Vec<Step>, Option<Arc<File>>)> {
        let inside = self.geometry.inside(range);
        let mut steps: Vec<Step> = Vec::new();
        let mut highest = 0;
        for e in extents {
            let extent = ExtentId(e);
            if self.states.get(extent) == PRIVATE {
                continue;
            }
            let overwrite = intent == WriteIntent::Overwrite && inside.contains(&e);
            let beside = self.planes_beside(state, &steps, extent);
            let Some(way) = self.choose_way(state, extent, overwrite, beside) else {
                self.abandon(state, &steps);
                return Err(Fault::PlanesExhausted { at: self.geometry.start(extent) });
            };
            if let Way::Fresh { plane, .. } | Way::Copy { plane } = way {
                highest = highest.max(plane + 1);
            }
            self.add_step(&mut steps, extent, way);
        }
        debug_assert!(steps.windows(2).all(|s| s[0].start + s[0].len <= s[1].start));
        if steps.is_empty() {
            return Ok((steps, None));
        }
        let len = u64::from(highest.max(1)) * self.geometry.reserve().0;
        let file = match self.memory_of_len(state, len) {
            Ok(file) => file,
            Err(fault) => {
                self.abandon(state, &steps);
                return Err(fault);
            }
        };
        for step in &steps {
            step.extents().for_each(|e| self.states.set(e, BUSY));
            state.busy += step.count;
        }
        Ok((steps, Some(file)))
    }

    /// Gives back the planes of steps that will not be performed.
    fn abandon(&self, state: &mut State, steps: &[Step]) {
        for step in steps {
            if let Way::Fresh { plane, .. } | Way::Copy { plane } = step.way {
                step.extents().for_each(|e| state.versions.add_spare(&self.geometry, e, plane));
            }
        }
    }

    /// The planes of an extent's neighbours, as they will be.
    fn planes_beside(&self, state: &State, steps: &[Step], extent: ExtentId) -> [Option<u32>; 2] {
        let own = |e: ExtentId| state.own.get(e).map(|own| own.plane);
        let planned = steps.last().filter(|s| s.first.0 + s.count == extent.0);
        let left = match planned.map(|step| step.way) {
            Some(Way::Fresh { plane, .. } | Way::Copy { plane }) => Some(plane),
            _ => extent.0.checked_sub(1).and_then(|e| own(ExtentId(e))),
        };
        [left, own(ExtentId(extent.0 + 1))]
    }

    fn choose_way(
        &self,
        state: &mut State,
        extent: ExtentId,
        overwrite: bool,
        beside: [Option<u32>; 2],
    ) -> Option<Way> {
        let own = state.own.get(extent);
        let absent = self.states.get(extent) == ABSENT;
        if let Some(own) = own
            && !visible(&state.live, own.born, state.next_epoch)
        {
            return Some(Way::InPlace);
        }
        let current = own.map(|o| o.plane);
        let choice = state.versions.choose(&self.geometry, extent, current, beside)?;
        Some(match (absent, overwrite) {
            (_, true) => Way::Fresh { plane: choice.plane, zero: false },
            (true, false) => Way::Fresh { plane: choice.plane, zero: choice.spare },
            (false, false) => Way::Copy { plane: choice.plane },
        })
    }

    fn add_step(&self, steps: &mut Vec<Step>, extent: ExtentId, way: Way) {
        let (start, len) = (self.geometry.start(extent).0, self.geometry.len(extent).0);
        if let Some(last) = steps.last_mut() {
            let adjacent = last.first.0 + last.count == extent.0 && last.way == way;
            if adjacent && self.geometry.is_small(last.first) == self.geometry.is_small(extent) {
                last.count += 1;
                last.len += len;
                return;
            }
        }
        steps.push(Step { first: extent, count: 1, start, len, way });
    }

    /// Does a step; `replaced` is how many of its bytes show something else afterwards, also when
    /// it fails.
    fn perform(&self, step: &Step, file: &File, replaced: &mut u64) -> Result<()> {
        match step.way {
            Way::Fresh { plane, zero } => self.map_fresh(step, file, plane, zero, replaced),
            Way::InPlace => {
                let span = self.mapping.span();
                let path = self.memory_path();
                span.protect(step.start as usize, step.len as usize, true)
                    .map_err(|e| mapping_fault(e, &path))?;
                self.counters.in_place_bytes.fetch_add(step.len, Ordering::Relaxed);
                Ok(())
            }
            Way::Copy { plane } if !self.geometry.is_huge(step.first) => {
                self.copy_small(step, file, plane)
            }
            Way::Copy { plane } => self.copy_large(step, file, plane, replaced),
        }
    }

    fn map_fresh(
        &self,
        step: &Step,
        file: &File,
        plane: u32,
        zero: bool,
        replaced: &mut u64,
    ) -> Result<()> {
        let run = self.plane_run(step.start, step.len, plane);
        let path = self.memory_path();
        if self.tracked.get().is_some() {
            return self.fill_fresh(step, file, plane, zero, replaced);
        }
        self.mapping.map_run(&run, file, true).map_err(|e| mapping_fault(e, &path))?;
        *replaced = step.len;
        self.populate(self.mapping.span(), step.start, step.len, file, run.file_offset)?;
        if zero {
            // SAFETY: the range has just been mapped writable and populated, and the extents are
            // claimed by this call.
            unsafe {
                let at = self.mapping.base().as_ptr().add(step.start as usize);
                std::ptr::write_bytes(at, 0, step.len as usize);
            }
        }
        self.counters.populated_bytes.fetch_add(step.len, Ordering::Relaxed);
        Ok(())
    }

    /// As `map_fresh` in a tracked area, where another thread may touch an extent at any time: it
    /// must find the finished version or none.
    fn fill_fresh(
        &self,
        step: &Step,
        file: &File,
        plane: u32,
        zero: bool,
        replaced: &mut u64,
    ) -> Result<()> {
        if self.geometry.is_huge(step.first) {
            while *replaced < step.len {
                let len = COPY_STEP.min(step.len - *replaced);
                let at = step.start + *replaced;
                let offset = self.geometry.plane_offset(plane, AreaOffset(at));
                self.replace_piece(at, len, file, offset, Fill::Zeros(zero))?;
                *replaced += len;
            }
        } else {
            let run = self.plane_run(step.start, step.len, plane);
            let path = self.memory_path();
            if zero {
                file::punch(file, run.file_offset, run.len, &path)?;
            }
            file::allocate(file, run.file_offset, run.len)
                .map_err(|_| file::out_of_memory(self.folder.path(), ByteLen(step.len)))?;
            self.mapping.map_run(&run, file, true).map_err(|e| mapping_fault(e, &path))?;
            *replaced = step.len;
        }
        self.counters.populated_bytes.fetch_add(step.len, Ordering::Relaxed);
        Ok(())
    }

    fn plane_run(&self, start: u64, len: u64, plane: u32) -> Run {
        let file_offset = self.geometry.plane_offset(plane, AreaOffset(start));
        Run { start, len, source: 0, file_offset }
    }

    /// Allocates the pages behind a writable mapping; a full file system is an error, not a SIGBUS
    /// at the first store.
    fn populate(
        &self,
        span: &Span,
        at: u64,
        len: u64,
        file: &File,
        file_offset: u64,
    ) -> Result<()> {
        let mut done = 0;
        while done < len {
            let step = POPULATE_STEP.min(len - done);
            let populated = match span.populate((at + done) as usize, step as usize) {
                // Before Linux 5.14: allocate in the file instead.
                Err(Errno::INVAL) => file::allocate(file, file_offset + done, step),
                other => other,
            };
            match populated {
                Ok(()) => done += step,
                Err(Errno::FAULT | Errno::NOSPC | Errno::NOMEM | Errno::HWPOISON) => {
                    return Err(file::out_of_memory(self.folder.path(), ByteLen(len)));
                }
                Err(e) => return Err(Fault::io("populate", &self.memory_path(), e)),
            }
        }
        Ok(())
    }

    /// Small extents: the file is written from the old mapping, then mapped over it.
    fn copy_small(&self, step: &Step, file: &File, plane: u32) -> Result<()> {
        let run = self.plane_run(step.start, step.len, plane);
        let path = self.memory_path();
        // SAFETY: the range is mapped readable, frozen (so nobody writes it) and claimed by this
        // call.
        let old = unsafe {
            let at = self.mapping.base().as_ptr().add(step.start as usize);
            std::slice::from_raw_parts(at, step.len as usize)
        };
        file.write_all_at(old, run.file_offset).map_err(|e| match e.raw_os_error() {
            Some(libc::ENOSPC | libc::ENOMEM) => {
                file::out_of_memory(self.folder.path(), ByteLen(step.len))
            }
            _ => Fault::io("write", &path, e),
        })?;
        self.mapping.map_run(&run, file, true).map_err(|e| mapping_fault(e, &path))?;
        self.counters.copied_bytes.fetch_add(step.len, Ordering::Relaxed);
        Ok(())
    }

    /// Large extents: copied through a scratch mapping (writing the file would give small pages),
    /// whose page tables then move over the old mapping in one step.
    fn copy_large(&self, step: &Step, file: &File, plane: u32, replaced: &mut u64) -> Result<()> {
        let offset = self.geometry.plane_offset(plane, AreaOffset(step.start));
        self.copy_to_plane(step.start, step.len, offset, file, replaced)
    }

    /// Copies large extents to a place of the file and maps that, writable.
    pub(crate) fn copy_to_plane(
        &self,
        start: u64,
        len: u64,
        file_offset: u64,
        file: &File,
        replaced: &mut u64,
    ) -> Result<()> {
        while *replaced < len {
            let piece = COPY_STEP.min(len - *replaced);
            let (at, offset) = (start + *replaced, file_offset + *replaced);
            self.replace_piece(at, piece, file, offset, Fill::Copy)?;
            *replaced += piece;
            self.counters.copied_bytes.fetch_add(piece, Ordering::Relaxed);
        }
        Ok(())
    }

    fn replace_piece(
        &self,
        start: u64,
        len: u64,
        file: &File,
        file_offset: u64,
        fill: Fill,
    ) -> Result<()> {
        let path = self.memory_path();
        let fault = |e: Errno| mapping_fault(e, &path);
        debug_assert!((len as usize).is_multiple_of(SPAN_ALIGN));
        let scratch = Span::reserve_scratch(len as usize).map_err(fault)?;
        scratch.map(0, len as usize, file, file_offset, true).map_err(fault)?;
        scratch.advise_huge(0, len as usize);
        self.populate(&scratch, 0, len, file, file_offset)?;
        // SAFETY: the source is mapped readable, frozen and claimed by this call; the scratch range
        // is this call's own, writable and populated; both are `len` bytes and do not overlap.
        unsafe {
            let from = self.mapping.base().as_ptr().add(start as usize);
            let to = scratch.base().as_ptr();
            match fill {
                Fill::Copy => std::ptr::copy_nonoverlapping(from, to, len as usize),
                Fill::Zeros(true) => std::ptr::write_bytes(to, 0, len as usize),
                Fill::Zeros(false) => {}
            }
        }
        self.mapping.span().move_in(start as usize, len as usize, &scratch).map_err(fault)?;
        scratch.forget_moved(len as usize);
        Ok(())
    }

    /// Writes down what a performed step changed.
    fn record(&self, state: &mut State, step: &Step) {
        let born: Epoch = state.next_epoch;
        for extent in step.extents() {
            assert_eq!(self.states.get(extent), BUSY, "INV-AREA-3: {extent} was claimed");
            let plane = match step.way {
                Way::InPlace => state.own.get(extent).map_or(0, |o| o.plane),
                Way::Fresh { plane, .. } | Way::Copy { plane } => plane,
            };
            let old = state.own.set(extent, Some(Own { plane, born }));
            if let Some(old) = old.filter(|_| step.way != Way::InPlace) {
                assert_ne!(old.plane, plane, "INV-AREA-1: a visible version is never overwritten");
                state.versions.free(
                    &self.geometry,
                    &state.live,
                    (extent, old.plane),
                    old.born,
                    born,
                );
            }
            state.private.push(extent);
        }
        if let Way::Fresh { plane, .. } | Way::Copy { plane } = step.way {
            state.runs.set(self.plane_run(step.start, step.len, plane));
        }
        state.dirty = true;
        for extent in step.extents() {
            let word = self.private_word(state, extent) | HOT;
            self.states.set(extent, word);
        }
    }

    /// Takes back a step that failed half-way (`touched`) or was never begun.
    fn undo(&self, state: &mut State, step: &Step, file: &File, touched: bool, replaced: u64) {
        assert!(replaced <= step.len && (touched || replaced == 0));
        // Only what was really replaced: mapping the rest again could itself fail, when what
        // failed is the number of mappings.
        self.restore(state, step.start, step.start + replaced);
        if let Way::Fresh { plane, .. } | Way::Copy { plane } = step.way {
            if touched {
                // What a failed population has allocated must not stay: the file system is full.
                let offset = self.geometry.plane_offset(plane, AreaOffset(step.start));
                let _ = file::punch(file, offset, step.len, &self.memory_path());
            } else {
                step.extents().for_each(|e| state.versions.add_spare(&self.geometry, e, plane));
            }
        }
        for extent in step.extents() {
            let mapped =
                state.runs.covers(self.geometry.start(extent).0, self.geometry.range(extent).end.0);
            self.settle(state, extent, if mapped { FROZEN } else { ABSENT });
        }
    }
}
