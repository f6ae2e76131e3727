//! What a thread knows: its caches, one for each heap that it has used.

use super::gate::Gate;
use std::cell::{Cell, RefCell};
use std::sync::{Arc, Weak};

/// A cache of this thread.
#[derive(Clone, Debug)]
pub(crate) struct Local {
    /// Which heap's: a number that is never used again, unlike the gate's key.
    pub id: u64,
    pub slot: u32,
    pub gate: Arc<Gate>,
}

/// Who takes a cache back.
pub(crate) trait Owner: Send + Sync {
    fn leave(&self, slot: u32);
}

struct OwnedCache {
    local: Local,
    owner: Weak<dyn Owner>,
}

impl Drop for OwnedCache {
    fn drop(&mut self) {
        CURRENT.with(|current| current.set(nobody()));
        if let Some(owner) = self.owner.upgrade() {
            owner.leave(self.local.slot);
        }
    }
}

#[cfg(not(loom))]
static NOBODY: Gate = Gate::nobody();
// Gates that are modelled cannot be made beforehand.
#[cfg(loom)]
static NOBODY: std::sync::LazyLock<Gate> = std::sync::LazyLock::new(Gate::nobody);

#[cfg(not(loom))]
const fn nobody() -> *const Gate {
    &raw const NOBODY
}
#[cfg(loom)]
fn nobody() -> *const Gate {
    &raw const *NOBODY
}

thread_local! {
    /// The gate of the cache used last; it lives in `KEPT`, or is that of nobody.
    #[cfg(not(loom))]
    static CURRENT: Cell<*const Gate> = const { Cell::new(nobody()) };
    #[cfg(loom)]
    static CURRENT: Cell<*const Gate> = Cell::new(nobody());
    static KEPT: RefCell<Vec<OwnedCache>> = const { RefCell::new(Vec::new()) };
}

/// The gate of the cache that this thread used last; whose it is only [`Gate::enter`] tells.
#[inline(always)]
pub(crate) fn gate<'a>() -> &'a Gate {
    let gate = CURRENT.with(Cell::get);
    // SAFETY: the pointer is that of a static, or of a gate that `KEPT` of this thread holds and
    // that is taken out of `CURRENT` before it is dropped. The caller does not keep the reference:
    // nothing that it calls meanwhile ends the thread.
    unsafe { &*gate }
}

/// The thread's cache of the heap `id`, which becomes the one used last.
pub(crate) fn known(id: u64) -> Option<Local> {
    KEPT.try_with(|kept| {
        let kept = kept.try_borrow().ok()?;
        let found = kept.iter().find(|kept| kept.local.id == id)?;
        CURRENT.with(|current| current.set(&raw const *found.local.gate));
        Some(found.local.clone())
    })
    .ok()
    .flatten()
}

/// Keeps a new cache until the thread ends; false when it is ending already, and the cache was
/// given back.
pub(crate) fn keep(local: Local, owner: Weak<dyn Owner>) -> bool {
    assert!(local.gate.is_closed(), "a new cache's gate is opened by its first use");
    let mut new = Some(OwnedCache { local, owner });
    let kept = KEPT.try_with(|kept| {
        let Ok(mut kept) = kept.try_borrow_mut() else { return false };
        // Heaps that are gone need no cache.
        kept.retain(|kept| kept.owner.strong_count() > 0);
        let Some(new) = new.take() else { return false };
        CURRENT.with(|current| current.set(&raw const *new.local.gate));
        kept.push(new);
        true
    });
    kept.unwrap_or(false)
}
