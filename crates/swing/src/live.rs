//! Live hooks: asking the owner of an area for its state of this moment.
//!
//! A thread of the owner, the *responder*, listens on a Unix socket in the area's folder. Whoever
//! hooks live connects, asks, and watches the manifest that the owner has made ahead
//! ([`crate::prepared`]): as soon as it is known what lies where the state can be mapped, and
//! meanwhile it becomes current. Who has nothing to watch hooks the state like any other when the
//! answer comes that it is current. Several that ask at once share one publish: it happens after
//! each of them asked. With an answer comes a bell: from then on who hooks only rings it, and
//! watches, and inquires when there is nothing to watch, or nothing comes. What "moment" means with
//! threads that store all the while is said in [`crate::tracked`]. The responder runs where stores
//! come from ([`crate::seat`]).
//!
//! An owner that is dead, stopped or busy for longer than the hooker waits does not answer, and one
//! whose publish fails says so. Then the hook fails, or, if the hooker has asked for that
//! ([`IfStale::Accept`]), gives the last shared state, which says that it is not fresh. An owner
//! that refuses hooks, or is over its copy-on-write threshold, says so.
//!
//! What comes through the socket is hostile: requests have a fixed length, clients have a bounded
//! time and number, and of a request only its time is used, as a hint. A forked child closes its
//! copies of the socket and of the connections, so that it never looks like an owner.
//!
//! The program may close what the responder listens on, and may have its own files at these numbers
//! ([`crate::sys::kept_file`]). The responder looks before it waits and before it uses what it was
//! woken by. It forgets what it has lost, and listens anew; its clients connect again.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use libc::c_int;
use rustix::io::Errno;

use crate::area::area::Area;
use crate::area::core::Core;
use crate::area::live_slot::{LiveGuard, LiveResponder};
use crate::ask::{self, Answer, ask};
use crate::hook::{HookOptions, IfStale};
use crate::model::error::{Context, Fault, HookError, NotFresh, Result, TrackError};
use crate::model::manifest::Kind;
use crate::model::name::AreaName;
use crate::namespace::files::{LIVE, NEW_LIVE};
use crate::namespace::handle::Namespace;
use crate::namespace::newest;
use crate::publish::Published;
use crate::ready::{Past, Ready};
use crate::seat::Seat;
use crate::snapshot::Snapshot;
use crate::sys::block_signals::{self, Quiet};
use crate::sys::file::Folder;
use crate::sys::kept_file::{Access, KeptFile};
use crate::sys::notifier::{Bell, Stamp};
use crate::sys::sync::Mutex;
use crate::sys::{descriptors, pass_fd, process};

/// Clients that may be connected at a time; further ones wait in the queue of the socket.
const MAX_CLIENTS: usize = 64;
/// How often clients that have begun to ask are looked at.
const ASKING: Duration = Duration::from_millis(100);
/// How long a client may take to ask.
const MAX_CLIENT_TIME: Duration = Duration::from_secs(1);
/// How often the responder lets others have its processor, after it has answered: each time they
/// may use one of its short time slices. Where nobody else wants it that takes microseconds.
const YIELDS: u32 = 16;
/// How long after the last hook memory that was kept for the next one is given back: twice the
/// time between the last two, within these bounds.
const LEAST_IDLE: Duration = Duration::from_secs(1);
const MOST_IDLE: Duration = Duration::from_secs(60);
/// What a request begins with.
pub(crate) const REQUEST: [u8; 16] = *b"SWINGLIVEHOOK\0\0\x05";
/// The whole of it: then comes the time when it was sent, in nanoseconds of the clock that all
/// processes share, or this, by one who has rung before.
pub(crate) const REQUEST_BYTES: usize = 24;
pub(crate) const RUNG: u64 = 0;
/// An answer: status, and the number of the thread that answers.
pub(crate) const ANSWER_BYTES: usize = 8;
pub(crate) const FRESH: u32 = 1;
pub(crate) const REFUSED: u32 = 2;
pub(crate) const FAILED: u32 = 3;
pub(crate) const PINNED: u32 = 4;

/// How often a hooker asks again whose connection was closed before there was an answer.
const MAX_ASKS: u32 = 3;

/// What the responder's thread is called.
pub(crate) const THREAD: &str = "swing-live";

