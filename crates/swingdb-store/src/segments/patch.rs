//! Few changed rows of a column chunk, kept beside it: [`Patch`].
//!
//! A chunk is immutable, so an UPDATE of one row would write all of its up to 131 072 values again.
//! When a statement changes few rows of a chunk, the new chunk shares the blocks of the old chunk
//! and has a patch: the numbers of the changed rows and their values. The values of the patch
//! replace those of the chunk; the chunk's statistics are those of the result.
//!
//! Reading copies the batches that have a changed row, and only these. So patches are small: from
//! [`MAX_PATCH_ROWS`] rows on the chunk is written again.
//!
//! A patch is stored as an array of structs of row and value. Like everything in the
//! area, it is hostile when read: rows must ascend and lie inside the chunk (INV-DB-5). It is
//! decoded once.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, BooleanBufferBuilder, UInt32Array};
use arrow::buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer};
use arrow::compute::{concat, interleave, take};
use arrow::datatypes::{DataType, Field, UInt32Type};
use swingdb_common::error::{Error, Result};

use crate::errors::area::corrupt;
use crate::memory::raw;
use crate::memory::space::Blocks;
use crate::segments::read::{INLINE_VIEW_BYTES, Node, Source};

/// Most rows of a patch.
pub(crate) const MAX_PATCH_ROWS: usize = 32;

const VIEW_BYTES: usize = size_of::<u128>();

/// The changed rows of a chunk.
#[derive(Debug)]
pub(crate) struct Patch {
    /// Structs of row and value lie there.
    blocks: Arc<Blocks>,
    data_type: DataType,
    node: Node,
    /// Rows of the chunk that is patched.
    of_rows: usize,
    decoded: OnceLock<(UInt32Array, ArrayRef)>,
}

/// The type of a patch of a column of `data_type`.
pub(crate) fn patch_type(data_type: &DataType) -> DataType {
    let fields = vec![
        Field::new("row", DataType::UInt32, false),
        Field::new("value", data_type.clone(), true),
    ];
    DataType::Struct(fields.into())
}

impl Patch {
    /// A patch of a chunk of `of_rows` rows; `data_type` is what [`patch_type`] says.
    pub fn new(blocks: Arc<Blocks>, data_type: DataType, node: Node, of_rows: usize) -> Arc<Self> {
        debug_assert!(matches!(data_type, DataType::Struct(_)));
        Arc::new(Self { blocks, data_type, node, of_rows, decoded: OnceLock::new() })
    }

    /// Number of changed rows.
    pub fn len(&self) -> usize {
        self.node.len
    }

    /// Bytes of all buffers.
    pub fn bytes(&self) -> u64 {
        self.node.bytes()
    }

    /// The array that it is stored as.
    pub fn source(&self) -> Source<'_> {
        Source { blocks: &self.blocks, data_type: &self.data_type, node: &self.node }
    }

    /// The blocks it lies in.
    pub fn blocks(&self) -> &Arc<Blocks> {
        &self.blocks
    }

    /// The rows, and their values.
    fn decoded(&self) -> Result<&(UInt32Array, ArrayRef)> {
        if let Some(decoded) = self.decoded.get() {
            return Ok(decoded);
        }
        let array = self.source().rows(0..self.node.len)?;
        let structs = array.as_struct_opt().ok_or_else(|| corrupt("a patch that is no struct"))?;
        let [rows, values] = structs.columns() else {
            return Err(corrupt("a patch of other columns"));
        };
        let rows = rows.as_primitive_opt::<UInt32Type>();
        let rows = rows.filter(|rows| rows.null_count() == 0 && structs.null_count() == 0);
        let rows = rows.ok_or_else(|| corrupt("a patch without rows"))?;
        if !lie_in(rows, self.of_rows) {
            return Err(corrupt("the rows of a patch do not ascend inside the column"));
        }
        Ok(self.decoded.get_or_init(|| (rows.clone(), values.clone())))
    }

    /// `base`, which shows the rows `range` of the chunk, with the changed rows among them.
    pub fn apply(&self, base: ArrayRef, range: &Range<usize>) -> Result<ArrayRef> {
        assert_eq!(base.len(), range.len(), "the rows that were asked for");
        let (rows, values) = self.decoded()?;
        let place = |end: usize| rows.values().partition_point(|row| (*row as usize) < end);
        let (from, to) = (place(range.start), place(range.end));
        if from == to {
            return Ok(base);
        }
        let here = rows.values()[from..to].iter().map(|row| *row as usize - range.start);
        combine(&base, &here.collect::<Vec<_>>(), &values.slice(from, to - from))
    }

    /// `base`, which shows the rows `wanted` of the chunk, with the changed rows among them.
    pub fn over(&self, base: ArrayRef, wanted: &UInt32Array) -> Result<ArrayRef> {
        let (rows, values) = self.decoded()?;
        let find = |(at, row)| Some((at, rows.values().binary_search(row).ok()? as u32));
        let (places, picks): (Vec<usize>, Vec<u32>) =
            wanted.values().iter().enumerate().filter_map(find).unzip();
        if places.is_empty() {
            return Ok(base);
        }
        combine(&base, &places, &take(values.as_ref(), &UInt32Array::from(picks), None)?)
    }

    /// What this patch and then the changes of `rows` to `values` come to.
    pub fn then(&self, rows: &UInt32Array, values: &ArrayRef) -> Result<(UInt32Array, ArrayRef)> {
        let (old_rows, old_values) = self.decoded()?;
        // Of a row that both name the later value counts: it comes first here.
        let all = rows.values().iter().chain(old_rows.values()).copied();
        let mut order: Vec<(u32, u32)> = all.zip(0..).collect();
        order.sort_unstable();
        order.dedup_by_key(|(row, _)| *row);
        let both = concat(&[values.as_ref(), old_values.as_ref()])?;
        let picks: UInt32Array = order.iter().map(|(_, at)| *at).collect::<Vec<_>>().into();
        let rows = order.into_iter().map(|(row, _)| row).collect::<Vec<_>>();
        Ok((rows.into(), take(both.as_ref(), &picks, None)?))
    }
}

