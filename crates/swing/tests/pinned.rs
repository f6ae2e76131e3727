//! Direct I/O, `io_uring` and asynchronous I/O into a tracked area, which go past page protection:
//! while a range is pinned nothing is frozen, so no snapshot changes (INV-AREA-1), and nothing that
//! arrives is lost. Without the pins of these tests, each sees one or the other.

mod common;

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use common::*;
use swing::{Area, HookError, NotFresh, Publish, PublishError, tracked};

/// A fork waits for the pins of all areas of the process, and holds the areas meanwhile.
static FORKS: RwLock<()> = RwLock::new(());

/// For tests that fork.
fn forks() -> RwLockWriteGuard<'static, ()> {
    FORKS.write().unwrap_or_else(PoisonError::into_inner)
}

/// For those that do not.
fn nobody_forks() -> RwLockReadGuard<'static, ()> {
    FORKS.read().unwrap_or_else(PoisonError::into_inner)
}

/// The first address of a data extent.
fn buffer(area: &Area, extent: u64) -> *mut u8 {
    area.base().as_ptr().wrapping_add(data_at(extent) as usize)
}

/// A live area, and the addresses of one of its extents, stored to.
fn live(h: &Home) -> (Area, *mut u8) {
    let area = h.ns.create(&name("a"), &options()).unwrap();
    area.allow_live_hooks(true).unwrap();
    store(&area, data_at(1), 1);
    let at = buffer(&area, 1);
    (area, at)
}

#[test]
fn what_is_pinned_is_not_frozen_and_goes_on_afterwards() {
    let _quiet = nobody_forks();
    let h = home();
    let (area, at) = live(&h);
    let pin = tracked::pin(at, 2 * DATA as usize).unwrap();
    let second = tracked::pin(at, 1).unwrap();
    drop(pin);
    let begin = Instant::now();
    assert!(matches!(area.publish(Publish::Shared, b""), Err(PublishError::Pinned)));
    assert!(begin.elapsed() >= tracked::MAX_PINNED);
    assert!(matches!(area.freeze_view(), Err(PublishError::Pinned)));
    let hooked = h.ns.hook_live_with(&name("a"), patient());
    assert!(matches!(hooked, Err(HookError::NotFresh { why: NotFresh::Pinned, .. })), "{hooked:?}");
    // Stores and pins go on meanwhile.
    store(&area, data_at(1), 2);
    store(&area, data_at(7), 3);
    drop(tracked::pin(at, 100).unwrap());
    drop(second);
    let hooked = h.ns.hook_live_with(&name("a"), patient()).unwrap();
    assert_eq!((value_in(&hooked, data_at(1)), value_in(&hooked, data_at(7))), (2, 3));
    area.publish(Publish::Shared, b"").unwrap();
    // What was frozen becomes writable by a pin, and a pin given up too often is none.
    let again = tracked::pin(at, 1).unwrap();
    assert!(is_writable(&area, data_at(1)));
    assert!(tracked::unpin(at, 1) && !tracked::unpin(at, 1));
    drop(again);
    area.publish(Publish::Shared, b"").unwrap();
    let word = 0_u64;
    assert!(tracked::pin((&raw const word).cast(), 8).is_some(), "in no area");
    // It outlives its area, and does not count in another one at the same place.
    let pin = tracked::pin(at, 1).unwrap();
    drop(area);
    drop(pin);
}

#[test]
fn whoever_hooks_waits_for_the_end_of_a_pin() {
    let _quiet = nobody_forks();
    let h = home();
    let (_area, at) = live(&h);
    let pin = tracked::pin(at, 8).unwrap();
    let unpinned = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let hooks = scope.spawn(|| {
            let hooked = h.ns.hook_live_with(&name("a"), patient()).unwrap();
            assert!(unpinned.load(Ordering::SeqCst), "not before");
            value_in(&hooked, data_at(1))
        });
        std::thread::sleep(Duration::from_millis(50));
        // SAFETY: a word of the area that no other thread accesses.
        unsafe { at.cast::<u64>().write(77) };
        unpinned.store(true, Ordering::SeqCst);
        assert!(tracked::unpin(at, 8));
        std::mem::forget(pin);
        assert_eq!(hooks.join().unwrap(), 77);
    });
}

