//! The versions of extents in the area's own memory file that the live state no longer shows.
//!
//! A version is visible in the manifests with epochs in `[born, freed)`. While one of them is live
//! (current, leased or pinned) the version is *retired*: its bytes must not change (INV-AREA-1).
//! After that it is *spare*: its plane may be used again, and its memory is given back when there
//! is more spare memory than a small allowance. The allowance is what makes the extents that every
//! commit touches alternate between two planes without allocating pages each time.

use std::collections::{BTreeMap, HashSet, VecDeque};

use crate::model::extent_word::note;
use crate::model::geometry::{Geometry, MAX_PLANES};
use crate::model::planes::{PlaneTable, Planes};
use crate::model::units::{ByteLen, Epoch, ExtentId};

/// Entries of the list of spare versions that may be out of date, besides as many as are not.
const ORDER_SLACK: usize = 64;

/// The manifests that may still be hooked, leased or pinned.
pub(crate) trait LiveEpochs {
    /// The newest live epoch below `epoch`.
    fn before(&self, epoch: Epoch) -> Option<Epoch>;
    /// The oldest live epoch above `epoch`.
    fn after(&self, epoch: Epoch) -> Option<Epoch>;
}

impl<T> LiveEpochs for BTreeMap<Epoch, T> {
    fn before(&self, epoch: Epoch) -> Option<Epoch> {
        self.range(..epoch).next_back().map(|(e, _)| *e)
    }
    fn after(&self, epoch: Epoch) -> Option<Epoch> {
        self.range(epoch.next()..).next().map(|(e, _)| *e)
    }
}

/// Whether any live manifest shows a version.
pub(crate) fn visible(live: &impl LiveEpochs, born: Epoch, freed: Epoch) -> bool {
    debug_assert!(born <= freed, "INV-AREA-2: nothing is freed before it was born");
    live.before(freed).is_some_and(|newest| newest >= born)
}

#[derive(Clone, Copy, Debug)]
struct Retired {
    extent: ExtentId,
    plane: u32,
    born: Epoch,
}

/// A plane to write a new version into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub plane: u32,
    /// The plane has memory already, with old bytes in it.
    pub spare: bool,
}

/// All versions but the current ones.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    planes: PlaneTable,
    /// By the epoch at which they were freed.
    retired: BTreeMap<Epoch, Vec<Retired>>,
    /// What became spare, oldest first. What has been taken since is left in it until it is met:
    /// looking for it would cost more than all else that a store writes down.
    spare_order: VecDeque<(ExtentId, u32)>,
    spare_count: usize,
    retired_bytes: u64,
    spare_bytes: u64,
    /// Extents that got a spare plane, if anybody wants to know.
    changed: Option<Vec<ExtentId>>,
}

impl Versions {
    pub(crate) fn retired_bytes(&self) -> ByteLen {
        ByteLen(self.retired_bytes)
    }

    pub(crate) fn spare_bytes(&self) -> ByteLen {
        ByteLen(self.spare_bytes)
    }

    /// What [`Versions::peek`] says, taken at once.
    #[cfg(test)]
    pub(crate) fn choose(
        &mut self,
        geometry: &Geometry,
        extent: ExtentId,
        current: Option<u32>,
        prefer: [Option<u32>; 2],
    ) -> Option<Choice> {
        let choice = self.peek(geometry, extent, current, prefer)?;
        let spare = self.take(geometry, extent, choice.plane);
        assert_eq!(spare, choice.spare, "INV-AREA-2: looked at and taken alike");
        Some(choice)
    }

    /// The plane for a new version of an extent whose present version lies in `current`; `None`
    /// when all are in use. `prefer` are the planes of the neighbours, which the new version should
    /// join: always in the small zone, where a copy is cheap, and in the data zone when that takes
    /// no other memory than there is.
    pub(crate) fn peek(
        &self,
        geometry: &Geometry,
        extent: ExtentId,
        current: Option<u32>,
        prefer: [Option<u32>; 2],
    ) -> Option<Choice> {
        let none = Planes::default();
        let planes = self.planes.get(extent).unwrap_or(&none);
        let fits = |p: &u32| current != Some(*p) && !planes.is_retired(*p);
        let latest = planes.spare().next();
        let cheap = |p: &u32| geometry.is_small(extent) || latest.is_none() || planes.is_spare(*p);
        let joins = prefer.into_iter().flatten().find(|p| fits(p) && cheap(p));
        let plane = joins.or(latest);
        let plane = plane.or_else(|| (0..MAX_PLANES).find(fits))?;
        assert!(current != Some(plane), "INV-AREA-2: a spare plane is not the current one");
        Some(Choice { plane, spare: planes.is_spare(plane) })
    }

