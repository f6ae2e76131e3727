//! Pages of a window by mappings, where the system gives no `userfaultfd`.
//!
//! The range of addresses has no access at all. A filled page is a *slot*, a page of shared memory
//! without a name, which is mapped at the object's address by one system call (`mremap` with an old
//! length of 0), at once for all threads. It goes by another one, which puts a page without access
//! back; what was stored is still in the slot. So there is no descriptor, and no write protection.
//!
//! Each filled page may be a mapping of its own, and so may the gap behind it. A process has 65 530
//! mappings by default, so a window has at most [`MAX_SLOTS`] pages.
//!
//! The slots are written and read at addresses of their own, which are cleared now and then:
//! otherwise the process's resident memory would count them twice.
//!
//! **Concurrency.** Under the window's lock. **Fork.** A child gets no slot.

use std::collections::HashMap;
use std::ptr::null_mut;

use rustix::mm::{Advice, MapFlags, MprotectFlags, MremapFlags, ProtFlags};

/// The most filled pages.
pub(crate) const MAX_SLOTS: usize = 8192;
const PAGE: usize = 4096;
/// So many slots may be touched before their own addresses are cleared.
const CLEAR_AFTER: u32 = 32;

/// See the module's documentation.
pub(crate) struct Slots {
    base: usize,
    /// Slots that have been used at all.
    begun: u32,
    /// Of the object of each filled page.
    of: HashMap<u32, u32>,
    /// Slots without an object: with memory, and without.
    free: Vec<u32>,
    empty: Vec<u32>,
    touched: u32,
}

impl Slots {
    pub(crate) fn new() -> std::io::Result<Self> {
        let (access, len) = (ProtFlags::READ | ProtFlags::WRITE, MAX_SLOTS * PAGE);
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a fresh mapping at an address of the kernel's choice disturbs nothing.
        let base = unsafe { rustix::mm::mmap_anonymous(null_mut(), len, access, flags) }?;
        let (of, free, empty) = (HashMap::new(), Vec::new(), Vec::new());
        let slots = Slots { base: base as usize, begun: 0, of, free, empty, touched: 0 };
        // Slots that are mapped elsewhere inherit it.
        // SAFETY: the advice concerns the mapping that has just been made.
        unsafe { rustix::mm::madvise(base, len, Advice::LinuxDontFork) }?;
        // Kernels without huge pages refuse.
        // SAFETY: as above.
        let _ = unsafe { rustix::mm::madvise(base, len, Advice::LinuxNoHugepage) };
        Ok(slots)
    }

    fn address(&self, slot: u32) -> usize {
        self.base + slot as usize * PAGE
    }

    /// Where the bytes of an object's page are, whether or not the page is mapped.
    pub(crate) fn bytes_of(&self, id: u32) -> Option<usize> {
        self.of.get(&id).map(|slot| self.address(*slot))
    }

    /// Maps a page for an object, with the bytes that `lay` puts there.
    pub(crate) fn show(
        &mut self,
        id: u32,
        page: usize,
        lay: impl FnOnce(&mut [u8]),
    ) -> Result<(), i32> {
        let unused = || (self.begun < MAX_SLOTS as u32).then_some(self.begun);
        let slot = self.free.pop().or_else(|| self.empty.pop()).or_else(unused);
        let slot = slot.ok_or(libc::ENOMEM)?;
        self.begun = self.begun.max(slot + 1);
        let own = self.address(slot);
        // SAFETY: the slot is nobody's, and the window's lock is held.
        lay(unsafe { std::slice::from_raw_parts_mut(own as *mut u8, PAGE) });
        self.touch();
        let flags = MremapFlags::MAYMOVE;
        // SAFETY: a second mapping of the slot's memory; the page belongs to the window, and has
        // no access, so nobody relies on what is there.
        let mapped =
            unsafe { rustix::mm::mremap_fixed(own as *mut _, 0, PAGE, flags, page as *mut _) };
        match mapped {
            Ok(_) => {
                self.of.insert(id, slot);
                Ok(())
            }
            Err(errno) => {
                self.free.push(slot);
                Err(errno.raw_os_error())
            }
        }
    }

    /// Takes a page away: nobody loads from it or stores to it afterwards.
    pub(crate) fn hide(page: usize) -> Result<(), i32> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        // SAFETY: the page belongs to the window; its bytes are in the slot.
        let hidden =
            unsafe { rustix::mm::mmap_anonymous(page as *mut _, PAGE, ProtFlags::empty(), flags) };
        match hidden {
            Ok(_) => Ok(()),
            // No mapping more. The one that is there stays, without access, until the page is
            // filled again.
            Err(_) => Self::allow(page, MprotectFlags::empty()),
        }
    }

    /// Changes what may be done with a page.
    pub(crate) fn allow(page: usize, access: MprotectFlags) -> Result<(), i32> {
        // SAFETY: the page belongs to the window.
        let changed = unsafe { rustix::mm::mprotect(page as *mut _, PAGE, access) };
        changed.map_err(|errno| errno.raw_os_error())
    }

    /// The object's slot is free again. So many slots may have memory.
    pub(crate) fn give_back(&mut self, id: u32, most: usize) {
        self.free.extend(self.of.remove(&id));
        self.touch();
        self.trim(most);
    }

    /// Gives memory of free slots back, beyond so many.
    pub(crate) fn trim(&mut self, most: usize) {
        while self.of.len() + self.free.len() > most {
            let Some(slot) = self.free.pop() else { return };
            // SAFETY: the slot is nobody's.
            let _ = unsafe {
                rustix::mm::madvise(self.address(slot) as *mut _, PAGE, Advice::LinuxRemove)
            };
            self.empty.push(slot);
        }
    }

    fn touch(&mut self) {
        self.touched += 1;
        if self.touched >= CLEAR_AFTER {
            self.touched = 0;
            let len = self.begun as usize * PAGE;
            // SAFETY: the memory stays, as the mapping is shared; only the entries of the page
            // table go.
            let _ = unsafe { rustix::mm::madvise(self.base as *mut _, len, Advice::LinuxDontNeed) };
        }
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's own.
        let _ = unsafe { rustix::mm::munmap(self.base as *mut _, MAX_SLOTS * PAGE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_comes_and_goes_with_its_bytes() {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let len = 64 * PAGE;
        // SAFETY: a fresh range.
        let range =
            unsafe { rustix::mm::mmap_anonymous(null_mut(), len, ProtFlags::empty(), flags) }
                .unwrap() as usize;
        let mut slots = Slots::new().unwrap();
        for round in 0..3_u8 {
            for id in 0..64_u32 {
                let page = range + id as usize * PAGE;
                slots.show(id, page, |bytes| bytes.fill(round)).unwrap();
                // SAFETY: the page has just been mapped.
                unsafe {
                    assert_eq!((page as *const u8).add(9).read_volatile(), round);
                    (page as *mut u8).add(9).write_volatile(id as u8);
                }
            }
            for id in 0..64_u32 {
                Slots::hide(range + id as usize * PAGE).unwrap();
                let at = slots.bytes_of(id).unwrap() as *const u8;
                // SAFETY: the slot's own address.
                assert_eq!(unsafe { (at.add(9).read(), at.read()) }, (id as u8, round));
                slots.give_back(id, 16);
            }
            assert_eq!((slots.free.len(), slots.empty.len()), (16, 48));
        }
        drop(slots);
        // SAFETY: the test's own range.
        unsafe { rustix::mm::munmap(range as *mut _, len) }.unwrap();
    }
}
