//! Announcing stores, so that a fork knows whether it may freeze the area for the child.
//!
//! The counting is in [`crate::area::sessions`].

use std::sync::Arc;

use crate::area::core::Core;
use crate::area::handle::Area;
use crate::area::sessions::Sessions;

/// Announces stores into the area; see [`Area::write_session`].
#[derive(Debug)]
pub struct WriteSession {
    core: Arc<Core>,
}

/// A moment in which somebody stores into private extents; see [`Area::storing`].
#[derive(Debug)]
pub struct Storing<'a> {
    sessions: &'a Sessions,
}

impl Drop for Storing<'_> {
    fn drop(&mut self) {
        self.sessions.end();
    }
}

impl Drop for WriteSession {
    fn drop(&mut self) {
        self.core.sessions.end();
    }
}

impl Area {
    /// Announces that the caller may store into private extents as long as the guard lives. A
    /// client that holds one around all its stores gets a stable view in forked children: a fork
    /// while no session is alive freezes the state for the child. A fork during a session cannot
    /// (it would trap the store), and a client that never announces anything is taken to be storing
    /// always.
    pub fn write_session(&self) -> WriteSession {
        self.core.sessions.announce();
        self.core.begin_storing();
        WriteSession { core: self.core.clone() }
    }

    /// For layers in between, such as an allocator: no fork freezes the state while the guard
    /// lives. Says nothing about stores of others: only [`Area::write_session`] promises that all
    /// are announced.
    pub fn storing(&self) -> Storing<'_> {
        self.core.begin_storing();
        Storing { sessions: &self.core.sessions }
    }
}

impl Core {
    fn begin_storing(&self) {
        self.sessions.begin(|| drop(self.state.lock()));
    }
}
