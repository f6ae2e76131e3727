//! New bytes for a whole object, without reading the old ones.
//!
//! A write guard brings an object in before it changes. Who has all bytes needs none of them: the
//! object's entry becomes busy, gets a cell with the new bytes, and its copy on the disk is
//! forgotten. While the entry is busy the old bytes stay where they are, so a failure leaves the
//! object as it was.
//!
//! **Cycle.** The files with methods of the heap call each other.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use crate::classes::class_of;
use crate::entry::{DIRTY, DiskPlace, Entry, Handle, RESIDENT, STATE, WRITE, address_and_len};
use crate::error::HeapError;
use crate::guard::WriteGuard;
use crate::heap::{ObjectHeap, check_len};
use crate::signal;

enum Replaced {
    Done,
    /// The object has a length that does not fit, and is what it was.
    OtherLength(usize),
    /// There is no room as long as others, and this thread, use what they use.
    NoCell,
}

impl ObjectHeap {
    /// Gives an object these bytes and their length; the handle stays. Unlike a write guard, this
    /// reads nothing: the bytes before, if they are on the disk, are forgotten there. Counts as a
    /// hit if the object is in memory, else as no access.
    ///
    /// # Errors
    /// As for allocation, and [`HeapError::NoObject`], [`HeapError::InUse`]: the object is what it
    /// was.
    pub fn replace(&self, handle: Handle, bytes: &[u8]) -> Result<(), HeapError> {
        self.replace_if(handle, bytes, |_| true).map(drop)
    }

    /// As [`ObjectHeap::replace`], if that changes the object's length not. False: the object has
    /// another length, and is what it was.
    ///
    /// # Errors
    /// As [`ObjectHeap::replace`].
    pub fn overwrite(&self, handle: Handle, bytes: &[u8]) -> Result<bool, HeapError> {
        Ok(self.replace_if(handle, bytes, |len| len == bytes.len())?.is_none())
    }

    /// Returns the object's length if `fits` refuses it: nothing has changed then.
    pub(crate) fn replace_if(
        &self,
        handle: Handle,
        bytes: &[u8],
        fits: impl Fn(usize) -> bool,
    ) -> Result<Option<usize>, HeapError> {
        self.check_process()?;
        check_len(bytes.len())?;
        // The bytes may be an object, this one even, and are copied while nobody can have it.
        let copy = signal::any().then(|| bytes.to_vec());
        let bytes = copy.as_deref().unwrap_or(bytes);
        let started = Instant::now();
        loop {
            match self.try_replace(handle, bytes, &fits, started)? {
                Replaced::Done => return Ok(None),
                Replaced::OtherLength(len) => return Ok(Some(len)),
                Replaced::NoCell => self.shared.wait_for_users(),
            }
        }
    }

    fn try_replace(
        &self,
        handle: Handle,
        bytes: &[u8],
        fits: &impl Fn(usize) -> bool,
        started: Instant,
    ) -> Result<Replaced, HeapError> {
        // A state is not shared while bytes in memory are half replaced.
        let _writers = self.enter_writers(handle)?;
        if let Some((entry, address, len)) = self.acquire_resident(handle, WRITE)? {
            let mut guard = WriteGuard { entry, address, len, _writers: None };
            self.shared.changes.mark(handle.id());
            if !fits(len) {
                return Ok(Replaced::OtherLength(len));
            }
            if len == bytes.len() {
                guard.copy_from_slice(bytes);
                return Ok(Replaced::Done);
            }
        }
        let (entry, state) = self.claim_alone(handle)?;
        let replaced = self.replace_claimed((entry, state), handle, bytes, fits, started);
        if !matches!(replaced, Ok(Replaced::Done)) {
            entry.leave(entry.place.load(Relaxed), state);
        }
        replaced
    }

    /// As [`ObjectHeap::replace_if`], of an object whose entry is busy by the caller's doing, and
    /// stays so unless the object is replaced.
    fn replace_claimed(
        &self,
        (entry, state): (&Entry, u64),
        handle: Handle,
        bytes: &[u8],
        fits: &impl Fn(usize) -> bool,
        started: Instant,
    ) -> Result<Replaced, HeapError> {
        let place = entry.place.load(Relaxed);
        let resident = (state & STATE == RESIDENT).then(|| address_and_len(place));
        let on_disk = DiskPlace::decode(place);
        let old = resident.map_or(on_disk.len, |(_, len)| len);
        if !fits(old) {
            return Ok(Replaced::OtherLength(old));
        }
        let (len, mut core) = (bytes.len(), self.shared.lock());
        let same = resident.filter(|_| class_of(len) == class_of(old));
        let cell = if let Some((address, _)) = same {
            self.shared.check_whole()?;
            core.uninstall(address, old)
        } else {
            let Some((taken, cell)) = self.try_cell(core, len, started)? else {
                return Ok(Replaced::NoCell);
            };
            core = taken;
            match resident {
                Some((address, _)) => {
                    let before = core.uninstall(address, old);
                    core.give_back(before);
                }
                None => core.disk.forget(on_disk.block, old),
            }
            cell
        };
        let to = core.chunks.address(cell) as *mut u8;
        // SAFETY: the cell has room for the bytes, and its object's entry is busy by our doing.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, len) };
        core.install(entry, handle, (cell, len), None, DIRTY);
        core.totals.object_bytes = core.totals.object_bytes + len as u64 - old as u64;
        Ok(Replaced::Done)
    }
}
