//! Reading data into buffers that lie in areas: `read`, `recv`, `readv` and their relatives.
//!
//! The kernel stores into a scratch buffer ([`crate::pool`]); plain stores then copy its contents
//! into the program's buffers, one after the other.
//!
//! - A source that gives all that was asked for (a file at an offset, random bytes) is read in
//!   pieces that stay in the processor's cache, until a piece comes short. So the call takes no
//!   longer than elsewhere, whatever hooks come meanwhile.
//! - A file at its descriptor's position is asked once for everything: threads that read records by
//!   one descriptor each get whole records.
//! - A source that gives what it has (streams, datagrams, lists) is asked once, for at most
//!   [`SCRATCH_BYTES`] bytes.

use libc::{c_int, c_void, iovec, ssize_t};
use swing::tracked;

use crate::copy::{NOWHERE, store, touches_area};
use crate::next::{keeping_errno, set_errno};
use crate::pool::{SCRATCH_BYTES, Scratch};
use crate::slot::{Slot, Use, again};

/// The most vectors that the kernel takes.
pub(crate) const MAX_VECTORS: usize = 1024;
/// How much is read at once of what is read in pieces.
pub(crate) const PIECE: usize = 256 << 10;
/// The most that the kernel reads in one call.
const MAX_READ: usize = 0x7fff_f000;
/// Data up to this length comes by way of the stack.
const SMALL: usize = 256;

/// How much of what is asked for comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// What is there, in one piece.
    Once,
    /// All, or up to its end.
    Whole,
    /// From a place on: all if the descriptor is a file's.
    Place(c_int),
    /// From where the descriptor stands: all if it is a file's, and nobody else's read comes in
    /// between.
    Position(c_int),
}

/// How many bytes the kernel is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// At most so many, once.
    Once(usize),
    /// So many again and again, until there are enough.
    Pieces(usize),
}

impl Source {
    fn asked(self, total: usize) -> Asked {
        match self {
            _ if total <= PIECE => Asked::Once(total),
            Source::Whole => Asked::Pieces(PIECE),
            Source::Place(fd) if keeping_errno(|| is_file(fd)) => Asked::Pieces(PIECE),
            // As much as the kernel reads at once.
            Source::Position(fd) if total > SCRATCH_BYTES && keeping_errno(|| is_file(fd)) => {
                Asked::Once(total.min(MAX_READ))
            }
            Source::Once | Source::Place(_) | Source::Position(_) => {
                Asked::Once(total.min(SCRATCH_BYTES))
            }
        }
    }
}

fn is_file(fd: c_int) -> bool {
    const { assert!(PIECE <= SCRATCH_BYTES && SMALL < PIECE) };
    // SAFETY: zeros are a valid value, which the call overwrites.
    unsafe {
        let mut facts: libc::stat = std::mem::zeroed();
        let known = libc::fstat(fd, &raw mut facts) == 0;
        known && matches!(facts.st_mode & libc::S_IFMT, libc::S_IFREG | libc::S_IFBLK)
    }
}

/// Where the pieces of a call go.
struct Buffers {
    vectors: *const iovec,
    count: usize,
}

impl Buffers {
    /// `None`: the call may have them as they are, or shall find out what is wrong with them.
    ///
    /// # Safety
    /// `vectors` points to `count` of them, or the call will fail as well.
    unsafe fn in_areas(vectors: *const iovec, count: usize) -> Option<(Self, usize)> {
        if vectors.addr() < NOWHERE || count > MAX_VECTORS {
            return None;
        }
        let (all, mut total, mut touched) = (Self { vectors, count }, 0_usize, false);
        for vector in all.each() {
            touched |= touches_area(vector.iov_base.cast(), vector.iov_len);
            total = total.checked_add(vector.iov_len).filter(|sum| *sum <= isize::MAX as usize)?;
        }
        touched.then_some((all, total))
    }

    fn each(&self) -> impl Iterator<Item = iovec> {
        let vectors = self.vectors;
        // SAFETY: `in_areas`'s caller promised that many.
        (0..self.count).map(move |i| unsafe { vectors.add(i).read() })
    }

    /// Stores so many bytes behind the first `done`; returns how many could be.
    ///
    /// # Safety
    /// `from` has `len` bytes.
    unsafe fn bring(&self, from: *const u8, len: usize, done: usize) -> usize {
        let (mut brought, mut before) = (0, 0);
        for vector in self.each() {
            let skipped = done.saturating_sub(before).min(vector.iov_len);
            let piece = (vector.iov_len - skipped).min(len - brought);
            let to = vector.iov_base.cast::<u8>().wrapping_add(skipped);
            // SAFETY: the program's buffer, and as much of ours.
            let stored = unsafe { store(from.wrapping_add(brought), to, piece) };
            brought += stored;
            before += vector.iov_len;
            if stored < piece || brought == len {
                break;
            }
        }
        strict_assert!(brought <= len, "no more than came");
        brought
    }
}

