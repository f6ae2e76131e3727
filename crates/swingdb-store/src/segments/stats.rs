//! Statistics of column chunks: bounds, NULLs, order.
//!
//! Bounds use the order of Arrow's comparison kernels, which is also that of the query engine: for
//! floats the total order of IEEE 754 (-NaN < -inf < ... < -0.0 < 0.0 < ... < inf < NaN), so a NaN
//! is an ordinary largest (or smallest) value here. Long strings are cut at [`MAX_BOUND_BYTES`]:
//! the lower bound to a prefix, the upper one to a prefix that is raised by one; both are then
//! bounds, not values that occur.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, i256,
};
use datafusion::common::ScalarValue;
use swingdb_common::error::Result;

use crate::codec::{Reader, Writer};
use crate::errors::area::corrupt;

/// Most bytes of a string that a bound keeps.
pub(crate) const MAX_BOUND_BYTES: usize = 64;

/// One bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Bound {
    /// Integers and everything stored as one; floats as an integer of the same order.
    Int(i128),
    /// Text, bytes, 256-bit decimals (big-endian, sign bit flipped).
    Bytes(Box<[u8]>),
}

impl Bound {
    /// Whether it is certainly smaller than another bound of the same column.
    pub fn is_less(&self, other: &Self) -> bool {
        self.cmp_same(other).is_lt()
    }

    fn cmp_same(&self, other: &Self) -> std::cmp::Ordering {
        match (self, other) {
            (Bound::Int(a), Bound::Int(b)) => a.cmp(b),
            (Bound::Bytes(a), Bound::Bytes(b)) => a.cmp(b),
            // Bounds of one column are of one kind; treating others as equal only loses pruning.
            _ => std::cmp::Ordering::Equal,
        }
    }
}

/// Statistics of one chunk as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChunkStats {
    /// NULLs.
    pub nulls: u64,
    /// Lower and upper bound of the others.
    pub bounds: Option<(Bound, Bound)>,
    /// The bounds are values that occur.
    pub exact: bool,
    /// No NULLs, ascending.
    pub sorted: bool,
}

impl ChunkStats {
    /// Statistics of the rows of `pieces`, one after the other.
    pub fn of(data_type: &DataType, pieces: &[ArrayRef]) -> Self {
        let nulls: u64 = pieces.iter().map(|p| p.logical_null_count() as u64).sum();
        let mut found = Found::default();
        for piece in pieces {
            if !found.add(piece) {
                return Self { nulls, bounds: None, exact: false, sorted: false };
            }
        }
        let sorted = nulls == 0 && !found.unsorted;
        let Some((min, max)) = found.bounds else {
            return Self { nulls, bounds: None, exact: true, sorted };
        };
        let (min, max, exact) = cut(data_type, min, max);
        let exact = exact && !matches!(data_type, DataType::Dictionary(..));
        Self { nulls, bounds: max.map(|max| (min, max)), exact, sorted }
    }

    /// Statistics after the values `old` of some rows gave way to `new`, found without a look at
    /// the other rows. `None` when these count: a bound may be gone, or the rows were in order.
    pub fn replaced(&self, data_type: &DataType, old: &ArrayRef, new: &[ArrayRef]) -> Option<Self> {
        let (mut least, mut most) = self.bounds.clone().filter(|_| !self.sorted)?;
        if matches!(data_type, DataType::Dictionary(..)) {
            return None;
        }
        let mut gone = Found::default();
        let known = gone.add(old);
        let inside = gone.bounds.is_none_or(|(low, high)| {
            // What equals a bound may be the only one that does.
            least.is_less(&low) && high.is_less(&most)
        });
        if !known || !inside {
            return None;
        }
        let mut found = Found::default();
        if !new.iter().all(|piece| found.add(piece)) {
            return None;
        }
        let mut exact = self.exact;
        if let Some((low, high)) = found.bounds {
            let (low, high, whole) = cut(data_type, low, high);
            let high = high?;
            if low.is_less(&least) {
                (least, exact) = (low, exact && whole);
            }
            if most.is_less(&high) {
                (most, exact) = (high, exact && whole);
            }
        }
        let new_nulls: u64 = new.iter().map(|piece| piece.logical_null_count() as u64).sum();
        let nulls = (self.nulls + new_nulls).checked_sub(old.logical_null_count() as u64)?;
        Some(Self { nulls, bounds: Some((least, most)), exact, sorted: false })
    }

