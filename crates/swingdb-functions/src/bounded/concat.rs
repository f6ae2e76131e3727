//! The operator `||` of texts as a function, which can be asked how large its result gets.

use std::sync::{Arc, LazyLock};

use arrow::compute::kernels::concat_elements::concat_elements_dyn;
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

pub(super) const CONCAT_OPERATOR: &str = "concat_operator";

/// The function; all arguments have the same type. A chain of operators is one call: the engine
/// writes the name of each call inside another again and again.
pub(super) fn concat_operator() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let signature = Signature::variadic_any(Volatility::Immutable);
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
            [first, rest @ ..] if rest.iter().all(|other| other == first) => Ok(first.clone()),
            _ => plan_err!("{CONCAT_OPERATOR} takes values of one type"),
        }
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        joined(&args.args, args.number_rows)
    }
}

/// Halves first, so that each part is copied a few times, however many there are.
fn joined(parts: &[ColumnarValue], rows: usize) -> Result<ColumnarValue> {
    let (left, right) = match parts {
        [] => return plan_err!("{CONCAT_OPERATOR} takes values"),
        [one] => return Ok(one.clone()),
        more => more.split_at(more.len() / 2),
    };
    let (left, right) = (joined(left, rows)?, joined(right, rows)?);
    let constant = matches!((&left, &right), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
    let rows = if constant { 1 } else { rows };
    let joined = concat_elements_dyn(&left.to_array(rows)?, &right.to_array(rows)?)?;
    Ok(match constant {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&joined, 0)?),
        false => ColumnarValue::Array(joined),
    })
}
