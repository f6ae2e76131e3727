//! Structs that are NULL have fields that are NULL: [`with_field_nulls`].
//!
//! Arrow lets a struct that is NULL have any values below. The engine takes a field's values as
//! they are, so that `s.a` of a NULL would be one of these. Arrays of a program are looked at where
//! they come in.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait,
    RecordBatch, StructArray, make_array,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

/// The same batch, but with NULLs in the fields of structs that are NULL.
pub(crate) fn with_field_nulls(batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
    if !batch.schema_ref().fields().iter().any(|field| has_structs(field.data_type())) {
        return Ok(batch);
    }
    let (schema, columns, rows) = batch.into_parts();
    let columns = columns.iter().map(settled).collect::<Result<Vec<_>, _>>()?;
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema, columns, &options)
}

fn has_structs(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(_) | DataType::Map(..) => true,
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            has_structs(item.data_type())
        }
        _ => false,
    }
}

fn settled(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    if !has_structs(array.data_type()) {
        return Ok(Arc::clone(array));
    }
    Ok(match array.data_type() {
        DataType::Struct(_) => Arc::new(settled_struct(array.as_struct())?),
        DataType::List(_) => Arc::new(settled_list(array.as_list::<i32>())?),
        DataType::LargeList(_) => Arc::new(settled_list(array.as_list::<i64>())?),
        DataType::FixedSizeList(field, size) => {
            let list = array.as_fixed_size_list();
            let values = settled(list.values())?;
            let nulls = list.nulls().cloned();
            let of = Arc::clone(field);
            Arc::new(FixedSizeListArray::try_new_with_length(of, *size, values, nulls, list.len())?)
        }
        DataType::Map(field, is_sorted) => {
            let map = array.as_map();
            let entries = settled_struct(map.entries())?;
            let (offsets, nulls) = (map.offsets().clone(), map.nulls().cloned());
            Arc::new(MapArray::try_new(Arc::clone(field), offsets, entries, nulls, *is_sorted)?)
        }
        _ => Arc::clone(array),
    })
}

fn settled_list<O: OffsetSizeTrait>(
    list: &GenericListArray<O>,
) -> Result<GenericListArray<O>, ArrowError> {
    let field = match list.data_type() {
        DataType::List(field) | DataType::LargeList(field) => Arc::clone(field),
        other => return Err(ArrowError::SchemaError(format!("{other} is no list"))),
    };
    let values = settled(list.values())?;
    GenericListArray::try_new(field, list.offsets().clone(), values, list.nulls().cloned())
}

fn settled_struct(array: &StructArray) -> Result<StructArray, ArrowError> {
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
    let child = |child: &ArrayRef| {
        let below = match nulls {
            Some(nulls) if has_bitmap(child.data_type()) => {
                let all = NullBuffer::union(Some(nulls), child.nulls());
                make_array(child.to_data().into_builder().nulls(all).build()?)
            }
            _ => Arc::clone(child),
        };
        settled(&below)
    };
    let children = array.columns().iter().map(child).collect::<Result<Vec<_>, _>>()?;
    StructArray::try_new_with_length(
        array.fields().clone(),
        children,
        array.nulls().cloned(),
        array.len(),
    )
}

/// Whether arrays of a type say themselves which values are NULL.
fn has_bitmap(data_type: &DataType) -> bool {
    !matches!(data_type, DataType::Null | DataType::Union(..) | DataType::RunEndEncoded(..))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Int64Array;
    use arrow::datatypes::{Field, Fields};

    #[test]
    fn fields_of_a_null_are_null_however_deep() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![7, 8]));
        let inner = Fields::from(vec![Field::new("a", DataType::Int64, true)]);
        let inner = StructArray::try_new(inner, vec![numbers], None).unwrap();
        let outer = Fields::from(vec![Field::new("s", inner.data_type().clone(), true)]);
        let nulls = Some(NullBuffer::from(vec![false, true]));
        let outer = StructArray::try_new(outer, vec![Arc::new(inner)], nulls).unwrap();
        let batch = RecordBatch::try_from_iter([("o", Arc::new(outer) as ArrayRef)]).unwrap();
        let settled = with_field_nulls(batch).unwrap();
        let inner = settled.column(0).as_struct().column(0).as_struct();
        assert!(inner.is_null(0) && inner.column(0).is_null(0));
        assert!(inner.is_valid(1) && inner.column(0).is_valid(1));
    }
}
