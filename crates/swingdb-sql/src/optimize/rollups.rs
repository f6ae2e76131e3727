//! Grouping sets each of which is part of the one before: [`level_by_level`].
//!
//! `GROUP BY ROLLUP (a, b, c)` needs the groups by `a, b, c`, by `a, b`, by `a`, and all rows. Each
//! set is computed from the groups of the finer one before it, whose rows are kept until both that
//! set and the result have read them. So a row is looked up once, and not once for each set. (J.
//! Gray et al., "Data Cube: A Relational Aggregation Operator", ICDE 1996, section 5; S. Agarwal et
//! al., "On the Computation of Multidimensional Aggregates", VLDB 1996.)

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::TransformedResult;
use datafusion::common::{Column, DFSchema, ExprSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::GroupingSet;
use datafusion::logical_expr::{
    Aggregate, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, cast, lit,
};

use crate::nodes::expressions::any_node;
use crate::optimize::aggregate_rewrite::{TwoSteps, is_grouped, replace_aggregate};
use crate::optimize::estimate::estimate;
use crate::optimize::grouping_sets::sets_of;
use crate::plan::materialized_parts::shared;

/// Sets that there are at least.
const MIN_SETS: usize = 3;
/// Rows that there are at least: to plan and to start so many operators takes as long as some
/// thousand rows.
const MIN_ROWS: f64 = 100_000.0;
/// What the number of a set is called while the levels are put together.
const SET: &str = "__set";

/// An optimized plan in which each such set of many rows is computed from the one before it.
pub(crate) fn level_by_level(plan: LogicalPlan) -> Result<LogicalPlan> {
    let has_sets = |node: &LogicalPlan| match node {
        LogicalPlan::Aggregate(node) => matches!(node.group_expr[..], [Expr::GroupingSet(_)]),
        _ => false,
    };
    if !any_node(&plan, has_sets)? {
        return Ok(plan);
    }
    plan.transform_up_with_subqueries(|node| replace_aggregate(node, in_levels)).data()
}

fn in_levels(aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    let Some((sets, keys)) = sets_of(aggregate)? else { return Ok(None) };
    let Some(levels) = levels(sets, &keys) else { return Ok(None) };
    if is_grouped(&aggregate.input) || estimate(&aggregate.input).rows < MIN_ROWS {
        return Ok(None);
    }
    let Some(steps) = TwoSteps::of(aggregate)? else { return Ok(None) };
    by_levels(aggregate, &keys, &levels, steps)
}

/// The keys of each set, by their numbers, the finest set first; `None` where one is not part of
/// the one before it.
fn levels(sets: &GroupingSet, keys: &[Expr]) -> Option<Vec<BTreeSet<usize>>> {
    let number = |key: &Expr| keys.iter().position(|it| it == key);
    let level = |set: &[Expr]| set.iter().map(number).collect::<Option<BTreeSet<_>>>();
    let levels: Option<Vec<_>> = match sets {
        GroupingSet::Rollup(all) => (0..=all.len()).map(|end| level(&all[..end])).collect(),
        GroupingSet::GroupingSets(all) => all.iter().map(|set| level(set)).collect(),
        GroupingSet::Cube(_) => None,
    };
    let mut levels = levels?;
    levels.sort_by_key(|level| Reverse(level.len()));
    let is_part =
        |pair: &[BTreeSet<usize>]| pair[1].len() < pair[0].len() && pair[1].is_subset(&pair[0]);
    let is_chain = levels.windows(2).all(is_part) && levels.first()?.len() == keys.len();
    (is_chain && levels.len() >= MIN_SETS).then_some(levels)
}

/// The rows of an aggregate, computed level by level; `None` where what it reads cannot be kept.
fn by_levels(
    aggregate: &Aggregate,
    keys: &[Expr],
    levels: &[BTreeSet<usize>],
    steps: TwoSteps,
) -> Result<Option<LogicalPlan>> {
    let TwoSteps { first, second, together } = steps;
    let finest = LogicalPlanBuilder::from(Arc::clone(&aggregate.input));
    let finest = finest.aggregate(keys.to_vec(), first)?.build()?;
    let schema = Arc::clone(finest.schema());
    let columns = schema.columns();
    let (keys, parts) = columns.split_at(keys.len());
    let rollup = Rollup { finest: &schema, keys, parts, second: &second };
    let (mut values, mut rows, mut groups) = (parts.to_vec(), None, finest);
    for (nth, level) in levels.iter().enumerate() {
        if nth > 0 {
            groups = rollup.coarser(groups, level, &values)?;
            values = groups.schema().columns().split_off(level.len());
        }
        if nth + 1 < levels.len() {
            let Some(kept) = shared(groups) else { return Ok(None) };
            groups = kept;
        }
        let shown = rollup.shown(groups.clone(), level, &values)?;
        rows = Some(match rows {
            None => LogicalPlanBuilder::from(shown),
            Some(rows) => LogicalPlanBuilder::union(rows, shown)?,
        });
    }
    rows.map(|rows| rollup.named(rows, aggregate, together)).transpose()
}

/// How the levels are made.
struct Rollup<'a> {
    /// The columns of the finest groups.
    finest: &'a DFSchema,
    /// Those that are keys.
    keys: &'a [Column],
    /// Those that the first step computes.
    parts: &'a [Column],
    /// The aggregates of the second step, of these parts.
    second: &'a [Expr],
}

