//! The order of inner joins by estimated cost: [`JoinOrder`].
//!
//! The query engine joins tables in the order of the text. This rule takes each tree of inner joins
//! apart into its relations and conditions and puts it together again in the order with the
//! smallest sum of intermediate results: exactly, over all connected bushy trees, for up to
//! [`MAX_EXACT`] relations (Moerkotte and Neumann's cost function C_out), greedily beyond that.
//! Cross products are only made when nothing else is left. Where tables lie on several machines,
//! the bytes that move count too ([`moves`](super::moves)).
//!
//! Rows and columns of the result stay the same; a projection on top restores the order of the
//! columns.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, JoinType, NullEquality, Result};
use datafusion::logical_expr::expr::BinaryExpr;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Expr, Join, JoinConstraint, LogicalPlan, LogicalPlanBuilder, Operator,
};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::optimize::estimate::{Estimate, estimate};
use crate::optimize::join_edges::{Edge, Edges, Set};
use crate::optimize::moves::{Moves, Place, Spreads};

/// Relations up to which all orders are looked at; 3^n steps.
const MAX_EXACT: usize = 10;
/// Relations beyond which the order of the text is kept.
const MAX_RELATIONS: usize = 40;

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct JoinOrder;

impl OptimizerRule for JoinOrder {
    fn name(&self) -> &str {
        "join_order"
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let options = config.options();
        let elsewhere =
            options.extensions.get::<Spreads>().map(|spreads| Elsewhere::new(spreads, &plan));
        reorder_joins(plan, elsewhere.transpose()?.as_ref())
    }
}

/// What is known of a statement whose tables lie on several machines.
struct Elsewhere<'a> {
    spreads: &'a Spreads,
    /// The columns that come out, or that something else than a filter of one table names.
    used: HashSet<Column>,
}

impl<'a> Elsewhere<'a> {
    fn new(spreads: &'a Spreads, plan: &LogicalPlan) -> Result<Self> {
        let mut used = plan.schema().columns().into_iter().collect::<HashSet<_>>();
        plan.apply_with_subqueries(|node| {
            if !matches!(node, LogicalPlan::TableScan(_) | LogicalPlan::Filter(_)) {
                node.apply_expressions(|expr| {
                    used.extend(expr.column_refs().into_iter().cloned());
                    Ok(TreeNodeRecursion::Continue)
                })?;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(Self { spreads, used })
    }
}

fn reorder_joins(
    plan: LogicalPlan,
    elsewhere: Option<&Elsewhere<'_>>,
) -> Result<Transformed<LogicalPlan>> {
    plan.transform_down_with_subqueries(|node| {
        let Transformed { data: node, transformed: restricted, .. } = restrict_below(node);
        count_groups(&node);
        if !is_inner(&node) {
            return Ok(Transformed::no(node));
        }
        let mut graph = Graph::default();
        let wanted = node.schema().columns();
        graph.take_apart(node.clone());
        // What is below the relations is looked at on its own.
        let mut changed = restricted;
        for relation in &mut graph.relations {
            let inner = reorder_joins(relation.clone(), elsewhere)?;
            changed |= inner.transformed;
            *relation = inner.data;
        }
        let reordered = match graph.relations.len() {
            0..=2 => None,
            n if n > MAX_RELATIONS => None,
            _ => graph.reorder(&wanted, elsewhere)?,
        };
        let data = match reordered {
            Some(plan) => {
                return Ok(Transformed::new(plan, true, TreeNodeRecursion::Jump));
            }
            None if changed => graph.restore(node)?,
            None => node,
        };
        Ok(Transformed::new(data, changed, TreeNodeRecursion::Jump))
    })
}

/// Has the groups on either side of a join counted. The columns' numbers of values are remembered:
/// the engine finds them among the statistics when it chooses the side that it builds a table of.
fn count_groups(plan: &LogicalPlan) {
    let LogicalPlan::Join(join) = plan else { return };
    for side in [&join.left, &join.right] {
        if has_groups(side) {
            estimate(side);
        }
    }
}

/// Whether rows of groups come out of a plan.
fn has_groups(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => !aggregate.group_expr.is_empty(),
        LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::SubqueryAlias(_) => {
            plan.inputs().into_iter().any(has_groups)
        }
        _ => false,
    }
}

fn is_inner(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Join(join) if is_inner_join(join))
}

fn is_inner_join(join: &Join) -> bool {
    join.join_type == JoinType::Inner && join.null_equality == NullEquality::NullEqualsNothing
}

/// A semi or anti join above inner joins restricts one of their relations: then it is done there,
/// before the others multiply its rows.
fn restrict_below(plan: LogicalPlan) -> Transformed<LogicalPlan> {
    let LogicalPlan::Join(join) = plan else { return Transformed::no(plan) };
    let restricts = matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti);
    let below = match join.left.as_ref() {
        LogicalPlan::Join(below) if restricts && !join.null_aware && is_inner_join(below) => below,
        _ => return Transformed::no(LogicalPlan::Join(join)),
    };
    let mut used = HashSet::new();
    join.on.iter().for_each(|(left, _)| used.extend(left.column_refs()));
    for column in join.filter.iter().flat_map(|filter| filter.column_refs()) {
        if !join.right.schema().has_column(column) {
            used.insert(column);
        }
    }
    let owns = |side: &LogicalPlan| used.iter().all(|column| side.schema().has_column(column));
    let (left, right) = (owns(&below.left), owns(&below.right));
    if used.is_empty() || left == right {
        return Transformed::no(LogicalPlan::Join(join));
    }
    // Where the other joins leave little, it is done last: then it looks at little.
    if estimate(&join.left).rows < 0.5 * estimate(owner(&join.left, &used)).rows {
        return Transformed::no(LogicalPlan::Join(join));
    }
    let restrict = |side: &Arc<LogicalPlan>| {
        let mut moved = join.clone();
        moved.left = Arc::clone(side);
        moved.schema = Arc::clone(side.schema());
        Arc::new(restrict_below(LogicalPlan::Join(moved)).data)
    };
    let mut below = below.clone();
    if left {
        below.left = restrict(&below.left);
    } else {
        below.right = restrict(&below.right);
    }
    Transformed::yes(LogicalPlan::Join(below))
}

