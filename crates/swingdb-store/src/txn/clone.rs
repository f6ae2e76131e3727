//! `CREATE TABLE x CLONE y`: a table with another's contents, without copying column data.
//!
//! Inside one store the new table's segments are made of the same chunks; the catalog notes that
//! chunks are shared, and who drops one counts its users first. From another store the extents that
//! hold the table's large blocks are mapped into this area at reserved places; every block keeps
//! its distance from the others of its run, so its place here is its place there plus a constant of
//! the run. Small blocks are copied. What a run shows stays as it was, whatever the source does
//! later.

use std::collections::BTreeMap;
use std::sync::Arc;

use swing::{AreaOffset, Snapshot};
use swingdb_common::error::{Error, Result};
use swingdb_common::runtime::cancel::go_on;

use crate::catalog::names::IfExists;
use crate::catalog::table::Table;
use crate::errors::area::map_foreign_error;
use crate::memory::raw::{self, Loc};
use crate::memory::space::{Blocks, Ground};
use crate::segments::chunk::Chunk;
use crate::segments::patch::Patch;
use crate::segments::read::{Node, Source};
use crate::segments::segment::{Deletion, Segment};
use crate::store::handle::Store;
use crate::txn::transaction::WriteTxn;

/// A run of mapped extents is not longer than this, unless a single block is: runs are freed as a
/// whole.
const MAX_RUN_BYTES: u64 = 256 << 20;

impl WriteTxn {
    /// `CREATE TABLE target CLONE source` without copying column data: inside one store the
    /// segments are shared, from another store (attached snapshot, another database of this
    /// process) its memory is mapped into this one. `false`: the target existed and `if_exists` is
    /// `Skip`. The source's keys and defaults are taken over.
    pub fn clone_table(
        &mut self,
        target_schema: &str,
        target_name: &str,
        source: &Table,
        source_store: &Store,
        if_exists: IfExists,
    ) -> Result<bool> {
        let segments = source.segments()?;
        let inside = Arc::ptr_eq(&source.space, &self.ground.space);
        if !inside && source_store.same_as(&self.store) {
            return Err(Error::internal("a table of another state of this store"));
        }
        let restore = self.savepoint();
        if !self.room_for_table(target_schema, target_name, if_exists)? {
            return Ok(false);
        }
        let cloned = if inside {
            let blocks = segments.iter().map(|s| s.blocks()).collect::<Result<Vec<_>>>()?;
            self.effects.shared.extend(blocks.into_iter().flatten());
            Ok(segments.to_vec())
        } else {
            self.map_segments(&segments, source, source_store)
        };
        match cloned {
            Ok(cloned) => {
                let definition = source.definition.of_copy();
                self.add_table(target_schema, target_name, definition, cloned)?;
                Ok(true)
            }
            Err(error) => {
                self.rollback_to(&restore)?;
                Err(error)
            }
        }
    }

    fn map_segments(
        &mut self,
        segments: &[Arc<Segment>],
        source: &Table,
        source_store: &Store,
    ) -> Result<Vec<Arc<Segment>>> {
        let view = source_store.view(&source.space)?;
        let runs = Runs::of(segments, &view)?;
        let mut places = BTreeMap::new();
        for run in &runs.0 {
            go_on()?;
            let place = self.ground.reserve(run.len)?;
            // Registered at once: whatever fails from here on, dropping it frees the place.
            self.effects.ranges.push(self.ground.space.add_foreign(place, false));
            let range = AreaOffset(run.offset)..AreaOffset(run.end());
            let mapped = self.ground.area().map_foreign(&view, range, AreaOffset(place.offset));
            mapped.map_err(map_foreign_error)?;
            places.insert(run.offset, (*run, place));
        }
        let move_in = MoveIn { ground: &self.ground, places };
        let moved = segments.iter().map(|segment| {
            let chunk = |c: &Arc<Chunk>| move_in.chunk(c).map(Arc::new);
            let chunks = segment.chunks()?.iter().map(chunk).collect::<Result<Vec<_>>>()?;
            let deletion = match segment.deletion() {
                Some(old) => Some(Deletion::store(&self.ground, &old.bits)?),
                None => None,
            };
            Ok(segment.with(source.schema().clone(), chunks, deletion))
        });
        let moved = moved.collect::<Result<Vec<_>>>()?;
        self.created(&moved)?;
        Ok(moved)
    }
}

