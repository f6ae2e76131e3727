//! Operators that the query engine does not have for some types, planned as DuckDB has them.
//!
//! `INTERVAL '1 day' * 2`, `2 * i` and `i / 2` are the interval so many times; parts of a month are
//! days, parts of a day hours. `a // b` of HUGEINT is whole. A list `||` NULL is NULL, and numbers
//! are joined as texts. `s[1]` and
//! `s[-2:]` of a text are its characters, counted from 1, or from the end. `j[0]` and `j['a']` of
//! what is known to be JSON are its parts, counted from 0. `m['k']` of a map is the value of a key.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::kernels::arity::try_binary;
use arrow::datatypes::{
    DataType, Field, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
};
use arrow::error::ArrowError;
use datafusion::common::utils::list_ndims;
use datafusion::common::{Column, DFSchema, Result, ScalarValue, TableReference, plan_err};
use datafusion::functions::unicode::expr_fn::{character_length, substring};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawBinaryExpr, RawFieldAccessExpr,
};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, GetFieldAccess, Operator, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility, cast, lit, when,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use swingdb_functions::arithmetic::types::type_of;
use swingdb_functions::arithmetic::whole_quotient::{has_whole_quotient, is_mixed, whole_quotient};
use swingdb_functions::json::marks::is_marked;
use swingdb_functions::json::paths;
use swingdb_functions::nested::fields::field_of;
use swingdb_functions::nested::joined_lists::joined_lists;
use swingdb_functions::nested::map::map_of;
use swingdb_functions::nested::map_values::value_of;
use swingdb_functions::nested::unified::list_of;

use crate::desugar::expressions::{DISTINCT_FROM, NOT_DISTINCT_FROM};
use crate::plan::{dates, moments, times, written_texts};

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const DAYS_PER_MONTH: f64 = 30.0;
const MICROS_PER_DAY: f64 = 86_400_000_000.0;
const NANOS_PER_MICRO: f64 = 1_000.0;
/// Whole microseconds of which 64 bits hold the nanoseconds.
const MOST_MICROS: f64 = (i64::MAX / 1_000) as f64;

/// See the [module documentation](self). To be asked before the engine's own planners.
#[derive(Debug)]
pub(crate) struct Operators;

