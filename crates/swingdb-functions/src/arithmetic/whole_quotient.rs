//! `a // b` of HUGEINT, a decimal without places: the whole part of the quotient. Also `a / b` and
//! `a // b` of UBIGINT and a type with a sign, which the engine divides as decimals.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::kernels::arity::try_binary;
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Decimal128Type};
use arrow::error::ArrowError;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, cast,
};

const HUGE: DataType = DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0);

/// Whether `a // b` of these types is a [`whole_quotient`].
pub fn has_whole_quotient(left: &DataType, right: &DataType) -> bool {
    let is_huge = |given: &DataType| matches!(given, DataType::Decimal128(_, 0));
    let is_whole = |given: &DataType| given.is_integer() || is_huge(given);
    is_whole(left) && is_whole(right) && (is_huge(left) || is_huge(right)) || is_mixed(left, right)
}

/// Whether no type of whole numbers of the engine has the values of both.
pub fn is_mixed(left: &DataType, right: &DataType) -> bool {
    let is = |a: &DataType, b: &DataType| *a == DataType::UInt64 && b.is_signed_integer();
    is(left, right) || is(right, left)
}

/// The quotient without its fraction.
pub fn whole_quotient(left: Expr, right: Expr) -> Expr {
    function().call(vec![cast(left, HUGE), cast(right, HUGE)])
}

/// The function that gives the quotient of two of HUGEINT.
pub fn function() -> &'static ScalarUDF {
    static FUNCTION: LazyLock<ScalarUDF> = LazyLock::new(|| {
        let signature = Signature::exact(vec![HUGE, HUGE], Volatility::Immutable);
        ScalarUDF::new_from_impl(Quotient { signature })
    });
    &FUNCTION
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Quotient {
    signature: Signature,
}

impl ScalarUDFImpl for Quotient {
    fn name(&self) -> &str {
        "whole_quotient"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(HUGE)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let [left, right] = args.args.as_slice() else {
            return plan_err!("{} takes two numbers", self.name());
        };
        let (left, right) = (left.to_array(rows)?, right.to_array(rows)?);
        let divide = |a: i128, b: i128| a.checked_div(b).ok_or(ArrowError::DivideByZero);
        let found = try_binary::<_, _, _, Decimal128Type>(
            left.as_primitive::<Decimal128Type>(),
            right.as_primitive::<Decimal128Type>(),
            divide,
        )?;
        let found: ArrayRef = Arc::new(found.with_data_type(HUGE));
        crate::args::as_given(&args, found)
    }
}
