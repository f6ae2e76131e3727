//! `CREATE FORCE VIEW`: a view that is kept as it is written, whether or not it can be read.
//!
//! A view keeps its text when a table that it reads is dropped, or a database that it reads is no
//! longer attached. A backup has to bring back such a view too.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::Statement;
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_sql::ast::names::find_name;
use swingdb_sql::bind::sequences;
use swingdb_store::{IfExists, View};

use crate::execute::atomic::with_txn;
use crate::execute::ddl::macros;
use crate::execute::target::{QualifiedName, if_exists, place};
use crate::session::Session;
use crate::session::result::QueryResult;

/// Runs a CREATE FORCE VIEW.
pub(crate) fn create_view(session: &Arc<Session>, statement: &Statement) -> Result<QueryResult> {
    let Statement::CreateView(create) = statement else {
        return Err(Error::internal("CREATE FORCE VIEW of something else"));
    };
    let if_exists = if_exists(create.or_replace, create.if_not_exists)?;
    sequences::refuse_in_view(&mut Statement::Query(create.query.clone()))?;
    let sql = macros::query_text(session, &mut create.query.clone())?;
    let columns = create.columns.iter().map(|column| column.name.value.clone());
    let columns: Vec<String> = columns.collect();
    let columns = (!columns.is_empty()).then_some(columns);
    with_txn(session, |txn| {
        let QualifiedName { schema, name } = place(session, &txn.view(), &create.name)?;
        if let Some(name) = txn.view().find_table(&schema, &name)? {
            return Err(Error::AlreadyExists { kind: ObjectKind::Table, name });
        }
        match (find_name(&txn.view().view_names(&schema), &name), if_exists) {
            (Some(_), IfExists::Skip) => return Ok(()),
            (Some(name), IfExists::Fail) => {
                return Err(Error::AlreadyExists { kind: ObjectKind::View, name });
            }
            (Some(same), IfExists::Replace) if same != name => txn.drop_view(&schema, &same)?,
            _ => {}
        }
        txn.create_view(&schema, View { name, sql, columns }, if_exists).map(drop)
    })?;
    Ok(QueryResult::changed(None, "CREATE VIEW"))
}
