//! The tables of `pg_catalog`, by which clients of PostgreSQL find tables, columns, keys, indexes
//! and comments. They list the session's own database and its temporary tables.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use swingdb_common::error::Result;
use swingdb_store::ForeignKey;

use crate::ast::create::{create_index, quoted};
use crate::ast::names::SCHEMA;
use crate::bind::system::constraints;
use crate::bind::system::objects::{
    Context, Database, INFORMATION_SCHEMA_OID, MacroObject, Objects, PG_CATALOG, Relation, Schema,
    What,
};
use crate::bind::system::rows::{Cell, Kind, Rows, cells};
use crate::bind::system::types;
use crate::options::shown;

use Cell::Null;
use Kind::{Big, Bigs, Bool, Int, Real, Text, Texts};

/// The number of the one user.
const OWNER: i64 = 10;
/// The numbers of `pg_class` and others of PostgreSQL's own tables, as PostgreSQL has them.
const PG_CLASS: i64 = 1259;
const PG_PROC: i64 = 1255;
const CATALOG_TABLES: [(&str, i64); 20] = [
    ("pg_am", 2601),
    ("pg_attrdef", 2604),
    ("pg_attribute", 1249),
    ("pg_class", PG_CLASS),
    ("pg_collation", 3456),
    ("pg_constraint", 2606),
    ("pg_database", 1262),
    ("pg_depend", 2608),
    ("pg_description", 2609),
    ("pg_enum", 3501),
    ("pg_extension", 3079),
    ("pg_index", 2610),
    ("pg_inherits", 2611),
    ("pg_namespace", 2615),
    ("pg_proc", PG_PROC),
    ("pg_rewrite", 2618),
    ("pg_sequence", 2224),
    ("pg_tablespace", 1213),
    ("pg_trigger", 2620),
    ("pg_type", 1247),
];
/// The numbers of the ways to store tables and indexes, as PostgreSQL has them.
const HEAP: i64 = 2;
const BTREE: i64 = 403;

/// What PostgreSQL has types for that turn names into numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Registered {
    Relation,
    Schema,
    Function,
    Role,
    Type,
}

/// All objects of a kind: schema, name, number. Where two have one name, the one that is meant
/// comes first. Types have names of several forms: [`types`] knows them.
pub(super) fn registered(
    context: &Context<'_>,
    of: Registered,
) -> Result<Vec<(Option<String>, String, i64)>> {
    let objects = Objects::of(context)?;
    // Temporary tables go before others.
    let mut schemas = objects.own_schemas().collect::<Vec<_>>();
    schemas.sort_by_key(|(database, _)| !database.temporary);
    let mut all = Vec::new();
    for (database, schema) in schemas {
        let own = if database.temporary { "pg_temp" } else { schema.name.as_str() };
        let mut add = |name: &str, oid: i64| all.push((Some(own.to_string()), name.into(), oid));
        match of {
            Registered::Relation => {
                schema.relations.iter().for_each(|relation| add_relation(relation, &mut add));
                schema.sequences.iter().for_each(|one| add(&one.sequence.name, one.oid));
            }
            Registered::Function => {
                schema.macros.iter().for_each(|one| add(&one.definition.name, one.oid));
            }
            Registered::Schema => all.push((None, own.to_string(), schema.oid)),
            Registered::Role | Registered::Type => {}
        }
    }
    let catalog = || Some("pg_catalog".to_string());
    match of {
        Registered::Relation => {
            all.extend(CATALOG_TABLES.map(|(name, oid)| (catalog(), name.to_string(), oid)));
        }
        Registered::Schema => {
            let described =
                [(PG_CATALOG, "pg_catalog"), (INFORMATION_SCHEMA_OID, "information_schema")];
            all.extend(described.map(|(oid, name)| (None, name.to_string(), oid)));
        }
        Registered::Role => all.push((None, USER.to_string(), OWNER)),
        Registered::Function | Registered::Type => {}
    }
    Ok(all)
}

/// A relation and its indexes.
fn add_relation(relation: &Relation, add: &mut dyn FnMut(&str, i64)) {
    add(&relation.name, relation.oid);
    let What::Table(table) = &relation.what else { return };
    for (index, oid) in table.notes().indexes.iter().zip(&relation.indexes) {
        add(&index.name, *oid);
    }
    for (one, oid) in constraints::of(table).iter().zip(&relation.constraints) {
        if is_key(one.kind) {
            add(&one.name, *oid);
        }
    }
}

