//! Tidying up after removed areas.
//!
//! An area that is removed while snapshots of it exist leaves a folder `.removed-<id>` with the
//! memory they still show. The last of them takes it away when it lets go; whoever is killed
//! instead leaves that to `gc`.

use crate::model::units::AreaId;
use crate::namespace::handle::Namespace;
use crate::sys::sync::Mutex;

/// Remembers whose leases were held; when dropped (after them) it looks whether these areas have
/// been removed meanwhile.
#[derive(Debug)]
pub(crate) struct Departure {
    ns: Namespace,
    areas: Mutex<Vec<AreaId>>,
}

impl Departure {
    pub(crate) fn new(ns: &Namespace) -> Self {
        Self { ns: ns.clone(), areas: Mutex::new(Vec::new()) }
    }

    pub(crate) fn note(&self, area: AreaId) {
        let mut areas = self.areas.lock();
        if !areas.contains(&area) {
            areas.push(area);
        }
    }
}

impl Drop for Departure {
    fn drop(&mut self) {
        for area in self.areas.get_mut() {
            self.ns.collect_removed(*area);
        }
    }
}
