//! The fraction of a minute that an interval has, in parts of a second.

use std::sync::Arc;

use arrow::array::{AsArray, Int64Array};
use arrow::compute::kernels::arity::binary;
use arrow::datatypes::{DataType, Int64Type, IntervalMonthDayNanoType};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};

const NANOS_PER_MINUTE: i64 = 60_000_000_000;

/// How many units of so many nanoseconds an interval has beyond its whole minutes.
pub fn fraction_of_minute(interval: Expr, unit: i64) -> Expr {
    let signature = Signature::any(2, Volatility::Immutable);
    ScalarUDF::new_from_impl(Fraction { signature }).call(vec![interval, lit(unit)])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Fraction {
    signature: Signature,
}

impl ScalarUDFImpl for Fraction {
    fn name(&self) -> &str {
        "fraction_of_minute"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let [intervals, units] = args.args.as_slice() else {
            return plan_err!("{} takes an interval and a unit", self.name());
        };
        let units = units.to_array(rows)?;
        let parts: Int64Array = binary(
            intervals.to_array(rows)?.as_primitive::<IntervalMonthDayNanoType>(),
            units.as_primitive::<Int64Type>(),
            |interval, unit| interval.nanoseconds % NANOS_PER_MINUTE / unit,
        )?;
        crate::args::as_given(&args, Arc::new(parts))
    }
}
