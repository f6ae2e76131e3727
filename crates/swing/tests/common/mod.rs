//! Helpers of the tests: a temporary namespace in memory, and byte access to areas and snapshots.
#![allow(dead_code)]

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use swing::{
    Area, AreaName, AreaOffset, AreaOptions, Backing, ByteLen, Namespace, Snapshot, WriteIntent,
};

/// Bytes of an extent of the data zone.
pub const DATA: u64 = swing::geometry::DATA_EXTENT.0;
/// Bytes of an extent of the small zone.
pub const SMALL: u64 = swing::geometry::SMALL_EXTENT.0;

/// A namespace in a directory of its own, removed at the end.
pub struct Home {
    pub dir: tempfile::TempDir,
    pub ns: Namespace,
}

pub fn home() -> Home {
    let dir = tempfile::Builder::new()
        .prefix("swing-test-")
        .tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let ns = Namespace::open(dir.path()).unwrap().with_backing(backing());
    Home { dir, ns }
}

pub fn name(text: &str) -> AreaName {
    AreaName::new(text).unwrap()
}

/// 1 GiB of addresses, 16 MiB of them small extents.
pub fn options() -> AreaOptions {
    AreaOptions::with_reserve(ByteLen::gib(1))
}

pub fn range(start: u64, len: u64) -> Range<AreaOffset> {
    AreaOffset(start)..AreaOffset(start + len)
}

/// Where extent `i` of the data zone begins in an area with [`options`].
pub fn data_at(i: u64) -> u64 {
    ByteLen::mib(16).0 + i * DATA
}

/// Fills a range with a byte, through the barrier.
pub fn fill(area: &Area, start: u64, len: u64, byte: u8) {
    area.make_writable(range(start, len), WriteIntent::Keep).unwrap();
    // SAFETY: the range has just been made writable, and tests do not touch one range from two
    // threads.
    unsafe { std::ptr::write_bytes(area.base().as_ptr().add(start as usize), byte, len as usize) };
}

/// Reads a range of an area; it must be mapped.
pub fn read(area: &Area, start: u64, len: u64) -> Vec<u8> {
    // SAFETY: tests ask only for what they wrote; the copy ends before anything can change.
    unsafe { std::slice::from_raw_parts(area.base().as_ptr().add(start as usize), len as usize) }
        .to_vec()
}

/// Reads a range of a snapshot; checked.
pub fn read_snapshot(snapshot: &Snapshot, start: u64, len: u64) -> Vec<u8> {
    assert!(snapshot.is_mapped(&range(start, len)), "{start:#x}+{len:#x} is not mapped");
    // SAFETY: the range is mapped, and a snapshot's bytes never change.
    let bytes = unsafe {
        std::slice::from_raw_parts(snapshot.base().as_ptr().add(start as usize), len as usize)
    };
    bytes.to_vec()
}

/// Stores eight bytes without the barrier: into a tracked area, or where it was asked.
pub fn store(area: &Area, at: u64, value: u64) {
    // SAFETY: inside the area, which is tracked or has been made writable there; tests agree on who
    // stores where.
    unsafe { area.base().add(at as usize).cast::<u64>().write_volatile(value) }
}

/// Loads eight bytes of a tracked area.
pub fn load(area: &Area, at: u64) -> u64 {
    // SAFETY: as in `store`.
    unsafe { area.base().add(at as usize).cast::<u64>().read_volatile() }
}

/// Eight bytes of a snapshot; checked.
pub fn value_in(snapshot: &Snapshot, at: u64) -> u64 {
    u64::from_ne_bytes(read_snapshot(snapshot, at, 8).try_into().unwrap())
}

/// Whether a choice that only buys speed is switched off ([`swing::WITHOUT_VARIABLE`]): a test of
/// what it does has nothing to see then.
pub fn is_off(choice: &str) -> bool {
    let without = std::env::var(swing::WITHOUT_VARIABLE).unwrap_or_default();
    without.split(',').any(|word| word.trim() == choice)
}

/// For live hooks of an owner that may get no processor for long.
pub fn patient() -> swing::HookOptions {
    swing::HookOptions { patience: std::time::Duration::from_secs(60), ..Default::default() }
}