    pub fn write(&self, w: &mut Writer) {
        w.u64(self.nulls);
        w.bool(self.exact);
        w.bool(self.sorted);
        w.option(self.bounds.as_ref(), |w, (min, max)| {
            for bound in [min, max] {
                match bound {
                    Bound::Int(value) => {
                        w.bool(false);
                        w.i128(*value);
                    }
                    Bound::Bytes(bytes) => {
                        w.bool(true);
                        w.blob(bytes);
                    }
                }
            }
        });
    }

    pub fn read(r: &mut Reader<'_>, rows: u64) -> Result<Self> {
        let nulls = r.bounded(rows, "a count of NULLs")? as u64;
        let (exact, sorted) = (r.bool()?, r.bool()?);
        let bounds = r.option(|r| Ok((read_bound(r)?, read_bound(r)?)))?;
        Ok(Self { nulls, bounds, exact, sorted })
    }
}

fn read_bound(r: &mut Reader<'_>) -> Result<Bound> {
    if !r.bool()? {
        return Ok(Bound::Int(r.i128()?));
    }
    let bytes = r.blob()?;
    if bytes.len() > MAX_BOUND_BYTES {
        return Err(corrupt(format!("a bound of {} bytes", bytes.len())));
    }
    Ok(Bound::Bytes(bytes.into()))
}

/// The value a bound of a column of this type stands for; `None` when the type has no such bounds.
pub(crate) fn scalar(data_type: &DataType, bound: &Bound) -> Option<ScalarValue> {
    use ScalarValue as S;
    match bound {
        Bound::Int(value) => int_scalar(data_type, *value),
        Bound::Bytes(bytes) => {
            let text = || std::str::from_utf8(bytes).ok().map(str::to_owned);
            Some(match data_type {
                DataType::Utf8 => S::Utf8(Some(text()?)),
                DataType::LargeUtf8 => S::LargeUtf8(Some(text()?)),
                DataType::Utf8View => S::Utf8View(Some(text()?)),
                DataType::Binary => S::Binary(Some(bytes.to_vec())),
                DataType::LargeBinary => S::LargeBinary(Some(bytes.to_vec())),
                DataType::BinaryView => S::BinaryView(Some(bytes.to_vec())),
                DataType::FixedSizeBinary(w) if bytes.len() == *w as usize => {
                    S::FixedSizeBinary(*w, Some(bytes.to_vec()))
                }
                DataType::Decimal256(p, s) => {
                    let mut be: [u8; 32] = bytes.as_ref().try_into().ok()?;
                    be[0] ^= 0x80;
                    S::Decimal256(Some(i256::from_be_bytes(be)), *p, *s)
                }
                DataType::Dictionary(key, value) => {
                    S::Dictionary(key.clone(), Box::new(scalar(value, bound)?))
                }
                _ => return None,
            })
        }
    }
}

