//! Copies between other memory and the program's buffers, of which some part may lie in an area and
//! some part may not be there at all.
//!
//! What lies in an area bears plain loads and stores, which are trapped. What does not is copied by
//! the kernel: where the program's buffer reaches into nothing a call has to tell, not to crash.

use swing::tracked;

use crate::next::errno;

/// What the kernel may protect by itself is not smaller.
const PAGE: usize = 4096;
/// The first pages, which no program has: what is said to be there is loaded by nobody.
pub(crate) const NOWHERE: usize = 1 << 16;

/// Whether any byte of a buffer lies in a tracked area, if no area lies wholly inside it.
#[inline]
pub(crate) fn touches_area(at: *const u8, len: usize) -> bool {
    len > 0 && (tracked::is_tracked(at) || tracked::is_tracked(at.wrapping_add(len - 1)))
}

fn within_area(at: *const u8, len: usize) -> bool {
    tracked::is_tracked(at) && tracked::is_tracked(at.wrapping_add(len - 1))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    /// From other memory to the program's.
    In,
    /// From the program's memory to other.
    Out,
}

/// Stores `len` bytes into the program's buffer `to`; returns how many could be.
///
/// # Safety
/// `from` has `len` bytes, which are not the buffer's; what of `to` can be stored to is the
/// program's to change.
pub(crate) unsafe fn store(from: *const u8, to: *mut u8, len: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { copy(from.cast_mut(), to, len, Direction::In) }
}

/// Loads `len` bytes of the program's buffer `from`; returns how many could be.
///
/// # Safety
/// `to` has `len` bytes, which are not the buffer's.
pub(crate) unsafe fn load(from: *const u8, to: *mut u8, len: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { copy(to, from.cast_mut(), len, Direction::Out) }
}

unsafe fn copy(ours: *mut u8, theirs: *mut u8, len: usize, direction: Direction) -> usize {
    if len == 0 {
        return 0;
    }
    if within_area(theirs, len) {
        // SAFETY: the caller's promise; an area bears loads and stores at every address.
        unsafe { plain(ours, theirs, len, direction) };
        return len;
    }
    let mut done = 0;
    while done < len {
        let (ours, theirs) = (ours.wrapping_add(done), theirs.wrapping_add(done));
        let piece = (len - done).min(PAGE - theirs.addr() % PAGE);
        let copied = if tracked::is_tracked(theirs) {
            // SAFETY: as above: areas begin and end between pages.
            unsafe { plain(ours, theirs, piece, direction) };
            piece
        } else {
            // SAFETY: the caller's promise.
            unsafe { by_kernel(ours, theirs, piece, direction) }
        };
        strict_assert!(copied <= piece, "no more than there is");
        done += copied;
        if copied < piece {
            break;
        }
    }
    done
}

unsafe fn plain(ours: *mut u8, theirs: *mut u8, len: usize, direction: Direction) {
    let (from, to) = match direction {
        Direction::In => (ours, theirs),
        Direction::Out => (theirs, ours),
    };
    // SAFETY: the caller's promise: both have `len` bytes and are different.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
}

unsafe fn by_kernel(ours: *mut u8, theirs: *mut u8, len: usize, direction: Direction) -> usize {
    let local = libc::iovec { iov_base: ours.cast(), iov_len: len };
    let remote = libc::iovec { iov_base: theirs.cast(), iov_len: len };
    let number = match direction {
        Direction::In => libc::SYS_process_vm_writev,
        Direction::Out => libc::SYS_process_vm_readv,
    };
    // Whole words: the last argument goes over the stack.
    let (one, none, process) = (1_usize, 0_usize, std::process::id() as usize);
    // SAFETY: the kernel checks the program's addresses; ours have `len` bytes.
    let done = unsafe {
        libc::syscall(number, process, &raw const local, one, &raw const remote, one, none)
    };
    match usize::try_from(done) {
        Ok(done) => done.min(len),
        Err(_) if errno() == libc::EFAULT => 0,
        // Forbidden in this process.
        // SAFETY: as above.
        Err(_) => unsafe { through_pipe(ours, theirs, len, direction) },
    }
}