/// The owner's side.
#[derive(Debug)]
pub(crate) struct Responder {
    shared: Arc<Shared>,
    /// To whom the thread listens.
    connections: Connections,
    thread: JoinHandle<()>,
    seat: Seat,
}

/// What the thread listens on; exchanged when the program has closed it. Locked only with the
/// area's [`LiveSlot`], or by whoever has taken the responder out of that.
#[derive(Debug)]
struct Shared {
    ends: Mutex<Arc<Ends>>,
}

/// What a responder is woken by, besides its clients.
#[derive(Debug)]
struct Ends {
    listener: KeptFile,
    bell: Bell,
}

impl Ends {
    fn are_here(&self) -> bool {
        self.listener.is_here() && self.bell.here().is_ok()
    }
}

/// The connections of clients, as long as they are open.
type Connections = Arc<Mutex<Vec<Arc<KeptFile>>>>;

impl LiveResponder for Responder {
    fn move_to(&self, processor: u32) {
        self.seat.move_to(processor);
    }

    fn abandon_in_child(self: Box<Self>) {
        // A connection that is just being made or closed stays open with the child.
        let clients = self.connections.try_lock().map(|mut c| std::mem::take(&mut *c));
        let ends = self.shared.ends.lock().clone();
        ends.listener.close_in_child();
        ends.bell.close_in_child();
        clients.iter().flatten().for_each(|client| client.close_in_child());
        std::mem::forget(ends);
        self.forget();
    }

    fn stop(self: Box<Self>, folder: &Folder) {
        let ends = self.shared.ends.lock().clone();
        let shut = ends.listener.here().is_ok_and(|listener| {
            // SAFETY: an open descriptor that `ends` has.
            unsafe { libc::shutdown(listener.as_fd().as_raw_fd(), libc::SHUT_RDWR) == 0 }
        });
        drop(ends);
        // The thread may wait on a socket that the program has closed since: it is woken, and finds
        // that it is to end.
        let told = shut || ask::wake(folder);
        let _ = folder.unlink(LIVE);
        assert_ne!(
            self.thread.thread().id(),
            std::thread::current().id(),
            "the responder holds the area only while it answers"
        );
        if told {
            let _ = self.thread.join();
        } else {
            // The thread may wait for ever, and answers nobody, since its socket is not in the
            // folder any more.
            self.forget();
        }
    }
}

impl Responder {
    /// Neither waits for the thread nor closes a descriptor by its number.
    fn forget(self: Box<Self>) {
        std::mem::forget(self);
    }
}

impl Area {
    /// `true`: shares the present state, and from now on other processes may hook the state of any
    /// moment by [`Namespace::hook_live`], while this one goes on storing. The area becomes
    /// tracked. `false`: hooks are refused, of either kind.
    pub fn allow_live_hooks(&self, allow: bool) -> Result<(), TrackError> {
        let core = &self.core;
        let result = if allow { core.start_live() } else { core.refuse_live() };
        result.map_err(|fault| TrackError::from_fault(fault, &core.context()))
    }

    /// Has `guard` called around each publish that a live hook asks for: it must call its argument
    /// once. The place to take a lock, so that a structure in the area is whole in every snapshot.
    /// It runs in the responder's thread, which is kept on the processor where stores come from.
    pub fn guard_live_hooks(&self, guard: Option<LiveGuard>) {
        self.core.live.lock().guard = guard;
    }
}

impl Core {
    fn start_live(self: &Arc<Self>) -> Result<()> {
        self.track()?;
        let before = std::mem::replace(&mut self.lock_for_change()?.hookable, true);
        let started = self.answer_from_now();
        if started.is_err()
            && !before
            && let Ok(mut state) = self.lock_for_change()
        {
            state.hookable = false;
            let _ = self.place_shared_link(&mut state);
        }
        started
    }