/// Runs of whole extents of the source's data zone.
struct Runs(Vec<Loc>);

impl Runs {
    /// The extents that hold the blocks of these segments.
    fn of(segments: &[Arc<Segment>], view: &Snapshot) -> Result<Self> {
        let geometry = view.geometry();
        let chunks = segments.iter().map(|s| s.chunks()).collect::<Result<Vec<_>>>()?;
        let mut blocks: Vec<Loc> = chunks
            .iter()
            .flatten()
            .flat_map(|c| c.blocks.listed().iter().copied())
            .filter(|loc| loc.offset >= geometry.small_zone().0)
            .collect();
        blocks.sort_unstable();
        let mut runs: Vec<Loc> = Vec::new();
        for block in blocks {
            let range = AreaOffset(block.offset)..AreaOffset(block.end());
            let extents = geometry.covering(&range);
            let start = geometry.start(swing::ExtentId(extents.start)).0;
            let last = swing::ExtentId(extents.end - 1);
            let end = geometry.start(last).0 + geometry.len(last).0;
            match runs.last_mut() {
                // Overlapping extents must stay in one run; neighbours may.
                Some(run)
                    if start < run.end()
                        || (start == run.end() && end - run.offset <= MAX_RUN_BYTES) =>
                {
                    run.len = run.len.max(end - run.offset);
                }
                _ => runs.push(Loc { offset: start, len: end - start }),
            }
        }
        Ok(Self(runs))
    }
}

/// Moves chunks of another area to where its extents were mapped.
struct MoveIn<'a> {
    ground: &'a Arc<Ground>,
    /// Runs of the source by first offset, and where they are now.
    places: BTreeMap<u64, (Loc, Loc)>,
}

impl MoveIn<'_> {
    fn mapped(&self, loc: Loc) -> Option<Loc> {
        let (_, (run, place)) = self.places.range(..=loc.offset).next_back()?;
        let offset = place.offset + (loc.offset - run.offset);
        run.contains(loc).then_some(Loc { offset, len: loc.len })
    }

    fn chunk(&self, chunk: &Chunk) -> Result<Chunk> {
        let (blocks, node) = self.array(chunk.source())?;
        let moved = Chunk::new(blocks, chunk.data_type.clone(), node, chunk.stats.clone());
        let Some(patch) = &chunk.patch else { return Ok(moved) };
        let (source, (blocks, node)) = (patch.source(), self.array(patch.source())?);
        let patch = Patch::new(blocks, source.data_type.clone(), node, chunk.node.len);
        Ok(moved.with_patch(patch))
    }

    /// The blocks of an array in this area, and where its buffers are in them.
    fn array(&self, source: Source<'_>) -> Result<(Arc<Blocks>, Node)> {
        let (mut own, mut mapped) = (Vec::new(), Vec::new());
        let mut moved: Vec<(Loc, Loc)> = Vec::new();
        let result = source.blocks.listed().iter().try_for_each(|&block| {
            let to = match self.mapped(block) {
                Some(to) => {
                    mapped.push(to);
                    to
                }
                None => {
                    let mut fresh = self.ground.allocate(block.len)?;
                    own.push(fresh.loc());
                    fresh.bytes_mut()?.copy_from_slice(raw::bytes(source.blocks, block)?);
                    fresh.loc()
                }
            };
            moved.push((block, to));
            Ok(())
        });
        if let Err(error) = result {
            // Nobody knows these blocks yet; what the heap refuses is leaked.
            own.into_iter().for_each(|loc| drop(self.ground.free(loc)));
            return Err(error);
        }
        let blocks = Blocks::fresh_with_foreign(&self.ground.space, own, mapped)?;
        let mut node = source.node.clone();
        node.relocate(&|loc| {
            let (from, to) = moved
                .iter()
                .find(|(from, _)| from.contains(loc))
                .ok_or_else(|| Error::internal("a buffer in no block of its column"))?;
            Ok(Loc { offset: to.offset + (loc.offset - from.offset), len: loc.len })
        })?;
        Ok((blocks, node))
    }
}