/// A live hook that shows all that was stored before the call, of an owner that may get no
/// processor for long.
pub fn hook_now(h: &Home, text: &str) -> Snapshot {
    let snapshot = h.ns.hook_live_with(&name(text), patient()).unwrap();
    assert!(snapshot.is_fresh());
    snapshot
}

/// A live hook of an owner that does not answer: the newest shared state, which says that it is.
pub fn hook_last(h: &Home, text: &str) -> Snapshot {
    let (patience, if_stale) = (std::time::Duration::from_millis(100), swing::IfStale::Accept);
    let options = swing::HookOptions { patience, if_stale, ..Default::default() };
    let snapshot = h.ns.hook_live_with(&name(text), options).unwrap();
    assert!(!snapshot.is_fresh());
    snapshot
}

/// Whether the process can write at an address, by what the system says of its mappings.
pub fn is_writable(area: &Area, at: u64) -> bool {
    let address = area.base().as_ptr() as u64 + at;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let found = maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let hex = |text| u64::from_str_radix(text, 16).unwrap();
        (hex(start)..hex(end)).contains(&address).then(|| rest.as_bytes()[1] == b'w')
    });
    found.expect("the area is mapped")
}

/// Whether all of a range of a snapshot holds one byte.
pub fn snapshot_is(snapshot: &Snapshot, start: u64, len: u64, byte: u8) -> bool {
    read_snapshot(snapshot, start, len).iter().all(|b| *b == byte)
}

/// Stops the threads of a test, also when it fails.
pub struct AtTheEnd<'a>(pub &'a AtomicBool);

impl Drop for AtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Does `body` while another thread calls `stores` with 1, 2, 3 and so on.
pub fn while_storing(stores: &(impl Fn(u64) + Sync), body: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = AtTheEnd(&stop);
        scope.spawn(|| (1..).take_while(|_| !stop.load(Ordering::Relaxed)).for_each(stores));
        body();
    });
}

/// Where the folder of an area has its memory: a file, or the link for a memfd.
pub fn memory_of(folder: &std::path::Path) -> std::path::PathBuf {
    let held = folder.join("memory.held");
    if std::fs::symlink_metadata(&held).is_ok() { held } else { folder.join("memory") }
}

/// Nothing is left of all areas, at the latest when programs that other tests are just starting
/// have let go of the descriptors they inherited for a moment.
pub fn nothing_is_left(h: &Home) {
    let begun = std::time::Instant::now();
    loop {
        h.ns.gc().unwrap();
        let left = std::fs::read_dir(h.dir.path()).unwrap().map(|e| e.unwrap().path());
        let left: Vec<_> = left.collect();
        if left.is_empty() {
            return;
        }
        assert!(begun.elapsed().as_secs() < 60, "{left:?}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

// The conformance suite: the tests of these files say what an area is, whatever its memory is made
// of, so each runs over every back end.

thread_local! {
    static BACKING: std::cell::Cell<Option<Backing>> = const { std::cell::Cell::new(None) };
}

/// The back end that the running test is about.
pub fn backing() -> Backing {
    BACKING.get().unwrap_or(Backing::File)
}

/// What tells a process that a test starts the same; see [`swing::BACKING_VARIABLE`].
pub fn backing_text() -> &'static str {
    if backing() == Backing::Memfd { "memfd" } else { "file" }
}

/// Whether the running test is one of two that are about different back ends.
pub fn is_over_one() -> bool {
    BACKING.get().is_some()
}

/// Runs a test over one back end.
pub fn over(backing: Backing, test: fn()) {
    BACKING.set(Some(backing));
    println!("over {}", backing_text());
    test();
}

/// Makes two tests of each function: `file::name` and `memfd::name`. A function that is not listed
/// would be an unused one, which is a warning.
#[macro_export]
macro_rules! over_both_back_ends {
    ($($test:ident),* $(,)?) => {
        mod file {
            $(#[test] fn $test() { super::common::over(swing::Backing::File, super::$test); })*
        }
        mod memfd {
            $(#[test] fn $test() { super::common::over(swing::Backing::Memfd, super::$test); })*
        }
    };
}