    fn answer_from_now(self: &Arc<Self>) -> Result<()> {
        self.place_shared_link(&mut *self.lock_for_change()?)?;
        if let Some(published) = self.answer_live(None)? {
            let _ = self.follow_up(published);
        }
        let mut live = self.live.lock();
        if live.responder.is_some() {
            return Ok(());
        }
        let ends = Arc::new(self.listen()?);
        let shared = Arc::new(Shared { ends: Mutex::new(ends.clone()) });
        let core = Arc::downgrade(self);
        let (seat, connections) = (Seat::default(), Connections::default());
        let (taken, noted) = (seat.clone(), connections.clone());
        let thread = block_signals::without_signals(|| {
            let builder = std::thread::Builder::new().name(THREAD.into());
            let clients = move |stream| Client::new(stream, noted.clone());
            let shared = shared.clone();
            builder.spawn(move || respond(ends, &shared, &taken, clients, || core.upgrade()))
        });
        let thread = thread.map_err(|e| {
            let _ = self.folder.unlink(LIVE);
            Fault::io("listen on", &self.folder.join(LIVE), e)
        })?;
        self.expect_live_hooks(true);
        live.responder = Some(Box::new(Responder { shared, connections, thread, seat }));
        drop(live);
        self.prepare_manifest();
        Ok(())
    }

    /// What is listened on, with its name in the folder.
    fn listen(&self) -> Result<Ends> {
        let path = self.folder.join(LIVE);
        let fault = |e| Fault::io("listen on", &path, e);
        // A name comes before the listening: whoever connects in between would find nobody.
        self.folder.unlink(NEW_LIVE)?;
        let bind = || UnixListener::bind(self.folder.proc_path(NEW_LIVE)?);
        let listener = descriptors::open(bind).map(UnixListener::from).map_err(fault)?;
        // In place of one that an owner before has left.
        self.folder.rename(NEW_LIVE, LIVE)?;
        listener.set_nonblocking(true).map_err(fault)?;
        let listener = KeptFile::new(listener, Access::Read).map_err(|e| fault(e.into()))?;
        Ok(Ends { listener, bell: Bell::new().map_err(fault)? })
    }

    /// For a responder that has lost what it listened on; `None` when it is to end, or cannot go
    /// on.
    fn listen_again(&self, shared: &Shared) -> Option<Arc<Ends>> {
        let mut live = self.live.lock();
        if !live.is_answering() {
            return None;
        }
        if let Ok(ends) = self.listen() {
            let ends = Arc::new(ends);
            *shared.ends.lock() = ends.clone();
            return Some(ends);
        }
        // Nobody answers any more: hooks are of the newest shared state.
        drop(live.responder.take());
        drop(live);
        let _ = self.folder.unlink(LIVE);
        self.expect_live_hooks(false);
        None
    }

    fn refuse_live(&self) -> Result<()> {
        self.check_fork()?;
        self.stop_live();
        let mut state = self.lock_for_change()?;
        state.hookable = false;
        self.place_shared_link(&mut state)
    }

    /// Ends the responder; when this returns it answers nobody any more.
    pub(crate) fn stop_live(&self) {
        if self.check_fork().is_err() {
            return;
        }
        let Some(responder) = self.live.lock().responder.take() else { return };
        self.expect_live_hooks(false);
        responder.stop(&self.folder);
        if let Ok(mut state) = self.lock_for_change() {
            self.forget_prepared(&mut state);
        }
    }

    /// Publishes for those who asked, perhaps by a ring with this stamp. `None`: hooks are refused.
    fn answer_live(&self, stamp: Option<Stamp>) -> Result<Option<Published>> {
        // Without the guard while something is pinned: whoever ends that may want its lock.
        self.when_unpinned(|| self.answer_now(stamp))
    }

    fn answer_now(&self, stamp: Option<Stamp>) -> Result<Option<Published>> {
        let guard = self.live.lock().guard.clone();
        let mut result = Ok(None);
        let mut publish = || {
            result = {
                let admitted = self.lock_for_change().and_then(|mut state| self.admits(&mut state));
                match admitted {
                    Ok(true) => self.publish_live(stamp).map(Some),
                    Ok(false) => Ok(None),
                    Err(fault) => Err(fault),
                }
            };
        };
        match guard {
            Some(guard) => guard(&mut publish),
            None => publish(),
        }
        result
    }

    fn publish_live(&self, stamp: Option<Stamp>) -> Result<Published> {
        let mut state = self.lock_for_change()?;
        state.rung = stamp;
        let payload = state.payload.clone();
        drop(state);
        self.publish_quickly(Kind::Shared, &payload)
    }

    /// Whether hooks are admitted, after a look whether memory held for snapshots has come free.
    fn admits(&self, state: &mut crate::area::tables::Tables) -> Result<bool> {
        if state.over_threshold || state.cow_threshold.is_some() {
            self.reclaim_some(state)?;
        }
        Ok(state.hookable && !state.over_threshold)
    }
}

