//! JSON: one object a line, or one array of objects.
//!
//! Lines are cut and decoded in parallel like CSV records. The schema is that of a sample: the
//! union of the objects' members; strings that are all dates or timestamps become such columns. A
//! member that only rows behind the sample have is an error: it must not silently go astray.

use std::io::Read;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use arrow::json::ReaderBuilder;
use arrow::json::reader::infer_json_schema_from_iterator;
use parking_lot::Mutex;

use super::csv::dialect::Dialect;
use super::csv::shown;
use super::csv::values::{self, DateStyle};
use super::options::ImportOptions;
use super::parquet::with_views;
use super::scan::{Run, Sink, Target, in_parallel};
use super::source::InputFile;
use super::{csv, matching};
use crate::error::{Error, Result};
use crate::zone::{rezoned, schema_in_zone};

const SAMPLE_ROWS: u64 = 20_480;
const SAMPLE_BYTES: u64 = 8 << 20;
const MIN_BLOCK_BYTES: usize = 256 << 10;
const MAX_BLOCK_BYTES: usize = 16 << 20;
/// How deep a line may be nested: what the parser of the sample takes.
const MAX_LEVELS: usize = 127;
const TOO_DEEP: &str = "is nested more than 127 levels deep";

/// How a set of JSON files is read.
pub(crate) struct JsonScan {
    schema: SchemaRef,
    target_columns: Option<Vec<usize>>,
    block_bytes: Option<usize>,
    line_bytes: usize,
}

impl JsonScan {
    /// Finds the columns in a sample of the first file.
    pub(crate) fn open(
        files: &[InputFile],
        options: &ImportOptions,
        target: Option<&Target<'_>>,
    ) -> Result<Self> {
        let Some(first) = files.first() else { return Err(Error::internal("no JSON file")) };
        let mut sample = Sample::take(first, options)?;
        let line_bytes = sample.line_bytes();
        let inferred = sample.schema(first)?;
        let is_empty = sample.values.is_empty();
        if is_empty && let Some(bad) = sample.bad {
            return Err(bad);
        }
        if is_empty && target.is_none() {
            return Err(first.broken("is empty: nothing to find columns in"));
        }
        let schema = with_times(&with_views(&inferred), &sample.values);
        let (schema, target_columns) = match target {
            None => (given_types(first, schema, options)?, None),
            // No rows, whatever their columns would be.
            Some(_) if is_empty => (Arc::new(Schema::empty()), Some(Vec::new())),
            Some(target) => {
                let names: Vec<String> =
                    schema.fields().iter().map(|field| field.name().clone()).collect();
                // Members without a column of their own are an error, absent ones are NULL.
                let matched =
                    matching::match_columns(&first.path, Some(&names), names.len(), target)?;
                let fields = matched.target_columns.iter().zip(&names).map(|(column, name)| {
                    Field::new(name, target.fields[*column].data_type().clone(), true)
                });
                (Arc::new(Schema::new(fields.collect::<Vec<_>>())), Some(matched.target_columns))
            }
        };
        sample.check(first, &schema)?;
        Ok(Self { schema, target_columns, block_bytes: options.block_bytes, line_bytes })
    }

    /// The columns.
    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// See [`super::scan::FileScan::target_columns`].
    pub(crate) fn target_columns(&self) -> Option<&[usize]> {
        self.target_columns.as_deref()
    }

    /// Reads all files; see [`super::scan::FileScan::run`].
    pub(crate) fn run(&self, files: &[InputFile], run: &Run<'_>, sink: &Sink<'_>) -> Result<()> {
        let schema = match run.projection {
            Some(projection) => Arc::new(self.schema.project(projection)?),
            None => Arc::clone(&self.schema),
        };
        // Members of columns that nobody asked for are left out.
        let strict = schema.fields().len() == self.schema.fields().len();
        let full = self.line_bytes.saturating_mul(run.batch_rows) / 100 * 97;
        let block_bytes =
            self.block_bytes.unwrap_or_else(|| full.clamp(MIN_BLOCK_BYTES, MAX_BLOCK_BYTES));
        let mut order = 0;
        for file in files {
            let reader = open_lines(file, Some(run))?;
            let mut splitter = csv::splitter(reader, line_dialect(), block_bytes, order);
            let last = Mutex::new(order);
            let next = || {
                run.check()?;
                let block = csv::next_block(file, &mut splitter)?;
                Ok(block.map(|block| {
                    *last.lock() = block.index + 1;
                    (block.index, block)
                }))
            };
            let work = |order: u64, block: csv::Block| {
                let batch = run.made(order, || {
                    let read = Arc::new(schema_in_zone(&schema, run.zone));
                    decode(&read, &block.text, strict)
                        .and_then(|batch| batch.map(|rows| rezoned(&rows, &schema)).transpose())
                        .map_err(|_| first_bad_line(file, &schema, &block, strict))
                })?;
                match batch {
                    Some(batch) => sink(order, batch),
                    None => sink(order, RecordBatch::new_empty(Arc::clone(&schema))),
                }
            };
            in_parallel(run.threads, next, work)?;
            order = last.into_inner();
        }
        Ok(())
    }
}

