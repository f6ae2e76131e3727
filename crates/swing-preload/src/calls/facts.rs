//! Results of fixed size: what files, processes, times and the system are.

use libc::*;
use std::ffi::c_void as any;
use std::sync::atomic::AtomicUsize;
use swing::tracked::prepare;

use super::{calls, faulted, in_heap, insist, next, results};

results! {
    stat(path: *const c_char, out: *mut stat; out) -> c_int;
    stat64(path: *const c_char, out: *mut stat64; out) -> c_int;
    lstat(path: *const c_char, out: *mut stat; out) -> c_int;
    lstat64(path: *const c_char, out: *mut stat64; out) -> c_int;
    fstat(fd: c_int, out: *mut stat; out) -> c_int;
    fstat64(fd: c_int, out: *mut stat64; out) -> c_int;
    fstatat(fd: c_int, path: *const c_char, out: *mut stat, flags: c_int; out) -> c_int;
    fstatat64(fd: c_int, path: *const c_char, out: *mut stat64, flags: c_int; out) -> c_int;
    statx(
        fd: c_int, path: *const c_char, flags: c_int, mask: c_uint, out: *mut statx; out
    ) -> c_int;
    statfs(path: *const c_char, out: *mut statfs; out) -> c_int;
    statfs64(path: *const c_char, out: *mut statfs64; out) -> c_int;
    fstatfs(fd: c_int, out: *mut statfs; out) -> c_int;
    fstatfs64(fd: c_int, out: *mut statfs64; out) -> c_int;
    pipe(ends: *mut [c_int; 2]; ends) -> c_int;
    pipe2(ends: *mut [c_int; 2], flags: c_int; ends) -> c_int;

    wait(status: *mut c_int; status) -> pid_t;
    waitpid(child: pid_t, status: *mut c_int, options: c_int; status) -> pid_t;
    wait3(status: *mut c_int, options: c_int, usage: *mut rusage; status, usage) -> pid_t;
    wait4(
        child: pid_t, status: *mut c_int, options: c_int, usage: *mut rusage; status, usage
    ) -> pid_t;
    waitid(kind: idtype_t, id: id_t, info: *mut siginfo_t, options: c_int; info) -> c_int;
    getrusage(who: c_int, out: *mut rusage; out) -> c_int;
    getrlimit(resource: c_uint, out: *mut rlimit; out) -> c_int;
    getrlimit64(resource: c_uint, out: *mut rlimit64; out) -> c_int;
    prlimit(
        process: pid_t, resource: c_uint, new: *const rlimit, out: *mut rlimit; out
    ) -> c_int;
    prlimit64(
        process: pid_t, resource: c_uint, new: *const rlimit64, out: *mut rlimit64; out
    ) -> c_int;
    getresuid(real: *mut uid_t, effective: *mut uid_t, saved: *mut uid_t;
        real, effective, saved) -> c_int;
    getresgid(real: *mut gid_t, effective: *mut gid_t, saved: *mut gid_t;
        real, effective, saved) -> c_int;
    sched_getparam(process: pid_t, out: *mut sched_param; out) -> c_int;
    sched_rr_get_interval(process: pid_t, out: *mut timespec; out) -> c_int;
    uname(out: *mut utsname; out) -> c_int;
    sysinfo(out: *mut sysinfo; out) -> c_int;
    times(out: *mut tms; out) -> clock_t;

    clock_gettime(clock: clockid_t, out: *mut timespec; out) -> c_int;
    clock_getres(clock: clockid_t, out: *mut timespec; out) -> c_int;
    gettimeofday(out: *mut timeval, zone: *mut any; out) -> c_int;
    nanosleep(time: *const timespec, rest: *mut timespec; rest) -> c_int;
    clock_nanosleep(
        clock: clockid_t, flags: c_int, time: *const timespec, rest: *mut timespec; rest
    ) -> c_int;
    getitimer(which: c_int, out: *mut itimerval; out) -> c_int;
    setitimer(which: c_int, new: *const itimerval, out: *mut itimerval; out) -> c_int;
    timer_gettime(timer: timer_t, out: *mut itimerspec; out) -> c_int;
    timer_settime(
        timer: timer_t, flags: c_int, new: *const itimerspec, out: *mut itimerspec; out
    ) -> c_int;
    timerfd_gettime(fd: c_int, out: *mut itimerspec; out) -> c_int;
    timerfd_settime(
        fd: c_int, flags: c_int, new: *const itimerspec, out: *mut itimerspec; out
    ) -> c_int;
}

