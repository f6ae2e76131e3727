//! Work that stays where its rows are: [`colocate`], [`in_place`].
//!
//! A cut puts all rows with the same value of a column on one node. So a join of two tables on the
//! columns of their cuts, and groups by the column of a cut, need no rows of other nodes:
//! [`colocate`] makes the shuffles below them [`LocalShuffle`]s. A replicated table is on each
//! node: [`in_place`] reads it there, where a join would have it broadcast.
//!
//! The planner of stages has a join that collects one side do so over the network, or deals out
//! both. Where equal keys are on one node, each node's task collects that side from its own rows:
//! the join has scaffolds of [`LocalShuffle`]s until the plan is cut; [`in_place`] takes them away.
//!
//! Rows with equal hash keys meet in two ways: a cut has put them on one node, or a shuffle sends
//! them over the network. The two deal rows out differently. So a join has both of its inputs by
//! cuts of the same kind, or both by shuffles. Where only one input is there by a cut, the other is
//! sent to its nodes ([`by_cut`](crate::by_cut)), unless it costs less to shuffle both, or to
//! broadcast the smaller one.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinSide, JoinType, Result, ScalarValue};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::{ColumnIndex, build_join_schema};
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode,
};
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions,
    StatisticsArgs, StatisticsContext,
};
use datafusion_distributed::{BroadcastExec, NetworkBoundary, NetworkBroadcastExec};
use swingdb_operators::top_of_groups::TopOfGroupsExec;

use crate::by_cut::{self, Places, places_of};
use crate::cut::Cut;
use crate::local_shuffle::LocalShuffle;
use crate::prune::is_equal_by_bytes;
use crate::scan::ShardScan;

type Plan = Arc<dyn ExecutionPlan>;

/// What decides the node of a row; the same for two tables whose equal values are on the same node.
#[derive(Clone, Debug, PartialEq)]
struct By {
    /// The bounds of a range cut; `None`: a hash cut.
    bounds: Option<Vec<ScalarValue>>,
    data_type: DataType,
    nodes: usize,
}

/// Rows that are on their nodes by a cut.
#[derive(Clone, Debug)]
struct Kept {
    by: By,
    /// The columns that have the value of the cut's column.
    columns: Vec<usize>,
}

/// A plan, and where its rows are.
struct Placed {
    plan: Plan,
    /// `None`: nothing is known.
    kept: Option<Kept>,
    /// Whether its partitions are of [`LocalShuffle`]s.
    is_local: bool,
}

impl Placed {
    fn anywhere(plan: Plan) -> Self {
        Self { plan, kept: None, is_local: false }
    }
}

/// How a plan's rows are to be moved.
#[derive(Clone, Copy, Debug)]
pub struct Moves {
    /// Partitions of each task.
    pub partitions: usize,
    /// Whether one input of a join may be sent to the nodes of the other.
    pub by_cuts: bool,
}

/// Makes shuffles local whose rows are on their nodes already.
pub fn colocate(plan: &Plan, moves: Moves) -> Result<Plan> {
    let partitions = moves.partitions.max(1);
    Ok(place(plan, Moves { partitions, ..moves })?.plan)
}

