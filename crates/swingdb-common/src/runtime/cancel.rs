//! Ending a running statement from another thread.
//!
//! Every statement runs under a [`CancelToken`]; the session knows the tokens of its running
//! statements and of results still being read. [`InterruptHandle::interrupt`] cancels them all:
//! waiting consumers wake at once with [`Error::Interrupted`], and the tasks that compute are
//! aborted at their next pause. An interrupt with nothing running does nothing.
//!
//! A program may have several things going in one session: two cursors, a result that is read
//! beside a statement. Each can be an [`Interruptible`]: its handle reaches the statements that
//! were started within it, with their results, and no others. It also reaches a statement that
//! waits for the one before it, and all that its work would start next.
//!
//! Planning has no pauses. So a thread that plans knows the token of its statement ([`stoppable`],
//! [`Stoppable`]), and what plans asks for it at each step ([`checkpoint`]): walks over syntax
//! trees, look-ups of names, rules of the optimizer. Where the statement is to end, the stack is
//! unwound to where the token was given, so that no step has to hand an error on. A write
//! transaction that is open meanwhile rolls the statement back, as for any other unwinding.
//!
//! The tasks that compute know the token too ([`reach_tasks`]), for functions that take long for
//! one batch ([`check`]).
//!
//! A change goes on after its query has ended: keys are checked, rows are copied into segments, a
//! state is written to a disk. That is done by the statement's thread and by threads that it starts
//! ([`parallel`](super::parallel)), which know the token. Between pieces of this work they ask
//! whether to go on ([`go_on`]), at least every 100 ms; a piece that is refused ends the change as
//! any other error does. What must not be left half done is run [`to_the_end`].

use std::any::Any;
use std::cell::RefCell;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use datafusion::common::Result as DfResult;
use datafusion::common::runtime::{JoinSetTracer, set_join_set_tracer};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::error::{Error, Result, panic_text, panicked};
use crate::runtime::temporary::Folder;
use crate::runtime::wait::block_on_ticking;

/// Ends the statements a session is running; see
/// `Connection::interrupt_handle` of `swingdb`.
#[derive(Clone, Debug)]
pub struct InterruptHandle {
    running: Arc<Running>,
}

impl InterruptHandle {
    /// Ends the running statement with [`Error::Interrupted`], within about 100 ms.
    pub fn interrupt(&self) {
        let mut state = self.running.state.lock();
        state.interrupted = state.within > 0;
        for token in state.tokens.iter().filter_map(Weak::upgrade) {
            token.cancel();
        }
    }

    /// Lets the work around this thread's statements ([`Interruptible`]) be ended with these
    /// statements, as where a result is read by other work than that which began it.
    pub fn join_here(&self) {
        let all = WITHIN.with_borrow(Vec::clone);
        if all.is_empty() {
            return;
        }
        let tokens = self.running.state.lock().tokens.clone();
        for token in tokens.iter().filter_map(Weak::upgrade) {
            all.iter().for_each(|work| work.add(&token));
        }
    }
}

/// The statements that an interrupt reaches: those of a session, or of an [`Interruptible`].
#[derive(Debug, Default)]
pub struct Running {
    state: Mutex<Reached>,
}

#[derive(Debug, Default)]
struct Reached {
    tokens: Vec<Weak<Cancel>>,
    /// How many threads do the work of an [`Interruptible`]. None does a session's.
    within: usize,
    /// Whether that work is to end. Its next statements then end as they begin.
    interrupted: bool,
}

impl Running {
    /// A token for a statement that starts now; forgotten when its last clone is dropped.
    pub fn start(self: &Arc<Self>, limit: Option<Duration>) -> CancelToken {
        self.start_with(limit, None)
    }

    /// As [`start`](Self::start), of a statement with a folder of its own for temporary files.
    pub fn start_with(
        self: &Arc<Self>,
        limit: Option<Duration>,
        folder: Option<Folder>,
    ) -> CancelToken {
        let deadline = limit.and_then(|limit| Some((Instant::now().checked_add(limit)?, limit)));
        let token = Arc::new(Cancel { deadline, folder, ..Cancel::default() });
        self.add(&token);
        WITHIN.with_borrow(|all| all.iter().for_each(|work| work.add(&token)));
        CancelToken(token)
    }

    /// What another thread ends the statements with.
    pub fn handle(self: &Arc<Self>) -> InterruptHandle {
        InterruptHandle { running: Arc::clone(self) }
    }

    fn add(&self, token: &Arc<Cancel>) {
        let mut state = self.state.lock();
        let is_other = |t: &Weak<Cancel>| Weak::as_ptr(t) != Arc::as_ptr(token);
        state.tokens.retain(|t| t.strong_count() > 0 && is_other(t));
        state.tokens.push(Arc::downgrade(token));
        if state.interrupted {
            token.cancel();
        }
    }
}

