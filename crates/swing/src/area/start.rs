//! How the tables of an area begin, whichever way it was made.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock};

use crate::area::core::Core;
use crate::area::handle::Area;
use crate::area::live_slot::LiveSlot;
use crate::area::registry::register;
use crate::area::sessions::Sessions;
use crate::area::tables::{
    Changed, Counters, Heuristics, HookRules, Manifests, Source, Spare, Storage, Tables,
};
use crate::memory::backing::BackingChoice;
use crate::memory::extent_words::ExtentWords;
use crate::memory::mapping::Mapping;
use crate::model::backing::Backing;
use crate::model::geometry::Geometry;
use crate::model::name::AreaName;
use crate::model::old_versions::Versions;
use crate::model::own_versions::OwnTable;
use crate::model::runs::RunMap;
use crate::model::units::{AreaId, AreaOffset, ByteLen};
use crate::namespace::handle::Namespace;
use crate::namespace::owner_lock::OwnerLock;
use crate::sys::file::{self, Folder};
use crate::sys::sync::{Condvar, Mutex};
use crate::sys::{memory_limits, process};

/// What a new [`Core`] starts with.
pub(crate) struct Start {
    pub ns: Namespace,
    pub folder: Folder,
    pub lock: OwnerLock,
    pub id: AreaId,
    pub name: Option<AreaName>,
    pub cow_threshold: Option<ByteLen>,
    pub backing: BackingChoice,
    pub mapping: Arc<Mapping>,
    pub runs: RunMap,
    pub sources: Vec<Option<Source>>,
    pub payload: Vec<u8>,
}

impl Start {
    fn check(&self) {
        assert!(self.id.0 != 0, "an identity is never 0");
        assert!(self.sources.first().is_some_and(Option::is_none), "slot 0 is the area itself");
        let held = |source: u32| self.sources.get(source as usize).is_some_and(Option::is_some);
        assert!(
            self.runs.iter().all(|run| run.source == 0 || held(run.source)),
            "INV-AREA-10: what is shown is held"
        );
    }

    /// The words of the extents: what has memory is frozen.
    fn words(&self, geometry: &Geometry) -> ExtentWords {
        let mut states = ExtentWords::new(geometry.extent_count());
        for run in self.runs.iter() {
            states.freeze_first(geometry.covering(&(AreaOffset(run.start)..AreaOffset(run.end()))));
        }
        states
    }
}

/// Whether the memory will be the machine's, whose limits are looked at from now on.
fn is_in_memory(backing: Backing, ns: &Namespace) -> bool {
    let is = backing == Backing::Memfd || file::is_tmpfs(ns.path());
    if is {
        memory_limits::open_limits();
    }
    is
}

impl Area {
    pub(crate) fn start(start: Start) -> Area {
        let geometry = *start.mapping.geometry();
        start.check();
        let words = start.words(&geometry);
        let BackingChoice { backing, automatic, .. } = start.backing;
        assert_ne!(backing, Backing::Auto, "decided when the area is made");
        let state = Tables {
            storage: Storage { memory: None, backing, former: None },
            runs: start.runs,
            own: OwnTable::default(),
            versions: Versions::default(),
            sources: start.sources,
            changed: Changed { dirty: true, ..Changed::default() },
            spare: Spare::default(),
            heuristics: Heuristics::default(),
            grown: 0,
            busy: 0,
            manifests: Manifests::new(start.payload),
            hooks: HookRules {
                hookable: true,
                over_threshold: false,
                cow_threshold: start.cow_threshold,
                notified: None,
            },
            lock: Some(start.lock),
            closed: false,
        };
        let in_memory = is_in_memory(backing, &start.ns);
        let core = Arc::new(Core {
            _released: start.mapping.released().clone(),
            ns: start.ns,
            folder: start.folder,
            id: start.id,
            name: start.name,
            geometry,
            mapping: start.mapping,
            words: Arc::new(words),
            tracked: OnceLock::new(),
            movable: AtomicBool::new(automatic && backing == Backing::File),
            on_small: start.backing.too_small,
            headroom_allowance: AtomicU64::new(0),
            in_memory,
            live: Mutex::new(LiveSlot::default()),
            generation: process::fork_generation(),
            state: Mutex::new(state),
            idle: Condvar::new(),
            idle_wanted: AtomicUsize::new(0),
            counters: Counters::default(),
            sessions: Sessions::default(),
            broken: AtomicBool::new(false),
        });
        register(&core);
        Area { core }
    }
}
