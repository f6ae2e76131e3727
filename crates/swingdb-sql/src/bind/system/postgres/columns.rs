//! Columns, their defaults, and their types.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::catalog::TableProvider;
use swingdb_common::error::Result;

use crate::bind::system::objects::{Context, Objects, PG_CATALOG, What};
use crate::bind::system::postgres::{OWNER, keys};
use crate::bind::system::rows::{Cell, Kind, Rows, cells};
use crate::bind::system::types;

use Cell::Null;
use Kind::{Big, Bool, Int, Text, Texts};

pub(crate) fn attribute(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("attrelid", Big),
        ("attname", Text),
        ("atttypid", Big),
        ("attstattarget", Int),
        ("attlen", Int),
        ("attnum", Int),
        ("attndims", Int),
        ("attcacheoff", Int),
        ("atttypmod", Int),
        ("attbyval", Bool),
        ("attstorage", Text),
        ("attalign", Text),
        ("attnotnull", Bool),
        ("atthasdef", Bool),
        ("atthasmissing", Bool),
        ("attidentity", Text),
        ("attgenerated", Text),
        ("attisdropped", Bool),
        ("attislocal", Bool),
        ("attinhcount", Int),
        ("attcollation", Big),
        ("attcompression", Text),
        ("attacl", Texts),
        ("attoptions", Texts),
        ("attfdwoptions", Texts),
        ("attmissingval", Text),
    ]);
    let objects = Objects::of(context)?;
    for (database, schema, relation) in objects.own_relations() {
        let columns = context.columns(database, schema, relation).unwrap_or_default();
        for (at, column) in (1..).zip(columns) {
            let (field, has_default) = (&column.field, column.default.is_some());
            rows.add(attribute_cells(relation.oid, at, field, has_default));
        }
        let What::Table(table) = &relation.what else { continue };
        for (oid, columns) in keys::columns_of_indexes(relation, table) {
            for (at, column) in (1..).zip(columns) {
                let field = match column {
                    Some(column) => table.columns()[column].field().with_nullable(true),
                    None => Field::new("expr", DataType::Utf8, true),
                };
                rows.add(attribute_cells(oid, at, &field, false));
            }
        }
    }
    rows.finish()
}

/// The row of `pg_attribute` for a column of a relation or an index.
fn attribute_cells(relation: i64, at: i64, field: &Field, has_default: bool) -> Vec<Cell> {
    let kind = types::of_field(field);
    cells![
        relation,
        field.name(),
        kind.oid,
        -1i64,
        kind.size,
        at,
        i64::from(kind.category == "A"),
        -1i64,
        types::modifier(field.data_type()),
        Null,
        if kind.size < 0 { "x" } else { "p" },
        Null,
        !field.is_nullable(),
        has_default,
        false,
        "",
        "",
        false,
        true,
        0i64,
        0i64,
        "",
        Null,
        Null,
        Null,
        Null,
    ]
}

pub(crate) fn attrdef(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[("oid", Big), ("adrelid", Big), ("adnum", Int), ("adbin", Text)]);
    let objects = Objects::of(context)?;
    for (database, _, relation, table) in objects.tables() {
        if database.attached {
            continue;
        }
        for (at, column) in table.columns().iter().enumerate() {
            if let Some(default) = &column.default_sql {
                // Nobody asks for the numbers of defaults but to join by them.
                rows.add(cells![Null, relation.oid, at + 1, default]);
            }
        }
    }
    rows.finish()
}

pub(crate) fn all_types(_: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("oid", Big),
        ("typname", Text),
        ("typnamespace", Big),
        ("typowner", Big),
        ("typlen", Int),
        ("typbyval", Bool),
        ("typtype", Text),
        ("typcategory", Text),
        ("typispreferred", Bool),
        ("typisdefined", Bool),
        ("typdelim", Text),
        ("typrelid", Big),
        ("typsubscript", Text),
        ("typelem", Big),
        ("typarray", Big),
        ("typnotnull", Bool),
        ("typbasetype", Big),
        ("typtypmod", Int),
        ("typndims", Int),
        ("typcollation", Big),
        ("typdefault", Text),
        ("typacl", Texts),
        ("typinput", Text),
    ]);
    let mut add = |oid: i64, name: &str, size: i64, category: &str, element: i64, array: i64| {
        // By the function that reads it, drivers tell an array.
        let input = if element == 0 { String::new() } else { "array_in".to_string() };
        rows.add(cells![
            oid, name, PG_CATALOG, OWNER, size, Null, "b", category, false, true, ",", 0i64, Null,
            element, array, false, 0i64, -1i64, 0i64, 0i64, Null, Null, input,
        ]);
    };
    for one in types::ALL {
        add(one.oid, one.name, one.size, one.category, 0, one.array);
        add(one.array, &format!("_{}", one.name), -1, "A", one.oid, 0);
    }
    rows.finish()
}
