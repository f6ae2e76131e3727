//! Refusals in a forked child: system calls that a filter forbids, limits, another user.

/// Runs `check` in a forked child, which has to return true.
pub fn in_child(check: impl FnOnce() -> bool) {
    // SAFETY: the child works with what it inherited, and ends by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let passed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check));
        // SAFETY: ends the child without running what belongs to the parent.
        unsafe { libc::_exit(i32::from(!passed.unwrap_or(false))) };
    }
    let mut status = 0;
    // SAFETY: waits for the child that was just made.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "status {status}");
}

/// Lets these system calls fail in all threads of this process, as containers and sandboxes do.
/// False: there are no filters here.
pub fn forbid(calls: &[i64], errno: i32) -> bool {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let line = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut filter = vec![line(LOAD, 0, 0, 0)];
    for &call in calls {
        filter.push(line(IF_EQUAL, 0, 1, call as u32));
        filter.push(line(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32));
    }
    filter.push(line(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW));
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    let (set, all_threads) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_TSYNC);
    // SAFETY: the filter is valid during the calls; they concern this process only.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::syscall(libc::SYS_seccomp, set, all_threads, &raw const program) == 0
    }
}

/// Sets a limit of this process.
pub fn limit(which: libc::__rlimit_resource_t, to: u64) {
    let limit = libc::rlimit { rlim_cur: to, rlim_max: to };
    // SAFETY: a valid structure; it concerns this process only.
    assert_eq!(unsafe { libc::setrlimit(which, &raw const limit) }, 0);
}

/// Gives up what root may do beyond limits: it stays the owner of its files.
pub fn give_up_privileges() {
    let header = [0x2008_0522_u32, 0]; // Version 3 of the interface, of this thread.
    let none = [0_u32; 6];
    // SAFETY: both structures are as capset(2) has them; it concerns this thread only.
    assert_eq!(unsafe { libc::syscall(libc::SYS_capset, &raw const header, &raw const none) }, 0);
}

/// Becomes a user without rights.
pub fn become_nobody() {
    // SAFETY: changes this process's own user only.
    assert_eq!(unsafe { libc::setresuid(65534, 65534, 65534) }, 0);
}
