//! Switching tracking on.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::area::core::Core;
use crate::area::handle::Area;
use crate::area::tables::Tables;
use crate::memory::mapping::mapping_fault;
use crate::model::error::{Fault, Result, TrackError};
use crate::policy::store_order::StoreOrder;
use crate::sys::sync::MutexGuard;
use crate::tracked::keeper;
use crate::trap::gate::StoreGate;
use crate::trap::pin_count::Pins;
use crate::trap::spare_wait::SpareWait;
use crate::trap::store_log::StoreLog;
use crate::trap::trapped_area::{CopyProgress, Tracked};
use crate::trap::{signal, table};

/// The locks of this module, none held by anybody else: taken over a fork, so that the child finds
/// them free.
pub(crate) struct Locks {
    _guards: [MutexGuard<'static, ()>; 3],
}

impl Locks {
    /// After all areas' locks, as `Area::track` takes them.
    pub(crate) fn take() -> Self {
        Self { _guards: [keeper::START.lock(), signal::INSTALL.lock(), table::lock()] }
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
        let has_huge = crate::sys::file::has_huge_pages(file.here_for(&self.memory_path())?);
        let huge = self.geometry.has_huge_extents() && has_huge;
        let tracked = Tracked {
            base: self.mapping.base().as_ptr() as usize,
            len: self.geometry.reserve().as_usize(),
            id: self.id,
            geometry: self.geometry,
            words: self.words.clone(),
            in_memory: self.in_memory,
            generation: self.generation,
            gate: StoreGate::default(),
            pins: Pins::default(),
            spare_wait: SpareWait::default(),
            log: StoreLog::new(self.geometry.extent_count()),
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
        self.show_zeros(&mut state)?;
        let tracked = self.tracked.get_or_init(|| tracked);
        self.arm_all(&mut state);
        enter(tracked)
    }

    /// What nobody has stored to reads as zeros, as memory of the program's own would. A read there
    /// is no fault: it takes no memory, needs no descriptor, and system calls can do it too.
    fn show_zeros(&self, state: &mut Tables) -> Result<()> {
        self.end_growth(state)?;
        let span = self.mapping.span();
        span.show_zeros();
        let (mut at, end) = (0, self.geometry.reserve().0);
        let ends = state.runs.iter().map(|run| (run.start, run.end())).chain([(end, end)]);
        for (start, next) in ends {
            if start > at {
                let shown = span.protect(at as usize, (start - at) as usize, false);
                shown.map_err(|e| mapping_fault(e, &self.memory_path()))?;
            }
            at = next;
        }
        Ok(())
    }
}
