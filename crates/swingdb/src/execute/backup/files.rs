//! Data files of an export: their names, and values that Parquet has no type for.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait,
    RecordBatch, RecordBatchOptions, StringViewArray, StructArray,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    DataType, Field, FieldRef, Fields, IntervalUnit, Schema, SchemaRef, TimeUnit,
};
use swingdb_common::error::{Error, Result};
use swingdb_common::time::intervals::interval_texts;
use swingdb_sql::ast::names::SCHEMA as MAIN;

/// Most bytes of a name before its number and its end.
const MAX_STEM: usize = 100;

/// Names for files that no two tables share, on file systems too that do not tell cases apart.
pub(crate) struct Names {
    end: String,
    taken: HashSet<String>,
}

impl Names {
    /// Names that end with `end`.
    pub(crate) fn new(end: &str) -> Self {
        Self { end: end.to_string(), taken: HashSet::new() }
    }

    /// The name for the file of a table.
    pub(crate) fn of(&mut self, schema: &str, table: &str) -> String {
        let name = match schema {
            MAIN => table.to_string(),
            _ => format!("{schema}_{table}"),
        };
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        let stem: String = name.chars().map(plain).take(MAX_STEM).collect();
        // Programs take names that begin with a sign for options.
        let stem = if stem.starts_with('-') { format!("_{stem}") } else { stem };
        let mut name = stem.clone();
        let mut number = 1;
        while !self.taken.insert(name.to_lowercase()) {
            number += 1;
            name = format!("{stem}_{number}");
        }
        format!("{name}{}", self.end)
    }
}

/// The columns as Parquet can hold them: intervals, which it has only in whole milliseconds and not
/// below zero, become their texts; timestamps in seconds, which it does not have, milliseconds.
pub(crate) struct Storable {
    pub(crate) schema: SchemaRef,
    changed: bool,
}

impl Storable {
    pub(crate) fn new(schema: &SchemaRef) -> Self {
        let fields: Fields = schema.fields().iter().map(storable_field).collect();
        let changed = &fields != schema.fields();
        match changed {
            true => Self { schema: Arc::new(Schema::new(fields)), changed },
            false => Self { schema: Arc::clone(schema), changed },
        }
    }

    /// A batch of the table's columns with values of these types.
    pub(crate) fn batch(&self, batch: RecordBatch) -> Result<RecordBatch> {
        if !self.changed {
            return Ok(batch);
        }
        let fields = self.schema.fields().iter();
        let columns = batch.columns().iter().zip(fields).map(|(c, f)| stored(c, f.data_type()));
        let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &rows)?)
    }
}

fn storable_field(field: &FieldRef) -> FieldRef {
    let data_type = storable(field.data_type());
    match &data_type == field.data_type() {
        true => Arc::clone(field),
        false => Arc::new(Field::clone(field).with_data_type(data_type)),
    }
}

fn storable(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Interval(IntervalUnit::MonthDayNano) => DataType::Utf8View,
        DataType::Timestamp(TimeUnit::Second, zone) => {
            DataType::Timestamp(TimeUnit::Millisecond, zone.clone())
        }
        DataType::List(item) => DataType::List(storable_field(item)),
        DataType::LargeList(item) => DataType::LargeList(storable_field(item)),
        DataType::FixedSizeList(item, n) => DataType::FixedSizeList(storable_field(item), *n),
        DataType::Map(entries, sorted) => DataType::Map(storable_field(entries), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(storable_field).collect()),
        other => other.clone(),
    }
}

/// The values as ones of a type that [`storable`] gives for theirs.
fn stored(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    Ok(match to {
        DataType::Utf8View => {
            let texts = interval_texts(array.as_ref())
                .ok_or_else(|| Error::internal("an interval without a text"))?;
            Arc::new(StringViewArray::from_iter(texts.iter()))
        }
        DataType::List(item) => list(array.as_list::<i32>(), item)?,
        DataType::LargeList(item) => list(array.as_list::<i64>(), item)?,
        DataType::FixedSizeList(item, length) => {
            let lists = array.as_fixed_size_list();
            let values = stored(lists.values(), item.data_type())?;
            let (item, nulls) = (Arc::clone(item), lists.nulls().cloned());
            let rows = lists.len();
            Arc::new(FixedSizeListArray::try_new_with_length(item, *length, values, nulls, rows)?)
        }
        DataType::Map(entries, sorted) => {
            let maps = array.as_map();
            let pairs: ArrayRef = Arc::new(maps.entries().clone());
            let pairs = stored(&pairs, entries.data_type())?.as_struct().clone();
            let (entries, offsets) = (Arc::clone(entries), maps.offsets().clone());
            Arc::new(MapArray::try_new(entries, offsets, pairs, maps.nulls().cloned(), *sorted)?)
        }
        DataType::Struct(fields) => {
            let structs = array.as_struct();
            let columns = structs.columns().iter().zip(fields);
            let columns = columns.map(|(column, field)| stored(column, field.data_type()));
            let (columns, nulls) = (columns.collect::<Result<_>>()?, structs.nulls().cloned());
            let rows = structs.len();
            Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, rows)?)
        }
        other => {
            // What does not fit is an error, and not NULL.
            let strict = CastOptions { safe: false, ..CastOptions::default() };
            cast_with_options(array, other, &strict)?
        }
    })
}

fn list<O: OffsetSizeTrait>(lists: &GenericListArray<O>, item: &FieldRef) -> Result<ArrayRef> {
    let values = stored(lists.values(), item.data_type())?;
    let (item, offsets) = (Arc::clone(item), lists.offsets().clone());
    Ok(Arc::new(GenericListArray::try_new(item, offsets, values, lists.nulls().cloned())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_each_there_once() {
        let mut names = Names::new(".parquet");
        assert_eq!(names.of("main", "trips"), "trips.parquet");
        assert_eq!(names.of("main", "Trips"), "Trips_2.parquet");
        assert_eq!(names.of("main", "trips_2"), "trips_2_2.parquet");
        assert_eq!(names.of("geo", "c/i.ty"), "geo_c_i_ty.parquet");
        assert_eq!(names.of("main", "geo_c_i_ty"), "geo_c_i_ty_2.parquet");
        assert_eq!(names.of("main", "../../etc"), "______etc.parquet");
        assert_eq!(names.of("main", "-rf"), "_-rf.parquet");
        assert_eq!(names.of("main", "Größe"), "Gr__e.parquet");
        assert!(names.of("main", &"ü".repeat(500)).len() < 120);
    }
}