impl Objects {
    /// The schemas of the own database and of temporary tables.
    fn own_schemas(&self) -> impl Iterator<Item = (&Database, &Schema)> {
        self.schemas().filter(|(database, _)| !database.attached)
    }

    fn own_relations(&self) -> impl Iterator<Item = (&Database, &Schema, &Relation)> {
        self.relations().filter(|(database, _, _)| !database.attached)
    }
}

pub(super) fn namespace(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows =
        Rows::new(&[("oid", Big), ("nspname", Text), ("nspowner", Big), ("nspacl", Texts)]);
    for (oid, name) in [(PG_CATALOG, "pg_catalog"), (INFORMATION_SCHEMA_OID, "information_schema")]
    {
        rows.add(cells![oid, name, OWNER, Null]);
    }
    for (database, schema) in Objects::of(context)?.own_schemas() {
        let name = if database.temporary { "pg_temp" } else { schema.name.as_str() };
        rows.add(cells![schema.oid, name, OWNER, Null]);
    }
    rows.finish()
}

/// The columns of `pg_class`.
const CLASS_COLUMNS: &[(&str, Kind)] = &[
    ("oid", Big),
    ("relname", Text),
    ("relnamespace", Big),
    ("reltype", Big),
    ("reloftype", Big),
    ("relowner", Big),
    ("relam", Big),
    ("relfilenode", Big),
    ("reltablespace", Big),
    ("relpages", Big),
    ("reltuples", Real),
    ("relallvisible", Big),
    ("reltoastrelid", Big),
    ("relhasindex", Bool),
    ("relisshared", Bool),
    ("relpersistence", Text),
    ("relkind", Text),
    ("relnatts", Int),
    ("relchecks", Int),
    ("relhasoids", Bool),
    ("relhaspkey", Bool),
    ("relhasrules", Bool),
    ("relhastriggers", Bool),
    ("relhassubclass", Bool),
    ("relrowsecurity", Bool),
    ("relforcerowsecurity", Bool),
    ("relispopulated", Bool),
    ("relreplident", Text),
    ("relispartition", Bool),
    ("relrewrite", Big),
    ("relfrozenxid", Big),
    ("relminmxid", Big),
    ("relacl", Texts),
    ("reloptions", Texts),
    ("relpartbound", Text),
];

pub(super) fn class(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let objects = Objects::of(context)?;
    let mut rows = Rows::new(CLASS_COLUMNS);
    let mut add = |of: &OneClass<'_>| rows.add(of.cells());
    add_relations(context, &objects, &mut add);
    for (database, schema) in objects.own_schemas() {
        for one in &schema.sequences {
            add(&OneClass {
                oid: one.oid,
                name: &one.sequence.name,
                schema: schema.oid,
                temporary: database.temporary,
                kind: "S",
                columns: 3,
                rows: 1,
                ..OneClass::default()
            });
        }
    }
    rows.finish()
}

/// Tables with their indexes, and views.
fn add_relations(context: &Context<'_>, objects: &Objects, add: &mut dyn FnMut(&OneClass<'_>)) {
    for (database, schema, relation) in objects.own_relations() {
        let empty = OneClass {
            oid: relation.oid,
            name: &relation.name,
            schema: schema.oid,
            temporary: database.temporary,
            ..OneClass::default()
        };
        match &relation.what {
            What::Table(table) => {
                let all = constraints::of(table);
                let primary = all.iter().any(|one| one.kind == constraints::Kind::Primary);
                let keys = all.iter().filter(|one| is_key(one.kind)).zip(0..).count();
                add(&OneClass {
                    kind: "r",
                    columns: table.columns().len(),
                    rows: i64::try_from(table.row_count()).unwrap_or(i64::MAX),
                    checks: table.checks().len(),
                    indexed: keys + relation.indexes.len() > 0,
                    primary,
                    ..empty
                });
                for (index, oid) in table.notes().indexes.iter().zip(&relation.indexes) {
                    let columns = index.on.len();
                    add(&OneClass { oid: *oid, name: &index.name, kind: "i", columns, ..empty });
                }
                for (one, oid) in all.iter().zip(&relation.constraints) {
                    if is_key(one.kind) {
                        let columns = one.columns.len();
                        add(&OneClass { oid: *oid, name: &one.name, kind: "i", columns, ..empty });
                    }
                }
            }
            What::View(_) | What::Registered => {
                let columns = context.columns(database, schema, relation);
                let columns = columns.map_or(0, |columns| columns.len());
                add(&OneClass { kind: "v", columns, ..empty });
            }
        }
    }
}

