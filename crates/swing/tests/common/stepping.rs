//! Killing a process between any two of its system calls that leave a trace.
//!
//! The child asks the kernel (seccomp) to stop it before each such call, and the test (ptrace)
//! counts them. What is killed at such a stop has not made the call.
#![allow(dead_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

/// Calls that change nothing which outlives a process: dying before one of them is the same as
/// dying before the next other one.
const WITHOUT_A_TRACE: [libc::c_long; 26] = [
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
    /// By itself: it makes fewer calls.
    Done,
}

fn request(what: libc::c_uint, pid: libc::pid_t, data: usize) -> libc::c_long {
    // SAFETY: these requests take numbers only.
    unsafe { libc::ptrace(what, pid, null_mut::<u8>(), data) }
}

/// From here on the calling thread is stopped before each call that leaves a trace.
fn stop_before_calls() -> bool {
    let code = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    // The number of the call is the first word of what a filter sees.
    let mut program = vec![code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0)];
    for (i, call) in WITHOUT_A_TRACE.into_iter().enumerate() {
        let equal = code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, call as u32);
        program.push(libc::sock_filter { jt: (WITHOUT_A_TRACE.len() - i) as u8, ..equal });
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
                if !stop_before_calls() {
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
        let options = libc::PTRACE_O_TRACESECCOMP | libc::PTRACE_O_EXITKILL;
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
        let mut signal = 0;
        loop {
            assert_eq!(request(libc::PTRACE_CONT, self.pid, signal as usize), 0);
            let status = self.wait();
            if libc::WIFEXITED(status) {
                let well = libc::WEXITSTATUS(status) == 0 || is_forbidden(status);
                assert!(well, "the child failed by itself: {status:#x}");
                return End::Done;
            }
            assert!(libc::WIFSTOPPED(status), "{status:#x}");
            if status >> 8 != libc::SIGTRAP | libc::PTRACE_EVENT_SECCOMP << 8 {
                // Some other signal, which is passed on.
                signal = libc::WSTOPSIG(status);
                continue;
            }
            signal = 0;
            if made == calls {
                return End::Killed(self.call());
            }
            made += 1;
        }
    }

    /// The call that the child is stopped before.
    fn call(&self) -> u64 {
        // SAFETY: plain numbers, for which zeros are valid.
        let mut info: libc::ptrace_syscall_info = unsafe { std::mem::zeroed() };
        let size = size_of_val(&info);
        // SAFETY: the kernel writes at most `size` bytes there.
        let got =
            unsafe { libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, self.pid, size, &raw mut info) };
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
        // SAFETY: a child of this process; when it has been waited for, there is none.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, null_mut(), 0);
        }
    }
}
