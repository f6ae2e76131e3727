//! Work on many segments of one statement at once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use swingdb_common::error::{Error, Result};

/// Applies `f` to all items on as many threads as there are processors; the results in order.
pub(super) fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    f: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    // Asking for the number of processors reads files of the control group.
    if items.len() <= 1 {
        return items.iter().map(f).collect();
    }
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(items.len());
    let (next, f) = (AtomicUsize::new(0), &f);
    let run = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return Ok(done) };
            done.push((at, f(item)?));
        }
    };
    let parts: Vec<Result<Vec<(usize, R)>>> = std::thread::scope(|scope| {
        // The caller's thread works too: it does all of it where the system gives no other.
        let spawn = |_| std::thread::Builder::new().spawn_scoped(scope, run).ok();
        let handles: Vec<_> = (1..threads).map_while(spawn).collect();
        let panicked = || Err(Error::internal("a thread panicked"));
        let own = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| panicked());
        let join =
            |h: std::thread::ScopedJoinHandle<'_, _>| h.join().unwrap_or_else(|_| panicked());
        std::iter::once(own).chain(handles.into_iter().map(join)).collect()
    });
    let mut all = Vec::with_capacity(items.len());
    for part in parts {
        all.extend(part?);
    }
    all.sort_unstable_by_key(|(at, _)| *at);
    Ok(all.into_iter().map(|(_, r)| r).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_and_an_error_is_told() {
        for count in [0, 1, 2, 1000] {
            let items: Vec<usize> = (0..count).collect();
            let squares = in_parallel(&items, |item| Ok(item * item)).unwrap();
            assert_eq!(squares, items.iter().map(|item| item * item).collect::<Vec<_>>());
            let failed = in_parallel(&items, |item| match item + 1 == count {
                true => Err(Error::plan("the last one")),
                false => Ok(()),
            });
            assert_eq!(failed.is_err(), count > 0);
        }
    }

    #[test]
    fn a_panic_is_an_error() {
        let failed = in_parallel(&[1, 2], |item| match item {
            2 => panic!("for the test"),
            _ => Ok(()),
        });
        assert!(matches!(failed, Err(Error::Internal { .. })), "{failed:?}");
    }
}
