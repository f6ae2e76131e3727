//! `duckdb_tables()` and its like, with the columns that DuckDB gives them. What means nothing here
//! is NULL.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use swingdb_common::error::Result;
use swingdb_common::types::sql_names::field_type;

use crate::ast::create::{create_index, create_table, create_view, qualified};
use crate::ast::names::SCHEMA;
use crate::bind::system::objects::{Context, Objects, What};
use crate::bind::system::rows::{Cell, Kind, Rows, cells};
use crate::bind::system::{constraints, functions, types};
use crate::options::shown;

use Cell::Null;
use Kind::{Big, Bigs, Bool, Int, Tags, Text, Texts};

/// A schema's name where a statement needs it.
fn outside_main(schema: &str) -> Option<&str> {
    Some(schema).filter(|schema| *schema != SCHEMA)
}

pub(super) fn tables(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("database_name", Text),
        ("database_oid", Big),
        ("schema_name", Text),
        ("schema_oid", Big),
        ("table_name", Text),
        ("table_oid", Big),
        ("comment", Text),
        ("tags", Tags),
        ("internal", Bool),
        ("temporary", Bool),
        ("has_primary_key", Bool),
        ("estimated_size", Big),
        ("column_count", Big),
        ("index_count", Big),
        ("check_constraint_count", Big),
        ("sql", Text),
    ]);
    for (database, schema, relation, table) in Objects::of(context)?.tables() {
        let all = constraints::of(table);
        let has = |kind| all.iter().any(|one| one.kind == kind);
        // Keys count as indexes, as in DuckDB, where each has one.
        let kinds = [constraints::Kind::Primary, constraints::Kind::Unique];
        let keys = all.iter().filter(|one| kinds.contains(&one.kind)).count();
        rows.add(cells![
            &database.name,
            database.oid,
            &schema.name,
            schema.oid,
            &relation.name,
            relation.oid,
            relation.comment.clone(),
            Null,
            false,
            database.temporary,
            has(constraints::Kind::Primary),
            table.row_count(),
            table.columns().len(),
            keys + relation.indexes.len(),
            table.checks().len(),
            format!("{};", create_table(outside_main(&schema.name), table)),
        ]);
    }
    rows.finish()
}

pub(super) fn columns(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("database_name", Text),
        ("database_oid", Big),
        ("schema_name", Text),
        ("schema_oid", Big),
        ("table_name", Text),
        ("table_oid", Big),
        ("column_name", Text),
        ("column_index", Int),
        ("comment", Text),
        ("internal", Bool),
        ("column_default", Text),
        ("is_nullable", Bool),
        ("data_type", Text),
        ("data_type_id", Big),
        ("character_maximum_length", Int),
        ("numeric_precision", Int),
        ("numeric_precision_radix", Int),
        ("numeric_scale", Int),
        ("tags", Tags),
        ("is_generated", Bool),
        ("generation_expression", Text),
    ]);
    let objects = Objects::of(context)?;
    for (database, schema, relation) in objects.relations() {
        let columns = context.columns(database, schema, relation).unwrap_or_default();
        for (at, column) in columns.into_iter().enumerate() {
            let digits = types::digits(column.field.data_type());
            rows.add(cells![
                &database.name,
                database.oid,
                &schema.name,
                schema.oid,
                &relation.name,
                relation.oid,
                column.field.name(),
                at + 1,
                column.comment,
                false,
                column.default,
                column.field.is_nullable(),
                field_type(&column.field),
                types::of_field(&column.field).oid,
                Null,
                digits.map(|(precision, _, _)| precision),
                digits.map(|(_, radix, _)| radix),
                digits.map(|(_, _, scale)| scale),
                Null,
                false,
                Null,
            ]);
        }
    }
    rows.finish()
}

pub(super) fn views(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("database_name", Text),
        ("database_oid", Big),
        ("schema_name", Text),
        ("schema_oid", Big),
        ("view_name", Text),
        ("view_oid", Big),
        ("comment", Text),
        ("tags", Tags),
        ("internal", Bool),
        ("temporary", Bool),
        ("column_count", Big),
        ("sql", Text),
        ("is_bound", Bool),
    ]);
    for (database, schema, relation) in Objects::of(context)?.relations() {
        let (sql, temporary) = match &relation.what {
            What::Table(_) => continue,
            What::View(view) => {
                let sql = format!("{};", create_view(outside_main(&schema.name), view));
                (Some(sql), database.temporary)
            }
            What::Registered => (None, true),
        };
        let columns = context.columns(database, schema, relation);
        rows.add(cells![
            &database.name,
            database.oid,
            &schema.name,
            schema.oid,
            &relation.name,
            relation.oid,
            relation.comment.clone(),
            Null,
            false,
            temporary,
            columns.as_ref().map(Vec::len),
            sql,
            columns.is_some(),
        ]);
    }
    rows.finish()
}

