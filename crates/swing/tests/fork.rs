//! Forked children: neither disturbs the other (INV-AREA-7).

#[macro_use]
mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::*;
use swing::{
    Area, AreaOffset, Backing, DeriveError, HookError, Publish, PublishError, WriteError,
    WriteIntent,
};

/// A fork affects every area of the process: one test at a time.
static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Runs `child` in a forked child and returns its exit code; a panic there is code 101, a signal
/// 200 + its number.
fn in_child(child: impl FnOnce() -> i32) -> Box<dyn FnOnce() -> i32> {
    // SAFETY: the child runs test code that takes no lock another thread of this test could hold,
    // then leaves by _exit without running anything of the parent's.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(101);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(code) };
    }
    Box::new(move || {
        let mut status = 0;
        // SAFETY: waits for the child made above.
        assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
        if libc::WIFEXITED(status) {
            libc::WEXITSTATUS(status)
        } else {
            200 + libc::WTERMSIG(status)
        }
    })
}

/// A pipe on which the child waits for the parent.
struct Gate([i32; 2]);

impl Gate {
    fn new() -> Self {
        let mut ends = [0; 2];
        // SAFETY: room for two descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        Self(ends)
    }
    /// In the child. If the parent's test has failed, its end is closed and the child ends, too.
    fn wait(&self) {
        let mut byte = 0u8;
        // SAFETY: the child's own copy of the writing end, which it does not use.
        assert_eq!(unsafe { libc::close(self.0[1]) }, 0);
        // SAFETY: one byte of room.
        assert_eq!(unsafe { libc::read(self.0[0], (&raw mut byte).cast(), 1) }, 1);
    }
    fn open(&self) {
        // SAFETY: one byte to write.
        assert_eq!(unsafe { libc::write(self.0[1], [1u8].as_ptr().cast(), 1) }, 1);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        // SAFETY: the two ends are this gate's own.
        unsafe { (libc::close(self.0[0]), libc::close(self.0[1])) };
    }
}

fn all_refused(area: &Area) -> bool {
    let write = area.make_writable(range(data_at(0), 8), WriteIntent::Keep);
    let publish = area.publish(Publish::Shared, b"");
    let discard = area.discard(range(data_at(0), DATA));
    matches!(write, Err(WriteError::Forked))
        && matches!(publish, Err(PublishError::Forked))
        && matches!(discard, Err(WriteError::Forked))
        && matches!(area.freeze_view(), Err(PublishError::Forked))
}

fn a_child_keeps_reading_what_was_frozen_and_changes_nothing() {
    let _alone = alone();
    for announced in [false, true] {
        let h = home();
        let area = h.ns.create(&name("a"), &options()).unwrap();
        fill(&area, data_at(0), DATA, 1);
        fill(&area, 0, SMALL, 1);
        area.publish(Publish::Committed, b"").unwrap();
        if announced {
            let _session = area.write_session();
            fill(&area, data_at(1), DATA, 1);
        }
        let gate = Gate::new();
        let finish = in_child(|| {
            gate.wait();
            let len = if announced { 2 * DATA } else { DATA };
            let same = read(&area, data_at(0), len).iter().all(|b| *b == 1)
                && read(&area, 0, SMALL).iter().all(|b| *b == 1);
            i32::from(!(same && all_refused(&area)))
        });
        for round in 2..5 {
            fill(&area, data_at(0), 2 * DATA, round);
            fill(&area, 0, SMALL, round);
            area.publish(Publish::Shared, b"").unwrap();
        }
        area.reclaim().unwrap();
        gate.open();
        assert_eq!(finish(), 0, "announced: {announced}");
        // The child is gone: its lease too, and everything it kept can be given back.
        area.reclaim().unwrap();
        assert_eq!(area.stats().retired.get(), 0);
    }
}

fn a_child_cannot_write_into_the_parents_memory() {
    let _alone = alone();
    let h = home();
    let area = h.ns.create_unnamed(&options()).unwrap();
    fill(&area, data_at(0), DATA, 1);
    let finish = in_child(|| {
        // SAFETY: not safe at all: the extent is write-protected here, and the store must end this
        // child.
        unsafe { area.base().add(data_at(0) as usize).write_volatile(9) };
        0
    });
    assert_eq!(finish(), 200 + libc::SIGSEGV);
    assert_eq!(read(&area, data_at(0), 1), [1]);
    fill(&area, data_at(0), 1, 2);
}

fn the_owner_lock_does_not_live_on_in_a_child() {
    let _alone = alone();
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    fill(&area, 0, 8, 1);
    area.publish(Publish::Committed, b"").unwrap();
    let gate = Gate::new();
    let finish = in_child(|| {
        gate.wait();
        i32::from(read(&area, 0, 8) != [1; 8])
    });
    drop(area);
    let again = h.ns.open_area(&name("a")).unwrap();
    fill(&again, 0, 8, 2);
    again.publish(Publish::Committed, b"").unwrap();
    fill(&again, 0, 8, 3);
    again.publish(Publish::Committed, b"").unwrap();
    gate.open();
    assert_eq!(finish(), 0);
}

