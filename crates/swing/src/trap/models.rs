//! Models of the gate, pins, the table of areas and the log of stores: each order of the threads'
//! steps is run (`make test-concurrency`).

use std::ops::Range;
use std::time::{Duration, Instant};

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread::{self, JoinHandle};

use crate::memory::extent_words::ExtentWords;
use crate::model::extent_word::{FROZEN, PRIVATE};
use crate::model::units::ExtentId;
use crate::sys::atomics::model;
use crate::trap::gate::StoreGate;
use crate::trap::pin_count::Pins;
use crate::trap::store_log::StoreLog;
use crate::trap::table::{Entry, Table};

/// Something that threads change inside the gate, and whoever closes it looks at.
#[derive(Default)]
struct Gated {
    gate: StoreGate,
    bytes: UnsafeCell<u32>,
}

impl Gated {
    fn change(&self) {
        // SAFETY: each model says why nobody else looks at it, and the checker whether that is so.
        self.bytes.with_mut(|bytes| unsafe { *bytes += 1 });
    }

    /// What a store does: in, and out again.
    fn store(&self) {
        self.gate.enter();
        self.change();
        self.gate.leave();
    }

    fn look(&self) -> u32 {
        // SAFETY: as above.
        self.bytes.with(|bytes| unsafe { *bytes })
    }
}

fn spawn<T: 'static>(shared: &Arc<T>, act: impl FnOnce(&T) + 'static) -> JoinHandle<()> {
    let shared = shared.clone();
    thread::spawn(move || act(&shared))
}

/// Whoever closes the gate sees all that was done inside, nobody is there until it opens, and who
/// waits outside comes in then. Fails when `try_enter` looks before it counts itself in, when
/// `leave` counts relaxed, when `close` does not wait, and when its drop does not call anybody in.
#[test]
fn nobody_is_inside_a_closed_gate() {
    model(|| {
        let gated = Arc::new(Gated::default());
        let enters = spawn(&gated, Gated::store);
        for _ in 0..2 {
            let closed = gated.gate.close();
            gated.change();
            drop(closed);
        }
        enters.join().unwrap();
        assert_eq!(gated.look(), 3);
    });
}

/// Two freeze at once: the first to end does not open the gate for the other. Fails when the gate
/// has one bit for all who close it instead of a count.
#[test]
fn a_gate_opens_when_the_last_who_closed_it_opens_it() {
    model(|| {
        let gated = Arc::new(Gated::default());
        let enters = spawn(&gated, Gated::store);
        let closed = [gated.gate.close(), gated.gate.close()];
        for closed in closed {
            gated.change();
            drop(closed);
        }
        enters.join().unwrap();
        assert_eq!(gated.look(), 3);
    });
}

/// The thread that holds stores off goes in, others when it ends. Fails when `hold` does not say
/// who holds, or `end_hold` calls nobody in.
#[test]
fn who_holds_stores_off_is_alone_inside() {
    model(|| {
        let gated = Arc::new(Gated::default());
        let enters = spawn(&gated, |gated| {
            if !gated.gate.enter_unless_held() {
                gated.gate.enter();
            }
            gated.change();
            gated.gate.leave();
        });
        gated.gate.begin_hold();
        let closed = gated.gate.close();
        gated.gate.hold(&closed);
        drop(closed);
        gated.change();
        gated.store();
        gated.gate.end_hold();
        enters.join().unwrap();
        assert_eq!(gated.look(), 3);
    });
}

/// From the begin of a fork to its end the forking thread is alone inside. Fails when `begin_fork`
/// does not close the gate first, and when `is_mine` does not ask who forks.
#[test]
fn who_forks_is_alone_inside() {
    model(|| {
        let gated = Arc::new(Gated::default());
        let enters = spawn(&gated, Gated::store);
        gated.gate.begin_fork();
        gated.change();
        gated.store();
        gated.gate.end_fork();
        enters.join().unwrap();
        assert_eq!(gated.look(), 3);
    });
}

/// An extent that a device may store into.
struct Pinned {
    gate: StoreGate,
    pins: Pins,
    words: ExtentWords,
    bytes: UnsafeCell<u32>,
}

