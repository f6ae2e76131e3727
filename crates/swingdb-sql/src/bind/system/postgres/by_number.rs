//! Objects by the numbers that they have, for functions that take a number or give one.

use swingdb_common::error::Result;

use crate::ast::create::{create_index, quoted};
use crate::ast::names::SCHEMA;
use crate::bind::system::constraints;
use crate::bind::system::objects::{
    Context, INFORMATION_SCHEMA_OID, MacroObject, Objects, PG_CATALOG, Relation, What,
};
use crate::bind::system::postgres::{CATALOG_TABLES, OWNER, USER, comments, is_key};

/// What PostgreSQL has types for that turn names into numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Registered {
    Database,
    Relation,
    Schema,
    Function,
    Role,
    Type,
}

/// All objects of a kind: schema, name, number. Where two have one name, the one that is meant
/// comes first. Types have names of several forms: [`types`] knows them.
pub(crate) fn registered(
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
            Registered::Database | Registered::Role | Registered::Type => {}
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
        Registered::Database => {
            let databases = objects.0.iter().filter(|database| !database.temporary);
            all.extend(databases.map(|database| (None, database.name.clone(), database.oid)));
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

/// What clients ask functions for: definitions of constraints and indexes, and comments, by the
/// number of an object and of a column, or 0.
pub(crate) fn looked_up(
    context: &Context<'_>,
    function: &str,
) -> Result<Vec<((i64, i64), String)>> {
    if matches!(function, "obj_description" | "col_description") {
        let all = comments::all(context)?.into_iter();
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
    let visible = match function {
        "pg_table_is_visible" => Some(Registered::Relation),
        "pg_function_is_visible" => Some(Registered::Function),
        _ => None,
    };
    if let Some(of) = visible {
        let all = registered(context, of)?.into_iter();
        return Ok(all
            .map(|(schema, _, oid)| ((oid, 0), is_searched(schema).to_string()))
            .collect());
    }
    if function == "object_size" {
        return Ok(sizes(&objects));
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
        for (index, oid) in table.notes().indexes.iter().zip(&relation.indexes) {
            all.extend(index.on.iter().zip(1..).map(|(text, at)| ((*oid, at), text.clone())));
        }
        // The index of a key, as PostgreSQL would have made it.
        for (one, oid) in constraints::of(table).iter().zip(&relation.constraints) {
            if !is_key(one.kind) {
                continue;
            }
            let columns = one.columns.iter().map(|at| quoted(&table.columns()[*at].name));
            let columns = columns.collect::<Vec<_>>();
            let (name, of, on) = (quoted(&one.name), quoted(table.name()), columns.join(", "));
            let text = format!("CREATE UNIQUE INDEX {name} ON {of} USING btree ({on})");
            all.push(((*oid, 0), text));
            all.extend(columns.into_iter().zip(1..).map(|(name, at)| ((*oid, at), name)));
        }
    }
    Ok(all)
}

/// Whether names of a schema are found without it.
fn is_searched(schema: Option<String>) -> bool {
    schema.is_none_or(|schema| matches!(schema.as_str(), SCHEMA | "pg_temp" | "pg_catalog"))
}

/// The bytes of each database and relation. Views, sequences and indexes have none of their own.
fn sizes(objects: &Objects) -> Vec<((i64, i64), String)> {
    let mut all = Vec::new();
    for database in &objects.0 {
        let mut sum = 0u64;
        for schema in &database.schemas {
            for relation in &schema.relations {
                let bytes = match &relation.what {
                    What::Table(table) => table.bytes(),
                    What::View(_) | What::Registered => 0,
                };
                sum = sum.saturating_add(bytes);
                all.push(((relation.oid, 0), bytes.to_string()));
                let of_table = relation.indexes.iter().chain(&relation.constraints);
                all.extend(of_table.map(|oid| ((*oid, 0), "0".to_string())));
            }
            all.extend(schema.sequences.iter().map(|one| ((one.oid, 0), "0".to_string())));
        }
        all.push(((database.oid, 0), sum.to_string()));
    }
    all
}
