//! Rows of the build side, sorted by the part of the table that they belong to: [`Scattered`].

use arrow::buffer::NullBuffer;

/// Some consecutive rows of the build side, sorted by the part of the table that they belong to.
#[derive(Debug)]
pub(crate) struct Scattered {
    /// The hash, or the offset, of each row.
    values: Vec<u64>,
    rows: Vec<u32>,
    /// Where the rows of each part end.
    ends: Vec<u32>,
}

impl Scattered {
    /// Sorts rows numbered from `first` by `value >> shift`, and leaves out the rows that are not
    /// `valid`. The rows of a part keep their order.
    pub(crate) fn new(
        values: &[u64],
        first: u32,
        valid: Option<&NullBuffer>,
        shift: u32,
        parts: usize,
    ) -> Self {
        let part = |value: u64| value.checked_shr(shift).unwrap_or(0) as usize;
        let is_valid = |at: usize| valid.is_none_or(|valid| valid.is_valid(at));
        let mut ends = vec![0; parts];
        for (at, value) in values.iter().enumerate() {
            if is_valid(at) {
                ends[part(*value)] += 1;
            }
        }
        let mut all = 0;
        for end in &mut ends {
            all += std::mem::replace(end, all);
        }
        let mut sorted = Self { values: vec![0; all as usize], rows: vec![0; all as usize], ends };
        for (at, value) in values.iter().enumerate() {
            if is_valid(at) {
                let end = &mut sorted.ends[part(*value)];
                sorted.values[*end as usize] = *value;
                sorted.rows[*end as usize] = first + at as u32;
                *end += 1;
            }
        }
        sorted
    }

    /// The rows of a part with their values.
    pub(crate) fn of_part(&self, part: usize) -> impl Iterator<Item = (u64, u32)> + '_ {
        let start = part.checked_sub(1).map_or(0, |before| self.ends[before]) as usize;
        let range = start..self.ends[part] as usize;
        self.values[range.clone()].iter().copied().zip(self.rows[range].iter().copied())
    }

    pub(crate) fn len_of_part(&self, part: usize) -> usize {
        let start = part.checked_sub(1).map_or(0, |before| self.ends[before]);
        (self.ends[part] - start) as usize
    }

    /// Bytes that so many rows take.
    pub(crate) fn bytes(rows: usize) -> usize {
        rows * (size_of::<u64>() + size_of::<u32>())
    }
}
