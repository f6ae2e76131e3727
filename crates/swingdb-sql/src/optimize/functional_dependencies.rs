//! What determines the rows of a relation: [`DEPENDENCIES`], [`distinct_groups`], [`corrected`].
//!
//! The query engine derives too much of it in two places:
//!
//! - It takes a key of one relation that an aggregate reads for a key of the groups, even where
//!   these are by columns of other relations as well. After `GROUP BY d.a, s.x`, where `a` is a key
//!   of `d`, it leaves `x` out of `ORDER BY a, x` and of a second `GROUP BY a, x`, and adds `x` to
//!   a `GROUP BY a`.
//! - It takes a key for one of what `unnest` makes of the relation, which has the key in a row for
//!   each element.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{
    DFSchema, Dependency, FunctionalDependence, FunctionalDependencies, Result, ScalarValue,
    plan_datafusion_err,
};
use datafusion::logical_expr::{Aggregate, Distinct, Expr, LogicalPlan, Unnest};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::ast::{GroupByExpr, Select, SelectItem, Statement, VisitorMut};
use swingdb_common::error::Error;

use crate::ast::walk::{rewrite_own_exprs, walk_mut};
use crate::nodes::expressions::any_node;
use crate::optimize::rule::OwnRule;

/// Takes back what the engine has derived wrongly, before the rules that rely on it.
pub(crate) const DEPENDENCIES: OwnRule = OwnRule::of_plan("dependencies", with_sound_dependencies);

fn with_sound_dependencies(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !are_mistaken(&plan)? {
        return Ok(Transformed::no(plan));
    }
    // The plan itself stays what it is.
    Ok(Transformed::no(corrected(plan)?))
}

/// The engine's rule that makes groups of DISTINCT, and drops a DISTINCT of what is distinct. It
/// goes from the innermost outwards, and derives something of each before it comes to the next, so
/// that is put right at once.
pub(crate) fn distinct_groups(
    rule: &dyn OptimizerRule,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    if !any_node(&plan, |node| matches!(node, LogicalPlan::Distinct(_)))? {
        return Ok(Transformed::no(plan));
    }
    plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Distinct(Distinct::All(_)) => {
            let groups = rule.rewrite(node, config)?.data;
            match groups {
                LogicalPlan::Aggregate(_) => with_sound(groups, &mut Vec::new()),
                already_distinct => Ok(Transformed::yes(already_distinct)),
            }
        }
        LogicalPlan::Distinct(Distinct::On(_)) => {
            let groups = rule.rewrite(node.recompute_schema()?, config)?.data;
            groups.transform_up(|node| with_sound(node, &mut Vec::new()))
        }
        other => with_sound(other, &mut Vec::new()),
    })
}

/// Whether something wrong was derived in a plan.
pub(crate) fn are_mistaken(plan: &LogicalPlan) -> Result<bool> {
    any_node(plan, |node| match node {
        LogicalPlan::Aggregate(groups) => sound(groups) != *deps(&groups.schema),
        LogicalPlan::Unnest(elements) => sound_of_elements(elements) != *deps(&elements.schema),
        _ => false,
    })
}

/// A plan with what is right in its schemas, without the columns that its aggregates group by only
/// because of what is wrong.
pub(crate) fn corrected(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut dropped = Vec::new();
    let plan = plan.transform_up_with_subqueries(|node| with_sound(node, &mut dropped));
    plan.data().map_err(|error| {
        let text = error.to_string();
        match dropped.iter().find(|expr| text.contains(&expr.to_string())) {
            Some(expr) => plan_datafusion_err!(
                "column {expr} must appear in the GROUP BY clause or be part of an aggregate \
                 function"
            ),
            None => error,
        }
    })
}

/// Behind it come the columns that the engine adds to a GROUP BY.
const END: &str = "\u{1}end of group by";

/// The message of an error about a marked statement, for a user.
pub(crate) fn unmarked(error: Error) -> Error {
    match error {
        Error::Plan { message } => {
            Error::Plan { message: message.replace(&format!(", Utf8(\"{END}\")"), "") }
        }
        other => other,
    }
}

