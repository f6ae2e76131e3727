//! USE, ANALYZE, VACUUM, SET VARIABLE and RESET VARIABLE.
//!
//! **Cycle.** The value of a variable is what a query gives.

use std::sync::Arc;

use arrow::datatypes::Field;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName};
use swingdb_common::error::{Error, Result};
use swingdb_sql::ast::build;
use swingdb_sql::ast::names::parts;
use swingdb_sql::bind::system::Variables;
use swingdb_sql::options::limits::Limits;
use swingdb_sql::text::parameters::Params;

use crate::execute::statement;
use crate::execute::target::{self, DEFAULT_SCHEMA, OWN_CATALOG};
use crate::session::Session;
use crate::session::result::QueryResult;
use crate::session::temporary;

/// USE: only of what names without a schema mean anyway.
pub(crate) fn use_schema(session: &Session, name: &ObjectName) -> Result<QueryResult> {
    let database = session.database().name();
    let is_own = |part: &str| {
        part.eq_ignore_ascii_case(OWN_CATALOG)
            || database.is_some_and(|own| part.eq_ignore_ascii_case(own))
    };
    let is_main = |part: &str| part.eq_ignore_ascii_case(DEFAULT_SCHEMA);
    let parts = parts(name)?;
    let meant = match parts.as_slice() {
        [one] => is_main(one) || is_own(one),
        [database, schema] => is_own(database) && is_main(schema),
        _ => false,
    };
    match meant {
        true => Ok(QueryResult::changed(None, "USE")),
        false => Err(Error::unsupported(format!(
            "USE {name}; names without a schema mean those of schema {DEFAULT_SCHEMA} of the \
             session's own database: write {name}.table"
        ))),
    }
}

/// ANALYZE and VACUUM. Statistics are exact after each change, and memory of deleted rows is given
/// back by itself: all that is left to do is to see whether there is such a table.
pub(crate) fn tidy(
    session: &Arc<Session>,
    verb: &'static str,
    table: Option<&ObjectName>,
    columns: &[Ident],
) -> Result<QueryResult> {
    if let Some(name) = table {
        let (session, name) = temporary::of_table(session, name);
        let found = target::target(&session, &session.catalog(), &name)?;
        columns
            .iter()
            .try_for_each(|column| target::column(&found.table, &column.value).map(drop))?;
    }
    Ok(QueryResult::changed(None, verb))
}

/// SET VARIABLE: the value is computed once, now.
pub(crate) fn set_variable(
    session: &Arc<Session>,
    name: &Ident,
    value: Expr,
    params: &Params,
) -> Result<QueryResult> {
    let query = build::select(vec![build::item(value, "value")], Vec::new(), None)?;
    let rows = statement::execute_sql(session, build::statement(query, None), params)?;
    let field = rows.schema().field(0).clone();
    let mut found = Vec::new();
    for batch in rows {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            found.push(ScalarValue::try_from_array(batch.column(0), row)?);
        }
    }
    let value = match <[ScalarValue; 1]>::try_from(found) {
        Ok([value]) => value,
        Err(others) => {
            let count = others.len();
            return Err(Error::plan(format!("SET VARIABLE {name}: {count} values, not one")));
        }
    };
    let field = Field::new(&name.value, field.data_type().clone(), true)
        .with_metadata(field.metadata().clone());
    change(session, name, Some((Arc::new(field), value)))?;
    Ok(QueryResult::changed(None, "SET"))
}

/// RESET VARIABLE.
pub(crate) fn reset_variable(session: &Session, name: &Ident) -> Result<QueryResult> {
    change(session, name, None)?;
    Ok(QueryResult::changed(None, "RESET"))
}

fn change(
    session: &Session,
    name: &Ident,
    value: Option<(arrow::datatypes::FieldRef, ScalarValue)>,
) -> Result<()> {
    session.configure(|state| {
        Limits::of(state.config()).change_of(&name.value)?;
        let mut all = Variables::of(state.config());
        let variables = Arc::make_mut(&mut all.0);
        match value {
            Some(value) => variables.insert(name.value.to_lowercase(), value),
            None => variables.remove(&name.value.to_lowercase()),
        };
        all.carry(state.config_mut());
        Ok(())
    })
}
