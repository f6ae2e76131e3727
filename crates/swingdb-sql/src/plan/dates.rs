//! A date and a time of day make a point in time.
//!
//! `DATE '2024-01-31' + INTERVAL '36 hours'` is noon of the next day. The query engine keeps the
//! type of the date and drops the hours. An interval of whole days is left alone: the result is a
//! date as before, and compares with columns of dates without converting them.
//!
//! A date and a whole number are a date so many days later; the engine makes an interval of
//! nanoseconds of the number, which has room for 292 years. The difference of two dates is a number
//! of days. The engine computes that, but takes it for a
//! duration where it estimates how many rows a condition on it lets through, and fails.
//!
//! The difference of two timestamps, and a `timedelta` of a program, are durations, which the
//! engine adds to timestamps only, on their right. A NULL without a type it takes for a date.

use std::sync::Arc;

use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::BinaryExpr;
use datafusion::logical_expr::{Expr, Operator, cast};
use swingdb_functions::arithmetic::types::type_of;

const INSTANT: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// Whether this adds or subtracts.
pub(crate) fn is_concerned(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryExpr(BinaryExpr { op: Operator::Plus | Operator::Minus, .. }))
}

/// The sum with midnight of the date in its place.
pub(crate) fn rewrite(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let Expr::BinaryExpr(mut sum) = expr else { return Transformed::no(expr) };
    let is_date = |e: &Expr| matches!(type_of(e, schema), Ok(DataType::Date32 | DataType::Date64));
    let (left, right) = (is_date(&sum.left), is_date(&sum.right));
    if let Some(sum) = with_time(&sum, (left, right), schema) {
        return Transformed::yes(sum);
    }
    if let Some(sum) = with_days(&sum, (left, right), schema) {
        return Transformed::yes(sum);
    }
    let date = match (left, right) {
        (true, true) if sum.op == Operator::Minus && days_each(&sum, schema) => {
            let days = |date: Expr| cast(cast(date, DataType::Int32), DataType::Int64);
            let difference = BinaryExpr {
                left: Box::new(days(*sum.left)),
                op: sum.op,
                right: Box::new(days(*sum.right)),
            };
            return Transformed::yes(Expr::BinaryExpr(difference));
        }
        (true, false) if has_hours(&sum.right, schema) => &mut sum.left,
        (false, true) if sum.op == Operator::Plus && has_hours(&sum.left, schema) => &mut sum.right,
        _ => return Transformed::no(Expr::BinaryExpr(sum)),
    };
    **date = cast(std::mem::take(date.as_mut()), INSTANT);
    Transformed::yes(Expr::BinaryExpr(sum))
}

/// Makes intervals of durations, and of NULL, before a sum is planned that the engine does not know
/// with these.
pub(crate) fn settle_durations(left: &mut Expr, right: &mut Expr, adds: bool, schema: &DFSchema) {
    use DataType::{Date32, Date64, Duration, Interval, Null, Time32, Time64, Timestamp};
    let (Ok(one), Ok(other)) = (type_of(left, schema), type_of(right, schema)) else { return };
    let side = match (&one, &other) {
        (Date32 | Date64 | Time32(_) | Time64(_), Duration(_)) => right,
        (Duration(_), Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..)) if adds => left,
        (Date32 | Date64 | Timestamp(..), Null) if adds => right,
        (Null, Date32 | Date64 | Timestamp(..)) if adds => left,
        _ => return,
    };
    *side = cast(std::mem::take(side), Interval(IntervalUnit::MonthDayNano));
}

/// A date and a whole number of days.
fn with_days(sum: &BinaryExpr, (left, right): (bool, bool), schema: &DFSchema) -> Option<Expr> {
    let is_days = |expr: &Expr| match type_of(expr, schema) {
        Ok(of) => of.is_integer() && of != DataType::UInt64,
        Err(_) => false,
    };
    let (date, number) = match (left, right, sum.op) {
        (true, false, _) => (&sum.left, &sum.right),
        (false, true, Operator::Plus) => (&sum.right, &sum.left),
        _ => return None,
    };
    if !is_days(number) || !matches!(type_of(date, schema), Ok(DataType::Date32)) {
        return None;
    }
    let since_1970 = cast(cast(date.as_ref().clone(), DataType::Int32), DataType::Int64);
    let moved = BinaryExpr {
        left: Box::new(since_1970),
        op: sum.op,
        right: Box::new(cast(number.as_ref().clone(), DataType::Int64)),
    };
    Some(cast(cast(Expr::BinaryExpr(moved), DataType::Int32), DataType::Date32))
}

/// The sum of a date and a time of day, or the difference of a date and a timestamp, in
/// microseconds: the engine takes nanoseconds, which do not reach beyond 2262.
fn with_time(sum: &BinaryExpr, is_date: (bool, bool), schema: &DFSchema) -> Option<Expr> {
    let (left, right) = (type_of(&sum.left, schema).ok()?, type_of(&sum.right, schema).ok()?);
    let is_time = |given: &DataType| matches!(given, DataType::Time32(_) | DataType::Time64(_));
    let is_stamp = |given: &DataType| matches!(given, DataType::Timestamp(..));
    let (one, other) = match (is_date, sum.op) {
        ((true, false), Operator::Plus) if is_time(&right) => (&sum.left, &sum.right),
        ((false, true), Operator::Plus) if is_time(&left) => (&sum.right, &sum.left),
        ((true, false), Operator::Minus) if is_stamp(&right) => {
            let left = cast(sum.left.as_ref().clone(), right);
            return Some(left - sum.right.as_ref().clone());
        }
        // The engine takes what a clock shows for a point in time.
        ((false, false), Operator::Minus) => match (&left, &right) {
            (DataType::Timestamp(unit, None), DataType::Timestamp(_, Some(zone))) => {
                let same = DataType::Timestamp(*unit, Some(Arc::clone(zone)));
                return Some(cast(sum.left.as_ref().clone(), same) - sum.right.as_ref().clone());
            }
            (DataType::Timestamp(_, Some(zone)), DataType::Timestamp(unit, other))
                if Some(zone) != other.as_ref() =>
            {
                let same = DataType::Timestamp(*unit, Some(Arc::clone(zone)));
                return Some(sum.left.as_ref().clone() - cast(sum.right.as_ref().clone(), same));
            }
            _ => return None,
        },
        ((false, true), Operator::Minus) if is_stamp(&left) => {
            let right = cast(sum.right.as_ref().clone(), left);
            return Some(sum.left.as_ref().clone() - right);
        }
        _ => return None,
    };
    let time = cast(other.as_ref().clone(), DataType::Time64(TimeUnit::Microsecond));
    let length = cast(cast(time, DataType::Int64), DataType::Duration(TimeUnit::Microsecond));
    Some(cast(one.as_ref().clone(), INSTANT) + length)
}

/// Whether both sides count days.
fn days_each(sum: &BinaryExpr, schema: &DFSchema) -> bool {
    let days = |e: &Expr| matches!(type_of(e, schema), Ok(DataType::Date32));
    days(&sum.left) && days(&sum.right)
}

/// Whether an expression is an interval that may have a part smaller than a day.
fn has_hours(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(by)), _) => by.nanoseconds != 0,
        Expr::Literal(ScalarValue::IntervalDayTime(Some(by)), _) => by.milliseconds != 0,
        Expr::Negative(inner) => has_hours(inner, schema),
        other => match type_of(other, schema) {
            Ok(DataType::Interval(unit)) => unit != IntervalUnit::YearMonth,
            _ => false,
        },
    }
}
