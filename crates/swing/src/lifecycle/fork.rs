//! What a fork does to areas.
//!
//! A forked child inherits mappings that are shared with its parent. So that neither disturbs the
//! other:
//!
//! * **Before the fork** every area's lock is taken: no thread is in the middle of anything. If the
//!   client announces its stores ([`crate::Area::write_session`]) and none is under way, the state
//!   is frozen as an anonymous manifest; otherwise the newest manifest is leased, which protects
//!   every extent that is not private. That lease is inherited by the child.
//! * **In the parent** the lease is given up; the lock lives on through the child's copy until the
//!   child exits or executes another program.
//! * **In the child** private extents are write-protected, owner's locks are not there (so that the
//!   child does not hold an area when the parent is gone; also one that another thread has just
//!   taken to open an area), and every later change is refused as `Forked`. Reading goes on: frozen
//!   extents keep their bytes; extents that were private and could not be frozen show what the
//!   parent stores into them; where no lease could be had nothing is left. Snapshots are not
//!   affected at all: their lease is shared by both.
//!
//! A *tracked* area ([`crate::tracked`]) can always be frozen, whoever is storing: its children
//! read and write the state of the fork as private memory of their own. Other threads' stores wait
//! from then until there is a child (the area's gate), so that what it gets of the area and of all
//! other memory is one moment. Where they cannot wait so long, the child gets nothing of the area.
//!
//! **Handlers of the program** that were registered before ours run in the child before them. When
//! one stores into a tracked area, the trap does first what is done in a child ([`enter_child`]).
//! Those of signals wait for that.
//!
//! `vfork`, `posix_spawn` and `exec` run no handler and need none: all descriptors are
//! close-on-exec.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use crate::area::core::Core;
use crate::area::live_slot::LiveSlot;
use crate::area::registry::{OPEN, forget_keeper};
use crate::area::tables::Tables;
use crate::memory::retained::RetainedLock;
use crate::model::error::{Fault, Result};
use crate::model::extent_word::PRIVATE;
use crate::model::old_versions::merge;
use crate::namespace::files::manifest_name;
use crate::namespace::lease::Lease;
use crate::sys::block_signals::Quiet;
use crate::sys::file_lock::{self, ForksHeldOff};
use crate::sys::once::Once;
use crate::sys::strict::{self, strict_assert};
use crate::sys::sync::MutexGuard;
use crate::sys::{descriptors, process};
use crate::tracked::track::Locks;
use crate::trap::pins::MAX_PINNED;
use crate::trap::signal;

static HANDLERS: Once = Once::new();
/// The thread that is forking, or of which this is a child whose memory is not its own yet; else 0.
static FORKING: AtomicU32 = AtomicU32::new(0);
/// What [`before_fork`] hands to the handlers after the fork.
static IN_FORK: ForkSlot = ForkSlot(UnsafeCell::new(None));

struct ForkSlot(UnsafeCell<Option<InFork>>);

// SAFETY: only the forking thread touches the slot, between `before_fork`, which takes the lock
// of `OPEN` first, and the parent's or child's handler, which releases it last.
unsafe impl Sync for ForkSlot {}

struct InFork {
    // Field order is drop order: areas are unlocked before the registry.
    /// Locks that are being taken, or depend on a descriptor.
    locks: ForksHeldOff,
    _tracking: Locks,
    _retained: RetainedLock,
    areas: Vec<Held>,
    _open: MutexGuard<'static, Vec<Weak<Core>>>,
    /// A handler of the program that ran in the child before its memory is its own would store into
    /// the parent's.
    _quiet: Quiet,
}

struct Held {
    // Field order is drop order: the guard points into the core.
    state: MutexGuard<'static, Tables>,
    lease: Option<Lease>,
    /// There is a state that the child would see, and no lease on it could be had.
    bare: bool,
    /// Nobody is just starting or ending the thread that answers.
    live: MutexGuard<'static, LiveSlot>,
    /// Nothing is being copied ahead: a handler of the program that stores to such an extent would
    /// wait for the keeper, and that for the area.
    _copying: Option<MutexGuard<'static, ()>>,
    core: Arc<Core>,
}

/// Registers this library's handlers of forks; otherwise the first area does it.
///
/// They hold areas and what they are made of while the process forks. What was registered before
/// them runs in that time, where it must not make, close or publish an area, nor wait for a thread
/// that does (for one that stores into a tracked area it waits a second): whoever calls
/// this at the very start of a program is free of that.
pub fn handle_forks() {
    HANDLERS.call(|| {
        process::prepare_mark();
        signal::set_enter_child(enter_child);
        // SAFETY: the handlers are functions of this library, which is never unloaded while areas
        // are open.
        let failed =
            unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) };
        assert_eq!(failed, 0, "no memory for a fork handler");
    });
}

