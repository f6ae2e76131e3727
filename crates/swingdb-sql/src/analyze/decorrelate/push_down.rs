//! Pushing the domain down through a subquery.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, JoinConstraint, NullEquality, Result, ScalarValue, not_impl_err};
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::{FieldMetadata, WindowFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{FetchType, SkipType};
use datafusion::logical_expr::{
    Aggregate, Distinct, DistinctOn, EmptyRelation, Expr, ExprFunctionExt, Filter, GroupingSet,
    Join, JoinType, Limit, LogicalPlan, LogicalPlanBuilder, Operator, Projection, Sort, SortExpr,
    Subquery, SubqueryAlias, Union, Unnest, Values, Window, binary_expr, cast, lit, when,
};

use crate::analyze::decorrelate::attach::{Domain, relation};
use crate::analyze::decorrelate::outer_references::{Stand, mentions, refers};
use crate::nodes::materialize;
use crate::nodes::materialize::PartId;
use crate::plan::materialized_parts;

/// A subquery for all rows of the domain at once.
pub(crate) struct Dependent {
    /// Has all columns of the subquery, by the same names, and the keys.
    pub plan: LogicalPlan,
    /// The columns with the values that a row is for, in the order of the domain's.
    pub keys: Vec<Column>,
}

impl Dependent {
    fn keys(&self) -> impl Iterator<Item = Expr> {
        self.keys.iter().cloned().map(Expr::Column)
    }

    /// The columns of the subquery as `plan` has them, and the keys.
    fn only(self, plan: &LogicalPlan) -> Result<Self> {
        let columns = plan.schema().columns().into_iter().map(Expr::Column);
        let columns = columns.chain(self.keys()).collect();
        let plan = Projection::try_new(columns, Arc::new(self.plan))?;
        Ok(Self { plan: LogicalPlan::Projection(plan), keys: self.keys })
    }
}

impl Domain {
    /// A subquery, or a part of one, for all rows of the domain.
    pub fn push(&self, plan: &LogicalPlan) -> Result<Dependent> {
        if !refers(plan, &self.outer)? {
            return self.beside(plan);
        }
        match plan {
            LogicalPlan::Projection(node) => self.of_projection(node),
            LogicalPlan::Filter(node) => self.of_filter(node),
            LogicalPlan::SubqueryAlias(node) => self.of_alias(node),
            LogicalPlan::Aggregate(node) => match groups_of_all(&node.group_expr) {
                0 => self.of_aggregate(node),
                _ => self.of_all_rows(node),
            },
            LogicalPlan::Distinct(Distinct::All(input)) => self.of_distinct(input),
            LogicalPlan::Distinct(Distinct::On(node)) => self.of_distinct_on(node),
            LogicalPlan::Sort(node) => self.of_sort(node),
            LogicalPlan::Limit(node) => self.of_limit(node),
            LogicalPlan::Window(node) => self.of_window(node),
            LogicalPlan::Join(node) => self.of_join(node),
            LogicalPlan::Union(node) => self.of_union(node),
            LogicalPlan::Unnest(node) => self.of_unnest(node),
            LogicalPlan::Values(node) => self.of_values(node),
            LogicalPlan::Subquery(Subquery { subquery, .. }) => self.push(subquery),
            LogicalPlan::Extension(_) if let Some((part, input)) = materialize::part_of(plan) => {
                self.part(part, input)
            }
            other => not_impl_err!(
                "{} that refers to rows outside the subquery it is in; write a join",
                other.display()
            ),
        }
    }

    /// What is computed once stays that, though it may stand on both sides of a join.
    fn part(&self, part: PartId, input: &Arc<LogicalPlan>) -> Result<Dependent> {
        let known = self.parts.borrow().get(&part).cloned();
        let (plan, keys) = match known {
            Some(known) => known,
            None => {
                let pushed = self.push(input)?.only(input)?;
                let Some(plan) = materialized_parts::shared(pushed.plan) else {
                    return not_impl_err!("a subquery beside the rows of a recursive query");
                };
                self.parts.borrow_mut().insert(part, (plan.clone(), pushed.keys.clone()));
                (plan, pushed.keys)
            }
        };
        let names = self.names();
        let renamed = keys.into_iter().zip(&names).map(|(key, name)| {
            Expr::Column(key).alias_qualified(name.relation.clone(), name.name())
        });
        let columns = input.schema().columns().into_iter().map(Expr::Column).chain(renamed);
        let plan = Projection::try_new(columns.collect(), Arc::new(plan))?;
        Ok(Dependent { plan: LogicalPlan::Projection(plan), keys: names })
    }

    fn stand<'a>(&'a self, keys: &'a [Column]) -> Stand<'a> {
        Stand { outer: &self.outer, keys }
    }

    /// What refers to nothing outside goes with every row of the domain.
    fn beside(&self, plan: &LogicalPlan) -> Result<Dependent> {
        let (domain, keys) = self.rows()?;
        let plan = match plan {
            LogicalPlan::EmptyRelation(empty) if empty.produce_one_row => domain,
            other => LogicalPlanBuilder::from(domain).cross_join(other.clone())?.build()?,
        };
        Ok(Dependent { plan, keys })
    }

    fn of_projection(&self, node: &Projection) -> Result<Dependent> {
        let input = self.push(&node.input)?;
        let mut columns = self.stand(&input.keys).named(&node.expr)?;
        columns.extend(input.keys());
        let plan = Projection::try_new(columns, Arc::new(input.plan))?;
        Ok(Dependent { plan: LogicalPlan::Projection(plan), keys: input.keys })
    }

    fn of_filter(&self, node: &Filter) -> Result<Dependent> {
        let input = self.push(&node.input)?;
        let condition = self.stand(&input.keys).expr(node.predicate.clone())?;
        let plan = Filter::try_new(condition, Arc::new(input.plan))?;
        Ok(Dependent { plan: LogicalPlan::Filter(plan), keys: input.keys })
    }

    /// The columns get the alias, the keys stay what they are.
    fn of_alias(&self, node: &SubqueryAlias) -> Result<Dependent> {
        let input = self.push(&node.input)?;
        let inside = node.input.schema().columns().into_iter();
        let renamed = inside.zip(node.schema.iter()).map(|(column, (relation, field))| {
            Expr::Column(column).alias_qualified(relation.cloned(), field.name())
        });
        let columns = renamed.chain(input.keys()).collect();
        let plan = Projection::try_new(columns, Arc::new(input.plan))?;
        Ok(Dependent { plan: LogicalPlan::Projection(plan), keys: input.keys })
    }

    fn of_aggregate(&self, node: &Aggregate) -> Result<Dependent> {
        let input = self.push(&node.input)?;
        let stand = self.stand(&input.keys);
        let groups = input.keys().chain(stand.named(&node.group_expr)?).collect();
        let aggregates = stand.named(&node.aggr_expr)?;
        let plan = Aggregate::try_new(Arc::new(input.plan), groups, aggregates)?;
        Ok(Dependent { plan: LogicalPlan::Aggregate(plan), keys: input.keys })
    }

    /// An aggregate of all rows is one row also where there are none, be it one of several grouping
    /// sets, and as many rows as there are such sets: beside the groups that there are goes what it
    /// gives of no rows, for those rows of the domain that have none.
    fn of_all_rows(&self, node: &Aggregate) -> Result<Dependent> {
        let input = self.push(&node.input)?;
        let groups: Vec<Expr> = input.keys().collect();
        let stand = self.stand(&input.keys);
        let named = stand.named(&node.aggr_expr)?;
        let all = groups.iter().cloned().chain(stand.named(&node.group_expr)?).collect();
        let there = Aggregate::try_new(Arc::new(input.plan), all, named)?;
        let mark = Column::new(Some(relation("groups")), "mark");
        let marked = lit(true).alias_qualified(mark.relation.clone(), mark.name());
        let aggregates = node.schema.columns();
        let columns = aggregates.iter().cloned().map(Expr::Column);
        let columns = columns.chain(groups.iter().cloned()).chain([marked]).collect();
        let there = Arc::new(LogicalPlan::Aggregate(there));
        let there = LogicalPlan::Projection(Projection::try_new(columns, there)?);

        let (none, defaults) = self.of_no_rows(node)?;
        let (domain, keys) = self.rows()?;
        let pairs = keys.iter().cloned().map(Expr::Column).zip(groups).collect();
        let is_one = groups_of_all(&node.group_expr) == 1;
        let (beside, none) = match is_one {
            true => (LogicalPlanBuilder::from(domain).cross_join(none)?.build()?, None),
            false => (domain, Some(none)),
        };
        let joined = left_join(beside, there, pairs, None)?;
        // Several rows of no rows must not go beside each group.
        let joined = match none {
            None => joined,
            Some(none) => {
                let missing = Expr::Column(mark.clone()).is_null();
                left_join(joined, none, Vec::new(), Some(missing))?
            }
        };
        let values = aggregates.into_iter().zip(defaults).map(|(group, default)| {
            let either = when(Expr::Column(mark.clone()), Expr::Column(group.clone()))
                .otherwise(Expr::Column(default))?;
            Ok(either.alias_qualified(group.relation.clone(), group.name()))
        });
        let mut columns = values.collect::<Result<Vec<Expr>>>()?;
        columns.extend(keys.iter().cloned().map(Expr::Column));
        let plan = Projection::try_new(columns, Arc::new(joined))?;
        Ok(Dependent { plan: LogicalPlan::Projection(plan), keys })
    }

    /// What aggregates of all rows give where there are none, and its columns.
    fn of_no_rows(&self, node: &Aggregate) -> Result<(LogicalPlan, Vec<Column>)> {
        let schema = Arc::clone(node.input.schema());
        let empty = LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: false, schema });
        let names = NamePreserver::new_for_projection();
        let constant = |expr: &Expr| {
            let name = names.save(expr);
            let constant = expr.clone().transform_up(|part| match part {
                Expr::OuterReferenceColumn(field, _) => {
                    let null = ScalarValue::try_from(field.data_type())?;
                    Ok(Transformed::yes(Expr::Literal(
                        null,
                        Some(FieldMetadata::from(field.as_ref())),
                    )))
                }
                other => Ok(Transformed::no(other)),
            });
            Ok(name.restore(constant.data()?))
        };
        let groups = node.group_expr.iter().map(constant).collect::<Result<_>>()?;
        let values = node.aggr_expr.iter().map(constant).collect::<Result<_>>()?;
        let none = Aggregate::try_new(Arc::new(empty), groups, values)?;
        let own = relation("none");
        let name = |at| Column::new(Some(own.clone()), format!("default {at}"));
        let defaults: Vec<Column> = (0..none.schema.fields().len()).map(name).collect();
        let none = renamed(LogicalPlan::Aggregate(none), defaults.iter().cloned())?;
        Ok((none, defaults))
    }

    fn of_distinct(&self, input: &Arc<LogicalPlan>) -> Result<Dependent> {
        let input = self.push(input)?.only(input)?;
        let plan = LogicalPlan::Distinct(Distinct::All(Arc::new(input.plan)));
        Ok(Dependent { plan, keys: input.keys })
    }

    fn of_distinct_on(&self, node: &DistinctOn) -> Result<Dependent> {
        let input = self.push(&node.input)?;
        let stand = self.stand(&input.keys);
        let on = input.keys().chain(stand.exprs(&node.on_expr)?).collect();
        let columns = stand.named(&node.select_expr)?.into_iter().chain(input.keys()).collect();
        let order = match &node.sort_expr {
            Some(order) => {
                let keys = input.keys().map(|key| key.sort(true, true));
                Some(keys.chain(sorted(&stand, order)?).collect())
            }
            None => None,
        };
        let plan = DistinctOn::try_new(on, columns, order, Arc::new(input.plan))?;
        Ok(Dependent { plan: LogicalPlan::Distinct(Distinct::On(plan)), keys: input.keys })
    }

    fn of_sort(&self, node: &Sort) -> Result<Dependent> {
        let input = self.push(&node.input)?;
        if node.fetch.is_some() {
            return not_impl_err!("a sort of some rows inside a subquery");
        }
        let expr = sorted(&self.stand(&input.keys), &node.expr)?;
        let plan = Sort { expr, input: Arc::new(input.plan), fetch: None };
        Ok(Dependent { plan: LogicalPlan::Sort(plan), keys: input.keys })
    }

    /// The rows of each row of the domain are numbered, and those with certain numbers stay.
    fn of_limit(&self, node: &Limit) -> Result<Dependent> {
        let (skip, fetch) = match (node.get_skip_type()?, node.get_fetch_type()?) {
            (SkipType::Literal(skip), FetchType::Literal(fetch)) => (skip, fetch),
            _ => return not_impl_err!("a LIMIT that is no number, inside a subquery"),
        };
        let below = |input: &Arc<LogicalPlan>| {
            let input = Arc::clone(input);
            Arc::new(LogicalPlan::Limit(Limit { input, ..node.clone() }))
        };
        // Whatever gives as many rows as it gets, in that order, may be done to fewer.
        match node.input.as_ref() {
            LogicalPlan::Projection(above) => {
                let (columns, input) = (above.expr.clone(), below(&above.input));
                return self.push(&LogicalPlan::Projection(Projection::try_new(columns, input)?));
            }
            LogicalPlan::SubqueryAlias(above) => {
                let above = SubqueryAlias::try_new(below(&above.input), above.alias.clone())?;
                return self.push(&LogicalPlan::SubqueryAlias(above));
            }
            _ => {}
        }
        let (input, order) = match node.input.as_ref() {
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => (&sort.input, sort.expr.as_slice()),
            _ => (&node.input, [].as_slice()),
        };
        let (rows, order) = match input.as_ref() {
            LogicalPlan::Union(union) if order.is_empty() => {
                let place = Column::from_name(relation("place").to_string());
                let rows = self.of_placed_union(union, &place, &mut 0)?;
                (rows, vec![Expr::Column(place).sort(true, true)])
            }
            _ => {
                let rows = self.push(input)?;
                let order = sorted(&self.stand(&rows.keys), order)?;
                (rows, order)
            }
        };
        let number = Expr::from(WindowFunction::new(row_number_udwf(), Vec::new()));
        let number = number.partition_by(rows.keys().collect()).order_by(order).build()?;
        let name = Column::from_name(relation("number").to_string());
        let number = number.alias(name.name());
        let numbered = Window::try_new(vec![number], Arc::new(rows.plan))?;
        let number = Expr::Column(name);
        let mut condition = number.clone().gt(lit(skip as u64));
        if let Some(fetch) = fetch {
            condition = condition.and(number.lt_eq(lit(skip.saturating_add(fetch) as u64)));
        }
        let some = Filter::try_new(condition, Arc::new(LogicalPlan::Window(numbered)))?;
        Dependent { plan: LogicalPlan::Filter(some), keys: rows.keys }.only(input)
    }

    fn of_window(&self, node: &Window) -> Result<Dependent> {
        let input = self.push(&node.input)?;
        let named = self.stand(&input.keys).named(&node.window_expr)?;
        let keys: Vec<Expr> = input.keys().collect();
        let partitioned = named.into_iter().zip(&node.window_expr).map(|(expr, was)| {
            let (relation, name) = was.qualified_name();
            let partitioned = expr.transform_up(|part| {
                let Expr::WindowFunction(mut window) = part else {
                    return Ok(Transformed::no(part));
                };
                window.params.partition_by.extend(keys.iter().cloned());
                Ok(Transformed::yes(Expr::WindowFunction(window)))
            });
            Ok(partitioned.data()?.unalias().alias_qualified(relation, name))
        });
        let exprs = partitioned.collect::<Result<_>>()?;
        let plan = Window::try_new(exprs, Arc::new(input.plan))?;
        Ok(Dependent { plan: LogicalPlan::Window(plan), keys: input.keys })
    }

    fn of_unnest(&self, node: &Unnest) -> Result<Dependent> {
        let input = self.push(&node.input)?.only(&node.input)?;
        let columns = node.exec_columns.clone();
        let plan = LogicalPlanBuilder::from(input.plan)
            .unnest_columns_with_options(columns, node.options.clone())?
            .build()?;
        Ok(Dependent { plan, keys: input.keys })
    }

    /// Each of the rows, computed for all rows of the domain.
    fn of_values(&self, node: &Values) -> Result<Dependent> {
        let columns = node.schema.columns();
        let rows = node.values.iter().map(|values| {
            let (domain, keys) = self.rows()?;
            let named = self.stand(&keys).exprs(values)?.into_iter().zip(&columns);
            let named = named.map(|(value, column)| value.alias(column.name()));
            let all = named.chain(keys.into_iter().map(Expr::Column)).collect();
            Ok(LogicalPlan::Projection(Projection::try_new(all, Arc::new(domain))?))
        });
        self.one_of(rows.collect::<Result<_>>()?, columns)
    }

    fn of_union(&self, node: &Union) -> Result<Dependent> {
        let inputs = node.inputs.iter().map(|input| {
            let input = named_by_schema(input)?;
            as_declared(self.push(&input)?.only(&input)?.plan, node)
        });
        self.one_of(inputs.collect::<Result<_>>()?, node.schema.columns())
    }

    /// As [`of_union`](Self::of_union), with a column more: the place of the query that a row comes
    /// from. Those of the first query come first, which a LIMIT behind the union relies on.
    fn of_placed_union(&self, node: &Union, place: &Column, next: &mut u64) -> Result<Dependent> {
        let width = node.schema.fields().len();
        let inputs = node.inputs.iter().map(|input| {
            if let LogicalPlan::Union(inner) = input.as_ref() {
                return as_declared(self.of_placed_union(inner, place, next)?.plan, node);
            }
            let input = named_by_schema(input)?;
            let plan = as_declared(self.push(&input)?.only(&input)?.plan, node)?;
            let mut columns: Vec<Expr> =
                plan.schema().columns().into_iter().map(Expr::Column).collect();
            columns.insert(width, lit(*next).alias(place.name()));
            *next += 1;
            Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?))
        });
        let inputs = inputs.collect::<Result<_>>()?;
        let columns = node.schema.columns().into_iter().chain([place.clone()]).collect();
        self.one_of(inputs, columns)
    }

    /// The rows of all of `inputs`, whose columns are `columns`, and the keys.
    fn one_of(&self, inputs: Vec<LogicalPlan>, mut columns: Vec<Column>) -> Result<Dependent> {
        let keys = self.names();
        columns.extend(keys.iter().cloned());
        // Of one name in all: where only one gives rows, the engine takes it for the union. Its
        // columns have no relation then, and conditions that move down find them by their names.
        let plain = columns.iter().map(|column| Column::new_unqualified(column.name()));
        let plain = plain.collect::<Vec<_>>();
        let is_unique = plain.iter().collect::<HashSet<_>>().len() == plain.len();
        let names = if is_unique { &plain } else { &columns };
        let inputs = inputs.into_iter().map(|input| renamed(input, names.iter().cloned()));
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let all = match <[LogicalPlan; 1]>::try_from(inputs) {
            Ok([one]) => one,
            Err(more) => {
                LogicalPlan::Union(Union::try_new(more.into_iter().map(Arc::new).collect())?)
            }
        };
        Ok(Dependent { plan: renamed(all, columns.into_iter())?, keys })
    }

    fn of_join(&self, node: &Join) -> Result<Dependent> {
        let sides = self.sides(node)?;
        let left = self.side(&node.left, sides.0)?;
        let right = self.side(&node.right, sides.1)?;
        let keys = match node.join_type {
            JoinType::Inner if sides.0 => &left.keys,
            JoinType::Inner
            | JoinType::Right
            | JoinType::RightSemi
            | JoinType::RightAnti
            | JoinType::RightMark => &right.keys,
            _ => &left.keys,
        };
        // A condition may name the keys of either side, where both have them.
        let keys = keys.clone();
        let (mut on, mut filter) = (Vec::new(), node.filter.clone());
        let mut null_equality = node.null_equality;
        for (l, r) in &node.on {
            // The sides of a pair are of one input each; of which the keys are is not said.
            if mentions(l, &self.outer)? || mentions(r, &self.outer)? {
                let equal = equation(l, r, null_equality);
                filter = filter.into_iter().chain([equal]).reduce(Expr::and);
            } else {
                on.push((l.clone(), r.clone()));
            }
        }
        let mut filter = filter.map(|filter| self.stand(&keys).expr(filter)).transpose()?;
        if sides.0 && sides.1 {
            if null_equality == NullEquality::NullEqualsNothing {
                let known = on.iter().map(|(l, _)| l.clone().is_not_null());
                filter = known.chain(filter).reduce(Expr::and);
                null_equality = NullEquality::NullEqualsNull;
            }
            on.extend(left.keys().zip(right.keys()));
        }
        let (both, join_type) = ((left.keys.clone(), right.keys.clone()), node.join_type);
        let joined = LogicalPlan::Join(Join::try_new(
            Arc::new(left.plan),
            Arc::new(right.plan),
            on,
            filter,
            node.join_type,
            node.join_constraint,
            null_equality,
            node.null_aware,
        )?);
        let whole = LogicalPlan::Join(node.clone());
        match join_type {
            JoinType::Full => self.keys_of_either(joined, both)?.only(&whole),
            _ => Dependent { plan: joined, keys }.only(&whole),
        }
    }

    /// Which sides of a join are to be computed for all rows of the domain.
    fn sides(&self, node: &Join) -> Result<(bool, bool)> {
        let (left, right) = (refers(&node.left, &self.outer)?, refers(&node.right, &self.outer)?);
        if node.null_aware {
            return not_impl_err!("NOT IN inside a subquery that refers to the rows outside it");
        }
        let mut exprs = node.on.iter().flat_map(|(l, r)| [l, r]).chain(&node.filter);
        let condition = exprs.try_fold(false, |found, expr| {
            Ok::<_, datafusion::error::DataFusionError>(found || mentions(expr, &self.outer)?)
        })?;
        Ok(match node.join_type {
            JoinType::Inner => (left || (condition && !right), right),
            JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
                (true, right)
            }
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
                (left, true)
            }
            JoinType::Full => (true, true),
        })
    }

    fn side(&self, plan: &LogicalPlan, dependent: bool) -> Result<Dependent> {
        match dependent {
            true => self.push(plan),
            false => Ok(Dependent { plan: plan.clone(), keys: Vec::new() }),
        }
    }

    /// The keys of a full join: of that side that has a row.
    fn keys_of_either(
        &self,
        joined: LogicalPlan,
        (left, right): (Vec<Column>, Vec<Column>),
    ) -> Result<Dependent> {
        let either = relation("either");
        let names = left.iter().map(|key| Column::new(Some(either.clone()), key.name()));
        let keys: Vec<Column> = names.collect();
        let coalesced = left.into_iter().zip(right).zip(&keys).map(|((l, r), key)| {
            let exprs = vec![Expr::Column(l), Expr::Column(r)];
            let coalesced = datafusion::functions::core::expr_fn::coalesce(exprs);
            coalesced.alias_qualified(key.relation.clone(), key.name())
        });
        let columns = joined.schema().columns().into_iter().map(Expr::Column);
        let columns = columns.chain(coalesced).collect();
        let plan = LogicalPlan::Projection(Projection::try_new(columns, Arc::new(joined))?);
        Ok(Dependent { plan, keys })
    }
}