pub(super) fn schemas(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("oid", Big),
        ("database_name", Text),
        ("database_oid", Big),
        ("schema_name", Text),
        ("comment", Text),
        ("tags", Tags),
        ("internal", Bool),
        ("sql", Text),
        ("parent_schema", Text),
        ("parent_schema_oid", Big),
    ]);
    for (database, schema) in Objects::of(context)?.schemas() {
        let internal = schema.name == SCHEMA;
        let sql = (!internal).then(|| format!("CREATE SCHEMA {};", qualified(None, &schema.name)));
        rows.add(cells![
            schema.oid,
            &database.name,
            database.oid,
            &schema.name,
            Null,
            Null,
            internal,
            sql,
            Null,
            Null,
        ]);
    }
    rows.finish()
}

pub(super) fn databases(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("database_name", Text),
        ("database_oid", Big),
        ("path", Text),
        ("comment", Text),
        ("tags", Tags),
        ("internal", Bool),
        ("type", Text),
        ("readonly", Bool),
        ("encrypted", Bool),
        ("cipher", Text),
        ("options", Tags),
    ]);
    for database in &Objects::of(context)?.0 {
        rows.add(cells![
            &database.name,
            database.oid,
            Null,
            Null,
            Null,
            database.temporary,
            "swingdb",
            database.attached,
            false,
            Null,
            Null,
        ]);
    }
    rows.finish()
}

pub(super) fn all_types(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("database_name", Text),
        ("database_oid", Big),
        ("schema_name", Text),
        ("schema_oid", Big),
        ("type_oid", Big),
        ("type_name", Text),
        ("type_size", Big),
        ("logical_type", Text),
        ("type_category", Text),
        ("comment", Text),
        ("tags", Tags),
        ("internal", Bool),
        ("extension_name", Text),
        ("labels", Texts),
        ("parameters", Texts),
        ("parameter_types", Texts),
        ("varargs", Text),
    ]);
    let objects = Objects::of(context)?;
    let Some((database, schema)) = objects.schemas().find(|(_, schema)| schema.name == SCHEMA)
    else {
        return rows.finish();
    };
    for (name, logical, size, category) in types::NAMES {
        rows.add(cells![
            &database.name,
            database.oid,
            &schema.name,
            schema.oid,
            Null,
            *name,
            *size,
            *logical,
            *category,
            Null,
            Null,
            true,
            Null,
            Null,
            Null,
            Null,
            Null,
        ]);
    }
    add_named_types(&objects, &mut rows);
    rows.finish()
}

/// The types that statements have named.
fn add_named_types(objects: &Objects, rows: &mut Rows) {
    for (database, schema) in objects.schemas() {
        let catalog = &database.source.catalog;
        for name in catalog.type_names(&schema.name) {
            let Some(sql) = catalog.find_type(&schema.name, &name) else { continue };
            let named = types::named(&sql);
            rows.add(cells![
                &database.name,
                database.oid,
                &schema.name,
                schema.oid,
                Null,
                name,
                named.size,
                named.logical,
                named.category.map_or(Null, Cell::from),
                Null,
                Null,
                false,
                Null,
                named.labels.map_or(Null, Cell::Texts),
                Cell::Texts(Vec::new()),
                Null,
                Null,
            ]);
        }
    }
}

/// The columns of `duckdb_functions()`.
const FUNCTION_COLUMNS: &[(&str, Kind)] = &[
    ("database_name", Text),
    ("database_oid", Text),
    ("schema_name", Text),
    ("function_name", Text),
    ("alias_of", Text),
    ("function_type", Text),
    ("description", Text),
    ("comment", Text),
    ("tags", Tags),
    ("return_type", Text),
    ("parameters", Texts),
    ("parameter_types", Texts),
    ("varargs", Text),
    ("macro_definition", Text),
    ("has_side_effects", Bool),
    ("internal", Bool),
    ("extension_name", Text),
    ("function_oid", Big),
    ("examples", Texts),
    ("stability", Text),
    ("categories", Texts),
];

pub(super) fn all_functions(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(FUNCTION_COLUMNS);
    add_macros(context, &mut rows)?;
    add_functions(context, &mut rows);
    rows.finish()
}

