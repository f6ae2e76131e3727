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
//! A patch is stored as a chunk of its own, of structs of row and value. Like everything in the
//! area, it is hostile when read: rows must ascend and lie inside the chunk (INV-DB-5). It is
//! decoded once.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BooleanBufferBuilder, StructArray, UInt32Array,
};
use arrow::buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer};
use arrow::compute::{concat, interleave, take};
use arrow::datatypes::{DataType, Field, FieldRef, UInt32Type};
use swingdb_common::error::{Error, Result};

use super::codec::MAX_DEPTH;
use super::columns::{self, INLINE_VIEW_BYTES};
use super::raw;
use super::segment::Chunk;
use super::space::{Blocks, Ground, corrupt};
use super::stats::ChunkStats;

/// Most rows of a patch.
pub(super) const MAX_PATCH_ROWS: usize = 32;

const VIEW_BYTES: usize = size_of::<u128>();

/// The changed rows of a chunk.
#[derive(Debug)]
pub(super) struct Patch {
    /// Structs of row and value.
    chunk: Chunk,
    /// Rows of the chunk that is patched.
    of_rows: usize,
    decoded: OnceLock<(UInt32Array, ArrayRef)>,
}

/// The type of a patch of a column of `data_type`.
pub(super) fn patch_type(data_type: &DataType) -> DataType {
    let fields = vec![
        Field::new("row", DataType::UInt32, false),
        Field::new("value", data_type.clone(), true),
    ];
    DataType::Struct(fields.into())
}

impl Patch {
    /// A patch of a chunk of `of_rows` rows as it was read from the area: `chunk` has the type
    /// [`patch_type`] says.
    pub fn of_chunk(chunk: Chunk, of_rows: usize) -> Arc<Self> {
        debug_assert!(matches!(chunk.data_type, DataType::Struct(_)));
        Arc::new(Self { chunk, of_rows, decoded: OnceLock::new() })
    }

    /// Stores the values of the rows `rows` (ascending, distinct) of a chunk of `of_rows` rows.
    fn store(
        ground: &Ground,
        of_rows: usize,
        rows: &UInt32Array,
        values: &ArrayRef,
    ) -> Result<Arc<Self>> {
        assert!(!rows.is_empty() && rows.len() == values.len(), "a value for each changed row");
        assert!(lie_in(rows, of_rows), "the rows of a patch ascend inside the chunk");
        let data_type = patch_type(values.data_type());
        let DataType::Struct(fields) = &data_type else {
            return Err(Error::internal("patches are structs"));
        };
        let columns: Vec<ArrayRef> = vec![Arc::new(rows.clone()), values.clone()];
        let structs: ArrayRef = Arc::new(StructArray::try_new(fields.clone(), columns, None)?);
        Ok(Self::of_chunk(columns::write(ground, &data_type, &[structs])?, of_rows))
    }

    /// Number of changed rows.
    pub fn len(&self) -> usize {
        self.chunk.node.len
    }

    /// What it is stored as.
    pub fn chunk(&self) -> &Chunk {
        &self.chunk
    }

    /// The blocks it lies in.
    pub fn blocks(&self) -> &Arc<Blocks> {
        &self.chunk.blocks
    }

