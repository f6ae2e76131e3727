//! Memory that the kernel stores into in place of a buffer that lies in a tracked area.
//!
//! Making the buffer writable before the call is not enough: a hook that comes while the call waits
//! for its data protects the buffer again, and the kernel then drops what it has already taken from
//! a datagram socket or a terminal. So the call gets other memory, and what came is copied by
//! plain stores, which are trapped as any. Only buffers longer than [`MAX_BOUNCE`] are given to the
//! kernel themselves, made writable before, and again after an `EFAULT`: nothing that loses data at
//! a fault hands out as much at once.

use libc::{c_int, c_void, iovec};
use swing::tracked;

use crate::next::{errno, set_errno};

/// The longest buffer that is replaced; the longest datagrams are shorter.
pub(crate) const MAX_BOUNCE: usize = 1 << 20;
/// Buffers up to this length are replaced by ones on the stack.
const SMALL: usize = 256;
/// How often a call with a buffer too long to be replaced is tried: hooks may come in between.
const MAX_TRIES: u32 = 2000;
const PAUSE_NS: i64 = 50_000;
/// The most vectors that the kernel takes.
pub(crate) const MAX_VECTORS: usize = 1024;

/// How a call uses a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// It stores as many bytes as it returns.
    Filled,
    /// It reads and stores; when it succeeds, any of the bytes.
    Both,
    /// Not known: the buffer is made writable, and not replaced.
    Exposed,
}

enum Place {
    /// The buffer itself, in no area.
    Itself,
    /// The buffer itself, in an area.
    Exposed,
    Stack,
    Mapped(*mut u8),
}

/// One buffer of a call. It has no destructor, so that a cancelled thread can unwind over it: after
/// the call [`Slot::settle`] must be called, once.
pub(crate) struct Slot {
    target: *mut u8,
    len: usize,
    how: Use,
    place: Place,
    stack: [std::mem::MaybeUninit<u8>; SMALL],
}

/// Whether any byte of a buffer lies in a tracked area, if no area lies wholly inside it.
pub(crate) fn touches_area(at: *const u8, len: usize) -> bool {
    len > 0 && (tracked::is_tracked(at) || tracked::is_tracked(at.wrapping_add(len - 1)))
}

/// Fresh memory, or null.
fn map(len: usize) -> *mut u8 {
    assert!(len > 0 && len <= MAX_BOUNCE);
    let (kind, access) =
        (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: a mapping of its own, at an address that the kernel chooses.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), len, access, kind, -1, 0) };
    if at == libc::MAP_FAILED { std::ptr::null_mut() } else { at.cast() }
}

impl Slot {
    /// A buffer of a call; null and other addresses outside of areas are passed on as they are.
    pub(crate) fn new(target: *mut c_void, len: usize, how: Use) -> Self {
        let target = target.cast::<u8>();
        let mut slot = Self {
            target,
            len,
            how,
            place: Place::Itself,
            stack: [std::mem::MaybeUninit::uninit(); SMALL],
        };
        if target.is_null() || !touches_area(target, len) {
            return slot;
        }
        let errno = errno();
        slot.place = match len {
            _ if how == Use::Exposed || len > MAX_BOUNCE => Place::Exposed,
            ..=SMALL => Place::Stack,
            _ => match map(len) {
                at if at.is_null() => Place::Exposed,
                at => Place::Mapped(at),
            },
        };
        set_errno(errno);
        if how == Use::Both && !matches!(slot.place, Place::Exposed) {
            let at = slot.at();
            // SAFETY: the caller promises a readable buffer of `len` bytes; the other has as many.
            unsafe { std::ptr::copy_nonoverlapping(target, at, len) };
        }
        slot
    }

    /// No buffer: stands for others that are exposed, or not.
    pub(crate) fn exposed(is: bool) -> Self {
        let mut slot = Self::new(std::ptr::null_mut(), 0, Use::Exposed);
        if is {
            slot.place = Place::Exposed;
        }
        slot
    }

    /// Where the call shall store.
    pub(crate) fn at(&mut self) -> *mut u8 {
        match self.place {
            Place::Itself | Place::Exposed => self.target,
            Place::Stack => self.stack.as_mut_ptr().cast(),
            Place::Mapped(at) => at,
        }
    }

    /// Before each try: what the kernel stores into itself becomes writable.
    pub(crate) fn prepare(&self) {
        if let Place::Exposed = self.place {
            tracked::prepare(self.target, self.len);
        }
    }

    /// Whether a fault may be a hook's fault.
    pub(crate) fn is_exposed(&self) -> bool {
        matches!(self.place, Place::Exposed)
    }

    /// The bytes the call has stored that are to be copied, and the buffer that they go to.
    fn stored(&self, result: i64) -> usize {
        match (self.how, result) {
            (_, ..=-1) | (Use::Exposed, _) => 0,
            (Use::Filled, bytes) => usize::try_from(bytes).map_or(0, |n| n.min(self.len)),
            (Use::Both, _) => self.len,
        }
    }

