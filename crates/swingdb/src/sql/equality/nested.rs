//! The function `row_bytes(x)`: lists and structs as bytes that are equal when they are.
//!
//! The engine's hash joins lose pairs of equal structs and lists when there are NULLs in the column
//! or inside of its values. Their bytes in Arrow's row format are joined instead.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, BinaryArray};
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

const NAME: &str = "row_bytes";

/// Puts the function around both sides of a join by lists or structs; whether it did.
pub(super) fn settle(
    (one, left): (&mut Expr, &DFSchema),
    (other, right): (&mut Expr, &DFSchema),
) -> bool {
    let (Ok(a), Ok(b)) = (one.get_type(left), other.get_type(right)) else { return false };
    let known = || RowConverter::supports_fields(&[SortField::new(a.clone())]);
    if a != b || !a.is_nested() || !known() {
        return false;
    }
    for side in [one, other] {
        *side = row_bytes(std::mem::take(side));
    }
    true
}

fn row_bytes(expr: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let signature = Signature::any(1, Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(RowBytes { signature }))
    });
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&FUNCTION), vec![expr]))
}

fn bytes(array: &ArrayRef) -> Result<ArrayRef> {
    let converter = RowConverter::new(vec![SortField::new(array.data_type().clone())])?;
    let rows = converter.convert_columns(std::slice::from_ref(array))?;
    let (offsets, bytes, _) = rows.try_into_binary()?.into_parts();
    Ok(Arc::new(BinaryArray::try_new(offsets, bytes, array.nulls().cloned())?))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct RowBytes {
    signature: Signature,
}

impl ScalarUDFImpl for RowBytes {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Binary)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Array(array)] => Ok(ColumnarValue::Array(bytes(array)?)),
            [ColumnarValue::Scalar(value)] => {
                let array = bytes(&value.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
            }
            _ => plan_err!("{NAME} takes one value"),
        }
    }
}
