//! Subqueries that are used as a value, and may have no row.
//!
//! `(SELECT 2 FROM t WHERE x > 5)` is NULL where there is no such row. The engine takes it for a
//! value that is never NULL, as its column is, and drops conditions that only leave NULLs out.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};

use crate::nodes::expressions::{any_part, is_exactly_one_row};

/// The name of the function around such a subquery.
const PERHAPS_NULL: &str = "perhaps_null";

/// Whether this is such a subquery.
pub(crate) fn is_concerned(expr: &Expr) -> bool {
    let Expr::ScalarSubquery(subquery) = expr else { return false };
    let plan = subquery.subquery.as_ref();
    !plan.schema().fields().iter().any(|field| field.is_nullable())
        && !is_exactly_one_row(plan)
        && !has_no_source(plan)
}

/// Whether these are constants beside nothing: always one row.
fn has_no_source(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(list) => has_no_source(&list.input),
        LogicalPlan::SubqueryAlias(alias) => has_no_source(&alias.input),
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        _ => false,
    }
}

/// The subquery as a value that may be NULL.
pub(crate) fn rewrite(subquery: Expr) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    ScalarUDF::new_from_impl(PerhapsNull { signature }).call(vec![subquery])
}

/// Whether a node has such a subquery, which is now known to be NULL at times.
pub(crate) fn are_in(node: &LogicalPlan) -> bool {
    any_part(node, |part| matches!(part, Expr::ScalarFunction(call) if call.name() == PERHAPS_NULL))
}

/// The value itself.
#[derive(Debug, PartialEq, Eq, Hash)]
struct PerhapsNull {
    signature: Signature,
}

impl ScalarUDFImpl for PerhapsNull {
    fn name(&self) -> &str {
        PERHAPS_NULL
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [value] => Ok(value.clone()),
            _ => plan_err!("{} takes one value", self.name()),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        match args.arg_fields {
            [value] => Ok(Arc::new(value.as_ref().clone().with_nullable(true))),
            _ => plan_err!("{} takes one value", self.name()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [value] => Ok(value.clone()),
            _ => plan_err!("{} takes one value", self.name()),
        }
    }
}
