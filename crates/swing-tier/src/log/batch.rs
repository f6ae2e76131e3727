//! A batch: what one commit will change. Nobody sees it until then.
//!
//! Records of up to [`SMALL_BYTES`] collect in a buffer and go out together. A batch with few of
//! them carries them inside its commit, so a small commit costs one write and one sync. Longer
//! records are cut into blocks of 512 KiB and written at once, several in flight.

use crate::error::{CommitError, Fault};
use crate::log::files::{WriterClaim, lock};
use crate::log::format::{MAX_PAYLOAD_BYTES, Piece};
use crate::log::shared::Shared;
use crate::log::state::{MAX_NAME_BYTES, MAX_ROOT_BYTES};
use crate::log::write::{BlockWriter, PayloadLocation};
use crate::units::{Epoch, FileId, RecordId};

/// Records up to this length, in bytes, share a block with others.
pub const SMALL_BYTES: usize = 32 << 10;
/// A batch whose small records take up to this many bytes carries them inside its commit.
pub(crate) const INLINE_BYTES: usize = 64 << 10;
/// The most records that one batch may add, free or move.
pub const MAX_BATCH_RECORDS: usize = 1 << 20;

/// Where bytes of a record are on their way to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// In a block that is on its way to the disk.
    At(Piece),
    /// In the batch's own buffer.
    Inside { from: usize, len: usize },
}

#[derive(Debug)]
pub(crate) struct Added {
    pub(crate) id: RecordId,
    pub(crate) pieces: Vec<Target>,
}

/// A piece of a record that is written to another place; only if it still is `old`.
#[derive(Debug)]
pub(crate) struct Moving {
    pub(crate) id: RecordId,
    pub(crate) index: u32,
    pub(crate) old: Piece,
    pub(crate) to: Target,
}

/// What a batch changes, as far as it is known before the commit.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) added: Vec<Added>,
    pub(crate) moving: Vec<Moving>,
    pub(crate) freed: Vec<RecordId>,
    pub(crate) root: Option<Vec<u8>>,
    pub(crate) retain: Vec<String>,
    pub(crate) release: Vec<String>,
    /// The bytes that `Target::Inside` means.
    pub(crate) small: Vec<u8>,
    pub(crate) claims: Vec<WriterClaim>,
    /// May take the spare room of a full disk, whatever it adds.
    pub(crate) uses_spare: bool,
}

