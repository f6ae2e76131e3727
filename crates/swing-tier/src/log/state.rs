//! What a log contains at one epoch, and what a commit changes in it.
//!
//! A record is visible at the epochs `[born, freed)`. It stays in the state, and its bytes on the
//! disk, as long as a state that somebody can still ask for lies in that interval: the current one,
//! one that a lease holds, or one that a checkpoint retains (INV-TIER-5).

use std::collections::BTreeMap;

use crate::log::codec::{Reader, Writer};
use crate::log::format::Piece;
use crate::units::{Epoch, FileId, Generation, RecordId};

/// The longest root payload, in bytes.
pub const MAX_ROOT_BYTES: usize = 16 << 10;
/// The most checkpoints that a log retains at one time.
pub const MAX_CHECKPOINTS: usize = 1024;
/// The longest name of a checkpoint, in bytes.
pub const MAX_NAME_BYTES: usize = 255;

/// What a file holds; it decides the file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// Blocks of records and of manifests.
    Data,
    /// Commits, with small records inside.
    Journal,
}

/// What the state knows of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileFacts {
    pub(crate) kind: FileKind,
    pub(crate) generation: Generation,
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) born: Epoch,
    /// The first epoch that does not show the record.
    pub(crate) freed: Option<Epoch>,
    pub(crate) pieces: Box<[Piece]>,
}

impl Entry {
    pub(crate) fn is_visible(&self, at: Epoch) -> bool {
        self.born <= at && self.freed.is_none_or(|freed| at < freed)
    }

    /// Length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.pieces.iter().map(|piece| u64::from(piece.len)).sum()
    }
}

/// A state that stays until it is released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Retained {
    pub(crate) epoch: Epoch,
    pub(crate) root: Vec<u8>,
}

/// All that a log contains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) epoch: Epoch,
    pub(crate) next_record: u64,
    pub(crate) root: Vec<u8>,
    pub(crate) files: BTreeMap<FileId, FileFacts>,
    pub(crate) records: BTreeMap<RecordId, Entry>,
    pub(crate) retained: BTreeMap<String, Retained>,
}

/// What one commit changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delta {
    pub(crate) epoch: Epoch,
    pub(crate) next_record: u64,
    pub(crate) root: Option<Vec<u8>>,
    pub(crate) files: Vec<(FileId, FileFacts)>,
    pub(crate) added: Vec<(RecordId, Vec<Piece>)>,
    pub(crate) freed: Vec<RecordId>,
    pub(crate) moved: Vec<Moved>,
    pub(crate) retain: Vec<String>,
    pub(crate) release: Vec<String>,
}

/// One piece of a record that lies somewhere else now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) id: RecordId,
    pub(crate) index: u32,
    pub(crate) to: Piece,
}

impl State {
    /// Does what a commit says. `false` if it does not fit this state: its bytes were no commit of
    /// this log. Returns the pieces that moved away in `left`.
    pub(crate) fn apply(&mut self, delta: &Delta, left: &mut Vec<Piece>) -> bool {
        if delta.epoch.0 != self.epoch.0 + 1 || delta.next_record < self.next_record {
            return false;
        }
        self.files.extend(delta.files.iter().copied());
        for (id, pieces) in &delta.added {
            let pieces = pieces.clone().into_boxed_slice();
            let entry = Entry { born: delta.epoch, freed: None, pieces };
            if self.records.insert(*id, entry).is_some() {
                return false;
            }
        }
        for id in &delta.freed {
            match self.records.get_mut(id) {
                Some(entry) if entry.freed.is_none() => entry.freed = Some(delta.epoch),
                _ => return false,
            }
        }
        for moved in &delta.moved {
            let entry = self.records.get_mut(&moved.id);
            match entry.and_then(|entry| entry.pieces.get_mut(moved.index as usize)) {
                Some(piece) if piece.len == moved.to.len => {
                    left.push(std::mem::replace(piece, moved.to));
                }
                _ => return false,
            }
        }
        if let Some(root) = &delta.root {
            self.root.clone_from(root);
        }
        self.epoch = delta.epoch;
        self.next_record = delta.next_record;
        for name in &delta.release {
            self.retained.remove(name);
        }
        for name in &delta.retain {
            let retained = Retained { epoch: self.epoch, root: self.root.clone() };
            self.retained.insert(name.clone(), retained);
        }
        true
    }