fn place(plan: &Plan, moves: Moves) -> Result<Placed> {
    if let Some(scan) = plan.downcast_ref::<ShardScan>() {
        return Ok(Placed { plan: Arc::clone(plan), kept: kept_by(scan), is_local: false });
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return match join.partition_mode() {
            PartitionMode::CollectLeft => collecting(plan, join, moves),
            _ => partitioned(plan, join, moves),
        };
    }
    // Each input of a union has some of the tasks, and so some of the nodes.
    let by_cuts = moves.by_cuts && !plan.is::<UnionExec>();
    let below = Moves { by_cuts, ..moves };
    let children = plan.children().into_iter().map(|child| place(child, below));
    let mut children = children.collect::<Result<Vec<_>>>()?;
    let is_local = children.iter().any(|child| child.is_local);
    if children.len() > 1 {
        // Others may need partitions of all inputs to be dealt out in the same way.
        let is_known = plan.is::<UnionExec>() || plan.is::<CrossJoinExec>();
        if is_local && !is_known && !plan.is::<NestedLoopJoinExec>() {
            return Ok(Placed::anywhere(Arc::clone(plan)));
        }
        let is_local = is_local && !plan.is::<UnionExec>();
        let children = children.into_iter().map(|child| child.plan).collect();
        return Ok(Placed { plan: with_children(plan, children)?, kept: None, is_local });
    }
    let Some(child) = children.pop() else { return Ok(Placed::anywhere(Arc::clone(plan))) };
    let below = child.kept;
    let plan = with_children(plan, vec![child.plan])?;
    if let Some(shuffle) = plan.downcast_ref::<RepartitionExec>()
        && let Partitioning::Hash(keys, _) = shuffle.partitioning()
    {
        let is_there = below.as_ref().is_some_and(|kept| kept.has_one_of(keys));
        if !is_there || shuffle.preserve_order() {
            return Ok(Placed::anywhere(plan));
        }
        let partitioning = shuffle.partitioning().clone();
        let local = LocalShuffle::try_new(Arc::clone(shuffle.input()), partitioning)?;
        return Ok(Placed { plan: Arc::new(local), kept: below, is_local: true });
    }
    if plan.is::<CoalescePartitionsExec>() || plan.is::<SortPreservingMergeExec>() {
        return Ok(Placed::anywhere(plan));
    }
    let kept = below.and_then(|kept| above(&plan, &kept));
    Ok(Placed { plan, kept, is_local })
}

/// The plan over other inputs.
pub(crate) fn with_children(plan: &Plan, children: Vec<Plan>) -> Result<Plan> {
    let same = plan.children().iter().zip(&children).all(|(old, new)| Arc::ptr_eq(old, new));
    match same {
        true => Ok(Arc::clone(plan)),
        false => {
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            Arc::clone(plan).replace_children(children, options)
        }
    }
}

fn kept_by(scan: &ShardScan) -> Option<Kept> {
    let (column, bounds) = match scan.cut() {
        Cut::Hash { column } => (column, None),
        Cut::Range { column, .. } => (column, Some(scan.bounds().to_vec())),
        Cut::AsItLies | Cut::Replicated => return None,
    };
    let schema = scan.schema();
    let (index, field) = schema.column_with_name(column)?;
    let by = By { bounds, data_type: field.data_type().clone(), nodes: scan.nodes() };
    is_equal_by_bytes(field).then_some(Kept { by, columns: vec![index] })
}

impl Kept {
    fn has(&self, expr: &Arc<dyn PhysicalExpr>) -> bool {
        expr.downcast_ref::<Column>().is_some_and(|column| self.columns.contains(&column.index()))
    }

    fn has_one_of(&self, exprs: &[Arc<dyn PhysicalExpr>]) -> bool {
        exprs.iter().any(|expr| self.has(expr))
    }

    /// With the columns that another plan makes of them: its column `n` is what was `from[n]`.
    fn mapped(&self, from: impl Iterator<Item = Option<usize>>) -> Option<Self> {
        let columns =
            from.enumerate().filter(|(_, old)| old.is_some_and(|o| self.columns.contains(&o)));
        let columns = columns.map(|(new, _)| new).collect::<Vec<_>>();
        (!columns.is_empty()).then(|| Self { by: self.by.clone(), columns })
    }
}

fn column_index(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    expr.downcast_ref::<Column>().map(Column::index)
}

