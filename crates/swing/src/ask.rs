//! Asking the owner of an area for its state of this moment: the hooker's side of [`crate::live`].
//!
//! Connecting costs more than asking, so a connection that has been answered is kept for the next
//! hook of the same area, a few of them a process, and the area's open folder with it. One whose
//! owner has gone, or has closed it to make room for others, is made again; one whose answer did
//! not come in time is not used again, because the answer may still come. A forked child makes its
//! own.
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
use crate::live::{ANSWER_BYTES, FRESH, LIVE, LIVE_TIMEOUT, MAX_ANSWER_BYTES, REFUSED, REQUEST};
use crate::sync::Mutex;
use crate::sys::file::Folder;
use crate::sys::{descriptors, pass};
use crate::units::Epoch;

/// How long an answer is looked for before the thread sleeps: waking up takes as long as all that
/// the owner does for an answer.
const PROMPT: Duration = Duration::from_micros(200);
/// The most connections one process keeps.
const MAX_KEPT: usize = 16;

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
    /// The same, and here it is.
    Handed(HandedState),
    Refused,
    /// Nobody there, or no time.
    None,
}

/// A connection to the owner of the area in one folder. While that is open nothing else has its
/// identity.
struct Kept {
    folder: Arc<Folder>,
    identity: (u64, u64),
    process: u32,
    stream: UnixStream,
}

/// The connections not in use, the one used last at the end.
static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