/// A left join that holds NULLs equal.
fn left_join(
    left: LogicalPlan,
    right: LogicalPlan,
    pairs: Vec<(Expr, Expr)>,
    condition: Option<Expr>,
) -> Result<LogicalPlan> {
    Ok(LogicalPlan::Join(Join::try_new(
        Arc::new(left),
        Arc::new(right),
        pairs,
        condition,
        JoinType::Left,
        JoinConstraint::On,
        NullEquality::NullEqualsNull,
        false,
    )?))
}

/// How many of the groupings are of all rows.
fn groups_of_all(groups: &[Expr]) -> usize {
    match groups {
        [] | [Expr::GroupingSet(GroupingSet::Rollup(_) | GroupingSet::Cube(_))] => 1,
        [Expr::GroupingSet(GroupingSet::GroupingSets(sets))] => {
            sets.iter().filter(|set| set.is_empty()).count()
        }
        _ => 0,
    }
}

fn equation(left: &Expr, right: &Expr, nulls: NullEquality) -> Expr {
    let op = match nulls {
        NullEquality::NullEqualsNothing => Operator::Eq,
        NullEquality::NullEqualsNull => Operator::IsNotDistinctFrom,
    };
    binary_expr(left.clone(), op, right.clone())
}

fn sorted(stand: &Stand<'_>, order: &[SortExpr]) -> Result<Vec<SortExpr>> {
    let sorted = order.iter().map(|by| Ok(by.with_expr(stand.expr(by.expr.clone())?)));
    sorted.collect()
}

