//! An io_uring without a descriptor.
//!
//! A program may close descriptors that it did not open (`closefrom`, daemons). A ring's number
//! then means another file, perhaps a ring of the program's own, and nothing tells the two apart:
//! all rings share one device and inode. So this ring keeps no number. It is registered with the
//! thread that makes it (`IORING_REGISTER_RING_FDS`, Linux 5.18), and the descriptor is closed at
//! once. From then on the thread names the ring by its place among the thread's registered rings,
//! and the mappings of its queues keep it alive. What the program closes later does not matter.
//!
//! Between making the ring and closing its descriptor another thread of the program can exchange
//! the number, for the time of four system calls; see `docs/limits.md`. That is also why this is
//! not the crate `io-uring`: its rings own a number and close it when they are dropped.
//!
//! **Concurrency.** One thread makes the ring, uses it and drops it: other threads cannot name it.
//! The kernel reads the submission queue only inside [`Ring::enter`]. **Fork.** A child has neither
//! the mappings nor the registered ring, so it must not drop its copy.

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{NonNull, null, null_mut};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use rustix::mm::{Advice, MapFlags, ProtFlags};

/// One thread enters: fewer locks in the kernel.
const SETUP_SINGLE_ISSUER: u32 = 1 << 12;
/// Completions are made inside [`Ring::enter`] only (Linux 6.1).
const SETUP_DEFER_TASKRUN: u32 = 1 << 13;
/// Both queues are in one mapping (Linux 5.4).
const FEATURE_SINGLE_MMAP: u32 = 1;
const OFFSET_QUEUES: u64 = 0;
const OFFSET_ENTRIES: u64 = 0x1000_0000;
const ENTER_GETEVENTS: u32 = 1;
const ENTER_REGISTERED_RING: u32 = 1 << 4;
const REGISTER_BUFFERS: u32 = 0;
const REGISTER_RING_FDS: u32 = 20;
const UNREGISTER_RING_FDS: u32 = 21;
/// The number is that of a registered ring (Linux 6.3).
const USE_REGISTERED_RING: u32 = 1 << 31;
/// A flag of the submission queue: completions wait inside the kernel for room.
const COMPLETIONS_WAIT: u32 = 1 << 1;
const READ_FIXED: u8 = 4;
const WRITE_FIXED: u8 = 5;
const READ: u8 = 22;
const WRITE: u8 = 23;

/// `struct io_uring_params`.
#[repr(C)]
#[derive(Default)]
struct Params {
    sq_entries: u32,
    cq_entries: u32,
    flags: u32,
    sq_thread_cpu: u32,
    sq_thread_idle: u32,
    features: u32,
    wq_fd: u32,
    reserved: [u32; 3],
    sq: SubmissionOffsets,
    cq: CompletionOffsets,
}

/// `struct io_sqring_offsets`.
#[repr(C)]
#[derive(Default)]
struct SubmissionOffsets {
    head: u32,
    tail: u32,
    ring_mask: u32,
    ring_entries: u32,
    flags: u32,
    dropped: u32,
    array: u32,
    reserved: u32,
    user_addr: u64,
}

/// `struct io_cqring_offsets`.
#[repr(C)]
#[derive(Default)]
struct CompletionOffsets {
    head: u32,
    tail: u32,
    ring_mask: u32,
    ring_entries: u32,
    overflow: u32,
    cqes: u32,
    flags: u32,
    reserved: u32,
    user_addr: u64,
}

/// `struct io_uring_sqe`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Entry {
    opcode: u8,
    flags: u8,
    priority: u16,
    file: i32,
    offset: u64,
    address: u64,
    len: u32,
    rw_flags: u32,
    user_data: u64,
    buffer_index: u16,
    personality: u16,
    splice_file: i32,
    reserved: [u64; 2],
}

/// `struct io_uring_cqe`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Answer {
    user_data: u64,
    result: i32,
    flags: u32,
}

/// `struct io_uring_rsrc_update`.
#[repr(C)]
struct Registration {
    offset: u32,
    reserved: u32,
    data: u64,
}

