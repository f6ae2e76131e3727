//! Passing an open file through a socket.
//!
//! **Concurrency.** One call sends, one receives: what belongs together arrives together, or the
//! file does not arrive at all.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::sys::descriptors;

const NUMBER_LEN: u32 = size_of::<RawFd>() as u32;
// SAFETY: the macros of the C library only compute.
const SPACE: usize = unsafe { libc::CMSG_SPACE(NUMBER_LEN) } as usize;

/// Room for the number of the file, aligned as the kernel wants it.
#[repr(C)]
union Control {
    _align: libc::cmsghdr,
    bytes: [u8; SPACE],
}

fn message(part: &mut libc::iovec, control: &mut Control) -> libc::msghdr {
    // SAFETY: all-zero bytes are a valid message without anything in it.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut *control).cast();
    message.msg_controllen = SPACE as _;
    message
}

/// Sends bytes together with a file, all at once or not at all.
pub(crate) fn send(stream: impl AsFd, bytes: &[u8], file: BorrowedFd<'_>) -> io::Result<()> {
    let mut control = Control { bytes: [0; SPACE] };
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let message = message(&mut part, &mut control);
    // SAFETY: the message has room for one header with this number, which is aligned; the kernel
    // only reads what the message points to, all of which lives to the end of the call.
    let sent = unsafe {
        let header = &mut *libc::CMSG_FIRSTHDR(&raw const message);
        header.cmsg_level = libc::SOL_SOCKET;
        header.cmsg_type = libc::SCM_RIGHTS;
        header.cmsg_len = libc::CMSG_LEN(NUMBER_LEN) as _;
        libc::CMSG_DATA(&raw const *header).cast::<RawFd>().write_unaligned(file.as_raw_fd());
        libc::sendmsg(stream.as_fd().as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
    };
    match usize::try_from(sent) {
        Ok(sent) if sent == bytes.len() => Ok(()),
        Ok(_) => Err(io::ErrorKind::WriteZero.into()),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Receives bytes that are there, without waiting, and the file that comes with them; how many
/// bytes.
pub(crate) fn receive(stream: impl AsFd, bytes: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let (stream, mut got) = (stream.as_fd(), 0);
    let mut files = descriptors::open_all(|| {
        let mut control = Control { bytes: [0; SPACE] };
        let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let mut message = message(&mut part, &mut control);
        let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
        // SAFETY: the kernel writes no more than the message has room for.
        let come = unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut message, flags) };
        got = usize::try_from(come).map_err(|_| io::Error::last_os_error())?;
        Ok::<_, io::Error>(files_of(&message))
    })?;
    debug_assert!(got <= bytes.len());
    Ok((got, files.pop()))
}

/// The files that have come with a message.
fn files_of(message: &libc::msghdr) -> Vec<OwnedFd> {
    let mut files = Vec::new();
    // SAFETY: the kernel has filled the control part; each number in it is a new descriptor of this
    // process, which nobody else knows.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            let is_files =
                (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS;
            let len = ((*header).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
            let numbers = libc::CMSG_DATA(header).cast::<RawFd>();
            for i in 0..if is_files { len / size_of::<RawFd>() } else { 0 } {
                files.push(OwnedFd::from_raw_fd(numbers.add(i).read_unaligned()));
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn inode(file: &OwnedFd) -> u64 {
        File::from(file.try_clone().unwrap()).metadata().unwrap().ino()
    }

    #[test]
    fn a_file_comes_with_the_bytes_it_was_sent_with() {
        let (mut here, mut there) = UnixStream::pair().unwrap();
        let mut bytes = [0; 64];
        assert_eq!(
            receive(&there, &mut bytes).unwrap_err().kind(),
            io::ErrorKind::WouldBlock,
            "nothing is waited for"
        );
        let file = tempfile::tempfile().unwrap();
        send(&here, b"with a file", file.as_fd()).unwrap();
        let (got, come) = receive(&there, &mut bytes).unwrap();
        assert_eq!(&bytes[..got], b"with a file");
        let come = come.unwrap();
        assert_eq!(file.metadata().unwrap().ino(), inode(&come));
        assert!(come.as_raw_fd() > 2);
        here.write_all(b"without").unwrap();
        let (got, come) = receive(&there, &mut bytes).unwrap();
        assert_eq!((&bytes[..got], come.is_none()), (&b"without"[..], true));
        // An ordinary read drops the file, and keeps the bytes.
        send(&here, b"read", file.as_fd()).unwrap();
        there.read_exact(&mut bytes[..4]).unwrap();
        assert_eq!(&bytes[..4], b"read");
        drop(here);
        assert_eq!(receive(&there, &mut bytes).unwrap().0, 0, "the end");
    }
}
