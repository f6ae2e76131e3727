//! Addresses that are mapped in advance of the memory behind them.
//!
//! The kernel has one lock for the mappings of a process. `mmap` takes it exclusively, and waits
//! for all threads that populate memory; threads that begin to populate wait behind the `mmap`. If
//! each extent of a growing area were mapped alone, threads that fill the area together would run
//! one after the other. So the write barrier maps more than it was asked for: as many bytes as the
//! area has grown by since it was last at rest, at most [`MOST_BYTES`]. Extents there are later
//! only populated.
//!
//! INV-AREA-22: what is mapped in advance is absent, and no state shows it. It is unmapped before
//! an area is published, forked, tracked, closed, or moved to other memory. At rest only what has
//! memory is mapped. Between, a stray store to such an address is not trapped: it allocates memory
//! that no state shows.
//!
//! **Concurrency.** Under the area's lock. **Crash.** Mappings go with their process.

use std::ops::Range;

use crate::area::core::Core;
use crate::area::tables::Tables;
use crate::memory::mapping::mapping_fault;
use crate::model::error::Result;
use crate::model::extent_word::ABSENT;
use crate::model::runs::Run;
use crate::model::units::{AreaOffset, ExtentId};
use crate::sys::kept_file::KeptFile;

/// Most that is mapped in advance by one call.
const MOST_BYTES: u64 = 256 << 20;

impl Core {
    /// Whether the addresses of some absent extents of one zone are mapped to `run` of the own
    /// memory, in `plane`; where the area grows they are now, with others behind them.
    pub(crate) fn map_in_advance(
        &self,
        state: &mut Tables,
        run: &Run,
        plane: u32,
        file: &KeptFile,
    ) -> bool {
        let first = self.geometry.extent_of(AreaOffset(run.start));
        if self.tracked.get().is_some() || self.geometry.is_small(first) {
            return false;
        }
        let shows = |r: Run| {
            r.end() >= run.end() && r.file_offset + (run.start - r.start) == run.file_offset
        };
        let mapped = state.heuristics.in_advance.at(run.start).is_some_and(shows);
        state.heuristics.in_advance.clear(run.start, run.end());
        let most = state.grown.min(MOST_BYTES);
        state.grown += run.len;
        if mapped {
            return true;
        }
        let more = self.absent_bytes(state, run.end(), plane, most);
        let all = Run { len: run.len + more, ..*run };
        if more == 0 || self.mapping.map_run(&all, file, true).is_err() {
            // Whoever performs the step maps it, and tells an error.
            return false;
        }
        let file_offset = run.file_offset + run.len;
        state.heuristics.in_advance.set(Run {
            start: run.end(),
            len: more,
            source: run.source,
            file_offset,
        });
        true
    }

    /// Bytes of the extents from `start` on, at most about `most`, that are absent, can get memory
    /// in `plane`, and are not mapped.
    fn absent_bytes(&self, state: &Tables, start: u64, plane: u32, most: u64) -> u64 {
        let mut bytes = 0;
        if most == 0 || start >= self.geometry.reserve().0 {
            return 0;
        }
        let first = self.geometry.extent_of(AreaOffset(start));
        for extent in (first.0..self.geometry.extent_count()).map(ExtentId) {
            let is_absent = self.words.get(extent) == ABSENT && state.own.get(extent).is_none();
            let at = self.geometry.start(extent).0;
            let is_free = state.versions.is_free(extent, plane)
                && state.heuristics.in_advance.at(at).is_none();
            if bytes >= most || !is_absent || !is_free {
                break;
            }
            bytes += self.geometry.len(extent).0;
        }
        bytes
    }

    /// Unmaps what is mapped in advance in a range.
    pub(crate) fn forget_in_advance(&self, state: &mut Tables, range: Range<u64>) -> Result<()> {
        for run in state.heuristics.in_advance.overlapping(range.start, range.end) {
            let unmapped = self.mapping.span().unmap(run.start as usize, run.len as usize);
            unmapped.map_err(|e| mapping_fault(e, &self.memory_path()))?;
            state.heuristics.in_advance.clear(run.start, run.end());
        }
        Ok(())
    }

    /// The area is at rest: nothing is mapped in advance, and its growth is counted anew.
    pub(crate) fn end_growth(&self, state: &mut Tables) -> Result<()> {
        state.grown = 0;
        self.forget_in_advance(state, 0..self.geometry.reserve().0)
    }
}