impl Rollup<'_> {
    /// The groups by some of the keys, of finer groups and their values.
    fn coarser(
        &self,
        finer: LogicalPlan,
        level: &BTreeSet<usize>,
        values: &[Column],
    ) -> Result<LogicalPlan> {
        let keys: Vec<Expr> = level.iter().map(|&n| Expr::Column(self.keys[n].clone())).collect();
        let mut list = keys.clone();
        for (part, value) in self.parts.iter().zip(values) {
            let of = self.finest.field_from_column(part)?.data_type().clone();
            list.push(cast(Expr::Column(value.clone()), of).alias(&part.name));
        }
        let finer = LogicalPlanBuilder::from(finer).project(list)?;
        finer.aggregate(keys, self.second.to_vec())?.build()
    }

    /// The groups of a level as rows of the result: all keys, NULL for those of other levels, the
    /// number of the set, and the values.
    fn shown(
        &self,
        groups: LogicalPlan,
        level: &BTreeSet<usize>,
        values: &[Column],
    ) -> Result<LogicalPlan> {
        let mut list = Vec::new();
        let mut set = 0_u64;
        for (n, key) in self.keys.iter().enumerate() {
            let is_there = level.contains(&n);
            set = set << 1 | u64::from(!is_there);
            let field = self.finest.field_from_column(key)?;
            let value = match is_there {
                true => Expr::Column(key.clone()),
                false => {
                    let null = ScalarValue::try_new_null(field.data_type())?;
                    Expr::Literal(null, Some(FieldMetadata::from(field.as_ref())))
                }
            };
            list.push(value.alias(key_name(n)));
        }
        list.push(lit(set).alias(SET));
        for (value, second) in values.iter().zip(self.second) {
            let of = second.get_type(self.finest)?;
            let name = second.schema_name().to_string();
            list.push(cast(Expr::Column(value.clone()), of).alias(name));
        }
        LogicalPlanBuilder::from(groups).project(list)?.build()
    }

    /// The rows with the names and types of the aggregate.
    fn named(
        &self,
        rows: LogicalPlanBuilder,
        aggregate: &Aggregate,
        together: Vec<Expr>,
    ) -> Result<LogicalPlan> {
        let keys = (0..self.keys.len()).map(key_name).chain([SET.to_string()]);
        let keys = keys.map(|name| Expr::Column(Column::from_name(name)));
        let mut list = Vec::new();
        for (value, (relation, field)) in keys.chain(together).zip(aggregate.schema.iter()) {
            let typed = value.cast_to(field.data_type(), rows.schema())?;
            list.push(typed.alias_qualified(relation.cloned(), field.name()));
        }
        rows.project(list)?.build()
    }
}

/// What a key is called while the levels are put together.
fn key_name(number: usize) -> String {
    format!("__key_{number}")
}
