//! Python values as arrays of a type that was declared: [`of_type`].
//!
//! What a function returns says less than its declaration: a dict is a STRUCT or a MAP, and each
//! number inside has to fit as one outside would. So lists, structs and maps are taken apart by the
//! declared type, and only single values are inferred.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use swingdb::arrow::array::{
    Array, ArrayRef, FixedSizeListArray, ListArray, MapArray, StructArray, new_null_array,
};
use swingdb::arrow::buffer::OffsetBuffer;
use swingdb::arrow::compute::{CastOptions, cast_with_options};
use swingdb::arrow::datatypes::{DataType, FieldRef, Fields};

use crate::columns::{Values, build, validity};
use crate::errors;
use crate::infer::{common_type_of, normal};

/// An array of Python's values.
pub fn of_type(values: &Bound<'_, PyAny>, returns: &DataType) -> PyResult<ArrayRef> {
    let values: Vec<_> =
        values.try_iter()?.map(|value| normal(&value?)).collect::<PyResult<_>>()?;
    declared(&values, returns)
}

/// The array as one of the declared type, if that is of its kind and has room for its values.
pub fn stored(array: &ArrayRef, returns: &DataType) -> PyResult<ArrayRef> {
    let given = array.data_type();
    if given == returns {
        return Ok(Arc::clone(array));
    }
    if array.null_count() == array.len() || given == &DataType::Null {
        return Ok(new_null_array(returns, array.len()));
    }
    if !is_alike(given, returns) {
        let message = format!("values of type {given} where {returns} was declared");
        return Err(errors::new("DataError", message));
    }
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, returns, &strict).map_err(errors::raise_arrow)
}

