//! Hooking: taking a lease on an area's newest shared state and mapping it.
//!
//! The cost is a handful of system calls plus one per run; it does not depend on how much data
//! there is, and the owner is not involved at all: it may be busy, stopped or dead.

use std::sync::Arc;
use std::time::Duration;

use crate::area::area::Area;
use crate::memory::lookup::{self, check_memory};
use crate::model::error::{Context, Fault, HookError, PublishError, Result};
use crate::model::manifest::{Kind, MAX_MANIFEST_BYTES, Manifest};
use crate::model::name::AreaName;
use crate::model::units::StateId;
use crate::namespace::files::{MEMORY, SHARED, manifest_name};
use crate::namespace::handle::Namespace;
use crate::namespace::lease::{self, Attempt, Lease};
use crate::namespace::newest;
use crate::ready::Ready;
use crate::snapshot::{HeldSource, Snapshot, hold_sources};
use crate::sys::backoff;
use crate::sys::file::{self, Folder};
use crate::watch::Watch;

/// Where a snapshot is mapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HookAt {
    /// At the origin's address when that is free, else anywhere.
    #[default]
    Anywhere,
    /// At the address where the origin's owner had it, or not at all: raw pointers stored in the
    /// area are valid.
    OriginAddress,
}

/// What a live hook does when the owner does not give its present state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfStale {
    /// It fails, with [`HookError::NotFresh`].
    #[default]
    Fail,
    /// It hooks the newest shared state, and [`Snapshot::is_fresh`] says so.
    Accept,
}

/// How to hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HookOptions {
    /// Where to map it.
    pub at: HookAt,
    /// For live hooks: what to do without a fresh state.
    pub if_stale: IfStale,
    /// For live hooks: how long the owner may take to answer.
    pub patience: Duration,
}

impl Default for HookOptions {
    fn default() -> Self {
        Self { at: HookAt::default(), if_stale: IfStale::default(), patience: PATIENCE }
    }
}

/// How long a live hook waits for the owner, unless it is told otherwise.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often hooking starts over when the owner publishes faster than the hooker can follow.
const MAX_TRIES: u32 = 400;

impl Namespace {
    /// A snapshot of the newest state that the area's owner has shared.
    pub fn hook(&self, name: &AreaName) -> Result<Snapshot, HookError> {
        let ctx = Context::named(name, self.path());
        let options = HookOptions::default();
        self.hook_inner(name, options).map_err(|fault| HookError::from_fault(fault, &ctx))
    }

    /// As [`Namespace::hook`], with options.
    pub fn hook_with(&self, name: &AreaName, options: HookOptions) -> Result<Snapshot, HookError> {
        let ctx = Context::named(name, self.path());
        self.hook_inner(name, options).map_err(|fault| HookError::from_fault(fault, &ctx))
    }

    pub(crate) fn hook_inner(&self, name: &AreaName, options: HookOptions) -> Result<Snapshot> {
        for tries in 0..MAX_TRIES {
            let folder = self.folder().open_folder(&name.folder())?;
            match self.hook_folder(&folder, options) {
                // Published anew, examined, or removed and made again under our feet: start over.
                Err(Fault::Contended) => backoff::pause(tries),
                Err(Fault::NotFound | Fault::MemoryGone { .. })
                    if folder.identity() != self.identity_now(name) =>
                {
                    backoff::pause(tries);
                }
                Err(gone @ Fault::MemoryGone { .. }) => {
                    return Err(lookup::why_gone(&folder, gone));
                }
                Err(Fault::NotFound) => {
                    return Err(Fault::corrupt(folder.path(), "a file of the area is missing"));
                }
                other => return other,
            }
        }
        Err(Fault::Contended)
    }

    fn identity_now(&self, name: &AreaName) -> (u64, u64) {
        self.folder().identity_of(&name.folder()).unwrap_or_default()
    }

