//! Rounding of floating point numbers to any number of places.

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
    let signature = Signature::any(2, Volatility::Immutable);
    ScalarUDF::new_from_impl(Rounded { signature }).call(args)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Rounded {
    signature: Signature,
}

impl ScalarUDFImpl for Rounded {
    fn name(&self) -> &str {
        "round"
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
            _ => plan_err!("round takes a number and a number of places"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let [numbers, places] = args.args.as_slice() else {
            return plan_err!("round takes a number and a number of places");
        };
        let places = cast(&places.to_array(rows)?, &DataType::Int64)?;
        let places = places.as_primitive::<Int64Type>();
        let numbers = numbers.to_array(rows)?;
        let found: ArrayRef = match numbers.data_type() {
            DataType::Float32 => {
                let round = |number, places| to_places(f64::from(number), places) as f32;
                let numbers = numbers.as_primitive::<Float32Type>();
                Arc::new(binary::<_, _, _, Float32Type>(numbers, places, round)?)
            }
            _ => {
                let numbers = numbers.as_primitive::<Float64Type>();
                Arc::new(binary::<_, _, _, Float64Type>(numbers, places, to_places)?)
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

fn to_places(number: f64, places: i64) -> f64 {
    with_places(number, places, f64::round)
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
            assert_eq!(to_places(number, places), expected, "{number} {places}");
        }
        assert!(to_places(f64::NAN, -5).is_nan());
    }
}
