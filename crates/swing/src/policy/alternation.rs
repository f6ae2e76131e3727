//! Extents that alternate between two planes, and extents that are out of step.
//!
//! If a program stores to nearly all of its memory between any two live hooks, each extent
//! alternates between two planes, and each state lies in one plane: one mapping. An extent that was
//! left out once is out of step from then on. After an interval with few stores half of all extents
//! are: thousands of mappings for each hook, for good.
//!
//! So, where nearly all extents are stored to in each interval, all extents go to the first plane
//! and the second by turns. Extents that are out of step go through a third plane once. That takes
//! memory that they do not have yet, so only a part of the area does it at a time, neighbours
//! together, since extents out of step often are. The memory that they leave is given back like any
//! other spare memory.

use crate::model::extent_word::{self, FROZEN, SPARE, UNARMED};
use crate::model::geometry::Geometry;
use crate::model::old_versions::{Choice, Versions};
use crate::model::own_versions::OwnTable;
use crate::model::runs::RunMap;
use crate::model::units::{Epoch, ExtentId};

/// One in so many parts of the area may get in step between two publishes. Odd, so that each has
/// its turn with either target.
const TURNS: u64 = 17;

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Alternation {
    /// Where the versions go that are stored after the newest publish, 0 or 1; `None` where not
    /// nearly all of the area was stored to in each of the last two intervals.
    target: Option<u32>,
    /// Extents that have their turn together.
    part: u32,
}

impl Alternation {
    /// With this target, and so many extents in a part.
    #[cfg(test)]
    pub(crate) fn of(target_and_part: Option<(u32, u32)>) -> Self {
        let (target, part) = target_and_part.unzip();
        Self { target, part: part.unwrap_or_default() }
    }

    /// A publish of an area, after it is known what was rewritten.
    pub(crate) fn turn(&mut self, runs: &RunMap, rewritten: u64, geometry: &Geometry) {
        let plane_len = geometry.reserve().0;
        let own = runs.bytes_of(0);
        let target = if own == 0 || rewritten < own - own / 8 {
            None
        } else if let Some(last) = self.target {
            Some(1 - last)
        } else {
            // Most are in step already.
            let in_first = runs.iter().filter(|run| run.source == 0);
            let in_first = in_first.filter(|run| run.file_offset < plane_len).map(|run| run.len);
            Some(u32::from(in_first.sum::<u64>() > own / 2))
        };
        let part = (own / geometry.data_extent().0 / TURNS).clamp(1, u32::MAX.into()) as u32;
        *self = Self { target, part };
    }
}

/// Where the next version of a frozen extent goes to get in step; `None`: as usual.
pub(crate) fn in_step(
    alternation: &Alternation,
    versions: &Versions,
    next_epoch: Epoch,
    extent: ExtentId,
    current: u32,
) -> Option<Choice> {
    let target = alternation.target?;
    let part = extent.0 / alternation.part;
    let in_turn = (u64::from(part) + next_epoch.0).is_multiple_of(TURNS);
    if current == target {
        return in_turn.then(|| versions.peek_apart(extent, Some(current), 1 - target))?;
    }
    // In one of the two it is in step already, but may have its spare memory elsewhere.
    let choice = versions.peek_in(extent, target)?;
    (choice.spare || in_turn || current > 1).then_some(choice)
}

