//! Dates beside whole numbers: refused, as in DuckDB and PostgreSQL.
//!
//! The query engine takes an INTEGER for the number of days since 1970 where it stands beside a
//! date: in comparisons, lists, CASE, `coalesce`, UNION, INTERSECT and joins. A cast says what is
//! meant, and there is none from numbers to dates.

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, plan_err};
use datafusion::logical_expr::expr::InSubquery;
use datafusion::logical_expr::{ExprSchemable, Join, Union};
use swingdb_common::types::sql_names::sql_name;

use crate::plan::moments::is_date;

/// As [`check`], of `x IN (SELECT ...)`.
pub(crate) fn check_membership(membership: &InSubquery, schema: &DFSchema) -> Result<()> {
    let column = membership.subquery.subquery.schema().field(0).data_type().clone();
    check(membership.expr.get_type(schema).into_iter().chain([column]))
}

/// As [`check`], of the columns of a UNION.
pub(crate) fn check_union(union: &Union) -> Result<()> {
    for column in 0..union.schema.fields().len() {
        let fields = union.inputs.iter().filter_map(|input| input.schema().fields().get(column));
        check(fields.map(|field| field.data_type().clone()))?;
    }
    Ok(())
}

/// As [`check`], of the keys of a join, such as INTERSECT and EXCEPT are.
pub(crate) fn check_join(join: &Join) -> Result<()> {
    join.on.iter().try_for_each(|(left, right)| {
        let left = left.get_type(join.left.schema()).into_iter();
        check(left.chain(right.get_type(join.right.schema())))
    })
}

/// Refuses types of values that become one, if dates and numbers are among them.
pub(crate) fn check(types: impl IntoIterator<Item = DataType>) -> Result<()> {
    let (mut date, mut number) = (None, None);
    for given in types {
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