/// A client: one that has not asked completely, or one that has been answered and may ask again.
struct Client {
    stream: Arc<KeptFile>,
    request: [u8; REQUEST_BYTES],
    got: usize,
    since: Instant,
    /// It has the bell, too.
    answered: bool,
    /// Where its descriptor is noted.
    noted: Connections,
}

impl Drop for Client {
    fn drop(&mut self) {
        self.noted.lock().retain(|noted| !Arc::ptr_eq(noted, &self.stream));
    }
}

/// What a client has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Waits,
    Asks,
    /// It has rung before, and asks whether that has come to anything.
    Inquires,
    /// It has gone, or sends something else.
    Ends,
}

impl Client {
    fn new(stream: KeptFile, noted: Connections) -> Self {
        let stream = Arc::new(stream);
        noted.lock().push(stream.clone());
        let request = [0; REQUEST_BYTES];
        Self { stream, request, got: 0, since: Instant::now(), answered: false, noted }
    }

    /// It has been answered, and does not ask again at the moment.
    fn is_resting(&self) -> bool {
        self.answered && self.got == 0
    }

    /// What it has come to, given what `poll` said of its socket.
    fn step(&mut self, events: c_int) -> Step {
        if self.is_resting() && events == 0 { Step::Waits } else { self.read() }
    }

    /// Reads what is there of a request.
    fn read(&mut self) -> Step {
        // One that the program has closed is not read.
        let Ok(stream) = self.stream.here() else { return Step::Ends };
        match rustix::io::read(stream, &mut self.request[self.got..]) {
            Ok(0) => Step::Ends,
            Ok(n) => {
                self.got += n;
                debug_assert!(self.got <= REQUEST_BYTES);
                match self.got == REQUEST_BYTES {
                    true if !self.request.starts_with(&REQUEST) => Step::Ends,
                    true if self.sent_ns() == RUNG => Step::Inquires,
                    true => Step::Asks,
                    false => Step::Waits,
                }
            }
            Err(Errno::AGAIN | Errno::INTR) => {
                match self.is_resting() || self.since.elapsed() <= MAX_CLIENT_TIME {
                    true => Step::Waits,
                    false => Step::Ends,
                }
            }
            Err(_) => Step::Ends,
        }
    }

    /// Answers; with the first answer comes the bell. `false`: it has gone, or does not read.
    fn answer(&mut self, answer: &[u8], bell: &Bell) -> bool {
        let (Ok(stream), Ok(bell)) = (self.stream.here(), bell.here()) else { return false };
        if !self.answered {
            return pass_fd::send(stream, answer, bell.as_fd()).is_ok();
        }
        let (fd, bytes) = (stream.as_fd().as_raw_fd(), answer.as_ptr().cast());
        // SAFETY: a valid descriptor and buffer; without a signal when the other side is closed.
        let sent = unsafe { libc::send(fd, bytes, answer.len(), libc::MSG_NOSIGNAL) };
        sent == answer.len() as isize
    }

    /// When the request was sent, as it says.
    fn sent_ns(&self) -> u64 {
        self.request.last_chunk().map_or(RUNG, |time| u64::from_le_bytes(*time))
    }

    /// After an answer: it may ask again.
    fn rest(&mut self) {
        debug_assert_eq!(self.got, REQUEST_BYTES, "it has asked");
        (self.got, self.since, self.answered) = (0, Instant::now(), true);
    }
}

/// Accepts a connection, if somebody wants one.
fn accept(listener: &KeptFile) -> io::Result<KeptFile> {
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let stream = descriptors::open(|| {
        let fd = listener.here()?.as_fd().as_raw_fd();
        // SAFETY: a valid descriptor; makes one, which its owner closes.
        match unsafe { libc::accept4(fd, std::ptr::null_mut(), std::ptr::null_mut(), flags) } {
            -1 => Err(io::Error::last_os_error()),
            // SAFETY: the one just made.
            fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        }
    })?;
    Ok(KeptFile::new(stream, Access::Write)?)
}

