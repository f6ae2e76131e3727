//! A process that has run out of mappings gets an error and its area is as it was (INV-AREA-8).
//! What was opened before the error came is not written in place once it is shown (INV-AREA-1).

#[macro_use]
mod common;

use std::time::Duration;

use common::*;
use swing::{Area, AreaOptions, ByteLen, ExtentState, HookError, Publish, WriteError, WriteIntent};

/// The mappings are the process's: one test after the other.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Uses up the mappings of this process: pages of alternating protection cannot merge.
struct Exhausted {
    base: *mut libc::c_void,
    len: usize,
    /// The pages below have a protection of their own, every second one.
    end: usize,
}

impl Exhausted {
    fn new() -> Self {
        let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
        let max: usize = text.trim().parse().unwrap();
        let len = (max + 1000) * 2 * 4096;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: an anonymous mapping wherever there is room.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0) };
        assert_ne!(base, libc::MAP_FAILED);
        let mut exhausted = Self { base, len, end: 0 };
        while exhausted.protect(exhausted.end, libc::PROT_READ) {
            exhausted.end += 2;
        }
        exhausted
    }

    fn protect(&self, page: usize, access: libc::c_int) -> bool {
        assert!(page < self.len / 4096);
        // SAFETY: a page of this object's own mapping.
        unsafe { libc::mprotect(self.base.byte_add(page * 4096), 4096, access) == 0 }
    }

    /// Gives back two mappings.
    fn give_back(&mut self) {
        self.end -= 2;
        assert!(self.protect(self.end, libc::PROT_NONE));
    }
}

impl Drop for Exhausted {
    fn drop(&mut self) {
        // SAFETY: the mapping is this object's own.
        assert_eq!(unsafe { libc::munmap(self.base, self.len) }, 0);
    }
}

fn out_of_mappings() {
    let _alone = alone();
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    fill(&area, 0, 8 * SMALL, 1);
    fill(&area, data_at(0), 8 * DATA, 1);
    area.publish(Publish::Shared, b"").unwrap();
    let exhausted = Exhausted::new();
    let requests = [
        (SMALL, WriteIntent::Keep),
        (data_at(2), WriteIntent::Keep),
        (data_at(2), WriteIntent::Overwrite),
        (data_at(20), WriteIntent::Keep),
    ];
    for (at, intent) in requests {
        let refused =
            area.make_writable(range(at, if at < data_at(0) { SMALL } else { DATA }), intent);
        assert!(
            matches!(refused, Err(WriteError::TooManyMappings)),
            "{at:#x} {intent:?} {refused:?}"
        );
    }
    assert!(area.discard(range(data_at(3), DATA)).is_err());
    let hook = h.ns.hook(&name("a"));
    let typed = matches!(hook, Err(HookError::TooManyMappings | HookError::AddressSpace { .. }));
    assert!(typed, "{hook:?}");
    drop(exhausted);
    assert!(read(&area, 0, 8 * SMALL).iter().all(|b| *b == 1));
    assert!(read(&area, data_at(0), 8 * DATA).iter().all(|b| *b == 1));
    for (at, _) in requests {
        fill(&area, at, 8, 2);
    }
    area.publish(Publish::Shared, b"").unwrap();
    let snapshot = h.ns.hook(&name("a")).unwrap();
    assert_eq!(read_snapshot(&snapshot, data_at(2), 9), [2, 2, 2, 2, 2, 2, 2, 2, 1]);
}

/// Extents that differ in where their versions lie, each a mapping, with one of many behind them.
const APART: u64 = 8;
const TOGETHER: u64 = 24;

/// Makes versions that no manifest shows of all these extents, by `write`.
fn write_apart(area: &Area, write: impl Fn(u64)) {
    (0..TOGETHER).for_each(&write);
    area.publish(Publish::Shared, b"").unwrap();
    (1..APART).step_by(2).for_each(&write);
    area.publish(Publish::Shared, b"").unwrap();
    (0..TOGETHER).for_each(&write);
}

