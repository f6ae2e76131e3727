//! Rows to be changed: the result of a query whose first column is the hidden row id, put in order.
//!
//! A scan hands out rows nearly in order: several threads each read some segments, each segment
//! from its begin to its end, and a filter puts the rows of several segments into one batch. So
//! batches are cut where a segment ends, the pieces are sorted by their first row, and values are
//! only copied when pieces overlap, which takes a join. A row found more than once (an UPDATE ...
//! FROM whose source has several partners for it) keeps the first.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array, UInt64Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::UInt64Type;
use parking_lot::Mutex;
use swingdb_common::error::{Error, Result};
use swingdb_common::runtime::parallel::in_parallel;
use swingdb_store::{RowId, RowIds};

/// Segments whose rows may be in one batch before it counts as one in no order.
const MAX_PIECES: usize = 256;

/// Batches that one thread converts: no other is worth starting for so few.
const FEW_BATCHES: usize = 4;

/// Row ids, ascending and distinct, and for each the other columns of the query.
#[derive(Debug)]
pub(crate) struct RowSet {
    pub(crate) ids: RowIds,
    pub(crate) values: Vec<RecordBatch>,
    /// Rows the query returned again; only the first of each was kept.
    pub(crate) repeated: bool,
}

/// Collects only the row ids of a query: for DELETE.
pub(crate) fn collect_ids(stream: impl Iterator<Item = Result<RecordBatch>>) -> Result<RowIds> {
    let mut parts: Vec<UInt64Array> = Vec::new();
    for batch in stream {
        let batch = batch?;
        let ids = row_ids(&batch)?;
        parts.extend(pieces(ids).into_iter().map(|rows| ids.slice(rows.start, rows.len())));
    }
    // Whole batches in order make the ids sorted already, in nearly all cases.
    parts.sort_by_key(|ids| ids.value(0));
    Ok(RowIds::from_arrays(&parts))
}

/// Collects row ids and values; `convert` turns the columns after the first into what is stored, on
/// several threads where there are many rows.
pub(crate) fn collect(
    threads: usize,
    stream: impl Iterator<Item = Result<RecordBatch>> + Send,
    convert: impl Fn(&[ArrayRef], usize) -> Result<RecordBatch> + Sync,
) -> Result<RowSet> {
    let mut stream = stream.filter(|batch| !batch.as_ref().is_ok_and(|b| b.num_rows() == 0));
    let mut parts: Vec<Part> = Vec::new();
    for batch in stream.by_ref().take(FEW_BATCHES) {
        parts.extend(parts_of(&batch?, &convert)?);
    }
    let more = Mutex::new(Vec::new());
    let mut order = 0;
    in_parallel(
        threads,
        || {
            let batch = stream.next().transpose()?;
            order += 1;
            Ok(batch.map(|batch| (order, batch)))
        },
        |order, batch| {
            let parts = parts_of(&batch, &convert)?;
            more.lock().push((order, parts));
            Ok(())
        },
    )?;
    let mut more = more.into_inner();
    more.sort_unstable_by_key(|(order, _)| *order);
    parts.extend(more.into_iter().flat_map(|(_, parts)| parts));
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|part| parts[*part].ids.value(0));
    if !ascending(order.iter().map(|part| &parts[*part])) {
        return sorted(parts);
    }
    parts.sort_by_key(|part| part.ids.value(0));
    let ids = RowIds::from_arrays(parts.iter().map(|part| &part.ids));
    let values = parts.into_iter().map(|part| part.values).collect();
    Ok(RowSet { ids, values, repeated: false })
}

/// Rows of one segment that one batch had.
struct Part {
    ids: UInt64Array,
    /// Whether the ids are strictly ascending.
    ascending: bool,
    values: RecordBatch,
}

