//! What a database tells of itself as tables and functions: `duckdb_tables()` and its like, the
//! tables of `pg_catalog`, `PRAGMA table_info`, `current_setting('threads')`.
//!
//! | file | what is there |
//! |---|---|
//! | [`objects`] | all objects, each with its one number |
//! | [`duckdb`], [`postgres`] | the tables, made of these |
//! | [`constraints`], [`types`], [`functions`] | what both tell of these |
//! | [`standard`] | views of `information_schema` that tell of constraints |
//! | [`scalars`] | functions of single rows |
//! | [`registered`] | names as numbers and back |
//! | [`version`] | `version()` |
//! | [`names`] | the names of all |
//! | [`rows`] | how a small table is made |

mod constraints;
mod duckdb;
pub mod functions;
pub mod names;
mod objects;
mod postgres;
mod registered;
mod rows;
mod scalars;
pub(crate) mod standard;
mod types;
mod version;

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::ScalarValue;
use swingdb_common::error::{Error, Result};
use swingdb_common::types::sql_names::field_type;
use swingdb_store::Constraint;

use crate::ast::names::parse_table_name;
use crate::bind::catalogs::Found;
use crate::bind::system::names::{PG_CATALOG, TABLE_INFO};

pub(crate) use self::objects::{Context, Provider};
pub use self::scalars::Variables;
pub(crate) use self::scalars::function as scalar;
pub use self::version::Version;

type Make = fn(&Context<'_>) -> Result<Arc<dyn TableProvider>>;

/// What makes the table of a function without arguments, or a table of `pg_catalog` that may have
/// rows.
fn maker(name: &str) -> Option<Make> {
    Some(match name {
        "duckdb_columns" => duckdb::columns,
        "duckdb_constraints" => duckdb::all_constraints,
        "duckdb_databases" => duckdb::databases,
        "duckdb_functions" => duckdb::all_functions,
        "duckdb_indexes" => duckdb::indexes,
        "duckdb_schemas" => duckdb::schemas,
        "duckdb_sequences" => duckdb::sequences,
        "duckdb_settings" => duckdb::settings,
        "duckdb_tables" => duckdb::tables,
        "duckdb_types" => duckdb::all_types,
        "duckdb_views" => duckdb::views,
        "pragma_database_list" => duckdb::database_list,
        "pragma_database_size" => duckdb::database_size,
        "pragma_show_tables" => duckdb::show_tables,
        "pragma_version" => duckdb::version,
        "pg_am" => postgres::access_methods,
        "pg_attrdef" => postgres::attrdef,
        "pg_attribute" => postgres::attribute,
        "pg_class" => postgres::class,
        "pg_constraint" => postgres::constraint,
        "pg_database" => postgres::database,
        "pg_description" => postgres::description,
        "pg_index" => postgres::index,
        "pg_indexes" => postgres::indexes,
        "pg_namespace" => postgres::namespace,
        "pg_proc" => postgres::procedures,
        "pg_roles" => postgres::roles,
        "pg_sequence" => postgres::sequence_numbers,
        "pg_sequences" => postgres::sequences,
        "pg_settings" => postgres::settings,
        "pg_tables" => postgres::tables,
        "pg_tablespace" => postgres::tablespaces,
        "pg_type" => postgres::all_types,
        "pg_user" => postgres::users,
        "pg_views" => postgres::views,
        _ => return None,
    })
}

/// A table of `pg_catalog`.
pub(crate) fn table(context: &Context<'_>, name: &str) -> Result<Arc<dyn TableProvider>> {
    if let Some(make) = maker(name) {
        return make(context);
    }
    match postgres::EMPTY.iter().find(|(known, _)| *known == name) {
        Some((_, columns)) => rows::Rows::new(columns).finish(),
        None => Err(Error::internal(format!("{name} is no table of {PG_CATALOG}"))),
    }
}

/// What a call of a function of this module stands for.
pub(crate) fn call(
    context: &Context<'_>,
    name: &str,
    args: &[ScalarValue],
) -> Result<Arc<dyn TableProvider>> {
    if name == TABLE_INFO {
        let table = match args {
            [table] => table.try_as_str().flatten(),
            _ => None,
        };
        let missing = || Error::plan(format!("{name} takes the name of a table in quotes"));
        return table_info(context, table.ok_or_else(missing)?);
    }
    match maker(name) {
        Some(make) if args.is_empty() => make(context),
        Some(_) => Err(Error::plan(format!("{name} takes no arguments"))),
        None => Err(Error::internal(format!("{name} is no function of this kind"))),
    }
}

fn table_info(context: &Context<'_>, name: &str) -> Result<Arc<dyn TableProvider>> {
    let reference = parse_table_name(name);
    let Some(found) = context.view.find(&reference)? else {
        return Err(context.view.unknown_table(&reference));
    };
    let schema = (context.provider)(context.view, &reference)?.schema();
    let table = match found {
        Found::Table { table, .. } => Some(table),
        _ => None,
    };
    let columns = schema.fields().iter().enumerate().map(|(at, field)| {
        let default = table.as_ref().and_then(|table| table.columns()[at].default_sql.clone());
        let keys = table.iter().flat_map(|table| table.constraints());
        let mut keys = keys.filter(|key| matches!(key, Constraint::Primary(_)));
        duckdb::TableColumn {
            name: field.name().clone(),
            kind: field_type(field),
            not_null: table.is_some() && !field.is_nullable(),
            default,
            key: keys.any(|key| key.columns().contains(&at)),
        }
    });
    duckdb::table_info(columns.collect())
}

#[cfg(test)]
mod tests {
    use super::names::{FUNCTIONS, TABLES};
    use super::*;

    #[test]
    fn each_name_stands_for_something() {
        for name in FUNCTIONS.into_iter().filter(|name| *name != TABLE_INFO) {
            assert!(maker(name).is_some(), "{name}");
        }
        let empty = |name: &str| postgres::EMPTY.iter().any(|(known, _)| *known == name);
        for name in TABLES {
            assert_ne!(maker(name).is_some(), empty(name), "{name}");
        }
    }
}
