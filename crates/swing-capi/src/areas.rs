//! The areas of this process, by token and by address.
//!
//! The area of token `t` is the area named `swing-token-<t>` of the namespace; so a token leads to
//! its area in any process. Areas are tracked from the beginning, because programs in C store
//! without a barrier.
//!
//! **Death.** An area whose token no process holds is garbage: it cannot be hooked, and the next
//! process that creates or hooks an area removes it. Its memory stays for those who hold it. A
//! process with one thread that ends in order releases what it has.
//!
//! **fork.** The registry remembers its process. A child uses another registry and leaves the
//! parent's alone; it is never torn down.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use swing::{
    Area, AreaName, AreaOffset, AreaOptions, ByteLen, LiveGuard, Namespace, Publish, RemoveError,
    WriteIntent,
};
use swing_malloc::Malloc;

use crate::error::{Code, Failure, Result};
use crate::hold;
use crate::names::Names;
use crate::tokens::{MAX_TOKEN, Tokens};

/// Begin of the names of areas that have a token.
const PREFIX: &str = "swing-token-";
/// Areas up to this length consist of small extents: copying a few pages stays cheap.
const SMALL_AREA: u64 = 64 << 20;
/// Areas up to this length get their memory when they are made: also system calls may read them.
pub(crate) const POPULATED_AREA: u64 = 256 << 10;
const DATA_EXTENT: u64 = swing::geometry::DATA_EXTENT.0;
/// Lengths that an extent can have.
const EXTENTS: RangeInclusive<u64> = 64 << 10..=32 << 20;
/// How long the kernel may take to give up the locks of a process that has just been killed.
const MAX_DYING: Duration = Duration::from_millis(200);
/// How often an ending process looks whether threads besides the library's run.
const LOOKS_FOR_THREADS: u32 = 10;

/// What the creator of an area may choose.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    pub extent: Option<u64>,
    pub base: Option<usize>,
}

/// One area of this process.
pub(crate) struct Entry {
    pub token: i32,
    pub area: Arc<Area>,
    pub base: usize,
    pub len: u64,
    pub at_origin: bool,
    /// When the state that it was hooked in was published; 0: it was not.
    pub published_ns: u64,
    /// It was hooked live, and that state was published after the call.
    pub is_fresh: bool,
    /// The allocator, once it has been used. Whoever publishes has it locked, at least for reading,
    /// so nobody hooks one that is being made.
    pub malloc: Arc<RwLock<Option<Malloc>>>,
}

impl Entry {
    pub(crate) fn contains(&self, address: usize) -> bool {
        address >= self.base && ((address - self.base) as u64) < self.len
    }
}

/// What this process has.
pub(crate) struct Registry {
    pid: u32,
    pub ns: Namespace,
    pub tokens: Tokens,
    names: Names,
    /// By first address.
    areas: RwLock<BTreeMap<usize, Arc<Entry>>>,
    /// That of the parent process, set when a child inherits this one.
    before: AtomicPtr<Registry>,
}

static REGISTRY: AtomicPtr<Registry> = AtomicPtr::new(std::ptr::null_mut());
/// In a forked child: that of its parent, only to say whose an area is.
static INHERITED: AtomicPtr<Registry> = AtomicPtr::new(std::ptr::null_mut());

pub(crate) fn token_name(token: i32) -> Result<AreaName> {
    AreaName::new(&format!("{PREFIX}{token}")).map_err(|e| Failure::new(Code::Internal, e))
}

/// The token in the name of an area's folder, if it is exactly what a token's area is called:
/// anybody may have made a folder.
fn token_of(folder: &str) -> Option<i32> {
    let token = folder.strip_prefix(PREFIX)?.parse().ok()?;
    let exact = format!("{PREFIX}{token}") == folder;
    let found = (exact && (1..=MAX_TOKEN).contains(&token)).then_some(token);
    debug_assert!(found.is_none_or(|t| token_name(t).is_ok()), "a token's folder is an area's");
    found
}

