//! Where the thread that answers live hooks is known to its area.
//!
//! The server of live hooks ([`crate::live`]) stands above the area, which reaches it through a
//! trait.

use std::fmt;
use std::sync::Arc;

use crate::sys::file::Folder;

/// Called around each publish that a live hook asks for; see [`crate::Area::guard_live_hooks`].
pub type LiveGuard = Arc<dyn Fn(&mut dyn FnMut()) + Send + Sync>;

/// The thread that answers live hooks.
pub(crate) trait LiveResponder: fmt::Debug + Send {
    /// Has it run on this processor, where stores come from.
    fn move_to(&self, processor: u32);
    /// In a forked child: closes what is the parent's, and forgets the thread, which is not here.
    fn abandon_in_child(self: Box<Self>);
    /// Ends the thread; when this returns it answers nobody any more.
    fn stop(self: Box<Self>, folder: &Folder);
}

/// Who answers live hooks, and what is called around each publish that they ask for; behind a lock
/// of its own.
#[derive(Default)]
pub(crate) struct LiveSlot {
    pub responder: Option<Box<dyn LiveResponder>>,
    pub guard: Option<LiveGuard>,
}

impl fmt::Debug for LiveSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveSlot").field("responder", &self.responder).finish_non_exhaustive()
    }
}

impl LiveSlot {
    /// In a forked child: the sockets are the parent's, and the thread is not here.
    pub(crate) fn abandon_in_child(&mut self) {
        if let Some(responder) = self.responder.take() {
            responder.abandon_in_child();
        }
    }

    /// Whether somebody answers live hooks.
    pub(crate) fn is_answering(&self) -> bool {
        self.responder.is_some()
    }
}