/// Lines, and nothing else is special.
fn line_dialect() -> Dialect {
    Dialect { quote: None, escape: None, header: false, ..Dialect::default() }
}

fn open_lines(file: &InputFile, run: Option<&Run<'_>>) -> Result<Box<dyn Read + Send>> {
    let mut reader = file.open(run.map(|run| Arc::clone(&run.meter)))?;
    let mut head = Vec::new();
    let read = (&mut reader).take(4_096).read_to_end(&mut head);
    read.map_err(|error| file.read_error(error))?;
    let is_array = head.trim_ascii_start().first() == Some(&b'[');
    let whole = std::io::Cursor::new(head).chain(reader);
    Ok(match is_array {
        true => Box::new(ArrayLines::new(whole)),
        false => Box::new(whole),
    })
}

/// All rows of some lines; `None` when they are blank. What is on a line is one object: a value
/// that goes on in the next one would be understood or not as blocks happen to be cut.
fn decode(schema: &SchemaRef, text: &[u8], strict: bool) -> Result<Option<RecordBatch>> {
    let lines = memchr::memchr_iter(b'\n', text).count() + 1;
    let builder =
        ReaderBuilder::new(Arc::clone(schema)).with_batch_size(lines + 1).with_strict_mode(strict);
    let mut decoder = builder.build_decoder()?;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        if is_too_deep(line) {
            return Err(Error::plan(TOO_DEEP));
        }
        let before = decoder.len();
        let taken = decoder.decode(line)?;
        if taken < line.len() || decoder.has_partial_record() || decoder.len() > before + 1 {
            return Err(Error::plan("a line is not one JSON object"));
        }
    }
    Ok(decoder.flush()?)
}

/// Whether a line is nested deeper than [`MAX_LEVELS`]: the decoder does not mind, but calls itself
/// for each level where it has something to say of such a value.
fn is_too_deep(line: &[u8]) -> bool {
    let opening = || memchr::memchr2_iter(b'[', b'{', line);
    if opening().take(MAX_LEVELS + 1).count() <= MAX_LEVELS {
        return false;
    }
    let (mut depth, mut in_string, mut bytes) = (0_usize, false, line.iter());
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' if in_string => drop(bytes.next()),
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => depth += 1,
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_LEVELS {
            return true;
        }
    }
    false
}

/// The error for the first line of a block that cannot be decoded alone.
fn first_bad_line(file: &InputFile, schema: &SchemaRef, block: &csv::Block, strict: bool) -> Error {
    for (number, line) in block.text.split(|byte| *byte == b'\n').enumerate() {
        let found = match std::str::from_utf8(line) {
            Err(_) => Some("is not valid UTF-8".to_string()),
            Ok(_) => {
                let value = serde_json::from_slice::<serde_json::Value>(line);
                match (value, decode(schema, line, strict)) {
                    _ if line.trim_ascii().is_empty() => None,
                    _ if is_too_deep(line) => Some(TOO_DEEP.to_string()),
                    (Err(error), _) => Some(no_json(&error)),
                    (Ok(value), _) if !value.is_object() => Some("is no JSON object".to_string()),
                    (Ok(_), Err(error)) if decode(schema, line, false).is_ok() => Some(format!(
                        "has a member that no row of the sample has ({error}); look at all rows \
                         with sample_size -1"
                    )),
                    (Ok(_), Err(error)) => Some(format!("does not fit the columns: {error}")),
                    (Ok(_), Ok(_)) => None,
                }
            }
        };
        if let Some(what) = found {
            let line_number = Some(block.first_line + number as u64);
            let message = format!("{} {what}", shown(line));
            return Error::Import { path: file.path.clone(), line: line_number, message };
        }
    }
    let message = "has lines that are not one object each".to_string();
    Error::Import { path: file.path.clone(), line: Some(block.first_line), message }
}

