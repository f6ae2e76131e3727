//! How to hook.

use std::time::Duration;

/// Where a snapshot is mapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HookAt {
    /// At the origin's address when that is free, else anywhere.
    #[default]
    Anywhere,
    /// At the address where the origin's owner had it, or not at all: raw pointers stored in the
    /// area are valid.
    OriginAddress,
}

/// What a live hook does when the owner does not give its present state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfStale {
    /// It fails, with [`crate::HookError::NotFresh`].
    #[default]
    Fail,
    /// It hooks the newest shared state, and [`crate::Snapshot::is_fresh`] says so.
    Accept,
}

/// How to hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HookOptions {
    /// Where to map it.
    pub at: HookAt,
    /// For live hooks: what to do without a fresh state.
    pub if_stale: IfStale,
    /// For live hooks: how long the owner may take to answer.
    pub patience: Duration,
}

impl Default for HookOptions {
    fn default() -> Self {
        Self { at: HookAt::default(), if_stale: IfStale::default(), patience: PATIENCE }
    }
}

/// How long a live hook waits for the owner, unless it is told otherwise.
const PATIENCE: Duration = Duration::from_secs(5);
