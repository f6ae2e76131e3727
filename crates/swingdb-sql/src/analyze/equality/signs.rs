//! Which expressions can be a NaN whose sign is set: [`Reads`].
//!
//! Where the engine compares, and in the bounds of statistics, such a NaN is below all numbers; in
//! SQL it is the greatest, as every other. What is computed may be one (`0 * inf` is, on most
//! processors), and so may what a file or a registered table holds. Of a column of a table, as it
//! is stored, the lower bound tells whether there is one: nearly always there is none, and then
//! nothing needs to be done to the column, so that segments can be ruled out by their bounds.

use arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema, JoinType, Result, ScalarValue};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::expr::{BinaryExpr, Cast, ScalarFunction, TryCast};
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, ExprSchemable, Join, LogicalPlan, Operator, TableScan,
};
use swingdb_functions::arithmetic::casts::is_nearest_number;
use swingdb_functions::keys::same_bits::is_same_bits;

use crate::scan::table::SwingTable;

/// What the expressions of a node read.
#[derive(Default)]
pub(crate) struct Reads(Vec<LogicalPlan>);

impl Reads {
    /// Of a node of which some expression is `concerned`; of others nothing is known.
    pub(crate) fn of(plan: &LogicalPlan, concerned: fn(&Expr) -> bool) -> Result<Self> {
        use datafusion::common::tree_node::TreeNode;
        let mut any = false;
        plan.apply_expressions(|expr| {
            any |= expr.exists(|part| Ok(concerned(part)))?;
            Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
        })?;
        Ok(Self(match plan {
            _ if !any => Vec::new(),
            LogicalPlan::TableScan(_) => vec![plan.clone()],
            _ => plan.inputs().into_iter().cloned().collect(),
        }))
    }

    /// Whether a floating point expression may be a NaN with a sign. `schema` is that of all that
    /// is read.
    pub(crate) fn may_be_signed(&self, expr: &Expr, schema: &DFSchema) -> bool {
        let inputs = self.0.iter().collect::<Vec<_>>();
        is_signed(expr, schema, &inputs)
    }
}

fn is_signed(expr: &Expr, schema: &DFSchema, inputs: &[&LogicalPlan]) -> bool {
    match expr {
        Expr::Alias(alias) => is_signed(&alias.expr, schema, inputs),
        Expr::Literal(value, _) => is_signed_nan(value),
        Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) => {
            match expr.get_type(schema) {
                Ok(given) if given.is_floating() => is_signed(expr, schema, inputs),
                // Text may spell one.
                Ok(given) => !given.is_numeric() && given != DataType::Boolean,
                Err(_) => true,
            }
        }
        Expr::Column(column) => match inputs.iter().find_map(|input| place(input, column)) {
            Some((input, index)) => column_is_signed(input, index),
            None => true,
        },
        other => !is_same_bits(other) && !is_nearest_number(other, schema),
    }
}

fn is_signed_nan(value: &ScalarValue) -> bool {
    match value {
        ScalarValue::Float64(Some(number)) => number.is_nan() && number.is_sign_negative(),
        ScalarValue::Float32(Some(number)) => number.is_nan() && number.is_sign_negative(),
        ScalarValue::Float16(Some(number)) => number.is_nan() && number.is_sign_negative(),
        other => !other.is_null() && !other.data_type().is_numeric(),
    }
}

/// The node that a column is read from, and its index there.
fn place<'a>(input: &'a LogicalPlan, column: &Column) -> Option<(&'a LogicalPlan, usize)> {
    if let LogicalPlan::TableScan(scan) = input {
        // The conditions of a scan may name columns that it does not return.
        let index = scan.source.schema().index_of(&column.name).ok()?;
        return match &scan.projection {
            Some(shown) => Some((input, shown.iter().position(|at| *at == index)?)),
            None => Some((input, index)),
        };
    }
    Some((input, input.schema().maybe_index_of_column(column)?))
}

