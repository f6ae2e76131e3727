//! The views of `information_schema` that tell of constraints.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use swingdb_common::error::Result;
use swingdb_store::Table;

use crate::bind::system::constraints;
use crate::bind::system::constraints::{Constraint, Kind as Of};
use crate::bind::system::objects::{Context, Objects};
use crate::bind::system::rows::{Kind, Rows, cells};

use Kind::{Big, Text};

/// The view of this name, if it is one of this module.
pub(crate) fn view(context: &Context<'_>, name: &str) -> Option<Result<Arc<dyn TableProvider>>> {
    Some(match name {
        "table_constraints" => table_constraints(context),
        "key_column_usage" => key_column_usage(context),
        "referential_constraints" => referential_constraints(context),
        _ => return None,
    })
}

fn table_constraints(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("constraint_catalog", Text),
        ("constraint_schema", Text),
        ("constraint_name", Text),
        ("table_catalog", Text),
        ("table_schema", Text),
        ("table_name", Text),
        ("constraint_type", Text),
        ("is_deferrable", Text),
        ("initially_deferred", Text),
        ("enforced", Text),
        ("nulls_distinct", Text),
    ]);
    for (database, schema, relation, table) in Objects::of(context)?.tables() {
        for one in constraints::of(table) {
            // As the standard has it: NOT NULL is a CHECK.
            let kind = if one.kind == Of::NotNull { Of::Check } else { one.kind };
            rows.add(cells![
                &database.name,
                &schema.name,
                one.name,
                &database.name,
                &schema.name,
                &relation.name,
                kind.words(),
                "NO",
                "NO",
                "YES",
                "YES",
            ]);
        }
    }
    rows.finish()
}

fn is_of_columns(kind: Of) -> bool {
    matches!(kind, Of::Primary | Of::Unique | Of::Foreign)
}

fn key_column_usage(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("constraint_catalog", Text),
        ("constraint_schema", Text),
        ("constraint_name", Text),
        ("table_catalog", Text),
        ("table_schema", Text),
        ("table_name", Text),
        ("column_name", Text),
        ("ordinal_position", Big),
        ("position_in_unique_constraint", Big),
    ]);
    for (database, schema, relation, table) in Objects::of(context)?.tables() {
        for one in constraints::of(table).into_iter().filter(|one| is_of_columns(one.kind)) {
            for (at, column) in one.columns.iter().enumerate() {
                let position = at as i64 + 1;
                let in_parent = one.references.is_some().then_some(position);
                rows.add(cells![
                    &database.name,
                    &schema.name,
                    &one.name,
                    &database.name,
                    &schema.name,
                    &relation.name,
                    &table.columns()[*column].name,
                    position,
                    in_parent,
                ]);
            }
        }
    }
    rows.finish()
}

/// The key of a parent that a foreign key refers to.
fn key_of(parent: &Table, names: &[String]) -> Option<Constraint> {
    let columns = names.iter().map(|name| parent.column_index(name)).collect::<Option<Vec<_>>>()?;
    constraints::of(parent).into_iter().find(|one| {
        matches!(one.kind, Of::Primary | Of::Unique)
            && one.columns.len() == columns.len()
            && one.columns.iter().all(|column| columns.contains(column))
    })
}

fn referential_constraints(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("constraint_catalog", Text),
        ("constraint_schema", Text),
        ("constraint_name", Text),
        ("unique_constraint_catalog", Text),
        ("unique_constraint_schema", Text),
        ("unique_constraint_name", Text),
        ("match_option", Text),
        ("update_rule", Text),
        ("delete_rule", Text),
    ]);
    for (database, schema, _, table) in Objects::of(context)?.tables() {
        for one in constraints::of(table) {
            let Some(key) = &one.references else { continue };
            let parent = database.source.catalog.table(&key.schema, &key.table)?;
            let unique = parent.and_then(|parent| key_of(&parent, &key.keys));
            rows.add(cells![
                &database.name,
                &schema.name,
                &one.name,
                &database.name,
                &key.schema,
                unique.map(|unique| unique.name),
                "NONE",
                "NO ACTION",
                "NO ACTION",
            ]);
        }
    }
    rows.finish()
}
