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
//! **Crash.** See [`crate::adopt`].

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::live::Live;
use crate::memory::backing::BackingChoice;
use crate::memory::extent_words::States;
use crate::memory::mapping::Mapping;
use crate::memory::release::OnRelease;
use crate::model::backing::Backing;
use crate::model::error::{Fault, Result};
use crate::model::extent_word::{self, ExtentState};
use crate::model::geometry::{Geometry, MAX_PLANES};
use crate::model::name::AreaName;
use crate::model::old_versions::Versions;
use crate::model::own_versions::OwnTable;
use crate::model::runs::RunMap;
use crate::model::units::{AreaId, AreaOffset, ByteLen, Epoch, ExtentId};
use crate::moving::Former;
use crate::namespace::files::MEMORY;
use crate::namespace::handle::Namespace;
use crate::namespace::lease::Lease;
use crate::namespace::owner_lock::OwnerLock;
use crate::policy::alternation::Alternation;
use crate::policy::copy_ahead::Ahead;
use crate::prepared::Prepared;
use crate::registry::register;
use crate::sessions::Sessions;
use crate::stats::Counters;
use crate::sys::file::{self, Folder};
use crate::sys::kept_file::{Access, KeptFile};
use crate::sys::notifier::Stamp;
use crate::sys::page_tables::{Lifted, Place};
use crate::sys::sync::{Condvar, Mutex, MutexGuard};
use crate::sys::{memfd, memory_limits, process};
use crate::trap::trapped_area::Tracked;

/// How often work is put off for those who want the whole state; about a tenth of a second.
const MAX_COURTESY: u32 = 200;

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
pub(crate) struct State {
    pub memory: Option<Memory>,
    /// What it is, or will be, made of; never `Auto`.
    pub backing: Backing,
    /// The file it was in before.
    pub former: Option<Former>,
    pub runs: RunMap,
    pub own: OwnTable,
    pub versions: Versions,
    /// Extents that became private since the last publish; some may have been discarded since.
    pub private: Vec<ExtentId>,
    /// The first so many of these were private at the last look for what to protect early; a few
    /// more when repetitions have been dropped since.
    pub old_private: usize,
    /// Frozen extents of a tracked area that are written in place; some may have been since.
    pub in_place: Vec<ExtentId>,
    /// Page tables taken away by a publish, to be dropped.
    pub lifted: Vec<Lifted>,
    /// Where those go that the next publish takes away.
    pub lift_to: Option<Place>,
    /// Bytes that tracked stores have written anew since the last publish, and also between that
    /// and the one before.
    pub rewritten: u64,
    /// What `rewritten` came to before the last publish: so much spare memory is kept, because the
    /// same stores need it again. More where stores are copied ahead of in order.
    pub reuse: u64,
    /// What is copied before it is stored to.
    pub ahead: Ahead,
    /// To which plane the extents of a tracked area go by turns.
    pub alternation: Alternation,
    /// Extents being worked on outside the lock.
    pub busy: u32,
    /// By source index; slot 0 (the area itself) stays empty.
    pub sources: Vec<Option<Source>>,
    /// Manifests that may still be current, leased or pinned.
    pub live: BTreeMap<Epoch, ()>,
    pub next_epoch: Epoch,
    /// The next manifest, made ahead.
    pub prepared: Option<Prepared>,
    /// Of a ring that the next shared state answers.
    pub rung: Option<Stamp>,
    pub shared: Option<Epoch>,
    pub committed: Option<Epoch>,
    /// Where the next bounded look for retired manifests begins.
    pub probe_from: Epoch,
    /// Bytes that publishes may still give back: what was discarded, or released by readers.
    pub punch_budget: u64,
    pub payload: Vec<u8>,
    /// Something has changed since the newest manifest.
    pub dirty: bool,
    pub hookable: bool,
    /// Hooks are refused because of `cow_threshold`.
    pub over_threshold: bool,
    pub cow_threshold: Option<ByteLen>,
    pub lock: Option<OwnerLock>,
    /// The folder exists under its final name only for as long as this is false.
    pub closed: bool,
}

