//! PRIMARY KEY and UNIQUE.
//!
//! Three ways, the cheapest first. New keys that ascend strictly and lie outside the bounds of
//! every segment (serial numbers, times) need nothing else. Otherwise the hashes of all keys of the
//! table are kept in the process, across statements; what a transaction adds and removes is logged,
//! so that a rollback takes it back. A hash that is there already is checked against the rows
//! themselves: a collision never refuses a row, and never lets a duplicate in.
//!
//! Keys of many rows are compared, hashed and put into the sets on several threads: a set is in
//! shards by some bits of the hashes, and one thread at a time works on a shard.
//!
//! # Memory and interrupts
//! What a statement adds to the sets, and what it takes to check keys, is asked for from the memory
//! of its session until its transaction ends ([`Taken`]). A set that stays afterwards is the
//! database's, and counted by nobody. All that takes long asks between pieces whether the statement
//! goes on. A set in which such a piece is missing is thrown away, and made anew when it is needed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::kernels::cmp::lt;
use parking_lot::Mutex;
use swingdb_common::error::{ConstraintKind, Error, Result};
use swingdb_common::runtime::cancel::go_on;
use swingdb_common::runtime::memory::Taken;
use swingdb_common::runtime::parallel;

use crate::catalog::definition::Constraint;
use crate::catalog::table::Table;
use crate::errors::values::shown;
use crate::keys::bounds::{Bounds, bounds_of, in_pieces, overlaps};
use crate::keys::bytes::{Keys, SHARDS, shard_of, table_bytes};
use crate::keys::locate::Wanted;
use crate::segments::parallel::in_parallel;
use crate::segments::rowids::{RowId, RowIds};
use crate::segments::segment::Segment;

/// Which constraint of which table.
type Key = (u64, usize);

/// The hash indexes of a store, and what the running transaction did to them.
#[derive(Debug, Default)]
pub(crate) struct Indexes {
    sets: HashMap<Key, KeySet>,
    log: Vec<Logged>,
    /// They are being changed; still set when that has ended in a panic.
    at_work: bool,
    /// A change has ended in a panic: the log does not say what has to be undone.
    torn: bool,
}

/// Fewer hashes than this are put into a set by one thread.
const MANY_HASHES: usize = 32_768;

/// After so many hashes it is asked whether the statement goes on.
const HASHES_AT_ONCE: usize = 65_536;

/// A rollback that would take out more hashes than these throws the set away.
const MAX_UNDONE: usize = 1 << 19;

/// Bytes of a hash in a list, and of a key in a map besides its own.
const HASH_BYTES: usize = size_of::<u64>();
const KEY_BYTES: usize = 96;

/// Hashes of all keys of one constraint.
#[derive(Debug, Default)]
struct KeySet {
    shards: [Shard; SHARDS],
}

/// Those of one shard; with a count for the few that several keys have.
#[derive(Debug, Default)]
struct Shard {
    hashes: hashbrown::HashSet<u64>,
    more: HashMap<u64, u32>,
}

/// Hashes of some keys, by shards.
#[derive(Debug, Default)]
struct Hashes([Vec<u64>; SHARDS]);

#[derive(Debug)]
enum Logged {
    Built(Key),
    Changed { key: Key, removed: Vec<Hashes>, added: Vec<Hashes> },
}

impl Hashes {
    /// Of the rows of key columns that `live` picks; a row with a NULL has none.
    fn of(columns: &[ArrayRef], memory: &Taken, live: impl Fn(usize) -> bool) -> Result<Self> {
        let keys = Keys::of(columns, memory)?;
        let mut hashes = Self::default();
        let picked = (0..keys.len()).filter(|row| live(*row)).filter_map(|row| keys.hash(row));
        picked.for_each(|hash| hashes.0[shard_of(hash)].push(hash));
        Ok(hashes)
    }

    fn all(&self) -> impl Iterator<Item = u64> {
        self.0.iter().flatten().copied()
    }

