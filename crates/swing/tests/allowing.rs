//! Live hooks that cannot be allowed: the area is as before. In forked children, whose limits are
//! their own.

#[macro_use]
mod common;

use common::*;
use swing::{HookError, Publish};

/// The exit code of a forked child.
fn run(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child runs test code only and leaves by _exit.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(101);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: waits for the child made above.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 200 }
}

fn address_space() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').next().unwrap().parse::<u64>().unwrap() * 4096
}

/// No thread can be started as long as this is the limit.
fn limit_addresses(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: a valid structure, in a process of its own.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
}

fn hook(h: &Home) -> Result<swing::Snapshot, HookError> {
    h.ns.hook(&name("a"))
}

fn is_as_before(h: &Home, allowed: bool) {
    match hook(h) {
        Ok(_) => assert!(allowed, "nobody has allowed hooks"),
        Err(e) => assert!(!allowed, "{e}"),
    }
}

/// Without a thread for the answers, or an address to ask at.
fn what_fails_allows_nothing() {
    for allowed in [false, true] {
        let code = run(|| {
            let h = home();
            let area = h.ns.create(&name("a"), &options()).unwrap();
            area.track().unwrap();
            store(&area, data_at(1), 5);
            area.publish(Publish::Shared, b"").unwrap();
            if !allowed {
                area.allow_live_hooks(false).unwrap();
            }
            limit_addresses(address_space() + (1 << 20));
            let started = area.allow_live_hooks(true);
            limit_addresses(libc::RLIM_INFINITY);
            started.unwrap_err();
            is_as_before(&h, allowed);
            let socket = h.ns.path().join("a/live");
            std::fs::create_dir(&socket).unwrap();
            area.allow_live_hooks(true).unwrap_err();
            is_as_before(&h, allowed);
            std::fs::remove_dir(&socket).unwrap();
            area.allow_live_hooks(true).unwrap();
            assert_eq!(value_in(&hook_now(&h, "a"), data_at(1)), 5);
            0
        });
        assert_eq!(code, 0, "allowed: {allowed}");
    }
}

over_both_back_ends! {
    what_fails_allows_nothing,
}
