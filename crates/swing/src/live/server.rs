//! Live hooks: asking the owner of an area for its state of this moment.
//!
//! A thread of the owner, the *responder*, listens on a Unix socket in the area's folder. A hooker
//! connects, asks, and watches the manifest that the owner has made ahead
//! ([`crate::publish::made_ahead`]). The manifest first says what lies where, so that the hooker
//! can map the state while it becomes current. A hooker that cannot watch the manifest waits for
//! the answer, and then hooks the state like any other. Several hookers that ask at once share one
//! publish, which begins after each of them asked. The first answer brings an eventfd. From then on
//! the hooker notifies the eventfd and watches; it asks only when there is nothing to watch, or
//! nothing comes. [`crate::tracked`] defines "this moment" for threads that store all the while.
//! The responder runs on the processor where stores come from ([`crate::live::affinity`]).
//!
//! An owner that is dead, stopped, or busy for too long does not answer; an owner whose publish
//! fails says so. Then the hook fails, or gives the last shared state, marked as not fresh, if the
//! hooker accepts that ([`crate::IfStale::Accept`]). An owner that refuses hooks, or is over its
//! copy-on-write threshold, says so.
//!
//! Bytes from the socket are hostile. Requests have a fixed length, the number and the time of
//! clients are bounded, and only the time in a request is used, as a hint. A forked child closes
//! its copies of the socket and of the connections, so that it never looks like an owner.
//!
//! The program may close the responder's descriptors, and may open its own files at these numbers
//! ([`crate::sys::kept_file`]). The responder checks each descriptor before it waits, at least
//! once a second, and before it uses the one that woke it. It forgets lost ones and listens anew;
//! its clients connect again.

use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::area::core::Core;
use crate::area::handle::Area;
use crate::area::live_slot::{LiveGuard, LiveResponder};
use crate::live::affinity::Affinity;
use crate::live::clients::{
    Client, Connections, Ends, Idle, Questions, Woken, take_in, wait_for_clients,
};
use crate::live::connect;
use crate::live::protocol::{ANSWER_BYTES, FAILED, FRESH, PINNED, REFUSED, THREAD};
use crate::model::error::{Fault, Result, TrackError};
use crate::model::manifest::Kind;
use crate::namespace::files::{LIVE, NEW_LIVE};
use crate::policy::switches::Switches;
use crate::publish::commit::Published;
use crate::sys::block_signals::{self, Quiet};
use crate::sys::file::Folder;
use crate::sys::kept_file::{Access, KeptFile};
use crate::sys::notifier::{EventFd, Stamp};
use crate::sys::sync::Mutex;
use crate::sys::{descriptors, process};

/// How often the responder lets others have its processor, after it has answered: each time they
/// may use one of its short time slices. Where nobody else wants it that takes microseconds.
const YIELDS: u32 = 16;

/// How often a responder that has lost what it listened on tries to listen anew, and how long it
/// waits before it tries again.
const LISTENS: u32 = 40;
const LISTEN_AGAIN: Duration = Duration::from_millis(50);

/// The owner's side.
#[derive(Debug)]
pub(crate) struct Responder {
    shared: Arc<Shared>,
    /// To whom the thread listens.
    connections: Connections,
    thread: JoinHandle<()>,
    affinity: Affinity,
}

/// What the thread listens on; exchanged when the program has closed it. Locked only with the
/// area's [`crate::area::live_slot::LiveSlot`], or by whoever has taken the responder out of that.
#[derive(Debug)]
struct Shared {
    ends: Mutex<Arc<Ends>>,
    /// The thread is to end, and sees it when it is woken the next time.
    ending: AtomicBool,
    switches: Switches,
}

impl Shared {
    fn wait(&self, ends: &Ends, clients: &[Client], longest: Option<Duration>) -> Woken {
        let woken = wait_for_clients(ends, clients, longest);
        if self.ending.load(Ordering::SeqCst) { Woken::Over } else { woken }
    }

