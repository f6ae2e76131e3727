//! The fixed memory that requests to the device read into and write from.
//!
//! One anonymous mapping a queue, cut into buffers of a few sizes. It never moves and is never
//! given back while a buffer of it is out, so the kernel may work on it at any time. A buffer
//! ([`IoBuffer`]) is moved into a request and comes back with its completion: nobody can drop or
//! change it in between (INV-TIER-1).
//!
//! A forked child does not get the mapping (`MADV_DONTFORK`): otherwise the child's stores could
//! take the physical pages that the device is writing to. A buffer that a child inherits is lost
//! to it: touching it ends the child, dropping it does nothing.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::process::ProcessMark;
use crate::units::UNIT_BYTES;

/// The most memory one arena may take, in bytes.
pub const MAX_ARENA_BYTES: u64 = 1 << 30;

/// How many buffers of which length an arena has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferClass {
    /// Length of each buffer, in bytes; a multiple of 4096.
    pub len: u32,
    /// How many.
    pub count: u32,
}

/// The memory of one queue, for those who implement [`Queue`](crate::storage::Queue).
pub struct Arena {
    base: NonNull<u8>,
    len: usize,
    mark: ProcessMark,
    classes: Vec<Class>,
}

struct Class {
    len: usize,
    /// Offsets in the arena of the buffers that nobody has.
    free: Mutex<Vec<usize>>,
}

// SAFETY: the mapping belongs to the arena, not to a thread; the free lists are behind mutexes, and
// each buffer has one owner at a time (INV-TIER-1).
unsafe impl Send for Arena {}
// SAFETY: as above; through a shared reference only the free lists are used.
unsafe impl Sync for Arena {}

impl Arena {
    /// Maps the memory for these buffers.
    ///
    /// # Errors
    /// `EINVAL` for lengths that are not whole units, none at all, or more than
    /// [`MAX_ARENA_BYTES`]; else the kernel's, for want of memory.
    pub fn new(classes: &[BufferClass]) -> std::io::Result<Arc<Self>> {
        let mut classes = classes.to_vec();
        classes.sort_by_key(|class| class.len);
        let total: u64 = classes.iter().map(|c| u64::from(c.len) * u64::from(c.count)).sum();
        let whole =
            classes.iter().all(|c| c.len > 0 && u64::from(c.len).is_multiple_of(UNIT_BYTES));
        if !whole || total == 0 || total > MAX_ARENA_BYTES {
            return Err(rustix::io::Errno::INVAL.into());
        }
        let len = total as usize;
        // SAFETY: a fresh private mapping at an address of the kernel's choice disturbs nothing.
        let base = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }?;
        // SAFETY: the advice concerns the mapping that has just been made.
        unsafe { rustix::mm::madvise(base, len, Advice::LinuxDontFork) }?;
        let mut offset = 0;
        let classes = classes.iter().map(|class| Class::cut(class, &mut offset)).collect();
        let base = NonNull::new(base.cast()).ok_or(rustix::io::Errno::NOMEM)?;
        Ok(Arc::new(Arena { base, len, mark: ProcessMark::current(), classes }))
    }

    /// A buffer of at least `len` bytes, of the smallest class that has one. `None` while all are
    /// out, or if none is long enough.
    pub fn take(self: &Arc<Self>, len: usize) -> Option<IoBuffer> {
        for (index, class) in self.classes.iter().enumerate().filter(|(_, c)| c.len >= len) {
            if let Some(offset) = lock(&class.free).pop() {
                return Some(IoBuffer { arena: self.clone(), class: index, offset });
            }
        }
        None
    }

    /// The length of the longest buffers, in bytes.
    pub fn longest(&self) -> usize {
        self.classes.last().map_or(0, |class| class.len)
    }

    /// The memory as the kernel registers it.
    pub(crate) fn as_iovec(&self) -> libc::iovec {
        libc::iovec { iov_base: self.base.as_ptr().cast(), iov_len: self.len }
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Arena({} bytes)", self.len)
    }
}