    fn count(all: &[Self]) -> usize {
        all.iter().flat_map(|hashes| &hashes.0).map(Vec::len).sum()
    }
}

impl KeySet {
    fn contains(&self, hash: u64) -> bool {
        self.shards[shard_of(hash)].hashes.contains(&hash)
    }

    fn add(&mut self, hash: u64) {
        self.shards[shard_of(hash)].add(hash);
    }

    fn remove(&mut self, hash: u64) {
        self.shards[shard_of(hash)].remove(hash);
    }

    /// Adds hashes on so many threads; those that were there already. After an error some of the
    /// hashes are in it.
    fn add_all(
        &mut self,
        threads: usize,
        added: &[Hashes],
        memory: &Taken,
    ) -> Result<HashSet<u64>> {
        let met = Mutex::new(HashSet::new());
        self.each_shard(threads, added, |shard, new| {
            shard.make_room(new.iter().map(|hashes| hashes.len()).sum(), memory)?;
            for hashes in new {
                for some in hashes.chunks(HASHES_AT_ONCE) {
                    go_on()?;
                    let known = some.iter().copied().filter(|hash| !shard.add(*hash));
                    let known: Vec<u64> = known.collect();
                    memory.grow(known.len() * KEY_BYTES)?;
                    met.lock().extend(known);
                }
            }
            Ok(())
        })?;
        Ok(met.into_inner())
    }

    /// Takes hashes out on so many threads. After an error only some of them.
    fn remove_all(&mut self, threads: usize, removed: &[Hashes]) -> Result<()> {
        self.each_shard(threads, removed, |shard, gone| {
            for some in gone.iter().flat_map(|hashes| hashes.chunks(HASHES_AT_ONCE)) {
                go_on()?;
                some.iter().for_each(|hash| shard.remove(*hash));
            }
            Ok(())
        })
    }

    /// Changes each shard by the hashes that belong to it.
    fn each_shard(
        &mut self,
        threads: usize,
        hashes: &[Hashes],
        change: impl Fn(&mut Shard, &[&[u64]]) -> Result<()> + Sync,
    ) -> Result<()> {
        let threads = if Hashes::count(hashes) < MANY_HASHES { 1 } else { threads };
        let mut shards = (0..).zip(&mut self.shards);
        let next = || Ok(shards.next());
        parallel::in_parallel(threads, next, |at, shard: &mut Shard| {
            let all = hashes.iter().map(|hashes| hashes.0[at as usize].as_slice());
            change(shard, &all.collect::<Vec<_>>())
        })
    }
}

impl Shard {
    /// Makes room for so many hashes more, and asks for its memory.
    fn make_room(&mut self, count: usize, memory: &Taken) -> Result<()> {
        let needed = self.hashes.len() + count;
        if needed > self.hashes.capacity() {
            let bytes = table_bytes::<u64>(needed);
            memory.grow(bytes.saturating_sub(self.hashes.allocation_size()))?;
            self.hashes.reserve(count);
        }
        Ok(())
    }

    /// Whether the hash is a new one.
    fn add(&mut self, hash: u64) -> bool {
        let is_new = self.hashes.insert(hash);
        if !is_new {
            *self.more.entry(hash).or_insert(0) += 1;
        }
        is_new
    }

    fn remove(&mut self, hash: u64) {
        match self.more.get_mut(&hash) {
            Some(1) => {
                self.more.remove(&hash);
            }
            Some(count) => *count -= 1,
            None => {
                self.hashes.remove(&hash);
            }
        }
    }
}

/// A change of a table as far as keys are concerned.
pub(crate) struct Change<'a> {
    /// The table before.
    pub before: &'a Table,
    /// Rows of it that go (deleted, or about to be replaced).
    pub removed: &'a RowIds,
    /// Key columns of the rows that come, for each constraint to be checked: its index, and batches
    /// of columns.
    pub added: Vec<(usize, Vec<Vec<ArrayRef>>)>,
    /// Threads that may look at the keys at one time.
    pub threads: usize,
    /// Is asked for what the check takes, and for what is noted.
    pub memory: &'a Taken,
}

