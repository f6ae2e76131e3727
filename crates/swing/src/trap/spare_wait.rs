//! Waiting, right after a live hook, for the memory that it sets free.
//!
//! A publish supersedes the state before it, and normally nobody else needs that: its memory is
//! what the next versions of all extents go to. It is free only when its manifest is gone, some
//! hundred microseconds after the hook. A store trapped in between would take new memory, in a
//! plane in which none of its neighbours lie: from then on the extent is a mapping of its own, each
//! hook has to map it, and its page tables cannot be taken away with those around it. So such a
//! store waits, for a bounded time; copying an extent takes about as long.
//!
//! **Concurrency.** Only a futex word: usable in a signal handler. Whoever waits holds nothing.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::sys::futex;

/// The longest that a store waits. Tests do not depend on who runs when.
const MOST: Duration = Duration::from_millis(if cfg!(test) { 20_000 } else { 1 });

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct SpareWait(AtomicU32);

impl SpareWait {
    /// A publish has superseded a state that will be looked at.
    pub(crate) fn begin(&self) {
        self.0.store(1, Ordering::SeqCst);
    }

    /// It has been looked at.
    pub(crate) fn end(&self) {
        if self.0.swap(0, Ordering::SeqCst) != 0 {
            futex::wake_all(&self.0);
        }
    }

    /// Waits for the end, or for [`MOST`].
    pub(crate) fn wait(&self) {
        let begin = Instant::now();
        while self.0.load(Ordering::SeqCst) != 0 {
            let left = MOST.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return;
            }
            futex::wait(&self.0, 1, Some(left));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::model::manifest::Kind;
    use crate::policy::switches::Switches;
    use crate::{AreaName, AreaOffset, AreaOptions, ByteLen, Namespace};

    #[test]
    fn who_waits_goes_on_at_the_end() {
        let settling = SpareWait::default();
        settling.wait();
        settling.end();
        settling.begin();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    settling.wait();
                    assert!(over.load(Ordering::SeqCst), "not before");
                });
            }
            std::thread::sleep(Duration::from_millis(5));
            over.store(true, Ordering::SeqCst);
            settling.end();
        });
        settling.wait();
    }

    /// Each extent alternates between two planes, although stores come right after each publish.
    #[test]
    fn a_store_right_after_a_publish_takes_the_memory_that_this_sets_free() {
        store_after_publishes(true);
        store_after_publishes(false);
    }

    fn store_after_publishes(spare_wait: bool) {
        let dir = tempfile::tempdir().unwrap();
        let switches = Switches { spare_wait, ..Switches::ON };
        let ns = Namespace::open(dir.path()).unwrap().with_switches(switches);
        let options = AreaOptions::with_reserve(ByteLen::mib(64));
        let area = ns.create(&AreaName::new("settling").unwrap(), &options).unwrap();
        area.track().unwrap();
        let start = options.small_zone.0 as usize;
        let base = area.base().as_ptr() as usize + start;
        let store = |value: u64| {
            // SAFETY: in the tracked area; nobody else stores.
            unsafe { std::ptr::without_provenance_mut::<u64>(base).write_volatile(value) }
        };
        let core = &*area.core;
        store(1);
        area.allow_live_hooks(true).unwrap();
        store(2);
        for round in 3..9 {
            let published = core.publish_quickly(Kind::Shared, b"").unwrap();
            if !spare_wait {
                // It would wait until then, and longer than the test may take.
                store(round);
                core.follow_up(published).unwrap();
                continue;
            }
            let gone_on = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    store(round);
                    gone_on.store(true, Ordering::SeqCst);
                });
                std::thread::sleep(Duration::from_millis(5));
                assert!(!gone_on.load(Ordering::SeqCst), "it waits for memory, not for long");
                core.follow_up(published).unwrap();
            });
            let mut state = core.lock_for_change().unwrap();
            core.absorb(&mut state);
            let extent = area.geometry().extent_of(AreaOffset(start as u64));
            let plane = state.own.get(extent).unwrap().plane;
            assert!(plane < 2, "round {round}: plane {plane}");
        }
        // SAFETY: as above.
        let last = unsafe { std::ptr::without_provenance::<u64>(base).read_volatile() };
        assert_eq!(last, 8);
    }
}
