//! Whether stores come in order, as of one thread that goes through all of its memory.
//!
//! Threads that do so at several places at once are not recognised. **Concurrency.** Plain atomics;
//! races make the count of hits approximate, and only time depends on it.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::model::units::ExtentId;

/// So many stores in order, one after the other, are an order.
const MET: u32 = 4;

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct StoreOrder {
    /// The extent behind what was opened last.
    next: AtomicU32,
    /// How often the next extent was the one that was stored to.
    met: AtomicU32,
}

impl StoreOrder {
    /// Notes a store that was trapped in this extent; whether it continues an order.
    pub(crate) fn comes_to(&self, extent: ExtentId) -> bool {
        let met = match self.next.load(Ordering::Relaxed) == extent.0 {
            true => self.met.load(Ordering::Relaxed).saturating_add(1),
            false => 0,
        };
        self.met.store(met, Ordering::Relaxed);
        met >= MET
    }

    pub(crate) fn goes_on(&self, end: ExtentId) {
        self.next.store(end.0, Ordering::Relaxed);
    }

    /// The extent that will be stored to next, if stores come in order.
    pub(crate) fn next(&self) -> Option<ExtentId> {
        let met = self.met.load(Ordering::Relaxed) >= MET;
        met.then(|| ExtentId(self.next.load(Ordering::Relaxed)))
    }

    /// What has been stored to does not tell what will be.
    pub(crate) fn forget(&self) {
        self.met.store(0, Ordering::Relaxed);
    }
}
