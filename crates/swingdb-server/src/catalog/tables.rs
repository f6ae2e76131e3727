//! The tables of `pg_catalog`: [`register`], from what the engine says there is: [`Names`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use swingdb::{Connection, Error, Result};

use super::types::{KNOWN, of_sql_name};

/// Numbers below are PostgreSQL's own.
const FIRST_OID: i64 = 16_384;
/// The number of `pg_catalog`, and those of all schemas that have one.
const CATALOG_OID: i64 = 11;
const OWNER_OID: i64 = 10;
const DATABASE_OID: i64 = 5;
const HEAP_OID: i64 = 2;

/// A table or view.
pub(super) struct Relation {
    pub schema: String,
    pub name: String,
    pub is_view: bool,
    /// The text of a view.
    pub definition: Option<String>,
    pub columns: Vec<Column>,
}

/// A column: its name, the name of its type, whether it may be NULL, its default.
pub(super) struct Column {
    name: String,
    sql_type: String,
    is_nullable: bool,
    default: Option<String>,
}

/// What there is in a database, by numbers that stay the same while the names do.
pub struct Names {
    database: String,
    schemas: BTreeMap<i64, String>,
    pub(super) relations: BTreeMap<i64, Relation>,
}

impl Names {
    /// What there is in the state that a connection is at.
    pub fn of(connection: &Connection) -> Result<Self> {
        let mut relations: BTreeMap<(String, String), Relation> = BTreeMap::new();
        let sql = "SELECT t.table_schema, t.table_name, t.table_type, v.view_definition \
            FROM information_schema.tables t LEFT JOIN information_schema.views v \
            ON v.table_schema = t.table_schema AND v.table_name = t.table_name \
            WHERE t.table_catalog = current_database() AND t.table_schema <> 'information_schema'";
        for [schema, name, kind, definition] in rows::<4>(connection, sql)? {
            let (schema, name) = (schema.unwrap_or_default(), name.unwrap_or_default());
            let key = (schema.clone(), name.clone());
            let is_view = kind.as_deref() == Some("VIEW");
            relations.insert(key, Relation { schema, name, is_view, definition, columns: vec![] });
        }
        let sql = "SELECT table_schema, table_name, column_name, data_type, is_nullable, \
            column_default FROM information_schema.columns \
            WHERE table_catalog = current_database() ORDER BY 1, 2, ordinal_position";
        for [schema, table, name, sql_type, nullable, default] in rows::<6>(connection, sql)? {
            let key = (schema.unwrap_or_default(), table.unwrap_or_default());
            if let Some(relation) = relations.get_mut(&key) {
                relation.columns.push(Column {
                    name: name.unwrap_or_default(),
                    sql_type: sql_type.unwrap_or_default(),
                    is_nullable: nullable.as_deref() != Some("NO"),
                    default,
                });
            }
        }
        let mut taken = BTreeSet::new();
        let mut schemas = BTreeMap::new();
        let names = rows::<1>(connection, "SELECT schema_name FROM information_schema.schemata")?;
        for [name] in names {
            let name = name.unwrap_or_default();
            schemas.insert(number(&name, &mut taken), name);
        }
        let relations = relations.into_iter().map(|((schema, name), relation)| {
            (number(&format!("{schema}.{name}"), &mut taken), relation)
        });
        let relations = relations.collect();
        let [database] = rows::<1>(connection, "SELECT current_database()")?
            .pop()
            .ok_or(Error::Internal { message: "current_database() has no row".to_string() })?;
        Ok(Self { database: database.unwrap_or_default(), schemas, relations })
    }

    fn schema(&self, name: &str) -> i64 {
        self.schemas.iter().find(|(_, known)| *known == name).map_or(0, |(oid, _)| *oid)
    }

    /// The number of a table by its name, with or without its schema.
    pub fn relation(&self, name: &str) -> Option<i64> {
        let plain = name.replace('"', "");
        let (schema, table) = plain.split_once('.').unwrap_or(("main", &plain));
        let schema = if schema == "public" { "main" } else { schema };
        let found = self.relations.iter().find(|(_, relation)| {
            relation.schema == schema && relation.name.eq_ignore_ascii_case(table)
        });
        found.map(|(oid, _)| *oid)
    }
}

/// A number for a name, of 31 bits: FNV-1a, the next free one where two names meet.
fn number(name: &str, taken: &mut BTreeSet<i64>) -> i64 {
    let hash = name
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let most = i64::from(i32::MAX);
    let mut oid = FIRST_OID + i64::from(hash) % (most - FIRST_OID);
    while !taken.insert(oid) {
        oid = if oid == most { FIRST_OID } else { oid + 1 };
    }
    oid
}

