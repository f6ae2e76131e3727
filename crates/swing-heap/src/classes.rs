//! Size classes: steps of 16 bytes up to 128, then eight classes for each doubling.

/// The longest object, in bytes.
pub const MAX_OBJECT_BYTES: usize = 64 << 10;
/// How many classes there are.
pub(crate) const CLASSES: usize = 8 + 9 * 8;

/// The class of an object of `len` bytes, 1 to [`MAX_OBJECT_BYTES`].
pub(crate) fn class_of(len: usize) -> usize {
    debug_assert!((1..=MAX_OBJECT_BYTES).contains(&len));
    if len <= 128 {
        return len.div_ceil(16) - 1;
    }
    // The doubling (2^power, 2^(power + 1)] that the length lies in.
    let power = (len - 1).ilog2();
    let step = 1_usize << (power - 3);
    let place = (len - (1 << power)).div_ceil(step);
    8 + (power as usize - 7) * 8 + place - 1
}

/// The bytes of a cell of a class.
pub(crate) fn cell_bytes(class: usize) -> usize {
    if class < 8 {
        return (class + 1) * 16;
    }
    let (power, place) = (7 + (class - 8) / 8, (class - 8) % 8 + 1);
    (1 << power) + place * (1 << (power - 3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_length_gets_the_smallest_cell_that_holds_it() {
        for len in (1..=MAX_OBJECT_BYTES).step_by(if cfg!(miri) { 199 } else { 1 }) {
            let class = class_of(len);
            assert!(class < CLASSES && cell_bytes(class) >= len, "{len}");
            assert!(class == 0 || cell_bytes(class - 1) < len, "{len}");
        }
        assert!((0..CLASSES).all(|class| cell_bytes(class).is_multiple_of(16)));
        assert_eq!(cell_bytes(CLASSES - 1), MAX_OBJECT_BYTES);
    }
}
