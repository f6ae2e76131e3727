//! Everything the names of one statement can mean: [`Catalogs`].
//!
//! They are fixed when a statement starts: the catalog version it reads, those of the attached
//! databases, the registered Arrow tables. What happens in the session afterwards does not reach
//! the statement.
//!
//! A name with one part is looked up among temporary tables, in schema `main`, then among
//! registered tables, then as a file. With two parts the first is a schema, or else an attached
//! database (its schema `main`); with three it is a database, then a schema. Names match exactly,
//! or without regard to case when exactly one does. Tables of `pg_catalog` need no schema, and
//! stand behind all others.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::TableReference;
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_store::{Catalog, Macro, MacroKind, Store, Table, View as StoredView};

use crate::ast::names::{CATALOG, SCHEMA};
use crate::bind::system::names::{PG_CATALOG, table_name};
use crate::scan::hidden::HiddenColumns;

/// The schema of the tables that describe all others.
pub(crate) const INFORMATION_SCHEMA: &str = "information_schema";

/// A database of a statement: the session's own or an attached one.
#[derive(Clone)]
pub struct Source {
    /// The name or alias in fully qualified names.
    pub name: String,
    /// The state of its catalog that the statement reads.
    pub catalog: Arc<Catalog>,
    /// Where the catalog comes from, for CLONE.
    pub store: Store,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What the names of one statement can mean; see the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Catalogs {
    /// The session's own database.
    pub main: Source,
    /// The database's own name, which may qualify its tables too.
    pub database_name: Option<String>,
    /// Attached databases, by their aliases.
    pub attached: Arc<BTreeMap<String, Source>>,
    /// Tables of the program, by their names.
    pub registered: Arc<BTreeMap<String, Arc<dyn TableProvider>>>,
    /// Whether these are found as tables of schema `main` too.
    pub registered_in_main: bool,
    /// Tables of one internal query, whose names win over all others.
    pub extra: BTreeMap<String, Arc<dyn TableProvider>>,
    /// The session's temporary tables, which go before those of its database.
    pub temp: Option<Source>,
    /// A macro that is being created, which goes before others of its name.
    pub defined: Option<Arc<FoundMacro>>,
}

/// A macro that a name turned out to mean.
#[derive(Clone, Debug)]
pub struct FoundMacro {
    /// What it stands for.
    pub definition: Arc<Macro>,
    /// The database that has it.
    pub source: Source,
    /// The schema that has it.
    pub schema: String,
}

impl FoundMacro {
    fn is(&self, source: &Source, schema: &str, name: &str, kind: MacroKind) -> bool {
        self.source.name == source.name
            && self.schema.eq_ignore_ascii_case(schema)
            && self.definition.kind == kind
            && self.definition.name.eq_ignore_ascii_case(name)
    }
}

/// What a name turned out to mean.
pub enum Found {
    /// A table of a database.
    Table {
        /// The table.
        table: Arc<Table>,
        /// The database that has it.
        source: Source,
        /// Columns beside its own that were asked for.
        hidden: HiddenColumns,
    },
    /// A view of a database.
    View {
        /// The view.
        view: Arc<StoredView>,
        /// The database that has it.
        source: Source,
    },
    /// A registered Arrow table.
    Registered(Arc<dyn TableProvider>),
    /// A table of the information schema.
    Information(String),
    /// A table of `pg_catalog`.
    System(&'static str),
}

impl Catalogs {
    /// Looks a name up; `None` when it means nothing here (it may still be a file).
    pub fn find(&self, name: &TableReference) -> Result<Option<Found>> {
        match name {
            TableReference::Bare { table } => {
                if let Some(provider) = self.extra.get(&**table) {
                    return Ok(Some(Found::Registered(Arc::clone(provider))));
                }
                for source in self.temp.iter().chain([&self.main]) {
                    if let Some(found) = find_in(source, SCHEMA, table)? {
                        return Ok(Some(found));
                    }
                }
                // Also without their schema, but after all else.
                let system = || table_name(table).map(Found::System);
                Ok(self.registered(table).or_else(system))
            }
            TableReference::Partial { schema, table } => {
                if schema.eq_ignore_ascii_case(INFORMATION_SCHEMA) {
                    return Ok(Some(Found::Information(table.to_lowercase())));
                }
                if schema.eq_ignore_ascii_case(PG_CATALOG) {
                    return Ok(table_name(table).map(Found::System));
                }
                let schemas = self.main.catalog.schema_names();
                if let Some(schema) = match_name(schemas.iter().map(String::as_str), schema)
                    && let Some(found) = find_in(&self.main, &schema, table)?
                {
                    return Ok(Some(found));
                }
                if self.registered_in_main && schema.eq_ignore_ascii_case(SCHEMA) {
                    return Ok(self.registered(table));
                }
                match self.database(schema) {
                    Some(source) => find_in(source, SCHEMA, table),
                    None => Ok(None),
                }
            }
            TableReference::Full { catalog, schema, table } => {
                let Some(source) = self.database(catalog) else { return Ok(None) };
                if schema.eq_ignore_ascii_case(INFORMATION_SCHEMA) {
                    return Ok(Some(Found::Information(table.to_lowercase())));
                }
                if schema.eq_ignore_ascii_case(PG_CATALOG) {
                    return Ok(table_name(table).map(Found::System));
                }
                let schemas = source.catalog.schema_names();
                match match_name(schemas.iter().map(String::as_str), schema) {
                    Some(schema) => find_in(source, &schema, table),
                    None => Ok(None),
                }
            }
        }
    }

