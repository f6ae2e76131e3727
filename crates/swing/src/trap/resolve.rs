//! What a faulting thread does to its extent: [`crate::write::barrier`] without locks and tables.
//!
//! The plane of the new version was decided before, under the area's lock, and is in the extent's
//! word. The thread claims the word by one compare-and-swap, makes the version in memory that no
//! mapping shows, and moves it over the old version by one system call. Other threads that fault on
//! the same extent sleep on its word. The thread notes the extent in a list ([`Tracked::log`]),
//! which the next holder of the area's lock absorbs.
//!
//! Only system calls and atomics: nothing is allocated, no lock is taken.

use std::sync::atomic::Ordering;

use rustix::io::Errno;

use crate::memory::copier::{self, Contents, Made, Route, Target};
use crate::model::extent_word::{
    self, ABSENT, BUSY, FAULTING, FROZEN, IN_PLACE, LOGGED, NO_PLANE, PRIVATE, SPARE, UNARMED,
};
use crate::model::units::{AreaOffset, ByteLen, ExtentId};
use crate::sys::block_signals::HeldOff;
use crate::sys::copy_bytes::CopyFor;
use crate::sys::{extent_mapping, memory_limits, process};
use crate::trap::shortage::{StoreShortage, ask_program, complain, refuse};
use crate::trap::trapped_area::Tracked;
use crate::trap::{requests, served, table};

/// After so many logged extents they are written down, and older ones protected early. That
/// interrupts whoever stores; on the other hand a hook has to do what is left, which takes far
/// longer where pages are small.
const LOG_STEP: u32 = 64;
const LOG_STEP_SMALL: u32 = 2;

/// What is opened at once then.
const OPENED: ByteLen = ByteLen::mib(16);

/// How often a private extent is found not to be writable before the fault counts as a crash: an
/// extent can be protected, and made private again, between two looks.
const MAX_DOUBTS: u32 = 4;

/// What a fault was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Data,
    /// Fetching an instruction.
    Code,
}

/// Handles a fault at an address; `false` when it is none of ours, or cannot be handled.
pub(crate) fn resolve(address: usize) -> bool {
    match table::find(address) {
        Some(area) => area.make_private(address),
        None => false,
    }
}

/// Makes a range of addresses writable now as far as it lies in tracked areas, e.g. before a
/// system call that writes into it (which would fail with EFAULT where a store is trapped). Does
/// nothing for other addresses; async-signal-safe. `false` when there is no memory. A publish can
/// protect the range again before the system call runs: on EFAULT, prepare and try again. Of memory
/// that is served otherwise ([`crate::tracked::set_served`]) the page at `address` is filled; that
/// is not async-signal-safe.
pub fn prepare(address: *const u8, len: usize) -> bool {
    let (mut at, end) = (address as usize, (address as usize).saturating_add(len));
    while at < end {
        let Some(area) = table::find(at) else {
            if at == address as usize {
                served::fill(address);
            }
            return true;
        };
        let extent = area.extent_at(at);
        while !area.words.keep_hot(extent) {
            // A handler that interrupts this thread and stores there would wait for what the thread
            // has claimed. The handler of SIGSEGV has them held off by itself.
            let _held = HeldOff::begin();
            if !area.make_private(at) {
                return false;
            }
        }
        at = area.base + area.geometry.range(extent).end.as_usize();
    }
    true
}

/// Whether an address lies in a tracked area of this process, or in memory that is served otherwise
/// ([`crate::tracked::set_served`]). Async-signal-safe; by the time the answer is used another
/// thread may have closed the area.
pub fn is_tracked(address: *const u8) -> bool {
    table::find(address as usize).is_some() || served::is_served(address)
}

impl Tracked {
    pub(crate) fn extent_at(&self, address: usize) -> ExtentId {
        self.geometry.extent_of(AreaOffset((address - self.base) as u64))
    }

    /// The write barrier for the extent of one address.
    fn make_private(&self, address: usize) -> bool {
        let extent = self.extent_at(address);
        let (mut tries, mut without_plane, mut doubts, mut settled) = (0, 0, 0, false);
        loop {
            let word = self.words.word(extent);
            match extent_word::state_of(word) {
                // Another thread was faster; or somebody has just protected the extent, and says
                // so before the gate opens; or the fault is about something else.
                PRIVATE => {
                    if extent_mapping::is_writable(address) {
                        return true;
                    }
                    if self.gate.is_closed() {
                        self.gate.enter();
                        self.gate.leave();
                    } else if self.words.word(extent) == word {
                        doubts += 1;
                        if doubts > MAX_DOUBTS {
                            return false;
                        }
                    }
                }
                BUSY | FAULTING => self.words.wait(extent, word),
                _ if word & UNARMED != 0 => self.words.wait(extent, word),
                FROZEN if word & IN_PLACE != 0 => match self.write_in_place(extent, word) {
                    Ok(true) => return true,
                    Ok(false) => {}
                    Err(e) => return refuse(address, e),
                },
                _ if word & NO_PLANE != 0 => {
                    if !self.find_plane(extent, without_plane) {
                        complain(
                            address,
                            "too many versions of it are in use by snapshots, \
                             or its memory file may not grow (ulimit -f)",
                        );
                        return false;
                    }
                    without_plane += 1;
                }
                FROZEN if word & SPARE == 0 && !settled => {
                    self.spare_wait.wait();
                    settled = true;
                }
                state => {
                    debug_assert!(state == ABSENT || state == FROZEN);
                    match self.write_copy(extent, word) {
                        Ok(true) => return true,
                        Ok(false) => {}
                        Err(Errno::NOSPC) if self.find_memory(extent, tries) => tries += 1,
                        Err(e) => return refuse(address, e),
                    }
                }
            }
        }
    }