#[test]
fn a_fork_waits_for_the_end_of_a_pin() {
    let _alone = forks();
    let h = home();
    let (area, at) = live(&h);
    let pin = tracked::pin(at, 8).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            drop(pin);
        });
        // SAFETY: the child only loads, stores, and ends.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            // SAFETY: the child's own copy of the area.
            unsafe {
                let word = at.cast::<u64>();
                word.write_volatile(word.read_volatile() + 1);
                libc::_exit(word.read_volatile() as i32);
            }
        }
        let mut status = 0;
        // SAFETY: waits for the child made above.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 2, "{status}");
    });
    assert_eq!(load(&area, data_at(1)), 1);
}

/// Threads that pin one range after the other, longer than a new pin waits without a reason, and
/// never all at once: they keep nobody waiting for ever.
#[test]
fn a_stream_of_pins_holds_up_neither_a_publish_nor_a_fork() {
    let _alone = forks();
    const THREADS: u64 = 6;
    let h = home();
    let (area, _) = live(&h);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = AtTheEnd(&stop);
        for thread in 0..THREADS {
            let (area, stop) = (&area, &stop);
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(thread));
                while !stop.load(Ordering::Relaxed) {
                    let pin = tracked::pin(buffer(area, 1 + thread), 8).unwrap();
                    std::thread::sleep(Duration::from_millis(5));
                    drop(pin);
                }
            });
        }
        std::thread::sleep(Duration::from_millis(20));
        for round in 0..20 {
            store(&area, data_at(20), round);
            area.publish(Publish::Shared, b"").unwrap();
            let view = area.freeze_view().unwrap();
            assert_eq!(value_in(&view, data_at(20)), round);
        }
        for round in 0..5 {
            store(&area, data_at(20), round);
            // SAFETY: the child only loads and ends; it would die of SIGSEGV if it had nothing.
            let child = unsafe { libc::fork() };
            assert!(child >= 0);
            if child == 0 {
                // SAFETY: the child's own copy of the area.
                unsafe { libc::_exit(buffer(&area, 20).cast::<u64>().read_volatile() as i32) };
            }
            let mut status = 0;
            // SAFETY: waits for the child made above.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert!(libc::WIFEXITED(status), "{status}");
            assert_eq!(libc::WEXITSTATUS(status) as u64, round);
        }
    });
}

/// A file of random bytes on a disk, open for direct reads; `None` where no such disk is.
fn direct(len: usize) -> Option<(File, Vec<u8>)> {
    let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let bytes: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(len).collect();
    file.write_all(&bytes).unwrap();
    file.as_file().sync_all().unwrap();
    let opened = File::options().read(true).custom_flags(libc::O_DIRECT).open(file.path());
    opened.map_err(|e| println!("skipped: O_DIRECT: {e}")).ok().map(|file| (file, bytes))
}

/// Tells another thread to end, also when this one has failed.
struct StopsAtEnd<'a>(&'a AtomicBool);

impl Drop for StopsAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Two pinned extents of the area get `bytes` by `arrive`, again and again, while another thread
/// hooks, and looks that no snapshot changes meanwhile.
fn arrive_while_hooking(h: &Home, area: &Area, at: *mut u8, bytes: &[u8], arrive: impl Fn()) {
    let (from, len) = (data_at(1), bytes.len());
    // SAFETY: two extents of the area, which only this thread stores to.
    let fill = |byte: u8| unsafe { at.write_bytes(byte, len) };
    // Every snapshot has both.
    fill(0);
    let (stop, hooks) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        let hooker = scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                let hooked = match h.ns.hook_live(&name("a")) {
                    Ok(hooked) => hooked,
                    Err(HookError::NotFresh { why: NotFresh::Pinned | NotFresh::Late, .. }) => {
                        continue;
                    }
                    Err(e) => panic!("{e}"),
                };
                let before = read_snapshot(&hooked, from, len as u64);
                std::thread::sleep(Duration::from_millis(1));
                assert!(read_snapshot(&hooked, from, len as u64) == before, "it has changed");
                hooks.fetch_add(1, Ordering::SeqCst);
            }
        });
        let _stops = StopsAtEnd(&stop);
        for round in 0.. {
            if round >= 50 && hooks.load(Ordering::SeqCst) > 20 {
                break;
            }
            assert!(!hooker.is_finished(), "the thread that hooks has failed");
            fill(round as u8);
            let pin = tracked::pin(at, len).unwrap();
            arrive();
            drop(pin);
            assert!(read(area, from, len as u64) == bytes, "round {round}");
        }
    });
    assert!(hooks.load(Ordering::SeqCst) > 0);
}

