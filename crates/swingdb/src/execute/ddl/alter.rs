//! ALTER TABLE, and the renaming of views.
//!
//! Adding, dropping and renaming columns touches the definition and, for an added column, its
//! values only. Changing a column's type and adding a key rewrite the table: its rows go through a
//! query into a new table, in their order, which then takes the old one's name.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema};
use datafusion::sql::sqlparser::ast as sql;
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, Expr, Ident, ObjectName, OrderBy,
    OrderByExpr, OrderByKind, RenameTableNameKind, Statement, TableConstraint,
};
use swingdb_common::cast::convert::{Origin, check_assignable, convert_batch, relabel};
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_common::hidden;
use swingdb_common::types::arrow_types::{column_type, enum_type, is_uuid_type};
use swingdb_store::{
    Check, ColumnDef, Commented, Constraint, IfExists, Table, TableDef, View, WriteTxn,
};

use crate::execute::atomic::{Outcome, with_txn};
use crate::execute::ddl::checks;
use crate::execute::ddl::checks::Checks;
use crate::execute::ddl::column_defs::{Keys, column_def, find_columns, key_columns};
use crate::execute::ddl::create::create_checked;
use crate::execute::dml::defaults;
use crate::execute::dml::defaults::DefaultValue;
use crate::execute::dml::insert::append_stream;
use crate::execute::dml::row_set::collect_ids;
use crate::execute::target::{
    Named, QualifiedName, Target, check_given, column, find_table, place, target,
};
use crate::session::Session;
use swingdb_sql::ast::build;
use swingdb_sql::ast::names::{find_name, parts, quoted};
use swingdb_sql::bind::types;
use swingdb_sql::scan::hidden::ROWID_COLUMN;
use swingdb_sql::text::parameters::Params;

/// The name of a table that is being rewritten; no identifier a person writes contains a control
/// character.
const REWRITTEN: &str = hidden!("rewritten");

/// Runs an ALTER TABLE. Its operations are applied in order, all or none.
pub(crate) fn table(session: &Session, alter: &AlterTable) -> Result<Outcome> {
    if let [AlterTableOperation::RenameTable { table_name }] = alter.operations.as_slice()
        && let Some(renamed) = rename_view(session, &alter.name, table_name)?
    {
        return Ok(renamed);
    }
    let mut resolved = Statement::AlterTable(alter.clone());
    types::resolve(&session.view()?, &mut resolved)?;
    let Statement::AlterTable(alter) = &resolved else {
        return Err(Error::internal("the statement alters no table any more"));
    };
    with_txn(session, |txn| {
        let mut name = alter.name.clone();
        for (index, operation) in alter.operations.iter().enumerate() {
            let target = match target(session, &txn.view(), &name) {
                Ok(target) => target,
                Err(Error::NotFound { .. }) if alter.if_exists => break,
                Err(error) => return Err(error),
            };
            let mut step = Step { session, txn, target, first: index == 0 };
            if let Some(renamed) = step.run(operation)? {
                name = renamed;
            }
        }
        Ok(Outcome::done("ALTER TABLE"))
    })
}

/// That the type of a column can change: no value is computed from it, and no foreign key has it.
fn check_free(table: &Table, index: usize) -> Result<()> {
    let notes = table.notes();
    let name = &table.columns()[index].name;
    if notes.generated.iter().any(|(at, one)| *at == index || one.columns.contains(&index)) {
        return Err(Error::plan(format!(
            "the type of column {name:?} cannot be changed: a generated column depends on it"
        )));
    }
    match notes.foreign_keys.iter().any(|key| key.columns.contains(&index)) {
        true => Err(Error::plan(format!(
            "the type of column {name:?} cannot be changed: it is part of a FOREIGN KEY"
        ))),
        false => Ok(()),
    }
}

/// Adds a UNIQUE key over these columns to a table.
pub(crate) fn add_unique(
    session: &Session,
    txn: &mut WriteTxn,
    found: &Target,
    key: Vec<usize>,
) -> Result<()> {
    let mut step = Step { session, txn, target: found.clone(), first: true };
    let table = Arc::clone(&found.table);
    let mut keys = Keys::of(table.constraints());
    keys.add(false, key)?;
    let mut columns = table.columns().to_vec();
    let constraints = keys.finish(&mut columns);
    let values = step.plain_values();
    step.rewrite(columns, constraints, table.checks().to_vec(), values)
}

