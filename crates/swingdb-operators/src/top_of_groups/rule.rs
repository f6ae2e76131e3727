//! Where the operator stands in plans: [`TopOfGroups`].

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, Literal};
use datafusion::physical_expr::window::{StandardWindowExpr, WindowExpr};
use datafusion::physical_expr::{PhysicalExprRef, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowUDFExpr};

use super::exec::TopOfGroupsExec;
use super::leaders::MOST_LEADERS;

type Plan = Arc<dyn ExecutionPlan>;

/// Thins the rows that are sorted for `row_number()` and `rank()` of groups, where a condition
/// keeps the first ones only. To run when sorts and partitions are in place.
#[derive(Debug, Default)]
pub struct TopOfGroups;

impl PhysicalOptimizerRule for TopOfGroups {
    fn optimize(&self, plan: Plan, _config: &ConfigOptions) -> Result<Plan> {
        let thinned = plan.transform_down(|node| {
            let found = match node.downcast_ref::<FilterExec>() {
                Some(filter) => below_filter(filter)?,
                None => None,
            };
            Ok(match found {
                Some(input) => Transformed::yes(replace_children_if_necessary(node, vec![input])?),
                None => Transformed::no(node),
            })
        });
        thinned.data()
    }

    fn name(&self) -> &str {
        "TopOfGroups"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn below_filter(filter: &FilterExec) -> Result<Option<Plan>> {
    for condition in split_conjunction(filter.predicate()) {
        let Some((column, fetch)) = first_ones(condition) else { continue };
        if let Some(input) = below(filter.input(), column, fetch)? {
            return Ok(Some(input));
        }
    }
    Ok(None)
}

/// The column, and how many at most, of a condition such as `n <= 2`.
fn first_ones(condition: &PhysicalExprRef) -> Option<(usize, usize)> {
    let compared = condition.downcast_ref::<BinaryExpr>()?;
    let number = |side: &PhysicalExprRef| {
        let value = side.downcast_ref::<Literal>()?.value();
        match value.data_type().is_integer().then(|| value.cast_to(&DataType::Int64).ok())?? {
            ScalarValue::Int64(number) => number,
            _ => None,
        }
    };
    let (left, right, op) = (compared.left(), compared.right(), *compared.op());
    let (column, op, number) = match (column_of(left), number(right)) {
        (Some(column), Some(number)) => (column, op, number),
        _ => (column_of(right)?, op.swap()?, number(left)?),
    };
    let fetch = match op {
        Operator::Eq | Operator::LtEq => number,
        Operator::Lt => number.checked_sub(1)?,
        _ => return None,
    };
    let fetch = usize::try_from(fetch).ok()?;
    (1..=MOST_LEADERS).contains(&fetch).then_some((column, fetch))
}

/// The column that an expression is, as a whole number of any width.
fn column_of(expr: &PhysicalExprRef) -> Option<usize> {
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        return cast.cast_type().is_integer().then(|| column_of(cast.expr()))?;
    }
    expr.downcast_ref::<Column>().map(Column::index)
}

/// The plan with fewer rows below the window that makes a column, if it is a rank of groups.
fn below(plan: &Plan, column: usize, fetch: usize) -> Result<Option<Plan>> {
    let input = if let Some(list) = plan.downcast_ref::<ProjectionExec>() {
        let made = list.expr().get(column).and_then(|made| column_of(&made.expr));
        let Some(made) = made else { return Ok(None) };
        below(list.input(), made, fetch)?
    } else if let Some(window) = plan.downcast_ref::<BoundedWindowAggExec>() {
        below_window(window, column, fetch)?
    } else {
        None
    };
    let replaced = input.map(|input| replace_children_if_necessary(Arc::clone(plan), vec![input]));
    replaced.transpose()
}

fn below_window(
    window: &BoundedWindowAggExec,
    column: usize,
    fetch: usize,
) -> Result<Option<Plan>> {
    let calls = window.window_expr();
    let of_input = window.input().schema().fields().len();
    let Some(ranked) = column.checked_sub(of_input).and_then(|nth| calls.get(nth)) else {
        return Ok(None);
    };
    // Another function of the same window would miss the rows.
    let is_alike = |call: &Arc<dyn WindowExpr>| {
        is_rank(call)
            && call.partition_by() == ranked.partition_by()
            && call.order_by() == ranked.order_by()
    };
    let (groups, order) = (ranked.partition_by(), ranked.order_by());
    let schema = window.input().schema();
    let types = |exprs: &mut dyn Iterator<Item = &PhysicalExprRef>| {
        exprs.map(|expr| expr.data_type(&schema)).collect::<Result<Vec<_>>>()
    };
    let group_types = types(&mut groups.iter())?;
    let order_types = types(&mut order.iter().map(|order| &order.expr))?;
    // Keys of one length are quickly compared. Zeros of both signs may be one group, or one rank.
    let fits = !groups.is_empty()
        && !order.is_empty()
        && calls.iter().all(is_alike)
        && !group_types.iter().any(DataType::is_floating)
        && order_types.iter().all(|of| of.is_primitive() || *of == DataType::Boolean)
        && order.iter().zip(&order_types).all(|(order, of)| {
            !(of.is_floating() && order.expr.is::<Column>() && is_called(ranked, "rank"))
        });
    let Some(sort) =
        window.input().downcast_ref::<SortExec>().filter(|sort| fits && sort.fetch().is_none())
    else {
        return Ok(None);
    };
    let thinned = |input: &Plan| -> Plan {
        let (groups, order) = (groups.to_vec(), order.to_vec());
        Arc::new(TopOfGroupsExec::new(Arc::clone(input), groups, order, fetch))
    };
    // Rows that are left out need not be dealt out either.
    let below = match sort.input().downcast_ref::<RepartitionExec>() {
        Some(dealt) => {
            replace_children_if_necessary(Arc::clone(sort.input()), vec![thinned(dealt.input())])?
        }
        None => thinned(sort.input()),
    };
    replace_children_if_necessary(Arc::clone(window.input()), vec![below]).map(Some)
}

fn is_rank(call: &Arc<dyn WindowExpr>) -> bool {
    is_called(call, "row_number") || is_called(call, "rank")
}

fn is_called(call: &Arc<dyn WindowExpr>, name: &str) -> bool {
    let standard = call.as_any().downcast_ref::<StandardWindowExpr>();
    let function = standard.map(|call| call.get_standard_func_expr());
    let own = function.and_then(|function| function.as_any().downcast_ref::<WindowUDFExpr>());
    own.is_some_and(|own| own.fun().name() == name)
}
