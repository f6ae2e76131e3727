//! Telling somebody when the leases of an address range are given up.
//!
//! An area that is removed while snapshots of it exist leaves a folder `.removed-<id>` with the
//! memory they still show. The last of them takes that folder away when it lets go. Whoever
//! reserves addresses says what is to be done then; a process that is killed instead leaves it to a
//! collector.

use std::fmt;

use crate::model::units::AreaId;
use crate::sys::sync::Mutex;

/// Remembers whose leases were held; when dropped (after them) it reports each of these areas.
pub(crate) struct OnRelease {
    report: Box<dyn Fn(AreaId) + Send + Sync>,
    areas: Mutex<Vec<AreaId>>,
}

impl fmt::Debug for OnRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnRelease").field("areas", &self.areas).finish_non_exhaustive()
    }
}

impl OnRelease {
    pub(crate) fn new(report: impl Fn(AreaId) + Send + Sync + 'static) -> Self {
        Self { report: Box::new(report), areas: Mutex::new(Vec::new()) }
    }

    pub(crate) fn note(&self, area: AreaId) {
        let mut areas = self.areas.lock();
        if !areas.contains(&area) {
            areas.push(area);
        }
    }
}

impl Drop for OnRelease {
    fn drop(&mut self) {
        for area in self.areas.get_mut() {
            (self.report)(*area);
        }
    }
}