/// This process's registry; made at the first use, and anew in a forked child.
pub(crate) fn registry() -> Result<&'static Registry> {
    let pid = std::process::id();
    let present = REGISTRY.load(Ordering::Acquire);
    // SAFETY: null, or a registry that is never freed.
    if let Some(registry) = unsafe { present.as_ref() }.filter(|r| r.pid == pid) {
        return Ok(registry);
    }
    swing_malloc::prepare_process();
    let ns = Namespace::open_default().map_err(|e| Failure::new(Code::Io, e))?;
    let made = make(pid, ns)?;
    assert!(!made.is_null() && made != present, "a registry of its own for each process");
    match REGISTRY.compare_exchange(present, made, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: just made from a box, and never freed.
        Ok(_) => Ok(unsafe { &*made }),
        Err(theirs) => {
            // SAFETY: just made from a box, and nobody else has seen it; it holds no token.
            drop(unsafe { Box::from_raw(made) });
            // SAFETY: another thread's, made from a box and never freed.
            Ok(unsafe { &*theirs })
        }
    }
}

/// In a forked child: the tokens and areas are its parent's.
extern "C" fn forget_in_child() {
    let inherited = REGISTRY.swap(std::ptr::null_mut(), Ordering::AcqRel);
    debug_assert!(inherited.is_null() || inherited != INHERITED.load(Ordering::Acquire));
    // SAFETY: null, or a registry that is never freed.
    if let Some(registry) = unsafe { inherited.as_ref() } {
        registry.before.store(INHERITED.load(Ordering::Acquire), Ordering::Release);
        INHERITED.store(inherited, Ordering::Release);
    }
}

/// Why this process does not have an area that it was asked for.
fn missing(is_it: impl Fn(&Entry) -> bool, otherwise: String) -> Failure {
    let mut inherited = INHERITED.load(Ordering::Acquire);
    // SAFETY: null, or a registry that is never freed. Its lock may have been held by a thread that
    // is not here, so nobody waits for it.
    while let Some(registry) = unsafe { inherited.as_ref() } {
        // Not by comparing process numbers, which are given again: a dead ancestor may have had
        // this one's.
        assert!(inherited != REGISTRY.load(Ordering::Acquire), "it is an ancestor's");
        let areas = registry.areas.try_read();
        if areas.is_some_and(|areas| areas.values().any(|entry| is_it(entry))) {
            return Failure::new(Code::Forked, "the area belongs to a parent process; hook it");
        }
        inherited = registry.before.load(Ordering::Acquire);
    }
    Failure::new(Code::NotFound, otherwise)
}

fn make(pid: u32, ns: Namespace) -> Result<*mut Registry> {
    // Nobody waits for another thread here: a child that is forked meanwhile does not have it. Such
    // a child goes without the two; what it leaves is swept as after a kill.
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if !REGISTERED.swap(true, Ordering::AcqRel) {
        // SAFETY: the one may run at any orderly end of the process; the other is
        // async-signal-safe.
        unsafe {
            libc::atexit(release_all);
            libc::pthread_atfork(None, None, Some(forget_in_child));
        }
    }
    let (tokens, names) = (Tokens::open(ns.path())?, Names::new(ns.path()));
    let areas = RwLock::new(BTreeMap::new());
    let before = AtomicPtr::new(std::ptr::null_mut());
    Ok(Box::into_raw(Box::new(Registry { pid, ns, tokens, names, areas, before })))
}

/// At the orderly end of a process. Where other threads run, such as those of a library for
/// numbers, they may store to areas until the very end: then only the areas' names go, and the
/// memory stays mapped until it goes with the process.
extern "C" fn release_all() {
    // SAFETY: null, or a registry that is never freed.
    let Some(registry) = (unsafe { REGISTRY.load(Ordering::Acquire).as_ref() }) else { return };
    if registry.pid != std::process::id() {
        return;
    }
    if has_other_threads() {
        // One of them may hold the lock for ever.
        if let Some(areas) = registry.areas.try_read() {
            areas.values().for_each(|entry| entry.area.leave_namespace(registry.ns.path()));
        }
        return;
    }
    let tokens: Vec<i32> = registry.areas.read().values().map(|entry| entry.token).collect();
    for token in tokens {
        let _ = registry.release(token);
    }
}

