//! What functions of single rows have in common: constants stay constants.

use arrow::array::ArrayRef;
use arrow::datatypes::Field;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl};

/// For how many rows a function computes: one, where all arguments are constants.
pub(super) fn rows_of(args: &ScalarFunctionArgs) -> usize {
    if is_constant(args) { 1 } else { args.number_rows }
}

pub(super) fn is_constant(args: &ScalarFunctionArgs) -> bool {
    args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)))
}

/// What a function has [computed](rows_of): a constant of constants, else a column.
pub(super) fn as_given(args: &ScalarFunctionArgs, found: ArrayRef) -> Result<ColumnarValue> {
    Ok(match is_constant(args) {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?),
        false => ColumnarValue::Array(found),
    })
}

/// The field of what a function returns, as the engine makes it of its type.
pub(super) fn returned(function: &dyn ScalarUDFImpl, args: &ReturnFieldArgs<'_>) -> Result<Field> {
    let types = args.arg_fields.iter().map(|field| field.data_type().clone());
    let returned = function.return_type(&types.collect::<Vec<_>>())?;
    Ok(Field::new(function.name(), returned, true))
}