#[test]
fn direct_reads_arrive_while_hooks_come() {
    let _quiet = nobody_forks();
    let len = 2 * DATA as usize;
    let Some((file, bytes)) = direct(len) else { return };
    let h = home();
    let (area, at) = live(&h);
    arrive_while_hooking(&h, &area, at, &bytes, || {
        // SAFETY: two extents of the area, which only this thread stores to.
        let got = unsafe { libc::pread(file.as_raw_fd(), at.cast(), len, 0) };
        assert_eq!(got, len as isize, "{}", std::io::Error::last_os_error());
    });
}

/// The kernel's asynchronous I/O, by its system calls.
struct Aio(libc::c_ulong);

#[repr(C)]
#[derive(Default)]
struct Iocb {
    data: u64,
    key: u32,
    flags: u32,
    opcode: u16,
    priority: i16,
    fd: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    event_flags: u32,
    event_fd: u32,
}

impl Aio {
    fn new() -> Option<Self> {
        let mut context: libc::c_ulong = 0;
        // SAFETY: writes a number.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, 64, &raw mut context) } == 0;
        made.then_some(Self(context))
    }

    /// Begins to read `len` bytes in pieces.
    fn begin(&self, file: &File, at: *mut u8, len: usize, pieces: usize) {
        let piece = len / pieces;
        for i in 0..pieces {
            let mut request = Iocb {
                fd: file.as_raw_fd() as u32,
                buffer: at.wrapping_add(i * piece) as u64,
                bytes: piece as u64,
                offset: (i * piece) as i64,
                ..Iocb::default()
            };
            let mut list = &raw mut request;
            // SAFETY: one valid request; its buffer stays until `end`.
            let begun = unsafe { libc::syscall(libc::SYS_io_submit, self.0, 1, &raw mut list) };
            assert_eq!(begun, 1, "{}", std::io::Error::last_os_error());
        }
    }

    /// Waits for so many.
    fn end(&self, pieces: usize, each: usize) {
        let mut events = vec![[0_i64; 4]; pieces];
        let mut done = 0;
        while done < pieces {
            let (least, most) = ((pieces - done) as libc::c_long, (pieces - done) as libc::c_long);
            let to = events[done..].as_mut_ptr();
            let no_end: *const libc::timespec = std::ptr::null();
            // SAFETY: room for so many events.
            let got =
                unsafe { libc::syscall(libc::SYS_io_getevents, self.0, least, most, to, no_end) };
            assert!(got > 0);
            done += got as usize;
        }
        assert!(events.iter().all(|event| event[2] == each as i64), "{events:?}");
    }
}

impl Drop for Aio {
    fn drop(&mut self) {
        // SAFETY: made by `new`.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
}

#[test]
fn asynchronous_reads_arrive_while_hooks_come() {
    let _quiet = nobody_forks();
    const PIECES: usize = 16;
    let len = 2 * DATA as usize;
    let (Some((file, bytes)), Some(aio)) = (direct(len), Aio::new()) else { return };
    let h = home();
    let (area, at) = live(&h);
    arrive_while_hooking(&h, &area, at, &bytes, || {
        aio.begin(&file, at, len, PIECES);
        std::thread::yield_now();
        aio.end(PIECES, len / PIECES);
    });
}

/// As little of `io_uring` as it takes to have a buffer registered, and read into.
struct Ring {
    fd: OwnedFd,
    rings: *mut u8,
    entries: *mut u8,
    params: [u32; 30],
}

impl Ring {
    const LEN: usize = 1 << 16;