    fn span_of(&self, extent: ExtentId) -> (usize, usize) {
        self.span_to(extent, ExtentId(extent.0 + 1))
    }

    /// Address and length of the extents from one to another, which is not among them.
    fn span_to(&self, extent: ExtentId, end: ExtentId) -> (usize, usize) {
        debug_assert!(extent < end && end.0 <= self.words.len());
        let (start, end) = (self.geometry.start(extent), self.geometry.start(end));
        (self.base + start.as_usize(), (end - start).as_usize())
    }

    /// Nobody shares the extent: its protection is taken off, and where stores come in order, also
    /// that of some behind it. All of it inside the gate, because a publish would make the decision
    /// wrong. `false`: the extent has to be looked at again.
    fn write_in_place(&self, extent: ExtentId, word: u32) -> Result<bool, Errno> {
        self.gate.enter();
        let mut done = Ok(false);
        if self.words.replace(extent, word, FAULTING) {
            let frozen = word & !extent_word::WAITERS;
            let end = self.claim_behind(extent, frozen);
            done = self.open(extent, end, frozen).map(|()| true);
        }
        self.gate.leave();
        self.follow();
        done
    }

    /// Opens claimed extents, whose words were `frozen`; where that takes more mappings than the
    /// process may have, the first of them alone.
    fn open(&self, extent: ExtentId, end: ExtentId, frozen: u32) -> Result<(), Errno> {
        let (at, len) = self.span_to(extent, end);
        if extent_mapping::set_writable(at, len, true).is_ok() {
            (extent.0..end.0).for_each(|e| self.log_opened(ExtentId(e)));
            return Ok(());
        }
        // It has opened the mappings before the one that it could not. Together they are closed as
        // they were opened; one by one that might take mappings, too.
        let _ = extent_mapping::set_writable(at, len, false);
        for behind in (extent.0 + 1..end.0).map(ExtentId) {
            self.close(behind, frozen);
        }
        let (at, len) = self.span_of(extent);
        match extent_mapping::set_writable(at, len, true) {
            Err(e) if self.close(extent, frozen) => Err(e),
            Err(_) => Ok(()),
            Ok(()) => {
                self.log_opened(extent);
                Ok(())
            }
        }
    }

    /// Gives a claimed extent back as it was. `false`: it cannot be closed, because that would cut
    /// a mapping. So it is open, and is private instead (INV-AREA-1).
    fn close(&self, extent: ExtentId, frozen: u32) -> bool {
        let (at, len) = self.span_of(extent);
        let closed = extent_mapping::set_writable(at, len, false).is_ok();
        match closed {
            true => self.words.set(extent, frozen),
            false => self.log_opened(extent),
        }
        closed
    }

    fn log_opened(&self, extent: ExtentId) {
        let (_, len) = self.span_of(extent);
        self.in_place.fetch_add(len as u64, Ordering::Relaxed);
        self.log(extent, PRIVATE | LOGGED | IN_PLACE);
    }

    /// Has what comes next copied ahead, if stores come in order.
    fn follow(&self) {
        if self.order.next().is_some_and(|next| self.ahead.is_near(next)) {
            requests::copy_ahead();
        }
    }

    /// Claims extents behind one that nobody shares, in the same condition, if stores come in
    /// order; where they end.
    fn claim_behind(&self, extent: ExtentId, word: u32) -> ExtentId {
        let most = OPENED.0 / self.geometry.len(extent).0;
        let most = if self.order.comes_to(extent) { most.max(1) } else { 1 };
        let mut end = ExtentId(extent.0 + 1);
        while u64::from(end.0 - extent.0) < most
            && end.0 < self.words.len()
            && self.words.replace(end, word, FAULTING)
        {
            end.0 += 1;
        }
        self.order.goes_on(end);
        end
    }

