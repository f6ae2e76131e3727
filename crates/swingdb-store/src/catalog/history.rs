//! Which state of a database came from which: how a state in memory and one on a disk compare.
//!
//! A *branch* is the life of a database in one area: the area has one writer, so the versions of a
//! branch follow one another, and a version names one state. When a state is read from a store into
//! memory, a new branch begins there, and the old one becomes an ancestor up to that version. So
//! one state descends from another if the other's branch is its own, or an ancestor of its, up to a
//! version at least as great (INV-DB-11).

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};

use swingdb_common::error::Result;

use crate::codec::{Reader, Writer};
use crate::errors::area::corrupt;

/// The most ancestors that a history keeps: one is added each time a store is read into memory. A
/// state whose common ancestor is older counts as one of another database.
const MAX_ANCESTORS: usize = 256;

/// How one state stands to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    /// They are one state.
    Same,
    /// The other is an earlier state of this one.
    After,
    /// This is an earlier state of the other.
    Before,
    /// Both come from one database, and each has changes that the other does not have.
    Diverged,
    /// They have nothing in common.
    Unrelated,
}

/// A branch, and the branches that it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct History {
    branch: u128,
    /// Oldest first, each with the last version that belongs to this history.
    ancestors: Vec<(u128, u64)>,
}

impl History {
    /// The history of a database that comes from nothing.
    pub fn new() -> Self {
        Self { branch: random(), ancestors: Vec::new() }
    }

    /// The history of what goes on from `version` of this one, elsewhere.
    pub fn branch_at(&self, version: u64) -> Self {
        let mut ancestors = self.ancestors.clone();
        ancestors.push((self.branch, version));
        let surplus = ancestors.len().saturating_sub(MAX_ANCESTORS);
        ancestors.drain(..surplus);
        Self { branch: random(), ancestors }
    }

    /// How version `version` of this history stands to version `other_version` of `other`.
    pub fn relation(&self, version: u64, other: &Self, other_version: u64) -> Relation {
        let (back, forth) =
            (self.has(version, other, other_version), other.has(other_version, self, version));
        match (back, forth) {
            (true, true) => Relation::Same,
            (true, false) => Relation::After,
            (false, true) => Relation::Before,
            (false, false) => {
                let common = self.branches().any(|own| other.branches().any(|one| one == own));
                if common { Relation::Diverged } else { Relation::Unrelated }
            }
        }
    }

    /// Whether `version` of this history is, or comes from, `other_version` of `other`.
    fn has(&self, version: u64, other: &Self, other_version: u64) -> bool {
        let own = std::iter::once((self.branch, version));
        let mut all = own.chain(self.ancestors.iter().copied());
        all.any(|(branch, last)| branch == other.branch && other_version <= last)
    }

    fn branches(&self) -> impl Iterator<Item = u128> {
        std::iter::once(self.branch).chain(self.ancestors.iter().map(|(branch, _)| *branch))
    }

    pub fn write(&self, w: &mut Writer) {
        w.i128(self.branch as i128);
        w.len(self.ancestors.len());
        for (branch, version) in &self.ancestors {
            w.i128(*branch as i128);
            w.u64(*version);
        }
    }

    pub fn read(r: &mut Reader<'_>) -> Result<Self> {
        let branch = r.i128()? as u128;
        let ancestors = r.list(|r| Ok((r.i128()? as u128, r.u64()?)))?;
        if ancestors.len() > MAX_ANCESTORS {
            return Err(corrupt(format!("a history of {} branches", ancestors.len())));
        }
        Ok(Self { branch, ancestors })
    }
}

/// A number that no other branch has. The keys of the standard library's hashers come from the
/// system's random numbers; a forked child has its parent's, so process and time take part.
fn random() -> u128 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let half = |salt: u8| {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u8(salt);
        hasher.write_u32(std::process::id());
        hasher.write_u128(now.as_nanos());
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_on_from_a_state_descends_from_it() {
        let first = History::new();
        assert_eq!(first.relation(5, &first, 5), Relation::Same);
        assert_eq!(first.relation(6, &first, 5), Relation::After);
        assert_eq!(first.relation(4, &first, 5), Relation::Before);
        let second = first.branch_at(5);
        assert_eq!(second.relation(5, &first, 5), Relation::After);
        assert_eq!(first.relation(3, &second, 9), Relation::Before);
        assert_eq!(second.relation(9, &first, 6), Relation::Diverged);
        let other = first.branch_at(5);
        assert_eq!(second.relation(5, &other, 5), Relation::Diverged);
        assert_eq!(second.relation(5, &History::new(), 5), Relation::Unrelated);
    }

    #[test]
    fn a_history_reads_as_written_and_is_bounded() {
        let mut history = History::new();
        for version in 0..MAX_ANCESTORS as u64 + 9 {
            history = history.branch_at(version);
        }
        assert_eq!(history.ancestors.len(), MAX_ANCESTORS);
        let mut w = Writer::default();
        history.write(&mut w);
        let bytes = w.into_bytes();
        assert_eq!(History::read(&mut Reader::part(&bytes)).unwrap(), history);
        assert!(History::read(&mut Reader::part(&bytes[..bytes.len() - 1])).is_err());
    }
}