fn int_scalar(data_type: &DataType, v: i128) -> Option<ScalarValue> {
    use ScalarValue as S;
    use arrow::datatypes::TimeUnit as U;
    Some(match data_type {
        DataType::Boolean => S::Boolean(Some(v != 0)),
        DataType::Int8 => S::Int8(Some(v.try_into().ok()?)),
        DataType::Int16 => S::Int16(Some(v.try_into().ok()?)),
        DataType::Int32 => S::Int32(Some(v.try_into().ok()?)),
        DataType::Int64 => S::Int64(Some(v.try_into().ok()?)),
        DataType::UInt8 => S::UInt8(Some(v.try_into().ok()?)),
        DataType::UInt16 => S::UInt16(Some(v.try_into().ok()?)),
        DataType::UInt32 => S::UInt32(Some(v.try_into().ok()?)),
        DataType::UInt64 => S::UInt64(Some(v.try_into().ok()?)),
        DataType::Float16 => {
            S::Float16(Some(half::f16::from_bits(flip16(v.try_into().ok()?) as u16)))
        }
        DataType::Float32 => S::Float32(Some(f32::from_bits(flip32(v.try_into().ok()?) as u32))),
        DataType::Float64 => S::Float64(Some(f64::from_bits(flip64(v.try_into().ok()?) as u64))),
        DataType::Date32 => S::Date32(Some(v.try_into().ok()?)),
        DataType::Date64 => S::Date64(Some(v.try_into().ok()?)),
        DataType::Time32(U::Second) => S::Time32Second(Some(v.try_into().ok()?)),
        DataType::Time32(_) => S::Time32Millisecond(Some(v.try_into().ok()?)),
        DataType::Time64(U::Microsecond) => S::Time64Microsecond(Some(v.try_into().ok()?)),
        DataType::Time64(_) => S::Time64Nanosecond(Some(v.try_into().ok()?)),
        DataType::Timestamp(unit, zone) => {
            let v = Some(v.try_into().ok()?);
            match unit {
                U::Second => S::TimestampSecond(v, zone.clone()),
                U::Millisecond => S::TimestampMillisecond(v, zone.clone()),
                U::Microsecond => S::TimestampMicrosecond(v, zone.clone()),
                U::Nanosecond => S::TimestampNanosecond(v, zone.clone()),
            }
        }
        DataType::Duration(unit) => {
            let v = Some(v.try_into().ok()?);
            match unit {
                U::Second => S::DurationSecond(v),
                U::Millisecond => S::DurationMillisecond(v),
                U::Microsecond => S::DurationMicrosecond(v),
                U::Nanosecond => S::DurationNanosecond(v),
            }
        }
        DataType::Decimal32(p, s) => S::Decimal32(Some(v.try_into().ok()?), *p, *s),
        DataType::Decimal64(p, s) => S::Decimal64(Some(v.try_into().ok()?), *p, *s),
        DataType::Decimal128(p, s) => S::Decimal128(Some(v), *p, *s),
        DataType::Dictionary(key, value) => {
            S::Dictionary(key.clone(), Box::new(int_scalar(value, v)?))
        }
        _ => return None,
    })
}

/// Between the bits of a float and an integer of the same (total) order; its own inverse.
const fn flip64(bits: i64) -> i64 {
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

const fn flip32(bits: i32) -> i32 {
    bits ^ (((bits >> 31) as u32) >> 1) as i32
}

const fn flip16(bits: i16) -> i16 {
    bits ^ (((bits >> 15) as u16) >> 1) as i16
}

/// What has been seen of a column so far.
#[derive(Default)]
struct Found {
    bounds: Option<(Bound, Bound)>,
    last: Option<Bound>,
    unsorted: bool,
}

impl Found {
    /// Adds a piece; `false` when its type has no order.
    fn add(&mut self, piece: &ArrayRef) -> bool {
        let summary = match piece.data_type() {
            DataType::Utf8 => bytes_summary(piece, piece.as_string::<i32>().iter().map(text)),
            DataType::LargeUtf8 => bytes_summary(piece, piece.as_string::<i64>().iter().map(text)),
            DataType::Utf8View => bytes_summary(piece, piece.as_string_view().iter().map(text)),
            DataType::Binary => bytes_summary(piece, piece.as_binary::<i32>().iter()),
            DataType::LargeBinary => bytes_summary(piece, piece.as_binary::<i64>().iter()),
            DataType::BinaryView => bytes_summary(piece, piece.as_binary_view().iter()),
            DataType::FixedSizeBinary(w) if *w as usize <= MAX_BOUND_BYTES => {
                bytes_summary(piece, piece.as_fixed_size_binary().iter())
            }
            DataType::Dictionary(_, values) if values.is_primitive() || values.is_string() => {
                // Values that no key uses may widen the bounds: they are not exact (see
                // `ChunkStats::of`).
                self.unsorted = true;
                return self.add(piece.as_any_dictionary().values());
            }
            DataType::Null => return true,
            _ => match primitive_summary(piece) {
                Some(summary) => summary,
                None => return false,
            },
        };
        self.merge(summary);
        true
    }

    fn merge(&mut self, piece: Summary) {
        let Some((min, max, first, last)) = piece.values else { return };
        if !piece.sorted || self.last.as_ref().is_some_and(|l| l.cmp_same(&first).is_gt()) {
            self.unsorted = true;
        }
        self.last = Some(last);
        self.bounds = Some(match self.bounds.take() {
            None => (min, max),
            Some((old_min, old_max)) => (
                if min.cmp_same(&old_min).is_lt() { min } else { old_min },
                if max.cmp_same(&old_max).is_gt() { max } else { old_max },
            ),
        });
    }
}

fn text(value: Option<&str>) -> Option<&[u8]> {
    value.map(str::as_bytes)
}

/// Bounds, first and last value of a piece, and whether it ascends.
struct Summary {
    values: Option<(Bound, Bound, Bound, Bound)>,
    sorted: bool,
}

fn bytes_summary<'a>(
    _piece: &'a ArrayRef,
    values: impl Iterator<Item = Option<&'a [u8]>>,
) -> Summary {
    let mut values = values.flatten();
    let Some(first) = values.next() else { return Summary { values: None, sorted: true } };
    let (mut min, mut max, mut last, mut sorted) = (first, first, first, true);
    for value in values {
        if sorted {
            // While ascending, the last value is the largest and the first the smallest.
            if value >= last {
                max = value;
            } else {
                sorted = false;
                min = min.min(value);
            }
        } else if value < min {
            min = value;
        } else if value > max {
            max = value;
        }
        last = value;
    }
    let bound = |bytes: &[u8]| Bound::Bytes(bytes.into());
    Summary { values: Some((bound(min), bound(max), bound(first), bound(last))), sorted }
}

