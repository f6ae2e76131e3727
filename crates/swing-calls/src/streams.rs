//! `fread`: the C library has the kernel store what is longer than a stream's buffer directly where
//! the program wants it, by a call that nobody can intercept. So what is read into an area is read
//! in pieces ([`crate::fill`]), each by way of other memory.
//!
//! The other functions of streams store by themselves.

use libc::{FILE, c_void, size_t, ssize_t};

use crate::copy::touches_area;
use crate::fill::{PIECE, Source, fill_one};
use crate::next::own;

unsafe extern "C" {
    fn flockfile(stream: *mut FILE);
    fn funlockfile(stream: *mut FILE);
}

macro_rules! readers {
    ($($name:ident($($room:ident)?), $locked:expr;)*) => {$(
        /// The C library's function of this name; its buffer may lie in an area.
        ///
        /// # Safety
        /// As the function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            to: *mut c_void, $($room: size_t,)? size: size_t, count: size_t, stream: *mut FILE,
        ) -> size_t {
            let call = own!($name(
                *mut c_void, $(readers!(@size $room),)? size_t, size_t, *mut FILE
            ) -> size_t);
            let len = size.checked_mul(count);
            let Some(len) = len.filter(|len| touches_area(to.cast(), *len)) else {
                // SAFETY: the caller promised what the function asks for.
                return unsafe { call(to, $($room,)? size, count, stream) };
            };
            // A buffer too short is the C library's affair; with this it is told the truth.
            $(if $room < len {
                // SAFETY: as above; the program ends in it.
                return unsafe { call(to, $room, size, count, stream) };
            })?
            // SAFETY: the caller promised an open stream and a buffer of that length. The lock of a
            // stream is recursive.
            unsafe {
                // One call locks by itself, and lets go also when the thread is cancelled in it.
                let locked = $locked && len > PIECE;
                if locked {
                    flockfile(stream);
                }
                let got = fill_one(to, len, Source::Whole, |to, len, _| {
                    $(let $room = len;)?
                    call(to, $($room,)? 1, len, stream) as ssize_t
                });
                if locked {
                    funlockfile(stream);
                }
                let got = usize::try_from(got).unwrap_or(0);
                $crate::strict_assert!(got <= len && size > 0, "a stream gives what is asked for");
                got / size
            }
        }
    )*};
    (@size $room:ident) => { size_t };
}

readers! {
    fread(), true;
    fread_unlocked(), false;
    __fread_chk(room), true;
    __fread_unlocked_chk(room), false;
}
