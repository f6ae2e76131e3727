//! Floating point numbers that are equal in SQL, made the same in bits.
//!
//! Zero has two signs, and "not a number" many patterns of bits; hash tables, sorting and keys tell
//! them apart. In SQL there is one zero and one NaN, which is greater than all numbers (as in
//! DuckDB and PostgreSQL). [`canonical`] is applied wherever values are compared by their bits: to
//! the keys of joins, groups and sorting (`swingdb_sql::analyze::equality`) and of constraints.
//! What is stored keeps its bits.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, FixedSizeListArray,
    GenericListArray, MapArray, OffsetSizeTrait, PrimitiveArray, StructArray,
};
use arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type};
use half::f16;

use crate::error::Result;

/// The NaNs that stand for all others: without a sign, so that they are the greatest in the total
/// order, in which the engine sorts.
const NAN_16: u16 = 0x7E00;
const NAN_32: u32 = 0x7FC0_0000;
const NAN_64: u64 = 0x7FF8_0000_0000_0000;

/// Whether values of a type can be equal and have other bits: whether it has floating point in it.
pub fn has_floats(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => has_floats(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_floats(field.data_type())),
        other => other.is_floating(),
    }
}

/// The same values with one zero and one NaN. Types without floating point stay as they are.
pub fn canonical(array: &ArrayRef) -> Result<ArrayRef> {
    if !has_floats(array.data_type()) {
        return Ok(Arc::clone(array));
    }
    Ok(match array.data_type() {
        DataType::Float16 => {
            Arc::new(one_zero(array.as_primitive::<Float16Type>(), f16::from_bits(NAN_16)))
        }
        DataType::Float32 => {
            Arc::new(one_zero(array.as_primitive::<Float32Type>(), f32::from_bits(NAN_32)))
        }
        DataType::Float64 => {
            Arc::new(one_zero(array.as_primitive::<Float64Type>(), f64::from_bits(NAN_64)))
        }
        DataType::List(_) => list(array.as_list::<i32>())?,
        DataType::LargeList(_) => list(array.as_list::<i64>())?,
        DataType::FixedSizeList(field, length) => {
            let values = canonical(array.as_fixed_size_list().values())?;
            let (field, nulls) = (Arc::clone(field), array.nulls().cloned());
            Arc::new(FixedSizeListArray::try_new(field, *length, values, nulls)?)
        }
        DataType::Map(field, ordered) => {
            let map = array.as_map();
            let entries = structure(map.entries())?;
            let (field, offsets) = (Arc::clone(field), map.offsets().clone());
            Arc::new(MapArray::try_new(field, offsets, entries, map.nulls().cloned(), *ordered)?)
        }
        DataType::Struct(_) => Arc::new(structure(array.as_struct())?),
        _ => Arc::clone(array),
    })
}

fn one_zero<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>, nan: T::Native) -> PrimitiveArray<T> {
    let zero = T::Native::ZERO;
    array.unary(|value| match value.partial_cmp(&value) {
        None => nan,
        Some(_) if value == zero => zero,
        Some(_) => value,
    })
}

fn list<O: OffsetSizeTrait>(array: &GenericListArray<O>) -> Result<ArrayRef> {
    let (DataType::List(field) | DataType::LargeList(field)) = array.data_type() else {
        return Ok(Arc::new(array.clone()));
    };
    let values = canonical(array.values())?;
    let (offsets, nulls) = (array.offsets().clone(), array.nulls().cloned());
    Ok(Arc::new(GenericListArray::<O>::try_new(Arc::clone(field), offsets, values, nulls)?))
}

fn structure(array: &StructArray) -> Result<StructArray> {
    let columns = array.columns().iter().map(canonical).collect::<Result<Vec<_>>>()?;
    Ok(StructArray::try_new(array.fields().clone(), columns, array.nulls().cloned())?)
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float32Array, Float64Array, Int32Array, ListArray};
    use arrow::datatypes::Field;

    use super::*;

    fn bits(array: &ArrayRef) -> Vec<Option<u64>> {
        array.as_primitive::<Float64Type>().iter().map(|v| v.map(f64::to_bits)).collect()
    }

    #[test]
    fn equal_numbers_have_equal_bits() {
        let other_nan = f64::from_bits(0xFFF8_0000_0000_0001);
        let values = vec![Some(0.0), Some(-0.0), Some(f64::NAN), Some(other_nan), None, Some(-1.5)];
        let array: ArrayRef = Arc::new(Float64Array::from(values));
        let found = bits(&canonical(&array).unwrap());
        assert_eq!(found[0], Some(0));
        assert_eq!(found[0], found[1]);
        assert_eq!(found[2], Some(NAN_64));
        assert_eq!(found[2], found[3]);
        assert_eq!(&found[4..], [None, Some((-1.5_f64).to_bits())]);
        let narrow: ArrayRef = Arc::new(Float32Array::from(vec![-0.0, -f32::NAN]));
        let narrow = canonical(&narrow).unwrap();
        let narrow = narrow.as_primitive::<Float32Type>();
        assert_eq!([narrow.value(0).to_bits(), narrow.value(1).to_bits()], [0, NAN_32]);
    }

    #[test]
    fn numbers_inside_others_too() {
        let zero: ArrayRef = Arc::new(Float64Array::from(vec![-0.0, 2.0]));
        let field = Arc::new(Field::new("x", DataType::Float64, true));
        let structs = StructArray::new(vec![field].into(), vec![zero], None);
        let item = Arc::new(Field::new("item", structs.data_type().clone(), true));
        let offsets = arrow::buffer::OffsetBuffer::from_lengths([2]);
        let lists: ArrayRef = Arc::new(ListArray::new(item, offsets, Arc::new(structs), None));
        assert!(has_floats(lists.data_type()));
        let found = canonical(&lists).unwrap();
        assert_eq!(found.data_type(), lists.data_type());
        let inner = found.as_list::<i32>().value(0);
        assert_eq!(bits(inner.as_struct().column(0)), [Some(0), Some(2.0_f64.to_bits())]);
        let whole: ArrayRef = Arc::new(Int32Array::from(vec![1]));
        assert!(!has_floats(whole.data_type()));
        assert!(Arc::ptr_eq(&canonical(&whole).unwrap(), &whole));
    }
}
