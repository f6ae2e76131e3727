//! Holding an area's stores off, by the thread that says so, until it resumes.
//!
//! A thread that is stopped at a store must not be one that the holder waits for. The allocator's
//! operations store, and hold its locks meanwhile; so the holder pauses it first, when nobody is
//! in the middle of one, and lets stores go on before it. The price: the holder cannot allocate in
//! what it holds. Live hooks wait for the end, because each takes [`Entry::malloc`] for reading
//! before it publishes; the holder itself has it for writing, and publishes without.
//!
//! **Threads.** A hold belongs to its thread and ends with it. **fork.** A child's copy of a hold
//! holds nothing.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLockWriteGuard;
use swing::HoldGuard;
use swing_malloc::{Malloc, MallocPause};

use crate::areas::Entry;
use crate::error::{Code, Failure, Result};

// Field order is drop order: stores go on, then the allocator, then hooks; what they all borrow
// from goes last.
struct Hold {
    _stores: HoldGuard<'static>,
    _pause: Option<MallocPause<'static>>,
    _malloc: RwLockWriteGuard<'static, Option<Malloc>>,
    _entry: Arc<Entry>,
}

thread_local! {
    static HOLDS: RefCell<HashMap<i32, Hold>> = RefCell::new(HashMap::new());
}

/// Whether this thread holds the area.
pub(crate) fn is_held(token: i32) -> bool {
    HOLDS.try_with(|holds| holds.borrow().contains_key(&token)).unwrap_or(false)
}

/// Holds the area until [`end`].
pub(crate) fn begin(entry: Arc<Entry>) -> Result<()> {
    let token = entry.token;
    if is_held(token) {
        return Err(Failure::new(Code::Argument, "this thread holds the area already"));
    }
    if HOLDS.try_with(|_| ()).is_err() {
        return Err(Failure::new(Code::Busy, "this thread is ending, and can hold nothing"));
    }
    // SAFETY: the entry is kept beside what borrows from it, and dropped after it; an entry behind
    // an `Arc` does not move. All stay in this thread.
    let kept: &'static Entry = unsafe { &*Arc::as_ptr(&entry) };
    let malloc = kept.malloc.write();
    // SAFETY: the guard, which keeps the allocator where it is, is dropped after the pause.
    let paused: Option<&'static Malloc> = unsafe { std::mem::transmute(malloc.as_ref()) };
    let pause = paused.map(Malloc::pause);
    let stores = kept.area.hold_stores()?;
    let hold = Hold { _stores: stores, _pause: pause, _malloc: malloc, _entry: entry };
    let before = HOLDS.with(|holds| holds.borrow_mut().insert(token, hold));
    assert!(before.is_none(), "a thread holds an area once");
    Ok(())
}

/// `false` when this thread does not hold the area.
pub(crate) fn end(token: i32) -> bool {
    // A thread that is ending holds nothing any more.
    let hold = HOLDS.try_with(|holds| holds.borrow_mut().remove(&token)).ok().flatten();
    // Dropped after the map is free: what it lets go on may ask for it.
    let held = hold.map(|hold| assert_eq!(hold._entry.token, token, "kept by its token"));
    assert!(!is_held(token), "a hold ends once");
    held.is_some()
}