fn is_comparison(operator: &BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

/// The operator that stands for IS DISTINCT FROM, or its opposite.
fn distinctness(operator: &BinaryOperator) -> Option<Operator> {
    match operator {
        BinaryOperator::Custom(name) if name == DISTINCT_FROM => Some(Operator::IsDistinctFrom),
        BinaryOperator::Custom(name) if name == NOT_DISTINCT_FROM => {
            Some(Operator::IsNotDistinctFrom)
        }
        _ => None,
    }
}

impl ExprPlanner for Operators {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        if is_comparison(&expr.op) {
            let mut expr = expr;
            times::settle(&mut [&mut expr.left, &mut expr.right], schema);
            moments::read_constants(&mut [&mut expr.left, &mut expr.right], schema);
            return Ok(PlannerResult::Original(expr));
        }
        let mut expr = expr;
        written_texts::read_operand(&mut expr, schema);
        if matches!(expr.op, BinaryOperator::Plus | BinaryOperator::Minus) {
            let adds = expr.op == BinaryOperator::Plus;
            dates::settle_durations(&mut expr.left, &mut expr.right, adds, schema);
            return Ok(PlannerResult::Original(expr));
        }
        if let Some(op) = distinctness(&expr.op) {
            let RawBinaryExpr { mut left, mut right, .. } = expr;
            times::settle(&mut [&mut left, &mut right], schema);
            moments::read_constants(&mut [&mut left, &mut right], schema);
            let compared = BinaryExpr::new(Box::new(left), op, Box::new(right));
            return Ok(PlannerResult::Planned(Expr::BinaryExpr(compared)));
        }
        let over = match expr.op {
            BinaryOperator::Multiply => false,
            BinaryOperator::Divide => true,
            BinaryOperator::DuckIntegerDivide | BinaryOperator::StringConcat => false,
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let types = (type_of(&expr.left, schema).ok(), type_of(&expr.right, schema).ok());
        if expr.op == BinaryOperator::StringConcat {
            return Ok(match &types {
                (Some(left), Some(right)) if are_lists(left, right) => {
                    PlannerResult::Planned(joined_lists(expr.left, expr.right))
                }
                (Some(left), Some(right)) if are_joined_as_texts(left, right) => {
                    let left = Box::new(cast(expr.left, DataType::Utf8View));
                    let joined = BinaryExpr::new(left, Operator::StringConcat, expr.right.into());
                    PlannerResult::Planned(Expr::BinaryExpr(joined))
                }
                _ => PlannerResult::Original(expr),
            });
        }
        if expr.op == BinaryOperator::DuckIntegerDivide {
            return Ok(match &types {
                (Some(left), Some(right)) if has_whole_quotient(left, right) => {
                    PlannerResult::Planned(whole_quotient(expr.left, expr.right))
                }
                // `/` of whole numbers is whole here.
                _ => self
                    .plan_binary_op(RawBinaryExpr { op: BinaryOperator::Divide, ..expr }, schema)?,
            });
        }
        Ok(match types {
            (Some(INTERVAL), Some(number)) if is_number(&number) => {
                PlannerResult::Planned(scaled(expr.left, expr.right, over))
            }
            (Some(number), Some(INTERVAL)) if is_number(&number) && !over => {
                PlannerResult::Planned(scaled(expr.right, expr.left, over))
            }
            (Some(left), Some(right)) if over && is_mixed(&left, &right) => {
                PlannerResult::Planned(whole_quotient(expr.left, expr.right))
            }
            _ => PlannerResult::Original(expr),
        })
    }

    fn plan_make_map(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        if !args.len().is_multiple_of(2) {
            return plan_err!("MAP takes keys and values in turn");
        }
        let mut args = args.into_iter();
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        while let (Some(key), Some(value)) = (args.next(), args.next()) {
            keys.push(key);
            values.push(value);
        }
        Ok(PlannerResult::Planned(map_of(keys, values)))
    }

    fn plan_compound_identifier(
        &self,
        field: &Field,
        qualifier: Option<&TableReference>,
        names: &[String],
    ) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(match (field.data_type(), names) {
            (DataType::Map(..), [key]) => {
                let map = Expr::Column(Column::new(qualifier.cloned(), field.name()));
                PlannerResult::Planned(value_of(map, lit(key.as_str())))
            }
            _ => {
                let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
                let found = names.iter().fold(column, |of, name| field_of(of, name));
                PlannerResult::Planned(found)
            }
        })
    }

    fn plan_array_literal(
        &self,
        mut elements: Vec<Expr>,
        schema: &DFSchema,
    ) -> Result<PlannerResult<Vec<Expr>>> {
        written_texts::read(&mut elements.iter_mut().collect::<Vec<_>>(), schema);
        Ok(PlannerResult::Planned(list_of(elements)))
    }

    fn plan_field_access(
        &self,
        access: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        let given = access.expr.get_type(schema).ok();
        let is_json = access.expr.to_field(schema).is_ok_and(|(_, field)| is_marked(&field));
        let is_map = matches!(given, Some(DataType::Map(..)));
        let access = match access.field_access {
            GetFieldAccess::NamedStructField { name } if is_map => {
                let value = value_of(access.expr, Expr::Literal(name, None));
                return Ok(PlannerResult::Planned(value));
            }
            GetFieldAccess::ListIndex { key } if is_map => {
                return Ok(PlannerResult::Planned(value_of(access.expr, *key)));
            }
            GetFieldAccess::NamedStructField { name } if is_json => {
                let part = paths::element(access.expr, Expr::Literal(name, None));
                return Ok(PlannerResult::Planned(part));
            }
            GetFieldAccess::ListIndex { key } if is_json => {
                return Ok(PlannerResult::Planned(paths::element(access.expr, *key)));
            }
            field_access => RawFieldAccessExpr { expr: access.expr, field_access },
        };
        if !given.as_ref().is_some_and(DataType::is_string) {
            let access = member(access, given.as_ref());
            return Ok(match &access.field_access {
                GetFieldAccess::NamedStructField { name: ScalarValue::Utf8(Some(name)) } => {
                    PlannerResult::Planned(field_of(access.expr, name))
                }
                _ => PlannerResult::Original(access),
            });
        }
        let text = access.expr;
        Ok(PlannerResult::Planned(match access.field_access {
            GetFieldAccess::ListIndex { key } => {
                let at = from_start(&text, *key)?;
                substring(text, at, lit(1_i64))
            }
            GetFieldAccess::ListRange { start, stop, stride } if *stride == lit(1_i64) => {
                // NULL stays NULL, as it would not in `greatest`.
                let at_least = |number: Expr, least: i64| {
                    when(number.clone().lt(lit(least)), lit(least)).otherwise(number)
                };
                let first = at_least(from_start(&text, *start)?, 1)?;
                let last = from_start(&text, *stop)?;
                let length = at_least(last - first.clone() + lit(1_i64), 0)?;
                substring(text, first, length)
            }
            field_access => {
                return Ok(PlannerResult::Original(RawFieldAccessExpr {
                    expr: text,
                    field_access,
                }));
            }
        }))
    }
}

