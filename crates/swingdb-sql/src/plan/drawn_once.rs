//! Random numbers that are drawn once, as SQL says, and used more than once.
//!
//! `random() BETWEEN 0.4 AND 0.6` becomes two comparisons, `floor(random() * 3) IN (0, 1)` two
//! equations, `coalesce(x, y)` a CASE that has `x` twice: each with a number of its own. So the
//! draws of an operand that the query engine or a [template](crate::bind::functions) puts in
//! several places become columns of the rows below, and the operand is made of these.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, Result, ScalarValue, not_impl_err};
use datafusion::logical_expr::expr::{InSubquery, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Expr, Filter, LogicalPlan, LogicalPlanBuilder, Projection, Union, Values, lit,
};
use swingdb_common::hidden;

use crate::bind::functions::once::DRAWN_ONCE;
use crate::nodes::expressions::any_part;

/// Functions that give another value each time, and never fail.
const DRAWS: [&str; 5] = ["random", "uuid", "uuidv7", "nextval", "setval"];
/// Functions that become expressions with an argument in several places.
const REPEATING: [&str; 6] = ["coalesce", "ifnull", "nvl", "nvl2", "nullif", DRAWN_ONCE];

/// A node in which each of the draws that count as one is one.
pub(crate) fn rewrite(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !any_part(&node, is_repeated) {
        return Ok(Transformed::no(node));
    }
    let node = match node {
        LogicalPlan::Values(values) => return rows_of(values).map(Transformed::yes),
        LogicalPlan::Join(mut join) if join.join_type == JoinType::Inner => {
            let condition = join.filter.take().unwrap_or_else(|| lit(true));
            LogicalPlan::Filter(Filter::try_new(condition, Arc::new(LogicalPlan::Join(join)))?)
        }
        other => other,
    };
    let [input] = node.inputs()[..] else {
        return not_impl_err!(
            "random numbers that are used more than once in {}; draw them in a subquery below it",
            node.display()
        );
    };
    let (input, schema) = (input.clone(), Arc::clone(node.schema()));
    let mut draws = Draws::default();
    let names = NamePreserver::new(&node);
    let mut exprs = Vec::new();
    for expr in node.expressions() {
        let name = names.save(&expr);
        exprs.push(name.restore(draws.taken_from(expr)?));
    }
    let mut below: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
    below.extend(draws.columns);
    let below = LogicalPlan::Projection(Projection::try_new(below, Arc::new(input))?);
    let node = node.with_new_exprs(exprs, vec![below])?;
    if node.schema().fields().len() == schema.fields().len() {
        return Ok(Transformed::yes(node));
    }
    let columns = schema.columns().into_iter().map(Expr::Column).collect();
    let plan = Projection::try_new(columns, Arc::new(node))?;
    Ok(Transformed::yes(LogicalPlan::Projection(plan)))
}

/// Each of the rows of VALUES as a query, in which draws have a place.
fn rows_of(values: Values) -> Result<LogicalPlan> {
    let columns = values.schema.columns();
    let rows = values.values.into_iter().map(|row| {
        let named = row.into_iter().zip(&columns).map(|(value, column)| value.alias(column.name()));
        let one = LogicalPlanBuilder::empty(true).project(named.collect::<Vec<_>>())?.build()?;
        Ok(Arc::new(rewrite(one)?.data))
    });
    let mut rows: Vec<Arc<LogicalPlan>> = rows.collect::<Result<_>>()?;
    match rows.len() {
        1 => Ok(Arc::unwrap_or_clone(rows.remove(0))),
        _ => Ok(LogicalPlan::Union(Union::try_new(rows)?)),
    }
}

/// Whether an expression has an operand that draws, and that may come to stand in several places.
fn is_repeated(expr: &Expr) -> bool {
    operands(expr).iter().any(|operand| draws(operand))
}

/// The operands that may come to stand in several places.
fn operands(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::Between(between) => vec![&between.expr],
        Expr::InList(list) => vec![&list.expr],
        Expr::InSubquery(InSubquery { expr, .. }) => vec![expr],
        Expr::Case(case) => case.expr.iter().map(AsRef::as_ref).collect(),
        Expr::ScalarFunction(call) if REPEATING.contains(&call.name()) => {
            call.args.iter().collect()
        }
        _ => Vec::new(),
    }
}

fn draws(expr: &Expr) -> bool {
    expr.exists(|part| Ok(is_draw(part))).unwrap_or(true)
}

pub(crate) fn is_draw(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if DRAWS.contains(&call.name()))
}

/// What is drawn for a row, once.
#[derive(Default)]
struct Draws {
    columns: Vec<Expr>,
    /// The columns of marked expressions, by their number, in the order of their draws.
    marked: HashMap<u64, Vec<Column>>,
}

impl Draws {
    /// An expression of a node, with columns for the draws of what may be repeated.
    fn taken_from(&mut self, expr: Expr) -> Result<Expr> {
        let taken = expr.transform_down(|part| {
            if let Expr::Lambda(lambda) = &part {
                if lambda.body.exists(|part| Ok(is_repeated(part)))? {
                    return not_impl_err!(
                        "a random number that is used more than once for each element of a list"
                    );
                }
                return Ok(Transformed::new(part, false, TreeNodeRecursion::Jump));
            }
            if !is_repeated(&part) {
                return Ok(Transformed::no(part));
            }
            if let Expr::ScalarFunction(ScalarFunction { func, args }) = &part
                && func.name() == DRAWN_ONCE
                && let [value, Expr::Literal(ScalarValue::Int64(Some(number)), _)] = args.as_slice()
            {
                let number = number.unsigned_abs();
                let known = self.marked.remove(&number);
                let mut found = known.clone().unwrap_or_default().into_iter();
                let mut used = Vec::new();
                let value = self.columns_for(value.clone(), &mut found, &mut used)?;
                self.marked.insert(number, known.unwrap_or(used));
                return Ok(Transformed::new(value, true, TreeNodeRecursion::Jump));
            }
            // All its children are looked at, and those that may be repeated have no draws left.
            let repeated: Vec<Expr> = operands(&part).into_iter().cloned().collect();
            let part = part.map_children(|child| match repeated.contains(&child) {
                true => {
                    let child =
                        self.columns_for(child, &mut std::iter::empty(), &mut Vec::new())?;
                    Ok(Transformed::yes(child))
                }
                false => Ok(Transformed::no(child)),
            })?;
            Ok(Transformed::yes(part.data))
        });
        taken.data()
    }

    /// An expression with a column for each draw: those `found` first, then new ones.
    fn columns_for(
        &mut self,
        expr: Expr,
        found: &mut dyn Iterator<Item = Column>,
        used: &mut Vec<Column>,
    ) -> Result<Expr> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let replaced = expr.transform_up(|part| {
            if !is_draw(&part) {
                return Ok(Transformed::no(part));
            }
            let column = found.next().unwrap_or_else(|| {
                let number = NEXT.fetch_add(1, Ordering::Relaxed);
                let column = Column::from_name(format!(hidden!("draw {}"), number));
                self.columns.push(part.alias(column.name()));
                column
            });
            used.push(column.clone());
            Ok(Transformed::yes(Expr::Column(column)))
        });
        replaced.data()
    }
}
