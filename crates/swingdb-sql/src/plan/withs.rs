//! Statements that begin with many queries of WITH.
//!
//! The query engine hands a copy of all names known so far to each query that it plans: for ten
//! thousand queries of a WITH these are fifty million names. So where there are many, each is
//! planned here with the names that it reads and no others. Elsewhere in a statement, and with
//! RECURSIVE, so many are refused.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;

use datafusion::common::TableReference;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::planner::{ContextProvider, IdentNormalizer, PlannerContext, SqlToRel};
use datafusion::sql::sqlparser::ast::{
    Cte, ObjectName, ObjectNamePart, Query, Statement, VisitMut, VisitorMut, With,
};
use swingdb_common::error::{Error, Result};
use swingdb_common::runtime::cancel::checkpoint;

use crate::ast::walk::walk_mut;

/// Queries of a WITH from which they are planned here.
const MANY: usize = 32;
/// Queries of a WITH that the engine plans itself, at most.
const MAX_INNER: usize = 1_000;

/// The plan of a statement. `context` makes what it is planned in.
pub(crate) fn plan<S: ContextProvider>(
    planner: &SqlToRel<'_, S>,
    mut statement: Statement,
    context: &dyn Fn() -> PlannerContext,
) -> Result<LogicalPlan> {
    let mut known = HashMap::new();
    if let Statement::Query(query) = &mut statement
        && let Some(with) = query.with.take_if(|with| is_flat(with))
    {
        for cte in with.cte_tables {
            checkpoint();
            let name = normalized(&cte);
            if known.contains_key(&name) {
                let twice = format!("WITH query name {name:?} specified more than once");
                return Err(Error::plan(twice));
            }
            let plan = of_one(planner, cte, &name, &known, context)?;
            known.insert(name, plan);
        }
    }
    check_others(&mut statement)?;
    let mut context = context();
    give(&mut context, &mut statement, &known);
    Ok(planner.sql_statement_to_plan_with_context(statement, &mut context)?)
}

fn is_flat(with: &With) -> bool {
    !with.recursive && with.cte_tables.len() >= MANY
}

fn normalized(cte: &Cte) -> String {
    IdentNormalizer::new(true).normalize(cte.alias.name.clone())
}

/// The plan of one query of a WITH, under its name.
fn of_one<S: ContextProvider>(
    planner: &SqlToRel<'_, S>,
    cte: Cte,
    name: &str,
    known: &HashMap<String, LogicalPlan>,
    context: &dyn Fn() -> PlannerContext,
) -> Result<LogicalPlan> {
    let mut statement = Statement::Query(cte.query);
    check_others(&mut statement)?;
    let mut context = context();
    give(&mut context, &mut statement, known);
    let mut plan = planner.sql_statement_to_plan_with_context(statement, &mut context)?;
    let names = cte.alias.columns;
    if !names.is_empty() {
        let columns = plan.schema().columns();
        if names.len() != columns.len() {
            return Err(Error::plan(format!(
                "the WITH query {name:?} has {} columns, and {} names for them",
                columns.len(),
                names.len()
            )));
        }
        let normalizer = IdentNormalizer::new(true);
        let renamed = columns.into_iter().zip(names);
        let renamed = renamed
            .map(|(column, named)| Expr::Column(column).alias(normalizer.normalize(named.name)));
        plan = LogicalPlanBuilder::from(plan).project(renamed)?.build()?;
    }
    Ok(LogicalPlanBuilder::from(plan).alias(TableReference::bare(name))?.build()?)
}

/// Gives a context the queries of WITH whose names a statement has.
fn give(
    context: &mut PlannerContext,
    statement: &mut Statement,
    known: &HashMap<String, LogicalPlan>,
) {
    if known.is_empty() {
        return;
    }
    let mut relations = Relations::default();
    // Never breaks.
    let _ = walk_mut(statement, &mut relations);
    for name in relations.names {
        if let Some(plan) = known.get(&name) {
            context.insert_cte(name, plan.clone());
        }
    }
}

/// The names without a schema that stand for relations.
#[derive(Default)]
struct Relations {
    names: BTreeSet<String>,
}

impl VisitorMut for Relations {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<()> {
        if let [ObjectNamePart::Identifier(name)] = relation.0.as_slice() {
            self.names.insert(IdentNormalizer::new(true).normalize(name.clone()));
        }
        ControlFlow::Continue(())
    }
}

/// Refuses a WITH of too many queries that the engine would plan.
fn check_others<T: VisitMut>(tree: &mut T) -> Result<()> {
    struct Counted(usize);
    impl VisitorMut for Counted {
        type Break = ();
        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            let queries = query.with.as_ref().map_or(0, |with| with.cte_tables.len());
            self.0 = self.0.max(queries);
            ControlFlow::Continue(())
        }
    }
    let mut counted = Counted(0);
    // Never breaks.
    let _ = walk_mut(tree, &mut counted);
    match counted.0 {
        many if many > MAX_INNER => Err(Error::unsupported(format!(
            "WITH RECURSIVE, or a WITH inside of a query, with {many} queries; more than \
             {MAX_INNER} stand in a WITH without RECURSIVE at the begin of the statement"
        ))),
        _ => Ok(()),
    }
}
