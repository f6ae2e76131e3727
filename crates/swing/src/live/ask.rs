//! Asking the owner of an area for its state of this moment: the hooker's side of [`crate::live`].
//!
//! Connecting costs more than asking. So a process keeps a few connections for later hooks of the
//! same areas, and with each the area's open folder. A connection whose owner has gone, or has
//! closed it, is made again. A connection whose answer came too late is not used again.
//!
//! While the owner works the hooker opens and leases the owner's next manifest, to watch it
//! ([`crate::live::pending`]). The owner answers through the connection only after the state is
//! current. A hooker that watches the manifest does not wait for the answer, and once it
//! has the owner's eventfd it notifies that instead of asking.
//!
//! Every wait ends at a time that the caller gives. Nothing here compares clocks of two processes.
//! A state is fresh because its owner made it current after the question on this connection, or
//! into the manifest that was empty at that time ([`crate::live::pending`]).

use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::live::connect::{CONNECT, connect};
use crate::live::pending::{Stage, Watch};
use crate::live::protocol::{
    ANSWER_BYTES, FAILED, FRESH, NOTIFIED, PINNED, REFUSED, REQUEST, REQUEST_BYTES, THREAD,
};
use crate::model::error::{NotFresh, Result};
use crate::model::name::AreaName;
use crate::namespace::files::OWNER_LOCK;
use crate::namespace::owner_lock::read_owner;
use crate::sys::file::Folder;
use crate::sys::kept_file::{Access, KeptFile};
use crate::sys::notifier::{EventFd, Stamp};
use crate::sys::pass_fd;
use crate::sys::process::{self, Processors};
use crate::sys::sync::Mutex;

/// How long an owner that is not busy takes at most until it says something.
const LATE: Duration = Duration::from_micros(300);
/// How long an answer is looked for before the thread sleeps: waking up takes as long as all that
/// the owner does for an answer.
const PROMPT: Duration = Duration::from_micros(600);
/// Looks at a watched manifest for each time that others may have the processor, and for each look
/// at the connection.
const LOOKS_PER_YIELD: u32 = 4;
const LOOKS_PER_HEARING: u32 = 32;
/// How long one waits who was refused by a socket whose owner lives, until the next try.
const CONNECT_AGAIN: Duration = Duration::from_millis(5);
/// The most connections one process keeps.
const MAX_KEPT: usize = 16;

/// The outcome of asking.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A fresh state has been published, and has a name.
    Fresh,
    /// This state will be, soon, or is.
    Coming(Box<Coming>),
    Refused,
    /// The owner has closed the connection before it answered.
    Closed,
    /// There is no fresh state.
    None(NotFresh),
}

/// A state that has come, perhaps before it is current.
#[derive(Debug)]
pub(crate) struct Coming {
    pub watch: Watch,
    kept: KeptConnection,
    end: Instant,
    /// The folder has been found to have its name still, after the question.
    found: bool,
}

impl Coming {
    /// Whether it is a state of the area that has this name: another one may have it by now.
    pub(crate) fn is_of(&self, parent: &Folder, name: &AreaName) -> bool {
        self.found || self.kept.is_at(parent, name)
    }

    /// Waits until the state is current, or until it is known that it will not be in time.
    pub(crate) fn wait_until_current(self) -> Result<(), NotFresh> {
        let Self { watch, mut kept, end, .. } = self;
        let heard = kept.connection.wait(Some(&watch), Stage::Coming, end);
        if watch.stage() == Stage::Current {
            keep(kept);
            return Ok(());
        }
        Err(match heard {
            Heard::Nothing => NotFresh::Late,
            Heard::Closed => NotFresh::NobodyAnswers,
            Heard::Seen | Heard::Said(_) => NotFresh::Failed,
        })
    }
}

/// A connection to the owner of the area in one folder. While that is open nothing else has its
/// identity.
#[derive(Debug)]
struct KeptConnection {
    /// That folder's parent and the area's name, as they were when it was opened.
    parent: PathBuf,
    name: AreaName,
    folder: Arc<Folder>,
    identity: (u64, u64),
    /// Its number of forks: a child does not use what its parent has.
    process: u64,
    connection: Connection,
}

impl KeptConnection {
    fn is_at(&self, parent: &Folder, name: &AreaName) -> bool {
        parent.has_folder(&name.folder(), self.identity)
    }
}