/// Whether threads run that are not this library's. One of its own that has just been started has
/// its name a moment later.
fn has_other_threads() -> bool {
    let ours = |name: &str| name.trim_end().starts_with("swing-");
    for look in 0..LOOKS_FOR_THREADS {
        if look > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return true };
        let names = tasks.flatten().map(|t| std::fs::read_to_string(t.path().join("comm")));
        if names.filter(|name| !name.as_ref().is_ok_and(|name| ours(name))).count() <= 1 {
            return false;
        }
    }
    true
}

fn options_for(len: u64, wishes: &Wishes) -> Result<AreaOptions> {
    let extent = wishes.extent.unwrap_or(DATA_EXTENT);
    if !extent.is_power_of_two() || !EXTENTS.contains(&extent) {
        let text = format!("an extent has a power of two from 64 KiB to 32 MiB, not {extent}");
        return Err(Failure::new(Code::Argument, text));
    }
    let whole = len.checked_next_multiple_of(extent.max(DATA_EXTENT)).filter(|whole| *whole > 0);
    let Some(whole) = whole.filter(|whole| *whole <= swing::geometry::MAX_RESERVE.0) else {
        let most = swing::geometry::MAX_RESERVE;
        let text = format!("no area can have {len} bytes: 1 to {most} are possible");
        return Err(Failure::new(Code::Argument, text));
    };
    let mut options = AreaOptions::with_reserve(ByteLen(whole));
    (options.extent, options.base_hint) = (ByteLen(extent), wishes.base);
    if whole <= SMALL_AREA && wishes.extent.is_none() {
        options.small_zone = ByteLen(whole);
    }
    assert!(options.reserve.0 >= len && options.small_zone.0 <= options.reserve.0);
    Ok(options)
}

impl Registry {
    /// Takes away the area that an earlier holder of a token left; `false` when that cannot be.
    fn clear(&self, token: i32) -> bool {
        let Ok(name) = token_name(token) else { return false };
        // A database can have such a name, and leaves something with its states, as no area here.
        let nothing_left = |left: Option<Vec<u8>>| left.is_none_or(|left| left.is_empty());
        if !self.ns.published_payload(&name).is_ok_and(nothing_left) {
            return false;
        }
        let start = Instant::now();
        loop {
            match self.ns.remove(&name) {
                Ok(_) | Err(RemoveError::NotFound { .. }) => return true,
                Err(RemoveError::Owned { .. }) if start.elapsed() < MAX_DYING => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(_) => return false,
            }
        }
    }