/// Whether there is a GROUP BY in a statement.
pub(crate) fn has_groups(statement: &mut Statement) -> bool {
    struct Groups;

    impl VisitorMut for Groups {
        type Break = ();

        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
            match &select.group_by {
                GroupByExpr::Expressions(keys, _) if keys.is_empty() => ControlFlow::Continue(()),
                _ => ControlFlow::Break(()),
            }
        }
    }
    walk_mut(statement, &mut Groups).is_break()
}

/// Marks where each GROUP BY of a statement ends, for [`corrected`]. `is_aggregate` knows the names
/// of aggregate functions.
pub(crate) fn mark_group_by(statement: &mut Statement, is_aggregate: &dyn Fn(&str) -> bool) {
    struct Marker<'a>(&'a dyn Fn(&str) -> bool);

    impl VisitorMut for Marker<'_> {
        type Break = ();

        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
            if let GroupByExpr::All(modifiers) = &select.group_by
                && modifiers.is_empty()
            {
                let keys = keys_of_all(select, self.0);
                select.group_by = GroupByExpr::Expressions(keys, Vec::new());
            }
            if let GroupByExpr::Expressions(exprs, modifiers) = &mut select.group_by {
                let sets = |expr: &ast::Expr| {
                    use ast::Expr::{Cube, GroupingSets, Rollup};
                    matches!(expr, Cube(_) | GroupingSets(_) | Rollup(_))
                };
                if !exprs.is_empty() && modifiers.is_empty() && !exprs.iter().any(sets) {
                    let end = ast::Value::SingleQuotedString(END.to_string());
                    exprs.push(ast::Expr::Value(end.with_empty_span()));
                }
            }
            ControlFlow::Continue(())
        }
    }
    // Never breaks, so the result says nothing.
    let _ = walk_mut(statement, &mut Marker(is_aggregate));
}

/// What `GROUP BY ALL` groups by: the numbers of the columns without aggregates.
fn keys_of_all(select: &Select, is_aggregate: &dyn Fn(&str) -> bool) -> Vec<ast::Expr> {
    let aggregates = |item: &&SelectItem| {
        let mut found = false;
        rewrite_own_exprs(&mut (*item).clone(), &mut |expr| {
            if let ast::Expr::Function(call) = expr {
                found |= call.over.is_none() && is_aggregate(&call.name.to_string().to_lowercase());
            }
        });
        found
    };
    let items = select.projection.iter().zip(1..);
    let keys = items.filter(|(item, _)| !aggregates(item));
    keys.map(|(_, number)| crate::ast::build::integer(number)).collect()
}

fn deps(schema: &DFSchema) -> &FunctionalDependencies {
    schema.functional_dependencies()
}

/// A node with what is right in its schema, if that is so of those below it.
fn with_sound(node: LogicalPlan, dropped: &mut Vec<Expr>) -> Result<Transformed<LogicalPlan>> {
    let node = match node {
        LogicalPlan::Aggregate(aggregate) => {
            LogicalPlan::Aggregate(with_sound_keys(aggregate, dropped)?)
        }
        LogicalPlan::Unnest(elements) => {
            let mut node = LogicalPlan::Unnest(elements).recompute_schema()?;
            if let LogicalPlan::Unnest(elements) = &mut node {
                let sound = sound_of_elements(elements);
                let schema =
                    elements.schema.as_ref().clone().with_functional_dependencies(sound)?;
                elements.schema = Arc::new(schema);
            }
            node
        }
        other => other.recompute_schema()?,
    };
    Ok(Transformed::yes(node))
}

