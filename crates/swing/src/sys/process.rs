//! Who a process is, and whether it is still the same one: pid plus start time, since pids are
//! given again.

use std::io::Read;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::sys::descriptors;
use crate::sys::sync::Mutex;

/// Grows in every forked child; 0 in a process that was never forked since this library was loaded
/// into it.
static FORK_GENERATION: AtomicU64 = AtomicU64::new(0);

/// Compared with the value at an area's opening: different means that this process is a forked
/// child of the area's owner.
#[inline]
pub(crate) fn fork_generation() -> u64 {
    FORK_GENERATION.load(Ordering::Relaxed)
}

/// A page that the kernel clears in every forked child, with a 1 in it; null: none was to be had.
/// Process numbers do not tell parent and child apart: each can be 1, in a pid namespace of its
/// own.
static MARK: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
/// Where there is no such page: the process that has been marked.
static MARKED: AtomicU32 = AtomicU32::new(0);

/// Makes the page for [`mark`]; once a program.
pub(crate) fn prepare_mark() {
    const LEN: usize = 4096;
    let (access, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping of this function's own, which stays as long as the process.
    unsafe {
        let page = libc::mmap(std::ptr::null_mut(), LEN, access, flags, -1, 0);
        if page != libc::MAP_FAILED && libc::madvise(page, LEN, libc::MADV_WIPEONFORK) == 0 {
            MARK.store(page.cast(), Ordering::SeqCst);
        }
    }
}

/// Whether this is the process that was marked last, and no child of it. Async-signal-safe.
pub(crate) fn is_marked() -> bool {
    let page = MARK.load(Ordering::SeqCst);
    if page.is_null() {
        return MARKED.load(Ordering::SeqCst) == std::process::id();
    }
    // SAFETY: the page stays as long as the process; a child has it, too, with zeros.
    unsafe { page.read_volatile() == 1 }
}

/// From now on [`is_marked`] is true in this process, and false in its children.
pub(crate) fn mark() {
    MARKED.store(std::process::id(), Ordering::SeqCst);
    let page = MARK.load(Ordering::SeqCst);
    if !page.is_null() {
        // SAFETY: as in `is_marked`; called by one thread at a time, the one that forks.
        unsafe { page.write_volatile(1) };
    }
}

/// Called once in a new child, by the fork handler.
pub(crate) fn note_fork() {
    FORK_GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Ends the process at once: no exit handler of any library runs, no static is torn down.
///
/// For programs whose worker threads may still be computing when the last result is out: what
/// exit handlers take apart (the memory allocator's own state, above all) those threads still use,
/// and a crash there would turn success into failure. The kernel takes back memory, locks, leases
/// and files just the same. Whatever standard output buffers must be flushed before.
pub fn exit_now(status: u8) -> ! {
    // SAFETY: _exit only ends the process; it runs no code of it.
    unsafe { libc::_exit(i32::from(status)) }
}

/// Asks the scheduler to run the calling thread soon when it is woken: it has little to do, and
/// somebody waits for that. By a short time slice (Linux 6.12), which takes no privilege and gives
/// no more time in all; elsewhere nothing happens.
pub(crate) fn wake_promptly() {
    const SLICE_NS: u64 = 100_000;
    const SCHED_ATTR_BYTES: usize = 48;
    let mut attr = [0u64; SCHED_ATTR_BYTES / 8];
    // SAFETY: both calls get a buffer of the size they are told, and concern this thread only.
    unsafe {
        let (call, bytes) = (libc::SYS_sched_getattr, SCHED_ATTR_BYTES);
        if libc::syscall(call, 0, attr.as_mut_ptr(), bytes, 0) != 0 {
            return;
        }
        // size: u32, policy: u32, flags: u64, nice: i32, priority: u32, runtime: u64, ...
        let policy = attr[0] >> 32;
        if policy != libc::SCHED_OTHER as u64 {
            return;
        }
        attr[3] = SLICE_NS;
        libc::syscall(libc::SYS_sched_setattr, 0, attr.as_mut_ptr(), 0);
    }
}

/// The processor that the calling thread is on. Async-signal-safe.
pub(crate) fn processor() -> Option<u32> {
    // SAFETY: takes and changes nothing.
    u32::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// The kernel's number of the calling thread; a system call. Async-signal-safe.
#[cfg(not(loom))]
pub(crate) fn thread_id() -> i32 {
    // SAFETY: it has no arguments and cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

/// The threads of a model are one of the system.
#[cfg(loom)]
pub(crate) fn thread_id() -> i32 {
    use std::sync::atomic::AtomicI32;
    static LAST: AtomicI32 = AtomicI32::new(0);
    loom::thread_local! {
        static ID: i32 = LAST.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
    }
    ID.with(|id| *id)
}

/// Processors on which a thread may run.
#[derive(Clone, Copy)]
pub(crate) struct Processors(libc::cpu_set_t);

impl Processors {
    const BYTES: usize = size_of::<libc::cpu_set_t>();

    /// Those of a thread; 0 is the calling one.
    pub(crate) fn of(thread: i32) -> Option<Self> {
        // SAFETY: all-zero bytes are an empty set.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: writes no more than the size it is told.
        let got = unsafe { libc::sched_getaffinity(thread, Self::BYTES, &raw mut set) };
        (got == 0).then_some(Self(set))
    }

    /// One alone; `None` when there is none of this number.
    pub(crate) fn only(processor: u32) -> Option<Self> {
        // SAFETY: all-zero bytes are an empty set.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        let exists = (processor as usize) < 8 * Self::BYTES;
        exists.then(|| {
            // SAFETY: inside the set.
            unsafe { libc::CPU_SET(processor as usize, &mut set) };
            Self(set)
        })
    }

    /// From now on a thread runs only there; `false` when it may not, or has ended.
    pub(crate) fn set(&self, thread: i32) -> bool {
        // SAFETY: reads a set of the size it is told.
        unsafe { libc::sched_setaffinity(thread, Self::BYTES, &raw const self.0) == 0 }
    }
}

impl PartialEq for Processors {
    fn eq(&self, other: &Self) -> bool {
        // SAFETY: both are whole sets.
        unsafe { libc::CPU_EQUAL(&self.0, &other.0) }
    }
}

impl std::fmt::Debug for Processors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_set = |i: &usize| {
            // SAFETY: inside the set.
            unsafe { libc::CPU_ISSET(*i, &self.0) }
        };
        f.debug_set().entries((0..8 * Self::BYTES).filter(is_set)).finish()
    }
}

/// The time of the processor that the calling thread has used. Async-signal-safe.
pub(crate) fn thread_time_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The time of the processor that a thread of this process has used; 0 when it has ended.
/// Async-signal-safe.
#[cfg(not(loom))]
pub(crate) fn time_of_thread_ns(thread: i32) -> u64 {
    // Linux's clock of a thread (4) that counts what the scheduler does (2).
    clock_ns(!thread << 3 | 4 | 2)
}

/// In a model every thread gets on.
#[cfg(loom)]
pub(crate) fn time_of_thread_ns(_: i32) -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static TIME: AtomicU64 = AtomicU64::new(0);
    TIME.fetch_add(1, Ordering::Relaxed)
}

/// Whether a thread of this process sleeps until somebody wakes it: it neither runs, nor waits for
/// a processor or a device. Where that cannot be found out, it does. Async-signal-safe.
#[cfg(not(loom))]
pub(crate) fn is_asleep(thread: i32) -> bool {
    use std::io::Write;
    let mut path = [0_u8; 48];
    // One byte stays zero.
    let mut rest = &mut path[..47];
    let written = write!(rest, "/proc/self/task/{thread}/stat");
    let Ok(path) = std::ffi::CStr::from_bytes_until_nul(&path) else { return true };
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
    let (mut text, mode) = ([0_u8; 128], rustix::fs::Mode::empty());
    let got =
        rustix::fs::open(path, flags, mode).and_then(|file| rustix::io::read(file, &mut text));
    let text = &text[..got.unwrap_or(0)];
    // Behind the name, which may have parentheses of its own.
    let state = text.iter().rposition(|byte| *byte == b')').and_then(|at| text.get(at + 2));
    written.is_err() || state.is_none_or(|state| *state == b'S')
}

/// In a model every thread may be waiting.
#[cfg(loom)]
pub(crate) fn is_asleep(_: i32) -> bool {
    true
}

/// The process that listens at the other end of a connection, if it can be seen from here.
pub(crate) fn peer_of(stream: impl AsFd) -> Option<i32> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    let (fd, to) = (stream.as_fd().as_raw_fd(), (&raw mut peer).cast());
    // SAFETY: writes no more than the size it is told.
    let got =
        unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, to, &raw mut len) };
    (got == 0 && peer.pid > 0).then_some(peer.pid)
}

