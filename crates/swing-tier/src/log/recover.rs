//! Opening a log: root, manifest, journal, files; nothing is believed before it is checked.
//!
//! Recovery reads and does not write, but for three things that a writer does at the end: it makes
//! durable what it has seen (a killed process may have left commits that are in the journal and not
//! yet on the disk), and it removes files that no state refers to. A new journal is made by the
//! first commit; the old one, whose end may be torn, is not written any more (INV-TIER-4).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::{Damage, OpenError};
use crate::log::commit::{Committer, Pending};
use crate::log::files::{FileSizes, Files, LogFile, file_name, parse_name};
use crate::log::format::{FORMAT_VERSION, Piece};
use crate::log::journal::replay;
use crate::log::manifest::{SwitchError, write_root};
use crate::log::options::LogOptions;
use crate::log::queues::{QueueGuard, queue};
use crate::log::read::{Target, read_pieces};
use crate::log::root::{NEW_ROOT_NAME, NotARoot, ROOT_BYTES, ROOT_NAME, Root};
use crate::log::shared::{Live, Shared};
use crate::log::spare::Spare;
use crate::log::state::{FileFacts, FileKind, State};
use crate::log::write::read_at;
use crate::process::{ProcessMark, random_u64};
use crate::storage::{Access, Locked, Storage};
use crate::sync::{AtomicU64, Mutex};
use crate::units::{FileId, Generation, MAX_BLOCK_BYTES, UNIT_BYTES, round_down, round_up};

/// The file whose lock says that a log is open.
const LOCK_NAME: &str = "lock";

/// Makes an empty log.
pub(crate) fn create(storage: &Arc<dyn Storage>, options: &LogOptions) -> Result<(), OpenError> {
    let _lock = take_lock(&**storage, Access::Write)?;
    let names = storage.list()?;
    let taken = names.iter().find(|name| *name == ROOT_NAME || parse_name(name).is_some());
    if let Some(file) = taken {
        let path = storage.path().to_owned();
        return Err(OpenError::AlreadyThere { path, file: file.clone() });
    }
    let root = Root { log: random_u64(), ..Root::default() };
    let owner = Arc::new(());
    let mut queue = queue(&**storage, &options.queue, &owner)?;
    match write_root(&**storage, &mut *queue, &root) {
        Ok(()) => Ok(()),
        Err(SwitchError::Before(error) | SwitchError::Unclear(error)) => Err(error.into()),
    }
}

fn take_lock(storage: &dyn Storage, access: Access) -> Result<Locked, OpenError> {
    if access == Access::Write
        && let Some(owner) = storage.foreign_owner()?
    {
        return Err(OpenError::ForeignDirectory { path: storage.path().to_owned(), owner });
    }
    match storage.lock(LOCK_NAME, access == Access::Write)? {
        Locked::Busy { pid } => Err(OpenError::InUse { path: storage.path().to_owned(), pid }),
        held => Ok(held),
    }
}

/// Opens the newest committed state.
pub(crate) fn open(
    storage: Arc<dyn Storage>,
    options: LogOptions,
    access: Access,
) -> Result<Shared, OpenError> {
    let held = take_lock(&*storage, access)?;
    let owner = Arc::new(());
    let mut recovery = Recovery {
        queue: queue(&*storage, &options.queue, &owner)?,
        storage: &*storage,
        options: &options,
        open: BTreeMap::new(),
    };
    let root = recovery.root()?;
    let mut state = recovery.manifest(&root)?;
    recovery.journal(&root, &mut state)?;
    recovery.check_files(&mut state)?;
    let names = storage.list()?;
    let largest = names.iter().filter_map(|name| parse_name(name)).map(|(_, id)| id.0 + 1).max();
    let next_file = root.next_file.max(largest.unwrap_or(0));
    if access == Access::Write {
        recovery.settle(&root, &state, &names)?;
    }
    let align = options.stripe().block_align();
    let sizes = FileSizes { most: options.file_bytes, step: options.reserve_bytes, align };
    let files = Files::new(storage.clone(), sizes, next_file);
    for file in recovery.open.into_values() {
        let used = round_up(file.file.len()?);
        files.adopt(file, used);
    }
    drop(recovery.queue);
    let manifest: Vec<Piece> = root.manifest.iter().map(|(piece, _)| *piece).collect();
    files.add_live(&manifest);
    files.add_live(state.records.values().flat_map(|entry| entry.pieces.iter()));
    let next_record = AtomicU64::new(state.next_record);
    let limbo = state.limbo();
    let live = Live { state, limbo, manifest, ..Live::default() };
    let committer = Committer { root, ..Committer::default() };
    Ok(Shared {
        storage,
        options,
        access,
        files,
        live: Mutex::new(live),
        committer: Mutex::new(committer),
        pending: Mutex::new(Pending::default()),
        next_record,
        spare: Spare::default(),
        owner,
        mark: ProcessMark::current(),
        _lock: held,
    })
}

struct Recovery<'a> {
    queue: QueueGuard,
    storage: &'a dyn Storage,
    options: &'a LogOptions,
    open: BTreeMap<FileId, Arc<LogFile>>,
}

