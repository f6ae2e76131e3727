//! What an area's lock protects: the tables that describe the live address range.
//!
//! What crashes must not lose is only ever read back from manifests, never from here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::model::backing::Backing;
use crate::model::name::AreaName;
use crate::model::old_versions::Versions;
use crate::model::own_versions::OwnTable;
use crate::model::runs::RunMap;
use crate::model::units::{AreaId, ByteLen, Epoch, ExtentId};
use crate::namespace::lease::Lease;
use crate::namespace::manifest_file::MadeAhead;
use crate::namespace::owner_lock::OwnerLock;
use crate::policy::alternation::Alternation;
use crate::policy::copy_ahead::Ahead;
use crate::sys::kept_file::KeptFile;
use crate::sys::notifier::Stamp;
use crate::sys::page_tables::{DetachTarget, DetachedTables};

/// The area's own memory file.
#[derive(Debug)]
pub(crate) struct Memory {
    pub file: Arc<KeptFile>,
    /// Whether it has a name in the folder; until then it vanishes with the process.
    pub linked: bool,
    /// Its length; the end of the highest plane in use.
    pub len: u64,
}

/// Another area whose memory this one shows.
#[derive(Debug)]
pub(crate) struct Source {
    pub area: AreaId,
    pub epoch: Epoch,
    pub name: Option<AreaName>,
    pub file: Arc<KeptFile>,
    pub dev: u64,
    pub ino: u64,
    pub lease: Arc<Lease>,
    /// Until it is pinned: a lease on the manifest it was found through, whose owner keeps the pin
    /// that gives the leased file a name (a file without any name could not be pinned again).
    pub via: Option<Arc<Lease>>,
    /// Its pin and the link to its memory are in this area's folder.
    pub pinned: bool,
    /// The first and the newest of this area's manifests that show it.
    pub first_published: Option<Epoch>,
    pub last_published: Option<Epoch>,
}

/// Everything behind the area's lock.
#[derive(Debug)]
pub(crate) struct Tables {
    pub storage: Storage,
    pub runs: RunMap,
    pub own: OwnTable,
    pub versions: Versions,
    /// By source index; slot 0 (the area itself) stays empty.
    pub sources: Vec<Option<Source>>,
    pub changed: Changed,
    pub spare: Spare,
    pub heuristics: Heuristics,
    /// Bytes of the data zone that were mapped anew since the area was last at rest.
    pub grown: u64,
    /// Extents being worked on outside the lock.
    pub busy: u32,
    pub manifests: Manifests,
    pub hooks: HookRules,
    pub lock: Option<OwnerLock>,
    /// The folder exists under its final name only for as long as this is false.
    pub closed: bool,
}

/// Where the area's own versions lie.
#[derive(Debug)]
pub(crate) struct Storage {
    pub memory: Option<Memory>,
    /// What it is, or will be, made of; never `Auto`.
    pub backing: Backing,
    /// The file it was in before.
    pub former: Option<Former>,
}

/// What differs from the newest manifest.
#[derive(Debug, Default)]
pub(crate) struct Changed {
    /// Extents that became private since the last publish; some may have been discarded since.
    pub private: Vec<ExtentId>,
    /// The first so many of `private` were private at the last look for extents to protect early; a
    /// few more when repetitions have been dropped since.
    pub old_private: usize,
    /// Frozen extents of a tracked area that are written in place; some may have been since.
    pub in_place: Vec<ExtentId>,
    /// Something has changed since the newest manifest.
    pub dirty: bool,
}

/// How much memory that no version uses is kept, and how much may be given back.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    /// Bytes that tracked stores have written anew since the last publish, and also between that
    /// and the one before.
    pub rewritten: u64,
    /// What `rewritten` came to before the last publish: so much spare memory is kept, because the
    /// same stores need it again. More where stores are copied ahead of in order.
    pub reuse: u64,
    /// Bytes that publishes may still give back: what was discarded, or released by readers.
    pub punch_budget: u64,
}

/// State that only buys speed.
#[derive(Debug, Default)]
pub(crate) struct Heuristics {
    /// What is copied before it is stored to.
    pub ahead: Ahead,
    /// To which plane the extents of a tracked area go by turns.
    pub alternation: Alternation,
    /// Absent extents whose addresses are mapped already, and to what.
    pub in_advance: RunMap,
    /// Page tables taken away by a publish, to be dropped.
    pub detached: Vec<DetachedTables>,
    /// Where those go that the next publish takes away.
    pub detach_to: Option<DetachTarget>,
}

/// The manifests that this process has made.
#[derive(Debug)]
pub(crate) struct Manifests {
    /// Manifests that may still be current, leased or pinned.
    pub live: BTreeMap<Epoch, ()>,
    pub next_epoch: Epoch,
    /// The next manifest, made ahead.
    pub made_ahead: Option<MadeAhead>,
    pub shared: Option<Epoch>,
    pub committed: Option<Epoch>,
    /// Where the next bounded look for retired manifests begins.
    pub probe_from: Epoch,
    /// What the program stores in each.
    pub payload: Vec<u8>,
}

impl Manifests {
    /// Of an area that has published nothing.
    pub(crate) fn new(payload: Vec<u8>) -> Manifests {
        Manifests {
            live: BTreeMap::new(),
            next_epoch: Epoch(1),
            made_ahead: None,
            shared: None,
            committed: None,
            probe_from: Epoch(0),
            payload,
        }
    }
}

/// Whether others may hook, and who has asked.
#[derive(Debug)]
pub(crate) struct HookRules {
    pub hookable: bool,
    /// Hooks are refused because of `cow_threshold`.
    pub over_threshold: bool,
    pub cow_threshold: Option<ByteLen>,
    /// The stamp of the notification that the next shared state answers.
    pub notified: Option<Stamp>,
}

/// The file an area had before it moved on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Former {
    /// The last manifest whose own memory it is.
    pub last: Epoch,
}

/// What has happened so far.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub copied_bytes: AtomicU64,
    pub populated_bytes: AtomicU64,
    pub in_place_bytes: AtomicU64,
    pub punched_bytes: AtomicU64,
}