/// The rows of a statement as texts.
fn rows<const N: usize>(connection: &Connection, sql: &str) -> Result<Vec<[Option<String>; N]>> {
    let mut found = Vec::new();
    for batch in connection.query(sql)? {
        let batch = batch?;
        let columns = batch
            .columns()
            .iter()
            .map(|column| arrow::compute::cast(column, &DataType::Utf8).map_err(Error::from));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        for row in 0..batch.num_rows() {
            found.push(std::array::from_fn(|at| {
                let texts = columns[at].as_string::<i32>();
                arrow::array::Array::is_valid(texts, row).then(|| texts.value(row).to_string())
            }));
        }
    }
    Ok(found)
}

/// A value of a catalog table.
#[derive(Clone)]
enum Cell {
    Null,
    Int(i64),
    Text(String),
    Bool(bool),
}

impl From<i64> for Cell {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Self {
        Self::Text(value.to_string())
    }
}

impl From<bool> for Cell {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

/// Names of columns with their types: `i` numbers, `t` texts, `b` booleans, `a` lists of texts,
/// `n` lists of numbers.
/// The rows of those with rows are made by [`filled`]; what is not said there is NULL, 0, false.
const TABLES: [(&str, &str); 35] = [
    ("pg_namespace", "oid:i nspname:t nspowner:i nspacl:a"),
    (
        "pg_class",
        "oid:i relname:t relnamespace:i reltype:i reloftype:i relowner:i relam:i \
        relfilenode:i reltablespace:i relpages:i reltuples:i reltoastrelid:i relhasindex:b \
        relisshared:b relpersistence:t relkind:t relnatts:i relchecks:i relhasrules:b \
        relhastriggers:b relhassubclass:b relrowsecurity:b relforcerowsecurity:b \
        relispopulated:b relreplident:t relispartition:b relacl:a reloptions:a relpartbound:t",
    ),
    (
        "pg_attribute",
        "attrelid:i attname:t atttypid:i attlen:i attnum:i attndims:i atttypmod:i \
        attnotnull:b atthasdef:b attidentity:t attgenerated:t attisdropped:b attislocal:b \
        attcollation:i attstattarget:i attstorage:t attcompression:t attacl:a attoptions:a",
    ),
    ("pg_attrdef", "oid:i adrelid:i adnum:i adbin:t"),
    (
        "pg_type",
        "oid:i typname:t typnamespace:i typowner:i typlen:i typtype:t typcategory:t \
        typrelid:i typelem:i typarray:i typbasetype:i typtypmod:i typnotnull:b typcollation:i \
        typdelim:t typinput:t typndims:i typdefault:t",
    ),
    ("pg_am", "oid:i amname:t amtype:t"),
    (
        "pg_database",
        "oid:i datname:t datdba:i encoding:i datcollate:t datctype:t daticulocale:t \
        datlocprovider:t datallowconn:b datistemplate:b datacl:a dattablespace:i",
    ),
    (
        "pg_roles",
        "oid:i rolname:t rolsuper:b rolinherit:b rolcreaterole:b rolcreatedb:b \
        rolcanlogin:b rolreplication:b rolconnlimit:i rolvaliduntil:t rolbypassrls:b",
    ),
    ("pg_auth_members", "roleid:i member:i grantor:i admin_option:b"),
    ("pg_user", "usesysid:i usename:t usecreatedb:b usesuper:b"),
    (
        "pg_tables",
        "schemaname:t tablename:t tableowner:t tablespace:t hasindexes:b hasrules:b \
        hastriggers:b rowsecurity:b",
    ),
    ("pg_views", "schemaname:t viewname:t viewowner:t definition:t"),
    (
        "pg_index",
        "indexrelid:i indrelid:i indnatts:i indisunique:b indisprimary:b \
        indisclustered:b indisvalid:b indisreplident:b indkey:t indoption:t indpred:t indexprs:t \
        indimmediate:b indisready:b indclass:t indnkeyatts:i",
    ),
    (
        "pg_constraint",
        "oid:i conname:t connamespace:i contype:t condeferrable:b condeferred:b \
        convalidated:b conrelid:i conindid:i conparentid:i confrelid:i conkey:t confkey:t \
        confupdtype:t confdeltype:t confmatchtype:t conislocal:b contypid:i conbin:t",
    ),
    (
        "pg_proc",
        "oid:i proname:t pronamespace:i proowner:i prolang:i prokind:t prorettype:i \
        proargtypes:t proacl:a proisstrict:b provolatile:t pronargs:i",
    ),
    ("pg_collation", "oid:i collname:t collnamespace:i"),
    ("pg_description", "objoid:i classoid:i objsubid:i description:t"),
    ("pg_inherits", "inhrelid:i inhparent:i inhseqno:i inhdetachpending:b"),
    (
        "pg_policy",
        "oid:i polname:t polrelid:i polcmd:t polpermissive:b polroles:n polqual:t \
        polwithcheck:t",
    ),
    (
        "pg_statistic_ext",
        "oid:i stxrelid:i stxname:t stxnamespace:i stxowner:i stxkind:a \
        stxstattarget:i",
    ),
    ("pg_publication", "oid:i pubname:t puballtables:b"),
    ("pg_publication_rel", "oid:i prpubid:i prrelid:i prqual:t prattrs:a"),
    ("pg_publication_namespace", "oid:i pnpubid:i pnnspid:i"),
    (
        "pg_trigger",
        "oid:i tgname:t tgrelid:i tgisinternal:b tgenabled:t tgparentid:i \
        tgconstraint:i tgfoid:i tgtype:i",
    ),
    ("pg_rewrite", "oid:i rulename:t ev_class:i ev_type:t ev_enabled:t is_instead:b"),
    ("pg_enum", "oid:i enumtypid:i enumsortorder:i enumlabel:t"),
    ("pg_range", "rngtypid:i rngsubtype:i"),
    ("pg_extension", "oid:i extname:t extowner:i extnamespace:i extversion:t"),
    ("pg_foreign_table", "ftrelid:i ftserver:i ftoptions:a"),
    ("pg_foreign_server", "oid:i srvname:t"),
    ("pg_partitioned_table", "partrelid:i partstrat:t partattrs:t"),
    ("pg_sequence", "seqrelid:i seqtypid:i seqstart:i seqincrement:i"),
    ("pg_tablespace", "oid:i spcname:t spcowner:i"),
    ("pg_matviews", "schemaname:t matviewname:t matviewowner:t definition:t"),
    ("pg_depend", "classid:i objid:i objsubid:i refclassid:i refobjid:i refobjsubid:i deptype:t"),
];

type Row = BTreeMap<&'static str, Cell>;

fn row<const N: usize>(cells: [(&'static str, Cell); N]) -> Row {
    cells.into_iter().collect()
}

/// The rows of a table.
fn filled(table: &str, names: &Names) -> Vec<Row> {
    let own = [(CATALOG_OID, "pg_catalog"), (13_000, "information_schema")];
    let owner = ("rolname", Cell::from("swingdb"));
    match table {
        "pg_namespace" => {
            let others = names.schemas.iter().map(|(oid, name)| (*oid, name.as_str()));
            let all = own.into_iter().chain(others);
            let owner = Cell::from(OWNER_OID);
            all.map(|(oid, name)| {
                row([("oid", oid.into()), ("nspname", name.into()), ("nspowner", owner.clone())])
            })
            .collect()
        }
        "pg_class" => names.relations.iter().map(|(oid, it)| class(*oid, it, names)).collect(),
        "pg_attribute" => {
            let all = names.relations.iter();
            all.flat_map(|(oid, it)| {
                it.columns.iter().zip(1..).map(|(column, number)| attribute(*oid, number, column))
            })
            .collect()
        }
        "pg_attrdef" => names.relations.iter().flat_map(|(oid, it)| defaults(*oid, it)).collect(),
        "pg_type" => KNOWN.iter().map(type_row).collect(),
        "pg_am" => {
            vec![row([("oid", HEAP_OID.into()), ("amname", "heap".into()), ("amtype", "t".into())])]
        }
        "pg_database" => vec![row([
            ("oid", DATABASE_OID.into()),
            ("datname", names.database.as_str().into()),
            ("datdba", OWNER_OID.into()),
            ("encoding", 6.into()),
            ("datcollate", "C".into()),
            ("datctype", "C".into()),
            ("datlocprovider", "c".into()),
            ("datallowconn", true.into()),
        ])],
        "pg_roles" => {
            vec![row([
                ("oid", OWNER_OID.into()),
                owner,
                ("rolcanlogin", true.into()),
                ("rolinherit", true.into()),
                ("rolconnlimit", (-1).into()),
            ])]
        }
        "pg_user" => {
            vec![row([("usesysid", OWNER_OID.into()), ("usename", "swingdb".into())])]
        }
        "pg_tables" => {
            let tables = names.relations.values().filter(|it| !it.is_view);
            tables.map(|it| named(["schemaname", "tablename", "tableowner"], it)).collect()
        }
        "pg_views" => {
            let views = names.relations.values().filter(|it| it.is_view);
            views
                .map(|it| {
                    let mut row = named(["schemaname", "viewname", "viewowner"], it);
                    row.insert("definition", it.definition.as_deref().unwrap_or_default().into());
                    row
                })
                .collect()
        }
        _ => Vec::new(),
    }
}

fn named(columns: [&'static str; 3], relation: &Relation) -> Row {
    let [schema, name, owner] = columns;
    row([
        (schema, relation.schema.as_str().into()),
        (name, relation.name.as_str().into()),
        (owner, "swingdb".into()),
    ])
}

fn class(oid: i64, relation: &Relation, names: &Names) -> Row {
    row([
        ("oid", oid.into()),
        ("relname", relation.name.as_str().into()),
        ("relnamespace", names.schema(&relation.schema).into()),
        ("relowner", OWNER_OID.into()),
        ("relam", if relation.is_view { 0 } else { HEAP_OID }.into()),
        ("reltuples", (-1).into()),
        ("relpersistence", "p".into()),
        ("relkind", if relation.is_view { "v" } else { "r" }.into()),
        ("relnatts", (relation.columns.len() as i64).into()),
        ("relispopulated", true.into()),
        ("relreplident", "d".into()),
    ])
}

fn attribute(relation: i64, number: i64, column: &Column) -> Row {
    let pg = of_sql_name(&column.sql_type);
    row([
        ("attrelid", relation.into()),
        ("attname", column.name.as_str().into()),
        ("atttypid", i64::from(pg.oid()).into()),
        ("attlen", i64::from(pg.size()).into()),
        ("attnum", number.into()),
        ("atttypmod", i64::from(pg.modifier()).into()),
        ("attnotnull", (!column.is_nullable).into()),
        ("atthasdef", column.default.is_some().into()),
        ("attidentity", "".into()),
        ("attgenerated", "".into()),
        ("attislocal", true.into()),
        ("attstorage", if pg.size() < 0 { "x" } else { "p" }.into()),
        ("attcompression", "".into()),
    ])
}

fn defaults(oid: i64, relation: &Relation) -> Vec<Row> {
    let columns = relation.columns.iter().zip(1_i64..);
    columns
        .filter_map(|(column, number)| {
            Some(row([
                ("oid", oid.into()),
                ("adrelid", oid.into()),
                ("adnum", number.into()),
                ("adbin", column.default.as_deref()?.into()),
            ]))
        })
        .collect()
}

fn type_row(known: &super::types::Known) -> Row {
    let array = KNOWN.iter().find(|other| other.element == known.oid);
    row([
        ("oid", i64::from(known.oid).into()),
        ("typname", known.name.into()),
        ("typnamespace", CATALOG_OID.into()),
        ("typowner", OWNER_OID.into()),
        ("typlen", i64::from(known.size).into()),
        ("typtype", "b".into()),
        ("typcategory", known.category.into()),
        ("typelem", i64::from(known.element).into()),
        ("typarray", array.map_or(0, |array| i64::from(array.oid)).into()),
        ("typtypmod", (-1).into()),
        ("typdelim", ",".into()),
        ("typinput", if known.element == 0 { "" } else { "array_in" }.into()),
    ])
}

/// The column of a table with the cells of all rows.
fn array(name: &str, kind: &str, rows: &[Row]) -> ArrayRef {
    let cells = rows.iter().map(|row| row.get(name).cloned().unwrap_or(Cell::Null));
    match kind {
        "i" => Arc::new(Int64Array::from_iter(cells.map(|cell| match cell {
            Cell::Int(value) => Some(value),
            _ => Some(0),
        }))),
        "b" => Arc::new(BooleanArray::from_iter(cells.map(|cell| match cell {
            Cell::Bool(value) => Some(value),
            _ => Some(false),
        }))),
        "t" => Arc::new(StringArray::from_iter(cells.map(|cell| match cell {
            Cell::Text(value) => Some(value),
            _ => None,
        }))),
        _ => {
            arrow::array::new_null_array(&DataType::new_list(DataType::Utf8View, true), rows.len())
        }
    }
}

/// Registers the tables that a statement names; their names.
pub fn register(connection: &Connection, names: &Names, sql: &str) -> Result<Vec<&'static str>> {
    let words = sql.split(|c: char| c != '_' && !c.is_ascii_alphanumeric());
    let words = words.map(str::to_lowercase).collect::<BTreeSet<_>>();
    let mut made = Vec::new();
    for (table, columns) in TABLES.iter().filter(|(table, _)| words.contains(*table)) {
        let rows = filled(table, names);
        let columns = columns.split_whitespace().filter_map(|column| column.split_once(':'));
        let (mut fields, mut arrays) = (Vec::new(), Vec::new());
        for (name, kind) in columns {
            let array = array(name, kind, &rows);
            fields.push(Field::new(name, array.data_type().clone(), true));
            arrays.push(array);
        }
        let schema = Arc::new(Schema::new(fields));
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays)?;
        connection.register(table, schema, vec![batch])?;
        made.push(*table);
    }
    Ok(made)
}

/// The values of an argument that is a number.
pub fn numbers(array: &ArrayRef) -> Vec<Option<i64>> {
    array.as_primitive::<Int64Type>().iter().collect()
}
