//! Dates beside timestamps become timestamps of the same kind, as in DuckDB and PostgreSQL.
//!
//! For `d < t` of a DATE and a TIMESTAMP the query engine turns both sides into nanoseconds, which
//! only last from 1677 to 2262, and leaves the zone of a TIMESTAMPTZ out. The same where a value is
//! one of several: in lists, `CASE`, `coalesce`, UNION. A difference of such is one of timestamps.
//! Texts that are compared with timestamps are read as such, and written ones that are compared
//! with truth values and intervals.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, ExprSchemable, cast};
use swingdb_common::time::texts::per_second;

/// Operands beyond which a list is left to the engine when the first ones are no timestamps.
pub(crate) const MAX_LOOKED_AT: usize = 1_000;

/// The timestamp that dates beside some values become; `None` without such.
pub(crate) fn common(types: &[DataType]) -> Option<DataType> {
    let is_date = |given: &DataType| matches!(given, DataType::Date32 | DataType::Date64);
    if !types.iter().any(is_date) {
        return None;
    }
    stamps(types)
}

/// The finest of the timestamps among some values, with a zone if one has any; `None` without such.
fn stamps(types: &[DataType]) -> Option<DataType> {
    let mut found: Option<(TimeUnit, bool)> = None;
    for given in types {
        match given {
            DataType::Timestamp(unit, zone) => {
                let (finest, zoned) = found.unwrap_or((*unit, false));
                let unit = if per_second(*unit) > per_second(finest) { *unit } else { finest };
                found = Some((unit, zoned || zone.is_some()));
            }
            DataType::Date32 | DataType::Date64 | DataType::Null => {}
            // The engine will say whether texts can be compared with dates.
            _ => return None,
        }
    }
    found.map(|(unit, zoned)| DataType::Timestamp(unit, zoned.then(|| "UTC".into())))
}

/// Reads texts that are compared with timestamps as such.
pub(crate) fn read_texts(operands: &mut [&mut Expr], schema: &DFSchema) -> bool {
    let types = operands.iter().take(MAX_LOOKED_AT).map(|operand| operand.get_type(schema));
    let Ok(types) = types.collect::<Result<Vec<_>>>() else { return false };
    let others = types.iter().filter(|given| !given.is_string()).cloned().collect::<Vec<_>>();
    if others.len() == types.len() && operands.len() == types.len() {
        return false;
    }
    let Some(timestamp) = stamps(&others) else {
        return read_constants(operands, schema);
    };
    for operand in operands.iter_mut() {
        if operand.get_type(schema).is_ok_and(|given| given.is_string()) {
            **operand = cast(std::mem::take(*operand), timestamp.clone());
        }
    }
    true
}

/// Makes points in time of one kind, so that those without a zone are what the session's clock
/// shows: spans are counted between the two.
pub(crate) fn settle(operands: &mut [&mut Expr], schema: &DFSchema) -> bool {
    let types = operands.iter().map(|operand| operand.get_type(schema)).collect::<Result<Vec<_>>>();
    let Some(common) = types.ok().and_then(|types| stamps(&types)) else { return false };
    let is_zoned = matches!(common, DataType::Timestamp(_, Some(_)));
    let mut changed = false;
    for operand in operands.iter_mut() {
        let zoned = |given| matches!(given, DataType::Timestamp(_, Some(_)) | DataType::Null);
        if is_zoned && !operand.get_type(schema).is_ok_and(zoned) {
            **operand = cast(std::mem::take(*operand), common.clone());
            changed = true;
        }
    }
    changed
}

/// Reads written texts, and parameters, beside nothing but truth values or nothing but intervals.
///
/// What operators compare is settled when they are planned, as [`times`](crate::plan::times) are.
pub(crate) fn read_constants(operands: &mut [&mut Expr], schema: &DFSchema) -> bool {
    let is_constant = |expr: &Expr| matches!(expr, Expr::Literal(..) | Expr::Placeholder(_));
    let is_text = |expr: &Expr| expr.get_type(schema).is_ok_and(|given| given.is_string());
    let mut first = None;
    for operand in operands.iter().take(MAX_LOOKED_AT) {
        match operand.get_type(schema) {
            Ok(DataType::Null) => {}
            Ok(text) if text.is_string() && is_constant(operand) => {}
            Ok(given @ (DataType::Boolean | DataType::Interval(_)))
                if first.as_ref().is_none_or(|first| *first == given) =>
            {
                first = Some(given);
            }
            _ => return false,
        }
    }
    let Some(first) = first else { return false };
    for operand in operands.iter_mut().filter(|operand| is_text(operand)) {
        **operand = cast(std::mem::take(*operand), first.clone());
    }
    true
}

/// Whether this is a date.
pub(crate) fn is_date(given: &DataType) -> bool {
    matches!(given, DataType::Date32 | DataType::Date64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_become_what_is_beside_them() {
        let of = |unit, zone: Option<&str>| DataType::Timestamp(unit, zone.map(|z| z.into()));
        let (seconds, micros) = (of(TimeUnit::Second, None), of(TimeUnit::Microsecond, None));
        let zoned = of(TimeUnit::Microsecond, Some("UTC"));
        assert_eq!(common(&[DataType::Date32, micros.clone()]), Some(micros.clone()));
        assert_eq!(common(&[seconds.clone(), DataType::Date32]), Some(seconds.clone()));
        let all = [DataType::Date32, seconds, DataType::Null, zoned.clone()];
        assert_eq!(common(&all), Some(zoned.clone()));
        assert_eq!(common(&[micros, zoned]), None);
        assert_eq!(common(&[DataType::Date32, DataType::Int32]), None);
        assert_eq!(common(&[DataType::Date32, DataType::Date32]), None);
    }
}
