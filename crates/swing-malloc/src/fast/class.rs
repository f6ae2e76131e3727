//! Sizes: which class serves a request.
//!
//! Up to 128 B a class every 16 B, up to 32 KiB four to a doubling, above that the powers of two of
//! the buddy part. So a block wastes at most a fifth below 32 KiB.

/// Classes whose blocks are cut from slabs.
pub(crate) const SLAB_CLASSES: usize = 40;
/// All classes; the largest is 2^40 bytes.
pub(crate) const CLASSES: usize = SLAB_CLASSES + 25;
/// Largest block of a slab.
pub(crate) const SLAB_LIMIT: u64 = 32 << 10;
/// Most blocks of one slab: its bitmap has as many bits.
#[cfg(test)]
pub(crate) const SLAB_BLOCKS: u64 = 1024;

/// The class of the smallest blocks that hold `len`; `None` above the largest class.
#[inline(always)]
pub(crate) fn class_of(len: u64) -> Option<usize> {
    if len <= TABLE_LIMIT {
        return Some(TABLE[(len as usize).div_ceil(16)] as usize);
    }
    let class = SLAB_CLASSES + ((len - 1).ilog2() as usize + 1).saturating_sub(16);
    (class < CLASSES).then_some(class)
}

/// Lengths whose class is looked up: all of slabs, so that programs that mix them mispredict less.
const TABLE_LIMIT: u64 = SLAB_LIMIT;

/// For each multiple of 16 B its class.
static TABLE: [u8; TABLE_LIMIT as usize / 16 + 1] = {
    let mut table = [0; TABLE_LIMIT as usize / 16 + 1];
    let (mut at, mut class) = (0, 0);
    while at < table.len() {
        if at as u64 * 16 > size_of(class) {
            class += 1;
        }
        table[at] = class as u8;
        at += 1;
    }
    table
};

/// Bytes of a block of a class, computed.
pub(crate) const fn size_of(class: usize) -> u64 {
    assert!(class < CLASSES);
    if class < 8 {
        return (class as u64 + 1) * 16;
    }
    if class < SLAB_CLASSES {
        let (doubling, quarter) = ((class - 8) / 4, (class - 8) % 4);
        return (5 + quarter as u64) << (5 + doubling);
    }
    1 << (16 + class - SLAB_CLASSES)
}

/// The class without slabs that a block of the heap of so many bytes belongs to, if there is one.
pub(crate) fn large_class(len: u64) -> Option<usize> {
    let power = len.checked_ilog2().filter(|power| *power >= 16)?;
    let class = SLAB_CLASSES + power as usize - 16;
    (class < CLASSES).then_some(class)
}

/// Bytes of a slab of a class: a power of two from 16 KiB to 256 KiB.
pub(crate) const fn slab_bytes(class: usize) -> u64 {
    match size_of(class) {
        16 => 16 << 10,
        32 | 48 => 32 << 10,
        size if size <= 4096 => 64 << 10,
        _ => 256 << 10,
    }
}

/// Blocks of one slab.
pub(crate) const fn slab_blocks(class: usize) -> u64 {
    debug_assert!(class < SLAB_CLASSES);
    slab_bytes(class) / size_of(class)
}

/// How many classes are of blocks up to 1 KiB.
const UP_TO_1_KIB: usize = {
    let mut class = 0;
    while size_of(class) <= 1024 {
        class += 1;
    }
    class
};

/// Blocks of a class that one thread keeps at most.
#[inline(always)]
pub(crate) const fn cached(class: usize) -> usize {
    if class < UP_TO_1_KIB { 128 } else { 32 }
}

/// As [`cached`], of blocks that have memory: none of what fills extents by itself is kept.
pub(crate) fn cached_warm(class: usize, extent: u64) -> usize {
    debug_assert!(class < CLASSES && extent.is_power_of_two());
    match size_of(class) {
        size if size <= SLAB_LIMIT => cached(class),
        size if size >= extent => 0,
        size if size <= 128 << 10 => 16,
        _ => 8,
    }
}

/// [`size_of`] without its branches, which requests of many sizes would mispredict.
static SIZES: [u64; CLASSES.next_power_of_two()] = {
    let mut sizes = [0; CLASSES.next_power_of_two()];
    let mut class = 0;
    while class < CLASSES {
        sizes[class] = size_of(class);
        class += 1;
    }
    sizes
};

/// Bytes of a block of a class, looked up.
#[inline(always)]
pub(crate) fn granted(class: usize) -> u64 {
    debug_assert!(class < CLASSES);
    // The mask is there instead of a check of the bounds.
    SIZES[class & (SIZES.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_gets_the_smallest_class_that_holds_it() {
        let small = (0..70_000_u64).step_by(if cfg!(miri) { 97 } else { 1 });
        for len in small.chain((17..40).flat_map(|s| [(1 << s) - 1, 1 << s, (1 << s) + 1])) {
            let class = class_of(len).unwrap();
            assert!(size_of(class) >= len, "{len}");
            assert!(class == 0 || size_of(class - 1) < len.max(1), "{len} class {class}");
            assert_eq!(granted(class), size_of(class));
        }
        assert_eq!(class_of((1 << 40) + 1), None);
    }

    #[test]
    fn blocks_of_the_heap_have_the_largest_class_that_they_hold() {
        for len in (16..41).flat_map(|shift| [1_u64 << shift, (1 << shift) + (1 << (shift - 1))]) {
            let class = large_class(len).unwrap();
            assert!(class >= SLAB_CLASSES && size_of(class) <= len && size_of(class) * 2 > len);
        }
        assert_eq!([0, 1 << 15, 1 << 41].map(large_class), [None; 3]);
    }

    #[test]
    fn slabs_fit_their_bitmaps_and_hold_several_blocks() {
        for class in 0..SLAB_CLASSES {
            assert!((6..=SLAB_BLOCKS).contains(&slab_blocks(class)), "class {class}");
            assert!(slab_bytes(class).is_power_of_two() && size_of(class).is_multiple_of(16));
        }
        assert_eq!(size_of(SLAB_CLASSES - 1), SLAB_LIMIT);
        assert_eq!(size_of(CLASSES - 1), 1 << 40);
    }

    #[test]
    fn a_thread_keeps_fewer_blocks_that_have_memory() {
        let extent = 2 << 20;
        let kept = |class: usize| cached_warm(class, extent) as u64 * size_of(class);
        for class in 0..CLASSES {
            assert!(cached_warm(class, extent) <= cached(class), "class {class}");
            assert!(kept(class) <= 8 << 20 && (kept(class) == 0) == (size_of(class) >= extent));
        }
    }
}
