//! Puts functions of [`arithmetic`](swingdb_functions::arithmetic) where a plan computes with whole
//! numbers, prepares what is cast, and compares zeros by `=`.

use std::any::Any;
use std::sync::{Arc, LazyLock};

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{BinaryExpr, ScalarFunction};
use datafusion::logical_expr::{Expr, LogicalPlan, Operator, ScalarUDF};
use swingdb_common::time::zones::Zone;
use swingdb_functions::arithmetic::checked::{Checked, Operation};
use swingdb_functions::arithmetic::types::type_of;
use swingdb_functions::arithmetic::{casts, digits, exact, zeros};

use crate::nodes::expressions::rewrite_parts;

/// The node with checked arithmetic. For when types are settled, so that both operands have the
/// same, and before anything is simplified.
pub(crate) fn checked(node: LogicalPlan, zone: Zone) -> Result<Transformed<LogicalPlan>> {
    rewrite_parts(node, is_concerned, |expr, schema| check(expr, schema, zone))
}

/// The expression with checked arithmetic; its types must be settled. Casts are by the clock of the
/// zone.
pub(crate) fn checked_expr(expr: Expr, schema: &DFSchema, zone: Zone) -> Result<Expr> {
    Ok(expr.transform_up(|e| check(e, schema, zone))?.data)
}

fn is_concerned(expr: &Expr) -> bool {
    operation(expr).is_some()
        || matches!(expr, Expr::BinaryExpr(BinaryExpr { op: Operator::Divide, .. }))
        || casts::is_cast(expr)
        || zeros::is_concerned(expr)
}

fn operation(expr: &Expr) -> Option<Operation> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op, .. }) => Operation::of(*op),
        Expr::Negative(_) => Some(Operation::Negate),
        _ => None,
    }
}

fn check(expr: Expr, schema: &DFSchema, zone: Zone) -> Result<Transformed<Expr>> {
    if let Some(cast) = casts::wrapped(&expr, schema, zone)? {
        return Ok(Transformed::yes(cast));
    }
    if zeros::is_concerned(&expr) {
        return zeros::rewrite(expr, schema);
    }
    if let Some(what) = of_decimals(&expr, schema) {
        return Ok(Transformed::yes(digits::fits(expr, what)));
    }
    if let Some(exact) = exact::call(&expr, schema) {
        return Ok(Transformed::yes(exact));
    }
    let Some(operation) = operation(&expr) else { return Ok(Transformed::no(expr)) };
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let settled = type_of(&left, schema).ok().filter(DataType::is_integer);
            if settled.is_none() || settled != Some(type_of(&right, schema)?) {
                return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
            }
            Ok(Transformed::yes(joined(*left, operation, *right)))
        }
        Expr::Negative(operand) if type_of(&operand, schema).is_ok_and(|t| t.is_integer()) => {
            Ok(Transformed::yes(call(function(operation), vec![*operand])))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// What an operation on decimals does, where its result may have too many digits.
fn of_decimals(expr: &Expr, schema: &DFSchema) -> Option<&'static str> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return None };
    let left = type_of(left, schema).ok().filter(DataType::is_decimal)?;
    digits::concerned(&left, *op, &type_of(right, schema).ok()?)
}

/// The function and the operands, if this is a call of a [`Checked`].
fn checked_call(expr: &Expr) -> Option<(&Checked, &[Expr])> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = expr else { return None };
    let function: &dyn Any = func.inner().as_ref();
    Some((function.downcast_ref::<Checked>()?, args))
}

/// What a whole constant is added to or taken from, and the constant that is added.
pub(crate) fn plus_constant(expr: &Expr) -> Option<(&Expr, i64)> {
    let constant = |expr: &Expr| match expr {
        Expr::Literal(ScalarValue::Int64(value), _) => *value,
        _ => None,
    };
    match checked_call(expr)? {
        (function, [one, other]) => match function.only()? {
            Operation::Add => constant(other)
                .map(|value| (one, value))
                .or_else(|| constant(one).map(|value| (other, value))),
            Operation::Subtract => Some((one, constant(other)?.checked_neg()?)),
            _ => None,
        },
        _ => None,
    }
}

/// `left operation right`, where `left` may be one function already.
fn joined(left: Expr, operation: Operation, right: Expr) -> Expr {
    let longer = checked_call(&left).and_then(|(function, _)| function.followed_by(operation));
    match (longer, left) {
        (Some(longer), Expr::ScalarFunction(ScalarFunction { mut args, .. })) => {
            args.push(right);
            call(Arc::new(ScalarUDF::new_from_impl(longer)), args)
        }
        (_, left) => call(function(operation), vec![left, right]),
    }
}

fn call(function: Arc<ScalarUDF>, args: Vec<Expr>) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(function, args))
}

/// The function of one operation.
fn function(operation: Operation) -> Arc<ScalarUDF> {
    use Operation::{Add, Multiply, Negate, ShiftLeft, ShiftRight, Subtract};
    static FUNCTIONS: LazyLock<[(Operation, Arc<ScalarUDF>); 6]> = LazyLock::new(|| {
        [Add, Subtract, Multiply, ShiftLeft, ShiftRight, Negate].map(|op| (op, new(op)))
    });
    let known = FUNCTIONS.iter().find(|(op, _)| *op == operation);
    known.map_or_else(|| new(operation), |(_, function)| Arc::clone(function))
}

fn new(operation: Operation) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(Checked::new(vec![operation])))
}