/// Where the next version of an extent goes instead of to `choice`, so that it stays in step with a
/// neighbour that alternates between the first two planes, in memory that is held for it. After a
/// way through a third plane (`Core::crowd`) the extent has its spare memory there, and would come
/// back to it every other time: it takes other memory once. What it leaves is given back like any
/// other spare memory.
pub(crate) fn back_in_step(
    own: &OwnTable,
    versions: &Versions,
    word_of: impl Fn(ExtentId) -> u32,
    extent: ExtentId,
    current: u32,
    choice: &Choice,
) -> Option<Choice> {
    if choice.plane <= 1 || !choice.spare {
        return None;
    }
    let neighbours = [extent.0.checked_sub(1), Some(extent.0 + 1)];
    let plan = neighbours.into_iter().flatten().map(ExtentId).find_map(|neighbour| {
        let own = own.get(neighbour).filter(|own| own.plane == current)?;
        let word = word_of(neighbour);
        let plan = extent_word::plane_of(word);
        let held = extent_word::state_of(word) == FROZEN && word & (SPARE | UNARMED) == SPARE;
        (held && plan <= 1 && plan != own.plane).then_some(plan)
    })?;
    versions.peek_in(extent, plan)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::model::extent_word;
    use crate::model::units::ExtentId;
    use crate::policy::switches::Switches;
    use crate::publish::protocol::Publish;
    use crate::{Area, AreaName, AreaOptions, ByteLen, Namespace};

    const EXTENTS: u64 = 64;
    /// Intervals in which each extent has its turn.
    const LONG: usize = 3 * super::TURNS as usize;

    fn store(area: &Area, extents: impl Iterator<Item = u64>) {
        for start in extents.map(|e| e * ByteLen::kib(64).0) {
            // SAFETY: inside the tracked area; nobody else stores.
            unsafe { area.base().as_ptr().add(start as usize).write_volatile(7) };
        }
    }

    fn every(step: usize) -> impl Iterator<Item = u64> {
        (0..EXTENTS).step_by(step)
    }

    /// The planes of the runs of each state in which every so many extents are stored to, after
    /// one in which only some were.
    fn planes_after(
        switches: Switches,
        some: impl Iterator<Item = u64>,
        intervals: usize,
        step: usize,
    ) -> Vec<Vec<u64>> {
        let dir = tempfile::tempdir().unwrap();
        let area = area(dir.path(), switches);
        for _ in 0..4 {
            store(&area, every(1));
            area.publish(Publish::Shared, b"").unwrap();
        }
        store(&area, some);
        area.publish(Publish::Shared, b"").unwrap();
        let interval = |_| {
            store(&area, every(step));
            planes(&area)
        };
        (0..intervals).map(interval).collect()
    }

    fn area(home: &Path, switches: Switches) -> Area {
        let ns = Namespace::open(home).unwrap().with_switches(switches);
        let options = AreaOptions {
            small_zone: ByteLen(0),
            extent: ByteLen::kib(64),
            ..AreaOptions::with_reserve(ByteLen::mib(64))
        };
        let area = ns.create(&AreaName::new("alternation").unwrap(), &options).unwrap();
        area.track().unwrap();
        area
    }

    /// Publishes; the planes of the runs.
    fn planes(area: &Area) -> Vec<u64> {
        area.publish(Publish::Shared, b"").unwrap();
        let state = area.core.lock_for_change().unwrap();
        state.runs.iter().map(|run| run.file_offset / area.geometry().reserve().0).collect()
    }

    #[test]
    fn what_is_out_of_step_gets_in_step_where_everything_is_stored_to() {
        let states = planes_after(Switches::ON, every(2), LONG, 1);
        assert!(states[0].len() >= EXTENTS as usize / 2, "{states:?}");
        assert_eq!(states.last().unwrap().len(), 1, "{states:?}");
        let off = Switches { alternation: false, ..Switches::ON };
        let states = planes_after(off, every(2), LONG, 1);
        assert!(states.iter().all(|state| state.len() >= EXTENTS as usize / 2), "{states:?}");
    }

    #[test]
    fn what_is_one_piece_is_not_scattered_on_the_way() {
        let states = planes_after(Switches::ON, 0..EXTENTS / 2, LONG, 1);
        assert!(states.iter().all(|state| state.len() <= 6), "{states:?}");
        assert_eq!(states[0].len(), 2, "{states:?}");
        assert_eq!(states.last().unwrap().len(), 1, "{states:?}");
    }

    #[test]
    fn where_much_is_left_out_nothing_goes_through_a_third_plane() {
        let states = planes_after(Switches::ON, every(2), LONG, 3);
        assert!(states.iter().flatten().all(|plane| *plane < 2), "{states:?}");
    }

    #[test]
    fn what_has_been_through_a_third_plane_does_not_come_back_to_it() {
        for (rejoining, around, third, expected) in
            [(true, 1, 2, 1), (true, 1, 1, 1), (true, 3, 2, 2), (false, 1, 2, 2)]
        {
            let dir = tempfile::tempdir().unwrap();
            let area = area(dir.path(), Switches { rejoining, ..Switches::ON });
            store(&area, 0..3);
            area.publish(Publish::Shared, b"").unwrap();
            let (core, middle) = (&area.core, ExtentId(1));
            let mut state = core.lock_for_change().unwrap();
            assert!((0..3).all(|e| state.own.get(ExtentId(e)).unwrap().plane == 0));
            // The memory held for the next versions.
            for (extent, plane) in [(0, around), (1, third), (2, around)] {
                state.versions.add_spare(area.geometry(), ExtentId(extent), plane);
            }
            for extent in [0, 2, 1] {
                core.arm(&mut state, ExtentId(extent), false);
            }
            let case = format!("{rejoining} {around} {third}");
            assert_eq!(extent_word::plane_of(core.words.word(middle)), expected, "{case}");
            drop(state);
            store(&area, 0..3);
            area.publish(Publish::Shared, b"").unwrap();
            let state = core.lock_for_change().unwrap();
            assert_eq!(state.own.get(middle).unwrap().plane, expected, "{case}");
            // SAFETY: inside the area; nobody stores.
            let stored = unsafe { area.base().as_ptr().add(64 << 10).read_volatile() };
            assert_eq!(stored, 7, "{case}");
        }
    }
}
