//! Pipes: waiting for them with a limit, and pages that a pipe shows instead of a copy.
//!
//! [`lend`] puts pages of this process into a pipe as they are. Whoever reads the pipe later reads
//! these pages, so nobody may change them until then: pages of a published state never change as
//! long as somebody has leased it. [`unread`] tells when a reader that copies has read them. It
//! does not tell what became of pages that a reader has moved on, into another pipe or a socket,
//! by `splice` or `tee`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

/// Waits until there is something to read, or the end, at most `limit_ms`: whether there is.
pub fn wait_readable(file: BorrowedFd<'_>, limit_ms: i32) -> io::Result<bool> {
    Ok(poll(file, libc::POLLIN, limit_ms)? != 0)
}

/// Waits until there is room for more, at most `limit_ms`: whether there is. An error of the kind
/// [`io::ErrorKind::BrokenPipe`] when nobody can read any more.
pub fn wait_writable(file: BorrowedFd<'_>, limit_ms: i32) -> io::Result<bool> {
    let found = poll(file, libc::POLLOUT, limit_ms)?;
    if found & (libc::POLLERR | libc::POLLNVAL) != 0 {
        return Err(Errno::PIPE.into());
    }
    Ok(found & libc::POLLOUT != 0)
}

fn poll(file: BorrowedFd<'_>, events: i16, limit_ms: i32) -> io::Result<i16> {
    let mut one = libc::pollfd { fd: file.as_raw_fd(), events, revents: 0 };
    // SAFETY: one valid pollfd; the call writes only its `revents`.
    match unsafe { libc::poll(&mut one, 1, limit_ms) } {
        0 => Ok(0),
        1 => Ok(one.revents),
        _ => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            error => Err(error),
        },
    }
}

/// Puts the pages of `bytes` into a pipe, as many as there is room for: the number of bytes. An
/// error of the kind [`io::ErrorKind::WouldBlock`] when the pipe is full.
pub fn lend(pipe: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    loop {
        // SAFETY: the call reads `part` and the bytes that it describes. It keeps the pages, not
        // the addresses, so they may be unmapped at any time.
        let lent = unsafe { libc::vmsplice(pipe.as_raw_fd(), &part, 1, libc::SPLICE_F_NONBLOCK) };
        if let Ok(lent) = usize::try_from(lent) {
            return Ok(lent);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Bytes in the pipe that nobody has read yet.
pub fn unread(pipe: BorrowedFd<'_>) -> io::Result<u64> {
    Ok(rustix::io::ioctl_fionread(pipe)?)
}

/// Gives a pipe room for `bytes`, where the system allows as much; else it stays as it is.
pub fn widen(pipe: BorrowedFd<'_>, bytes: usize) {
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
    // SAFETY: no memory is involved.
    unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, bytes) };
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn a_pipe_shows_the_pages_until_they_are_read() {
        let (mut read, mut write) = io::pipe().unwrap();
        widen(write.as_fd(), MIB);
        let bytes: Vec<u8> = (0..3 * MIB as u32).map(|i| (i / 7) as u8).collect();
        assert!(!wait_readable(read.as_fd(), 1).unwrap());
        let lent = lend(write.as_fd(), &bytes).unwrap();
        assert!(0 < lent && lent <= MIB);
        assert_eq!(unread(write.as_fd()).unwrap(), lent as u64);
        assert!(wait_readable(read.as_fd(), 1).unwrap());
        let mut seen = vec![0; lent];
        read.read_exact(&mut seen).unwrap();
        assert_eq!(seen, &bytes[..lent]);
        assert_eq!(unread(write.as_fd()).unwrap(), 0);
        write.write_all(b"copied").unwrap();
        assert_eq!(unread(write.as_fd()).unwrap(), 6);
    }

    #[test]
    fn a_full_pipe_and_one_without_readers_are_told_apart() {
        let (read, write) = io::pipe().unwrap();
        let bytes = vec![1; 4 * MIB];
        while lend(write.as_fd(), &bytes).is_ok() {}
        let full = lend(write.as_fd(), &bytes).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        assert!(!wait_writable(write.as_fd(), 1).unwrap());
        drop(read);
        let gone = wait_writable(write.as_fd(), 1).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(lend(write.as_fd(), &bytes).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
