//! CREATE TABLE (also LIKE and CLONE; for AS see [`create_as`]), CREATE VIEW, CREATE SCHEMA.

use std::collections::HashSet;

use arrow::datatypes::Field;
use datafusion::common::TableReference;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{
    self as sql, ColumnOption, CreateTable, CreateTableLikeKind, CreateView, Expr, IndexColumn,
    ObjectName, SchemaName, Statement, TableConstraint,
};
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_common::types::arrow_types::{column_type, is_uuid_type};
use swingdb_common::uuid;
use swingdb_store::{Check, ColumnDef, Constraint, IfExists, TableDef, View, WriteTxn};

use crate::execute::changes::{Outcome, with_txn};
use crate::execute::ddl::checks::Checks;
use crate::execute::ddl::create_as::create_as;
use crate::execute::ddl::macros;
use crate::execute::dml::defaults;
use crate::execute::target::{DEFAULT_SCHEMA, Place, find_name, parts, place, target};
use crate::session::Session;
use crate::sql::ast::build;
use crate::sql::bind::catalogs::Found;
use crate::sql::bind::macros::expand;
use crate::sql::bind::sequences;
use crate::sql::desugar::asof::written;
use crate::sql::plan::planner::Planner;
use crate::sql::text::parameters::Params;
use crate::sql::text::tokens::UNTYPED_MARK;

/// Columns a table may have.
const MAX_COLUMNS: usize = 10_000;

/// Runs a CREATE TABLE.
pub(crate) fn table(session: &Session, create: &CreateTable, params: &Params) -> Result<Outcome> {
    let if_exists = if_exists(create.or_replace, create.if_not_exists)?;
    with_txn(session, |txn| {
        let place = place(session, &txn.view(), &create.name)?;
        if skipped(txn, &place, ObjectKind::Table, if_exists)? {
            return Ok(Outcome::done("CREATE TABLE"));
        }
        if let Some(source) = &create.clone {
            return clone(session, txn, &place, source, if_exists);
        }
        match (&create.query, &create.like) {
            (Some(query), _) => create_as(session, txn, place, create, query, if_exists, params),
            (None, Some(like)) => {
                let (CreateTableLikeKind::Parenthesized(like) | CreateTableLikeKind::Plain(like)) =
                    like;
                let source = target(session, &txn.view(), &like.name)?.table;
                let definition = TableDef {
                    schema: place.schema,
                    name: place.name,
                    columns: source.columns().to_vec(),
                    constraints: source.constraints().to_vec(),
                };
                create_checked(txn, definition, source.checks().to_vec(), if_exists)?;
                Ok(Outcome::done("CREATE TABLE"))
            }
            (None, None) => {
                let (definition, checks) = definition(session, place, create)?;
                create_checked(txn, definition, checks, if_exists)?;
                Ok(Outcome::done("CREATE TABLE"))
            }
        }
    })
}

/// Creates a table that did not exist, or is to be replaced.
pub(crate) fn create_checked(
    txn: &mut WriteTxn,
    definition: TableDef,
    checks: Vec<Check>,
    if_exists: IfExists,
) -> Result<()> {
    let (schema, name) = (definition.schema.clone(), definition.name.clone());
    txn.create_table(definition, if_exists)?;
    if checks.is_empty() {
        return Ok(());
    }
    txn.set_checks(&schema, &name, checks)
}

/// What OR REPLACE and IF NOT EXISTS mean together.
pub(crate) fn if_exists(or_replace: bool, if_not_exists: bool) -> Result<IfExists> {
    match (or_replace, if_not_exists) {
        (true, true) => Err(Error::plan("OR REPLACE and IF NOT EXISTS exclude each other")),
        (true, false) => Ok(IfExists::Replace),
        (false, true) => Ok(IfExists::Skip),
        (false, false) => Ok(IfExists::Fail),
    }
}

