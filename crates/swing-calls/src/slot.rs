//! Memory that the kernel stores into in place of a structure that lies in a tracked area.
//!
//! Making the structure writable before the call is not enough. A hook that comes while the call
//! waits protects the structure again, and the kernel's result, a connection or a dead child, is
//! lost. So the call gets other memory, and plain stores, which may trap as any, copy the result
//! into the structure. Structures that are longer than [`SCRATCH_BYTES`], or of unknown length, go
//! to the kernel itself: they are made writable before the call, and again after an `EFAULT`.

use std::mem::MaybeUninit;

use libc::{EFAULT, c_int, c_short, c_void, pollfd, sigset_t};
use swing::tracked;

use crate::copy::{NOWHERE, load, store, touches_area};
use crate::next::{errno, keeping_errno, set_errno};
use crate::pool::{self, SCRATCH_BYTES};

/// Structures up to this length are replaced by ones on the stack.
const SMALL: usize = 256;
/// How much of a structure is made writable at most: an absurd length must not take memory.
const MAX_EXPOSED: usize = 16 << 20;
/// How often a call with a structure that is not replaced is tried: hooks may come in between.
const MAX_TRIES: u32 = 2000;
const PAUSE_NS: i64 = 50_000;

/// How a call uses a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It stores as many items of so many bytes as it returns.
    Items(usize),
    /// It stores as many bytes as it returns, and so many more.
    Filled(usize),
    /// It reads and stores any of the bytes.
    Both,
    /// It reads `pollfd`s, and stores what has become of each. Their other fields are the program's
    /// to change meanwhile.
    Polls,
    /// Not known: the structure is made writable, and not replaced.
    Exposed,
}

/// The memory that the kernel gets.
#[derive(Clone, Copy)]
enum Substitute {
    /// The structure itself, in no area.
    Itself,
    /// The structure itself, in an area.
    Exposed,
    Stack,
    Scratch(*mut u8),
}

/// One structure of a call. It has no destructor, so that a cancelled thread can unwind over it:
/// after the call [`Slot::settle`] must be called, once.
pub struct Slot {
    target: *mut u8,
    len: usize,
    how: Use,
    place: Substitute,
    stack: [MaybeUninit<u8>; SMALL],
}

impl Slot {
    /// A structure of a call; null and other addresses outside of areas are passed on as they are.
    #[inline]
    pub fn new(target: *mut c_void, len: usize, how: Use) -> Self {
        let (target, stack) = (target.cast::<u8>(), [MaybeUninit::uninit(); SMALL]);
        let mut slot = Self { target, len, how, place: Substitute::Itself, stack };
        if !target.is_null() && touches_area(target, len) {
            keeping_errno(|| slot.replace());
        }
        slot
    }

    #[cold]
    fn replace(&mut self) {
        strict_assert!(self.len > 0 && matches!(self.place, Substitute::Itself), "replaced once");
        self.place = match self.len {
            _ if self.how == Use::Exposed || self.len > SCRATCH_BYTES => Substitute::Exposed,
            // A stack may lie in an area, too.
            ..=SMALL if !tracked::is_tracked(self.stack.as_ptr().cast()) => Substitute::Stack,
            _ => match pool::take() {
                scratch if scratch.is_null() => Substitute::Exposed,
                scratch => Substitute::Scratch(scratch),
            },
        };
        strict_assert!(
            !matches!(self.place, Substitute::Itself),
            "what lies in an area has a place"
        );
        if matches!(self.how, Use::Both | Use::Polls) && !self.is_exposed() {
            // SAFETY: the place has `len` bytes of its own.
            let loaded = unsafe { load(self.target, self.at(), self.len) };
            if loaded < self.len {
                // The kernel shall find out what is missing.
                self.give_back();
            }
        }
    }

    /// Where the call shall store; as long as the slot stays where it is.
    #[inline]
    pub fn at(&mut self) -> *mut u8 {
        match self.place {
            Substitute::Itself | Substitute::Exposed => self.target,
            Substitute::Stack => self.stack.as_mut_ptr().cast(),
            Substitute::Scratch(at) => at,
        }
    }

    /// Before each try: what the kernel stores into itself becomes writable.
    #[inline]
    pub fn prepare(&self) {
        if self.is_exposed() {
            strict_assert!(self.len > 0, "nothing is exposed of no length");
            tracked::prepare(self.target, self.len.min(MAX_EXPOSED));
        }
    }