/// The responder's thread: until the socket is shut down or the area gone.
fn respond(
    mut ends: Arc<Ends>,
    shared: &Shared,
    seat: &Seat,
    client: impl Fn(KeptFile) -> Client,
    core: impl Fn() -> Option<Arc<Core>>,
) {
    Quiet::for_ever();
    process::wake_promptly();
    let seat = seat.take();
    let (mut clients, mut idle) = (Vec::<Client>::new(), Idle::default());
    // What the last publish came to, and what it has left to do.
    let mut last: Option<[u8; ANSWER_BYTES]> = None;
    let mut left: Option<Left> = None;
    loop {
        let longest = if left.is_some() { Some(Duration::ZERO) } else { idle.longest(&clients) };
        let events = match wait_for_clients(&ends, &clients, longest) {
            Woken::By(events) => events,
            Woken::Over => return left.into_iter().for_each(Left::finish),
            Woken::Lost => {
                // They have the lost bell: they connect again.
                clients.clear();
                left.take().into_iter().for_each(Left::finish);
                let Some(again) = core().and_then(|core| core.listen_again(shared)) else { return };
                ends = again;
                continue;
            }
        };
        let bell = &ends.bell;
        let mut questions = Questions::at(process::monotonic_ns());
        for (client, events) in std::mem::take(&mut clients).into_iter().zip(events.clients) {
            questions.sort(client, events, &mut clients);
        }
        if events.come {
            take_in(&ends.listener, &client, &mut questions, &mut clients);
        }
        // Before the publish: who rings later needs another one. Whoever inquires has rung before.
        if (events.rung || !questions.clients.is_empty())
            && let Some(rung) = bell.silence(questions.seen_ns)
        {
            questions.note(rung.waited);
            questions.stamp = rung.stamp;
        }
        if !questions.need_publish
            && let Some(answer) = &last
        {
            clients.extend(questions.answered(answer, bell));
        }
        if let Some(left) = left.take() {
            left.finish();
            idle.hooked();
        }
        if questions.clients.is_empty() && !questions.need_publish {
            if idle.is_over() {
                let Some(core) = core() else { return };
                idle.again(core.reclaim_idle().unwrap_or(false));
            }
            continue;
        }
        let Some(core) = core() else { return };
        let published = core.answer_live(questions.stamp);
        let answer = last.insert(answer_to(&published));
        clients.extend(questions.answered(answer, bell));
        // On a busy machine whoever has been answered may need this very processor, and goes first.
        (0..YIELDS).for_each(|_| std::thread::yield_now());
        seat.asked(questions.waited);
        // Who has rung, and could not watch, asks about now, and does not wait for the rest.
        left = Some(Left { core, published });
    }
}

/// Takes those who want to connect. Nobody is looked for who has not come: whoever asks waits for
/// each call made here.
fn take_in(
    listener: &KeptFile,
    client: impl Fn(KeptFile) -> Client,
    questions: &mut Questions,
    clients: &mut Vec<Client>,
) {
    while has_room(clients, questions.clients.len()) {
        let Ok(stream) = accept(listener) else { break };
        make_room(clients, questions.clients.len());
        questions.sort(client(stream), libc::POLLIN.into(), clients);
    }
}

/// What a publish has left to do when nobody waits for it any more: what it made superfluous is
/// given back, and the next one is made ready.
struct Left {
    core: Arc<Core>,
    published: Result<Option<Published>>,
}

impl Left {
    fn finish(self) {
        let Self { core, published } = self;
        let _ = match published {
            Ok(Some(published)) => core.follow_up(published),
            _ => core.drop_lifted_later(),
        };
        core.prepare_manifest();
        core.copy_ahead_soon();
        core.seat_responder();
    }
}

/// What the responder has been asked.
struct Questions {
    /// When it was seen.
    seen_ns: u64,
    clients: Vec<Client>,
    /// Somebody has asked, or rung, for whom nothing was published yet.
    need_publish: bool,
    /// For so long, as far as is known.
    waited: Duration,
    /// Of the ring.
    stamp: Option<Stamp>,
}

impl Questions {
    fn at(seen_ns: u64) -> Self {
        let (clients, waited) = (Vec::new(), Duration::ZERO);
        Self { seen_ns, clients, need_publish: false, waited, stamp: None }
    }

    /// Puts a client to those who have asked, or to those who have not.
    fn sort(&mut self, mut client: Client, events: c_int, others: &mut Vec<Client>) {
        match client.step(events) {
            Step::Waits => others.push(client),
            Step::Asks => {
                let waited = self.seen_ns.checked_sub(client.sent_ns());
                self.note(waited.map_or(Duration::MAX, Duration::from_nanos));
                self.clients.push(client);
            }
            Step::Inquires => self.clients.push(client),
            Step::Ends => {}
        }
    }

