//! INV-AREA-2, checked: the area's tables say the same.

use crate::area::core::Core;
use crate::area::tables::Tables;
use crate::model::extent_word;
use crate::model::units::{AreaOffset, ExtentId};

impl Core {
    /// INV-AREA-2: the table of own versions, the runs and the words of extents say the same. Walks
    /// over all extents that have memory. For an area that is idle; in a tracked one, stores change
    /// the words at any time.
    pub(crate) fn assert_tables_agree(&self, state: &Tables) {
        assert_eq!(state.busy, 0, "INV-AREA-3: nobody is at work");
        let mut own_bytes = 0;
        for (extent, own) in state.own.iter() {
            let start = self.geometry.start(extent);
            let offset = self.geometry.plane_offset(own.plane, start);
            let run = state.runs.at(start.0);
            assert!(
                run.is_some_and(|r| r.source == 0 && r.file_offset + (start.0 - r.start) == offset),
                "INV-AREA-2: {extent} in plane {} is shown as {run:?}",
                own.plane
            );
            assert!(
                own.born <= state.manifests.next_epoch,
                "INV-AREA-2: {extent} is of a later epoch"
            );
            own_bytes += self.geometry.len(extent).0;
        }
        assert_eq!(own_bytes, state.runs.bytes_of(0), "INV-AREA-2: what is shown is in the table");
        if self.tracked.get().is_some() {
            return;
        }
        for run in state.runs.iter() {
            for extent in self.geometry.covering(&(AreaOffset(run.start)..AreaOffset(run.end()))) {
                let word = self.words.get(ExtentId(extent));
                let present = matches!(word, extent_word::FROZEN | extent_word::PRIVATE);
                assert!(present, "INV-AREA-2: extent {extent} is shown, but its word is {word}");
            }
        }
    }
}
