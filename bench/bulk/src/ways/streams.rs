//! Ways through a pipe, a FIFO or a Unix socket.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use super::Way;
use crate::job::Job;
use crate::sys::{self, Map};

/// Moves `job.bytes` by calls that move a part each.
fn all(job: &Job, mut one: impl FnMut(usize) -> io::Result<usize>) -> io::Result<()> {
    let mut left = job.bytes;
    while left > 0 {
        let moved = one(left.min(job.chunk as u64) as usize)?;
        if moved == 0 {
            return Err(sys::ended());
        }
        left -= moved as u64;
    }
    Ok(())
}

/// Reads into a buffer and writes from there.
fn copy(job: &Job, mut from: &File, mut to: &File) -> io::Result<()> {
    let mut buffer = vec![0; job.chunk];
    all(job, |most| {
        let read = from.read(&mut buffer[..most])?;
        to.write_all(&buffer[..read])?;
        Ok(read)
    })
}

/// Two Unix sockets that are connected: the end to read, the end to write.
fn sockets(job: &Job) -> io::Result<(File, File)> {
    let (a, b) = UnixStream::pair()?;
    let bytes = job.pipe as i32;
    for (socket, option) in [(&a, libc::SO_RCVBUF), (&b, libc::SO_SNDBUF)] {
        let value = (&raw const bytes).cast();
        let number = socket.as_raw_fd();
        // SAFETY: the call reads one number.
        sys::call(|| unsafe {
            libc::setsockopt(number, libc::SOL_SOCKET, option, value, 4) as isize
        })?;
    }
    Ok((File::from(OwnedFd::from(a)), File::from(OwnedFd::from(b))))
}

/// A copy into a buffer of the process, and one out of it, on both sides.
pub struct Copied {
    ends: Option<(File, File)>,
    /// That each side opens for itself.
    fifo: PathBuf,
}

impl Copied {
    /// Through a pipe.
    pub fn pipe(job: &Job) -> io::Result<Box<dyn Way>> {
        let (read, write) = sys::pipe(job.pipe)?;
        Ok(Box::new(Self { ends: Some((read.into(), write.into())), fifo: PathBuf::new() }))
    }

    /// Through a Unix socket.
    pub fn socket(job: &Job) -> io::Result<Box<dyn Way>> {
        Ok(Box::new(Self { ends: Some(sockets(job)?), fifo: PathBuf::new() }))
    }

    /// Through a FIFO.
    pub fn fifo(job: &Job) -> io::Result<Box<dyn Way>> {
        let fifo = job.scratch.join("fifo");
        let mut name = fifo.as_os_str().as_bytes().to_vec();
        name.push(0);
        // SAFETY: the name ends with a zero.
        sys::call(|| unsafe { libc::mkfifo(name.as_ptr().cast(), 0o600) } as isize)?;
        Ok(Box::new(Self { ends: None, fifo }))
    }
}

impl Way for Copied {
    fn send(self: Box<Self>, job: &Job, source: &File) -> io::Result<()> {
        let write = match self.ends {
            Some((read, write)) => {
                drop(read);
                write
            }
            None => {
                let write = OpenOptions::new().write(true).open(&self.fifo)?;
                sys::widen(write.as_fd(), job.pipe)?;
                write
            }
        };
        copy(job, source, &write)
    }

    fn receive(self: Box<Self>, job: &Job, target: &File) -> io::Result<u64> {
        let read = match self.ends {
            Some((read, write)) => {
                drop(write);
                read
            }
            None => File::open(&self.fifo)?,
        };
        copy(job, &read, target).map(|()| 0)
    }
}

/// No copy into user space: pages of the page cache go into the pipe, and are copied from there.
pub struct Spliced {
    read: OwnedFd,
    write: OwnedFd,
}

impl Spliced {
    /// With a pipe.
    pub fn open(job: &Job) -> io::Result<Box<dyn Way>> {
        let (read, write) = sys::pipe(job.pipe)?;
        Ok(Box::new(Self { read, write }))
    }
}

/// Splices all from a pipe to the target.
pub fn splice_out(job: &Job, read: &OwnedFd, target: &File) -> io::Result<u64> {
    all(job, |most| sys::splice(read, target, most)).map(|()| 0)
}

impl Way for Spliced {
    fn send(self: Box<Self>, job: &Job, source: &File) -> io::Result<()> {
        drop(self.read);
        all(job, |most| sys::splice(source, &self.write, most))
    }

    fn receive(self: Box<Self>, job: &Job, target: &File) -> io::Result<u64> {
        drop(self.write);
        splice_out(job, &self.read, target)
    }
}

/// The sender's mapped pages go into the pipe as they are.
pub struct Gifted(Spliced);

impl Gifted {
    /// With a pipe.
    pub fn open(job: &Job) -> io::Result<Box<dyn Way>> {
        let (read, write) = sys::pipe(job.pipe)?;
        Ok(Box::new(Self(Spliced { read, write })))
    }
}

impl Way for Gifted {
    fn send(self: Box<Self>, job: &Job, source: &File) -> io::Result<()> {
        drop(self.0.read);
        let map = Map::read(source, job.bytes as usize)?;
        let mut at = 0;
        all(job, |most| {
            let moved = sys::vmsplice(map.bytes(at, most), &self.0.write)?;
            at += moved;
            Ok(moved)
        })
    }

    fn receive(self: Box<Self>, job: &Job, target: &File) -> io::Result<u64> {
        drop(self.0.write);
        splice_out(job, &self.0.read, target)
    }
}

/// `sendfile` to a socket: it refers to pages of the page cache.
pub struct Sent {
    read: File,
    write: File,
    /// Whether the receiver splices; else it copies through a buffer.
    splices: bool,
}

impl Sent {
    /// The receiver reads and writes.
    pub fn read(job: &Job) -> io::Result<Box<dyn Way>> {
        let (read, write) = sockets(job)?;
        Ok(Box::new(Self { read, write, splices: false }))
    }

    /// The receiver splices from the socket into a pipe, and on to the target.
    pub fn splice(job: &Job) -> io::Result<Box<dyn Way>> {
        let (read, write) = sockets(job)?;
        Ok(Box::new(Self { read, write, splices: true }))
    }
}

impl Way for Sent {
    fn send(self: Box<Self>, job: &Job, source: &File) -> io::Result<()> {
        drop(self.read);
        all(job, |most| sys::sendfile(source, &self.write, most))
    }

    fn receive(self: Box<Self>, job: &Job, target: &File) -> io::Result<u64> {
        drop(self.write);
        if !self.splices {
            return copy(job, &self.read, target).map(|()| 0);
        }
        let (out, into) = sys::pipe(job.pipe)?;
        all(job, |most| {
            let taken = sys::splice(&self.read, &into, most)?;
            let mut left = taken;
            while left > 0 {
                left -= sys::splice(&out, target, left)?;
            }
            Ok(taken)
        })
        .map(|()| 0)
    }
}