/// Whether rows ascend, each named once, and are rows of a chunk of `len` rows.
pub(crate) fn lie_in(rows: &UInt32Array, len: usize) -> bool {
    let last = rows.values().last().is_none_or(|last| (*last as usize) < len);
    last && rows.values().windows(2).all(|w| w[0] < w[1])
}

/// `base` with the rows `rows` (ascending) replaced by `values`.
pub(crate) fn combine(base: &ArrayRef, rows: &[usize], values: &ArrayRef) -> Result<ArrayRef> {
    if rows.len() != values.len() || rows.last().is_some_and(|row| *row >= base.len()) {
        return Err(corrupt("a changed row outside its column"));
    }
    match base.data_type() {
        DataType::Utf8View | DataType::BinaryView => return views(base, rows, values),
        other => {
            if let Some(width) = other.primitive_width() {
                return fixed_width(base, rows, values, width);
            }
        }
    }
    // Here values are read, by offsets that lie in the area: other than for arrays that are only
    // handed out, a record that leads to the wrong bytes must not lead to reads outside of them.
    for array in [base, values] {
        let checked = array.to_data().validate_full();
        checked.map_err(|e| corrupt(format!("column data: {e}")))?;
    }
    let mut picks: Vec<(usize, usize)> = (0..base.len()).map(|row| (0, row)).collect();
    for (at, row) in rows.iter().enumerate() {
        picks[*row] = (1, at);
    }
    Ok(interleave(&[base.as_ref(), values.as_ref()], &picks)?)
}

fn fixed_width(
    base: &ArrayRef,
    rows: &[usize],
    values: &ArrayRef,
    width: usize,
) -> Result<ArrayRef> {
    let (old, new) = (base.to_data(), values.to_data());
    let bytes = |data: &ArrayData| -> Result<Buffer> {
        let buffer = data.buffers().first().ok_or_else(|| corrupt("a column without values"))?;
        Ok(buffer.slice_with_length(data.offset() * width, data.len() * width))
    };
    let (old_bytes, new_bytes) = (bytes(&old)?, bytes(&new)?);
    let mut out = MutableBuffer::new(old_bytes.len());
    out.extend_from_slice(old_bytes.as_slice());
    match width {
        1 => scatter::<1>(&mut out, rows, &new_bytes),
        2 => scatter::<2>(&mut out, rows, &new_bytes),
        4 => scatter::<4>(&mut out, rows, &new_bytes),
        8 => scatter::<8>(&mut out, rows, &new_bytes),
        16 => scatter::<16>(&mut out, rows, &new_bytes),
        32 => scatter::<32>(&mut out, rows, &new_bytes),
        other => return Err(Error::internal(format!("values of {other} bytes"))),
    }
    let nulls = validity(base, rows, values);
    raw::array(base.data_type(), base.len(), 0, nulls, vec![out.into()], Vec::new())
}

