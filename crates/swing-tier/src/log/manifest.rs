//! The manifest: the whole state, written as data blocks; and the switch of the root to it.

use std::sync::Arc;

use crate::error::{CommitError, Fault, IoError};
use crate::log::batch::limit;
use crate::log::commit::Committer;
use crate::log::files::{LogFile, WriterClaim, lock};
use crate::log::format::{MAX_PAYLOAD_BYTES, Piece};
use crate::log::journal::{Journal, Tail};
use crate::log::root::{MAX_MANIFEST_PIECES, NEW_ROOT_NAME, ROOT_BYTES, ROOT_NAME, Root};
use crate::log::shared::Shared;
use crate::log::state::{FileKind, State};
use crate::log::write::{BlockWriter, write_at};
use crate::storage::Storage;

/// Why a root was not switched.
pub(crate) enum SwitchError {
    /// The old one is current.
    Before(IoError),
    /// Nobody can say which one is.
    Unclear(IoError),
}

impl Shared {
    /// Writes `next` as a manifest, makes a new journal, and switches the root to both. The caller
    /// then brings the state in memory to `next`.
    ///
    /// On a full disk dead bytes make room, and if `makes_room` the spare room does. After an error
    /// the old root and the old journal are as they were, unless the outcome is unknown: then the
    /// committer is broken.
    pub(crate) fn switch(
        &self,
        committer: &mut Committer,
        next: &State,
        makes_room: bool,
    ) -> Result<(), CommitError> {
        let journal = committer.journal_id();
        self.with_room(journal, makes_room, || self.try_switch(committer, next))
    }

    fn try_switch(&self, committer: &mut Committer, next: &State) -> Result<(), CommitError> {
        let (pieces, claims) = self.write_manifest(next)?;
        let file = self.files.create(FileKind::Journal).map_err(Fault::Io)?;
        let switched = self.switch_to(committer, next, &pieces, &file);
        let root = match switched {
            Ok(root) => root,
            Err(SwitchError::Before(error)) => {
                // Nothing refers to the new journal.
                let _ = self.files.remove(file.id);
                return Err(Fault::Io(error).into());
            }
            Err(SwitchError::Unclear(error)) => {
                committer.broken = true;
                return Err(CommitError::Unknown(error));
            }
        };
        committer.root = root;
        let tail = Tail::start(file.id, file.generation());
        let end = self.options.journal_bytes;
        committer.journal = Some(Journal { file: file.clone(), tail, end, zeroed: 0 });
        let mut live = lock(&self.live);
        let old = std::mem::replace(&mut live.manifest, pieces);
        self.files.add_live(&live.manifest);
        self.files.add_dead(&old);
        let of_manifest = claims.iter().map(|claim| (claim.0.id, claim.0.facts));
        live.state.files.extend(of_manifest.chain([(file.id, file.facts)]));
        Ok(())
    }

    fn write_manifest(&self, next: &State) -> Result<(Vec<Piece>, Vec<WriterClaim>), CommitError> {
        let bytes = next.encode();
        let parts = bytes.chunks(MAX_PAYLOAD_BYTES as usize);
        limit("blocks of the manifest", parts.len(), MAX_MANIFEST_PIECES)?;
        let mut writer = BlockWriter::new(self.queue().map_err(Fault::Io)?);
        let mut pieces = Vec::with_capacity(parts.len());
        for part in parts {
            pieces.push(writer.write(&self.files, part)?.piece(part, 0));
        }
        Ok((pieces, writer.finish()?))
    }

    fn switch_to(
        &self,
        committer: &Committer,
        next: &State,
        pieces: &[Piece],
        journal: &Arc<LogFile>,
    ) -> Result<Root, SwitchError> {
        let before = SwitchError::Before;
        let end = self.options.journal_bytes;
        journal.file.preallocate(0, end).map_err(before)?;
        journal.sync().map_err(before)?;
        self.files.sync_names().map_err(before)?;
        let mut manifest = Vec::with_capacity(pieces.len());
        for piece in pieces {
            manifest.push((*piece, self.file_of(piece).map_err(before)?.generation()));
        }
        let root = Root {
            log: committer.root.log,
            base: next.epoch,
            floor: next.epoch,
            next_file: self.files.next_file(),
            journal: Some((journal.id, journal.generation())),
            manifest,
        };
        self.write_root(&root)?;
        Ok(root)
    }

    /// Puts a root in place of the present one.
    pub(crate) fn write_root(&self, root: &Root) -> Result<(), SwitchError> {
        let mut queue = self.queue().map_err(SwitchError::Before)?;
        write_root(&*self.storage, &mut *queue, root)
    }
}

/// Writes the new root beside the old one, makes it durable, renames it, makes that durable.
pub(crate) fn write_root(
    storage: &dyn Storage,
    queue: &mut dyn crate::storage::Queue,
    root: &Root,
) -> Result<(), SwitchError> {
    let before = SwitchError::Before;
    // What an attempt that failed left behind.
    let _ = storage.remove(NEW_ROOT_NAME);
    let file = storage.create(NEW_ROOT_NAME).map_err(before)?;
    let written = file
        .preallocate(0, ROOT_BYTES)
        .and_then(|()| write_at(queue, &file, 0, &root.encode()))
        .and_then(|()| file.sync());
    if let Err(error) = written {
        let _ = storage.remove(NEW_ROOT_NAME);
        return Err(SwitchError::Before(error));
    }
    storage.rename(NEW_ROOT_NAME, ROOT_NAME).map_err(SwitchError::Unclear)?;
    storage.sync_directory().map_err(SwitchError::Unclear)
}
