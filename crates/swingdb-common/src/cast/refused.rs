//! Conversions that nobody may ask for, neither in a cast nor by storing: numbers as dates or as
//! bytes, dates as numbers, one value as a list of one, and a struct as one without any field of
//! the same name. In lists, structs and maps too.
//!
//! The engine's cast does them where it meets them inside of a list or the like.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, GenericListArray, OffsetSizeTrait, StructArray,
    new_null_array,
};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};

use crate::cast::fields::{have_nothing_in_common, sources};
use crate::error::Result;

/// Whether values of `from` are never converted to `to`, somewhere in them.
pub fn refused(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::Null, _) => false,
        (DataType::Dictionary(_, values), to) => refused(values, to),
        (DataType::Struct(fields), DataType::Struct(targets)) => {
            have_nothing_in_common(fields, targets)
                || pairs(fields, targets)
                    .any(|(field, target)| refused(field.data_type(), target.data_type()))
        }
        (DataType::Map(from, _), DataType::Map(to, _)) => {
            match (from.data_type(), to.data_type()) {
                (DataType::Struct(from), DataType::Struct(to)) => {
                    let mut both = from.iter().zip(to);
                    both.any(|(from, to)| refused(from.data_type(), to.data_type()))
                }
                _ => false,
            }
        }
        _ => match (element(from), element(to)) {
            (Some(from), Some(to)) => refused(from, to),
            (None, Some(_)) => !from.is_string(),
            _ => is_other(from, to),
        },
    }
}

/// The fields of a struct, and the targets that they go to.
fn pairs<'a>(
    fields: &'a Fields,
    targets: &'a Fields,
) -> impl Iterator<Item = (&'a FieldRef, &'a FieldRef)> {
    let pairs = targets.iter().zip(sources(fields, targets));
    pairs.filter_map(|(target, source)| Some((&fields[source?], target)))
}

/// Where the field at a place goes.
fn target<'a>(fields: &Fields, targets: &'a Fields, place: usize) -> Option<&'a FieldRef> {
    let at = sources(fields, targets).iter().position(|source| *source == Some(place))?;
    targets.get(at)
}

/// Whether a value is of another nature than the type it is to have.
fn is_other(from: &DataType, to: &DataType) -> bool {
    let is_bytes = |t: &DataType| t.is_binary() || matches!(t, DataType::FixedSizeBinary(_));
    let is_number = |t: &DataType| t.is_numeric() || *t == DataType::Boolean;
    let is_time = |t: &DataType| t.is_temporal() && !matches!(t, DataType::Duration(_));
    (is_number(from) && (is_time(to) || is_bytes(to))) || (is_time(from) && is_number(to))
}

fn element(list: &DataType) -> Option<&DataType> {
    match list {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Some(item.data_type())
        }
        _ => None,
    }
}

/// The type of what [`erased`] makes of values.
pub fn erased_type(from: &DataType, to: &DataType) -> DataType {
    if !refused(from, to) {
        return from.clone();
    }
    let item = |from: &Field, to: &DataType| {
        let inner = element(to).unwrap_or(to);
        Arc::new(from.clone().with_data_type(erased_type(from.data_type(), inner)))
    };
    match (from, to) {
        (DataType::List(from), to) if element(to).is_some() => DataType::List(item(from, to)),
        (DataType::LargeList(from), to) if element(to).is_some() => {
            DataType::LargeList(item(from, to))
        }
        (DataType::FixedSizeList(from, n), to) if element(to).is_some() => {
            DataType::FixedSizeList(item(from, to), *n)
        }
        (DataType::Struct(fields), DataType::Struct(targets))
            if !have_nothing_in_common(fields, targets) =>
        {
            let erased = fields.iter().enumerate().map(|(place, field)| {
                match target(fields, targets, place) {
                    Some(to) => item(field, to.data_type()),
                    None => Arc::clone(field),
                }
            });
            DataType::Struct(erased.collect())
        }
        (_, to) => to.clone(),
    }
}

/// Values with NULL in place of what cannot be converted, as TRY_CAST has it.
pub fn erased(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let from = array.data_type();
    if !refused(from, to) {
        return Ok(Arc::clone(array));
    }
    match (from, to, element(to)) {
        (DataType::List(_), _, Some(to)) => of_list(array.as_list::<i32>(), to),
        (DataType::LargeList(_), _, Some(to)) => of_list(array.as_list::<i64>(), to),
        (DataType::FixedSizeList(item, n), _, Some(to)) => {
            let list = array.as_fixed_size_list();
            let values = erased(list.values(), to)?;
            let item = item.as_ref().clone().with_data_type(values.data_type().clone());
            let nulls = list.nulls().cloned();
            Ok(Arc::new(FixedSizeListArray::try_new(Arc::new(item), *n, values, nulls)?))
        }
        (DataType::Struct(fields), DataType::Struct(targets), _)
            if !have_nothing_in_common(fields, targets) =>
        {
            let of = array.as_struct();
            let columns = (0..fields.len()).map(|place| {
                let column = of.column(place);
                match target(fields, targets, place) {
                    Some(to) => erased(column, to.data_type()),
                    None => Ok(Arc::clone(column)),
                }
            });
            let columns = columns.collect::<Result<Vec<_>>>()?;
            let DataType::Struct(fields) = erased_type(from, to) else {
                return Ok(columns[0].clone());
            };
            let nulls = of.nulls().cloned();
            Ok(Arc::new(StructArray::try_new_with_length(fields, columns, nulls, of.len())?))
        }
        _ => Ok(new_null_array(to, array.len())),
    }
}

fn of_list<O: OffsetSizeTrait>(list: &GenericListArray<O>, to: &DataType) -> Result<ArrayRef> {
    let (item, offsets, values, nulls) = list.clone().into_parts();
    let values = erased(&values, to)?;
    let item = item.as_ref().clone().with_data_type(values.data_type().clone());
    Ok(Arc::new(GenericListArray::try_new(Arc::new(item), offsets, values, nulls)?))
}
