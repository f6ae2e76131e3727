//! Calls with vectors of buffers, and those that return an address.

use libc::*;

use crate::bounce::{Slot, Use, Vectors, again};
use crate::calls::name;
use crate::next::{Next, errno};

macro_rules! vector_calls {
    ($($name:ident($($more:ident: $kind:ty),*);)*) => {$(
        /// The C library's function of this name; its buffers may lie in areas.
        ///
        /// # Safety
        /// As the function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            fd: c_int, vectors: *const iovec, count: c_int, $($more: $kind),*
        ) -> ssize_t {
            static NEXT: Next = Next::new(name!($name));
            type Call =
                unsafe extern "C-unwind" fn(c_int, *const iovec, c_int, $($kind),*) -> ssize_t;
            // SAFETY: the C library's function of this name has this signature.
            let call = unsafe { std::mem::transmute::<usize, Call>(NEXT.get()) };
            // SAFETY: as the function asks for.
            let mut all = unsafe { Vectors::new(vectors, usize::try_from(count).unwrap_or(0)) };
            let count = if all.at() == vectors { count } else { all.count() as c_int };
            let mut tries = 0;
            let result = loop {
                all.prepare();
                // SAFETY: the caller promised what the function asks for.
                let result = unsafe { call(fd, all.at(), count, $($more),*) };
                if !vectors_again(result, &all, &mut tries) {
                    break result;
                }
            };
            all.settle(result as i64);
            result
        }
    )*};
}

vector_calls! {
    readv();
    preadv(at: off_t);
    preadv64(at: off64_t);
    preadv2(at: off_t, flags: c_int);
    preadv64v2(at: off64_t, flags: c_int);
}

/// As [`again`], for vectors.
fn vectors_again(result: ssize_t, all: &Vectors, tries: &mut u32) -> bool {
    let slot = [Slot::exposed(all.exposed)];
    again(result as i64, &slot, tries)
}

/// The C library's `recvmsg`; the message and all that it points to may lie in areas.
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvmsg(fd: c_int, to: *mut msghdr, flags: c_int) -> ssize_t {
    static NEXT: Next = Next::new(c"recvmsg");
    type Call = unsafe extern "C-unwind" fn(c_int, *mut msghdr, c_int) -> ssize_t;
    // SAFETY: the C library's function of this name has this signature.
    let call = unsafe { std::mem::transmute::<usize, Call>(NEXT.get()) };
    if to.is_null() {
        // SAFETY: the kernel refuses it.
        return unsafe { call(fd, to, flags) };
    }
    // SAFETY: the caller promised a message. The kernel gets a copy of it.
    let mut message = unsafe { to.read() };
    // SAFETY: the caller promised as many vectors as it says.
    let mut all = unsafe { Vectors::new(message.msg_iov, message.msg_iovlen) };
    let mut slots = [
        Slot::new(message.msg_name, message.msg_namelen as usize, Use::Both),
        Slot::new(message.msg_control, message.msg_controllen, Use::Both),
        Slot::exposed(all.exposed),
    ];
    let before = message;
    let mut tries = 0;
    let result = loop {
        all.prepare();
        slots.iter().for_each(Slot::prepare);
        message = before;
        message.msg_iov = all.at().cast_mut();
        message.msg_iovlen = all.count() as _;
        message.msg_name = slots[0].at().cast();
        message.msg_control = slots[1].at().cast();
        // SAFETY: a message whose buffers are as long as the program's.
        let result = unsafe { call(fd, &raw mut message, flags) };
        if !again(result as i64, &slots, &mut tries) {
            break result;
        }
    };
    all.settle(result as i64);
    slots.iter_mut().for_each(|slot| slot.settle(result as i64));
    if result >= 0 {
        // SAFETY: the caller promised a message that may be written.
        unsafe {
            (*to).msg_namelen = message.msg_namelen;
            (*to).msg_controllen = message.msg_controllen;
            (*to).msg_flags = message.msg_flags;
        }
    }
    result
}

/// The C library's `getcwd`; its buffer may lie in an area.
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn getcwd(to: *mut c_char, len: size_t) -> *mut c_char {
    static NEXT: Next = Next::new(c"getcwd");
    type Call = unsafe extern "C-unwind" fn(*mut c_char, size_t) -> *mut c_char;
    // SAFETY: the C library's function of this name has this signature.
    let call = unsafe { std::mem::transmute::<usize, Call>(NEXT.get()) };
    let mut slot = [Slot::new(to.cast(), len, Use::Filled)];
    let at = slot[0].at().cast();
    let mut tries = 0;
    loop {
        slot[0].prepare();
        // SAFETY: the caller promised what the function asks for; a replaced buffer is as long.
        let found = unsafe { call(at, len) };
        if found.is_null() && again(-1, &slot, &mut tries) {
            continue;
        }
        // SAFETY: what was found is a C string.
        let stored = if found.is_null() { -1 } else { unsafe { strlen(found) as i64 + 1 } };
        slot[0].settle(stored);
        // Without a buffer the C library makes one.
        return if found == at && !at.is_null() { to } else { found };
    }
}

/// The C library's `fread` and its relatives read into buffers in areas by way of this much.
const PIECE: usize = 64 << 10;

/// Reads `len` bytes of a stream into an area, by `next`; fewer at its end or an error.
///
/// # Safety
/// The stream is open, and `to` has `len` bytes.
pub(crate) unsafe fn read_stream(
    to: *mut u8,
    len: usize,
    mut next: impl FnMut(*mut c_void, usize) -> usize,
) -> usize {
    let mut done = 0;
    while done < len {
        let piece = PIECE.min(len - done);
        let mut slot = Slot::new(to.wrapping_add(done).cast(), piece, Use::Filled);
        slot.prepare();
        let got = next(slot.at().cast(), piece);
        slot.settle(got as i64);
        done += got;
        if got < piece {
            break;
        }
    }
    debug_assert!(done <= len && errno() >= 0 && !to.is_null());
    done
}