calls! {
    getgroups(count: c_int, out: *mut gid_t) -> c_int {
        prepare(out.cast(), size_of::<gid_t>() * count.max(0) as usize);
    }
    sched_getaffinity(process: pid_t, len: size_t, out: *mut cpu_set_t) -> c_int {
        prepare(out.cast(), len);
    }
    pthread_getname_np(thread: pthread_t, out: *mut c_char, len: size_t) -> c_int {
        prepare(out.cast(), len);
    }
    shmctl(id: c_int, command: c_int, out: *mut shmid_ds) -> c_int {
        prepare(out.cast(), size_of::<shmid_ds>());
    }
    msgctl(id: c_int, command: c_int, out: *mut msqid_ds) -> c_int {
        prepare(out.cast(), size_of::<msqid_ds>());
    }
}

// The names that programs built against an older C library call.
results! {
    __xstat(version: c_int, path: *const c_char, out: *mut stat; out) -> c_int;
    __xstat64(version: c_int, path: *const c_char, out: *mut stat64; out) -> c_int;
    __lxstat(version: c_int, path: *const c_char, out: *mut stat; out) -> c_int;
    __lxstat64(version: c_int, path: *const c_char, out: *mut stat64; out) -> c_int;
    __fxstat(version: c_int, fd: c_int, out: *mut stat; out) -> c_int;
    __fxstat64(version: c_int, fd: c_int, out: *mut stat64; out) -> c_int;
    __fxstatat(
        version: c_int, fd: c_int, path: *const c_char, out: *mut stat, flags: c_int; out
    ) -> c_int;
    __fxstatat64(
        version: c_int, fd: c_int, path: *const c_char, out: *mut stat64, flags: c_int; out
    ) -> c_int;
}

/// The most that the number of an `ioctl` says about the size of its argument; so much is made
/// writable whatever it says, because older numbers say nothing, and other calls neither.
const COMMAND_BYTES: usize = 1 << 14;

macro_rules! commands {
    ($($name:ident($($arg:ident: $kind:ty),*; $($last:ident),*);)*) => {$(
        /// Makes its arguments writable, as far as they are addresses. What those point to in turn
        /// stays as it is. (The C library's takes any number of arguments, and looks at these.)
        ///
        /// # Safety
        /// As the function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $kind),*, $($last: *mut any),*) -> c_int {
            static NEXT: AtomicUsize = AtomicUsize::new(0);
            type Call = unsafe extern "C" fn($($kind),*, ...) -> c_int;
            // SAFETY: the C library's function of this name has this signature.
            let next = unsafe {
                std::mem::transmute::<usize, Call>(next(&NEXT, concat!(stringify!($name), "\0")))
            };
            insist(|| {
                $(if in_heap($last) { prepare($last.cast(), COMMAND_BYTES); })*
                // SAFETY: as the function asks for.
                unsafe { next($($arg),*, $($last),*) }
            })
        }
    )*};
}

commands! {
    ioctl(fd: c_int, request: c_ulong; argument);
    fcntl(fd: c_int, command: c_int; argument);
    fcntl64(fd: c_int, command: c_int; argument);
    prctl(option: c_int; a, b, c, d);
}

/// A system call by its number: what an argument that points into the heap points to is made
/// writable, a piece of it, when the call fails with EFAULT.
/// (The C library's takes any number of arguments, and looks at six.)
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    type Call = unsafe extern "C" fn(c_long, ...) -> c_long;
    // SAFETY: the C library's function of this name has this signature.
    let next = unsafe { std::mem::transmute::<usize, Call>(next(&NEXT, "syscall\0")) };
    // SAFETY: as the function asks for.
    let call = || unsafe { next(number, a, b, c, d, e, f) };
    let result = call();
    if result != -1 || !faulted() {
        return result;
    }
    let inside = [a, b, c, d, e, f].map(|word| word as *const u8);
    if !inside.iter().any(|at| in_heap(*at)) {
        return result;
    }
    insist(|| {
        for at in inside.iter().filter(|at| in_heap(**at)) {
            prepare(*at, COMMAND_BYTES);
        }
        call()
    })
}