/// `ALTER VIEW v RENAME TO w`, which arrives as ALTER TABLE; `None` when `v` is no view.
fn rename_view(
    session: &Session,
    name: &ObjectName,
    to: &RenameTableNameKind,
) -> Result<Option<Outcome>> {
    with_txn(session, |txn| {
        let catalog = txn.view();
        let old = place(session, &catalog, name)?;
        let views = catalog.view_names(&old.schema);
        let Some(found) = find_name(&views, &old.name) else { return Ok(None) };
        let Some(view) = catalog.view(&old.schema, &found)? else { return Ok(None) };
        let (RenameTableNameKind::As(to) | RenameTableNameKind::To(to)) = to;
        let new = match parts(to)?.as_slice() {
            [new] => new.clone(),
            _ => {
                let place = place(session, &catalog, to)?;
                if place.schema != old.schema {
                    return Err(Error::unsupported("moving a view to another schema"));
                }
                place.name
            }
        };
        let names = [catalog.table_names(&old.schema)?, views].concat();
        if find_name(&names, &new).is_some_and(|taken| taken != found) {
            return Err(Error::AlreadyExists { kind: ObjectKind::View, name: new });
        }
        let comment = catalog.comment(&old.schema, Commented::View, &found);
        txn.drop_view(&old.schema, &found)?;
        let view = View { name: new.clone(), ..View::clone(&view) };
        txn.create_view(&old.schema, view, IfExists::Fail)?;
        if let Some(comment) = comment {
            txn.set_comment(&old.schema, Commented::View, &new, Some(&comment))?;
        }
        Ok(Some(Outcome::done("ALTER VIEW")))
    })
}

struct Step<'a> {
    session: &'a Session,
    txn: &'a mut WriteTxn,
    target: Target,
    /// Queries of the statement see the state before it: rows are only read by its first operation.
    first: bool,
}