/// Where the rows of a plan are that moves none of its input.
fn above(plan: &Plan, below: &Kept) -> Option<Kept> {
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        return match filter.projection() {
            Some(projection) => below.mapped(projection.iter().map(|index| Some(*index))),
            None => Some(below.clone()),
        };
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return below.mapped(projection.expr().iter().map(|one| column_index(&one.expr)));
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let groups = aggregate.group_expr();
        let columns = groups.expr().iter().map(|(expr, _)| column_index(expr));
        // Grouping sets have NULL in the place of values.
        return if groups.is_single() { below.mapped(columns) } else { None };
    }
    let is_same = plan.is::<SortExec>()
        || plan.is::<TopOfGroupsExec>()
        || plan.is::<LocalLimitExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<RepartitionExec>()
        || plan.is::<WindowAggExec>()
        || plan.is::<BoundedWindowAggExec>();
    is_same.then(|| below.clone())
}

/// Whether the inputs of a join have equal keys on the same node.
fn meet(join: &HashJoinExec, left: Option<&Kept>, right: Option<&Kept>) -> bool {
    let (Some(left), Some(right)) = (left, right) else { return false };
    // Whether there is a NULL anywhere is a question to all nodes.
    let can = !join.null_aware && left.by == right.by;
    can && join.on().iter().any(|(l, r)| left.has(l) && right.has(r))
}

/// For each column of a join, the one of its left or right input.
fn columns_of(join: &HashJoinExec, side: JoinSide) -> Vec<Option<usize>> {
    let (left, right) = (join.left().schema(), join.right().schema());
    let (_, all) = build_join_schema(&left, &right, join.join_type());
    let of = |column: &ColumnIndex| (column.side == side).then_some(column.index);
    match &join.projection {
        Some(projection) => projection.iter().map(|nth| all.get(*nth).and_then(of)).collect(),
        None => all.iter().map(of).collect(),
    }
}

/// Where the rows of a join are whose left, right or both inputs stay in place.
fn joined(join: &HashJoinExec, left: Option<&Kept>, right: Option<&Kept>) -> Option<Kept> {
    use JoinType as T;
    // A side that may be NULL in a row does not say where that row is.
    let (has_left, has_right) = match join.join_type() {
        T::Inner => (true, true),
        T::Left | T::LeftSemi | T::LeftAnti | T::LeftMark => (true, false),
        T::Right | T::RightSemi | T::RightAnti | T::RightMark => (false, true),
        T::Full => (false, false),
    };
    let from = |side: JoinSide, kept: Option<&Kept>| {
        kept.and_then(|kept| kept.mapped(columns_of(join, side).into_iter()))
    };
    let left = has_left.then(|| from(JoinSide::Left, left)).flatten();
    let right = has_right.then(|| from(JoinSide::Right, right)).flatten();
    match (left, right) {
        (Some(mut left), Some(right)) => {
            left.columns.extend(right.columns);
            Some(left)
        }
        (one, other) => one.or(other),
    }
}

/// A join whose inputs are both dealt out by their keys.
fn partitioned(plan: &Plan, join: &HashJoinExec, moves: Moves) -> Result<Placed> {
    let left = place(join.left(), moves)?;
    let right = place(join.right(), moves)?;
    if left.is_local && right.is_local && meet(join, left.kept.as_ref(), right.kept.as_ref()) {
        let kept = joined(join, left.kept.as_ref(), right.kept.as_ref());
        let inputs = together(&left.plan, &right.plan)?;
        return Ok(Placed { plan: with_children(plan, inputs)?, kept, is_local: true });
    }
    let [lefts, rights] = keys_of(join);
    // What operators below have dealt out need not be shuffled.
    let shuffle = |placed: &Placed, input: &Plan| match is_dealt_out_below(placed) {
        true => 0.0,
        false => rows(input),
    };
    let both = shuffle(&left, join.left()) + shuffle(&right, join.right());
    let stays = |placed: &Placed| placed.is_local && placed.plan.output_ordering().is_none();
    let way = cheapest(join, [&left, &right], moves, both)
        .filter(|way| stays(if way.side == JoinSide::Left { &right } else { &left }));
    if let Some(way) = way
        && let Some(moved) = way.moved(before_shuffle([&left, &right], way.side))?
    {
        let there = match way.side {
            JoinSide::Left => &right.plan,
            _ => &left.plan,
        };
        let inputs = way.inputs(moved, Arc::clone(there));
        let made = with_children(plan, inputs)?;
        return Ok(Placed { plan: made, kept: way.kept(join), is_local: true });
    }
    let inputs = vec![shuffled(left, lefts)?, shuffled(right, rights)?];
    Ok(Placed::anywhere(with_children(plan, inputs)?))
}

