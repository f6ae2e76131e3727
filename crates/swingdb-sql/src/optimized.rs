//! Queries of one table that are optimized before their values are known.
//!
//! To optimize the plan of a short query takes longer than to run it. So a query that comes again
//! and again with other values, `SELECT * FROM t WHERE id = $1`, is optimized once, with places for
//! its values ([`optimized`]), and gets them later ([`bound`]). That is only right where the values
//! do not matter to the optimizer: they are compared with columns of one table of their own type,
//! or are in a column of the result that has a name of its own. All other queries are optimized
//! each time.
//!
//! Rows must not matter to it either: the table is only named while the plan is optimized
//! ([`crate::scan::named`]). Where floating point numbers are compared, a look at the rows pays
//! (`analyze/equality/signs.rs`), so such plans are optimized each time, too.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, ExprSchema};
use datafusion::error::DataFusionError;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::expr::{BinaryExpr, Placeholder};
use datafusion::logical_expr::{
    Cast, Expr, LogicalPlan, Operator, Projection, TableScan, Volatility,
};
use swingdb_common::error::Result;
use swingdb_common::floats::has_floats;

use crate::nodes::expressions::{any_node_or_view, any_part};
use crate::text::parameters::Params;

/// Nodes that such a plan has at most.
const MAX_NODES: usize = 12;
/// Expressions that it has at most, counted with their parts.
const MAX_EXPRESSIONS: usize = 200;
/// Aggregates that take no time.
const QUICK: [&str; 5] = ["count", "sum", "min", "max", "avg"];

/// The optimized plan of one with a name for its table, with places for its values in the
/// conditions of its scan; `None`: it is to be optimized when they are known.
pub fn optimized(engine: &SessionState, plan: &LogicalPlan) -> Option<LogicalPlan> {
    if !is_simple(plan) {
        return None;
    }
    // What the optimizer refuses without values it may do with them.
    let plan = engine.optimize(plan).ok()?;
    let mut fits = is_simple(&plan);
    let visited = plan.apply_with_subqueries(|node| {
        fits &= !compares_floats(node);
        fits &= match node {
            LogicalPlan::TableScan(scan) => scan
                .filters
                .iter()
                .all(|filter| !has_places(filter) || Condition::of(filter, scan).is_some()),
            // What has a name of its own keeps it when the value comes.
            LogicalPlan::Projection(list) => {
                list.expr.iter().all(|expr| matches!(expr, Expr::Alias(_)) || !has_places(expr))
            }
            other => !any_part(other, |part| matches!(part, Expr::Placeholder(_))),
        };
        Ok(TreeNodeRecursion::Continue)
    });
    (visited.is_ok() && fits).then_some(plan)
}

/// The plan with values in their places; `None`: one of them is not of its column's type.
pub fn bound(plan: LogicalPlan, params: &Params) -> Result<Option<LogicalPlan>> {
    let mut fits = true;
    let plan = plan.transform_up(|node| {
        let mut scan = match node {
            LogicalPlan::TableScan(scan) => scan,
            LogicalPlan::Projection(list) if list.expr.iter().any(has_places) => {
                return with_values_in(list, params).map(Transformed::yes);
            }
            other => return Ok(Transformed::no(other)),
        };
        let mut filters = std::mem::take(&mut scan.filters);
        for filter in filters.iter_mut().filter(|filter| has_places(filter)) {
            match Condition::of(filter, &scan).map(|condition| condition.with_value(params)) {
                Some(Ok(Some(condition))) => *filter = condition,
                Some(Err(error)) => return Err(DataFusionError::from(error)),
                _ => fits = false,
            }
        }
        scan.filters = filters;
        Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
    })?;
    Ok(fits.then_some(plan.data))
}

/// The projection with values in its places.
fn with_values_in(list: Projection, params: &Params) -> Result<LogicalPlan, DataFusionError> {
    let value = |part: Expr| {
        Ok(match part {
            Expr::Placeholder(Placeholder { id, .. }) => {
                let value = params.get(&id).map_err(DataFusionError::from)?.clone();
                Transformed::yes(Expr::Literal(value, None))
            }
            other => Transformed::no(other),
        })
    };
    let exprs = list.expr.into_iter().map(|expr| expr.transform(value).data());
    let exprs = exprs.collect::<Result<Vec<_>, _>>()?;
    Projection::try_new(exprs, list.input).map(LogicalPlan::Projection)
}