/// Asks the owner of the area in the folder `name` for a fresh publish; the answer, and that
/// folder.
pub(crate) fn ask(parent: &Folder, name: &str) -> Result<(Answer, Arc<Folder>)> {
    if let Some(kept) = take_kept(&parent.join(name))
        && send_request(&kept.stream)
        // Looked at while the owner is at work already: another area may have the name by now.
        && parent.identity_of(name) == Some(kept.identity)
        && let Some(answer) = read_answer(&kept.stream)
    {
        let folder = kept.folder.clone();
        return Ok((keep(kept, answer), folder));
    }
    let folder = Arc::new(parent.open_folder(name)?);
    let identity = folder.identity()?;
    let Some(stream) = connect(&folder) else { return Ok((Answer::None, folder)) };
    let kept = Kept { folder: folder.clone(), identity, process: std::process::id(), stream };
    let asked = send_request(&kept.stream).then(|| read_answer(&kept.stream));
    let answer = asked.flatten().map_or(Answer::None, |answer| keep(kept, answer));
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

fn keep(kept: Kept, answer: Answer) -> Answer {
    if !matches!(answer, Answer::None)
        && let Some(mut all) = KEPT.try_lock()
    {
        if all.len() >= MAX_KEPT {
            all.remove(0);
        }
        all.push(kept);
        debug_assert!(all.len() <= MAX_KEPT);
    }
    answer
}

/// `false` when the connection is closed: by an owner that is gone, or needs the room.
fn send_request(stream: &UnixStream) -> bool {
    // SAFETY: a valid descriptor and buffer; without a signal when the other side is closed.
    let sent = unsafe {
        let (bytes, len) = (REQUEST.as_ptr().cast(), REQUEST.len());
        libc::send(stream.as_raw_fd(), bytes, len, libc::MSG_NOSIGNAL)
    };
    sent == REQUEST.len() as isize
}

/// `None` when the connection is closed.
fn read_answer(stream: &UnixStream) -> Option<Answer> {
    let mut bytes = [0u8; MAX_ANSWER_BYTES];
    let (mut got, mut files) = (0, None);
    let end = Instant::now() + LIVE_TIMEOUT;
    while got < ANSWER_BYTES || got < answer_len(&bytes) {
        // What is too long is not read any more: it is no answer.
        if answer_len(&bytes) > MAX_ANSWER_BYTES || !wait_for_answer(stream, end) {
            return Some(Answer::None);
        }
        match pass::receive(stream, &mut bytes[got..]) {
            Ok((0, _)) => return None,
            Ok((n, come)) => {
                got += n;
                files = files.or(come);
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(e) if e.kind() == ErrorKind::ConnectionReset => return None,
            Err(_) => return Some(Answer::None),
        }
    }
    debug_assert!(got <= MAX_ANSWER_BYTES);
    Some(answer_of(&bytes[..got], files))
}

fn answer_of(bytes: &[u8], files: Option<[OwnedFd; pass::FILES]>) -> Answer {
    let (header, manifest) = bytes.split_at(ANSWER_BYTES);
    let status = word_at(header, 0);
    let epoch = Epoch(u64::from(word_at(header, 8)) | u64::from(word_at(header, 12)) << 32);
    match (status, files) {
        (REFUSED, _) => Answer::Refused,
        (FRESH, Some(files)) if bytes.len() == answer_len(header) && !manifest.is_empty() => {
            let [lease, memory] = files.map(File::from);
            Answer::Handed(HandedState { epoch, manifest: manifest.to_vec(), lease, memory })
        }
        // Without files, for instance because this process has too many open, it has a name.
        (FRESH, _) => Answer::Fresh,
        _ => Answer::None,
    }
}

fn word_at(header: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&header[at..at + 4]);
    u32::from_le_bytes(word)
}

/// The length of an answer whose fixed part is there.
fn answer_len(header: &[u8]) -> usize {
    ANSWER_BYTES + word_at(header, 4) as usize
}

/// Looks for an answer; after [`PROMPT`] asleep. Whoever else wants this processor, and be it the
/// owner, has it meanwhile. `false` when the time is over.
fn wait_for_answer(stream: &UnixStream, end: Instant) -> bool {
    let prompt = Instant::now() + PROMPT;
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
        Refused,
        None,
    }

    fn kind(answer: Answer) -> Kind {
        match answer {
            Answer::Fresh => Kind::Fresh,
            Answer::Handed(state) => {
                assert_eq!((state.epoch, state.manifest.as_slice()), (EPOCH, MANIFEST));
                Kind::Handed
            }
            Answer::Refused => Kind::Refused,
            Answer::None => Kind::None,
        }
    }

    fn ask(dir: &tempfile::TempDir) -> Kind {
        kind(super::ask(&Folder::open_path(dir.path()).unwrap(), "area").unwrap().0)
    }

    const EPOCH: Epoch = Epoch(0x12_3456_789a);
    const MANIFEST: &[u8] = b"not looked at";

    fn reply(status: u32) -> [u8; ANSWER_BYTES] {
        let mut bytes = [0; ANSWER_BYTES];
        bytes[..4].copy_from_slice(&status.to_le_bytes());
        bytes[8..].copy_from_slice(&EPOCH.0.to_le_bytes());
        bytes
    }

    /// A fresh state with a manifest that is said to have this length.
    fn handed(len: u32) -> Vec<u8> {
        let mut bytes = reply(FRESH).to_vec();
        bytes[4..8].copy_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(MANIFEST);
        bytes
    }

    fn serve(stream: &mut UnixStream, bytes: &[u8]) {
        let mut request = [0; REQUEST.len()];
        stream.read_exact(&mut request).unwrap();
        assert_eq!(request, REQUEST);
        stream.write_all(bytes).unwrap();
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
            for bytes in [&[FRESH as u8; 1][..], &[9; 16], &reply(REFUSED)] {
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
                let mut request = [0; REQUEST.len()];
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
        assert!(matches!(super::ask(&parent, "none"), Err(Fault::NotFound)));
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
        let (answer, found) = super::ask(&parent, "area").unwrap();
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
            let mut request = [0; REQUEST.len()];
            // In one piece, in two, without files.
            stream.read_exact(&mut request).unwrap();
            pass::send(&stream, &handed(len), files).unwrap();
            stream.read_exact(&mut request).unwrap();
            pass::send(&stream, &handed(len)[..20], files).unwrap();
            std::thread::sleep(2 * PROMPT);
            stream.write_all(&handed(len)[20..]).unwrap();
            serve(&mut stream, &handed(len));
            // Much too long, cut off, and another status: no answers, and no connection to keep.
            for bad in [handed(u32::MAX), handed(len + 1)] {
                stream.read_exact(&mut request).unwrap();
                pass::send(&stream, &bad, files).unwrap();
                stream.shutdown(std::net::Shutdown::Write).unwrap();
                stream = listener.accept().unwrap().0;
            }
            serve(&mut stream, &reply(9));
        });
        let expected =
            [Kind::Handed, Kind::Handed, Kind::Fresh, Kind::None, Kind::None, Kind::None];
        for (i, expected) in expected.into_iter().enumerate() {
            assert_eq!(ask(&dir), expected, "{i}");
        }
        server.join().unwrap();
    }
}