    /// One try; `Contended` when another has to follow.
    pub(crate) fn hook_folder(&self, folder: &Folder, options: HookOptions) -> Result<Snapshot> {
        let path = folder.join(SHARED);
        let file = newest::open_newest(folder)?;
        let (len, identity) = match lease::attempt(&file, &path)? {
            Attempt::Held { len, identity } if len <= MAX_MANIFEST_BYTES => (len, identity),
            Attempt::Held { .. } => return Err(Fault::corrupt(&path, "longer than any manifest")),
            Attempt::Retired | Attempt::Busy => return Err(Fault::Contended),
        };
        let manifest = Manifest::decode(&file::read_known(&file, len, &path)?, &path)?;
        if manifest.kind != Kind::Shared {
            return Err(Fault::corrupt(&path, "not a shared state"));
        }
        let found = folder.join(&manifest_name(manifest.epoch));
        let lease = Lease::from_locked(&file, identity, found, manifest.id, manifest.epoch)?;
        drop(file);
        let lease = Arc::new(lease);
        let held = hold_sources(folder, &manifest, lease)?;
        Snapshot::map(self, manifest, held, options.at)
    }

    /// Maps a state that has been watched, with what was made ready for it, if that is what it
    /// needs.
    pub(crate) fn hook_watched(
        &self,
        folder: &Folder,
        watch: &Watch,
        ready: Option<Ready>,
        options: HookOptions,
    ) -> Result<Snapshot> {
        let manifest = watch.manifest()?;
        let lease = Arc::new(watch.lease(folder, &manifest)?);
        let Some(Ready { memory, facts, mapping, shown, .. }) =
            ready.filter(|ready| ready.fits(&manifest, options.at))
        else {
            let held = hold_sources(folder, &manifest, lease)?;
            return Snapshot::map(self, manifest, held, options.at);
        };
        let path = folder.join(MEMORY);
        if check_memory(&manifest, 0, &facts, &path).is_err() {
            // Since it was opened it may have grown.
            check_memory(&manifest, 0, &file::facts(memory.here_for(&path)?, &path)?, &path)?;
        }
        let held = vec![HeldSource { file: Some(memory), lease, via: None }];
        Snapshot::map_over(self, manifest, held, mapping, &shown)
    }

    /// The newest shared state; `None` when there is none. Cheap enough to ask before every query.
    pub fn shared_state(&self, name: &AreaName) -> Result<Option<StateId>, HookError> {
        let ctx = Context::named(name, self.path());
        self.shared_state_inner(name).map_err(|fault| HookError::from_fault(fault, &ctx))
    }

    pub(crate) fn shared_state_inner(&self, name: &AreaName) -> Result<Option<StateId>> {
        let folder = self.folder().open_folder(&name.folder())?;
        let file = match newest::open_newest(&folder) {
            Ok(file) => file,
            Err(Fault::NotShared | Fault::NotHookable) => return Ok(None),
            Err(fault) => return Err(fault),
        };
        let header = newest::read_header(&file, &folder.join(SHARED))?;
        Ok(Some(StateId { area: header.id, epoch: header.epoch }))
    }
}

impl Area {
    /// A snapshot of the present state for use in this process, e.g. to take memory from it by
    /// `map_foreign`. Freezes the extents that are private, like a publish, but nothing becomes
    /// current.
    pub fn freeze_view(&self) -> Result<Snapshot, PublishError> {
        let core = &*self.core;
        let result = core.when_unpinned(|| core.freeze_view());
        result.map_err(|fault| PublishError::from_fault(fault, &core.context()))
    }
}

impl crate::area::core::Core {
    fn freeze_view(&self) -> Result<Snapshot> {
        let mut state = self.lock_idle()?;
        let (manifest, lease) = self.publish_view(&mut state)?;
        let file = self.own_memory_read_only(&state)?.map(Arc::new);
        let own = Arc::new(lease);
        let mut held = vec![HeldSource { file, lease: own.clone(), via: None }];
        for entry in &manifest.sources[1..] {
            let mut sources = state.sources.iter().flatten();
            let found = sources.find(|s| s.area == entry.area && s.epoch == entry.epoch);
            let Some(source) = found else {
                return Err(Fault::corrupt(self.folder.path(), "a source is missing"));
            };
            // This area keeps its pin as long as the view is leased; without a pin, what it was
            // found through.
            let via = if source.pinned { Some(own.clone()) } else { source.via.clone() };
            let (file, lease) = (Some(source.file.clone()), source.lease.clone());
            held.push(HeldSource { file, lease, via });
        }
        drop(state);
        Snapshot::map(&self.ns, manifest, held, HookAt::Anywhere)
    }
}
