//! Asking the owner of an area for its state of this moment: the hooker's side of [`crate::live`].
//!
//! Connecting costs more than asking, so a connection that has been answered is kept for the next
//! hook of the same area, a few of them a process, and the area's open folder with it. One whose
//! owner has gone, or has closed it to make room for others, is made again; one whose answer did
//! not come in time is not used again, because the answer may still come. A forked child makes its
//! own.
//!
//! While the owner is at work, addresses for its answer are reserved: where the last state lay.
//!
//! Every wait is bounded by [`LIVE_TIMEOUT`].

use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::geometry::Geometry;
use crate::live::{
    ANSWER_BYTES, COMING, FRESH, LIVE, LIVE_TIMEOUT, MAX_ANSWER_BYTES, REFUSED, REQUEST,
    REQUEST_BYTES, THREAD,
};
use crate::snapshot::Snapshot;
use crate::sync::Mutex;
use crate::sys::file::Folder;
use crate::sys::process::{self, Processors};
use crate::sys::{descriptors, pass};
use crate::units::Epoch;

/// How long an owner that is not busy takes at most until it says something.
const LATE: Duration = Duration::from_micros(300);
/// How long an answer is looked for before the thread sleeps: waking up takes as long as all that
/// the owner does for an answer.
const PROMPT: Duration = Duration::from_micros(600);
/// The most connections one process keeps.
const MAX_KEPT: usize = 16;

/// What it takes to reserve addresses for an area.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub geometry: Geometry,
    pub base: usize,
}

impl Layout {
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        Self { geometry: *snapshot.geometry(), base: snapshot.inner.manifest.base as usize }
    }
}

/// A fresh state, with all that it takes to map it.
#[derive(Debug)]
pub(crate) struct HandedState {
    pub epoch: Epoch,
    /// Its bytes, which nobody has checked yet.
    pub manifest: Vec<u8>,
    /// The manifest's file, with a shared lock.
    pub lease: File,
    /// The area's memory.
    pub memory: File,
}

/// What came of asking.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A fresh state has been published.
    Fresh,
    /// This state will be, soon.
    Coming(HandedState, Pending),
    Refused,
    /// Nobody there, or no time.
    None,
}

/// A state that has come before it is current.
#[derive(Debug)]
pub(crate) struct Pending {
    kept: Kept,
    epoch: Epoch,
    end: Instant,
}

impl Pending {
    /// Waits until the state is current; `false`: it never will be, as far as is known here.
    /// `layout` is for the next time.
    pub(crate) fn wait_until_current(self, layout: Option<Layout>) -> bool {
        let Self { mut kept, epoch, end } = self;
        let answer = read_answer(&kept.line, end);
        let current =
            matches!(answer, Some(Message { status: FRESH, epoch: of, .. }) if of == epoch);
        if current {
            kept.layout = layout;
            keep(kept);
        }
        current
    }
}

/// A connection to the owner of the area in one folder. While that is open nothing else has its
/// identity.
#[derive(Debug)]
struct Kept {
    folder: Arc<Folder>,
    identity: (u64, u64),
    process: u32,
    line: Line,
    /// Of the state hooked last.
    layout: Option<Layout>,
}

/// A connection, and who answers there.
#[derive(Debug)]
struct Line {
    stream: UnixStream,
    /// The process that answers.
    owner: Option<i32>,
    /// Its thread; 0: not known yet.
    thread: i32,
}

impl Line {
    /// Has the answering thread go on here, if it is only waiting for the processor where stores
    /// come from ([`crate::seat`]): the scheduler has not interrupted whoever runs there, and next
    /// looks some milliseconds later. Nothing happens where this process may not do that.
    fn take_along(&self) {
        let Some(owner) = self.owner.filter(|_| self.thread > 0) else { return };
        let here = process::processor().and_then(Processors::only);
        if process::is_thread(owner, self.thread, THREAD)
            && let Some(here) = here
        {
            here.set(self.thread);
        }
    }
}

/// What an owner says.
struct Message {
    thread: i32,
    status: u32,
    epoch: Epoch,
    manifest: Vec<u8>,
    files: Option<[OwnedFd; pass::FILES]>,
}

/// The connections not in use, the one used last at the end.
static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