impl Class {
    fn cut(class: &BufferClass, offset: &mut usize) -> Self {
        let len = class.len as usize;
        let first = *offset;
        *offset += len * class.count as usize;
        let free = (0..class.count as usize).rev().map(|i| first + i * len).collect();
        Class { len, free: Mutex::new(free) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // In a forked child the addresses may belong to something else by now.
        if self.mark.is_stale() {
            return;
        }
        // SAFETY: the mapping is the arena's, and no buffer of it is left: each holds the arena.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// A free list is whole at each moment, so a panic elsewhere does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A buffer of a queue's arena: aligned to 4096 bytes, fit for direct I/O. Its bytes are what was
/// last in it. Goes back to the arena when dropped.
pub struct IoBuffer {
    arena: Arc<Arena>,
    class: usize,
    offset: usize,
}

impl IoBuffer {
    /// Another buffer of the same length, of an arena of its own.
    ///
    /// Ends the process if there is no memory, as each allocation of the standard library.
    pub(crate) fn replacement(&self) -> IoBuffer {
        let class = BufferClass { len: self.len() as u32, count: 1 };
        match Arena::new(&[class]).ok().and_then(|arena| arena.take(self.len())) {
            Some(buffer) => buffer,
            None => std::alloc::handle_alloc_error(std::alloc::Layout::new::<[u8; 4096]>()),
        }
    }

    /// Where the buffer is, for the kernel. Valid as long as the buffer is not dropped.
    pub(crate) fn address(&mut self) -> *mut u8 {
        // SAFETY: the offset was cut from the arena's own length.
        unsafe { self.arena.base.as_ptr().add(self.offset) }
    }
}

impl Deref for IoBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the range lies in the mapping, and this buffer is its only owner (INV-TIER-1).
        unsafe {
            let start = self.arena.base.as_ptr().add(self.offset);
            std::slice::from_raw_parts(start, self.arena.classes[self.class].len)
        }
    }
}

impl DerefMut for IoBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for reading, and the borrow is exclusive.
        unsafe {
            let start = self.arena.base.as_ptr().add(self.offset);
            std::slice::from_raw_parts_mut(start, self.arena.classes[self.class].len)
        }
    }
}

impl Drop for IoBuffer {
    fn drop(&mut self) {
        lock(&self.arena.classes[self.class].free).push(self.offset);
    }
}

impl fmt::Debug for IoBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IoBuffer({} bytes at {})", self.len(), self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASSES: [BufferClass; 2] =
        [BufferClass { len: 8192, count: 1 }, BufferClass { len: 4096, count: 2 }];

    #[test]
    fn hands_out_each_buffer_once_and_aligned() {
        let arena = Arena::new(&CLASSES).unwrap();
        let mut taken: Vec<_> = (0..3).map(|_| arena.take(1).unwrap()).collect();
        assert!(arena.take(1).is_none());
        let lengths: Vec<_> = taken.iter().map(|b| b.len()).collect();
        assert_eq!(lengths, [4096, 4096, 8192]);
        for (i, buffer) in taken.iter_mut().enumerate() {
            assert_eq!(buffer.address() as usize % 4096, 0);
            buffer.fill(i as u8 + 1);
        }
        assert!(taken.iter().enumerate().all(|(i, b)| b.iter().all(|&x| x == i as u8 + 1)));
        taken.pop();
        assert_eq!(arena.take(5000).unwrap().len(), 8192);
        assert!(arena.take(9000).is_none());
    }

    #[test]
    fn outlives_whoever_made_it_while_a_buffer_is_out() {
        let buffer = Arena::new(&CLASSES).unwrap().take(1).unwrap();
        assert_eq!(buffer[0], 0);
    }

    #[test]
    fn refuses_lengths_that_are_not_whole_units() {
        assert!(Arena::new(&[BufferClass { len: 100, count: 1 }]).is_err());
        assert!(Arena::new(&[]).is_err());
    }
}
