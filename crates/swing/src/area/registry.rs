//! The open areas of this process.
//!
//! A fork looks at all of them, the keeper at the tracked and at the plain ones by turns.
//! **Fork.** The list's lock is taken before the process forks, before any area's lock.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use crate::area::core::Core;
use crate::sys::sync::Mutex;

/// The open areas of this process.
pub(crate) static OPEN: Mutex<Vec<Weak<Core>>> = Mutex::new(Vec::new());
/// The area that the keeper is at work with, by the address of its core; 0: none. Set with the
/// registry locked.
static KEEPER_AT: AtomicUsize = AtomicUsize::new(0);
/// The keeper finds a closed area closed at once; that it comes to that takes a processor. About
/// five seconds.
const MAX_KEEPER_WAITS: u32 = 1_400;

pub(crate) fn register(core: &Arc<Core>) {
    OPEN.lock().push(Arc::downgrade(core));
}

pub(crate) fn unregister(core: &Arc<Core>) {
    let me = Arc::as_ptr(core);
    OPEN.lock().retain(|w| w.as_ptr() != me);
}

/// Calls `each` with every tracked area of this process, for the keeper.
pub(crate) fn with_tracked(each: impl FnMut(&Core)) {
    with_open(|core| core.tracked.get().is_some(), each);
}

/// The same with every area that is not tracked.
pub(crate) fn with_plain(each: impl FnMut(&Core)) {
    with_open(|core| core.tracked.get().is_none(), each);
}

/// Each is held no longer than the call takes: whoever closes it waits for its addresses.
fn with_open(chosen: impl Fn(&Core) -> bool, mut each: impl FnMut(&Core)) {
    let mut at = OPEN.lock().len();
    // Backwards: whatever is closed meanwhile, none is missed.
    while at > 0 {
        at -= 1;
        let core = {
            let open = OPEN.lock();
            let core = open.get(at).and_then(Weak::upgrade);
            let core = core.filter(|c| chosen(c) && c.check_fork().is_ok());
            let Some(core) = core else { continue };
            KEEPER_AT.store(Arc::as_ptr(&core) as usize, Ordering::SeqCst);
            core
        };
        each(&core);
        drop(core);
        KEEPER_AT.store(0, Ordering::SeqCst);
    }
}

/// Waits until the keeper has let go of an area that is closed and not registered any more: then
/// its addresses go with the last handle.
pub(crate) fn wait_for_keeper(core: &Arc<Core>) {
    let me = Arc::as_ptr(core) as usize;
    for tries in 0..MAX_KEEPER_WAITS {
        if KEEPER_AT.load(Ordering::SeqCst) != me || core.check_fork().is_err() {
            return;
        }
        crate::sys::backoff::pause(tries);
    }
}

/// In a forked child: the keeper is the parent's. Allocates nothing, locks nothing.
pub(crate) fn forget_keeper() {
    KEEPER_AT.store(0, Ordering::SeqCst);
}
