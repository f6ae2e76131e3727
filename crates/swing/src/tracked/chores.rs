//! What the keeper does in each tracked area of the process.

use std::time::Duration;

use crate::area::registry::with_tracked;
use crate::namespace::handle::Namespace;

/// Gives back whatever can be; for stores that found no memory, or no plane.
pub(crate) fn reclaim_tracked() {
    let mut namespaces = Vec::new();
    with_tracked(|core| {
        let _ = core.reclaim_all();
        if let Ok(mut state) = core.lock_for_change() {
            core.arm_without_plane(&mut state);
        }
        namespaces.push(core.ns.clone());
    });
    namespaces.iter().for_each(Namespace::collect_garbage);
}

/// Writes down what stores have logged, and protects early what they have left behind; when there
/// is more to do.
pub(crate) fn absorb_tracked() -> Option<Duration> {
    let mut next = None;
    with_tracked(|core| {
        let Ok(mut state) = core.lock_for_change() else { return };
        let more = core.protect_early(&mut state).unwrap_or(None);
        drop(state);
        core.move_responder();
        next = next.into_iter().chain(more).min();
    });
    next
}

/// Drops some page tables that were taken away; `true` when there are more.
pub(crate) fn drop_some_lifted() -> bool {
    let mut more = false;
    with_tracked(|core| more |= core.drop_some_lifted().unwrap_or(false));
    more
}

/// Copies some extents of each area that wants it; `true` when there may be more.
pub(crate) fn copy_some_ahead() -> bool {
    let mut more = false;
    with_tracked(|core| more |= core.copy_some_ahead().unwrap_or(false));
    more
}

/// Looks whether views have gone; `true` while there are more to look at.
pub(crate) fn look_after_views() -> bool {
    let mut more = false;
    with_tracked(|core| {
        let Ok(mut state) = core.lock_for_change() else { return };
        let _ = core.reclaim_some(&mut state);
        let current = [state.manifests.shared, state.manifests.committed];
        more |= state.manifests.live.keys().any(|e| !current.contains(&Some(*e)));
    });
    more
}