fn add_macros(context: &Context<'_>, rows: &mut Rows) -> Result<()> {
    let objects = Objects::of(context)?;
    for (database, schema) in objects.schemas() {
        for one in &schema.macros {
            let kind = match one.definition.kind {
                swingdb_store::MacroKind::Scalar => "macro",
                swingdb_store::MacroKind::Table => "table_macro",
            };
            for variant in &one.definition.variants {
                let names = variant.parameters.iter().map(|parameter| parameter.name.clone());
                rows.add(cells![
                    &database.name,
                    database.oid.to_string(),
                    &schema.name,
                    &one.definition.name,
                    Null,
                    kind,
                    Null,
                    one.comment.clone(),
                    Null,
                    Null,
                    names.collect::<Vec<_>>(),
                    Null,
                    Null,
                    &variant.sql,
                    Null,
                    false,
                    Null,
                    one.oid,
                    Null,
                    Null,
                    Null,
                ]);
            }
        }
    }
    Ok(())
}

fn add_functions(context: &Context<'_>, rows: &mut Rows) {
    for (name, kind) in functions::all(context.view, context.state) {
        if kind.ends_with("macro") {
            continue;
        }
        let volatility = context.state.scalar_functions().get(&name);
        let volatility = volatility.map(|f| f.signature().volatility);
        let stability = volatility.map(|volatility| match volatility {
            datafusion::logical_expr::Volatility::Immutable => "CONSISTENT",
            datafusion::logical_expr::Volatility::Stable => "CONSISTENT_WITHIN_QUERY",
            datafusion::logical_expr::Volatility::Volatile => "VOLATILE",
        });
        rows.add(cells![
            "system",
            "0",
            SCHEMA,
            name,
            Null,
            kind,
            Null,
            Null,
            Null,
            Null,
            Null,
            Null,
            Null,
            Null,
            stability.map(|stability| stability == "VOLATILE"),
            true,
            Null,
            Null,
            Null,
            stability,
            Null,
        ]);
    }
}

pub(super) fn settings(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("name", Text),
        ("value", Text),
        ("description", Text),
        ("input_type", Text),
        ("scope", Text),
        ("aliases", Texts),
        ("typed_value", Text),
    ]);
    for (name, value) in shown::all(context.state) {
        let kind = shown::input_type(&name);
        rows.add(cells![name, &value, Null, kind, "LOCAL", Vec::<String>::new(), &value]);
    }
    rows.finish()
}

pub(super) fn all_constraints(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("database_name", Text),
        ("database_oid", Big),
        ("schema_name", Text),
        ("schema_oid", Big),
        ("table_name", Text),
        ("table_oid", Big),
        ("constraint_index", Big),
        ("constraint_type", Text),
        ("constraint_text", Text),
        ("expression", Text),
        ("constraint_column_indexes", Bigs),
        ("constraint_column_names", Texts),
        ("constraint_name", Text),
        ("referenced_table", Text),
        ("referenced_column_names", Texts),
    ]);
    for (database, schema, relation, table) in Objects::of(context)?.tables() {
        for (at, one) in constraints::of(table).into_iter().enumerate() {
            let names = one.columns.iter().map(|column| table.columns()[*column].name.clone());
            rows.add(cells![
                &database.name,
                database.oid,
                &schema.name,
                schema.oid,
                &relation.name,
                relation.oid,
                at,
                one.kind.words(),
                one.text,
                one.expression,
                one.columns.iter().map(|column| *column as i64).collect::<Vec<_>>(),
                names.collect::<Vec<_>>(),
                one.name,
                one.references.as_ref().map(|key| key.table.clone()),
                one.references.map(|key| key.keys).unwrap_or_default(),
            ]);
        }
    }
    rows.finish()
}

pub(super) fn indexes(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("database_name", Text),
        ("database_oid", Big),
        ("schema_name", Text),
        ("schema_oid", Big),
        ("index_name", Text),
        ("index_oid", Big),
        ("table_name", Text),
        ("table_oid", Big),
        ("comment", Text),
        ("tags", Tags),
        ("is_unique", Bool),
        ("is_primary", Bool),
        ("expressions", Text),
        ("sql", Text),
    ]);
    for (database, schema, relation, table) in Objects::of(context)?.tables() {
        for (index, oid) in table.notes().indexes.iter().zip(&relation.indexes) {
            let on = outside_main(&schema.name);
            rows.add(cells![
                &database.name,
                database.oid,
                &schema.name,
                schema.oid,
                &index.name,
                *oid,
                &relation.name,
                relation.oid,
                index.comment.clone(),
                Null,
                index.unique,
                false,
                format!("[{}]", index.on.iter().map(shown).collect::<Vec<_>>().join(", ")),
                format!("{};", create_index(on, table.name(), index)),
            ]);
        }
    }
    rows.finish()
}

