//! Structs of different fields in the queries of a UNION, the results of a CASE, and among what is
//! compared: all get the fields of all, as in DuckDB. The engine would take the fields of one, and
//! drop the others.

use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::binary::type_union_resolution;
use swingdb_common::types::sql_names::sql_name;

/// The type of values that have these types; `None` where structs in them have the same fields.
pub(crate) fn common(types: &[DataType]) -> Result<Option<DataType>> {
    let mut all = types.iter().filter(|given| !given.is_null());
    let Some(first) = all.next() else { return Ok(None) };
    if !types.iter().any(|given| differ(first, given)) {
        return Ok(None);
    }
    let mut common = first.clone();
    for given in all {
        let Some(merged) = merged(&common, given) else {
            return plan_err!("{} beside {}; cast one of them", sql_name(&common), sql_name(given));
        };
        common = merged;
    }
    Ok(Some(common))
}

/// Whether structs in both have different fields.
fn differ(a: &DataType, b: &DataType) -> bool {
    match (a, b) {
        (DataType::Struct(a), DataType::Struct(b)) => {
            if is_unnamed(a) != is_unnamed(b) {
                return true;
            }
            let lacks = |fields: &Fields, others: &Fields| {
                fields.iter().any(|field| named(others, field).is_none())
            };
            let inside = |field: &FieldRef| {
                named(b, field).is_some_and(|other| differ(field.data_type(), other.data_type()))
            };
            lacks(a, b) || lacks(b, a) || a.iter().any(inside)
        }
        (DataType::List(a), DataType::List(b)) | (DataType::Map(a, _), DataType::Map(b, _)) => {
            differ(a.data_type(), b.data_type())
        }
        _ => false,
    }
}

fn is_unnamed(fields: &Fields) -> bool {
    fields.iter().enumerate().all(|(place, field)| *field.name() == format!("c{place}"))
}

fn named<'a>(fields: &'a Fields, like: &Field) -> Option<&'a FieldRef> {
    fields.iter().find(|field| field.name().eq_ignore_ascii_case(like.name()))
}

/// A type that has what both have.
fn merged(a: &DataType, b: &DataType) -> Option<DataType> {
    match (a, b) {
        (same, other) if same == other => Some(same.clone()),
        (DataType::Null, given) | (given, DataType::Null) => Some(given.clone()),
        // The fields of ROW(1, 2) go by their places.
        (DataType::Struct(a), DataType::Struct(b)) if is_unnamed(a) || is_unnamed(b) => {
            let named = if is_unnamed(a) { b } else { a };
            let fields = a.iter().zip(b).zip(named).map(|((a, b), named)| {
                Some(Field::new(named.name(), merged(a.data_type(), b.data_type())?, true))
            });
            let fields = (a.len() == b.len()).then(|| fields.collect::<Option<Fields>>());
            fields.flatten().map(DataType::Struct)
        }
        (DataType::Struct(a), DataType::Struct(b)) => {
            let own = a.iter().map(|field| {
                let both = match named(b, field) {
                    Some(other) => merged(field.data_type(), other.data_type())?,
                    None => field.data_type().clone(),
                };
                Some(Field::new(field.name(), both, true))
            });
            let mut fields = own.collect::<Option<Vec<_>>>()?;
            let new = b.iter().filter(|field| named(a, field).is_none());
            fields.extend(new.map(|field| field.as_ref().clone().with_nullable(true)));
            Some(DataType::Struct(fields.into()))
        }
        (DataType::List(a), DataType::List(b)) => {
            Some(DataType::new_list(merged(a.data_type(), b.data_type())?, true))
        }
        (a, b) => type_union_resolution(&[a.clone(), b.clone()]),
    }
}
