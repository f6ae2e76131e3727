//! Comparisons by `<` and the like, `min`, `max`, quantiles, `greatest` and `least` of what may be
//! a NaN whose sign is set: the engine has it below all numbers.

use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::expr::{Between, BinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator};
use swingdb_functions::keys::same_bits::same_bits;

use crate::analyze::equality::comparisons::comparison;
use crate::analyze::equality::keys::{is_key, is_plain_number};
use crate::analyze::equality::signs::{Reads, is_by_order, is_choice, is_order};

/// What tells a NaN with a sign from the others though it does not compare two keys.
pub(super) fn settle(expr: Expr, schema: &DFSchema, reads: &Reads) -> Transformed<Expr> {
    let signed = |expr: &Expr| {
        let number = expr.get_type(schema).is_ok_and(|given| given.is_floating());
        number && reads.may_be_signed(expr, schema)
    };
    match expr {
        Expr::BinaryExpr(compared) if is_order(compared.op) => {
            against_number(compared, schema, &signed)
        }
        Expr::Between(between) => self::between(between, schema, &signed),
        Expr::AggregateFunction(mut call) if is_by_order(call.func.name()) => {
            let changed = without_signs(first(&mut call.params.args), &signed);
            Transformed::new_transformed(Expr::AggregateFunction(call), changed)
        }
        Expr::WindowFunction(mut call) if is_by_order(call.fun.name()) => {
            let changed = without_signs(first(&mut call.params.args), &signed);
            Transformed::new_transformed(Expr::WindowFunction(call), changed)
        }
        Expr::ScalarFunction(mut call) if is_choice(&call) => {
            let changed = without_signs(&mut call.args, &signed);
            Transformed::new_transformed(Expr::ScalarFunction(call), changed)
        }
        other => Transformed::no(other),
    }
}

/// The values that an aggregate is of: what follows are fractions.
fn first(args: &mut [Expr]) -> &mut [Expr] {
    let values = args.len().min(1);
    &mut args[..values]
}

fn without_signs(all: &mut [Expr], signed: &dyn Fn(&Expr) -> bool) -> bool {
    all.iter_mut().filter(|expr| signed(expr)).fold(false, |_, expr| {
        *expr = same_bits(std::mem::take(expr));
        true
    })
}

/// `x < 1` of what may be a NaN with a sign.
fn against_number(
    compared: BinaryExpr,
    schema: &DFSchema,
    signed: &dyn Fn(&Expr) -> bool,
) -> Transformed<Expr> {
    let BinaryExpr { left, op, right } = &compared;
    let (value, below) = match (is_plain_number(left), is_plain_number(right)) {
        (false, true) => (left, matches!(op, Operator::Lt | Operator::LtEq)),
        (true, false) => (right, matches!(op, Operator::Gt | Operator::GtEq)),
        _ => return Transformed::no(Expr::BinaryExpr(compared)),
    };
    if value.contains_outer() || !is_key(value, schema) || !signed(value) {
        return Transformed::no(Expr::BinaryExpr(compared));
    }
    // What is below by the engine's order may be so in SQL: segments and files can be ruled out.
    let ruling = (below && matches!(value.as_ref(), Expr::Column(_)))
        .then(|| Expr::BinaryExpr(compared.clone()));
    let [left, right] = [compared.left, compared.right].map(|side| match is_plain_number(&side) {
        true => side,
        false => Box::new(same_bits(*side)),
    });
    let settled = Expr::BinaryExpr(BinaryExpr { left, op: compared.op, right });
    Transformed::yes(match ruling {
        Some(ruling) => ruling.and(settled),
        None => settled,
    })
}

/// `x BETWEEN a AND b` as two comparisons, if one of them is not right as it is.
fn between(
    between: Between,
    schema: &DFSchema,
    signed: &dyn Fn(&Expr) -> bool,
) -> Transformed<Expr> {
    if !is_key(&between.expr, schema) || between.expr.is_volatile() {
        return Transformed::no(Expr::Between(between));
    }
    let side = |op, bound: &Expr| {
        let (left, right) = (between.expr.clone(), Box::new(bound.clone()));
        let compared = comparison(BinaryExpr { left, op, right }, schema);
        match compared {
            Transformed { data: Expr::BinaryExpr(same), transformed: false, .. } => {
                against_number(same, schema, signed)
            }
            settled => settled,
        }
    };
    let low = side(Operator::GtEq, &between.low);
    let high = side(Operator::LtEq, &between.high);
    if !low.transformed && !high.transformed {
        return Transformed::no(Expr::Between(between));
    }
    let both = low.data.and(high.data);
    Transformed::yes(if between.negated { Expr::Not(Box::new(both)) } else { both })
}
