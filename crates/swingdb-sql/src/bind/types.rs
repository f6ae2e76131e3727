//! Named types: `x::mood` becomes `x::ENUM('sad', 'ok')`, wherever a statement names a type.
//!
//! What is kept of a statement (a column's type, the text of a view or a DEFAULT) has the type
//! itself, as in DuckDB: it stays what it was if the name is dropped or made anew.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTableOperation, ArrayElemTypeDef, ColumnDef, DataType, Expr,
    Statement, TypedString, VisitorMut,
};
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_common::types::arrow_types::arrow_type;

use crate::ast::names::{SCHEMA, parts};
use crate::ast::walk::walk_mut;
use crate::bind::catalogs::{Catalogs, Source, match_name};
use crate::text::parser::parse_type;

/// Puts the types that names stand for in their place.
pub fn resolve(view: &Catalogs, statement: &mut Statement) -> Result<()> {
    match statement {
        Statement::CreateTable(create) => columns(view, &mut create.columns)?,
        Statement::AlterTable(alter) => {
            for operation in &mut alter.operations {
                match operation {
                    AlterTableOperation::AddColumn { column_def, .. } => {
                        resolve_type(view, &mut column_def.data_type)?;
                    }
                    AlterTableOperation::AlterColumn {
                        op: AlterColumnOperation::SetDataType { data_type, .. },
                        ..
                    } => resolve_type(view, data_type)?,
                    _ => {}
                }
            }
        }
        _ => {}
    }
    let mut casts = Casts { view, done: Ok(()) };
    let _ = walk_mut(statement, &mut casts);
    casts.done
}

fn columns(view: &Catalogs, columns: &mut [ColumnDef]) -> Result<()> {
    columns.iter_mut().try_for_each(|column| resolve_type(view, &mut column.data_type))
}

struct Casts<'a> {
    view: &'a Catalogs,
    done: Result<()>,
}

impl VisitorMut for Casts<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let data_type = match expr {
            Expr::Cast { data_type, .. } => data_type,
            Expr::TypedString(TypedString { data_type, .. }) => data_type,
            _ => return ControlFlow::Continue(()),
        };
        self.done = resolve_type(self.view, data_type);
        match self.done {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}

/// Puts the type that a name stands for in its place, also inside of others.
pub fn resolve_type(view: &Catalogs, data_type: &mut DataType) -> Result<()> {
    match data_type {
        DataType::Custom(name, modifiers) if modifiers.is_empty() => {
            // What every database knows goes first: no type can be called so.
            let Ok(parts) = parts(name) else { return Ok(()) };
            if parts.len() == 1 && arrow_type(data_type).is_ok() {
                return Ok(());
            }
            let parts = parts.iter().map(String::as_str).collect::<Vec<_>>();
            if let Some(found) = find(view, &parts) {
                *data_type = parse_type(&found)?;
            } else if parts.len() > 1 {
                let names = view.main.catalog.type_names(SCHEMA);
                return Err(Error::not_found(ObjectKind::Type, parts.join("."), names));
            }
            Ok(())
        }
        DataType::Array(
            ArrayElemTypeDef::AngleBracket(inner)
            | ArrayElemTypeDef::SquareBracket(inner, _)
            | ArrayElemTypeDef::Parenthesis(inner),
        )
        | DataType::Nullable(inner) => resolve_type(view, inner),
        DataType::Struct(fields, _) | DataType::Tuple(fields) => {
            fields.iter_mut().try_for_each(|field| resolve_type(view, &mut field.field_type))
        }
        DataType::Map(key, value) => {
            resolve_type(view, key)?;
            resolve_type(view, value)
        }
        _ => Ok(()),
    }
}

/// The SQL of a type of this name.
fn find(view: &Catalogs, name: &[&str]) -> Option<std::sync::Arc<str>> {
    match name {
        [name] => {
            let mut sources = view.temp.iter().chain([&view.main]);
            sources.find_map(|source| find_in(source, SCHEMA, name))
        }
        [schema, name] => find_in(&view.main, schema, name)
            .or_else(|| find_in(view.database(schema)?, SCHEMA, name)),
        [database, schema, name] => find_in(view.database(database)?, schema, name),
        _ => None,
    }
}

fn find_in(source: &Source, schema: &str, name: &str) -> Option<std::sync::Arc<str>> {
    let schemas = source.catalog.schema_names();
    let schema = match_name(schemas.iter().map(String::as_str), schema)?;
    let names = source.catalog.type_names(&schema);
    let name = match_name(names.iter().map(String::as_str), name)?;
    source.catalog.find_type(&schema, &name)
}
