//! Tracked areas: plain stores are copy-on-write by themselves.
//!
//! After [`Area::track`] any store by any thread, in Rust, C or a vectorised loop of NumPy, works
//! without a call of [`Area::make_writable`]: a store into an extent that a publish has frozen is
//! trapped by the processor, and the SIGSEGV handler of this module makes the extent private, as
//! the barrier would have done. The first touch of an extent without memory gives zeros.
//!
//! # How a handler may do that
//!
//! The faulting thread can be anywhere and hold any lock, its allocator's too. A helper thread that
//! does the work instead would need those locks; so would this thread. Therefore nothing in the
//! handler allocates or locks:
//!
//! * Where the next version of each extent goes is **decided ahead**, under the area's lock,
//!   whenever that changes ("armed"), and kept in the extent's word
//!   ([`crate::memory::extent_words`]).
//! * The handler **claims** the extent by compare-and-swap of the word (`FAULTING`), so exactly one
//!   thread copies and the others sleep on the word; it fills the planned plane through a scratch
//!   mapping, and moves that over the old version in one system call ([`crate::trap::resolve`]).
//! * It **logs** the extent in a lock-free list. Who takes the area's lock next writes down what
//!   was logged ([`ledger`]); a publish does so before it assigns its epoch.
//!
//! # The moment of a publish
//!
//! A publish of a tracked area closes a gate ([`crate::trap::gate`]), write-protects every private
//! extent, and opens it again. A thread that faults meanwhile copies but does not proceed to its
//! store before the gate opens. So, at the instant when the last extent has been protected, memory
//! is exactly what the publish shows: each store of each thread was executed before that instant
//! and is in it, or after it and is not. No store of a thread is missing while a later one of it,
//! or one of another thread that saw it, is there. What may be half done is a change that takes
//! several machine stores; [`Area::hold_stores`] stops everybody for as long as a program needs to
//! see to that.
//!
//! # Limits
//!
//! * A *system call* that writes into a frozen extent fails with EFAULT instead of faulting: pass
//!   its buffer through [`prepare`] or [`Area::make_writable`] first.
//! * A thread that blocks SIGSEGV, or whose own stack lies in a tracked area without an alternate
//!   signal stack, is killed by the kernel at its first trapped store.
//! * The memory of Rust's global allocator must not lie in a tracked area: the tables of this crate
//!   are in it.
//! * A signal handler of the program may store, and call [`prepare`], whatever it has interrupted.
//!   If that was the allocator, or another call of this crate, it must call neither of these: it
//!   might wait for itself.
//! * Reading an absent extent gives it memory, as writing does.
//!
//! # Crashes, forks
//!
//! A fault that is none of a tracked area goes to the handler that was there before
//! ([`crate::trap::signal`]). A store that finds no memory says so on standard error and dies by
//! SIGSEGV, unless [`on_shortage`] finds a way; it is never a SIGBUS. A forked child gets the state
//! of the fork as ordinary private memory at the same addresses: it may read and write it, and
//! cannot publish it. No other thread's store gets through the gate before there is a child.

pub(crate) mod ahead;
pub(crate) mod chores;
pub(crate) mod keeper;
pub(crate) mod ledger;

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

pub use crate::trap::pins::{MAX_PINNED, Pin, pin, unpin};
pub use crate::trap::resolve::{is_tracked, prepare};
pub use crate::trap::shortage::{ShortageHandler, StoreShortage, on_shortage};
pub use crate::trap::signal::rearm;

use crate::area::area::Area;
use crate::area::core::Core;
use crate::model::error::{Fault, PublishError, Result, TrackError};
use crate::policy::store_order::StoreOrder;
use crate::protect::Freeze;
use crate::sys::sync::MutexGuard;
use crate::trap::gate::StoreGate;
use crate::trap::pin_count::Pins;
use crate::trap::spare_wait::SpareWait;
use crate::trap::trapped_area::{CopyProgress, Tracked};
use crate::trap::{signal, table};

/// Stores into the area wait as long as it lives; see [`Area::hold_stores`].
#[derive(Debug)]
pub struct HoldGuard<'a> {
    core: &'a Core,
    // The thread that holds is the one whose stores go on.
    _thread: PhantomData<*const ()>,
}

impl Drop for HoldGuard<'_> {
    fn drop(&mut self) {
        if let Some(tracked) = self.core.tracked.get().filter(|t| t.is_of_this_process()) {
            tracked.gate.end_hold();
        }
    }
}

impl Area {
    /// From now on plain stores by any thread work without a barrier call; see the
    /// documentation of the module. An area stays tracked until it is closed; tracking it again
    /// does nothing.
    pub fn track(&self) -> Result<(), TrackError> {
        let core = &*self.core;
        core.track().map_err(|fault| TrackError::from_fault(fault, &core.context()))
    }