/// Rows that are examined at once: they stay in the first-level cache between the passes.
const BLOCK_ROWS: usize = 1024;

fn summarize<T: Copy, K: Copy + Ord>(
    values: &[T],
    nulls: Option<&arrow::buffer::NullBuffer>,
    key: impl Fn(T) -> K,
    bound: impl Fn(K) -> Bound,
) -> Summary {
    let none = Summary { values: None, sorted: true };
    let (min, max, first, last, sorted) = match nulls.filter(|n| n.null_count() > 0) {
        Some(nulls) => {
            let mut valid = nulls.valid_indices().map(|i| key(values[i]));
            let Some(first) = valid.next() else { return none };
            let (mut min, mut max) = (first, first);
            valid.for_each(|k| {
                min = min.min(k);
                max = max.max(k);
            });
            (min, max, first, first, false)
        }
        None => {
            let (Some(&first), Some(&last)) = (values.first(), values.last()) else { return none };
            let (first, last) = (key(first), key(last));
            let (mut min, mut max, mut sorted) = (first, first, true);
            let mut before = first;
            for block in values.chunks(BLOCK_ROWS) {
                let (low, high) = block.iter().fold((min, max), |(low, high), &v| {
                    let k = key(v);
                    (low.min(k), high.max(k))
                });
                (min, max) = (low, high);
                if sorted {
                    let steps = block.windows(2).filter(|w| key(w[0]) > key(w[1])).count();
                    sorted = steps == 0 && key(block[0]) >= before;
                    before = key(block[block.len() - 1]);
                }
            }
            (min, max, first, last, sorted)
        }
    };
    Summary { values: Some((bound(min), bound(max), bound(first), bound(last))), sorted }
}

fn primitive_summary(piece: &ArrayRef) -> Option<Summary> {
    let nulls = piece.nulls();
    let int = |v: i128| Bound::Int(v);
    macro_rules! with {
        ($t:ty, $key:expr, $to:expr) => {
            summarize(piece.as_primitive::<$t>().values(), nulls, $key, $to)
        };
    }
    use arrow::datatypes as t;
    Some(match piece.data_type() {
        DataType::Boolean => boolean_summary(piece),
        DataType::Float16 => {
            with!(t::Float16Type, |v| flip16(v.to_bits() as i16), |k| int(k.into()))
        }
        DataType::Float32 => {
            with!(t::Float32Type, |v| flip32(v.to_bits() as i32), |k| int(k.into()))
        }
        DataType::Float64 => {
            with!(t::Float64Type, |v| flip64(v.to_bits() as i64), |k| int(k.into()))
        }
        DataType::Decimal32(..) => with!(Decimal32Type, |v| v, |k| int(k.into())),
        DataType::Decimal64(..) => with!(Decimal64Type, |v| v, |k| int(k.into())),
        DataType::Decimal128(..) => with!(Decimal128Type, |v| v, int),
        DataType::Decimal256(..) => with!(Decimal256Type, |v| v, |k: i256| {
            let mut be = k.to_be_bytes();
            be[0] ^= 0x80;
            Bound::Bytes(be.into())
        }),
        DataType::Interval(_) => return None,
        DataType::UInt64 => with!(t::UInt64Type, |v| v, |k| int(k.into())),
        other if other.is_primitive() => {
            let array: &dyn Array = piece.as_ref();
            return integer_summary(array);
        }
        _ => return None,
    })
}

