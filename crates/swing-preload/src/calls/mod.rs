//! Functions of the C library that have the kernel write into the program's memory.
//!
//! A *store* into a part of the heap that a publish has frozen is trapped and works; a system call
//! that writes there fails with EFAULT. Three things make such calls work:
//!
//! * **Small results go through the stack** ([`room`]): structures, addresses, lengths, and data
//!   of up to [`SMALL`] bytes. The kernel writes outside of the heap, and a plain store brings it
//!   in. No publish can come in between, so calls that cannot be repeated (`accept`, `waitpid`,
//!   reading an eventfd) lose nothing.
//! * **Large buffers are made writable** before the call, and again when it fails with EFAULT
//!   because a publish came in between; the kernel takes nothing out of files, pipes and streams
//!   that it could not deliver.
//! * **What the C library allocates for itself** and fills by system calls that nobody can
//!   intercept (streams, directories, name services) is taken from outside the heap ([`inner`]).
//!
//! What is here and what is not is listed in `docs/preload.md`; `tests/calls.rs` makes each call
//! with its result in frozen memory.

mod data;
mod facts;
mod inner;

mod room;
mod sets;
mod signals;
mod sockets;

use crate::heap;
use libc::{EFAULT, RTLD_NEXT, c_void, iovec};
use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use swing::tracked::prepare;

/// What is brought into the heap by a store instead of by the kernel; small against any stack.
const SMALL: usize = 4096;
/// How often a call is tried again: a publish may come in between, and while it protects the heap
/// nothing can be made writable. So long a bad address takes to be refused: a fifth of a second.
const TRIES: u32 = 2000;
/// Between two tries.
const PAUSE_US: u64 = 50;
/// The most I/O vectors that the kernel takes.
const MAX_VECTORS: usize = 1024;

/// When the heap is there.
pub(crate) fn begin() {
    inner::own_standard_input();
    signals::look_up();
}

/// The C library's own function of this name.
fn next(slot: &AtomicUsize, name: &str) -> usize {
    let known = slot.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    let name = CStr::from_bytes_until_nul(name.as_bytes()).unwrap_or_default();
    // SAFETY: the name is a C string.
    let mut found = heap::outside(|| unsafe { libc::dlsym(RTLD_NEXT, name.as_ptr()) }) as usize;
    for version in [c"GLIBC_2.2.5", c"GLIBC_2.17"] {
        // What only programs built long ago call has no version by default.
        if found == 0 {
            // SAFETY: as above.
            found = heap::outside(|| unsafe {
                libc::dlvsym(RTLD_NEXT, name.as_ptr(), version.as_ptr())
            }) as usize;
        }
    }
    if found == 0 {
        // Nothing sensible can be done for a call without its function.
        std::process::abort();
    }
    slot.store(found, Ordering::Relaxed);
    found
}

fn faulted() -> bool {
    // SAFETY: the address of this thread's errno.
    unsafe { *libc::__errno_location() == EFAULT }
}

/// Calls until something else comes of it than EFAULT.
fn insist<R: PartialEq + From<i8>>(mut call: impl FnMut() -> R) -> R {
    let mut tries = 0;
    loop {
        let result = call();
        tries += 1;
        if result != R::from(-1) || tries == TRIES || !faulted() {
            return result;
        }
        std::thread::sleep(std::time::Duration::from_micros(PAUSE_US));
    }
}

/// Makes writable what the I/O vectors point to.
///
/// # Safety
/// `vectors` points to `count` of them, or the system call would fail as well.
unsafe fn prepare_vectors(vectors: *const iovec, count: usize) {
    if vectors.is_null() || count > MAX_VECTORS {
        return;
    }
    for i in 0..count {
        // SAFETY: the caller's promise.
        let vector = unsafe { vectors.add(i).read() };
        prepare(vector.iov_base.cast(), vector.iov_len);
    }
}

/// Whether the kernel may not write there at any moment.
fn in_heap<T>(at: *const T) -> bool {
    heap::offset(at.cast()).is_some()
}