    /// A version in just this plane, which is not the present one; `None` when it is in use.
    pub(crate) fn peek_in(&self, extent: ExtentId, plane: u32) -> Option<Choice> {
        let spare = self.is_spare(extent, plane);
        self.is_free(extent, plane).then_some(Choice { plane, spare })
    }

    /// As `peek`, but neither in the present plane nor in `crowd`.
    pub(crate) fn peek_apart(
        &self,
        extent: ExtentId,
        current: Option<u32>,
        crowd: u32,
    ) -> Option<Choice> {
        let none = Planes::default();
        let planes = self.planes.get(extent).unwrap_or(&none);
        let fits = |p: &u32| current != Some(*p) && *p != crowd && !planes.is_retired(*p);
        let spare = planes.spare().find(|p| fits(p));
        let plane = spare.or_else(|| (0..MAX_PLANES).find(fits))?;
        assert!(current != Some(plane) && plane != crowd, "apart from both");
        Some(Choice { plane, spare: spare.is_some() })
    }

    /// Whether a plane of an extent holds no version that a live manifest shows (the current one
    /// aside, which is not known here).
    pub(crate) fn is_free(&self, extent: ExtentId, plane: u32) -> bool {
        self.planes.get(extent).is_none_or(|planes| !planes.is_retired(plane))
    }

    /// Takes a plane that is spare or free; whether it was spare.
    pub(crate) fn take(&mut self, geometry: &Geometry, extent: ExtentId, plane: u32) -> bool {
        assert!(self.is_free(extent, plane), "INV-AREA-1: {extent} in plane {plane} is visible");
        if !self.is_spare(extent, plane) {
            return false;
        }
        let removed = self.planes.get_mut(extent).remove(plane, true);
        assert!(removed, "INV-AREA-2: one version is in one state");
        self.forget_spare(geometry, extent);
        true
    }

    /// One spare version less.
    fn forget_spare(&mut self, geometry: &Geometry, extent: ExtentId) {
        let len = geometry.len(extent).0;
        assert!(self.spare_count > 0 && self.spare_bytes >= len, "sums follow the versions");
        self.spare_count -= 1;
        self.spare_bytes -= len;
        self.compact_order();
    }

    fn is_spare(&self, extent: ExtentId, plane: u32) -> bool {
        self.planes.get(extent).is_some_and(|planes| planes.is_spare(plane))
    }

    /// Drops what is spare no longer, or listed twice, when that is most of the list.
    fn compact_order(&mut self) {
        if self.spare_order.len() <= 2 * self.spare_count + ORDER_SLACK {
            return;
        }
        let mut seen = HashSet::with_capacity(self.spare_count);
        let mut kept: VecDeque<_> = VecDeque::with_capacity(2 * self.spare_count + ORDER_SLACK);
        for entry in std::mem::take(&mut self.spare_order).into_iter().rev() {
            if self.is_spare(entry.0, entry.1) && seen.insert(entry) {
                kept.push_front(entry);
            }
        }
        assert_eq!(kept.len(), self.spare_count, "every spare version is listed");
        self.spare_order = kept;
    }

    /// From now on `take_changed` tells.
    pub(crate) fn watch(&mut self) {
        self.changed.get_or_insert_default();
    }

    /// The extents that have got a spare plane since the last call.
    pub(crate) fn take_changed(&mut self) -> Vec<ExtentId> {
        self.changed.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The extents with planes that are not free.
    pub(crate) fn extents(&self) -> impl Iterator<Item = ExtentId> + '_ {
        self.planes.iter().map(|(extent, _)| extent)
    }

    /// The live state no longer shows a version.
    pub(crate) fn free(
        &mut self,
        geometry: &Geometry,
        live: &impl LiveEpochs,
        version: (ExtentId, u32),
        born: Epoch,
        freed: Epoch,
    ) {
        let (extent, plane) = version;
        assert!(born <= freed, "INV-AREA-2: nothing is freed before it was born");
        if visible(live, born, freed) {
            self.retire(geometry, extent, plane, born, freed);
        } else {
            self.add_spare(geometry, extent, plane);
        }
    }

    /// Records a version that a live manifest shows.
    pub(crate) fn retire(
        &mut self,
        geometry: &Geometry,
        extent: ExtentId,
        plane: u32,
        born: Epoch,
        freed: Epoch,
    ) {
        assert!(born < freed, "some manifest shows it");
        self.planes.get_mut(extent).add(plane, false);
        self.retired.entry(freed).or_default().push(Retired { extent, plane, born });
        self.retired_bytes += geometry.len(extent).0;
    }

