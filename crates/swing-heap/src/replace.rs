//! New bytes for a whole object, without reading the old ones.
//!
//! A write guard brings an object in before it changes. Who has all bytes needs none of them: the
//! object's entry becomes busy, gets a cell with the new bytes, and its copy on the disk is
//! forgotten. While the entry is busy the old bytes stay where they are, so a failure leaves the
//! object as it was.

use std::sync::atomic::Ordering::Relaxed;

use crate::classes::class_of;
use crate::entry::{DIRTY, DiskPlace, Entry, Handle, RESIDENT, STATE, WRITE, address_and_len};
use crate::error::HeapError;
use crate::guard::WriteGuard;
use crate::heap::{ObjectHeap, check_len};
use crate::signal;

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
        // A state is not shared while bytes in memory are half replaced.
        let writers = self.enter_writers(handle)?;
        if let Some((entry, address, len)) = self.acquire_resident(handle, WRITE)? {
            let mut guard = WriteGuard { entry, address, len, _writers: None };
            self.shared.changes.mark(handle.id());
            if !fits(len) {
                return Ok(Some(len));
            }
            if len == bytes.len() {
                guard.copy_from_slice(bytes);
                return Ok(None);
            }
        }
        let _writers = writers;
        let (entry, state) = self.claim_alone(handle)?;
        let replaced = self.replace_claimed((entry, state), handle, bytes, fits);
        if !matches!(replaced, Ok(None)) {
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
        fits: impl Fn(usize) -> bool,
    ) -> Result<Option<usize>, HeapError> {
        let place = entry.place.load(Relaxed);
        let resident = (state & STATE == RESIDENT).then(|| address_and_len(place));
        let on_disk = DiskPlace::decode(place);
        let old = resident.map_or(on_disk.len, |(_, len)| len);
        if !fits(old) {
            return Ok(Some(old));
        }
        let (len, core) = (bytes.len(), self.shared.lock());
        let (mut core, cell) = match resident {
            Some((address, _)) if class_of(len) == class_of(old) => {
                self.shared.check_whole()?;
                let mut core = core;
                let cell = core.uninstall(address, old);
                (core, cell)
            }
            _ => {
                let (mut core, cell) = self.take_cell(core, len)?;
                match resident {
                    Some((address, _)) => {
                        let before = core.uninstall(address, old);
                        core.give_back(before);
                    }
                    None => core.disk.forget(on_disk.block, old),
                }
                (core, cell)
            }
        };
        let to = core.chunks.address(cell) as *mut u8;
        // SAFETY: the cell has room for the bytes, and its object's entry is busy by our doing.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, len) };
        core.install(entry, handle, (cell, len), None, DIRTY);
        core.totals.object_bytes = core.totals.object_bytes + len as u64 - old as u64;
        Ok(None)
    }
}