    /// Whether nobody can ask for a state that shows the record: no lease, no checkpoint.
    pub(crate) fn is_unreachable(&self, entry: &Entry, leases: &BTreeMap<Epoch, usize>) -> bool {
        let Some(freed) = entry.freed else { return false };
        let shown = |epoch: Epoch| entry.born <= epoch && epoch < freed;
        leases.range(entry.born..freed).next().is_none()
            && !self.retained.values().any(|retained| shown(retained.epoch))
    }

    /// Takes out those of `limbo`, the freed records, that nobody can ask for any more, and returns
    /// their pieces.
    pub(crate) fn sweep(
        &mut self,
        limbo: &mut Vec<RecordId>,
        leases: &BTreeMap<Epoch, usize>,
    ) -> Vec<Piece> {
        let mut pieces = Vec::new();
        limbo.retain(|id| {
            let Some(entry) = self.records.get(id) else { return false };
            let stays = !self.is_unreachable(entry, leases);
            if !stays {
                pieces.extend_from_slice(&entry.pieces);
                self.records.remove(id);
            }
            stays
        });
        pieces
    }

    /// The records that are freed and still there.
    pub(crate) fn limbo(&self) -> Vec<RecordId> {
        let freed = self.records.iter().filter(|(_, entry)| entry.freed.is_some());
        freed.map(|(&id, _)| id).collect()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.u64(self.epoch.0);
        out.u64(self.next_record);
        out.string(&self.root);
        out.list(self.files.iter(), |out, (&id, facts)| write_file(out, id, *facts));
        out.list(self.records.iter(), |out, (id, entry)| {
            out.u64(id.0);
            out.u64(entry.born.0);
            out.u64(entry.freed.map_or(u64::MAX, |epoch| epoch.0));
            out.list(entry.pieces.iter(), Writer::piece);
        });
        out.list(self.retained.iter(), |out, (name, retained)| {
            out.string(name.as_bytes());
            out.u64(retained.epoch.0);
            out.string(&retained.root);
        });
        out.bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut input = Reader::new(bytes);
        let epoch = Epoch(input.u64()?);
        let next_record = input.u64()?;
        let root = input.string()?.to_vec();
        let files = input.list(read_file)?.into_iter().collect();
        let records = input.list(|input| {
            let id = RecordId(input.u64()?);
            let born = Epoch(input.u64()?);
            let freed = Some(input.u64()?).filter(|&epoch| epoch != u64::MAX).map(Epoch);
            let pieces = input.list(Reader::piece)?.into_boxed_slice();
            Some((id, Entry { born, freed, pieces }))
        })?;
        let retained = input.list(|input| {
            let name = read_name(input)?;
            let (epoch, root) = (Epoch(input.u64()?), input.string()?.to_vec());
            Some((name, Retained { epoch, root }))
        })?;
        let records = records.into_iter().collect();
        let retained = retained.into_iter().collect();
        let state = State { epoch, next_record, root, files, records, retained };
        Some(state).filter(|_| input.is_at_end())
    }
}

impl Delta {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.u64(self.epoch.0);
        out.u64(self.next_record);
        out.u8(u8::from(self.root.is_some()));
        if let Some(root) = &self.root {
            out.string(root);
        }
        out.list(self.files.iter(), |out, &(id, facts)| write_file(out, id, facts));
        out.list(self.added.iter(), |out, (id, pieces)| {
            out.u64(id.0);
            out.list(pieces.iter(), Writer::piece);
        });
        out.list(self.freed.iter(), |out, id| out.u64(id.0));
        out.list(self.moved.iter(), |out, moved| {
            out.u64(moved.id.0);
            out.u32(moved.index);
            out.piece(&moved.to);
        });
        out.list(self.retain.iter(), |out, name| out.string(name.as_bytes()));
        out.list(self.release.iter(), |out, name| out.string(name.as_bytes()));
        out.bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut input = Reader::new(bytes);
        let (epoch, next_record) = (Epoch(input.u64()?), input.u64()?);
        let root = match input.u8()? {
            0 => None,
            _ => Some(input.string()?.to_vec()),
        };
        let delta = Delta {
            epoch,
            next_record,
            root,
            files: input.list(read_file)?,
            added: input
                .list(|input| Some((RecordId(input.u64()?), input.list(Reader::piece)?)))?,
            freed: input.list(|input| input.u64().map(RecordId))?,
            moved: input.list(|input| {
                let (id, index) = (RecordId(input.u64()?), input.u32()?);
                Some(Moved { id, index, to: input.piece()? })
            })?,
            retain: input.list(read_name)?,
            release: input.list(read_name)?,
        };
        Some(delta).filter(|_| input.is_at_end())
    }
}