    fn new() -> Option<Self> {
        let mut params = [0_u32; 30];
        // SAFETY: the structure has 120 bytes.
        let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, 4, params.as_mut_ptr()) };
        if fd < 0 {
            println!("skipped: io_uring: {}", std::io::Error::last_os_error());
            return None;
        }
        // SAFETY: the descriptor just made; mappings of its own.
        unsafe {
            let fd = OwnedFd::from_raw_fd(fd as i32);
            let map = |offset| {
                let (access, number) = (libc::PROT_READ | libc::PROT_WRITE, fd.as_raw_fd());
                let at =
                    libc::mmap(null_mut(), Self::LEN, access, libc::MAP_SHARED, number, offset);
                (at != libc::MAP_FAILED).then_some(at.cast::<u8>())
            };
            let (rings, entries) = (map(0)?, map(0x1000_0000)?);
            Some(Self { fd, rings, entries, params })
        }
    }

    fn word(&self, offset: u32) -> &AtomicU32 {
        // SAFETY: a word of the mapped rings, which the kernel shares.
        unsafe { AtomicU32::from_ptr(self.rings.add(offset as usize).cast()) }
    }

    /// Has the kernel hold the pages of a buffer.
    fn register(&self, at: *mut u8, len: usize) -> bool {
        let buffer = libc::iovec { iov_base: at.cast(), iov_len: len };
        let (call, number) = (libc::SYS_io_uring_register, self.fd.as_raw_fd());
        // SAFETY: one valid buffer.
        let done = unsafe { libc::syscall(call, number, 0, &raw const buffer, 1) };
        done == 0
    }

    /// Reads into the registered buffer.
    fn read(&self, from: i32, at: *mut u8, len: usize) -> i32 {
        const READ_FIXED: u8 = 4;
        let tail = self.word(self.params[11]);
        let mask = self.word(self.params[12]).load(Ordering::Relaxed);
        let index = tail.load(Ordering::Relaxed) & mask;
        // SAFETY: a free entry of 64 bytes, and a slot of the list of entries.
        unsafe {
            let entry = self.entries.add(64 * index as usize);
            entry.write_bytes(0, 64);
            entry.write(READ_FIXED);
            entry.add(4).cast::<i32>().write(from);
            entry.add(8).cast::<u64>().write(u64::MAX);
            entry.add(16).cast::<u64>().write(at as u64);
            entry.add(24).cast::<u32>().write(len as u32);
            self.rings.add(self.params[16] as usize).cast::<u32>().add(index as usize).write(index);
        }
        tail.fetch_add(1, Ordering::Release);
        let (call, number) = (libc::SYS_io_uring_enter, self.fd.as_raw_fd());
        // SAFETY: submits the one, and waits for it; no signal mask.
        let done = unsafe { libc::syscall(call, number, 1, 1, 1, null_mut::<u8>(), 0) };
        assert_eq!(done, 1, "{}", std::io::Error::last_os_error());
        let (head, end) = (self.word(self.params[20]), self.word(self.params[21]));
        assert_ne!(head.load(Ordering::Acquire), end.load(Ordering::Acquire));
        let mask = self.word(self.params[22]).load(Ordering::Relaxed);
        let at = self.params[25] + 16 * (head.load(Ordering::Acquire) & mask);
        let result = self.word(at + 8).load(Ordering::Acquire) as i32;
        head.fetch_add(1, Ordering::Release);
        result
    }
}

/// A registered buffer: the kernel stores into pages that it has looked up long before.
#[test]
fn what_io_uring_reads_into_a_registered_buffer_arrives() {
    let _quiet = nobody_forks();
    let Some(ring) = Ring::new() else { return };
    let h = home();
    let (area, at) = live(&h);
    let pin = tracked::pin(at, 4096).unwrap();
    if !ring.register(at, 4096) {
        println!("skipped: registering: {}", std::io::Error::last_os_error());
        return;
    }
    let (from, mut to) = std::io::pipe().unwrap();
    let shared = h.ns.hook(&name("a")).unwrap();
    for n in 0..3_u8 {
        let hooked = h.ns.hook_live_with(&name("a"), patient());
        assert!(matches!(hooked, Err(HookError::NotFresh { why: NotFresh::Pinned, .. })));
        to.write_all(&[n; 8]).unwrap();
        assert_eq!(ring.read(from.as_raw_fd(), at, 8), 8);
        assert_eq!(load(&area, data_at(1)).to_ne_bytes(), [n; 8]);
    }
    assert!(!shared.is_mapped(&range(data_at(1), 8)) || value_in(&shared, data_at(1)) < 2);
    // What is registered holds its pages until the ring is gone.
    drop(ring);
    drop(pin);
    assert_eq!(value_in(&hook_now(&h, "a"), data_at(1)).to_ne_bytes(), [2; 8]);
}

/// What the pins are for, and that these tests would see it.
#[test]
fn without_a_pin_the_kernel_stores_into_what_is_frozen() {
    let _quiet = nobody_forks();
    let Some(ring) = Ring::new() else { return };
    let h = home();
    let (_area, at) = live(&h);
    if !ring.register(at, 4096) {
        println!("skipped: registering: {}", std::io::Error::last_os_error());
        return;
    }
    let hooked = hook_now(&h, "a");
    assert_eq!(value_in(&hooked, data_at(1)), 1);
    let (from, mut to) = std::io::pipe().unwrap();
    to.write_all(&[9; 8]).unwrap();
    assert_eq!(ring.read(from.as_raw_fd(), at, 8), 8);
    assert_eq!(value_in(&hooked, data_at(1)).to_ne_bytes(), [9; 8], "a snapshot has changed");
}
