//! What the keeper does in the areas of the process.

use std::time::Duration;

use crate::area::registry::{with_plain, with_tracked};
use crate::model::units::ByteLen;
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

/// What is given back between two moments in which others can have the area's lock.
const GIVEN_BACK_AT_ONCE: ByteLen = ByteLen::mib(2);

/// Gives back some of what publishes of plain areas have left; `true` when there is more.
pub(crate) fn give_back_some_left() -> bool {
    let mut more = false;
    with_plain(|core| more |= core.give_back_left(GIVEN_BACK_AT_ONCE).unwrap_or(false));
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