/// A row of `pg_class`.
#[derive(Clone, Copy, Default)]
struct OneClass<'a> {
    oid: i64,
    name: &'a str,
    schema: i64,
    temporary: bool,
    kind: &'a str,
    columns: usize,
    rows: i64,
    checks: usize,
    indexed: bool,
    primary: bool,
}

impl OneClass<'_> {
    fn cells(&self) -> Vec<Cell> {
        let of = self;
        let persistence = if of.temporary { "t" } else { "p" };
        cells![
            of.oid,
            of.name,
            of.schema,
            0i64,
            0i64,
            OWNER,
            match of.kind {
                "r" => HEAP,
                "i" => BTREE,
                _ => 0,
            },
            of.oid,
            0i64,
            Null,
            of.rows,
            0i64,
            0i64,
            of.indexed,
            false,
            persistence,
            of.kind,
            of.columns,
            of.checks,
            false,
            of.primary,
            false,
            false,
            false,
            false,
            false,
            true,
            "d",
            false,
            0i64,
            0i64,
            0i64,
            Null,
            Null,
            Null,
        ]
    }
}

/// Whether a constraint has an index in PostgreSQL; it has the number of the constraint.
fn is_key(kind: constraints::Kind) -> bool {
    matches!(kind, constraints::Kind::Primary | constraints::Kind::Unique)
}

pub(super) fn attribute(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
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
        for (at, column) in columns.into_iter().enumerate() {
            let kind = types::of_field(&column.field);
            rows.add(cells![
                relation.oid,
                column.field.name(),
                kind.oid,
                -1i64,
                kind.size,
                at + 1,
                i64::from(kind.category == "A"),
                -1i64,
                types::modifier(column.field.data_type()),
                Null,
                if kind.size < 0 { "x" } else { "p" },
                Null,
                !column.field.is_nullable(),
                column.default.is_some(),
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
            ]);
        }
    }
    rows.finish()
}

pub(super) fn attrdef(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
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

pub(super) fn all_types(_: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
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

pub(super) fn tables(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("schemaname", Text),
        ("tablename", Text),
        ("tableowner", Text),
        ("tablespace", Text),
        ("hasindexes", Bool),
        ("hasrules", Bool),
        ("hastriggers", Bool),
        ("rowsecurity", Bool),
    ]);
    for (database, schema, relation, table) in Objects::of(context)?.tables() {
        if database.attached {
            continue;
        }
        let indexed = !relation.indexes.is_empty() || !table.constraints().is_empty();
        let name = &relation.name;
        rows.add(cells![&schema.name, name, USER, Null, indexed, false, false, false]);
    }
    rows.finish()
}

/// The name of the one user.
pub(super) const USER: &str = "swingdb";

pub(super) fn views(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("schemaname", Text),
        ("viewname", Text),
        ("viewowner", Text),
        ("definition", Text),
    ]);
    for (_, schema, relation) in Objects::of(context)?.own_relations() {
        match &relation.what {
            What::Table(_) => {}
            What::View(view) => {
                rows.add(cells![&schema.name, &relation.name, USER, &view.sql]);
            }
            What::Registered => rows.add(cells![&schema.name, &relation.name, USER, Null]),
        }
    }
    rows.finish()
}

/// The columns of `pg_index`.
const INDEX_COLUMNS: &[(&str, Kind)] = &[
    ("indexrelid", Big),
    ("indrelid", Big),
    ("indnatts", Int),
    ("indnkeyatts", Int),
    ("indisunique", Bool),
    ("indnullsnotdistinct", Bool),
    ("indisprimary", Bool),
    ("indisexclusion", Bool),
    ("indimmediate", Bool),
    ("indisclustered", Bool),
    ("indisvalid", Bool),
    ("indcheckxmin", Bool),
    ("indisready", Bool),
    ("indislive", Bool),
    ("indisreplident", Bool),
    ("indkey", Bigs),
    ("indcollation", Bigs),
    ("indclass", Bigs),
    ("indoption", Bigs),
    ("indexprs", Text),
    ("indpred", Text),
];