impl Step<'_> {
    /// Applies one operation; the new name when it renames the table.
    fn run(&mut self, operation: &AlterTableOperation) -> Result<Option<ObjectName>> {
        match operation {
            AlterTableOperation::AddColumn {
                if_not_exists, column_def, column_position, ..
            } => {
                if column_position.is_some() {
                    return Err(Error::unsupported("FIRST and AFTER; new columns come last"));
                }
                self.add_column(column_def, *if_not_exists)?;
            }
            AlterTableOperation::DropColumn { column_names, if_exists, .. } => {
                for name in column_names {
                    self.drop_column(&name.value, *if_exists)?;
                }
            }
            AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
                self.rename_column(&old_column_name.value, &new_column_name.value)?;
            }
            AlterTableOperation::RenameTable { table_name } => {
                let (RenameTableNameKind::As(name) | RenameTableNameKind::To(name)) = table_name;
                return self.rename(name).map(Some);
            }
            AlterTableOperation::AlterColumn { column_name, op } => {
                self.alter_column(&column_name.value, op)?;
            }
            AlterTableOperation::AddConstraint { constraint, .. } => {
                self.add_constraint(constraint)?;
            }
            AlterTableOperation::DropPrimaryKey { .. } => self.drop_primary_key()?,
            AlterTableOperation::DropConstraint { name, if_exists, .. } => {
                self.drop_check(&name.value, *if_exists)?;
            }
            other => return Err(Error::unsupported(format!("ALTER TABLE ... {other}"))),
        }
        Ok(None)
    }

    fn add_column(&mut self, wanted: &sql::ColumnDef, if_not_exists: bool) -> Result<()> {
        let Target { schema, name, table } = &self.target;
        if column(table, &wanted.name.value).is_ok() {
            let name = wanted.name.value.clone();
            let taken = Error::AlreadyExists { kind: ObjectKind::Column, name };
            return if if_not_exists { Ok(()) } else { Err(taken) };
        }
        if wanted.options.iter().any(|o| matches!(o.option, sql::ColumnOption::Check(_))) {
            return Err(Error::unsupported(
                "CHECK with ADD COLUMN; use ALTER TABLE ... ADD CHECK (...) afterwards",
            ));
        }
        let added = column_def(self.session, wanted, |_| {
            Err(Error::unsupported("a key with ADD COLUMN; use ALTER TABLE ... ADD UNIQUE (...)"))
        })?;
        match DefaultValue::of(self.session, &added)? {
            DefaultValue::Same(value) if value.is_null() => {
                self.txn.add_column(schema, name, added, None)
            }
            DefaultValue::Same(value) => {
                let value = value.to_array_of_size(1)?;
                self.txn.add_column(schema, name, added, Some(value))
            }
            each @ (DefaultValue::Numbers(_) | DefaultValue::Each(_)) => {
                self.add_computed(added, &each)
            }
        }
    }

    /// A column whose existing rows each get a value of their own.
    fn add_computed(&mut self, added: ColumnDef, default: &DefaultValue) -> Result<()> {
        self.require_first("ADD COLUMN with a DEFAULT that differs from row to row")?;
        let Target { schema, name, table } = self.target.clone();
        let mut collected = self.session.collected("ALTER TABLE")?;
        let ids = collect_ids(collected.over(self.all_rows(Vec::new())?))?;
        let index = table.columns().len();
        let nullable = ColumnDef { nullable: true, ..added.clone() };
        self.txn.add_column(&schema, &name, nullable, None)?;
        if !ids.is_empty() {
            let values = default.rows(self.session, &added, ids.len())?;
            let field = added.field().with_nullable(true);
            let values = relabel(vec![values], &Arc::new(Schema::new(vec![field])), ids.len())?;
            collected.add(&values)?;
            self.txn.update_rows(&schema, &name, &ids, &[index], &[values])?;
        }
        if !added.nullable {
            self.txn.alter_column(&schema, &name, &added.name, None, Some(false))?;
        }
        Ok(())
    }

    fn drop_column(&mut self, wanted: &str, if_exists: bool) -> Result<()> {
        // The table may have changed since the last column of the same list.
        let target = self.now()?;
        let index = match column(&target.table, wanted) {
            Err(Error::NotFound { .. }) if if_exists => return Ok(()),
            other => other?,
        };
        let column = target.table.columns()[index].name.clone();
        if target.table.columns().len() == 1 {
            let message = format!("column {column:?} is the only one of the table; use DROP TABLE");
            return Err(Error::plan(message));
        }
        let keys = target.table.constraints();
        if keys.iter().any(|key| key.columns().contains(&index)) {
            return Err(Error::plan(format!("column {column:?} is part of a key of the table")));
        }
        let index = target.table.notes().indexes.iter().find(|one| one.columns.contains(&index));
        if let Some(index) = index {
            return Err(Error::plan(format!(
                "column {column:?} is part of the index {:?}; DROP INDEX first",
                index.name
            )));
        }
        self.txn.drop_column(&target.schema, &target.name, &column)
    }

    fn rename_column(&mut self, old: &str, new: &str) -> Result<()> {
        let Target { schema, name, table } = &self.target;
        let index = column(table, old)?;
        if column(table, new).is_ok_and(|other| other != index) {
            let name = new.to_string();
            return Err(Error::AlreadyExists { kind: ObjectKind::Column, name });
        }
        let old = &table.columns()[index].name;
        let checks = checks::renamed(table.checks(), index, old, new)?;
        self.txn.rename_column(schema, name, old, new)?;
        if checks.as_slice() != table.checks() {
            self.txn.set_checks(schema, name, checks)?;
        }
        let mut notes = table.notes().clone();
        for index in notes.indexes.iter_mut().filter(|one| one.columns.contains(&index)) {
            for on in &mut index.on {
                *on = checks::renamed_text(on, old, new)?;
            }
        }
        for generated in notes.generated.values_mut() {
            if generated.columns.contains(&index) {
                generated.sql = checks::renamed_text(&generated.sql, old, new)?;
            }
        }
        if notes != *table.notes() {
            self.txn.set_notes(schema, name, notes)?;
        }
        Ok(())
    }

    fn rename(&mut self, name: &ObjectName) -> Result<ObjectName> {
        let Target { schema, name: old, .. } = &self.target;
        let new = match parts(name)?.as_slice() {
            [new] => new.clone(),
            _ => {
                let place = place(self.session, &self.txn.view(), name)?;
                if place.schema != *schema {
                    return Err(Error::unsupported("moving a table to another schema"));
                }
                place.name
            }
        };
        let view = self.txn.view();
        let names = [view.table_names(schema)?, view.view_names(schema)].concat();
        if find_name(&names, &new).is_some_and(|taken| taken != *old) {
            return Err(Error::AlreadyExists { kind: ObjectKind::Table, name: new });
        }
        if new != *old {
            self.txn.rename_table(schema, old, &new)?;
        }
        Ok(build::name(&[schema, &new]))
    }

    fn alter_column(&mut self, wanted: &str, operation: &AlterColumnOperation) -> Result<()> {
        let Target { schema, name, table } = self.target.clone();
        let index = column(&table, wanted)?;
        let column = &table.columns()[index];
        let mut change = |default, nullable| {
            self.txn.alter_column(&schema, &name, &column.name, default, nullable)
        };
        match operation {
            AlterColumnOperation::SetNotNull => {
                check_given(&table, &[index])?;
                change(None, Some(false))
            }
            AlterColumnOperation::DropNotNull => {
                let primary = |key: &Constraint| matches!(key, Constraint::Primary(_));
                if table.constraints().iter().any(|k| primary(k) && k.columns().contains(&index)) {
                    let name = &column.name;
                    return Err(Error::plan(format!("column {name:?} is in the PRIMARY KEY")));
                }
                change(None, Some(true))
            }
            AlterColumnOperation::DropDefault => change(Some(None), None),
            AlterColumnOperation::SetDefault { value } => {
                check_given(&table, &[index])?;
                defaults::check(self.session, value, &column.field())?;
                self.txn.alter_column(
                    &schema,
                    &name,
                    &column.name,
                    Some(Some(value.to_string())),
                    None,
                )
            }
            AlterColumnOperation::SetDataType { data_type, using, .. } => {
                check_free(&table, index)?;
                let mut columns = table.columns().to_vec();
                columns[index].data_type = column_type(data_type)?;
                columns[index].is_uuid = is_uuid_type(data_type);
                columns[index].enumeration = enum_type(data_type)?;
                if let Some(sql) = &columns[index].default_sql {
                    let default = build::parse_expr(sql)?;
                    defaults::check(self.session, &default, &columns[index].field())?;
                }
                let mut values = self.plain_values();
                if let Some(using) = using {
                    values[index] = using.clone();
                }
                let checks = self.checks_for(&columns)?;
                self.rewrite(columns, table.constraints().to_vec(), checks, values)
            }
            other => Err(Error::unsupported(format!("ALTER COLUMN ... {other}"))),
        }
    }

    fn add_constraint(&mut self, constraint: &TableConstraint) -> Result<()> {
        let table = Arc::clone(&self.target.table);
        let mut columns = table.columns().to_vec();
        let mut checks = Checks::of(self.session, table.name(), table.checks());
        let mut keys = Keys::of(table.constraints());
        if !checks.add_constraint(constraint, &columns)? {
            let (primary, names) = key_columns(constraint)?;
            keys.add(primary, find_columns(&columns, &names)?)?;
        }
        let constraints = keys.finish(&mut columns);
        // All rows go through the store once more, and so are tested.
        let values = self.plain_values();
        self.rewrite(columns, constraints, checks.list, values)
    }

    fn drop_check(&mut self, name: &str, if_exists: bool) -> Result<()> {
        let Target { schema, name: table_name, table } = &self.target;
        let mut checks = Checks::of(self.session, table.name(), table.checks());
        match checks.find(name) {
            Some(index) => {
                checks.list.remove(index);
                self.txn.set_checks(schema, table_name, checks.list)
            }
            None if if_exists => Ok(()),
            None => {
                let known = checks.list.iter().filter_map(|check| check.name.as_deref());
                Err(Error::not_found(ObjectKind::Constraint, name, known))
            }
        }
    }

    fn drop_primary_key(&mut self) -> Result<()> {
        let table = Arc::clone(&self.target.table);
        let primary = |key: &&Constraint| !matches!(key, Constraint::Primary(_));
        let rest: Vec<Constraint> = table.constraints().iter().filter(primary).cloned().collect();
        if rest.len() == table.constraints().len() {
            return Err(Error::plan(format!("table {:?} has no PRIMARY KEY", table.name())));
        }
        let values = self.plain_values();
        self.rewrite(table.columns().to_vec(), rest, table.checks().to_vec(), values)
    }

    /// The table's checks, which must mean something for other columns too.
    fn checks_for(&self, columns: &[ColumnDef]) -> Result<Vec<Check>> {
        let table = &self.target.table;
        let mut checks = Checks::of(self.session, table.name(), &[]);
        for check in table.checks() {
            let name = check.name.as_ref().map(Ident::new);
            checks.add(name.as_ref(), &build::parse_expr(&check.sql)?, columns)?;
        }
        Ok(checks.list)
    }

    /// Each column as it is.
    fn plain_values(&self) -> Vec<Expr> {
        let alias = quoted(&self.target.name);
        let columns = self.target.table.columns().iter();
        columns.map(|column| build::field(&alias, &column.name)).collect()
    }

    /// Puts all rows, with new values, into a table of another definition that takes this one's
    /// place.
    fn rewrite(
        &mut self,
        columns: Vec<ColumnDef>,
        constraints: Vec<Constraint>,
        checks: Vec<Check>,
        values: Vec<Expr>,
    ) -> Result<()> {
        self.require_first("changing a type or a key")?;
        let Target { schema, name, table } = self.target.clone();
        self.txn.check_unreferenced(&schema, &name, "rewritten")?;
        let fields = columns.iter().map(|c| c.field().with_nullable(true));
        let stored = Arc::new(Schema::new(fields.collect::<Vec<Field>>()));
        let rows = self.all_rows(values)?;
        for (given, to) in rows.schema().fields().iter().skip(1).zip(&columns) {
            check_assignable(given.data_type(), &to.data_type, &to.name)?;
        }
        let definition =
            TableDef { schema: schema.clone(), name: REWRITTEN.to_string(), columns, constraints };
        create_checked(self.txn, definition, checks, IfExists::Fail)?;
        let zone = self.session.zone();
        let convert = |batch: RecordBatch, _| {
            let values: Vec<usize> = (1..batch.num_columns()).collect();
            convert_batch(&batch.project(&values)?, &stored, Origin::UNNUMBERED, zone)
        };
        let appended = append_stream(self.session, self.txn, &schema, REWRITTEN, rows, convert);
        appended.map_err(|error| match error {
            Error::Constraint { kind, columns, detail, .. } => {
                Error::Constraint { table: name.clone(), kind, columns, detail }
            }
            other => other,
        })?;
        self.txn.drop_table(&schema, &name)?;
        self.txn.rename_table(&schema, REWRITTEN, &name)?;
        match table.notes().is_empty() {
            true => Ok(()),
            false => self.txn.set_notes(&schema, &name, table.notes().clone()),
        }
    }

    /// Row ids and values of all rows, in their order, as they were before the statement.
    fn all_rows(&self, values: Vec<Expr>) -> Result<crate::session::stream::BatchStream> {
        let alias = quoted(&self.target.name);
        let named = Named::new(self.session, self.target.clone(), alias);
        let mut projection = vec![build::item(named.row_id(), ROWID_COLUMN)];
        for (index, value) in values.into_iter().enumerate() {
            projection.push(build::item(value, format!("value {index}")));
        }
        let mut query = build::select(projection, vec![build::from(named.relation())], None)?;
        let order = OrderByExpr {
            expr: named.row_id(),
            options: sql::OrderByOptions { asc: None, nulls_first: None },
            with_fill: None,
        };
        let kind = OrderByKind::Expressions(vec![order]);
        query.order_by = Some(OrderBy { kind, interpolate: None });
        let plan = self.session.plan(&build::statement(query, None), &Params::default())?;
        self.session.run(plan)
    }

    fn require_first(&self, what: &str) -> Result<()> {
        if self.first {
            return Ok(());
        }
        Err(Error::unsupported(format!(
            "{what} after another change in the same ALTER TABLE; use a statement of its own"
        )))
    }

    /// The table as it is after the operations so far.
    fn now(&self) -> Result<Target> {
        let Target { schema, name, .. } = &self.target;
        let place = QualifiedName { schema: schema.clone(), name: name.clone() };
        find_table(&self.txn.view(), &place)?
            .ok_or_else(|| Error::internal("the altered table is gone"))
    }
}