/// Asks the owner of the area in the folder `name` for a fresh publish; the answer, and that
/// folder. `meanwhile` is called, at most once, when the owner is at work, if it is known how the
/// area lies.
pub(crate) fn ask(
    parent: &Folder,
    name: &str,
    meanwhile: &mut dyn FnMut(&Layout),
) -> Result<(Answer, Arc<Folder>)> {
    let end = Instant::now() + LIVE_TIMEOUT;
    if let Some(kept) = take_kept(&parent.join(name))
        && send_request(&kept.line.stream)
        // Looked at while the owner is at work already: another area may have the name by now.
        && parent.identity_of(name) == Some(kept.identity)
    {
        kept.layout.iter().for_each(meanwhile);
        let folder = kept.folder.clone();
        if let Some(message) = read_answer(&kept.line, end) {
            return Ok((answer_of(kept, message, end), folder));
        }
    }
    let folder = Arc::new(parent.open_folder(name)?);
    let identity = folder.identity()?;
    let Some(stream) = connect(&folder) else { return Ok((Answer::None, folder)) };
    let process = std::process::id();
    let line = Line { owner: process::peer_of(&stream), stream, thread: 0 };
    let kept = Kept { folder: folder.clone(), identity, process, line, layout: None };
    let end = Instant::now() + LIVE_TIMEOUT;
    let asked = send_request(&kept.line.stream).then(|| read_answer(&kept.line, end));
    let answer = asked.flatten().map_or(Answer::None, |message| answer_of(kept, message, end));
    Ok((answer, folder))
}

/// The connection kept for the area in this folder.
fn take_kept(path: &Path) -> Option<Kept> {
    // A child forked while another thread held this lock must not wait for it.
    let mut all = KEPT.try_lock()?;
    let me = std::process::id();
    all.retain(|k| k.process == me);
    let at = all.iter().rposition(|k| k.folder.path() == path)?;
    Some(all.remove(at))
}

fn keep(kept: Kept) {
    if let Some(mut all) = KEPT.try_lock() {
        if all.len() >= MAX_KEPT {
            all.remove(0);
        }
        all.push(kept);
        debug_assert!(all.len() <= MAX_KEPT);
    }
}

/// `false` when the connection is closed: by an owner that is gone, or needs the room.
fn send_request(stream: &UnixStream) -> bool {
    let mut request = [0u8; REQUEST_BYTES];
    let (begin, time) = request.split_at_mut(REQUEST.len());
    begin.copy_from_slice(&REQUEST);
    time.copy_from_slice(&process::monotonic_ns().to_le_bytes());
    // SAFETY: a valid descriptor and buffer; without a signal when the other side is closed.
    let sent = unsafe {
        let (bytes, len) = (request.as_ptr().cast(), request.len());
        libc::send(stream.as_raw_fd(), bytes, len, libc::MSG_NOSIGNAL)
    };
    sent == REQUEST_BYTES as isize
}

/// One message of the owner. `None` when the connection is closed.
fn read_answer(line: &Line, end: Instant) -> Option<Message> {
    let mut bytes = [0u8; MAX_ANSWER_BYTES];
    let (mut got, mut files) = (0, None);
    let (epoch, manifest) = (Epoch(0), Vec::new());
    let none = Message { thread: 0, status: 0, epoch, manifest, files: None };
    while got < ANSWER_BYTES || got < answer_len(&bytes) {
        // What is too long is not read any more: it is no answer.
        if answer_len(&bytes) > MAX_ANSWER_BYTES || !wait_for_answer(line, end) {
            return Some(none);
        }
        // Of what comes after a message with files nothing is read together with it.
        match pass::receive(&line.stream, &mut bytes[got..]) {
            Ok((0, _)) => return None,
            Ok((n, come)) => {
                got += n;
                files = files.or(come);
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(e) if e.kind() == ErrorKind::ConnectionReset => return None,
            Err(_) => return Some(none),
        }
    }
    if got > answer_len(&bytes) {
        return Some(none);
    }
    let (header, manifest) = bytes[..got].split_at(ANSWER_BYTES);
    Some(Message {
        thread: i32::from_le_bytes(field(header, 16)),
        status: u32::from_le_bytes(field(header, 0)),
        epoch: Epoch(u64::from_le_bytes(field(header, 8))),
        manifest: manifest.to_vec(),
        files,
    })
}

/// What a message means. After all but a part of an answer the connection can be used again.
fn answer_of(mut kept: Kept, message: Message, end: Instant) -> Answer {
    let Message { thread, status, epoch, manifest, files } = message;
    kept.line.thread = thread;
    let answer = match (status, files) {
        (REFUSED, _) => Answer::Refused,
        (FRESH, _) => Answer::Fresh,
        (COMING, Some(files)) => {
            let [lease, memory] = files.map(File::from);
            let state = HandedState { epoch, manifest, lease, memory };
            return Answer::Coming(state, Pending { kept, epoch, end });
        }
        // Without files, for instance because this process has too many open: it has a name soon.
        (COMING, None) => match (Pending { kept, epoch, end }).wait_until_current(None) {
            true => return Answer::Fresh,
            false => return Answer::None,
        },
        _ => return Answer::None,
    };
    keep(kept);
    answer
}

fn field<const N: usize>(header: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&header[at..at + N]);
    field
}

