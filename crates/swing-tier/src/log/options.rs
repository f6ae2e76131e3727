//! How a log is opened, and its limits.

use crate::error::OpenError;
use crate::layout::Layout;
use crate::log::stripe::Stripe;
use crate::profile::ReadCost;
use crate::storage::{QueueOptions, Storage};
use crate::units::{MAX_BLOCK_BYTES, UNIT_BYTES, round_up};

/// The longest data file, in bytes.
pub const MAX_FILE_BYTES: u64 = 1 << 40;
/// The longest journal, in bytes: opening a log reads it whole.
pub const MAX_JOURNAL_BYTES: u64 = 64 << 20;

/// The longest stripe, in bytes: two fit into a block.
pub const MAX_STRIPE_BYTES: u32 = (MAX_BLOCK_BYTES / 2) as u32;
/// The shortest stripe that a profile leads to, in bytes. Each piece takes 24 bytes of the state,
/// which has room for some 2.5 million: shorter ones would bound a log to less than 40 GB.
const MIN_PLACED_BYTES: u64 = 16 << 10;

/// Options of a log. They are not part of the log: each opening may choose others.
#[derive(Clone, Debug, PartialEq)]
pub struct LogOptions {
    /// A data file that is so long, in bytes, is full. 1 MiB to [`MAX_FILE_BYTES`].
    pub file_bytes: u64,
    /// Room on the disk is reserved in steps of so many bytes.
    pub reserve_bytes: u64,
    /// Keeps so many bytes of the disk, and what a manifest takes, for commits that make room: on a
    /// full disk records can still be freed, in a log that was just opened, too. 0: none. It should
    /// be more than `journal_bytes`.
    pub spare_bytes: u64,
    /// Length of a journal in bytes, up to [`MAX_JOURNAL_BYTES`]. When it is full, a manifest is
    /// written.
    pub journal_bytes: u64,
    /// A file is emptied when this part of its bytes is dead, 0.05 to 1.
    pub dead_fraction: f64,
    /// Whether a thread collects garbage in the background.
    pub background: bool,
    /// Places records for the domains of a device: no piece of a record crosses a multiple of so
    /// many bytes of its file, unless it lies in a commit. 4096 to [`MAX_STRIPE_BYTES`], a multiple
    /// of 4096. Each piece takes 24 bytes of the state, so this is for devices that are faster with
    /// it.
    pub stripe_bytes: Option<u32>,
    /// What reading costs here. `None`: as the storage's saved profile says, if it has one
    /// ([`DeviceProfile::find`](crate::probe::DeviceProfile::find)), else [`ReadCost::default`].
    pub read_cost: Option<ReadCost>,
    /// The queue of each thread that works with the log. It has a buffer of
    /// [`MAX_BLOCK_BYTES`](crate::MAX_BLOCK_BYTES) at least.
    pub queue: QueueOptions,
}

impl Default for LogOptions {
    fn default() -> Self {
        LogOptions {
            file_bytes: 256 << 20,
            reserve_bytes: 16 << 20,
            spare_bytes: 0,
            journal_bytes: 4 << 20,
            dead_fraction: 0.5,
            background: true,
            stripe_bytes: None,
            read_cost: None,
            queue: QueueOptions::default(),
        }
    }
}

impl LogOptions {
    /// The same with stripes of the device's domains, unless they were chosen: as the storage's
    /// saved profile says ([`DeviceProfile::find`](crate::probe::DeviceProfile::find)), if it names
    /// domains that records can be placed for. What a log holds already stays where it lies.
    ///
    /// ```
    /// # use swing_tier::{Directory, DirectoryOptions, LogOptions};
    /// # let temporary = tempfile::tempdir()?;
    /// let directory = Directory::open(temporary.path(), DirectoryOptions::default())?;
    /// // Nobody has probed it.
    /// assert_eq!(LogOptions::default().placed_for(&directory).stripe_bytes, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn placed_for(mut self, storage: &dyn Storage) -> Self {
        self.stripe_bytes = self.stripe_bytes.or_else(|| {
            let layout = Layout::of(&storage.profile()?)?;
            stripe_of(layout.unit_bytes)
        });
        self
    }

    /// What reading costs, for a log that is open.
    pub(crate) fn cost(&self) -> ReadCost {
        self.read_cost.unwrap_or_default()
    }

    /// Where records are cut.
    pub(crate) fn stripe(&self) -> Stripe {
        Stripe(self.stripe_bytes.map(u64::from))
    }

    /// The same with the cost of reads on this storage.
    pub(crate) fn for_storage(mut self, storage: &dyn Storage) -> Self {
        self.read_cost = self.read_cost.or_else(|| Some(storage.profile()?.cost));
        self
    }

    /// The same with lengths rounded to whole units, if they are within their limits.
    pub(crate) fn checked(mut self) -> Result<Self, OpenError> {
        let unit = |bytes: u64| bytes.next_multiple_of(UNIT_BYTES).max(UNIT_BYTES);
        if !(1 << 20..=MAX_FILE_BYTES).contains(&self.file_bytes) {
            return Err(OpenError::Options("file_bytes has to be 1 MiB to 1 TiB"));
        }
        if self.journal_bytes > MAX_JOURNAL_BYTES {
            return Err(OpenError::Options("journal_bytes has to be at most 64 MiB"));
        }
        if !(0.05..=1.0).contains(&self.dead_fraction) {
            return Err(OpenError::Options("dead_fraction has to be 0.05 to 1"));
        }
        let stripes = u64::from(MAX_STRIPE_BYTES);
        let fits =
            |stripe: u64| stripe.is_multiple_of(UNIT_BYTES) && (1..=stripes).contains(&stripe);
        if !self.stripe_bytes.is_none_or(|bytes| fits(bytes.into())) {
            return Err(OpenError::Options(
                "stripe_bytes has to be a multiple of 4096, up to 256 KiB",
            ));
        }
        let long = |buffer: &crate::arena::BufferClass| {
            buffer.count > 0 && u64::from(buffer.len) >= MAX_BLOCK_BYTES
        };
        if !self.queue.buffers.iter().any(long) {
            return Err(OpenError::Options("the queue needs a buffer of 512 KiB"));
        }
        self.file_bytes = unit(self.file_bytes);
        self.reserve_bytes = unit(self.reserve_bytes).min(self.file_bytes);
        self.journal_bytes = unit(self.journal_bytes);
        self.spare_bytes = round_up(self.spare_bytes.min(MAX_FILE_BYTES));
        Ok(self)
    }
}