    fn registered(&self, table: &str) -> Option<Found> {
        let name = match_name(self.registered.keys().map(String::as_str), table)?;
        Some(Found::Registered(Arc::clone(&self.registered[&name])))
    }

    /// Whether a name can mean a macro at all.
    pub(crate) fn has_macros(&self) -> bool {
        let mut sources = self.temp.iter().chain([&self.main]).chain(self.attached.values());
        sources.any(|source| source.catalog.has_macros())
    }

    /// The macro that a name of one to three parts means. One without a schema is looked up in
    /// `first` before all others.
    pub fn find_macro(
        &self,
        name: &[&str],
        kind: MacroKind,
        first: Option<&str>,
    ) -> Option<FoundMacro> {
        let find = |source: &Source, schema: &str, name: &str| {
            let new = self.defined.as_deref().filter(|new| new.is(source, schema, name, kind));
            new.cloned().or_else(|| find_macro_in(source, schema, name, kind))
        };
        match name {
            [name] => {
                let nearest = first.and_then(|schema| find(&self.main, schema, name));
                let mut sources = self.temp.iter().chain([&self.main]);
                nearest.or_else(|| sources.find_map(|source| find(source, SCHEMA, name)))
            }
            [schema, name] => find(&self.main, schema, name)
                .or_else(|| find(self.database(schema)?, SCHEMA, name)),
            [database, schema, name] => {
                self.database(database).and_then(|source| find(source, schema, name))
            }
            _ => None,
        }
    }

    /// The full name of a table or view of the session's own database that is in `first`, or else
    /// in its schema `main`; `None` without such a schema.
    pub(crate) fn locate(&self, first: Option<&str>, table: &str) -> Result<Option<[String; 3]>> {
        let Some(first) = first else { return Ok(None) };
        for schema in [first, SCHEMA] {
            if let Some(name) = stored_name(&self.main, schema, table)? {
                return Ok(Some([self.main.name.clone(), schema.to_string(), name]));
            }
        }
        Ok(None)
    }

    /// The same of a name with a schema before it, as seen from inside an attached database.
    pub(crate) fn locate_in(&self, schema: &str, table: &str) -> Result<Option<[String; 3]>> {
        let schemas = self.main.catalog.schema_names();
        let schema = match_name(schemas.iter().map(String::as_str), schema);
        let Some(schema) = schema.filter(|_| self.main.name != CATALOG) else { return Ok(None) };
        let name = stored_name(&self.main, &schema, table)?;
        Ok(name.map(|name| [self.main.name.clone(), schema, name]))
    }

    /// Whether a database is that of the session's temporary tables.
    pub(crate) fn is_temporary(&self, source: &Source) -> bool {
        self.temp.as_ref().is_some_and(|temp| temp.name == source.name)
    }

    /// The database called `name`: the session's own or an attached one.
    pub fn database(&self, name: &str) -> Option<&Source> {
        let attached = match_name(self.attached.keys().map(String::as_str), name);
        if let Some(alias) = attached {
            return self.attached.get(&alias);
        }
        if let Some(temp) = self.temp.as_ref().filter(|temp| temp.name.eq_ignore_ascii_case(name)) {
            return Some(temp);
        }
        let own = [Some(CATALOG), self.database_name.as_deref()];
        own.iter().flatten().any(|own| own.eq_ignore_ascii_case(name)).then_some(&self.main)
    }

