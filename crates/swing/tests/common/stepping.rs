//! Killing a process between any two of its system calls that leave a trace.
//!
//! The child asks the kernel (seccomp) to stop it before each such call, and the test (ptrace)
//! counts them. What is killed at such a stop has not made the call. Instead of killing it the test
//! can have that call fail, once. Threads and children that it makes from then on are stopped, too.
#![allow(dead_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

/// Calls that change nothing which outlives a process: dying before one of them is the same as
/// dying before the next other one.
const WITHOUT_A_TRACE: &[libc::c_long] = &[
    libc::SYS_brk,
    libc::SYS_clock_nanosleep,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_futex,
    libc::SYS_getdents64,
    libc::SYS_geteuid,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_lseek,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_newfstatat,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_sched_yield,
    libc::SYS_sigaltstack,
    libc::SYS_statfs,
    libc::SYS_statx,
];

/// Calls that no shortage makes fail, or that the standard library or the C library takes for
/// granted (a new thread that cannot register for `rseq` ends its process). Besides these anonymous
/// memory is left alone, which the allocator asks for.
const WITHOUT_A_SHORTAGE: &[libc::c_long] = &[
    libc::SYS_brk,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_geteuid,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_lseek,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_tgkill,
    libc::SYS_clock_gettime,
    libc::SYS_wait4,
    libc::SYS_write,
];

/// Calls that concern the process alone.
const OF_ITSELF: &[libc::c_long] =
    &[libc::SYS_brk, libc::SYS_futex, libc::SYS_rt_sigprocmask, libc::SYS_sched_yield];

/// A child that found `ptrace` or seccomp forbidden ends with this code.
const FORBIDDEN: i32 = 77;

/// A forked child that has come to the begin of what is to be stepped through; killed when dropped.
pub struct Stepped {
    pid: libc::pid_t,
}

/// How a stepped child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Killed before the system call of this number was made.
    Killed(u64),
    /// The call of this number has failed, and it has gone on to its end.
    Failed(u64),
    /// By itself: it makes fewer calls.
    Done,
}

fn request(what: libc::c_uint, pid: libc::pid_t, data: usize) -> libc::c_long {
    // SAFETY: these requests take numbers only.
    unsafe { libc::ptrace(what, pid, null_mut::<u8>(), data) }
}

/// From here on the calling thread is stopped before each call that leaves a trace.
fn stop_before_calls(but: &[libc::c_long]) -> bool {
    let code = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    // The number of the call is the first word of what a filter sees.
    let mut program = vec![code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0)];
    for (i, call) in but.iter().copied().enumerate() {
        let equal = code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, call as u32);
        program.push(libc::sock_filter { jt: (but.len() - i) as u8, ..equal });
    }
    program.push(code(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_TRACE));
    program.push(code(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW));
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the kernel copies the program, which is of the length it is told.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) == 0
    }
}

impl Stepped {
    /// Forks a child, which prepares something and waits there, to be stepped through the rest of
    /// its life, `act`. `None` when tracing is forbidden here.
    pub fn start<T>(prepare: impl FnOnce() -> T, act: impl FnOnce(T)) -> Option<Self> {
        Self::start_but(WITHOUT_A_TRACE, prepare, act)
    }

    /// The same for [`Stepped::fail_after`].
    pub fn start_to_fail<T>(prepare: impl FnOnce() -> T, act: impl FnOnce(T)) -> Option<Self> {
        Self::start_but(WITHOUT_A_SHORTAGE, prepare, act)
    }

    /// The same for [`Stepped::look_at_each`].
    pub fn start_to_look<T>(prepare: impl FnOnce() -> T, act: impl FnOnce(T)) -> Option<Self> {
        Self::start_but(OF_ITSELF, prepare, act)
    }