impl Indexes {
    /// A point to return to.
    pub fn mark(&self) -> usize {
        self.log.len()
    }

    /// Undoes everything since `mark`.
    pub fn rollback(&mut self, mark: usize) {
        self.torn |= self.at_work;
        if self.torn {
            // Marks of before mean nothing any more.
            (self.sets, self.log, self.at_work) = Default::default();
            self.torn = mark > 0;
            return;
        }
        self.at_work = true;
        while self.log.len() > mark {
            match self.log.pop() {
                Some(Logged::Built(key)) => {
                    self.sets.remove(&key);
                }
                Some(Logged::Changed { key, removed, added }) => {
                    if Hashes::count(&removed) + Hashes::count(&added) > MAX_UNDONE {
                        // Who has interrupted a statement does not wait for as many.
                        self.sets.remove(&key);
                    } else if let Some(set) = self.sets.get_mut(&key) {
                        added.iter().flat_map(Hashes::all).for_each(|h| set.remove(h));
                        removed.iter().flat_map(Hashes::all).for_each(|h| set.add(h));
                    }
                }
                None => {}
            }
        }
        self.at_work = false;
    }

    /// Keeps what was done.
    pub fn commit(&mut self) {
        if self.at_work {
            self.sets.clear();
        }
        self.log.clear();
        (self.at_work, self.torn) = (false, false);
    }

    /// Forgets the indexes of a table whose constraints changed or that is gone.
    pub fn forget(&mut self, table: u64) {
        self.sets.retain(|(id, _), _| *id != table);
    }

    /// Checks a change; on success the indexes describe the table after it. On an error they are as
    /// before.
    pub fn apply(&mut self, change: &Change<'_>) -> Result<()> {
        let mark = self.mark();
        self.at_work = true;
        let result = change.added.iter().try_for_each(|(index, batches)| {
            let all = change.before.constraints();
            let constraint = all.get(*index).ok_or_else(|| Error::internal("no constraint"))?;
            self.apply_one(change, (change.before.id(), *index), constraint, batches)
        });
        self.at_work = false;
        if result.is_err() {
            self.rollback(mark);
        }
        result
    }

    fn apply_one(
        &mut self,
        change: &Change<'_>,
        key: Key,
        constraint: &Constraint,
        batches: &[Vec<ArrayRef>],
    ) -> Result<()> {
        let (table, threads, memory) = (change.before, change.threads, change.memory);
        let known = self.sets.contains_key(&key);
        let batches = &in_pieces(batches);
        if !known && change.removed.is_empty() && apart(table, constraint, batches, threads)? {
            return Ok(());
        }
        if !known && batches.iter().all(|b| b.first().is_none_or(|c| c.is_empty())) {
            // Rows only go: nothing can collide, and there is nothing to keep up to date.
            return Ok(());
        }
        self.build(table, key, constraint, change)?;
        let rows: usize = batches.iter().filter_map(|batch| Some(batch.first()?.len())).sum();
        memory.grow((rows + change.removed.len()) * HASH_BYTES)?;
        let removed = removed_hashes(change, constraint)?;
        let added = in_parallel(threads, batches, |batch| Hashes::of(batch, memory, |_| true))?;
        let set = self.sets.entry(key).or_default();
        let changed = set.remove_all(threads, &removed);
        let changed = changed.and_then(|()| set.add_all(threads, &added, memory));
        let suspects = changed.inspect_err(|_| {
            // Nobody knows what is in it; it is made anew when it is needed.
            self.sets.remove(&key);
        })?;
        self.log.push(Logged::Changed { key, removed, added });
        if suspects.is_empty() {
            return Ok(());
        }
        confirm(change, constraint, batches, &suspects)
    }

