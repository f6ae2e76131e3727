//! Finds the joins that are marked as ASOF JOIN, and takes their conditions apart.

use std::sync::Arc;

use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, exec_err, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::{BinaryExpr, ScalarFunction};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, Extension, Join, JoinType, LogicalPlan, Operator,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;

use crate::nodes::asof::{AsofJoin, MARK};
use crate::nodes::asof_condition::{Condition, Nearest};
use crate::nodes::expressions::any_node;

/// The function around the condition of an ASOF JOIN, to be registered with the engine.
pub(crate) fn mark() -> ScalarUDF {
    let signature = Signature::exact(vec![DataType::Boolean], Volatility::Immutable);
    ScalarUDF::from(Mark { signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Mark {
    signature: Signature,
}

impl ScalarUDFImpl for Mark {
    fn name(&self) -> &str {
        MARK
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        exec_err!("{MARK} is no function to call; write a ASOF JOIN b ON a.t >= b.t")
    }
}

/// Runs after types are settled, and after keys are.
#[derive(Debug, Default)]
pub(crate) struct AsofJoins;

impl AnalyzerRule for AsofJoins {
    fn name(&self) -> &str {
        "asof_joins"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        if !any_node(&plan, is_marked)? {
            return Ok(plan);
        }
        Ok(plan.transform_up_with_subqueries(rewrite)?.data)
    }
}

/// Whether it is a join that the [mark](MARK) makes one.
fn is_marked(node: &LogicalPlan) -> bool {
    let LogicalPlan::Join(Join { filter: Some(Expr::ScalarFunction(call)), .. }) = node else {
        return false;
    };
    call.name() == MARK
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(join) = plan else { return Ok(Transformed::no(plan)) };
    let condition = match &join.filter {
        Some(Expr::ScalarFunction(ScalarFunction { func, args }))
            if func.name() == MARK && args.len() == 1 =>
        {
            condition(&args[0], &join)?
        }
        _ => return Ok(Transformed::no(LogicalPlan::Join(join))),
    };
    let outer = match join.join_type {
        JoinType::Inner => false,
        JoinType::Left => true,
        other => return plan_err!("ASOF {other} JOIN"),
    };
    let node = AsofJoin::try_new(join.left, join.right, condition, outer)?;
    Ok(Transformed::yes(LogicalPlan::Extension(Extension { node: Arc::new(node) })))
}

/// Takes apart `a.k = b.k AND a.t >= b.t`.
fn condition(whole: &Expr, join: &Join) -> Result<Condition<Expr>> {
    let (left, right) = (join.left.schema(), join.right.schema());
    let (mut keys, mut times) = (Vec::new(), Vec::new());
    for part in split_conjunction(whole) {
        let Expr::BinaryExpr(BinaryExpr { left: one, op, right: other }) = part else {
            return refused(part);
        };
        let is_of = |expr: &Expr, schema: &DFSchema| {
            expr.column_refs().into_iter().all(|column| schema.has_column(column))
        };
        let (both, op) = if is_of(one, left) && is_of(other, right) {
            ([one.as_ref().clone(), other.as_ref().clone()], Some(*op))
        } else if is_of(other, left) && is_of(one, right) {
            ([other.as_ref().clone(), one.as_ref().clone()], op.swap())
        } else {
            return refused(part);
        };
        let types = [both[0].get_type(left)?, both[1].get_type(right)?];
        let comparable = RowConverter::supports_fields(&types.clone().map(SortField::new));
        if types[0] != types[1] || !comparable {
            return plan_err!("ASOF JOIN cannot compare {} with {}: {part}", types[0], types[1]);
        }
        match (op, op.and_then(Nearest::of)) {
            (Some(Operator::Eq), _) => keys.push(both),
            (_, Some(nearest)) => times.push((both, nearest)),
            _ => return refused(part),
        }
    }
    match (times.pop(), times.is_empty()) {
        (Some((time, nearest)), true) => Ok(Condition { keys, time, nearest }),
        _ => plan_err!(
            "ASOF JOIN needs one comparison by >=, >, <= or < in its condition, which is {whole}"
        ),
    }
}

fn refused<T>(part: &Expr) -> Result<T> {
    plan_err!(
        "ASOF JOIN joins by a.k = b.k, any number of them, and one comparison like a.t >= b.t, \
         and not by {part}; what else must hold of one side, select in a subquery there"
    )
}
