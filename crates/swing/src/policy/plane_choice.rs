//! Choosing the plane for an extent's next version: one function for the write barrier and for
//! trapped stores, whose plane is decided ahead.
//!
//! A plane is free if it holds neither the present version nor a version that a live manifest
//! shows. The first free plane in this order is taken:
//!
//! 1. in a tracked area nearly all of which is stored to in each interval: the plane of the
//!    interval ([`super::alternation`]);
//! 2. in a tracked area, for an extent that lies apart from nearly all around it: any plane but
//!    theirs;
//! 3. the plane of a neighbour, so that both are one mapping: always in the small zone, where a
//!    copy is cheap; elsewhere if that takes no further memory;
//! 4. the plane whose memory became spare last;
//! 5. the lowest plane.
//!
//! In a tracked area a spare plane beyond the first two is left for a neighbour's plane. So an
//! extent that had to go through a third plane does not come back to it.

use crate::model::extent_word::{self, FROZEN, IN_PLACE, NO_PLANE, PLANNED, PRIVATE, UNARMED};
use crate::model::geometry::Geometry;
use crate::model::old_versions::{Choice, Versions};
use crate::model::own_versions::OwnTable;
use crate::model::units::{Epoch, ExtentId};
use crate::policy::alternation::{Alternation, back_in_step, in_step};

/// Extents on each side of one that say where nearly all around it lie.
const CROWD: u32 = 4;

/// The tables that a choice looks at.
pub(crate) struct Look<'a> {
    pub geometry: &'a Geometry,
    pub own: &'a OwnTable,
    pub versions: &'a Versions,
    /// In a tracked area.
    pub tracked: Option<Tracking<'a>>,
}

/// What is known besides where stores are tracked.
pub(crate) struct Tracking<'a> {
    pub alternation: &'a Alternation,
    pub next_epoch: Epoch,
    /// Whether what lies apart goes through a third plane.
    pub rejoining: bool,
    /// The word of an extent, where the plane of its next version may stand.
    pub words: &'a dyn Fn(ExtentId) -> u32,
}

/// The plane for the next version of an extent whose present version lies in `current`; `None` when
/// none is free. `beside` are the planes of its neighbours at the time when it gets that version.
pub(crate) fn choose(
    look: &Look<'_>,
    extent: ExtentId,
    current: Option<u32>,
    beside: [Option<u32>; 2],
) -> Option<Choice> {
    let &Look { geometry, own, versions, ref tracked } = look;
    let (Some(tracked), Some(now)) = (tracked, current) else {
        return versions.peek(geometry, extent, current, beside);
    };
    let words = tracked.words;
    if extent_word::state_of(words(extent)) == FROZEN {
        let step = in_step(tracked.alternation, versions, tracked.next_epoch, extent, now);
        if step.is_some() {
            return step;
        }
    }
    if !tracked.rejoining {
        return versions.peek(geometry, extent, current, beside);
    }
    if let Some(crowd) = look.crowd(extent, now) {
        return versions.peek_apart(extent, current, crowd);
    }
    let choice = versions.peek(geometry, extent, current, beside)?;
    back_in_step(own, versions, words, extent, now, &choice).or(Some(choice))
}

