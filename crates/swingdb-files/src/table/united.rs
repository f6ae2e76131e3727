//! `union_by_name`: files with different columns as one table. And files whose columns are those of
//! the first, in another order or of narrower types.
//!
//! Each file is a table of its own, and the whole is their UNION ALL: a column that a file does not
//! have is NULL there, names that differ in case only are the same, and each column has a type that
//! holds what all files have in it. Fields of structs are told by their names, too. So conditions
//! skip row groups of each Parquet file, and rows come in the order of the files.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::{Column, ScalarValue, TableReference};
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::logical_expr::type_coercion::binary::type_union_coercion;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Union, cast, lit};
use swingdb_common::error::{Error, Result};
use swingdb_common::types::sql_names::sql_name;
use swingdb_functions::nested::unified::common_floating;

use crate::input::InputFile;
use crate::options::ImportOptions;
use crate::reading::file_columns::FileColumns;
use crate::table::file_table::one_table;

/// The files as one table; with `as_first`, all have to fit into the columns of the first.
pub(super) fn united(
    files: Vec<InputFile>,
    options: &ImportOptions,
    as_first: bool,
) -> Result<Arc<dyn TableProvider>> {
    let places = FileColumns::find(&files, options)?;
    let options = of_one_file(options, &places);
    let mut tables = Vec::with_capacity(files.len());
    for file in files {
        let path = file.path.clone();
        let shown = path.to_string_lossy().into_owned();
        let table = one_table(vec![file], &options, shown)?;
        tables.push((path, table.map_err(|_| Error::internal("a file unlike itself"))?));
    }
    if as_first {
        check_as_first(&tables)?;
    }
    let mut columns: Vec<Field> = Vec::new();
    for (path, table) in &tables {
        for field in table.schema().fields() {
            let name = field.name();
            let known = columns.iter_mut().find(|c| c.name().eq_ignore_ascii_case(name));
            let Some(known) = known else {
                columns.push(Field::new(name, field.data_type().clone(), true));
                continue;
            };
            let (old, new) = (known.data_type(), field.data_type());
            let Some(both) = common_type(old, new) else {
                let message = format!(
                    "column {name:?} is {}, and {} in a file before it; give it one type in a \
                     SELECT for each, and write UNION ALL BY NAME between these",
                    sql_name(new),
                    sql_name(old)
                );
                return Err(Error::Import { path: path.clone(), line: None, message });
            };
            *known = Field::new(known.name(), both, true);
        }
    }
    // What comes from where the files lie stands behind what comes from the files.
    let of_places = |column: &Field| {
        places.fields().iter().position(|field| field.name().eq_ignore_ascii_case(column.name()))
    };
    columns.sort_by_key(|column| of_places(column).map_or(0, |place| place + 1));
    let tables = tables.into_iter().enumerate();
    let inputs = tables.map(|(at, (_, table))| projected(at, table, &columns).map(Arc::new));
    let union = Union::try_new(inputs.collect::<Result<Vec<_>>>()?)?;
    Ok(Arc::new(ViewTable::new(LogicalPlan::Union(union), None)))
}

/// Refuses files that do not fit into the columns of the first.
fn check_as_first(tables: &[(PathBuf, Arc<dyn TableProvider>)]) -> Result<()> {
    let Some(((_, first), others)) = tables.split_first() else { return Ok(()) };
    let first = first.schema();
    for (path, table) in others {
        let found = table.schema();
        let fits = |wanted: &Arc<Field>| {
            let own = found.fields().iter().find(|own| own.name() == wanted.name());
            let wanted = wanted.data_type();
            let both = own.and_then(|own| common_type(wanted, own.data_type()));
            // Elements of lists have several names.
            both.is_some_and(|both| both.equals_datatype(wanted))
        };
        if found.fields().len() != first.fields().len() || !first.fields().iter().all(fits) {
            let message = "has other columns than the first file; with union_by_name = true files \
                           with other columns are read"
                .to_string();
            return Err(Error::Import { path: path.clone(), line: None, message });
        }
    }
    Ok(())
}

/// The options for each file by itself: its folders make the same columns as those of all.
fn of_one_file(options: &ImportOptions, places: &FileColumns) -> ImportOptions {
    let mut options = ImportOptions { union_by_name: false, ..options.clone() };
    let keys = places.fields().iter().skip(usize::from(options.filename.is_some()));
    options.hive_types =
        keys.map(|field| (field.name().clone(), field.data_type().clone())).collect();
    options.hive_partitioning = Some(!options.hive_types.is_empty());
    options
}

