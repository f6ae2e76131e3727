//! Writing data blocks: headers before the payload, several in flight.

use std::path::Path;
use std::sync::Arc;

use crate::arena::IoBuffer;
use crate::error::{Cause, CommitError, Fault, IoError};
use crate::log::files::{Files, LogFile, WriterClaim};
use crate::log::format::{BlockHeader, HEADER_BYTES, Kind, MAX_PAYLOAD_BYTES, Piece, unit_of};
use crate::log::queues::QueueGuard;
use crate::storage::{Completion, Direction, FileRef, Queue, Request};
use crate::units::{MAX_BLOCK_BYTES, round_up};

/// Writes blocks of one batch.
#[derive(Debug)]
pub(crate) struct BlockWriter {
    queue: QueueGuard,
    /// The files that have blocks of this batch, each once.
    claims: Vec<WriterClaim>,
    failed: Option<IoError>,
}

impl BlockWriter {
    pub(crate) fn new(queue: QueueGuard) -> Self {
        BlockWriter { queue, claims: Vec::new(), failed: None }
    }

    /// Puts a block with this payload on its way. The reference is to the whole payload; what lies
    /// there is durable only after [`BlockWriter::finish`].
    pub(crate) fn write(
        &mut self,
        files: &Files,
        payload: &[u8],
    ) -> Result<PayloadLocation, CommitError> {
        debug_assert!(payload.len() as u64 <= MAX_PAYLOAD_BYTES && !payload.is_empty());
        let len = round_up(HEADER_BYTES + payload.len() as u64);
        let mut buffer = take_buffer(&mut *self.queue, len, &mut self.failed)
            .ok_or_else(|| Fault::Io(no_memory(files.path())))?;
        self.check()?;
        let (claim, offset) = files.allocate(len).map_err(Fault::Io)?;
        let file = claim.0.clone();
        if !self.claims.iter().any(|known| known.0.id == file.id) {
            self.claims.push(claim);
        }
        let header = BlockHeader {
            kind: Kind::Data,
            file: file.id,
            unit: unit_of(offset),
            generation: file.generation(),
            payload_len: payload.len() as u32,
        };
        let head = HEADER_BYTES as usize;
        buffer[..head].copy_from_slice(&header.encode());
        buffer[head..head + payload.len()].copy_from_slice(payload);
        buffer[head + payload.len()..len as usize].fill(0);
        let (tag, handle) = (u64::from(file.id.0), file.file.clone());
        let direction = Direction::Write;
        self.queue.submit(Request {
            file: handle,
            direction,
            offset,
            len: len as u32,
            buffer,
            tag,
        });
        self.queue.start();
        Ok(PayloadLocation { file, offset: offset + HEADER_BYTES })
    }

    /// Waits for the writes and makes them durable. Returns the claims on the files.
    pub(crate) fn finish(mut self) -> Result<Vec<WriterClaim>, CommitError> {
        self.drain();
        self.check()?;
        for claim in &self.claims {
            if claim.0.has_failed() {
                return Err(CommitError::Lost { path: claim.0.path().to_owned() });
            }
            claim.0.sync().map_err(Fault::Io)?;
        }
        Ok(self.claims)
    }

    fn drain(&mut self) {
        while let Some(done) = self.queue.wait() {
            note(done, &mut self.failed);
        }
    }

    /// The first failure of a write, if there was one. Its file takes no more blocks, unless there
    /// was just no room.
    fn check(&mut self) -> Result<(), CommitError> {
        let Some(error) = &self.failed else { return Ok(()) };
        if !error.cause.is_full() {
            let mut files = self.claims.iter();
            if let Some(claim) = files.find(|claim| claim.0.path() == error.path) {
                claim.0.fail();
            }
        }
        Err(CommitError::from(Fault::Io(error.clone())))
    }
}

/// Where a payload lies.
#[derive(Debug)]
pub(crate) struct PayloadLocation {
    pub(crate) file: Arc<LogFile>,
    /// The payload's first byte.
    pub(crate) offset: u64,
}

impl PayloadLocation {
    /// The reference to `bytes`, which begin `from` bytes into the payload.
    pub(crate) fn piece(&self, bytes: &[u8], from: u64) -> Piece {
        Piece::of(bytes, self.file.id, self.file.generation(), self.offset + from)
    }
}

fn note(done: Completion, failed: &mut Option<IoError>) {
    if let Err(error) = done.result {
        failed.get_or_insert(error);
    }
}

fn no_memory(path: &Path) -> IoError {
    IoError::new("find a buffer for", path, Cause::Os(libc::ENOMEM))
}

/// A buffer for `len` bytes; waits for requests while all are in use. `None` if the queue has none
/// so long, or belongs to the process that this one was forked from.
fn take_buffer(queue: &mut dyn Queue, len: u64, failed: &mut Option<IoError>) -> Option<IoBuffer> {
    debug_assert!(len <= MAX_BLOCK_BYTES);
    loop {
        if queue.in_flight() < queue.depth()
            && let Some(buffer) = queue.take_buffer(len as usize)
        {
            return Some(buffer);
        }
        note(queue.wait()?, failed);
    }
}

/// Writes `bytes`, whole units, to a place in a file and waits for it.
pub(crate) fn write_at(
    queue: &mut dyn Queue,
    file: &FileRef,
    offset: u64,
    bytes: &[u8],
) -> Result<(), IoError> {
    let mut failed = None;
    let mut done = 0;
    while done < bytes.len() {
        let len = (bytes.len() - done).min(MAX_BLOCK_BYTES as usize);
        let buffer = take_buffer(queue, len as u64, &mut failed);
        let mut buffer = buffer.ok_or_else(|| no_memory(file.path()))?;
        buffer[..len].copy_from_slice(&bytes[done..done + len]);
        let at = offset + done as u64;
        let (file, len) = (file.clone(), len as u32);
        queue.submit(Request {
            file,
            direction: Direction::Write,
            offset: at,
            len,
            buffer,
            tag: 0,
        });
        done += len as usize;
    }
    while let Some(completion) = queue.wait() {
        note(completion, &mut failed);
    }
    failed.map_or(Ok(()), Err)
}

/// Reads `len` bytes, whole units, from a place in a file.
pub(crate) fn read_at(
    queue: &mut dyn Queue,
    file: &FileRef,
    offset: u64,
    len: u64,
) -> Result<Vec<u8>, IoError> {
    let mut bytes = vec![0; len as usize];
    let (mut at, mut failed) = (0, None);
    while at < len {
        let part = (len - at).min(MAX_BLOCK_BYTES);
        let buffer = take_buffer(queue, part, &mut failed);
        let buffer = buffer.ok_or_else(|| no_memory(file.path()))?;
        let (file, direction) = (file.clone(), Direction::Read);
        let request =
            Request { file, direction, offset: offset + at, len: part as u32, buffer, tag: at };
        queue.submit(request);
        if let Some(done) = queue.wait() {
            done.result?;
            let from = done.tag as usize;
            bytes[from..from + part as usize].copy_from_slice(&done.buffer[..part as usize]);
        }
        at += part;
    }
    Ok(bytes)
}
