//! Descriptors of this library, apart from those of the program around it.
//!
//! A descriptor is a number that all of a process shares, and programs take liberties with numbers:
//! a shell closes an end of a pipe twice, `dup2` puts a file at a number of the program's choice, a
//! daemon closes all there are. In a program without threads nothing comes of that. Beside the
//! threads of this library the number may be a manifest by then: it would be closed, its number be
//! the program's next pipe, and the manifest written into that.
//!
//! So no descriptor of this library is ever one of the standard ones; and a library that is loaded
//! into programs which know nothing of it [keeps them apart](keep_apart) altogether: they get
//! numbers far from those that programs get and choose, they are noted, and the functions of the C
//! library that close descriptors, which such a library defines as well, ask here first.
//!
//! The kernel gives each new descriptor the lowest number, so for moments, in a `Window`, a low
//! one is the library's. Whoever closes a number waits for these to be over ([`is_programs`]); who
//! puts something at a number excludes them ([`unless_own`]).
//!
//! **Concurrency.** Counters and waits of bounded length: usable in signal handlers. **Fork.** A
//! child begins without windows (`begin_in_child`).

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use crate::sys::block_signals::Quiet;
use crate::sys::limits::{self, Limit};

/// Behind standard input, output and error.
const LEAST: RawFd = 3;
/// The least number of descriptors kept apart, where the limit of the process allows it.
const APART: RawFd = 512;
/// Numbers that can be noted.
const MOST: usize = 1 << 16;
/// Looks before somebody who waits goes on nevertheless.
const MAX_LOOKS: u32 = 10_000;

/// What descriptors of this library are not below.
static FROM: AtomicI32 = AtomicI32::new(LEAST);
/// A bit for each number: whether it is the library's.
static OWN: [AtomicU64; MOST / 64] = [const { AtomicU64::new(0) }; MOST / 64];
/// Windows begun and ended so far.
static BEGUN: AtomicU32 = AtomicU32::new(0);
static ENDED: AtomicU32 = AtomicU32::new(0);
/// Threads that are putting something at a number.
static PLACING: AtomicU32 = AtomicU32::new(0);

/// From now on descriptors of this library are kept apart from those of the program.
///
/// For libraries that define `close` and its relatives for the whole process: they must ask
/// [`is_programs`] and [`unless_own`], and close what this library closes by [`close_own`].
pub fn keep_apart() {
    let limit = limits::limit(Limit::Descriptors);
    let half = limit.map_or(APART, |limit| RawFd::try_from(limit / 2).unwrap_or(APART));
    FROM.store(half.clamp(LEAST + 1, APART), Ordering::SeqCst);
}

fn are_apart() -> bool {
    FROM.load(Ordering::Relaxed) != LEAST
}

/// Whether this library is at work in this thread: what is closed there it closes itself.
pub fn is_library_at_work() -> bool {
    Quiet::is_begun()
}

/// A low number may be the library's as long as this lives.
struct Window(Option<Quiet>);

impl Window {
    fn begin() -> Self {
        if !are_apart() {
            return Self(None);
        }
        let quiet = Quiet::begin();
        BEGUN.fetch_add(1, Ordering::SeqCst);
        wait_until(|| PLACING.load(Ordering::SeqCst) == 0);
        Self(Some(quiet))
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        if self.0.is_some() {
            let before = ENDED.fetch_add(1, Ordering::SeqCst);
            debug_assert_ne!(before, BEGUN.load(Ordering::SeqCst), "ended as often as begun");
        }
    }
}

/// The number of windows so far, if none is open. `ENDED` is never ahead.
fn closed_windows() -> Option<u32> {
    let ended = ENDED.load(Ordering::SeqCst);
    (BEGUN.load(Ordering::SeqCst) == ended).then_some(ended)
}

/// Looks, and lets others run in between; after too long it goes on.
fn wait_until(mut holds: impl FnMut() -> bool) -> bool {
    (0..MAX_LOOKS).any(|_| {
        let over = holds();
        if !over {
            std::thread::yield_now();
        }
        over
    })
}

/// Makes a descriptor of this library.
pub(crate) fn open<T: Into<OwnedFd>, E>(make: impl FnOnce() -> Result<T, E>) -> Result<OwnedFd, E> {
    let _window = Window::begin();
    Ok(keep(make()?.into()))
}

