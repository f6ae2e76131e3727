//! The checker: that the heap's blocks are exactly those the store knows (INV-DB-3).

use std::collections::HashSet;
use std::sync::Arc;

use swingdb_common::error::Result;

use crate::catalog::state::Catalog;
use crate::commit::writer::Writer;
use crate::errors::area::corrupt;
use crate::memory::raw::Loc;
use crate::memory::space::{Blocks, Ground};
use crate::store::handle::Store;

/// Granules of the heap: lengths are rounded up to these.
const SMALL_GRANULE: u64 = 128;
const DATA_GRANULE: u64 = 4096;

/// What a successful check has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreReport {
    /// Blocks the committed state reaches.
    pub live_blocks: u64,
    /// Bytes in them, rounded up as the heap does.
    pub live_bytes: u64,
    /// Blocks that wait for readers of older states in this process.
    pub limbo_blocks: u64,
    /// Bytes in them.
    pub limbo_bytes: u64,
}

impl Store {
    /// Verifies that the heap is sound, and that each of its blocks is either reached by the
    /// committed state, once, or waits for a reader to let go. It reads all of the catalog and the
    /// heap's metadata: for tests and `doctor`, not for a running system. A snapshot that was never
    /// written to has no heap of its own to check.
    pub fn verify(&self) -> Result<StoreReport> {
        self.with_writer(|writer, catalog| match &writer.ground {
            Some(ground) => verify(&ground.clone(), writer, catalog),
            None => Ok(StoreReport::default()),
        })
    }
}

fn verify(ground: &Arc<Ground>, writer: &Writer, catalog: &Catalog) -> Result<StoreReport> {
    ground.drain()?;
    let small_zone = ground.area().geometry().small_zone().0;
    let rounded = |loc: &Loc| {
        let granule = if loc.offset < small_zone { SMALL_GRANULE } else { DATA_GRANULE };
        Loc { offset: loc.offset, len: loc.len.next_multiple_of(granule) }
    };
    let live: Vec<Loc> = reached(writer, catalog)?.iter().map(rounded).collect();
    let limbo: Vec<Loc> = ground.space.limbo().iter().map(rounded).collect();
    let report = StoreReport {
        live_blocks: live.len() as u64,
        live_bytes: live.iter().map(|loc| loc.len).sum(),
        limbo_blocks: limbo.len() as u64,
        limbo_bytes: limbo.iter().map(|loc| loc.len).sum(),
    };
    let known = merged(live.into_iter().chain(limbo).collect(), true)?;
    let blocks = ground.heap.blocks().map_err(|e| corrupt(format!("the heap: {e}")))?;
    let blocks = blocks.iter().map(|b| Loc { offset: b.offset.0, len: b.len.0 });
    let there = merged(blocks.collect(), false)?;
    if known == there {
        return Ok(report);
    }
    let (known, there): (HashSet<Loc>, HashSet<Loc>) =
        (known.into_iter().collect(), there.into_iter().collect());
    let mut lost: Vec<_> = there.difference(&known).collect();
    let mut stray: Vec<_> = known.difference(&there).collect();
    lost.sort_unstable();
    stray.sort_unstable();
    lost.truncate(4);
    stray.truncate(4);
    Err(corrupt(format!("INV-DB-3: the heap has {lost:?}, the store knows {stray:?}")))
}

/// Every block that a committed state reaches; a chunk that several tables share counts once.
fn reached(writer: &Writer, catalog: &Catalog) -> Result<Vec<Loc>> {
    let mut seen: HashSet<*const Blocks> = HashSet::new();
    let mut keys: HashSet<u64> = HashSet::new();
    let mut all = Vec::new();
    // After a share that failed, records that were written for it wait in limbo for the next one.
    let waits = |record: &Arc<Blocks>| writer.root.is_none() && !record.is_live();
    let mut add = |blocks: &Arc<Blocks>| {
        // The same blocks can be described by two `Blocks` when tables that share them were read
        // from the catalog one by one.
        let new = seen.insert(Arc::as_ptr(blocks)) && blocks.key().is_none_or(|k| keys.insert(k));
        if new {
            all.extend_from_slice(blocks.own());
        }
    };
    writer.root.iter().for_each(&mut add);
    catalog.list_records().filter(|record| !waits(record)).for_each(&mut add);
    for (_, _, entry) in catalog.entries()? {
        entry.record.get().into_iter().filter(|record| !waits(record)).for_each(&mut add);
    }
    for table in catalog.all_tables()? {
        for page in &table.pages {
            page.record().into_iter().filter(|record| !waits(record)).for_each(&mut add);
            for segment in page.segments()?.iter() {
                segment.blocks()?.iter().for_each(&mut add);
            }
        }
    }
    for (&offset, used) in catalog.foreign.iter() {
        all.push(Loc { offset, len: used.len });
    }
    Ok(all)
}

/// Neighbouring ranges as one; overlaps are an error when `distinct`.
fn merged(mut all: Vec<Loc>, distinct: bool) -> Result<Vec<Loc>> {
    all.sort_unstable();
    let mut runs: Vec<Loc> = Vec::with_capacity(all.len());
    for loc in all {
        match runs.last_mut() {
            Some(run) if loc.offset < run.end() && distinct => {
                return Err(corrupt(format!("INV-DB-3: {loc:?} is known twice")));
            }
            Some(run) if loc.offset <= run.end() => run.len = run.len.max(loc.end() - run.offset),
            _ => runs.push(loc),
        }
    }
    Ok(runs)
}
