//! The gamma function and its logarithm: `gamma(x)`, `lgamma(x)`. And `acosh(x)`, `asinh(x)`, which
//! the engine computes from a logarithm whose argument has lost digits: near 1, and of large
//! numbers.

use std::sync::Arc;

use arrow::array::{AsArray, Float64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

type OfOne = fn(f64) -> f64;

const FUNCTIONS: [(&str, OfOne); 4] = [
    ("acosh", libm::acosh),
    ("asinh", libm::asinh),
    ("gamma", libm::tgamma),
    ("lgamma", libm::lgamma),
];

/// All functions of this module.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    FUNCTIONS.iter().map(|(name, _)| {
        let signature = Signature::any(1, Volatility::Immutable);
        ScalarUDF::new_from_impl(OfNumber { name, signature })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfNumber {
    name: &'static str,
    signature: Signature,
}

impl ScalarUDFImpl for OfNumber {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [given] if given.is_numeric() || given.is_null() => Ok(DataType::Float64),
            _ => plan_err!("{} takes a number", self.name),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let found = FUNCTIONS.iter().find(|(name, _)| *name == self.name);
        let ([given], Some((_, of_one))) = (args.args.as_slice(), found) else {
            return plan_err!("{} takes a number", self.name);
        };
        let given = cast(&given.to_array(crate::args::rows_of(&args))?, &DataType::Float64)?;
        let found: Float64Array = given.as_primitive::<Float64Type>().unary(of_one);
        crate::args::as_given(&args, Arc::new(found))
    }
}