/// A connection, and who answers there.
#[derive(Debug)]
struct Connection {
    /// The program may close it: then it is made again.
    stream: KeptFile,
    /// The process that answers.
    owner: Option<i32>,
    /// Its thread; 0: not known yet.
    thread: i32,
    /// Notified instead of asking, where no answer is needed.
    eventfd: Option<EventFd>,
    /// The stamp of the last notification.
    stamp: Option<Stamp>,
    /// Whether an answer will come; a notification has none.
    asked: bool,
    /// Requests that have not been answered.
    open: u32,
    /// So much of an answer has come.
    bytes: [u8; ANSWER_BYTES],
    got: usize,
}

/// What has come through a connection, or has been seen instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    /// The state that is watched has come to what was waited for.
    Seen,
    /// The status of an answer to the last request.
    Said(u32),
    /// Nothing, in time.
    Nothing,
    Closed,
}

impl Connection {
    fn new(stream: UnixStream) -> std::io::Result<Self> {
        let owner = process::peer_of(&stream);
        let stream = KeptFile::new(stream, Access::Write)?;
        let bytes = [0; ANSWER_BYTES];
        let (eventfd, stamp) = (None, None);
        Ok(Self { stream, owner, thread: 0, eventfd, stamp, asked: false, open: 0, bytes, got: 0 })
    }

    /// Has the answering thread go on here, if it is only waiting for the processor where stores
    /// come from ([`crate::live::affinity`]): the scheduler has not interrupted whoever runs there,
    /// and next looks some milliseconds later. Nothing happens where this process may not do that.
    fn take_along(&self) {
        let Some(owner) = self.owner.filter(|_| self.thread > 0) else { return };
        let here = process::processor().and_then(Processors::only);
        if process::is_thread(owner, self.thread, THREAD)
            && let Some(here) = here
        {
            here.set(self.thread);
        }
    }

    /// Has the owner publish: quickly, without an answer if possible.
    fn notify(&mut self) -> bool {
        self.asked = false;
        self.stamp = self.eventfd.as_ref().and_then(EventFd::notify);
        self.stamp.is_some() || self.ask(process::monotonic_ns())
    }

    /// Asks what came of a notification, unless a question was sent.
    fn inquire(&mut self) -> bool {
        self.asked || self.ask(NOTIFIED)
    }

    /// `false` when the connection is closed: by an owner that is gone, or needs the room.
    fn ask(&mut self, time: u64) -> bool {
        self.asked = true;
        let Ok(stream) = self.stream.here() else { return false };
        let mut request = [0u8; REQUEST_BYTES];
        let (begin, end) = request.split_at_mut(REQUEST.len());
        begin.copy_from_slice(&REQUEST);
        end.copy_from_slice(&time.to_le_bytes());
        // SAFETY: a valid descriptor and buffer; without a signal when the other side is closed.
        let sent = unsafe {
            let (bytes, len) = (request.as_ptr().cast(), request.len());
            libc::send(stream.as_fd().as_raw_fd(), bytes, len, libc::MSG_NOSIGNAL)
        };
        self.open += 1;
        sent == REQUEST_BYTES as isize
    }

    /// What has come, without waiting. Answers come in the order of the requests.
    fn hear(&mut self) -> Heard {
        loop {
            match self.hear_one() {
                // To a request before the last question.
                Heard::Said(_) if self.open > 0 || !self.asked => {}
                heard => return heard,
            }
        }
    }

