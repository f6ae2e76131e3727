//! The gate between faulting threads and the thread that freezes the area.
//!
//! A faulting thread is *inside* only while it claims an extent or moves a finished version into
//! place: a few microseconds. It copies outside. The thread that closes the gate waits until no
//! thread is inside; from then on the set of writable extents does not grow. Each side writes its
//! own word before it reads the other's, so at least one of the two sees the other.
//!
//! Threads inside wait for nothing, so closing always ends. The closing thread runs no handler of
//! the program meanwhile, because such a handler might want to get inside. Only futex calls are
//! made, so the gate can be used in a signal handler.
//!
//! **Fork.** From the moment that the child shall see until the child exists, only the forking
//! thread may enter. So no other thread can show, through other memory, that it has stored since.
//! During this time the C library and older fork handlers run and take locks, and a waiting thread
//! may hold one of these locks. So waiting threads check whether the forking thread makes progress,
//! and open the gate if it sleeps all the time. Then the child would have memory of two moments:
//! the area as it was frozen, and other memory that tells of later stores. So it gets nothing of
//! the area ([`StoreGate::opened_early`]).

use std::time::Duration;

use crate::sys::atomics::{AtomicI32, AtomicU32, Ordering, spin_loop};
use crate::sys::block_signals::Quiet;
use crate::sys::{futex, process, strict};

/// Bit of [`StoreGate::word`]: a [`crate::HoldGuard`] lives.
const HELD: u32 = 1;
/// Bit of [`StoreGate::word`]: the process forks.
const FORKING: u32 = 2;
/// Added to [`StoreGate::word`] by each who freezes.
const CLOSER: u32 = 4;
/// Looks before sleeping, while others leave.
const SPINS: u32 = 200;
/// The longest sleep between two looks.
const NAP: Duration = Duration::from_millis(1);
/// How often a thread that waits for a fork looks at the forking thread, and how long it sleeps in
/// between; after so many looks in a row, five seconds, at which that slept and had used no
/// processor it waits for somebody.
const FORK_LOOKS: u32 = 500;
const FORK_NAP: Duration = Duration::from_millis(10);

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct StoreGate {
    word: AtomicU32,
    inside: AtomicU32,
    /// The thread that holds stores off; its own go on.
    holder: AtomicI32,
    /// 1 while somebody holds or is about to: holders come one after the other.
    holding: AtomicU32,
    /// The thread that forks; its own stores go on.
    forker: AtomicI32,
    /// 1: stores went on before the last fork was over.
    early: AtomicU32,
    /// Threads that sleep, or are about to, until the word changes.
    outside: AtomicU32,
}

/// The gate is closed as long as this lives.
pub(crate) struct Closed<'a> {
    gate: &'a StoreGate,
    /// Ends after the gate has opened.
    _quiet: Quiet,
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        let before = self.gate.word.fetch_sub(CLOSER, Ordering::SeqCst);
        assert!(before >= CLOSER, "opened as often as closed");
        self.gate.call_in();
    }
}

impl StoreGate {
    /// One try to get inside. `Err`: the word seen; bit [`HELD`] says that it may take long.
    fn try_enter(&self) -> Result<(), u32> {
        self.inside.fetch_add(1, Ordering::SeqCst);
        let word = self.word.load(Ordering::SeqCst);
        if word == 0 || (word < CLOSER && self.is_mine(word)) {
            return Ok(());
        }
        self.leave();
        Err(word)
    }

    /// Whether nobody but the calling thread holds stores off.
    fn is_mine(&self, word: u32) -> bool {
        if word & (HELD | FORKING) == 0 {
            return true;
        }
        let me = process::thread_id();
        (word & HELD == 0 || self.holder.load(Ordering::SeqCst) == me)
            && (word & FORKING == 0 || self.forker.load(Ordering::SeqCst) == me)
    }

    /// Sleeps until the word is no longer what was seen, or for some time.
    fn stay_outside(&self, seen: u32, time: Option<Duration>) {
        // Counted before the kernel compares the word: who changes it sees either the count, or
        // nobody who would sleep for what it was.
        self.outside.fetch_add(1, Ordering::SeqCst);
        futex::wait(&self.word, seen, time);
        self.outside.fetch_sub(1, Ordering::SeqCst);
    }

    /// After a change of the word; without a system call where nobody waits for it.
    fn call_in(&self) {
        if self.outside.load(Ordering::SeqCst) > 0 {
            futex::wake_all(&self.word);
        }
    }

    /// Gets inside, however long that takes.
    pub(crate) fn enter(&self) {
        while let Err(seen) = self.try_enter() {
            match seen & FORKING {
                0 => self.stay_outside(seen, None),
                _ => self.wait_for_fork(),
            }
        }
    }

    /// As `enter`, but `false` instead of waiting for a holder: what is claimed must be given back
    /// first, since the holder may want it.
    pub(crate) fn enter_unless_held(&self) -> bool {
        while let Err(seen) = self.try_enter() {
            if seen & (HELD | FORKING) != 0 {
                return false;
            }
            self.stay_outside(seen, None);
        }
        true
    }

    pub(crate) fn leave(&self) {
        let before = self.inside.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(before > 0, "left as often as entered");
        if before == 1 && self.word.load(Ordering::SeqCst) != 0 {
            futex::wake_all(&self.inside);
        }
    }

