//! Results of fixed size: what files, processes, times and the system are.

use libc::*;
use std::ffi::c_void as any;

use crate::slot::{calls, of};

/// The longest handle of a file; more room is an error.
const MAX_HANDLE: usize = 128;

// Files and file systems.
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
    pipe(ends: *mut c_int) -> c_int { ends: both(of::<c_int>(2)) }
    pipe2(ends: *mut c_int, flags: c_int) -> c_int { ends: both(of::<c_int>(2)) }
    eventfd_read(fd: c_int, to: *mut u64) -> c_int { to: both(of::<u64>(1)) }
    mq_getattr(queue: mqd_t, to: *mut mq_attr) -> c_int { to: both(of::<mq_attr>(1)) }
    mq_setattr(queue: mqd_t, new: *const mq_attr, to: *mut mq_attr) -> c_int {
        to: both(of::<mq_attr>(1))
    }
}

// The names that programs built against an older C library call.
calls! {
    __xstat(version: c_int, path: *const c_char, to: *mut stat) -> c_int {
        to: both(of::<stat>(1))
    }
    __xstat64(version: c_int, path: *const c_char, to: *mut stat64) -> c_int {
        to: both(of::<stat64>(1))
    }
    __lxstat(version: c_int, path: *const c_char, to: *mut stat) -> c_int {
        to: both(of::<stat>(1))
    }
    __lxstat64(version: c_int, path: *const c_char, to: *mut stat64) -> c_int {
        to: both(of::<stat64>(1))
    }
    __fxstat(version: c_int, fd: c_int, to: *mut stat) -> c_int { to: both(of::<stat>(1)) }
    __fxstat64(version: c_int, fd: c_int, to: *mut stat64) -> c_int { to: both(of::<stat64>(1)) }
    __fxstatat(
        version: c_int, fd: c_int, path: *const c_char, to: *mut stat, flags: c_int
    ) -> c_int { to: both(of::<stat>(1)) }
    __fxstatat64(
        version: c_int, fd: c_int, path: *const c_char, to: *mut stat64, flags: c_int
    ) -> c_int { to: both(of::<stat64>(1)) }
}

