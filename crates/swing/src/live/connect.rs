//! Connecting to the socket of an area's owner.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::namespace::files::LIVE;
use crate::sys::descriptors;
use crate::sys::file::Folder;

/// How long connecting may take of one who only wants to know whether somebody is there.
pub(crate) const CONNECT: Duration = Duration::from_millis(250);

/// Wakes whoever waits for connections to the area in a folder; `false`: there is nobody.
pub(crate) fn wake(folder: &Folder) -> bool {
    connect(folder, CONNECT).is_ok()
}

/// A connection all of whose operations, connecting included, end after `longest`.
pub(crate) fn connect(folder: &Folder, longest: Duration) -> std::io::Result<UnixStream> {
    // SAFETY: makes a descriptor, which its owner closes.
    let make = || unsafe {
        match libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) {
            -1 => Err(std::io::Error::last_os_error()),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    };
    let stream = UnixStream::from(descriptors::open(make)?);
    // The time to write also bounds the time to connect.
    stream.set_write_timeout(Some(longest))?;
    stream.set_read_timeout(Some(longest))?;
    let path = folder.proc_path(LIVE)?;
    let address = address_of(&path);
    let len = std::mem::size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: a valid descriptor and address of that length.
    match unsafe { libc::connect(stream.as_raw_fd(), (&raw const address).cast(), len) } {
        0 => Ok(stream),
        _ => Err(std::io::Error::last_os_error()),
    }
}

fn address_of(path: &Path) -> libc::sockaddr_un {
    // SAFETY: all-zero bytes are a valid address.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = path.as_os_str().as_bytes();
    assert!(bytes.len() < address.sun_path.len(), "a path through /proc is short");
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    address
}