/// A field of a STRUCT is found without regard to case.
fn member(mut access: RawFieldAccessExpr, given: Option<&DataType>) -> RawFieldAccessExpr {
    if let GetFieldAccess::NamedStructField { name } = &mut access.field_access
        && let Some(DataType::Struct(fields)) = given
        && let ScalarValue::Utf8(Some(wanted)) = name
        && fields.find(wanted).is_none()
    {
        let mut alike = fields.iter().filter(|field| field.name().eq_ignore_ascii_case(wanted));
        if let (Some(field), None) = (alike.next(), alike.next()) {
            wanted.clone_from(field.name());
        }
    }
    access
}

/// Whether `||` makes texts of both: neither has such an operator of its own.
fn are_joined_as_texts(left: &DataType, right: &DataType) -> bool {
    let joins_by_itself = |of: &DataType| of.is_string() || of.is_binary() || of.is_nested();
    let are_null = left.is_null() && right.is_null();
    !are_null && ![left, right].into_iter().any(joins_by_itself)
}

/// Whether both are lists of the same depth, or one is and the other is NULL.
fn are_lists(left: &DataType, right: &DataType) -> bool {
    let depth = |given: &DataType| list_ndims(given);
    match (left.is_null(), right.is_null()) {
        (true, true) => false,
        (true, false) => depth(right) > 0,
        (false, true) => depth(left) > 0,
        (false, false) => depth(left) > 0 && depth(left) == depth(right),
    }
}

fn is_number(given: &DataType) -> bool {
    given.is_numeric() || *given == DataType::Null
}

/// A place in a text, where negative ones count from its end.
fn from_start(text: &Expr, place: Expr) -> Result<Expr> {
    let place = cast(place, DataType::Int64);
    let length = cast(character_length(text.clone()), DataType::Int64);
    when(place.clone().lt(lit(0_i64)), length + lit(1_i64) + place.clone()).otherwise(place)
}

fn scaled(interval: Expr, number: Expr, over: bool) -> Expr {
    static TIMES: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Scaled::function(false));
    static OVER: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Scaled::function(true));
    let function = Arc::clone(if over { &OVER } else { &TIMES });
    let args = vec![interval, cast(number, DataType::Float64)];
    Expr::ScalarFunction(ScalarFunction::new_udf(function, args))
}

/// An interval times a number, or divided by one.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Scaled {
    over: bool,
    signature: Signature,
}

impl Scaled {
    fn function(over: bool) -> Arc<ScalarUDF> {
        let types = vec![INTERVAL, DataType::Float64];
        let signature = Signature::exact(types, Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(Self { over, signature }))
    }

    fn apply(
        &self,
        interval: IntervalMonthDayNano,
        number: f64,
    ) -> Result<IntervalMonthDayNano, ArrowError> {
        if self.over && number == 0.0 {
            return Err(ArrowError::DivideByZero);
        }
        let part = |amount: f64| if self.over { amount / number } else { amount * number };
        let months = part(f64::from(interval.months));
        let days = part(f64::from(interval.days)) + exact(months.fract() * DAYS_PER_MONTH);
        // As a DOUBLE a large number of nanoseconds would not be one of whole microseconds.
        let micros = part(interval.nanoseconds as f64 / NANOS_PER_MICRO);
        let micros = (micros + exact(days.fract()) * MICROS_PER_DAY).round();
        let limit = f64::from(i32::MAX);
        if !(months.abs() <= limit && days.abs() <= limit && micros.abs() <= MOST_MICROS) {
            return Err(ArrowError::ArithmeticOverflow(format!(
                "{}: {interval:?} and {number} give no interval",
                self.name()
            )));
        }
        let nanos = micros as i64 * NANOS_PER_MICRO as i64;
        Ok(IntervalMonthDayNano::new(months as i32, days as i32, nanos))
    }
}

/// Without what binary fractions are off by.
fn exact(amount: f64) -> f64 {
    (amount * 1e9).round() / 1e9
}

impl ScalarUDFImpl for Scaled {
    fn name(&self) -> &str {
        if self.over { "interval_over" } else { "interval_times" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let [intervals, numbers] = args.args.as_slice() else {
            return plan_err!("{} takes an interval and a number", self.name());
        };
        let (intervals, numbers) = (intervals.to_array(rows)?, numbers.to_array(rows)?);
        let scaled: ArrayRef = Arc::new(try_binary::<_, _, _, IntervalMonthDayNanoType>(
            intervals.as_primitive::<IntervalMonthDayNanoType>(),
            numbers.as_primitive::<Float64Type>(),
            |interval, number| self.apply(interval, number),
        )?);
        Ok(match constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&scaled, 0)?),
            false => ColumnarValue::Array(scaled),
        })
    }
}