const _: () = assert!(size_of::<Params>() == 120 && offset_of!(Params, cq) == 80);
const _: () = assert!(size_of::<Entry>() == 64 && offset_of!(Entry, user_data) == 32);
const _: () = assert!(size_of::<Answer>() == 16 && size_of::<Registration>() == 16);

/// Where the bytes of a request are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes {
    pub(crate) address: *mut u8,
    pub(crate) len: u32,
    /// Whether they lie in the registered buffer.
    pub(crate) registered: bool,
}

impl Entry {
    /// A request to read a file's bytes at an offset.
    pub(crate) fn read(file: i32, offset: u64, bytes: Bytes, user_data: u64) -> Self {
        let opcode = if bytes.registered { READ_FIXED } else { READ };
        Self::new(opcode, file, offset, bytes, user_data)
    }

    /// A request to write them.
    pub(crate) fn write(file: i32, offset: u64, bytes: Bytes, user_data: u64) -> Self {
        let opcode = if bytes.registered { WRITE_FIXED } else { WRITE };
        Self::new(opcode, file, offset, bytes, user_data)
    }

    fn new(opcode: u8, file: i32, offset: u64, bytes: Bytes, user_data: u64) -> Self {
        let (address, len) = (bytes.address as u64, bytes.len);
        Entry { opcode, file, offset, address, len, user_data, ..Entry::default() }
    }
}

/// Memory that the kernel shares with the ring.
struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