    /// Makes the index of a constraint from the table when there is none.
    fn build(
        &mut self,
        table: &Table,
        key: Key,
        constraint: &Constraint,
        change: &Change<'_>,
    ) -> Result<()> {
        if self.sets.contains_key(&key) {
            return Ok(());
        }
        let (threads, memory) = (change.threads, change.memory);
        let mut set = KeySet::default();
        let _hashes = memory.part(table.row_count() as usize * HASH_BYTES)?;
        let hashes = in_parallel(threads, &table.segments()?, |segment| {
            let live = |row| segment.deleted().is_none_or(|deleted| !deleted.value(row));
            Hashes::of(&key_arrays(segment, constraint)?, memory, live)
        })?;
        set.add_all(threads, &hashes, memory)?;
        self.sets.insert(key, set);
        self.log.push(Logged::Built(key));
        Ok(())
    }

    /// For each key a live row that has it, as [`Wanted::locate`] finds it.
    pub fn find(
        &self,
        table: &Table,
        index: usize,
        wanted: &Wanted<'_>,
    ) -> Result<Vec<Option<RowId>>> {
        let set = self.sets.get(&(table.id(), index));
        wanted.locate(table, |hash| set.is_none_or(|set| set.contains(hash)))
    }
}

fn key_arrays(segment: &Segment, constraint: &Constraint) -> Result<Vec<ArrayRef>> {
    constraint.columns().iter().map(|c| segment.array(*c)).collect()
}

fn removed_hashes(change: &Change<'_>, constraint: &Constraint) -> Result<Vec<Hashes>> {
    let (table, memory) = (change.before, change.memory);
    let segments = table.segments()?;
    let work: Vec<(u32, &[RowId])> = change.removed.by_segment().collect();
    let threads = if change.removed.len() < MANY_HASHES { 1 } else { change.threads };
    in_parallel(threads, &work, |(at, ids)| {
        let segment = segments.get(*at as usize).ok_or_else(|| Error::internal("no segment"))?;
        let live = |id: &&RowId| segment.deleted().is_none_or(|d| !d.value(id.row() as usize));
        let ids: Vec<RowId> = ids.iter().filter(live).copied().collect();
        if ids.is_empty() {
            return Ok(Hashes::default());
        }
        let batch = table.take(&ids, constraint.columns())?;
        Hashes::of(batch.columns(), memory, |_| true)
    })
}