/// Whether a process has a thread of this number and name.
pub(crate) fn is_thread(process: i32, thread: i32, name: &str) -> bool {
    let path = format!("/proc/{process}/task/{thread}/comm");
    read(&path).is_ok_and(|comm| comm.trim_ascii_end() == name.as_bytes())
}

/// The time of the clock that all processes share. Async-signal-safe.
pub(crate) fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds since 1970, by the clock that people set.
pub(crate) fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes a valid structure, or nothing where there is no such clock.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The longest command line kept.
const MAX_COMMAND_BYTES: usize = 512;

fn read(path: &str) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    descriptors::open_file(Path::new(path))?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// When a process started, in clock ticks since boot; `None` when there is no such process.
pub(crate) fn start_time(pid: u32) -> Option<u64> {
    let stat = read(&format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The command in parentheses may itself contain spaces and parentheses: fields count from the
    // last one.
    let fields = stat.rsplit_once(')')?.1;
    fields.split_whitespace().nth(19)?.parse().ok()
}

/// A process's command line, shortened; empty when it cannot be read.
pub(crate) fn command_line(pid: u32) -> String {
    let bytes = read(&format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut text: String = String::from_utf8_lossy(&bytes)
        .trim_end_matches('\0')
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.len() > MAX_COMMAND_BYTES {
        let cut = (0..=MAX_COMMAND_BYTES).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
        text.truncate(cut);
    }
    text
}

/// How this process describes itself in the areas it owns: pid, start time, command line. Read from
/// `/proc` once a process, also once in each forked child.
pub(crate) fn own_description() -> String {
    static KNOWN: Mutex<Option<(u32, String)>> = Mutex::new(None);
    let pid = std::process::id();
    // A child forked while another thread held this lock must not wait for it.
    let mut known = KNOWN.try_lock();
    if let Some(Some((owner, text))) = known.as_deref()
        && *owner == pid
    {
        return text.clone();
    }
    let start = start_time(pid).unwrap_or(0);
    let text = format!("{pid} {start}\n{}\n", command_line(pid));
    // Without the start it could not be read for now: the next area asks again.
    if let Some(known) = known.as_mut().filter(|_| start != 0) {
        **known = Some((pid, text.clone()));
    }
    text
}

/// The effective user.
pub(crate) fn user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Fills a random 64-bit number from the kernel, never 0.
pub(crate) fn random_id() -> u64 {
    let mut bytes = [0u8; 8];
    // SAFETY: the buffer is writable for the length given; the kernel fills it and keeps no
    // reference.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    let mut id = u64::from_ne_bytes(bytes);
    if got != 8 {
        // Cannot happen on the kernels this crate runs on; time and address still tell two areas of
        // one machine apart.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        id = now.map_or(1, |d| d.as_nanos() as u64) ^ u64::from(std::process::id()).rotate_left(40);
    }
    id.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_process_is_found_and_a_missing_one_is_not() {
        let me = std::process::id();
        assert!(start_time(me).is_some());
        assert_eq!(start_time(me), start_time(me));
        assert!(command_line(me).contains("swing"));
        assert_eq!(start_time(u32::MAX - 1), None);
        assert_eq!(command_line(u32::MAX - 1), "");
    }

    #[test]
    fn the_time_of_a_thread_is_what_it_has_used() {
        let me = thread_id();
        let (before, own) = (time_of_thread_ns(me), thread_time_ns());
        assert!(before > 0 && before <= own);
        assert!(time_of_thread_ns(me) > before);
        assert_eq!(time_of_thread_ns(i32::MAX - 8), 0);
    }

    #[test]
    fn a_thread_that_waits_is_asleep_and_one_that_works_is_not() {
        assert!(!is_asleep(thread_id()));
        let (send, receive) = std::sync::mpsc::channel();
        let (end, until) = std::sync::mpsc::channel::<()>();
        let waiting = std::thread::spawn(move || {
            send.send(thread_id()).unwrap();
            until.recv().ok();
        });
        let number = receive.recv().unwrap();
        let begun = std::time::Instant::now();
        while !is_asleep(number) {
            assert!(begun.elapsed().as_secs() < 60);
        }
        drop(end);
        waiting.join().unwrap();
        assert!(is_asleep(i32::MAX - 8), "not known");
    }

    #[test]
    fn ids_differ() {
        let ids: std::collections::HashSet<u64> = (0..100).map(|_| random_id()).collect();
        assert_eq!(ids.len(), 100);
    }
}