impl Recovery<'_> {
    fn damage(&self, name: &str, detail: &str) -> OpenError {
        let path = self.storage.path().join(name);
        OpenError::Damaged(Damage { path, offset: 0, len: 0, detail: detail.to_owned() })
    }

    fn root(&mut self) -> Result<Root, OpenError> {
        let path = self.storage.path();
        let Some(file) = self.storage.open(ROOT_NAME, Access::Read)? else {
            return Err(match self.storage.list()?.iter().any(|name| parse_name(name).is_some()) {
                true => OpenError::Missing { path: path.join(ROOT_NAME) },
                false => OpenError::NotALog { path: path.to_owned() },
            });
        };
        let len = round_down(file.len()?).min(ROOT_BYTES);
        let bytes = if len == 0 { Vec::new() } else { read_at(&mut *self.queue, &file, 0, len)? };
        Root::decode(&bytes).map_err(|what| match what {
            NotARoot::Version(found) => {
                let (path, known) = (path.join(ROOT_NAME), FORMAT_VERSION);
                OpenError::Version { path, found, known }
            }
            NotARoot::Damaged => self.damage(ROOT_NAME, "neither copy of the root is whole"),
        })
    }

    /// Opens a file that must be there.
    fn file(
        &mut self,
        id: FileId,
        kind: FileKind,
        generation: Generation,
    ) -> Result<Arc<LogFile>, OpenError> {
        if let Some(file) = self.open.get(&id) {
            return Ok(file.clone());
        }
        let name = file_name(kind, id);
        let Some(file) = self.storage.open(&name, Access::Read)? else {
            return Err(OpenError::Missing { path: self.storage.path().join(name) });
        };
        let file = LogFile::new(id, FileFacts { kind, generation }, file, true);
        self.open.insert(id, file.clone());
        Ok(file)
    }

    fn manifest(&mut self, root: &Root) -> Result<State, OpenError> {
        if root.manifest.is_empty() {
            return Ok(State::default());
        }
        let total: u64 = root.manifest.iter().map(|(piece, _)| u64::from(piece.len)).sum();
        let mut bytes = vec![0; total as usize];
        let (mut rest, mut targets) = (&mut bytes[..], Vec::new());
        for (piece, generation) in &root.manifest {
            let file = self.file(piece.file, FileKind::Data, *generation)?;
            if file.generation() != *generation || u64::from(piece.len) > MAX_BLOCK_BYTES {
                return Err(self.damage(ROOT_NAME, "the root contradicts itself"));
            }
            let (into, behind) = rest.split_at_mut(piece.len as usize);
            targets.push(Target { file, piece: *piece, into });
            rest = behind;
        }
        read_pieces(&mut *self.queue, targets, &self.options.cost())?;
        let state = State::decode(&bytes).filter(|state| state.epoch == root.base);
        let mut state =
            state.ok_or_else(|| self.damage(ROOT_NAME, "the manifest is not that of the root"))?;
        state.files.extend(self.open.iter().map(|(&id, file)| (id, file.facts)));
        Ok(state)
    }

    fn journal(&mut self, root: &Root, state: &mut State) -> Result<(), OpenError> {
        if let Some((id, generation)) = root.journal {
            let file = self.file(id, FileKind::Journal, generation)?;
            state.files.insert(id, file.facts);
            let len = round_down(file.file.len()?).min(super::options::MAX_JOURNAL_BYTES);
            let bytes = match len {
                0 => Vec::new(),
                len => read_at(&mut *self.queue, &file.file, 0, len)?,
            };
            let mut left = Vec::new();
            replay(&file, &bytes, |delta| state.apply(delta, &mut left))?;
        }
        if state.epoch < root.floor {
            let name = root.journal.map(|(id, _)| file_name(FileKind::Journal, id));
            let name = name.unwrap_or_else(|| ROOT_NAME.to_owned());
            return Err(self.damage(&name, "commits at its end are missing"));
        }
        Ok(())
    }

    /// Opens every file that a record needs, and sees that it is long enough. Takes records out
    /// that nobody can ask for.
    fn check_files(&mut self, state: &mut State) -> Result<(), OpenError> {
        state.sweep(&mut state.limbo(), &BTreeMap::new());
        let mut ends: BTreeMap<FileId, u64> = BTreeMap::new();
        for piece in state.records.values().flat_map(|entry| entry.pieces.iter()) {
            let end = ends.entry(piece.file).or_default();
            *end = (*end).max(piece.end());
        }
        for (id, end) in ends {
            let Some(&FileFacts { kind, generation }) = state.files.get(&id) else {
                return Err(self.damage(ROOT_NAME, "a record lies in a file that is not named"));
            };
            let file = self.file(id, kind, generation)?;
            let len = file.file.len()?;
            if round_up(end) > len {
                let detail = format!("the file has {len} bytes, records need {end}");
                let (path, offset) = (file.path().to_owned(), len - len % UNIT_BYTES);
                return Err(Damage { path, offset, len: end - offset, detail }.into());
            }
        }
        state.files.retain(|id, _| self.open.contains_key(id));
        Ok(())
    }

    /// Makes durable what was recovered, and removes what nobody refers to.
    fn settle(&self, root: &Root, state: &State, names: &[String]) -> Result<(), OpenError> {
        self.storage.sync_directory()?;
        if let Some(journal) = root.journal.and_then(|(id, _)| self.open.get(&id)) {
            journal.file.sync()?;
        }
        for name in names {
            let orphan = parse_name(name).is_some_and(|(_, id)| !state.files.contains_key(&id));
            if orphan || name == NEW_ROOT_NAME {
                self.storage.remove(name)?;
            }
        }
        Ok(())
    }
}