// Processes and the system.
calls! {
    wait(status: *mut c_int) -> pid_t { status: both(of::<c_int>(1)) }
    waitpid(child: pid_t, status: *mut c_int, options: c_int) -> pid_t {
        status: both(of::<c_int>(1))
    }
    wait3(status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t {
        status: both(of::<c_int>(1)), usage: both(of::<rusage>(1))
    }
    wait4(child: pid_t, status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t {
        status: both(of::<c_int>(1)), usage: both(of::<rusage>(1))
    }
    waitid(kind: idtype_t, id: id_t, to: *mut siginfo_t, options: c_int) -> c_int {
        to: both(of::<siginfo_t>(1))
    }
    getrusage(who: c_int, to: *mut rusage) -> c_int { to: both(of::<rusage>(1)) }
    getrlimit(resource: c_uint, to: *mut rlimit) -> c_int { to: both(of::<rlimit>(1)) }
    getrlimit64(resource: c_uint, to: *mut rlimit64) -> c_int { to: both(of::<rlimit64>(1)) }
    prlimit(process: pid_t, resource: c_uint, new: *const rlimit, to: *mut rlimit) -> c_int {
        to: both(of::<rlimit>(1))
    }
    prlimit64(process: pid_t, resource: c_uint, new: *const rlimit64, to: *mut rlimit64) -> c_int {
        to: both(of::<rlimit64>(1))
    }
    getresuid(real: *mut uid_t, effective: *mut uid_t, saved: *mut uid_t) -> c_int {
        real: both(of::<uid_t>(1)), effective: both(of::<uid_t>(1)), saved: both(of::<uid_t>(1))
    }
    getresgid(real: *mut gid_t, effective: *mut gid_t, saved: *mut gid_t) -> c_int {
        real: both(of::<gid_t>(1)), effective: both(of::<gid_t>(1)), saved: both(of::<gid_t>(1))
    }
    sched_getparam(process: pid_t, to: *mut sched_param) -> c_int {
        to: both(of::<sched_param>(1))
    }
    sched_rr_get_interval(process: pid_t, to: *mut timespec) -> c_int {
        to: both(of::<timespec>(1))
    }
    sched_getaffinity(process: pid_t, len: size_t, to: *mut cpu_set_t) -> c_int { to: both(len) }
    pthread_getaffinity_np(thread: pthread_t, len: size_t, to: *mut cpu_set_t) -> c_int {
        to: both(len)
    }
    pthread_getname_np(thread: pthread_t, to: *mut c_char, len: size_t) -> c_int { to: both(len) }
    shmctl(id: c_int, command: c_int, to: *mut shmid_ds) -> c_int { to: both(of::<shmid_ds>(1)) }
    msgctl(id: c_int, command: c_int, to: *mut msqid_ds) -> c_int { to: both(of::<msqid_ds>(1)) }
    name_to_handle_at(
        dir: c_int, path: *const c_char, to: *mut c_uint, mount: *mut c_int, flags: c_int
    ) -> c_int {
        // SAFETY: the function asks for a handle that says how much room is behind its head.
        to: both(unsafe { to.as_ref() }.map_or(0, |room| 8 + (*room as usize).min(MAX_HANDLE))),
        mount: both(of::<c_int>(1))
    }
    capget(of_whom: *mut u64, to: *mut [u32; 6]) -> c_int {
        of_whom: both(of::<u64>(1)), to: both(of::<[u32; 6]>(1))
    }
    uname(to: *mut utsname) -> c_int { to: both(of::<utsname>(1)) }
    sysinfo(to: *mut sysinfo) -> c_int { to: both(of::<sysinfo>(1)) }
    times(to: *mut tms) -> clock_t { to: both(of::<tms>(1)) }
}

// Times and timers.
calls! {
    clock_gettime(clock: clockid_t, to: *mut timespec) -> c_int { to: both(of::<timespec>(1)) }
    clock_getres(clock: clockid_t, to: *mut timespec) -> c_int { to: both(of::<timespec>(1)) }
    gettimeofday(to: *mut timeval, zone: *mut any) -> c_int { to: both(of::<timeval>(1)) }
    nanosleep(time: *const timespec, rest: *mut timespec) -> c_int {
        rest: both(of::<timespec>(1))
    }
    clock_nanosleep(
        clock: clockid_t, flags: c_int, time: *const timespec, rest: *mut timespec
    ) -> c_int { rest: both(of::<timespec>(1)) }
    getitimer(which: c_int, to: *mut itimerval) -> c_int { to: both(of::<itimerval>(1)) }
    setitimer(which: c_int, new: *const itimerval, to: *mut itimerval) -> c_int {
        to: both(of::<itimerval>(1))
    }
    timer_gettime(timer: timer_t, to: *mut itimerspec) -> c_int { to: both(of::<itimerspec>(1)) }
    timer_settime(
        timer: timer_t, flags: c_int, new: *const itimerspec, to: *mut itimerspec
    ) -> c_int { to: both(of::<itimerspec>(1)) }
    timerfd_gettime(fd: c_int, to: *mut itimerspec) -> c_int { to: both(of::<itimerspec>(1)) }
    timerfd_settime(
        fd: c_int, flags: c_int, new: *const itimerspec, to: *mut itimerspec
    ) -> c_int { to: both(of::<itimerspec>(1)) }
}

// Signals that are waited for. Masks and handlers are the affair of whoever uses this library.
calls! {
    sigpending(to: *mut sigset_t) -> c_int { to: both(of::<sigset_t>(1)) }
    sigwaitinfo(set: *const sigset_t, to: *mut siginfo_t) -> c_int {
        to: both(of::<siginfo_t>(1))
    }
    sigtimedwait(set: *const sigset_t, to: *mut siginfo_t, timeout: *const timespec) -> c_int {
        to: both(of::<siginfo_t>(1))
    }
}