thread_local! {
    /// What the statements of this thread are started within, the innermost last.
    static WITHIN: RefCell<Vec<Arc<Running>>> = const { RefCell::new(Vec::new()) };
}

/// Work with statements of its own, which can be ended and nothing else of their sessions.
#[derive(Clone, Debug, Default)]
pub struct Interruptible {
    running: Arc<Running>,
}

impl Interruptible {
    /// Does the work. What is started meanwhile on this thread belongs to it, also its results.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        let _entered = Entered::new(&self.running);
        work()
    }

    /// What another thread ends the work with: its statement, what it would start after that, and
    /// results that are left of it.
    pub fn handle(&self) -> InterruptHandle {
        self.running.handle()
    }

    /// Does work that no handle but those of its sessions reaches, such as to undo what has failed.
    pub fn outside<T>(work: impl FnOnce() -> T) -> T {
        Surroundings::default().run(work)
    }
}

/// While it lives, its thread's statements belong to an [`Interruptible`].
struct Entered<'a> {
    running: &'a Running,
}

impl<'a> Entered<'a> {
    fn new(running: &'a Arc<Running>) -> Self {
        running.state.lock().within += 1;
        WITHIN.with_borrow_mut(|all| all.push(Arc::clone(running)));
        Self { running }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        WITHIN.with_borrow_mut(Vec::pop);
        let mut state = self.running.state.lock();
        state.within -= 1;
        // The next work begins anew.
        state.interrupted &= state.within > 0;
    }
}

/// What a thread's statements are started within, for a thread that does its work for it.
#[derive(Debug, Default)]
pub struct Surroundings(Vec<Arc<Running>>);

impl Surroundings {
    /// Those of this thread.
    pub fn here() -> Self {
        Self(WITHIN.with_borrow(Vec::clone))
    }

    /// Does the work as if on the thread that they come from, which waits meanwhile.
    pub fn run<T>(self, work: impl FnOnce() -> T) -> T {
        /// Puts back what was there, also when the work panics.
        struct Before(Vec<Arc<Running>>);
        impl Drop for Before {
            fn drop(&mut self) {
                WITHIN.set(std::mem::take(&mut self.0));
            }
        }
        let _before = Before(WITHIN.replace(self.0));
        work()
    }
}

/// [`Error::Interrupted`] where the work is to end that this thread's statements belong to; for
/// what waits before a statement has begun.
pub fn may_start() -> Result<()> {
    let ends = WITHIN.with_borrow(|all| all.iter().any(|work| work.state.lock().interrupted));
    if ends { Err(Error::Interrupted) } else { Ok(()) }
}

#[derive(Debug, Default)]
struct Cancel {
    cancelled: AtomicBool,
    wake: Notify,
    /// When the statement ends whether it has finished or not, and after how long that is.
    deadline: Option<(Instant, Duration)>,
    /// Where its temporary files lie, if not in the folder that the environment names.
    folder: Option<Folder>,
}

impl Cancel {
    fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        self.wake.notify_waiters();
    }
}

/// Tells a statement that it is to end.
#[derive(Clone, Debug)]
pub struct CancelToken(Arc<Cancel>);

/// Tells a statement from others, and does not keep it running.
#[derive(Clone, Debug)]
pub struct StatementName(Weak<Cancel>);

impl StatementName {
    /// Whether this is the name of a token's statement.
    pub fn is_of(&self, token: &CancelToken) -> bool {
        Weak::as_ptr(&self.0) == Arc::as_ptr(&token.0)
    }

    /// Whether the statement has ended, with all of its results.
    pub fn has_ended(&self) -> bool {
        self.0.strong_count() == 0
    }
}

impl CancelToken {
    /// What another thread ends this one statement with.
    pub fn handle(&self) -> InterruptHandle {
        let tokens = vec![Arc::downgrade(&self.0)];
        let state = Mutex::new(Reached { tokens, ..Reached::default() });
        InterruptHandle { running: Arc::new(Running { state }) }
    }

    /// The name of the token's statement.
    pub fn name(&self) -> StatementName {
        StatementName(Arc::downgrade(&self.0))
    }

