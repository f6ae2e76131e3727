//! Definitions of columns and keys, as CREATE TABLE and ALTER TABLE write them.

use std::collections::HashSet;

use arrow::datatypes::Field;
use datafusion::sql::sqlparser::ast as sql;
use datafusion::sql::sqlparser::ast::{ColumnOption, Expr, IndexColumn, TableConstraint};
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_common::types::arrow_types::{column_type, enum_type, is_uuid_type};
use swingdb_common::uuid;
use swingdb_store::{ColumnDef, Constraint};

use crate::execute::dml::defaults;
use crate::session::Session;

/// A column's definition; `key` is called for PRIMARY KEY (`true`) and UNIQUE.
pub(crate) fn column_def(
    session: &Session,
    column: &sql::ColumnDef,
    mut key: impl FnMut(bool) -> Result<()>,
) -> Result<ColumnDef> {
    let name = column.name.value.clone();
    let (is_uuid, enumeration) = (is_uuid_type(&column.data_type), enum_type(&column.data_type)?);
    let data_type = match &column.data_type {
        untyped if is_untyped(untyped) => {
            return Err(Error::plan(format!("column {name:?} needs a type")));
        }
        given => column_type(given)?,
    };
    let mut nullable = true;
    let mut default_sql = None;
    for option in &column.options {
        match &option.option {
            ColumnOption::Null => {}
            ColumnOption::NotNull => nullable = false,
            ColumnOption::Default(expr) => {
                let field = Field::new(&name, data_type.clone(), true);
                let field = match &enumeration {
                    Some(values) => values.marked(field),
                    None if is_uuid => uuid::marked(field),
                    None => field,
                };
                defaults::check(session, expr, &field)?;
                default_sql = Some(expr.to_string());
            }
            ColumnOption::PrimaryKey(_) => key(true)?,
            ColumnOption::Unique(_) => key(false)?,
            // Conditions may read any column; whoever defines the table looks at them.
            ColumnOption::Check(check) if check.enforced != Some(false) => {}
            ColumnOption::ForeignKey(_) => {
                return Err(Error::unsupported(format!("column {name:?}: {REFERENCES}")));
            }
            // One that compares by bytes: all others have been refused.
            ColumnOption::Collation(_) => {}
            ColumnOption::Generated { .. } => {
                return Err(Error::unsupported(format!("column {name:?}: {GENERATED}")));
            }
            other => {
                return Err(Error::unsupported(format!("column {name:?}: {other}")));
            }
        }
    }
    Ok(ColumnDef { name, data_type, nullable, is_uuid, enumeration, default_sql })
}

/// Whether a column was given without a type. The parser is given `ANY TYPE` for it, which its
/// dialect of BigQuery has for parameters of functions.
pub(crate) fn is_untyped(data_type: &sql::DataType) -> bool {
    matches!(data_type, sql::DataType::Unspecified | sql::DataType::AnyType)
}

/// PRIMARY KEY and UNIQUE of a table that is being defined.
#[derive(Default)]
pub(crate) struct Keys(Vec<Constraint>);

impl Keys {
    /// The keys a table has already.
    pub(crate) fn of(constraints: &[Constraint]) -> Self {
        Self(constraints.to_vec())
    }

    pub(crate) fn add(&mut self, primary: bool, columns: Vec<usize>) -> Result<()> {
        if primary && self.0.iter().any(|key| matches!(key, Constraint::Primary(_))) {
            return Err(Error::plan("a table has only one PRIMARY KEY"));
        }
        let same = |key: &Constraint| {
            let key: HashSet<&usize> = key.columns().iter().collect();
            key == columns.iter().collect()
        };
        match self.0.iter_mut().find(|key| same(key)) {
            // A UNIQUE that is made the primary key: NULLs are out from now on.
            Some(key) if primary => *key = Constraint::Primary(columns),
            Some(_) => {}
            None if primary => self.0.push(Constraint::Primary(columns)),
            None => self.0.push(Constraint::Unique(columns)),
        }
        Ok(())
    }

    /// The columns of the primary key become NOT NULL.
    pub(crate) fn finish(self, columns: &mut [ColumnDef]) -> Vec<Constraint> {
        for key in &self.0 {
            if let Constraint::Primary(indices) = key {
                indices.iter().for_each(|index| columns[*index].nullable = false);
            }
        }
        self.0
    }
}

/// Whether a table constraint is the primary key, and its columns.
pub(crate) fn key_columns(constraint: &TableConstraint) -> Result<(bool, Vec<String>)> {
    let names = |columns: &[IndexColumn]| {
        let name = |column: &IndexColumn| match &column.column.expr {
            Expr::Identifier(ident) => Ok(ident.value.clone()),
            other => Err(Error::unsupported(format!("a key on the expression {other}"))),
        };
        columns.iter().map(name).collect::<Result<Vec<String>>>()
    };
    match constraint {
        TableConstraint::PrimaryKey(key) => Ok((true, names(&key.columns)?)),
        TableConstraint::Unique(key) => Ok((false, names(&key.columns)?)),
        TableConstraint::ForeignKey(_) => Err(Error::unsupported(REFERENCES)),
        other => Err(Error::unsupported(format!("the constraint {other}"))),
    }
}

/// The indices of the columns of a key.
pub(crate) fn find_columns(columns: &[ColumnDef], names: &[String]) -> Result<Vec<usize>> {
    let mut indices = Vec::with_capacity(names.len());
    for name in names {
        let index = columns
            .iter()
            .position(|column| column.name.eq_ignore_ascii_case(name))
            .ok_or_else(|| {
                let known = columns.iter().map(|column| column.name.as_str());
                Error::not_found(ObjectKind::Column, name.as_str(), known)
            })?;
        if indices.contains(&index) {
            return Err(Error::plan(format!("column {name:?} is twice in one key")));
        }
        indices.push(index);
    }
    Ok(indices)
}

/// A table has at least one column, and none twice.
pub(crate) fn check_columns(columns: &[ColumnDef]) -> Result<()> {
    if columns.is_empty() {
        return Err(Error::plan("a table needs at least one column"));
    }
    if columns.len() > MAX_COLUMNS {
        return Err(Error::plan(format!("a table has at most {MAX_COLUMNS} columns")));
    }
    let mut seen = HashSet::new();
    match columns.iter().find(|column| !seen.insert(column.name.to_lowercase())) {
        Some(twice) => {
            Err(Error::AlreadyExists { kind: ObjectKind::Column, name: twice.name.clone() })
        }
        None => Ok(()),
    }
}

/// Columns a table may have.
pub(crate) const MAX_COLUMNS: usize = 10_000;

/// What is said of foreign keys where they cannot be declared.
const REFERENCES: &str = "FOREIGN KEY and REFERENCES in ALTER TABLE; declare them in CREATE TABLE";

/// What is said of generated columns where they cannot be declared.
const GENERATED: &str = "a generated column in ALTER TABLE; declare it in CREATE TABLE";