    /// Holds all stores off as long as the guard lives: every thread that stores into the area
    /// stops at its store and goes on when the guard is dropped. What the calling thread sees and
    /// publishes meanwhile is one moment, also over several areas held at once. It may itself store
    /// and make writable; protection is the process's, so an extent that it does that to is open to
    /// every thread again. Keep it short, and take no lock that a storing thread may hold.
    ///
    /// The area must be tracked: in others stores into private extents are not trapped, and nothing
    /// is held.
    pub fn hold_stores(&self) -> Result<HoldGuard<'_>, PublishError> {
        let core = &*self.core;
        core.hold_stores().map_err(|fault| PublishError::from_fault(fault, &core.context()))
    }

    /// How much time of the processor trapped stores have spent so far on allocating and copying
    /// extents; the rest of the time that a trapped store takes, it waits. Takes no lock.
    pub fn time_copying(&self) -> Duration {
        let tracked = self.core.tracked.get();
        Duration::from_nanos(tracked.map_or(0, |t| t.copying_ns.load(Ordering::Relaxed)))
    }

    /// Whether plain stores work.
    pub fn is_tracked(&self) -> bool {
        self.core.tracked.get().is_some()
    }
}

/// The locks of this module, none held by anybody else: taken over a fork, so that the child finds
/// them free.
pub(crate) struct Locks {
    _guards: [MutexGuard<'static, ()>; 3],
}

impl Locks {
    /// After all areas' locks, as `Area::track` takes them.
    pub(crate) fn take() -> Self {
        Self { _guards: [keeper::START.lock(), signal::INSTALL.lock(), table::CHANGE.lock()] }
    }
}

/// From now on faults in the area are handled.
fn enter(tracked: &Tracked) -> Result<()> {
    let limit = table::MAX_TRACKED as u64;
    let fault = Fault::Limit { what: "tracked areas in one process", limit };
    if table::enter(tracked) { Ok(()) } else { Err(fault) }
}

impl Core {
    pub(crate) fn track(&self) -> Result<()> {
        let mut state = self.lock_idle()?;
        if let Some(tracked) = self.tracked.get() {
            // There was no slot for it the last time.
            return if table::has(tracked) { Ok(()) } else { enter(tracked) };
        }
        self.settle_memory(&mut state);
        let file = self.memory_of_len(&mut state, self.geometry.reserve().0)?;
        let links = vec![0u32; self.geometry.extent_count() as usize].into_boxed_slice();
        // SAFETY: as in `ExtentWords::new`: the same layout, and zeroed pages stay untouched.
        let links = unsafe { Box::from_raw(Box::into_raw(links) as *mut [AtomicU32]) };
        let has_huge = crate::sys::file::has_huge_pages(file.here_for(&self.memory_path())?);
        let huge = self.geometry.has_huge_extents() && has_huge;
        let tracked = Tracked {
            base: self.mapping.base().as_ptr() as usize,
            len: self.geometry.reserve().as_usize(),
            id: self.id,
            geometry: self.geometry,
            states: self.states.clone(),
            in_memory: self.in_memory,
            generation: self.generation,
            gate: StoreGate::default(),
            pins: Pins::default(),
            spare_wait: SpareWait::default(),
            head: AtomicU32::new(0),
            links,
            order: StoreOrder::default(),
            logged: AtomicU32::new(0),
            hooked_live: AtomicBool::new(false),
            huge,
            file,
            ahead: CopyProgress::default(),
            copying_ns: AtomicU64::new(0),
            processor: AtomicU32::new(0),
            copied: AtomicU64::new(0),
            populated: AtomicU64::new(0),
            in_place: AtomicU64::new(0),
        };
        if !signal::rearm() {
            let e = std::io::Error::last_os_error();
            return Err(Fault::io("install a handler for faults in", self.folder.path(), e));
        }
        keeper::start();
        let tracked = self.tracked.get_or_init(|| tracked);
        self.arm_all(&mut state);
        enter(tracked)
    }

    fn hold_stores(&self) -> Result<HoldGuard<'_>> {
        let tracked = self.tracked.get();
        if let Some(tracked) = tracked {
            self.check_fork()?;
            tracked.gate.begin_hold();
        }
        let held = self.lock_idle().and_then(|mut state| self.freeze(&mut state, Freeze::Hold));
        if let (Err(_), Some(tracked)) = (&held, tracked) {
            tracked.gate.end_hold();
        }
        held.map(|()| HoldGuard { core: self, _thread: PhantomData })
    }
}
