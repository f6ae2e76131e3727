//! Loops over whole numbers that notice an overflow.
//!
//! A loop computes all results wrapping around and collects, without a branch, a flag of whether
//! any of them overflowed: such a loop is as fast as one that does not look. Only when the flag is
//! set are the rows looked at again, because NULLs may hide any value.

use arrow::datatypes::ArrowNativeType;

/// A whole number of a column.
pub(super) trait Integer: ArrowNativeType {
    /// The result wrapped around, and a value that [`Integer::is_set`] when it overflowed.
    fn add(self, other: Self) -> (Self, Self);
    /// As [`Integer::add`].
    fn sub(self, other: Self) -> (Self, Self);
    /// As [`Integer::add`].
    fn mul(self, other: Self) -> (Self, Self);
    /// As [`Integer::add`]; bits must neither be lost nor reach the sign, and only a number that is
    /// not negative can be shifted, by one that is not negative.
    fn shl(self, other: Self) -> (Self, Self);
    /// As [`Integer::add`]; no bit is left where the distance is negative or as long as the number.
    fn shr(self, other: Self) -> (Self, Self);
    /// Both flags in one.
    fn or(self, other: Self) -> Self;
    /// Whether a flag tells an overflow.
    fn is_set(self) -> bool;
}

macro_rules! signed {
    ($($t:ty),*) => {$(
        impl Integer for $t {
            fn add(self, other: Self) -> (Self, Self) {
                let sum = self.wrapping_add(other);
                (sum, (self ^ sum) & (other ^ sum))
            }

            fn sub(self, other: Self) -> (Self, Self) {
                let difference = self.wrapping_sub(other);
                (difference, (self ^ other) & (self ^ difference))
            }

            fn mul(self, other: Self) -> (Self, Self) {
                let (product, overflowed) = self.overflowing_mul(other);
                (product, -(overflowed as $t))
            }

            fn shl(self, other: Self) -> (Self, Self) {
                let fits = self >= 0
                    && other >= 0
                    && (self == 0 || (other as u64) < u64::from(self.leading_zeros()));
                match (fits, self) {
                    (true, 0) => (0, 0),
                    (true, _) => (self << other, 0),
                    (false, _) => (0, -1),
                }
            }

            fn shr(self, other: Self) -> (Self, Self) {
                // A negative distance is a great one.
                let has_bits = (other as u64) < u64::from(Self::BITS);
                (if has_bits { self >> other } else { 0 }, 0)
            }

            fn or(self, other: Self) -> Self {
                self | other
            }

            fn is_set(self) -> bool {
                self < 0
            }
        }
    )*};
}

macro_rules! unsigned {
    ($($t:ty),*) => {$(
        impl Integer for $t {
            fn add(self, other: Self) -> (Self, Self) {
                let sum = self.wrapping_add(other);
                (sum, (sum < self) as $t)
            }

            fn sub(self, other: Self) -> (Self, Self) {
                (self.wrapping_sub(other), (self < other) as $t)
            }

            fn mul(self, other: Self) -> (Self, Self) {
                let (product, overflowed) = self.overflowing_mul(other);
                (product, overflowed as $t)
            }

            fn shl(self, other: Self) -> (Self, Self) {
                let fits = self == 0 || (other as u64) <= u64::from(self.leading_zeros());
                match (fits, self) {
                    (true, 0) => (0, 0),
                    (true, _) => (self << other, 0),
                    (false, _) => (0, 1),
                }
            }

            fn shr(self, other: Self) -> (Self, Self) {
                // A negative distance is a great one.
                let has_bits = (other as u64) < u64::from(Self::BITS);
                (if has_bits { self >> other } else { 0 }, 0)
            }

            fn or(self, other: Self) -> Self {
                self | other
            }

            fn is_set(self) -> bool {
                self != 0
            }
        }
    )*};
}

signed!(i8, i16, i32, i64);
unsigned!(u8, u16, u32, u64);

/// What stands on one side of an operator.
#[derive(Clone, Copy)]
pub(super) enum Side<'a, N> {
    /// A value a row.
    Column(&'a [N]),
    /// The same value in each row.
    Constant(N),
}

impl<N: Integer> Side<'_, N> {
    pub(super) fn value(&self, row: usize) -> N {
        match self {
            Self::Column(values) => values[row],
            Self::Constant(value) => *value,
        }
    }
}

/// The results of `rows` rows, and whether any of them (one of a NULL perhaps) overflowed.
pub(super) fn compute<N: Integer>(
    left: Side<'_, N>,
    right: Side<'_, N>,
    rows: usize,
    operation: impl Fn(N, N) -> (N, N),
) -> (Vec<N>, bool) {
    let mut flags = N::default();
    let mut one = |a: N, b: N| {
        let (result, flag) = operation(a, b);
        flags = flags.or(flag);
        result
    };
    let results = match (left, right) {
        (Side::Column(a), Side::Column(b)) => a.iter().zip(b).map(|(a, b)| one(*a, *b)).collect(),
        (Side::Column(a), Side::Constant(b)) => a.iter().map(|a| one(*a, b)).collect(),
        (Side::Constant(a), Side::Column(b)) => b.iter().map(|b| one(a, *b)).collect(),
        (Side::Constant(a), Side::Constant(b)) => vec![one(a, b); rows],
    };
    (results, flags.is_set())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All pairs of bytes, and pairs around the ends of wider numbers, against wider arithmetic.
    #[test]
    fn flags_are_set_exactly_when_results_do_not_fit() {
        fn check<N: Integer + Into<i128> + TryFrom<i128>>(values: &[N]) {
            for &a in values {
                for &b in values {
                    let (x, y): (i128, i128) = (a.into(), b.into());
                    let product = x.checked_mul(y).unwrap_or(i128::MAX);
                    let results = [(x + y, a.add(b)), (x - y, a.sub(b)), (product, a.mul(b))];
                    for (wide, (got, flag)) in results {
                        let fits = N::try_from(wide).ok();
                        assert_eq!(fits.is_none(), flag.is_set(), "{x} {y} {wide}");
                        assert!(fits.is_none_or(|fits| fits == got), "{x} {y} {wide}");
                    }
                    let (got, flag) = a.shl(b);
                    let wide = match (x, y) {
                        (0, 0..) => Some(0),
                        (1.., 0..=63) => x.checked_shl(y as u32).filter(|s| s >> y == x),
                        _ => None,
                    };
                    let fits = wide.and_then(|wide| N::try_from(wide).ok());
                    assert_eq!(fits.is_none(), flag.is_set(), "{x} << {y}");
                    assert!(fits.is_none_or(|fits| fits == got), "{x} << {y}");
                    let (got, flag) = a.shr(b);
                    let bits = 8 * size_of::<N>() as i128;
                    let wide = if (0..bits).contains(&y) { x >> y } else { 0 };
                    assert!(!flag.is_set() && got.into() == wide, "{x} >> {y}");
                }
            }
        }
        check(&(i8::MIN..=i8::MAX).collect::<Vec<_>>());
        check(&(u8::MIN..=u8::MAX).collect::<Vec<_>>());
        check(&[i32::MIN, i32::MIN + 1, -2, -1, 0, 1, 2, 31, 46_341, i32::MAX - 1, i32::MAX]);
        check(&[i64::MIN, i64::MIN + 1, -1, 0, 1, 2, 62, 63, 64, 3_037_000_500, i64::MAX]);
        check(&[0, 1, 2, 63, 64, 65, u64::from(u32::MAX) + 1, u64::MAX - 1, u64::MAX]);
    }
}
