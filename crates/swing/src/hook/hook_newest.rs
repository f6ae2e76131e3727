//! Hooking: taking a lease on an area's newest shared state and mapping it.
//!
//! The cost is a handful of system calls plus one per run; it does not depend on how much data
//! there is, and the owner is not involved at all: it may be busy, stopped or dead.

use std::sync::Arc;

use crate::hook::options::HookOptions;
use crate::hook::snapshot::Snapshot;
use crate::hook::sources::hold_sources;
use crate::memory::lookup;
use crate::model::error::{Context, Fault, HookError, Result};
use crate::model::manifest::{Kind, MAX_MANIFEST_BYTES, Manifest};
use crate::model::name::AreaName;
use crate::model::units::StateId;
use crate::namespace::files::{SHARED, manifest_name};
use crate::namespace::handle::Namespace;
use crate::namespace::lease::{self, Attempt, Lease};
use crate::namespace::newest;
use crate::sys::backoff;
use crate::sys::file::{self, Folder};

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
