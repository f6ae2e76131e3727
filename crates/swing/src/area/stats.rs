//! What an area holds at one moment, and what has happened to it so far.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::area::handle::Area;
use crate::model::extent_word;
use crate::model::units::{ByteLen, ExtentId};
use crate::trap::trapped_area::Tracked;

/// Sizes and counts of an area at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AreaStats {
    /// Bytes the live state shows, of whatever origin.
    pub mapped: ByteLen,
    /// Of these: in the area's own memory file.
    pub own: ByteLen,
    /// Of these: memory of other areas, and what an area that outgrew its file system left there.
    pub foreign: ByteLen,
    /// Of the own bytes: written since the last publish.
    pub private: ByteLen,
    /// Old versions kept because a manifest that is current, leased or pinned shows them.
    pub retired: ByteLen,
    /// Memory nobody can see, kept for the next write.
    pub spare: ByteLen,
    /// Bytes copied so far, by `make_writable` and for trapped stores.
    pub copied: ByteLen,
    /// Bytes of fresh memory populated so far, by the same.
    pub populated: ByteLen,
    /// Bytes that could be written in place after a publish, since nobody shared them any more.
    pub in_place: ByteLen,
    /// Bytes given back to the system so far.
    pub punched: ByteLen,
    /// Mapped runs.
    pub runs: usize,
    /// Manifests that are current, leased or pinned, as far as known.
    pub live_manifests: usize,
}

impl Area {
    /// Sizes and counts.
    pub fn stats(&self) -> AreaStats {
        let core = &self.core;
        let mut state = core.state.lock();
        if core.check_fork().is_ok() {
            core.absorb(&mut state);
        }
        let mapped = state.runs.bytes();
        let own = state.runs.bytes_of(0);
        assert!(own <= mapped && mapped <= core.geometry.reserve().0, "sums follow the runs");
        let early = |e: &&ExtentId| {
            let own = state.own.get(**e);
            core.words.get(**e) == extent_word::FROZEN
                && own.is_some_and(|own| own.born == state.manifests.next_epoch)
        };
        let private =
            state.changed.private.iter().filter(|e| core.words.get(**e) == extent_word::PRIVATE);
        let private = private.chain(state.changed.in_place.iter().filter(early));
        let private: u64 = private.map(|e| core.geometry.len(*e).0).sum();
        let counter = |c: &AtomicU64, stored: fn(&Tracked) -> &AtomicU64| {
            let stored = core.tracked.get().map_or(0, |t| stored(t).load(Ordering::Relaxed));
            ByteLen(c.load(Ordering::Relaxed) + stored)
        };
        AreaStats {
            mapped: ByteLen(mapped),
            own: ByteLen(own),
            foreign: ByteLen(mapped - own),
            private: ByteLen(private),
            retired: state.versions.retired_bytes(),
            spare: state.versions.spare_bytes(),
            copied: counter(&core.counters.copied_bytes, |t| &t.copied),
            populated: counter(&core.counters.populated_bytes, |t| &t.populated),
            in_place: counter(&core.counters.in_place_bytes, |t| &t.in_place),
            punched: ByteLen(core.counters.punched_bytes.load(Ordering::Relaxed)),
            runs: state.runs.count(),
            live_manifests: state.manifests.live.len(),
        }
    }
}