/// Changes to a log that become visible, and durable, together.
///
/// A batch stays with the thread that made it. Dropping it gives its room back.
///
/// ```
/// use std::sync::Arc;
/// use swing_tier::{Directory, DirectoryOptions, Log, LogOptions};
/// # let temporary = tempfile::tempdir()?;
/// let options = DirectoryOptions { create: true, ..Default::default() };
/// let directory = Arc::new(Directory::open(temporary.path(), options)?);
/// let log = Log::create(directory, LogOptions::default())?;
///
/// let mut batch = log.batch()?;
/// let id = batch.put(b"a record")?;
/// batch.set_root(&id.0.to_le_bytes())?;
/// let epoch = batch.commit()?;
///
/// let lease = log.lease();
/// assert_eq!(lease.epoch(), epoch);
/// assert_eq!(lease.read(id)?, b"a record");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Batch<'a> {
    shared: &'a Shared,
    writer: BlockWriter,
    changes: Changes,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(shared: &'a Shared) -> Result<Self, CommitError> {
        shared.check_writable()?;
        let writer = BlockWriter::new(shared.queue().map_err(Fault::Io)?);
        Ok(Batch { shared, writer, changes: Changes::default() })
    }

    /// The same, which may take the spare room of a full disk.
    pub(crate) fn with_spare(mut self, uses_spare: bool) -> Self {
        self.changes.uses_spare = uses_spare;
        self
    }

    /// Adds a record. Its bytes may go to the disk at once; it is visible after the commit.
    ///
    /// # Errors
    /// [`CommitError::Full`] if there is no room, [`CommitError::Io`] if an earlier write of the
    /// batch failed; the batch is of no use then. [`CommitError::Limit`] beyond
    /// [`MAX_BATCH_RECORDS`].
    pub fn put(&mut self, bytes: &[u8]) -> Result<RecordId, CommitError> {
        self.count()?;
        let pieces = if bytes.is_empty() {
            Vec::new()
        } else if bytes.len() <= SMALL_BYTES {
            let from = self.keep(bytes)?;
            let pieces = self.shared.options.stripe().cut(from, bytes.len());
            pieces.map(|(at, len)| Target::Inside { from: from + at, len }).collect()
        } else {
            let mut pieces = Vec::with_capacity(bytes.len() / MAX_PAYLOAD_BYTES as usize + 1);
            for part in bytes.chunks(MAX_PAYLOAD_BYTES as usize) {
                let place = self.write(part)?;
                let cut = self.shared.options.stripe().cut(0, part.len());
                let piece = |(from, len)| place.piece(&part[from..from + len], from as u64);
                pieces.extend(cut.map(piece).map(Target::At));
            }
            pieces
        };
        let id = self.shared.new_record();
        self.changes.added.push(Added { id, pieces });
        Ok(id)
    }

    /// Frees a record of an earlier commit: states from this commit on do not show it. Its room
    /// comes back when no lease and no checkpoint shows it.
    ///
    /// # Errors
    /// [`CommitError::Limit`] beyond [`MAX_BATCH_RECORDS`]. A record that does not exist is found
    /// by the commit.
    pub fn free(&mut self, id: RecordId) -> Result<(), CommitError> {
        self.count()?;
        self.changes.freed.push(id);
        Ok(())
    }

    /// Sets the root payload: bytes of the caller's by which its records are found again.
    ///
    /// # Errors
    /// [`CommitError::Limit`] beyond [`MAX_ROOT_BYTES`].
    pub fn set_root(&mut self, payload: &[u8]) -> Result<(), CommitError> {
        limit("the root payload, in bytes,", payload.len(), MAX_ROOT_BYTES)?;
        self.changes.root = Some(payload.to_vec());
        Ok(())
    }

    /// Makes the state of this commit a checkpoint of that name, in place of an earlier one: it
    /// stays, with all its records, until it is released.
    ///
    /// # Errors
    /// [`CommitError::Limit`] for a name beyond [`MAX_NAME_BYTES`].
    pub fn retain(&mut self, name: &str) -> Result<(), CommitError> {
        limit("the checkpoint's name, in bytes,", name.len(), MAX_NAME_BYTES)?;
        self.changes.retain.push(name.to_owned());
        Ok(())
    }

    /// Gives up a checkpoint.
    pub fn release(&mut self, name: &str) {
        self.changes.release.push(name.to_owned());
    }

    /// Makes the batch's changes visible and durable, all or none.
    ///
    /// Batches that other threads commit at the same moment share the write and the sync.
    ///
    /// # Errors
    /// After any error but [`CommitError::Unknown`] nothing has changed, now and after a crash.
    pub fn commit(mut self) -> Result<Epoch, CommitError> {
        if self.changes.small.len() > INLINE_BYTES {
            self.changes.uses_spare = self.changes.makes_room(self.shared);
            self.flush()?;
        }
        self.changes.claims = self.writer.finish()?;
        self.shared.commit(self.changes)
    }

    /// Writes a piece anew: garbage collection moves it.
    pub(crate) fn move_piece(
        &mut self,
        (id, index): (RecordId, u32),
        old: Piece,
        bytes: &[u8],
    ) -> Result<(), CommitError> {
        let small = SMALL_BYTES.max(self.shared.options.stripe().longest());
        let to = if bytes.len() <= small {
            Target::Inside { from: self.keep(bytes)?, len: bytes.len() }
        } else {
            let place = self.write(bytes)?;
            Target::At(place.piece(bytes, 0))
        };
        self.changes.moving.push(Moving { id, index, old, to });
        Ok(())
    }

    /// The files that this batch has written to.
    pub(crate) fn has_changes(&self) -> bool {
        !self.changes.moving.is_empty()
    }

    fn count(&self) -> Result<(), CommitError> {
        let records = self.changes.added.len() + self.changes.freed.len();
        limit("records of one batch", records + 1, MAX_BATCH_RECORDS)
    }

    /// Puts bytes into the buffer of small ones; returns where they begin in it.
    fn keep(&mut self, bytes: &[u8]) -> Result<usize, CommitError> {
        let stripe = self.shared.options.stripe();
        let start = stripe.place(self.changes.small.len(), bytes.len());
        if (start + bytes.len()) as u64 > MAX_PAYLOAD_BYTES {
            self.flush()?;
            return self.keep(bytes);
        }
        self.changes.small.resize(start, 0);
        self.changes.small.extend_from_slice(bytes);
        Ok(start)
    }

    /// Writes the buffer of small records as a block.
    fn flush(&mut self) -> Result<(), CommitError> {
        if !self.changes.small.is_empty() {
            let small = std::mem::take(&mut self.changes.small);
            let written = self.write(&small);
            self.changes.small = small;
            self.changes.settle(&written?);
        }
        Ok(())
    }

    /// Puts a block on its way, on a full disk in room that could be had.
    fn write(&mut self, payload: &[u8]) -> Result<PayloadLocation, CommitError> {
        let (shared, writer) = (self.shared, &mut self.writer);
        shared.with_room_beside(self.changes.uses_spare, || writer.write(&shared.files, payload))
    }
}

impl Changes {
    /// Whether they free as many bytes as they add, or may take the spare room anyhow.
    pub(crate) fn makes_room(&self, shared: &Shared) -> bool {
        let live = lock(&shared.live);
        let entries = self.freed.iter().filter_map(|id| live.state.records.get(id));
        let freed: u64 = entries.map(|entry| entry.len()).sum();
        let pieces = self.added.iter().flat_map(|added| &added.pieces);
        let written = pieces.map(|piece| match piece {
            Target::At(piece) => u64::from(piece.len),
            Target::Inside { .. } => 0,
        });
        let added = written.sum::<u64>() + self.small.len() as u64;
        self.uses_spare || (freed > 0 && freed >= added)
    }

    /// The buffer of small records lies at `place` now: what pointed into it points there.
    pub(crate) fn settle(&mut self, place: &PayloadLocation) {
        let small = std::mem::take(&mut self.small);
        let added = self.added.iter_mut().flat_map(|added| &mut added.pieces);
        for target in added.chain(self.moving.iter_mut().map(|moving| &mut moving.to)) {
            if let Target::Inside { from, len } = *target {
                *target = Target::At(place.piece(&small[from..from + len], from as u64));
            }
        }
    }

    /// The files that pieces of this batch lie in.
    pub(crate) fn files(&self) -> impl Iterator<Item = FileId> + '_ {
        let added = self.added.iter().flat_map(|added| &added.pieces);
        let targets = added.chain(self.moving.iter().map(|moving| &moving.to));
        targets.filter_map(|target| match target {
            Target::At(piece) => Some(piece.file),
            Target::Inside { .. } => None,
        })
    }
}

pub(crate) fn limit(what: &'static str, value: usize, most: usize) -> Result<(), CommitError> {
    if value > most {
        return Err(CommitError::Limit { what, value: value as u64, limit: most as u64 });
    }
    Ok(())
}
