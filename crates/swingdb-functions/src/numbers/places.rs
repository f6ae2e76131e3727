//! Decimals and whole numbers cut to a number of decimal places, exactly: `trunc(x, n)`,
//! `round_even(x, n)`, and `ceil(x)`, `floor(x)`, `trunc(x)` of decimals.
//!
//! The engine truncates whole numbers as floating point numbers, which have no more than 53 bits,
//! and has no room for the 10 that `ceil(9.5)` is. The result of a decimal has the places that were
//! asked for, when these are a constant; otherwise all that it had.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Field, FieldRef, Float64Type, Int64Type,
};
use datafusion::common::{Result, exec_datafusion_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};

use super::rounding::to_places_even;

/// What becomes of the digits that are cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cut {
    /// A positive one makes the number larger.
    Ceil,
    /// A negative one makes the number smaller.
    Floor,
    /// They are dropped.
    Trunc,
    /// More than a half goes away from zero, a half to the next even digit.
    Even,
}

const EVEN: [&str; 2] = ["round_even", "roundbankers"];

/// The functions that SQL calls by name.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    EVEN.into_iter().map(|name| function(name, Cut::Even))
}

fn function(name: &'static str, cut: Cut) -> ScalarUDF {
    let takes = vec![TypeSignature::Any(1), TypeSignature::Any(2)];
    let signature = Signature::one_of(takes, Volatility::Immutable);
    ScalarUDF::new_from_impl(Places { name, cut, signature })
}

/// `ceil(x)`, `floor(x)`, `trunc(x)` or `trunc(x, n)`.
pub fn cut(cut: Cut, args: Vec<Expr>) -> Expr {
    let name = match cut {
        Cut::Ceil => "ceil",
        Cut::Floor => "floor",
        Cut::Trunc => "trunc",
        Cut::Even => EVEN[0],
    };
    function(name, cut).call(args)
}

/// Whether [`cut`] knows numbers of a type.
pub fn is_exact(given: &DataType) -> bool {
    given.is_integer() || scale_of(given).is_some_and(|scale| scale >= 0)
}

fn scale_of(given: &DataType) -> Option<i8> {
    match given {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale) => Some(*scale),
        given if given.is_integer() => Some(0),
        _ => None,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Places {
    name: &'static str,
    cut: Cut,
    signature: Signature,
}

impl Places {
    /// The type of the result; `places` are none where they differ from row to row.
    fn returned(&self, given: &DataType, places: Option<i64>) -> Result<DataType> {
        Ok(match given {
            DataType::Null => DataType::Float64,
            DataType::Float64 if self.cut == Cut::Even => DataType::Float64,
            DataType::Float16 | DataType::Float32 if self.cut == Cut::Even => DataType::Float32,
            whole if whole.is_integer() => whole.clone(),
            DataType::Decimal32(digits, scale)
            | DataType::Decimal64(digits, scale)
            | DataType::Decimal128(digits, scale)
                if *scale >= 0 =>
            {
                let kept = places.map_or(*scale, |places| {
                    i8::try_from(places.clamp(0, i64::from(*scale))).unwrap_or(*scale)
                });
                // A digit more where all places stay, and digits before the point are cut.
                let carries = kept == *scale && places.is_none_or(|places| places < 0);
                let digits = (digits + u8::from(carries)).min(DECIMAL128_MAX_PRECISION);
                DataType::Decimal128(digits, kept)
            }
            other => return plan_err!("{} takes a number, not {other}", self.name),
        })
    }

    fn exact(&self, numbers: &ArrayRef, places: &Int64Array, to: &DataType) -> Result<ArrayRef> {
        let Some(scale) = scale_of(numbers.data_type()) else {
            return plan_err!("{} takes a number", self.name);
        };
        let kept = scale_of(to).unwrap_or(0);
        let wide = cast(numbers, &DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale))?;
        let beyond = || exec_datafusion_err!("{}: the result does not fit {to}", self.name);
        let found = wide.as_primitive::<Decimal128Type>().iter().zip(places).map(|pair| {
            let (Some(number), Some(places)) = pair else { return Ok(None) };
            let cut = digits_cut(number, i64::from(scale), places, self.cut);
            let found = cut.and_then(|(digits, scale)| {
                let power = u32::try_from(i64::from(kept) - scale).ok()?;
                digits.checked_mul(10_i128.checked_pow(power)?)
            });
            found.map(Some).ok_or_else(beyond)
        });
        let found: Decimal128Array = found.collect::<Result<_>>()?;
        let digits = match to {
            DataType::Decimal128(digits, _) => *digits,
            _ => DECIMAL128_MAX_PRECISION,
        };
        let found = found.with_precision_and_scale(digits, kept)?;
        found.validate_decimal_precision(digits)?;
        let strict = CastOptions { safe: false, ..CastOptions::default() };
        Ok(cast_with_options(&found, to, &strict)?)
    }
}