/// Makes some descriptors of this library by one system call.
pub(crate) fn open_all<E>(
    make: impl FnOnce() -> Result<Vec<OwnedFd>, E>,
) -> Result<Vec<OwnedFd>, E> {
    let _window = Window::begin();
    Ok(make()?.into_iter().map(keep).collect())
}

/// Puts a new descriptor where those of this library are; in a `Window`.
fn keep(made: OwnedFd) -> OwnedFd {
    let from = FROM.load(Ordering::Relaxed);
    let high = match made.as_raw_fd() < from {
        // Without a free number from there on it stays where it is.
        true => rustix::io::fcntl_dupfd_cloexec(&made, from).unwrap_or(made),
        false => made,
    };
    if are_apart()
        && let Some((word, bit)) = place_of(high.as_raw_fd())
    {
        word.fetch_or(bit, Ordering::SeqCst);
    }
    high
}

/// Whether something could not be opened for want of descriptors or memory.
pub(crate) fn is_want(error: &io::Error) -> bool {
    let full = [libc::EMFILE, libc::ENFILE, libc::ENOMEM];
    error.raw_os_error().is_some_and(|number| full.contains(&number))
}

/// Opens a file to read it.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    open(|| File::open(path)).map(File::from)
}

/// Closes a descriptor of this library by `close`.
pub fn close_own<R>(fd: RawFd, close: impl FnOnce() -> R) -> R {
    let _window = Window::begin();
    if let Some((word, bit)) = place_of(fd) {
        word.fetch_and(!bit, Ordering::SeqCst);
    }
    close()
}

/// Closes a descriptor that this library has opened, wherever that is: in the fault handler nobody
/// who defines `close` knows that it is at work.
pub(crate) fn close(file: OwnedFd) {
    let fd = file.into_raw_fd();
    // SAFETY: the descriptor that this call was given; by the system call itself.
    close_own(fd, || unsafe { rustix::io::close(fd) });
}

fn place_of(fd: RawFd) -> Option<(&'static AtomicU64, u64)> {
    let fd = usize::try_from(fd).ok()?;
    Some((OWN.get(fd / 64)?, 1 << (fd % 64)))
}

fn is_own(fd: RawFd) -> bool {
    place_of(fd).is_some_and(|(word, bit)| word.load(Ordering::SeqCst) & bit != 0)
}

/// The first descriptor of this library from a number on.
pub fn next_own(from: RawFd) -> Option<RawFd> {
    let from = from.max(0) as usize;
    let (first, below) = (from / 64, (1 << (from % 64)) - 1);
    OWN.iter().enumerate().skip(first).find_map(|(i, word)| {
        let own = word.load(Ordering::SeqCst) & if i == first { !below } else { u64::MAX };
        (own != 0).then(|| (i * 64) as RawFd + own.trailing_zeros() as RawFd)
    })
}

/// Whether a number is an open descriptor of the program's; one that is not open it may not close,
/// since it can be the library's a moment later.
pub fn is_programs(fd: RawFd) -> bool {
    let mut answer = None;
    wait_until(|| {
        let Some(windows) = closed_windows() else { return false };
        answer = Some(!is_own(fd) && is_open(fd));
        closed_windows() == Some(windows)
    });
    answer.unwrap_or_else(|| !is_own(fd))
}

fn is_open(fd: RawFd) -> bool {
    // SAFETY: only asked about, also when it is closed; negative numbers are none.
    fd >= 0 && rustix::io::fcntl_getfd(unsafe { BorrowedFd::borrow_raw(fd) }).is_ok()
}

/// A thread that puts something at a number.
struct Placing;

impl Placing {
    fn begin() -> Self {
        PLACING.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Placing {
    fn drop(&mut self) {
        let before = PLACING.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(before > 0, "ended as often as begun");
    }
}

/// Runs `place`, which puts something at a number, unless the number is this library's.
pub fn unless_own<R>(target: RawFd, place: impl FnOnce() -> R) -> Option<R> {
    let mut placing = None;
    wait_until(|| {
        // Not held while waiting: a window that has begun waits for it.
        placing = Some(Placing::begin()).filter(|_| closed_windows().is_some());
        placing.is_some()
    });
    (!is_own(target)).then(place)
}

/// In a forked child: the threads that had windows open are not here.
pub(crate) fn begin_in_child() {
    PLACING.store(0, Ordering::SeqCst);
    ENDED.store(BEGUN.load(Ordering::SeqCst), Ordering::SeqCst);
}
