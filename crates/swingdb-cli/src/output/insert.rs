//! INSERT statements, which put the rows into a table again.
//!
//! Numbers and booleans stand as they are; lists, structs, maps and BLOBs as SQL writes them; every
//! other value as text in quotes, which becomes a value of the column's type when it is inserted.

use super::cells::Texts;
use crate::failure::{Failure, Outcome};
use arrow::array::{Array, ArrayRef, AsArray, MapArray};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;
use swingdb::QueryResult;

/// Rows of one statement.
const ROWS: usize = 100;

/// Prints a result as INSERT statements into `table`, a name as SQL has it.
pub fn print(sink: &mut impl Write, result: QueryResult, table: &str) -> Outcome {
    let schema = result.schema();
    let mut statement = String::new();
    for batch in result {
        let batch = batch?;
        // What the engine may choose to keep its values in is no matter of the statement.
        let arrays: Vec<_> = batch.columns().iter().map(plain).collect::<Outcome<_>>()?;
        let columns = arrays.iter().zip(schema.fields());
        let columns = columns.map(|(array, field)| Literals::of(array, field));
        let columns: Vec<_> = columns.collect::<Outcome<_>>()?;
        for row in 0..batch.num_rows() {
            if row % ROWS == 0 {
                statement.push_str(&format!("INSERT INTO {table} VALUES"));
            }
            statement.push_str(" (");
            for (i, column) in columns.iter().enumerate() {
                if i > 0 {
                    statement.push_str(", ");
                }
                column.write(row, &mut statement);
            }
            let ends = row % ROWS == ROWS - 1 || row + 1 == batch.num_rows();
            statement.push_str(if ends { ");\n" } else { "),\n" });
            if ends {
                sink.write_all(statement.as_bytes())?;
                statement.clear();
            }
        }
    }
    Ok(())
}

/// An array without dictionaries, runs and views, also within.
fn plain(array: &ArrayRef) -> Outcome<ArrayRef> {
    let target = plain_type(array.data_type());
    if &target == array.data_type() {
        return Ok(Arc::clone(array));
    }
    cast(array, &target).map_err(Failure::message)
}

fn plain_type(data_type: &DataType) -> DataType {
    let within =
        |field: &Field| Arc::new(field.clone().with_data_type(plain_type(field.data_type())));
    match data_type {
        DataType::Dictionary(_, value) => plain_type(value),
        DataType::RunEndEncoded(_, values) => plain_type(values.data_type()),
        DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        DataType::BinaryView | DataType::LargeBinary => DataType::Binary,
        DataType::ListView(item) | DataType::LargeListView(item) | DataType::LargeList(item) => {
            DataType::List(within(item))
        }
        DataType::List(item) => DataType::List(within(item)),
        DataType::FixedSizeList(item, len) => DataType::FixedSizeList(within(item), *len),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|f| within(f)).collect()),
        DataType::Map(entries, sorted) => DataType::Map(within(entries), *sorted),
        other => other.clone(),
    }
}

/// The values of an array as SQL writes them.
struct Literals<'a> {
    nulls: Option<NullBuffer>,
    form: Form<'a>,
}