/// The relation of a tree of inner joins that has all of these columns, or the smallest tree.
fn owner<'a>(plan: &'a LogicalPlan, columns: &HashSet<&Column>) -> &'a LogicalPlan {
    let LogicalPlan::Join(join) = plan else { return plan };
    let owns = |side: &LogicalPlan| columns.iter().all(|c| side.schema().has_column(c));
    match is_inner_join(join) {
        true if owns(&join.left) => owner(&join.left, columns),
        true if owns(&join.right) => owner(&join.right, columns),
        _ => plan,
    }
}

/// Relations and the conditions between them.
#[derive(Default)]
struct Graph {
    relations: Vec<LogicalPlan>,
    equal: Vec<(Expr, Expr)>,
    others: Vec<Expr>,
    /// How the joins of the tree as it is divide the relations.
    splits: HashMap<Set, (Set, Set)>,
}

/// The best way found to join a set of relations.
#[derive(Clone, Copy)]
struct Best {
    cost: f64,
    rows: f64,
    /// The two parts; the first is the smaller. None for a single relation.
    parts: Option<(Set, Set)>,
    /// Where the rows are, if on several machines.
    place: Place,
}

impl Graph {
    /// Collects relations and conditions; the relations below `plan`.
    fn take_apart(&mut self, plan: LogicalPlan) -> Set {
        match plan {
            LogicalPlan::Join(join) if is_inner_join(&join) => {
                let left = self.take_apart(Arc::unwrap_or_clone(join.left));
                let right = self.take_apart(Arc::unwrap_or_clone(join.right));
                self.equal.extend(join.on);
                self.others.extend(join.filter.into_iter().flat_map(split_conjunction_owned));
                self.splits.insert(left | right, (left, right));
                left | right
            }
            other => {
                let bit = self.relations.len() as u32;
                self.relations.push(other);
                // Trees with more relations than bits are given up before the sets are used.
                1u64.checked_shl(bit).unwrap_or(0)
            }
        }
    }

    /// The original tree with the relations as they are now.
    fn restore(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        fn put_back(
            plan: LogicalPlan,
            relations: &mut impl Iterator<Item = LogicalPlan>,
        ) -> Result<LogicalPlan> {
            match plan {
                LogicalPlan::Join(mut join) if is_inner_join(&join) => {
                    let left = put_back(Arc::unwrap_or_clone(join.left), relations)?;
                    let right = put_back(Arc::unwrap_or_clone(join.right), relations)?;
                    join.left = Arc::new(left);
                    join.right = Arc::new(right);
                    Ok(LogicalPlan::Join(join))
                }
                other => Ok(relations.next().unwrap_or(other)),
            }
        }
        put_back(plan, &mut self.relations.clone().into_iter())
    }

