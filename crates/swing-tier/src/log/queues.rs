//! The queues of a thread: made once, used again.
//!
//! A ring serves one thread only, so each thread that works with a log has a queue of its own, kept
//! in thread-local storage between operations. One that is in use is not in the list, so an
//! operation inside of another simply gets a second one.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Weak};

use crate::process::ProcessMark;
use crate::storage::{IoResult, Queue, QueueOptions, Storage};

/// The most queues that a thread keeps between operations.
const MAX_KEPT_QUEUES: usize = 4;

/// Names a log among those of the process; its queues are given up when it is closed.
pub type QueueOwner = Arc<()>;

struct OwnedQueue {
    owner: Weak<()>,
    mark: ProcessMark,
    queue: Box<dyn Queue>,
}

thread_local! {
    static KEPT: RefCell<Vec<OwnedQueue>> = const { RefCell::new(Vec::new()) };
}

/// A queue in use by the current thread; goes back to the thread's list when dropped.
#[derive(Debug)]
pub struct QueueGuard {
    queue: ManuallyDrop<Box<dyn Queue>>,
    owner: Weak<()>,
    mark: ProcessMark,
}

/// A queue of this thread on the storage of `owner`. All calls for one owner pass equal options.
///
/// # Errors
/// The storage's, if a new queue cannot be made.
pub fn queue(
    storage: &dyn Storage,
    options: &QueueOptions,
    owner: &QueueOwner,
) -> IoResult<QueueGuard> {
    let mark = ProcessMark::current();
    let weak = Arc::downgrade(owner);
    let kept = KEPT.with_borrow_mut(|kept| {
        kept.retain(|k| k.mark == mark && k.owner.strong_count() > 0);
        let found = kept.iter().position(|k| k.owner.ptr_eq(&weak));
        found.map(|index| kept.swap_remove(index).queue)
    });
    let queue = match kept {
        Some(queue) => queue,
        None => storage.queue(options)?,
    };
    Ok(QueueGuard { queue: ManuallyDrop::new(queue), owner: weak, mark })
}

/// Gives up the queues that this thread keeps for logs that are closed.
pub(crate) fn forget_closed() {
    let _ = KEPT.try_with(|kept| {
        if let Ok(mut kept) = kept.try_borrow_mut() {
            kept.retain(|k| k.owner.strong_count() > 0);
        }
    });
}

impl Deref for QueueGuard {
    type Target = dyn Queue;

    fn deref(&self) -> &Self::Target {
        &**self.queue
    }
}

impl DerefMut for QueueGuard {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut **self.queue
    }
}

impl Drop for QueueGuard {
    fn drop(&mut self) {
        // SAFETY: the queue is taken once, here, and the guard is gone afterwards.
        let mut queue = unsafe { ManuallyDrop::take(&mut self.queue) };
        while queue.wait().is_some() {}
        if self.mark.is_stale() || self.owner.strong_count() == 0 {
            return;
        }
        let kept = OwnedQueue { owner: self.owner.clone(), mark: self.mark, queue };
        // At the end of a thread its list may be gone: then the queue ends here.
        let _ = KEPT.try_with(|list| {
            let mut list = list.borrow_mut();
            if list.len() < MAX_KEPT_QUEUES {
                list.push(kept);
            }
        });
    }
}