    /// Removes the areas of processes that have ended, and tells how many there were.
    pub(crate) fn sweep(&self) -> usize {
        let Ok(entries) = std::fs::read_dir(self.ns.path()) else { return 0 };
        let mut swept = 0;
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(token) = name.to_str().and_then(token_of) else { continue };
            if !self.tokens.is_held(token) {
                let cleared = self.tokens.clear_if_dead(token, |token| self.clear(token));
                swept += usize::from(cleared);
            }
        }
        swept
    }

    /// Runs `make` with a fresh token; the token is given back when it fails.
    pub(crate) fn with_token(
        &self,
        make: impl FnOnce(i32, &AreaName) -> Result<Entry>,
    ) -> Result<Arc<Entry>> {
        let token = self.tokens.claim(|token| self.clear(token))?;
        assert!((1..=MAX_TOKEN).contains(&token), "a token fits into the bits of a page's address");
        let unnamed = self.names.clear(token);
        let made = unnamed.and_then(|()| token_name(token)).and_then(|name| {
            let entry = make(token, &name)?;
            entry.area.end_with_process("").map_err(|e| Failure::new(Code::Io, e))?;
            Ok(entry)
        });
        match made {
            Ok(entry) => {
                assert!(entry.token == token, "an area has the token that was claimed for it");
                let entry = Arc::new(entry);
                let before = self.areas.write().insert(entry.base, entry.clone());
                assert!(before.is_none(), "an address range belongs to one area");
                Ok(entry)
            }
            Err(failure) => {
                self.clear(token);
                self.tokens.give_back(token);
                Err(failure)
            }
        }
    }

    pub(crate) fn create(&self, len: u64, wishes: &Wishes) -> Result<Arc<Entry>> {
        let options = options_for(len, wishes)?;
        // Here and when an area is released: who hooks waits for nothing that can wait.
        self.sweep();
        self.with_token(|token, name| {
            let area = self.ns.create(name, &options)?;
            area.track()?;
            assert!(area.geometry().reserve().0 >= len, "as long as was asked for");
            if len <= POPULATED_AREA {
                let whole = AreaOffset(0)..AreaOffset(len);
                let made = area.make_writable(whole, WriteIntent::Keep);
                made.map_err(|e| Failure::new(Code::NoMemory, e))?;
            }
            Ok(Entry { at_origin: true, ..entry(token, area) })
        })
    }

    /// A copy of an area of this process, which stays as it is for everybody else.
    pub(crate) fn copy(&self, origin: i32) -> Result<Arc<Entry>> {
        let of = self.own(origin)?;
        let snapshot = {
            // Whoever holds the area has paused its allocator.
            let malloc = (!hold::is_held(origin)).then(|| of.malloc.read());
            let _pause = malloc.as_deref().and_then(Option::as_ref).map(Malloc::pause);
            of.area.freeze_view()?
        };
        self.with_token(|token, name| {
            let area = snapshot.derive(Some(name))?;
            area.track()?;
            Ok(entry(token, area))
        })
    }

    pub(crate) fn set_name(&self, token: i32, name: &[u8]) -> Result<()> {
        let entry = self.own(token)?;
        self.names.give(entry.token, name, |token| self.tokens.is_held(token))?;
        // For listings; the name is the table's.
        let label = String::from_utf8_lossy(name);
        entry.area.end_with_process(&label).map_err(|e| Failure::new(Code::Io, e))
    }

    pub(crate) fn find(&self, name: &[u8]) -> Result<i32> {
        let found = self.names.find(name, |token| self.tokens.is_held(token))?;
        assert!(found.is_none_or(|token| self.check(token).is_ok()), "a name leads to a token");
        let none = || {
            let text = format!("no living area has the name {:?}", String::from_utf8_lossy(name));
            Failure::new(Code::NotFound, text)
        };
        found.ok_or_else(none)
    }

    pub(crate) fn check(&self, token: i32) -> Result<()> {
        match (1..=MAX_TOKEN).contains(&token) {
            true => Ok(()),
            false => Err(Failure::new(Code::Argument, format!("{token} is no token"))),
        }
    }

    /// An area of this process.
    pub(crate) fn own(&self, token: i32) -> Result<Arc<Entry>> {
        self.check(token)?;
        let areas = self.areas.read();
        let mut of_token = areas.values().filter(|entry| entry.token == token);
        let found = of_token.next().cloned();
        assert!(of_token.next().is_none(), "a token stands for one area");
        found.ok_or_else(|| {
            let text = format!("this process has no area with token {token}");
            missing(|entry| entry.token == token, text)
        })
    }

    /// The area of this process that an address lies in.
    pub(crate) fn at(&self, address: usize) -> Result<Arc<Entry>> {
        let areas = self.areas.read();
        let below = areas.range(..=address).next_back().map(|(_, entry)| entry);
        let found = below.filter(|entry| entry.contains(address)).cloned();
        let next = || areas.range(address..).find(|(base, _)| **base > address);
        debug_assert!(next().is_none_or(|(_, entry)| !entry.contains(address)), "apart");
        found.ok_or_else(|| {
            missing(|entry| entry.contains(address), "the address lies in no area".into())
        })
    }

    pub(crate) fn allow(&self, token: i32, allow: bool) -> Result<()> {
        let entry = self.own(token)?;
        if hold::is_held(token) {
            // Either waits for the thread that answers hooks, and that for the end of the hold.
            let text = "this thread holds the area's stores: swing_resume() comes first";
            return Err(Failure::new(Code::Busy, text));
        }
        Ok(entry.area.allow_live_hooks(allow)?)
    }

    pub(crate) fn copy_ahead(&self, token: i32, yes: bool) -> Result<()> {
        self.own(token)?.area.copy_ahead(yes);
        Ok(())
    }

    pub(crate) fn publish(&self, token: i32) -> Result<()> {
        let entry = self.own(token)?;
        // Whoever holds the area has paused its allocator.
        let malloc = (!hold::is_held(token)).then(|| entry.malloc.read());
        let _pause = malloc.as_deref().and_then(Option::as_ref).map(Malloc::pause);
        entry.area.publish(Publish::Shared, b"")?;
        entry.area.give_back_later();
        Ok(())
    }

    pub(crate) fn release(&self, token: i32) -> Result<()> {
        let entry = self.own(token)?;
        assert!(!hold::is_held(token), "what is released is not held any more");
        let mut areas = self.areas.write();
        // Another area may lie there by now.
        if !areas.get(&entry.base).is_some_and(|present| Arc::ptr_eq(present, &entry)) {
            let text = "another thread has just released the area";
            return Err(Failure::new(Code::NotFound, text));
        }
        areas.remove(&entry.base);
        drop(areas);
        assert!(self.tokens.is_held(token), "a token is its area's to the end");
        // A guard holds the allocator, which holds the area.
        entry.area.guard_live_hooks(None);
        drop(entry.malloc.write().take());
        drop(entry);
        self.clear(token);
        self.tokens.give_back(token);
        self.sweep();
        Ok(())
    }
}