    /// The eventfd, if clients get it.
    fn handed<'a>(&self, ends: &'a Ends) -> Option<&'a EventFd> {
        self.switches.notifier.then_some(&ends.eventfd)
    }
}

impl LiveResponder for Responder {
    fn move_to(&self, processor: u32) {
        self.affinity.move_to(processor);
    }

    fn abandon_in_child(self: Box<Self>) {
        // A connection that is just being made or closed stays open with the child.
        let clients = self.connections.try_lock().map(|mut c| std::mem::take(&mut *c));
        let ends = self.shared.ends.lock().clone();
        ends.listener.close_in_child();
        ends.eventfd.close_in_child();
        clients.iter().flatten().for_each(|client| client.close_in_child());
        std::mem::forget(ends);
        self.forget();
    }

    fn stop(self: Box<Self>, folder: &Folder) {
        self.shared.ending.store(true, Ordering::SeqCst);
        let ends = self.shared.ends.lock().clone();
        let shut = ends.listener.here().is_ok_and(|listener| {
            // SAFETY: an open descriptor that `ends` has.
            unsafe { libc::shutdown(listener.as_fd().as_raw_fd(), libc::SHUT_RDWR) == 0 }
        });
        drop(ends);
        // The thread may wait on a socket that the program has closed since: a connection wakes it.
        let told = shut || connect::wake(folder);
        let _ = folder.unlink(LIVE);
        assert_ne!(
            self.thread.thread().id(),
            std::thread::current().id(),
            "the responder holds the area only while it answers"
        );
        if told {
            let _ = self.thread.join();
        } else {
            // The thread finds out within a second, and answers nobody meanwhile, since its socket
            // is not in the folder any more.
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
    /// moment by [`crate::Namespace::hook_live`], while this one goes on storing. The area becomes
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
        let before = std::mem::replace(&mut self.lock_for_change()?.hooks.hookable, true);
        let started = self.answer_from_now();
        if started.is_err()
            && !before
            && let Ok(mut state) = self.lock_for_change()
        {
            state.hooks.hookable = false;
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
        let shared = Arc::new(Shared {
            ends: Mutex::new(ends.clone()),
            ending: AtomicBool::new(false),
            switches: self.ns.switches(),
        });
        let core = Arc::downgrade(self);
        let (affinity, connections) = (Affinity::default(), Connections::default());
        let (taken, noted) = (affinity.clone(), connections.clone());
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
        live.responder = Some(Box::new(Responder { shared, connections, thread, affinity }));
        drop(live);
        self.make_manifest_ahead();
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
        Ok(Ends { listener, eventfd: EventFd::new().map_err(fault)? })
    }

    /// For a responder that has lost what it listened on; `None` when it is to end, or cannot go
    /// on. The program that has closed it may close what is opened here as well, or be out of
    /// descriptors for a moment, so one failure says little.
    fn listen_again(&self, shared: &Shared) -> Option<Arc<Ends>> {
        for attempt in 0..LISTENS {
            if attempt > 0 {
                std::thread::sleep(LISTEN_AGAIN);
            }
            let live = self.live.lock();
            if !live.is_answering() || shared.ending.load(Ordering::SeqCst) {
                return None;
            }
            if let Ok(ends) = self.listen() {
                let ends = Arc::new(ends);
                *shared.ends.lock() = ends.clone();
                return Some(ends);
            }
        }
        // Nobody answers any more: hooks are of the newest shared state.
        let mut live = self.live.lock();
        if live.is_answering() && !shared.ending.load(Ordering::SeqCst) {
            drop(live.responder.take());
            drop(live);
            let _ = self.folder.unlink(LIVE);
            self.expect_live_hooks(false);
        }
        None
    }

    fn refuse_live(&self) -> Result<()> {
        self.check_fork()?;
        self.stop_live();
        let mut state = self.lock_for_change()?;
        state.hooks.hookable = false;
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
            self.forget_made_ahead(&mut state);
        }
    }

    /// Publishes for the hookers that asked, or notified with this stamp. `None`: hooks are
    /// refused.
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
        state.hooks.notified = stamp;
        let payload = state.manifests.payload.clone();
        drop(state);
        self.publish_quickly(Kind::Shared, &payload)
    }

