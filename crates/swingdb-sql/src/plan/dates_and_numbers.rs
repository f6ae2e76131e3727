//! Dates beside whole numbers: refused, as in DuckDB and PostgreSQL.
//!
//! The query engine takes an INTEGER for the number of days since 1970 where it stands beside a
//! date: in comparisons, lists, CASE, `coalesce`, UNION, INTERSECT and joins. A cast says what is
//! meant, and there is none from numbers to dates.

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, plan_err};
use datafusion::logical_expr::expr::{Between, BinaryExpr, Case, InList, InSubquery};
use datafusion::logical_expr::{Expr, ExprSchemable, Join, Union};
use swingdb_common::types::sql_names::sql_name;

use crate::plan::moments::{MAX_LOOKED_AT, is_date};

/// Refuses an expression that brings dates and numbers together; it is one that
/// [`decimals_and_floats`](crate::plan::decimals_and_floats::is_concerned) looks at.
pub(crate) fn check(expr: &Expr, schema: &DFSchema) -> Result<()> {
    let all = |exprs: &[&Expr]| types(exprs.iter().filter_map(|expr| expr.get_type(schema).ok()));
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: _, right }) => all(&[left, right]),
        Expr::Between(Between { expr, low, high, .. }) => all(&[expr, low, high]),
        Expr::InList(InList { expr, list, .. }) => {
            let values = list.iter().take(MAX_LOOKED_AT);
            all(&std::iter::once(expr.as_ref()).chain(values).collect::<Vec<_>>())
        }
        Expr::InSubquery(InSubquery { expr, subquery, .. }) => {
            let column = subquery.subquery.schema().field(0).data_type().clone();
            types(expr.get_type(schema).into_iter().chain([column]))
        }
        Expr::Case(Case { expr, when_then_expr, else_expr }) => {
            let thens = when_then_expr.iter().map(|(_, then)| then.as_ref());
            all(&thens.chain(else_expr.as_deref()).collect::<Vec<_>>())?;
            let whens = when_then_expr.iter().map(|(when, _)| when.as_ref());
            match expr {
                Some(operand) => all(&whens.chain([operand.as_ref()]).collect::<Vec<_>>()),
                None => Ok(()),
            }
        }
        Expr::ScalarFunction(call) => {
            // The first argument of `nvl2` is only asked whether it is NULL.
            let first = usize::from(call.name() == "nvl2").min(call.args.len());
            all(&call.args[first..].iter().take(MAX_LOOKED_AT).collect::<Vec<_>>())
        }
        _ => Ok(()),
    }
}

/// As [`check`], of the columns of a UNION.
pub(crate) fn check_union(union: &Union) -> Result<()> {
    for column in 0..union.schema.fields().len() {
        let fields = union.inputs.iter().filter_map(|input| input.schema().fields().get(column));
        types(fields.map(|field| field.data_type().clone()))?;
    }
    Ok(())
}

/// As [`check`], of the keys of a join, such as INTERSECT and EXCEPT are.
pub(crate) fn check_join(join: &Join) -> Result<()> {
    join.on.iter().try_for_each(|(left, right)| {
        let left = left.get_type(join.left.schema()).into_iter();
        types(left.chain(right.get_type(join.right.schema())))
    })
}

fn types(all: impl Iterator<Item = DataType>) -> Result<()> {
    let (mut date, mut number) = (None, None);
    for given in all {
        if is_date(&given) {
            date = Some(given);
        } else if given.is_numeric() {
            number = Some(given);
        }
    }
    match (date, number) {
        (Some(date), Some(number)) => plan_err!(
            "{} beside {}: a number is no date; cast one of them, or count days: date - DATE \
             '1970-01-01'",
            sql_name(&date),
            sql_name(&number)
        ),
        _ => Ok(()),
    }
}