    fn start_but<T>(
        but: &[libc::c_long],
        prepare: impl FnOnce() -> T,
        act: impl FnOnce(T),
    ) -> Option<Self> {
        // SAFETY: the child runs test code that takes no lock another thread of this test could
        // hold, then leaves by _exit without running anything of the parent's.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            let life = AssertUnwindSafe(|| {
                let prepared = prepare();
                if request(libc::PTRACE_TRACEME, 0, 0) != 0 {
                    return FORBIDDEN;
                }
                // SAFETY: stops this process until the parent lets it go on.
                unsafe { libc::raise(libc::SIGSTOP) };
                if !stop_before_calls(but) {
                    return FORBIDDEN;
                }
                act(prepared);
                0
            });
            let code = catch_unwind(life).unwrap_or(101);
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(code) };
        }
        let child = Self { pid };
        let status = child.wait();
        if is_forbidden(status) {
            return None;
        }
        assert!(libc::WIFSTOPPED(status), "the child ended while it prepared: {status:#x}");
        let options = libc::PTRACE_O_TRACESECCOMP
            | libc::PTRACE_O_EXITKILL
            | libc::PTRACE_O_TRACECLONE
            | libc::PTRACE_O_TRACEFORK;
        assert_eq!(request(libc::PTRACE_SETOPTIONS, pid, options as usize), 0);
        Some(child)
    }

    fn wait(&self) -> i32 {
        let mut status = 0;
        // SAFETY: waits for a child of this process.
        assert_eq!(unsafe { libc::waitpid(self.pid, &mut status, 0) }, self.pid);
        status
    }

    /// Lets it make `calls` system calls that leave a trace, and kills it before the next one takes
    /// effect.
    pub fn kill_after(self, calls: usize) -> End {
        let mut made = 0;
        let next = self.go_on(&mut Vec::new(), |_| {
            made += 1;
            made > calls
        });
        next.map_or(End::Done, |stopped| End::Killed(stopped.call()))
    }

    /// Lets it make `calls` system calls, has the next one fail for want of memory, space or
    /// descriptors, and lets it go on to its end, which must be an orderly one. Calls of its
    /// threads and of its children count, too.
    #[cfg(target_arch = "x86_64")]
    pub fn fail_after(self, calls: usize) -> End {
        let (mut waiting, mut made) = (Vec::new(), 0);
        let next = self.go_on(&mut waiting, |stopped| {
            made += usize::from(stopped.shortage().is_some());
            made > calls
        });
        let Some(stopped) = next else { return End::Done };
        let call = stopped.call();
        stopped.fail(stopped.shortage().expect("it was asked for"));
        waiting.push((stopped.0, 0));
        assert!(self.go_on(&mut waiting, |_| false).is_none());
        End::Failed(call)
    }

    /// Lets it come to its end, and calls `look` with the numbers 0, 1, 2 ... while it is stopped
    /// before each of its calls. Returns how many these are.
    pub fn look_at_each(self, mut look: impl FnMut(usize)) -> usize {
        let mut stops = 0;
        let ended = self.go_on(&mut Vec::new(), |_| {
            look(stops);
            stops += 1;
            false
        });
        assert!(ended.is_none());
        stops
    }

    /// Lets it go on until it, one of its threads or one of its children is stopped before a call
    /// that is asked for; `None`: it has ended. `waiting`: who else is stopped, and with which
    /// signal they go on; empty at the begin.
    fn go_on(
        &self,
        waiting: &mut Vec<(libc::pid_t, i32)>,
        mut is_asked_for: impl FnMut(&Stopped) -> bool,
    ) -> Option<Stopped> {
        if waiting.is_empty() {
            waiting.push((self.pid, 0));
        }
        loop {
            for (pid, signal) in waiting.drain(..) {
                // Whoever has been killed meanwhile does not go on.
                request(libc::PTRACE_CONT, pid, signal as usize);
            }
            let mut status = 0;
            // SAFETY: waits for what this thread traces.
            let pid = unsafe { libc::waitpid(-1, &mut status, libc::__WALL | libc::__WNOTHREAD) };
            assert!(pid > 0, "{}", std::io::Error::last_os_error());
            if !libc::WIFSTOPPED(status) {
                if pid == self.pid {
                    let well = libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0;
                    assert!(well || is_forbidden(status), "it failed by itself: {status:#x}");
                    return None;
                }
                continue;
            }
            match status >> 16 {
                libc::PTRACE_EVENT_SECCOMP => {
                    if is_asked_for(&Stopped(pid)) {
                        return Some(Stopped(pid));
                    }
                    waiting.push((pid, 0));
                }
                // A thread or child begins with a stop; everything else is passed on.
                0 if libc::WSTOPSIG(status) != libc::SIGSTOP => {
                    waiting.push((pid, libc::WSTOPSIG(status)));
                }
                _ => waiting.push((pid, 0)),
            }
        }
    }
}

