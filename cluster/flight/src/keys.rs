//! Primary and foreign keys, as Flight SQL asks for them.
//!
//! The rows come from the engine's own catalog. What is asked for is compared exactly: a table of
//! another name, also in other case, has other keys.

use std::sync::Arc;

use arrow::array::cast::AsArray;
use arrow::array::{Array, ArrayRef, Int32Array, RecordBatch, StringArray, UInt8Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow_flight::sql::{
    CommandGetCrossReference, CommandGetExportedKeys, CommandGetImportedKeys,
    CommandGetPrimaryKeys, UpdateDeleteRules,
};
use tonic::Status;

use crate::call::{Call, Turn};
use crate::status::{of_arrow, of_database};

const KEYS: &str = "SELECT database_name, schema_name, table_name, constraint_name, \
       constraint_column_names, referenced_table, referenced_column_names \
     FROM duckdb_constraints() WHERE constraint_type = ";

/// What `duckdb_constraints()` does not say of foreign keys, in the same order.
const PARENTS: &str = "SELECT constraint_catalog, constraint_schema, constraint_name, \
       unique_constraint_schema, unique_constraint_name \
     FROM information_schema.referential_constraints";

/// A table whose keys are asked for; what is not given may be anything.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    catalog: Option<String>,
    schema: Option<String>,
    table: Option<String>,
}

impl Asked {
    fn of(catalog: Option<String>, schema: Option<String>, table: String) -> Self {
        Self { catalog, schema, table: Some(table) }
    }

    fn is(&self, place: &Place) -> bool {
        let is = |asked: &Option<String>, name: &String| asked.as_ref().is_none_or(|a| a == name);
        is(&self.catalog, &place.catalog)
            && is(&self.schema, &place.schema)
            && is(&self.table, &place.table)
    }
}

/// Which foreign keys are asked for, and in which order.
#[derive(Clone, Debug)]
pub struct AskedForeign {
    parent: Asked,
    child: Asked,
    by_child: bool,
}

impl From<CommandGetExportedKeys> for AskedForeign {
    fn from(asked: CommandGetExportedKeys) -> Self {
        let parent = Asked::of(asked.catalog, asked.db_schema, asked.table);
        Self { parent, child: Asked::default(), by_child: true }
    }
}

impl From<CommandGetImportedKeys> for AskedForeign {
    fn from(asked: CommandGetImportedKeys) -> Self {
        let child = Asked::of(asked.catalog, asked.db_schema, asked.table);
        Self { parent: Asked::default(), child, by_child: false }
    }
}

impl From<CommandGetCrossReference> for AskedForeign {
    fn from(asked: CommandGetCrossReference) -> Self {
        let parent = Asked::of(asked.pk_catalog, asked.pk_db_schema, asked.pk_table);
        let child = Asked::of(asked.fk_catalog, asked.fk_db_schema, asked.fk_table);
        Self { parent, child, by_child: false }
    }
}

/// Where a table is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    catalog: String,
    schema: String,
    table: String,
}

/// A key: that of a table, or one that refers to a table's.
struct Key {
    place: Place,
    name: String,
    columns: Vec<String>,
    /// The table and the columns that it refers to.
    refers_to: (String, Vec<String>),
}

/// The rows of a query about the catalog.
fn rows(turn: &Turn<'_>, sql: &str) -> Result<Vec<RecordBatch>, Status> {
    let rows = turn.connection().query(sql).and_then(|rows| rows.collect());
    rows.map_err(|error| of_database(&error))
}

/// A column of texts; NULL is empty.
fn texts(batch: &RecordBatch, column: usize) -> Result<Vec<String>, Status> {
    text_values(batch.column(column))
}

fn text_values(array: &ArrayRef) -> Result<Vec<String>, Status> {
    let array = cast(array, &DataType::Utf8).map_err(of_arrow)?;
    let all = array.as_string::<i32>().iter();
    Ok(all.map(|text| text.unwrap_or_default().to_string()).collect())
}