fn parts_of(
    batch: &RecordBatch,
    convert: impl Fn(&[ArrayRef], usize) -> Result<RecordBatch>,
) -> Result<Vec<Part>> {
    let ids = row_ids(batch)?;
    let values = convert(&batch.columns()[1..], batch.num_rows())?;
    let part = |rows: Range<usize>| {
        let ids = ids.slice(rows.start, rows.len());
        // Without a way out of the loop several are compared at once.
        let disorder = ids.values().windows(2).filter(|w| w[0] >= w[1]).count();
        Part { ascending: disorder == 0, ids, values: values.slice(rows.start, rows.len()) }
    };
    Ok(pieces(ids).into_iter().map(part).collect())
}

fn row_ids(batch: &RecordBatch) -> Result<&UInt64Array> {
    let ids = batch.column(0).as_primitive_opt::<UInt64Type>();
    ids.filter(|ids| ids.null_count() == 0)
        .ok_or_else(|| Error::internal("the query for the rows to change returned no row ids"))
}

/// Where the rows of a batch pass from one segment to another: the ranges between. A batch in no
/// order is left whole.
fn pieces(ids: &UInt64Array) -> Vec<Range<usize>> {
    let segment = |id: u64| RowId(id).segment();
    let values: &[u64] = ids.values();
    let (Some(first), Some(last)) = (values.first(), values.last()) else { return Vec::new() };
    let whole = 0..values.len();
    if segment(*first) == segment(*last) {
        return vec![whole];
    }
    let (mut found, mut start) = (Vec::new(), 0);
    for rows in values.chunk_by(|a, b| segment(*a) == segment(*b)) {
        if found.len() == MAX_PIECES {
            return vec![whole];
        }
        found.push(start..start + rows.len());
        start += rows.len();
    }
    found
}

/// Whether the ids of parts, taken one after the other, are strictly ascending.
fn ascending<'a>(parts: impl Iterator<Item = &'a Part>) -> bool {
    let mut last = None;
    for part in parts {
        let values: &[u64] = part.ids.values();
        let (Some(first), Some(end)) = (values.first(), values.last()) else { continue };
        if !part.ascending || last.is_some_and(|last| last >= *first) {
            return false;
        }
        last = Some(*end);
    }
    true
}

