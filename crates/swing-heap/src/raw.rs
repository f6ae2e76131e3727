//! Access without guards, for other languages: what is begun by a handle is ended by it.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::entry::{
    DiskPlace, EVICTED, FREE, Handle, PIN, PINS, READER, READERS, RESIDENT, STATE, WRITER,
    address_and_len, generation,
};
use crate::error::HeapError;
use crate::heap::ObjectHeap;
use crate::patience::Patience;

/// A kind of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// As [`ObjectHeap::read`].
    Read,
    /// As [`ObjectHeap::write`].
    Write,
    /// As [`ObjectHeap::pin`].
    Pin,
}

impl ObjectHeap {
    /// Begins an access; the object stays at the address, with the length, until
    /// [`ObjectHeap::end_access`].
    ///
    /// # Errors
    /// As [`ObjectHeap::read`].
    pub fn begin_access(
        &self,
        handle: Handle,
        access: Access,
    ) -> Result<(*mut u8, usize), HeapError> {
        let (address, len) = match access {
            Access::Read => {
                let guard = self.read(handle)?;
                let found = (guard.address, guard.len);
                std::mem::forget(guard);
                found
            }
            Access::Write => {
                let guard = self.write(handle)?;
                let found = (guard.address, guard.len);
                std::mem::forget(guard);
                found
            }
            Access::Pin => {
                let guard = self.pin(handle)?;
                let found = (guard.address, guard.len);
                std::mem::forget(guard);
                found
            }
        };
        Ok((address as *mut u8, len))
    }

    /// Ends an access.
    ///
    /// # Safety
    /// The access was begun by [`ObjectHeap::begin_access`] with the same kind, has not been ended,
    /// and nobody uses its address any more.
    ///
    /// # Errors
    /// [`HeapError::NoObject`] if nobody has such an access: nothing has changed.
    pub unsafe fn end_access(&self, handle: Handle, access: Access) -> Result<(), HeapError> {
        self.check_process()?;
        let entry = self.entry(handle)?;
        let (one, all) = match access {
            Access::Read => (READER, READERS),
            Access::Write => (WRITER, WRITER),
            Access::Pin => (PIN, PINS),
        };
        let change = |state: u64| {
            let has = state & STATE == RESIDENT
                && generation(state) == handle.generation()
                && state & all != 0;
            has.then(|| state - one)
        };
        let ended = entry.state.fetch_update(Release, Relaxed, change);
        ended.map_err(|_| HeapError::NoObject { handle })?;
        if access == Access::Write {
            self.leave_writers();
        }
        Ok(())
    }

    /// An object's length in bytes. Does not bring the object into memory.
    ///
    /// # Errors
    /// [`HeapError::NoObject`]; [`HeapError::InUse`] if the object is on its way for too long.
    pub fn len_of(&self, handle: Handle) -> Result<usize, HeapError> {
        self.check_process()?;
        let entry = self.entry(handle)?;
        let mut patience = Patience::new(self.shared.max_wait());
        loop {
            {
                // Places change under the lock only, as long as the entry is not busy.
                let _core = self.shared.lock();
                let state = entry.state.load(Acquire);
                let place = entry.place.load(Relaxed);
                if generation(state) != handle.generation() || state & STATE == FREE {
                    return Err(HeapError::NoObject { handle });
                }
                match state & STATE {
                    RESIDENT => return Ok(address_and_len(place).1),
                    EVICTED => return Ok(DiskPlace::decode(place).len),
                    _ => {}
                }
            }
            patience.wait(handle)?;
        }
    }
}
