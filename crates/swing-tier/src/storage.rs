//! The storage seam: all that the crate asks of files.
//!
//! A [`Storage`] is one directory of files. A [`Queue`] moves bytes: requests are submitted and
//! complete in any order, many at a time. The log is written against these traits only, so the
//! same code runs on the real file system ([`crate::Directory`]) and, in tests, on a recorder that
//! fails at any operation and rebuilds what a power cut could leave.
//!
//! **What an implementation promises.** A completed write is visible to every later read of the
//! file. It is durable only after a later [`StorageFile::sync`] of that file has succeeded. A file
//! that was created, renamed or removed stays so after a power cut only once
//! [`Storage::sync_directory`] has succeeded. Removing a file that is open leaves its bytes to
//! those who have it open.
//!
//! **What callers promise.** Offsets and lengths of requests are multiples of
//! [`UNIT_BYTES`](crate::UNIT_BYTES); a failed sync is never tried again.

use std::any::Any;
use std::fmt::Debug;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use crate::arena::{BufferClass, IoBuffer};
use crate::error::IoError;
use crate::profile::DeviceProfile;
pub use crate::units::MAX_QUEUE_DEPTH;

/// A file of a [`Storage`], shared by everybody who uses it.
pub type FileRef = Arc<dyn StorageFile>;

/// The result of an operation on files.
pub type IoResult<T> = Result<T, IoError>;

/// Whether a file is opened to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// For reading only; works on a read-only file system.
    Read,
    /// For reading and writing.
    Write,
}

/// The outcome of asking for a lock.
#[derive(Debug)]
pub enum Locked {
    /// The lock is held until this is dropped, or the process ends.
    Held(Box<dyn Any + Send + Sync>),
    /// Somebody else has it.
    Busy {
        /// The process that has it; zero if it did not say.
        pid: u32,
    },
}

/// One directory of files.
pub trait Storage: Send + Sync + Debug {
    /// The directory, for messages.
    fn path(&self) -> &Path;

    /// Who owns the directory, if that is not the user of this process.
    fn foreign_owner(&self) -> IoResult<Option<u32>>;

    /// Makes a new, empty file. Fails with `EEXIST` if the name is taken.
    fn create(&self, name: &str) -> IoResult<FileRef>;

    /// Opens a file; `None` if there is none of that name.
    fn open(&self, name: &str, access: Access) -> IoResult<Option<FileRef>>;

    /// The names of all files, in no order.
    fn list(&self) -> IoResult<Vec<String>>;

    /// Gives a file another name, in place of the file that had it.
    fn rename(&self, from: &str, to: &str) -> IoResult<()>;

    /// Takes a file's name. Whoever has the file open may go on reading.
    fn remove(&self, name: &str) -> IoResult<()>;

    /// Makes creations, renames and removals so far durable.
    fn sync_directory(&self) -> IoResult<()>;

    /// Takes the lock of that name without waiting: alone, or beside others that share it.
    fn lock(&self, name: &str, exclusive: bool) -> IoResult<Locked>;

    /// What a probe found out about the device, if its result was saved for this directory.
    fn profile(&self) -> Option<DeviceProfile> {
        None
    }

    /// A queue for one worker. The queue stays with the thread that made it.
    fn queue(&self, options: &QueueOptions) -> IoResult<Box<dyn Queue>>;
}

/// An open file.
pub trait StorageFile: Send + Sync + Debug {
    /// The file's path, for messages.
    fn path(&self) -> &Path;

    /// Length in bytes.
    fn len(&self) -> IoResult<u64>;

    /// Whether the file has no bytes.
    fn is_empty(&self) -> IoResult<bool> {
        Ok(self.len()? == 0)
    }

    /// Takes room on the device for `len` bytes from `offset`, and makes the file that long. The
    /// new bytes read as zeros.
    fn preallocate(&self, offset: u64, len: u64) -> IoResult<()>;

    /// Gives the room of these bytes back to the file system. They read as zeros, or as before,
    /// from then on, and the length stays. `false`: this file system cannot.
    fn discard(&self, offset: u64, len: u64) -> IoResult<bool> {
        let _ = (offset, len);
        Ok(false)
    }

    /// Cuts the file off at `len` bytes.
    fn truncate(&self, len: u64) -> IoResult<()>;

    /// Makes all completed writes of the file durable, and its length.
    fn sync(&self) -> IoResult<()>;

    /// The open file, if it is one of the operating system: another process can open it through
    /// this process, also when it has no name.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The implementation itself, for the queue that belongs to it.
    fn as_any(&self) -> &dyn Any;
}

/// How a queue is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueOptions {
    /// The most requests in flight, 1 to [`MAX_QUEUE_DEPTH`].
    pub depth: u32,
    /// The buffers of the queue's arena.
    pub buffers: Vec<BufferClass>,
}

impl Default for QueueOptions {
    /// 64 requests; 4 MiB of buffers, most of it for large requests.
    fn default() -> Self {
        let buffers = vec![
            BufferClass { len: 16 << 10, count: 64 },
            BufferClass { len: crate::units::MAX_BLOCK_BYTES as u32, count: 6 },
        ];
        QueueOptions { depth: 64, buffers }
    }
}

/// Which way bytes move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the file into the buffer.
    Read,
    /// From the buffer into the file.
    Write,
}

/// A request to move bytes between a buffer and a file.
#[derive(Debug)]
pub struct Request {
    /// The file.
    pub file: FileRef,
    /// Which way.
    pub direction: Direction,
    /// Where in the file, in bytes; a multiple of 4096.
    pub offset: u64,
    /// How many bytes from the buffer's begin; a multiple of 4096, at most the buffer's length.
    pub len: u32,
    /// The memory. It belongs to the queue until the completion.
    pub buffer: IoBuffer,
    /// Comes back with the completion.
    pub tag: u64,
}

/// A request that has ended.
#[derive(Debug)]
pub struct Completion {
    /// The request's tag.
    pub tag: u64,
    /// Its buffer.
    pub buffer: IoBuffer,
    /// `Ok` if all bytes were moved.
    pub result: IoResult<()>,
}

/// Moves bytes for one thread.
///
/// Dropping a queue waits until the device is done with its requests. A queue that a forked child
/// inherits refuses each request with [`Cause::Forked`](crate::Cause::Forked).
pub trait Queue: Debug {
    /// The most requests in flight.
    fn depth(&self) -> u32;

    /// How many requests have been submitted and not been returned by [`Queue::wait`].
    fn in_flight(&self) -> u32;

    /// The length of the longest buffers, in bytes.
    fn longest_buffer(&self) -> usize;

    /// A buffer of at least `len` bytes; `None` while all are in use, or if none is so long.
    fn take_buffer(&mut self, len: usize) -> Option<IoBuffer>;

    /// Hands a request to the queue. With [`Queue::depth`] requests in flight the caller has to
    /// [`Queue::wait`] first.
    fn submit(&mut self, request: Request);

    /// Sees to it that the device has what was submitted, without waiting.
    fn start(&mut self);

    /// Waits for the next completion; `None` if nothing is in flight.
    fn wait(&mut self) -> Option<Completion>;

    /// What moves the bytes, for reports: "io_uring, registered buffers", ...
    fn describe(&self) -> String;
}
