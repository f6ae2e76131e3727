//! The part of an area that outlives its handle.
//!
//! A [`Core`] is shared by the handle, the fork handler and the threads that work for the area. All
//! that changes is behind its lock ([`Tables`]), in atomic words, or is there for the fault
//! handler.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock};

use crate::area::live_slot::LiveSlot;
use crate::area::sessions::Sessions;
use crate::area::tables::{Counters, Tables};
use crate::memory::extent_words::ExtentWords;
use crate::memory::mapping::Mapping;
use crate::memory::release::OnRelease;
use crate::model::error::{Context, Fault, Result};
use crate::model::geometry::{Geometry, MAX_PLANES};
use crate::model::name::AreaName;
use crate::model::runs::Run;
use crate::model::units::{AreaId, AreaOffset, ByteLen};
use crate::namespace::files::MEMORY;
use crate::namespace::handle::Namespace;
use crate::sys::file::Folder;
use crate::sys::sync::{Condvar, Mutex};
use crate::trap::trapped_area::Tracked;

/// The part of an area that outlives its handle: also the fork handler looks at it.
#[derive(Debug)]
pub(crate) struct Core {
    pub ns: Namespace,
    pub folder: Folder,
    pub id: AreaId,
    pub name: Option<AreaName>,
    pub geometry: Geometry,
    pub mapping: Arc<Mapping>,
    pub words: Arc<ExtentWords>,
    /// What the fault handler uses, once the area is tracked.
    pub tracked: OnceLock<Tracked>,
    /// Its memory is a file that may be exchanged for a memfd ([`crate::write::migrate`]).
    pub movable: AtomicBool,
    /// The file system is a small one.
    pub on_small: bool,
    /// What may be taken without looking at the file system again.
    pub headroom_allowance: AtomicU64,
    /// Its memory is the machine's, not a disk's.
    pub in_memory: bool,
    /// Who answers live hooks.
    pub live: Mutex<LiveSlot>,
    pub generation: u64,
    pub state: Mutex<Tables>,
    /// Signalled when `busy` falls.
    pub idle: Condvar,
    /// Threads that want the whole state (publish, fork): others let them go first.
    pub idle_wanted: AtomicUsize,
    pub counters: Counters,
    /// Write sessions alive; see [`crate::Area::write_session`].
    pub sessions: Sessions,
    /// A thread has panicked that was at work on it outside the lock.
    pub broken: AtomicBool,
    // Last: looks after removed areas when all leases above are gone.
    pub _released: Arc<OnRelease>,
}

impl Core {
    pub(crate) fn context(&self) -> Context<'_> {
        Context { name: self.name.as_ref(), id: Some(self.id), path: self.folder.path() }
    }

    pub(crate) fn check_range(&self, range: &Range<AreaOffset>) -> Result<()> {
        if self.geometry.contains(range) {
            return Ok(());
        }
        Err(Fault::OutOfRange { start: range.start, end: range.end })
    }

    /// The path for messages.
    pub(crate) fn memory_path(&self) -> PathBuf {
        self.folder.join(MEMORY)
    }

    /// What holds for pages of the size that the area has.
    pub(crate) fn for_pages(&self, huge: ByteLen, small: ByteLen) -> ByteLen {
        if self.tracked.get().is_some_and(|t| t.has_huge_pages()) { huge } else { small }
    }

    pub(crate) fn plane_run(&self, start: u64, len: u64, plane: u32) -> Run {
        assert!(plane < MAX_PLANES && start + len <= self.geometry.reserve().0, "in one plane");
        let file_offset = self.geometry.plane_offset(plane, AreaOffset(start));
        Run { start, len, source: 0, file_offset }
    }
}