    /// The rows, and their values.
    fn decoded(&self) -> Result<&(UInt32Array, ArrayRef)> {
        if let Some(decoded) = self.decoded.get() {
            return Ok(decoded);
        }
        let array = self.chunk.array()?;
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
    fn over(&self, base: ArrayRef, wanted: &UInt32Array) -> Result<ArrayRef> {
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
    fn then(&self, rows: &UInt32Array, values: &ArrayRef) -> Result<(UInt32Array, ArrayRef)> {
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
fn lie_in(rows: &UInt32Array, len: usize) -> bool {
    let last = rows.values().last().is_none_or(|last| (*last as usize) < len);
    last && rows.values().windows(2).all(|w| w[0] < w[1])
}

/// The chunk with other values in the rows `rows` (ascending, distinct, inside it), and the blocks
/// that were made for it.
pub(super) fn changed(
    ground: &Ground,
    chunk: &Chunk,
    rows: &UInt32Array,
    values: &[ArrayRef],
) -> Result<(Chunk, Arc<Blocks>)> {
    let len = chunk.node.len;
    let given: usize = values.iter().map(|piece| piece.len()).sum();
    assert!(rows.len() == given && given <= len, "a value for each changed row");
    if rows.len() == len {
        return whole(columns::write(ground, &chunk.data_type, values)?);
    }
    let places: Vec<usize> = rows.values().iter().map(|row| *row as usize).collect();
    let stats = known_stats(chunk, rows, values)?;
    let pieces = || -> Result<Vec<ArrayRef>> {
        let old = chunk.read(0..len)?;
        Ok(match in_pieces(&old, &places, values) {
            Some(pieces) => pieces,
            None => vec![combine(&old, &places, &one_array(values)?)?],
        })
    };
    let few = rows.len() <= MAX_PATCH_ROWS && len > 2 * MAX_PATCH_ROWS;
    if !few || !can_be_patched(&chunk.data_type, 0) {
        return whole(columns::write_known(ground, &chunk.data_type, &pieces()?, stats)?);
    }
    let new = one_array(values)?;
    let (now_rows, now_values) = match &chunk.patch {
        Some(patch) => patch.then(rows, &new)?,
        None => (rows.clone(), new),
    };
    if now_rows.len() > MAX_PATCH_ROWS {
        return whole(columns::write_known(ground, &chunk.data_type, &pieces()?, stats)?);
    }
    let stats = match stats {
        Some(stats) => stats,
        None => ChunkStats::of(&chunk.data_type, &pieces()?),
    };
    let patch = Patch::store(ground, len, &now_rows, &now_values)?;
    let made = patch.blocks().clone();
    Ok((chunk.patched(patch, stats), made))
}

fn one_array(pieces: &[ArrayRef]) -> Result<ArrayRef> {
    Ok(match pieces {
        [one] => one.clone(),
        many => concat(&many.iter().map(|piece| piece.as_ref()).collect::<Vec<_>>())?,
    })
}

/// The statistics of a chunk after a change, when the changed values alone tell.
fn known_stats(
    chunk: &Chunk,
    rows: &UInt32Array,
    values: &[ArrayRef],
) -> Result<Option<ChunkStats>> {
    let worth_it = 2 * rows.len() < chunk.node.len && !chunk.stats.sorted;
    if !worth_it || chunk.stats.bounds.is_none() || !can_be_patched(&chunk.data_type, 0) {
        return Ok(None);
    }
    let gone = take(chunk.base()?.as_ref(), rows, None)?;
    let gone = match &chunk.patch {
        Some(patch) => patch.over(gone, rows)?,
        None => gone,
    };
    Ok(chunk.stats.replaced(&chunk.data_type, &gone, values))
}

/// Whether rows of the type, nested `depth` deep in the column's, can be put between others one by
/// one without changing how the others are stored. The patch is nested one deeper than the column,
/// and what is nested too deep cannot be read back.
fn can_be_patched(data_type: &DataType, depth: usize) -> bool {
    if depth + 1 >= MAX_DEPTH {
        return false;
    }
    let inner = |field: &FieldRef| can_be_patched(field.data_type(), depth + 1);
    match data_type {
        DataType::Boolean
        | DataType::FixedSizeBinary(_)
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::Utf8View
        | DataType::BinaryView => true,
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            inner(item)
        }
        DataType::Struct(fields) => fields.iter().all(inner),
        other => other.is_primitive(),
    }
}

fn whole(chunk: Chunk) -> Result<(Chunk, Arc<Blocks>)> {
    let made = chunk.blocks.clone();
    Ok((chunk, made))
}

/// What a change of neighbouring rows leaves: it is written without being put together first.
fn in_pieces(old: &ArrayRef, rows: &[usize], values: &[ArrayRef]) -> Option<Vec<ArrayRef>> {
    let (first, last) = (*rows.first()?, *rows.last()?);
    if last - first + 1 != rows.len() {
        return None;
    }
    let rest = old.len() - last - 1;
    let (before, after) = (old.slice(0, first), old.slice(last + 1, rest));
    let pieces = std::iter::once(before).chain(values.iter().cloned()).chain([after]);
    Some(pieces.filter(|piece| !piece.is_empty()).collect())
}

/// `base` with the rows `rows` (ascending) replaced by `values`.
fn combine(base: &ArrayRef, rows: &[usize], values: &ArrayRef) -> Result<ArrayRef> {
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

    /// No type at its greatest depth, where the patch could not be read back.
    #[test]
    fn what_is_nested_deepest_is_not_patched() {
        let list = |inner, _| DataType::List(Arc::new(Field::new("item", inner, true)));
        let nested = |depth| (0..depth).fold(DataType::Int32, list);
        assert!(can_be_patched(&nested(MAX_DEPTH - 2), 0));
        assert!(!can_be_patched(&nested(MAX_DEPTH - 1), 0));
        let zone = DataType::Timestamp(arrow::datatypes::TimeUnit::Second, Some("UTC".into()));
        assert!(can_be_patched(&zone, 0) && !can_be_patched(&DataType::Null, 0));
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
