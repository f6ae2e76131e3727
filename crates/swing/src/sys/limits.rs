//! Limits that the system sets on this process.

/// A limit that the system sets on this process.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    /// Bytes that a file may reach (`ulimit -f`).
    FileLength,
    /// Descriptors (`ulimit -n`).
    Descriptors,
}

/// What the limit is now; `None`: there is none, or a sandbox does not let the process ask. (Rustix
/// takes the call for one that cannot fail.) Async-signal-safe.
pub(crate) fn limit(of: Limit) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let which = match of {
        Limit::FileLength => libc::RLIMIT_FSIZE,
        Limit::Descriptors => libc::RLIMIT_NOFILE,
    };
    // SAFETY: writes a valid structure, or nothing when it fails.
    let got = unsafe { libc::getrlimit(which, &raw mut limit) };
    (got == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From here on a call fails in this thread; `false`: filters are forbidden here.
    fn deny(call: libc::c_long) -> bool {
        let code =
            |code: u32, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf, k };
        let mut program = [
            code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
            code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, call as u32),
            code(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
            code(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let len = program.len() as u16;
        let filter = libc::sock_fprog { len, filter: program.as_mut_ptr() };
        let mode = libc::SECCOMP_MODE_FILTER;
        // SAFETY: the kernel copies the program, which is of the length it is told.
        unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const filter) == 0
        }
    }

    /// As in a service with `SystemCallFilter=~@resources`.
    #[test]
    fn a_limit_that_may_not_be_asked_for_is_none() {
        assert!(limit(Limit::Descriptors).is_some_and(|limit| limit > 2));
        let sandboxed = || deny(libc::SYS_prlimit64).then(|| limit(Limit::Descriptors));
        let limit = std::thread::spawn(sandboxed).join().unwrap();
        match limit {
            Some(limit) => assert_eq!(limit, None),
            None => println!("skipped: filters are forbidden here"),
        }
    }
}