/// The keys of a join's left and right input.
fn keys_of(join: &HashJoinExec) -> [Vec<Arc<dyn PhysicalExpr>>; 2] {
    let (lefts, rights) = join.on().iter().cloned().unzip();
    [lefts, rights]
}

/// The rows that a plan is likely to have; many, if nothing is known.
pub(crate) fn rows(plan: &Plan) -> f64 {
    const UNKNOWN: f64 = 1e12;
    let known = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new());
    let rows = known.ok().and_then(|known| known.num_rows.get_value().copied());
    rows.map_or(UNKNOWN, |rows| rows as f64)
}

/// A shuffle right below a join.
fn shuffle_of(plan: &Plan) -> Option<&Plan> {
    if let Some(local) = plan.downcast_ref::<LocalShuffle>() {
        return Some(local.input());
    }
    let shuffle = plan.downcast_ref::<RepartitionExec>().filter(|one| !one.preserve_order());
    shuffle.filter(|_| hash_keys(plan).is_some()).map(RepartitionExec::input)
}

fn is_dealt_out_below(placed: &Placed) -> bool {
    !placed.is_local && shuffle_of(&placed.plan).is_none()
}

/// One of two inputs, before it is dealt out.
fn before_shuffle(inputs: [&Placed; 2], side: JoinSide) -> &Plan {
    let plan = if side == JoinSide::Left { &inputs[0].plan } else { &inputs[1].plan };
    shuffle_of(plan).unwrap_or(plan)
}

/// One input of a join that moves to the nodes of the other.
struct Way<'a> {
    /// The one that moves.
    side: JoinSide,
    /// Where the other one is.
    there: &'a Kept,
    /// Where its rows go.
    places: Places,
    /// The column that decides the node, and all keys, of the one that moves.
    column: Arc<dyn PhysicalExpr>,
    keys: Vec<Arc<dyn PhysicalExpr>>,
}

impl Way<'_> {
    /// The input, sent to the nodes.
    fn moved(&self, input: &Plan) -> Result<Option<Plan>> {
        by_cut::shuffle(Arc::clone(input), self.places.clone(), &self.column, &self.keys)
    }

    fn inputs(&self, moved: Plan, there: Plan) -> Vec<Plan> {
        match self.side {
            JoinSide::Left => vec![moved, there],
            _ => vec![there, moved],
        }
    }

    /// Where the rows of the join are.
    fn kept(&self, join: &HashJoinExec) -> Option<Kept> {
        let column = column_index(&self.column);
        let moved = column.map(|index| Kept { by: self.there.by.clone(), columns: vec![index] });
        match self.side {
            JoinSide::Left => joined(join, moved.as_ref(), Some(self.there)),
            _ => joined(join, Some(self.there), moved.as_ref()),
        }
    }
}

/// The input that moves, if that costs less than `otherwise`, as a number of rows.
fn cheapest<'a>(
    join: &HashJoinExec,
    inputs: [&'a Placed; 2],
    moves: Moves,
    otherwise: f64,
) -> Option<Way<'a>> {
    // Whether there is a NULL anywhere is a question to all nodes.
    if !moves.by_cuts || join.null_aware {
        return None;
    }
    let [lefts, rights] = keys_of(join);
    let left = way(inputs[1], &rights, join.left(), &lefts, moves.partitions);
    let right = way(inputs[0], &lefts, join.right(), &rights, moves.partitions);
    let left = left.map(|way| (rows(join.left()), Way { side: JoinSide::Left, ..way }));
    let right = right.map(|way| (rows(join.right()), Way { side: JoinSide::Right, ..way }));
    let ways = left.into_iter().chain(right).filter(|(cost, _)| *cost < otherwise);
    ways.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, way)| way)
}

