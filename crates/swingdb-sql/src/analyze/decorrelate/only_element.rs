//! The value of a subquery whose rows were put into a list.

use arrow::array::{Array, AsArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use datafusion::common::{Result as DfResult, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// The name of [`OnlyElement`] in SQL.
const ONLY_ELEMENT: &str = "only_element";

/// The function to be registered with the engine.
pub(crate) fn only_element() -> ScalarUDF {
    ScalarUDF::from(OnlyElement { signature: Signature::any(1, Volatility::Immutable) })
}

/// `only_element(list)`: the element of a list of one, NULL for none, an error for more.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OnlyElement {
    signature: Signature,
}

impl ScalarUDFImpl for OnlyElement {
    fn name(&self) -> &str {
        ONLY_ELEMENT
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        match types {
            [DataType::List(field)] => Ok(field.data_type().clone()),
            [DataType::Null] => Ok(DataType::Null),
            _ => plan_err!("{ONLY_ELEMENT} takes one list"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let array = match args.args.as_slice() {
            [value] => value.to_array(args.number_rows)?,
            _ => return plan_err!("{ONLY_ELEMENT} takes one list"),
        };
        let Some(lists) = array.as_list_opt::<i32>() else {
            return Ok(ColumnarValue::Array(array));
        };
        let mut elements = Vec::with_capacity(lists.len());
        for row in 0..lists.len() {
            elements.push(match lists.value_length(row) {
                _ if lists.is_null(row) => None,
                0 => None,
                1 => Some(lists.value_offsets()[row] as u32),
                _ => return exec_err!("a subquery used as a value returned more than one row"),
            });
        }
        let elements = UInt32Array::from(elements);
        Ok(ColumnarValue::Array(take(lists.values(), &elements, None)?))
    }
}
