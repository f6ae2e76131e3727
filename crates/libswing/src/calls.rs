//! Functions of the C library whose buffers the kernel stores into. Each is the C library's, called
//! with other memory in place of the buffers that lie in areas.
//!
//! What is not here is listed in `docs/limits.md`.

use libc::*;

use crate::bounce::{Slot, Use, again, readable_len};
use crate::next::Next;

/// Defines functions: after the signature, the buffers. `filled`: it returns how many bytes it has
/// stored there; `both`: it reads and stores, up to all of it; `exposed`: nobody knows.
macro_rules! calls {
    ($($name:ident($($arg:ident: $kind:ty),*) -> $result:ty {
        $($buffer:ident: $how:ident($len:expr)),*
    })*) => {$(
        /// The C library's function of this name; its buffers may lie in areas.
        ///
        /// # Safety
        /// As the function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($arg: $kind),*) -> $result {
            static NEXT: Next = Next::new(name!($name));
            type Call = unsafe extern "C-unwind" fn($($kind),*) -> $result;
            // SAFETY: the C library's function of this name has this signature.
            let call = unsafe { std::mem::transmute::<usize, Call>(NEXT.get()) };
            let mut slots = [$(Slot::new($buffer.cast(), $len, calls!(@use $how))),*];
            let [$($buffer),*] = &mut slots;
            $(let $buffer = $buffer.at().cast();)*
            let mut tries = 0;
            let result = loop {
                slots.iter().for_each(Slot::prepare);
                // SAFETY: the caller promised what the function asks for; a replaced buffer is as
                // long as the program's.
                let result = unsafe { call($($arg),*) };
                if !again(i64::from(result as i32), &slots, &mut tries) {
                    break result;
                }
            };
            slots.iter_mut().for_each(|slot| slot.settle(result as i64));
            result
        }
    )*};
    (@use filled) => { Use::Filled };
    (@use both) => { Use::Both };
    (@use exposed) => { Use::Exposed };
}

/// A name as a C string.
macro_rules! name {
    ($name:ident) => {
        match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => panic!("a name has no zero byte"),
        }
    };
}
pub(crate) use name;

/// What a length is that the caller passes by a pointer.
///
/// # Safety
/// `len` is null or may be read.
unsafe fn told(len: *const socklen_t) -> usize {
    // SAFETY: the caller's promise.
    unsafe { len.as_ref() }.map_or(0, |len| *len as usize)
}

/// Bytes of so many `T`.
fn of<T>(count: usize) -> usize {
    count.saturating_mul(size_of::<T>())
}

const LEN: usize = size_of::<socklen_t>();
const OFFSET: usize = size_of::<off64_t>();
/// What the greatest argument of an `ioctl` is taken to have.
const IOCTL: usize = 4096;

// Files and streams of bytes.
calls! {
    __read_chk(fd: c_int, to: *mut c_void, len: size_t, room: size_t) -> ssize_t {
        to: filled(len)
    }
    pread(fd: c_int, to: *mut c_void, len: size_t, at: off_t) -> ssize_t { to: filled(len) }
    pread64(fd: c_int, to: *mut c_void, len: size_t, at: off64_t) -> ssize_t { to: filled(len) }
    __pread_chk(fd: c_int, to: *mut c_void, len: size_t, at: off_t, room: size_t) -> ssize_t {
        to: filled(len)
    }
    __pread64_chk(fd: c_int, to: *mut c_void, len: size_t, at: off64_t, room: size_t) -> ssize_t {
        to: filled(len)
    }
    readlink(path: *const c_char, to: *mut c_char, len: size_t) -> ssize_t { to: filled(len) }
    __readlink_chk(path: *const c_char, to: *mut c_char, len: size_t, room: size_t) -> ssize_t {
        to: filled(len)
    }
    readlinkat(dir: c_int, path: *const c_char, to: *mut c_char, len: size_t) -> ssize_t {
        to: filled(len)
    }
    __readlinkat_chk(
        dir: c_int, path: *const c_char, to: *mut c_char, len: size_t, room: size_t
    ) -> ssize_t { to: filled(len) }
    getdents64(fd: c_int, to: *mut c_void, len: size_t) -> ssize_t { to: filled(len) }
    getxattr(path: *const c_char, name: *const c_char, to: *mut c_void, len: size_t) -> ssize_t {
        to: filled(len)
    }
    lgetxattr(path: *const c_char, name: *const c_char, to: *mut c_void, len: size_t) -> ssize_t {
        to: filled(len)
    }
    fgetxattr(fd: c_int, name: *const c_char, to: *mut c_void, len: size_t) -> ssize_t {
        to: filled(len)
    }
    listxattr(path: *const c_char, to: *mut c_char, len: size_t) -> ssize_t { to: filled(len) }
    getrandom(to: *mut c_void, len: size_t, flags: c_uint) -> ssize_t { to: filled(len) }
    getentropy(to: *mut c_void, len: size_t) -> c_int { to: both(len) }
    sendfile(to: c_int, from: c_int, at: *mut off_t, len: size_t) -> ssize_t { at: both(OFFSET) }
    sendfile64(to: c_int, from: c_int, at: *mut off64_t, len: size_t) -> ssize_t {
        at: both(OFFSET)
    }
    copy_file_range(
        from: c_int, from_at: *mut off64_t, to: c_int, to_at: *mut off64_t, len: size_t,
        flags: c_uint
    ) -> ssize_t { from_at: both(OFFSET), to_at: both(OFFSET) }
    splice(
        from: c_int, from_at: *mut off64_t, to: c_int, to_at: *mut off64_t, len: size_t,
        flags: c_uint
    ) -> ssize_t { from_at: both(OFFSET), to_at: both(OFFSET) }
    pipe(ends: *mut c_int) -> c_int { ends: both(of::<c_int>(2)) }
    pipe2(ends: *mut c_int, flags: c_int) -> c_int { ends: both(of::<c_int>(2)) }
    ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
        argument: exposed(IOCTL)
    }
}