/// Whether a plan's tasks read the shards of all nodes.
fn is_at_all(plan: &Plan, nodes: usize) -> bool {
    let mut is_at_all = true;
    let walked = plan.apply(|node| {
        if let Some(scan) = node.downcast_ref::<ShardScan>().filter(|s| !s.is_replicated()) {
            is_at_all &= scan.slots().len() == nodes;
        }
        Ok(within_stage(node))
    });
    walked.is_ok() && is_at_all
}

/// How `input` would go to the nodes of another one, whose keys are `theirs`.
fn way<'a>(
    other: &'a Placed,
    theirs: &[Arc<dyn PhysicalExpr>],
    input: &Plan,
    keys: &[Arc<dyn PhysicalExpr>],
    partitions: usize,
) -> Option<Way<'a>> {
    let there = other.kept.as_ref()?;
    let nth = theirs.iter().position(|key| there.has(key))?;
    let column = keys.get(nth)?;
    let By { bounds, data_type, nodes } = &there.by;
    // Nodes that a condition has left out are not asked for this.
    if !is_at_all(&other.plan, *nodes) {
        return None;
    }
    let is_same = column.data_type(&input.schema()).is_ok_and(|own| own == *data_type);
    let places = Places { bounds: bounds.clone(), nodes: *nodes, partitions };
    let (column, keys) = (Arc::clone(column), keys.to_vec());
    is_same.then_some(Way { side: JoinSide::None, there, places, column, keys })
}

/// A plan whose rows are dealt out over the network.
fn shuffled(placed: Placed, keys: Vec<Arc<dyn PhysicalExpr>>) -> Result<Plan> {
    if !placed.is_local {
        return Ok(placed.plan);
    }
    let partitioning =
        Partitioning::Hash(keys, placed.plan.output_partitioning().partition_count());
    let input = match placed.plan.downcast_ref::<LocalShuffle>() {
        Some(local) => Arc::clone(local.input()),
        None => placed.plan,
    };
    Ok(Arc::new(RepartitionExec::try_new(input, partitioning)?))
}

/// A join that collects its left input: it is broadcast, unless its rows meet those of the right
/// input at each node, or one of both is sent to the nodes of the other.
fn collecting(plan: &Plan, join: &HashJoinExec, moves: Moves) -> Result<Placed> {
    let collect = join.left().downcast_ref::<CoalescePartitionsExec>();
    let collect = collect.filter(|collect| collect.fetch().is_none());
    let left = place(collect.map_or(join.left(), CoalescePartitionsExec::input), moves)?;
    let right = place(join.right(), moves)?;
    let partitions = moves.partitions;
    // What is above may count on how the right input is dealt out, and sorted: it stays so where
    // the scaffold is taken away for certain.
    let has_same = right.plan.output_partitioning().partition_count() == partitions;
    let is_free = (!right.is_local || has_same) && right.plan.output_ordering().is_none();
    if is_free && meet(join, left.kept.as_ref(), right.kept.as_ref()) {
        let inputs = together(&left.plan, &right.plan)?;
        let plan = with_scaffolds(join, inputs, partitions)?;
        let kept = joined(join, left.kept.as_ref(), right.kept.as_ref());
        return Ok(Placed { plan, kept, is_local: true });
    }
    if is_free && let Some(placed) = sent(join, [&left, &right], moves)? {
        return Ok(placed);
    }
    let left_plan = match collect {
        Some(_) => with_children(join.left(), vec![left.plan])?,
        None => left.plan,
    };
    // Equal keys of an inner join: the left column has what the right one has.
    let equal = right.kept.as_ref().and_then(|kept| {
        let pairs = join.on().iter().filter(|(_, r)| kept.has(r));
        let columns = pairs.filter_map(|(l, _)| column_index(l)).collect::<Vec<_>>();
        (!columns.is_empty()).then(|| Kept { by: kept.by.clone(), columns })
    });
    let stays = match join.join_type() {
        JoinType::Inner => joined(join, equal.as_ref(), right.kept.as_ref()),
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
            joined(join, None, right.kept.as_ref())
        }
        // The planner of stages makes these shuffle both sides.
        _ => None,
    };
    let kept = stays.filter(|_| !join.null_aware);
    let plan = with_children(plan, vec![left_plan, right.plan])?;
    Ok(Placed { plan, kept, is_local: right.is_local })
}