    /// Adds a plane that has memory nobody can see.
    pub(crate) fn add_spare(&mut self, geometry: &Geometry, extent: ExtentId, plane: u32) {
        self.planes.get_mut(extent).add(plane, true);
        self.spare_order.push_back((extent, plane));
        self.spare_count += 1;
        self.spare_bytes += geometry.len(extent).0;
        self.compact_order();
        if let Some(changed) = &mut self.changed {
            note(changed, extent);
        }
    }

    /// A manifest is gone; `live` no longer contains it. Versions only it showed become spare.
    pub(crate) fn manifest_gone(
        &mut self,
        geometry: &Geometry,
        live: &impl LiveEpochs,
        gone: Epoch,
    ) {
        assert_ne!(live.before(gone.next()), Some(gone), "it is gone");
        // Only versions freed after it, and not after the next live manifest (which shows those),
        // can be affected.
        let until = live.after(gone).unwrap_or(Epoch(u64::MAX));
        let groups: Vec<Epoch> = self.retired.range(gone.next()..=until).map(|(e, _)| *e).collect();
        for freed in groups {
            let Some(group) = self.retired.get_mut(&freed) else {
                continue;
            };
            let mut done = Vec::new();
            group.retain(|v| {
                let keep = visible(live, v.born, freed);
                if !keep {
                    done.push(*v);
                }
                keep
            });
            if group.is_empty() {
                self.retired.remove(&freed);
            }
            // Side by side in the tables, and then in those of whoever looks at what has changed.
            done.sort_unstable_by_key(|v: &Retired| v.extent);
            for v in done {
                let len = geometry.len(v.extent).0;
                assert!(self.retired_bytes >= len, "sums follow the versions");
                self.retired_bytes -= len;
                let listed = self.planes.get_mut(v.extent).remove(v.plane, false);
                assert!(listed, "INV-AREA-2: a retired version has its plane");
                self.add_spare(geometry, v.extent, v.plane);
            }
        }
    }

    /// Takes spare versions out, oldest first, until at most `keep` bytes are left or `limit` bytes
    /// are taken; those that `may` refuses stay. Returns merged file ranges, whose memory the
    /// caller gives back before anything else happens to the area.
    pub(crate) fn take_spare(
        &mut self,
        geometry: &Geometry,
        keep: ByteLen,
        limit: ByteLen,
        mut may: impl FnMut(ExtentId, u32) -> bool,
    ) -> Vec<(u64, u64)> {
        let mut ranges = Vec::new();
        let mut taken = 0;
        for _ in 0..self.spare_order.len() {
            if self.spare_bytes <= keep.0 || taken >= limit.0 {
                break;
            }
            let Some((extent, plane)) = self.spare_order.pop_front() else {
                break;
            };
            if !self.is_spare(extent, plane) {
                continue;
            }
            if !may(extent, plane) {
                self.spare_order.push_back((extent, plane));
                continue;
            }
            let len = geometry.len(extent).0;
            let removed = self.planes.get_mut(extent).remove(plane, true);
            assert!(removed, "INV-AREA-2: one version is in one state");
            self.forget_spare(geometry, extent);
            taken += len;
            ranges.push((geometry.plane_offset(plane, geometry.start(extent)), len));
        }
        merge(ranges)
    }

    /// Checks the sums and the disjointness of the states; for tests and debug builds.
    #[cfg(test)]
    pub(crate) fn check(&self, geometry: &Geometry) {
        let retired: u64 = self.retired.values().flatten().map(|v| geometry.len(v.extent).0).sum();
        assert_eq!(retired, self.retired_bytes);
        let listed: HashSet<_> =
            self.spare_order.iter().filter(|(e, p)| self.is_spare(*e, *p)).collect();
        let spare: u64 = listed.iter().map(|(e, _)| geometry.len(*e).0).sum();
        assert_eq!((spare, listed.len()), (self.spare_bytes, self.spare_count));
        assert!(self.spare_order.len() <= 2 * self.spare_count + ORDER_SLACK + 1);
        let spare = self.planes.iter().map(|(_, planes)| planes.spare().count()).sum::<usize>();
        assert_eq!(spare, self.spare_count);
    }
}

