//! Work on many segments of one statement at once, and batches in pieces of their size.

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::concat;
use parking_lot::Mutex;
use swingdb_common::error::Result;
use swingdb_common::runtime::cancel::go_on;
use swingdb_common::runtime::parallel;

use crate::segments::rowids::SEGMENT_ROWS;

/// Applies `f` to all items on at most so many threads; the results in order. Between items it asks
/// whether the statement goes on.
pub(crate) fn in_parallel<T: Sync, R: Send>(
    threads: usize,
    items: &[T],
    f: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    if items.len() <= 1 {
        go_on()?;
        return items.iter().map(f).collect();
    }
    let mut pieces = items.iter().enumerate().map(|(at, item)| (at as u64, item));
    let done = Mutex::new(Vec::with_capacity(items.len()));
    let work = |at, item| {
        let result = f(item)?;
        done.lock().push((at, result));
        Ok(())
    };
    parallel::in_parallel(threads, || Ok(pieces.next()), work)?;
    let mut done = done.into_inner();
    done.sort_unstable_by_key(|(at, _)| *at);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

/// The rows of a batch in pieces of at most a segment's, at least one; between them it asks whether
/// the statement goes on.
pub(crate) fn in_pieces(batch: &RecordBatch) -> impl Iterator<Item = Result<RecordBatch>> {
    let rows = batch.num_rows();
    (0..rows.max(1)).step_by(SEGMENT_ROWS).map(move |first| {
        go_on()?;
        Ok(batch.slice(first, SEGMENT_ROWS.min(rows - first)))
    })
}

/// A column of all batches.
pub(crate) fn whole_column(values: &[Vec<ArrayRef>], column: usize) -> Result<ArrayRef> {
    let pieces: Vec<&dyn Array> = values.iter().map(|batch| batch[column].as_ref()).collect();
    Ok(concat(&pieces)?)
}

#[cfg(test)]
mod tests {
    use swingdb_common::error::Error;

    use super::*;

    #[test]
    fn results_are_in_order_and_an_error_is_told() {
        for count in [0, 1, 2, 1000] {
            let items: Vec<usize> = (0..count).collect();
            let squares = in_parallel(4, &items, |item| Ok(item * item)).unwrap();
            assert_eq!(squares, items.iter().map(|item| item * item).collect::<Vec<_>>());
            let failed = in_parallel(4, &items, |item| match item + 1 == count {
                true => Err(Error::plan("the last one")),
                false => Ok(()),
            });
            assert_eq!(failed.is_err(), count > 0);
        }
    }

    #[test]
    fn a_panic_is_an_error() {
        let failed = in_parallel(2, &[1, 2], |item| match item {
            2 => panic!("for the test"),
            _ => Ok(()),
        });
        assert!(matches!(failed, Err(Error::Internal { .. })), "{failed:?}");
    }
}