/// The part of an area that outlives its handle: also the fork handler looks at it.
#[derive(Debug)]
pub(crate) struct Core {
    pub ns: Namespace,
    pub folder: Folder,
    pub id: AreaId,
    pub name: Option<AreaName>,
    pub geometry: Geometry,
    pub mapping: Arc<Mapping>,
    pub states: Arc<States>,
    /// What the fault handler uses, once the area is tracked.
    pub tracked: OnceLock<Tracked>,
    /// Its memory is a file that may be exchanged for a memfd ([`crate::moving`]).
    pub movable: AtomicBool,
    /// The file system is a small one.
    pub on_small: bool,
    /// What may be taken without looking at the file system again.
    pub headroom_allowance: AtomicU64,
    /// Its memory is the machine's, not a disk's.
    pub in_memory: bool,
    /// Who answers live hooks.
    pub live: Mutex<Live>,
    pub generation: u64,
    pub state: Mutex<State>,
    /// Signalled when `busy` falls.
    pub idle: Condvar,
    /// Threads that want the whole state (publish, fork): others let them go first.
    pub idle_wanted: AtomicUsize,
    pub counters: Counters,
    /// Write sessions alive; see [`Area::write_session`].
    pub sessions: Sessions,
    /// A thread has panicked that was at work on it outside the lock.
    pub broken: AtomicBool,
    // Last: looks after removed areas when all leases above are gone.
    pub _released: Arc<OnRelease>,
}

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
    fn words(&self, geometry: &Geometry) -> States {
        let mut states = States::new(geometry.extent_count());
        for run in self.runs.iter() {
            states.freeze_first(geometry.covering(&(AreaOffset(run.start)..AreaOffset(run.end()))));
        }
        states
    }
}

