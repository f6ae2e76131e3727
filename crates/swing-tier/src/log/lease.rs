//! A lease: one committed state, held as long as somebody reads it.

use std::sync::Arc;

use crate::error::{Fault, ReadError};
use crate::log::files::{LogFile, lock};
use crate::log::format::Piece;
use crate::log::read::{Target, read_pieces};
use crate::log::shared::{Live, Shared};
use crate::storage::Storage;
use crate::units::{Epoch, RecordId};

/// The most records that one read asks for.
pub const MAX_READ_RECORDS: usize = 1 << 20;

/// A committed state of a log. Its records stay readable, whatever is committed or collected
/// meanwhile, until the lease is dropped. Cheap to clone.
#[derive(Debug)]
pub struct Lease {
    pub(crate) shared: Arc<Shared>,
    pub(crate) epoch: Epoch,
    root: Arc<[u8]>,
}

/// The pieces of a record and the files they lie in.
type Found = Vec<(Arc<LogFile>, Piece)>;

impl Lease {
    /// Takes a lease on the newest state.
    pub(crate) fn newest(shared: &Arc<Shared>) -> Self {
        let mut live = lock(&shared.live);
        let (epoch, root) = (live.state.epoch, live.state.root.as_slice().into());
        Self::hold(shared, &mut live, epoch, root)
    }

    /// Takes a lease on the state of a checkpoint.
    pub(crate) fn of_checkpoint(shared: &Arc<Shared>, name: &str) -> Option<Self> {
        let mut live = lock(&shared.live);
        let retained = live.state.retained.get(name)?;
        let (epoch, root) = (retained.epoch, retained.root.as_slice().into());
        Some(Self::hold(shared, &mut live, epoch, root))
    }

    fn hold(shared: &Arc<Shared>, live: &mut Live, epoch: Epoch, root: Arc<[u8]>) -> Self {
        live.hold(epoch);
        Lease { shared: shared.clone(), epoch, root }
    }

    /// The state's number.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The root payload of the state.
    pub fn root(&self) -> &[u8] {
        &self.root
    }

    /// Length of a record in bytes.
    ///
    /// # Errors
    /// [`ReadError::NoRecord`] if the state does not show it.
    pub fn len_of(&self, id: RecordId) -> Result<u64, ReadError> {
        let live = lock(&self.shared.live);
        let entry = live.state.records.get(&id).filter(|entry| entry.is_visible(self.epoch));
        entry.map(|entry| entry.len()).ok_or(ReadError::NoRecord { id, epoch: self.epoch })
    }

    /// The records of the state, in order of their numbers.
    pub fn records(&self) -> Vec<RecordId> {
        let live = lock(&self.shared.live);
        let visible = live.state.records.iter().filter(|(_, e)| e.is_visible(self.epoch));
        visible.map(|(&id, _)| id).collect()
    }

    /// Reads a record.
    ///
    /// # Errors
    /// As [`Lease::read_into`].
    pub fn read(&self, id: RecordId) -> Result<Vec<u8>, ReadError> {
        let mut all = self.read_many(&[id])?;
        // One was asked for.
        Ok(all.pop().unwrap_or_default())
    }

    /// Reads records, many requests in flight; in the order of `ids`.
    ///
    /// # Errors
    /// As [`Lease::read_into`].
    pub fn read_many(&self, ids: &[RecordId]) -> Result<Vec<Vec<u8>>, ReadError> {
        let lens = ids.iter().map(|&id| self.len_of(id)).collect::<Result<Vec<_>, _>>()?;
        let mut all: Vec<_> = lens.iter().map(|&len| vec![0; len as usize]).collect();
        let mut wanted: Vec<_> =
            ids.iter().copied().zip(all.iter_mut().map(Vec::as_mut_slice)).collect();
        self.read_into(&mut wanted)?;
        Ok(all)
    }

    /// Reads records into memory of the caller's, each exactly as long as its record. Neighbours on
    /// the disk are read by one request where that is cheaper.
    ///
    /// # Errors
    /// [`ReadError::Damaged`] if bytes do not match their checksum, [`ReadError::Io`] from the
    /// device, [`ReadError::NoRecord`] for a record that the state does not show,
    /// [`ReadError::Length`] for a buffer of another length. The buffers hold anything then.
    pub fn read_into(&self, wanted: &mut [(RecordId, &mut [u8])]) -> Result<(), ReadError> {
        assert!(wanted.len() <= MAX_READ_RECORDS, "at most {MAX_READ_RECORDS} records a read");
        let mut found = Vec::with_capacity(wanted.len());
        {
            let live = lock(&self.shared.live);
            for (id, buffer) in wanted.iter() {
                found.push(self.find(&live, *id, buffer.len() as u64)?);
            }
        }
        let mut targets = Vec::new();
        for (pieces, (_, buffer)) in found.into_iter().zip(wanted.iter_mut()) {
            let mut rest: &mut [u8] = buffer;
            for (file, piece) in pieces {
                let (into, behind) = rest.split_at_mut(piece.len as usize);
                targets.push(Target { file, piece, into });
                rest = behind;
            }
        }
        let mut queue = self.shared.queue()?;
        Ok(read_pieces(&mut *queue, targets, &self.shared.options.cost())?)
    }

    /// The log's storage, for a scan's queues.
    pub(crate) fn storage(&self) -> &dyn Storage {
        &*self.shared.storage
    }

    /// The files are held from here on: garbage collection may move the record meanwhile.
    fn find(&self, live: &Live, id: RecordId, given: u64) -> Result<Found, ReadError> {
        let entry = live.state.records.get(&id).filter(|entry| entry.is_visible(self.epoch));
        let entry = entry.ok_or(ReadError::NoRecord { id, epoch: self.epoch })?;
        if entry.len() != given {
            return Err(ReadError::Length { id, len: entry.len(), given });
        }
        let found = entry.pieces.iter().map(|&piece| Ok((self.shared.file_of(&piece)?, piece)));
        found.collect::<Result<_, _>>().map_err(|error| Fault::Io(error).into())
    }
}

impl Clone for Lease {
    fn clone(&self) -> Self {
        let mut live = lock(&self.shared.live);
        Self::hold(&self.shared, &mut live, self.epoch, self.root.clone())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.shared.mark.is_stale() {
            return;
        }
        let mut live = lock(&self.shared.live);
        let last = live.release(self.epoch);
        let waits = last && !live.limbo.is_empty();
        drop(live);
        if waits {
            self.shared.reclaim();
        }
    }
}