fn with_sound_keys(aggregate: Aggregate, dropped: &mut Vec<Expr>) -> Result<Aggregate> {
    let Aggregate { input, mut group_expr, aggr_expr, .. } = aggregate;
    let is_end = |expr: &Expr| match expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) => text == END,
        _ => false,
    };
    if let Some(end) = group_expr.iter().position(is_end) {
        let added = group_expr.split_off(end).split_off(1);
        let known = Known::of(input.schema(), &group_expr);
        let (determined, others): (Vec<_>, Vec<_>) =
            added.into_iter().partition(|expr| known.determines(expr));
        group_expr.extend(determined);
        dropped.extend(others);
    }
    let mut aggregate = Aggregate::try_new(input, group_expr, aggr_expr)?;
    let sound = sound(&aggregate);
    if sound != *deps(&aggregate.schema) {
        let schema = aggregate.schema.as_ref().clone().with_functional_dependencies(sound)?;
        aggregate.schema = Arc::new(schema);
    }
    Ok(aggregate)
}

/// What determines the rows of an aggregate: all columns it groups by together, or some that
/// determine the others of them in what it reads.
fn sound(aggregate: &Aggregate) -> FunctionalDependencies {
    // What is written twice is one column.
    let mut groups: Vec<&Expr> = Vec::with_capacity(aggregate.group_expr.len());
    for group in &aggregate.group_expr {
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    let is_sound = |sources: &[usize]| {
        let keys: Vec<Expr> =
            sources.iter().filter_map(|at| groups.get(*at)).copied().cloned().collect();
        let known = Known::of(aggregate.input.schema(), &keys);
        groups.iter().copied().all(|group| keys.contains(group) || known.determines(group))
    };
    let all = deps(&aggregate.schema);
    let mut kept: Vec<_> = all.iter().filter(|d| is_sound(&d.source_indices)).cloned().collect();
    if kept.is_empty() && !all.is_empty() {
        let keys: Vec<usize> = (0..groups.len()).collect();
        let fields = aggregate.schema.fields();
        let nullable = fields.iter().take(groups.len()).any(|field| field.is_nullable());
        let columns = (0..fields.len()).collect();
        kept.push(FunctionalDependence::new(keys, columns, nullable));
    }
    FunctionalDependencies::new(kept)
}

/// What determines columns of rows that were made for each element of a list: what did before, but
/// nothing determines the elements, nor is there one row of each.
fn sound_of_elements(elements: &Unnest) -> FunctionalDependencies {
    let before = elements.input.schema();
    let is_list = |place: &usize| {
        let (relation, field) = before.qualified_field(*place);
        elements.exec_columns.iter().any(|list| {
            list.name == *field.name()
                && (list.relation.is_none() || list.relation.as_ref() == relation)
        })
    };
    let places = |columns: &[usize]| -> Vec<usize> {
        let stay = elements.dependency_indices.iter().enumerate();
        let stay = stay.filter(|(_, from)| columns.contains(from) && !is_list(from));
        stay.map(|(place, _)| place).collect()
    };
    let sound = deps(before).iter().filter_map(|dependence| {
        let sources = places(&dependence.source_indices);
        (sources.len() == dependence.source_indices.len()).then(|| {
            let targets = places(&dependence.target_indices);
            FunctionalDependence::new(sources, targets, dependence.nullable)
                .with_mode(Dependency::Multi)
        })
    });
    FunctionalDependencies::new(sound.collect())
}

/// The columns of a schema that are known where others are.
struct Known {
    names: Vec<String>,
    places: HashSet<usize>,
}

impl Known {
    fn of(schema: &DFSchema, keys: &[Expr]) -> Self {
        let mut known = Self { names: schema.field_names(), places: HashSet::new() };
        known.places = keys.iter().filter_map(|key| known.place(key)).collect();
        let applies = |sources: &[usize]| sources.iter().all(|at| known.places.contains(at));
        let determined = deps(schema).iter().filter(|d| applies(&d.source_indices));
        let determined: Vec<usize> = determined.flat_map(|d| d.target_indices.clone()).collect();
        known.places.extend(determined);
        known
    }

    /// The column that an expression is; none for other expressions.
    fn place(&self, expr: &Expr) -> Option<usize> {
        let name = expr.schema_name().to_string();
        self.names.iter().position(|known| *known == name)
    }

    fn determines(&self, expr: &Expr) -> bool {
        self.place(expr).is_some_and(|at| self.places.contains(&at))
    }
}