    /// One answer, to whichever request.
    fn hear_one(&mut self) -> Heard {
        while self.got < ANSWER_BYTES {
            let rest = &mut self.bytes[self.got..];
            let Ok(stream) = self.stream.here() else { return Heard::Closed };
            match pass_fd::receive(stream, rest) {
                Ok((0, _)) => return Heard::Closed,
                Ok((got, eventfd)) => {
                    self.got += got;
                    self.eventfd = eventfd.and_then(EventFd::from_other).or(self.eventfd.take());
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Heard::Nothing,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Heard::Closed,
            }
        }
        self.got = 0;
        self.thread = i32::from_le_bytes(field(&self.bytes, 4));
        // More than was asked for is not an owner's.
        let Some(open) = self.open.checked_sub(1) else { return Heard::Closed };
        self.open = open;
        Heard::Said(u32::from_le_bytes(field(&self.bytes, 0)))
    }

    /// Reads answers to requests before the last question, which nobody has waited for: they tell
    /// who answers, and would fill the connection.
    fn read_unread(&mut self) {
        while self.open > u32::from(self.asked) && matches!(self.hear_one(), Heard::Said(_)) {}
    }

    /// Looks for an answer, and whether what is watched is beyond a stage; after [`PROMPT`] asleep,
    /// until there is an answer. Whoever else wants this processor, and be it the owner, has it
    /// meanwhile.
    fn wait(&mut self, watch: Option<&Watch>, stage: Stage, end: Instant) -> Heard {
        let is_beyond = || watch.is_some_and(|watch| watch.stage() != stage);
        if watch.is_none() && !self.inquire() {
            return Heard::Closed;
        }
        let begin = Instant::now();
        let (prompt, mut late) = (begin + PROMPT, Some(begin + LATE));
        let mut hears = watch.is_none();
        for look in 1.. {
            if is_beyond() {
                return Heard::Seen;
            }
            if hears || look % LOOKS_PER_HEARING == 0 {
                let heard = self.hear();
                if heard != Heard::Nothing {
                    // What was said comes after what is seen.
                    return if is_beyond() { Heard::Seen } else { heard };
                }
            }
            let now = Instant::now();
            if now >= end {
                break;
            }
            if late.is_some_and(|late| now >= late) {
                late = None;
                self.take_along();
            }
            if now < prompt {
                if hears || look % LOOKS_PER_YIELD == 0 {
                    std::thread::yield_now();
                }
                continue;
            }
            // Whoever sleeps needs an answer.
            if !self.inquire() {
                return Heard::Closed;
            }
            let Ok(stream) = self.stream.here() else { return Heard::Closed };
            let fd = stream.as_fd().as_raw_fd();
            let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            let ms = (end - now).as_millis() as libc::c_int + 1;
            // SAFETY: one valid entry, of which the call writes only `revents`.
            unsafe { libc::poll(&raw mut poll, 1, ms) };
            hears = true;
        }
        Heard::Nothing
    }
}

/// The connections not in use, the one used last at the end.
static KEPT: Mutex<Vec<KeptConnection>> = Mutex::new(Vec::new());

/// Asks the owner of an area for a fresh publish; the answer, and the area's folder. All waits are
/// over at `end`.
pub(crate) fn ask(parent: &Folder, name: &AreaName, end: Instant) -> Result<(Answer, Arc<Folder>)> {
    if let Some(mut kept) = take_kept(parent, name)
        && kept.connection.notify()
    {
        let folder = kept.folder.clone();
        let is_there = |kept: &KeptConnection| kept.is_at(parent, name);
        if let Some(answer) = answer_of(kept, end, &is_there) {
            return Ok((answer, folder));
        }
    }
    let folder = Arc::new(parent.open_folder(&name.folder())?.kept()?);
    let identity = folder.identity();
    let stream = match connect_to_owner(&folder, end) {
        Ok(stream) => stream,
        Err(why) => return Ok((Answer::None(why), folder)),
    };
    let Ok(connection) = Connection::new(stream) else { return Ok((Answer::Closed, folder)) };
    let process = process::fork_generation();
    let mut kept = KeptConnection {
        parent: parent.path().to_owned(),
        name: name.clone(),
        folder: folder.clone(),
        identity,
        process,
        connection,
    };
    let answer = kept.connection.notify().then(|| answer_of(kept, end, &|_| true));
    Ok((answer.flatten().unwrap_or(Answer::Closed), folder))
}

/// Connects, also where the program of an owner that lives has closed what that listens on: it will
/// listen anew ([`crate::live::server`]).
fn connect_to_owner(folder: &Folder, end: Instant) -> Result<UnixStream, NotFresh> {
    loop {
        let error = match connect(folder, left_until(end)) {
            Ok(stream) => return Ok(stream),
            Err(error) => error,
        };
        match error.kind() {
            // Its queue has been full for so long.
            ErrorKind::WouldBlock => return Err(NotFresh::Late),
            ErrorKind::ConnectionRefused if is_owned(folder) => {}
            _ => return Err(NotFresh::NobodyAnswers),
        }
        if Instant::now() >= end {
            return Err(NotFresh::Late);
        }
        std::thread::sleep(CONNECT_AGAIN.min(left_until(end)));
    }
}

/// Whether a process that lives is named as the owner.
fn is_owned(folder: &Folder) -> bool {
    folder.open_read(OWNER_LOCK).is_ok_and(|file| read_owner(&file).is_some())
}

/// Whether somebody would be asked: a process that is only stopped is there, too.
pub(crate) fn is_answered(parent: &Folder, name: &AreaName) -> Result<bool> {
    let folder = parent.open_folder(&name.folder())?;
    Ok(match connect(&folder, CONNECT).map_err(|e| e.kind()) {
        Err(ErrorKind::NotFound) => false,
        Err(ErrorKind::ConnectionRefused) => is_owned(&folder),
        _ => true,
    })
}

/// What comes of a request that has been sent. `None` when the connection is closed, or the area
/// has another folder by now. After an answer it can be used again.
fn answer_of(
    mut kept: KeptConnection,
    end: Instant,
    is_there: &dyn Fn(&KeptConnection) -> bool,
) -> Option<Answer> {
    let watch = Watch::begin(&kept.folder, kept.connection.stamp);
    // That can be seen later, too, if there is something to do already.
    let found = watch.as_ref().is_none_or(|watch| watch.stage() == Stage::Empty);
    if found && !is_there(&kept) {
        return None;
    }
    kept.connection.read_unread();
    let heard = kept.connection.wait(watch.as_ref(), Stage::Empty, end);
    let answer = match (heard, watch) {
        (Heard::Seen, Some(watch)) => {
            let coming = Coming { watch, kept, end, found };
            return Some(Answer::Coming(Box::new(coming)));
        }
        (Heard::Said(_) | Heard::Nothing, _) if !found && !is_there(&kept) => return None,
        (Heard::Said(FRESH), _) => Answer::Fresh,
        (Heard::Said(REFUSED), _) => Answer::Refused,
        (Heard::Said(PINNED), _) => Answer::None(NotFresh::Pinned),
        (Heard::Said(FAILED), _) => Answer::None(NotFresh::Failed),
        (Heard::Closed, _) => return None,
        (Heard::Nothing, _) => return Some(Answer::None(NotFresh::Late)),
        // Nothing that an owner says.
        (Heard::Seen | Heard::Said(_), _) => return Some(Answer::Closed),
    };
    keep(kept);
    Some(answer)
}

/// The connection kept for an area. The owner begins its work only when it has been found, so
/// nothing else is done before.
fn take_kept(parent: &Folder, name: &AreaName) -> Option<KeptConnection> {
    // A child forked while another thread held this lock must not wait for it.
    let mut all = KEPT.try_lock()?;
    let (me, path) = (process::fork_generation(), parent.path().as_os_str());
    let is_it =
        |k: &KeptConnection| k.name == *name && k.parent.as_os_str() == path && k.process == me;
    let at = all.iter().rposition(is_it)?;
    Some(all.remove(at))
}

fn keep(kept: KeptConnection) {
    if let Some(mut all) = KEPT.try_lock() {
        // A child has copies of what its parent had.
        all.retain(|k| k.process == kept.process);
        if all.len() >= MAX_KEPT {
            all.remove(0);
        }
        all.push(kept);
        debug_assert!(all.len() <= MAX_KEPT);
    }
}

fn field<const N: usize>(answer: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&answer[at..at + N]);
    field
}

