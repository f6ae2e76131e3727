//! Functions that the engine lacks of whole numbers and of values of any type.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Builder, StringViewBuilder, UInt64Array,
    downcast_integer,
};
use arrow::buffer::BooleanBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type, UInt64Type};
use arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use xxhash_rust::xxh3::xxh3_64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// How many bits are set.
    BitCount,
    /// Each bit the other way, of a number of any length.
    BitNot,
    /// Digits of base 16, of a number or of bytes.
    Hex,
    /// The same of base 2.
    Bin,
    /// Digits of another base.
    ToBase,
    /// A number of bytes as people read it, in steps of 1024 or 1000.
    Bytes { step: u64 },
    /// Whether a number is neither infinite nor NaN; dates and times all are finite.
    IsFinite,
    /// Whether a number is infinite.
    IsInfinite,
    /// Whether a number has a minus, which a zero and a NaN may have too.
    SignBit,
    /// A number that depends on the values alone.
    Hash,
}

const FUNCTIONS: &[(&str, Kind)] = &[
    ("bit_count", Kind::BitCount),
    ("bitwise_not", Kind::BitNot),
    ("hex", Kind::Hex),
    ("bin", Kind::Bin),
    ("to_binary", Kind::Bin),
    ("to_base", Kind::ToBase),
    ("format_bytes", Kind::Bytes { step: 1024 }),
    ("formatreadablesize", Kind::Bytes { step: 1024 }),
    ("formatreadabledecimalsize", Kind::Bytes { step: 1000 }),
    ("isfinite", Kind::IsFinite),
    ("isinf", Kind::IsInfinite),
    ("signbit", Kind::SignBit),
    ("hash", Kind::Hash),
];

