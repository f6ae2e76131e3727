//! `information_schema.columns`, with types by the names SQL has for them, and
//! `information_schema.views`.
//!
//! The engine's own tables call types by Arrow's names, which no other database knows, and list
//! every table as a view.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt64Array, new_null_array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::TableReference;
use datafusion::datasource::MemTable;
use swingdb_common::error::Result;
use swingdb_common::types::sql_names::field_type;

use crate::ast::names::SCHEMA;
use crate::bind::catalogs::{Catalogs, Found};
use crate::bind::system::Provider;

#[derive(Default)]
struct Columns {
    catalogs: Vec<String>,
    schemas: Vec<String>,
    tables: Vec<String>,
    names: Vec<String>,
    positions: Vec<u64>,
    defaults: Vec<Option<String>>,
    nullable: Vec<&'static str>,
    types: Vec<String>,
    precisions: Vec<Option<u64>>,
    scales: Vec<Option<u64>>,
}

impl Columns {
    fn add(&mut self, table: [&str; 3], position: usize, field: &Field, default: Option<String>) {
        let [catalog, schema, name] = table;
        self.catalogs.push(catalog.to_string());
        self.schemas.push(schema.to_string());
        self.tables.push(name.to_string());
        self.names.push(field.name().clone());
        self.positions.push(position as u64 + 1);
        self.defaults.push(default);
        self.nullable.push(if field.is_nullable() { "YES" } else { "NO" });
        self.types.push(field_type(field));
        let decimal = match field.data_type() {
            DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
                Some((u64::from(*precision), u64::try_from(*scale).unwrap_or(0)))
            }
            _ => None,
        };
        self.precisions.push(decimal.map(|(precision, _)| precision));
        self.scales.push(decimal.map(|(_, scale)| scale));
    }

    /// The column of the information schema that is called so; `None`: nothing is known there.
    fn array(&self, name: &str) -> Option<ArrayRef> {
        Some(match name {
            "table_catalog" => Arc::new(StringArray::from_iter_values(&self.catalogs)),
            "table_schema" => Arc::new(StringArray::from_iter_values(&self.schemas)),
            "table_name" => Arc::new(StringArray::from_iter_values(&self.tables)),
            "column_name" => Arc::new(StringArray::from_iter_values(&self.names)),
            "ordinal_position" => Arc::new(UInt64Array::from(self.positions.clone())),
            "column_default" => Arc::new(StringArray::from_iter(&self.defaults)),
            "is_nullable" => Arc::new(StringArray::from_iter_values(&self.nullable)),
            "data_type" => Arc::new(StringArray::from_iter_values(&self.types)),
            "numeric_precision" => Arc::new(UInt64Array::from(self.precisions.clone())),
            "numeric_scale" => Arc::new(UInt64Array::from(self.scales.clone())),
            _ => return None,
        })
    }
}

/// The table, with the columns of `like`, the engine's.
pub(crate) fn columns(
    view: &Catalogs,
    like: &SchemaRef,
    provider: &Provider<'_>,
) -> Result<Arc<dyn TableProvider>> {
    let mut all = Columns::default();
    for source in std::iter::once(&view.main).chain(view.attached.values()) {
        let inside = view.inside(source);
        let main = source.name == view.main.name;
        for schema in source.catalog.schema_names() {
            let mut names = BTreeSet::from_iter(source.catalog.table_names(&schema)?);
            names.extend(source.catalog.view_names(&schema));
            let registered = main && schema == SCHEMA;
            if registered {
                names.extend(view.registered.keys().cloned());
            }
            for name in names {
                let reference = match registered {
                    true => TableReference::bare(name.as_str()),
                    false => TableReference::partial(schema.as_str(), name.as_str()),
                };
                // A view whose tables are gone must not hide all others from the list.
                let Ok(provider) = provider(&inside, &reference) else {
                    continue;
                };
                let table = match inside.find(&reference)? {
                    Some(Found::Table { table, .. }) => Some(table),
                    _ => None,
                };
                for (position, field) in provider.schema().fields().iter().enumerate() {
                    let column = table.as_ref().and_then(|table| table.columns().get(position));
                    let default = column.and_then(|column| column.default_sql.clone());
                    all.add([&source.name, &schema, &name], position, field, default);
                }
            }
        }
    }
    let rows = all.names.len();
    let arrays = like.fields().iter().map(|field| {
        let known = all.array(field.name()).filter(|array| array.data_type() == field.data_type());
        known.unwrap_or_else(|| new_null_array(field.data_type(), rows))
    });
    let fields = like.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays.collect())?;
    Ok(Arc::new(MemTable::try_new(schema, vec![vec![batch]])?))
}

/// The views of all databases, with their queries.
pub(crate) fn views(view: &Catalogs) -> Result<Arc<dyn TableProvider>> {
    let mut rows: [Vec<String>; 4] = Default::default();
    for source in std::iter::once(&view.main).chain(view.attached.values()) {
        for schema in source.catalog.schema_names() {
            for name in source.catalog.view_names(&schema) {
                let Some(stored) = source.catalog.view(&schema, &name)? else { continue };
                let values = [source.name.clone(), schema.clone(), name, stored.sql.clone()];
                rows.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
            }
        }
    }
    let [catalogs, schemas, names, texts] = &rows;
    let columns = [
        ("table_catalog", catalogs),
        ("table_schema", schemas),
        ("table_name", names),
        // As the standard calls it, and as the engine does.
        ("view_definition", texts),
        ("definition", texts),
    ];
    let fields = columns.iter().map(|(name, _)| Field::new(*name, DataType::Utf8, false));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let arrays = columns
        .iter()
        .map(|(_, values)| -> ArrayRef { Arc::new(StringArray::from_iter_values(values.iter())) });
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays.collect())?;
    Ok(Arc::new(MemTable::try_new(schema, vec![vec![batch]])?))
}