/// A join whose inputs come to the same nodes, until the plan is cut into stages; see
/// [`in_place`].
fn with_scaffolds(join: &HashJoinExec, inputs: Vec<Plan>, partitions: usize) -> Result<Plan> {
    let local = inputs.into_iter().zip(keys_of(join)).map(|(input, keys)| {
        // What comes over the network is dealt out already.
        if hash_keys(&input).is_some() {
            return Ok(input);
        }
        let partitioning = Partitioning::Hash(keys, partitions);
        Ok(Arc::new(LocalShuffle::scaffold(input, partitioning)?) as Plan)
    });
    let inputs = local.collect::<Result<Vec<_>>>()?;
    let made = join.builder().with_partition_mode(PartitionMode::Partitioned);
    made.with_new_children(inputs)?.build_exec()
}

/// A join that would broadcast its left input, one input of which is sent to the nodes of the
/// other, if that costs less.
fn sent(join: &HashJoinExec, inputs: [&Placed; 2], moves: Moves) -> Result<Option<Placed>> {
    let [left, right] = inputs;
    let Some(there) = left.kept.as_ref().or(right.kept.as_ref()) else { return Ok(None) };
    // Each node reads it itself.
    if is_everywhere(&left.plan)? {
        return Ok(None);
    }
    // Each node gets all rows, and puts them into a table.
    let broadcast = 2.0 * rows(join.left()) * (there.by.nodes as f64 - 1.0);
    let Some(way) = cheapest(join, inputs, moves, broadcast) else { return Ok(None) };
    let [moved, stays] = match way.side {
        JoinSide::Left => [left, right],
        _ => [right, left],
    };
    // What is above may count on how the rows of the right input are dealt out.
    let is_counted = matches!(right.plan.output_partitioning(), Partitioning::Hash(..));
    if way.side == JoinSide::Right && is_counted || stays.plan.output_ordering().is_some() {
        return Ok(None);
    }
    let Some(moved) = way.moved(&moved.plan)? else { return Ok(None) };
    let inputs = way.inputs(moved, Arc::clone(&stays.plan));
    let plan = with_scaffolds(join, inputs, moves.partitions)?;
    Ok(Some(Placed { plan, kept: way.kept(join), is_local: true }))
}

/// Two plans whose tasks read the shards of the same nodes.
fn together(left: &Plan, right: &Plan) -> Result<Vec<Plan>> {
    let mut slots = Vec::new();
    for plan in [left, right] {
        plan.apply(|node| {
            if let Some(scan) = node.downcast_ref::<ShardScan>().filter(|s| !s.is_replicated()) {
                slots.extend_from_slice(scan.slots());
            }
            Ok(within_stage(node))
        })?;
    }
    slots.sort_unstable();
    slots.dedup();
    [left, right].map(|plan| with_slots(plan, &slots)).into_iter().collect()
}

fn within_stage(node: &Plan) -> TreeNodeRecursion {
    let is_end = node.is::<RepartitionExec>() && hash_keys(node).is_some()
        || node.is::<CoalescePartitionsExec>()
        || node.is::<SortPreservingMergeExec>();
    if is_end { TreeNodeRecursion::Jump } else { TreeNodeRecursion::Continue }
}

fn hash_keys(node: &Plan) -> Option<&[Arc<dyn PhysicalExpr>]> {
    match node.downcast_ref::<RepartitionExec>()?.partitioning() {
        Partitioning::Hash(keys, _) => Some(keys),
        _ => None,
    }
}