/// Clears the place of what is to be created: `true` when IF NOT EXISTS makes the statement do
/// nothing. A taken name is an error at once, before a query runs for nothing. Names that differ
/// only in case are the same name.
fn skipped(
    txn: &mut WriteTxn,
    place: &Place,
    kind: ObjectKind,
    if_exists: IfExists,
) -> Result<bool> {
    let catalog = txn.view();
    let table = find_name(&catalog.table_names(&place.schema), &place.name);
    let view = find_name(&catalog.view_names(&place.schema), &place.name);
    let (same, other) = match kind {
        ObjectKind::View => (view, table.map(|_| ObjectKind::Table)),
        _ => (table, view.map(|_| ObjectKind::View)),
    };
    if let Some(kind) = other {
        return Err(Error::AlreadyExists { kind, name: place.shown() });
    }
    match (same, if_exists) {
        (None, _) => Ok(false),
        (Some(_), IfExists::Skip) => Ok(true),
        (Some(_), IfExists::Fail) => Err(Error::AlreadyExists { kind, name: place.shown() }),
        (Some(spelled), IfExists::Replace) if spelled == place.name => Ok(false),
        (Some(spelled), IfExists::Replace) => match kind {
            ObjectKind::View => txn.drop_view(&place.schema, &spelled).map(|()| false),
            _ => txn.drop_table(&place.schema, &spelled).map(|()| false),
        },
    }
}

/// The definition a CREATE TABLE with a list of columns describes.
fn definition(
    session: &Session,
    place: Place,
    create: &CreateTable,
) -> Result<(TableDef, Vec<Check>)> {
    let mut keys = Keys::default();
    let mut columns = Vec::with_capacity(create.columns.len());
    for (index, column) in create.columns.iter().enumerate() {
        columns.push(column_def(session, column, |primary| keys.add(primary, vec![index]))?);
    }
    check_columns(&columns)?;
    let mut checks = Checks::of(session, &place.name, &[]);
    for option in create.columns.iter().flat_map(|column| &column.options) {
        if let ColumnOption::Check(check) = &option.option {
            let name = check.name.as_ref().or(option.name.as_ref());
            checks.add(name, &check.expr, &columns)?;
        }
    }
    for constraint in &create.constraints {
        if !checks.add_constraint(constraint, &columns)? {
            let (primary, names) = key_columns(constraint)?;
            keys.add(primary, find_columns(&columns, &names)?)?;
        }
    }
    let constraints = keys.finish(&mut columns);
    let checks = checks.list;
    Ok((TableDef { schema: place.schema, name: place.name, columns, constraints }, checks))
}

/// A column's definition; `key` is called for PRIMARY KEY (`true`) and UNIQUE.
pub(crate) fn column_def(
    session: &Session,
    column: &sql::ColumnDef,
    mut key: impl FnMut(bool) -> Result<()>,
) -> Result<ColumnDef> {
    let name = column.name.value.clone();
    let is_uuid = is_uuid_type(&column.data_type);
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
                let field = if is_uuid { uuid::marked(field) } else { field };
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
            ColumnOption::Generated { .. } => {
                return Err(Error::unsupported(format!("column {name:?}: {GENERATED}")));
            }
            other => {
                return Err(Error::unsupported(format!("column {name:?}: {other}")));
            }
        }
    }
    Ok(ColumnDef { name, data_type, nullable, is_uuid, default_sql })
}

const GENERATED: &str = "generated columns; make a view with the column computed";
/// What is said of foreign keys.
const REFERENCES: &str = "FOREIGN KEY and REFERENCES, which would not be enforced; leave them out, \
     and find rows without a partner by an ANTI JOIN";

