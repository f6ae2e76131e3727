//! How the address space of an area is cut into extents.
//!
//! `[0, small_zone)` consists of extents of 64 KiB, `[small_zone, reserve)` of *data extents*: 2
//! MiB, unless the area was created with another power of two (the trade: `docs/extents.md`).
//! The small zone is for allocator metadata and catalogs, where one commit touches a few bytes here
//! and there; the data zone is for arrays, where a huge page per extent makes hook, scan and
//! write-protection cheap.
//!
//! Plane `k` of the extent at offset `o` lies at file offset `k * reserve + o`: a second version of
//! an extent needs no allocator of its own, and neighbours in the same plane are neighbours in the
//! file, so they merge into one mapping.

use std::ops::Range;

use crate::model::units::{AreaOffset, ByteLen, ExtentId};

/// Bytes of an extent in the small zone.
pub const SMALL_EXTENT: ByteLen = ByteLen::kib(64);
/// Bytes of an extent in the data zone, unless the area was created with others: one huge page.
pub const DATA_EXTENT: ByteLen = ByteLen::mib(2);
/// The smallest data extent an area can have.
pub const MIN_DATA_EXTENT: ByteLen = ByteLen::kib(64);
/// The largest data extent an area can have.
pub const MAX_DATA_EXTENT: ByteLen = ByteLen::mib(32);
/// Zones and address spaces are multiples of this, and from this size on data extents use huge
/// pages.
pub(crate) const HUGE_PAGE: u64 = 2 << 20;
/// The largest address space one area may reserve.
pub const MAX_RESERVE: ByteLen = ByteLen(1 << 44);
/// The most planes (versions of one extent) a memory file may hold.
pub const MAX_PLANES: u32 = 1 << 16;

/// Largest file offset: `MAX_PLANES * MAX_RESERVE` must stay a valid (positive) file offset.
const _: () = assert!((MAX_PLANES as u128) * (MAX_RESERVE.0 as u128) <= i64::MAX as u128);
/// Extent indices fit in 32 bits.
const _: () = assert!(MAX_RESERVE.0 / SMALL_EXTENT.0 <= u32::MAX as u64);

/// The address layout of one area; fixed for its life, and the same in everything derived from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    reserve: u64,
    small_zone: u64,
    data_extent: u64,
}

impl Geometry {
    /// With the default data extents. Both lengths must be multiples of 2 MiB and `small_zone <=
    /// reserve <= MAX_RESERVE`; `None` otherwise.
    pub fn new(reserve: ByteLen, small_zone: ByteLen) -> Option<Self> {
        Self::with_extent(reserve, small_zone, DATA_EXTENT)
    }

    /// With data extents of `extent`: a power of two from [`MIN_DATA_EXTENT`] to
    /// [`MAX_DATA_EXTENT`], of which both lengths must be multiples, too.
    pub fn with_extent(reserve: ByteLen, small_zone: ByteLen, extent: ByteLen) -> Option<Self> {
        let possible =
            extent.0.is_power_of_two() && (MIN_DATA_EXTENT..=MAX_DATA_EXTENT).contains(&extent);
        if !possible {
            return None;
        }
        let align = extent.0.max(HUGE_PAGE);
        let aligned = reserve.0.is_multiple_of(align) && small_zone.0.is_multiple_of(align);
        let ordered = small_zone <= reserve && reserve <= MAX_RESERVE && reserve.0 > 0;
        let (reserve, small_zone, data_extent) = (reserve.0, small_zone.0, extent.0);
        (aligned && ordered).then_some(Self { reserve, small_zone, data_extent })
    }

    /// Bytes of an extent of the data zone.
    pub fn data_extent(&self) -> ByteLen {
        ByteLen(self.data_extent)
    }

    /// Whether data extents consist of whole huge pages.
    pub(crate) fn has_huge_extents(&self) -> bool {
        self.data_extent >= HUGE_PAGE
    }

    /// Address space of the area.
    pub fn reserve(&self) -> ByteLen {
        ByteLen(self.reserve)
    }

    /// Where the small extents end and the data extents begin.
    pub fn small_zone(&self) -> ByteLen {
        ByteLen(self.small_zone)
    }

    /// Number of extents of both zones.
    pub fn extent_count(&self) -> u32 {
        (self.small_count() + (self.reserve - self.small_zone) / self.data_extent) as u32
    }

    fn small_count(&self) -> u64 {
        self.small_zone / SMALL_EXTENT.0
    }

    /// The extent that holds `offset`, which must lie below `reserve`.
    #[inline]
    pub fn extent_of(&self, offset: AreaOffset) -> ExtentId {
        debug_assert!(offset.0 < self.reserve, "an offset of the area");
        if offset.0 < self.small_zone {
            ExtentId((offset.0 / SMALL_EXTENT.0) as u32)
        } else {
            // A power of two: a shift takes a tenth of the time of a division.
            let data = (offset.0 - self.small_zone) >> self.data_extent.trailing_zeros();
            ExtentId((self.small_count() + data) as u32)
        }
    }

    /// Where an extent begins.
    #[inline]
    pub fn start(&self, extent: ExtentId) -> AreaOffset {
        debug_assert!(extent.0 <= self.extent_count(), "an extent, or the end of the area");
        let i = u64::from(extent.0);
        match i.checked_sub(self.small_count()) {
            None => AreaOffset(i * SMALL_EXTENT.0),
            Some(data) => AreaOffset(self.small_zone + data * self.data_extent),
        }
    }

    /// Length of an extent: 64 KiB, or that of data extents.
    #[inline]
    pub fn len(&self, extent: ExtentId) -> ByteLen {
        if self.is_small(extent) { SMALL_EXTENT } else { ByteLen(self.data_extent) }
    }

