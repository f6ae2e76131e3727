//! Memory that is no area and whose pages somebody else fills at the first touch, in a handler of
//! its own, or asked by the handler of areas: the plain pointers of an object heap.
//!
//! As with areas, plain loads and stores there work and the kernel's fail with `EFAULT`. So what
//! functions of the C library do for buffers in areas ([`crate::tracked::is_tracked`],
//! [`crate::tracked::prepare`]) they do for these as well.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Says whether a load from an address would be served. Async-signal-safe.
pub type Serves = fn(*const u8) -> bool;

static SERVES: AtomicUsize = AtomicUsize::new(0);

/// Makes known who fills pages at the first touch; the last one counts.
pub fn set_served(serves: Serves) {
    SERVES.store(serves as usize, Ordering::SeqCst);
}

/// Whether an address lies in such memory, whose pages may go again. Async-signal-safe.
pub fn is_served(address: *const u8) -> bool {
    let serves = SERVES.load(Ordering::Acquire);
    if serves == 0 {
        return false;
    }
    // SAFETY: only `set_served` stores here, and only functions of this type.
    let serves: Serves = unsafe { std::mem::transmute(serves) };
    serves(address)
}

/// Fills the page of an address without access that a thread has touched; whether it has. Called by
/// the handler of SIGSEGV, with all signals blocked, perhaps on a small stack: async-signal-safe.
pub type Fills = fn(*const u8) -> bool;

static FILLS: AtomicUsize = AtomicUsize::new(0);

/// Makes known who fills pages without access at the first touch; the last one counts. The handler
/// of SIGSEGV is installed by [`crate::tracked::rearm`].
pub fn set_filler(fills: Fills) {
    FILLS.store(fills as usize, Ordering::SeqCst);
}

/// For the handler: whether the page of an address has been filled.
pub(crate) fn fill_trapped(address: usize) -> bool {
    let fills = FILLS.load(Ordering::Acquire);
    if fills == 0 {
        return false;
    }
    // SAFETY: only `set_filler` stores here, and only functions of this type.
    let fills: Fills = unsafe { std::mem::transmute(fills) };
    fills(address as *const u8)
}

/// Has the page with an address filled, if it is such memory.
pub(crate) fn fill(address: *const u8) {
    if is_served(address) {
        // SAFETY: a load there is served.
        unsafe { std::ptr::read_volatile(address) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    static BYTE: u8 = 7;

    fn serves(address: *const u8) -> bool {
        std::ptr::eq(address, &raw const BYTE)
    }

    #[test]
    fn what_is_served_counts_as_tracked() {
        let (byte, other) = (&raw const BYTE, [0_u8; 1]);
        assert!(!crate::tracked::is_tracked(byte));
        set_served(serves);
        assert!(crate::tracked::is_tracked(byte) && crate::tracked::prepare(byte, 1));
        assert!(!crate::tracked::is_tracked(other.as_ptr()));
        SERVES.store(0, Ordering::SeqCst);
    }
}