pub(super) fn index(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(INDEX_COLUMNS);
    let objects = Objects::of(context)?;
    let mut add = |oid: i64, table: i64, columns: Vec<i64>, unique: bool, primary: bool| {
        let (count, zeros) = (columns.len(), vec![0; columns.len()]);
        rows.add(cells![
            oid,
            table,
            count,
            count,
            unique,
            false,
            primary,
            false,
            true,
            false,
            true,
            false,
            true,
            true,
            false,
            columns,
            zeros.clone(),
            zeros.clone(),
            zeros,
            Null,
            Null,
        ]);
    };
    for (database, _, relation, table) in objects.tables() {
        if database.attached {
            continue;
        }
        let numbers = |columns: &[usize]| columns.iter().map(|at| *at as i64 + 1).collect();
        for (one, oid) in constraints::of(table).iter().zip(&relation.constraints) {
            let primary = one.kind == constraints::Kind::Primary;
            if is_key(one.kind) {
                add(*oid, relation.oid, numbers(&one.columns), true, primary);
            }
        }
        for (index, oid) in table.notes().indexes.iter().zip(&relation.indexes) {
            // Of an expression the number of the column is 0.
            let columns = match index.columns.len() == index.on.len() {
                true => numbers(&index.columns),
                false => vec![0; index.on.len()],
            };
            add(*oid, relation.oid, columns, index.unique, false);
        }
    }
    rows.finish()
}

pub(super) fn indexes(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("schemaname", Text),
        ("tablename", Text),
        ("indexname", Text),
        ("tablespace", Text),
        ("indexdef", Text),
    ]);
    for (database, schema, relation, table) in Objects::of(context)?.tables() {
        if database.attached {
            continue;
        }
        for index in &table.notes().indexes {
            let on = Some(schema.name.as_str()).filter(|name| *name != SCHEMA);
            let text = create_index(on, table.name(), index);
            rows.add(cells![&schema.name, &relation.name, &index.name, Null, text]);
        }
    }
    rows.finish()
}

/// The number of the parent of a foreign key, and those of the key's columns there.
fn parent_of(objects: &Objects, database: &Database, key: &ForeignKey) -> Option<(i64, Vec<i64>)> {
    let (_, _, relation, table) = objects.tables().find(|(of, schema, relation, _)| {
        of.name == database.name && schema.name == key.schema && relation.name == key.table
    })?;
    let columns = key.keys.iter().filter_map(|name| table.column_index(name));
    Some((relation.oid, columns.map(|at| at as i64 + 1).collect()))
}

pub(super) fn constraint(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("oid", Big),
        ("conname", Text),
        ("connamespace", Big),
        ("contype", Text),
        ("condeferrable", Bool),
        ("condeferred", Bool),
        ("convalidated", Bool),
        ("conrelid", Big),
        ("contypid", Big),
        ("conindid", Big),
        ("conparentid", Big),
        ("confrelid", Big),
        ("confupdtype", Text),
        ("confdeltype", Text),
        ("confmatchtype", Text),
        ("conislocal", Bool),
        ("coninhcount", Int),
        ("connoinherit", Bool),
        ("conkey", Bigs),
        ("confkey", Bigs),
        ("conbin", Text),
    ]);
    let objects = Objects::of(context)?;
    for (database, schema, relation, table) in objects.tables() {
        if database.attached {
            continue;
        }
        for (one, oid) in constraints::of(table).into_iter().zip(&relation.constraints) {
            let columns: Vec<i64> = one.columns.iter().map(|at| *at as i64 + 1).collect();
            let index = if is_key(one.kind) { *oid } else { 0 };
            let (parent, keys) =
                match one.references.as_ref().and_then(|key| parent_of(&objects, database, key)) {
                    Some((oid, keys)) => (oid, Cell::Numbers(keys)),
                    None => (0, Null),
                };
            let letter = |of: &'static str| if parent == 0 { " " } else { of };
            rows.add(cells![
                *oid,
                one.name,
                schema.oid,
                one.kind.letter(),
                false,
                false,
                true,
                relation.oid,
                0i64,
                index,
                0i64,
                parent,
                letter("a"),
                letter("a"),
                letter("s"),
                true,
                0i64,
                true,
                columns,
                keys,
                one.expression,
            ]);
        }
    }
    rows.finish()
}

