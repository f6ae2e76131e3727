//! What determines the rows of a relation, where the query engine derives too much of it:
//!
//! - It takes a key of one relation that an aggregate reads for a key of the groups, even where
//!   these are by columns of other relations as well. After `GROUP BY d.a, s.x`, where `a` is a key
//!   of `d`, it leaves `x` out of `ORDER BY a, x` and of a second `GROUP BY a, x`, and adds `x` to
//!   a `GROUP BY a`.
//! - It takes a key for one of what `unnest` makes of the relation, which has the key in a row for
//!   each element.
//!
//! [`with_sound`] puts right what a node says, [`corrected`] what all nodes of a plan say. Plans of
//! relations are corrected before a query reads them
//! ([`sound_relations`](crate::plan::sound_relations)), those of statements at their end, and both
//! before the rules of the optimizer that rely on them.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{
    DFSchema, Dependency, FunctionalDependence, FunctionalDependencies, Result,
};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Unnest};

use crate::nodes::expressions::any_node;

/// Whether something wrong was derived in a plan.
fn are_mistaken(plan: &LogicalPlan) -> Result<bool> {
    any_node(plan, |node| match node {
        LogicalPlan::Aggregate(groups) => sound(groups) != *deps(&groups.schema),
        LogicalPlan::Unnest(elements) => sound_of_elements(elements) != *deps(&elements.schema),
        _ => false,
    })
}

/// A plan with what is right in its schemas.
pub(crate) fn corrected(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !are_mistaken(&plan)? {
        return Ok(plan);
    }
    plan.transform_up_with_subqueries(with_sound).data()
}

fn deps(schema: &DFSchema) -> &FunctionalDependencies {
    schema.functional_dependencies()
}

/// A node with what is right in its schema, if that is so of those below it.
pub(crate) fn with_sound(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let node = match node {
        LogicalPlan::Aggregate(aggregate) => LogicalPlan::Aggregate(with_sound_keys(aggregate)?),
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

fn with_sound_keys(aggregate: Aggregate) -> Result<Aggregate> {
    let Aggregate { input, group_expr, aggr_expr, .. } = aggregate;
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
