//! The keys of a join: their hashes, which rows can match at all, and whole numbers as offsets.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Date64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::common::{NullEquality, Result, ScalarValue};

/// Another seed than that of repartitioning: rows of one partition must not share bits of the hash.
const SEED: RandomState = RandomState::with_seed(0x5357_494e_474a_4f49);
/// An odd constant without structure: the fraction of the golden ratio.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// The hashes of the rows of `keys`, whose top and low bits are both well mixed.
pub(crate) fn hashes(keys: &[ArrayRef], rows: usize, hashes: &mut Vec<u64>) -> Result<()> {
    hashes.clear();
    hashes.resize(rows, 0);
    create_hashes(keys, &SEED, hashes)?;
    hashes.iter_mut().for_each(|hash| *hash = mixed(*hash));
    Ok(())
}

/// The engine's hash is made for tables that look at its low bits; the high ones count here.
fn mixed(hash: u64) -> u64 {
    let product = u128::from(hash ^ MIX) * u128::from(MIX);
    (product >> 64) as u64 ^ product as u64
}

/// The rows whose keys can match any; `None` for all rows.
pub(crate) fn matchable(keys: &[ArrayRef], null_equality: NullEquality) -> Option<NullBuffer> {
    if null_equality == NullEquality::NullEqualsNull {
        return None;
    }
    let nulls = keys.iter().map(|key| key.logical_nulls()).collect::<Vec<_>>();
    NullBuffer::union_many(nulls.iter().map(Option::as_ref)).filter(|all| all.null_count() > 0)
}

/// Calls a macro with the type of each kind of key that is a whole number.
macro_rules! whole_numbers {
    ($data_type:expr, $with:ident) => {
        match $data_type {
            DataType::Int8 => $with!(Int8Type),
            DataType::Int16 => $with!(Int16Type),
            DataType::Int32 => $with!(Int32Type),
            DataType::Int64 => $with!(Int64Type),
            DataType::UInt8 => $with!(UInt8Type),
            DataType::UInt16 => $with!(UInt16Type),
            DataType::UInt32 => $with!(UInt32Type),
            DataType::UInt64 => $with!(UInt64Type),
            DataType::Date32 => $with!(Date32Type),
            DataType::Date64 => $with!(Date64Type),
            DataType::Timestamp(TimeUnit::Second, _) => $with!(TimestampSecondType),
            DataType::Timestamp(TimeUnit::Millisecond, _) => $with!(TimestampMillisecondType),
            DataType::Timestamp(TimeUnit::Microsecond, _) => $with!(TimestampMicrosecondType),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => $with!(TimestampNanosecondType),
            _ => None,
        }
    };
}

/// Whether keys of a type are whole numbers, which [`offsets`] can tell.
pub(crate) fn is_whole_number(data_type: &DataType) -> bool {
    macro_rules! known {
        ($type:ty) => {
            Some(())
        };
    }
    let known: Option<()> = whole_numbers!(data_type, known);
    known.is_some()
}

/// How far the keys are above `least`; too far for those below it. `None` for other types.
///
/// The values of rows that are NULL are arbitrary.
pub(crate) fn offsets(keys: &dyn Array, least: i64, offsets: &mut Vec<u64>) -> Option<()> {
    offsets.clear();
    macro_rules! extend {
        ($type:ty) => {{
            let values = keys.as_primitive_opt::<$type>()?.values();
            let native = values.iter().map(|&value| wide::<$type>(value));
            offsets.extend(native.map(|value| value.wrapping_sub(least) as u64));
            Some(())
        }};
    }
    whole_numbers!(keys.data_type(), extend)
}

/// Which rows fulfil a condition on how far their keys are above `least`. `None` for other types.
///
/// The values of rows that are NULL are arbitrary.
pub(crate) fn each_offset(
    keys: &dyn Array,
    least: i64,
    mut is_true: impl FnMut(u64) -> bool,
) -> Option<BooleanBuffer> {
    macro_rules! tested {
        ($type:ty) => {{
            let values = keys.as_primitive_opt::<$type>()?.values();
            let offset = |row: usize| wide::<$type>(values[row]).wrapping_sub(least) as u64;
            Some(BooleanBuffer::collect_bool(values.len(), |row| is_true(offset(row))))
        }};
    }
    whole_numbers!(keys.data_type(), tested)
}

/// A number of up to 64 bits. The difference of two of them is right for unsigned ones too.
fn wide<T: ArrowPrimitiveType>(value: T::Native) -> i64
where
    T::Native: Wide,
{
    value.wide()
}

trait Wide {
    fn wide(self) -> i64;
}

macro_rules! wide {
    ($($native:ty),*) => {
        $(impl Wide for $native {
            fn wide(self) -> i64 {
                self as i64
            }
        })*
    };
}

wide!(i8, i16, i32, i64, u8, u16, u32, u64);

/// The number that a bound of whole numbers is.
pub(crate) fn whole_number(bound: &ScalarValue) -> Option<i64> {
    use ScalarValue as S;
    Some(match bound {
        S::Int8(value) => i64::from((*value)?),
        S::Int16(value) => i64::from((*value)?),
        S::Int32(value) | S::Date32(value) => i64::from((*value)?),
        S::Int64(value)
        | S::Date64(value)
        | S::TimestampSecond(value, _)
        | S::TimestampMillisecond(value, _)
        | S::TimestampMicrosecond(value, _)
        | S::TimestampNanosecond(value, _) => (*value)?,
        S::UInt8(value) => i64::from((*value)?),
        S::UInt16(value) => i64::from((*value)?),
        S::UInt32(value) => i64::from((*value)?),
        S::UInt64(value) => (*value)? as i64,
        _ => return None,
    })
}