pub(super) fn database(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("oid", Big),
        ("datname", Text),
        ("datdba", Big),
        ("encoding", Int),
        ("datlocprovider", Text),
        ("datistemplate", Bool),
        ("datallowconn", Bool),
        ("datconnlimit", Int),
        ("dattablespace", Big),
        ("datcollate", Text),
        ("datctype", Text),
        ("datacl", Texts),
        ("daticulocale", Text),
    ]);
    for database in Objects::of(context)?.0.iter().filter(|database| !database.temporary) {
        let (oid, name) = (database.oid, &database.name);
        rows.add(cells![
            oid, name, OWNER, 6i64, "c", false, true, -1i64, 1663i64, "C", "C", Null, Null
        ]);
    }
    rows.finish()
}

pub(super) fn settings(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("name", Text),
        ("setting", Text),
        ("short_desc", Text),
        ("vartype", Text),
        ("unit", Text),
        ("category", Text),
        ("context", Text),
        ("source", Text),
    ]);
    for (name, value) in shown::all(context.state) {
        let kind = match shown::input_type(&name) {
            "BIGINT" => "integer",
            "BOOLEAN" => "bool",
            _ => "string",
        };
        rows.add(cells![name, value, Null, kind, Null, Null, "user", "session"]);
    }
    rows.finish()
}

/// All comments: the table they are of, the object, the column or 0, the text.
fn comments(context: &Context<'_>) -> Result<Vec<(i64, i64, i64, String)>> {
    let objects = Objects::of(context)?;
    let mut all = Vec::new();
    for (_, _, relation) in objects.own_relations() {
        all.extend(relation.comment.clone().map(|text| (PG_CLASS, relation.oid, 0, text)));
        let What::Table(table) = &relation.what else { continue };
        let notes = table.notes();
        let columns = notes.columns.iter();
        all.extend(
            columns.map(|(at, text)| (PG_CLASS, relation.oid, *at as i64 + 1, text.clone())),
        );
        for (index, oid) in notes.indexes.iter().zip(&relation.indexes) {
            all.extend(index.comment.clone().map(|text| (PG_CLASS, *oid, 0, text)));
        }
    }
    for (_, schema) in objects.own_schemas() {
        for one in &schema.sequences {
            all.extend(one.comment.clone().map(|text| (PG_CLASS, one.oid, 0, text)));
        }
        for one in &schema.macros {
            all.extend(one.comment.clone().map(|text| (PG_PROC, one.oid, 0, text)));
        }
    }
    Ok(all)
}

pub(super) fn description(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows =
        Rows::new(&[("objoid", Big), ("classoid", Big), ("objsubid", Int), ("description", Text)]);
    for (class, object, column, text) in comments(context)? {
        rows.add(cells![object, class, column, text]);
    }
    rows.finish()
}

pub(super) fn procedures(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("oid", Big),
        ("proname", Text),
        ("pronamespace", Big),
        ("proowner", Big),
        ("prokind", Text),
        ("proretset", Bool),
        ("pronargs", Int),
        ("prosrc", Text),
        ("prolang", Big),
        ("prorettype", Big),
        ("proargtypes", Bigs),
        ("provolatile", Text),
        ("proisstrict", Bool),
        ("proacl", Texts),
    ]);
    for (_, schema) in Objects::of(context)?.own_schemas() {
        for one in &schema.macros {
            let set = one.definition.kind == swingdb_store::MacroKind::Table;
            for variant in &one.definition.variants {
                let (name, count) = (&one.definition.name, variant.parameters.len());
                let sql = &variant.sql;
                // Parameters and results of macros have no types.
                rows.add(cells![
                    one.oid, name, schema.oid, OWNER, "f", set, count, sql, 0i64, 0i64, Null, "v",
                    false, Null,
                ]);
            }
        }
    }
    rows.finish()
}

