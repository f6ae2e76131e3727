//! Keys that a join is to find, asked before the plan is sent: [`Asked`].
//!
//! On one machine a join tells the scans of its other side which keys it has found, through
//! aggregates and further joins. On a cluster rows that come from other tasks would be shuffled
//! before anybody knows. So the coordinator asks for few keys first, and the plan that goes to the
//! nodes has them as a condition: the semi-join of distributed databases (Bernstein, Goodman et
//! al., "Query Processing in a System for Distributed Databases (SDD-1)", 1981).
//!
//! - A join, one side of which has few keys by a condition on one table, asks for these keys, and
//!   has `key IN (...)` on its other side.
//! - A semi join with a subquery that has HAVING asks for what that gives, and becomes
//!   `key IN (...)`.
//!
//! Rows are left out only where they would find no match: so it does not matter that the keys are
//! those of more rows than the join has.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, ExprSchema, JoinType, NullEquality, Result, ScalarValue};
use datafusion::datasource::source_as_provider;
use datafusion::execution::TaskContext;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{
    Expr, Filter, Join, LogicalPlan, LogicalPlanBuilder, TableScan, in_list, lit,
};
use datafusion::optimizer::Optimizer;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::StreamExt;
use swingdb_functions::keys::bit_set;
use swingdb_sql::engine::{drops_unmatched, expected};

use crate::cut::Cut;
use crate::scan::ShardedTable;

/// Keys that are asked for, at most.
const MAX_KEYS: usize = 500_000;
/// Keys that a condition lists, at most; more are a set of bits.
const MAX_LISTED: usize = 100;
/// Bytes of such a set: each node gets it with the plan.
const MAX_SET_BYTES: usize = 1 << 19;
/// Keys that a condition lists where they are no whole numbers, or too far from each other.
const MAX_LISTED_OTHERS: usize = 10_000;
/// Rows of a table up to which its keys are asked for: estimates are often too high.
const MAX_ASKED: f64 = 100_000.0;
/// Where they may be a set of bits, and the other side has this many times as many rows, up to
/// [`MAX_KEYS`] of them.
const MANY_TIMES: f64 = 10.0;
/// The most that may be left of the other side's keys.
const MAX_SHARE: f64 = 0.2;
/// Joins of a statement that are changed so.
pub(crate) const MAX_JOINS: usize = 8;

/// Which side of a join gets a condition.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Side {
    Left,
    Right,
    /// The left one, in place of a semi join.
    Whole,
}

/// Keys to ask for, and the join that they are for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Asked {
    join: Join,
    side: Side,
    key: Column,
    /// The query of the keys; a row more than may be listed says that there are too many.
    pub(crate) query: LogicalPlan,
}

impl Asked {
    fn new(join: &Join, side: Side, key: &Column, keys: LogicalPlan) -> Result<Self> {
        // The optimizer, which makes this of DISTINCT, has run.
        let groups = keys.schema().columns().into_iter().map(Expr::Column);
        let query = LogicalPlanBuilder::from(keys.clone()).aggregate(groups, [] as [Expr; 0])?;
        let query = query.limit(0, Some(MAX_KEYS + 1))?.build()?;
        Ok(Self { join: join.clone(), side, key: key.clone(), query })
    }

    /// The plan with the keys in it.
    pub(crate) fn put(
        &self,
        plan: LogicalPlan,
        keys: Vec<ScalarValue>,
        state: &SessionState,
    ) -> Result<LogicalPlan> {
        let Some(condition) = is_one_of(Expr::Column(self.key.clone()), keys) else {
            return Ok(plan);
        };
        let done = plan.transform_down(|node| {
            let LogicalPlan::Join(join) = &node else { return Ok(Transformed::no(node)) };
            if *join != self.join {
                return Ok(Transformed::no(node));
            }
            let filtered = |side: &Arc<LogicalPlan>| {
                Filter::try_new(condition.clone(), Arc::clone(side)).map(LogicalPlan::Filter)
            };
            let mut join = join.clone();
            let changed = match self.side {
                Side::Whole => filtered(&join.left)?,
                Side::Left => {
                    join.left = Arc::new(filtered(&join.left)?);
                    LogicalPlan::Join(join)
                }
                Side::Right => {
                    join.right = Arc::new(filtered(&join.right)?);
                    LogicalPlan::Join(join)
                }
            };
            Ok(Transformed::new(changed, true, TreeNodeRecursion::Stop))
        })?;
        let rules = state.optimizers().iter().filter(|rule| rule.name() == "push_down_filter");
        Optimizer::with_rules(rules.cloned().collect()).optimize(done.data, state, |_, _| {})
    }
}

