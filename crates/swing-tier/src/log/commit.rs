//! Commits: one write and one sync, shared by all who commit at the same moment.
//!
//! Whoever gets the committer's lock writes for all that wait. The order that makes a commit
//! correct: (1) the batches' data blocks are written and their files synced, before the batch gets
//! here; (2) the names of new files are made durable; (3) one commit block is appended to the
//! journal, and the journal synced; (4) only then does the state in memory change, and the callers
//! hear of it. A crash before the end of (3) leaves the state before, a crash after it the new one.
//!
//! Where the journal has no room, the whole new state is written as a manifest and the root
//! switched to it (`manifest.rs`): that is a commit as well.
//!
//! **A failed commit stays failed.** After a failed write or sync of the journal nobody knows what
//! is on the disk. So the journal is given up: a manifest of the state *before* is written, with a
//! new journal, and what the old one may hold counts no more. If that fails as well, the outcome is
//! [`CommitError::Unknown`], and the handle takes no more commits (INV-TIER-6).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::error::{CommitError, Fault, IoError};
use crate::log::batch::{Changes, Target, limit};
use crate::log::files::lock;
use crate::log::format::Piece;
use crate::log::journal::{Journal, MAX_COMMIT_BYTES, SMALL_AT};
use crate::log::root::Root;
use crate::log::shared::{Live, Shared};
use crate::log::state::{Delta, MAX_CHECKPOINTS, Moved, State};
use crate::log::write::{BlockWriter, write_at};
use crate::units::{Epoch, FileId, RecordId};

/// Who writes commits.
#[derive(Debug, Default)]
pub(crate) struct Committer {
    pub(crate) journal: Option<Journal>,
    pub(crate) root: Root,
    /// An outcome is unknown, or a thread died on the way.
    pub(crate) broken: bool,
}

impl Committer {
    /// The journal that the root names: needed until the next root, also if nobody appends to it.
    pub(crate) fn journal_id(&self) -> Option<FileId> {
        self.root.journal.map(|(id, _)| id)
    }
}

/// The batches that wait for a commit, and the results of those that do not any more.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    tickets: u64,
    waiting: Vec<(u64, Changes)>,
    done: BTreeMap<u64, Result<Epoch, CommitError>>,
}

type Outcome = Result<Epoch, CommitError>;

impl Shared {
    /// Commits the changes of a batch, together with those of others that wait.
    pub(crate) fn commit(&self, changes: Changes) -> Outcome {
        let ticket = {
            let mut pending = lock(&self.pending);
            pending.tickets += 1;
            let ticket = pending.tickets;
            pending.waiting.push((ticket, changes));
            ticket
        };
        let mut committer = lock(&self.committer);
        loop {
            if let Some(outcome) = lock(&self.pending).done.remove(&ticket) {
                return outcome;
            }
            let group = lock(&self.pending).next_group();
            if group.is_empty() {
                // The thread that had this batch died on the way.
                committer.broken = true;
                return Err(CommitError::Broken);
            }
            let tickets: Vec<_> = group.iter().map(|(ticket, _)| *ticket).collect();
            let outcomes = self.commit_group(&mut committer, group);
            lock(&self.pending).done.extend(tickets.into_iter().zip(outcomes));
        }
    }

    fn commit_group(&self, committer: &mut Committer, group: Vec<(u64, Changes)>) -> Vec<Outcome> {
        if committer.broken || self.check_whole().is_err() {
            return group.iter().map(|_| Err(CommitError::Broken)).collect();
        }
        committer.broken = true;
        let mut merged = Merged::default();
        let mut outcomes: Vec<Result<(), CommitError>> = Vec::with_capacity(group.len());
        {
            let live = lock(&self.live);
            for (_, changes) in group {
                outcomes.push(merged.add(&live.state, changes));
            }
        }
        let result = if outcomes.iter().any(Result::is_ok) {
            self.write_commit(committer, merged)
        } else {
            Ok(Epoch(0))
        };
        committer.broken = matches!(result, Err(CommitError::Unknown(_) | CommitError::Broken));
        if result.is_ok() {
            self.remove_dead_files_but(committer.journal_id());
            self.keep_spare();
        }
        outcomes.into_iter().map(|member| member.and_then(|()| result.clone())).collect()
    }

