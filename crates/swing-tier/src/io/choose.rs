//! Which back end moves the bytes, and why: decided once for a directory.
//!
//! `open` with `O_DIRECT` succeeds on tmpfs, which then goes through memory all the same. So the
//! question goes to `statx`: only a file system that reports an alignment for direct I/O does it.
//! Whether the kernel lets this process have a ring is found by making one: a seccomp filter
//! answers `EPERM`, `kernel.io_uring_disabled` as well, an old kernel `ENOSYS` or `EINVAL`.

use std::fmt;
use std::fs::File;

use rustix::fs::{AtFlags, StatxFlags};

use crate::io::uring::Ring;
use crate::units::UNIT_BYTES;

/// What moves bytes between files and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Engine {
    /// io_uring where the file system does direct I/O and the kernel allows it, else threads.
    #[default]
    Auto,
    /// io_uring; an error where it is not allowed.
    Ring,
    /// Threads that call `pread` and `pwrite`.
    Threads,
}

/// The back end of a directory, and why it is this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// [`Engine::Ring`] or [`Engine::Threads`].
    pub engine: Engine,
    /// Whether files are opened with `O_DIRECT`, past the page cache.
    pub direct: bool,
    /// Offsets and lengths of direct I/O are multiples of so many bytes.
    pub align_bytes: u32,
    /// Why, as a sentence for a log or a report.
    pub reason: String,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let engine = if self.engine == Engine::Ring { "io_uring" } else { "pread and pwrite" };
        let cache = if self.direct { "direct I/O" } else { "through the page cache" };
        write!(f, "{engine}, {cache}: {}", self.reason)
    }
}

/// Decides for the file system that `file` lies on. The error is that of making a ring, where the
/// caller insists on one.
pub(crate) fn choose(wanted: Engine, file: &File) -> std::io::Result<Choice> {
    let (align, why_direct) = direct_io(file);
    let direct = align.is_some();
    let align_bytes = align.unwrap_or(UNIT_BYTES as u32);
    let ring = match wanted {
        Engine::Threads => None,
        // SAFETY: no buffer is registered.
        _ => Some(unsafe { Ring::new(2, None) }.map(drop)),
    };
    let (engine, why) = match (wanted, ring) {
        (Engine::Ring, Some(Err(error))) => return Err(error),
        (Engine::Ring, _) => (Engine::Ring, "io_uring was asked for".to_owned()),
        (Engine::Threads, _) => (Engine::Threads, "threads were asked for".to_owned()),
        (Engine::Auto, Some(Err(error))) => (Engine::Threads, refusal(&error)),
        (Engine::Auto, _) if direct => (Engine::Ring, "the kernel allows io_uring".to_owned()),
        (Engine::Auto, _) => (Engine::Threads, "a ring gains nothing in memory".to_owned()),
    };
    Ok(Choice { engine, direct, align_bytes, reason: format!("{why_direct}; {why}") })
}

/// The alignment of direct I/O to files like this one, if they do it at ours.
fn direct_io(file: &File) -> (Option<u32>, String) {
    // Since Linux 6.1; the bit is 0x2000.
    let asked = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    match asked {
        Ok(facts) if facts.stx_mask & StatxFlags::DIOALIGN.bits() != 0 => {
            let align = facts.stx_dio_offset_align.max(facts.stx_dio_mem_align);
            if align == 0 {
                (None, "the file system says that it does no direct I/O".to_owned())
            } else if u64::from(align) > UNIT_BYTES {
                (None, format!("direct I/O here needs an alignment of {align} bytes"))
            } else {
                (Some(align), format!("the file system does direct I/O aligned to {align} bytes"))
            }
        }
        _ => (None, "the file system reports no alignment for direct I/O".to_owned()),
    }
}

fn refusal(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => match disabled_by_sysctl() {
            Some(value) => format!("kernel.io_uring_disabled = {value} forbids io_uring"),
            None => "a seccomp filter or security module forbids io_uring".to_owned(),
        },
        Some(libc::ENOSYS) => "the kernel or a seccomp filter has no io_uring".to_owned(),
        Some(libc::EINVAL) => "the kernel's io_uring is too old (6.1 is needed)".to_owned(),
        Some(libc::EBUSY) => "the thread has too many registered rings of its own".to_owned(),
        Some(libc::ENOMEM) => "the limit on locked memory leaves no room for a ring".to_owned(),
        _ => format!("io_uring cannot be set up: {error}"),
    }
}

fn disabled_by_sysctl() -> Option<u32> {
    let text = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").ok()?;
    text.trim().parse().ok().filter(|&value| value != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tmpfs_gets_threads_whatever_open_says() {
        let Ok(file) = tempfile::tempfile_in("/dev/shm") else {
            println!("skipped: no /dev/shm here");
            return;
        };
        let choice = choose(Engine::Auto, &file).unwrap();
        assert_eq!((choice.engine, choice.direct), (Engine::Threads, false), "{choice}");
        assert!(choice.reason.contains("no alignment"), "{choice}");
    }

    #[test]
    fn says_who_forbids_a_ring() {
        for (errno, word) in [(libc::EPERM, "forbids"), (libc::ENOSYS, "seccomp")] {
            let text = refusal(&std::io::Error::from_raw_os_error(errno));
            assert!(text.contains(word), "{text}");
        }
    }
}
