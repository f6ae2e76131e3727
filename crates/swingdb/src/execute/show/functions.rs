//! SHOW FUNCTIONS: the names of all functions that a statement may call, and of which kind each is.

use std::sync::Arc;

use swingdb_common::error::Result;
use swingdb_sql::bind::system;

use crate::execute::show::table::{result, strings};
use crate::session::Session;
use crate::session::result::QueryResult;

/// Runs SHOW FUNCTIONS.
pub(crate) fn functions(session: &Arc<Session>) -> Result<QueryResult> {
    let all = system::functions::all(&session.view()?, &*session.engine()?);
    let (names, kinds): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    result(vec![("name", strings(names)), ("kind", strings(kinds))], "SHOW")
}

#[cfg(test)]
mod tests {
    use swingdb_sql::bind::system::functions::INTERNAL;
    use swingdb_sql::engine;

    #[test]
    fn internal_functions_are_registered() {
        let engine = engine::base_state().unwrap();
        for name in INTERNAL {
            let is_known = engine.scalar_functions().contains_key(name)
                || engine.aggregate_functions().contains_key(name)
                || engine.window_functions().contains_key(name);
            assert!(is_known, "{name}");
        }
    }
}