    /// Whether a fault may be a hook's fault.
    #[inline]
    pub fn is_exposed(&self) -> bool {
        matches!(self.place, Substitute::Exposed)
    }

    /// The bytes the call has stored that are to be copied.
    fn stored(&self, result: i64) -> usize {
        let result = usize::try_from(result);
        let bytes = match self.how {
            Use::Exposed => 0,
            Use::Items(size) => result.map_or(0, |items| items.saturating_mul(size)),
            Use::Filled(more) => result.map_or(0, |bytes| bytes.saturating_add(more)),
            // Also a call that fails may have stored.
            Use::Both | Use::Polls => self.len,
        };
        // Some calls tell the length of what did not fit.
        bytes.min(self.len)
    }

    /// After the call: what it stored goes where the program wants it. `false`: there is nothing to
    /// store to.
    #[inline]
    pub fn settle(&mut self, result: i64) -> bool {
        match self.place {
            Substitute::Itself | Substitute::Exposed => true,
            Substitute::Stack | Substitute::Scratch(_) => keeping_errno(|| self.bring(result)),
        }
    }

    #[cold]
    fn bring(&mut self, result: i64) -> bool {
        let (from, bytes) = (self.at().cast_const(), self.stored(result));
        strict_assert!(from != self.target && bytes <= self.len, "copied from elsewhere");
        // SAFETY: the place has `len` bytes, the target is the program's, and what is compared has
        // been loaded before the call.
        let done = unsafe {
            match self.how {
                Use::Polls => self.bring_polled(from.cast()),
                // What is as it was is not stored: nothing has to be copied for it.
                Use::Both if libc::memcmp(from.cast(), self.target.cast(), bytes) == 0 => true,
                _ => store(from, self.target, bytes) == bytes,
            }
        };
        self.give_back();
        strict_assert!(matches!(self.place, Substitute::Itself), "settled once");
        done
    }

    /// Stores what has become of each descriptor, where that is something else than before.
    fn bring_polled(&self, from: *const pollfd) -> bool {
        let (to, size) = (self.target.cast::<pollfd>(), size_of::<c_short>());
        (0..self.len / size_of::<pollfd>()).all(|i| {
            // SAFETY: the place has `len` bytes; the target is the program's, and could be loaded
            // before the call.
            unsafe {
                let (from, to) = (from.wrapping_add(i), to.wrapping_add(i));
                let (from, to) = (&raw const (*from).revents, &raw mut (*to).revents);
                from.read_unaligned() == to.read_unaligned()
                    || store(from.cast(), to.cast(), size) == size
            }
        })
    }

    fn give_back(&mut self) {
        if let Substitute::Scratch(scratch) = std::mem::replace(&mut self.place, Substitute::Itself)
        {
            pool::give(scratch);
        }
    }
}

/// Has `call` store a mask of signals, which may lie in an area.
pub fn telling_mask(mask: *mut sigset_t, call: impl FnOnce(*mut sigset_t) -> c_int) -> c_int {
    let mut slot = Slot::new(mask.cast(), size_of::<sigset_t>(), Use::Both);
    strict_assert!(!slot.is_exposed(), "a mask is short enough to be replaced");
    let result = call(slot.at().cast());
    slot.settle(result.into());
    result
}

/// Whether a call is to be tried again because a hook protected a structure before the kernel
/// stored there; waits a moment then.
#[inline]
pub fn again(result: i64, slots: &[Slot], tries: &mut u32) -> bool {
    slots.iter().any(Slot::is_exposed) && again_after_fault(result, tries)
}

/// Whether a call that has failed with `EFAULT` is to be tried again; waits a moment then.
#[inline]
pub(crate) fn again_after_fault(result: i64, tries: &mut u32) -> bool {
    result == -1 && errno() == EFAULT && wait(tries)
}

#[cold]
fn wait(tries: &mut u32) -> bool {
    strict_assert!(*tries < MAX_TRIES, "nobody tries again after the last time");
    *tries += 1;
    if *tries > 1 {
        let pause = libc::timespec { tv_sec: 0, tv_nsec: PAUSE_NS };
        // SAFETY: a valid request.
        unsafe { libc::nanosleep(&raw const pause, std::ptr::null_mut()) };
    }
    set_errno(EFAULT);
    *tries < MAX_TRIES
}