/// Sorts ranges and joins neighbours.
pub(crate) fn merge(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    let mut out: Vec<(u64, u64)> = Vec::with_capacity(ranges.len().min(64));
    for (start, len) in ranges {
        match out.last_mut() {
            Some(last) if last.0 + last.1 == start => last.1 += len,
            last => {
                assert!(last.is_none_or(|l| l.0 + l.1 < start), "ranges do not overlap");
                out.push((start, len));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn geometry() -> Geometry {
        Geometry::new(ByteLen::mib(64), ByteLen::mib(4)).unwrap()
    }

    #[test]
    fn two_planes_alternate() {
        let g = geometry();
        let e = ExtentId(3);
        let mut v = Versions::default();
        let mut live: BTreeMap<Epoch, ()> = BTreeMap::new();
        let mut current = v.choose(&g, e, None, [None; 2]).unwrap();
        assert_eq!(current, Choice { plane: 0, spare: false });
        for epoch in 1..50 {
            // Published at `epoch`; the manifest before it goes.
            live.insert(Epoch(epoch), ());
            if live.remove(&Epoch(epoch - 1)).is_some() {
                v.manifest_gone(&g, &live, Epoch(epoch - 1));
            }
            let next = v.choose(&g, e, Some(current.plane), [None; 2]).unwrap();
            assert_eq!(next.plane, (epoch % 2) as u32);
            assert_eq!(next.spare, epoch > 1, "the other plane keeps its memory");
            v.free(&g, &live, (e, current.plane), Epoch(epoch), Epoch(epoch + 1));
            current = next;
            v.check(&g);
        }
    }

    #[test]
    fn spare_memory_is_taken_in_merged_ranges() {
        let g = geometry();
        let mut v = Versions::default();
        for e in [70, 65, 66, 64] {
            v.add_spare(&g, ExtentId(e), 1);
        }
        assert_eq!(v.spare_bytes(), ByteLen::mib(8));
        assert!(v.take_spare(&g, ByteLen::mib(8), ByteLen::gib(1), |_, _| true).is_empty());
        let all = v.take_spare(&g, ByteLen(0), ByteLen::gib(1), |_, _| true);
        let base = g.reserve().0 + g.small_zone().0;
        assert_eq!(all, [(base, 6 << 20), (base + (12 << 20), 2 << 20)]);
        assert_eq!(v.spare_bytes(), ByteLen(0));
        v.check(&g);
    }

    /// Random frees, publishes and departures against a model that looks at every version after
    /// every step.
    #[test]
    fn agrees_with_the_interval_rule() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        let g = geometry();
        let mut v = Versions::default();
        let mut live: BTreeMap<Epoch, ()> = BTreeMap::new();
        let mut next = Epoch(1);
        // extent -> current (plane, born); and all retired ones.
        let mut current: HashMap<ExtentId, (u32, Epoch)> = HashMap::new();
        let mut model: Vec<(ExtentId, u32, Epoch, Epoch)> = Vec::new();
        for _ in 0..if cfg!(miri) { 5 } else { 20_000 } {
            match rng.u8(0..10) {
                0..=4 => {
                    let e = ExtentId(rng.u32(60..70));
                    let old = current.get(&e).copied();
                    if let Some((plane, born)) = old {
                        if !live.contains_key(&born) && !visible(&live, born, Epoch(u64::MAX)) {
                            continue; // In place.
                        }
                        let prefer = [rng.u32(0..4), rng.u32(0..4)].map(Some);
                        let c = v.choose(&g, e, Some(plane), prefer).unwrap();
                        let clash = |m: &&(ExtentId, u32, Epoch, Epoch)| m.0 == e && m.1 == c.plane;
                        assert!(model.iter().find(clash).is_none(), "INV-AREA-1");
                        v.free(&g, &live, (e, plane), born, next);
                        if visible(&live, born, next) {
                            model.push((e, plane, born, next));
                        }
                        current.insert(e, (c.plane, next));
                    } else {
                        let c = v.choose(&g, e, None, [None; 2]).unwrap();
                        current.insert(e, (c.plane, next));
                    }
                }
                5..=6 => {
                    live.insert(next, ());
                    next = next.next();
                }
                7..=8 if !live.is_empty() => {
                    let epochs: Vec<Epoch> = live.keys().copied().collect();
                    let gone = epochs[rng.usize(..epochs.len())];
                    live.remove(&gone);
                    v.manifest_gone(&g, &live, gone);
                    model.retain(|m| live.keys().any(|l| m.2 <= *l && *l < m.3));
                }
                _ => {
                    v.take_spare(&g, ByteLen::mib(4), ByteLen::mib(4), |_, _| true);
                }
            }
            v.check(&g);
            let bytes: u64 = model.iter().map(|m| g.len(m.0).0).sum();
            assert_eq!(v.retired_bytes(), ByteLen(bytes));
        }
    }
}