// Facts about files and file systems.
calls! {
    stat(path: *const c_char, to: *mut stat) -> c_int { to: both(of::<stat>(1)) }
    stat64(path: *const c_char, to: *mut stat64) -> c_int { to: both(of::<stat64>(1)) }
    lstat(path: *const c_char, to: *mut stat) -> c_int { to: both(of::<stat>(1)) }
    lstat64(path: *const c_char, to: *mut stat64) -> c_int { to: both(of::<stat64>(1)) }
    fstat(fd: c_int, to: *mut stat) -> c_int { to: both(of::<stat>(1)) }
    fstat64(fd: c_int, to: *mut stat64) -> c_int { to: both(of::<stat64>(1)) }
    fstatat(dir: c_int, path: *const c_char, to: *mut stat, flags: c_int) -> c_int {
        to: both(of::<stat>(1))
    }
    fstatat64(dir: c_int, path: *const c_char, to: *mut stat64, flags: c_int) -> c_int {
        to: both(of::<stat64>(1))
    }
    statx(
        dir: c_int, path: *const c_char, flags: c_int, mask: c_uint, to: *mut statx
    ) -> c_int { to: both(of::<statx>(1)) }
    statfs(path: *const c_char, to: *mut statfs) -> c_int { to: both(of::<statfs>(1)) }
    statfs64(path: *const c_char, to: *mut statfs64) -> c_int { to: both(of::<statfs64>(1)) }
    fstatfs(fd: c_int, to: *mut statfs) -> c_int { to: both(of::<statfs>(1)) }
    fstatfs64(fd: c_int, to: *mut statfs64) -> c_int { to: both(of::<statfs64>(1)) }
}