    /// Whether the statement is to end; long loops ask at least every 10 ms.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire) || self.is_late()
    }

    fn is_late(&self) -> bool {
        self.0.deadline.is_some_and(|(deadline, _)| Instant::now() >= deadline)
    }

    /// Why the statement ends before its end.
    pub fn error(&self) -> Error {
        match self.0.deadline {
            Some((_, limit)) if !self.0.cancelled.load(Ordering::Acquire) => {
                Error::TimedOut { limit_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX) }
            }
            _ => Error::Interrupted,
        }
    }

    /// How long the caller's thread may wait without looking at the clock.
    pub(crate) fn patience(&self) -> Duration {
        match self.0.deadline {
            None => Duration::MAX,
            Some((deadline, _)) => {
                // A thread that waits for nothing would spin.
                deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
            }
        }
    }

    /// Wakes whoever waits, once the deadline has passed. The thread that waits calls it: threads
    /// that compute may not pause for long, and so no timer of theirs would fire.
    pub fn look_at_clock(&self) {
        if self.is_late() {
            self.0.wake.notify_waiters();
        }
    }

    /// Waits for `future` on the caller's thread, which looks at the clock meanwhile.
    pub fn wait<F: Future>(&self, future: F) -> F::Output {
        block_on_ticking(future, self.patience(), || self.look_at_clock())
    }

    /// [`Error::Interrupted`] when the statement is to end.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(self.error()) } else { Ok(()) }
    }

    /// Ends when the statement is to end.
    pub async fn cancelled(&self) {
        let mut woken = std::pin::pin!(self.0.wake.notified());
        // Registered before the flag is read, so that a cancel in between is not missed.
        woken.as_mut().enable();
        if !self.is_cancelled() {
            woken.await;
        }
    }
}

thread_local! {
    /// The token of the statement that this thread works on.
    static PLANNING: RefCell<Option<CancelToken>> = const { RefCell::new(None) };
}

/// What unwinds the stack of planning that is to end.
struct Unwound;

/// Leaves the planning of a statement that is to end; see the [module documentation](self).
pub fn checkpoint() {
    let ends = PLANNING.with_borrow(|token| token.as_ref().is_some_and(CancelToken::is_cancelled));
    if ends {
        resume_unwind(Box::new(Unwound));
    }
}

/// The error of a statement that is to end; for functions that compute for long. The threads that
/// compute know the token of their statement as those that plan do.
pub fn check() -> DfResult<()> {
    Ok(go_on()?)
}

/// The error of a statement that is to end; between pieces of a change's work. Threads that work
/// for no statement go on.
pub fn go_on() -> Result<()> {
    PLANNING.with_borrow(|token| token.as_ref().map_or(Ok(()), CancelToken::check))
}

/// Runs work that nothing breaks off once it has begun: the thread knows no statement meanwhile.
pub fn to_the_end<T>(work: impl FnOnce() -> T) -> T {
    let _before = OnThread::replace(None);
    work()
}

/// Gives tasks that the query engine starts the token of the task that starts them.
struct Inherited;

impl JoinSetTracer for Inherited {
    fn trace_future(&self, work: Erased) -> Erased {
        match planning() {
            Some(token) => Box::pin(Stoppable::new(token, work)),
            None => work,
        }
    }

    fn trace_block(
        &self,
        work: Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>,
    ) -> Box<dyn FnOnce() -> Box<dyn Any + Send> + Send> {
        match planning() {
            Some(token) => Box::new(move || {
                let _before = OnThread::of(&token);
                work()
            }),
            None => work,
        }
    }
}

/// What the query engine's tasks are to who looks at them.
type Erased = BoxFuture<'static, Box<dyn Any + Send>>;

/// Has tasks of the query engine know the tokens of their statements.
pub fn reach_tasks() {
    // Set before by another state of this process, which is a forked child: it is the same one.
    let _ = set_join_set_tracer(&Inherited);
}

/// The token of the statement that this thread plans.
pub fn planning() -> Option<CancelToken> {
    PLANNING.with_borrow(Option::clone)
}

/// The folder for temporary files of the statement that this thread works on.
pub fn temporary_folder() -> Folder {
    let named = planning().and_then(|token| token.0.folder.clone());
    named.unwrap_or_else(Folder::of_environment)
}

/// The error for a panic; that of the statement where a [`checkpoint`] has unwound the stack.
pub(crate) fn unwound(payload: Box<dyn Any + Send>) -> Error {
    match payload.is::<Unwound>() {
        true => planning().map_or(Error::Interrupted, |token| token.error()),
        false => panicked(panic_text(payload)),
    }
}

/// While it lives, its thread works for a statement; then for the one before again.
#[derive(Debug)]
pub struct OnThread {
    before: Option<CancelToken>,
    /// It has to be dropped by the same thread.
    _thread: PhantomData<*const ()>,
}

impl OnThread {
    /// The thread works for the statement of `token`.
    pub fn of(token: &CancelToken) -> Self {
        Self::replace(Some(token.clone()))
    }

    fn replace(token: Option<CancelToken>) -> Self {
        Self { before: PLANNING.replace(token), _thread: PhantomData }
    }
}

impl Drop for OnThread {
    fn drop(&mut self) {
        PLANNING.set(self.before.take());
    }
}

/// Runs what plans statements on this thread; a panic in it is an error.
pub fn stoppable<T>(token: &CancelToken, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let _before = OnThread::of(token);
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| match payload.is::<Unwound>() {
        true => Err(token.error()),
        false => Err(unwound(payload)),
    })
}

