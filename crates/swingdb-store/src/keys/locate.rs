//! Rows found by their keys: for ON CONFLICT and FOREIGN KEY.
//!
//! A hash table is made of the smaller side, the keys that are looked for or the rows of the table,
//! and the other side is looked up in it: in pieces of a segment's rows, on several threads. The
//! table is in shards by some bits of the hashes, each made by one thread.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arrow::array::ArrayRef;
use hashbrown::HashTable;
use swingdb_common::error::Result;
use swingdb_common::runtime::cancel::go_on;
use swingdb_common::runtime::memory::{Part, Taken};

use crate::catalog::table::Table;
use crate::keys::bounds::{bounds_of, in_pieces, overlaps};
use crate::keys::bytes::{Keys, SHARDS, shard_of, table_bytes};
use crate::segments::parallel::in_parallel;
use crate::segments::rowids::RowId;
use crate::segments::segment::Segment;

/// Fewer rows than this are looked at by one thread.
const MANY_ROWS: usize = 32_768;

/// After so many rows it is asked whether the statement goes on.
const ROWS_AT_ONCE: usize = 65_536;

/// No row: the segment does not exist.
const NOWHERE: u64 = u64::MAX;

/// What is looked for.
pub(crate) struct Wanted<'a> {
    /// The key's columns in the table.
    pub columns: &'a [usize],
    /// Keys: batches of columns of the same types.
    pub keys: &'a [Vec<ArrayRef>],
    /// Threads that may look at one time.
    pub threads: usize,
    /// Is asked for what it takes.
    pub memory: &'a Taken,
}

impl Wanted<'_> {
    /// For each key a live row of `table` that has it; `None` where there is none, or the key has a
    /// NULL. Keys whose hash `may_be_there` denies are in no row.
    pub fn locate(
        &self,
        table: &Table,
        may_be_there: impl Fn(u64) -> bool + Sync,
    ) -> Result<Vec<Option<RowId>>> {
        let _found = self.memory.part(self.rows() * size_of::<Option<RowId>>())?;
        let wanted = in_parallel(self.threads_for_keys(), &in_pieces(self.keys), |piece| {
            Side::of(piece, self.memory, |_, hash| may_be_there(hash))
        })?;
        let open: usize = wanted.iter().map(Side::count).sum();
        if open == 0 {
            return Ok(vec![None; self.rows()]);
        }
        match table.row_count() < open as u64 {
            true => self.in_table_of_rows(table, &wanted),
            false => self.in_table_of_keys(table, &wanted),
        }
    }

    /// Number of keys.
    fn rows(&self) -> usize {
        self.keys.iter().filter_map(|columns| Some(columns.first()?.len())).sum()
    }

    fn threads_for_keys(&self) -> usize {
        if self.rows() < MANY_ROWS { 1 } else { self.threads }
    }

    /// Looks the keys up in a hash table of the rows.
    fn in_table_of_rows(&self, table: &Table, wanted: &[Side]) -> Result<Vec<Option<RowId>>> {
        let segments = table.segments()?;
        let rows = in_parallel(self.threads, &segments, |segment| self.rows_of(segment))?;
        let known = Known::of(&rows, self.threads, self.memory)?;
        let found = in_parallel(self.threads, wanted, |side| {
            let mut found = Vec::with_capacity(side.keys.len());
            side.each(|row, hash, key| {
                found.resize(row, None);
                let at = known.get(hash, key);
                found.push(at.map(|at| RowId::new(at.side, at.row)));
                Ok(())
            })?;
            found.resize(side.keys.len(), None);
            Ok(found)
        })?;
        Ok(found.concat())
    }

    /// Looks the rows up in a hash table of the keys.
    fn in_table_of_keys(&self, table: &Table, wanted: &[Side]) -> Result<Vec<Option<RowId>>> {
        let known = Known::of(wanted, self.threads_for_keys(), self.memory)?;
        let _places = self.memory.part(self.rows() * size_of::<AtomicU64>())?;
        let places: Vec<Vec<AtomicU64>> = wanted
            .iter()
            .map(|side| (0..side.keys.len()).map(|_| AtomicU64::new(NOWHERE)).collect())
            .collect();
        let open = AtomicUsize::new(known.count());
        let first: Vec<_> = self.keys.iter().map(|columns| columns[0].clone()).collect();
        let bounds = bounds_of(&first);
        let segments: Vec<_> = (0_u32..).zip(table.segments()?.iter().cloned()).collect();
        in_parallel(self.threads, &segments, |(at, segment)| {
            let none_open = open.load(Ordering::Relaxed) == 0;
            if none_open || !overlaps(segment, self.columns[0], bounds.as_ref())? {
                return Ok(());
            }
            self.rows_of(segment)?.each(|row, hash, key| {
                if let Some(wanted) = known.get(hash, key) {
                    let place = &places[wanted.side as usize][wanted.row as usize];
                    let before = place.swap(RowId::new(*at, row as u32).0, Ordering::Relaxed);
                    open.fetch_sub(usize::from(before == NOWHERE), Ordering::Relaxed);
                }
                Ok(())
            })
        })?;
        let mut found = Vec::with_capacity(self.rows());
        for side in wanted {
            let first = found.len();
            side.each(|row, hash, key| {
                found.resize(first + row, None);
                // Of a key that is looked for twice, one has the place.
                let at = known.get(hash, key);
                let place =
                    at.map(|at| places[at.side as usize][at.row as usize].load(Ordering::Relaxed));
                found.push(place.filter(|place| *place != NOWHERE).map(RowId));
                Ok(())
            })?;
            found.resize(first + side.keys.len(), None);
        }
        Ok(found)
    }

    /// The live rows of a segment.
    fn rows_of(&self, segment: &Segment) -> Result<Side> {
        let arrays = self.columns.iter().map(|c| segment.array(*c)).collect::<Result<Vec<_>>>()?;
        let live = |row| segment.deleted().is_none_or(|deleted| !deleted.value(row));
        Side::of(&arrays, self.memory, |row, _| live(row))
    }
}