    /// The relations an expression refers to; `None` when a column is of none or of several.
    fn relations_of(&self, expr: &Expr, schemas: &[Arc<DFSchema>]) -> Option<Set> {
        let mut set = 0;
        for column in expr.column_refs() {
            let mut owners = schemas.iter().enumerate().filter(|(_, s)| s.has_column(column));
            let (owner, _) = owners.next()?;
            if owners.next().is_some() {
                return None;
            }
            set |= 1 << owner;
        }
        Some(set)
    }

    /// All equalities between two sides that share no relation, also those among the other
    /// conditions, and what is left of these.
    fn equalities(&self, schemas: &[Arc<DFSchema>]) -> (Vec<(Expr, Expr)>, Vec<Expr>) {
        let (mut equal, mut rest) = (self.equal.clone(), Vec::new());
        for condition in &self.others {
            if let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition
                && let Some(l) = self.relations_of(left, schemas)
                && let Some(r) = self.relations_of(right, schemas)
                && l != 0
                && r != 0
                && l & r == 0
            {
                equal.push((left.as_ref().clone(), right.as_ref().clone()));
            } else {
                rest.push(condition.clone());
            }
        }
        (equal, rest)
    }

    fn reorder(
        &self,
        wanted: &[Column],
        elsewhere: Option<&Elsewhere<'_>>,
    ) -> Result<Option<LogicalPlan>> {
        let schemas = self.relations.iter().map(|r| Arc::clone(r.schema())).collect::<Vec<_>>();
        let distinct_columns = wanted.iter().collect::<HashSet<_>>().len() == wanted.len();
        if !distinct_columns {
            return Ok(None);
        }
        let estimates = self.relations.iter().map(estimate).collect::<Vec<_>>();
        let mut edges = Vec::new();
        let (equal, rest) = self.equalities(&schemas);
        for (left, right) in &equal {
            let sides = (self.relations_of(left, &schemas), self.relations_of(right, &schemas));
            let (Some(l), Some(r)) = sides else { return Ok(None) };
            if l == 0 || r == 0 || l & r != 0 {
                return Ok(None);
            }
            let distinct = [distinct_of(&estimates, l, left), distinct_of(&estimates, r, right)];
            edges.push(Edge::new([(l, left.clone()), (r, right.clone())], distinct));
        }
        let edges = Edges::new(edges);
        let mut others = Vec::new();
        for condition in &rest {
            let Some(set) = self.relations_of(condition, &schemas) else { return Ok(None) };
            others.push((set, condition.clone()));
        }
        let moves = elsewhere.and_then(|elsewhere| {
            let is_used = |column: &Column| elsewhere.used.contains(column);
            Moves::new(elsewhere.spreads, &self.relations, &edges, is_used)
        });
        let search = Search { estimates: &estimates, edges: &edges, others: &others, moves };
        let Some(best) = search.run() else { return Ok(None) };
        let all = (1 << self.relations.len()) - 1;
        if is_same(&best, &self.splits, all) {
            return Ok(None);
        }
        let mut builder = Builder { graph: self, edges: &edges, others: &others, best: &best };
        let joined = builder.build(all)?;
        let columns = wanted.iter().map(|c| Expr::Column(c.clone()));
        Ok(Some(LogicalPlanBuilder::from(joined).project(columns)?.build()?))
    }
}

/// Whether the tree found divides `set` as the tree there is does.
fn is_same(best: &HashMap<Set, Best>, splits: &HashMap<Set, (Set, Set)>, set: Set) -> bool {
    let found = best.get(&set).and_then(|b| b.parts);
    match (found, splits.get(&set)) {
        (None, None) => true,
        (Some((a, b)), Some(&(c, d))) if (a, b) == (c, d) || (a, b) == (d, c) => {
            is_same(best, splits, a) && is_same(best, splits, b)
        }
        _ => false,
    }
}

fn distinct_of(estimates: &[Estimate], set: Set, expr: &Expr) -> f64 {
    let index = set.trailing_zeros() as usize;
    match set.count_ones() {
        1 => estimates[index].distinct_keys(expr),
        _ => f64::from(u32::MAX),
    }
}