/// Whether a node does more with floating point columns than to hand them on, or to add them up.
fn compares_floats(node: &LogicalPlan) -> bool {
    let is_float = |column: &Column| {
        let of_table = |scan: &TableScan| {
            let schema = scan.source.schema();
            schema.field_with_name(&column.name).map(|field| field.data_type().clone()).ok()
        };
        let of_input = || node.inputs().first()?.schema().data_type(column).ok().cloned();
        let of = match node {
            LogicalPlan::TableScan(scan) => of_table(scan),
            _ => of_input(),
        };
        of.is_none_or(|of| has_floats(&of))
    };
    let reads = |expr: &Expr| expr.column_refs().into_iter().any(is_float);
    match node {
        LogicalPlan::Projection(list) => {
            list.expr.iter().any(|expr| !is_column(expr) && reads(expr))
        }
        LogicalPlan::Aggregate(aggregate) => {
            let adds_up = |expr: &Expr| match expr {
                Expr::Alias(alias) => is_sum(&alias.expr),
                expr => is_sum(expr),
            };
            aggregate.group_expr.iter().any(reads)
                || aggregate.aggr_expr.iter().any(|expr| !adds_up(expr) && reads(expr))
        }
        node => node.expressions().iter().any(reads),
    }
}

fn is_column(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) => true,
        Expr::Alias(alias) => is_column(&alias.expr),
        _ => false,
    }
}

/// Whether an aggregate of a column does not compare its values.
fn is_sum(expr: &Expr) -> bool {
    let Expr::AggregateFunction(call) = expr else { return false };
    matches!(call.func.name(), "sum" | "avg" | "count")
        && !call.params.distinct
        && call.params.filter.is_none()
        && call.params.order_by.is_empty()
        && call.params.args.iter().all(|arg| is_column(arg) || matches!(arg, Expr::Literal(..)))
}

/// Whether an optimized plan calls no function that may take long for a row.
pub fn is_quick(plan: &LogicalPlan) -> bool {
    let mut quick = true;
    let visited = plan.apply_with_subqueries(|node| {
        quick &= !any_part(node, |part| match part {
            Expr::ScalarFunction(_) => true,
            Expr::AggregateFunction(call) => !QUICK.contains(&call.func.name()),
            _ => false,
        });
        Ok(TreeNodeRecursion::Continue)
    });
    visited.is_ok() && quick
}

/// Whether a plan always means the same: all its functions depend on their arguments alone.
pub fn is_repeatable(plan: &LogicalPlan) -> Result<bool> {
    Ok(!any_node_or_view(plan, &|node| any_part(node, may_change))?)
}

/// Whether an expression calls a function that may give another value the next time.
fn may_change(part: &Expr) -> bool {
    let volatility = match part {
        Expr::ScalarFunction(call) => call.func.signature().volatility,
        Expr::AggregateFunction(call) => call.func.signature().volatility,
        Expr::HigherOrderFunction(call) => call.func.signature().volatility,
        Expr::WindowFunction(call) => call.fun.signature().volatility,
        _ => return false,
    };
    volatility != Volatility::Immutable
}

fn has_places(expr: &Expr) -> bool {
    expr.exists(|part| Ok(matches!(part, Expr::Placeholder(_)))).unwrap_or(true)
}

