//! The log of trapped stores: a list, without a lock, of the extents that they have made private.
//!
//! An extent is in it once at most: whoever notes it has made it private, and it stays so until
//! whoever has the area's lock has taken it out. So each extent has one link, to the one noted
//! before it.
//!
//! **Concurrency.** Any number of threads note, signal handlers too; one takes out, under the
//! area's lock. All that a thread has stored before it notes an extent is seen by whoever takes
//! that out.

use crate::model::units::ExtentId;
use crate::sys::atomics::{AtomicU32, Ordering, zeros};
use crate::sys::strict::fail;

/// Numbers are one too high, so that 0 is the end.
#[derive(Debug)]
pub(crate) struct StoreLog {
    head: AtomicU32,
    links: Box<[AtomicU32]>,
}

impl StoreLog {
    pub(crate) fn new(extents: u32) -> Self {
        Self { head: AtomicU32::new(0), links: zeros(extents) }
    }

    /// Notes an extent that is not in the list.
    pub(crate) fn note(&self, extent: ExtentId) {
        // The handler of faults calls this: nothing may unwind.
        let Some(link) = self.links.get(extent.0 as usize) else {
            fail("swing: not so: an extent that is noted lies in its area\n")
        };
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            link.store(head, Ordering::Relaxed);
            let new = extent.0 + 1;
            match self.head.compare_exchange(head, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes out all that are noted, the last ones first. From the call of `settle` on an extent
    /// can be noted again.
    pub(crate) fn take_out(&self, mut settle: impl FnMut(ExtentId)) {
        let mut head = self.head.swap(0, Ordering::AcqRel);
        while head != 0 {
            let extent = ExtentId(head - 1);
            // Read before the extent is settled: from then on its link can change.
            head = self.links[extent.0 as usize].load(Ordering::Acquire);
            settle(extent);
        }
    }
}