/// An input of a union. When types are settled its columns get the names of the union's, and the
/// expressions keep theirs, which would come back with the next schema made of them.
fn named_by_schema(input: &Arc<LogicalPlan>) -> Result<Arc<LogicalPlan>> {
    let LogicalPlan::Projection(node) = input.as_ref() else { return Ok(Arc::clone(input)) };
    let named = node.expr.iter().zip(node.schema.iter()).map(|(expr, (relation, field))| {
        if expr.qualified_name() == (relation.cloned(), field.name().clone()) {
            return expr.clone();
        }
        expr.clone().alias_qualified(relation.cloned(), field.name())
    });
    let named = Projection::try_new(named.collect(), Arc::clone(&node.input))?;
    Ok(Arc::new(LogicalPlan::Projection(named)))
}

/// An input of a union with the types of the union. A column outside may have got another type than
/// the subquery was planned with.
fn as_declared(input: LogicalPlan, union: &Union) -> Result<LogicalPlan> {
    let declared = union.schema.fields();
    let differs =
        |(field, declared): (&FieldRef, &FieldRef)| field.data_type() != declared.data_type();
    if !input.schema().fields().iter().zip(declared).any(differs) {
        return Ok(input);
    }
    let columns =
        input.schema().columns().into_iter().enumerate().map(|(at, column)| {
            match declared.get(at) {
                None => Expr::Column(column),
                Some(field) => {
                    let (relation, name) = (column.relation.clone(), column.name.clone());
                    cast(Expr::Column(column), field.data_type().clone())
                        .alias_qualified(relation, name)
                }
            }
        });
    let columns = columns.collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(input))?))
}

/// A plan with other names for its columns.
fn renamed(plan: LogicalPlan, names: impl Iterator<Item = Column>) -> Result<LogicalPlan> {
    let columns = plan.schema().columns().into_iter().zip(names);
    let columns = columns.map(|(column, name)| {
        Expr::Column(column).alias_qualified(name.relation.clone(), name.name())
    });
    let columns = columns.collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?))
}