    /// After the call: what it stored goes where the program wants it.
    pub(crate) fn settle(&mut self, result: i64) {
        let from = match self.place {
            Place::Itself | Place::Exposed => return,
            Place::Stack | Place::Mapped(_) => self.at(),
        };
        // SAFETY: both have at least `len` bytes and are different; the target is the program's,
        // and its part that lies in an area bears plain stores.
        unsafe { std::ptr::copy_nonoverlapping(from, self.target, self.stored(result)) };
        self.release();
    }

    /// Gives the memory back, keeping `errno`.
    pub(crate) fn release(&mut self) {
        if let Place::Mapped(at) = std::mem::replace(&mut self.place, Place::Itself) {
            let errno = errno();
            // SAFETY: the slot's own mapping, which nothing uses any more.
            unsafe { libc::munmap(at.cast(), self.len) };
            set_errno(errno);
        }
    }
}

/// Whether a call is to be tried again because a hook protected a buffer before the kernel stored
/// there; waits a moment then.
pub(crate) fn again(result: i64, slots: &[Slot], tries: &mut u32) -> bool {
    if result != -1 || errno() != libc::EFAULT || !slots.iter().any(Slot::is_exposed) {
        return false;
    }
    *tries += 1;
    if *tries > 1 {
        let pause = libc::timespec { tv_sec: 0, tv_nsec: PAUSE_NS };
        // SAFETY: a valid request.
        unsafe { libc::nanosleep(&raw const pause, std::ptr::null_mut()) };
    }
    set_errno(libc::EFAULT);
    *tries < MAX_TRIES
}

/// The buffers of `readv` and its relatives. Without a destructor, as [`Slot`].
pub(crate) struct Vectors {
    vectors: *const iovec,
    count: usize,
    /// In place of all of them, when one lies in an area.
    one: iovec,
    replaced: bool,
    pub(crate) exposed: bool,
}

impl Vectors {
    /// # Safety
    /// `vectors` points to `count` of them, or the call will fail as well.
    pub(crate) unsafe fn new(vectors: *const iovec, count: usize) -> Self {
        let one = iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let mut all = Self { vectors, count, one, replaced: false, exposed: false };
        if vectors.is_null() || count > MAX_VECTORS {
            return all;
        }
        let touched = all.each().any(|v| touches_area(v.iov_base.cast(), v.iov_len));
        let bad = all.each().any(|v| v.iov_base.is_null() && v.iov_len > 0);
        if !touched || bad {
            return all;
        }
        let total = all.each().fold(0usize, |sum, v| sum.saturating_add(v.iov_len));
        let errno = errno();
        let at = if total <= MAX_BOUNCE { map(total) } else { std::ptr::null_mut() };
        set_errno(errno);
        all.exposed = at.is_null();
        all.replaced = !at.is_null();
        all.one = iovec { iov_base: at.cast(), iov_len: total };
        all
    }

    fn each(&self) -> impl Iterator<Item = iovec> {
        let (vectors, count) = (self.vectors, self.count);
        // SAFETY: `new`'s caller promised that many; null and absurd ones were sorted out.
        (0..count).map(move |i| unsafe { vectors.add(i).read() })
    }

    pub(crate) fn at(&self) -> *const iovec {
        if self.replaced { &raw const self.one } else { self.vectors }
    }

    pub(crate) fn count(&self) -> usize {
        if self.replaced { 1 } else { self.count }
    }

    pub(crate) fn prepare(&self) {
        if self.exposed {
            self.each().for_each(|v| {
                tracked::prepare(v.iov_base.cast(), v.iov_len);
            });
        }
    }

    /// After the call, once: the bytes that it returned go to the program's buffers, in order.
    pub(crate) fn settle(&mut self, result: i64) {
        if !std::mem::take(&mut self.replaced) {
            return;
        }
        let mut from = self.one.iov_base.cast::<u8>().cast_const();
        let mut left = usize::try_from(result).unwrap_or(0).min(self.one.iov_len);
        for vector in self.each() {
            let n = vector.iov_len.min(left);
            // SAFETY: the program's buffer and ours have that many bytes left.
            unsafe { std::ptr::copy_nonoverlapping(from, vector.iov_base.cast(), n) };
            from = from.wrapping_add(n);
            left -= n;
        }
        let errno = errno();
        // SAFETY: the mapping made in `new`, which nothing uses any more.
        unsafe { libc::munmap(self.one.iov_base, self.one.iov_len) };
        set_errno(errno);
    }
}

/// The length that a `read` may ask for: a buffer in an area is filled by at most [`MAX_BOUNCE`]
/// bytes at once, but for files, which give what is asked for and lose nothing at a fault.
pub(crate) fn readable_len(fd: c_int, buffer: *const c_void, len: usize) -> usize {
    if len <= MAX_BOUNCE || !touches_area(buffer.cast(), len) {
        return len;
    }
    let errno = errno();
    // SAFETY: zeros are a valid value, which the call overwrites.
    let regular = unsafe {
        let mut facts: libc::stat = std::mem::zeroed();
        let done = libc::syscall(libc::SYS_fstat, fd, &raw mut facts);
        done == 0 && matches!(facts.st_mode & libc::S_IFMT, libc::S_IFREG | libc::S_IFBLK)
    };
    set_errno(errno);
    if regular { len } else { MAX_BOUNCE }
}
