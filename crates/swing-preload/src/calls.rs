//! Functions of the C library that have the kernel write into the program's memory.
//!
//! A *store* into a part of the heap that a publish has frozen is trapped and works; a system call
//! that writes there fails with EFAULT. So these functions make their buffers writable first, and
//! again when a publish came in between. Buffers that the C library allocates for itself and fills
//! by system calls that nobody can intercept (streams, directories) are taken from outside the
//! heap. What is not here is listed in `docs/limits.md`.

use crate::heap;
use libc::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use swing::tracked::prepare;

/// How often a call is tried again: a publish may come in between, and while it protects the heap
/// nothing can be made writable. So long a bad address takes to be refused: a fifth of a second.
const TRIES: u32 = 2000;
/// Between two tries.
const PAUSE_US: u64 = 50;

/// The C library's own function of this name.
fn next(slot: &AtomicUsize, name: &std::ffi::CStr) -> usize {
    let known = slot.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    // SAFETY: the name is a C string.
    let found = heap::outside(|| unsafe { dlsym(RTLD_NEXT, name.as_ptr()) }) as usize;
    if found == 0 {
        // Nothing sensible can be done for a call without its function.
        std::process::abort();
    }
    slot.store(found, Ordering::Relaxed);
    found
}

fn faulted() -> bool {
    // SAFETY: the address of this thread's errno.
    unsafe { *__errno_location() == EFAULT }
}

/// Makes writable what the I/O vectors point to.
///
/// # Safety
/// `vectors` points to `count` of them, or the system call would fail as well.
unsafe fn prepare_vectors(vectors: *const iovec, count: usize) {
    if vectors.is_null() || count > 1024 {
        return;
    }
    for i in 0..count {
        // SAFETY: the caller's promise.
        let vector = unsafe { vectors.add(i).read() };
        prepare(vector.iov_base.cast(), vector.iov_len);
    }
}

/// # Safety
/// `len` is null or may be read.
unsafe fn prepare_address(address: *mut sockaddr, len: *mut socklen_t) {
    if !len.is_null() {
        prepare(len.cast(), size_of::<socklen_t>());
        // SAFETY: the caller's promise.
        prepare(address.cast(), unsafe { *len } as usize);
    }
}

macro_rules! calls {
    ($($name:ident($($arg:ident: $kind:ty),*) -> $result:ty { $($prepare:tt)* })*) => {$(
        /// Makes its buffers writable, then calls the C library's function.
        ///
        /// # Safety
        /// As the function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $kind),*) -> $result {
            static NEXT: AtomicUsize = AtomicUsize::new(0);
            let name = concat!(stringify!($name), "\0");
            let name = std::ffi::CStr::from_bytes_until_nul(name.as_bytes()).unwrap_or_default();
            let next = next(&NEXT, name);
            let mut tries = 0;
            loop {
                $($prepare)*
                // SAFETY: the C library's function of this name has this signature, and the caller
                // promised what it asks for.
                let result = unsafe {
                    std::mem::transmute::<usize, unsafe extern "C" fn($($kind),*) -> $result>(next)(
                        $($arg),*
                    )
                };
                tries += 1;
                if result != -1 || tries == TRIES || !faulted() {
                    return result;
                }
                std::thread::sleep(std::time::Duration::from_micros(PAUSE_US));
            }
        }
    )*};
}