fn write_file(out: &mut Writer, id: FileId, facts: FileFacts) {
    out.u32(id.0);
    out.u8(u8::from(facts.kind == FileKind::Journal));
    out.u64(facts.generation.0);
}

fn read_file(input: &mut Reader<'_>) -> Option<(FileId, FileFacts)> {
    let id = FileId(input.u32()?);
    let kind = match input.u8()? {
        0 => FileKind::Data,
        1 => FileKind::Journal,
        _ => return None,
    };
    Some((id, FileFacts { kind, generation: Generation(input.u64()?) }))
}

fn read_name(input: &mut Reader<'_>) -> Option<String> {
    String::from_utf8(input.string()?.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(offset: u64) -> Piece {
        Piece { file: FileId(1), offset, len: 10, checksum: offset * 3 }
    }

    fn delta(epoch: u64) -> Delta {
        let facts = FileFacts { kind: FileKind::Data, generation: Generation(5) };
        Delta {
            epoch: Epoch(epoch),
            next_record: epoch * 10,
            root: Some(vec![epoch as u8]),
            files: vec![(FileId(epoch as u32), facts)],
            added: vec![(RecordId(epoch), vec![piece(64), piece(4160)])],
            ..Delta::default()
        }
    }

    #[test]
    fn state_and_delta_read_as_written_and_refuse_what_is_cut() {
        let mut state = State::default();
        assert!(state.apply(&delta(1), &mut Vec::new()));
        let mut second = delta(2);
        second.freed = vec![RecordId(1)];
        second.moved = vec![Moved { id: RecordId(2), index: 1, to: piece(9000) }];
        (second.retain, second.release) = (vec!["x".to_owned()], vec!["y".to_owned()]);
        assert_eq!(Delta::decode(&second.encode()), Some(second.clone()));
        let mut left = Vec::new();
        assert!(state.apply(&second, &mut left));
        assert_eq!(left, [piece(4160)]);
        let bytes = state.encode();
        assert_eq!(State::decode(&bytes), Some(state));
        assert!((0..bytes.len()).all(|len| State::decode(&bytes[..len]).is_none()));
        let bytes = second.encode();
        assert!((0..bytes.len()).all(|len| Delta::decode(&bytes[..len]).is_none()));
    }

    #[test]
    fn a_commit_that_does_not_fit_is_refused() {
        let mut state = State::default();
        assert!(!state.clone().apply(&delta(2), &mut Vec::new()), "an epoch is left out");
        assert!(state.apply(&delta(1), &mut Vec::new()));
        let mut wrong = delta(2);
        wrong.freed = vec![RecordId(9)];
        assert!(!state.clone().apply(&wrong, &mut Vec::new()), "no such record");
        let mut wrong = delta(2);
        wrong.added[0].0 = RecordId(1);
        assert!(!state.clone().apply(&wrong, &mut Vec::new()), "the id is taken");
    }

    #[test]
    fn records_stay_while_a_lease_or_a_checkpoint_shows_them() {
        let mut state = State::default();
        let mut first = delta(1);
        first.retain = vec!["kept".to_owned()];
        assert!(state.apply(&first, &mut Vec::new()));
        let mut second = delta(2);
        second.freed = vec![RecordId(1)];
        assert!(state.apply(&second, &mut Vec::new()));
        assert_eq!(
            state.sweep(&mut state.limbo(), &BTreeMap::new()),
            [],
            "the checkpoint shows it"
        );
        let release = Delta { epoch: Epoch(3), next_record: 30, ..Delta::default() };
        assert!(state.apply(&Delta { release: vec!["kept".to_owned()], ..release }, &mut vec![]));
        assert_eq!(
            state.sweep(&mut state.limbo(), &BTreeMap::from([(Epoch(1), 1)])),
            [],
            "the lease shows it"
        );
        assert_eq!(
            state.sweep(&mut state.limbo(), &BTreeMap::from([(Epoch(2), 1)])).len(),
            2,
            "no lease shows it"
        );
        assert!(!state.records.contains_key(&RecordId(1)));
    }
}