/// Makes a call that reads into buffers: it gets vectors, their number, and how many bytes other
/// pieces have brought before; it returns how many it has read.
///
/// # Safety
/// `vectors` points to `count` of them, or the call will fail as well.
#[inline]
pub(crate) unsafe fn fill(
    vectors: *const iovec,
    count: usize,
    source: Source,
    mut call: impl FnMut(*const iovec, usize, usize) -> ssize_t,
) -> ssize_t {
    // SAFETY: the caller's promise.
    match unsafe { Buffers::in_areas(vectors, count) } {
        None => call(vectors, count, 0),
        Some((buffers, total)) => fill_by_room(&buffers, total, source, &mut call),
    }
}

/// As [`fill`], for one buffer; the call gets an address and a length.
#[inline]
pub(crate) fn fill_one(
    to: *mut c_void,
    len: usize,
    source: Source,
    mut call: impl FnMut(*mut c_void, usize, usize) -> ssize_t,
) -> ssize_t {
    if !touches_area(to.cast(), len) || len > isize::MAX as usize {
        return call(to, len, 0);
    }
    let one = iovec { iov_base: to, iov_len: len };
    let buffers = Buffers { vectors: &raw const one, count: 1 };
    fill_by_room(&buffers, len, source, &mut |vectors, count, done| {
        strict_assert!(count == 1, "one buffer, or one scratch");
        // SAFETY: the one above, or the scratch buffer's.
        let one = unsafe { vectors.read() };
        call(one.iov_base, one.iov_len, done)
    })
}

type Call<'a> = &'a mut dyn FnMut(*const iovec, usize, usize) -> ssize_t;

fn fill_by_room(buffers: &Buffers, total: usize, source: Source, call: Call<'_>) -> ssize_t {
    let mut stack = [std::mem::MaybeUninit::<u8>::uninit(); SMALL];
    // A stack may lie in an area, too.
    if total <= SMALL && !tracked::is_tracked(stack.as_ptr().cast()) {
        return in_pieces(buffers, total, stack.as_mut_ptr().cast(), Asked::Once(total), call);
    }
    let asked = source.asked(total);
    let (Asked::Once(most) | Asked::Pieces(most)) = asked;
    let Some(scratch) = keeping_errno(|| Scratch::of(most)) else { return exposed(buffers, call) };
    let result = in_pieces(buffers, total, scratch.at(), asked, call);
    keeping_errno(|| scratch.give_back());
    result
}

/// Reads into `scratch` until there is enough.
fn in_pieces(
    buffers: &Buffers,
    total: usize,
    scratch: *mut u8,
    asked: Asked,
    call: Call<'_>,
) -> ssize_t {
    let (Asked::Once(most) | Asked::Pieces(most)) = asked;
    strict_assert!(total > 0 && most > 0 && !scratch.is_null(), "there is something to fill");
    let mut done = 0;
    loop {
        let piece = (total - done).min(most);
        let one = iovec { iov_base: scratch.cast(), iov_len: piece };
        let got = call(&raw const one, 1, done);
        let Ok(told) = usize::try_from(got) else {
            // What came before it counts; the next call will fail as well.
            return if done > 0 { done as ssize_t } else { got };
        };
        // Some calls tell the length of what did not fit.
        let came = told.min(piece);
        strict_assert!(piece > 0 && done + came <= total, "no more comes than is asked for");
        // SAFETY: the kernel has written that much into the scratch buffer.
        let brought = keeping_errno(|| unsafe { buffers.bring(scratch, came, done) });
        done += brought;
        strict_assert!(done <= total, "the buffers are full at the most");
        if brought < came {
            // The rest of the buffer is not there.
            set_errno(libc::EFAULT);
            return if done > 0 { done as ssize_t } else { -1 };
        }
        if matches!(asked, Asked::Once(_)) || came < piece || done == total {
            return if told > piece { got } else { done as ssize_t };
        }
    }
}

/// Without memory for a scratch buffer: the buffers become writable, and the kernel stores there.
#[cold]
fn exposed(buffers: &Buffers, call: Call<'_>) -> ssize_t {
    let in_area = |v: &iovec| touches_area(v.iov_base.cast(), v.iov_len);
    let touched = buffers.each().find(in_area);
    let touched = touched.map(|v| [Slot::new(v.iov_base, v.iov_len, Use::Exposed)]);
    strict_assert!(touched.is_some(), "some buffer lies in an area");
    let mut tries = 0;
    loop {
        buffers.each().filter(in_area).for_each(|vector| {
            tracked::prepare(vector.iov_base.cast(), vector.iov_len.min(SCRATCH_BYTES));
        });
        let result = call(buffers.vectors, buffers.count, 0);
        let slots = touched.as_ref().map_or(&[][..], |slots| slots);
        if !again(result as i64, slots, &mut tries) {
            return result;
        }
    }
}
