//! Floating point numbers rounded or cut to any number of places.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::compute::kernels::arity::binary;
use arrow::datatypes::{DataType, Float32Type, Float64Type, Int64Type};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// `round(x, places)` of floating point numbers. Places that they do not have change nothing.
pub fn rounded(args: Vec<Expr>) -> Expr {
    call(Digits::Rounded, args)
}

/// `trunc(x, places)` of floating point numbers, likewise.
pub fn truncated(args: Vec<Expr>) -> Expr {
    call(Digits::Dropped, args)
}

fn call(digits: Digits, args: Vec<Expr>) -> Expr {
    let signature = Signature::any(2, Volatility::Immutable);
    ScalarUDF::new_from_impl(ToPlaces { digits, signature }).call(args)
}

/// What becomes of the digits behind the places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Digits {
    Rounded,
    Dropped,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ToPlaces {
    digits: Digits,
    signature: Signature,
}

impl ScalarUDFImpl for ToPlaces {
    fn name(&self) -> &str {
        match self.digits {
            Digits::Rounded => "round",
            Digits::Dropped => "trunc",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [given @ (DataType::Float32 | DataType::Float64), places]
                if places.is_numeric() || places.is_null() =>
            {
                Ok(given.clone())
            }
            _ => plan_err!("{} takes a number and a number of places", self.name()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let [numbers, places] = args.args.as_slice() else {
            return plan_err!("{} takes a number and a number of places", self.name());
        };
        let places = cast(&places.to_array(rows)?, &DataType::Int64)?;
        let places = places.as_primitive::<Int64Type>();
        let numbers = numbers.to_array(rows)?;
        let whole = match self.digits {
            Digits::Rounded => f64::round,
            Digits::Dropped => f64::trunc,
        };
        let found: ArrayRef = match numbers.data_type() {
            DataType::Float32 => {
                let cut = |number, places| with_places(f64::from(number), places, whole) as f32;
                let numbers = numbers.as_primitive::<Float32Type>();
                Arc::new(binary::<_, _, _, Float32Type>(numbers, places, cut)?)
            }
            _ => {
                let numbers = numbers.as_primitive::<Float64Type>();
                let cut = |number, places| with_places(number, places, whole);
                Arc::new(binary::<_, _, _, Float64Type>(numbers, places, cut)?)
            }
        };
        crate::args::as_given(&args, found)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(match inputs {
            [number, places] if places.sort_properties == SortProperties::Singleton => {
                number.sort_properties
            }
            _ => SortProperties::Unordered,
        })
    }
}

/// Halves become the next even digit.
pub(super) fn to_places_even(number: f64, places: i64) -> f64 {
    with_places(number, places, f64::round_ties_even)
}

fn with_places(number: f64, places: i64, whole: fn(f64) -> f64) -> f64 {
    // `powi` is not the nearest number for large powers.
    let power = 10_f64.powf(places.unsigned_abs() as f64);
    let (rounded, otherwise) = match places >= 0 {
        true => (whole(number * power) / power, number),
        false => (whole(number / power) * power, 0.0),
    };
    match rounded.is_finite() {
        true => rounded,
        false if number.is_finite() => otherwise,
        false => number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_beyond_the_digits() {
        for (number, places, expected) in [
            (42.1235, 1000, 42.1235),
            (42.0, -1000, 0.0),
            (42.1235, 2, 42.12),
            (-42.125, 2, -42.13),
            (1e300, 10, 1e300),
            (1e300, -300, 1e300),
            (f64::INFINITY, -2, f64::INFINITY),
            (149.0, -2, 100.0),
        ] {
            let found = with_places(number, places, f64::round);
            assert_eq!(found, expected, "{number} {places}");
        }
        for (number, places, expected) in [
            (1.5, 400, 1.5),
            (1.5, -400, 0.0),
            (1e300, 10, 1e300),
            (-42.129, 2, -42.12),
            (199.0, -2, 100.0),
            (f64::NEG_INFINITY, 2, f64::NEG_INFINITY),
        ] {
            let found = with_places(number, places, f64::trunc);
            assert_eq!(found, expected, "{number} {places}");
        }
        assert!(with_places(f64::NAN, -5, f64::round).is_nan());
    }
}