/// A number of digits with `scale` places, cut to `places`; the digits and places of the result.
fn digits_cut(number: i128, scale: i64, places: i64, cut: Cut) -> Option<(i128, i64)> {
    if places >= scale {
        return Some((number, scale));
    }
    let kept = places.max(0);
    let dropped = u32::try_from(scale.saturating_sub(places)).unwrap_or(u32::MAX);
    let Some(unit) = 10_i128.checked_pow(dropped) else {
        // More than any number has.
        let up = matches!(cut, Cut::Ceil) && number > 0 || matches!(cut, Cut::Floor) && number < 0;
        return (!up).then_some((0, kept));
    };
    let (whole, rest) = (number / unit, number % unit);
    let whole = match cut {
        Cut::Ceil if rest > 0 => whole + 1,
        Cut::Floor if rest < 0 => whole - 1,
        Cut::Even => {
            let (twice, unit) = (rest.unsigned_abs().checked_mul(2)?, unit.unsigned_abs());
            let away = twice > unit || (twice == unit && whole % 2 != 0);
            whole + if away { rest.signum() } else { 0 }
        }
        _ => whole,
    };
    let power = u32::try_from(kept.saturating_sub(places)).ok()?;
    Some((whole.checked_mul(10_i128.checked_pow(power)?)?, kept))
}

impl ScalarUDFImpl for Places {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [given] => self.returned(given, Some(0)),
            [given, places] if places.is_integer() || places.is_null() => {
                self.returned(given, None)
            }
            _ => plan_err!("{} takes a number and a number of places", self.name),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<_> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let plain = self.return_type(&types)?;
        let places = args.scalar_arguments.get(1).copied().flatten();
        let places = places.and_then(|places| places.cast_to(&DataType::Int64).ok());
        let returned = match (places, types.first()) {
            (Some(datafusion::common::ScalarValue::Int64(Some(places))), Some(given)) => {
                self.returned(given, Some(places))?
            }
            _ => plain,
        };
        Ok(Arc::new(Field::new(self.name, returned, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let (numbers, places) = match args.args.as_slice() {
            [numbers] => (numbers, Int64Array::from(vec![0; rows])),
            [numbers, places] => {
                let places = cast(&places.to_array(rows)?, &DataType::Int64)?;
                (numbers, places.as_primitive::<Int64Type>().clone())
            }
            _ => return plan_err!("{} takes a number and a number of places", self.name),
        };
        let numbers = numbers.to_array(rows)?;
        let found: ArrayRef = match numbers.data_type() {
            DataType::Null => arrow::array::new_null_array(args.return_type(), rows),
            DataType::Float16 | DataType::Float32 | DataType::Float64 => {
                let numbers = cast(&numbers, &DataType::Float64)?;
                let numbers = numbers.as_primitive::<Float64Type>();
                let pairs = numbers.iter().zip(&places);
                let found = pairs.map(|(number, places)| Some(to_places_even(number?, places?)));
                cast(&found.collect::<Float64Array>(), args.return_type())?
            }
            _ => self.exact(&numbers, &places, args.return_type())?,
        };
        crate::args::as_given(&args, found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_that_are_cut_off() {
        use Cut::{Ceil, Even, Floor, Trunc};
        for (number, scale, places, cut, expected) in [
            (95, 1, 0, Ceil, Some((10, 0))),
            (-95, 1, 0, Ceil, Some((-9, 0))),
            (-95, 1, 0, Floor, Some((-10, 0))),
            (-1255, 3, 1, Trunc, Some((-12, 1))),
            (9_007_199_254_740_993, 0, 2, Trunc, Some((9_007_199_254_740_993, 0))),
            (1255, 0, -2, Trunc, Some((1200, 0))),
            (25, 1, 0, Even, Some((2, 0))),
            (35, 1, 0, Even, Some((4, 0))),
            (-251, 2, 0, Even, Some((-3, 0))),
            (45, 0, -1, Even, Some((40, 0))),
            (45, 0, -60, Even, Some((0, 0))),
            (1, 0, -60, Ceil, None),
            (-1, 0, i64::MIN, Ceil, Some((0, 0))),
            (7, 0, i64::MAX, Trunc, Some((7, 0))),
        ] {
            let found = digits_cut(number, scale, places, cut);
            assert_eq!(found, expected, "{number} {scale} {places} {cut:?}");
        }
    }
}
