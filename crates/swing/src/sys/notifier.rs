//! An eventfd: one process waits for it, together with other descriptors, and others notify it.
//!
//! Notifying is the quickest way to wake another process: it allocates nothing, and no data has to
//! be read. The counter's value tells how often it was notified, and when, if that was once. By
//! that time a notifier recognises its own notification.
//!
//! The program may close the descriptor and open another eventfd at the same number
//! ([`crate::sys::kept_file`]), and all eventfds share one inode. So ours carries a mark that no
//! eventfd of the program has: the signal that the kernel would send on input, if anybody had asked
//! for one.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::sys::kept_file::{Access, Here, KeptFile};
use crate::sys::{descriptors, process};

/// The value has a time in its low bits, and a count above.
const TIME_BITS: u32 = 48;
/// Nanoseconds of one unit of that time: less than from a notification to its being seen.
const TICK_NS: u64 = 64;

/// Ask the kernel for a file's signal, and set it. The same on every architecture.
const F_SETSIG: libc::c_int = 10;
const F_GETSIG: libc::c_int = 11;
/// The mark: one of the real-time signals, which nobody sends.
const MARK: libc::c_int = 61;

/// An eventfd with our mark.
#[derive(Debug)]
pub(crate) struct EventFd(KeptFile);

/// Identifies one notification: its timestamp, with a count of one.
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

/// What was read from an eventfd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Notified {
    /// How long the notifier has waited; zero when that is not known.
    pub waited: Duration,
    /// The stamp, if there was one notification.
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

impl EventFd {
    pub(crate) fn new() -> io::Result<Self> {
        let counter = descriptors::open(|| counter(libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))?;
        // SAFETY: changes a property of the new counter.
        if unsafe { libc::fcntl(counter.as_raw_fd(), F_SETSIG, MARK) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self(KeptFile::new(counter, Access::Write)?))
    }

    /// The counter, for one call. The mark says more than the inode, and asking for both would take
    /// longer than notifying does.
    pub(crate) fn here(&self) -> Result<Here<'_>, Errno> {
        self.0.here_if(|counter| is_marked(counter))
    }

    /// For a forked child: the eventfd belongs to its parent.
    pub(crate) fn close_in_child(&self) {
        if self.here().is_ok() {
            self.0.close_in_child();
        }
    }

    /// Checks a descriptor that another process passed: writing to anything but an eventfd could
    /// block, or kill this process.
    pub(crate) fn from_other(fd: OwnedFd) -> Option<Self> {
        let kind = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).ok()?;
        let waits = !rustix::fs::fcntl_getfl(&fd).ok()?.contains(OFlags::NONBLOCK);
        let is_one = kind.as_os_str() == "anon_inode:[eventfd]" && !waits && is_marked(&fd);
        is_one.then(|| KeptFile::new(fd, Access::Write).ok().map(Self)).flatten()
    }

    /// Wakes the waiter; `None` when that failed. A full counter has been notified before.
    pub(crate) fn notify(&self) -> Option<Stamp> {
        let stamp = Stamp::of(process::monotonic_ns());
        let notified = rustix::io::write(self.here().ok()?, &stamp.0.to_ne_bytes());
        matches!(notified, Ok(_) | Err(Errno::AGAIN)).then_some(stamp)
    }

    /// Resets the counter; `None` if it was zero. `seen_ns` is when the notification was seen.
    pub(crate) fn silence(&self, seen_ns: u64) -> Option<Notified> {
        let mut value = [0; 8];
        let got = rustix::io::read(self.here().ok()?, &mut value);
        if got != Ok(value.len()) {
            return None;
        }
        let value = u64::from_ne_bytes(value);
        let stamp = (value >> TIME_BITS == 1).then_some(Stamp(value));
        let time = value & ((1 << TIME_BITS) - 1);
        let waited = stamp.map_or(0, |_| ticks(seen_ns).saturating_sub(time));
        Some(Notified { waited: Duration::from_nanos(waited * TICK_NS), stamp })
    }
}

fn is_marked(counter: impl AsFd) -> bool {
    // SAFETY: only asks.
    unsafe { libc::fcntl(counter.as_fd().as_raw_fd(), F_GETSIG) == MARK }
}

impl Drop for EventFd {
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

    fn copy_of(eventfd: &EventFd) -> OwnedFd {
        eventfd.here().unwrap().as_fd().try_clone_to_owned().unwrap()
    }

    /// A program has put a counter of its own at the number of an eventfd.
    #[test]
    fn another_counter_is_not_notified_and_stays_open() {
        let eventfd = EventFd::new().unwrap();
        let number = eventfd.here().unwrap().as_fd().as_raw_fd();
        let other = counter(libc::EFD_CLOEXEC | libc::EFD_NONBLOCK).unwrap();
        // SAFETY: what the program does.
        assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), number) }, number);
        assert!(eventfd.notify().is_none() && eventfd.silence(0).is_none());
        drop(eventfd);
        let mut value = [0; 8];
        assert_eq!(rustix::io::read(&other, &mut value), Err(Errno::AGAIN), "not notified");
        // SAFETY: the number is this test's, and still open.
        assert_eq!(unsafe { libc::close(number) }, 0);
    }

    #[test]
    fn an_eventfd_says_when_it_was_notified_once() {
        let eventfd = EventFd::new().unwrap();
        let other = EventFd::from_other(copy_of(&eventfd)).unwrap();
        assert_eq!(eventfd.silence(process::monotonic_ns()), None, "not at all");
        let stamp = other.notify().unwrap();
        std::thread::sleep(Duration::from_millis(2));
        let notified = eventfd.silence(process::monotonic_ns()).unwrap();
        assert!(
            notified.waited >= Duration::from_millis(2) && notified.waited < Duration::from_secs(2)
        );
        assert_eq!(notified.stamp, Some(stamp));
        assert_eq!(eventfd.silence(process::monotonic_ns()), None, "silent");
        let often = Some(Notified { waited: Duration::ZERO, stamp: None });
        let stamps = [other.notify().unwrap(), other.notify().unwrap()];
        assert!(stamps[0] != stamps[1] && stamps[0] != stamp);
        assert_eq!(eventfd.silence(process::monotonic_ns()), often, "twice");
        let full = (u64::MAX - 1).to_ne_bytes();
        rustix::io::write(eventfd.here().unwrap(), &full).unwrap();
        assert!(other.notify().is_some(), "full, and so notified");
        assert_eq!(eventfd.silence(process::monotonic_ns()), often);
        let (_from, to) = std::io::pipe().unwrap();
        assert!(EventFd::from_other(to.into()).is_none(), "something else");
        let waits = counter(libc::EFD_CLOEXEC).unwrap();
        assert!(EventFd::from_other(waits).is_none(), "it would wait");
    }
}
