//! Work in pieces on several threads, and their results in order.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::Scope;

use crate::error::{Error, Result};
use crate::runtime::cancel::{CancelToken, OnThread, go_on, planning, unwound};
use crate::runtime::threads::WORKER_STACK_BYTES;
use parking_lot::{Condvar, Mutex};

/// The name of the threads, as the system shows it.
pub const WORKER_NAME: &str = "swingdb-work";

/// Runs `make`; a panic becomes an error.
pub fn caught<T>(make: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(make)).unwrap_or_else(|payload| Err(unwound(payload)))
}

/// Runs `work` on several threads until it has no more to do, and reports the earliest error.
///
/// `next` hands out pieces of work in order, one thread at a time; `work` does one. After an error
/// no new piece is handed out, but those before it are finished: so the error reported is the first
/// one in the order of the pieces, whichever thread was faster. A panic of either is such an error.
///
/// The caller's thread works too, and is enough: where the system gives fewer threads than asked
/// for, the work is done by those that there are.
///
/// A thread is started when there is work for it: each one that takes a piece starts the next, so
/// a few pieces wake few threads.
///
/// The threads work for the caller's statement (`cancel.rs`): once that is to end, no new piece is
/// handed out, and its error is the one reported.
pub fn in_parallel<T: Send>(
    threads: usize,
    next: impl FnMut() -> Result<Option<(u64, T)>> + Send,
    work: impl Fn(u64, T) -> Result<()> + Sync,
) -> Result<()> {
    let crew = Crew {
        next: Mutex::new((next, 0)),
        work,
        stop: AtomicBool::new(false),
        failed: Mutex::new(None),
        startable: AtomicUsize::new(threads.saturating_sub(1)),
        statement: planning(),
    };
    std::thread::scope(|scope| crew.labour(scope));
    match crew.failed.into_inner() {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}

/// The threads of one [`in_parallel`].
struct Crew<N, W> {
    /// Hands out pieces, and the number of the last one.
    next: Mutex<(N, u64)>,
    work: W,
    stop: AtomicBool,
    failed: Mutex<Option<(u64, Error)>>,
    /// Threads that may still be started.
    startable: AtomicUsize,
    /// What the caller's thread works for.
    statement: Option<CancelToken>,
}

impl<N, W> Crew<N, W> {
    /// Takes pieces and does them until there is none.
    fn labour<'scope, T: Send>(&'scope self, scope: &'scope Scope<'scope, '_>)
    where
        N: FnMut() -> Result<Option<(u64, T)>> + Send,
        W: Fn(u64, T) -> Result<()> + Sync,
    {
        while let Some((order, piece)) = self.take() {
            self.start_another(scope);
            if let Err(error) = caught(|| (self.work)(order, piece)) {
                self.fail(order, error);
            }
        }
    }

    fn start_another<'scope, T: Send>(&'scope self, scope: &'scope Scope<'scope, '_>)
    where
        N: FnMut() -> Result<Option<(u64, T)>> + Send,
        W: Fn(u64, T) -> Result<()> + Sync,
    {
        let one_less = |count: usize| count.checked_sub(1);
        if self.startable.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_err() {
            return;
        }
        let thread = std::thread::Builder::new().name(WORKER_NAME.to_string());
        let thread = thread.stack_size(WORKER_STACK_BYTES);
        let labour = move || {
            let _working = self.statement.as_ref().map(OnThread::of);
            self.labour(scope);
        };
        if thread.spawn_scoped(scope, labour).is_err() {
            // Those that there are do the work.
            self.startable.store(0, Ordering::Relaxed);
        }
    }

    fn take<T>(&self) -> Option<(u64, T)>
    where
        N: FnMut() -> Result<Option<(u64, T)>>,
    {
        let mut guard = self.next.lock();
        // What has failed once must not be asked again: its state means nothing any more.
        if self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let (next, last) = &mut *guard;
        match go_on().and_then(|()| caught(next)) {
            Ok(Some((order, piece))) => {
                *last = order;
                return Some((order, piece));
            }
            Ok(None) => self.stop.store(true, Ordering::Relaxed),
            Err(error) => self.fail(*last + 1, error),
        }
        None
    }

    fn fail(&self, order: u64, error: Error) {
        self.stop.store(true, Ordering::Relaxed);
        let mut failed = self.failed.lock();
        if failed.as_ref().is_none_or(|(earlier, _)| order < *earlier) {
            *failed = Some((order, error));
        }
    }
}

/// Lets threads pass one after the other in the order of their numbers 0, 1, 2 ...
pub struct Turnstile {
    state: Mutex<Turn>,
    moved: Condvar,
}

struct Turn {
    /// Who passes next.
    next: u64,
    /// This number failed and will never pass; nor will those behind it.
    closed_at: u64,
}

impl Default for Turnstile {
    fn default() -> Self {
        let state = Mutex::new(Turn { next: 0, closed_at: u64::MAX });
        Self { state, moved: Condvar::new() }
    }
}

impl Turnstile {
    /// Waits until it is `order`'s turn and runs `pass`; [`Error::Interrupted`] when one before it
    /// failed.
    pub fn pass<T>(&self, order: u64, pass: impl FnOnce() -> Result<T>) -> Result<T> {
        self.pass_before(order, order + 1, pass)
    }

    /// Waits until it is `order`'s turn; the next one is that of `next`. The numbers between them
    /// are nobody's.
    pub fn skip(&self, order: u64, next: u64) -> Result<()> {
        self.pass_before(order, next, || Ok(()))
    }

    fn pass_before<T>(&self, order: u64, next: u64, pass: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut state = self.state.lock();
        while state.next != order && order <= state.closed_at {
            self.moved.wait(&mut state);
        }
        if order > state.closed_at {
            return Err(Error::Interrupted);
        }
        drop(state);
        let result = caught(pass);
        if result.is_err() {
            self.close_at(order);
        }
        self.state.lock().next = next;
        self.moved.notify_all();
        result
    }

    /// `order` failed before its turn: those before it still pass, those behind it end.
    pub fn close_at(&self, order: u64) {
        let mut state = self.state.lock();
        state.closed_at = state.closed_at.min(order);
        drop(state);
        self.moved.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_nobodys_are_skipped() {
        let turnstile = Turnstile::default();
        let passed = Mutex::new(Vec::new());
        // Each piece has as many numbers as it likes, up to the next hundred.
        let mut pieces = (0..20).map(|piece| (piece * 100, piece % 4));
        let result = in_parallel(
            4,
            || Ok(pieces.next()),
            |begin, count: u64| {
                for order in begin..begin + count {
                    turnstile.pass(order, || {
                        passed.lock().push(order);
                        Ok(())
                    })?;
                }
                turnstile.skip(begin + count, begin + 100)
            },
        );
        result.unwrap();
        let expected: Vec<u64> = (0..20)
            .flat_map(|piece| (0..piece % 4).map(move |order| piece * 100 + order))
            .collect();
        assert_eq!(passed.into_inner(), expected);
    }

    #[test]
    fn the_first_error_in_order_wins() {
        for round in 0..50 {
            let mut count = 0;
            let next = || {
                count += 1;
                Ok((count <= 100).then_some((count, count)))
            };
            let result = in_parallel(4, next, |order, piece: u64| {
                if piece % 10 == 7 {
                    // Later pieces fail faster.
                    let wait = std::time::Duration::from_micros(200u64.saturating_sub(order * 10));
                    std::thread::sleep(wait);
                    return Err(Error::plan(format!("{piece}")));
                }
                Ok(())
            });
            assert_eq!(result.unwrap_err().to_string(), "7", "round {round}");
        }
    }

    #[test]
    fn pieces_are_done_by_as_many_threads_as_they_are_and_may_be() {
        // Each piece waits until so many threads have one; a limit ends the wait.
        for (threads, pieces, expected) in [(4, 8, 4), (4, 2, 2), (4, 1, 1), (1, 8, 1)] {
            let met = Meeting::default();
            let mut count = 0..pieces;
            let next = || Ok(count.next().map(|piece| (piece, ())));
            in_parallel(threads, next, |_, ()| {
                met.wait_for(expected);
                Ok(())
            })
            .unwrap();
            assert_eq!(met.threads(), expected, "{threads} threads, {pieces} pieces");
        }
    }

    #[test]
    fn no_piece_is_begun_for_a_statement_that_is_to_end() {
        use crate::runtime::cancel::Running;

        let running = std::sync::Arc::new(Running::default());
        for threads in [1, 4] {
            let token = running.start(None);
            let _working = OnThread::of(&token);
            let (mut count, begun) = (0, AtomicUsize::new(0));
            let next = || {
                count += 1;
                if count == 20 {
                    running.handle().interrupt();
                }
                Ok(Some((count, ())))
            };
            let work = |_, ()| {
                begun.fetch_add(1, Ordering::SeqCst);
                assert!(planning().is_some(), "each thread knows the statement");
                Ok(())
            };
            let ended = in_parallel(threads, next, work);
            assert!(matches!(ended, Err(Error::Interrupted)), "{ended:?}");
            assert_eq!(begun.into_inner(), 20);
        }
    }

    /// Threads that wait for one another.
    #[derive(Default)]
    struct Meeting(Mutex<std::collections::HashSet<std::thread::ThreadId>>, Condvar);

    impl Meeting {
        fn wait_for(&self, count: usize) {
            let mut here = self.0.lock();
            here.insert(std::thread::current().id());
            self.1.notify_all();
            let limit = std::time::Duration::from_secs(20);
            self.1.wait_while_for(&mut here, |here| here.len() < count, limit);
        }

        fn threads(&self) -> usize {
            self.0.lock().len()
        }
    }

    #[test]
    fn a_turnstile_keeps_the_order() {
        let turnstile = Turnstile::default();
        let seen = Mutex::new(Vec::new());
        let mut count = 0;
        let next = || {
            count += 1;
            Ok((count <= 200).then_some((count - 1, ())))
        };
        let work = |order, ()| {
            turnstile.pass(order, || {
                seen.lock().push(order);
                Ok(())
            })
        };
        in_parallel(4, next, work).unwrap();
        assert!(seen.into_inner().into_iter().eq(0..200));
    }
}
