//! The clients of a responder: their connections, their requests, and waiting for them.
//!
//! Bytes from the socket are hostile: requests have a fixed length, the number and the time of
//! clients are bounded, and only the time in a request is used, as a hint.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use libc::c_int;
use rustix::io::Errno;

use crate::live::protocol::{NOTIFIED, REQUEST, REQUEST_BYTES};
use crate::sys::kept_file::{Access, KeptFile};
use crate::sys::notifier::{EventFd, Stamp};
use crate::sys::sync::Mutex;
use crate::sys::{descriptors, pass_fd};

/// Clients that may be connected at a time; further ones wait in the queue of the socket.
pub(crate) const MAX_CLIENTS: usize = 64;
/// How often clients that have begun to ask are looked at.
pub(crate) const ASKING: Duration = Duration::from_millis(100);
/// The longest sleep between two looks whether what is waited for is there still: the program may
/// put a file of its own at a number just before the sleep begins, and that wakes nobody.
pub(crate) const MAX_SLEEP: Duration = Duration::from_secs(1);
/// How long a client may take to ask.
pub(crate) const MAX_CLIENT_TIME: Duration = Duration::from_secs(1);
/// How long after the last hook memory that was kept for the next one is given back: twice the
/// time between the last two, within these bounds.
pub(crate) const LEAST_IDLE: Duration = Duration::from_secs(1);
pub(crate) const MOST_IDLE: Duration = Duration::from_secs(60);

/// The connections of clients, as long as they are open.
pub(crate) type Connections = Arc<Mutex<Vec<Arc<KeptFile>>>>;

/// A client: one that has not asked completely, or one that has been answered and may ask again.
pub(crate) struct Client {
    pub(crate) stream: Arc<KeptFile>,
    pub(crate) request: [u8; REQUEST_BYTES],
    pub(crate) got: usize,
    pub(crate) since: Instant,
    /// It has been answered, and has the eventfd if clients get it.
    pub(crate) answered: bool,
    /// Where its descriptor is noted.
    pub(crate) noted: Connections,
}

impl Drop for Client {
    fn drop(&mut self) {
        self.noted.lock().retain(|noted| !Arc::ptr_eq(noted, &self.stream));
    }
}

/// What a client has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Waits,
    Asks,
    /// It has notified before, and asks what came of that.
    Inquires,
    /// It has gone, or sends something else.
    Ends,
}

impl Client {
    pub(crate) fn new(stream: KeptFile, noted: Connections) -> Self {
        let stream = Arc::new(stream);
        noted.lock().push(stream.clone());
        let request = [0; REQUEST_BYTES];
        Self { stream, request, got: 0, since: Instant::now(), answered: false, noted }
    }

    /// It has been answered, and does not ask again at the moment.
    pub(crate) fn is_resting(&self) -> bool {
        self.answered && self.got == 0
    }

    /// What it has come to, given what `poll` said of its socket.
    pub(crate) fn step(&mut self, events: c_int) -> Step {
        if self.is_resting() && events == 0 { Step::Waits } else { self.read() }
    }