impl Area {
    pub(crate) fn start(start: Start) -> Area {
        let geometry = *start.mapping.geometry();
        start.check();
        let states = start.words(&geometry);
        let BackingChoice { backing, automatic, .. } = start.backing;
        assert_ne!(backing, Backing::Auto, "decided when the area is made");
        let state = State {
            memory: None,
            backing,
            former: None,
            runs: start.runs,
            own: OwnTable::default(),
            versions: Versions::default(),
            private: Vec::new(),
            old_private: 0,
            in_place: Vec::new(),
            lifted: Vec::new(),
            lift_to: None,
            rewritten: 0,
            reuse: 0,
            alternation: Alternation::default(),
            ahead: Ahead::default(),
            busy: 0,
            sources: start.sources,
            live: BTreeMap::new(),
            next_epoch: Epoch(1),
            prepared: None,
            rung: None,
            shared: None,
            committed: None,
            probe_from: Epoch(0),
            punch_budget: 0,
            payload: start.payload,
            dirty: true,
            hookable: true,
            over_threshold: false,
            cow_threshold: start.cow_threshold,
            lock: Some(start.lock),
            closed: false,
        };
        let in_memory = backing == Backing::Memfd || file::is_tmpfs(start.ns.path());
        if in_memory {
            memory_limits::open_limits();
        }
        let core = Arc::new(Core {
            _released: start.mapping.released().clone(),
            ns: start.ns,
            folder: start.folder,
            id: start.id,
            name: start.name,
            geometry,
            mapping: start.mapping,
            states: Arc::new(states),
            tracked: OnceLock::new(),
            movable: AtomicBool::new(automatic && backing == Backing::File),
            on_small: start.backing.too_small,
            headroom_allowance: AtomicU64::new(0),
            in_memory,
            live: Mutex::new(Live::default()),
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

    /// How the address range is cut into extents.
    pub fn geometry(&self) -> &Geometry {
        &self.core.geometry
    }

    /// The payload of the newest publish, or of the manifest this area was opened or derived from.
    pub fn payload(&self) -> Vec<u8> {
        self.core.state.lock().payload.clone()
    }

    /// The state of one extent, read without a lock. An extent another thread is just making
    /// writable counts as frozen.
    #[inline]
    pub fn extent_state(&self, extent: ExtentId) -> ExtentState {
        assert!(extent.0 < self.core.states.len(), "no such extent");
        match self.core.states.get(extent) {
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
        self.core.states.any_present(self.core.geometry.covering(range))
    }
}

/// Work on an area outside its lock: a panic there breaks the area.
pub(crate) struct AtWork<'a> {
    core: &'a Core,
    /// The thread was unwinding already: what it does meanwhile may well succeed.
    unwinding: bool,
}

impl<'a> AtWork<'a> {
    pub(crate) fn begin(core: &'a Core) -> Self {
        Self { core, unwinding: std::thread::panicking() }
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.unwinding {
            self.core.broken.store(true, Ordering::Relaxed);
            self.core.idle.notify_all();
        }
    }
}

impl Core {
    /// Takes the lock for a change: refused in a forked child, where the lock itself may be held by
    /// nobody.
    pub(crate) fn lock_for_change(&self) -> Result<MutexGuard<'_, State>> {
        self.check_fork()?;
        let mut state = self.state.lock();
        if state.closed {
            return Err(Fault::Closed);
        }
        self.check_whole()?;
        self.absorb(&mut state);
        Ok(state)
    }

    /// Whether no thread has met a broken invariant of this area.
    pub(crate) fn check_whole(&self) -> Result<()> {
        let broken = self.state.is_poisoned() || self.broken.load(Ordering::Relaxed);
        if broken { Err(Fault::Broken) } else { Ok(()) }
    }

    pub(crate) fn check_fork(&self) -> Result<()> {
        if self.generation == process::fork_generation() { Ok(()) } else { Err(Fault::Forked) }
    }

    /// As `lock_for_change`, and nobody is working on extents outside the lock.
    pub(crate) fn lock_idle(&self) -> Result<MutexGuard<'_, State>> {
        self.idle_wanted.fetch_add(1, Ordering::Relaxed);
        let locked = self.lock_for_change();
        let idle = locked.and_then(|mut state| {
            while state.busy > 0 {
                // Whoever has panicked does not come back.
                self.check_whole()?;
                state = self.idle.wait(state);
            }
            self.check_whole()?;
            self.absorb(&mut state);
            assert!(state.busy == 0, "INV-AREA-3: no extent is claimed under the lock alone");
            if state.closed { Err(Fault::Closed) } else { Ok(state) }
        });
        let wanted = self.idle_wanted.fetch_sub(1, Ordering::Relaxed);
        assert!(wanted > 0, "whoever waits is counted once");
        idle
    }

    /// Called before work is begun outside the lock: without it, threads that go from one piece of
    /// work to the next would keep a publish or a fork waiting without end.
    pub(crate) fn let_others_go_first(&self) {
        let mut tries = 0;
        while self.idle_wanted.load(Ordering::Relaxed) > 0 && tries < MAX_COURTESY {
            crate::sys::backoff::pause(tries);
            tries += 1;
        }
    }

    /// The path for messages.
    pub(crate) fn memory_path(&self) -> PathBuf {
        self.folder.join(MEMORY)
    }

    /// The own memory file, made with the first write, at least `len` bytes long.
    pub(crate) fn memory_of_len(&self, state: &mut State, len: u64) -> Result<Arc<KeptFile>> {
        let path = self.memory_path();
        if state.memory.is_none() {
            // Without a name it vanishes with the process, however that ends, until a publish needs
            // it to stay.
            let (file, linked) = self.make_memory(state.backing)?;
            if let Some(lock) = state.lock.as_ref().filter(|_| !linked) {
                lock.note_memory(file.here_for(&path)?);
            }
            state.memory = Some(Memory { file: Arc::new(file), linked, len: 0 });
        }
        let Some(memory) = state.memory.as_mut() else {
            return Err(Fault::Closed);
        };
        assert!(
            0 < len && len <= u64::from(MAX_PLANES) * self.geometry.reserve().0,
            "a length that ends with a plane"
        );
        if memory.len < len {
            let planes = len.div_ceil(self.geometry.reserve().0);
            let len = planes * self.geometry.reserve().0;
            file::set_len(memory.file.here_for(&path)?, len, &path)?;
            memory.len = len;
        }
        assert!(memory.len >= len, "INV-AREA-9: no mapping reaches beyond the file");
        Ok(memory.file.clone())
    }

    /// New memory, and whether it has a name.
    fn make_memory(&self, backing: Backing) -> Result<(KeptFile, bool)> {
        let path = self.memory_path();
        let (file, linked) = match backing {
            Backing::Memfd => (memfd::create(self.id, self.folder.path())?, false),
            _ => match self.folder.create_nameless() {
                Ok(file) => (file, false),
                Err(Fault::Io(_)) => (self.folder.create_new(MEMORY)?, true),
                Err(e) => return Err(e),
            },
        };
        let kept = KeptFile::new(file, Access::Write).map_err(|e| Fault::io("use", &path, e))?;
        Ok((if linked { kept.named(&path) } else { kept }, linked))
    }

    /// Gives the own memory file a name, so that others can open it and an adopter finds it.
    pub(crate) fn link_memory(&self, state: &mut State) -> Result<()> {
        if let Some(memory) = state.memory.as_mut().filter(|m| !m.linked) {
            let path = self.folder.join(MEMORY);
            crate::memory::lookup::give_name(&self.folder, memory.file.here_for(&path)?, MEMORY)?;
            // Of a memfd that leads nowhere.
            memory.file.set_path(&path);
            memory.linked = true;
        }
        Ok(())
    }

    /// The file a run's bytes are in.
    pub(crate) fn file_of(&self, state: &State, source: u32) -> Result<Arc<KeptFile>> {
        self.kept_file_of(state, source).cloned().ok_or_else(|| {
            Fault::corrupt(self.folder.path(), format!("source {source} has no file"))
        })
    }

    /// The same for the fault handler.
    pub(crate) fn kept_file_of<'a>(
        &self,
        state: &'a State,
        source: u32,
    ) -> Option<&'a Arc<KeptFile>> {
        match source {
            0 => state.memory.as_ref().map(|m| &m.file),
            s => state.sources.get(s as usize)?.as_ref().map(|s| &s.file),
        }
    }

    /// Maps a range again as the runs describe it, after a change of it failed half-way.
    pub(crate) fn restore(&self, state: &State, start: u64, end: u64) {
        assert!(start <= end && end <= self.geometry.reserve().0, "a part of the area");
        let mut at = start;
        let span = self.mapping.span();
        for run in state.runs.overlapping(start, end) {
            assert!(at <= run.start && run.end() <= end, "runs are ordered and cut");
            if run.start > at {
                let _ = span.unmap(at as usize, (run.start - at) as usize);
            }
            let mapped = self.file_of(state, run.source).and_then(|f| {
                let path = self.memory_path();
                self.mapping
                    .map_run(&run, &f, false)
                    .map_err(|e| crate::memory::mapping::mapping_fault(e, &path))
            });
            // Without the old contents the process would read other bytes than it wrote: crash
            // rather than corrupt.
            assert!(mapped.is_ok(), "cannot restore the mapping at {:#x}: {mapped:?}", run.start);
            at = run.end();
        }
        if at < end {
            let _ = span.unmap(at as usize, (end - at) as usize);
        }
    }
    /// INV-AREA-2: the table of own versions, the runs and the words of extents say the same. Walks
    /// over all extents that have memory. For an area that is idle; in a tracked one, stores change
    /// the words at any time.
    pub(crate) fn assert_tables_agree(&self, state: &State) {
        assert_eq!(state.busy, 0, "INV-AREA-3: nobody is at work");
        let mut own_bytes = 0;
        for (extent, own) in state.own.iter() {
            let start = self.geometry.start(extent);
            let offset = self.geometry.plane_offset(own.plane, start);
            let run = state.runs.at(start.0);
            assert!(
                run.is_some_and(|r| r.source == 0 && r.file_offset + (start.0 - r.start) == offset),
                "INV-AREA-2: {extent} in plane {} is shown as {run:?}",
                own.plane
            );
            assert!(own.born <= state.next_epoch, "INV-AREA-2: {extent} is of a later epoch");
            own_bytes += self.geometry.len(extent).0;
        }
        assert_eq!(own_bytes, state.runs.bytes_of(0), "INV-AREA-2: what is shown is in the table");
        if self.tracked.get().is_some() {
            return;
        }
        for run in state.runs.iter() {
            for extent in self.geometry.covering(&(AreaOffset(run.start)..AreaOffset(run.end()))) {
                let word = self.states.get(ExtentId(extent));
                let present = matches!(word, extent_word::FROZEN | extent_word::PRIVATE);
                assert!(present, "INV-AREA-2: extent {extent} is shown, but its word is {word}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::error::{PublishError, WriteError};
    use crate::publish::Publish;
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