/// Gives `call` room of `len` bytes outside the heap, at most [`SMALL`], and brings what it says it
/// has written to `to`.
fn through(to: *mut c_void, len: usize, call: impl FnOnce(*mut c_void) -> isize) -> isize {
    assert!(len <= SMALL, "larger buffers are made writable");
    let mut room = [std::mem::MaybeUninit::<u8>::uninit(); SMALL];
    let result = call(room.as_mut_ptr().cast());
    // Some calls tell the length of what did not fit.
    let got = usize::try_from(result).map_or(0, |got| got.min(len));
    // SAFETY: the kernel has written that much, and the caller of the call says that it fits.
    unsafe { std::ptr::copy_nonoverlapping(room.as_ptr().cast::<u8>(), to.cast(), got) };
    result
}

/// The C library's own function of a name and a signature.
macro_rules! own {
    ($name:ident($($kind:ty),* $(,)?) -> $result:ty) => {{
        static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        type Call = unsafe extern "C" fn($($kind),*) -> $result;
        let next = $crate::calls::next(&NEXT, concat!(stringify!($name), "\0"));
        // SAFETY: the C library's function of this name has this signature.
        unsafe { std::mem::transmute::<usize, Call>(next) }
    }};
}

/// Defines functions that call the C library's own, whose arguments are prepared before each try.
macro_rules! calls {
    ($($name:ident($($arg:ident: $kind:ty),*) -> $result:ty { $($prepare:tt)* })*) => {$(
        /// Makes its buffers writable, then calls the C library's function.
        ///
        /// # Safety
        /// As the function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $kind),*) -> $result {
            let next = $crate::calls::own!($name($($kind),*) -> $result);
            $crate::calls::insist(|| {
                $($prepare)*
                // SAFETY: as the function asks for.
                unsafe { next($($arg),*) }
            })
        }
    )*};
}

/// Defines functions that read data: up to `SMALL` bytes by way of the stack.
macro_rules! readers {
    ($($name:ident($fd:ident: $fd_kind:ty, $to:ident, $len:ident $(, $arg:ident: $kind:ty)*);)*) =>
    {$(
        /// Reads by way of the stack, or makes the buffer writable.
        ///
        /// # Safety
        /// As the function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            $fd: $fd_kind, $to: *mut libc::c_void, $len: libc::size_t $(, $arg: $kind)*
        ) -> libc::ssize_t {
            let next = $crate::calls::own!(
                $name($fd_kind, *mut libc::c_void, libc::size_t $(, $kind)*) -> libc::ssize_t
            );
            if $len <= $crate::calls::SMALL && $crate::calls::in_heap($to) {
                // SAFETY: as the function asks for; the room has `len` bytes.
                let call = |room| unsafe { next($fd, room, $len $(, $arg)*) };
                return $crate::calls::through($to, $len, call);
            }
            $crate::calls::insist(|| {
                swing::tracked::prepare($to.cast(), $len);
                // SAFETY: as the function asks for.
                unsafe { next($fd, $to, $len $(, $arg)*) }
            })
        }
    )*};
}

/// Defines functions with results of fixed size: those behind the `;` of the arguments.
macro_rules! results {
    ($($name:ident($($arg:ident: $kind:ty),*; $($out:ident),+) -> $result:ty;)*) => {$(
        /// Gets its results by way of the stack.
        ///
        /// # Safety
        /// As the function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $kind),*) -> $result {
            let next = $crate::calls::own!($name($($kind),*) -> $result);
            // SAFETY: as the function asks for: null, or room for the result.
            $(let $out = unsafe { $crate::calls::room::Room::new($out) };)+
            let result = {
                $(let $out = $out.at();)+
                // SAFETY: as the function asks for.
                unsafe { next($($arg),*) }
            };
            // SAFETY: as above.
            $(unsafe { $out.bring() };)+
            result
        }
    )*};
}

/// Defines functions whose call another function makes: `by` gets the two arguments that it passes
/// on changed, and the call.
macro_rules! called_by {
    ($by:ident: $($name:ident($($arg:ident: $kind:ty),*) with $at:ident, $len:ident;)*) => {$(
        /// Has the kernel write outside of the heap, and brings in what it wrote.
        ///
        /// # Safety
        /// As the function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $kind),*) -> libc::c_int {
            let next = $crate::calls::own!($name($($kind),*) -> libc::c_int);
            // SAFETY: as the function asks for.
            unsafe { $by($at, $len, |$at, $len| next($($arg),*)) }
        }
    )*};
}

use {called_by, calls, own, readers, results};