/// Whether a column has one of these keys; `None`: they are too many to be told.
fn is_one_of(column: Expr, keys: Vec<ScalarValue>) -> Option<Expr> {
    if keys.is_empty() {
        return Some(lit(false));
    }
    if keys.len() > MAX_LISTED
        && let Some(set) = bit_set::is_in(column.clone(), &keys, MAX_SET_BYTES)
    {
        return Some(set);
    }
    let keys = (keys.len() <= MAX_LISTED_OTHERS).then_some(keys)?;
    let keys = keys.into_iter().map(|key| Expr::Literal(key, None));
    Some(in_list(column, keys.collect(), false))
}

/// The keys that a query gives; `None`: too many.
pub(crate) async fn keys_of(
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
) -> Result<Option<Vec<ScalarValue>>> {
    let mut rows = execute_stream(plan, context)?;
    let mut keys = Vec::new();
    while let Some(batch) = rows.next().await.transpose()? {
        if keys.len() + batch.num_rows() > MAX_KEYS {
            return Ok(None);
        }
        let column = batch.column(0);
        for row in (0..batch.num_rows()).filter(|row| column.is_valid(*row)) {
            keys.push(ScalarValue::try_from_array(column, row)?);
        }
    }
    Ok(Some(keys))
}

/// The next keys of a plan to ask for, that were not asked for before: where the table that they
/// leave something out of has `from` rows.
pub(crate) fn next(plan: &LogicalPlan, before: &[Asked], from: f64) -> Result<Option<Asked>> {
    let mut found = None;
    plan.apply(|node| {
        if let LogicalPlan::Join(join) = node {
            for asked in of_join(join, from)? {
                if !before.iter().any(|known| known.query == asked.query && known.key == asked.key)
                {
                    found = Some(asked);
                    return Ok(TreeNodeRecursion::Stop);
                }
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

fn of_join(join: &Join, from: f64) -> Result<Vec<Asked>> {
    let mut all = Vec::new();
    if join.null_equality == NullEquality::NullEqualsNull || join.null_aware {
        return Ok(all);
    }
    let (drops_left, drops_right) = drops_unmatched(join.join_type);
    for (left, right) in &join.on {
        let (Some(left), Some(right)) = (left.try_as_col(), right.try_as_col()) else { continue };
        if !is_listed(&join.left, left, &join.right, right) {
            continue;
        }
        let is_only = join.on.len() == 1 && join.filter.is_none();
        if join.join_type == JoinType::LeftSemi && is_only && has_having(&join.right)? {
            let keys = LogicalPlanBuilder::from(join.right.as_ref().clone());
            let keys = keys.project([Expr::Column(right.clone())])?.build()?;
            all.push(Asked::new(join, Side::Whole, left, keys)?);
        }
        use JoinType as J;
        let (few, many) = ((&*join.left, left), (&*join.right, right));
        let is_kept = matches!(join.join_type, J::Left | J::LeftSemi | J::LeftAnti);
        if drops_right && let Some(keys) = few_keys(few, many, from, is_kept)? {
            all.push(Asked::new(join, Side::Right, right, keys)?);
        }
        let is_kept = matches!(join.join_type, J::Right | J::RightSemi | J::RightAnti);
        if drops_left && let Some(keys) = few_keys(many, few, from, is_kept)? {
            all.push(Asked::new(join, Side::Left, left, keys)?);
        }
    }
    Ok(all)
}

/// Whether two columns have values that are equal where their bytes are.
fn is_listed(left: &LogicalPlan, l: &Column, right: &LogicalPlan, r: &Column) -> bool {
    let of = |plan: &LogicalPlan, column| plan.schema().field_from_column(column).ok().cloned();
    let Some((left, right)) = of(left, l).zip(of(right, r)) else { return false };
    let data_type = left.data_type();
    let is_simple = data_type.is_integer()
        || data_type.is_string()
        || matches!(data_type, DataType::Date32 | DataType::Decimal128(..));
    is_simple && data_type == right.data_type()
}

/// Whether a plan gives groups of the cluster's rows that fulfil a condition, and the same again
/// when it is asked twice.
fn has_having(plan: &LogicalPlan) -> Result<bool> {
    let (mut has_having, mut is_same) = (false, true);
    plan.apply(|node| {
        match node {
            LogicalPlan::Filter(filter) => {
                has_having |= matches!(filter.input.as_ref(), LogicalPlan::Aggregate(_));
            }
            LogicalPlan::Aggregate(_)
            | LogicalPlan::Projection(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Join(_) => {}
            LogicalPlan::TableScan(scan) => is_same &= is_of_cluster(scan) && scan.fetch.is_none(),
            _ => is_same = false,
        }
        is_same &= !node.expressions().iter().any(Expr::is_volatile);
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(has_having && is_same)
}

/// The keys of `few`, where there are few of them, and they leave little of `many`. `is_kept`: the
/// rows of `few` come out of the join, each once.
fn few_keys(
    (few, key): (&LogicalPlan, &Column),
    (many, other): (&LogicalPlan, &Column),
    from: f64,
    is_kept: bool,
) -> Result<Option<LogicalPlan>> {
    let Some(Scan { plan: scan, column, is_far }) = scan_of(many, other, false) else {
        return Ok(None);
    };
    // A scan right below the join is told by it: the keys come to where the scan is, unless their
    // rows must not be at several nodes.
    if !is_far && (!is_kept || is_cut_by(scan, &column)) {
        return Ok(None);
    }
    let (rows, distinct) = expected(scan, &Expr::Column(column));
    if rows < from {
        return Ok(None);
    }
    let Some(source) = source(few, key) else { return Ok(None) };
    let is_much_left = from > 0.0 && source.rows > distinct * MAX_SHARE;
    let is_of_set = bit_set::is_of_set(few.schema().field_from_column(key)?.data_type());
    let most = if is_of_set { rows / MANY_TIMES } else { 0.0 };
    if source.rows > most.clamp(MAX_ASKED, MAX_KEYS as f64) || is_much_left {
        return Ok(None);
    }
    let keys = LogicalPlanBuilder::from(source.plan.clone());
    Ok(Some(keys.project([Expr::Column(source.key)])?.build()?))
}

/// Whether a column says at which node the rows of a scan are, or all are everywhere.
fn is_cut_by(scan: &LogicalPlan, column: &Column) -> bool {
    let LogicalPlan::TableScan(scan) = scan else { return false };
    let provider = source_as_provider(&scan.source);
    provider.is_ok_and(|provider| {
        let cut = provider.downcast_ref::<ShardedTable>().map(|table| &table.placing.cut);
        cut.is_some_and(|cut| *cut == Cut::Replicated || cut.column() == Some(column.name()))
    })
}

/// A scan that a column comes from.
struct Scan<'a> {
    plan: &'a LogicalPlan,
    /// What the column is called there.
    column: Column,
    /// Whether a join or groups are between.
    is_far: bool,
}

fn scan_of<'a>(plan: &'a LogicalPlan, column: &Column, is_far: bool) -> Option<Scan<'a>> {
    match plan {
        LogicalPlan::TableScan(_) => Some(Scan { plan, column: column.clone(), is_far }),
        LogicalPlan::Filter(filter) => scan_of(&filter.input, column, is_far),
        LogicalPlan::Join(join) => {
            let sides = [&join.left, &join.right];
            let owner = sides.into_iter().find(|side| side.schema().has_column(column))?;
            scan_of(owner, column, true)
        }
        LogicalPlan::Aggregate(aggregate) => {
            scan_of(&aggregate.input, &mapped(plan, &aggregate.group_expr, column)?, true)
        }
        LogicalPlan::Projection(list) => {
            scan_of(&list.input, &mapped(plan, &list.expr, column)?, is_far)
        }
        LogicalPlan::SubqueryAlias(alias) => {
            scan_of(&alias.input, &below_alias(plan, &alias.input, column)?, is_far)
        }
        _ => None,
    }
}

/// What a column of a list of expressions, which come first in the schema of a plan, is below it.
fn mapped(plan: &LogicalPlan, exprs: &[Expr], column: &Column) -> Option<Column> {
    let place = plan.schema().maybe_index_of_column(column)?;
    exprs.get(place)?.clone().unalias().try_as_col().cloned()
}

fn below_alias(plan: &LogicalPlan, input: &LogicalPlan, column: &Column) -> Option<Column> {
    let place = plan.schema().maybe_index_of_column(column)?;
    input.schema().columns().into_iter().nth(place)
}

/// Rows of one table that have all keys.
struct Source<'a> {
    plan: &'a LogicalPlan,
    key: Column,
    rows: f64,
}

/// The fewest rows by conditions on one table that have all values of a column.
fn source<'a>(plan: &'a LogicalPlan, column: &Column) -> Option<Source<'a>> {
    match plan {
        LogicalPlan::TableScan(scan) => {
            let is_same = !scan.filters.iter().any(Expr::is_volatile) && scan.fetch.is_none();
            let is_it = is_of_cluster(scan) && is_same && !scan.filters.is_empty();
            let (rows, _) = expected(plan, &Expr::Column(column.clone()));
            is_it.then(|| Source { plan, key: column.clone(), rows })
        }
        LogicalPlan::Filter(filter) => source(&filter.input, column),
        LogicalPlan::Projection(list) => source(&list.input, &mapped(plan, &list.expr, column)?),
        LogicalPlan::SubqueryAlias(alias) => {
            source(&alias.input, &below_alias(plan, &alias.input, column)?)
        }
        LogicalPlan::Aggregate(aggregate) => {
            source(&aggregate.input, &mapped(plan, &aggregate.group_expr, column)?)
        }
        LogicalPlan::Join(join) => of_sides(join, column),
        _ => None,
    }
}

/// As [`source`], of a join: the side that the column is of, or what it is equal to.
fn of_sides<'a>(join: &'a Join, column: &Column) -> Option<Source<'a>> {
    let (has_left, has_right, is_equal) = match join.join_type {
        JoinType::Inner => (true, true, true),
        JoinType::LeftSemi => (true, false, true),
        JoinType::RightSemi => (false, true, true),
        JoinType::Left | JoinType::LeftAnti => (true, false, false),
        JoinType::Right | JoinType::RightAnti => (false, true, false),
        JoinType::Full | JoinType::LeftMark | JoinType::RightMark => return None,
    };
    let own = |is_there: bool, side: &'a LogicalPlan| {
        let is_own = is_there && side.schema().has_column(column);
        is_own.then(|| source(side, column)).flatten()
    };
    let mut all = vec![own(has_left, &join.left), own(has_right, &join.right)];
    if is_equal && join.null_equality == NullEquality::NullEqualsNothing {
        for (left, right) in &join.on {
            let (Some(left), Some(right)) = (left.try_as_col(), right.try_as_col()) else {
                continue;
            };
            if !is_listed(&join.left, left, &join.right, right) {
                continue;
            }
            if left == column {
                all.push(source(&join.right, right));
            } else if right == column {
                all.push(source(&join.left, left));
            }
        }
    }
    all.into_iter().flatten().min_by(|a, b| a.rows.total_cmp(&b.rows))
}

/// Whether several nodes have the rows of a table, or each has all.
fn is_of_cluster(scan: &TableScan) -> bool {
    let provider = source_as_provider(&scan.source);
    provider.is_ok_and(|provider| {
        provider.downcast_ref::<ShardedTable>().is_some_and(|table| table.placing.nodes > 1)
    })
}