/// A column of lists of texts; NULL is empty.
fn lists(batch: &RecordBatch, column: usize) -> Result<Vec<Vec<String>>, Status> {
    let lists = batch.column(column).as_list_opt::<i32>();
    let lists = lists.ok_or_else(|| Status::internal("a catalog without lists of columns"))?;
    let list = |row| if lists.is_valid(row) { text_values(&lists.value(row)) } else { Ok(vec![]) };
    (0..lists.len()).map(list).collect()
}

/// The keys of a kind, in the catalog's order.
fn keys(turn: &Turn<'_>, kind: &str) -> Result<Vec<Key>, Status> {
    let mut keys = Vec::new();
    for batch in rows(turn, &format!("{KEYS}'{kind}'"))? {
        let [catalogs, schemas, tables] = [texts(&batch, 0)?, texts(&batch, 1)?, texts(&batch, 2)?];
        let (names, columns) = (texts(&batch, 3)?, lists(&batch, 4)?);
        let (parents, referenced) = (texts(&batch, 5)?, lists(&batch, 6)?);
        let places = catalogs.into_iter().zip(schemas).zip(tables);
        let places = places.map(|((catalog, schema), table)| Place { catalog, schema, table });
        let refers_to = parents.into_iter().zip(referenced);
        for (((place, name), columns), refers_to) in places.zip(names).zip(columns).zip(refers_to) {
            keys.push(Key { place, name, columns, refers_to });
        }
    }
    Ok(keys)
}

fn text_column(values: Vec<&str>) -> ArrayRef {
    Arc::new(StringArray::from(values))
}

fn built(schema: SchemaRef, columns: Vec<ArrayRef>) -> Result<RecordBatch, Status> {
    RecordBatch::try_new(schema, columns).map_err(of_arrow)
}

fn optional(name: &str) -> Field {
    Field::new(name, DataType::Utf8, true)
}

fn required(name: &str) -> Field {
    Field::new(name, DataType::Utf8, false)
}

/// The columns of primary keys.
pub fn primary_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        optional("catalog_name"),
        optional("db_schema_name"),
        required("table_name"),
        required("column_name"),
        optional("key_name"),
        Field::new("key_sequence", DataType::Int32, false),
    ]))
}

/// The columns of foreign keys.
pub fn foreign_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        optional("pk_catalog_name"),
        optional("pk_db_schema_name"),
        required("pk_table_name"),
        required("pk_column_name"),
        optional("fk_catalog_name"),
        optional("fk_db_schema_name"),
        required("fk_table_name"),
        required("fk_column_name"),
        Field::new("key_sequence", DataType::Int32, false),
        optional("fk_key_name"),
        optional("pk_key_name"),
        Field::new("update_rule", DataType::UInt8, false),
        Field::new("delete_rule", DataType::UInt8, false),
    ]))
}

/// The columns of a table's primary key.
pub fn primary(call: &Call, asked: CommandGetPrimaryKeys) -> Result<RecordBatch, Status> {
    let turn = call.turn()?;
    turn.refresh()?;
    let asked = Asked::of(asked.catalog, asked.db_schema, asked.table);
    let mut keys = keys(&turn, "PRIMARY KEY")?;
    keys.retain(|key| asked.is(&key.place));
    keys.sort_by(|one, other| (&one.place, &one.name).cmp(&(&other.place, &other.name)));
    let all = keys.iter().flat_map(|key| {
        (1..).zip(&key.columns).map(move |(nth, column)| (key, column.as_str(), nth))
    });
    let all = all.collect::<Vec<(&Key, &str, i32)>>();
    let text = |of: &dyn Fn(&Key) -> &str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(all.iter().map(|(key, ..)| of(key))))
    };
    let columns = vec![
        text(&|key| &key.place.catalog),
        text(&|key| &key.place.schema),
        text(&|key| &key.place.table),
        text_column(all.iter().map(|(_, column, _)| *column).collect()),
        text(&|key| &key.name),
        Arc::new(Int32Array::from_iter_values(all.iter().map(|(.., nth)| *nth))),
    ];
    built(primary_schema(), columns)
}