/// A future that plans a statement, on whatever thread it is polled.
pub struct Stoppable<F> {
    token: CancelToken,
    work: Pin<Box<F>>,
}

impl<F: Future> Stoppable<F> {
    /// The work of a statement that the token ends.
    pub fn new(token: CancelToken, work: F) -> Self {
        Self { token, work: Box::pin(work) }
    }
}

impl<F: Future> Future for Stoppable<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let _before = OnThread::of(&self.token);
        self.work.as_mut().poll(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::threads;
    use crate::runtime::wait::block_on;

    #[test]
    fn an_interrupt_reaches_what_runs_and_nothing_that_starts_later() {
        let running = Arc::new(Running::default());
        let first = running.start(None);
        running.handle().interrupt();
        let second = running.start(None);
        assert!(matches!(first.check(), Err(Error::Interrupted)));
        assert!(second.check().is_ok());
        let planned = stoppable(&second, || {
            checkpoint();
            second.0.cancel();
            checkpoint();
            Ok(())
        });
        assert!(matches!(planned, Err(Error::Interrupted)));
        let panics = stoppable(&second, || -> Result<()> { panic!("no luck") });
        assert!(matches!(panics, Err(Error::Internal { .. })));
        checkpoint();
        {
            let _working = OnThread::of(&second);
            assert!(matches!(go_on(), Err(Error::Interrupted)));
            assert!(to_the_end(go_on).is_ok(), "what must be finished is");
            assert!(go_on().is_err());
        }
        assert!(go_on().is_ok(), "a thread without a statement goes on");
        drop(first);
        let named = running.start_with(None, Some(Folder::named("/elsewhere".into())));
        {
            let _working = OnThread::of(&named);
            assert_eq!(temporary_folder(), Folder::named("/elsewhere".into()));
        }
        assert_eq!(temporary_folder(), Folder::of_environment());
        drop(named);
        let late = running.start(Some(Duration::ZERO));
        assert!(matches!(late.check(), Err(Error::TimedOut { limit_ms: 0 })));
        late.wait(late.cancelled());
        drop(late);
        let state = running.state.lock();
        assert_eq!(state.tokens.iter().filter(|t| t.strong_count() > 0).count(), 1);
    }

    #[test]
    fn work_is_ended_and_nothing_else_of_its_session() {
        let session = Arc::new(Running::default());
        let (one, other) = (Interruptible::default(), Interruptible::default());
        let ends = |token: &CancelToken| token.check().is_err();
        let result = one.run(|| session.start(None));
        let beside = other.run(|| session.start(None));
        one.handle().interrupt();
        assert!(ends(&result), "what is left of the work is reached, too");
        assert!(!ends(&beside));
        one.run(|| {
            let first = session.start(None);
            assert!(!ends(&first), "the interrupt before was of the work before");
            one.handle().interrupt();
            assert!(ends(&first) && ends(&session.start(None)), "all of the work ends");
            assert!(matches!(may_start(), Err(Error::Interrupted)));
            assert!(!ends(&Interruptible::outside(|| session.start(None))));
            other.run(|| assert!(ends(&session.start(None)), "work within it ends as well"));
            let carried = Surroundings::here();
            std::thread::scope(|threads| {
                threads.spawn(|| assert!(may_start().is_ok() && !ends(&session.start(None))));
                let as_here = || assert!(may_start().is_err() && ends(&session.start(None)));
                threads.spawn(move || carried.run(as_here));
            });
        });
        assert!(may_start().is_ok() && !ends(&session.start(None)));
        let read = one.run(|| session.start(None));
        other.run(|| {
            one.handle().join_here();
            other.handle().interrupt();
        });
        assert!(ends(&read), "who reads a result ends it");
        other.handle().interrupt();
        assert!(!ends(&other.run(|| session.start(None))), "an interrupt of nothing is forgotten");
        let all = [one.run(|| session.start(None)), session.start(None)];
        session.handle().interrupt();
        assert!(all.iter().all(ends), "a session's interrupt reaches all of its statements");
    }

    #[test]
    fn tasks_of_the_engine_know_the_statement_they_compute_for() {
        use datafusion::common::runtime::SpawnedTask;

        reach_tasks();
        let token = Arc::new(Running::default()).start(None);
        let both = |token: &CancelToken| {
            let work = async {
                let task = SpawnedTask::spawn(async { check().is_err() });
                let block = SpawnedTask::spawn_blocking(|| check().is_err());
                (task.await.unwrap(), block.await.unwrap())
            };
            let mut task = threads::spawn(Stoppable::new(token.clone(), work)).unwrap();
            block_on(task.join()).unwrap()
        };
        assert_eq!(both(&token), (false, false));
        token.0.cancel();
        assert_eq!(both(&token), (true, true));
        assert!(check().is_ok());
    }
}
