//! All objects that a statement's names can mean, each with the one number that it has everywhere.
//!
//! The numbers are made of names: those of an object stay the same while it keeps its name, in each
//! process and each snapshot. Where two names give one number, the later object of the order here
//! takes the next free number.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::Field;
use datafusion::catalog::TableProvider;
use datafusion::common::TableReference;
use datafusion::execution::session_state::SessionState;
use swingdb_common::error::Result;
use swingdb_store::{
    Commented, Macro, MacroKind, Sequence, Table, View as StoredView, view_column,
};

use crate::ast::names::SCHEMA;
use crate::bind::catalogs::{Catalogs, Source};

/// What a name stands for in a view, as something to scan.
pub(crate) type Provider<'a> =
    dyn Fn(&Catalogs, &TableReference) -> Result<Arc<dyn TableProvider>> + 'a;

/// From where the tables of this module are made.
pub(crate) struct Context<'a> {
    pub(crate) view: &'a Catalogs,
    pub(crate) state: &'a SessionState,
    pub(crate) provider: &'a Provider<'a>,
}

/// The least number of an object that was made by a statement, as in PostgreSQL.
const FIRST_OID: i64 = 16_384;
/// The numbers of the schemas that describe others, as in PostgreSQL.
pub(super) const PG_CATALOG: i64 = 11;
pub(super) const INFORMATION_SCHEMA_OID: i64 = 13_000;

/// What a relation is.
#[derive(Clone)]
pub(super) enum What {
    Table(Arc<Table>),
    View(Arc<StoredView>),
    /// A table of the program.
    Registered,
}

/// A table, a view, or a table of the program.
#[derive(Clone)]
pub(super) struct Relation {
    pub(super) name: String,
    pub(super) oid: i64,
    pub(super) what: What,
    pub(super) comment: Option<String>,
    /// The numbers of a table's indexes, in their order.
    pub(super) indexes: Vec<i64>,
    /// The numbers of a table's constraints, in the order of [`super::constraints::of`].
    pub(super) constraints: Vec<i64>,
}

/// A column of a relation.
pub(super) struct Column {
    pub(super) field: Field,
    pub(super) default: Option<String>,
    pub(super) comment: Option<String>,
}

pub(super) struct SequenceObject {
    pub(super) oid: i64,
    pub(super) sequence: Arc<Sequence>,
    pub(super) comment: Option<String>,
}

pub(super) struct MacroObject {
    pub(super) oid: i64,
    pub(super) definition: Arc<Macro>,
    pub(super) comment: Option<String>,
}

pub(super) struct Schema {
    pub(super) name: String,
    pub(super) oid: i64,
    pub(super) relations: Vec<Relation>,
    pub(super) sequences: Vec<SequenceObject>,
    pub(super) macros: Vec<MacroObject>,
}

pub(super) struct Database {
    pub(super) name: String,
    pub(super) oid: i64,
    pub(super) source: Source,
    pub(super) temporary: bool,
    /// Whether it is attached, and so only read.
    pub(super) attached: bool,
    pub(super) schemas: Vec<Schema>,
}

/// See the [module documentation](self).
pub(super) struct Objects(pub(super) Vec<Database>);

/// Gives out numbers.
#[derive(Default)]
struct Oids(HashSet<i64>);

impl Oids {
    fn of(&mut self, kind: &str, names: &[&str]) -> i64 {
        // FNV-1a, which gives the same everywhere and for ever.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let words = std::iter::once(kind).chain(names.iter().copied());
        for byte in words.flat_map(|word| word.bytes().chain([0])) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let room = i64::from(i32::MAX) - FIRST_OID;
        let mut oid = FIRST_OID + ((hash >> 32) as i64 ^ (hash & 0x7fff_ffff) as i64) % room;
        while !self.0.insert(oid) {
            oid = if oid == i64::from(i32::MAX) { FIRST_OID } else { oid + 1 };
        }
        oid
    }
}

impl Objects {
    /// All objects of the databases of a view: its own first, the temporary one last.
    pub(super) fn of(context: &Context<'_>) -> Result<Self> {
        let view = context.view;
        let mut oids = Oids::default();
        let mut all = Vec::new();
        let attached = view.attached.values().map(|source| (source, false, true));
        let temporary = view.temp.iter().map(|source| (source, true, false));
        let sources = std::iter::once((&view.main, false, false)).chain(attached).chain(temporary);
        for (source, temporary, attached) in sources {
            let name = source.name.clone();
            let oid = oids.of("database", &[&name]);
            let mut schemas = Vec::new();
            for schema in source.catalog.schema_names() {
                schemas.push(schema_of(source, &schema, &mut oids)?);
            }
            let source = source.clone();
            all.push(Database { name, oid, source, temporary, attached, schemas });
        }
        if let Some(main) = all.first_mut() {
            let database = main.name.clone();
            let schema = main.schemas.iter_mut().find(|schema| schema.name == SCHEMA);
            if let Some(schema) = schema {
                for name in view.registered.keys() {
                    let oid = oids.of("registered", &[&database, name]);
                    schema.relations.push(plain(name.clone(), oid, What::Registered, None));
                }
            }
        }
        Ok(Self(all))
    }

