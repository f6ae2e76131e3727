//! The parts of a JSON value as rows: what `FROM json_each(j)` and `json_tree(j)` read.
//!
//! Each row has the columns that SQLite gives it: `id` counts values and the names of members from
//! the start of the whole text, `parent` is the `id` of the value around. The functions give the
//! rows of a value as a list of structs, which a FROM clause takes apart.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, ListArray, StringViewBuilder, StructArray, UInt64Builder,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{cast, is_null, nullif};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::{Result, exec_datafusion_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use swingdb_common::error::Error;
use swingdb_common::json::{as_text, check, compact, elements, is_deep, members, type_name};
use swingdb_common::runtime::cancel;

use crate::json::marks::mark;
use crate::json::paths::{parse, part, too_deep};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// What is directly inside of a value, or a value without parts.
    Each,
    /// A value and all that is inside of it.
    Tree,
}

/// The functions, by the names that stand in a FROM clause.
const FUNCTIONS: &[(&str, &str, Kind)] =
    &[("json_each", "json_each_rows", Kind::Each), ("json_tree", "json_tree_rows", Kind::Tree)];

/// The columns, in their order.
pub const COLUMNS: [&str; 8] = ["key", "value", "type", "atom", "id", "parent", "fullkey", "path"];

/// The names that stand in a FROM clause.
pub fn names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|(name, _, _)| *name)
}

/// The function that gives the rows of a relation that is called so.
pub fn rows_of(relation: &str) -> Option<&'static str> {
    let found = FUNCTIONS.iter().find(|(name, _, _)| name.eq_ignore_ascii_case(relation));
    found.map(|(_, function, _)| *function)
}

/// A column of a row. The engine's own function for fields of structs is moved towards the relation
/// that has the struct, and loses its way where that is a subquery that refers to the rows outside.
pub const COLUMN_OF_ROW: &str = "json_column_of_row";

/// All functions of this module.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    let rows = FUNCTIONS.iter().map(|(shown, name, kind)| {
        let signature = Signature::variadic_any(Volatility::Immutable);
        ScalarUDF::new_from_impl(Rows { name, shown, kind: *kind, signature })
    });
    let signature = Signature::any(2, Volatility::Immutable);
    rows.chain([ScalarUDF::new_from_impl(ColumnOfRow { signature })])
}

/// See [`COLUMN_OF_ROW`].
#[derive(Debug, PartialEq, Eq, Hash)]
struct ColumnOfRow {
    signature: Signature,
}

