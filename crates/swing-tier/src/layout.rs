//! Where the domains of a device lie in a file.

use crate::profile::DeviceProfile;
use crate::units::{MAX_BLOCK_BYTES, UNIT_BYTES};

/// How a device spreads bytes over its domains: as RAID 0 does, unit after unit.
///
/// Offsets are those in the file. Files are preallocated in large steps, so their bytes lie in a
/// row on the device, and which offsets share a domain can be told from the file alone. What
/// differs from one stretch of a file to the next is only which domain comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// So many bytes in a row lie in one domain; a multiple of 4096.
    pub unit_bytes: u64,
    /// How many domains there are.
    pub domains: u32,
}

impl Layout {
    /// What the profile of a device knows. `None` if no period was found, or one that requests of
    /// whole units of 4096 bytes cannot follow.
    pub fn of(profile: &DeviceProfile) -> Option<Self> {
        let domains = profile.domains?;
        let layout = Layout { unit_bytes: domains.unit_bytes, domains: domains.count };
        Some(layout).filter(Layout::is_usable)
    }

    /// Whether blocks can be placed by it.
    pub(crate) fn is_usable(&self) -> bool {
        let whole = self.unit_bytes > 0 && self.unit_bytes.is_multiple_of(UNIT_BYTES);
        whole && self.unit_bytes <= MAX_BLOCK_BYTES && self.domains > 1
    }

    /// The domain that a place of a file lies in.
    pub fn domain_of(&self, offset: u64) -> u32 {
        ((offset / self.unit_bytes) % u64::from(self.domains)) as u32
    }

    /// Whether the bytes lie in one domain.
    pub(crate) fn is_inside(&self, offset: u64, len: u64) -> bool {
        len == 0 || offset / self.unit_bytes == (offset + len - 1) / self.unit_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::Domains;

    fn profile(unit_bytes: u64, count: u32) -> DeviceProfile {
        let domains = Some(Domains { count, unit_bytes, inner: None });
        DeviceProfile { domains, ..Default::default() }
    }

    #[test]
    fn units_go_around_the_domains() {
        let layout = Layout::of(&profile(16 << 10, 20)).unwrap();
        assert_eq!((layout.domain_of(0), layout.domain_of(16_383)), (0, 0));
        assert_eq!((layout.domain_of(16_384), layout.domain_of(20 * 16_384)), (1, 0));
        assert!(layout.is_inside(16_384, 16_384) && !layout.is_inside(16_000, 1000));
    }

    #[test]
    fn a_period_that_requests_cannot_follow_is_none() {
        assert_eq!(Layout::of(&DeviceProfile::default()), None);
        assert_eq!(Layout::of(&profile(512, 20)), None);
        assert_eq!(Layout::of(&profile(6000, 20)), None);
        assert_eq!(Layout::of(&profile(4 << 20, 20)), None);
    }
}