    /// Each schema with its database.
    pub(super) fn schemas(&self) -> impl Iterator<Item = (&Database, &Schema)> {
        self.0.iter().flat_map(|database| database.schemas.iter().map(move |s| (database, s)))
    }

    /// Each relation with its database and schema.
    pub(super) fn relations(&self) -> impl Iterator<Item = (&Database, &Schema, &Relation)> {
        self.schemas().flat_map(|(d, s)| s.relations.iter().map(move |relation| (d, s, relation)))
    }

    /// Each table with its database, schema and relation.
    pub(super) fn tables(
        &self,
    ) -> impl Iterator<Item = (&Database, &Schema, &Relation, &Arc<Table>)> {
        self.relations().filter_map(|(database, schema, relation)| match &relation.what {
            What::Table(table) => Some((database, schema, relation, table)),
            What::View(_) | What::Registered => None,
        })
    }
}

fn plain(name: String, oid: i64, what: What, comment: Option<String>) -> Relation {
    Relation { name, oid, what, comment, indexes: Vec::new(), constraints: Vec::new() }
}

fn schema_of(source: &Source, schema: &str, oids: &mut Oids) -> Result<Schema> {
    let (catalog, database) = (&source.catalog, source.name.as_str());
    let comment = |on, name: &str| catalog.comment(schema, on, name).map(|text| text.to_string());
    let oid = oids.of("schema", &[database, schema]);
    let mut relations = Vec::new();
    for name in catalog.table_names(schema)? {
        let Some(table) = catalog.table(schema, &name)? else { continue };
        let oid = oids.of("relation", &[database, schema, &name]);
        let indexes = table.notes().indexes.iter();
        let indexes = indexes.map(|one| oids.of("relation", &[database, schema, &one.name]));
        let indexes = indexes.collect();
        let constraints = super::constraints::of(&table).into_iter();
        let constraints = constraints
            .map(|one| oids.of("constraint", &[database, schema, &name, &one.name]))
            .collect();
        let comment = table.notes().comment.clone();
        let what = What::Table(table);
        relations.push(Relation { name, oid, what, comment, indexes, constraints });
    }
    for name in catalog.view_names(schema) {
        let Some(view) = catalog.view(schema, &name)? else { continue };
        let oid = oids.of("relation", &[database, schema, &name]);
        let comment = comment(Commented::View, &name);
        relations.push(plain(name, oid, What::View(view), comment));
    }
    let sequences = catalog.sequence_names(schema).into_iter().filter_map(|name| {
        let sequence = catalog.sequence(schema, &name)?;
        let oid = oids.of("relation", &[database, schema, &name]);
        Some(SequenceObject { oid, sequence, comment: comment(Commented::Sequence, &name) })
    });
    let sequences = sequences.collect();
    let mut macros = Vec::new();
    for kind in [MacroKind::Scalar, MacroKind::Table] {
        let (word, on) = match kind {
            MacroKind::Scalar => ("macro", Commented::Macro),
            MacroKind::Table => ("table macro", Commented::TableMacro),
        };
        for name in catalog.macro_names(schema, kind) {
            let Some(definition) = catalog.find_macro(schema, &name, kind) else { continue };
            let oid = oids.of(word, &[database, schema, &name]);
            macros.push(MacroObject { oid, definition, comment: comment(on, &name) });
        }
    }
    Ok(Schema { name: schema.to_string(), oid, relations, sequences, macros })
}

impl Context<'_> {
    /// The columns of a relation; `None` of a view that cannot be planned: its tables may be gone.
    pub(super) fn columns(
        &self,
        database: &Database,
        schema: &Schema,
        relation: &Relation,
    ) -> Option<Vec<Column>> {
        let (inside, name) = match &relation.what {
            What::Table(table) => {
                let notes = table.notes();
                let column = |(at, column): (usize, &swingdb_store::ColumnDef)| Column {
                    field: column.field(),
                    default: match notes.generated.get(&at) {
                        Some(generated) => Some(generated.sql.clone()),
                        None => column.default_sql.clone(),
                    },
                    comment: notes.columns.get(&at).cloned(),
                };
                return Some(table.columns().iter().enumerate().map(column).collect());
            }
            What::View(_) => {
                let name = TableReference::partial(schema.name.as_str(), relation.name.as_str());
                (self.view.inside(&database.source), name)
            }
            What::Registered => (self.view.clone(), TableReference::bare(relation.name.as_str())),
        };
        let name = match &relation.what {
            What::View(_) if database.temporary => TableReference::bare(relation.name.as_str()),
            _ => name,
        };
        let planned = (self.provider)(&inside, &name).ok()?.schema();
        let column = |field: &Arc<Field>| {
            let noted = view_column(&relation.name, field.name());
            let comment =
                database.source.catalog.comment(&schema.name, Commented::ViewColumn, &noted);
            Column {
                // Nobody promises that a query gives no NULL.
                field: field.as_ref().clone().with_nullable(true),
                default: None,
                comment: comment.map(|text| text.to_string()),
            }
        };
        Some(planned.fields().iter().map(column).collect())
    }
}
