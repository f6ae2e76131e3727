//! The five functions of the paper, over numbers that a decoder takes out of the records.
//!
//! SUM, MIN and MAX are the same function twice. COUNT counts in parts and adds. AVG has two
//! partial values, a sum and a count, and divides at the end. Several at once are a tuple of them.

use std::convert::Infallible;
use std::marker::PhantomData;

use crate::scan::aggregate::{Aggregate, Chunk};

/// A type of numbers.
pub trait Number: Copy + Send + Sync + 'static {
    /// What sums are kept in: wide enough that whole numbers never overflow.
    type Sum: Copy + Send;
    /// The sum of nothing.
    const ZERO: Self::Sum;

    /// The number as a sum.
    fn widen(self) -> Self::Sum;
    /// Adds sums.
    fn add(a: Self::Sum, b: Self::Sum) -> Self::Sum;
    /// Whether `self` comes before `other`. NaN comes after all other numbers.
    fn is_less(self, other: Self) -> bool;
    /// The mean of `count` numbers with this sum.
    fn mean(sum: Self::Sum, count: u64) -> f64;
}

macro_rules! whole_number {
    ($($kind:ty),*) => {$(
        impl Number for $kind {
            type Sum = i128;
            const ZERO: i128 = 0;

            fn widen(self) -> i128 {
                i128::from(self)
            }

            fn add(a: i128, b: i128) -> i128 {
                a + b
            }

            fn is_less(self, other: Self) -> bool {
                self < other
            }

            fn mean(sum: i128, count: u64) -> f64 {
                sum as f64 / count as f64
            }
        }
    )*};
}

whole_number!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! real_number {
    ($($kind:ty),*) => {$(
        impl Number for $kind {
            type Sum = f64;
            const ZERO: f64 = 0.0;

            fn widen(self) -> f64 {
                f64::from(self)
            }

            fn add(a: f64, b: f64) -> f64 {
                a + b
            }

            fn is_less(self, other: Self) -> bool {
                self < other || (other.is_nan() && !self.is_nan())
            }

            fn mean(sum: f64, count: u64) -> f64 {
                sum / count as f64
            }
        }
    )*};
}

real_number!(f32, f64);

/// An aggregate function over numbers.
pub trait Fold<T>: Sync {
    /// The state of a partial aggregate.
    type Partial: Send;
    /// The result.
    type Output;

    /// The state before the first number.
    fn start(&self) -> Self::Partial;
    /// Takes numbers into the state.
    fn update(&self, partial: &mut Self::Partial, numbers: &[T]);
    /// Takes another state in.
    fn merge(&self, into: &mut Self::Partial, other: Self::Partial);
    /// The result.
    fn finish(&self, partial: Self::Partial) -> Self::Output;
}

/// The sum; `None` of no numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum;
/// The least; `None` of no numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Min;
/// The greatest; `None` of no numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Max;
/// How many.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count;
/// The mean; `None` of no numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Avg;

fn total<T: Number>(numbers: &[T]) -> T::Sum {
    numbers.iter().fold(T::ZERO, |sum, number| T::add(sum, number.widen()))
}

impl<T: Number> Fold<T> for Sum {
    type Partial = Option<T::Sum>;
    type Output = Option<T::Sum>;

    fn start(&self) -> Self::Partial {
        None
    }

    fn update(&self, partial: &mut Self::Partial, numbers: &[T]) {
        if !numbers.is_empty() {
            *partial = Some(T::add(partial.unwrap_or(T::ZERO), total(numbers)));
        }
    }

    fn merge(&self, into: &mut Self::Partial, other: Self::Partial) {
        *into = match (*into, other) {
            (Some(a), Some(b)) => Some(T::add(a, b)),
            (a, b) => a.or(b),
        };
    }

    fn finish(&self, partial: Self::Partial) -> Self::Output {
        partial
    }
}

/// Of two numbers the one that a function keeps.
fn better<T: Copy>(a: Option<T>, b: Option<T>, keeps_b: impl Fn(T, T) -> bool) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if keeps_b(a, b) { b } else { a }),
        (a, b) => a.or(b),
    }
}

macro_rules! extreme {
    ($name:ident, |$a:ident, $b:ident| $keeps:expr) => {
        impl<T: Number> Fold<T> for $name {
            type Partial = Option<T>;
            type Output = Option<T>;

            fn start(&self) -> Option<T> {
                None
            }

            fn update(&self, partial: &mut Option<T>, numbers: &[T]) {
                let best = numbers.iter().copied().reduce(|$a, $b| if $keeps { $b } else { $a });
                *partial = better(*partial, best, |$a, $b| $keeps);
            }

            fn merge(&self, into: &mut Option<T>, other: Option<T>) {
                *into = better(*into, other, |$a, $b| $keeps);
            }

            fn finish(&self, partial: Option<T>) -> Option<T> {
                partial
            }
        }
    };
}

extreme!(Min, |a, b| b.is_less(a));
extreme!(Max, |a, b| a.is_less(b));

impl<T> Fold<T> for Count {
    type Partial = u64;
    type Output = u64;

    fn start(&self) -> u64 {
        0
    }

    fn update(&self, partial: &mut u64, numbers: &[T]) {
        *partial += numbers.len() as u64;
    }

    fn merge(&self, into: &mut u64, other: u64) {
        *into += other;
    }

    fn finish(&self, partial: u64) -> u64 {
        partial
    }
}

impl<T: Number> Fold<T> for Avg {
    type Partial = (T::Sum, u64);
    type Output = Option<f64>;