/// While something is pinned nothing is frozen, and whoever wants to freeze is woken by the last
/// pin's end. Fails when `take` looks outside the gate, and when `give_back` wakes nobody.
#[test]
fn what_is_pinned_is_not_frozen() {
    model(|| {
        let words = ExtentWords::new(1);
        words.set(ExtentId(0), PRIVATE);
        let (gate, pins) = (StoreGate::default(), Pins::default());
        let area = Arc::new(Pinned { gate, pins, words, bytes: UnsafeCell::new(0) });
        let pins = spawn(&area, |area| {
            if area.pins.take(&area.gate, || area.words.keep_hot(ExtentId(0))) {
                // SAFETY: nothing is frozen, so nobody looks at it.
                area.bytes.with_mut(|bytes| unsafe { *bytes = 1 });
                assert!(area.pins.give_back());
            }
        });
        let mut wanted = None;
        loop {
            let closed = area.gate.close();
            if !area.pins.are_there() {
                area.words.set_unclaimed(ExtentId(0), FROZEN);
                drop(closed);
                break;
            }
            drop(closed);
            let wanted = wanted.get_or_insert_with(|| area.pins.want_none());
            assert!(wanted.wait_until_none(Instant::now() + Duration::from_secs(1000)));
        }
        // SAFETY: it is frozen.
        area.bytes.with(|bytes| unsafe { *bytes });
        drop(wanted);
        pins.join().unwrap();
        assert!(!area.pins.are_there());
    });
}

/// What a table is of: it must not be freed while somebody uses it.
struct Mapped {
    addresses: Range<usize>,
    is_freed: UnsafeCell<bool>,
}

impl Mapped {
    fn new(addresses: Range<usize>) -> Self {
        Self { addresses, is_freed: UnsafeCell::new(false) }
    }

    fn free(&self) {
        // SAFETY: it has been forgotten, so nobody uses it; the checker says whether that is so.
        self.is_freed.with_mut(|freed| unsafe { *freed = true });
    }
}

impl Entry for Mapped {
    fn addresses(&self) -> Range<usize> {
        self.addresses.clone()
    }

    fn is_of_this_process(&self) -> bool {
        // SAFETY: as above.
        self.is_freed.with(|freed| assert!(!unsafe { *freed }));
        true
    }
}

/// Whoever has found an area uses it while it is forgotten, and another one gets its slot: it is
/// not freed before, and nobody finds an address in an area that does not have it. Fails when
/// `find` counts itself in after it has read the pointer, when it does not look at the area's
/// addresses again, when a user's end is counted relaxed, and when `forget` does not wait.
#[test]
fn what_is_found_stays_until_it_is_let_go() {
    model(|| {
        let table: Arc<Table<Mapped, 1>> = Arc::new(Table::new());
        let areas = Arc::new([Mapped::new(10..20), Mapped::new(30..40)]);
        assert!(table.enter(&areas[0]));
        let finds = spawn(&table, |table| {
            for address in [15, 35] {
                if let Some(found) = table.find(address) {
                    assert!(found.addresses().contains(&address) && found.is_of_this_process());
                }
            }
        });
        table.forget(&areas[0]);
        areas[0].free();
        if table.enter(&areas[1]) {
            table.forget(&areas[1]);
        }
        areas[1].free();
        finds.join().unwrap();
    });
}

/// What stores note is taken out once, with what they did before, also while others note. Fails
/// when `note` is relaxed or does not link again after it has lost, and when `take_out` reads a
/// link after it has settled the extent.
#[test]
fn what_is_noted_is_taken_out_once() {
    model(|| {
        let shared = Arc::new((StoreLog::new(2), [(); 2].map(|()| UnsafeCell::new(0))));
        let note = |extent: usize| {
            spawn(&shared, move |(log, bytes)| {
                // SAFETY: only the thread that notes an extent stores to it before.
                bytes[extent].with_mut(|bytes| unsafe { *bytes = 1 });
                log.note(ExtentId(extent as u32));
            })
        };
        let threads = [note(0), note(1)];
        let mut taken = [0, 0];
        let mut take_out = |again: bool| {
            shared.0.take_out(|extent| {
                let extent = extent.0 as usize;
                // SAFETY: what has been noted is not stored to.
                shared.1[extent].with(|bytes| taken[extent] += unsafe { *bytes });
                if again && extent == 1 {
                    shared.0.note(ExtentId(1));
                }
            });
        };
        take_out(true);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        take_out(false);
        assert!(taken[0] == 1 && (1..=2).contains(&taken[1]), "{taken:?}");
    });
}
