//! Values of groups that aggregates pick from rows: [`KeptRows`].
//!
//! Of each batch the picked rows are taken at once. A group has the place of its value. Where most
//! of what is kept is the value of no group any more, what still is gets copied together.

use arrow::array::{Array, ArrayRef, UInt64Array, new_null_array};
use arrow::compute::{interleave, take};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use swingdb_common::own_texts::own_texts;

/// Rows that are kept beyond two for each group.
pub(super) const MOST_SPARE: usize = 8_192;

/// Which of the arrays that are kept, and which of its rows.
pub(super) type Place = (usize, usize);

/// Rows of batches.
#[derive(Debug)]
pub(super) struct KeptRows {
    of: DataType,
    arrays: Vec<ArrayRef>,
    rows: usize,
    bytes: usize,
}

impl KeptRows {
    pub(super) fn new(of: DataType) -> Self {
        Self { of, arrays: Vec::new(), rows: 0, bytes: 0 }
    }

    /// The number that the rows of the next batch get.
    pub(super) fn next(&self) -> usize {
        self.arrays.len()
    }

    pub(super) fn size(&self) -> usize {
        self.bytes
    }

    /// Whether most rows are the value of none of so many groups.
    pub(super) fn is_sparse(&self, groups: usize) -> bool {
        self.rows > 2 * groups + MOST_SPARE
    }

    /// Keeps the rows of a batch to which the places of these groups have come to point.
    pub(super) fn keep_for<G>(
        &mut self,
        groups: &mut [Option<G>],
        touched: &[usize],
        values: &ArrayRef,
        place_of: impl Fn(&mut G) -> &mut Place,
    ) -> Result<()> {
        if touched.is_empty() {
            return Ok(());
        }
        let mut taken = Vec::with_capacity(touched.len());
        for group in touched {
            let Some(known) = &mut groups[*group] else { continue };
            let (_, row) = place_of(known);
            taken.push(*row as u64);
            *row = taken.len() - 1;
        }
        self.keep(values, taken)?;
        if self.is_sparse(groups.len()) {
            let places = groups.iter_mut().flatten().map(place_of);
            self.compact(&mut places.collect::<Vec<_>>())?;
        }
        Ok(())
    }

    fn keep(&mut self, values: &ArrayRef, rows: Vec<u64>) -> Result<()> {
        let taken = take(values, &UInt64Array::from(rows), None)?;
        self.push(own_texts(&taken)?);
        Ok(())
    }

    fn push(&mut self, rows: ArrayRef) {
        self.rows += rows.len();
        self.bytes += rows.get_array_memory_size();
        self.arrays.push(rows);
    }

    /// The rows at places, and NULL where there is none.
    pub(super) fn at(&self, places: impl Iterator<Item = Option<Place>>) -> Result<ArrayRef> {
        let of = self.arrays.first().map_or(&self.of, |rows| rows.data_type());
        let null = new_null_array(of, 1);
        let arrays = self.arrays.iter().chain([&null]).map(AsRef::as_ref).collect::<Vec<_>>();
        let behind = (self.arrays.len(), 0);
        let places = places.map(|place| place.unwrap_or(behind)).collect::<Vec<_>>();
        Ok(interleave(&arrays, &places)?)
    }

    /// Lets the rows go that are at none of these places, which change.
    fn compact(&mut self, places: &mut [&mut Place]) -> Result<()> {
        let rows = self.at(places.iter().map(|place| Some(**place)))?;
        for (row, place) in places.iter_mut().enumerate() {
            **place = (0, row);
        }
        self.clear();
        self.push(own_texts(&rows)?);
        Ok(())
    }

    pub(super) fn clear(&mut self) {
        self.arrays.clear();
        self.rows = 0;
        self.bytes = 0;
    }
}
