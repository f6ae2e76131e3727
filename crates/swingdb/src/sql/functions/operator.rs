//! The operator `||` of texts as a function, which can be asked how large its result gets.

use std::sync::{Arc, LazyLock};

use arrow::compute::kernels::concat_elements::concat_elements_dyn;
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

pub(super) const CONCAT_OPERATOR: &str = "concat_operator";

/// The function; both arguments have the same type.
pub(super) fn concat_operator() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let signature = Signature::any(2, Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(Concat { signature }))
    });
    Arc::clone(&FUNCTION)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Concat {
    signature: Signature,
}

impl ScalarUDFImpl for Concat {
    fn name(&self) -> &str {
        CONCAT_OPERATOR
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [left, right] if left == right => Ok(left.clone()),
            _ => plan_err!("{CONCAT_OPERATOR} takes two values of one type"),
        }
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let [left, right] = args.args.as_slice() else {
            return plan_err!("{CONCAT_OPERATOR} takes two values");
        };
        let joined = concat_elements_dyn(&left.to_array(rows)?, &right.to_array(rows)?)?;
        Ok(match constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&joined, 0)?),
            false => ColumnarValue::Array(joined),
        })
    }
}