/// What a call returns: its result, or -1 when that could not be stored.
#[inline]
pub(crate) fn told<R: From<i8>>(result: R, slots: &mut [Slot], as_number: i64) -> R {
    let mut missing = false;
    for slot in slots {
        missing |= !slot.settle(as_number);
    }
    if !missing {
        return result;
    }
    set_errno(EFAULT);
    R::from(-1)
}

/// The bytes of an address that the caller tells by a pointer to its length, if the address lies in
/// an area: else the kernel reads the length, which may be anywhere.
///
/// # Safety
/// `len` may be read if `at` lies in an area.
pub(crate) unsafe fn length_of<T>(at: *mut T, len: *const libc::socklen_t) -> usize {
    if len.addr() < NOWHERE || !tracked::is_tracked(at.cast()) {
        return 0;
    }
    // SAFETY: the caller's promise.
    unsafe { *len as usize }
}

/// Bytes of so many `T`.
pub(crate) fn of<T>(count: usize) -> usize {
    const { assert!(size_of::<T>() > 0) };
    count.saturating_mul(size_of::<T>())
}

/// As [`of`], with a count that may be negative.
pub(crate) fn of_signed<T>(count: c_int) -> usize {
    of::<T>(usize::try_from(count).unwrap_or(0))
}

/// Defines functions: after the signature, the structures, and how each is used. `both`: the call
/// reads and stores, up to all of it; `polls`: it stores what has become of each `pollfd`;
/// `filled`: it returns how many bytes it has stored; `exposed`: nobody knows.
macro_rules! calls {
    ($($name:ident($($arg:ident: $kind:ty),* $(,)?) -> $result:ty {
        $($buffer:ident: $how:ident($len:expr)),* $(,)?
    })*) => {$(
        /// The C library's function of this name; its results may lie in areas.
        ///
        /// # Safety
        /// As the function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($arg: $kind),*) -> $result {
            let call = $crate::next::own!($name($($kind),*) -> $result);
            let mut slots = [$(
                $crate::slot::Slot::new($buffer.cast(), $len, $crate::slot::calls!(@use $how))
            ),*];
            let [$($buffer),*] = &mut slots;
            $(let $buffer = $buffer.at().cast();)*
            let mut tries = 0;
            loop {
                slots.iter().for_each($crate::slot::Slot::prepare);
                // SAFETY: the caller promised what the function asks for; a replaced structure is
                // as long as the program's.
                let result = unsafe { call($($arg),*) };
                // A C int may come with anything in the upper half of its register.
                let number = result as i64;
                if !$crate::slot::again(number, &slots, &mut tries) {
                    return $crate::slot::told(result, &mut slots, number);
                }
            }
        }
    )*};
    (@use both) => { $crate::slot::Use::Both };
    (@use polls) => { $crate::slot::Use::Polls };
    (@use filled) => { $crate::slot::Use::Filled(0) };
    (@use exposed) => { $crate::slot::Use::Exposed };
}

pub(crate) use calls;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_no_area_is_left_to_the_kernel() {
        let mut here = [0_u8; 100];
        for target in [std::ptr::null_mut(), here.as_mut_ptr().cast(), 8 as *mut c_void] {
            for how in [Use::Both, Use::Polls, Use::Filled(0), Use::Items(4), Use::Exposed] {
                let mut slot = Slot::new(target, 100, how);
                assert_eq!(slot.at(), target.cast());
                set_errno(EFAULT);
                let slots = [slot];
                assert!(!again(-1, &slots, &mut 0), "a bad address fails at once");
                let [mut slot] = slots;
                assert!(slot.settle(-1) && !slot.is_exposed());
            }
        }
    }

    #[test]
    fn no_more_is_stored_than_was_room_for() {
        let slot = |how| Slot::new(std::ptr::null_mut(), 100, how);
        for (how, result, bytes) in [
            (Use::Filled(0), 7, 7),
            (Use::Filled(8), 7, 15),
            (Use::Filled(0), 3000, 100),
            (Use::Filled(8), -1, 0),
            (Use::Items(12), 3, 36),
            (Use::Items(12), i64::MAX, 100),
            (Use::Items(12), -1, 0),
            (Use::Both, -1, 100),
            (Use::Exposed, 7, 0),
        ] {
            assert_eq!(slot(how).stored(result), bytes, "{how:?} {result}");
        }
    }
}