    /// Makes a version of the extent in the plane its word names. `false`: the extent has to be
    /// looked at again.
    fn write_copy(&self, extent: ExtentId, word: u32) -> Result<bool, Errno> {
        let next = word & !extent_word::WAITERS;
        let claimed = next & !7 | FAULTING;
        // Inside the gate, so that whoever has closed it finds words that do not change.
        self.gate.enter();
        let mine = self.words.replace(extent, word, claimed);
        self.gate.leave();
        if !mine {
            return Ok(false);
        }
        let target = self.target(extent, ExtentId(extent.0 + 1), next);
        let begin = process::thread_time_ns();
        let made = self.make_version(extent, ExtentId(extent.0 + 1), next, CopyFor::Storing);
        let spent = process::thread_time_ns().saturating_sub(begin);
        self.copying_ns.fetch_add(spent, Ordering::Relaxed);
        let placed = match &made {
            Ok(version) => match self.gate.enter_unless_held() {
                true => {
                    let placed = copier::place(&target, version, true);
                    if placed.is_ok() {
                        self.count_placed(next, target.len);
                        let plane = extent_word::plane_bits(extent_word::plane_of(next));
                        self.log(extent, PRIVATE | LOGGED | plane);
                    }
                    self.gate.leave();
                    placed.map(|()| true)
                }
                false => Ok(false),
            },
            Err(e) => Err(*e),
        };
        if matches!(placed, Ok(true)) {
            self.after_placing(extent, matches!(made, Ok(Made::InFile)));
            return Ok(true);
        }
        copier::discard(&target, made.ok());
        self.words.set(extent, next);
        if matches!(placed, Ok(false)) {
            // The holder may want this very extent, so it waits for nothing we have.
            self.gate.enter();
            self.gate.leave();
        }
        placed
    }

    fn count_placed(&self, next: u32, len: usize) {
        let absent = extent_word::state_of(next) == ABSENT;
        let counter = if absent { &self.populated } else { &self.copied };
        counter.fetch_add(len as u64, Ordering::Relaxed);
    }

    /// What need not be done while others wait at the gate.
    fn after_placing(&self, extent: ExtentId, in_file: bool) {
        self.order.comes_to(extent);
        self.order.goes_on(ExtentId(extent.0 + 1));
        self.follow();
        if in_file {
            let (at, len) = self.span_of(extent);
            let begin = process::thread_time_ns();
            extent_mapping::map_pages(at, len);
            let spent = process::thread_time_ns().saturating_sub(begin);
            self.copying_ns.fetch_add(spent, Ordering::Relaxed);
        }
        self.processor.store(process::processor().map_or(0, |p| p + 1), Ordering::Relaxed);
        let step = if self.huge { LOG_STEP } else { LOG_STEP_SMALL };
        if self.logged.fetch_add(1, Ordering::Relaxed) % step == step - 1 {
            requests::absorb_soon();
        }
    }

    fn file_offset(&self, extent: ExtentId, next: u32) -> u64 {
        self.geometry.plane_offset(extent_word::plane_of(next), self.geometry.start(extent))
    }

    /// Whether it is worth trying again.
    fn find_memory(&self, extent: ExtentId, tries: u32) -> bool {
        (tries == 0 && requests::reclaim()) || self.ask_for_memory(extent, tries)
    }

    fn ask_for_memory(&self, extent: ExtentId, tries: u32) -> bool {
        let (at, needed) = (self.geometry.start(extent), self.geometry.len(extent));
        ask_program(&StoreShortage { area: self.id, at, needed, tries })
    }

    /// Has planes decided anew, where what snapshots showed has come free meanwhile. Whether it is
    /// worth trying again.
    fn find_plane(&self, extent: ExtentId, tries: u32) -> bool {
        // Of what the program lets go when it is asked the tables know nothing yet.
        (tries == 0 || self.ask_for_memory(extent, tries)) && requests::reclaim()
    }

    /// Where the next versions of the extents from one to another go, all of one length, whose
    /// words say the same of them.
    pub(crate) fn target(&self, extent: ExtentId, end: ExtentId, next: u32) -> Target<'_> {
        let (at, len) = self.span_to(extent, end);
        let offset = self.file_offset(extent, next);
        Target { at, len, file: &self.file, offset, spare: next & SPARE != 0 }
    }

    /// Makes these versions, of claimed extents.
    pub(crate) fn make_version(
        &self,
        extent: ExtentId,
        end: ExtentId,
        next: u32,
        reader: CopyFor,
    ) -> Result<Made, Errno> {
        let target = self.target(extent, end, next);
        let absent = extent_word::state_of(next) == ABSENT;
        // What is spare takes no memory.
        if self.in_memory && !target.spare && memory_limits::take(target.len as u64).is_err() {
            return Err(Errno::NOSPC);
        }
        let new_small_pages = !self.huge && (absent || !target.spare);
        let route = match self.geometry.is_huge(extent) && !new_small_pages {
            true => Route::Mapping { small_pages: !self.huge },
            false => Route::File,
        };
        let contents = if absent { Contents::Zeros } else { Contents::Copied(reader) };
        // SAFETY: the old version is mapped readable and does not change while the extents are
        // claimed: it is frozen.
        unsafe { copier::make(&target, contents, route) }
    }

    /// Notes that an extent has become private. Inside the gate.
    fn log(&self, extent: ExtentId, word: u32) {
        // The word first: who finds the extent in the list finds it private.
        self.words.set(extent, word);
        self.log.note(extent);
    }
}