/// Whether a column was given without a type.
pub(crate) fn is_untyped(data_type: &sql::DataType) -> bool {
    match data_type {
        sql::DataType::Unspecified => true,
        sql::DataType::Custom(name, _) => {
            parts(name).is_ok_and(|parts| parts == [UNTYPED_MARK.to_string()])
        }
        _ => false,
    }
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

/// CREATE TABLE ... CLONE: shares the column data.
fn clone(
    session: &Session,
    txn: &mut WriteTxn,
    place: &Place,
    source: &ObjectName,
    if_exists: IfExists,
) -> Result<Outcome> {
    let reference = match parts(source)?.as_slice() {
        [table] => TableReference::bare(table.as_str()),
        [schema, table] => TableReference::partial(schema.as_str(), table.as_str()),
        [catalog, schema, table] => {
            TableReference::full(catalog.as_str(), schema.as_str(), table.as_str())
        }
        _ => return Err(Error::plan(format!("{source}: a name has at most three parts"))),
    };
    let view = session.view()?;
    let (table, store) = match view.find(&reference)? {
        Some(Found::Table { table, source, .. }) => (table, source.store),
        None => return Err(view.unknown_table(&reference)),
        Some(_) => {
            return Err(Error::plan(format!(
                "{source} is not a stored table; CREATE TABLE ... AS SELECT copies it"
            )));
        }
    };
    txn.clone_table(&place.schema, &place.name, &table, &store, if_exists)?;
    Ok(Outcome::done("CREATE TABLE"))
}

/// CREATE VIEW: the query is checked now, and kept as text.
pub(crate) fn view(session: &Session, create: &CreateView) -> Result<Outcome> {
    let if_exists = if_exists(create.or_replace, create.if_not_exists)?;
    let (sql, plan) = checked_query(session, create)?;
    let names: Vec<String> =
        create.columns.iter().map(|column| column.name.value.clone()).collect();
    if !names.is_empty() && names.len() != plan.schema().fields().len() {
        return Err(Error::plan(format!(
            "the view names {} columns, and its query has {}",
            names.len(),
            plan.schema().fields().len()
        )));
    }
    with_txn(session, |txn| {
        let place = place(session, &txn.view(), &create.name)?;
        if skipped(txn, &place, ObjectKind::View, if_exists)? {
            return Ok(Outcome::done("CREATE VIEW"));
        }
        let Place { schema, name } = place;
        let columns = (!names.is_empty()).then_some(names);
        let view = View { name, sql, columns };
        txn.create_view(&schema, view, if_exists)?;
        Ok(Outcome::done("CREATE VIEW"))
    })
}

/// The text that a view keeps of its query, and the query's plan. Calls of macros stay as they are
/// written, so that they mean what they do where the view is used.
fn checked_query(session: &Session, create: &CreateView) -> Result<(String, LogicalPlan)> {
    // What is temporary may read all that its session does.
    let outer = session.temporary.outer();
    let session = outer.as_deref().unwrap_or(session);
    let (view, engine) = (session.view()?, session.engine()?);
    let planner = Planner::of_session(session, &view, &engine);
    let mut prepared = Statement::CreateView(create.clone());
    planner.prepare(&mut prepared)?;
    let Statement::CreateView(prepared) = prepared else {
        return Err(Error::internal("the statement makes no view any more"));
    };
    let sql = match expand::is_called(&planner, &create.query) {
        true => macros::query_text(session, &mut create.query.clone())?,
        false => written(prepared.query.as_ref()),
    };
    let mut query = build::statement(*prepared.query, None);
    sequences::refuse_in_view(&mut query)?;
    Ok((sql, planner.plan(query, &Params::default())?))
}

/// CREATE SCHEMA.
pub(crate) fn schema(session: &Session, name: &SchemaName, if_not_exists: bool) -> Result<Outcome> {
    let SchemaName::Simple(name) = name else {
        return Err(Error::unsupported("CREATE SCHEMA ... AUTHORIZATION"));
    };
    let name = schema_name(name)?;
    let if_exists = if_exists(false, if_not_exists)?;
    with_txn(session, |txn| {
        if name.eq_ignore_ascii_case("information_schema") {
            return Err(Error::AlreadyExists { kind: ObjectKind::Schema, name: name.clone() });
        }
        let same = find_name(&txn.view().schema_names(), &name);
        if same.is_some() && if_exists == IfExists::Fail {
            return Err(Error::AlreadyExists { kind: ObjectKind::Schema, name: name.clone() });
        }
        if same.is_none() {
            txn.create_schema(&name, if_exists)?;
        }
        Ok(Outcome::done("CREATE SCHEMA"))
    })
}

/// The name of a schema: alone, or after the name of this database.
pub(crate) fn schema_name(name: &ObjectName) -> Result<String> {
    match parts(name)?.as_slice() {
        [schema] => Ok(schema.clone()),
        [catalog, schema] if catalog.eq_ignore_ascii_case(crate::execute::target::OWN_CATALOG) => {
            Ok(schema.clone())
        }
        _ => Err(Error::plan(format!("{name} is not the name of a schema of this database"))),
    }
}

/// Whether a schema is the one every database has.
pub(crate) fn is_default_schema(name: &str) -> bool {
    name.eq_ignore_ascii_case(DEFAULT_SCHEMA)
}