impl ScalarUDFImpl for ColumnOfRow {
    fn name(&self) -> &str {
        COLUMN_OF_ROW
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        plan_err!("{COLUMN_OF_ROW} depends on a name")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let name = args.scalar_arguments.get(1).copied().flatten();
        let name = name.and_then(|name| name.try_as_str().flatten()).unwrap_or_default();
        match args.arg_fields.first().map(|field| field.data_type()) {
            Some(DataType::Struct(fields)) => match fields.find(name) {
                Some((_, field)) => Ok(Arc::clone(field)),
                None => plan_err!("a row of JSON has no column {name:?}"),
            },
            _ => plan_err!("{COLUMN_OF_ROW} takes a row of JSON"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let [row, ColumnarValue::Scalar(name)] = args.args.as_slice() else {
            return plan_err!("{COLUMN_OF_ROW} takes a row of JSON and a name");
        };
        let row = row.to_array(rows)?;
        let name = name.try_as_str().flatten().unwrap_or_default();
        let Some(column) = row.as_struct_opt().and_then(|row| row.column_by_name(name)) else {
            return plan_err!("{COLUMN_OF_ROW} takes a row of JSON and a name");
        };
        let column = match row.nulls() {
            None => Arc::clone(column),
            // Parts of a row that is none are none.
            Some(_) => nullif(column, &is_null(&row)?)?,
        };
        crate::args::as_given(&args, column)
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Rows {
    name: &'static str,
    shown: &'static str,
    kind: Kind,
    signature: Signature,
}

fn fields() -> Fields {
    let field = |name: &str| -> FieldRef {
        match name {
            "value" | "atom" => mark(Field::new(name, DataType::Utf8View, true)),
            "id" | "parent" => Arc::new(Field::new(name, DataType::UInt64, true)),
            _ => Arc::new(Field::new(name, DataType::Utf8View, true)),
        }
    };
    COLUMNS.iter().map(|name| field(name)).collect()
}

fn element() -> FieldRef {
    Arc::new(Field::new_list_field(DataType::Struct(fields()), true))
}

impl ScalarUDFImpl for Rows {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let texts = types.iter().all(|given| given.is_string() || given.is_null());
        match types {
            [_] | [_, _] if texts => Ok(DataType::List(element())),
            _ => plan_err!("{} takes JSON as text, and perhaps a path", self.shown),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let text = |at: usize| -> Result<Option<ArrayRef>> {
            let Some(arg) = args.args.get(at) else { return Ok(None) };
            Ok(Some(cast(&arg.to_array(rows)?, &DataType::Utf8View)?))
        };
        let Some(given) = text(0)? else { return plan_err!("{} takes JSON", self.shown) };
        let paths = text(1)?;
        let paths = paths.as_ref().map(|paths| paths.as_string_view());
        let mut made = Made::default();
        let mut lengths = Vec::with_capacity(rows);
        let mut valid = Vec::with_capacity(rows);
        for (row, json) in given.as_string_view().iter().enumerate() {
            let path = match paths {
                None => Some("$"),
                Some(paths) => paths.is_valid(row).then(|| paths.value(row)),
            };
            let before = made.count;
            if let (Some(json), Some(path)) = (json, path) {
                self.add(&mut made, json, path)?;
            }
            lengths.push(made.count - before);
            valid.push(json.is_some() && path.is_some());
        }
        let offsets = OffsetBuffer::from_lengths(lengths);
        let values = Arc::new(made.finish()?);
        let list = ListArray::try_new(element(), offsets, values, Some(NullBuffer::from(valid)))?;
        crate::args::as_given(&args, Arc::new(list))
    }
}

impl Rows {
    /// Adds the rows of one text.
    fn add(&self, made: &mut Made, json: &str, path: &str) -> Result<()> {
        if let Err(error) = check(json) {
            let message = format!("{} of {json:?}, which is no JSON: {error}", self.shown);
            return Err(Error::Conversion { message, column: None }.into());
        }
        if is_deep(json) {
            return Err(too_deep(self.shown));
        }
        let json = json.trim_ascii();
        let steps = parse(path)?;
        let Some(start) = part(json, &steps) else { return Ok(()) };
        let root = match path {
            path if path.starts_with('$') => path.to_string(),
            "" => "$".to_string(),
            path if path.starts_with('/') => {
                return plan_err!("{} takes a path that starts with $", self.shown);
            }
            path => format!("$.{path:?}"),
        };
        let mut id = id_of(json, offset(json, start)).unwrap_or_default();
        match (self.kind, is_container(start)) {
            (Kind::Each, true) => made.inside(start, &mut id, None, &root, false),
            _ => made.whole(None, start, &mut id, None, &root, &root, true),
        }
    }
}

fn is_container(json: &str) -> bool {
    json.starts_with(['{', '['])
}

/// Where a piece of a text begins.
fn offset(whole: &str, piece: &str) -> usize {
    piece.as_ptr().addr() - whole.as_ptr().addr()
}

/// The number of the value that begins at a place of a text.
fn id_of(json: &str, place: usize) -> Option<u64> {
    fn find(whole: &str, json: &str, place: usize, id: &mut u64) -> bool {
        if offset(whole, json) == place {
            return true;
        }
        for (_, value) in members(json) {
            *id += 2;
            if find(whole, value, place, id) {
                return true;
            }
        }
        elements(json).any(|value| {
            *id += 1;
            find(whole, value, place, id)
        })
    }
    let mut id = 0;
    find(json, json, place, &mut id).then_some(id)
}

/// Rows that are being made.
#[derive(Default)]
struct Made {
    count: usize,
    keys: StringViewBuilder,
    values: StringViewBuilder,
    types: StringViewBuilder,
    atoms: StringViewBuilder,
    ids: UInt64Builder,
    parents: UInt64Builder,
    full_keys: StringViewBuilder,
    paths: StringViewBuilder,
}

impl Made {
    /// A value, and if `deep` all that is inside of it; `id` is its number, and then the last one
    /// inside of it.
    #[allow(clippy::too_many_arguments)]
    fn whole(
        &mut self,
        key: Option<&str>,
        json: &str,
        id: &mut u64,
        parent: Option<u64>,
        full_key: &str,
        path: &str,
        deep: bool,
    ) -> Result<()> {
        cancel::check()?;
        self.count += 1;
        self.keys.append_option(key);
        self.values.append_value(compact(json));
        self.types.append_value(type_name(json));
        let is_atom = !is_container(json) && json != "null";
        self.atoms.append_option(is_atom.then_some(json));
        self.ids.append_value(*id);
        self.parents.append_option(parent);
        self.full_keys.append_value(full_key);
        self.paths.append_value(path);
        let own = *id;
        match deep {
            true => self.inside(json, id, Some(own), full_key, true),
            false => {
                *id += count(json);
                Ok(())
            }
        }
    }

    /// What is inside of an object or array whose number is `id`.
    fn inside(
        &mut self,
        json: &str,
        id: &mut u64,
        parent: Option<u64>,
        full_key: &str,
        deep: bool,
    ) -> Result<()> {
        for (key, value) in members(json) {
            *id += 2;
            let name = as_text(key).unwrap_or_default();
            let below = format!("{full_key}.{}", step(&name, key));
            self.whole(Some(&name), value, id, parent, &below, full_key, deep)?;
        }
        for (place, value) in elements(json).enumerate() {
            *id += 1;
            let below = format!("{full_key}[{place}]");
            self.whole(Some(&place.to_string()), value, id, parent, &below, full_key, deep)?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<StructArray> {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.keys.finish()),
            Arc::new(self.values.finish()),
            Arc::new(self.types.finish()),
            Arc::new(self.atoms.finish()),
            Arc::new(self.ids.finish()),
            Arc::new(self.parents.finish()),
            Arc::new(self.full_keys.finish()),
            Arc::new(self.paths.finish()),
        ];
        StructArray::try_new(fields(), columns, None)
            .map_err(|error| exec_datafusion_err!("rows of JSON: {error}"))
    }
}

/// How many numbers what is inside of a value takes.
fn count(json: &str) -> u64 {
    let inside = members(json).map(|(_, value)| 2 + count(value)).sum::<u64>();
    inside + elements(json).map(|value| 1 + count(value)).sum::<u64>()
}

/// The name of a member in a path; `quoted` is the same as JSON.
fn step<'a>(name: &'a str, quoted: &'a str) -> &'a str {
    let mut chars = name.chars();
    let is_plain = chars.next().is_some_and(|first| first.is_ascii_alphabetic())
        && chars.all(|char| char.is_ascii_alphanumeric());
    if is_plain { name } else { quoted }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(kind: Kind, json: &str, path: &str) -> Vec<(String, u64, Option<u64>)> {
        let signature = Signature::variadic_any(Volatility::Immutable);
        let function = Rows { name: "rows", shown: "rows", kind, signature };
        let mut made = Made::default();
        function.add(&mut made, json, path).unwrap();
        let made = made.finish().unwrap();
        let text = |column: usize, row: usize| {
            let texts: &arrow::array::StringViewArray = made.column(column).as_string_view();
            texts.value(row).to_string()
        };
        let number = |column: usize, row: usize| {
            let numbers = made.column(column).as_primitive::<arrow::datatypes::UInt64Type>();
            numbers.is_valid(row).then(|| numbers.value(row))
        };
        let row = |row| (text(6, row), number(4, row).unwrap_or_default(), number(5, row));
        (0..made.len()).map(row).collect()
    }

    #[test]
    fn rows_have_the_numbers_of_sqlite() {
        let json = r#"{"a": {"b": [1]}, "c d": 2}"#;
        let given = |all: &[(&str, u64, Option<u64>)]| {
            all.iter().map(|(key, id, up)| (key.to_string(), *id, *up)).collect::<Vec<_>>()
        };
        assert_eq!(
            rows(Kind::Tree, json, "$"),
            given(&[
                ("$", 0, None),
                ("$.a", 2, Some(0)),
                ("$.a.b", 4, Some(2)),
                ("$.a.b[0]", 5, Some(4)),
                ("$.\"c d\"", 7, Some(0)),
            ])
        );
        let of_part = given(&[("$.a.b", 4, None)]);
        assert_eq!(rows(Kind::Each, json, "$.a"), of_part);
        assert_eq!(rows(Kind::Each, json, "$.z"), given(&[]));
        assert_eq!(rows(Kind::Each, "5", "$"), given(&[("$", 0, None)]));
    }
}
