//! Write-protecting what has become private.
//!
//! A system call a span of neighbours. Where a span is long its page tables are taken away first
//! ([`crate::sys::page_tables`]), as far as they can be taken whole, so that the time hardly grows
//! with it; they are dropped later, a few at a time, when nobody waits for that.
//!
//! **Concurrency.** Under the area's lock; in a tracked area the gate is closed.

use std::ops::Range;

use crate::area::core::Core;
use crate::area::tables::Tables;
use crate::memory::extent_words::ExtentWords;
use crate::memory::mapping::mapping_fault;
use crate::model::error::Result;
use crate::model::extent_word::{FROZEN, PRIVATE, each};
use crate::model::units::{AreaOffset, ExtentId};
use crate::sys::page_tables::DetachedTables;

/// Extents, protected already, that a system call may span to protect those on both sides: of small
/// pages it looks at each.
const MAX_GAP_HUGE: u32 = 64;
const MAX_GAP_SMALL: u32 = 8;

/// Where at least one in so many extents is listed as private, all are looked at, in order, instead
/// of sorting the list.
const SPARSE: u32 = 16;

/// What the area is frozen for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freeze {
    /// A manifest that others will see; [`Core::follow_up`] comes after it.
    Publish,
    /// A manifest for this process and its children.
    View,
    /// A moment in which nobody stores; nothing is published.
    Hold,
    /// A publish that will come, of an area that is not tracked.
    Ahead,
}

/// Those in a list that are private, once each, in order.
fn private_of(mut listed: Vec<ExtentId>, states: &ExtentWords) -> impl Iterator<Item = ExtentId> {
    listed.sort_unstable();
    listed.dedup();
    listed.into_iter().filter(|e| states.get(*e) == PRIVATE)
}

/// Stretches of neighbours that are private, in order, of a list of these and others. An extent
/// that was given back and taken again is listed twice.
fn private_stretches(listed: Vec<ExtentId>, states: &ExtentWords) -> Vec<Range<u32>> {
    if listed.len() >= (states.len() / SPARSE) as usize {
        let stretches = states.private_stretches();
        debug_assert!(
            each(&stretches).eq(private_of(listed, states)),
            "INV-AREA-1: every one that is listed"
        );
        return stretches;
    }
    let mut stretches: Vec<Range<u32>> = Vec::new();
    for ExtentId(extent) in private_of(listed, states) {
        match stretches.last_mut() {
            Some(Range { end, .. }) if *end == extent => *end += 1,
            _ => stretches.push(extent..extent + 1),
        }
    }
    stretches
}

impl Core {
    /// Write-protects exactly the extents that are private, in merged ranges. Returns them, as
    /// stretches: their words say it when the caller has changed these.
    pub(crate) fn protect_private(
        &self,
        state: &mut Tables,
        why: Freeze,
    ) -> (Vec<Range<u32>>, Result<()>) {
        let listed = std::mem::take(&mut state.changed.private);
        state.changed.old_private = 0;
        let mut stretches = private_stretches(listed, &self.words);
        let mut failure = None;
        let mut open = Vec::new();
        let mut done = 0;
        for (start, len) in self.spans_to_protect(&stretches) {
            let end = AreaOffset(start + len);
            let first = done;
            let is_before = |s: &Range<u32>| self.geometry.start(ExtentId(s.start)) < end;
            done += stretches[done..].partition_point(is_before);
            failure = self.protect_span(state, why, start, len).err();
            if failure.is_some() {
                open = self.protect_each(each(&stretches[first..done]));
                break;
            }
        }
        assert!(failure.is_some() || done == stretches.len(), "INV-AREA-1: every private extent");
        let rest = stretches.split_off(done);
        if !open.is_empty() {
            let is_done = |e: &ExtentId| open.binary_search(e).is_err();
            stretches = each(&stretches).filter(is_done).map(|e| e.0..e.0 + 1).collect();
        }
        state.changed.private = open;
        state.changed.private.extend(each(&rest));
        (stretches, failure.map_or(Ok(()), Err))
    }

    /// Write-protects extents one by one, after a system call about all of them has failed
    /// somewhere between them. Returns, in order, those that cannot be protected, because that
    /// would cut a mapping which is open: they stay private.
    pub(crate) fn protect_each(
        &self,
        extents: impl IntoIterator<Item = ExtentId>,
    ) -> Vec<ExtentId> {
        let is_open = |e: &ExtentId| {
            let (start, len) = (self.geometry.start(*e).as_usize(), self.geometry.len(*e).0);
            self.mapping.span().protect(start, len as usize, false).is_err()
        };
        extents.into_iter().filter(is_open).collect()
    }

    fn protect_span(&self, state: &mut Tables, why: Freeze, start: u64, len: u64) -> Result<()> {
        let span = self.mapping.span();
        let tracked = self.tracked.get().is_some();
        if why == Freeze::Publish && tracked && self.ns.switches().detached_tables {
            for (at, len) in self.whole_tables(state, start, start + len) {
                let to = state.heuristics.detach_to.take();
                state.heuristics.detached.extend(DetachedTables::of_span(
                    span,
                    at as usize,
                    len as usize,
                    to,
                ));
            }
        }
        let protected = span.protect(start as usize, len as usize, false);
        protected.map_err(|e| mapping_fault(e, &self.memory_path()))
    }

    /// The ranges of some stretches (in order), joined over gaps of extents that are protected
    /// already: a system call over these costs less than one more of it.
    fn spans_to_protect(&self, stretches: &[Range<u32>]) -> Vec<(u64, u64)> {
        let mut spans: Vec<Range<u32>> = Vec::new();
        let small = self.tracked.get().is_some_and(|t| !t.has_huge_pages());
        let most = if small { MAX_GAP_SMALL } else { MAX_GAP_HUGE };
        for stretch in stretches {
            let joins = |before: &Range<u32>| {
                stretch.start - before.end < most
                    && (before.end..stretch.start).all(|e| self.words.get(ExtentId(e)) == FROZEN)
            };
            match spans.last_mut() {
                Some(last) if joins(last) => last.end = stretch.end,
                _ => spans.push(stretch.clone()),
            }
        }
        debug_assert!(spans.windows(2).all(|s| s[0].end < s[1].start), "spans are ordered");
        let range = |span: Range<u32>| {
            let start = self.geometry.start(ExtentId(span.start)).0;
            (start, self.geometry.range(ExtentId(span.end - 1)).end.0 - start)
        };
        spans.into_iter().map(range).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn what_is_private_is_found_in_order_among_many_extents_and_few() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        for _ in 0..200 {
            let count = rng.u32(1..5000);
            let listed: Vec<_> =
                (0..rng.u32(0..1000)).map(|_| ExtentId(rng.u32(..count))).collect();
            let states = ExtentWords::new(count);
            let mut expected = BTreeSet::new();
            for extent in &listed {
                let private = rng.bool();
                states.set(*extent, if private { PRIVATE } else { FROZEN });
                let _ = if private { expected.insert(*extent) } else { expected.remove(extent) };
            }
            let stretches = private_stretches(listed, &states);
            assert_eq!(each(&stretches).collect::<Vec<_>>(), Vec::from_iter(expected));
            assert!(stretches.windows(2).all(|s| s[0].end < s[1].start), "merged");
        }
    }
}