    fn note(&mut self, waited: Duration) {
        self.need_publish = true;
        self.waited = self.waited.max(waited);
    }

    /// All have the answer, and may ask again. Who has gone, or does not read, needs none.
    fn answered(&mut self, answer: &[u8], bell: &Bell) -> Vec<Client> {
        let mut clients = std::mem::take(&mut self.clients);
        clients.retain_mut(|client| client.answer(answer, bell));
        clients.iter_mut().for_each(Client::rest);
        clients
    }
}

/// The answer to all who have asked.
fn answer_to(published: &Result<Option<Published>>) -> [u8; ANSWER_BYTES] {
    let status = match published {
        Ok(Some(_)) => FRESH,
        Ok(None) => REFUSED,
        Err(Fault::Pinned) => PINNED,
        Err(_) => FAILED,
    };
    let mut answer = [0; ANSWER_BYTES];
    answer[..4].copy_from_slice(&status.to_le_bytes());
    answer[4..].copy_from_slice(&process::thread_id().to_le_bytes());
    answer
}

/// Whether another client can be taken, besides those who are just asking.
fn has_room(clients: &[Client], asking: usize) -> bool {
    clients.len() + asking < MAX_CLIENTS || clients.iter().any(Client::is_resting)
}

/// Closes the connection of the client that has rested longest, when there are too many.
fn make_room(clients: &mut Vec<Client>, asking: usize) {
    let resting = clients.iter().enumerate().filter(|(_, c)| c.is_resting());
    if clients.len() + asking >= MAX_CLIENTS
        && let Some((at, _)) = resting.min_by_key(|(_, c)| c.since)
    {
        clients.remove(at);
    }
    debug_assert!(clients.len() + asking < MAX_CLIENTS);
}

/// When it is time to give back what was kept for the next hook.
#[derive(Default)]
struct Idle {
    last: Option<Instant>,
    at: Option<Instant>,
}

impl Idle {
    /// A hook: who hooks every few seconds goes on doing so.
    fn hooked(&mut self) {
        let now = Instant::now();
        let between = self.last.map_or(Duration::ZERO, |last| now - last);
        self.last = Some(now);
        self.at = Some(now + (2 * between).clamp(LEAST_IDLE, MOST_IDLE));
    }

    fn is_over(&self) -> bool {
        self.at.is_some_and(|at| Instant::now() >= at)
    }

    /// How long the responder sleeps at most.
    fn longest(&self, clients: &[Client]) -> Option<Duration> {
        match clients.iter().all(Client::is_resting) {
            false => Some(ASKING),
            true => self.at.map(|_| LEAST_IDLE),
        }
    }

    /// Memory has been given back; `more` may follow.
    fn again(&mut self, more: bool) {
        self.at = more.then(|| Instant::now() + LEAST_IDLE);
    }
}

/// What has happened while nobody asked.
struct Events {
    /// Somebody wants to connect.
    come: bool,
    /// Somebody who has been answered before asks.
    rung: bool,
    /// Of each client's socket.
    clients: Vec<c_int>,
}

/// What a wait came to.
enum Woken {
    By(Events),
    /// The socket has been shut down.
    Over,
    /// The program has closed the socket or the bell.
    Lost,
}

/// Waits for something to happen.
fn wait_for_clients(ends: &Ends, clients: &[Client], longest: Option<Duration>) -> Woken {
    let poll = |fd: RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let (Ok(listener), Ok(bell)) = (ends.listener.here(), ends.bell.here()) else {
        return Woken::Lost;
    };
    let full = !has_room(clients, 0);
    let mut polls = vec![libc::pollfd {
        fd: listener.as_fd().as_raw_fd(),
        events: if full { 0 } else { libc::POLLIN },
        revents: 0,
    }];
    polls.push(poll(bell.as_fd().as_raw_fd()));
    // What is not there any more is looked at at once, and then forgotten.
    let gone = clients.iter().any(|client| !client.stream.is_here());
    let number = |c: &Client| c.stream.here().map_or(-1, |here| here.as_fd().as_raw_fd());
    polls.extend(clients.iter().map(|client| poll(number(client))));
    let longest = if gone { Some(Duration::ZERO) } else { longest };
    let time = longest.map_or(-1, |time| time.as_millis() as c_int);
    // SAFETY: a valid array of that length; the call writes only `revents`.
    unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, time) };
    debug_assert_eq!(polls.len(), clients.len() + 2);
    if !ends.are_here() {
        return Woken::Lost;
    }
    let over = libc::POLLHUP | libc::POLLERR | libc::POLLNVAL;
    if polls[0].revents & over != 0 {
        return Woken::Over;
    }
    let events = |poll: &libc::pollfd| match poll.fd {
        -1 => c_int::from(libc::POLLHUP),
        _ => poll.revents.into(),
    };
    Woken::By(Events {
        come: polls[0].revents != 0,
        rung: polls[1].revents != 0,
        clients: polls[2..].iter().map(events).collect(),
    })
}