impl Look<'_> {
    /// The planes of an extent's neighbours in a tracked area at the time when the extent gets its
    /// next version: so that what is stored to between two publishes lies in one plane, and is one
    /// mapping.
    pub(crate) fn beside(&self, extent: ExtentId) -> [Option<u32>; 2] {
        [extent.0.checked_sub(1), Some(extent.0 + 1)]
            .map(|e| self.plane_beside(extent, ExtentId(e?)))
    }

    fn plane_beside(&self, extent: ExtentId, beside: ExtentId) -> Option<u32> {
        if beside.0 >= self.geometry.extent_count() {
            return None;
        }
        let present = || self.own.get(beside).map(|own| own.plane);
        let Some(tracked) = &self.tracked else { return present() };
        let (word, mine) = ((tracked.words)(beside), (tracked.words)(extent));
        let planned = match extent_word::state_of(word) {
            // Both have been stored to since the last publish, or neither: they go on together.
            PRIVATE => extent_word::state_of(mine) == PRIVATE && word & PLANNED != 0,
            FROZEN => {
                word & (UNARMED | NO_PLANE) == 0 && (word & IN_PLACE == 0 || word & PLANNED != 0)
            }
            _ => false,
        };
        if planned { Some(extent_word::plane_of(word)) } else { present() }
    }

    /// The plane of nearly all extents around one that lies in another. The extent that a sweep was
    /// in when a publish came is stored to twice and so out of step with the others, for good if
    /// all only alternate: it has to go through a third plane, or costs each hook a mapping.
    fn crowd(&self, extent: ExtentId, current: u32) -> Option<u32> {
        let plane = |e: u32| self.own.get(ExtentId(e)).map(|own| own.plane);
        let crowd = plane(extent.0 + 1).filter(|p| *p != current);
        let crowd = crowd.or_else(|| plane(extent.0.checked_sub(1)?)).filter(|p| *p != current)?;
        let around = (extent.0.saturating_sub(CROWD)..extent.0)
            .chain(extent.0 + 1..=extent.0 + CROWD)
            .filter(|e| plane(*e) == Some(crowd));
        (around.count() >= 2 * CROWD as usize - 1).then_some(crowd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::extent_word::{SPARE, plane_bits};
    use crate::model::own_versions::Own;
    use crate::model::units::ByteLen;

    const PLANES: u32 = 8;
    /// Of both zones.
    const EXTENTS: u32 = 48;

    /// All planes of all extents in plain lists, and the order of the module's documentation as a
    /// list of what is tried one after the other.
    struct Model {
        /// Planes in the order in which they became what they are; `true`: spare.
        planes: Vec<Vec<(u32, bool)>>,
        own: Vec<Option<u32>>,
        words: Vec<u32>,
        tracked: bool,
        alternation: Option<(u32, u32)>,
        next_epoch: u64,
        rejoining: bool,
    }

    impl Model {
        /// The first 2 MiB are small extents of 64 KiB: 32 of them.
        fn is_small(&self, e: usize) -> bool {
            e < 32
        }

        fn is_free(&self, e: usize, plane: u32) -> bool {
            self.own[e] != Some(plane) && !self.planes[e].contains(&(plane, false))
        }

        fn is_spare(&self, e: usize, plane: u32) -> bool {
            self.planes[e].contains(&(plane, true))
        }

        fn lowest(&self, e: usize, but: Option<u32>) -> Option<u32> {
            (0..).find(|p| self.is_free(e, *p) && Some(*p) != but)
        }

        fn crowd(&self, e: usize, now: u32) -> Option<u32> {
            let at = |e: usize| self.own.get(e).copied().flatten();
            let other = |e: Option<usize>| e.and_then(at).filter(|p| *p != now);
            let crowd = other(Some(e + 1)).or_else(|| other(e.checked_sub(1)))?;
            let around = (e.saturating_sub(4)..=e + 4).filter(|o| *o != e && at(*o) == Some(crowd));
            (around.count() >= 7).then_some(crowd)
        }

        /// A part of the area has its turn in one of 17 epochs.
        fn in_step(&self, e: usize, now: u32) -> Option<u32> {
            let (target, part) = self.alternation?;
            let turn = (e as u64 / u64::from(part) + self.next_epoch).is_multiple_of(17);
            if now == target {
                return if turn { self.apart(e, 1 - target) } else { None };
            }
            let may = self.is_spare(e, target) || turn || now > 1;
            (may && self.is_free(e, target)).then_some(target)
        }

        fn apart(&self, e: usize, crowd: u32) -> Option<u32> {
            let latest = self.planes[e].iter().rev().find(|(p, s)| *s && *p != crowd);
            latest.map(|(p, _)| *p).or_else(|| self.lowest(e, Some(crowd)))
        }

        fn usual(&self, e: usize, beside: [Option<u32>; 2]) -> Option<u32> {
            let latest = self.planes[e].iter().rev().find(|(_, spare)| *spare).map(|(p, _)| *p);
            let cheap = |p| self.is_small(e) || latest.is_none() || self.is_spare(e, p);
            let joins = beside.into_iter().flatten().find(|p| self.is_free(e, *p) && cheap(*p));
            joins.or(latest).or_else(|| self.lowest(e, None))
        }

        fn back(&self, e: usize, now: u32, plane: u32) -> Option<u32> {
            let neighbours = [e.checked_sub(1), Some(e + 1)].into_iter().flatten();
            let held = |n: usize| {
                let word = *self.words.get(n)?;
                let plan = word >> 12;
                let is_held = word & 7 == FROZEN && word & (SPARE | UNARMED) == SPARE;
                (self.own[n] == Some(now) && is_held && plan <= 1 && plan != now).then_some(plan)
            };
            let plan = neighbours.filter(|n| *n < self.own.len()).find_map(held);
            plan.filter(|p| plane > 1 && self.is_spare(e, plane) && self.is_not_retired(e, *p))
        }

        fn is_not_retired(&self, e: usize, plane: u32) -> bool {
            !self.planes[e].contains(&(plane, false))
        }

        fn choose(&self, e: usize, beside: [Option<u32>; 2]) -> Option<(u32, bool)> {
            let with_spare = |plane| (plane, self.is_spare(e, plane));
            let (true, Some(now)) = (self.tracked, self.own[e]) else {
                return self.usual(e, beside).map(with_spare);
            };
            if self.words[e] & 7 == FROZEN
                && let Some(plane) = self.in_step(e, now)
            {
                return Some(with_spare(plane));
            }
            if !self.rejoining {
                return self.usual(e, beside).map(with_spare);
            }
            if let Some(crowd) = self.crowd(e, now) {
                return self.apart(e, crowd).map(with_spare);
            }
            let plane = self.usual(e, beside)?;
            Some(with_spare(self.back(e, now, plane).unwrap_or(plane)))
        }
    }

    /// Random tables, and the same as a model.
    fn random(rng: &mut fastrand::Rng, geometry: &Geometry) -> (Model, OwnTable, Versions) {
        let (mut own, mut versions) = (OwnTable::default(), Versions::default());
        let mut model = Model {
            planes: vec![Vec::new(); EXTENTS as usize],
            own: vec![None; EXTENTS as usize],
            words: Vec::new(),
            tracked: rng.bool(),
            alternation: rng.bool().then(|| (rng.u32(0..2), rng.u32(1..4))),
            next_epoch: rng.u64(2..100),
            rejoining: rng.bool(),
        };
        // Often most lie in one plane, so that there are crowds and neighbours in step.
        let usual = rng.u32(0..3);
        for e in 0..EXTENTS as usize {
            let extent = ExtentId(e as u32);
            let current = if rng.u8(0..4) > 0 { usual } else { rng.u32(0..PLANES) };
            if rng.u8(0..8) > 0 {
                own.set(extent, Some(Own { plane: current, born: Epoch(1) }));
                model.own[e] = Some(current);
            }
            let mut planes: Vec<u32> = (0..PLANES).filter(|p| model.own[e] != Some(*p)).collect();
            rng.shuffle(&mut planes);
            for plane in planes.into_iter().take(rng.usize(0..PLANES as usize)) {
                let spare = rng.bool();
                match spare {
                    true => versions.add_spare(geometry, extent, plane),
                    false => versions.retire(geometry, extent, plane, Epoch(1), Epoch(2)),
                }
                model.planes[e].push((plane, spare));
            }
            let state = [FROZEN, PRIVATE, 0, FROZEN][rng.usize(0..4)];
            let flags = [SPARE, SPARE | PLANNED, UNARMED, IN_PLACE, NO_PLANE][rng.usize(0..5)];
            model.words.push(state | flags | plane_bits(rng.u32(0..3)));
        }
        (model, own, versions)
    }

    #[test]
    fn the_choice_is_that_of_a_list_of_rules() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        // Small extents and large ones: some of the first lie in the small zone.
        let geometry = Geometry::with_extent(ByteLen::mib(64), ByteLen::mib(2), ByteLen::mib(2));
        let geometry = geometry.unwrap();
        let mut met = [0; 4];
        for _ in 0..if cfg!(miri) { 2 } else { 2000 } {
            let (model, own, versions) = random(&mut rng, &geometry);
            let words = |e: ExtentId| model.words.get(e.0 as usize).copied().unwrap_or(0);
            let alternation = Alternation::of(model.alternation);
            let tracked = model.tracked.then_some(Tracking {
                alternation: &alternation,
                next_epoch: Epoch(model.next_epoch),
                rejoining: model.rejoining,
                words: &words,
            });
            let look = Look { geometry: &geometry, own: &own, versions: &versions, tracked };
            for e in 0..EXTENTS as usize {
                let beside = [(); 2].map(|()| rng.bool().then(|| rng.u32(0..PLANES)));
                let current = model.own[e];
                let chosen = choose(&look, ExtentId(e as u32), current, beside);
                let expected = model.choose(e, beside);
                assert_eq!(chosen.map(|c| (c.plane, c.spare)), expected, "extent {e}, {seed}");
                let chosen = chosen.expect("there are more planes than versions");
                assert!(model.is_free(e, chosen.plane), "INV-AREA-1: nobody sees it");
                let now = current.unwrap_or(PLANES);
                met[0] += usize::from(model.tracked && model.in_step(e, now).is_some());
                let rejoins = model.tracked && model.rejoining;
                met[1] += usize::from(rejoins && model.crowd(e, now).is_some());
                met[2] += usize::from(beside.contains(&Some(chosen.plane)));
                let usual = model.usual(e, beside).filter(|_| rejoins);
                met[3] += usize::from(usual.is_some_and(|p| model.back(e, now, p).is_some()));
            }
        }
        // Few rounds meet few of them.
        let every = cfg!(miri) || met.iter().all(|times| *times > 100);
        assert!(every, "every rule has been met: {met:?}");
    }
}
