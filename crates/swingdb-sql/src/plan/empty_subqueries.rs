//! A subquery that is used as a value is NULL when it has no row.
//!
//! The query engine takes `(SELECT id FROM t WHERE name = 'x')` for never NULL where `id` never is:
//! it refuses the NULL that comes, and answers `IS NULL` and `coalesce` without looking. So the
//! value of such a subquery goes through a function that may give NULL.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlanBuilder, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Subquery, Volatility,
};

use crate::nodes::expressions::is_exactly_one_row;

const NAME: &str = "or_null";

/// Whether this is such a subquery. Correlated ones become outer joins, which know.
pub(crate) fn is_concerned(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarSubquery(subquery) => {
            let fields = subquery.subquery.schema().fields();
            subquery.outer_ref_columns.is_empty()
                && fields.first().is_some_and(|field| !field.is_nullable())
                && !is_exactly_one_row(&subquery.subquery)
        }
        _ => false,
    }
}

/// The subquery with a value that may be NULL.
pub(crate) fn rewrite(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::ScalarSubquery(Subquery { subquery, outer_ref_columns, spans }) = expr else {
        return Ok(Transformed::no(expr));
    };
    let (relation, field) = subquery.schema().qualified_field(0);
    let (relation, name) = (relation.cloned(), field.name().clone());
    let value = Expr::Column(subquery.schema().qualified_field(0).into());
    let value = or_null(value).alias_qualified(relation, name);
    let plan = LogicalPlanBuilder::from(subquery).project([value])?.build()?;
    let subquery = Subquery { subquery: Arc::new(plan), outer_ref_columns, spans };
    Ok(Transformed::yes(Expr::ScalarSubquery(subquery)))
}

fn or_null(expr: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        // Of a constant it would be computed ahead, and never be NULL again.
        let signature = Signature::any(1, Volatility::Volatile);
        Arc::new(ScalarUDF::new_from_impl(OrNull { signature }))
    });
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&FUNCTION), vec![expr]))
}

/// `or_null(x)`: x, of which nobody knows that it is never NULL.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OrNull {
    signature: Signature,
}

impl ScalarUDFImpl for OrNull {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [given] => Ok(given.clone()),
            _ => plan_err!("{NAME} takes one value"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        match args.arg_fields {
            [given] => Ok(Arc::new(Field::new(NAME, given.data_type().clone(), true))),
            _ => plan_err!("{NAME} takes one value"),
        }
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match (args.args.pop(), args.args.is_empty()) {
            (Some(value), true) => Ok(value),
            _ => plan_err!("{NAME} takes one value"),
        }
    }
}
