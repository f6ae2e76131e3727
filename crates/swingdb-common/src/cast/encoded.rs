//! Casts of dictionaries and unions, which other libraries hand over.
//!
//! The engine casts the values of a dictionary without regard to which of them are NULL, or used at
//! all, and of a union only those of one type: the others it makes NULL.
//!
//! **Cycle.** Values are prepared by [`normalize`](super::normalize) as they are alone.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UnionArray, make_array};
use arrow::compute::{cast, interleave, take};
use arrow::datatypes::DataType;

use crate::cast::normalize::{as_text, prepared, prepared_type};
use crate::error::Result;

/// Whether values of a type are cast here.
pub fn is_encoded(from: &DataType) -> bool {
    matches!(from, DataType::Dictionary(..) | DataType::Union(..))
}

/// The type of [`decoded`]; `None` where the engine's cast is right as it is.
pub fn decoded_type(from: &DataType, to: &DataType) -> Option<DataType> {
    let values = match from {
        DataType::Dictionary(..) if matches!(to, DataType::Dictionary(..)) => return None,
        // Text is shared, and not copied.
        DataType::Dictionary(_, values) if values.is_string() && to.is_string() => {
            return Some(from.clone());
        }
        DataType::Dictionary(_, values) => values.as_ref(),
        DataType::Union(..) if from == to => return None,
        DataType::Union(..) => &DataType::Utf8,
        _ => return None,
    };
    Some(prepared_type(values, to).unwrap_or_else(|| values.clone()))
}

/// Values in a form whose cast to `to` is right.
pub fn decoded(array: &ArrayRef, to: &DataType, safe: bool) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Dictionary(_, values) if values.is_string() && to.is_string() => {
            without_null_values(array)
        }
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            prepared(&take(dictionary.values(), dictionary.keys(), None)?, to, safe)
        }
        DataType::Union(..) => prepared(&texts(array.as_union())?, to, safe),
        _ => Ok(Arc::clone(array)),
    }
}

/// The type of [`plain`] values; `None` where they stay as they are.
pub fn plain_type(given: &DataType) -> Option<DataType> {
    match given {
        DataType::RunEndEncoded(_, values) => Some(values.data_type().clone()),
        DataType::Dictionary(_, values) if values.is_nested() => Some(values.as_ref().clone()),
        _ => None,
    }
}

/// Values of a form that not all operators know as plain ones, and dictionaries without NULLs among
/// their values, which operators and writers do not look for.
pub fn plain(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::RunEndEncoded(_, values) => Ok(cast(array, values.data_type())?),
        DataType::Dictionary(_, values) if values.is_nested() => {
            let dictionary = array.as_any_dictionary();
            Ok(take(dictionary.values(), dictionary.keys(), None)?)
        }
        _ => without_null_values(array),
    }
}

/// A dictionary whose NULLs are keys that are NULL, and none of its values.
pub fn without_null_values(array: &ArrayRef) -> Result<ArrayRef> {
    let Some(dictionary) = array.as_any_dictionary_opt() else { return Ok(Arc::clone(array)) };
    if dictionary.values().logical_null_count() == 0 {
        return Ok(Arc::clone(array));
    }
    let data = array.to_data().into_builder().nulls(array.logical_nulls()).build()?;
    Ok(make_array(data))
}

/// The values of a union as text, each as a value of its own type is.
fn texts(union: &UnionArray) -> Result<ArrayRef> {
    let types = union.fields().iter().map(|(id, _)| id).collect::<Vec<_>>();
    let children = types.iter().map(|id| as_text(union.child(*id))).collect::<Result<Vec<_>>>()?;
    let children = children.iter().map(AsRef::as_ref).collect::<Vec<_>>();
    let places = (0..union.len()).map(|row| {
        let id = union.type_id(row);
        let child = types.iter().position(|known| *known == id).unwrap_or_default();
        (child, union.value_offset(row))
    });
    let texts = interleave(&children, &places.collect::<Vec<_>>())?;
    Ok(cast(&texts, &DataType::Utf8)?)
}

#[cfg(test)]
mod tests {
    use arrow::array::{DictionaryArray, Int8Array, Int64Array, StringArray};
    use arrow::datatypes::{Field, Int8Type, UnionFields};

    use super::*;

    fn as_type(array: &ArrayRef, to: &DataType) -> ArrayRef {
        cast(&prepared(array, to, false).unwrap(), to).unwrap()
    }

    #[test]
    fn null_among_the_values_of_a_dictionary_is_null() {
        let keys = Int8Array::from(vec![Some(0), Some(1), None]);
        let values = Arc::new(StringArray::from(vec![Some("x"), None]));
        let array: ArrayRef = Arc::new(DictionaryArray::<Int8Type>::try_new(keys, values).unwrap());
        let texts = as_type(&array, &DataType::Utf8View);
        let texts = texts.as_string_view().iter().collect::<Vec<_>>();
        assert_eq!(texts, [Some("x"), None, None]);
    }

    #[test]
    fn values_of_a_dictionary_that_no_row_has_are_not_cast() {
        let keys = Int8Array::from(vec![1, 1]);
        let values = Arc::new(StringArray::from(vec!["none", "7"]));
        let array: ArrayRef = Arc::new(DictionaryArray::<Int8Type>::try_new(keys, values).unwrap());
        let numbers = as_type(&array, &DataType::Int64);
        assert_eq!(numbers.as_ref(), &Int64Array::from(vec![7, 7]) as &dyn Array);
    }

    #[test]
    fn all_values_of_a_union_are_cast() {
        let fields =
            [Field::new("n", DataType::Int64, true), Field::new("t", DataType::Utf8, true)];
        let fields = UnionFields::try_new([0, 1], fields).unwrap();
        let children: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![Some(5), None])),
            Arc::new(StringArray::from(vec!["6"])),
        ];
        let (ids, offsets) = (vec![1_i8, 0, 0].into(), Some(vec![0_i32, 0, 1].into()));
        let array = UnionArray::try_new(fields, ids, offsets, children).unwrap();
        let array: ArrayRef = Arc::new(array);
        let texts = as_type(&array, &DataType::Utf8View);
        let texts = texts.as_string_view().iter().collect::<Vec<_>>();
        assert_eq!(texts, [Some("6"), Some("5"), None]);
        let numbers = as_type(&array, &DataType::Int64);
        assert_eq!(numbers.as_ref(), &Int64Array::from(vec![Some(6), Some(5), None]) as &dyn Array);
    }
}
