//! Who writes objects of a heap in an area: a count, and a gate that is shut while a state is
//! shared.
//!
//! A state shows each object whole, so nobody may be in the middle of writing one. Who writes
//! counts in first. Who shares shuts the gate and waits until nobody is inside.
//!
//! The count is a sum over a few words, so that threads do not compete for one. Who leaves may
//! leave by another word than it came by. While the gate is shut each word only falls, apart from
//! those who look in and leave at once; so a sum of zero means that nobody is inside, although its
//! words were read one after the other.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::atomics::{AtomicU64, fence_of_models};

const SHARDS: usize = if cfg!(loom) { 2 } else { 16 };

#[derive(Debug, Default)]
#[repr(align(64))]
struct Shard(AtomicU64);

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Writers {
    /// How many share.
    shut: AtomicU64,
    shards: [Shard; SHARDS],
}

/// Somebody is inside; out when dropped.
#[derive(Debug)]
pub(crate) struct Writing<'a>(&'a Writers);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// The gate is shut; open again when dropped.
#[derive(Debug)]
pub(crate) struct Shut<'a>(&'a Writers);

impl Drop for Shut<'_> {
    fn drop(&mut self) {
        self.0.shut.fetch_sub(1, SeqCst);
    }
}

impl Writers {
    /// The number of this thread's word.
    fn shard(&self) -> usize {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static MINE: usize = NEXT.fetch_add(1, Relaxed) % SHARDS;
        }
        MINE.with(|mine| *mine)
    }

    /// In, unless the gate is shut.
    pub(crate) fn enter(&self) -> Option<Writing<'_>> {
        self.enter_by(self.shard()).then(|| Writing(self))
    }

    /// In by this word. `false`: the gate is shut, and the caller out again.
    pub(crate) fn enter_by(&self, shard: usize) -> bool {
        self.shards[shard].0.fetch_add(1, SeqCst);
        fence_of_models();
        let open = self.shut.load(SeqCst) == 0;
        if !open {
            self.leave_by(shard);
        }
        open
    }

    /// Out.
    pub(crate) fn leave(&self) {
        self.leave_by(self.shard());
    }

    /// Out by this word.
    pub(crate) fn leave_by(&self, shard: usize) {
        self.shards[shard].0.fetch_sub(1, SeqCst);
    }

    /// Shuts the gate; whoever is inside is so still.
    pub(crate) fn shut(&self) -> Shut<'_> {
        self.shut.fetch_add(1, SeqCst);
        Shut(self)
    }

    /// Whether nobody is inside a shut gate.
    pub(crate) fn is_empty(&self) -> bool {
        fence_of_models();
        self.shards.iter().fold(0_u64, |sum, shard| sum.wrapping_add(shard.0.load(SeqCst))) == 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn nobody_writes_while_the_gate_is_shut() {
        let (writers, inside) = (Writers::default(), AtomicU64::new(0));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // Who leaves by the word of another thread.
            let (to, from) = std::sync::mpsc::sync_channel::<Writing<'_>>(0);
            scope.spawn(move || from.into_iter().for_each(drop));
            for thread in 0..3 {
                let (to, writers, inside, done) = (to.clone(), &writers, &inside, &done);
                scope.spawn(move || {
                    while !done.load(SeqCst) {
                        let Some(writing) = writers.enter() else { continue };
                        inside.fetch_add(1, SeqCst);
                        inside.fetch_sub(1, SeqCst);
                        match thread {
                            0 => to.send(writing).unwrap(),
                            _ => drop(writing),
                        }
                    }
                });
            }
            drop(to);
            for _ in 0..100 {
                let shut = writers.shut();
                while !writers.is_empty() {
                    std::thread::yield_now();
                }
                for _ in 0..50 {
                    assert_eq!(inside.load(SeqCst), 0);
                }
                drop(shut);
                std::thread::yield_now();
            }
            done.store(true, SeqCst);
        });
        assert!(writers.is_empty());
    }
}