impl Mapping {
    fn new(ring: &OwnedFd, len: usize, offset: u64) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a fresh mapping at an address of the kernel's choice disturbs nothing.
        let base = unsafe { rustix::mm::mmap(null_mut(), len, access, flags, ring, offset) }?;
        let base = NonNull::new(base.cast()).ok_or(rustix::io::Errno::NOMEM)?;
        let mapping = Mapping { base, len };
        // SAFETY: the advice concerns the mapping that has just been made.
        unsafe { rustix::mm::madvise(base.as_ptr().cast(), len, Advice::LinuxDontFork) }?;
        Ok(mapping)
    }

    /// A `T` at an offset.
    fn at<T>(&self, offset: u32) -> NonNull<T> {
        let offset = offset as usize;
        let fits = offset.is_multiple_of(align_of::<T>()) && offset + size_of::<T>() <= self.len;
        assert!(fits, "the kernel names places inside the ring");
        // SAFETY: inside the mapping.
        unsafe { self.base.add(offset).cast() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is the ring's own, and nothing uses it any more.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// A word that the kernel reads and writes as well.
#[derive(Clone, Copy)]
struct Word(NonNull<AtomicU32>);

impl Word {
    fn get(&self) -> &AtomicU32 {
        // SAFETY: in a mapping that lives as long as the ring, aligned, used as an atomic only.
        unsafe { self.0.as_ref() }
    }
}

/// See the module's documentation.
pub(crate) struct Ring {
    /// The place among the thread's registered rings.
    place: u32,
    entry_head: Word,
    entry_tail: Word,
    flags: Word,
    entry_count: u32,
    entries: NonNull<Entry>,
    answer_head: Word,
    answer_tail: Word,
    answer_mask: u32,
    answers: NonNull<Answer>,
    /// Dropped in this order, behind the ring's own `drop`.
    _entries: Mapping,
    _queues: Mapping,
}

impl Ring {
    /// Makes a ring for `depth` requests, and registers `buffer` with it, if the kernel lets it:
    /// whether it did.
    ///
    /// # Safety
    /// The buffer stays mapped as long as the ring.
    pub(crate) unsafe fn new(depth: u32, buffer: Option<libc::iovec>) -> io::Result<(Self, bool)> {
        let flags = SETUP_SINGLE_ISSUER | SETUP_DEFER_TASKRUN;
        let mut params = Params { flags, ..Params::default() };
        let descriptor = setup(depth, &mut params)?;
        if params.features & FEATURE_SINGLE_MMAP == 0 {
            return Err(rustix::io::Errno::INVAL.into());
        }
        let registered = buffer.is_some_and(|buffer| {
            register(descriptor.as_raw_fd() as u32, REGISTER_BUFFERS, (&raw const buffer).cast())
                .is_ok()
        });
        let ring = Self::map(&descriptor, &params)?;
        Ok((ring, registered))
    }

    /// Maps the queues of a ring, and registers it with the thread.
    fn map(descriptor: &OwnedFd, params: &Params) -> io::Result<Self> {
        let array_end = params.sq.array as usize + params.sq_entries as usize * 4;
        let answers_end =
            params.cq.cqes as usize + params.cq_entries as usize * size_of::<Answer>();
        let queues = Mapping::new(descriptor, array_end.max(answers_end), OFFSET_QUEUES)?;
        let entries_len = params.sq_entries as usize * size_of::<Entry>();
        let entries = Mapping::new(descriptor, entries_len, OFFSET_ENTRIES)?;
        // The entry of each place in the queue has the same number.
        for place in 0..params.sq_entries {
            Word(queues.at(params.sq.array + place * 4)).get().store(place, Relaxed);
        }
        let word = |offset| Word(queues.at(offset));
        let place = register_with_thread(descriptor)?;
        Ok(Ring {
            place,
            entry_head: word(params.sq.head),
            entry_tail: word(params.sq.tail),
            flags: word(params.sq.flags),
            entry_count: params.sq_entries,
            entries: entries.at(0),
            answer_head: word(params.cq.head),
            answer_tail: word(params.cq.tail),
            answer_mask: params.cq_entries - 1,
            answers: queues.at(params.cq.cqes),
            _entries: entries,
            _queues: queues,
        })
    }

    /// How many requests of the queue the kernel has not seen.
    fn unseen(&self) -> u32 {
        let head = self.entry_head.get().load(Acquire);
        self.entry_tail.get().load(Relaxed).wrapping_sub(head)
    }

    /// Puts a request into the queue; false if it is full. The kernel looks at it in
    /// [`Ring::enter`].
    ///
    /// # Safety
    /// The request's bytes belong to it until its answer has come, or it is taken back.
    pub(crate) unsafe fn push(&mut self, entry: &Entry) -> bool {
        if self.unseen() >= self.entry_count {
            return false;
        }
        let tail = self.entry_tail.get().load(Relaxed);
        // SAFETY: the place lies in the mapping of entries, and the kernel does not look there
        // before the tail has gone past it: it reads only inside `enter`.
        unsafe {
            let place = (tail & (self.entry_count - 1)) as usize;
            self.entries.add(place).write_volatile(*entry);
        }
        self.entry_tail.get().store(tail.wrapping_add(1), Release);
        true
    }

    /// Gives the queue's requests to the kernel, and waits for so many answers. Says how many
    /// requests the kernel has left: they are out of the queue again.
    pub(crate) fn enter(&mut self, wait: u32) -> (io::Result<()>, u32) {
        let waiting = self.flags.get().load(Acquire) & COMPLETIONS_WAIT != 0;
        let get = if wait > 0 || waiting { ENTER_GETEVENTS } else { 0 };
        // SAFETY: the ring is this thread's, its entries are valid, and no signals are passed.
        let result = unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                self.place,
                self.unseen(),
                wait,
                get | ENTER_REGISTERED_RING,
                null::<libc::sigset_t>(),
                0,
            )
        };
        let result = if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
        let left = self.unseen();
        let tail = self.entry_tail.get().load(Relaxed);
        self.entry_tail.get().store(tail.wrapping_sub(left), Release);
        (result, left)
    }

    /// The next answer that is there: what the request was called, and the bytes moved or the
    /// negative error number.
    pub(crate) fn next(&mut self) -> Option<(u64, i32)> {
        let head = self.answer_head.get().load(Relaxed);
        if head == self.answer_tail.get().load(Acquire) {
            return None;
        }
        // SAFETY: the place lies in the mapping of answers, and the kernel writes there again only
        // when the head has gone past it.
        let answer =
            unsafe { self.answers.add((head & self.answer_mask) as usize).read_volatile() };
        self.answer_head.get().store(head.wrapping_add(1), Release);
        Some((answer.user_data, answer.result))
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // Otherwise the ring lives as long as the thread.
        if unregister(self.place, USE_REGISTERED_RING).is_err() {
            // Before Linux 6.3 the call wants a descriptor of any ring.
            let mut params = Params { flags: SETUP_SINGLE_ISSUER, ..Params::default() };
            if let Ok(other) = setup(1, &mut params) {
                let _ = unregister_by(self.place, other.as_raw_fd() as u32, 0);
            }
        }
    }
}

