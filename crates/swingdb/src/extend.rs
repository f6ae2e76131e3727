//! What programs reach that build on the query engine itself: the cluster.
//!
//! These calls speak DataFusion's types. They change with its versions, without notice, and are no
//! part of the public interface.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::TableReference;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::Statement;
use swingdb_common::error::Result;
use swingdb_common::runtime::cancel::CancelToken;
use swingdb_common::value::Value;
use swingdb_sql::planner::Planner;
use swingdb_sql::text::parameters::Params;

use crate::connection::Connection;

impl Connection {
    /// A copy of the query engine's state, with the functions and settings of this session.
    #[doc(hidden)]
    pub fn engine_state(&self) -> Result<Arc<SessionState>> {
        self.session().engine()
    }

    /// Changes the query engine's state of later statements.
    #[doc(hidden)]
    pub fn configure_engine(
        &self,
        change: impl FnOnce(&mut SessionState) -> Result<()>,
    ) -> Result<()> {
        self.session().configure(change)
    }

    /// Makes any table queryable under `name` in this session; a table of that name goes first.
    #[doc(hidden)]
    pub fn register_provider(&self, name: &str, provider: Arc<dyn TableProvider>) {
        self.session().register_provider(name, provider);
    }

    /// From now on, the tables registered in this session are found as `main.name` too.
    #[doc(hidden)]
    pub fn find_registered_in_main(&self) {
        self.session().find_registered_in_main();
    }

    /// What a table's name means to a statement that starts now, as something to scan.
    #[doc(hidden)]
    pub fn table_provider(&self, schema: &str, table: &str) -> Result<Arc<dyn TableProvider>> {
        let (view, engine) = (self.session().view()?, self.session().engine()?);
        Planner::new(&view, &engine).provider(&TableReference::partial(schema, table))
    }

    /// A session that reads what this one's next statement would read, also of a transaction that
    /// is open. What this one does afterwards does not concern it.
    #[doc(hidden)]
    pub fn pinned(&self) -> Connection {
        Connection::of(self.session().pinned())
    }

    /// What ends a statement that a program carries out beside those of this session: an interrupt
    /// of the session, or its `statement_timeout`.
    #[doc(hidden)]
    pub fn token_beside(&self) -> CancelToken {
        self.session().token_beside()
    }

    /// The optimized plan of a query whose parameters are numbered, with values in their places.
    /// Nothing runs.
    #[doc(hidden)]
    pub fn optimized_plan(&self, mut query: Statement, values: &[Value]) -> Result<LogicalPlan> {
        let (view, engine) = (self.session().view()?, self.session().engine()?);
        let planner = Planner::new(&view, &engine).with_params(&Params::positional(values));
        planner.prepare(&mut query)?;
        Ok(engine.optimize(&planner.plan(query)?)?)
    }
}