/// Some keys of one of the sides, with their hashes.
struct Side {
    keys: Keys,
    /// `None`: there is no key, or it does not count.
    hashes: Vec<Option<u64>>,
    _memory: Part,
}

impl Side {
    fn of(
        columns: &[ArrayRef],
        memory: &Taken,
        counts: impl Fn(usize, u64) -> bool,
    ) -> Result<Self> {
        go_on()?;
        let keys = Keys::of(columns, memory)?;
        let memory = memory.part(keys.len() * size_of::<Option<u64>>())?;
        let hash = |row| keys.hash(row).filter(|hash| counts(row, *hash));
        let hashes = (0..keys.len()).map(hash).collect();
        Ok(Self { keys, hashes, _memory: memory })
    }

    fn count(&self) -> usize {
        self.hashes.iter().flatten().count()
    }

    /// Those that count: their rows, hashes and bytes.
    fn each<'a>(&'a self, mut f: impl FnMut(usize, u64, &'a [u8]) -> Result<()>) -> Result<()> {
        for (first, some) in (0..).step_by(ROWS_AT_ONCE).zip(self.hashes.chunks(ROWS_AT_ONCE)) {
            go_on()?;
            for (row, hash) in (first..).zip(some) {
                if let Some(hash) = hash
                    && let Some(key) = self.keys.get(row)
                {
                    f(row, *hash, key)?;
                }
            }
        }
        Ok(())
    }
}

/// A hash table of one of the sides, with each key once.
struct Known<'a> {
    sides: &'a [Side],
    shards: Vec<HashTable<(u64, Place)>>,
    _memory: Part,
}

/// A key: which [`Side`], and which row of it.
#[derive(Debug, Clone, Copy)]
struct Place {
    side: u32,
    row: u32,
}

impl<'a> Known<'a> {
    fn of(sides: &'a [Side], threads: usize, memory: &Taken) -> Result<Self> {
        let keys = sides.iter().map(Side::count).sum();
        let memory = memory.part(table_bytes::<(u64, Place)>(keys))?;
        let shards: Vec<usize> = (0..SHARDS).collect();
        let shards = in_parallel(threads, &shards, |shard| {
            let is_mine = |hash: &u64| shard_of(*hash) == *shard;
            let mine =
                |side: &Side| side.hashes.iter().flatten().filter(|hash| is_mine(hash)).count();
            let mut table = HashTable::with_capacity(sides.iter().map(mine).sum());
            for (at, side) in (0..).zip(sides) {
                side.each(|row, hash, key| {
                    if is_mine(&hash) {
                        let place = Place { side: at, row: row as u32 };
                        let same = |known: &(u64, Place)| is_same(sides, known, hash, key);
                        table.entry(hash, same, |known| known.0).or_insert((hash, place));
                    }
                    Ok(())
                })?;
            }
            Ok(table)
        })?;
        Ok(Self { sides, shards, _memory: memory })
    }

    fn count(&self) -> usize {
        self.shards.iter().map(HashTable::len).sum()
    }

    fn get(&self, hash: u64, key: &[u8]) -> Option<Place> {
        let same = |known: &(u64, Place)| is_same(self.sides, known, hash, key);
        self.shards[shard_of(hash)].find(hash, same).map(|(_, place)| *place)
    }
}

/// Whether a key with a hash is one that is known.
fn is_same(sides: &[Side], (known, at): &(u64, Place), hash: u64, key: &[u8]) -> bool {
    let keys = &sides[at.side as usize].keys;
    *known == hash && (keys.has_exact_hashes() || keys.get(at.row as usize) == Some(key))
}
