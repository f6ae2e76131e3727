//! The ways to move a file from one process to another.

mod area_file;
mod areas;
mod files;
mod memory;
mod queues;
mod streams;

use std::fs::File;
use std::io;

use crate::job::Job;

/// Both ends of a way, as they are before the processes are forked. Each process drops what is the
/// other's first, so that it sees when the other ends.
pub trait Way {
    /// The sender's part.
    fn send(self: Box<Self>, job: &Job, source: &File) -> io::Result<()>;
    /// The receiver's part. Ways whose handing over can be told from the copying return what it
    /// took, in nanoseconds; others 0.
    fn receive(self: Box<Self>, job: &Job, target: &File) -> io::Result<u64>;
}

/// Makes the channel of a way.
type Open = fn(&Job) -> io::Result<Box<dyn Way>>;

/// All ways: name, what they do, and how they begin. The first three are those of the survey.
pub const WAYS: &[(&str, &str, Open)] = &[
    ("pipe", "read, write to a pipe; read, write", streams::Copied::pipe),
    ("mmap", "both files mapped, memcpy through shared memory of their size", memory::Mapped::open),
    ("splice", "splice to a pipe; splice from it", streams::Spliced::open),
    ("fifo", "as pipe, through a FIFO", streams::Copied::fifo),
    ("socket", "as pipe, through a Unix socket", streams::Copied::socket),
    ("sendfile", "sendfile to a Unix socket; read, write", streams::Sent::read),
    (
        "sendfile-splice",
        "sendfile to a Unix socket; splice to a pipe and on",
        streams::Sent::splice,
    ),
    ("vmsplice", "source mapped, vmsplice to a pipe; splice from it", streams::Gifted::open),
    ("sendfile-fd", "source passed over a socket; sendfile to the target", files::Passed::sendfile),
    ("copy_file_range", "source passed over a socket; copy_file_range", files::Passed::copy_range),
    ("process_vm_readv", "source mapped; process_vm_readv, write", memory::ReadThere::open),
    ("memfd", "read into sealed memfds, passed over a socket; write", memory::Memfds::open),
    ("ring", "read into a ring of shared memory; write from it", memory::Ring::open),
    ("uring", "the same by io_uring, many requests in flight", queues::Queues::open),
    ("uring-direct", "the same past the page cache", queues::Queues::open),
    ("swing", "read into an area, publish; hook, write", areas::Areas::open),
    (
        "swing-sendfile",
        "read into an area, publish; hook, sendfile from the area's own file",
        areas::Areas::sendfile,
    ),
    (
        "swing-splice",
        "read into an area, publish, splice from the area's own file to a pipe; splice from it",
        area_file::Lent::open,
    ),
];

/// Whether a way reads and writes past the page cache.
pub fn is_direct(name: &str) -> bool {
    name.ends_with("-direct")
}
