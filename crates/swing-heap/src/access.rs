//! Access to an object: at once where it is in memory and nobody excludes others from it, else
//! after some waiting.
//!
//! **Cycle.** The files with methods of the heap call each other.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use crate::entry::{
    EVICTED, Entry, FILL, FREE, Handle, Mode, RESIDENT, STATE, WINDOW, address_and_len, generation,
};
use crate::error::HeapError;
use crate::heap::ObjectHeap;
use crate::patience::Patience;

impl ObjectHeap {
    #[inline]
    pub(crate) fn acquire(
        &self,
        handle: Handle,
        mode: Mode,
    ) -> Result<(&Entry, usize, usize), HeapError> {
        match self.acquire_resident(handle, mode)? {
            Some(found) => Ok(found),
            None => self.acquire_slowly(self.entry(handle)?, handle, mode),
        }
    }

    /// Access to an object in memory that nobody excludes from it; `None` for all others.
    #[inline]
    pub(crate) fn acquire_resident(
        &self,
        handle: Handle,
        mode: Mode,
    ) -> Result<Option<(&Entry, usize, usize)>, HeapError> {
        self.check_process()?;
        let entry = self.entry(handle)?;
        let state = entry.state.load(Acquire);
        let free = state & STATE == RESIDENT
            && generation(state) == handle.generation()
            && mode.fits(state);
        if free && entry.take(state, mode) {
            self.shared.counters.hit();
            let (address, len) = address_and_len(entry.place.load(Relaxed));
            return Ok(Some((entry, address, len)));
        }
        Ok(None)
    }

    #[cold]
    fn acquire_slowly<'a>(
        &'a self,
        entry: &'a Entry,
        handle: Handle,
        mode: Mode,
    ) -> Result<(&'a Entry, usize, usize), HeapError> {
        let mut patience = Patience::new(self.shared.max_wait);
        loop {
            let state = entry.state.load(Acquire);
            if generation(state) != handle.generation() {
                return Err(HeapError::NoObject { handle });
            }
            match state & STATE {
                FREE => return Err(HeapError::NoObject { handle }),
                EVICTED => {
                    if let Some(claim) = self.claim(handle)? {
                        self.bring(vec![claim], mode.adds)?;
                        break;
                    }
                }
                RESIDENT => {
                    let marked = state & mode.excludes & WINDOW != 0;
                    if marked && self.recall(entry, handle, state)? {
                        continue;
                    }
                    if !mode.fits(state) {
                        patience.wait(handle)?;
                    } else if entry.take(state, mode) {
                        self.shared.counters.hit();
                        break;
                    }
                }
                _ => patience.wait(handle)?,
            }
        }
        let (address, len) = address_and_len(entry.place.load(Relaxed));
        Ok((entry, address, len))
    }

    /// Takes the page of an object's address back, if it is filled. False: it is not, or has to
    /// stay for now.
    pub(crate) fn recall(
        &self,
        entry: &Entry,
        handle: Handle,
        state: u64,
    ) -> Result<bool, HeapError> {
        let filled = state & STATE == RESIDENT && state & WINDOW != 0;
        match self.shared.window.get().filter(|_| filled) {
            Some(window) => window.recall(&self.shared, handle.id(), entry),
            None => Ok(false),
        }
    }

    /// Counts a reader into an object for `window`, which ends that.
    pub(crate) fn acquire_for_window(&self, handle: Handle) -> Result<(), HeapError> {
        self.acquire(handle, FILL).map(|_| ())
    }
}