/// Views are replaced; the strings stay where they are, those of `values` behind those of `base`.
fn views(base: &ArrayRef, rows: &[usize], values: &ArrayRef) -> Result<ArrayRef> {
    let (old, new) = (base.to_data(), values.to_data());
    let (Some((old_views, old_data)), Some((new_views, new_data))) =
        (old.buffers().split_first(), new.buffers().split_first())
    else {
        return Err(corrupt("a column without views"));
    };
    let part = |views: &Buffer, data: &ArrayData| {
        views.slice_with_length(data.offset() * VIEW_BYTES, data.len() * VIEW_BYTES)
    };
    let (old_views, new_views) = (part(old_views, &old), part(new_views, &new));
    let mut out = MutableBuffer::new(old_views.len());
    out.extend_from_slice(old_views.as_slice());
    let (words, _) = out.as_slice_mut().as_chunks_mut::<VIEW_BYTES>();
    let (changed, _) = new_views.as_slice().as_chunks::<VIEW_BYTES>();
    let moved = (old_data.len() as u128) << 64;
    for (at, (row, view)) in rows.iter().zip(changed).enumerate() {
        let view = u128::from_le_bytes(*view);
        let long = view as u32 > INLINE_VIEW_BYTES && new.is_valid(at);
        let view = if long { view.wrapping_add(moved) } else { view };
        words[*row] = view.to_le_bytes();
    }
    let buffers = std::iter::once(out.into()).chain(old_data.iter().chain(new_data).cloned());
    let nulls = validity(base, rows, values);
    raw::array(base.data_type(), base.len(), 0, nulls, buffers.collect(), Vec::new())
}

fn scatter<const WIDTH: usize>(out: &mut [u8], rows: &[usize], values: &[u8]) {
    let (out, _) = out.as_chunks_mut::<WIDTH>();
    let (values, _) = values.as_chunks::<WIDTH>();
    for (row, value) in rows.iter().zip(values) {
        out[*row] = *value;
    }
}

/// The validity of `base` with that of `values` in the rows `rows`.
fn validity(base: &ArrayRef, rows: &[usize], values: &ArrayRef) -> Option<NullBuffer> {
    if base.null_count() == 0 && values.null_count() == 0 {
        return None;
    }
    let mut bits = BooleanBufferBuilder::new(base.len());
    match base.nulls() {
        Some(nulls) => bits.append_buffer(nulls.inner()),
        None => bits.append_n(base.len(), true),
    }
    for (at, row) in rows.iter().enumerate() {
        bits.set_bit(*row, values.is_valid(at));
    }
    let bits: BooleanBuffer = bits.finish();
    Some(NullBuffer::new(bits)).filter(|nulls| nulls.null_count() > 0)
}

#[cfg(test)]
mod tests {
    use arrow::array::{Decimal128Array, Int64Array, StringViewArray};

    use super::*;

    /// Random changes of arrays of several types against `interleave`.
    #[test]
    fn combining_is_interleaving() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..200 {
            let len = random.usize(1..300);
            let mut make = |len: usize| -> [ArrayRef; 3] {
                let numbers: Int64Array =
                    (0..len).map(|_| random.bool().then(|| random.i64(..))).collect();
                let texts: StringViewArray = (0..len)
                    .map(|_| random.u8(0..9) > 0)
                    .map(|some| some.then(|| "long enough to be a reference".repeat(2)))
                    .collect();
                let decimals = Decimal128Array::from_iter_values((0..len).map(|i| i as i128 - 7));
                [Arc::new(numbers), Arc::new(texts), Arc::new(decimals)]
            };
            let (old, extra) = (make(len), make(len));
            let rows: Vec<usize> = (0..len).filter(|_| random.u8(0..4) == 0).collect();
            for (base, values) in old.iter().zip(&extra) {
                // Slices, so that offsets that are not 0 are tried.
                let start = random.usize(0..len - rows.len() + 1);
                let values = values.slice(start, rows.len());
                let mut picks: Vec<(usize, usize)> = (0..len).map(|row| (0, row)).collect();
                rows.iter().enumerate().for_each(|(at, row)| picks[*row] = (1, at));
                let wanted = interleave(&[base.as_ref(), values.as_ref()], &picks).unwrap();
                assert_eq!(&combine(base, &rows, &values).unwrap(), &wanted);
            }
        }
    }

    #[test]
    fn rows_that_do_not_ascend_or_lie_outside_are_seen() {
        let fits = |rows: &[u32], len| lie_in(&UInt32Array::from(rows.to_vec()), len);
        assert!(fits(&[], 0) && fits(&[0], 1) && fits(&[3, 9], 10));
        assert!(!fits(&[10], 10) && !fits(&[0, 0], 10) && !fits(&[5, 4], 10));
        assert!(!fits(&[u32::MAX], 10) && !fits(&[0], 0));
    }

    #[test]
    fn a_row_outside_is_an_error() {
        let base: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let one: ArrayRef = Arc::new(Int64Array::from(vec![9]));
        assert!(combine(&base, &[3], &one).is_err());
        assert!(combine(&base, &[0, 1], &one).is_err());
        let changed = combine(&base, &[2], &one).unwrap();
        assert_eq!(changed.as_ref(), &Int64Array::from(vec![1, 2, 9]) as &dyn Array);
    }
}