    fn write_commit(&self, committer: &mut Committer, merged: Merged) -> Outcome {
        self.files.sync_names().map_err(Fault::Io)?;
        let (epoch, known) = {
            let live = lock(&self.live);
            (Epoch(live.state.epoch.0 + 1), live.state.files.clone())
        };
        let new: BTreeSet<FileId> =
            merged.changes.files().filter(|id| !known.contains_key(id)).collect();
        let files = new.iter().filter_map(|&id| Some((id, self.files.get(id)?.facts))).collect();
        let next_record = self.next_record.load(std::sync::atomic::Ordering::Relaxed);
        let mut delta = Delta { epoch, next_record, files, ..merged.fixed() };
        if let Some(journal) = &mut committer.journal {
            let (id, generation) = (journal.file.id, journal.file.generation());
            let small_at = journal.tail.next + SMALL_AT;
            let small = &merged.changes.small;
            merged.resolve(&mut delta, |from, len| {
                Piece::of(&small[from..from + len], id, generation, small_at + from as u64)
            });
            let encoded = delta.encode();
            let (block, next) = journal.tail.encode(epoch, small, &encoded);
            let fits = small.len() + encoded.len() <= MAX_COMMIT_BYTES && next.next <= journal.end;
            if fits {
                let zeros = journal.zeros_behind(next.next);
                return match self.append(journal, &block, &zeros) {
                    Ok(()) => {
                        journal.zeroed = journal.zeroed.max(zeros.end);
                        journal.tail = next;
                        self.files.add_used(id, block.len() as u64);
                        self.adopt(&delta);
                        Ok(epoch)
                    }
                    Err(failure) => Err(self.take_back(committer, failure)),
                };
            }
        }
        self.commit_as_manifest(committer, merged, delta)
    }

    /// Appends a block to the journal, and zeros behind it, and makes it durable.
    fn append(
        &self,
        journal: &Journal,
        block: &[u8],
        zeros: &Range<u64>,
    ) -> Result<(), AppendError> {
        let mut queue = self.queue().map_err(AppendError::Nothing)?;
        let file = &journal.file.file;
        let mut written = write_at(&mut *queue, file, journal.tail.next, block);
        if written.is_ok() && !zeros.is_empty() {
            let zero = vec![0; (zeros.end - zeros.start) as usize];
            written = write_at(&mut *queue, file, zeros.start, &zero);
        }
        if let Err(error) = written {
            // Also where there was no room: the part that was written may be the whole commit.
            journal.file.fail();
            return Err(AppendError::Unclear(error));
        }
        journal.file.sync().map_err(AppendError::Unclear)
    }

    /// After a failed append: sees to it that the commit has not happened.
    fn take_back(&self, committer: &mut Committer, failure: AppendError) -> CommitError {
        let error = match failure {
            AppendError::Nothing(error) => return Fault::Io(error).into(),
            AppendError::Unclear(error) => error,
        };
        let before = lock(&self.live).state.clone();
        match self.switch(committer, &before, true) {
            Ok(()) => Fault::Io(error).into(),
            Err(_) => CommitError::Unknown(error),
        }
    }

    fn commit_as_manifest(
        &self,
        committer: &mut Committer,
        mut merged: Merged,
        mut delta: Delta,
    ) -> Outcome {
        let mut claims = Vec::new();
        let makes_room = merged.changes.makes_room(self);
        if !merged.changes.small.is_empty() {
            let small = &merged.changes.small;
            let (place, written) = self.with_room(committer.journal_id(), makes_room, || {
                let mut writer = BlockWriter::new(self.queue().map_err(Fault::Io)?);
                let place = writer.write(&self.files, small)?;
                Ok((place, writer.finish()?))
            })?;
            claims = written;
            merged.changes.settle(&place);
            if !lock(&self.live).state.files.contains_key(&place.file.id) {
                delta.files.push((place.file.id, place.file.facts));
            }
        }
        // Nothing is left inside, so nothing is asked for.
        merged.resolve(&mut delta, |from, len| unreachable!("{len} bytes are left at {from}"));
        let mut next = lock(&self.live).state.clone();
        let fits = next.apply(&delta, &mut Vec::new());
        assert!(fits, "INV-TIER-8: a commit is checked against the state before it");
        self.switch(committer, &next, makes_room)?;
        self.adopt(&delta);
        drop(claims);
        Ok(delta.epoch)
    }

    /// The commit is durable: the state in memory follows.
    fn adopt(&self, delta: &Delta) {
        let mut live = lock(&self.live);
        let mut left = Vec::new();
        let fits = live.state.apply(delta, &mut left);
        assert!(fits, "INV-TIER-8: a commit is checked against the state before it");
        let added = delta.added.iter().flat_map(|(_, pieces)| pieces);
        self.files.add_live(added.chain(delta.moved.iter().map(|moved| &moved.to)));
        self.files.add_dead(&left);
        let Live { state, leases, limbo, .. } = &mut *live;
        if !delta.release.is_empty() || !delta.retain.is_empty() {
            *limbo = state.limbo();
        }
        limbo.extend(&delta.freed);
        let dead = state.sweep(limbo, leases);
        self.files.add_dead(&dead);
    }
}