pub(super) fn sequences(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("schemaname", Text),
        ("sequencename", Text),
        ("sequenceowner", Text),
        ("data_type", Text),
        ("start_value", Big),
        ("min_value", Big),
        ("max_value", Big),
        ("increment_by", Big),
        ("cycle", Bool),
        ("cache_size", Big),
        ("last_value", Big),
    ]);
    for (_, schema) in Objects::of(context)?.own_schemas() {
        for one in &schema.sequences {
            let known = &one.sequence;
            rows.add(cells![
                &schema.name,
                &known.name,
                USER,
                "bigint",
                known.start,
                known.min,
                known.max,
                known.increment,
                known.cycle,
                1i64,
                known.last,
            ]);
        }
    }
    rows.finish()
}

pub(super) fn roles(_: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("oid", Big),
        ("rolname", Text),
        ("rolsuper", Bool),
        ("rolinherit", Bool),
        ("rolcreaterole", Bool),
        ("rolcreatedb", Bool),
        ("rolcanlogin", Bool),
        ("rolreplication", Bool),
        ("rolconnlimit", Int),
        ("rolvaliduntil", Text),
        ("rolbypassrls", Bool),
    ]);
    rows.add(cells![OWNER, USER, true, true, false, false, true, false, -1i64, Null, false]);
    rows.finish()
}

pub(super) fn users(_: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("usename", Text),
        ("usesysid", Big),
        ("usecreatedb", Bool),
        ("usesuper", Bool),
    ]);
    rows.add(cells![USER, OWNER, false, true]);
    rows.finish()
}

pub(super) fn access_methods(_: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows =
        Rows::new(&[("oid", Big), ("amname", Text), ("amhandler", Text), ("amtype", Text)]);
    rows.add(cells![HEAP, "heap", Null, "t"]);
    rows.add(cells![BTREE, "btree", Null, "i"]);
    rows.finish()
}

/// `pg_sequence`: what `pg_sequences` shows, by number.
pub(super) fn sequence_numbers(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("seqrelid", Big),
        ("seqtypid", Big),
        ("seqstart", Big),
        ("seqincrement", Big),
        ("seqmax", Big),
        ("seqmin", Big),
        ("seqcache", Big),
        ("seqcycle", Bool),
    ]);
    for (_, schema) in Objects::of(context)?.own_schemas() {
        for one in &schema.sequences {
            let known = &one.sequence;
            rows.add(cells![
                one.oid,
                20i64,
                known.start,
                known.increment,
                known.max,
                known.min,
                1i64,
                known.cycle,
            ]);
        }
    }
    rows.finish()
}

