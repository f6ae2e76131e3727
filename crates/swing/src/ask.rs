//! Asking the owner of an area for its state of this moment: the hooker's side of [`crate::live`].
//!
//! Connecting costs more than asking, so a connection that has been answered is kept for the next
//! hook of the same area, a few of them a process, and the area's open folder with it. One whose
//! owner has gone, or has closed it to make room for others, is made again; one whose answer did
//! not come in time is not used again, because the answer may still come. A forked child makes its
//! own.
//!
//! Every wait is bounded by [`LIVE_TIMEOUT`].

use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::live::{ANSWER_BYTES, FRESH, LIVE, LIVE_TIMEOUT, REFUSED, REQUEST};
use crate::sync::Mutex;
use crate::sys::descriptors;
use crate::sys::file::Folder;

/// How long an answer is looked for before the thread sleeps: waking up takes as long as all that
/// the owner does for an answer.
const PROMPT: Duration = Duration::from_micros(200);
/// The most connections one process keeps.
const MAX_KEPT: usize = 16;

/// What came of asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Fresh,
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
    if answer != Answer::None
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
fn read_answer(mut stream: &UnixStream) -> Option<Answer> {
    let mut answer = [0u8; ANSWER_BYTES];
    let come = look_for_answer(stream, &mut answer);
    match stream.read_exact(&mut answer[come..]) {
        Ok(()) if answer[..4] == FRESH.to_le_bytes() => Some(Answer::Fresh),
        Ok(()) if answer[..4] == REFUSED.to_le_bytes() => Some(Answer::Refused),
        Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => None,
        Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => None,
        _ => Some(Answer::None),
    }
}

/// Reads what comes first of an answer, unless [`PROMPT`] is over before; how many bytes. Whoever
/// else wants this processor, and be it the owner, has it meanwhile.
fn look_for_answer(stream: &UnixStream, answer: &mut [u8; ANSWER_BYTES]) -> usize {
    let begin = Instant::now();
    while begin.elapsed() < PROMPT {
        let (to, len) = (answer.as_mut_ptr().cast(), answer.len());
        // SAFETY: a valid descriptor, and a buffer of that length.
        let got = unsafe { libc::recv(stream.as_raw_fd(), to, len, libc::MSG_DONTWAIT) };
        if let Ok(got) = usize::try_from(got) {
            return got;
        }
        std::thread::yield_now();
    }
    0
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
    use std::io::Write;
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

    fn ask(dir: &tempfile::TempDir) -> Answer {
        super::ask(&Folder::open_path(dir.path()).unwrap(), "area").unwrap().0
    }

    fn reply(status: u32) -> [u8; ANSWER_BYTES] {
        let mut bytes = [0; ANSWER_BYTES];
        bytes[..4].copy_from_slice(&status.to_le_bytes());
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
        assert_eq!(ask(&dir), Answer::None);
        let gone = UnixListener::bind(folder.proc_path(LIVE)).unwrap();
        drop(gone);
        assert_eq!(ask(&dir), Answer::None);
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
        assert_eq!(ask(&dir), Answer::None);
        assert_eq!(ask(&dir), Answer::None);
        assert_eq!(ask(&dir), Answer::Refused);
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
        assert_eq!([ask(&dir), ask(&dir)], [Answer::Fresh, Answer::Refused]);
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
        assert_eq!(ask(&dir), Answer::Fresh);
        assert_eq!(ask(&dir), Answer::Refused);
        // Either the closed end is noticed when asking, or it closes while the answer is awaited.
        assert_eq!(ask(&dir), Answer::Fresh);
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
                assert_eq!(ask(dir), Answer::Fresh);
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
        assert_eq!(ask(&dir), Answer::Fresh);
        let still_connected = first.join().unwrap();
        parent.rename("area", "removed").unwrap();
        parent.make_folder("area").unwrap();
        let (answer, found) = super::ask(&parent, "area").unwrap();
        assert_eq!(answer, Answer::None, "nobody listens there");
        assert_ne!(found.identity().unwrap(), folder.identity().unwrap());
        drop(still_connected);
    }
}
