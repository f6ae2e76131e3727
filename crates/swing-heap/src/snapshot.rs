//! A shared state of a heap, as another process reads it: all objects of one moment, those that
//! were in memory and those on the disk.
//!
//! The snapshot maps the state of the area and has the file of blocks open. Objects that were in
//! memory are read in place; others are read from the file, which the heap's owner leaves as it is
//! where the state needs it (INV-OBJ-9). All that was read from the file is checked against the
//! checksum in the table (INV-OBJ-4).
//!
//! **What is believed.** Nothing: words of the table are checked before use, as another process has
//! written them. A state that contradicts itself is an error of that object.
//!
//! **Concurrency.** Any thread. **Crash.** Lease, mapping and file go with the reader; those of a
//! dead owner stay.

use std::borrow::Cow;
use std::fs::File;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use swing::{AreaName, AreaOffset, Epoch, Namespace, Snapshot};
use swing_tier::{Cause, IoError, KeptFile};

use crate::disk::{self, BLOCK_BYTES};
use crate::entry::{
    DiskPlace, FREE, Handle, RESIDENT, STATE, address_and_len, checksum, generation, settled,
};
use crate::error::HeapError;
use crate::memory::{CHUNKS_START, DATA_START};
use crate::state::State;

/// Bytes of an entry of the object table.
const ENTRY_BYTES: u64 = 16;

/// All objects of a heap in an area, as they were when a state was shared. See
/// [`crate::ObjectHeap::open_in`] for an example.
#[derive(Debug)]
pub struct HeapSnapshot {
    snapshot: Snapshot,
    file: KeptFile,
    state: State,
}

// Any thread may read.
const _: fn() = || {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<HeapSnapshot>();
};

/// Where an object is.
enum Found {
    InMemory(AreaOffset, usize),
    OnDisk(DiskPlace, u32),
}

impl HeapSnapshot {
    /// Opens the newest state that the heap of a name has shared. It stays as it is until it is
    /// dropped, also when the heap goes on, is closed, or its process is killed.
    ///
    /// # Errors
    /// [`HeapError::Area`] if there is no such area, or it has shared nothing;
    /// [`HeapError::NoHeap`] if no heap is in it; [`HeapError::OwnerGone`] if the heap's process
    /// has ended, or is another user's.
    pub fn open(namespace: &Namespace, name: &AreaName) -> Result<Self, HeapError> {
        // Nobody else has this snapshot: one that an area is derived from shows that area.
        let snapshot = namespace.hook(name)?;
        let state = State::decode(snapshot.payload()).map_err(HeapError::NoHeap)?;
        // The lease is held: the owner keeps the file's blocks as they are.
        let path = format!("/proc/{}/fd/{}", state.pid, state.fd);
        let gone = |why: String| HeapError::OwnerGone { pid: state.pid, why };
        let file = File::open(&path).map_err(|e| gone(e.to_string()))?;
        let facts = file.metadata().map_err(|e| gone(e.to_string()))?;
        if (facts.dev(), facts.ino()) != state.file {
            return Err(gone("it has another file there".to_owned()));
        }
        // As long as the owner lives, its file can be opened again.
        let file = KeptFile::new(file, Some(Path::new(&path)));
        Ok(HeapSnapshot { snapshot, file, state })
    }

    /// Which state it is; later ones have larger numbers.
    pub fn epoch(&self) -> Epoch {
        self.snapshot.epoch()
    }

    /// The object by which the program finds all others.
    pub fn root(&self) -> Option<Handle> {
        self.state.root
    }

