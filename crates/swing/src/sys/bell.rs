//! A bell: what one process waits for, together with other things, and others ring.
//!
//! An event counter of the kernel. Ringing it wakes another process as quickly as can be: nothing
//! is allocated, and nothing has to be read. Its value says how often it was rung, and when, if
//! that was once.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::{descriptors, process};

/// Of the value: microseconds below, how often above.
const TIME_BITS: u32 = 40;

/// What was rung.
#[derive(Debug)]
pub(crate) struct Bell(OwnedFd);

/// Microseconds of the clock that all processes share, as far as they fit.
fn now() -> u64 {
    (process::monotonic_ns() / 1000) & ((1 << TIME_BITS) - 1)
}

fn counter(flags: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: makes a descriptor that nobody else knows, and which its owner closes.
    unsafe {
        match libc::eventfd(0, flags) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    }
}

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        descriptors::open(|| counter(libc::EFD_CLOEXEC | libc::EFD_NONBLOCK)).map(Self)
    }

    /// What another process has passed on, if it is one: to write into anything else could wait, or
    /// end the process.
    pub(crate) fn from_other(fd: OwnedFd) -> Option<Self> {
        let kind = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).ok()?;
        let waits = !rustix::fs::fcntl_getfl(&fd).ok()?.contains(OFlags::NONBLOCK);
        (kind.as_os_str() == "anon_inode:[eventfd]" && !waits).then_some(Self(fd))
    }

    /// `false` when it cannot be rung. A counter that is full has been.
    pub(crate) fn ring(&self) -> bool {
        let value = 1 << TIME_BITS | now();
        matches!(rustix::io::write(&self.0, &value.to_ne_bytes()), Ok(_) | Err(Errno::AGAIN))
    }

    /// Makes it silent. `None`: it was so. Otherwise how long before another time, in nanoseconds,
    /// it was rung; zero when that is not known, because it was more than once.
    pub(crate) fn silence(&self, seen_ns: u64) -> Option<Duration> {
        let mut value = [0; 8];
        let got = rustix::io::read(&self.0, &mut value);
        if got != Ok(value.len()) {
            return None;
        }
        let value = u64::from_ne_bytes(value);
        let time = value & ((1 << TIME_BITS) - 1);
        let seen = (seen_ns / 1000) & ((1 << TIME_BITS) - 1);
        let waited = if value >> TIME_BITS == 1 { seen.saturating_sub(time) } else { 0 };
        Some(Duration::from_micros(waited))
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bell_says_when_it_was_rung_once() {
        let bell = Bell::new().unwrap();
        let other = Bell::from_other(bell.0.try_clone().unwrap()).unwrap();
        assert_eq!(bell.silence(process::monotonic_ns()), None, "not at all");
        assert!(other.ring());
        std::thread::sleep(Duration::from_millis(2));
        let waited = bell.silence(process::monotonic_ns()).unwrap();
        assert!(waited >= Duration::from_millis(2) && waited < Duration::from_secs(2));
        assert_eq!(bell.silence(process::monotonic_ns()), None, "silent");
        assert!(other.ring() && other.ring());
        assert_eq!(bell.silence(process::monotonic_ns()), Some(Duration::ZERO), "twice");
        let full = (u64::MAX - 1).to_ne_bytes();
        rustix::io::write(&bell, &full).unwrap();
        assert!(other.ring(), "full, and so rung");
        assert_eq!(bell.silence(process::monotonic_ns()), Some(Duration::ZERO));
        let (_from, to) = std::io::pipe().unwrap();
        assert!(Bell::from_other(to.into()).is_none(), "something else");
        let waits = counter(libc::EFD_CLOEXEC).unwrap();
        assert!(Bell::from_other(waits).is_none(), "it would wait");
    }
}