    /// Whether hooks are admitted, after a look whether memory held for snapshots has come free.
    fn admits(&self, state: &mut crate::area::tables::Tables) -> Result<bool> {
        if state.hooks.over_threshold || state.hooks.cow_threshold.is_some() {
            self.reclaim_some(state)?;
        }
        Ok(state.hooks.hookable && !state.hooks.over_threshold)
    }
}

/// The responder's thread: until the socket is shut down or the area gone.
fn respond(
    mut ends: Arc<Ends>,
    shared: &Shared,
    affinity: &Affinity,
    client: impl Fn(KeptFile) -> Client,
    core: impl Fn() -> Option<Arc<Core>>,
) {
    Quiet::for_ever();
    process::wake_promptly();
    let affinity = affinity.take();
    let (mut clients, mut idle) = (Vec::<Client>::new(), Idle::default());
    // What the last publish came to, and what it has left to do.
    let mut last: Option<[u8; ANSWER_BYTES]> = None;
    let mut left: Option<Left> = None;
    loop {
        let longest = if left.is_some() { Some(Duration::ZERO) } else { idle.longest(&clients) };
        let events = match shared.wait(&ends, &clients, longest) {
            Woken::By(events) => events,
            Woken::Over => return left.into_iter().for_each(Left::finish),
            Woken::Lost => {
                // Clients have the lost eventfd: they connect again.
                clients.clear();
                left.take().into_iter().for_each(Left::finish);
                let Some(again) = core().and_then(|core| core.listen_again(shared)) else { return };
                ends = again;
                continue;
            }
        };
        let eventfd = &ends.eventfd;
        let mut questions = Questions::at(process::monotonic_ns());
        for (client, events) in std::mem::take(&mut clients).into_iter().zip(events.clients) {
            questions.sort(client, events, &mut clients);
        }
        if events.come {
            take_in(&ends.listener, &client, &mut questions, &mut clients);
        }
        // Before the publish: a later notification needs another one. Who inquires has notified.
        if (events.notified || !questions.clients.is_empty())
            && let Some(notified) = eventfd.silence(questions.seen_ns)
        {
            questions.note(notified.waited);
            questions.stamp = notified.stamp;
        }
        if !questions.need_publish
            && let Some(answer) = &last
        {
            clients.extend(questions.answered(answer, shared.handed(&ends)));
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
        let answer = last.insert(answer_to(&published, shared.switches));
        clients.extend(questions.answered(answer, shared.handed(&ends)));
        // On a busy machine the hooker may need this very processor: it goes first.
        (0..YIELDS).for_each(|_| std::thread::yield_now());
        affinity.asked(questions.waited);
        // A hooker that notified and could not watch asks about now; it does not wait for the rest.
        left = Some(Left { core, published });
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
        core.make_manifest_ahead();
        core.copy_ahead_soon();
        core.move_responder();
    }
}

/// The answer to all who have asked.
fn answer_to(published: &Result<Option<Published>>, switches: Switches) -> [u8; ANSWER_BYTES] {
    let status = match published {
        Ok(Some(_)) => FRESH,
        Ok(None) => REFUSED,
        Err(Fault::Pinned) => PINNED,
        Err(_) => FAILED,
    };
    let mut answer = [0; ANSWER_BYTES];
    answer[..4].copy_from_slice(&status.to_le_bytes());
    // Whoever knows the thread may move it.
    let thread = if switches.affinity { process::thread_id() } else { 0 };
    answer[4..].copy_from_slice(&thread.to_le_bytes());
    answer
}