    /// Reads what is there of a request.
    pub(crate) fn read(&mut self) -> Step {
        // One that the program has closed is not read.
        let Ok(stream) = self.stream.here() else { return Step::Ends };
        match rustix::io::read(stream, &mut self.request[self.got..]) {
            Ok(0) => Step::Ends,
            Ok(n) => {
                self.got += n;
                debug_assert!(self.got <= REQUEST_BYTES);
                match self.got == REQUEST_BYTES {
                    true if !self.request.starts_with(&REQUEST) => Step::Ends,
                    true if self.sent_ns() == NOTIFIED => Step::Inquires,
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

    /// Answers; the first answer brings the eventfd, if there is one for clients. `false`: the
    /// client has gone, or does not read.
    pub(crate) fn answer(&mut self, answer: &[u8], eventfd: Option<&EventFd>) -> bool {
        let eventfd = eventfd.map(EventFd::here).transpose();
        let (Ok(stream), Ok(eventfd)) = (self.stream.here(), eventfd) else { return false };
        if let Some(eventfd) = eventfd.filter(|_| !self.answered) {
            return pass_fd::send(stream, answer, eventfd.as_fd()).is_ok();
        }
        let (fd, bytes) = (stream.as_fd().as_raw_fd(), answer.as_ptr().cast());
        // SAFETY: a valid descriptor and buffer; without a signal when the other side is closed.
        let sent = unsafe { libc::send(fd, bytes, answer.len(), libc::MSG_NOSIGNAL) };
        sent == answer.len() as isize
    }

    /// When the request was sent, as it says.
    pub(crate) fn sent_ns(&self) -> u64 {
        self.request.last_chunk().map_or(NOTIFIED, |time| u64::from_le_bytes(*time))
    }

    /// After an answer: it may ask again.
    pub(crate) fn rest(&mut self) {
        debug_assert_eq!(self.got, REQUEST_BYTES, "it has asked");
        (self.got, self.since, self.answered) = (0, Instant::now(), true);
    }
}

/// Accepts a connection, if somebody wants one.
pub(crate) fn accept(listener: &KeptFile) -> io::Result<KeptFile> {
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

/// Takes those who want to connect. Nobody is looked for who has not come: whoever asks waits for
/// each call made here.
pub(crate) fn take_in(
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

/// What the responder has been asked.
pub(crate) struct Questions {
    /// When it was seen.
    pub(crate) seen_ns: u64,
    pub(crate) clients: Vec<Client>,
    /// A client has asked or notified since the last publish.
    pub(crate) need_publish: bool,
    /// How long the clients have waited, as far as is known.
    pub(crate) waited: Duration,
    /// The stamp of the notification, if it was one.
    pub(crate) stamp: Option<Stamp>,
}

impl Questions {
    pub(crate) fn at(seen_ns: u64) -> Self {
        let (clients, waited) = (Vec::new(), Duration::ZERO);
        Self { seen_ns, clients, need_publish: false, waited, stamp: None }
    }

    /// Puts a client to those who have asked, or to those who have not.
    pub(crate) fn sort(&mut self, mut client: Client, events: c_int, others: &mut Vec<Client>) {
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

    pub(crate) fn note(&mut self, waited: Duration) {
        self.need_publish = true;
        self.waited = self.waited.max(waited);
    }

    /// All have the answer, and may ask again. Who has gone, or does not read, needs none.
    pub(crate) fn answered(&mut self, answer: &[u8], eventfd: Option<&EventFd>) -> Vec<Client> {
        let mut clients = std::mem::take(&mut self.clients);
        clients.retain_mut(|client| client.answer(answer, eventfd));
        clients.iter_mut().for_each(Client::rest);
        clients
    }
}

/// Whether another client can be taken, besides those who are just asking.
pub(crate) fn has_room(clients: &[Client], asking: usize) -> bool {
    clients.len() + asking < MAX_CLIENTS || clients.iter().any(Client::is_resting)
}

/// Closes the connection of the client that has rested longest, when there are too many.
pub(crate) fn make_room(clients: &mut Vec<Client>, asking: usize) {
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
pub(crate) struct Idle {
    pub(crate) last: Option<Instant>,
    pub(crate) at: Option<Instant>,
}

impl Idle {
    /// A hook: who hooks every few seconds goes on doing so.
    pub(crate) fn hooked(&mut self) {
        let now = Instant::now();
        let between = self.last.map_or(Duration::ZERO, |last| now - last);
        self.last = Some(now);
        self.at = Some(now + (2 * between).clamp(LEAST_IDLE, MOST_IDLE));
    }

    pub(crate) fn is_over(&self) -> bool {
        self.at.is_some_and(|at| Instant::now() >= at)
    }

    /// How long the responder sleeps at most.
    pub(crate) fn longest(&self, clients: &[Client]) -> Option<Duration> {
        match clients.iter().all(Client::is_resting) {
            false => Some(ASKING),
            true => self.at.map(|_| LEAST_IDLE),
        }
    }

    /// Memory has been given back; `more` may follow.
    pub(crate) fn again(&mut self, more: bool) {
        self.at = more.then(|| Instant::now() + LEAST_IDLE);
    }
}

/// What has happened while nobody asked.
pub(crate) struct Events {
    /// Somebody wants to connect.
    pub(crate) come: bool,
    /// Somebody who has been answered before asks.
    pub(crate) notified: bool,
    /// Of each client's socket.
    pub(crate) clients: Vec<c_int>,
}

/// What a responder is woken by, besides its clients.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) listener: KeptFile,
    pub(crate) eventfd: EventFd,
}

impl Ends {
    pub(crate) fn are_here(&self) -> bool {
        self.listener.is_here() && self.eventfd.here().is_ok()
    }
}

/// What a wait came to.
pub(crate) enum Woken {
    By(Events),
    /// The socket has been shut down.
    Over,
    /// The program has closed the socket or the eventfd.
    Lost,
}

/// Waits for something to happen.
pub(crate) fn wait_for_clients(
    ends: &Ends,
    clients: &[Client],
    longest: Option<Duration>,
) -> Woken {
    let poll = |fd: RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let (Ok(listener), Ok(eventfd)) = (ends.listener.here(), ends.eventfd.here()) else {
        return Woken::Lost;
    };
    let full = !has_room(clients, 0);
    let mut polls = vec![libc::pollfd {
        fd: listener.as_fd().as_raw_fd(),
        events: if full { 0 } else { libc::POLLIN },
        revents: 0,
    }];
    polls.push(poll(eventfd.as_fd().as_raw_fd()));
    // What is not there any more is looked at at once, and then forgotten.
    let gone = clients.iter().any(|client| !client.stream.is_here());
    let number = |c: &Client| c.stream.here().map_or(-1, |here| here.as_fd().as_raw_fd());
    polls.extend(clients.iter().map(|client| poll(number(client))));
    let longest = if gone { Duration::ZERO } else { longest.unwrap_or(MAX_SLEEP).min(MAX_SLEEP) };
    let time = longest.as_millis() as c_int;
    // SAFETY: a valid array of that length; the call writes only `revents`.
    unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, time) };
    debug_assert_eq!(polls.len(), clients.len() + 2);
    // Whoever notifies waits for each call made here. A lost eventfd is found when it is read, a
    // lost listener by the next wait.
    let only_others = polls[0].revents == 0 && polls[1..].iter().any(|poll| poll.revents != 0);
    if !only_others && !ends.are_here() {
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
        notified: polls[1].revents != 0,
        clients: polls[2..].iter().map(events).collect(),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    /// The program has closed the socket, or has its own at the number, while nobody connects.
    #[test]
    fn what_is_lost_while_somebody_waits_for_it_is_found_out() {
        for exchanged in [false, true] {
            let (socket, _other) = UnixStream::pair().unwrap();
            let listener = KeptFile::new(socket, Access::Read).unwrap();
            let ends = Ends { listener, eventfd: EventFd::new().unwrap() };
            let number = ends.listener.here().unwrap().as_fd().as_raw_fd();
            let (own, _silent) = UnixStream::pair().unwrap();
            std::thread::scope(|scope| {
                let waits = scope.spawn(|| {
                    (0..).find_map(|_| match wait_for_clients(&ends, &[], None) {
                        Woken::Lost => Some(true),
                        Woken::Over => Some(false),
                        Woken::By(_) => None,
                    })
                });
                std::thread::sleep(Duration::from_millis(50));
                // SAFETY: what such a program does.
                unsafe {
                    match exchanged {
                        true => assert_eq!(libc::dup2(own.as_raw_fd(), number), number),
                        false => assert_eq!(libc::close(number), 0),
                    }
                }
                assert_eq!(waits.join().unwrap(), Some(true));
            });
            if exchanged {
                // SAFETY: this test's copy.
                unsafe { libc::close(number) };
            }
        }
    }
}
