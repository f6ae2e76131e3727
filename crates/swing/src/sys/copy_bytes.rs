//! Copying megabytes in the way that is fastest on this processor.

#[cfg(target_arch = "x86_64")]
use std::sync::atomic::{AtomicUsize, Ordering};

/// For whom megabytes are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyFor {
    /// For this thread, which is about to store there.
    Storing,
    /// For one on another processor.
    Ahead,
}

/// Copies megabytes that are in no cache. Async-signal-safe.
///
/// Stores past the cache spare the reading of what is overwritten, with the lines to be read asked
/// for ahead. On Intel's processors the string copy takes 1.7 times as long. On AMD's it takes
/// longer, too, but leaves the copy in the cache, where whoever waits for it stores next, which
/// makes up for that (docs/experiments.md, figure 9a).
///
/// # Safety
/// As of [`std::ptr::copy_nonoverlapping`].
pub(crate) unsafe fn copy_far(from: *const u8, to: *mut u8, len: usize, reader: CopyFor) {
    debug_assert!(from.addr().abs_diff(to.addr()) >= len, "the ranges do not overlap");
    #[cfg(target_arch = "x86_64")]
    {
        let intel = is_intel();
        let streams = (intel || reader == CopyFor::Ahead) && to.addr().is_multiple_of(LINE);
        let streamed = if streams { len / STREAM_STEP * STREAM_STEP } else { 0 };
        // SAFETY: the first part of the two ranges, whole steps; and what is left of them.
        unsafe {
            match intel {
                true => stream::<4>(from, to, streamed),
                false => stream::<2>(from, to, streamed),
            }
            copy_string(from.add(streamed), to.add(streamed), len - streamed);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's promise, whoever copies.
    unsafe {
        let _ = reader;
        std::ptr::copy_nonoverlapping(from, to, len)
    };
}

#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;
#[cfg(target_arch = "x86_64")]
const STREAM_STEP: usize = 4 * LINE;
/// How far before the copy lines are asked for.
#[cfg(target_arch = "x86_64")]
const STREAM_AHEAD: usize = 1024;

/// Whether this is a processor of Intel's. Asking it leaves a virtual machine, so once only.
#[cfg(target_arch = "x86_64")]
fn is_intel() -> bool {
    const NO: usize = 1;
    const YES: usize = 2;
    static KNOWN: AtomicUsize = AtomicUsize::new(0);
    match KNOWN.load(Ordering::Relaxed) {
        0 => {
            let leaf = std::arch::x86_64::__cpuid(0);
            // The fault handler asks, too: nothing is allocated.
            let name = [*b"Genu", *b"ineI", *b"ntel"].map(u32::from_le_bytes);
            let intel = [leaf.ebx, leaf.edx, leaf.ecx] == name;
            KNOWN.store(if intel { YES } else { NO }, Ordering::Relaxed);
            intel
        }
        known => known == YES,
    }
}

/// Copies whole steps by stores past the cache, at so many places side by side: more than one keeps
/// more requests under way.
///
/// # Safety
/// As of [`std::ptr::copy_nonoverlapping`]; `to` is the begin of a line.
#[cfg(target_arch = "x86_64")]
unsafe fn stream<const LANES: usize>(from: *const u8, to: *mut u8, len: usize) {
    use std::arch::x86_64::{
        __m128i, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch, _mm_sfence, _mm_stream_si128,
    };

    debug_assert!(len.is_multiple_of(STREAM_STEP));
    debug_assert!(len == 0 || to.addr().is_multiple_of(LINE));
    let lane_len = len / LANES;
    for at in (0..lane_len).step_by(LINE) {
        for lane in 0..LANES {
            let at = lane * lane_len + at;
            // SAFETY: a line of both ranges; asking for one ahead of them touches nothing.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(at + STREAM_AHEAD).cast());
                let (from, to) = (from.add(at).cast::<__m128i>(), to.add(at).cast::<__m128i>());
                let line = [0, 1, 2, 3].map(|i| _mm_loadu_si128(from.add(i)));
                (0..4).for_each(|i| _mm_stream_si128(to.add(i), line[i]));
            }
        }
    }
    // Whoever sees that the copy is finished sees the copy.
    // SAFETY: changes nothing; every processor of this kind has it.
    unsafe { _mm_sfence() };
}

/// The processor's own string copy.
///
/// # Safety
/// As of [`std::ptr::copy_nonoverlapping`].
#[cfg(target_arch = "x86_64")]
unsafe fn copy_string(from: *const u8, to: *mut u8, len: usize) {
    if !std::arch::is_x86_feature_detected!("ermsb") {
        // SAFETY: the caller's promise.
        return unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
    }
    // SAFETY: reads and writes exactly the two ranges; the direction flag is clear by the ABI.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rcx") len => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_copies_are_exact() {
        let from: Vec<u8> = (0..3 << 20).map(|i: u32| (i ^ i >> 11) as u8).collect();
        let parts = [(0, 0), (1, 1), (7, 4096), (4096, 2 << 20), (13, (3 << 20) - 13)];
        for ((start, len), reader) in
            parts.into_iter().flat_map(|part| [CopyFor::Storing, CopyFor::Ahead].map(|c| (part, c)))
        {
            for beside in [0, 1] {
                let mut to = vec![0x55u8; len + 129];
                // The begin of a line, or not.
                let at = to.as_ptr().align_offset(64) + beside;
                // SAFETY: both ranges lie in their vectors.
                unsafe {
                    copy_far(from.as_ptr().add(start), to.as_mut_ptr().add(at), len, reader);
                }
                let (before, rest) = to.split_at(at);
                let (copy, after) = rest.split_at(len);
                assert_eq!(copy, &from[start..start + len], "{start} {len} {reader:?} {beside}");
                assert!(before.iter().chain(after).all(|byte| *byte == 0x55), "nothing else");
            }
        }
    }
}