struct Search<'a> {
    estimates: &'a [Estimate],
    edges: &'a Edges,
    others: &'a [(Set, Expr)],
    moves: Option<Moves>,
}

impl Search<'_> {
    /// The best trees for all sets that were looked at, the whole among them.
    fn run(&self) -> Option<HashMap<Set, Best>> {
        let mut best = HashMap::new();
        for (index, estimate) in self.estimates.iter().enumerate() {
            let place = self.moves.as_ref().map_or(Place::Everywhere, |moves| moves.place(index));
            let alone = Best { cost: 0.0, rows: estimate.rows, parts: None, place };
            best.insert(1 << index, alone);
        }
        if self.estimates.len() <= MAX_EXACT {
            self.exact(&mut best);
        } else {
            self.greedy(&mut best);
        }
        let all = (1 << self.estimates.len()) - 1;
        best.contains_key(&all).then_some(best)
    }

    /// Rows of the join of a whole set: independent of the order its parts are joined in.
    fn rows(&self, set: Set) -> f64 {
        let mut rows = 1.0;
        for (index, estimate) in self.estimates.iter().enumerate() {
            if set & (1 << index) != 0 {
                rows *= estimate.rows;
            }
        }
        rows *= self.share(set);
        for (relations, _) in self.others {
            if relations & set == *relations {
                rows *= 0.4;
            }
        }
        rows.max(1.0)
    }

    /// Share of the pairs inside a set that the equalities let through. Several between the same
    /// two relations are a key of several columns: as sharp as that key has values, and not the
    /// product of its parts.
    fn share(&self, set: Set) -> f64 {
        let mut between = HashMap::<(Set, Set), Vec<[f64; 2]>>::new();
        for edge in self.edges.independent(set) {
            let ([(l, _), (r, _)], [a, b]) = (&edge.sides, edge.distinct);
            let (pair, distinct) = if l < r { ((*l, *r), [a, b]) } else { ((*r, *l), [b, a]) };
            between.entry(pair).or_default().push(distinct);
        }
        let rows = |relations: Set| match relations.count_ones() {
            1 => self.estimates[relations.trailing_zeros() as usize].rows,
            _ => f64::INFINITY,
        };
        let share = between.iter().map(|((l, r), edges)| {
            let sharpest = edges.iter().map(|[a, b]| 1.0 / a.max(*b).max(1.0)).fold(1.0, f64::min);
            if edges.len() == 1 {
                return sharpest;
            }
            let values = |side: usize| edges.iter().map(|e| e[side]).product::<f64>();
            let key = values(0).min(rows(*l)).min(values(1).min(rows(*r)));
            sharpest.min(1.0 / key.max(1.0))
        });
        share.product()
    }

    fn connected(&self, a: Set, b: Set) -> bool {
        self.edges.iter().any(|edge| {
            let [(l, _), (r, _)] = &edge.sides;
            (l & a == *l && r & b == *r) || (l & b == *l && r & a == *r)
        })
    }

    /// What joining two parts costs beyond the parts themselves: the rows that come out, those put
    /// into the hash table, which are dearer than those that look up, and what moves.
    fn joined(&self, a: Set, b: Set, best: &HashMap<Set, Best>, rows: f64) -> Option<Best> {
        let (left, right) = (best.get(&a)?, best.get(&b)?);
        let (small, large) = if left.rows <= right.rows { (a, b) } else { (b, a) };
        let build = left.rows.min(right.rows);
        let probe = left.rows.max(right.rows);
        let (moved, place) = match &self.moves {
            None => (0.0, Place::Everywhere),
            Some(moves) => moves.join([(a, left.place, left.rows), (b, right.place, right.rows)]),
        };
        let cost = left.cost + right.cost + rows + 2.0 * build + 0.5 * probe + moved;
        Some(Best { cost, rows, parts: Some((small, large)), place })
    }

    fn exact(&self, best: &mut HashMap<Set, Best>) {
        let all: Set = (1 << self.estimates.len()) - 1;
        for set in 1..=all {
            if set.count_ones() < 2 {
                continue;
            }
            let rows = self.rows(set);
            let mut found: Option<Best> = None;
            // Each split once: the part with the lowest relation first.
            let lowest = set & set.wrapping_neg();
            let mut part = (set - 1) & set;
            while part != 0 {
                let rest = set & !part;
                if part & lowest != 0 && self.connected(part, rest) {
                    let candidate = self.joined(part, rest, best, rows);
                    found = cheaper(found, candidate);
                }
                part = (part - 1) & set;
            }
            if let Some(found) = found {
                best.insert(set, found);
            }
        }
        if !best.contains_key(&all) {
            self.cross(best);
        }
    }

    fn greedy(&self, best: &mut HashMap<Set, Best>) {
        let mut parts = (0..self.estimates.len()).map(|i| 1 << i).collect::<Vec<Set>>();
        while parts.len() > 1 {
            let mut found: Option<(Best, usize, usize)> = None;
            for i in 0..parts.len() {
                for j in i + 1..parts.len() {
                    if !self.connected(parts[i], parts[j]) {
                        continue;
                    }
                    let rows = self.rows(parts[i] | parts[j]);
                    let Some(joined) = self.joined(parts[i], parts[j], best, rows) else {
                        continue;
                    };
                    if found.is_none_or(|(b, _, _)| joined.rows < b.rows) {
                        found = Some((joined, i, j));
                    }
                }
            }
            let Some((joined, i, j)) = found else { return self.cross(best) };
            let other = parts.swap_remove(j);
            parts[i] |= other;
            best.insert(parts[i], joined);
        }
    }

    /// Joins what no condition connects, smallest first.
    fn cross(&self, best: &mut HashMap<Set, Best>) {
        let all: Set = (1 << self.estimates.len()) - 1;
        let mut rest = all;
        let mut parts = Vec::new();
        while rest != 0 {
            // The largest connected part with the lowest relation left in it.
            let lowest = rest & rest.wrapping_neg();
            let candidates = best.keys().filter(|s| **s & lowest != 0 && **s & !rest == 0);
            let Some(part) = candidates.max_by_key(|s| s.count_ones()).copied() else { return };
            parts.push(part);
            rest &= !part;
        }
        let size = |set: &Set| best.get(set).map_or(0.0, |b| b.rows);
        parts.sort_by(|a, b| size(a).total_cmp(&size(b)));
        let mut parts = parts.into_iter();
        let Some(mut done) = parts.next() else { return };
        for part in parts {
            let rows = self.rows(done | part);
            let Some(joined) = self.joined(done, part, best, rows) else { return };
            done |= part;
            best.insert(done, joined);
        }
    }
}