/// Whether a cast changes the width of values, and nothing else.
fn is_alike(given: &DataType, returns: &DataType) -> bool {
    let is_decimal =
        |t: &DataType| matches!(t, DataType::Decimal128(..) | DataType::Decimal256(..));
    let is_text =
        |t: &DataType| matches!(t, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let is_bytes =
        |t: &DataType| matches!(t, DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
    let to_number = returns.is_integer() || returns.is_floating() || is_decimal(returns);
    let are_alike = |(given, returns): (&FieldRef, &FieldRef)| {
        given.data_type().is_null() || is_alike(given.data_type(), returns.data_type())
    };
    match (given, returns) {
        (given, _) if given.is_integer() => to_number,
        (given, returns) if is_decimal(given) => returns.is_floating() || is_decimal(returns),
        (given, returns) if given.is_floating() => returns.is_floating(),
        (
            DataType::List(given) | DataType::LargeList(given) | DataType::FixedSizeList(given, _),
            DataType::List(returns) | DataType::FixedSizeList(returns, _),
        )
        | (DataType::Map(given, _), DataType::Map(returns, _)) => are_alike((given, returns)),
        (DataType::Struct(given), DataType::Struct(returns)) => {
            given.len() == returns.len() && given.iter().zip(returns).all(are_alike)
        }
        (DataType::Duration(_), DataType::Interval(_)) => true,
        (given, returns) => {
            is_text(given) && is_text(returns)
                || is_bytes(given) && is_bytes(returns)
                || !given.is_nested()
                    && std::mem::discriminant(given) == std::mem::discriminant(returns)
        }
    }
}

fn declared(values: Values<'_, '_>, returns: &DataType) -> PyResult<ArrayRef> {
    match returns {
        DataType::List(item) => {
            let (items, lengths) = lists(values, item)?;
            let offsets = OffsetBuffer::from_lengths(lengths);
            let array = ListArray::try_new(Arc::clone(item), offsets, items, validity(values));
            Ok(Arc::new(array.map_err(errors::raise_arrow)?))
        }
        DataType::FixedSizeList(item, length) => fixed(values, item, *length),
        DataType::Struct(fields) => structs(values, fields),
        DataType::Map(entries, _) => maps(values, entries),
        other => stored(&build(values, &common_type_of(values)?)?, other),
    }
}

/// The elements of all lists, and how many each list has.
fn lists(values: Values<'_, '_>, item: &FieldRef) -> PyResult<(ArrayRef, Vec<usize>)> {
    let (mut items, mut lengths) = (Vec::new(), Vec::with_capacity(values.len()));
    for value in values {
        let before = items.len();
        if !value.is_none() {
            if !value.is_instance_of::<PyList>() && !value.is_instance_of::<PyTuple>() {
                return Err(other_than("a list", value));
            }
            for inner in value.try_iter()? {
                items.push(normal(&inner?)?);
            }
        }
        lengths.push(items.len() - before);
    }
    Ok((declared(&items, item.data_type())?, lengths))
}

fn fixed(values: Values<'_, '_>, item: &FieldRef, length: i32) -> PyResult<ArrayRef> {
    let width = usize::try_from(length).unwrap_or_default();
    let (mut items, mut none) = (Vec::with_capacity(values.len() * width), None);
    for value in values {
        if value.is_none() {
            // A NULL has elements all the same.
            let none = none.get_or_insert_with(|| value.clone());
            items.extend(std::iter::repeat_n(none.clone(), width));
            continue;
        }
        let before = items.len();
        if !value.is_instance_of::<PyList>() && !value.is_instance_of::<PyTuple>() {
            return Err(other_than("a list", value));
        }
        for inner in value.try_iter()? {
            items.push(normal(&inner?)?);
        }
        if items.len() - before != width {
            let message = format!("a list of {} where {width} were declared", items.len() - before);
            return Err(errors::new("DataError", message));
        }
    }
    let items = declared(&items, item.data_type())?;
    let array = FixedSizeListArray::try_new(Arc::clone(item), length, items, validity(values));
    Ok(Arc::new(array.map_err(errors::raise_arrow)?))
}

/// Fields that a dict does not have are NULL; one that was not declared is an error.
fn structs(values: Values<'_, '_>, fields: &Fields) -> PyResult<ArrayRef> {
    let mut columns = vec![Vec::with_capacity(values.len()); fields.len()];
    for value in values {
        let none = value.py().None().into_bound(value.py());
        let mut found = 0;
        let dict = match value.cast::<PyDict>() {
            Ok(dict) => Some(dict),
            Err(_) if value.is_none() => None,
            Err(_) => return Err(other_than("a dict", value)),
        };
        for (column, field) in columns.iter_mut().zip(fields) {
            let inner = dict.map(|dict| dict.get_item(field.name())).transpose()?.flatten();
            found += usize::from(inner.is_some());
            column.push(inner.map_or_else(|| Ok(none.clone()), |inner| normal(&inner))?);
        }
        if dict.is_some_and(|dict| dict.len() > found) {
            let names = fields.iter().map(|field| field.name().as_str()).collect::<Vec<_>>();
            let message = format!(
                "a dict with other keys than the declared fields {}: {}",
                names.join(", "),
                value.repr()?
            );
            return Err(errors::new("DataError", message));
        }
    }
    let columns = columns.iter().zip(fields).map(|(column, f)| declared(column, f.data_type()));
    let columns = columns.collect::<PyResult<Vec<_>>>()?;
    let nulls = validity(values);
    let array = StructArray::try_new_with_length(fields.clone(), columns, nulls, values.len());
    Ok(Arc::new(array.map_err(errors::raise_arrow)?))
}

fn maps(values: Values<'_, '_>, entries: &FieldRef) -> PyResult<ArrayRef> {
    let DataType::Struct(fields) = entries.data_type() else {
        return Err(errors::new("InternalError", "the entries of a map are not a struct"));
    };
    let (mut keys, mut items, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
    for value in values {
        let before = keys.len();
        match value.cast::<PyDict>() {
            Ok(dict) => {
                for (key, item) in dict.iter() {
                    keys.push(normal(&key)?);
                    items.push(normal(&item)?);
                }
            }
            Err(_) if value.is_none() => {}
            Err(_) => return Err(other_than("a dict", value)),
        }
        lengths.push(keys.len() - before);
    }
    let columns =
        vec![declared(&keys, fields[0].data_type())?, declared(&items, fields[1].data_type())?];
    let inner = StructArray::try_new(fields.clone(), columns, None).map_err(errors::raise_arrow)?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    let array = MapArray::try_new(Arc::clone(entries), offsets, inner, validity(values), false);
    Ok(Arc::new(array.map_err(errors::raise_arrow)?))
}

fn other_than(wanted: &str, value: &Bound<'_, PyAny>) -> PyErr {
    let class = value.get_type().name().map_or_else(|_| String::new(), |name| name.to_string());
    errors::new("DataError", format!("a value of class {class} where {wanted} was declared"))
}