/// What is left, at least so much that it is a time to the kernel.
fn left_until(end: Instant) -> Duration {
    end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::fs::FileExt;
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::model::error::Fault;
    use crate::model::manifest::{AHEAD_BYTES, COMING, MAGIC};
    use crate::namespace::files::{LIVE, NEW_LIVE, SHARING};
    use crate::policy::switches::Switches;
    use crate::{AreaOptions, ByteLen, HookOptions, Namespace};

    /// Held by each test: connections are kept for the whole process, and not too many of them.
    static ALONE: Mutex<()> = Mutex::new(());

    fn area_name() -> AreaName {
        AreaName::new("area").unwrap()
    }

    fn folder() -> (tempfile::TempDir, Folder) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("area")).unwrap();
        let folder = folder_of(&dir);
        (dir, folder)
    }

    fn folder_of(dir: &tempfile::TempDir) -> Folder {
        Folder::open_path(&dir.path().join("area")).unwrap()
    }

    #[derive(Debug, PartialEq, Eq)]
    enum Kind {
        Fresh,
        /// Watched, and current in the end.
        Watched,
        /// Watched, and not current in the end.
        Lost,
        Refused,
        Closed,
        Failed,
        Late,
        Nobody,
    }

    fn kind(answer: Answer) -> Kind {
        match answer {
            Answer::Fresh => Kind::Fresh,
            Answer::Coming(coming) => match coming.wait_until_current() {
                Ok(()) => Kind::Watched,
                Err(_) => Kind::Lost,
            },
            Answer::Refused => Kind::Refused,
            Answer::Closed => Kind::Closed,
            Answer::None(NotFresh::Failed) => Kind::Failed,
            Answer::None(NotFresh::Late | NotFresh::Pinned) => Kind::Late,
            Answer::None(NotFresh::NobodyAnswers) => Kind::Nobody,
        }
    }

    fn ask(dir: &tempfile::TempDir) -> Kind {
        let parent = Folder::open_path(dir.path()).unwrap();
        kind(super::ask(&parent, &area_name(), soon()).unwrap().0)
    }

    /// Later than any answer of a test that is not to be late.
    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(2)
    }

    fn reply(status: u32) -> [u8; ANSWER_BYTES] {
        let mut bytes = [0; ANSWER_BYTES];
        bytes[..4].copy_from_slice(&status.to_le_bytes());
        bytes
    }

    fn serve(stream: &mut UnixStream, bytes: &[u8]) {
        let mut request = [0; REQUEST_BYTES];
        stream.read_exact(&mut request).unwrap();
        assert_eq!(request[..REQUEST.len()], REQUEST);
        stream.write_all(bytes).unwrap();
    }

    /// Whether a process that has hooked an area knows the answering thread and the eventfd;
    /// after a few hooks, or more until it is as expected: on a busy machine a hooker
    /// may come too late to watch, or to read an answer.
    fn known_after_hooks(switches: Switches, expected: [bool; 2]) -> [bool; 2] {
        let dir = tempfile::tempdir().unwrap();
        let ns = Namespace::open(dir.path()).unwrap().with_switches(switches);
        let options = AreaOptions::with_reserve(ByteLen::mib(64));
        let area = ns.create(&area_name(), &options).unwrap();
        area.allow_live_hooks(true).unwrap();
        let patient = HookOptions { patience: Duration::from_secs(60), ..Default::default() };
        let parent = Folder::open_path(dir.path()).unwrap();
        let mut known = [false; 2];
        for round in 1..1000 {
            std::thread::sleep(Duration::from_millis(2));
            assert!(ns.hook_live_with(&area_name(), patient).unwrap().is_fresh());
            let Some(mut kept) = take_kept(&parent, &area_name()) else { continue };
            kept.connection.read_unread();
            let connection = &kept.connection;
            let now = [connection.thread > 0, connection.eventfd.is_some()];
            known = std::array::from_fn(|i| known[i] || now[i]);
            keep(kept);
            if round > 2 && known == expected {
                break;
            }
        }
        known
    }

    #[test]
    fn a_hooker_does_not_know_what_is_switched_off() {
        let _alone = ALONE.lock();
        let on = Switches::ON;
        for (switches, expected) in [
            (on, [true, true]),
            (Switches { affinity: false, ..on }, [false, true]),
            (Switches { notifier: false, ..on }, [true, false]),
        ] {
            assert_eq!(known_after_hooks(switches, expected), expected, "{switches:?}");
        }
        KEPT.lock().clear();
    }

    #[test]
    fn only_a_thread_that_answers_is_taken_along() {
        for (name, taken) in [(THREAD, true), ("other", false)] {
            let (tell, told) = std::sync::mpsc::channel();
            let (end, ended) = std::sync::mpsc::channel::<()>();
            let body = move || {
                tell.send(process::thread_id()).unwrap();
                let _ = ended.recv();
            };
            let thread = std::thread::Builder::new().name(name.into()).spawn(body).unwrap();
            let number = told.recv().unwrap();
            let before = Processors::of(number).unwrap();
            let (stream, _other) = UnixStream::pair().unwrap();
            let owner = process::peer_of(&stream);
            assert_eq!(owner, Some(std::process::id() as i32));
            let mut connection = Connection::new(stream).unwrap();
            assert_eq!(connection.owner, owner);
            connection.take_along();
            assert_eq!(Processors::of(number).unwrap(), before, "not known");
            connection.thread = number;
            connection.take_along();
            let after = Processors::of(number).unwrap();
            let one = (0..1024).filter_map(Processors::only).any(|one| one == after);
            assert!(if taken { one } else { after == before }, "{name}: {after:?}");
            drop(end);
            thread.join().unwrap();
        }
    }

    #[test]
    fn a_path_without_a_listener_is_no_answer() {
        let _alone = ALONE.lock();
        let (dir, folder) = folder();
        assert_eq!(ask(&dir), Kind::Nobody);
        let gone = UnixListener::bind(folder.proc_path(LIVE).unwrap()).unwrap();
        drop(gone);
        assert_eq!(ask(&dir), Kind::Nobody);
    }

    #[test]
    fn a_living_owner_listens_again() {
        let _alone = ALONE.lock();
        let (dir, folder) = folder();
        let listen = || {
            folder.unlink(NEW_LIVE).unwrap();
            let listener = UnixListener::bind(folder.proc_path(NEW_LIVE).unwrap()).unwrap();
            folder.rename(NEW_LIVE, LIVE).unwrap();
            listener
        };
        drop(listen());
        let (dead, ours) = (format!("1 {}\n", u64::MAX), process::own_description());
        for (owner, late) in [(dead, false), (ours, true)] {
            std::fs::write(folder.join(OWNER_LOCK), owner).unwrap();
            let expected = if late { Kind::Late } else { Kind::Nobody };
            assert_eq!(ask(&dir), expected);
            let parent = Folder::open_path(dir.path()).unwrap();
            assert_eq!(is_answered(&parent, &area_name()).unwrap(), late);
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(4 * CONNECT_AGAIN);
                serve(&mut listen().accept().unwrap().0, &reply(FRESH));
            });
            assert_eq!(ask(&dir), Kind::Fresh);
        });
    }

    #[test]
    fn an_answer_is_known_or_none() {
        let _alone = ALONE.lock();
        let (dir, folder) = folder();
        let listener = UnixListener::bind(folder.proc_path(LIVE).unwrap()).unwrap();
        let server = std::thread::spawn(move || {
            // One cut off, one unknown: neither connection is used again.
            for bytes in [&[FRESH as u8; 1][..], &[9; ANSWER_BYTES]] {
                serve(&mut listener.accept().unwrap().0, bytes);
            }
            let mut stream = listener.accept().unwrap().0;
            serve(&mut stream, &reply(REFUSED));
            serve(&mut stream, &reply(FAILED));
            stream.read_exact(&mut [0; REQUEST_BYTES]).unwrap();
            // Open, and silent.
            let _ = stream.read(&mut [0; 1]);
        });
        assert_eq!(ask(&dir), Kind::Closed);
        assert_eq!(ask(&dir), Kind::Closed);
        assert_eq!(ask(&dir), Kind::Refused);
        assert_eq!(ask(&dir), Kind::Failed);
        assert_eq!(ask(&dir), Kind::Late);
        server.join().unwrap();
    }

    #[test]
    fn an_answer_that_takes_its_time_is_waited_for() {
        let _alone = ALONE.lock();
        let (dir, folder) = folder();
        let listener = UnixListener::bind(folder.proc_path(LIVE).unwrap()).unwrap();
        let server = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            for (pause, status) in [(Duration::ZERO, FRESH), (20 * PROMPT, REFUSED)] {
                let mut request = [0; REQUEST_BYTES];
                stream.read_exact(&mut request).unwrap();
                std::thread::sleep(pause);
                // In two parts: the first one alone is no answer.
                let reply = reply(status);
                stream.write_all(&reply[..3]).unwrap();
                std::thread::sleep(pause);
                stream.write_all(&reply[3..]).unwrap();
            }
        });
        assert_eq!([ask(&dir), ask(&dir)], [Kind::Fresh, Kind::Refused]);
        server.join().unwrap();
    }

    #[test]
    fn a_connection_is_kept_until_the_owner_closes_it() {
        let _alone = ALONE.lock();
        let (dir, folder) = folder();
        let listener = UnixListener::bind(folder.proc_path(LIVE).unwrap()).unwrap();
        let server = std::thread::spawn(move || {
            let mut first = listener.accept().unwrap().0;
            serve(&mut first, &reply(FRESH));
            serve(&mut first, &reply(REFUSED));
            drop(first);
            serve(&mut listener.accept().unwrap().0, &reply(FRESH));
        });
        assert_eq!(ask(&dir), Kind::Fresh);
        assert_eq!(ask(&dir), Kind::Refused);
        // Either the closed end is noticed when asking, or it closes while the answer is awaited.
        assert_eq!(ask(&dir), Kind::Fresh);
        server.join().unwrap();
    }

    #[test]
    fn more_areas_than_connections_are_kept() {
        let _alone = ALONE.lock();
        let homes: Vec<_> = (0..2 * MAX_KEPT).map(|_| folder()).collect();
        std::thread::scope(|scope| {
            for (dir, folder) in &homes {
                let listener = UnixListener::bind(folder.proc_path(LIVE).unwrap()).unwrap();
                scope.spawn(move || serve(&mut listener.accept().unwrap().0, &reply(FRESH)));
                assert_eq!(ask(dir), Kind::Fresh);
            }
        });
        assert!(KEPT.lock().len() <= MAX_KEPT);
    }

    #[test]
    fn another_folder_of_the_same_name_is_another_area() {
        let _alone = ALONE.lock();
        let (dir, folder) = folder();
        let parent = Folder::open_path(dir.path()).unwrap();
        assert!(matches!(
            super::ask(&parent, &AreaName::new("none").unwrap(), soon()),
            Err(Fault::NotFound)
        ));
        let listener = UnixListener::bind(folder.proc_path(LIVE).unwrap()).unwrap();
        let first = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            serve(&mut stream, &reply(FRESH));
            stream
        });
        assert_eq!(ask(&dir), Kind::Fresh);
        let still_connected = first.join().unwrap();
        parent.rename("area", "removed").unwrap();
        parent.make_folder("area").unwrap();
        let (answer, found) = super::ask(&parent, &area_name(), soon()).unwrap();
        assert_eq!(kind(answer), Kind::Nobody, "nobody listens there");
        assert_ne!(found.identity(), folder.identity());
        drop(still_connected);
    }

    /// What an owner does to the manifest that it has made ahead.
    fn begin(folder: &Folder) -> std::fs::File {
        folder.unlink(SHARING).unwrap();
        let file = folder.create_new(SHARING).unwrap();
        file.set_len(AHEAD_BYTES as u64).unwrap();
        file
    }

    fn say(file: &std::fs::File, word: [u8; 8]) {
        file.write_all_at(&word, 0).unwrap();
    }

    #[test]
    fn what_is_watched_is_seen_before_it_is_said() {
        let _alone = ALONE.lock();
        let (dir, folder) = folder();
        let listener = UnixListener::bind(folder.proc_path(LIVE).unwrap()).unwrap();
        let (tell, told) = std::sync::mpsc::channel::<(Duration, Duration)>();
        let (file, owners) = (begin(&folder), folder_of(&dir));
        let server = std::thread::spawn(move || {
            let (mut stream, mut file) = (listener.accept().unwrap().0, file);
            for (pause, between) in told {
                stream.read_exact(&mut [0; REQUEST_BYTES]).unwrap();
                std::thread::sleep(pause + PROMPT / 6);
                say(&file, COMING);
                std::thread::sleep(between);
                say(&file, MAGIC);
                stream.write_all(&reply(FRESH)).unwrap();
                file = begin(&owners);
            }
            (0..3).for_each(|_| serve(&mut stream, &reply(FRESH)));
            serve(&mut stream, &reply(REFUSED));
        });
        let wait_for_next = || while Watch::begin(&folder, None).is_none() {};
        let pauses = [Duration::ZERO, PROMPT / 2, 3 * PROMPT];
        for pause in pauses.iter().flat_map(|a| pauses.map(|b| (*a, b))) {
            // On a busy machine whoever asks may come too late to watch.
            let is_watched = |_| {
                wait_for_next();
                tell.send(pause).unwrap();
                let kind = ask(&dir);
                assert!([Kind::Watched, Kind::Fresh].contains(&kind), "{kind:?}");
                kind == Kind::Watched
            };
            assert!((0..100).any(is_watched), "{pause:?}");
        }
        wait_for_next();
        drop(tell);
        // Not known to be the answer: it was there before, or nothing is.
        let file = begin(&folder);
        for word in [MAGIC, COMING] {
            say(&file, word);
            assert_eq!(ask(&dir), Kind::Fresh);
        }
        folder.unlink(SHARING).unwrap();
        assert_eq!(ask(&dir), Kind::Fresh);
        begin(&folder);
        assert_eq!(ask(&dir), Kind::Refused);
        server.join().unwrap();
    }

    #[test]
    fn what_was_coming_is_current_or_lost() {
        let _alone = ALONE.lock();
        let parent = tempfile::tempdir().unwrap();
        let parent = Folder::open_path(parent.path()).unwrap();
        for (word, last, current) in [
            (Some(MAGIC), None, true),
            (Some(MAGIC), Some(reply(9).to_vec()), true),
            (Some([0; 8]), None, false),
            (Some([0; 8]), Some(reply(FRESH).to_vec()), false),
            (None, Some(reply(9).to_vec()), false),
            (None, Some(Vec::new()), false),
            (None, None, false),
        ] {
            let (_dir, folder) = folder();
            let file = begin(&folder);
            let watch = Watch::begin(&folder, None).unwrap();
            let (stream, mut owner) = UnixStream::pair().unwrap();
            let mut connection = Connection::new(stream).unwrap();
            assert!(connection.ask(1));
            say(&file, COMING);
            let identity = folder.identity();
            let (folder, process) = (Arc::new(folder), process::fork_generation());
            let (parent_path, name) = (parent.path().to_owned(), area_name());
            let kept =
                KeptConnection { parent: parent_path, name, folder, identity, process, connection };
            // Longer than a busy machine takes to say something, if anything is said.
            let is_said = word.is_some() || last.is_some();
            let longest = if is_said { Duration::from_secs(5) } else { 20 * PROMPT };
            let end = Instant::now() + longest;
            let coming = Coming { watch, kept, end, found: false };
            assert!(!coming.is_of(&parent, &area_name()), "another folder");
            let case = format!("{word:?}, {last:?}");
            let telling = std::thread::spawn(move || {
                std::thread::sleep(PROMPT / 2);
                word.iter().for_each(|word| say(&file, *word));
                // Who has seen enough has gone.
                last.iter().for_each(|bytes| drop(owner.write_all(bytes)));
                // Open as long as nothing was said, not even by closing it.
                last.is_none().then_some(owner)
            });
            assert_eq!(coming.wait_until_current().is_ok(), current, "{case}");
            drop(telling.join().unwrap());
        }
        KEPT.lock().clear();
    }

    #[test]
    fn answers_that_nobody_waited_for_are_not_taken_for_later_ones() {
        let (stream, mut owner) = UnixStream::pair().unwrap();
        let mut connection = Connection::new(stream).unwrap();
        assert!(connection.ask(1) && connection.ask(1) && connection.ask(1));
        owner.write_all(&reply(FRESH)).unwrap();
        owner.write_all(&reply(9)[..7]).unwrap();
        assert_eq!((connection.hear(), connection.open), (Heard::Nothing, 2));
        owner.write_all(&reply(9)[7..]).unwrap();
        assert_eq!((connection.hear(), connection.open), (Heard::Nothing, 1));
        owner.write_all(&reply(REFUSED)).unwrap();
        assert_eq!((connection.hear(), connection.open), (Heard::Said(REFUSED), 0));
        owner.write_all(&reply(FRESH)).unwrap();
        assert_eq!(connection.hear(), Heard::Closed, "nobody has asked");
        // To a question that will not be answered.
        assert!(connection.ask(1));
        connection.eventfd = Some(EventFd::new().unwrap());
        assert!(
            connection.notify()
                && !connection.asked
                && connection.inquire()
                && connection.open == 2
        );
        assert!(connection.notify() && !connection.asked);
        owner.write_all(&reply(FRESH)).unwrap();
        owner.write_all(&reply(FRESH)).unwrap();
        assert_eq!((connection.hear(), connection.open), (Heard::Nothing, 0));
        assert!(connection.ask(1));
        owner.write_all(&reply(REFUSED)).unwrap();
        assert_eq!(connection.hear(), Heard::Said(REFUSED));
        drop(owner);
        assert_eq!(connection.hear(), Heard::Closed);
    }

    #[test]
    fn old_answers_are_read_and_the_last_one_is_not() {
        let (stream, mut owner) = UnixStream::pair().unwrap();
        let mut connection = Connection::new(stream).unwrap();
        for i in 0..50 {
            assert!(connection.ask(1));
            owner.write_all(&reply(FRESH)).unwrap();
            connection.read_unread();
            assert_eq!(connection.open, 1, "{i}");
            // With the first answer it usually comes.
            connection.eventfd = connection.eventfd.or_else(|| Some(EventFd::new().unwrap()));
        }
        assert_eq!(connection.hear(), Heard::Said(FRESH));
    }
}
