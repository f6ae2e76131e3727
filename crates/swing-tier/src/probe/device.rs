//! What a probe asks of a device: timed reads, and a clock.
//!
//! The real one is a file of the probe's own ([`FileDevice`](super::FileDevice)); the other is a
//! model with known numbers ([`SimulatedDevice`](super::SimulatedDevice)) that the algorithms are
//! checked against.

use std::time::Duration;

use crate::probe::Random;
use crate::storage::IoResult;

/// A range of a device, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where it begins; a multiple of [`Device::step`].
    pub offset: u64,
    /// How long it is; a multiple of [`Device::step`].
    pub len: u32,
}

/// A device that is probed.
pub trait Device {
    /// How many bytes of it may be read.
    fn bytes(&self) -> u64;

    /// Offsets and lengths of reads are multiples of so many bytes.
    fn step(&self) -> u64;

    /// Reads all extents in this order, at most `depth` at a time; how long that took.
    ///
    /// # Errors
    /// The failure of a read.
    fn read(&mut self, extents: &[Extent], depth: u32) -> IoResult<Duration>;

    /// The time since the device was made, on the clock that [`Device::read`] is measured with.
    fn now(&self) -> Duration;

    /// A random place with room for `span` bytes, at a multiple of `align`. All places that this
    /// gives lie alike to the device's chunks. `None` if there is no room.
    fn place(&self, random: &mut Random, span: u64, align: u64) -> Option<u64> {
        place_in(random, 0, self.bytes(), span, align)
    }

    /// What it is, for reports.
    fn describe(&self) -> String;
}

/// A random multiple of `align` in a range, with room for `span` bytes behind it.
pub(crate) fn place_in(
    random: &mut Random,
    start: u64,
    len: u64,
    span: u64,
    align: u64,
) -> Option<u64> {
    let first = start.next_multiple_of(align);
    let last = (start + len).checked_sub(span)?;
    let choices = last.checked_sub(first)? / align + 1;
    Some(first + random.below(choices) * align)
}