/// A thread that is stopped before a call.
struct Stopped(libc::pid_t);

impl Stopped {
    /// What the call fails with; `None`: it does not.
    #[cfg(target_arch = "x86_64")]
    fn shortage(&self) -> Option<i32> {
        let registers = self.registers();
        let anonymous = registers.r8 as i32 == -1;
        match registers.orig_rax as libc::c_long {
            libc::SYS_mmap if anonymous => None,
            // The guard pages of a new thread's stacks: without them the standard library ends it.
            libc::SYS_mprotect if registers.rdx == libc::PROT_NONE as u64 => None,
            libc::SYS_open
            | libc::SYS_openat
            | libc::SYS_socket
            | libc::SYS_fcntl
            | libc::SYS_dup
            | libc::SYS_memfd_create
            | libc::SYS_eventfd2 => Some(libc::EMFILE),
            libc::SYS_ftruncate
            | libc::SYS_fallocate
            | libc::SYS_pwrite64
            | libc::SYS_linkat
            | libc::SYS_renameat
            | libc::SYS_renameat2
            | libc::SYS_mkdirat
            | libc::SYS_symlinkat
            | libc::SYS_copy_file_range => Some(libc::ENOSPC),
            _ => Some(libc::ENOMEM),
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn registers(&self) -> libc::user_regs_struct {
        // SAFETY: plain numbers; the kernel stores the registers of the stopped thread.
        unsafe {
            let mut registers: libc::user_regs_struct = std::mem::zeroed();
            let none = null_mut::<u8>();
            let got = libc::ptrace(libc::PTRACE_GETREGS, self.0, none, &raw mut registers);
            assert_eq!(got, 0);
            registers
        }
    }

    /// Instead of the call that it is stopped before it gets an error.
    #[cfg(target_arch = "x86_64")]
    fn fail(&self, errno: i32) {
        let mut registers = self.registers();
        // No call has this number; then the result stays.
        (registers.orig_rax, registers.rax) = (u64::MAX, -i64::from(errno) as u64);
        let none = null_mut::<u8>();
        // SAFETY: the kernel loads the registers of the stopped thread.
        let set = unsafe { libc::ptrace(libc::PTRACE_SETREGS, self.0, none, &raw const registers) };
        assert_eq!(set, 0);
    }

    /// The call that it is stopped before.
    fn call(&self) -> u64 {
        // SAFETY: plain numbers, for which zeros are valid.
        let mut info: libc::ptrace_syscall_info = unsafe { std::mem::zeroed() };
        let size = size_of_val(&info);
        // SAFETY: the kernel writes at most `size` bytes there.
        let got =
            unsafe { libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, self.0, size, &raw mut info) };
        if got <= 0 || info.op != libc::PTRACE_SYSCALL_INFO_SECCOMP {
            // Before Linux 5.3 it cannot be asked.
            return u64::MAX;
        }
        // SAFETY: `op` says that this part of the union holds.
        unsafe { info.u.seccomp.nr }
    }
}

fn is_forbidden(status: i32) -> bool {
    let forbidden = libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == FORBIDDEN;
    if forbidden {
        println!("skipped: tracing is forbidden here");
    }
    forbidden
}

impl Drop for Stepped {
    fn drop(&mut self) {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid)).into_iter().flatten();
        let threads = threads.filter_map(|t| t.ok()?.file_name().to_str()?.parse().ok());
        let threads: Vec<libc::pid_t> = threads.collect();
        // SAFETY: a child of this process; when it has been waited for, there is none. Its traced
        // threads are waited for first: before them it does not end.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            for thread in threads.into_iter().filter(|t| *t != self.pid) {
                libc::waitpid(thread, null_mut(), libc::__WALL);
            }
            libc::waitpid(self.pid, null_mut(), 0);
        }
    }
}