extern "C" fn before_fork() {
    let me = process::thread_id().unsigned_abs();
    // Registered twice, in a child that was forked while its parent did it.
    if FORKING.load(Ordering::SeqCst) == me {
        return;
    }
    let quiet = Quiet::begin();
    let open = OPEN.lock();
    let mut areas = Vec::new();
    for core in open.iter().filter_map(Weak::upgrade) {
        // SAFETY: the guards borrow from what stays where it is as long as the core, which `Held`
        // keeps alive and drops after them.
        let kept: &'static Core = unsafe { &*Arc::as_ptr(&core) };
        // An area inherited by this process is no longer its own to freeze.
        if kept.check_fork().is_err() {
            continue;
        }
        // Before the area's lock, as whoever copies.
        let _copying = kept.tracked.get().map(|tracked| tracked.ahead.stand_still());
        let (state, lease) = match lock_to_freeze(kept) {
            Ok((state, lease)) => (state, lease),
            // Nothing is known of what a child would see.
            Err(fault @ Fault::Broken) => {
                strict::say(
                    "swing: a check inside the library has failed before this fork: the child has \
                     nothing of that area\n",
                );
                (kept.state.lock(), Err(fault))
            }
            Err(_) => continue,
        };
        let (lease, bare) = lease.map_or((None, true), |lease| (lease, false));
        areas.push(Held { state, lease, bare, live: kept.live.lock(), _copying, core });
    }
    // After the areas' locks, as when one is closed.
    let fork = InFork {
        _retained: crate::memory::retained::lock_retained(),
        _tracking: Locks::take(),
        locks: file_lock::hold_off_forks(),
        areas,
        _open: open,
        _quiet: quiet,
    };
    // SAFETY: see `ForkSlot`.
    unsafe { *IN_FORK.0.get() = Some(fork) };
    process::mark();
    FORKING.store(me, Ordering::SeqCst);
}

