//! The one writer of an area.
//!
//! An [`Area`] is created new, opened again (adopting what a dead owner left), or derived from a
//! snapshot. It owns the folder's lock as long as it lives. All state behind the lock describes the
//! live address range; what crashes must not lose is only ever read back from manifests.
//!
//! **Concurrency.** Any thread may call anything. The work of `make_writable` (allocating and
//! copying) happens outside the lock, on extents marked busy; whoever needs the whole state
//! (publish, discard of a busy extent, fork) waits for them. The caller keeps its own stores away
//! from a publish: a store that races with it is either in the published state or traps.
//!
//! **Crash.** See [`crate::lifecycle::adopt`].

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::area::core::Core;
use crate::memory::mapping::Mapping;
use crate::model::backing::Backing;
use crate::model::error::WriteError;
use crate::model::extent_word::{self, ExtentState};
use crate::model::geometry::Geometry;
use crate::model::name::AreaName;
use crate::model::units::{AreaId, AreaOffset, ExtentId};

/// The one writer of an area; see the module documentation.
pub struct Area {
    pub(crate) core: Arc<Core>,
}

impl fmt::Debug for Area {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let core = &self.core;
        let mut out = f.debug_struct("Area");
        out.field("id", &core.id).field("name", &core.name).field("base", &core.mapping.base());
        out.finish_non_exhaustive()
    }
}

impl Area {
    /// The address range; keep the `Arc` as long as addresses in it are used.
    pub fn mapping(&self) -> &Arc<Mapping> {
        &self.core.mapping
    }

    /// The area's first address.
    pub fn base(&self) -> NonNull<u8> {
        self.core.mapping.base()
    }

    /// The area's identity.
    pub fn id(&self) -> AreaId {
        self.core.id
    }

    /// The area's name; `None` for an unnamed one.
    pub fn name(&self) -> Option<&AreaName> {
        self.core.name.as_ref()
    }

    /// Makes the area unusable from now on, as a failed check inside this library does: nothing is
    /// changed or published any more, and what was published last is unharmed. For a library that
    /// finds a structure of its own in the area half changed.
    pub fn break_off(&self) {
        self.core.break_off();
    }

    /// Whether the area is usable still.
    ///
    /// # Errors
    /// [`WriteError::Broken`].
    #[inline]
    pub fn check_whole(&self) -> Result<(), WriteError> {
        let whole = self.core.check_whole();
        whole.map_err(|fault| WriteError::from_fault(fault, &self.core.context()))
    }

    /// How the address range is cut into extents.
    pub fn geometry(&self) -> &Geometry {
        &self.core.geometry
    }

    /// Whether its memory stays when no process uses it any more: a memfd does not. An area that
    /// nobody has chosen the memory of may have moved on to one, because its tmpfs is full.
    pub fn outlives_processes(&self) -> bool {
        self.core.state.lock().storage.backing == Backing::File
    }

    /// The payload of the newest publish, or of the manifest this area was opened or derived from.
    pub fn payload(&self) -> Vec<u8> {
        self.core.state.lock().manifests.payload.clone()
    }

    /// The state of one extent, read without a lock. An extent another thread is just making
    /// writable counts as frozen.
    #[inline]
    pub fn extent_state(&self, extent: ExtentId) -> ExtentState {
        assert!(extent.0 < self.core.words.len(), "no such extent");
        match self.core.words.get(extent) {
            extent_word::ABSENT => ExtentState::Absent,
            extent_word::PRIVATE => ExtentState::Private,
            _ => ExtentState::Frozen,
        }
    }

    /// Whether any extent that overlaps `range` has memory; takes no lock, and little time also for
    /// gigabytes.
    #[inline]
    pub fn any_present(&self, range: &std::ops::Range<AreaOffset>) -> bool {
        assert!(self.core.geometry.contains(range), "the range lies inside the area");
        self.core.words.any_present(self.core.geometry.covering(range))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::area::locking::AtWork;
    use crate::model::error::PublishError;
    use crate::model::units::ByteLen;
    use crate::namespace::handle::Namespace;
    use crate::publish::protocol::Publish;
    use crate::{AreaOptions, WriteIntent};

    /// What a failed assertion does: the thread unwinds, with the lock held or outside of it.
    #[test]
    fn a_broken_area_is_not_used_any_more_and_what_was_published_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let ns = Namespace::open(dir.path()).unwrap();
        let name = AreaName::new("broken").unwrap();
        let range = AreaOffset(0)..AreaOffset(4096);
        ns.create(&name, &AreaOptions::with_reserve(ByteLen::mib(64))).unwrap();
        for locked in [true, false] {
            ns.remove(&name).ok();
            let area = ns.create(&name, &AreaOptions::with_reserve(ByteLen::mib(64))).unwrap();
            area.make_writable(range.clone(), WriteIntent::Keep).unwrap();
            area.publish(Publish::Committed, b"whole").unwrap();
            let core = area.core.clone();
            let panics = std::thread::spawn(move || {
                let _state = locked.then(|| core.state.lock());
                let _at_work = AtWork::begin(&core);
                panic!("what a broken invariant does");
            });
            assert!(panics.join().is_err());
            let published = area.publish(Publish::Committed, b"half");
            assert!(matches!(published, Err(PublishError::Broken)), "{published:?}");
            let written = area.make_writable(range.clone(), WriteIntent::Keep);
            assert!(matches!(written, Err(WriteError::Broken)), "{written:?}");
            assert!(matches!(area.discard(range.clone()), Err(WriteError::Broken)));
            assert!(area.freeze_view().is_err());
            drop(area);
            assert_eq!(ns.open_area(&name).unwrap().payload(), b"whole");
        }
    }

    /// A thread that unwinds for another reason may still use areas.
    #[test]
    fn what_is_done_while_unwinding_breaks_nothing() {
        struct AtTheEnd(Area);
        impl Drop for AtTheEnd {
            fn drop(&mut self) {
                let range = AreaOffset(0)..AreaOffset(4096);
                self.0.make_writable(range, WriteIntent::Keep).unwrap();
                self.0.publish(Publish::Committed, b"at the end").unwrap();
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let ns = Namespace::open(dir.path()).unwrap();
        let name = AreaName::new("unwinding").unwrap();
        let area = ns.create(&name, &AreaOptions::with_reserve(ByteLen::mib(64))).unwrap();
        let panics = std::thread::spawn(move || {
            let _end = AtTheEnd(area);
            panic!("a mistake of the program");
        });
        assert!(panics.join().is_err());
        assert_eq!(ns.open_area(&name).unwrap().payload(), b"at the end");
    }
}