/// The stripe for domains of this unit: the unit, or its half where that fits a block better.
fn stripe_of(unit: u64) -> Option<u32> {
    let stripe = if unit > u64::from(MAX_STRIPE_BYTES) { unit / 2 } else { unit };
    let fits = stripe.is_multiple_of(UNIT_BYTES)
        && (MIN_PLACED_BYTES..=u64::from(MAX_STRIPE_BYTES)).contains(&stripe);
    fits.then_some(stripe as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_out_of_range_are_refused() {
        assert!(LogOptions::default().checked().is_ok());
        for wrong in [
            LogOptions { file_bytes: 5, ..Default::default() },
            LogOptions { journal_bytes: 1 << 40, ..Default::default() },
            LogOptions { dead_fraction: f64::NAN, ..Default::default() },
            LogOptions { stripe_bytes: Some(5000), ..Default::default() },
            LogOptions { stripe_bytes: Some(512 << 10), ..Default::default() },
            LogOptions { stripe_bytes: Some(0), ..Default::default() },
            LogOptions {
                queue: QueueOptions { depth: 1, buffers: Vec::new() },
                ..Default::default()
            },
        ] {
            assert!(wrong.checked().is_err());
        }
    }

    #[test]
    fn the_saved_profile_says_what_reading_costs() {
        use crate::disk::{Directory, DirectoryOptions};
        use crate::probe::{DeviceId, DeviceProfile};

        let temporary = tempfile::tempdir().unwrap();
        let directory = Directory::open(temporary.path(), DirectoryOptions::default()).unwrap();
        let cost = |options: LogOptions| options.for_storage(&directory).cost();
        assert_eq!(cost(LogOptions::default()), ReadCost::default());
        let measured = ReadCost { request_ns: 1234, kib_ns: 5 };
        let device = DeviceId::of(temporary.path()).unwrap();
        let profile = DeviceProfile { device, cost: measured, ..Default::default() };
        profile.save(temporary.path()).unwrap();
        assert_eq!(cost(LogOptions::default()), measured);
        let chosen = ReadCost { request_ns: 7, kib_ns: 7 };
        assert_eq!(cost(LogOptions { read_cost: Some(chosen), ..Default::default() }), chosen);
    }

    #[test]
    fn the_saved_profile_says_where_records_are_cut() {
        use crate::disk::{Directory, DirectoryOptions};
        use crate::probe::{DeviceId, DeviceProfile, Domains};

        let temporary = tempfile::tempdir().unwrap();
        let directory = Directory::open(temporary.path(), DirectoryOptions::default()).unwrap();
        let device = DeviceId::of(temporary.path()).unwrap();
        for (unit_bytes, stripe) in [
            (64 << 10, Some(64 << 10)),
            (16 << 10, Some(16 << 10)),
            (512 << 10, Some(256 << 10)),
            (264 << 10, Some(132 << 10)),
            (260 << 10, None),
            (4 << 10, None),
            (1 << 20, None),
        ] {
            let domains = Some(Domains { count: 10, unit_bytes, inner: None });
            let profile = DeviceProfile { device: device.clone(), domains, ..Default::default() };
            profile.save(temporary.path()).unwrap();
            let placed = LogOptions::default().placed_for(&directory);
            assert_eq!(placed.stripe_bytes, stripe, "{unit_bytes}");
            assert!(placed.checked().is_ok());
            let chosen = LogOptions { stripe_bytes: Some(8192), ..Default::default() };
            assert_eq!(chosen.placed_for(&directory).stripe_bytes, Some(8192));
        }
    }
}