    /// The handles of all objects, in no useful order.
    pub fn handles(&self) -> impl Iterator<Item = Handle> + '_ {
        self.handles_after(None)
    }

    /// The handles that [`HeapSnapshot::handles`] gives behind one of them; all of them behind
    /// `None`. So a program that takes some at a time goes on where it was.
    pub fn handles_after(&self, last: Option<Handle>) -> impl Iterator<Item = Handle> + '_ {
        let first = last.map_or(0, |handle| handle.id().saturating_add(1));
        (first..self.state.ids).filter_map(|id| {
            let (state, _) = self.entry(id)?;
            (state & STATE != FREE).then(|| Handle::new(id, generation(state)))
        })
    }

    /// An object's bytes: in place if it was in memory, else a copy from the disk.
    ///
    /// # Errors
    /// [`HeapError::NoObject`] if the state has no such object; [`HeapError::Io`],
    /// [`HeapError::Damaged`], [`HeapError::NoHeap`].
    pub fn read(&self, handle: Handle) -> Result<Cow<'_, [u8]>, HeapError> {
        match self.find(handle)? {
            Found::InMemory(at, len) => self.bytes(at, len).map(Cow::Borrowed),
            Found::OnDisk(place, sum) => self.read_disk(handle, place, sum).map(Cow::Owned),
        }
    }

    /// An object's bytes in place, which stay there as long as the snapshot; `None` if the object
    /// was on the disk.
    ///
    /// # Errors
    /// [`HeapError::NoObject`] if the state has no such object; [`HeapError::NoHeap`].
    pub fn in_place(&self, handle: Handle) -> Result<Option<&[u8]>, HeapError> {
        match self.find(handle)? {
            Found::InMemory(at, len) => self.bytes(at, len).map(Some),
            Found::OnDisk(..) => Ok(None),
        }
    }

    /// An object's length in bytes; reads nothing from the disk.
    ///
    /// # Errors
    /// [`HeapError::NoObject`], [`HeapError::NoHeap`].
    pub fn len_of(&self, handle: Handle) -> Result<usize, HeapError> {
        Ok(match self.find(handle)? {
            Found::InMemory(_, len) => len,
            Found::OnDisk(place, _) => place.len,
        })
    }

    fn find(&self, handle: Handle) -> Result<Found, HeapError> {
        let missing = HeapError::NoObject { handle };
        let Some((state, place)) = self.entry(handle.id()) else { return Err(missing) };
        if state & STATE == FREE || generation(state) != handle.generation() {
            return Err(missing);
        }
        if state & STATE != RESIDENT {
            return Ok(Found::OnDisk(DiskPlace::decode(place), checksum(state)));
        }
        let (address, len) = address_and_len(place);
        match (address as u64).checked_sub(self.state.base).filter(|at| *at >= CHUNKS_START) {
            Some(at) => Ok(Found::InMemory(AreaOffset(at), len)),
            None => Err(HeapError::NoHeap("an object lies outside of it")),
        }
    }

    /// The words of an entry, if the table has it.
    fn entry(&self, id: u32) -> Option<(u64, u64)> {
        if id >= self.state.ids {
            return None;
        }
        let at = AreaOffset(u64::from(id) * ENTRY_BYTES);
        let bytes = self.bytes(at, ENTRY_BYTES as usize).ok()?;
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_ne_bytes(word)
        };
        Some((settled(word(0)), word(8)))
    }

    /// Bytes of the area.
    fn bytes(&self, at: AreaOffset, len: usize) -> Result<&[u8], HeapError> {
        let end = at.0.saturating_add(len as u64);
        if !self.snapshot.is_mapped(&(at..AreaOffset(end))) {
            return Err(HeapError::NoHeap("it names memory that it does not have"));
        }
        // SAFETY: mapped as long as the snapshot lives, and nobody changes what a state shows
        // (INV-AREA-1).
        Ok(unsafe {
            let from = self.snapshot.base().as_ptr().add(at.as_usize());
            std::slice::from_raw_parts(from, len)
        })
    }

    fn read_disk(&self, handle: Handle, place: DiskPlace, sum: u32) -> Result<Vec<u8>, HeapError> {
        let DiskPlace { block, offset, len, .. } = place;
        let damaged = HeapError::Damaged { handle, block, offset, len };
        if block >= self.state.blocks || offset as usize + len > BLOCK_BYTES {
            return Err(damaged);
        }
        let in_buffer = self.state.buffers.iter().position(|other| *other == Some(block));
        let bytes = match in_buffer {
            Some(buffer) => {
                let start = DATA_START + (buffer * BLOCK_BYTES) as u64 + u64::from(offset);
                self.bytes(AreaOffset(start), len)?.to_vec()
            }
            None => {
                let mut bytes = vec![0; len];
                let at = u64::from(block) * BLOCK_BYTES as u64 + u64::from(offset);
                let failed = |cause| {
                    let path = Path::new("the object heap's file");
                    IoError::new("read", path, cause).at(at, len as u64)
                };
                let file = self.file.here(true).ok_or_else(|| failed(Cause::Closed))?;
                read_exact_at(file, &mut bytes, at).map_err(failed)?;
                bytes
            }
        };
        if disk::checksum(self.state.seed, handle, block, offset, &bytes) != sum {
            return Err(damaged);
        }
        Ok(bytes)
    }
}

/// Reads at an offset until all bytes are there.
fn read_exact_at(file: BorrowedFd<'_>, bytes: &mut [u8], at: u64) -> Result<(), Cause> {
    let mut done = 0;
    while done < bytes.len() {
        match rustix::io::pread(file, &mut bytes[done..], at + done as u64) {
            Ok(0) => return Err(Cause::Short { moved: done as u64 }),
            Ok(moved) => done += moved,
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(Cause::Os(errno.raw_os_error())),
        }
    }
    Ok(())
}