/// The length of an answer whose fixed part is there.
fn answer_len(header: &[u8]) -> usize {
    ANSWER_BYTES + u32::from_le_bytes(field(header, 4)) as usize
}

/// Looks for an answer; after [`PROMPT`] asleep. Whoever else wants this processor, and be it the
/// owner, has it meanwhile. `false` when the time is over.
fn wait_for_answer(line: &Line, end: Instant) -> bool {
    let stream = &line.stream;
    let begin = Instant::now();
    let (prompt, mut late) = (begin + PROMPT, Some(begin + LATE));
    loop {
        let mut first = 0u8;
        let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
        // SAFETY: a valid descriptor, and a buffer of that length.
        let got = unsafe { libc::recv(stream.as_raw_fd(), (&raw mut first).cast(), 1, flags) };
        // Whatever it is but "nothing yet", the caller finds it.
        if got >= 0 || std::io::Error::last_os_error().kind() != ErrorKind::WouldBlock {
            return true;
        }
        let now = Instant::now();
        if now >= end {
            return false;
        }
        if late.is_some_and(|late| now >= late) {
            late = None;
            line.take_along();
        }
        if now < prompt {
            std::thread::yield_now();
            continue;
        }
        let mut poll = libc::pollfd { fd: stream.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let ms = (end - now).as_millis() as libc::c_int + 1;
        // SAFETY: one valid entry, of which the call writes only `revents`.
        unsafe { libc::poll(&raw mut poll, 1, ms) };
    }
}

/// A connection all of whose operations, connecting included, end after [`LIVE_TIMEOUT`].
fn connect(folder: &Folder) -> Option<UnixStream> {
    // SAFETY: makes a descriptor, which its owner closes.
    let make = || unsafe {
        match libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) {
            -1 => Err(std::io::Error::last_os_error()),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    };
    let stream = UnixStream::from(descriptors::open(make).ok()?);
    // The time to write also bounds the time to connect.
    stream.set_write_timeout(Some(LIVE_TIMEOUT)).ok()?;
    stream.set_read_timeout(Some(LIVE_TIMEOUT)).ok()?;
    let path = folder.proc_path(LIVE);
    let address = address_of(&path);
    let len = std::mem::size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: a valid descriptor and address of that length.
    let connected =
        unsafe { libc::connect(stream.as_raw_fd(), (&raw const address).cast(), len) } == 0;
    connected.then_some(stream)
}

fn address_of(path: &Path) -> libc::sockaddr_un {
    // SAFETY: all-zero bytes are a valid address.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = path.as_os_str().as_bytes();
    assert!(bytes.len() < address.sun_path.len(), "a path through /proc is short");
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    address
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::error::Fault;

    /// Held by each test: connections are kept for the whole process, and not too many of them.
    static ALONE: Mutex<()> = Mutex::new(());

    fn folder() -> (tempfile::TempDir, Folder) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("area")).unwrap();
        let folder = Folder::open_path(&dir.path().join("area")).unwrap();
        (dir, folder)
    }

    #[derive(Debug, PartialEq, Eq)]
    enum Kind {
        Fresh,
        Handed,
        /// Handed over, and not current in the end.
        Lost,
        Refused,
        None,
    }

    fn kind(answer: Answer) -> Kind {
        match answer {
            Answer::Fresh => Kind::Fresh,
            Answer::Coming(state, pending) => {
                assert_eq!((state.epoch, state.manifest.as_slice()), (EPOCH, MANIFEST));
                if pending.wait_until_current(None) { Kind::Handed } else { Kind::Lost }
            }
            Answer::Refused => Kind::Refused,
            Answer::None => Kind::None,
        }
    }

    fn ask(dir: &tempfile::TempDir) -> Kind {
        kind(super::ask(&Folder::open_path(dir.path()).unwrap(), "area", &mut |_| {}).unwrap().0)
    }

    const EPOCH: Epoch = Epoch(0x12_3456_789a);
    const MANIFEST: &[u8] = b"not looked at";

    fn reply(status: u32) -> [u8; ANSWER_BYTES] {
        let mut bytes = [0; ANSWER_BYTES];
        bytes[..4].copy_from_slice(&status.to_le_bytes());
        bytes[8..16].copy_from_slice(&EPOCH.0.to_le_bytes());
        bytes
    }

    /// A state that is coming, with a manifest that is said to have this length.
    fn coming(len: u32) -> Vec<u8> {
        let mut bytes = reply(COMING).to_vec();
        bytes[4..8].copy_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(MANIFEST);
        bytes
    }

    fn serve(stream: &mut UnixStream, bytes: &[u8]) {
        let mut request = [0; REQUEST_BYTES];
        stream.read_exact(&mut request).unwrap();
        assert_eq!(request[..REQUEST.len()], REQUEST);
        stream.write_all(bytes).unwrap();
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
            let mut line = Line { stream, owner, thread: 0 };
            line.take_along();
            assert_eq!(Processors::of(number).unwrap(), before, "not known");
            line.thread = number;
            line.take_along();
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
        assert_eq!(ask(&dir), Kind::None);
        let gone = UnixListener::bind(folder.proc_path(LIVE)).unwrap();
        drop(gone);
        assert_eq!(ask(&dir), Kind::None);
    }

    #[test]
    fn an_answer_is_known_or_none() {
        let _alone = ALONE.lock();
        let (dir, folder) = folder();
        let listener = UnixListener::bind(folder.proc_path(LIVE)).unwrap();
        let server = std::thread::spawn(move || {
            // One cut off, one unknown: neither connection is used again.
            for bytes in [&[FRESH as u8; 1][..], &[9; ANSWER_BYTES], &reply(REFUSED)] {
                serve(&mut listener.accept().unwrap().0, bytes);
            }
        });
        assert_eq!(ask(&dir), Kind::None);
        assert_eq!(ask(&dir), Kind::None);
        assert_eq!(ask(&dir), Kind::Refused);
        server.join().unwrap();
    }

    #[test]
    fn an_answer_that_takes_its_time_is_waited_for() {
        let _alone = ALONE.lock();
        let (dir, folder) = folder();
        let listener = UnixListener::bind(folder.proc_path(LIVE)).unwrap();
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
        let listener = UnixListener::bind(folder.proc_path(LIVE)).unwrap();
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
                let listener = UnixListener::bind(folder.proc_path(LIVE)).unwrap();
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
        assert!(matches!(super::ask(&parent, "none", &mut |_| {}), Err(Fault::NotFound)));
        let listener = UnixListener::bind(folder.proc_path(LIVE)).unwrap();
        let first = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            serve(&mut stream, &reply(FRESH));
            stream
        });
        assert_eq!(ask(&dir), Kind::Fresh);
        let still_connected = first.join().unwrap();
        parent.rename("area", "removed").unwrap();
        parent.make_folder("area").unwrap();
        let (answer, found) = super::ask(&parent, "area", &mut |_| {}).unwrap();
        assert_eq!(kind(answer), Kind::None, "nobody listens there");
        assert_ne!(found.identity().unwrap(), folder.identity().unwrap());
        drop(still_connected);
    }

    #[test]
    fn a_state_comes_with_its_files_or_by_its_name() {
        let _alone = ALONE.lock();
        let (dir, folder) = folder();
        let listener = UnixListener::bind(folder.proc_path(LIVE)).unwrap();
        let len = MANIFEST.len() as u32;
        let server = std::thread::spawn(move || {
            let files = [tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap()];
            let files = [files[0].as_fd(), files[1].as_fd()];
            let mut stream = listener.accept().unwrap().0;
            let mut request = [0; REQUEST_BYTES];
            // In one piece, in two, without files.
            stream.read_exact(&mut request).unwrap();
            pass::send(&stream, &coming(len), files).unwrap();
            stream.write_all(&reply(FRESH)).unwrap();
            stream.read_exact(&mut request).unwrap();
            pass::send(&stream, &coming(len)[..20], files).unwrap();
            std::thread::sleep(2 * PROMPT);
            stream.write_all(&coming(len)[20..]).unwrap();
            std::thread::sleep(2 * PROMPT);
            stream.write_all(&reply(FRESH)).unwrap();
            serve(&mut stream, &coming(len));
            std::thread::sleep(2 * PROMPT);
            stream.write_all(&reply(FRESH)).unwrap();
            // It never becomes current: the owner says so, dies, or means another one. After each
            // the connection is made again.
            let mut other = reply(FRESH);
            other[9] ^= 1;
            for last in [&reply(REFUSED)[..], &[], &other] {
                stream.read_exact(&mut request).unwrap();
                pass::send(&stream, &coming(len), files).unwrap();
                stream.write_all(last).unwrap();
                stream = listener.accept().unwrap().0;
            }
            // Much too long, cut off, and another status: no answers, and no connection to keep.
            for bad in [coming(u32::MAX), coming(len + 1)] {
                stream.read_exact(&mut request).unwrap();
                pass::send(&stream, &bad, files).unwrap();
                stream.shutdown(std::net::Shutdown::Write).unwrap();
                stream = listener.accept().unwrap().0;
            }
            serve(&mut stream, &reply(9));
        });
        let (fresh, lost) = (Kind::Fresh, Kind::Lost);
        let expected = [Kind::Handed, Kind::Handed, fresh, lost, Kind::Lost, Kind::Lost];
        let none = [Kind::None, Kind::None, Kind::None];
        let expected = expected.into_iter().chain(none);
        for (i, expected) in expected.enumerate() {
            assert_eq!(ask(&dir), expected, "{i}");
        }
        server.join().unwrap();
    }
}
