//! Write-protecting what has become private.
//!
//! A system call a span of neighbours. Where a span is long its page tables are taken away first
//! ([`crate::sys::lift`]), as far as they can be taken whole, so that the time hardly grows with
//! it; they are dropped later, a few at a time, when nobody waits for that.
//!
//! **Concurrency.** Under the area's lock; in a tracked area the gate is closed.

use crate::area::{Core, State};
use crate::error::Result;
use crate::extents::{FROZEN, PRIVATE, States};
use crate::mapping::mapping_fault;
use crate::runs::Run;
use crate::tracked::keeper;
use crate::units::{AreaOffset, ByteLen, ExtentId};

/// Extents, protected already, that a system call may span to protect those on both sides: of small
/// pages it looks at each.
const MAX_GAP_HUGE: u32 = 64;
const MAX_GAP_SMALL: u32 = 8;
/// Whole page tables are taken away, where so many neighbours can be: huge pages have theirs for
/// each gigabyte. Taking away parts of one, or finding few pages again, costs more than is won.
const LIFT_HUGE: ByteLen = ByteLen::gib(1);
const LIFT_SMALL: ByteLen = ByteLen::mib(32);
/// Page tables dropped in one go: about 75 us, for which a trapped store may wait.
const DROP_HUGE: ByteLen = ByteLen::mib(256);
const DROP_SMALL: ByteLen = ByteLen::mib(1);

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

/// The extents that are private, in order, of a list of these and others. An extent that was given
/// back and taken again is listed twice.
fn private_in_order(mut listed: Vec<ExtentId>, states: &States) -> Vec<ExtentId> {
    let is_private = |e: &ExtentId| states.get(*e) == PRIVATE;
    if listed.len() >= (states.len() / SPARSE) as usize {
        let mut private = Vec::with_capacity(listed.len());
        private.extend((0..states.len()).map(ExtentId).filter(is_private));
        debug_assert!(private.iter().all(|e| listed.contains(e)), "each of them is listed");
        return private;
    }
    listed.sort_unstable();
    listed.dedup();
    listed.retain(is_private);
    listed
}

impl Core {
    /// Write-protects exactly the extents that are private, in merged ranges. Returns them: their
    /// words say it when the caller has changed these.
    pub(crate) fn protect_private(
        &self,
        state: &mut State,
        why: Freeze,
    ) -> (Vec<ExtentId>, Result<()>) {
        let listed = std::mem::take(&mut state.private);
        state.old_private = 0;
        let mut extents = private_in_order(listed, &self.states);
        let mut failure = None;
        let mut open = Vec::new();
        let mut done = 0;
        for (start, len) in self.spans_to_protect(&extents) {
            let end = AreaOffset(start + len);
            let first = done;
            done += extents[done..].partition_point(|e| self.geometry.start(*e) < end);
            failure = self.protect_span(state, why, start, len).err();
            if failure.is_some() {
                open = self.protect_each(extents[first..done].iter().copied());
                break;
            }
        }
        assert!(failure.is_some() || done == extents.len(), "INV-AREA-1: every private extent");
        let rest = extents.split_off(done);
        extents.retain(|e| open.binary_search(e).is_err());
        state.private = open;
        state.private.extend(rest);
        (extents, failure.map_or(Ok(()), Err))
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

    fn protect_span(&self, state: &mut State, why: Freeze, start: u64, len: u64) -> Result<()> {
        let span = self.mapping.span();
        if why == Freeze::Publish && self.tracked.get().is_some() {
            for (at, len) in self.whole_tables(state, start, start + len) {
                state.lifted.extend(span.lift(at as usize, len as usize));
            }
        }
        let protected = span.protect(start as usize, len as usize, false);
        protected.map_err(|e| mapping_fault(e, &self.memory_path()))
    }

    /// The parts of a range whose page tables hold nothing but one mapping.
    fn whole_tables(&self, state: &State, start: u64, end: u64) -> Vec<(u64, u64)> {
        let granule = self.for_pages(LIFT_HUGE, LIFT_SMALL).0;
        if end - start < granule {
            return Vec::new();
        }
        let base = self.mapping.base().as_ptr() as u64;
        let whole = |run: Run| {
            let from = (base + run.start).next_multiple_of(granule) - base;
            let to = ((base + run.end()) / granule * granule).checked_sub(base)?;
            (from < to).then(|| (from, to - from))
        };
        state.runs.overlapping(start, end).into_iter().filter_map(whole).collect()
    }

    /// Has page tables that were taken away dropped, by the keeper when there is one.
    pub(crate) fn drop_lifted_later(&self) -> Result<()> {
        if !self.lock_for_change()?.lifted.is_empty() && !keeper::drop_lifted() {
            while self.drop_some_lifted()? {}
        }
        Ok(())
    }

    /// Drops some page tables that were taken away; `true` when there are more.
    pub(crate) fn drop_some_lifted(&self) -> Result<bool> {
        let Some(mut tables) = self.lock_for_change()?.lifted.pop() else { return Ok(false) };
        let more = tables.drop_some(self.for_pages(DROP_HUGE, DROP_SMALL).as_usize());
        let mut state = self.lock_for_change()?;
        if more {
            state.lifted.push(tables);
        }
        Ok(!state.lifted.is_empty())
    }

    /// What holds for pages of the size that the area has.
    pub(crate) fn for_pages(&self, huge: ByteLen, small: ByteLen) -> ByteLen {
        if self.tracked.get().is_some_and(|t| t.has_huge_pages()) { huge } else { small }
    }

    /// The ranges of some extents (in order), joined over gaps of extents that are protected
    /// already: a system call over these costs less than one more of it.
    fn spans_to_protect(&self, extents: &[ExtentId]) -> Vec<(u64, u64)> {
        let mut spans: Vec<(ExtentId, ExtentId)> = Vec::new();
        let small = self.tracked.get().is_some_and(|t| !t.has_huge_pages());
        let most = if small { MAX_GAP_SMALL } else { MAX_GAP_HUGE };
        for extent in extents {
            let joins = |before: ExtentId| {
                extent.0 - before.0 <= most
                    && (before.0 + 1..extent.0).all(|e| self.states.get(ExtentId(e)) == FROZEN)
            };
            match spans.last_mut().filter(|(_, last)| joins(*last)) {
                Some((_, last)) => *last = *extent,
                None => spans.push((*extent, *extent)),
            }
        }
        debug_assert!(spans.windows(2).all(|s| s[0].1 < s[1].0), "spans are ordered");
        let range = |(first, last): (ExtentId, ExtentId)| {
            let (start, end) = (self.geometry.start(first).0, self.geometry.range(last).end.0);
            (start, end - start)
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
            let states = States::new(count);
            let mut expected = BTreeSet::new();
            for extent in &listed {
                let private = rng.bool();
                states.set(*extent, if private { PRIVATE } else { FROZEN });
                let _ = if private { expected.insert(*extent) } else { expected.remove(extent) };
            }
            assert_eq!(private_in_order(listed, &states), Vec::from_iter(expected));
        }
    }
}