/// Whether the page at this place can be written, as the kernel sees it.
fn is_open(area: &Area, at: u64) -> bool {
    const POPULATE_WRITE: libc::c_int = 23;
    let page = area.base().as_ptr().wrapping_add(at as usize).cast();
    // SAFETY: populating changes no contents.
    unsafe { libc::madvise(page, 4096, POPULATE_WRITE) == 0 }
}

/// Only private extents can be written.
fn assert_closed(area: &Area) {
    for at in (0..TOGETHER).map(data_at) {
        let extent = area.geometry().extent_of(swing::AreaOffset(at));
        let private = area.extent_state(extent) == ExtentState::Private;
        assert_eq!(is_open(area, at), private, "{extent}");
    }
}

/// A store that opens those behind it comes to a mapping that it cannot cut.
fn stores_in_order_run_out_of_mappings() {
    let _alone = alone();
    for slack in 0..3 {
        let h = home();
        let area = h.ns.create(&name("a"), &options()).unwrap();
        area.track().unwrap();
        write_apart(&area, |extent| store(&area, data_at(extent), 1));
        drop(area.hold_stores().unwrap());
        (0..4).for_each(|extent| store(&area, data_at(extent), 2));
        let mut exhausted = Exhausted::new();
        (0..slack).for_each(|_| exhausted.give_back());
        let next = area.base().as_ptr().wrapping_add(data_at(4) as usize);
        let prepared = swing::tracked::prepare(next, 8);
        assert_closed(&area);
        assert!(prepared, "one extent is a mapping of its own, slack {slack}");
        drop(exhausted);
        area.publish(Publish::Shared, b"").unwrap();
        assert_closed(&area);
        let snapshot = h.ns.hook(&name("a")).unwrap();
        for at in (0..TOGETHER).map(data_at) {
            let before = value_in(&snapshot, at);
            store(&area, at, 3);
            assert_eq!(value_in(&snapshot, at), before, "INV-AREA-1: at {at:#x}, slack {slack}");
        }
    }
}

/// The barrier, where what it opens ends inside a mapping.
fn a_barrier_runs_out_of_mappings_half_way() {
    let _alone = alone();
    let mut refused = 0;
    for slack in 0..3 {
        let h = home();
        let area = h.ns.create(&name("a"), &options()).unwrap();
        write_apart(&area, |extent| fill(&area, data_at(extent), 8, 1));
        assert!(area.protect_ahead(ByteLen(0)).unwrap());
        let mut exhausted = Exhausted::new();
        (0..slack).for_each(|_| exhausted.give_back());
        let result = area.make_writable(range(data_at(0), 12 * DATA), WriteIntent::Keep);
        refused += u32::from(result.is_err());
        assert_closed(&area);
        drop(exhausted);
        area.publish(Publish::Shared, b"").unwrap();
        assert_closed(&area);
    }
    assert!(refused > 0);
}

/// An extent whose mapping is gone as long as this lives: what protects or opens several fails
/// there, and can neither close nor open it.
struct Hole(*mut libc::c_void);

impl Hole {
    fn new(area: &Area, extent: u64) -> Self {
        let at = area.base().as_ptr().wrapping_add(data_at(extent) as usize).cast();
        // SAFETY: an extent that nobody uses meanwhile.
        assert_eq!(unsafe { libc::munmap(at, DATA as usize) }, 0);
        Self(at)
    }
}

impl Drop for Hole {
    fn drop(&mut self) {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: where nothing is mapped.
        let mapped = unsafe { libc::mmap(self.0, DATA as usize, access, flags, -1, 0) };
        assert_eq!(mapped, self.0);
    }
}

/// What cannot be closed stays private, and all else is closed.
fn assert_private(area: &Area, extent: u64) {
    let of = |at| area.extent_state(area.geometry().extent_of(swing::AreaOffset(data_at(at))));
    assert_eq!(of(extent), ExtentState::Private);
    assert_eq!(of(extent + 1), ExtentState::Frozen);
    assert_closed(area);
    area.publish(Publish::Shared, b"").unwrap();
    assert_eq!(of(extent), ExtentState::Frozen);
    assert_closed(area);
}