fn cheaper(a: Option<Best>, b: Option<Best>) -> Option<Best> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if b.cost < a.cost { b } else { a }),
        (a, b) => a.or(b),
    }
}

/// Puts the joins together.
struct Builder<'a> {
    graph: &'a Graph,
    edges: &'a Edges,
    others: &'a [(Set, Expr)],
    best: &'a HashMap<Set, Best>,
}

impl Builder<'_> {
    fn build(&mut self, set: Set) -> Result<LogicalPlan> {
        let best = self.best.get(&set).copied();
        let Some(Best { parts: Some((small, large)), .. }) = best else {
            return Ok(self.graph.relations[set.trailing_zeros() as usize].clone());
        };
        let left = self.build(small)?;
        let right = self.build(large)?;
        let mut on = Vec::new();
        // Equalities that become complete here, but not between the two parts (of three relations).
        let mut filters = Vec::new();
        let mut compared = HashSet::new();
        for edge in self.edges.iter() {
            let [(l, a), (r, b)] = &edge.sides;
            let within = |part: Set| edge.relations() & part == edge.relations();
            if !within(set) || within(small) || within(large) {
                continue;
            }
            if edge.class.is_some_and(|class| !compared.insert(class)) {
                continue;
            }
            if l & small == *l && r & large == *r {
                on.push((a.clone(), b.clone()));
            } else if l & large == *l && r & small == *r {
                on.push((b.clone(), a.clone()));
            } else {
                filters.push(a.clone().eq(b.clone()));
            }
        }
        for (relations, condition) in self.others {
            let complete = relations & set == *relations;
            let earlier = |part: Set| relations & part == *relations && part.count_ones() > 1;
            if complete && !earlier(small) && !earlier(large) {
                filters.push(condition.clone());
            }
        }
        let join = Join::try_new(
            Arc::new(left),
            Arc::new(right),
            on,
            conjunction(filters),
            JoinType::Inner,
            JoinConstraint::On,
            NullEquality::NullEqualsNothing,
            false,
        )?;
        Ok(LogicalPlan::Join(join))
    }
}