    /// Nobody is inside, and nobody gets in, as long as the result lives.
    pub(crate) fn close(&self) -> Closed<'_> {
        let _quiet = Quiet::begin();
        self.word.fetch_add(CLOSER, Ordering::SeqCst);
        let mut looks = 0;
        loop {
            match self.inside.load(Ordering::SeqCst) {
                0 => return Closed { gate: self, _quiet },
                _ if looks < SPINS => spin_loop(),
                n => futex::wait(&self.inside, n, Some(NAP)),
            }
            looks += 1;
        }
    }

    /// Whether somebody is freezing just now.
    pub(crate) fn is_closed(&self) -> bool {
        self.word.load(Ordering::SeqCst) >= CLOSER
    }

    /// From here on, until `end_fork`, no thread but the calling one gets inside.
    pub(crate) fn begin_fork(&self) {
        let _closed = self.close();
        self.forker.store(process::thread_id(), Ordering::SeqCst);
        self.early.store(0, Ordering::SeqCst);
        let before = self.word.fetch_or(FORKING, Ordering::SeqCst);
        assert!(before & FORKING == 0, "one thread forks at a time");
    }

    /// The gate may be open already.
    pub(crate) fn end_fork(&self) {
        self.word.fetch_and(!FORKING, Ordering::SeqCst);
        self.call_in();
    }

    /// Whether stores went on before there was a child.
    pub(crate) fn opened_early(&self) -> bool {
        self.early.load(Ordering::SeqCst) != 0
    }

    /// Waits until the fork is over. When the forking thread waits itself, perhaps for the calling
    /// one, the gate is opened, and that is said: the child has nothing of the area then, but there
    /// will be a child. A thread that gets no processor does not sleep.
    fn wait_for_fork(&self) {
        let forker = || self.forker.load(Ordering::SeqCst);
        let used = || process::time_of_thread_ns(forker());
        let (mut before, mut looks) = (used(), 0);
        loop {
            let word = self.word.load(Ordering::SeqCst);
            if word & FORKING == 0 {
                return;
            }
            self.stay_outside(word, Some(FORK_NAP));
            let now = used();
            looks = if now == before && process::is_asleep(forker()) { looks + 1 } else { 0 };
            if looks == FORK_LOOKS {
                strict::say(
                    "swing: a fork has waited for five seconds, perhaps for a thread that stores: \
                     stores go on, and the child has nothing of the area\n",
                );
                self.early.store(1, Ordering::SeqCst);
                return self.end_fork();
            }
            before = now;
        }
    }

    /// Becomes the one who may hold; waits for others who do.
    pub(crate) fn begin_hold(&self) {
        while self.holding.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            futex::wait(&self.holding, 1, Some(NAP));
        }
    }

    /// Goes on holding when the closer opens; called between `begin_hold` and `end_hold`.
    pub(crate) fn hold(&self, _closed: &Closed<'_>) {
        debug_assert_eq!(self.holding.load(Ordering::SeqCst), 1);
        self.holder.store(process::thread_id(), Ordering::SeqCst);
        self.word.fetch_or(HELD, Ordering::SeqCst);
    }

    /// A handler of the program may interrupt the holder anywhere in here, and store: it is let in
    /// as the holder until nothing is held.
    pub(crate) fn end_hold(&self) {
        self.word.fetch_and(!HELD, Ordering::SeqCst);
        self.holder.store(0, Ordering::SeqCst);
        self.call_in();
        let before = self.holding.swap(0, Ordering::SeqCst);
        assert_eq!(before, 1, "held once");
        futex::wake_all(&self.holding);
    }

    /// Waits while another thread holds stores off; `true` when it had to.
    pub(crate) fn wait_for_holder(&self) -> bool {
        let word = self.word.load(Ordering::SeqCst);
        if self.is_mine(word) {
            return false;
        }
        self.stay_outside(word, Some(NAP));
        true
    }

    /// Whether somebody else holds stores off.
    pub(crate) fn held_by_other(&self) -> bool {
        !self.is_mine(self.word.load(Ordering::SeqCst))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::Instant;

    use super::*;

    /// While the gate is closed, nobody is inside.
    #[test]
    fn closing_excludes_everybody() {
        let gate = StoreGate::default();
        let inside = AtomicU32::new(0);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        gate.enter();
                        inside.fetch_add(1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        gate.leave();
                    }
                });
            }
            for _ in 0..2000 {
                let _closed = gate.close();
                assert_eq!(inside.load(Ordering::SeqCst), 0);
            }
            stop.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn the_holder_gets_in_and_others_do_not() {
        let gate = StoreGate::default();
        gate.begin_hold();
        gate.hold(&gate.close());
        gate.enter();
        gate.leave();
        assert!(!gate.held_by_other() && !gate.wait_for_holder());
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(!gate.enter_unless_held() && gate.wait_for_holder()));
        });
        gate.end_hold();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(gate.enter_unless_held());
                gate.leave();
            });
        });
    }

    /// A fork lets the forking thread in, and others if it does not get on.
    #[test]
    fn a_fork_keeps_others_outside_while_it_goes_on() {
        // The machine may have other work for that long.
        let kept = (0..10).any(|_| {
            let gate = StoreGate::default();
            gate.begin_fork();
            gate.enter();
            gate.leave();
            assert!(!gate.held_by_other() && !gate.is_closed());
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| {
                    assert!(!gate.enter_unless_held() && gate.held_by_other());
                    gate.enter();
                    gate.leave();
                });
                let end = Instant::now() + 3 * FORK_LOOKS * FORK_NAP / 2;
                let goes_on = || Instant::now() < end && !waiting.is_finished();
                while goes_on() {
                    std::hint::spin_loop();
                }
                let kept = !waiting.is_finished();
                // This thread waits for the other one.
                waiting.join().unwrap();
                kept
            })
        });
        assert!(kept, "others get inside while the forking thread works");
    }

    #[test]
    fn others_get_inside_after_a_fork() {
        let gate = StoreGate::default();
        for _ in 0..100 {
            gate.begin_fork();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    gate.enter();
                    gate.leave();
                });
                gate.end_fork();
            });
        }
    }
}