/// The tables of `pg_catalog` about what there is none of here, with the columns that clients join
/// by.
pub(super) const EMPTY: &[(&str, &[(&str, Kind)])] = &[
    (
        "pg_auth_members",
        &[("roleid", Big), ("member", Big), ("grantor", Big), ("admin_option", Bool)],
    ),
    ("pg_collation", &[("oid", Big), ("collname", Text), ("collnamespace", Big)]),
    (
        "pg_depend",
        &[
            ("classid", Big),
            ("objid", Big),
            ("objsubid", Int),
            ("refclassid", Big),
            ("refobjid", Big),
            ("refobjsubid", Int),
            ("deptype", Text),
        ],
    ),
    ("pg_enum", &[("oid", Big), ("enumtypid", Big), ("enumsortorder", Real), ("enumlabel", Text)]),
    (
        "pg_extension",
        &[
            ("oid", Big),
            ("extname", Text),
            ("extowner", Big),
            ("extnamespace", Big),
            ("extversion", Text),
        ],
    ),
    ("pg_foreign_server", &[("oid", Big), ("srvname", Text)]),
    ("pg_foreign_table", &[("ftrelid", Big), ("ftserver", Big), ("ftoptions", Texts)]),
    (
        "pg_inherits",
        &[("inhrelid", Big), ("inhparent", Big), ("inhseqno", Int), ("inhdetachpending", Bool)],
    ),
    (
        "pg_matviews",
        &[
            ("schemaname", Text),
            ("matviewname", Text),
            ("matviewowner", Text),
            ("definition", Text),
        ],
    ),
    ("pg_partitioned_table", &[("partrelid", Big), ("partstrat", Text), ("partattrs", Text)]),
    (
        "pg_policy",
        &[
            ("oid", Big),
            ("polname", Text),
            ("polrelid", Big),
            ("polcmd", Text),
            ("polpermissive", Bool),
            ("polroles", Bigs),
            ("polqual", Text),
            ("polwithcheck", Text),
        ],
    ),
    ("pg_publication", &[("oid", Big), ("pubname", Text), ("puballtables", Bool)]),
    ("pg_publication_namespace", &[("oid", Big), ("pnpubid", Big), ("pnnspid", Big)]),
    (
        "pg_publication_rel",
        &[("oid", Big), ("prpubid", Big), ("prrelid", Big), ("prqual", Text), ("prattrs", Texts)],
    ),
    ("pg_range", &[("rngtypid", Big), ("rngsubtype", Big)]),
    (
        "pg_rewrite",
        &[
            ("oid", Big),
            ("rulename", Text),
            ("ev_class", Big),
            ("ev_type", Text),
            ("ev_enabled", Text),
            ("is_instead", Bool),
        ],
    ),
    (
        "pg_statistic_ext",
        &[
            ("oid", Big),
            ("stxrelid", Big),
            ("stxname", Text),
            ("stxnamespace", Big),
            ("stxowner", Big),
            ("stxkind", Texts),
            ("stxstattarget", Int),
        ],
    ),
    ("pg_tablespace", &[("oid", Big), ("spcname", Text), ("spcowner", Big)]),
    (
        "pg_trigger",
        &[
            ("oid", Big),
            ("tgrelid", Big),
            ("tgname", Text),
            ("tgenabled", Text),
            ("tgisinternal", Bool),
            ("tgparentid", Big),
            ("tgconstraint", Big),
            ("tgfoid", Big),
            ("tgtype", Int),
        ],
    ),
];

/// What clients ask functions for: definitions of constraints and indexes, and comments, by the
/// number of an object and of a column, or 0.
pub(super) fn looked_up(
    context: &Context<'_>,
    function: &str,
) -> Result<Vec<((i64, i64), String)>> {
    if matches!(function, "obj_description" | "col_description") {
        let all = comments(context)?.into_iter();
        return Ok(all.map(|(_, object, column, text)| ((object, column), text)).collect());
    }
    let objects = Objects::of(context)?;
    let mut all = Vec::new();
    if function == "pg_get_viewdef" {
        for (_, _, relation) in objects.own_relations() {
            let What::View(view) = &relation.what else { continue };
            all.push(((relation.oid, 0), view.sql.to_string()));
        }
        return Ok(all);
    }
    if function.starts_with("pg_get_function_") {
        let macros = objects.own_schemas().flat_map(|(_, schema)| &schema.macros);
        let parameters = |one: &MacroObject| {
            let first = one.definition.variants.first()?;
            let names = first.parameters.iter().map(|parameter| parameter.name.as_str());
            Some(names.collect::<Vec<_>>().join(", "))
        };
        return Ok(macros.filter_map(|one| Some(((one.oid, 0), parameters(one)?))).collect());
    }
    for (database, schema, relation, table) in objects.tables() {
        if database.attached {
            continue;
        }
        if function == "pg_get_constraintdef" {
            let texts = constraints::of(table).into_iter().map(|one| one.text);
            all.extend(relation.constraints.iter().map(|oid| (*oid, 0)).zip(texts));
            continue;
        }
        let on = Some(schema.name.as_str()).filter(|name| *name != SCHEMA);
        let texts = table.notes().indexes.iter().map(|index| create_index(on, table.name(), index));
        all.extend(relation.indexes.iter().map(|oid| (*oid, 0)).zip(texts));
        // The index of a key, as PostgreSQL would have made it.
        for (one, oid) in constraints::of(table).iter().zip(&relation.constraints) {
            let columns = one.columns.iter().map(|at| quoted(&table.columns()[*at].name));
            let columns = columns.map(|name| name.to_string()).collect::<Vec<_>>().join(", ");
            if is_key(one.kind) {
                let (name, table) = (quoted(&one.name), quoted(table.name()));
                let text = format!("CREATE UNIQUE INDEX {name} ON {table} USING btree ({columns})");
                all.push(((*oid, 0), text));
            }
        }
    }
    Ok(all)
}
