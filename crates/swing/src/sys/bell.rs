//! A bell: what one process waits for, together with other things, and others ring.
//!
//! An event counter of the kernel. Ringing it wakes another process as quickly as can be: nothing
//! is allocated, and nothing has to be read. Its value says how often it was rung, and when, if
//! that was once: by that time whoever rang finds out whether it was this ring that was heard.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::{descriptors, process};

/// Of the value: a time below, how often above.
const TIME_BITS: u32 = 48;
/// Nanoseconds of that time: less than it takes to ring and be heard.
const TICK_NS: u64 = 64;

/// What was rung.
#[derive(Debug)]
pub(crate) struct Bell(OwnedFd);

/// What one who has rung knows that ring by: the value that it has left, when, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp(u64);

impl Stamp {
    /// Of the clock that all processes share.
    pub(crate) fn of(time_ns: u64) -> Self {
        Self(1 << TIME_BITS | ticks(time_ns))
    }

    /// Never all zeros.
    pub(crate) fn bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }
}

/// What a bell has heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rung {
    /// For so long whoever rang has waited; zero when that is not known.
    pub waited: Duration,
    /// Of the only one who rang.
    pub stamp: Option<Stamp>,
}

fn ticks(time_ns: u64) -> u64 {
    (time_ns / TICK_NS) & ((1 << TIME_BITS) - 1)
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

    /// `None` when it cannot be rung. A counter that is full has been.
    pub(crate) fn ring(&self) -> Option<Stamp> {
        let stamp = Stamp::of(process::monotonic_ns());
        let rung = rustix::io::write(&self.0, &stamp.0.to_ne_bytes());
        matches!(rung, Ok(_) | Err(Errno::AGAIN)).then_some(stamp)
    }

    /// Makes it silent. `None`: it was so. `seen_ns` is when it was heard.
    pub(crate) fn silence(&self, seen_ns: u64) -> Option<Rung> {
        let mut value = [0; 8];
        let got = rustix::io::read(&self.0, &mut value);
        if got != Ok(value.len()) {
            return None;
        }
        let value = u64::from_ne_bytes(value);
        let stamp = (value >> TIME_BITS == 1).then_some(Stamp(value));
        let time = value & ((1 << TIME_BITS) - 1);
        let waited = stamp.map_or(0, |_| ticks(seen_ns).saturating_sub(time));
        Some(Rung { waited: Duration::from_nanos(waited * TICK_NS), stamp })
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
        let stamp = other.ring().unwrap();
        std::thread::sleep(Duration::from_millis(2));
        let rung = bell.silence(process::monotonic_ns()).unwrap();
        assert!(rung.waited >= Duration::from_millis(2) && rung.waited < Duration::from_secs(2));
        assert_eq!(rung.stamp, Some(stamp));
        assert_eq!(bell.silence(process::monotonic_ns()), None, "silent");
        let often = Some(Rung { waited: Duration::ZERO, stamp: None });
        let stamps = [other.ring().unwrap(), other.ring().unwrap()];
        assert!(stamps[0] != stamps[1] && stamps[0] != stamp);
        assert_eq!(bell.silence(process::monotonic_ns()), often, "twice");
        let full = (u64::MAX - 1).to_ne_bytes();
        rustix::io::write(&bell, &full).unwrap();
        assert!(other.ring().is_some(), "full, and so rung");
        assert_eq!(bell.silence(process::monotonic_ns()), often);
        let (_from, to) = std::io::pipe().unwrap();
        assert!(Bell::from_other(to.into()).is_none(), "something else");
        let waits = counter(libc::EFD_CLOEXEC).unwrap();
        assert!(Bell::from_other(waits).is_none(), "it would wait");
    }
}