// Sockets and messages.
calls! {
    recv(fd: c_int, to: *mut c_void, len: size_t, flags: c_int) -> ssize_t { to: filled(len) }
    __recv_chk(fd: c_int, to: *mut c_void, len: size_t, room: size_t, flags: c_int) -> ssize_t {
        to: filled(len)
    }
    recvfrom(
        fd: c_int, to: *mut c_void, len: size_t, flags: c_int, from: *mut sockaddr,
        from_len: *mut socklen_t
    ) -> ssize_t {
        to: filled(len), from_len: both(LEN),
        // SAFETY: the function asks for a readable length.
        from: both(unsafe { told(from_len) })
    }
    __recvfrom_chk(
        fd: c_int, to: *mut c_void, len: size_t, room: size_t, flags: c_int, from: *mut sockaddr,
        from_len: *mut socklen_t
    ) -> ssize_t {
        to: filled(len), from_len: both(LEN),
        // SAFETY: the function asks for a readable length.
        from: both(unsafe { told(from_len) })
    }
    accept(fd: c_int, from: *mut sockaddr, len: *mut socklen_t) -> c_int {
        // SAFETY: as above.
        from: both(unsafe { told(len) }), len: both(LEN)
    }
    accept4(fd: c_int, from: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int {
        // SAFETY: as above.
        from: both(unsafe { told(len) }), len: both(LEN)
    }
    getsockname(fd: c_int, to: *mut sockaddr, len: *mut socklen_t) -> c_int {
        // SAFETY: as above.
        to: both(unsafe { told(len) }), len: both(LEN)
    }
    getpeername(fd: c_int, to: *mut sockaddr, len: *mut socklen_t) -> c_int {
        // SAFETY: as above.
        to: both(unsafe { told(len) }), len: both(LEN)
    }
    getsockopt(
        fd: c_int, level: c_int, option: c_int, to: *mut c_void, len: *mut socklen_t
    ) -> c_int {
        // SAFETY: as above.
        to: both(unsafe { told(len) }), len: both(LEN)
    }
    socketpair(domain: c_int, kind: c_int, protocol: c_int, ends: *mut c_int) -> c_int {
        ends: both(of::<c_int>(2))
    }
    msgrcv(queue: c_int, to: *mut c_void, len: size_t, kind: c_long, flags: c_int) -> ssize_t {
        to: both(len.saturating_add(size_of::<c_long>()))
    }
    mq_receive(
        queue: mqd_t, to: *mut c_char, len: size_t, priority: *mut c_uint
    ) -> ssize_t { to: filled(len), priority: both(of::<c_uint>(1)) }
    mq_timedreceive(
        queue: mqd_t, to: *mut c_char, len: size_t, priority: *mut c_uint, until: *const timespec
    ) -> ssize_t { to: filled(len), priority: both(of::<c_uint>(1)) }
}

// Waiting.
calls! {
    poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
        fds: both(of::<pollfd>(count as usize))
    }
    __poll_chk(fds: *mut pollfd, count: nfds_t, timeout: c_int, room: size_t) -> c_int {
        fds: both(of::<pollfd>(count as usize))
    }
    ppoll(
        fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t
    ) -> c_int { fds: both(of::<pollfd>(count as usize)) }
    __ppoll_chk(
        fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t,
        room: size_t
    ) -> c_int { fds: both(of::<pollfd>(count as usize)) }
    select(
        count: c_int, read: *mut fd_set, write: *mut fd_set, other: *mut fd_set,
        timeout: *mut timeval
    ) -> c_int {
        read: both(of::<fd_set>(1)), write: both(of::<fd_set>(1)), other: both(of::<fd_set>(1)),
        timeout: both(of::<timeval>(1))
    }
    pselect(
        count: c_int, read: *mut fd_set, write: *mut fd_set, other: *mut fd_set,
        timeout: *const timespec, mask: *const sigset_t
    ) -> c_int {
        read: both(of::<fd_set>(1)), write: both(of::<fd_set>(1)), other: both(of::<fd_set>(1))
    }
    epoll_wait(fd: c_int, to: *mut epoll_event, most: c_int, timeout: c_int) -> c_int {
        to: both(of::<epoll_event>(most.max(0) as usize))
    }
    epoll_pwait(
        fd: c_int, to: *mut epoll_event, most: c_int, timeout: c_int, mask: *const sigset_t
    ) -> c_int { to: both(of::<epoll_event>(most.max(0) as usize)) }
    wait(status: *mut c_int) -> pid_t { status: both(of::<c_int>(1)) }
    waitpid(pid: pid_t, status: *mut c_int, options: c_int) -> pid_t {
        status: both(of::<c_int>(1))
    }
    wait3(status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t {
        status: both(of::<c_int>(1)), usage: both(of::<rusage>(1))
    }
    wait4(pid: pid_t, status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t {
        status: both(of::<c_int>(1)), usage: both(of::<rusage>(1))
    }
    waitid(kind: idtype_t, id: id_t, to: *mut siginfo_t, options: c_int) -> c_int {
        to: both(of::<siginfo_t>(1))
    }
}

// Facts about the process and the system.
calls! {
    getrusage(who: c_int, to: *mut rusage) -> c_int { to: both(of::<rusage>(1)) }
    getrlimit(what: c_int, to: *mut rlimit) -> c_int { to: both(of::<rlimit>(1)) }
    getrlimit64(what: c_int, to: *mut rlimit64) -> c_int { to: both(of::<rlimit64>(1)) }
    getitimer(which: c_int, to: *mut itimerval) -> c_int { to: both(of::<itimerval>(1)) }
    timerfd_gettime(fd: c_int, to: *mut itimerspec) -> c_int { to: both(of::<itimerspec>(1)) }
    clock_gettime(clock: clockid_t, to: *mut timespec) -> c_int { to: both(of::<timespec>(1)) }
    sigprocmask(how: c_int, set: *const sigset_t, before: *mut sigset_t) -> c_int {
        before: both(of::<sigset_t>(1))
    }
    sigpending(to: *mut sigset_t) -> c_int { to: both(of::<sigset_t>(1)) }
    uname(to: *mut utsname) -> c_int { to: both(of::<utsname>(1)) }
    sysinfo(to: *mut sysinfo) -> c_int { to: both(of::<sysinfo>(1)) }
    times(to: *mut tms) -> clock_t { to: both(of::<tms>(1)) }
    sched_getaffinity(pid: pid_t, len: size_t, to: *mut cpu_set_t) -> c_int { to: both(len) }
}

/// The C library's `read`; its buffer may lie in an area.
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn read(fd: c_int, to: *mut c_void, len: size_t) -> ssize_t {
    static NEXT: Next = Next::new(c"read");
    type Call = unsafe extern "C-unwind" fn(c_int, *mut c_void, size_t) -> ssize_t;
    // SAFETY: the C library's function of this name has this signature.
    let call = unsafe { std::mem::transmute::<usize, Call>(NEXT.get()) };
    let len = readable_len(fd, to, len);
    let mut slot = [Slot::new(to, len, Use::Filled)];
    let mut tries = 0;
    loop {
        slot[0].prepare();
        // SAFETY: the caller promised what the function asks for; a replaced buffer is as long.
        let result = unsafe { call(fd, slot[0].at().cast(), len) };
        if !again(result as i64, &slot, &mut tries) {
            slot[0].settle(result as i64);
            return result;
        }
    }
}
