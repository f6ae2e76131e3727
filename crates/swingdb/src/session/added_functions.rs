//! The functions that a program has added to a session: scalars, aggregates and tables.
//!
//! One name means one of them. A name that SQL has a function or macro for is refused.

use std::sync::Arc;

use datafusion::common::Result as EngineResult;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan};
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_sql::bind::functions;
use swingdb_sql::bind::macros::known;
use swingdb_sql::bind::system;
use swingdb_sql::engine::AggregateFunction;

use crate::session::user_functions::{FunctionKind, ScalarFunction};
use crate::session::user_tables::TableFunction;
use crate::session::{Session, State};

impl Session {
    /// Whether the program has added functions.
    pub(crate) fn has_functions(&self) -> bool {
        !self.conversation.state.lock().functions.is_empty()
    }

    /// Adds a scalar function.
    pub(crate) fn create_function(&self, function: ScalarFunction) -> Result<()> {
        let name = function.name.clone();
        self.add_function(&name, FunctionKind::Scalar, |engine| {
            engine.register_udf(Arc::new(function.into_udf()))?;
            Ok(())
        })
    }

    /// Adds an aggregate.
    pub(crate) fn create_aggregate(&self, function: AggregateFunction) -> Result<()> {
        let name = function.name.clone();
        let function = function.into_udaf()?;
        self.add_function(&name, FunctionKind::Aggregate, |engine| {
            engine.register_udaf(Arc::new(function))?;
            Ok(())
        })
    }

    /// Adds a function that is called as a table.
    pub(crate) fn create_table_function(&self, function: TableFunction) -> Result<()> {
        let name = function.name.clone();
        self.add_function(&name, FunctionKind::Table, |engine| {
            engine.register_udtf(&name, function.into_udtf());
            Ok(())
        })
    }

    /// Adds a function to those of the engine; one that the session added before gives way.
    fn add_function(
        &self,
        name: &str,
        kind: FunctionKind,
        register: impl FnOnce(&mut SessionState) -> Result<()>,
    ) -> Result<()> {
        let engine = self.engine()?;
        let is_taken = match kind {
            FunctionKind::Table => {
                engine.table_functions().contains_key(name) || system::names::is_function(name)
            }
            FunctionKind::Scalar | FunctionKind::Aggregate => {
                engine.scalar_functions().contains_key(name)
                    || engine.aggregate_functions().contains_key(name)
                    || engine.window_functions().contains_key(name)
                    || engine.higher_order_functions().contains_key(name)
                    || functions::is_taken(name)
            }
        };
        // A macro would go before it.
        let is_macro = known::names(&self.view()?).iter().any(|(known, _)| known == name);
        let mut state = self.conversation.state.lock();
        let is_own = state.functions.contains_key(name);
        if is_macro || !is_own && is_taken {
            return Err(Error::AlreadyExists { kind: ObjectKind::Function, name: name.into() });
        }
        take_away(&mut state, name)?;
        let Some(engine) = &mut state.engine else {
            return Err(Error::internal("a session without an engine"));
        };
        register(engine)?;
        state.functions.insert(name.into(), kind);
        Ok(())
    }

    /// Takes a function away that the session added.
    pub(crate) fn remove_function(&self, name: &str) -> Result<()> {
        let mut state = self.conversation.state.lock();
        if !state.functions.contains_key(name) {
            return Err(Error::not_found(ObjectKind::Function, name, state.functions.keys()));
        }
        take_away(&mut state, name)
    }
}

/// The first function of the program that a plan calls.
pub(crate) fn called(session: &Session, plan: &LogicalPlan) -> EngineResult<Option<String>> {
    let state = session.conversation.state.lock();
    let mut found = None;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                let name = match part {
                    Expr::ScalarFunction(call) => call.func.name(),
                    Expr::AggregateFunction(call) => call.func.name(),
                    _ => return Ok(TreeNodeRecursion::Continue),
                };
                if !state.functions.contains_key(name) {
                    return Ok(TreeNodeRecursion::Continue);
                }
                found = Some(name.to_string());
                Ok(TreeNodeRecursion::Stop)
            })
        })
    })?;
    Ok(found)
}

/// Takes a function away, if the session added one of that name.
fn take_away(state: &mut State, name: &str) -> Result<()> {
    let known = state.functions.remove(name);
    if let (Some(engine), Some(kind)) = (&mut state.engine, known) {
        match kind {
            FunctionKind::Scalar => drop(engine.deregister_udf(name)?),
            FunctionKind::Aggregate => drop(engine.deregister_udaf(name)?),
            FunctionKind::Table => drop(engine.deregister_udtf(name)?),
        }
    }
    state.tasks = None;
    state.changes += 1;
    Ok(())
}