fn no_json(error: &serde_json::Error) -> String {
    let whole = if error.is_eof() { "; write each object on one line" } else { "" };
    format!("is no JSON: {error}{whole}")
}

/// The first lines of a file.
struct Sample {
    text: Vec<u8>,
    /// The objects, with the number of the line of each.
    values: Vec<serde_json::Value>,
    numbers: Vec<u64>,
    /// The error of the line that ended the sample.
    bad: Option<Error>,
}

impl Sample {
    fn take(file: &InputFile, options: &ImportOptions) -> Result<Self> {
        let rows = options.sample_rows.unwrap_or(SAMPLE_ROWS);
        let limit = if rows == u64::MAX { u64::MAX } else { SAMPLE_BYTES };
        let mut text = Vec::new();
        let read = open_lines(file, None)?.take(limit).read_to_end(&mut text);
        let whole = (read.map_err(|error| file.read_error(error))? as u64) < limit;
        if !whole {
            let end = memchr::memrchr(b'\n', &text).map_or(text.len(), |end| end + 1);
            text.truncate(end);
        }
        let (mut values, mut numbers, mut bad, mut end) = (Vec::new(), Vec::new(), None, 0);
        for (number, line) in (1..).zip(text.split_inclusive(|byte| *byte == b'\n')) {
            if values.len() as u64 >= rows {
                break;
            }
            let wrong = match serde_json::from_slice::<serde_json::Value>(line) {
                _ if line.trim_ascii().is_empty() => None,
                Ok(value) if value.is_object() => {
                    values.push(value);
                    numbers.push(number);
                    None
                }
                _ if is_too_deep(line) => Some(TOO_DEEP.to_string()),
                Ok(_) => Some("is no JSON object".to_string()),
                Err(error) => Some(no_json(&error)),
            };
            if let Some(wrong) = wrong {
                let message = format!("{} {wrong}", shown(line.trim_ascii_end()));
                bad = Some(Error::Import { path: file.path.clone(), line: Some(number), message });
                break;
            }
            end += line.len();
        }
        text.truncate(end);
        Ok(Self { text, values, numbers, bad })
    }

    /// Bytes of a line, on average.
    fn line_bytes(&self) -> usize {
        self.text.len() / self.values.len().max(1) + 1
    }

    /// The columns. The sample ends before a row that does not go together with those before it.
    fn schema(&mut self, file: &InputFile) -> Result<SchemaRef> {
        let error = match infer(&self.values) {
            Ok(schema) => return Ok(schema),
            Err(error) => error,
        };
        // More rows never make the columns of fewer ones consistent.
        let (mut good, mut broken) = (0, self.values.len());
        while good + 1 < broken {
            let middle = (good + broken) / 2;
            match infer(&self.values[..middle]) {
                Ok(_) => good = middle,
                Err(_) => broken = middle,
            }
        }
        let line = self.numbers.get(good).copied();
        let lines = self.text.split_inclusive(|byte| *byte == b'\n');
        let before = lines.take(line.map_or(0, |line| line as usize - 1)).map(<[u8]>::len).sum();
        self.values.truncate(good);
        self.text.truncate(before);
        let message = format!("has no consistent columns: {error}");
        self.bad = Some(Error::Import { path: file.path.clone(), line, message });
        Ok(infer(&self.values)?)
    }

    /// The error of the first faulty line, when one has been met: those before it may be faulty
    /// too, when they are read as rows of `schema`.
    fn check(self, file: &InputFile, schema: &SchemaRef) -> Result<()> {
        let Some(bad) = self.bad else { return Ok(()) };
        if decode(schema, &self.text, true).is_ok() {
            return Err(bad);
        }
        let block = csv::Block { index: 0, first_line: 1, text: self.text };
        Err(first_bad_line(file, schema, &block, true))
    }
}