fn setup(depth: u32, params: &mut Params) -> io::Result<OwnedFd> {
    // SAFETY: a valid structure, which the call fills.
    let result = unsafe { libc::syscall(libc::SYS_io_uring_setup, depth, &raw mut *params) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else has.
    Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
}

/// `io_uring_register` with one element.
fn register(ring: u32, what: u32, element: *const libc::c_void) -> io::Result<()> {
    // SAFETY: the callers pass one valid element of the structure that `what` needs.
    let result = unsafe { libc::syscall(libc::SYS_io_uring_register, ring, what, element, 1) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The ring's place among those of the thread.
fn register_with_thread(ring: &OwnedFd) -> io::Result<u32> {
    let number = ring.as_fd().as_raw_fd() as u32;
    let mut wanted = Registration { offset: u32::MAX, reserved: 0, data: u64::from(number) };
    register(number, REGISTER_RING_FDS, (&raw mut wanted).cast())?;
    Ok(wanted.offset)
}

fn unregister(place: u32, how: u32) -> io::Result<()> {
    unregister_by(place, place, how)
}

fn unregister_by(place: u32, ring: u32, how: u32) -> io::Result<()> {
    let old = Registration { offset: place, reserved: 0, data: 0 };
    register(ring, UNREGISTER_RING_FDS | how, (&raw const old).cast())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring() -> Option<Ring> {
        // SAFETY: no buffer.
        match unsafe { Ring::new(4, None) } {
            Ok((ring, _)) => Some(ring),
            Err(error) => {
                println!("skipped: {error}");
                None
            }
        }
    }

    fn read_one(ring: &mut Ring, file: i32) -> (u64, i32) {
        let mut byte = 0_u8;
        let bytes = Bytes { address: &raw mut byte, len: 1, registered: false };
        // SAFETY: the byte lives until the answer is there.
        assert!(unsafe { ring.push(&Entry::read(file, 0, bytes, 7)) });
        let (result, left) = ring.enter(1);
        assert!(result.is_ok() && left == 0);
        ring.next().unwrap()
    }

    /// Places are limited, so a ring that were not given up would show soon. The second way is that
    /// of old kernels.
    #[test]
    fn a_dropped_ring_gives_its_place_up() {
        let zero = std::fs::File::open("/dev/zero").unwrap();
        for _ in 0..100 {
            let Some(mut ring) = ring() else { return };
            assert_eq!(read_one(&mut ring, zero.as_raw_fd()), (7, 1));
            let mut params = Params { flags: SETUP_SINGLE_ISSUER, ..Params::default() };
            let other = setup(1, &mut params).unwrap();
            if unregister_by(ring.place, other.as_raw_fd() as u32, 0).is_ok() {
                assert_eq!(ring.enter(0).0.unwrap_err().raw_os_error(), Some(libc::EBADF));
            }
        }
        for _ in 0..100 {
            let mut ring = ring().unwrap();
            assert_eq!(read_one(&mut ring, zero.as_raw_fd()), (7, 1));
        }
    }

    #[test]
    fn what_the_kernel_has_not_taken_is_out_of_the_queue() {
        let Some(mut ring) = ring() else { return };
        let mut byte = 0_u8;
        let bytes = Bytes { address: &raw mut byte, len: 1, registered: false };
        let zero = std::fs::File::open("/dev/zero").unwrap();
        for number in 0..4 {
            // SAFETY: the byte outlives the ring.
            assert!(unsafe { ring.push(&Entry::read(zero.as_raw_fd(), 0, bytes, number)) });
        }
        // SAFETY: as above.
        assert!(!unsafe { ring.push(&Entry::read(zero.as_raw_fd(), 0, bytes, 9)) }, "it is full");
        let place = std::mem::replace(&mut ring.place, 15);
        let (refused, left) = ring.enter(1);
        assert!(refused.is_err() && left == 4 && ring.unseen() == 0);
        ring.place = place;
        assert_eq!(read_one(&mut ring, zero.as_raw_fd()), (7, 1));
        assert!(ring.next().is_none());
    }
}
