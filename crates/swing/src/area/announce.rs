//! Announcing stores, so that a fork knows whether it may freeze the area for the child.
//!
//! Freezing while a thread stores would trap the store. So a store is counted before it happens,
//! and the fork handler looks at the count; who counts while a fork is under way waits until it is
//! over. Both sides write their own flag before they read the other's, sequentially consistent: at
//! least one of them sees the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::area::core::Core;
use crate::area::handle::Area;

/// Announces stores into the area; see [`Area::write_session`].
#[derive(Debug)]
pub struct WriteSession {
    core: Arc<Core>,
}

/// A moment in which somebody stores into private extents; see [`Area::storing`].
#[derive(Debug)]
pub struct Storing<'a> {
    alive: &'a AtomicUsize,
}

impl Drop for Storing<'_> {
    fn drop(&mut self) {
        let before = self.alive.fetch_sub(1, Ordering::Release);
        debug_assert!(before > 0, "each session ends once");
    }
}

impl Drop for WriteSession {
    fn drop(&mut self) {
        let before = self.core.sessions.alive.fetch_sub(1, Ordering::Release);
        assert!(before > 0, "each session ends once");
    }
}

impl Area {
    /// Announces that the caller may store into private extents as long as the guard lives. A
    /// client that holds one around all its stores gets a stable view in forked children: a fork
    /// while no session is alive freezes the state for the child. A fork during a session cannot
    /// (it would trap the store), and a client that never announces anything is taken to be storing
    /// always.
    pub fn write_session(&self) -> WriteSession {
        let sessions = &self.core.sessions;
        sessions.announced.store(true, Ordering::Relaxed);
        self.core.begin_storing();
        WriteSession { core: self.core.clone() }
    }

    /// For layers in between, such as an allocator: no fork freezes the state while the guard
    /// lives. Says nothing about stores of others: only [`Area::write_session`] promises that all
    /// are announced.
    pub fn storing(&self) -> Storing<'_> {
        self.core.begin_storing();
        Storing { alive: &self.core.sessions.alive }
    }
}

impl Core {
    /// Counts somebody who stores. Either the fork handler sees the count and does not freeze, or
    /// this sees the handler and waits until the fork is over.
    fn begin_storing(&self) {
        loop {
            self.sessions.alive.fetch_add(1, Ordering::SeqCst);
            if !self.sessions.freezing.load(Ordering::SeqCst) {
                return;
            }
            self.sessions.alive.fetch_sub(1, Ordering::SeqCst);
            drop(self.state.lock());
        }
    }
}