fn column_is_signed(plan: &LogicalPlan, index: usize) -> bool {
    let computed = |expr: Option<&Expr>, input: &LogicalPlan| {
        expr.is_none_or(|expr| is_signed(expr, input.schema(), &[input]))
    };
    match plan {
        LogicalPlan::TableScan(scan) => stored_is_signed(scan, index),
        LogicalPlan::Projection(list) => computed(list.expr.get(index), &list.input),
        LogicalPlan::Aggregate(aggregate) => match of_aggregate(aggregate, index) {
            Some(expr) => computed(Some(expr), &aggregate.input),
            None => true,
        },
        LogicalPlan::Join(join) => match of_join(join, index) {
            Some((side, index)) => column_is_signed(side, index),
            None => true,
        },
        LogicalPlan::Union(union) => {
            union.inputs.iter().any(|input| column_is_signed(input, index))
        }
        LogicalPlan::Window(window) if index < window.input.schema().fields().len() => {
            column_is_signed(&window.input, index)
        }
        LogicalPlan::Distinct(Distinct::All(_))
        | LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Repartition(_)
        | LogicalPlan::SubqueryAlias(_) => {
            plan.inputs().first().is_none_or(|input| column_is_signed(input, index))
        }
        _ => true,
    }
}

/// The expression on its input that tells whether a column of an aggregate has a NaN with a sign.
fn of_aggregate(aggregate: &Aggregate, index: usize) -> Option<&Expr> {
    let groups = aggregate.group_expr.len();
    if aggregate.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_))) {
        return None;
    }
    if index < groups {
        return aggregate.group_expr.get(index);
    }
    match aggregate.aggr_expr.get(index - groups)? {
        Expr::AggregateFunction(call) if is_extreme(call.func.name()) => call.params.args.first(),
        _ => None,
    }
}

/// Whether a function of values returns one of them, found by comparing.
pub(crate) fn is_extreme(name: &str) -> bool {
    matches!(name, "min" | "max")
}

/// Whether a function of values depends on their order.
pub(super) fn is_by_order(name: &str) -> bool {
    const QUANTILES: [&str; 5] =
        ["approx_quantile", "mad", "median", "percentile_cont", "quantile_disc"];
    is_extreme(name) || QUANTILES.contains(&name)
}

/// The input, and the column of it, that a column of a join is.
fn of_join(join: &Join, index: usize) -> Option<(&LogicalPlan, usize)> {
    let left = join.left.schema().fields().len();
    match join.join_type {
        JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => {
            Some(match index < left {
                true => (join.left.as_ref(), index),
                false => (join.right.as_ref(), index - left),
            })
        }
        JoinType::LeftSemi | JoinType::LeftAnti => Some((join.left.as_ref(), index)),
        JoinType::RightSemi | JoinType::RightAnti => Some((join.right.as_ref(), index)),
        JoinType::LeftMark | JoinType::RightMark => None,
    }
}

fn stored_is_signed(scan: &TableScan, index: usize) -> bool {
    let index = match &scan.projection {
        Some(shown) => shown.get(index).copied(),
        None => Some(index),
    };
    let provider = source_as_provider(&scan.source).ok();
    let table = provider.as_ref().and_then(|found| found.downcast_ref::<SwingTable>());
    let least = index.zip(table).and_then(|(index, table)| {
        (index < table.table().columns().len()).then(|| table.table().stats(index).ok())?
    });
    // Bounds are by the order in which such a NaN is the least.
    least.and_then(|stats| stats.min).is_none_or(|least| is_signed_nan(&least))
}

/// Whether an expression's value depends on which of two numbers is greater.
pub(super) fn is_ordering(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op, .. }) => is_order(*op),
        Expr::Between(_) => true,
        Expr::AggregateFunction(call) => is_by_order(call.func.name()),
        Expr::WindowFunction(call) => is_by_order(call.fun.name()),
        Expr::ScalarFunction(call) => is_choice(call),
        _ => false,
    }
}

pub(super) fn is_order(operator: Operator) -> bool {
    matches!(operator, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq)
}

pub(super) fn is_choice(call: &ScalarFunction) -> bool {
    matches!(call.name(), "greatest" | "least")
}
