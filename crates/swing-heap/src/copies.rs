//! Copies of objects. They need no room in the heap: where an object cannot come into memory,
//! because the disk is full and nothing can leave, a copy of it is read all the same.

use crate::bring::{Claim, DEPTH};
use crate::disk;
use crate::entry::Handle;
use crate::error::HeapError;
use crate::heap::ObjectHeap;
use crate::patience::Patience;

impl ObjectHeap {
    /// A copy of an object. Brings it into memory, if there is room.
    ///
    /// # Errors
    /// As [`ObjectHeap::read`], but neither [`HeapError::NoMemory`] nor [`HeapError::DiskFull`].
    pub fn copy_of(&self, handle: Handle) -> Result<Vec<u8>, HeapError> {
        let mut patience = Patience::new(self.shared.max_wait());
        loop {
            match self.read(handle) {
                Ok(guard) => return Ok(guard.to_vec()),
                Err(HeapError::NoMemory { .. } | HeapError::DiskFull(_)) => {}
                Err(error) => return Err(error),
            }
            match self.claim(handle)? {
                Some(claim) => return self.copy_of_claimed(&claim),
                // On its way, by another thread.
                None => patience.wait(handle)?,
            }
        }
    }

    /// Copies of many objects, those on the disk read several at a time.
    ///
    /// # Errors
    /// The first object's that cannot be read.
    pub fn get_many(&self, handles: &[Handle]) -> Result<Vec<Vec<u8>>, HeapError> {
        let mut found = Vec::with_capacity(handles.len());
        for part in handles.chunks(DEPTH as usize) {
            match self.prefetch(part) {
                Ok(()) | Err(HeapError::NoMemory { .. } | HeapError::DiskFull(_)) => {}
                Err(error) => return Err(error),
            }
            for &handle in part {
                found.push(self.copy_of(handle)?);
            }
        }
        Ok(found)
    }

    /// A copy of an object on the disk that this thread has claimed. Ends the claim.
    fn copy_of_claimed(&self, claim: &Claim<'_>) -> Result<Vec<u8>, HeapError> {
        let buffered = self.shared.lock().disk.buffered(claim.place).map(<[u8]>::to_vec);
        let found = buffered.map_or_else(|| self.read_claimed(claim), Ok);
        claim.give_up();
        let bytes = found?;
        let (handle, place) = (claim.handle, claim.place);
        let sum = disk::checksum(self.shared.seed, handle, place.block, place.offset, &bytes);
        if sum != claim.sum {
            self.shared.count_damaged();
            let (block, offset, len) = (place.block, place.offset, place.len);
            return Err(HeapError::Damaged { handle, block, offset, len });
        }
        Ok(bytes)
    }

    fn read_claimed(&self, claim: &Claim<'_>) -> Result<Vec<u8>, HeapError> {
        let mut queue = self.queue()?;
        if !self.submit(&mut *queue, std::slice::from_ref(claim), 0) {
            unreachable!("this thread has no other request in flight")
        }
        let completion = loop {
            if let Some(completion) = queue.wait() {
                break completion;
            }
        };
        completion.result?;
        let skipped = (claim.offset() - claim.span().0) as usize;
        Ok(completion.buffer[skipped..skipped + claim.place.len].to_vec())
    }
}
