//! What the crate asks of the process and the kernel: has it forked, and random numbers.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags};

/// A page that the kernel clears in a forked child. Its word counts forks: zero after one, then the
/// next number of [`NEXT`] once somebody asks.
static PAGE: OnceLock<Option<usize>> = OnceLock::new();
static NEXT: AtomicU32 = AtomicU32::new(1);

/// Identifies a process among those that forked from each other. What was opened under another
/// value belongs to the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessMark(u32);

impl ProcessMark {
    /// The mark of the running process. One load, unless the process has just forked.
    pub fn current() -> Self {
        let Some(address) = *PAGE.get_or_init(map_wiped_page) else {
            return Self::by_pid();
        };
        // SAFETY: the page was mapped readable and writable for the life of the process, is
        // aligned, and is used as an atomic word only.
        let word = unsafe { &*(address as *const AtomicU32) };
        let mark = word.load(Ordering::Acquire);
        if mark != 0 {
            return ProcessMark(mark);
        }
        let fresh = NEXT.fetch_add(1, Ordering::Relaxed);
        match word.compare_exchange(0, fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => ProcessMark(fresh),
            Err(other) => ProcessMark(other),
        }
    }

    /// Whether the process has forked since this mark was taken.
    pub fn is_stale(self) -> bool {
        self != Self::current()
    }

    fn by_pid() -> Self {
        let pid = std::process::id();
        ProcessMark(pid)
    }
}

fn map_wiped_page() -> Option<usize> {
    let len = 4096;
    // SAFETY: a fresh private mapping at an address of the kernel's choice disturbs nothing.
    let page = unsafe {
        rustix::mm::mmap_anonymous(
            std::ptr::null_mut(),
            len,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        )
    }
    .ok()?;
    // SAFETY: the advice concerns the mapping that has just been made.
    match unsafe { rustix::mm::madvise(page, len, Advice::LinuxWipeOnFork) } {
        Ok(()) => Some(page as usize),
        Err(_) => None,
    }
}

/// 64 random bits from the kernel.
pub fn random_u64() -> u64 {
    let mut bytes = [0_u8; 8];
    // SAFETY: the buffer is valid for its length.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if got == bytes.len() as isize {
        return u64::from_ne_bytes(bytes);
    }
    // Kernels without the call, or a filter that refuses it: the standard library's hasher is
    // seeded by the system as well, and counts up with each call.
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_changes_in_a_child_only() {
        let mark = ProcessMark::current();
        assert!(!mark.is_stale());
        // SAFETY: the child calls only async-signal-safe functions and exits at once.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let code = i32::from(!mark.is_stale());
            // SAFETY: ends the child without running anything of the parent's.
            unsafe { libc::_exit(code) };
        }
        let mut status = 0;
        // SAFETY: waits for the child that was just made.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0);
        assert!(!mark.is_stale());
    }

    #[test]
    fn random_numbers_differ() {
        assert_ne!(random_u64(), random_u64());
    }
}
