//! CREATE TABLE (also LIKE and CLONE; for AS see [`create_as`]), CREATE VIEW, CREATE SCHEMA.

use datafusion::common::TableReference;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{
    ColumnOption, CreateTable, CreateTableLikeKind, CreateView, ObjectName, SchemaName, Statement,
    TableConstraint,
};
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_store::{Check, Generated, IfExists, TableDef, View, WriteTxn};

use crate::execute::atomic::{Outcome, with_txn};
use crate::execute::ddl::checks::Checks;
use crate::execute::ddl::column_defs::{
    Keys, check_columns, column_def, find_columns, key_columns,
};
use crate::execute::ddl::create_as::create_as;
use crate::execute::ddl::{foreign, generated, macros};
use crate::execute::target::{DEFAULT_SCHEMA, QualifiedName, if_exists, place, target};
use crate::session::Session;
use swingdb_sql::ast::build;
use swingdb_sql::ast::names::{find_name, parts};
use swingdb_sql::bind::catalogs::Found;
use swingdb_sql::bind::macros::expand;
use swingdb_sql::bind::{sequences, types};
use swingdb_sql::planner::Planner;
use swingdb_sql::text::asof::written;
use swingdb_sql::text::parameters::Params;
use swingdb_sql::text::relation_statements;

/// Runs a CREATE TABLE.
pub(crate) fn table(session: &Session, create: &CreateTable, params: &Params) -> Result<Outcome> {
    let if_exists = if_exists(create.or_replace, create.if_not_exists)?;
    let mut resolved = Statement::CreateTable(create.clone());
    types::resolve(&session.view()?, &mut resolved)?;
    let Statement::CreateTable(create) = &resolved else {
        return Err(Error::internal("the statement makes no table any more"));
    };
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
                let (schema, name) = (definition.schema.clone(), definition.name.clone());
                let generated = source.notes().generated.clone();
                create_checked(txn, definition, source.checks().to_vec(), if_exists)?;
                txn.set_generated(&schema, &name, generated.into_iter().collect())?;
                Ok(Outcome::done("CREATE TABLE"))
            }
            (None, None) => {
                let (definition, checks, generated) = definition(session, &place, create)?;
                let own = foreign::Own {
                    place: &place,
                    columns: &definition.columns,
                    constraints: &definition.constraints,
                };
                let references = foreign::keys(session, txn, &own, create)?;
                create_checked(txn, definition, checks, if_exists)?;
                if !generated.is_empty() {
                    txn.set_generated(&place.schema, &place.name, generated)?;
                }
                if !references.is_empty() {
                    txn.set_foreign_keys(&place.schema, &place.name, references)?;
                }
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

/// Clears the place of what is to be created: `true` when IF NOT EXISTS makes the statement do
/// nothing. A taken name is an error at once, before a query runs for nothing. Names that differ
/// only in case are the same name.
fn skipped(
    txn: &mut WriteTxn,
    place: &QualifiedName,
    kind: ObjectKind,
    if_exists: IfExists,
) -> Result<bool> {
    let catalog = txn.view();
    let table = catalog.find_table(&place.schema, &place.name)?;
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

/// A table's columns and keys, its checks, and which columns are computed.
type Described = (TableDef, Vec<Check>, Vec<(usize, Generated)>);

/// The definition a CREATE TABLE with a list of columns describes.
fn definition(session: &Session, place: &QualifiedName, create: &CreateTable) -> Result<Described> {
    let mut keys = Keys::default();
    let mut columns = Vec::with_capacity(create.columns.len());
    let mut computed = Vec::new();
    for (index, column) in create.columns.iter().enumerate() {
        if let Some(expr) = generated::expression(column)? {
            columns.push(generated::unsettled(column)?);
            computed.push((index, expr));
            continue;
        }
        let mut column = column.clone();
        // Those are looked at once all columns are there.
        column.options.retain(|option| !matches!(option.option, ColumnOption::ForeignKey(_)));
        columns.push(column_def(session, &column, |primary| keys.add(primary, vec![index]))?);
    }
    check_columns(&columns)?;
    let generated = generated::settle(session, &place.name, &mut columns, computed)?;
    let mut checks = Checks::of(session, &place.name, &[]);
    for option in create.columns.iter().flat_map(|column| &column.options) {
        if let ColumnOption::Check(check) = &option.option {
            let name = check.name.as_ref().or(option.name.as_ref());
            checks.add(name, &check.expr, &columns)?;
        }
    }
    for constraint in &create.constraints {
        let references = matches!(constraint, TableConstraint::ForeignKey(_));
        if !references && !checks.add_constraint(constraint, &columns)? {
            let (primary, names) = key_columns(constraint)?;
            let key = find_columns(&columns, &names)?;
            if generated.iter().any(|(at, _)| key.contains(at)) {
                return Err(Error::unsupported("a key of generated columns"));
            }
            keys.add(primary, key)?;
        }
    }
    let constraints = keys.finish(&mut columns);
    let (schema, name) = (place.schema.clone(), place.name.clone());
    Ok((TableDef { schema, name, columns, constraints }, checks.list, generated))
}

/// CREATE TABLE ... CLONE: shares the column data.
fn clone(
    session: &Session,
    txn: &mut WriteTxn,
    place: &QualifiedName,
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
        let QualifiedName { schema, name } = place;
        let columns = (!names.is_empty()).then_some(names);
        let view = View { name, sql, columns };
        txn.create_view(&schema, view, if_exists)?;
        Ok(Outcome::done("CREATE VIEW"))
    })
}

/// The text that a view keeps of its query, and the query's plan. Calls of macros stay as they are
/// written, so that they mean what they do where the view is used.
fn checked_query(session: &Session, create: &CreateView) -> Result<(String, LogicalPlan)> {
    let (view, engine) = (session.view()?, session.engine()?);
    let planner = Planner::of_session(session, &view, &engine);
    let mut prepared = Statement::CreateView(create.clone());
    relation_statements::refuse(&mut prepared, "a view")?;
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
    Ok((sql, planner.plan(query)?))
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
