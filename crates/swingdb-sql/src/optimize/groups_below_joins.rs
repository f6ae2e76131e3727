//! Groups by columns of a joined table: [`GROUPS_BELOW_JOINS`].
//!
//! For `SELECT category, sum(price) FROM sales JOIN item ON item_id = id GROUP BY category` each
//! sale gets the columns of its item, and is then grouped by texts. Where there are far fewer items
//! than sales, sales are grouped by `item_id` first, and only these groups are joined and grouped
//! again: sums of sums. (Yan and Larson, *Eager Aggregation and Lazy Aggregation*, VLDB 1995: eager
//! group-by.) That is right whatever the rows of the other side: each row of a group meets the same
//! ones. It pays where
//!
//! - the join keeps most rows: those that it drops would be grouped for nothing,
//! - groups by the key are few for the rows, and not many more than those asked for.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, JoinType, NullEquality, Result, ScalarValue};
use datafusion::logical_expr::expr::{AggregateFunction, BinaryExpr, Case};
use datafusion::logical_expr::{
    Aggregate, Expr, ExprSchemable, Join, LogicalPlan, LogicalPlanBuilder, Operator,
};
use swingdb_functions::arithmetic::exact;

use crate::optimize::aggregate_rewrite::{TwoSteps, as_one, is_grouped, replace_aggregate};
use crate::optimize::estimate::estimate;
use crate::optimize::rule::OwnRule;

/// Rows that a group below the join must have on average.
const ROWS_PER_GROUP: f64 = 4.0;
/// Rows below which it does not matter.
const MANY_ROWS: f64 = 50_000.0;
/// Share of the rows that the join must keep.
const KEPT: f64 = 0.8;
/// Groups that fit the caches whatever is asked for.
const FEW_GROUPS: f64 = 32_768.0;
/// Groups below the join for each group that is asked for, beyond that.
const FINER: f64 = 4.0;

/// See the [module documentation](self). For when the order of joins is settled.
pub(crate) const GROUPS_BELOW_JOINS: OwnRule =
    OwnRule::bottom_up("groups_below_joins", |plan| replace_aggregate(plan, grouped_below));

fn grouped_below(aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Join(join) = below_columns(&aggregate.input) else { return Ok(None) };
    let plain = join.join_type == JoinType::Inner
        && join.filter.is_none()
        && join.null_equality == NullEquality::NullEqualsNothing
        && !join.on.is_empty();
    if !plain || aggregate.aggr_expr.is_empty() {
        return Ok(None);
    }
    for fact in [Side::Left, Side::Right] {
        if let Some(keys) = fact.keys(aggregate, join)?
            && pays(aggregate, join, fact, &keys)
            && let Some(steps) = TwoSteps::of(aggregate)?
        {
            return in_two_steps(aggregate, join, fact, keys, steps).map(Some);
        }
    }
    Ok(None)
}

/// What a plan takes columns of and nothing else.
fn below_columns(plan: &LogicalPlan) -> &LogicalPlan {
    match plan {
        LogicalPlan::Projection(list) if list.expr.iter().all(is_column) => {
            below_columns(&list.input)
        }
        other => other,
    }
}

fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Column(_))
}

/// The side of a join whose rows the aggregates are of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

impl Side {
    fn of(self, join: &Join) -> &Arc<LogicalPlan> {
        match self {
            Self::Left => &join.left,
            Self::Right => &join.right,
        }
    }

    fn other(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }

    /// The columns to group this side by before it is joined: its keys, and what of it is grouped
    /// by afterwards. `None`: that would be another query.
    fn keys(self, aggregate: &Aggregate, join: &Join) -> Result<Option<Vec<Expr>>> {
        let (own, other) = (self.of(join), self.other().of(join));
        if is_grouped(own) || !is_whole_table(other) {
            return Ok(None);
        }
        let has_all = |schema: &DFSchema, expr: &Expr| {
            expr.column_refs().into_iter().all(|column| schema.has_column(column))
        };
        for expr in &aggregate.aggr_expr {
            if !has_all(own.schema(), expr) || !cannot_fail_in(expr, own.schema())? {
                return Ok(None);
            }
        }
        let keys =
            join.on.iter().map(|(left, right)| if self == Self::Left { left } else { right });
        let mut keys: Vec<Expr> = keys.cloned().collect();
        for expr in &aggregate.group_expr {
            match has_all(own.schema(), expr) {
                true if !keys.contains(expr) => keys.push(expr.clone()),
                true => {}
                false if has_all(other.schema(), expr) && !expr.is_volatile() => {}
                false => return Ok(None),
            }
        }
        let of_other = aggregate.group_expr.iter().any(|expr| !has_all(own.schema(), expr));
        for key in &keys {
            let is_exact = match key.get_type(own.schema())? {
                // Those that are equal are not always the same.
                DataType::Interval(_) => false,
                of => !of.is_floating() && !of.is_nested(),
            };
            if !is_column(key) || !is_exact {
                return Ok(None);
            }
        }
        Ok(of_other.then_some(keys))
    }
}

/// Whether a plan has all rows of a table.
fn is_whole_table(plan: &LogicalPlan) -> bool {
    match below_columns(plan) {
        LogicalPlan::TableScan(scan) => {
            // What a subquery has for constants is compared in conditions, too: `'a' = 'a'`.
            scan.filters.iter().all(is_true) && scan.fetch.is_none()
        }
        _ => false,
    }
}