    /// Whether the extent lies in the small zone.
    #[inline]
    pub fn is_small(&self, extent: ExtentId) -> bool {
        u64::from(extent.0) < self.small_count()
    }

    /// Whether the extent is made of whole huge pages.
    #[inline]
    pub(crate) fn is_huge(&self, extent: ExtentId) -> bool {
        self.len(extent).0.is_multiple_of(HUGE_PAGE)
    }

    /// The bytes of an extent.
    #[inline]
    pub fn range(&self, extent: ExtentId) -> Range<AreaOffset> {
        let start = self.start(extent);
        start..start + self.len(extent)
    }

    /// The extents that overlap `range` (which must lie inside the reserve); empty for an empty
    /// range.
    #[inline]
    pub fn covering(&self, range: &Range<AreaOffset>) -> Range<u32> {
        if range.start >= range.end {
            return 0..0;
        }
        assert!(range.end.0 <= self.reserve, "a range of extents lies inside the area");
        self.extent_of(range.start).0..self.extent_of(AreaOffset(range.end.0 - 1)).0 + 1
    }

    /// The extents that lie wholly inside `range`.
    pub fn inside(&self, range: &Range<AreaOffset>) -> Range<u32> {
        let mut r = self.covering(range);
        if r.start < r.end && self.start(ExtentId(r.start)) < range.start {
            r.start += 1;
        }
        if r.start < r.end && self.range(ExtentId(r.end - 1)).end > range.end {
            r.end -= 1;
        }
        assert!(r.start <= r.end, "empty at least");
        r
    }

    /// Whether `offset` is where an extent begins, or the end of the area.
    pub fn is_boundary(&self, offset: AreaOffset) -> bool {
        offset.0 == self.reserve
            || (offset.0 < self.reserve && self.start(self.extent_of(offset)) == offset)
    }

    /// Whether `range` is ordered and lies inside the reserve.
    #[inline]
    pub fn contains(&self, range: &Range<AreaOffset>) -> bool {
        range.start <= range.end && range.end.0 <= self.reserve
    }

    /// Where plane `plane` of the extent at area offset `offset` lies in the memory file.
    #[inline]
    pub(crate) fn plane_offset(&self, plane: u32, offset: AreaOffset) -> u64 {
        debug_assert!(plane < MAX_PLANES && offset.0 < self.reserve, "a place in one plane");
        u64::from(plane) * self.reserve + offset.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry() -> Geometry {
        Geometry::new(ByteLen::mib(64), ByteLen::mib(4)).unwrap()
    }

    #[test]
    fn extents_tile_the_area() {
        for kib in [64, 128, 1024, 2048, 4096, 32_768] {
            let extent = ByteLen::kib(kib);
            let g = Geometry::with_extent(ByteLen::mib(128), ByteLen::mib(32), extent).unwrap();
            assert_eq!(g.data_extent(), extent);
            tiles(&g);
        }
    }

    fn tiles(g: &Geometry) {
        let mut at = AreaOffset(0);
        for i in 0..g.extent_count() {
            let e = ExtentId(i);
            assert_eq!(g.start(e), at);
            assert_eq!(g.extent_of(at), e);
            assert_eq!(g.extent_of(AreaOffset(g.range(e).end.0 - 1)), e);
            assert!(g.is_boundary(at) && !g.is_boundary(AreaOffset(at.0 + 1)));
            let len = if g.is_small(e) { SMALL_EXTENT } else { g.data_extent() };
            assert_eq!(g.len(e), len);
            assert_eq!(g.is_huge(e), len.0 >= HUGE_PAGE);
            at = g.range(e).end;
        }
        assert_eq!(at.0, g.reserve().0);
        assert!(g.is_boundary(at));
    }

    #[test]
    fn covering_and_inside() {
        let g = geometry();
        let r = AreaOffset(1)..AreaOffset(SMALL_EXTENT.0 * 3);
        assert_eq!(g.covering(&r), 0..3);
        assert_eq!(g.inside(&r), 1..3);
        let r = AreaOffset(1)..AreaOffset(2);
        assert_eq!(g.covering(&r), 0..1);
        assert!(g.inside(&r).is_empty());
        let r = AreaOffset(5)..AreaOffset(5);
        assert!(g.covering(&r).is_empty() && g.inside(&r).is_empty());
        let z = g.small_zone().0;
        let r = AreaOffset(z - SMALL_EXTENT.0)..AreaOffset(z + DATA_EXTENT.0);
        assert_eq!(g.inside(&r).len(), 2);
    }

    #[test]
    fn bad_geometries_are_refused() {
        assert!(Geometry::new(ByteLen::mib(3), ByteLen(0)).is_none());
        assert!(Geometry::new(ByteLen(0), ByteLen(0)).is_none());
        assert!(Geometry::new(ByteLen::mib(2), ByteLen::mib(4)).is_none());
        assert!(Geometry::new(ByteLen(MAX_RESERVE.0 * 2), ByteLen(0)).is_none());
        assert!(Geometry::new(ByteLen::mib(2), ByteLen::mib(2)).is_some());
        assert!(Geometry::new(ByteLen::mib(2), ByteLen(0)).is_some());
        let extent = |kib| Geometry::with_extent(ByteLen::mib(64), ByteLen(0), ByteLen::kib(kib));
        assert!(extent(32).is_none() && extent(96).is_none() && extent(65_536).is_none());
        assert!(extent(64).is_some() && extent(32_768).is_some());
        let odd = Geometry::with_extent(ByteLen::mib(64), ByteLen::mib(2), ByteLen::mib(32));
        assert!(odd.is_none(), "the small zone is no multiple of the extent");
    }
}