/// As [`by_kernel`], of no more than what lies in one page, which is there wholly or not at all.
unsafe fn through_pipe(ours: *mut u8, theirs: *mut u8, len: usize, direction: Direction) -> usize {
    strict_assert!(len <= PAGE, "it fits into a pipe");
    let mut ends = [-1_i32; 2];
    let (from, to) = match direction {
        Direction::In => (ours, theirs),
        Direction::Out => (theirs, ours),
    };
    // By their numbers: the program's functions of these names are ours.
    // SAFETY: as in `by_kernel`.
    unsafe {
        if libc::syscall(libc::SYS_pipe2, &raw mut ends, libc::O_CLOEXEC) != 0 {
            // The caller of the call promised a buffer.
            plain(ours, theirs, len, direction);
            return len;
        }
        let [out, into] = ends.map(|end| end as usize);
        let written = libc::syscall(libc::SYS_write, into, from, len);
        let done = usize::try_from(written).unwrap_or(0);
        let read = if done > 0 { libc::syscall(libc::SYS_read, out, to, done) } else { 0 };
        libc::syscall(libc::SYS_close, out);
        libc::syscall(libc::SYS_close, into);
        usize::try_from(read).unwrap_or(0).min(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two pages, and nothing behind them.
    fn edge() -> *mut u8 {
        let (kind, access) =
            (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a new mapping, whose last third goes again.
        unsafe {
            let at = libc::mmap(std::ptr::null_mut(), 3 * PAGE, access, kind, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(at.byte_add(2 * PAGE), PAGE, libc::PROT_NONE), 0);
            at.cast()
        }
    }

    #[test]
    fn what_is_not_there_is_neither_loaded_nor_stored() {
        let (at, bytes) = (edge(), [7_u8; 3 * PAGE]);
        let mut got = [0_u8; 3 * PAGE];
        for from in [0, 1, PAGE - 1, PAGE, 2 * PAGE - 1, 2 * PAGE] {
            let there = 2 * PAGE - from;
            for len in [0, 1, 100, PAGE, there, there + 1, there + PAGE].map(|l| l.min(3 * PAGE)) {
                // SAFETY: ours have three pages; theirs may end.
                unsafe {
                    assert_eq!(store(bytes.as_ptr(), at.add(from), len), len.min(there));
                    assert_eq!(load(at.add(from), got.as_mut_ptr(), len), len.min(there));
                }
                assert!(got[..len.min(there)].iter().all(|byte| *byte == 7));
            }
        }
        // SAFETY: mapped above.
        assert_eq!(unsafe { libc::munmap(at.cast(), 3 * PAGE) }, 0);
    }

    #[test]
    fn a_pipe_tells_what_is_not_there_as_well() {
        let (at, bytes) = (edge(), [7_u8; PAGE]);
        let mut got = [0_u8; PAGE];
        for there in [1, 100, PAGE - 1, PAGE] {
            // SAFETY: ours have a page, theirs `there` bytes, and then nothing.
            unsafe {
                let theirs = at.add(2 * PAGE - there);
                let stored = through_pipe(bytes.as_ptr().cast_mut(), theirs, there, Direction::In);
                let loaded = through_pipe(got.as_mut_ptr(), theirs, there, Direction::Out);
                assert_eq!((stored, loaded), (there, there));
            }
            assert!(got[..there].iter().all(|byte| *byte == 7));
        }
        // SAFETY: behind the end there is nothing, and below mapped memory.
        unsafe {
            let nothing = at.add(2 * PAGE);
            assert_eq!(through_pipe(bytes.as_ptr().cast_mut(), nothing, PAGE, Direction::In), 0);
            assert_eq!(through_pipe(got.as_mut_ptr(), nothing, PAGE, Direction::Out), 0);
            assert_eq!(libc::munmap(at.cast(), 3 * PAGE), 0);
        }
    }
}
