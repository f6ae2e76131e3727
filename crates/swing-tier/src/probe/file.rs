//! The real device: a file of the probe's own, read with direct I/O through the queues that a log
//! reads with.
//!
//! The file is written whole with random bytes, and synced, before anything is read: unwritten
//! parts are answered without the device, and equal bytes may be stored once only. It loses its
//! name as soon as it is made, so it is gone when the probe ends, also if it is killed. No other
//! file is touched (INV-PROBE-1).
//!
//! Where the pieces of the file lie on the device comes from the file system (`FIEMAP`): offsets
//! that the paper steps through are those of the device, not of the file.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::arena::BufferClass;
use crate::disk::{Directory, DirectoryOptions};
use crate::error::{Cause, IoError};
use crate::io::file::DiskFile;
use crate::probe::Random;
use crate::probe::device::{Device, Extent, place_in};
use crate::probe::run::ProbeError;
use crate::storage::{
    Direction, FileRef, IoResult, Queue, QueueOptions, Request, Storage, StorageFile,
};
use crate::units::{MAX_BLOCK_BYTES, UNIT_BYTES};

/// The least length of the file, in bytes.
pub const LEAST_PROBE_BYTES: u64 = 32 << 20;
/// What the file's length is a multiple of.
const WHOLE: u64 = 1 << 20;
/// How many requests write the file.
const WRITE_DEPTH: u32 = 8;
/// The most pieces of the file that are asked for.
const MAX_PIECES: usize = 512;

/// A file of a directory as a device to probe.
#[derive(Debug)]
pub struct FileDevice {
    directory: Directory,
    file: Arc<DiskFile>,
    queue: Box<dyn Queue>,
    /// What the queue was made for: the longest request, and how many.
    made_for: (u32, u32),
    bytes: u64,
    pieces: Vec<PieceOfFile>,
    start: Instant,
}

/// A range of the file that lies in one piece on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PieceOfFile {
    offset: u64,
    on_device: u64,
    len: u64,
}

impl FileDevice {
    /// Makes and writes the file: `bytes` long, less if `time` is over before.
    ///
    /// # Errors
    /// [`ProbeError`] if the directory's file system does no direct I/O or has no room, if the
    /// device is too slow, or if it fails.
    pub fn create(
        directory: &Path,
        options: DirectoryOptions,
        bytes: u64,
        time: Duration,
    ) -> Result<Self, ProbeError> {
        let start = Instant::now();
        let directory = Directory::open(directory, options)?;
        if !directory.choice().direct {
            // What follows is about the choice of a back end.
            let reason = directory.choice().reason.split(';').next().unwrap_or_default();
            let reason = reason.to_owned();
            return Err(ProbeError::NotDirect { path: directory.path().to_owned(), reason });
        }
        let bytes = (bytes / WHOLE * WHOLE).max(LEAST_PROBE_BYTES);
        let free_bytes = free_bytes(directory.path())?;
        if free_bytes < bytes.saturating_add(WHOLE) {
            let path = directory.path().to_owned();
            return Err(ProbeError::NoRoom { path, bytes, free_bytes });
        }
        let file = directory.create_nameless()?;
        file.preallocate(0, bytes)?;
        let made_for = (MAX_BLOCK_BYTES as u32, WRITE_DEPTH);
        let queue = queue_for(&directory, made_for)?;
        let mut device =
            FileDevice { directory, file, queue, made_for, bytes, pieces: Vec::new(), start };
        device.fill(time)?;
        device.pieces = pieces(device.file.here("examine")?, device.bytes);
        Ok(device)
    }

    /// Writes random bytes until the file is full, or the time is over.
    fn fill(&mut self, time: Duration) -> Result<(), ProbeError> {
        let mut random = Random::new(crate::process::random_u64());
        let mut offset = 0;
        let mut failed = None;
        loop {
            let more = offset < self.bytes && self.start.elapsed() < time && failed.is_none();
            let room = self.queue.in_flight() < WRITE_DEPTH;
            let buffer = if more && room { self.queue.take_buffer(1) } else { None };
            if let Some(mut buffer) = buffer {
                for word in buffer.chunks_exact_mut(8) {
                    word.copy_from_slice(&random.bits().to_ne_bytes());
                }
                let (len, direction) = (MAX_BLOCK_BYTES as u32, Direction::Write);
                let file: FileRef = self.file.clone();
                self.queue.submit(Request { file, direction, offset, len, buffer, tag: 0 });
                self.queue.start();
                offset += MAX_BLOCK_BYTES;
                continue;
            }
            match self.queue.wait() {
                Some(done) => failed = failed.or(done.result.err()),
                None => break,
            }
        }
        if let Some(error) = failed {
            return Err(error.into());
        }
        self.bytes = offset.min(self.bytes) / WHOLE * WHOLE;
        if self.bytes < LEAST_PROBE_BYTES {
            let path = self.directory.path().to_owned();
            return Err(ProbeError::TooSlow { path, bytes: self.bytes, time });
        }
        self.file.truncate(self.bytes)?;
        self.file.sync()?;
        Ok(())
    }

    /// In how many pieces the file lies on the device; one if the file system does not say.
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }
}

/// A queue with buffers for so many requests of this length.
fn queue_for(directory: &Directory, (len, depth): (u32, u32)) -> IoResult<Box<dyn Queue>> {
    let len = len.next_multiple_of(UNIT_BYTES as u32);
    directory.queue(&QueueOptions { depth, buffers: vec![BufferClass { len, count: depth }] })
}

fn free_bytes(path: &Path) -> IoResult<u64> {
    let facts = rustix::fs::statvfs(path).map_err(|e| IoError::from_os("examine", path, e))?;
    Ok(facts.f_bavail.saturating_mul(facts.f_frsize))
}

