//! The C library's questions and wishes about its heap: `mallinfo2`, `malloc_trim`, `mallopt` and
//! theirs, answered for the heap in the area. The C library's own would speak about a heap in which
//! nothing lies.

use crate::heap;
use libc::{c_char, c_int, size_t};
use swing_calls::strict_assert;
use swing_malloc::MallocStats;

/// The parameters of `mallopt`, from `M_ARENA_MAX` to `M_MXFAST`.
const PARAMETERS: std::ops::RangeInclusive<c_int> = -8..=4;

fn stats() -> MallocStats {
    heap::with_any_stack(|heap| heap.stats()).unwrap_or_default()
}

/// glibc's `mallinfo2`: `arena` is what the allocator has taken for blocks, `uordblks` what the
/// program has of it, `fordblks` the rest. Nothing is ever mapped apart.
///
/// # Safety
/// None needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mallinfo2() -> libc::mallinfo2 {
    let stats = stats();
    let free = stats.cached + stats.slab_free;
    debug_assert!(stats.slab_free <= stats.slab_bytes, "what is free lies in slabs");
    // SAFETY: numbers only.
    let mut info: libc::mallinfo2 = unsafe { std::mem::zeroed() };
    info.uordblks = stats.used as size_t;
    info.fordblks = free as size_t;
    info.arena = (stats.used + free) as size_t;
    info.ordblks = stats.cached_blocks as size_t;
    info
}

/// The older `mallinfo`, whose numbers end at 2 GiB.
///
/// # Safety
/// None needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mallinfo() -> libc::mallinfo {
    // SAFETY: needs nothing.
    let now = unsafe { mallinfo2() };
    let short = |number: size_t| c_int::try_from(number).unwrap_or(c_int::MAX);
    // SAFETY: numbers only.
    let mut info: libc::mallinfo = unsafe { std::mem::zeroed() };
    info.uordblks = short(now.uordblks);
    info.fordblks = short(now.fordblks);
    info.arena = short(now.arena);
    info.ordblks = short(now.ordblks);
    debug_assert!(info.uordblks >= 0 && info.arena >= info.uordblks);
    info
}

/// glibc's `malloc_trim`: empties the caches of all threads, so that memory which holds no block
/// goes back to the system. 1 if any did.
///
/// # Safety
/// None needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_trim(_pad: size_t) -> c_int {
    let trimmed = heap::with_any_stack(|heap| {
        let area = heap.heap().area();
        let before = area.stats().mapped;
        // What could not be given back for lack of memory stays where it was.
        let _ = heap.drain();
        area.stats().mapped < before
    });
    c_int::from(trimmed == Some(true))
}

/// glibc's `mallopt`: there is nothing to tune by these parameters. 1 for one that exists.
///
/// # Safety
/// None needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mallopt(parameter: c_int, _value: c_int) -> c_int {
    c_int::from(PARAMETERS.contains(&parameter) && parameter != 0)
}

/// The numbers as text, without an allocation in the heap.
fn text(stats: &MallocStats, line: impl Fn(&str, u64) -> String) -> String {
    let lines = [
        ("used", stats.used),
        ("cached", stats.cached),
        ("slabs-free", stats.slab_free),
        ("slabs", stats.slab_bytes),
        ("metadata", stats.metadata + stats.heap.metadata),
        ("large-free", stats.heap.data.largest_free),
    ];
    let text: String = lines.into_iter().map(|(name, bytes)| line(name, bytes)).collect();
    strict_assert!(!text.contains('\0'), "written as a C string");
    text
}

/// glibc's `malloc_stats`: says on standard error what there is.
///
/// # Safety
/// None needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_stats() {
    let stats = stats();
    heap::outside(|| {
        let lines = text(&stats, |name, bytes| format!("{name:12} = {bytes:>14}\n"));
        eprint!("Heap in an area, bytes:\n{lines}");
    });
}

/// glibc's `malloc_info`: the same as XML, to a stream. -1 with `EINVAL` for options, of which
/// there are none.
///
/// # Safety
/// `stream` is an open stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_info(options: c_int, stream: *mut libc::FILE) -> c_int {
    if options != 0 || stream.is_null() {
        // SAFETY: the address of this thread's errno.
        unsafe { *libc::__errno_location() = libc::EINVAL };
        return -1;
    }
    let stats = stats();
    heap::outside(|| {
        let lines = text(&stats, |name, bytes| format!("<{name} bytes=\"{bytes}\"/>\n"));
        let whole = format!("<malloc version=\"swing-1\">\n{lines}</malloc>\n\0");
        // SAFETY: a C string; the caller promised a stream.
        let written = unsafe { libc::fputs(whole.as_ptr().cast::<c_char>(), stream) };
        debug_assert!(written >= 0 || written == libc::EOF);
        if written == libc::EOF { -1 } else { 0 }
    })
}
