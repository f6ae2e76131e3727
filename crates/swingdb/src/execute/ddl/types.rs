//! CREATE TYPE and DROP TYPE: names for types.

use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::sql::sqlparser::ast::{DataType as SqlType, Ident, ObjectName, Query};
use swingdb_common::enums::EnumType;
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_common::types::arrow_types::{arrow_type, column_type, enum_type};
use swingdb_store::IfExists;

use crate::execute::atomic::with_txn;
use crate::execute::target::{QualifiedName, if_exists, place};
use crate::session::Session;
use crate::session::result::QueryResult;
use swingdb_sql::ast::build;
use swingdb_sql::ast::names::find_name;
use swingdb_sql::bind::types::resolve_type;
use swingdb_sql::text::parameters::Params;
use swingdb_sql::text::parser::parse_type;
use swingdb_sql::text::statement::{CreateType, DropType, Named};

/// Runs a CREATE TYPE.
pub(crate) fn create(session: &Arc<Session>, create: CreateType) -> Result<QueryResult> {
    let CreateType { or_replace, if_not_exists, temporary, name, what } = create;
    if temporary {
        return Err(Error::unsupported(
            "CREATE TEMPORARY TYPE; write the type itself, or create it and drop it",
        ));
    }
    let if_exists = if_exists(or_replace, if_not_exists)?;
    let sql = match what {
        Named::EnumOf(query) => values_of(session, *query)?.to_string(),
        Named::Type(mut data_type) => {
            resolve_type(&session.view()?, &mut data_type)?;
            column_type(&data_type)?;
            match enum_type(&data_type)? {
                Some(values) => values.to_string(),
                None => data_type.to_string(),
            }
        }
    };
    // What is kept has to mean the same when it is read.
    column_type(&parse_type(&sql)?)?;
    with_txn(session, |txn| {
        let QualifiedName { schema, name } = place(session, &txn.view(), &name)?;
        if is_known(&name) {
            return Err(Error::AlreadyExists { kind: ObjectKind::Type, name });
        }
        // Names that differ only in case are the same name.
        let same = find_name(&txn.view().type_names(&schema), &name);
        if let Some(same) = same.as_ref().filter(|same| **same != name) {
            match if_exists {
                IfExists::Skip => return Ok(()),
                IfExists::Fail => {
                    return Err(Error::AlreadyExists { kind: ObjectKind::Type, name });
                }
                IfExists::Replace => txn.drop_type(&schema, same)?,
            }
        }
        txn.create_type(&schema, &name, &sql, if_exists).map(drop)
    })?;
    Ok(QueryResult::changed(None, "CREATE TYPE"))
}

/// Whether every database has a type of this name.
fn is_known(name: &str) -> bool {
    let quoted = ObjectName::from(vec![Ident::new(name)]);
    let by_word = || parse_type(name).is_ok_and(|found| !matches!(found, SqlType::Custom(..)));
    arrow_type(&SqlType::Custom(quoted, Vec::new())).is_ok() || by_word()
}

/// The ENUM of the texts that a query gives.
fn values_of(session: &Session, query: Query) -> Result<EnumType> {
    let plan = session.plan(&build::statement(query, None), &Params::default())?;
    let stream = session.run(plan)?;
    if stream.schema().fields().len() != 1 {
        return Err(Error::plan("the query of an ENUM gives one column, its values"));
    }
    let mut values = Vec::new();
    for batch in stream {
        let column = cast(batch?.column(0), &DataType::Utf8View)?;
        if column.null_count() > 0 {
            return Err(Error::plan("the query of an ENUM gives NULL, which is no value"));
        }
        values.extend(column.as_string_view().iter().flatten().map(str::to_string));
    }
    EnumType::new(values)
}

/// Runs a DROP TYPE.
pub(crate) fn remove(session: &Session, remove: DropType) -> Result<QueryResult> {
    with_txn(session, |txn| {
        for name in &remove.names {
            let QualifiedName { schema, name } = place(session, &txn.view(), name)?;
            let names = txn.view().type_names(&schema);
            match find_name(&names, &name) {
                Some(name) => txn.drop_type(&schema, &name)?,
                None if remove.if_exists => {}
                None => return Err(Error::not_found(ObjectKind::Type, name, names)),
            }
        }
        Ok(())
    })?;
    Ok(QueryResult::changed(None, "DROP TYPE"))
}