fn with_slots(plan: &Plan, slots: &[usize]) -> Result<Plan> {
    let done = Arc::clone(plan).transform_down(|node| {
        if let Some(scan) = node.downcast_ref::<ShardScan>().filter(|s| !s.is_replicated()) {
            let scan: Plan = Arc::new(scan.with_slots(slots.to_vec()));
            return Ok(Transformed::yes(scan));
        }
        let recursion = within_stage(&node);
        Ok(Transformed::new(node, false, recursion))
    });
    Ok(done?.data)
}

/// The stages of a plan, with what each task can do with the rows of its own node: reading
/// replicated tables that joins would have broadcast, and collecting one side of a join.
pub fn in_place(plan: Plan) -> Result<Plan> {
    let done = plan.transform_up(|node| {
        let changed = match node.downcast_ref::<HashJoinExec>() {
            Some(join) => collected(join)?,
            None => read_here(&node)?,
        };
        Ok(changed.map_or_else(|| Transformed::no(node), Transformed::yes))
    });
    Ok(done?.data)
}

/// What a node reads itself instead of having it sent.
fn read_here(node: &Plan) -> Result<Option<Plan>> {
    let Some(boundary) = node.downcast_ref::<NetworkBroadcastExec>() else { return Ok(None) };
    let stage = boundary.input_stage().local_plan();
    let sent = stage.and_then(|plan| plan.downcast_ref::<BroadcastExec>());
    let sent = sent.and_then(|sent| sent.children().first().map(|plan| Arc::clone(plan)));
    Ok(match sent {
        Some(sent) if is_everywhere(&sent)? => Some(sent),
        _ => None,
    })
}

/// A join without its scaffolds, that collects its left side in each task.
fn collected(join: &HashJoinExec) -> Result<Option<Plan>> {
    let is_scaffold =
        |side: &Plan| side.downcast_ref::<LocalShuffle>().is_some_and(LocalShuffle::is_scaffold);
    let below = |side: &Plan| match side.downcast_ref::<LocalShuffle>() {
        Some(shuffle) if shuffle.is_scaffold() => Some(Arc::clone(shuffle.input())),
        _ => places_of(side).map(|_| Arc::clone(side)),
    };
    let (Some(left), Some(right)) = (below(join.left()), below(join.right())) else {
        return Ok(None);
    };
    if !is_scaffold(join.left()) && !is_scaffold(join.right()) {
        return Ok(None);
    }
    // The stages above count its partitions.
    let partitions = |plan: &Plan| plan.output_partitioning().partition_count();
    if partitions(&right) != partitions(join.right()) {
        return Ok(None);
    }
    let left: Plan = match partitions(&left) {
        1 => left,
        _ => Arc::new(CoalescePartitionsExec::new(left)),
    };
    let made = join.builder().with_partition_mode(PartitionMode::CollectLeft);
    Ok(Some(made.with_new_children(vec![left, right])?.build_exec()?))
}

/// Whether a plan gives the same rows at each node.
fn is_everywhere(plan: &Plan) -> Result<bool> {
    let mut is_everywhere = true;
    plan.apply(|node| {
        let is_whole = match node.downcast_ref::<ShardScan>() {
            Some(scan) => scan.is_replicated() && !scan.has_limit(),
            None => {
                node.is::<FilterExec>()
                    || node.is::<ProjectionExec>()
                    || node.is::<CooperativeExec>()
                    || node.is::<CoalescePartitionsExec>()
                    || node.is::<RepartitionExec>() && hash_keys(node).is_none()
                    || node.is::<BroadcastExec>()
                    || is_collecting(node)
            }
        };
        is_everywhere &= is_whole && node.fetch().is_none();
        node.apply_expressions(&mut |expr| {
            is_everywhere &= !is_volatile(expr);
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(if is_everywhere { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(is_everywhere)
}

fn is_collecting(node: &Plan) -> bool {
    let join = node.downcast_ref::<HashJoinExec>();
    join.is_some_and(|join| *join.partition_mode() == PartitionMode::CollectLeft)
}