/// An area made here, elsewhere than its origin.
pub(crate) fn entry(token: i32, area: Area) -> Entry {
    let base = area.base().as_ptr() as usize;
    let len = area.geometry().reserve().0;
    assert!(base.is_multiple_of(4096), "the low 12 bits of the address are free for the token");
    assert!(area.is_tracked() && base.checked_add(len as usize).is_some(), "any store works");
    let malloc = Arc::new(RwLock::new(None::<Malloc>));
    let guarded = malloc.clone();
    let guard: LiveGuard = Arc::new(move |publish| {
        let malloc = guarded.read();
        let _pause = malloc.as_ref().map(Malloc::pause);
        publish();
    });
    area.guard_live_hooks(Some(guard));
    let (at_origin, published_ns, is_fresh) = (false, 0, false);
    Entry { token, area: Arc::new(area), base, len, at_origin, published_ns, is_fresh, malloc }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_length_is_rounded_up() {
        let usual = Wishes::default();
        for (len, reserve) in [(1, DATA_EXTENT), (4097, DATA_EXTENT), (512 << 30, 512 << 30)] {
            assert_eq!(options_for(len, &usual).unwrap().reserve.0, reserve, "{len}");
        }
        assert_eq!(options_for(3 << 20, &usual).unwrap().small_zone.0, 4 << 20);
        for len in [0, u64::MAX, 1 << 50] {
            assert_eq!(options_for(len, &usual).unwrap_err().code, Code::Argument, "{len}");
        }
    }

    #[test]
    fn extents_are_powers_of_two_and_lengths_whole_extents() {
        for shift in 16..=25 {
            let wishes = Wishes { extent: Some(1 << shift), base: None };
            let options = options_for(100 << 20, &wishes).unwrap();
            assert_eq!(options.extent.0, 1 << shift);
            assert!(options.reserve.0.is_multiple_of(1 << shift) && options.reserve.0 >= 100 << 20);
        }
        for extent in [1, 4096, (64 << 10) + 1, 3 << 20, 64 << 20, u64::MAX] {
            let wishes = Wishes { extent: Some(extent), base: None };
            assert_eq!(options_for(100 << 20, &wishes).unwrap_err().code, Code::Argument);
        }
    }
}