/// Why appending to the journal failed.
enum AppendError {
    /// The commit is not in the journal.
    Nothing(IoError),
    /// The commit may be in the journal.
    Unclear(IoError),
}

impl Pending {
    /// The batches whose changes fit into one commit; at least one, if any waits.
    fn next_group(&mut self) -> Vec<(u64, Changes)> {
        let mut bytes = 0;
        let fitting = self.waiting.iter().take_while(|(_, changes)| {
            let first = bytes == 0;
            bytes += changes.weight();
            first || bytes <= MAX_COMMIT_BYTES / 2
        });
        let count = fitting.count();
        self.waiting.drain(..count).collect()
    }
}

impl Changes {
    /// About how many bytes the changes take in a commit.
    fn weight(&self) -> usize {
        let pieces: usize = self.added.iter().map(|added| 16 + 24 * added.pieces.len()).sum();
        let names: usize = self.retain.iter().chain(&self.release).map(|name| 4 + name.len()).sum();
        let root = self.root.as_ref().map_or(0, Vec::len);
        let lists = 8 * self.freed.len() + 40 * self.moving.len();
        64 + self.small.len() + pieces + names + root + lists
    }
}

/// The changes of several batches as one.
#[derive(Debug, Default)]
struct Merged {
    changes: Changes,
    freed: BTreeSet<RecordId>,
}

impl Merged {
    /// Takes a batch in, if all that it names is there.
    fn add(&mut self, state: &State, mut batch: Changes) -> Result<(), CommitError> {
        self.check(state, &batch)?;
        self.freed.extend(&batch.freed);
        self.changes.freed.append(&mut batch.freed);
        batch.moving.retain(|moving| {
            let entry = state.records.get(&moving.id);
            entry.is_some_and(|e| e.pieces.get(moving.index as usize) == Some(&moving.old))
        });
        let base = self.changes.small.len().next_multiple_of(8);
        self.changes.small.resize(base, 0);
        self.changes.small.append(&mut batch.small);
        let added = batch.added.iter_mut().flat_map(|added| &mut added.pieces);
        for target in added.chain(batch.moving.iter_mut().map(|moving| &mut moving.to)) {
            if let Target::Inside { from, .. } = target {
                *from += base;
            }
        }
        self.changes.added.append(&mut batch.added);
        self.changes.moving.append(&mut batch.moving);
        self.changes.claims.append(&mut batch.claims);
        self.changes.retain.append(&mut batch.retain);
        self.changes.release.append(&mut batch.release);
        self.changes.uses_spare |= batch.uses_spare;
        if let Some(root) = batch.root {
            self.changes.root = Some(root);
        }
        Ok(())
    }

    fn check(&self, state: &State, batch: &Changes) -> Result<(), CommitError> {
        let mut own = BTreeSet::new();
        for &id in &batch.freed {
            let there = state.records.get(&id).is_some_and(|entry| entry.freed.is_none());
            if !there || self.freed.contains(&id) || !own.insert(id) {
                return Err(CommitError::NotThere { what: id.to_string() });
            }
        }
        for name in &batch.release {
            if !state.retained.contains_key(name) || self.changes.release.contains(name) {
                return Err(CommitError::NotThere { what: format!("checkpoint {name:?}") });
            }
        }
        if let Some(file) = batch.claims.iter().find(|claim| claim.0.has_failed()) {
            return Err(CommitError::Lost { path: file.0.path().to_owned() });
        }
        let count = state.retained.len() + self.changes.retain.len() + batch.retain.len();
        limit("checkpoints", count, MAX_CHECKPOINTS)
    }

    /// What does not depend on where the small records come to lie.
    fn fixed(&self) -> Delta {
        Delta {
            root: self.changes.root.clone(),
            freed: self.changes.freed.clone(),
            retain: self.changes.retain.clone(),
            release: self.changes.release.clone(),
            ..Delta::default()
        }
    }

    /// Fills in where all pieces lie; `inside` says it of those in the buffer of small records.
    fn resolve(&self, delta: &mut Delta, inside: impl Fn(usize, usize) -> Piece) {
        let place = |target: &Target| match *target {
            Target::At(piece) => piece,
            Target::Inside { from, len } => inside(from, len),
        };
        let added = self.changes.added.iter();
        delta.added =
            added.map(|added| (added.id, added.pieces.iter().map(place).collect())).collect();
        let moving = self.changes.moving.iter();
        delta.moved = moving
            .map(|moving| Moved { id: moving.id, index: moving.index, to: place(&moving.to) })
            .collect();
    }
}