/// A foreign key, and the key of the table that it refers to.
struct Foreign {
    key: Key,
    parent: Place,
    parent_key: String,
}

fn foreign_keys(turn: &Turn<'_>) -> Result<Vec<Foreign>, Status> {
    let mut parents = Vec::new();
    for batch in rows(turn, PARENTS)? {
        let columns = (0..5).map(|column| texts(&batch, column));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        parents.extend(
            (0..batch.num_rows())
                .map(|row| columns.iter().map(|column| column[row].clone()).collect::<Vec<_>>()),
        );
    }
    let keys = keys(turn, "FOREIGN KEY")?;
    let differ = || Status::internal("two tables of the catalog differ about foreign keys");
    if keys.len() != parents.len() {
        return Err(differ());
    }
    let joined = keys.into_iter().zip(parents).map(|(key, parent)| {
        // Names need not be unique: so the order tells which is which.
        let is_same = [&key.place.catalog, &key.place.schema, &key.name]
            .iter()
            .zip(&parent)
            .all(|(one, other)| *one == other);
        let [_, _, _, schema, parent_key] =
            <[String; 5]>::try_from(parent).map_err(|_| differ())?;
        let (catalog, table) = (key.place.catalog.clone(), key.refers_to.0.clone());
        let parent = Place { catalog, schema, table };
        is_same.then_some(Foreign { key, parent, parent_key }).ok_or_else(differ)
    });
    joined.collect()
}

/// The columns of foreign keys.
pub fn foreign(call: &Call, asked: &AskedForeign) -> Result<RecordBatch, Status> {
    let turn = call.turn()?;
    turn.refresh()?;
    let mut keys = foreign_keys(&turn)?;
    keys.retain(|one| asked.parent.is(&one.parent) && asked.child.is(&one.key.place));
    let order = |one: &Foreign| match asked.by_child {
        true => (one.key.place.clone(), one.key.name.clone()),
        false => (one.parent.clone(), one.parent_key.clone()),
    };
    // Rows of several keys are in one order of their columns: those of one key stay together.
    keys.sort_by_cached_key(|one| (order(one), one.key.place.clone(), one.key.name.clone()));
    let all = keys.iter().flat_map(|one| {
        let pairs = one.key.columns.iter().zip(&one.key.refers_to.1);
        (1..).zip(pairs).map(move |(nth, (column, parent))| (one, column, parent, nth))
    });
    let all = all.collect::<Vec<(&Foreign, &String, &String, i32)>>();
    let text = |of: &dyn Fn(&Foreign) -> &str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(all.iter().map(|(one, ..)| of(one))))
    };
    // References are checked at the end of each statement, and nothing follows from them.
    let rule = UpdateDeleteRules::NoAction as u8;
    let rules = || Arc::new(UInt8Array::from(vec![rule; all.len()])) as ArrayRef;
    let columns = vec![
        text(&|one| &one.parent.catalog),
        text(&|one| &one.parent.schema),
        text(&|one| &one.parent.table),
        text_column(all.iter().map(|(_, _, parent, _)| parent.as_str()).collect()),
        text(&|one| &one.key.place.catalog),
        text(&|one| &one.key.place.schema),
        text(&|one| &one.key.place.table),
        text_column(all.iter().map(|(_, column, ..)| column.as_str()).collect()),
        Arc::new(Int32Array::from_iter_values(all.iter().map(|(.., nth)| *nth))),
        text(&|one| &one.key.name),
        text(&|one| &one.parent_key),
        rules(),
        rules(),
    ];
    built(foreign_schema(), columns)
}