enum Form<'a> {
    /// Numbers and booleans.
    Word(Texts<'a>),
    Quoted(Texts<'a>),
    Blob(&'a dyn Array),
    List(Vec<Range<usize>>, Box<Literals<'a>>),
    Struct(Vec<(&'a str, Literals<'a>)>),
    Map(&'a MapArray, Box<(Literals<'a>, Literals<'a>)>),
}

impl<'a> Literals<'a> {
    fn of(array: &'a ArrayRef, field: &'a Field) -> Outcome<Self> {
        let is_uuid = field.extension_type_name() == Some("arrow.uuid");
        let form = match array.data_type() {
            DataType::Binary => Form::Blob(array.as_ref()),
            DataType::FixedSizeBinary(_) if !is_uuid => Form::Blob(array.as_ref()),
            DataType::List(item) => {
                let list = array.as_list::<i32>();
                let ends = list.value_offsets().windows(2);
                let ranges = ends.map(|ends| ends[0] as usize..ends[1] as usize).collect();
                Form::List(ranges, Box::new(Literals::of(list.values(), item)?))
            }
            DataType::FixedSizeList(item, len) => {
                let (list, len) = (array.as_fixed_size_list(), *len as usize);
                let ranges = (0..list.len()).map(|i| i * len..(i + 1) * len).collect();
                Form::List(ranges, Box::new(Literals::of(list.values(), item)?))
            }
            DataType::Struct(fields) => {
                let columns = array.as_struct().columns().iter().zip(fields.iter());
                let of = |(array, field): (&'a ArrayRef, &'a Arc<Field>)| {
                    Ok((field.name().as_str(), Literals::of(array, field)?))
                };
                Form::Struct(columns.map(of).collect::<Outcome<_>>()?)
            }
            DataType::Map(entries, _) => {
                let map = array.as_map();
                let DataType::Struct(fields) = entries.data_type() else {
                    return Err(Failure::message("a map without keys and values"));
                };
                let keys = Literals::of(map.keys(), &fields[0])?;
                let values = Literals::of(map.values(), &fields[1])?;
                Form::Map(map, Box::new((keys, values)))
            }
            DataType::Union(..) => {
                let text = format!("column {:?} has a type that INSERT cannot write", field.name());
                return Err(Failure::message(text));
            }
            kind if kind.is_numeric() || kind == &DataType::Boolean => {
                Form::Word(Texts::of(array.as_ref())?)
            }
            _ => Form::Quoted(Texts::of(array.as_ref())?),
        };
        Ok(Literals { nulls: array.logical_nulls(), form })
    }

    fn write(&self, row: usize, statement: &mut String) {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            statement.push_str("NULL");
            return;
        }
        match &self.form {
            Form::Word(texts) => {
                let mut text = String::new();
                texts.write(row, &mut text);
                // Not a number, and infinity.
                let is_word = !text.contains(['n', 'N']) || text == "true" || text == "false";
                if is_word { statement.push_str(&text) } else { quote(&text, statement) }
            }
            Form::Quoted(texts) => {
                let mut text = String::new();
                texts.write(row, &mut text);
                quote(&text, statement);
            }
            Form::Blob(array) => blob(*array, row, statement),
            Form::List(ranges, values) => {
                let value = |i, statement: &mut String| values.write(i, statement);
                several("[", ranges[row].clone(), value, "]", statement);
            }
            Form::Struct(fields) => {
                let field = |i: usize, statement: &mut String| {
                    quote(fields[i].0, statement);
                    statement.push_str(": ");
                    fields[i].1.write(row, statement);
                };
                several("{", 0..fields.len(), field, "}", statement);
            }
            Form::Map(map, both) => {
                let ends = map.value_offsets();
                let entry = |i: usize, statement: &mut String| {
                    both.0.write(i, statement);
                    statement.push_str(": ");
                    both.1.write(i, statement);
                };
                let range = ends[row] as usize..ends[row + 1] as usize;
                if range.is_empty() {
                    // MAP {} would be one of integers.
                    return quote("{}", statement);
                }
                several("MAP {", range, entry, "}", statement);
            }
        }
    }
}

fn several(
    open: &str,
    range: Range<usize>,
    mut each: impl FnMut(usize, &mut String),
    close: &str,
    statement: &mut String,
) {
    statement.push_str(open);
    for (nth, i) in range.enumerate() {
        if nth > 0 {
            statement.push_str(", ");
        }
        each(i, statement);
    }
    statement.push_str(close);
}

fn blob(array: &dyn Array, row: usize, statement: &mut String) {
    let bytes = match array.data_type() {
        DataType::Binary => array.as_binary::<i32>().value(row),
        _ => array.as_fixed_size_binary().value(row),
    };
    statement.push('\'');
    bytes.iter().for_each(|byte| statement.push_str(&format!("\\x{byte:02X}")));
    statement.push_str("'::BLOB");
}

fn quote(text: &str, statement: &mut String) {
    statement.push('\'');
    statement.push_str(&text.replace('\'', "''"));
    statement.push('\'');
}