/// An area that is locked, and what a child is to see of it.
type ToFreeze = (MutexGuard<'static, Tables>, Result<Option<Lease>>);

/// Locks an area and freezes it for the child, as soon as nothing is pinned in it.
fn lock_to_freeze(core: &'static Core) -> Result<ToFreeze> {
    let end = Instant::now() + MAX_PINNED;
    // New pins wait until it is frozen.
    let mut wanted = None;
    loop {
        let mut state = core.lock_idle()?;
        let lease = core.freeze_for_child(&mut state);
        if !matches!(lease, Err(Fault::Pinned)) {
            return Ok((state, lease));
        }
        if Instant::now() >= end {
            strict::say(
                "swing: buffers in an area were pinned all the while that a fork has waited for \
                 them: the child has nothing of that area\n",
            );
            return Ok((state, lease));
        }
        core.sessions.end_freeze();
        if let Some(tracked) = core.tracked.get() {
            tracked.gate.end_fork();
        }
        drop(state);
        if let Some(wanted) = wanted.get_or_insert_with(|| core.want_no_pins()) {
            wanted.wait_until_none(end);
        }
    }
}

extern "C" fn in_parent() {
    FORKING.store(0, Ordering::SeqCst);
    // SAFETY: see `ForkSlot`.
    let fork = unsafe { (*IN_FORK.0.get()).take() };
    for held in fork.iter().flat_map(|f| &f.areas) {
        held.core.sessions.end_freeze();
        if let Some(tracked) = held.core.tracked.get() {
            tracked.gate.end_fork();
        }
    }
    // Gives up this process's leases, and unlocks.
    drop(fork);
}

/// For a store that was trapped: whether this is a child whose memory is not its own yet; then it
/// is now. Its only thread is the one that forks.
#[inline]
pub(crate) fn enter_child() -> bool {
    if FORKING.load(Ordering::SeqCst) == 0 || process::is_marked() {
        return false;
    }
    begin_child();
    true
}

/// What a child that stores has to have. It may have been interrupted in the middle of anything, so
/// nothing is allocated, freed, locked or unlocked here: that comes after ([`in_child`]), before
/// the program goes on from the fork.
fn begin_child() {
    FORKING.store(0, Ordering::SeqCst);
    process::note_fork();
    descriptors::begin_in_child();
    forget_keeper();
    // SAFETY: see `ForkSlot`.
    let Some(fork) = (unsafe { (*IN_FORK.0.get()).as_ref() }) else { return };
    for held in &fork.areas {
        held.core.sessions.end_freeze();
        if let Some(tracked) = held.core.tracked.get() {
            let is_one_moment = !tracked.gate.opened_early();
            held.core.copy_in_child(&held.state, held.lease.is_some() && is_one_moment);
        }
    }
}

extern "C" fn in_child() {
    if FORKING.load(Ordering::SeqCst) != 0 {
        begin_child();
    }
    // SAFETY: see `ForkSlot`.
    let Some(mut fork) = (unsafe { (*IN_FORK.0.get()).take() }) else { return };
    fork.locks.close_in_child();
    for held in &mut fork.areas {
        let idle = held.state.busy == 0 || held.core.check_whole().is_err();
        assert!(idle, "INV-AREA-3: the areas were idle at the fork");
        match held.core.tracked.get() {
            Some(_) => {}
            None if held.bare => held.core.unmap_in_child(&held.state),
            None => held.core.protect_in_child(&held.state),
        }
        held.live.abandon_in_child();
        // It stays with the parent.
        drop(held.state.lock.take());
        held.core.forget_made_ahead_in_child(&mut held.state);
        // Views of the parent's memory that its keeper would have dropped.
        held.state.heuristics.detached.clear();
        // As long as this process lives: nobody can tell when its last address into the area is
        // gone.
        std::mem::forget(held.lease.take());
    }
}

impl Core {
    /// Holds off stores, and takes a lease on what the child will see, if there is anything.
    fn freeze_for_child(&self, state: &mut Tables) -> Result<Option<Lease>> {
        if let Some(tracked) = self.tracked.get() {
            tracked.gate.begin_fork();
            self.absorb(state);
        }
        if state.runs.count() == 0 {
            return Ok(None);
        }
        // From here on a new session waits for the area's lock, which is held until after the fork.
        if self.sessions.begin_freeze() {
            return self.lease_view(state).map(|(_, lease)| Some(lease));
        }
        if self.tracked.get().is_some() {
            // Stores of any moment are trapped and go on: the state can always be frozen.
            let lease = self.lease_view(state).map(|(_, lease)| Some(lease));
            crate::trap::requests::watch_views();
            return lease;
        }
        let Some((newest, ())) = state.manifests.live.last_key_value() else { return Ok(None) };
        Lease::take(&self.folder, &manifest_name(*newest), self.id, *newest).map(Some)
    }

    /// Nothing keeps the parent from changing what the child would see: rather nothing.
    fn unmap_in_child(&self, state: &Tables) {
        let mut runs = state.runs.iter();
        let unmapped = runs
            .all(|run| self.mapping.span().forbid(run.start as usize, run.len as usize).is_ok());
        assert!(unmapped, "a forked child must not see what changes");
    }

    /// The child of a process with a tracked area goes on with private copy-on-write memory: what
    /// the area held at the fork, and zeros elsewhere. Called by the fault handler, too.
    fn copy_in_child(&self, state: &Tables, frozen: bool) {
        let span = self.mapping.span();
        let (mut at, end) = (0, self.geometry.reserve().0);
        let mut done = Ok(());
        for run in state.runs.iter() {
            if run.start > at {
                done = done.and(span.map_zeros(at as usize, (run.start - at) as usize));
            }
            at = run.end();
            let (start, len) = (run.start as usize, run.len as usize);
            let file = self.kept_file_of(state, run.source).filter(|_| frozen);
            // Without a lease the parent's next stores would show: rather nothing.
            done = done.and(match file {
                Some(file) => {
                    file.here().and_then(|file| span.map_private(start, len, file, run.file_offset))
                }
                None => span.forbid(start, len),
            });
        }
        if at < end {
            done = done.and(span.map_zeros(at as usize, (end - at) as usize));
        }
        strict_assert!(done.is_ok(), "a forked child does not share writable memory");
    }

    /// The child must not write what the parent sees.
    fn protect_in_child(&self, state: &Tables) {
        let private = state.changed.private.iter().filter(|e| self.words.get(**e) == PRIVATE);
        let mut ranges: Vec<(u64, u64)> =
            private.map(|e| (self.geometry.start(*e).0, self.geometry.len(*e).0)).collect();
        ranges.sort_unstable();
        ranges.dedup();
        for (start, len) in merge(ranges) {
            let protected = self.mapping.span().protect(start as usize, len as usize, false);
            assert!(protected.is_ok(), "a forked child must not share writable memory");
        }
    }
}
