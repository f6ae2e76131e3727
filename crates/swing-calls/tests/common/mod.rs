//! One call, made on memory of each kind, and an oracle: the same call on ordinary memory.
#![allow(dead_code, reason = "each test uses its part")]

use std::sync::Mutex;

use swing::{Area, AreaOffset, AreaOptions, ByteLen, Namespace, Snapshot, WriteIntent};
use swing_calls as _;

const EXTENT: usize = 64 << 10;
/// Extents that one use of the arena takes.
const STEP: usize = 64 * EXTENT;

/// A tracked area of small extents, of which each test takes parts.
pub struct Arena {
    area: Area,
    next: Mutex<usize>,
    /// The newest shows all that was frozen before; more would need many mappings.
    snapshot: Mutex<Option<Snapshot>>,
    _home: tempfile::TempDir,
}

/// Where a buffer lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In no area.
    Ordinary,
    /// In an area, and others have what is there: the kernel may not store.
    Frozen,
    /// The same, over the border of two extents.
    Border,
    /// The first half lies in private memory, the rest in frozen.
    Half,
    /// Never stored to: there is no memory yet.
    Absent,
}

pub const PLACES: [Place; 4] = [Place::Frozen, Place::Border, Place::Half, Place::Absent];

impl Arena {
    pub fn new() -> Self {
        let home = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let namespace = Namespace::open(home.path()).unwrap();
        let reserve = ByteLen::gib(2);
        let options = AreaOptions { small_zone: reserve, ..AreaOptions::with_reserve(reserve) };
        let area = namespace.create_unnamed(&options).unwrap();
        area.track().unwrap();
        let (next, snapshot) = (Mutex::new(0), Mutex::default());
        Arena { area, next, snapshot, _home: home }
    }

    /// Somebody hooks.
    pub fn hooked(&self) {
        *self.snapshot.lock().unwrap() = Some(self.area.freeze_view().unwrap());
    }

    /// Hooks and lets go.
    pub fn hooked_for_a_moment(&self) {
        self.area.freeze_view().unwrap();
    }

    /// `len` bytes of a part of the area that nobody else has, each with this value if there is
    /// memory.
    pub fn buffer(&self, len: usize, value: u8, place: Place) -> *mut u8 {
        assert!(len < STEP - 2 * EXTENT);
        let start = {
            let mut next = self.next.lock().unwrap();
            *next += STEP;
            *next
        };
        assert!(start + STEP < self.area.geometry().reserve().as_usize(), "the arena is used up");
        let at = match place {
            Place::Border | Place::Half => start + EXTENT - (len / 2).min(EXTENT),
            _ => start + 40,
        };
        let base = self.area.base().as_ptr();
        if place == Place::Absent {
            assert_eq!(value, 0, "what has no memory is zero");
            return base.wrapping_add(at);
        }
        // SAFETY: inside the area, of this use only; stores are trapped.
        unsafe { base.add(at).write_bytes(value, len) };
        self.hooked();
        if place == Place::Half {
            let half = AreaOffset(start as u64)..AreaOffset((start + EXTENT) as u64);
            self.area.make_writable(half, WriteIntent::Keep).unwrap();
        }
        base.wrapping_add(at)
    }
}

pub fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap()
}

/// What a call came to: its result, `errno` if it failed, and the buffer.
type Outcome = (i64, i32, Vec<u8>);

fn outcome(at: *mut u8, len: usize, call: &mut dyn FnMut(*mut u8) -> i64) -> Outcome {
    // SAFETY: the address of this thread's errno.
    unsafe { *libc::__errno_location() = 0 };
    let result = call(at);
    let code = if result < 0 { errno() } else { 0 };
    // SAFETY: the buffer has `len` bytes, which an area bears to be read.
    let bytes = unsafe { std::slice::from_raw_parts(at, len) };
    (result, code, bytes.to_vec())
}

/// Makes a call on memory of each kind; `shown` leaves out of the result and the buffer what is
/// another one each time.
pub fn same_as(
    arena: &Arena,
    what: &str,
    len: usize,
    mut call: impl FnMut(*mut u8) -> i64,
    shown: impl Fn(i64, &[u8]) -> (i64, Vec<u8>),
) {
    for value in [0, 0xA5] {
        let mut ordinary = vec![value; len.max(1)];
        let (result, code, bytes) = outcome(ordinary.as_mut_ptr(), len, &mut call);
        let expected = (shown(result, &bytes), code);
        for place in PLACES.into_iter().filter(|place| value == 0 || *place != Place::Absent) {
            let at = arena.buffer(len, value, place);
            let (result, code, bytes) = outcome(at, len, &mut call);
            let got = (shown(result, &bytes), code);
            assert!(got == expected, "{what} {place:?}: {:?}, not {:?}", got.0.0, expected.0.0);
        }
    }
}

/// As [`same_as`], of a call that always does the same.
pub fn same(arena: &Arena, what: &str, len: usize, call: impl FnMut(*mut u8) -> i64) {
    same_as(arena, what, len, call, |result, bytes| (result, bytes.to_vec()));
}

/// The system call itself, past every function: -`errno` where it fails.
pub fn kernel(number: i64, first: usize, second: usize, third: usize) -> i64 {
    let result: i64;
    // SAFETY: as the system call asks for; the kernel changes these registers only.
    unsafe {
        std::arch::asm!("syscall", inlateout("rax") number => result, in("rdi") first,
            in("rsi") second, in("rdx") third, lateout("rcx") _, lateout("r11") _);
    }
    result
}