fn infer(sample: &[serde_json::Value]) -> std::result::Result<SchemaRef, ArrowError> {
    let schema = infer_json_schema_from_iterator(sample.iter().map(Ok::<_, ArrowError>))?;
    // A member that is always null has no type yet.
    let fields: Vec<Field> = schema
        .fields()
        .iter()
        .map(|field| match field.data_type() {
            DataType::Null => Field::new(field.name(), DataType::Utf8, true),
            _ => Field::clone(field),
        })
        .collect();
    Ok(Arc::new(Schema::new(fields)))
}

/// String columns whose values are all dates or timestamps become such.
fn with_times(schema: &SchemaRef, sample: &[serde_json::Value]) -> SchemaRef {
    let fields: Vec<Field> = schema
        .fields()
        .iter()
        .map(|field| {
            let strings = || sample.iter().filter_map(|row| row.get(field.name())?.as_str());
            if field.data_type() != &DataType::Utf8View || strings().next().is_none() {
                return Field::clone(field);
            }
            let all = |test: &dyn Fn(&[u8]) -> bool| strings().all(|text| test(text.as_bytes()));
            let iso = DateStyle::Iso;
            if all(&|text| values::date(text, iso).is_some()) {
                return Field::new(field.name(), DataType::Date32, true);
            }
            let instant = |text: &[u8]| values::date_time(text, iso);
            let whole = |text: &[u8]| instant(text).is_some_and(|at| at.nanos % 1_000 == 0);
            if !all(&whole) {
                return Field::clone(field);
            }
            let zoned = |text: &[u8]| instant(text).is_some_and(|at| at.offset_s.is_some());
            let zone = match (all(&zoned), strings().any(|text| zoned(text.as_bytes()))) {
                (true, _) => Some("UTC".into()),
                (false, true) => return Field::clone(field),
                (false, false) => None,
            };
            Field::new(field.name(), DataType::Timestamp(TimeUnit::Microsecond, zone), true)
        })
        .collect();
    Arc::new(Schema::new(fields))
}

fn given_types(file: &InputFile, schema: SchemaRef, options: &ImportOptions) -> Result<SchemaRef> {
    let mut fields: Vec<Field> = schema.fields().iter().map(|field| Field::clone(field)).collect();
    for (name, data_type) in &options.types {
        match fields.iter_mut().find(|field| field.name().eq_ignore_ascii_case(name)) {
            Some(field) => *field = Field::new(field.name(), data_type.clone(), true),
            None => return Err(file.broken(&format!("has no member {name:?}"))),
        }
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// Turns `[{...}, {...}]` into a line for each element, while it is read.
struct ArrayLines<R> {
    source: R,
    depth: usize,
    in_string: bool,
    escaped: bool,
    buffer: Vec<u8>,
}

impl<R: Read> ArrayLines<R> {
    fn new(source: R) -> Self {
        Self { source, depth: 0, in_string: false, escaped: false, buffer: Vec::new() }
    }

    /// The byte that stands for `byte`.
    fn translate(&mut self, byte: u8) -> u8 {
        if self.in_string {
            match (self.escaped, byte) {
                (true, _) => self.escaped = false,
                (false, b'\\') => self.escaped = true,
                (false, b'"') => self.in_string = false,
                _ => {}
            }
            return byte;
        }
        match byte {
            b'"' => self.in_string = true,
            b'[' | b'{' => {
                self.depth += 1;
                if self.depth == 1 {
                    return b' ';
                }
            }
            b']' | b'}' => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 {
                    return b'\n';
                }
            }
            b',' if self.depth == 1 => return b'\n',
            b'\n' | b'\r' => return b' ',
            _ => {}
        }
        byte
    }
}

impl<R: Read> Read for ArrayLines<R> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(out.len(), 0);
        let read = self.source.read(&mut buffer)?;
        for (to, from) in out.iter_mut().zip(&buffer[..read]) {
            *to = self.translate(*from);
        }
        self.buffer = buffer;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_become_lines() {
        let text = br#" [ {"a": [1, 2], "b": "x],\"{"} ,
            {"a": [],
             "b": "\\"} ] "#;
        let mut out = String::new();
        ArrayLines::new(&text[..]).read_to_string(&mut out).unwrap();
        let lines: Vec<&str> = out.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        assert_eq!(lines.len(), 2, "{out}");
        for line in lines {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(value.is_object());
        }
    }
}