calls! {
    read(fd: c_int, buffer: *mut c_void, len: size_t) -> ssize_t {
        prepare(buffer.cast(), len);
    }
    __read_chk(fd: c_int, buffer: *mut c_void, len: size_t, room: size_t) -> ssize_t {
        prepare(buffer.cast(), len);
    }
    pread(fd: c_int, buffer: *mut c_void, len: size_t, at: off_t) -> ssize_t {
        prepare(buffer.cast(), len);
    }
    pread64(fd: c_int, buffer: *mut c_void, len: size_t, at: off64_t) -> ssize_t {
        prepare(buffer.cast(), len);
    }
    recv(fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
        prepare(buffer.cast(), len);
    }
    recvfrom(
        fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int,
        address: *mut sockaddr, address_len: *mut socklen_t
    ) -> ssize_t {
        prepare(buffer.cast(), len);
        // SAFETY: as the function asks for.
        unsafe { prepare_address(address, address_len) };
    }
    recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
        prepare(message.cast(), size_of::<msghdr>());
        // SAFETY: as the function asks for.
        unsafe {
            prepare_vectors((*message).msg_iov, (*message).msg_iovlen);
            prepare((*message).msg_control.cast(), (*message).msg_controllen);
            prepare((*message).msg_name.cast(), (*message).msg_namelen as usize);
        };
    }
    readv(fd: c_int, vectors: *const iovec, count: c_int) -> ssize_t {
        // SAFETY: as the function asks for.
        unsafe { prepare_vectors(vectors, count.max(0) as usize) };
    }
    preadv(fd: c_int, vectors: *const iovec, count: c_int, at: off_t) -> ssize_t {
        // SAFETY: as the function asks for.
        unsafe { prepare_vectors(vectors, count.max(0) as usize) };
    }
    readlink(path: *const c_char, buffer: *mut c_char, len: size_t) -> ssize_t {
        prepare(buffer.cast(), len);
    }
    getrandom(buffer: *mut c_void, len: size_t, flags: c_uint) -> ssize_t {
        prepare(buffer.cast(), len);
    }
    epoll_wait(fd: c_int, events: *mut epoll_event, most: c_int, timeout: c_int) -> c_int {
        prepare(events.cast(), size_of::<epoll_event>() * most.max(0) as usize);
    }
    epoll_pwait(
        fd: c_int, events: *mut epoll_event, most: c_int, timeout: c_int, mask: *const sigset_t
    ) -> c_int {
        prepare(events.cast(), size_of::<epoll_event>() * most.max(0) as usize);
    }
    poll(polls: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
        prepare(polls.cast(), size_of::<pollfd>() * count as usize);
    }
    ppoll(
        polls: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t
    ) -> c_int {
        prepare(polls.cast(), size_of::<pollfd>() * count as usize);
    }
    stat(path: *const c_char, out: *mut stat) -> c_int {
        prepare(out.cast(), size_of::<stat>());
    }
    lstat(path: *const c_char, out: *mut stat) -> c_int {
        prepare(out.cast(), size_of::<stat>());
    }
    fstat(fd: c_int, out: *mut stat) -> c_int {
        prepare(out.cast(), size_of::<stat>());
    }
    fstatat(fd: c_int, path: *const c_char, out: *mut stat, flags: c_int) -> c_int {
        prepare(out.cast(), size_of::<stat>());
    }
    accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
        // SAFETY: as the function asks for.
        unsafe { prepare_address(address, len) };
    }
    accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int {
        // SAFETY: as the function asks for.
        unsafe { prepare_address(address, len) };
    }
    getsockname(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
        // SAFETY: as the function asks for.
        unsafe { prepare_address(address, len) };
    }
    getpeername(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
        // SAFETY: as the function asks for.
        unsafe { prepare_address(address, len) };
    }
    getsockopt(
        fd: c_int, level: c_int, option: c_int, value: *mut c_void, len: *mut socklen_t
    ) -> c_int {
        // SAFETY: as the function asks for.
        unsafe { prepare_address(value.cast(), len) };
    }
    pipe(out: *mut c_int) -> c_int {
        prepare(out.cast(), 2 * size_of::<c_int>());
    }
    pipe2(out: *mut c_int, flags: c_int) -> c_int {
        prepare(out.cast(), 2 * size_of::<c_int>());
    }
    waitpid(child: pid_t, status: *mut c_int, options: c_int) -> pid_t {
        prepare(status.cast(), size_of::<c_int>());
    }
    getrusage(who: c_int, out: *mut rusage) -> c_int {
        prepare(out.cast(), size_of::<rusage>());
    }
}

/// The program's own handler comes after that of tracked memory, not instead of it.
fn chain(signal: c_int) {
    if signal == SIGSEGV {
        heap::outside(swing::tracked::rearm);
    }
}

/// Installs the handler; one for SIGSEGV sees only the faults that are none of the heap's.
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(
    signal: c_int,
    action: *const libc::sigaction,
    before: *mut libc::sigaction,
) -> c_int {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    type Call = unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int;
    let next = next(&NEXT, c"sigaction");
    // SAFETY: the C library's function of this name, with what its caller promised.
    let result = unsafe { std::mem::transmute::<usize, Call>(next)(signal, action, before) };
    if !action.is_null() && result == 0 && !heap::is_inside() {
        chain(signal);
    }
    result
}

/// As [`sigaction`].
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    type Call = unsafe extern "C" fn(c_int, sighandler_t) -> sighandler_t;
    let next = next(&NEXT, c"signal");
    // SAFETY: the C library's function of this name, with what its caller promised.
    let before = unsafe { std::mem::transmute::<usize, Call>(next)(signal, handler) };
    if !heap::is_inside() {
        chain(signal);
    }
    before
}

unsafe extern "C" {
    static stdin: *mut FILE;
}

/// Gives a stream its buffer now, from outside the heap: the C library fills it by calls that
/// cannot be intercepted.
fn buffer(stream: *mut FILE) -> *mut FILE {
    if !stream.is_null() {
        // SAFETY: the stream was just opened, so nothing was read from it yet.
        heap::outside(|| unsafe {
            setvbuf(stream, std::ptr::null_mut(), _IOFBF, BUFSIZ as size_t)
        });
    }
    stream
}

/// The stream of standard input exists before the heap.
pub(crate) fn own_standard_input() {
    // SAFETY: the C library initialises its streams before any constructor runs.
    buffer(unsafe { stdin });
}

macro_rules! openers {
    ($($name:ident($($arg:ident: $kind:ty),*) -> $result:ty, $after:expr;)*) => {$(
        /// Has the C library's buffer for this outside of the heap.
        ///
        /// # Safety
        /// As the function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $kind),*) -> $result {
            static NEXT: AtomicUsize = AtomicUsize::new(0);
            let name = concat!(stringify!($name), "\0");
            let name = std::ffi::CStr::from_bytes_until_nul(name.as_bytes()).unwrap_or_default();
            let next = next(&NEXT, name);
            // SAFETY: the C library's function of this name has this signature, and the caller
            // promised what it asks for.
            let opened = heap::outside(|| unsafe {
                std::mem::transmute::<usize, unsafe extern "C" fn($($kind),*) -> $result>(next)(
                    $($arg),*
                )
            });
            $after(opened)
        }
    )*};
}

openers! {
    fopen(path: *const c_char, mode: *const c_char) -> *mut FILE, buffer;
    fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE, buffer;
    fdopen(fd: c_int, mode: *const c_char) -> *mut FILE, buffer;
    popen(command: *const c_char, mode: *const c_char) -> *mut FILE, buffer;
    opendir(path: *const c_char) -> *mut DIR, std::convert::identity;
    fdopendir(fd: c_int) -> *mut DIR, std::convert::identity;
}
