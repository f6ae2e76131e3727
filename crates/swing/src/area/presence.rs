//! Which parts of an area have memory, for readers of its addresses.
//!
//! Addresses may outlive the open area (`Arc<Mapping>`), and readers check places that they read
//! from the area's bytes. So a [`Presence`] also answers after the area was closed. Nothing becomes
//! present or absent any more then.
//!
//! Concurrency: one atomic load an extent, no lock. The answer is exact for extents that no thread
//! discards meanwhile, such as those of blocks that the caller pins.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::area::handle::Area;
use crate::memory::extent_words::ExtentWords;
use crate::model::extent_word::ABSENT;
use crate::model::geometry::Geometry;
use crate::model::units::{AreaOffset, ExtentId};

/// Tells which extents of an area have memory; outlives the area.
#[derive(Clone)]
pub struct Presence {
    words: Arc<ExtentWords>,
    geometry: Geometry,
}

impl fmt::Debug for Presence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Presence").field("extents", &self.words.len()).finish_non_exhaustive()
    }
}

impl Presence {
    /// Whether all of `range` can be read without a fault; `false` for what lies outside the area.
    pub fn covers(&self, range: &Range<AreaOffset>) -> bool {
        if !self.geometry.contains(range) {
            return false;
        }
        let mut extents = self.geometry.covering(range);
        assert!(extents.end <= self.words.len(), "extents lie inside the area");
        extents.all(|e| self.words.get(ExtentId(e)) != ABSENT)
    }
}

impl Area {
    /// Which parts have memory, to be asked as long as addresses are used.
    pub fn presence(&self) -> Presence {
        let core = &self.core;
        assert_eq!(core.words.len(), core.geometry.extent_count(), "one word an extent");
        Presence { words: Arc::clone(&core.words), geometry: core.geometry }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::area::options::AreaOptions;
    use crate::model::units::ByteLen;
    use crate::namespace::handle::Namespace;
    use crate::write::plan::WriteIntent;

    fn range(start: u64, end: u64) -> Range<AreaOffset> {
        AreaOffset(start)..AreaOffset(end)
    }

    #[test]
    fn says_what_has_memory_also_after_the_area_is_closed() {
        let home = tempfile::tempdir().unwrap();
        let ns = Namespace::open(home.path().join("ns")).unwrap();
        let options = AreaOptions {
            reserve: ByteLen::mib(64),
            small_zone: ByteLen::mib(4),
            ..AreaOptions::default()
        };
        let area = ns.create_unnamed(&options).unwrap();
        let presence = area.presence();
        let data = area.geometry().small_zone().0;
        let extent = area.geometry().data_extent().0;
        assert!(!presence.covers(&range(data, data + 1)));
        area.make_writable(range(data, data + 2 * extent), WriteIntent::Keep).unwrap();
        assert!(presence.covers(&range(data, data + 2 * extent)));
        assert!(!presence.covers(&range(data, data + 2 * extent + 1)));
        area.discard(range(data + extent, data + 2 * extent)).unwrap();
        assert!(!presence.covers(&range(data, data + 2 * extent)));
        let mapping = area.mapping().clone();
        drop(area);
        assert!(presence.covers(&range(data + 5, data + extent)));
        assert!(!presence.covers(&range(data + extent, data + extent + 1)));
        assert!(!presence.covers(&range(0, u64::MAX)), "outside the area");
        drop(mapping);
    }
}