/// Integers of up to 64 bits and the times stored as such.
fn integer_summary(array: &dyn Array) -> Option<Summary> {
    fn of<T: ArrowPrimitiveType>(array: &dyn Array) -> Option<Summary>
    where
        T::Native: Ord + TryInto<i128>,
    {
        let values = array.as_primitive::<T>();
        let bound = |k: T::Native| Bound::Int(k.try_into().unwrap_or_default());
        Some(summarize(values.values(), array.nulls(), |v| v, bound))
    }
    use arrow::datatypes::*;
    macro_rules! dispatch {
        ($($pattern:pat => $t:ty),* $(,)?) => {
            match array.data_type() { $($pattern => of::<$t>(array),)* _ => None }
        };
    }
    use arrow::datatypes::TimeUnit as U;
    dispatch! {
        DataType::Int8 => Int8Type,
        DataType::Int16 => Int16Type,
        DataType::Int32 => Int32Type,
        DataType::Int64 => Int64Type,
        DataType::UInt8 => UInt8Type,
        DataType::UInt16 => UInt16Type,
        DataType::UInt32 => UInt32Type,
        DataType::Date32 => Date32Type,
        DataType::Date64 => Date64Type,
        DataType::Time32(U::Second) => Time32SecondType,
        DataType::Time32(U::Millisecond) => Time32MillisecondType,
        DataType::Time64(U::Microsecond) => Time64MicrosecondType,
        DataType::Time64(U::Nanosecond) => Time64NanosecondType,
        DataType::Timestamp(U::Second, _) => TimestampSecondType,
        DataType::Timestamp(U::Millisecond, _) => TimestampMillisecondType,
        DataType::Timestamp(U::Microsecond, _) => TimestampMicrosecondType,
        DataType::Timestamp(U::Nanosecond, _) => TimestampNanosecondType,
        DataType::Duration(U::Second) => DurationSecondType,
        DataType::Duration(U::Millisecond) => DurationMillisecondType,
        DataType::Duration(U::Microsecond) => DurationMicrosecondType,
        DataType::Duration(U::Nanosecond) => DurationNanosecondType,
    }
}

fn boolean_summary(piece: &ArrayRef) -> Summary {
    let array = piece.as_boolean();
    let (set, valid) = (array.true_count(), array.len() - array.null_count());
    if valid == 0 {
        return Summary { values: None, sorted: true };
    }
    let bound = |b: bool| Bound::Int(b.into());
    // Ascending: all values equal, or as many ones at the end as there are ones.
    let tail = array.len() - set.min(array.len());
    let sorted = array.null_count() == 0 && array.values().slice(tail, set).count_set_bits() == set;
    let (first, last) = (array.value(0), array.value(array.len() - 1));
    Summary {
        values: Some((bound(set == valid), bound(set > 0), bound(first), bound(last))),
        sorted,
    }
}

/// Cuts long bounds; `None` for an upper bound that cannot be raised (all bytes are the largest).
fn cut(data_type: &DataType, min: Bound, max: Bound) -> (Bound, Option<Bound>, bool) {
    let (Bound::Bytes(low), Bound::Bytes(high)) = (&min, &max) else {
        return (min, Some(max), true);
    };
    let exact = low.len() <= MAX_BOUND_BYTES && high.len() <= MAX_BOUND_BYTES;
    if exact {
        return (min, Some(max), true);
    }
    let is_text = match data_type {
        DataType::Dictionary(_, value) => value.is_string(),
        other => other.is_string(),
    };
    let low = Bound::Bytes(prefix(low, is_text).into());
    let high = if high.len() <= MAX_BOUND_BYTES {
        Some(max)
    } else {
        raise(prefix(high, is_text), is_text).map(|bytes| Bound::Bytes(bytes.into()))
    };
    (low, high, false)
}

