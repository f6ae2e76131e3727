//! `CREATE FORCE VIEW`: a view that is kept as it is written, whether what it reads is there or not.
//!
//! A view keeps its text when a table that it reads is dropped, or a database that it reads is no
//! longer attached. A backup has to bring back such a view too.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{CreateView, Statement};

use crate::error::{Error, ObjectKind, Result};
use crate::sql::forms::written;
use crate::sql::result::QueryResult;
use crate::sql::session::Session;
use crate::sql::statement::parse_query;
use crate::sql::write::create::if_exists;
use crate::sql::write::target::{Place, find_name, place};
use crate::sql::write::with_txn;
use crate::store::{IfExists, View};

/// Runs a CREATE FORCE VIEW.
pub(crate) fn create_view(session: &Arc<Session>, statement: &Statement) -> Result<QueryResult> {
    let Statement::CreateView(create) = statement else {
        return Err(Error::internal("CREATE FORCE VIEW of something else"));
    };
    let if_exists = if_exists(create.or_replace, create.if_not_exists)?;
    let view = |name: String| -> Result<View> {
        let columns = create.columns.iter().map(|column| column.name.value.clone());
        let columns: Vec<String> = columns.collect();
        let columns = (!columns.is_empty()).then_some(columns);
        Ok(View { name, sql: text(create)?, columns })
    };
    with_txn(session, |txn| {
        let Place { schema, name } = place(session, &txn.view(), &create.name)?;
        if let Some(name) = find_name(&txn.view().table_names(&schema), &name) {
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
        txn.create_view(&schema, view(name)?, if_exists).map(drop)
    })?;
    Ok(QueryResult::changed(None, "CREATE VIEW"))
}

/// The text of the query, which has to read back as the same.
fn text(create: &CreateView) -> Result<String> {
    let text = written(create.query.as_ref());
    match parse_query(&text).map(|query| written(&query)) {
        Ok(again) if again == text => Ok(text),
        _ => Err(Error::unsupported(format!("CREATE FORCE VIEW with this text: {text}"))),
    }
}
