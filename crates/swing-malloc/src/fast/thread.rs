//! What a thread knows: its caches, one for each heap that it has used.

use super::gate::Gate;
use std::cell::{Cell, RefCell};
use std::ptr::null;
use std::sync::{Arc, Weak};

/// A cache of this thread.
#[derive(Debug)]
pub(crate) struct Local {
    pub id: u64,
    pub slot: u32,
    pub gate: Arc<Gate>,
    /// Where it is mapped.
    pub cache: *mut u8,
}

/// Who takes a cache back.
pub(crate) trait Owner: Send + Sync {
    fn leave(&self, slot: u32);
}

struct Kept {
    local: Box<Local>,
    owner: Weak<dyn Owner>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        CURRENT.with(|current| current.set((0, null())));
        if let Some(owner) = self.owner.upgrade() {
            owner.leave(self.local.slot);
        }
    }
}

thread_local! {
    /// The cache used last; the pointer is into `KEPT`.
    static CURRENT: Cell<(u64, *const Local)> = const { Cell::new((0, null())) };
    static KEPT: RefCell<Vec<Kept>> = const { RefCell::new(Vec::new()) };
}

/// The thread's cache of the heap `id`, if it is the one used last.
#[inline(always)]
pub(crate) fn current<'a>(id: u64) -> Option<&'a Local> {
    let (known, local) = CURRENT.with(Cell::get);
    // SAFETY: the pointer is set together with its id to a box in `KEPT` of this thread, and
    // cleared before the box is dropped. The caller does not keep the reference: nothing that it
    // calls meanwhile ends the thread.
    if known == id { unsafe { local.as_ref() } } else { None }
}

/// The thread's cache of the heap `id`, which becomes the one used last.
pub(crate) fn known(id: u64) -> Option<(u32, Arc<Gate>)> {
    KEPT.try_with(|kept| {
        let kept = kept.try_borrow().ok()?;
        let found = kept.iter().find(|kept| kept.local.id == id)?;
        CURRENT.with(|current| current.set((id, &*found.local)));
        Some((found.local.slot, found.local.gate.clone()))
    })
    .ok()
    .flatten()
}

/// Keeps a new cache until the thread ends; false when it is ending already, and the cache was
/// given back.
pub(crate) fn keep(local: Local, owner: Weak<dyn Owner>) -> bool {
    let mut new = Some(Kept { local: Box::new(local), owner });
    let kept = KEPT.try_with(|kept| {
        let Ok(mut kept) = kept.try_borrow_mut() else { return false };
        // Heaps that are gone need no cache.
        kept.retain(|kept| kept.owner.strong_count() > 0);
        let Some(new) = new.take() else { return false };
        CURRENT.with(|current| current.set((new.local.id, &*new.local)));
        kept.push(new);
        true
    });
    kept.unwrap_or(false)
}