fn what_cannot_be_closed_stays_private() {
    let _alone = alone();
    let h = home();
    let area = h.ns.create(&name("publish"), &options()).unwrap();
    fill(&area, data_at(0), TOGETHER * DATA, 1);
    let hole = Hole::new(&area, APART);
    assert!(area.publish(Publish::Shared, b"").is_err());
    drop(hole);
    assert_private(&area, APART);

    let area = h.ns.create(&name("barrier"), &options()).unwrap();
    write_apart(&area, |extent| fill(&area, data_at(extent), 8, 1));
    assert!(area.protect_ahead(ByteLen(0)).unwrap());
    let hole = Hole::new(&area, 5);
    let range = range(data_at(0), TOGETHER * DATA);
    assert!(area.make_writable(range, WriteIntent::Keep).is_err());
    drop(hole);
    assert_private(&area, 5);

    let area = h.ns.create(&name("store"), &options()).unwrap();
    area.track().unwrap();
    write_apart(&area, |extent| store(&area, data_at(extent), 1));
    drop(area.hold_stores().unwrap());
    (0..4).for_each(|extent| store(&area, data_at(extent), 2));
    let hole = Hole::new(&area, 6);
    // Those behind it are to be opened with it.
    store(&area, data_at(4), 2);
    drop(hole);
    assert_private(&area, 6);
}

/// A thread that copies ahead comes to a mapping that it cannot cut: the store that it wanted to
/// spare is made as without it.
fn copies_ahead_run_out_of_mappings() {
    const EXTENTS: u64 = 12;
    let _alone = alone();
    for slack in 0..3 {
        let h = home();
        let small = AreaOptions { extent: ByteLen::kib(64), ..options() };
        let area = h.ns.create(&name("a"), &small).unwrap();
        area.allow_live_hooks(true).unwrap();
        area.copy_ahead(true);
        // Not in order: each is copied by itself, in the middle of a mapping.
        let order = |i: u64| ByteLen::mib(32).0 + i * 5 % EXTENTS * ByteLen::kib(64).0;
        for round in 1..=3 {
            (0..EXTENTS).for_each(|i| store(&area, order(i), round));
            drop(hook_now(&h, "a"));
        }
        (0..EXTENTS).for_each(|i| store(&area, order(i), 4));
        let mut exhausted = Exhausted::new();
        (0..slack).for_each(|_| exhausted.give_back());
        // The owner answers, whether or not this process can map what it gives.
        let _ = h.ns.hook_live(&name("a"));
        std::thread::sleep(Duration::from_millis(200));
        drop(exhausted);
        for round in 5..8 {
            (0..EXTENTS).for_each(|i| store(&area, order(i), round));
            let snapshot = hook_now(&h, "a");
            let values = |i| value_in(&snapshot, order(i));
            assert!((0..EXTENTS).map(values).all(|value| value == round), "slack {slack}");
        }
    }
}

/// One more is an error each time, and later its stores are trapped like any other's.
fn a_process_has_so_many_tracked_areas() {
    const MOST: usize = 1024;
    let _alone = alone();
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: valid structures; only the soft limit is raised.
    let files = unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        limit.rlim_cur
    };
    if files < 8 * MOST as u64 {
        println!("left out: {files} open files are allowed");
        return;
    }
    let h = home();
    let options = AreaOptions::with_reserve(ByteLen::mib(64));
    let make = |i: usize| h.ns.create(&name(&format!("a{i}")), &options).unwrap();
    let mut areas: Vec<Area> = (0..=MOST).map(make).collect();
    let last = areas.pop().unwrap();
    areas.iter().for_each(|area| area.track().unwrap());
    for _ in 0..2 {
        let refused = last.track();
        assert!(matches!(refused, Err(swing::TrackError::Limit { .. })), "{refused:?}");
    }
    areas.pop();
    last.track().unwrap();
    for value in 1..3 {
        store(&last, ByteLen::mib(32).0, value);
        last.publish(Publish::Shared, b"").unwrap();
    }
    assert_eq!(load(&last, ByteLen::mib(32).0), 2);
}

over_both_back_ends! {
    copies_ahead_run_out_of_mappings,
    a_process_has_so_many_tracked_areas,
    out_of_mappings,
    stores_in_order_run_out_of_mappings,
    a_barrier_runs_out_of_mappings_half_way,
    what_cannot_be_closed_stays_private,
}