/// For batches that overlap, in the order the query returned them.
fn sorted(parts: Vec<Part>) -> Result<RowSet> {
    let arrays: Vec<&dyn Array> = parts.iter().map(|part| &part.ids as &dyn Array).collect();
    let ids = arrow::compute::concat(&arrays)?;
    let schema = parts[0].values.schema();
    let values = concat_batches(&schema, parts.iter().map(|part| &part.values))?;
    drop(parts);
    let id_values: &[u64] = ids.as_primitive::<UInt64Type>().values();
    // The place in the query's result breaks ties, so that "the first" is well defined.
    let mut kept: Vec<(u64, u32)> = id_values.iter().copied().zip(0..).collect();
    kept.sort_unstable();
    kept.dedup_by_key(|(id, _)| *id);
    let repeated = kept.len() < id_values.len();
    let row_ids = kept.iter().map(|(id, _)| RowId(*id)).collect();
    let kept: UInt32Array = kept.into_iter().map(|(_, place)| place).collect::<Vec<_>>().into();
    let values = vec![take_record_batch(&values, &kept)?];
    Ok(RowSet { ids: RowIds::new(row_ids), values, repeated })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Int32Array;

    use super::*;

    fn batch(rows: &[(u64, i32)]) -> Result<RecordBatch> {
        let ids: ArrayRef = Arc::new(UInt64Array::from_iter_values(rows.iter().map(|r| r.0)));
        let values: ArrayRef = Arc::new(Int32Array::from_iter_values(rows.iter().map(|r| r.1)));
        Ok(RecordBatch::try_from_iter([("__rowid", ids), ("v", values)])?)
    }

    fn set(batches: &[&[(u64, i32)]]) -> (Vec<u64>, Vec<i32>, usize, bool) {
        let stream = batches.iter().map(|rows| batch(rows)).collect::<Vec<_>>().into_iter();
        let convert = |columns: &[ArrayRef], _rows: usize| {
            Ok(RecordBatch::try_from_iter([("v", Arc::clone(&columns[0]))])?)
        };
        let set = collect(2, stream, convert).unwrap();
        let ids = set.ids.as_slice().iter().map(|id| id.0).collect();
        let values = set.values.iter().flat_map(|batch| {
            batch.column(0).as_primitive::<arrow::datatypes::Int32Type>().values().to_vec()
        });
        (ids, values.collect(), set.values.len(), set.repeated)
    }

    #[test]
    fn batches_in_disorder_are_not_copied() {
        let (ids, values, batches, repeated) = set(&[&[(7, 70), (9, 90)], &[(1, 10), (3, 30)]]);
        assert_eq!((ids, values), (vec![1, 3, 7, 9], vec![10, 30, 70, 90]));
        assert_eq!((batches, repeated), (2, false));
    }

    #[test]
    fn batches_are_cut_where_segments_end() {
        let id = |segment: u64, row: u64| segment << 32 | row;
        let one = [(id(0, 5), 5), (id(0, 9), 9), (id(3, 0), 30), (id(3, 1), 31)];
        let other = [(id(1, 7), 17), (id(2, 0), 20), (id(4, 4), 44)];
        let (ids, values, batches, repeated) = set(&[&one, &other]);
        assert_eq!(values, vec![5, 9, 17, 20, 30, 31, 44]);
        assert!(ids.is_sorted() && !repeated);
        assert_eq!(batches, 5, "no piece was copied");
        // Rows in no order are sorted as before.
        let mixed: Vec<(u64, i32)> = (0..600).rev().map(|n| (id(n, n), n as i32)).collect();
        let (ids, values, batches, _) = set(&[&mixed]);
        assert_eq!((ids.len(), batches), (600, 1));
        assert!(ids.is_sorted() && values.is_sorted());
        let parts = |ids: Vec<u64>| pieces(&UInt64Array::from(ids));
        assert_eq!(parts(Vec::new()), Vec::<Range<usize>>::new());
        let whole = 0..2;
        assert_eq!(parts(vec![1, 2]), [whole]);
        assert_eq!(parts(vec![1, id(1, 0), id(1, 1), id(2, 0)]), [0..1, 1..3, 3..4]);
    }

    #[test]
    fn many_batches_are_converted_by_several_threads() {
        let rows = |n: u64| (0..50).map(|i| (n << 32 | i, (n * 50 + i) as i32)).collect::<Vec<_>>();
        let batches = (0..200).map(rows).collect::<Vec<_>>();
        let mut given = batches.iter().map(Vec::as_slice).collect::<Vec<_>>();
        given.reverse();
        let (ids, values, parts, repeated) = set(&given);
        assert_eq!(values, (0..10_000).collect::<Vec<_>>());
        assert!(ids.is_sorted() && !repeated);
        assert_eq!(parts, 200);
        // Of a row that is there twice the first is kept, whichever thread was faster.
        let twice = (0..100).map(|n| vec![(7, n), (1 << 32 | n as u64, n)]).collect::<Vec<_>>();
        let (_, values, _, repeated) = set(&twice.iter().map(Vec::as_slice).collect::<Vec<_>>());
        assert_eq!((values[0], values.len(), repeated), (0, 101, true));
        let error = |n: u64| match n {
            150.. => Err(Error::internal(format!("number {n}"))),
            _ => batch(&[(n, 0)]),
        };
        let convert = |_: &[ArrayRef], _: usize| batch(&[(0, 0)]);
        let failed = collect(4, (0..200).map(error).collect::<Vec<_>>().into_iter(), convert);
        assert!(failed.unwrap_err().to_string().contains("number 150"));
    }

    #[test]
    fn overlapping_batches_are_merged_and_the_first_of_equals_is_kept() {
        let (ids, values, _, repeated) = set(&[&[(7, 70), (2, 20)], &[(3, 30), (7, 71)]]);
        assert_eq!((ids, values), (vec![2, 3, 7], vec![20, 30, 70]));
        assert!(repeated);
        let (ids, values, _, repeated) = set(&[&[(5, 1), (4, 2)]]);
        assert_eq!((ids, values, repeated), (vec![4, 5], vec![2, 1], false));
        assert_eq!(set(&[]).0, Vec::<u64>::new());
    }
}