impl Device for FileDevice {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn step(&self) -> u64 {
        self.file.align().max(512)
    }

    fn read(&mut self, extents: &[Extent], depth: u32) -> IoResult<Duration> {
        let longest = extents.iter().map(|extent| extent.len).max().unwrap_or(0);
        if longest > self.made_for.0 || depth != self.made_for.1 {
            // The old one goes first: locked memory is limited.
            let made_for = (longest, depth);
            self.queue = Box::new(NoQueue);
            self.queue = queue_for(&self.directory, made_for)?;
            self.made_for = made_for;
        }
        let mut waiting = extents.iter();
        let mut failed = None;
        let begin = Instant::now();
        let mut next = waiting.next();
        loop {
            while let Some(extent) = next.filter(|_| self.queue.in_flight() < depth) {
                let Some(buffer) = self.queue.take_buffer(extent.len as usize) else { break };
                let (direction, offset, len) = (Direction::Read, extent.offset, extent.len);
                let file: FileRef = self.file.clone();
                self.queue.submit(Request { file, direction, offset, len, buffer, tag: 0 });
                next = waiting.next();
            }
            match self.queue.wait() {
                Some(done) => failed = failed.or(done.result.err()),
                None => break,
            }
        }
        let taken = begin.elapsed();
        match (failed, next) {
            (Some(error), _) => Err(error),
            (None, Some(_)) => {
                Err(IoError::new("find memory to read", self.file.path(), Cause::Os(libc::ENOMEM)))
            }
            (None, None) => Ok(taken),
        }
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn place(&self, random: &mut Random, span: u64, align: u64) -> Option<u64> {
        let fitting: Vec<_> = self
            .pieces
            .iter()
            .filter(|p| p.on_device.next_multiple_of(align) + span <= p.on_device + p.len)
            .collect();
        let total: u64 = fitting.iter().map(|piece| piece.len).sum();
        let mut at = random.below(total);
        for piece in fitting {
            if at < piece.len {
                let place = place_in(random, piece.on_device, piece.len, span, align)?;
                return Some(place - piece.on_device + piece.offset);
            }
            at -= piece.len;
        }
        None
    }

    fn describe(&self) -> String {
        format!("{}, {}", self.queue.describe(), self.directory.choice().reason)
    }
}

/// Stands in while one queue is exchanged for another.
#[derive(Debug)]
struct NoQueue;

impl Queue for NoQueue {
    fn depth(&self) -> u32 {
        0
    }

    fn in_flight(&self) -> u32 {
        0
    }

    fn longest_buffer(&self) -> usize {
        0
    }

    fn take_buffer(&mut self, _: usize) -> Option<crate::arena::IoBuffer> {
        None
    }

    fn submit(&mut self, _: Request) {}

    fn start(&mut self) {}

    fn wait(&mut self) -> Option<crate::storage::Completion> {
        None
    }

    fn describe(&self) -> String {
        "no queue".to_owned()
    }
}

/// `struct fiemap_extent` of `linux/fiemap.h`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FiemapExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_too: [u32; 3],
}

/// `struct fiemap`, with room for the extents behind it.
#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [FiemapExtent; MAX_PIECES],
}

const _: () = assert!(size_of::<FiemapExtent>() == 56);
const _: () = assert!(std::mem::offset_of!(Fiemap, extents) == 32);
/// `FS_IOC_FIEMAP`.
const FIEMAP: libc::c_ulong = 0xc020_660b;
/// Extents whose place is not known, or not one: unknown, delayed, encoded, inline.
const NOWHERE: u32 = 0x2 | 0x4 | 0x8 | 0x200;

/// Where the file lies. A file system that does not say so gets one piece: the file as it is.
fn pieces(file: BorrowedFd<'_>, bytes: u64) -> Vec<PieceOfFile> {
    let mut map = Box::new(Fiemap {
        start: 0,
        length: bytes,
        flags: 1,
        mapped_extents: 0,
        extent_count: MAX_PIECES as u32,
        reserved: 0,
        extents: [FiemapExtent::default(); MAX_PIECES],
    });
    // SAFETY: the structure is the kernel's, with room for as many extents as it says.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), FIEMAP as _, &raw mut *map) };
    let count = if result == 0 { (map.mapped_extents as usize).min(MAX_PIECES) } else { 0 };
    let extents = &map.extents[..count];
    if count == 0 || extents.iter().any(|extent| extent.flags & NOWHERE != 0) {
        return vec![PieceOfFile { offset: 0, on_device: 0, len: bytes }];
    }
    joined(extents.iter().map(|extent| PieceOfFile {
        offset: extent.logical,
        on_device: extent.physical,
        len: extent.length.min(bytes.saturating_sub(extent.logical)),
    }))
}

/// Pieces that continue each other, in the file and on the device, are one.
fn joined(pieces: impl Iterator<Item = PieceOfFile>) -> Vec<PieceOfFile> {
    let mut all: Vec<PieceOfFile> = Vec::new();
    for piece in pieces.filter(|piece| piece.len > 0) {
        match all.last_mut() {
            Some(last)
                if last.offset + last.len == piece.offset
                    && last.on_device + last.len == piece.on_device =>
            {
                last.len += piece.len;
            }
            _ => all.push(piece),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_joined_where_both_sides_continue() {
        let piece = |offset, on_device, len| PieceOfFile { offset, on_device, len };
        let all = [piece(0, 100, 10), piece(10, 110, 5), piece(15, 200, 5), piece(30, 205, 5)];
        let expected = [piece(0, 100, 15), piece(15, 200, 5), piece(30, 205, 5)];
        assert_eq!(joined(all.into_iter()), expected);
    }
}