/// Whether a plan reads one table, by a few steps whose results depend on nothing but its rows.
fn is_simple(plan: &LogicalPlan) -> bool {
    let (mut nodes, mut scans, mut parts, mut simple) = (0, 0, 0, true);
    let visited = plan.apply_with_subqueries(|node| {
        nodes += 1;
        scans += usize::from(matches!(node, LogicalPlan::TableScan(_)));
        simple &= matches!(
            node,
            LogicalPlan::TableScan(_)
                | LogicalPlan::Projection(_)
                | LogicalPlan::Filter(_)
                | LogicalPlan::SubqueryAlias(_)
                | LogicalPlan::Aggregate(_)
                | LogicalPlan::Sort(_)
                | LogicalPlan::Limit(_)
        );
        simple &= !any_part(node, |part| {
            parts += 1;
            depends_on_more(part)
        });
        simple &= nodes <= MAX_NODES && parts <= MAX_EXPRESSIONS;
        Ok(if simple { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    visited.is_ok() && simple && scans == 1
}

/// Whether an expression is more than a function of the row, always the same.
fn depends_on_more(part: &Expr) -> bool {
    match part {
        Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) => true,
        Expr::SetComparison(_) | Expr::OuterReferenceColumn(..) | Expr::WindowFunction(_) => true,
        Expr::HigherOrderFunction(_) => true,
        part => may_change(part),
    }
}

/// A comparison of a column with a value to come, the column on the left.
struct Condition<'a> {
    column: &'a Expr,
    of: DataType,
    op: Operator,
    place: &'a str,
}

impl<'a> Condition<'a> {
    fn of(filter: &'a Expr, scan: &TableScan) -> Option<Self> {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = filter else { return None };
        let (left, right) = (without_cast(left), without_cast(right));
        let ((column, column_as), op, (place, place_as)) = match (left.0, right.0) {
            (Expr::Column(_), Expr::Placeholder(_)) => (left, *op, right),
            (Expr::Placeholder(_), Expr::Column(_)) => (right, op.swap()?, left),
            _ => return None,
        };
        let (Expr::Column(name), Expr::Placeholder(Placeholder { id, .. })) = (column, place)
        else {
            return None;
        };
        let of = scan.source.schema().field_with_name(&name.name).ok()?.data_type().clone();
        // They are compared as values of one type, which has all of the column's.
        let compared = column_as.unwrap_or(&of);
        let fits = widens(&of, compared) && place_as.is_none_or(|place_as| place_as == compared);
        use Operator::{Eq, Gt, GtEq, Lt, LtEq};
        (matches!(op, Eq | Lt | LtEq | Gt | GtEq) && fits).then_some(Self {
            column,
            of,
            op,
            place: id,
        })
    }

    /// The comparison with the value; `None` where its type cannot say the value.
    fn with_value(&self, params: &Params) -> Result<Option<Expr>> {
        let value = params.get(self.place)?;
        let from = value.data_type();
        if value.is_null() || !is_of_kind(&from, &self.of) {
            return Ok(None);
        }
        let Ok(same) = value.cast_to(&self.of) else { return Ok(None) };
        if same.cast_to(&from).ok().as_ref() != Some(value) {
            return Ok(None);
        }
        let (left, right) = (Box::new(self.column.clone()), Box::new(Expr::Literal(same, None)));
        Ok(Some(Expr::BinaryExpr(BinaryExpr { left, op: self.op, right })))
    }
}

/// An expression, and the type that it is cast to.
fn without_cast(expr: &Expr) -> (&Expr, Option<&DataType>) {
    match expr {
        Expr::Cast(Cast { expr, field }) => (expr, Some(field.data_type())),
        other => (other, None),
    }
}

/// Whether `to` has all values of `from`, in the same order; both are compared as they are.
fn widens(from: &DataType, to: &DataType) -> bool {
    let range = |of: &DataType| {
        let bits = of.primitive_width()? * 8 - usize::from(of.is_signed_integer());
        of.is_integer().then_some((of.is_signed_integer(), bits))
    };
    match (range(from), range(to)) {
        (Some((signed, bits)), Some((to_signed, to_bits))) => {
            bits <= to_bits && (to_signed || !signed)
        }
        _ => (is_text(from) && is_text(to)) || (*from == DataType::Date32 && from == to),
    }
}

fn is_text(of: &DataType) -> bool {
    matches!(of, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn is_of_kind(from: &DataType, to: &DataType) -> bool {
    (from.is_integer() && to.is_integer()) || (is_text(from) && is_text(to)) || from == to
}
