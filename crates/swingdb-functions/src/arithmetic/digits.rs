//! Decimals of more digits than their type has are an error, never a number that is cut off.
//!
//! The query engine gives the result of `+`, `-`, `*` and `/` of decimals as many digits as it may
//! need, but not more than 38 (76 of the wide type), and then looks only whether it fits 128 bits:
//! those hold some numbers of 39 digits, which text, files and other programs cut. [`Fits`] looks
//! at the results of such operations.

use std::any::Any;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    ArrowNativeTypeOp, DataType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    DecimalType, FieldRef,
};
use datafusion::common::{Result, exec_err, internal_err};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use swingdb_common::types::sql_names::sql_name;

/// Places that a quotient has beyond those of the dividend.
const QUOTIENT_PLACES: i16 = 4;

/// What an operation does, where its results may have more digits than their type.
pub fn concerned(left: &DataType, operator: Operator, right: &DataType) -> Option<&'static str> {
    let ((p1, s1, most), (p2, s2, _)) = (digits(left)?, digits(right)?);
    let (what, needed) = match operator {
        Operator::Plus => ("addition", (p1 - s1).max(p2 - s2) + s1.max(s2) + 1),
        Operator::Minus => ("subtraction", (p1 - s1).max(p2 - s2) + s1.max(s2) + 1),
        Operator::Multiply => ("multiplication", p1 + p2),
        Operator::Divide => ("division", p1 + s2 + QUOTIENT_PLACES),
        _ => return None,
    };
    (needed > most).then_some(what)
}

/// Precision and scale of a decimal, and the most digits of its kind.
fn digits(data_type: &DataType) -> Option<(i16, i16, i16)> {
    let (precision, scale, most) = match data_type {
        DataType::Decimal32(p, s) => (p, s, Decimal32Type::MAX_PRECISION),
        DataType::Decimal64(p, s) => (p, s, Decimal64Type::MAX_PRECISION),
        DataType::Decimal128(p, s) => (p, s, Decimal128Type::MAX_PRECISION),
        DataType::Decimal256(p, s) => (p, s, Decimal256Type::MAX_PRECISION),
        _ => return None,
    };
    Some((i16::from(*precision), i16::from(*scale), i16::from(most)))
}

/// What [`concerned`] says of operations.
const OPERATIONS: [&str; 4] = ["addition", "subtraction", "multiplication", "division"];

/// The result of an operation, or an error where it has too many digits.
pub fn fits(result: Expr, what: &'static str) -> Expr {
    ScalarUDF::new_from_impl(Fits::new(what)).call(vec![result])
}

/// The function that [`fits`] calls, for an operation by its name.
pub fn function(what: &str) -> Option<ScalarUDF> {
    let what = OPERATIONS.into_iter().find(|one| *one == what)?;
    Some(ScalarUDF::new_from_impl(Fits::new(what)))
}

/// The operation whose results such a function looks at.
pub fn operation_of(function: &ScalarUDF) -> Option<&'static str> {
    let function: &dyn Any = function.inner().as_ref();
    function.downcast_ref::<Fits>().map(|fits| fits.what)
}

/// See the [module documentation](self).
#[derive(Debug, PartialEq, Eq, Hash)]
struct Fits {
    what: &'static str,
    /// Has the operation: plans name functions, and one name means one function.
    name: String,
    signature: Signature,
}

impl Fits {
    fn new(what: &'static str) -> Self {
        let signature = Signature::any(1, Volatility::Immutable);
        Self { what, name: format!("fits[{what}]"), signature }
    }

    fn check<T: DecimalType>(&self, results: &ArrayRef) -> Result<()> {
        let array = results.as_primitive::<T>();
        let most = T::MAX_FOR_EACH_PRECISION[usize::from(T::MAX_PRECISION)];
        let least = most.neg_wrapping();
        let too_long = |value: T::Native| value.is_lt(least) | value.is_gt(most);
        // Without a branch a value: nearly always all fit.
        if !array.values().iter().fold(false, |any, value| any | too_long(*value)) {
            return Ok(());
        }
        // NULLs hide any value.
        match array.iter().flatten().find(|value| too_long(*value)) {
            None => Ok(()),
            Some(value) => {
                let (_, scale, _) = digits(array.data_type()).unwrap_or_default();
                let sql = sql_name(array.data_type());
                let value = T::format_decimal(value, T::MAX_PRECISION + 1, scale as i8);
                exec_err!(
                    "overflow in {} of decimals: {value} has more digits than {sql}; \
                     CAST(... AS DOUBLE) has room",
                    self.what
                )
            }
        }
    }
}

impl ScalarUDFImpl for Fits {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [decimal] => Ok(decimal.clone()),
            _ => internal_err!("fits takes one value"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        match args.arg_fields {
            [decimal] => Ok(Arc::clone(decimal)),
            _ => internal_err!("fits takes one value"),
        }
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(results) = args.args.pop() else { return internal_err!("fits takes one value") };
        let array = match &results {
            ColumnarValue::Array(array) => Arc::clone(array),
            ColumnarValue::Scalar(value) => value.to_array()?,
        };
        match array.data_type() {
            DataType::Decimal32(..) => self.check::<Decimal32Type>(&array)?,
            DataType::Decimal64(..) => self.check::<Decimal64Type>(&array)?,
            DataType::Decimal128(..) => self.check::<Decimal128Type>(&array)?,
            DataType::Decimal256(..) => self.check::<Decimal256Type>(&array)?,
            other => return internal_err!("fits of {other}"),
        }
        Ok(results)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(inputs.first().map_or(SortProperties::Unordered, |input| input.sort_properties))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Decimal128Array;

    use super::*;

    #[test]
    fn only_operations_that_may_need_more_digits_are_concerned() {
        use DataType::{Decimal128 as D, Decimal256 as W};
        for (left, operator, right, expected) in [
            (D(15, 2), Operator::Multiply, D(23, 2), false),
            (D(15, 2), Operator::Multiply, D(24, 2), true),
            (D(37, 2), Operator::Plus, D(37, 2), false),
            (D(38, 2), Operator::Plus, D(1, 0), true),
            (D(20, 20), Operator::Minus, D(20, 0), true),
            (D(30, 2), Operator::Divide, D(4, 4), false),
            (D(30, 2), Operator::Divide, D(5, 5), true),
            (D(38, 0), Operator::Modulo, D(38, 0), false),
            (W(60, 0), Operator::Multiply, W(17, 0), true),
            (DataType::Int64, Operator::Plus, DataType::Int64, false),
        ] {
            let found = concerned(&left, operator, &right).is_some();
            assert_eq!(found, expected, "{left} {operator} {right}");
        }
    }

    #[test]
    fn the_most_digits_are_the_limit() {
        let fits = Fits::new("addition");
        let limit = 10i128.pow(38);
        let check = |value: i128| {
            let array: ArrayRef = Arc::new(Decimal128Array::from(vec![0, value]));
            fits.check::<Decimal128Type>(&array)
        };
        assert!(check(limit - 1).is_ok() && check(1 - limit).is_ok());
        assert!(check(limit).is_err() && check(-limit).is_err());
        assert!(check(i128::MAX).is_err() && check(i128::MIN).is_err());
        let hidden = Decimal128Array::new(vec![limit].into(), Some(vec![false].into()));
        assert!(fits.check::<Decimal128Type>(&(Arc::new(hidden) as ArrayRef)).is_ok());
    }
}