/// What an index is on, as DuckDB writes it: expressions in quotes.
fn shown(on: &String) -> String {
    if on.starts_with('(') { format!("'{on}'") } else { on.clone() }
}

pub(super) fn sequences(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("database_name", Text),
        ("database_oid", Big),
        ("schema_name", Text),
        ("schema_oid", Big),
        ("sequence_name", Text),
        ("sequence_oid", Big),
        ("comment", Text),
        ("tags", Tags),
        ("temporary", Bool),
        ("start_value", Big),
        ("min_value", Big),
        ("max_value", Big),
        ("increment_by", Big),
        ("cycle", Bool),
        ("last_value", Big),
        ("sql", Text),
    ]);
    for (database, schema) in Objects::of(context)?.schemas() {
        for one in &schema.sequences {
            let known = &one.sequence;
            let name = qualified(outside_main(&schema.name), &known.name);
            let cycle = if known.cycle { "CYCLE" } else { "NO CYCLE" };
            let sql = format!(
                "CREATE SEQUENCE {name} INCREMENT BY {} MINVALUE {} MAXVALUE {} START {} {cycle};",
                known.increment, known.min, known.max, known.start
            );
            rows.add(cells![
                &database.name,
                database.oid,
                &schema.name,
                schema.oid,
                &known.name,
                one.oid,
                one.comment.clone(),
                Null,
                database.temporary,
                known.start,
                known.min,
                known.max,
                known.increment,
                known.cycle,
                known.last,
                sql,
            ]);
        }
    }
    rows.finish()
}

/// `PRAGMA database_size`: memory and not files, so there are no blocks and no log.
pub(super) fn database_size(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("database_name", Text),
        ("database_size", Text),
        ("block_size", Big),
        ("total_blocks", Big),
        ("used_blocks", Big),
        ("free_blocks", Big),
        ("wal_size", Text),
        ("memory_usage", Text),
        ("memory_limit", Text),
    ]);
    let limit = shown::own(context.state).into_iter().find(|(name, _)| name == "memory_limit");
    let limit = limit.and_then(|(_, value)| value.parse().ok()).map(in_units);
    for database in Objects::of(context)?.0 {
        let tables = database.schemas.iter().flat_map(|schema| &schema.relations);
        let bytes: u64 = tables
            .map(|relation| match &relation.what {
                What::Table(table) => table.bytes(),
                What::View(_) | What::Registered => 0,
            })
            .fold(0, u64::saturating_add);
        rows.add(cells![
            database.name,
            in_units(bytes),
            Null,
            Null,
            Null,
            Null,
            Null,
            in_units(bytes),
            limit.clone(),
        ]);
    }
    rows.finish()
}

/// A number of bytes as DuckDB writes it: `4.0 KiB`.
fn in_units(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} {}", if bytes == 1 { "byte" } else { "bytes" });
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    // Cut off, not rounded, as there.
    format!("{:.1} {}", (size * 10.0).trunc() / 10.0, UNITS[unit])
}

/// `PRAGMA table_info('t')`.
pub(super) fn table_info(columns: Vec<TableColumn>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("cid", Int),
        ("name", Text),
        ("type", Text),
        ("notnull", Bool),
        ("dflt_value", Text),
        ("pk", Bool),
    ]);
    for (at, column) in columns.into_iter().enumerate() {
        rows.add(cells![at, column.name, column.kind, column.not_null, column.default, column.key]);
    }
    rows.finish()
}

/// A column as `PRAGMA table_info` tells it.
pub(super) struct TableColumn {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) not_null: bool,
    pub(super) default: Option<String>,
    pub(super) key: bool,
}

/// `PRAGMA show_tables`.
pub(super) fn show_tables(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[("name", Text)]);
    let objects = Objects::of(context)?;
    let mut names: Vec<&String> = objects
        .relations()
        .filter(|(database, schema, _)| !database.attached && schema.name == SCHEMA)
        .map(|(_, _, relation)| &relation.name)
        .collect();
    names.sort();
    names.into_iter().for_each(|name| rows.add(cells![name]));
    rows.finish()
}

/// `PRAGMA database_list`.
pub(super) fn database_list(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[("seq", Big), ("name", Text), ("file", Text)]);
    for database in Objects::of(context)?.0 {
        rows.add(cells![database.oid, database.name, Null]);
    }
    rows.finish()
}

/// `PRAGMA version`.
pub(super) fn version(_: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[("library_version", Text), ("source_id", Text), ("codename", Text)]);
    rows.add(cells![env!("CARGO_PKG_VERSION"), Null, Null]);
    rows.finish()
}