fn is_true(condition: &Expr) -> bool {
    matches!(condition, Expr::Literal(ScalarValue::Boolean(Some(true)), _))
}

/// Whether the arguments of an aggregate cannot give an error, whatever the values: they are
/// computed for rows that the join may drop.
fn cannot_fail_in(aggregate: &Expr, schema: &DFSchema) -> Result<bool> {
    let Expr::AggregateFunction(AggregateFunction { params, .. }) = aggregate.clone().unalias()
    else {
        return Ok(false);
    };
    for expr in params.args.iter().chain(params.filter.as_deref()) {
        if !cannot_fail(expr, schema)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn cannot_fail(expr: &Expr, schema: &DFSchema) -> Result<bool> {
    let all = |exprs: &[&Expr]| {
        exprs.iter().try_fold(true, |safe, expr| Ok(safe && cannot_fail(expr, schema)?))
    };
    match expr {
        Expr::Column(_) | Expr::Literal(..) => Ok(true),
        Expr::Alias(alias) => cannot_fail(&alias.expr, schema),
        Expr::Not(of) | Expr::IsNull(of) | Expr::IsNotNull(of) => cannot_fail(of, schema),
        Expr::Case(Case { expr: None, when_then_expr, else_expr }) => {
            let whens = when_then_expr.iter().flat_map(|(when, then)| [&**when, &**then]);
            all(&whens.chain(else_expr.as_deref()).collect::<Vec<_>>())
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let of = left.get_type(schema)?;
            // Decimals that may have too many digits are in a function that says so.
            let computes = (of.is_decimal() || of.is_floating())
                && match op {
                    Operator::Plus | Operator::Minus | Operator::Multiply => true,
                    Operator::Divide => right.as_literal().is_some_and(is_divisor),
                    _ => false,
                };
            let compares = op.supports_propagation()
                || matches!(op, Operator::And | Operator::Or | Operator::NotEq);
            Ok((computes || compares) && all(&[left, right])?)
        }
        Expr::Cast(cast) => {
            let (from, to) = (cast.expr.get_type(schema)?, cast.field.data_type());
            Ok(holds_all(&from, to) && cannot_fail(&cast.expr, schema)?)
        }
        Expr::ScalarFunction(call) if exact::is_exact(&call.func) => {
            all(&call.args.iter().collect::<Vec<_>>())
        }
        _ => Ok(false),
    }
}

/// Whether everything can be divided by a value.
fn is_divisor(value: &ScalarValue) -> bool {
    ScalarValue::new_zero(&value.data_type()).is_ok_and(|zero| !value.is_null() && *value != zero)
}

/// Whether a type has all values of another.
fn holds_all(from: &DataType, to: &DataType) -> bool {
    let (true, Some(bytes)) = (from.is_integer(), from.primitive_width()) else {
        return from == to;
    };
    let digits = [3, 5, 10, 20][bytes.ilog2() as usize];
    match to {
        DataType::Decimal128(p, s) => i16::from(*p) - i16::from(*s) >= digits,
        to if to.is_integer() => {
            let wider = to.primitive_width().is_some_and(|to| to > bytes);
            from == to || wider && (to.is_signed_integer() || from.is_unsigned_integer())
        }
        to => to.is_floating(),
    }
}

/// Whether it is less work.
fn pays(aggregate: &Aggregate, join: &Join, fact: Side, keys: &[Expr]) -> bool {
    let (rows, other) = (estimate(fact.of(join)), estimate(fact.other().of(join)));
    if rows.rows < MANY_ROWS {
        return false;
    }
    // Most rows have a partner, so of the keys that they are joined by there are not many others.
    let joined_by = join.on.iter().map(|(left, right)| match fact {
        Side::Left => rows.distinct(left).min(other.distinct(right)),
        Side::Right => rows.distinct(right).min(other.distinct(left)),
    });
    let groups = joined_by.product::<f64>() * rows.groups(&keys[join.on.len()..]);
    let joined = estimate(&LogicalPlan::Join(join.clone()));
    let asked = joined.groups(&aggregate.group_expr);
    joined.rows >= KEPT * rows.rows
        && groups * ROWS_PER_GROUP <= rows.rows
        && groups <= (FINER * asked).max(FEW_GROUPS)
}

fn in_two_steps(
    aggregate: &Aggregate,
    join: &Join,
    fact: Side,
    keys: Vec<Expr>,
    steps: TwoSteps,
) -> Result<LogicalPlan> {
    let TwoSteps { first, second, together } = steps;
    let groups = LogicalPlanBuilder::from(Arc::clone(fact.of(join)));
    let groups = Arc::new(groups.aggregate(keys, first)?.build()?);
    let (left, right) = match fact {
        Side::Left => (groups, Arc::clone(&join.right)),
        Side::Right => (Arc::clone(&join.left), groups),
    };
    let Join { on, join_type, join_constraint, null_equality, .. } = join.clone();
    let joined =
        Join::try_new(left, right, on, None, join_type, join_constraint, null_equality, false)?;
    let joined = Arc::new(LogicalPlan::Join(joined));
    let outer = Aggregate::try_new(joined, aggregate.group_expr.clone(), second)?;
    as_one(aggregate, outer, together)
}