/// The rows of a file with the columns of all.
fn projected(at: usize, table: Arc<dyn TableProvider>, columns: &[Field]) -> Result<LogicalPlan> {
    let name = TableReference::bare(format!("file {at}"));
    let schema: SchemaRef = table.schema();
    let scan = LogicalPlanBuilder::scan(name.clone(), provider_as_source(table), None)?;
    let exprs = columns.iter().map(|column| {
        let fields = schema.fields();
        let own = fields.iter().find(|field| field.name().eq_ignore_ascii_case(column.name()));
        let value = match own {
            None => lit(ScalarValue::try_from(column.data_type())?),
            Some(own) => {
                let value = Expr::Column(Column::new(Some(name.clone()), own.name()));
                match own.data_type() == column.data_type() {
                    true => value,
                    false => cast(value, column.data_type().clone()),
                }
            }
        };
        Ok::<Expr, Error>(value.alias(column.name()))
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    Ok(scan.project(exprs)?.build()?)
}

/// A type that holds what both have; `None` where there is none.
fn common_type(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType as T;
    let is_text = |t: &DataType| matches!(t, T::Utf8 | T::LargeUtf8 | T::Utf8View);
    let is_plain = |t: &DataType| !t.is_nested() && !t.is_binary();
    let is_day = |t: &DataType| matches!(t, T::Date32 | T::Timestamp(_, None));
    match (a, b) {
        _ if a == b => Some(a.clone()),
        (T::Null, other) | (other, T::Null) => Some(other.clone()),
        _ if (is_text(a) && is_plain(b)) || (is_text(b) && is_plain(a)) => Some(T::Utf8View),
        (T::Boolean, number) | (number, T::Boolean) if number.is_integer() => Some(number.clone()),
        // Of the timestamp's unit: the engine's nanoseconds end in the year 2262.
        (T::Date32, at @ T::Timestamp(_, None)) | (at @ T::Timestamp(_, None), T::Date32) => {
            Some(at.clone())
        }
        _ if a.is_numeric() && b.is_numeric() || is_day(a) && is_day(b) => {
            common_floating(a, b).or_else(|| type_union_coercion(a, b))
        }
        (T::List(a), T::List(b)) => {
            let item = common_type(a.data_type(), b.data_type())?;
            Some(DataType::new_list(item, true))
        }
        (T::Struct(a), T::Struct(b)) => common_fields(a, b).map(T::Struct),
        _ => None,
    }
}

/// The fields of both structs, by their names.
fn common_fields(a: &Fields, b: &Fields) -> Option<Fields> {
    let of_name = |fields: &Fields, name: &str| {
        fields.iter().find(|field| field.name().eq_ignore_ascii_case(name)).cloned()
    };
    let mut fields = Vec::with_capacity(a.len());
    for field in a {
        let (both, nullable) = match of_name(b, field.name()) {
            Some(other) => (
                common_type(field.data_type(), other.data_type())?,
                field.is_nullable() || other.is_nullable(),
            ),
            None => (field.data_type().clone(), true),
        };
        fields.push(Field::new(field.name(), both, nullable));
    }
    let new = b.iter().filter(|field| of_name(a, field.name()).is_none());
    fields.extend(new.map(|field| field.as_ref().clone().with_nullable(true)));
    Some(fields.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::TimeUnit;

    #[test]
    fn types_that_hold_both() {
        use DataType as T;
        let list = |item: DataType| DataType::new_list(item, true);
        let micros = T::Timestamp(TimeUnit::Microsecond, None);
        let fields = |names: &[&str]| {
            T::Struct(names.iter().map(|name| Field::new(*name, T::Int32, true)).collect())
        };
        let both = common_type(&fields(&["a", "b"]), &fields(&["B", "c", "a"]));
        assert_eq!(both, Some(fields(&["a", "b", "c"])));
        for (a, b, both) in [
            (T::Int8, T::Int64, Some(T::Int64)),
            (T::Int32, T::Float64, Some(T::Float64)),
            (T::Decimal128(5, 2), T::Decimal128(9, 1), Some(T::Decimal128(10, 2))),
            (T::Decimal128(5, 2), T::Float64, Some(T::Float64)),
            (T::Decimal128(5, 2), T::Float32, Some(T::Float32)),
            (list(T::Decimal128(5, 2)), list(T::Float64), Some(list(T::Float64))),
            (T::Boolean, T::Int32, Some(T::Int32)),
            (T::Boolean, T::Float64, None),
            (T::Date32, micros.clone(), Some(micros)),
            (T::Date32, T::Int64, None),
            (T::Date32, T::Utf8View, Some(T::Utf8View)),
            (T::Binary, T::Utf8View, None),
            (T::Null, T::Binary, Some(T::Binary)),
            (list(T::Int32), list(T::Float64), Some(list(T::Float64))),
            (list(T::Int32), T::Int32, None),
            (fields(&["a"]), T::Int32, None),
        ] {
            assert_eq!(common_type(&a, &b), both, "{a} {b}");
            assert_eq!(common_type(&b, &a), both, "{b} {a}");
        }
    }
}
