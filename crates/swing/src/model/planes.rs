//! Which planes of each extent are not free: a table by the extents' numbers.
//!
//! When a live hook has superseded a state, thousands of extents get a spare plane at once, while
//! the processor's caches are full of what the program stores. So neighbours lie side by side, and
//! an extent with a few versions takes no allocation of its own.

use crate::model::geometry::MAX_PLANES;
use crate::model::sparse::Sparse;
use crate::model::units::ExtentId;

/// Planes of one extent that need no allocation.
const FEW: usize = 3;

/// A plane that is not free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    plane: u16,
    /// Nobody sees it any more; otherwise it is retired.
    spare: bool,
}

const _: () = assert!(MAX_PLANES - 1 <= u16::MAX as u32);

/// The planes of one extent that are not free, in the order in which they became what they are.
#[derive(Clone, Debug)]
pub(crate) enum Planes {
    Few(u8, [Taken; FEW]),
    Many(Vec<Taken>),
}

impl Default for Planes {
    fn default() -> Self {
        Self::Few(0, [Taken { plane: 0, spare: false }; FEW])
    }
}

impl Planes {
    fn all(&self) -> &[Taken] {
        match self {
            Self::Few(count, few) => &few[..usize::from(*count)],
            Self::Many(many) => many,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all().is_empty()
    }

    pub(crate) fn is_spare(&self, plane: u32) -> bool {
        self.all().iter().any(|t| t.spare && u32::from(t.plane) == plane)
    }

    pub(crate) fn is_retired(&self, plane: u32) -> bool {
        self.all().iter().any(|t| !t.spare && u32::from(t.plane) == plane)
    }

    /// The spare ones, the latest first.
    pub(crate) fn spare(&self) -> impl Iterator<Item = u32> + '_ {
        self.all().iter().rev().filter(|t| t.spare).map(|t| u32::from(t.plane))
    }

    /// Adds a plane that was free.
    pub(crate) fn add(&mut self, plane: u32, spare: bool) {
        assert!(plane < MAX_PLANES, "it came from a plane");
        let known = self.all().iter().any(|t| u32::from(t.plane) == plane);
        assert!(!known, "INV-AREA-2: one version is in one state");
        let new = Taken { plane: plane as u16, spare };
        match self {
            Self::Few(count, few) if usize::from(*count) < FEW => {
                few[usize::from(*count)] = new;
                *count += 1;
            }
            Self::Few(_, few) => *self = Self::Many(few.iter().copied().chain([new]).collect()),
            Self::Many(many) => many.push(new),
        }
    }

    /// Frees a plane; `false` when it is not what `spare` says.
    pub(crate) fn remove(&mut self, plane: u32, spare: bool) -> bool {
        let meant = |t: &Taken| u32::from(t.plane) == plane && t.spare == spare;
        let Some(at) = self.all().iter().position(meant) else { return false };
        match self {
            Self::Few(count, few) => {
                few.copy_within(at + 1..usize::from(*count), at);
                *count -= 1;
            }
            Self::Many(many) if many.len() == 1 => *self = Self::default(),
            Self::Many(many) => drop(many.remove(at)),
        }
        true
    }
}

/// The planes of all extents.
#[derive(Debug, Default)]
pub(crate) struct PlaneTable(Sparse<Planes>);

impl PlaneTable {
    /// The planes of an extent, unless all are free.
    pub(crate) fn get(&self, extent: ExtentId) -> Option<&Planes> {
        self.0.get(extent).filter(|planes| !planes.is_empty())
    }

    pub(crate) fn get_mut(&mut self, extent: ExtentId) -> &mut Planes {
        self.0.get_mut(extent)
    }

    /// The extents with planes that are not free, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ExtentId, &Planes)> {
        self.0.iter().filter(|(_, planes)| !planes.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn an_entry_is_small() {
        assert_eq!(size_of::<Planes>(), 24);
    }

    #[test]
    fn agrees_with_a_list() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut table = PlaneTable::default();
        let mut model: BTreeMap<u32, Vec<(u32, bool)>> = BTreeMap::new();
        for _ in 0..if cfg!(miri) { 10 } else { 20_000 } {
            let (extent, plane) = (rng.u32(0..8) * 300, rng.u32(0..6) * (MAX_PLANES - 1) / 5);
            let spare = rng.bool();
            let listed = model.entry(extent).or_default();
            let entry = table.get_mut(ExtentId(extent));
            match listed.iter().position(|(p, _)| *p == plane) {
                None => {
                    assert!(!entry.remove(plane, spare));
                    entry.add(plane, spare);
                    listed.push((plane, spare));
                }
                Some(at) => {
                    let is = listed[at].1 == spare;
                    assert_eq!(entry.remove(plane, spare), is);
                    listed.retain(|(p, _)| !(is && *p == plane));
                }
            }
            let spares = |(plane, spare): &(u32, bool)| spare.then_some(*plane);
            let expected: Vec<u32> = listed.iter().rev().filter_map(spares).collect();
            assert_eq!(entry.spare().collect::<Vec<_>>(), expected);
            for (plane, spare) in listed.iter() {
                assert_eq!((entry.is_spare(*plane), entry.is_retired(*plane)), (*spare, !*spare));
            }
            let known = model.iter().filter(|(_, l)| !l.is_empty()).map(|(e, _)| ExtentId(*e));
            assert!(table.iter().map(|(e, _)| e).eq(known));
            assert_eq!(table.get(ExtentId(extent)).is_none(), model[&extent].is_empty());
        }
    }
}