    fn start(&self) -> Self::Partial {
        (T::ZERO, 0)
    }

    fn update(&self, partial: &mut Self::Partial, numbers: &[T]) {
        partial.0 = T::add(partial.0, total(numbers));
        partial.1 += numbers.len() as u64;
    }

    fn merge(&self, into: &mut Self::Partial, (sum, count): Self::Partial) {
        *into = (T::add(into.0, sum), into.1 + count);
    }

    fn finish(&self, (sum, count): Self::Partial) -> Option<f64> {
        (count > 0).then(|| T::mean(sum, count))
    }
}

macro_rules! several {
    ($($name:ident $at:tt),*) => {
        impl<T, $($name: Fold<T>),*> Fold<T> for ($($name,)*) {
            type Partial = ($($name::Partial,)*);
            type Output = ($($name::Output,)*);

            fn start(&self) -> Self::Partial {
                ($(self.$at.start(),)*)
            }

            fn update(&self, partial: &mut Self::Partial, numbers: &[T]) {
                $(self.$at.update(&mut partial.$at, numbers);)*
            }

            fn merge(&self, into: &mut Self::Partial, other: Self::Partial) {
                $(self.$at.merge(&mut into.$at, other.$at);)*
            }

            fn finish(&self, partial: Self::Partial) -> Self::Output {
                ($(self.$at.finish(partial.$at),)*)
            }
        }
    };
}

several!(A 0);
several!(A 0, B 1);
several!(A 0, B 1, C 2);
several!(A 0, B 1, C 2, D 3);
several!(A 0, B 1, C 2, D 3, E 4);
several!(A 0, B 1, C 2, D 3, E 4, F 5);

/// A function over the numbers of records: a decoder takes them out of each chunk.
///
/// The decoder appends the numbers of a chunk. Numbers that a chunk's end cuts in two are the
/// decoder's to see to; see [`Aggregate`] for where chunks begin.
#[derive(Clone, Copy, Debug)]
pub struct Numbers<T, D, F> {
    decode: D,
    fold: F,
    numbers: PhantomData<fn() -> T>,
}

impl<T, D, F> Numbers<T, D, F>
where
    T: Send,
    D: Fn(&Chunk<'_>, &mut Vec<T>) + Sync,
    F: Fold<T>,
{
    /// `fold` over the numbers that `decode` finds.
    pub fn new(decode: D, fold: F) -> Self {
        Numbers { decode, fold, numbers: PhantomData }
    }
}

impl<T, D, F> Aggregate for Numbers<T, D, F>
where
    T: Send,
    D: Fn(&Chunk<'_>, &mut Vec<T>) + Sync,
    F: Fold<T>,
{
    /// The state, and memory for the numbers of a chunk.
    type Partial = (F::Partial, Vec<T>);
    type Output = F::Output;
    type Error = Infallible;

    fn start(&self) -> Self::Partial {
        (self.fold.start(), Vec::new())
    }

    fn update(&self, partial: &mut Self::Partial, chunk: &Chunk<'_>) -> Result<(), Infallible> {
        let (partial, numbers) = partial;
        numbers.clear();
        (self.decode)(chunk, numbers);
        self.fold.update(partial, numbers);
        Ok(())
    }

    fn merge(&self, into: &mut Self::Partial, other: Self::Partial) -> Result<(), Infallible> {
        self.fold.merge(&mut into.0, other.0);
        Ok(())
    }

    fn finish(&self, partial: Self::Partial) -> Result<F::Output, Infallible> {
        Ok(self.fold.finish(partial.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIVE: (Sum, Min, Max, Count, Avg) = (Sum, Min, Max, Count, Avg);

    type Five<T> = (Option<<T as Number>::Sum>, Option<T>, Option<T>, u64, Option<f64>);

    /// Folds the numbers in parts of `part`.
    fn in_parts<T: Number>(numbers: &[T], part: usize) -> Five<T> {
        let mut all = Fold::<T>::start(&FIVE);
        for part in numbers.chunks(part) {
            let mut partial = Fold::<T>::start(&FIVE);
            part.chunks(2).for_each(|few| FIVE.update(&mut partial, few));
            Fold::<T>::merge(&FIVE, &mut all, partial);
        }
        Fold::<T>::finish(&FIVE, all)
    }

    #[test]
    fn parts_of_any_length_give_the_same() {
        let numbers = [3_i64, -7, 0, 12, 5, -7, 1];
        for part in 1..9 {
            assert_eq!(in_parts(&numbers, part), (Some(7), Some(-7), Some(12), 7, Some(1.0)));
        }
        assert_eq!(in_parts::<i64>(&[], 1), (None, None, None, 0, None));
    }

    #[test]
    fn sums_of_whole_numbers_do_not_overflow() {
        let found = in_parts(&[i64::MAX; 4], 3);
        assert_eq!(found.0, Some(i128::from(i64::MAX) * 4));
        assert_eq!(in_parts(&[u64::MAX; 3], 1).0, Some(i128::from(u64::MAX) * 3));
        assert_eq!(found.4, Some(i64::MAX as f64));
    }

    #[test]
    fn nan_is_the_greatest_number() {
        let numbers = [1.0, f64::NAN, -3.0];
        for part in 1..4 {
            let (sum, least, greatest, ..) = in_parts(&numbers, part);
            assert_eq!(least, Some(-3.0));
            assert!(greatest.unwrap().is_nan() && sum.unwrap().is_nan());
        }
        assert!(in_parts(&[f32::NAN], 1).1.unwrap().is_nan());
    }
}
