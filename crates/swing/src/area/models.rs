//! A model of announced stores and a fork: each order of the threads' steps is run (`make
//! test-concurrency`).

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::area::sessions::Sessions;
use crate::sys::atomics::model;

/// An area with announced stores.
struct Announced {
    sessions: Sessions,
    lock: Mutex<()>,
    bytes: UnsafeCell<u32>,
}

/// Whoever stores and whoever freezes for a child are never at it together, and each sees what the
/// other has done before. Fails when either side looks before it writes its own flag, when either
/// look is relaxed, and when `end` is.
#[test]
fn a_fork_freezes_only_what_nobody_stores_to() {
    model(|| {
        let area = Arc::new(Announced {
            sessions: Sessions::default(),
            lock: Mutex::new(()),
            bytes: UnsafeCell::new(0),
        });
        area.sessions.announce();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let area = area.clone();
                thread::spawn(move || {
                    area.sessions.begin(|| drop(area.lock.lock().unwrap()));
                    // SAFETY: only looked at; whoever freezes changes it.
                    area.bytes.with(|bytes| unsafe { *bytes });
                    area.sessions.end();
                })
            })
            .collect();
        let locked = area.lock.lock().unwrap();
        if area.sessions.begin_freeze() {
            // SAFETY: nobody looks at it, which is what the model is about.
            area.bytes.with_mut(|bytes| unsafe { *bytes += 1 });
        }
        area.sessions.end_freeze();
        drop(locked);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
