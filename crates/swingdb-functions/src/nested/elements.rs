//! Functions of a list and of values that could be its elements, such as `list_position(l, x)`:
//! all get the one type that they have in common.
//!
//! The engine finds none for numbers of 64 bits with and without a sign, nor for whole numbers and
//! decimals. Texts that are written beside other values are read as such where the plan is known;
//! here they stay what they are.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, plan_err};
use datafusion::functions_nested::position::{array_position_udf, array_positions_udf};
use datafusion::functions_nested::remove::{
    array_remove_all_udf, array_remove_n_udf, array_remove_udf,
};
use datafusion::functions_nested::replace::{
    array_replace_all_udf, array_replace_n_udf, array_replace_udf,
};
use datafusion::logical_expr::binary::type_union_resolution;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use swingdb_common::types::sql_names::sql_name;

use super::unified::is_read;
use crate::engines_own::as_engines_coerced;

/// The place of the list, and those of the values, among the arguments of a function, by the
/// engine's name for it.
pub fn places(function: &str) -> Option<(usize, &'static [usize])> {
    Some(match function {
        "array_has" | "array_append" | "array_position" | "array_positions" => (0, &[1]),
        "array_remove" | "array_remove_n" | "array_remove_all" => (0, &[1]),
        "array_replace" | "array_replace_n" | "array_replace_all" => (0, &[1, 2]),
        "array_prepend" => (1, &[0]),
        _ => return None,
    })
}

/// The functions in place of the engine's.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    let all = [
        array_position_udf(),
        array_positions_udf(),
        array_remove_udf(),
        array_remove_n_udf(),
        array_remove_all_udf(),
        array_replace_udf(),
        array_replace_n_udf(),
        array_replace_all_udf(),
    ];
    all.into_iter().map(|engines| {
        let signature = Signature::user_defined(Volatility::Immutable);
        ScalarUDF::new_from_impl(OfElements { engines, signature })
    })
}

/// Whether a text that is written is read as an element of such a type.
pub fn reads(element: &DataType) -> bool {
    element.is_numeric() || is_read(element)
}

/// The type of the elements of a list.
pub fn element(list: &DataType) -> Option<&DataType> {
    match list {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            Some(field.data_type())
        }
        _ => None,
    }
}

/// The types that arguments become: the engine's, or else those with a common one.
pub(crate) fn coerced(engines: &ScalarUDF, types: &[DataType]) -> Result<Vec<DataType>> {
    let fields = types.iter().map(|given| Arc::new(Field::new("", given.clone(), true)));
    if let Ok(fields) = fields_with_udf(&fields.collect::<Vec<_>>(), engines) {
        return Ok(fields.iter().map(|field| field.data_type().clone()).collect());
    }
    let name = engines.name();
    let Some((list, values)) = places(name) else { return plan_err!("{name} of no list") };
    let Some(of) = types.get(list).and_then(element) else {
        let given = types.iter().map(sql_name).collect::<Vec<_>>();
        return plan_err!("{name} takes a list and its elements, not {}", given.join(", "));
    };
    let mut common = of.clone();
    let is_text = |given: &DataType| given.is_string() && reads(of);
    for given in values.iter().filter_map(|at| types.get(*at)).filter(|given| !is_text(given)) {
        let Some(wider) = type_union_resolution(&[common.clone(), given.clone()]) else {
            let (list, given) = (sql_name(&types[list]), sql_name(given));
            return plan_err!("{name}: {given} beside {list}; cast one of them");
        };
        common = wider;
    }
    let mut types = types.to_vec();
    types[list] = with_element(&types[list], &common);
    for at in values {
        if let Some(value) = types.get_mut(*at).filter(|given| !is_text(given)) {
            *value = common.clone();
        }
    }
    Ok(types)
}

/// The type of a list with other elements. One of a fixed length becomes one of any.
fn with_element(list: &DataType, element: &DataType) -> DataType {
    let with = |field: &FieldRef| Arc::new(field.as_ref().clone().with_data_type(element.clone()));
    match list {
        DataType::LargeList(field) => DataType::LargeList(with(field)),
        DataType::List(field) | DataType::FixedSizeList(field, _) => DataType::List(with(field)),
        other => other.clone(),
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfElements {
    engines: Arc<ScalarUDF>,
    signature: Signature,
}

impl ScalarUDFImpl for OfElements {
    as_engines_coerced!(coerced);

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.engines.return_field_from_args(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.engines.invoke_with_args(args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_and_a_value_have_a_common_type() {
        let of = |element: DataType, value: DataType| {
            let types = [DataType::new_list(element, true), value];
            coerced(&array_position_udf(), &types).unwrap()
        };
        let found = of(DataType::UInt64, DataType::Int32);
        assert_eq!(element(&found[0]), Some(&found[1]));
        assert_eq!(found[1], DataType::Decimal128(20, 0));
        let text = of(DataType::Date32, DataType::Utf8View);
        assert_eq!(text, [DataType::new_list(DataType::Date32, true), DataType::Utf8View]);
    }
}