/// Whether the new keys obviously differ from each other and from all there are: one column,
/// strictly ascending from batch to batch, and no segment's bounds overlap theirs.
fn apart(
    table: &Table,
    constraint: &Constraint,
    batches: &[Vec<ArrayRef>],
    threads: usize,
) -> Result<bool> {
    let [column] = constraint.columns() else { return Ok(false) };
    let batches: Vec<&Vec<ArrayRef>> =
        batches.iter().filter(|batch| batch.first().is_some_and(|c| !c.is_empty())).collect();
    let Some((first, others)) = batches.split_first() else { return Ok(true) };
    // Most keys that are in no order are in none from the begin on.
    let Some(first) = ascending(first)? else { return Ok(false) };
    let mut whole = Some(first);
    for bounds in in_parallel(threads, others, |batch| ascending(batch))? {
        let Some((min, max)) = bounds else { return Ok(false) };
        if whole.as_ref().is_some_and(|(_, before)| !before.is_less(&min)) {
            return Ok(false);
        }
        whole = Some((whole.map_or(min, |(first, _)| first), max));
    }
    for segment in table.segments()?.iter() {
        if overlaps(segment, *column, whole.as_ref())? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The first and the last key of some rows that ascend strictly; `None` when they do not, or cannot
/// be compared by their bounds.
fn ascending(batch: &[ArrayRef]) -> Result<Option<Bounds>> {
    let [values] = batch else { return Ok(None) };
    if values.null_count() > 0 || values.data_type().is_nested() {
        return Ok(None);
    }
    let Some(bounds) = bounds_of(std::slice::from_ref(values)) else { return Ok(None) };
    let rest = values.len() - 1;
    let ascend = lt(&values.slice(0, rest), &values.slice(1, rest))?.true_count() == rest;
    Ok(ascend.then_some(bounds))
}

/// Looks at the keys themselves for the hashes that occur twice.
fn confirm(
    change: &Change<'_>,
    constraint: &Constraint,
    batches: &[Vec<ArrayRef>],
    suspects: &HashSet<u64>,
) -> Result<()> {
    let (table, memory) = (change.before, change.memory);
    let mut taken = memory.part(0)?;
    let mut seen: HashSet<Vec<u8>> = HashSet::new();
    for batch in batches {
        go_on()?;
        let (keys, mut bytes) = (Keys::of(batch, memory)?, 0);
        for row in 0..keys.len() {
            let suspect = keys.hash(row).is_some_and(|hash| suspects.contains(&hash));
            let Some(key) = keys.get(row).filter(|_| suspect) else { continue };
            bytes += key.len() + KEY_BYTES;
            if !seen.insert(key.to_vec()) {
                return Err(violation(table, constraint, batch, row));
            }
        }
        taken.grow(bytes)?;
    }
    let gone = change.removed.as_slice();
    for (at, segment) in table.segments()?.iter().enumerate() {
        go_on()?;
        let arrays = key_arrays(segment, constraint)?;
        let keys = Keys::of(&arrays, memory)?;
        for row in 0..keys.len() {
            let id = RowId::new(at as u32, row as u32);
            let Some(key) = keys.get(row).filter(|key| seen.contains(*key)) else { continue };
            let dead = segment.deleted().is_some_and(|d| d.value(row));
            if key.is_empty() || dead || gone.binary_search(&id).is_ok() {
                continue;
            }
            return Err(violation(table, constraint, &arrays, row));
        }
    }
    Ok(())
}

fn violation(table: &Table, constraint: &Constraint, columns: &[ArrayRef], row: usize) -> Error {
    let values: Vec<String> = columns.iter().map(|column| shown(column, row)).collect();
    let names = constraint.columns().iter().map(|c| table.columns()[*c].name.clone());
    Error::Constraint {
        table: table.name().to_owned(),
        kind: match constraint {
            Constraint::Primary(_) => ConstraintKind::PrimaryKey,
            Constraint::Unique(_) => ConstraintKind::Unique,
        },
        columns: names.collect(),
        detail: format!("duplicate key ({})", values.join(", ")),
    }
}

/// The key columns of segments, as [`Change::added`] wants them.
pub(crate) fn keys_of(
    segments: &[Arc<Segment>],
    constraint: &Constraint,
) -> Result<Vec<Vec<ArrayRef>>> {
    let keys = |segment: &Arc<Segment>| {
        go_on()?;
        key_arrays(segment, constraint)
    };
    segments.iter().map(keys).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds an index that has one hash.
    fn build(indexes: &mut Indexes, key: Key) {
        let mut set = KeySet::default();
        set.add(7);
        indexes.sets.insert(key, set);
        indexes.log.push(Logged::Built(key));
    }

    /// INV-DB-15: what a panic left half changed is not believed, nor are the marks of before.
    #[test]
    fn after_a_panic_indexes_are_made_anew() {
        let mut indexes = Indexes::default();
        build(&mut indexes, (1, 0));
        let mark = indexes.mark();
        build(&mut indexes, (2, 0));
        indexes.at_work = true; // What a panic in `apply` leaves.
        indexes.rollback(mark);
        assert!(indexes.sets.is_empty() && !indexes.at_work);
        // Three that were made after the mark: its number alone would keep the first.
        for table in 3..6 {
            build(&mut indexes, (table, 0));
        }
        indexes.rollback(mark);
        assert!(indexes.sets.is_empty(), "{:?}", indexes.sets.keys());
        indexes.rollback(0);
        build(&mut indexes, (6, 0));
        indexes.rollback(1);
        assert_eq!(indexes.sets.len(), 1, "as before again");
        indexes.at_work = true;
        indexes.commit();
        assert!(indexes.sets.is_empty() && !indexes.torn && !indexes.at_work);
    }
}
