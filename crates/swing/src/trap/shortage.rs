//! What happens when a store into a tracked area finds no memory.
//!
//! The program's own handler is asked last; without one the process says why on standard error and
//! dies by SIGSEGV. Everything here runs inside the handler of SIGSEGV: async-signal-safe.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::io::Errno;

use crate::model::units::{AreaId, AreaOffset, ByteLen};

/// What a store into a tracked area needs when the memory file system is full.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct StoreShortage {
    /// The area.
    pub area: AreaId,
    /// The extent's begin in it.
    pub at: AreaOffset,
    /// Its length.
    pub needed: ByteLen,
    /// How often this store has asked already.
    pub tries: u32,
}

/// Asked, inside a signal handler, when a store finds no memory: `true` tries again, `false` lets
/// the process die.
pub type ShortageHandler = fn(&StoreShortage) -> bool;

static SHORTAGE: AtomicUsize = AtomicUsize::new(0);

/// Sets who is asked when a store into a tracked area finds no memory, after everything reclaimable
/// has been given back. It runs in the SIGSEGV handler of the storing thread with all signals
/// blocked: it may use only async-signal-safe functions. Without one, or when it answers `false`,
/// the process says why on standard error and dies by SIGSEGV.
pub fn on_shortage(handler: Option<ShortageHandler>) {
    SHORTAGE.store(handler.map_or(0, |h| h as usize), Ordering::SeqCst);
}

/// Asks the program's handler whether the store is worth another try.
pub(crate) fn ask_program(shortage: &StoreShortage) -> bool {
    let handler = SHORTAGE.load(Ordering::SeqCst);
    if handler == 0 {
        return false;
    }
    // SAFETY: only `on_shortage` stores here, and only functions of this type.
    let handler: ShortageHandler = unsafe { std::mem::transmute(handler) };
    handler(shortage)
}

pub(crate) fn refuse(address: usize, e: Errno) -> bool {
    match e {
        Errno::NOSPC => complain(
            address,
            "its memory file system is full; drop areas or snapshots, \
             or enlarge it (mount -o remount,size=...)",
        ),
        Errno::NOMEM => {
            complain(address, "this process is out of memory mappings; raise vm.max_map_count")
        }
        Errno::BADF => complain(
            address,
            "this program has closed the area's memory file, which it did not open",
        ),
        _ => complain(address, "the system refused to make its memory writable"),
    }
    false
}

/// Says why the process is going to die.
pub(crate) fn complain(address: usize, why: &str) {
    let mut digits = [0u8; 18];
    digits[..2].copy_from_slice(b"0x");
    for (i, digit) in digits[2..].iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[address >> (60 - 4 * i) & 15];
    }
    // SAFETY: standard error, if it is open at all; it is not closed by the borrow.
    let out = unsafe { BorrowedFd::borrow_raw(2) };
    let parts: [&[u8]; 5] =
        [b"swing: cannot store at ", &digits, b" in a tracked area: ", why.as_bytes(), b"\n"];
    for part in parts {
        let _ = rustix::io::write(out, part);
    }
}