fn a_child_may_use_snapshots_and_derive_its_own_area() {
    let _alone = alone();
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    fill(&area, data_at(0), DATA, 1);
    area.publish(Publish::Shared, b"").unwrap();
    let snapshot = h.ns.hook(&name("a")).unwrap();
    let finish = in_child(|| {
        let mine = match snapshot.derive(Some(&name("child"))) {
            Ok(mine) => mine,
            Err(DeriveError::Forked) => return 2,
            Err(_) => return 3,
        };
        fill(&mine, data_at(0) + 4, 1, 7);
        mine.publish(Publish::Shared, b"").unwrap();
        i32::from(read(&area, data_at(0), 8) != [1; 8])
    });
    assert_eq!(finish(), 0);
    assert!(snapshot_is(&snapshot, data_at(0), DATA, 1));
    let child = h.ns.hook(&name("child"));
    if backing() == Backing::Memfd {
        // The child was the only one that held it.
        assert!(matches!(child, Err(HookError::MemoryGone { .. })), "{child:?}");
        return;
    }
    let child = child.unwrap();
    assert_eq!(read_snapshot(&child, data_at(0), 6), [1, 1, 1, 1, 7, 1]);
}

fn forks_from_a_busy_process_do_not_hang() {
    let _alone = alone();
    let h = home();
    let area = h.ns.create_unnamed(&options()).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for t in 0..2u64 {
            let (area, stop) = (&area, &stop);
            scope.spawn(move || {
                let mut i = 0;
                while !stop.load(Ordering::Relaxed) {
                    let at = data_at(t * 16 + i % 16);
                    area.make_writable(range(at, DATA), WriteIntent::Overwrite).unwrap();
                    area.discard(AreaOffset(at)..AreaOffset(at + DATA)).unwrap();
                    i += 1;
                }
            });
        }
        for _ in 0..50 {
            let finish = in_child(|| i32::from(!all_refused(&area)));
            assert_eq!(finish(), 0);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// Stores go on while the process forks: either the fork sees the session and does not freeze, or
/// the session waits for the fork. A store into a frozen extent would end this process.
fn announced_stores_are_never_trapped_by_a_fork() {
    let _alone = alone();
    let h = home();
    let area = h.ns.create_unnamed(&options()).unwrap();
    fill(&area, 0, 4 * SMALL, 1);
    drop(area.write_session());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for t in 0..2u64 {
            let (area, stop) = (&area, &stop);
            scope.spawn(move || {
                let mut n = 0;
                while !stop.load(Ordering::Relaxed) {
                    let _storing = area.storing();
                    fill(area, t * SMALL, 64, n);
                    n = n.wrapping_add(1);
                }
            });
        }
        for _ in 0..100 {
            let finish = in_child(|| {
                let before = read(&area, 0, 2 * SMALL);
                std::thread::sleep(std::time::Duration::from_micros(200));
                // Frozen or not: whole stores, and with a frozen state no change at all.
                i32::from(before.len() != read(&area, 0, 2 * SMALL).len())
            });
            assert_eq!(finish(), 0);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// A child's memory is one moment, the area's and all other: a thread stores into the area and then
/// says so elsewhere, so what the child is told of is there, and at most one store more.
fn a_fork_is_one_moment() {
    const SLOTS: u64 = 12;
    let _alone = alone();
    let h = home();
    let area = h.ns.create_unnamed(&options()).unwrap();
    area.track().unwrap();
    let stop = AtomicBool::new(false);
    let done = [const { AtomicU64::new(0) }; 2];
    let at = |thread: usize, n: u64| {
        let (slot, byte) = (n % SLOTS, thread as u64 * 8);
        if slot.is_multiple_of(2) { data_at(slot / 2) + byte } else { slot / 2 * SMALL + byte }
    };
    let newest = |thread: usize| {
        // Touched by nobody before its first store.
        let slots = 1..=SLOTS.min(done[thread].load(Ordering::SeqCst) + 1);
        slots.map(|n| load(&area, at(thread, n))).max().unwrap_or(0)
    };
    std::thread::scope(|scope| {
        let _end = AtTheEnd(&stop);
        for thread in 0..2 {
            let (area, stop, done) = (&area, &stop, &done[thread]);
            scope.spawn(move || {
                for n in 1.. {
                    store(area, at(thread, n), n);
                    done.store(n, Ordering::SeqCst);
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                }
            });
        }
        for round in 0..300 {
            let finish = in_child(|| {
                let is_one = |thread: usize| {
                    let told = done[thread].load(Ordering::SeqCst);
                    (told..=told + 1).contains(&newest(thread))
                };
                i32::from(!is_one(0)) + 2 * i32::from(!is_one(1))
            });
            assert_eq!(finish(), 0, "round {round}");
        }
    });
}

fn spawning_another_program_leaves_no_locks_in_it() {
    let _alone = alone();
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    fill(&area, 0, 8, 1);
    area.publish(Publish::Shared, b"").unwrap();
    let snapshot = h.ns.hook(&name("a")).unwrap();
    let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
    drop(snapshot);
    drop(area);
    let again = h.ns.open_area(&name("a")).unwrap();
    fill(&again, 0, 8, 2);
    again.publish(Publish::Shared, b"").unwrap();
    // `spawn` returns a moment before the new program has closed what it inherited.
    let by = Instant::now() + Duration::from_secs(60);
    while again.stats().live_manifests > 1 {
        assert!(Instant::now() < by, "the new program holds a lease");
        again.reclaim().unwrap();
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

over_both_back_ends! {
    a_child_keeps_reading_what_was_frozen_and_changes_nothing,
    a_child_cannot_write_into_the_parents_memory,
    the_owner_lock_does_not_live_on_in_a_child,
    a_child_may_use_snapshots_and_derive_its_own_area,
    forks_from_a_busy_process_do_not_hang,
    announced_stores_are_never_trapped_by_a_fork,
    a_fork_is_one_moment,
    spawning_another_program_leaves_no_locks_in_it,
}