/// All functions of this module.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    FUNCTIONS.iter().map(|(name, kind)| {
        let signature = Signature::variadic_any(Volatility::Immutable);
        ScalarUDF::new_from_impl(OfNumbers { name, kind: *kind, signature })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfNumbers {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

impl ScalarUDFImpl for OfNumbers {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let whole = |given: &DataType| given.is_integer() || given.is_null();
        let text = |given: &DataType| given.is_string() || given.is_binary();
        let (fits, takes) = match (self.kind, types) {
            (Kind::Hash, types) => (!types.is_empty(), "values"),
            (Kind::Hex | Kind::Bin, [one]) => (whole(one) || text(one), "a whole number or text"),
            (Kind::ToBase, [_, _] | [_, _, _]) => (types.iter().all(whole), "whole numbers"),
            (Kind::BitCount | Kind::BitNot | Kind::Bytes { .. }, [one]) => {
                (whole(one), "a whole number")
            }
            (Kind::SignBit, [one]) => (one.is_numeric() || one.is_null(), "a number"),
            (Kind::IsFinite | Kind::IsInfinite, [one]) => {
                (one.is_numeric() || one.is_null() || is_point(one), "a number, date or time")
            }
            (Kind::ToBase, _) => (false, "a number, a base and perhaps a length"),
            _ => (false, "one value"),
        };
        if !fits {
            return plan_err!("{} takes {takes}", self.name);
        }
        Ok(match self.kind {
            Kind::BitCount => DataType::Int64,
            Kind::SignBit | Kind::IsFinite | Kind::IsInfinite => DataType::Boolean,
            Kind::BitNot if types[0].is_null() => DataType::Int64,
            Kind::BitNot => types[0].clone(),
            Kind::Hash => DataType::UInt64,
            _ => DataType::Utf8View,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let columns = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let found = self.rows(&columns)?;
        crate::args::as_given(&args, found)
    }
}

/// Whether values of a type are dates or points in time.
fn is_point(given: &DataType) -> bool {
    matches!(given, DataType::Date32 | DataType::Date64 | DataType::Timestamp(..))
}

impl OfNumbers {
    fn rows(&self, columns: &[ArrayRef]) -> Result<ArrayRef> {
        let [first, others @ ..] = columns else { return exec_err!("{} takes a value", self.name) };
        match self.kind {
            Kind::Hash => hashes(columns),
            Kind::BitCount => {
                let mut made = Int64Builder::with_capacity(first.len());
                let bits = first.data_type().primitive_width().unwrap_or(8) as u32 * 8;
                for value in cast(first, &DataType::Int64)?.as_primitive::<Int64Type>() {
                    // The bits of a narrow negative number, not those that widen it.
                    let mask = u64::MAX >> (64 - bits);
                    made.append_option(value.map(|v| i64::from((v as u64 & mask).count_ones())));
                }
                Ok(Arc::new(made.finish()))
            }
            Kind::IsFinite | Kind::IsInfinite => {
                let is_infinite = self.kind == Kind::IsInfinite;
                if is_point(first.data_type()) {
                    let is = BooleanBuffer::collect_bool(first.len(), |_| !is_infinite);
                    return Ok(Arc::new(BooleanArray::new(is, first.nulls().cloned())));
                }
                let numbers = cast(first, &DataType::Float64)?;
                let numbers = numbers.as_primitive::<Float64Type>().iter();
                let is = |number: f64| match is_infinite {
                    true => number.is_infinite(),
                    false => number.is_finite(),
                };
                Ok(Arc::new(numbers.map(|number| number.map(is)).collect::<BooleanArray>()))
            }
            Kind::SignBit => {
                // No type has less room for the sign of its numbers than DOUBLE.
                let numbers = cast(first, &DataType::Float64)?;
                let numbers = numbers.as_primitive::<Float64Type>().iter();
                let signs = numbers.map(|number| number.map(f64::is_sign_negative));
                Ok(Arc::new(signs.collect::<BooleanArray>()))
            }
            Kind::BitNot => inverted(first),
            Kind::Hex if !first.data_type().is_integer() => bytes_as(first, |b| format!("{b:02X}")),
            Kind::Bin if !first.data_type().is_integer() => bytes_as(first, |b| format!("{b:08b}")),
            Kind::Hex => numbers_as(first, |number| format!("{number:X}")),
            Kind::Bin => numbers_as(first, |number| format!("{number:b}")),
            Kind::Bytes { step } => numbers_as(first, |number| readable(number as i64, step)),
            Kind::ToBase => self.to_base(first, others),
        }
    }

    fn to_base(&self, numbers: &ArrayRef, others: &[ArrayRef]) -> Result<ArrayRef> {
        const MAX_LENGTH: i64 = 64;
        let numbers = cast(numbers, &DataType::Int64)?;
        let others = others.iter().map(|array| cast(array, &DataType::Int64));
        let others = others.collect::<std::result::Result<Vec<_>, _>>()?;
        let mut made = StringViewBuilder::new();
        for row in 0..numbers.len() {
            let number = |array: &ArrayRef| {
                array.is_valid(row).then(|| array.as_primitive::<Int64Type>().value(row))
            };
            let length = others.get(1).map_or(Some(0), number);
            let (Some(value), Some(base), Some(length)) =
                (number(&numbers), others.first().and_then(number), length)
            else {
                made.append_null();
                continue;
            };
            if value < 0 || !(2..=36).contains(&base) || !(0..=MAX_LENGTH).contains(&length) {
                return exec_err!(
                    "{} takes a number from 0, a base from 2 to 36, a length to {MAX_LENGTH}",
                    self.name
                );
            }
            made.append_value(digits(value as u64, base as u64, length as usize));
        }
        Ok(Arc::new(made.finish()))
    }
}

fn inverted(values: &ArrayRef) -> Result<ArrayRef> {
    macro_rules! of {
        ($kind:ty) => {
            Arc::new(values.as_primitive::<$kind>().unary::<_, $kind>(|value| !value))
        };
    }
    Ok(downcast_integer! {
        values.data_type() => (of),
        // NULL of no type.
        _ => cast(values, &DataType::Int64)?,
    })
}

fn digits(mut value: u64, base: u64, length: usize) -> String {
    let mut digits = Vec::new();
    while value > 0 || digits.is_empty() || digits.len() < length {
        digits.push(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[(value % base) as usize]);
        value /= base;
    }
    digits.iter().rev().map(|digit| char::from(*digit)).collect()
}

/// As `1.2 MiB`: units are kept until the next one is reached.
fn readable(bytes: i64, step: u64) -> String {
    let units = match step {
        1024 => ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"],
        _ => ["kB", "MB", "GB", "TB", "PB", "EB"],
    };
    let (sign, bytes) = (if bytes < 0 { "-" } else { "" }, bytes.unsigned_abs());
    if bytes < step {
        return format!("{sign}{bytes} {}", if bytes == 1 { "byte" } else { "bytes" });
    }
    // What is left of the next smaller unit is cut off, not rounded.
    let (mut whole, mut rest, mut unit) = (bytes / step, bytes % step, units[0]);
    for next in &units[1..] {
        if whole < step {
            break;
        }
        (whole, rest, unit) = (whole / step, whole % step, next);
    }
    format!("{sign}{whole}.{} {unit}", rest * 10 / step)
}

fn bytes_as(values: &ArrayRef, one: fn(u8) -> String) -> Result<ArrayRef> {
    let values = cast(values, &DataType::BinaryView)?;
    let mut made = StringViewBuilder::new();
    for value in values.as_binary_view() {
        made.append_option(value.map(|bytes| bytes.iter().map(|b| one(*b)).collect::<String>()));
    }
    Ok(Arc::new(made.finish()))
}

/// Negative numbers by their bits.
fn numbers_as(values: &ArrayRef, one: impl Fn(u64) -> String) -> Result<ArrayRef> {
    let mut made = StringViewBuilder::new();
    if *values.data_type() == DataType::UInt64 {
        values.as_primitive::<UInt64Type>().iter().for_each(|v| made.append_option(v.map(&one)));
    } else {
        let values = cast(values, &DataType::Int64)?;
        let values = values.as_primitive::<Int64Type>();
        values.iter().for_each(|v| made.append_option(v.map(|v| one(v as u64))));
    }
    Ok(Arc::new(made.finish()))
}

/// Of the values' row format, with NULL as a value.
fn hashes(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let fields = columns.iter().map(|column| SortField::new(column.data_type().clone()));
    let rows = RowConverter::new(fields.collect())?.convert_columns(columns)?;
    Ok(Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| xxh3_64(row.as_ref())))))
}
