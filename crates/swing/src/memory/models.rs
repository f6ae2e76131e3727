//! Models of the words of extents: each order of the threads' steps is run (`make
//! test-concurrency`).

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use crate::memory::extent_words::ExtentWords;
use crate::model::extent_word::{FAULTING, FROZEN, HOT, PRIVATE, SPARE, state_of};
use crate::model::units::ExtentId;
use crate::sys::atomics::model;

const E: ExtentId = ExtentId(0);

/// An extent of an area, and its bytes.
struct Extent {
    words: ExtentWords,
    bytes: UnsafeCell<u32>,
}

impl Extent {
    fn frozen() -> Arc<Self> {
        let words = ExtentWords::new(1);
        words.set(E, FROZEN | SPARE);
        Arc::new(Self { words, bytes: UnsafeCell::new(0) })
    }

    /// As a trapped store does: claims the extent and makes a version of it, or waits for who does.
    fn make_private(&self) {
        loop {
            let word = self.words.word(E);
            match state_of(word) {
                PRIVATE => return,
                FAULTING => self.words.wait(E, word),
                _ => {
                    if self.words.replace(E, word, FAULTING) {
                        // SAFETY: whoever has claimed an extent is alone with it.
                        self.bytes.with_mut(|bytes| unsafe { *bytes += 1 });
                        return self.words.set(E, PRIVATE);
                    }
                }
            }
        }
    }
}

/// Stores to one extent: one thread makes the version, all see it, and nobody sleeps for ever.
/// Fails when `set` wakes nobody, or `wait` does not mark the word (a thread sleeps on), and when
/// `set` is relaxed (the version is not seen).
#[test]
fn one_version_is_made_and_all_see_it() {
    model(|| {
        let extent = Extent::frozen();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let extent = extent.clone();
                thread::spawn(move || {
                    extent.make_private();
                    // SAFETY: nobody stores to it any more.
                    extent.bytes.with(|bytes| assert_eq!(unsafe { *bytes }, 1));
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(extent.words.any_present(0..1));
    });
}

/// An extent is claimed, and given back as it was, while others want it, too: whoever is woken
/// looks again. Fails when `exchange` wakes nobody.
#[test]
fn who_waits_for_a_claim_that_is_given_back_goes_on() {
    model(|| {
        let extent = Extent::frozen();
        let claims = {
            let extent = extent.clone();
            thread::spawn(move || {
                let word = extent.words.word(E);
                if state_of(word) == FROZEN && extent.words.replace(E, word, FAULTING) {
                    while !extent.words.exchange(E, extent.words.word(E), FROZEN | SPARE) {}
                }
            })
        };
        extent.make_private();
        claims.join().unwrap();
        assert_eq!(state_of(extent.words.word(E)), PRIVATE);
    });
}

/// A thread asks that an extent stay writable while its word changes for other reasons: it is told
/// so only if the word says so then. Fails when `keep_hot` stores its word without comparing.
#[test]
fn what_is_kept_hot_is_private() {
    model(|| {
        let extent = Extent::frozen();
        extent.words.set(E, PRIVATE);
        let keeps = {
            let extent = extent.clone();
            thread::spawn(move || extent.words.keep_hot(E))
        };
        let word = extent.words.word(E);
        let protected = extent.words.exchange(E, word, FROZEN);
        let hot = keeps.join().unwrap();
        let now = extent.words.word(E);
        assert_eq!(now, if protected { FROZEN } else { PRIVATE | HOT });
        assert!(hot || protected);
    });
}