    /// The error for a name that means nothing, with the nearest name that does.
    pub fn unknown_table(&self, name: &TableReference) -> Error {
        let spelled = name.to_string();
        let candidates = match name {
            TableReference::Bare { .. } => self.names(),
            TableReference::Partial { schema, .. } | TableReference::Full { schema, .. } => {
                let qualifier = schema.to_lowercase();
                let all = self.names().into_iter();
                all.filter(|n| n.to_lowercase().starts_with(&qualifier)).collect()
            }
        };
        Error::not_found(ObjectKind::Table, spelled, candidates)
    }

    /// All names a query can use for a table or view, qualified as far as needed.
    pub fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        let sources = std::iter::once((None, &self.main));
        let attached = self.attached.iter().map(|(alias, source)| (Some(alias), source));
        let temp = self.temp.iter().map(|source| (None, source));
        for (alias, source) in sources.chain(attached).chain(temp) {
            for schema in source.catalog.schema_names() {
                let prefix = match (alias, schema.as_str()) {
                    (None, SCHEMA) => String::new(),
                    (None, schema) => format!("{schema}."),
                    (Some(alias), SCHEMA) => format!("{alias}."),
                    (Some(alias), schema) => format!("{alias}.{schema}."),
                };
                let tables = source.catalog.table_names(&schema).unwrap_or_default();
                let views = source.catalog.view_names(&schema);
                names.extend(tables.into_iter().chain(views).map(|n| format!("{prefix}{n}")));
            }
        }
        names.extend(self.registered.keys().cloned());
        names
    }

    /// The same, as seen from inside a view of `source`: its unqualified names are `source`'s own.
    pub(crate) fn inside(&self, source: &Source) -> Self {
        // What is temporary may read all that its session does.
        if self.is_temporary(source) {
            return self.clone();
        }
        Self { main: source.clone(), temp: None, ..self.clone() }
    }
}

/// The one of `names` that equals `wanted`, or else the only one that does so but for case.
pub fn match_name<'a>(
    names: impl Iterator<Item = &'a str> + Clone,
    wanted: &str,
) -> Option<String> {
    if let Some(name) = names.clone().find(|name| *name == wanted) {
        return Some(name.to_string());
    }
    let folded = wanted.to_lowercase();
    let mut close = names.filter(|name| name.to_lowercase() == folded);
    match (close.next(), close.next()) {
        (Some(name), None) => Some(name.to_string()),
        _ => None,
    }
}

fn find_in(source: &Source, schema: &str, name: &str) -> Result<Option<Found>> {
    let (name, hidden) = HiddenColumns::of_name(name);
    if let Some(found) = find_exactly(source, schema, name, hidden)? {
        return Ok(Some(found));
    }
    match stored_name(source, schema, name)? {
        Some(name) => find_exactly(source, schema, &name, hidden),
        None => Ok(None),
    }
}

/// The name of a table or view as it was created.
fn stored_name(source: &Source, schema: &str, name: &str) -> Result<Option<String>> {
    let mut names = source.catalog.table_names(schema)?;
    names.extend(source.catalog.view_names(schema));
    Ok(match_name(names.iter().map(String::as_str), name))
}

fn find_macro_in(source: &Source, schema: &str, name: &str, kind: MacroKind) -> Option<FoundMacro> {
    let schemas = source.catalog.schema_names();
    let schema = match_name(schemas.iter().map(String::as_str), schema)?;
    let names = source.catalog.macro_names(&schema, kind);
    let name = match_name(names.iter().map(String::as_str), name)?;
    let definition = source.catalog.find_macro(&schema, &name, kind)?;
    Some(FoundMacro { definition, source: source.clone(), schema })
}

fn find_exactly(
    source: &Source,
    schema: &str,
    name: &str,
    hidden: HiddenColumns,
) -> Result<Option<Found>> {
    if let Some(table) = source.catalog.table(schema, name)? {
        return Ok(Some(Found::Table { table, source: source.clone(), hidden }));
    }
    let view = source.catalog.view(schema, name)?;
    Ok(view.map(|view| Found::View { view, source: source.clone() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_decides_only_between_several() {
        let names = ["trips", "Trips", "Zones"];
        let find = |wanted| match_name(names.iter().copied(), wanted);
        assert_eq!(find("Trips").as_deref(), Some("Trips"));
        assert_eq!(find("TRIPS"), None);
        assert_eq!(find("zones").as_deref(), Some("Zones"));
        assert_eq!(find("nothing"), None);
    }
}