impl Namespace {
    /// A snapshot of the area's state of this moment, if its owner allows live hooks and answers
    /// within five seconds; else an error. The owner publishes the state after this was called.
    pub fn hook_live(&self, name: &AreaName) -> Result<Snapshot, HookError> {
        self.hook_live_with(name, HookOptions::default())
    }

    /// As [`Namespace::hook_live`], with options.
    pub fn hook_live_with(
        &self,
        name: &AreaName,
        options: HookOptions,
    ) -> Result<Snapshot, HookError> {
        // Nothing comes before the question.
        let result = self.hook_live_inner(name, options);
        result.map_err(|fault| HookError::from_fault(fault, &Context::named(name, self.path())))
    }

    /// Whether the area's owner is there to answer [`Namespace::hook_live`], if only to refuse, or
    /// is stopped: `false` for one that has never allowed live hooks, or has ended.
    pub fn answers_live_hooks(&self, name: &AreaName) -> Result<bool, HookError> {
        let answered = ask::is_answered(self.folder(), name);
        answered.map_err(|fault| HookError::from_fault(fault, &Context::named(name, self.path())))
    }

    fn hook_live_inner(&self, name: &AreaName, options: HookOptions) -> Result<Snapshot> {
        let end = Instant::now() + options.patience;
        let mut why = NotFresh::NobodyAnswers;
        for _ in 0..MAX_ASKS {
            match self.hook_asking(name, options, end)? {
                Asked::Hooked(snapshot) => return Ok(snapshot.fresh()),
                Asked::Again => {}
                Asked::NotFresh(reason) => {
                    why = reason;
                    break;
                }
            }
        }
        if options.if_stale == IfStale::Accept {
            return self.hook_inner(name, options);
        }
        // One that has nothing to hook says that.
        newest::open_newest(&self.folder().open_folder(&name.folder())?)?;
        Err(Fault::NotFresh(why))
    }

    /// Asks once.
    fn hook_asking(&self, name: &AreaName, options: HookOptions, end: Instant) -> Result<Asked> {
        let mut ready = None;
        // While the owner is at work.
        let mut meanwhile = |folder: &Folder, past: &Past| ready = Ready::make(self, folder, past);
        let (answer, folder) = ask(self.folder(), name, end, &mut meanwhile)?;
        // Not to be in the way of what is mapped otherwise.
        let ready = ready.filter(|_| matches!(answer, Answer::Coming(_)));
        match answer {
            Answer::Refused => Err(Fault::NotHookable),
            Answer::Coming(coming) => {
                let snapshot = self.hook_watched(&folder, &coming.watch, ready, options);
                let past =
                    snapshot.as_ref().ok().map(|snapshot| Past::after(coming.past(), snapshot));
                if !coming.is_of(self.folder(), name) {
                    return Ok(Asked::Again);
                }
                match coming.wait_until_current(past) {
                    Ok(()) => snapshot.map(Asked::Hooked),
                    // Its owner has failed to make it current, or has died.
                    Err(why) => Ok(Asked::NotFresh(why)),
                }
            }
            // In the same folder, unless something has happened to it: what has the name then is
            // newer than the question.
            Answer::Fresh => match self.hook_folder(&folder, options) {
                Err(Fault::NotFound | Fault::Contended) => self.hook_inner(name, options),
                other => other,
            }
            .map(Asked::Hooked),
            Answer::Closed => Ok(Asked::Again),
            Answer::None(why) => Ok(Asked::NotFresh(why)),
        }
    }
}

/// What became of asking once.
enum Asked {
    Hooked(Snapshot),
    /// The connection was closed, or the area is another one by now.
    Again,
    NotFresh(NotFresh),
}
