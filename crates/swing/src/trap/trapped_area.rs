//! What the fault handler knows of a tracked area.
//!
//! Everything that a trapped store needs is reached from here without a lock: where the area lies,
//! the words of its extents, its memory, the gate, and the list of what stores have made private.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::memory::extent_words::ExtentWords;
use crate::model::geometry::Geometry;
use crate::model::units::{AreaId, ExtentId};
use crate::policy::store_order::StoreOrder;
use crate::sys::kept_file::KeptFile;
use crate::sys::process;
use crate::sys::sync::{Mutex, MutexGuard};
use crate::trap::gate::StoreGate;
use crate::trap::pin_count::Pins;
use crate::trap::spare_wait::SpareWait;
use crate::trap::store_log::StoreLog;

/// What the handler knows of an area.
#[derive(Debug)]
pub(crate) struct Tracked {
    pub(crate) base: usize,
    pub(crate) len: usize,
    pub(crate) id: AreaId,
    pub(crate) geometry: Geometry,
    pub(crate) words: Arc<ExtentWords>,
    /// The memory.
    pub(crate) file: Arc<KeptFile>,
    pub(crate) in_memory: bool,
    pub(crate) generation: u64,
    pub gate: StoreGate,
    /// Ranges that the kernel may store into.
    pub(crate) pins: Pins,
    /// What the newest publish has superseded is about to become spare.
    pub spare_wait: SpareWait,
    /// Extents made private by the handler.
    pub(crate) log: StoreLog,
    /// Of trapped stores.
    pub(crate) order: StoreOrder,
    /// How many extents have ever been logged.
    pub(crate) logged: AtomicU32,
    /// Hooks may come at any moment: what can be done ahead of them is.
    pub hooked_live: AtomicBool,
    /// The memory file can have huge pages: extents of that size are filled through a mapping.
    pub(crate) huge: bool,
    /// Copies made before they are needed.
    pub ahead: CopyProgress,
    /// Time of the processor spent on filling new versions.
    pub copying_ns: AtomicU64,
    /// The processor on which a trapped store has copied last, plus one; 0: not known.
    pub processor: AtomicU32,
    pub copied: AtomicU64,
    pub populated: AtomicU64,
    pub in_place: AtomicU64,
}

impl Tracked {
    pub(crate) fn has_huge_pages(&self) -> bool {
        self.huge
    }

    pub(crate) fn is_of_this_process(&self) -> bool {
        self.generation == process::fork_generation()
    }
}

/// What the threads know of each other.
#[derive(Debug, Default)]
pub(crate) struct CopyProgress {
    /// Changes from `true` to `false` under the area's lock.
    pub(crate) wanted: AtomicBool,
    /// Held from a claim to its end.
    pub(crate) copying: Mutex<()>,
    /// Stores in order that come to these extents, from one to another, need no copies yet: the
    /// first in the upper half.
    pub(crate) idle: AtomicU64,
}

impl CopyProgress {
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst)
    }

    /// Nothing is copied as long as the result lives. Taken before the area's lock.
    pub(crate) fn stand_still(&self) -> MutexGuard<'_, ()> {
        self.copying.lock()
    }

    /// Whether something may be due behind stores that have come to this extent.
    pub(crate) fn is_near(&self, next: ExtentId) -> bool {
        let idle = self.idle.load(Ordering::Relaxed);
        self.is_wanted() && !((idle >> 32) as u32..idle as u32).contains(&next.0)
    }

    pub(crate) fn rest(&self, idle: Range<u32>) {
        self.idle.store(u64::from(idle.start) << 32 | u64::from(idle.end), Ordering::Relaxed);
    }
}
