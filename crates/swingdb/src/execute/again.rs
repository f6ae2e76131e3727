//! Queries that come again, for callers that wait: [`Session::execute_again`].
//!
//! Who may not wait for a statement without looking for an interrupt lets another thread carry it
//! out. To wake that thread, and to be woken by it, can take longer than a select by key. A query
//! whose optimized plan is kept ([`crate::session::plan_cache`]) needs no other thread: to start it
//! takes microseconds, and does not depend on how many rows there are.

use std::sync::Arc;

use swingdb_common::error::Result;
use swingdb_common::runtime::cancel::stoppable;
use swingdb_sql::text::depth;
use swingdb_sql::text::parameters::Params;
use swingdb_sql::text::template::Template;

use crate::execute::{prepared, query};
use crate::session::Session;
use crate::session::plan_cache::Source;
use crate::session::result::QueryResult;

impl Session {
    /// Starts the query of a text if its optimized plan is kept and the session runs nothing else.
    pub(crate) fn execute_again(
        self: &Arc<Self>,
        sql: &str,
        params: &Params,
    ) -> Result<Option<QueryResult>> {
        if self.plans().is_empty() {
            return Ok(None);
        }
        let Some(_one_at_a_time) = self.try_lock_statement()? else { return Ok(None) };
        let meter = self.limits().meter();
        let token = self.cancel_token();
        let run = || again(self, sql, params);
        let started = depth::with_enough_stack(|| stoppable(&token, run))?;
        Ok(started.map(|rows| rows.metered(meter)))
    }
}

fn again(session: &Session, sql: &str, params: &Params) -> Result<Option<QueryResult>> {
    if let Some(source) = Source::of_text(sql)
        && let Some(rows) = query::again_optimized(session, &source, params)?
    {
        return Ok(Some(rows));
    }
    if !params.is_empty() {
        return Ok(None);
    }
    match Template::of(sql) {
        Some(template) => query::again_by_template(session, &template),
        None => prepared::again(session, sql),
    }
}
