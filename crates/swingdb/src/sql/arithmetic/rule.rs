//! Puts [`checked`](super::checked) functions where a plan computes with whole numbers, prepares
//! what is cast, and compares [`zeros`](super::zeros) by `=`.

use std::sync::{Arc, LazyLock};

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::{BinaryExpr, ScalarFunction};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, ScalarUDF};
use datafusion::optimizer::AnalyzerRule;

use super::casts;
use super::checked::{Checked, Operation};
use super::zeros;
use crate::sql::plans::rewrite_parts;

/// Runs after types are settled, so that both operands have the same, and before anything is
/// simplified.
#[derive(Debug, Default)]
pub(crate) struct CheckedArithmetic;

impl AnalyzerRule for CheckedArithmetic {
    fn name(&self) -> &str {
        "checked_arithmetic"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(|node| rewrite_parts(node, is_concerned, check))?.data)
    }
}

/// The expression with checked arithmetic; its types must be settled.
pub(crate) fn checked_expr(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    Ok(expr.transform_up(|e| check(e, schema))?.data)
}

fn is_concerned(expr: &Expr) -> bool {
    operation(expr).is_some() || casts::is_cast(expr) || zeros::is_concerned(expr)
}

fn operation(expr: &Expr) -> Option<Operation> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op, .. }) => Operation::of(*op),
        Expr::Negative(_) => Some(Operation::Negate),
        _ => None,
    }
}

fn check(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if let Some(cast) = casts::wrapped(&expr, schema)? {
        return Ok(Transformed::yes(cast));
    }
    if zeros::is_concerned(&expr) {
        return zeros::rewrite(expr, schema);
    }
    let Some(operation) = operation(&expr) else { return Ok(Transformed::no(expr)) };
    let whole = |e: &Expr| e.get_type(schema).is_ok_and(|t| t.is_integer());
    let args = match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            if !whole(&left) || left.get_type(schema)? != right.get_type(schema)? {
                return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
            }
            vec![*left, *right]
        }
        Expr::Negative(operand) if whole(&operand) => vec![*operand],
        other => return Ok(Transformed::no(other)),
    };
    let call = ScalarFunction::new_udf(function(operation), args);
    Ok(Transformed::yes(Expr::ScalarFunction(call)))
}

fn function(operation: Operation) -> Arc<ScalarUDF> {
    static FUNCTIONS: LazyLock<Vec<(Operation, Arc<ScalarUDF>)>> = LazyLock::new(|| {
        use Operation::{Add, Multiply, Negate, ShiftLeft, Subtract};
        let all = [Add, Subtract, Multiply, ShiftLeft, Negate];
        all.map(|op| (op, Arc::new(ScalarUDF::new_from_impl(Checked::new(op))))).to_vec()
    });
    let known = FUNCTIONS.iter().find(|(op, _)| *op == operation);
    match known {
        Some((_, function)) => Arc::clone(function),
        None => Arc::new(ScalarUDF::new_from_impl(Checked::new(operation))),
    }
}