/// At most [`MAX_BOUND_BYTES`] bytes; whole characters of a text.
fn prefix(bytes: &[u8], is_text: bool) -> &[u8] {
    if bytes.len() <= MAX_BOUND_BYTES {
        return bytes;
    }
    let mut end = MAX_BOUND_BYTES;
    while is_text && end > 0 && bytes[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    &bytes[..end]
}

/// A string that is larger than every string with this prefix.
fn raise(prefix: &[u8], is_text: bool) -> Option<Vec<u8>> {
    if !is_text {
        let last = prefix.iter().rposition(|b| *b != 0xff)?;
        let mut raised = prefix[..=last].to_vec();
        raised[last] += 1;
        return Some(raised);
    }
    let mut characters: Vec<char> = std::str::from_utf8(prefix).ok()?.chars().collect();
    while let Some(last) = characters.pop() {
        let next = (last as u32 + 1..=0x10_ffff).find_map(char::from_u32);
        // The next character may be longer; the bound must fit its limit.
        if let Some(next) = next.filter(|n| n.len_utf8() <= last.len_utf8()) {
            characters.push(next);
            return Some(characters.into_iter().collect::<String>().into_bytes());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{BinaryArray, BooleanArray, Float64Array, Int32Array, StringArray};

    use super::*;

    fn stats(pieces: &[ArrayRef]) -> (Option<ScalarValue>, Option<ScalarValue>, ChunkStats) {
        let data_type = pieces[0].data_type();
        let found = ChunkStats::of(data_type, pieces);
        let (min, max) = found.bounds.clone().unzip();
        let value = |b: Option<Bound>| b.and_then(|b| scalar(data_type, &b));
        (value(min), value(max), found)
    }

    #[test]
    fn floats_follow_the_total_order() {
        let values = [1.5, f64::NEG_INFINITY, -0.0, 0.0, f64::NAN, -2.0];
        let array: ArrayRef = Arc::new(Float64Array::from(values.to_vec()));
        let (min, max, found) = stats(&[array]);
        assert_eq!(min, Some(ScalarValue::Float64(Some(f64::NEG_INFINITY))));
        assert!(matches!(max, Some(ScalarValue::Float64(Some(v))) if v.is_nan()));
        assert!(found.exact && !found.sorted);
        let array: ArrayRef = Arc::new(Float64Array::from(vec![-1.0, -0.0, 0.0, f64::INFINITY]));
        assert!(stats(&[array]).2.sorted);
        let array: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0]));
        assert!(!stats(&[array]).2.sorted);
    }

    #[test]
    fn order_is_seen_across_pieces() {
        let ints = |v: Vec<i32>| -> ArrayRef { Arc::new(Int32Array::from(v)) };
        assert!(stats(&[ints(vec![1, 2]), ints(vec![2, 9])]).2.sorted);
        assert!(!stats(&[ints(vec![1, 3]), ints(vec![2, 9])]).2.sorted);
        let long: Vec<i32> = (0..5000).map(|i| if i == 2048 { 0 } else { i }).collect();
        assert!(!stats(&[ints(long)]).2.sorted);
        let texts = |v: Vec<&str>| -> ArrayRef { Arc::new(StringArray::from(v)) };
        let (min, max, found) = stats(&[texts(vec!["b", "c"]), texts(vec!["c", "a"])]);
        assert_eq!(min, Some(ScalarValue::from("a")));
        assert_eq!(max, Some(ScalarValue::from("c")));
        assert!(!found.sorted && found.exact);
        let (min, max, _) = stats(&[texts(vec!["b", "a", "x", "c"])]);
        assert_eq!((min, max), (Some(ScalarValue::from("a")), Some(ScalarValue::from("x"))));
    }

    #[test]
    fn long_bounds_are_cut_and_stay_bounds() {
        let low = "a".repeat(70);
        let high = "z\u{7f}".repeat(40);
        let array: ArrayRef = Arc::new(StringArray::from(vec![low.as_str(), high.as_str()]));
        let (min, max, found) = stats(&[array]);
        let (Some(ScalarValue::Utf8(Some(min))), Some(ScalarValue::Utf8(Some(max)))) = (min, max)
        else {
            panic!("bounds of a text column")
        };
        assert!(min <= low && max >= high && !found.exact);
        assert!(min.len() <= MAX_BOUND_BYTES && max.len() <= MAX_BOUND_BYTES);
        let largest = vec![0xffu8; 100];
        let array: ArrayRef = Arc::new(BinaryArray::from_vec(vec![&largest]));
        assert_eq!(stats(&[array]).2.bounds, None);
    }

    /// What is found from the changed values alone is what a look at all values finds.
    #[test]
    fn replacing_values_is_looking_at_all() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut quick, mut slow) = (0, 0);
        for _ in 0..500 {
            let len = random.usize(2..200);
            let texts = random.bool();
            let mut make = |len: usize| -> ArrayRef {
                let values = (0..len).map(|_| {
                    let some = random.u8(..8) > 0;
                    some.then(|| random.i32(-50..50))
                });
                let long = |n: Option<i32>| n.map(|n| format!("{}{n}", "x".repeat(n as usize % 9)));
                match texts {
                    true => Arc::new(values.map(long).collect::<StringArray>()),
                    false => Arc::new(values.collect::<Int32Array>()),
                }
            };
            let (before, new) = (make(len), make(len));
            let (from, count) = (random.usize(..len), random.usize(1..len));
            let count = count.min(len - from);
            let old = before.slice(from, count);
            let new = new.slice(from, count);
            let rest = before.slice(from + count, len - from - count);
            let pieces = [before.slice(0, from), new.clone(), rest];
            let data_type = before.data_type();
            let first = ChunkStats::of(data_type, std::slice::from_ref(&before));
            let wanted = ChunkStats::of(data_type, &pieces);
            match first.replaced(
                data_type,
                &old,
                &[new.slice(0, count / 2), new.slice(count / 2, count - count / 2)],
            ) {
                Some(found) => {
                    quick += 1;
                    assert_eq!(ChunkStats { sorted: wanted.sorted, ..found }, wanted);
                    assert!(!found.sorted);
                }
                None => slow += 1,
            }
        }
        assert!(quick > 50 && slow > 50, "{quick} and {slow}");
    }

    #[test]
    fn replacing_cut_bounds_keeps_them_bounds() {
        let texts =
            |v: &[String]| -> ArrayRef { Arc::new(v.iter().map(Some).collect::<StringArray>()) };
        let (low, middle, high) = ("a".repeat(99), "m".to_string(), "x".repeat(99));
        let first = ChunkStats::of(&DataType::Utf8, &[texts(&[high.clone(), middle, low])]);
        assert!(!first.exact);
        let (old, new) = (texts(&["m".to_string()]), texts(&["z".repeat(99)]));
        let found = first.replaced(&DataType::Utf8, &old, &[new]).unwrap();
        let (_, most) = found.bounds.clone().unwrap();
        assert!(!found.exact && Bound::Bytes("z".repeat(99).into_bytes().into()).is_less(&most));
        // Nothing is known of rows in order, or without bounds.
        let sorted = ChunkStats { sorted: true, ..first.clone() };
        assert_eq!(sorted.replaced(&DataType::Utf8, &old, &[]), None);
        let unknown = ChunkStats { bounds: None, ..first };
        assert_eq!(unknown.replaced(&DataType::Utf8, &old, &[]), None);
    }

    #[test]
    fn booleans_and_nulls() {
        let array: ArrayRef = Arc::new(BooleanArray::from(vec![false, false, true]));
        let (min, max, found) = stats(&[array]);
        assert_eq!((min, max), (Some(false.into()), Some(true.into())));
        assert!(found.sorted);
        let array: ArrayRef = Arc::new(BooleanArray::from(vec![true, false]));
        assert!(!stats(&[array]).2.sorted);
        let array: ArrayRef = Arc::new(Int32Array::from(vec![None, Some(4), None]));
        let (min, _, found) = stats(&[array]);
        assert_eq!((min, found.nulls, found.sorted), (Some(4i32.into()), 2, false));
    }
}
