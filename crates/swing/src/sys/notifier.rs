//! A bell: what one process waits for, together with other things, and others ring.
//!
//! An event counter of the kernel. Ringing it wakes another process as quickly as can be: nothing
//! is allocated, and nothing has to be read. Its value says how often it was rung, and when, if
//! that was once: by that time whoever rang finds out whether it was this ring that was heard.
//!
//! The program may close the counter, and have another one at its number
//! ([`crate::sys::kept_file`]), and all event counters are one inode. So a bell has a mark, which
//! no counter of the program has: the signal that would tell of input, if anybody had asked for
//! one.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::sys::kept_file::{Access, Here, KeptFile};
use crate::sys::{descriptors, process};

/// Of the value: a time below, how often above.
const TIME_BITS: u32 = 48;
/// Nanoseconds of that time: less than it takes to ring and be heard.
const TICK_NS: u64 = 64;

/// Ask the kernel for a file's signal, and set it. The same on every architecture.
const F_SETSIG: libc::c_int = 10;
const F_GETSIG: libc::c_int = 11;
/// The mark of a bell: one of the signals for programs, which nobody sends.
const MARK: libc::c_int = 61;

/// What was rung.
#[derive(Debug)]
pub(crate) struct Bell(KeptFile);

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
        let counter = descriptors::open(|| counter(libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))?;
        // SAFETY: changes a property of the new counter.
        if unsafe { libc::fcntl(counter.as_raw_fd(), F_SETSIG, MARK) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self(KeptFile::new(counter, Access::Write)?))
    }

    /// The counter, for one call.
    pub(crate) fn here(&self) -> Result<Here<'_>, Errno> {
        self.0.here().and_then(|here| if is_marked(here) { Ok(here) } else { Err(Errno::BADF) })
    }

    /// In a forked child: the bell is its parent's.
    pub(crate) fn close_in_child(&self) {
        if self.here().is_ok() {
            self.0.close_in_child();
        }
    }

    /// What another process has passed on, if it is one: to write into anything else could wait, or
    /// end the process.
    pub(crate) fn from_other(fd: OwnedFd) -> Option<Self> {
        let kind = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).ok()?;
        let waits = !rustix::fs::fcntl_getfl(&fd).ok()?.contains(OFlags::NONBLOCK);
        let is_one = kind.as_os_str() == "anon_inode:[eventfd]" && !waits && is_marked(&fd);
        is_one.then(|| KeptFile::new(fd, Access::Write).ok().map(Self)).flatten()
    }

    /// `None` when it cannot be rung. A counter that is full has been.
    pub(crate) fn ring(&self) -> Option<Stamp> {
        let stamp = Stamp::of(process::monotonic_ns());
        let rung = rustix::io::write(self.here().ok()?, &stamp.0.to_ne_bytes());
        matches!(rung, Ok(_) | Err(Errno::AGAIN)).then_some(stamp)
    }

    /// Makes it silent. `None`: it was so. `seen_ns` is when it was heard.
    pub(crate) fn silence(&self, seen_ns: u64) -> Option<Rung> {
        let mut value = [0; 8];
        let got = rustix::io::read(self.here().ok()?, &mut value);
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

fn is_marked(counter: impl AsFd) -> bool {
    // SAFETY: only asks.
    unsafe { libc::fcntl(counter.as_fd().as_raw_fd(), F_GETSIG) == MARK }
}

impl Drop for Bell {
    fn drop(&mut self) {
        // Another counter at its number is the program's to close.
        if self.here().is_err() {
            self.0.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy_of(bell: &Bell) -> OwnedFd {
        bell.here().unwrap().as_fd().try_clone_to_owned().unwrap()
    }

    /// A program has put a counter of its own at the number of a bell.
    #[test]
    fn another_counter_is_not_rung_and_stays_open() {
        let bell = Bell::new().unwrap();
        let number = bell.here().unwrap().as_fd().as_raw_fd();
        let other = counter(libc::EFD_CLOEXEC | libc::EFD_NONBLOCK).unwrap();
        // SAFETY: what the program does.
        assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), number) }, number);
        assert!(bell.ring().is_none() && bell.silence(0).is_none());
        drop(bell);
        let mut value = [0; 8];
        assert_eq!(rustix::io::read(&other, &mut value), Err(Errno::AGAIN), "not rung");
        // SAFETY: the number is this test's, and still open.
        assert_eq!(unsafe { libc::close(number) }, 0);
    }

    #[test]
    fn a_bell_says_when_it_was_rung_once() {
        let bell = Bell::new().unwrap();
        let other = Bell::from_other(copy_of(&bell)).unwrap();
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
        rustix::io::write(bell.here().unwrap(), &full).unwrap();
        assert!(other.ring().is_some(), "full, and so rung");
        assert_eq!(bell.silence(process::monotonic_ns()), often);
        let (_from, to) = std::io::pipe().unwrap();
        assert!(Bell::from_other(to.into()).is_none(), "something else");
        let waits = counter(libc::EFD_CLOEXEC).unwrap();
        assert!(Bell::from_other(waits).is_none(), "it would wait");
    }
}
