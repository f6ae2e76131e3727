//! From a block of CSV text to a batch of Arrow columns.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, SchemaRef};
use arrow::error::ArrowError;
use swingdb_common::error::Error;
use swingdb_common::time::zones::{Zone, in_zone};

use crate::text::columns::{BadField, Batch, Column, Reading, is_settled_late};
use crate::text::dialect::Dialect;
use crate::text::fields::{Fields, RecordFault, RecordReader, unescape};
use crate::text::shown::{OTHER_ENCODING, shown};
use crate::text::split::Block;
use crate::text::types::described;

/// Records whose positions are collected before they are parsed: their text and positions together
/// fit the second-level cache.
const BATCH_RECORDS: usize = 1_024;

/// How the fields of a file become the columns of a batch.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Columns of the batches.
    pub schema: SchemaRef,
    /// For each of them the column of the file, `None` for NULLs only.
    pub sources: Vec<Option<usize>>,
    /// Names of the file's columns: every record has as many fields.
    pub file_columns: Vec<String>,
    /// For each column of the batches whether its type was guessed from a sample: an error then
    /// says how to give it.
    pub guessed: Vec<bool>,
}

/// The values of a column that was made [in the zone](in_zone) of the session.
fn of_field(column: Column, field: &Field) -> Result<ArrayRef, ArrowError> {
    let values = column.finish()?;
    match values.data_type() == field.data_type() {
        true => Ok(values),
        // Only the names of zones differ.
        false => cast(&values, field.data_type()),
    }
}

/// Parses the blocks of one file.
pub struct Parser<'a> {
    /// The file, for errors.
    pub path: &'a Path,
    /// Its grammar.
    pub dialect: &'a Dialect,
    /// Its columns.
    pub layout: &'a Layout,
    /// The time zone of points in time that name none.
    pub(crate) zone: Zone,
}

impl Parser<'_> {
    /// All records of `block`; the error is that of the first faulty line, wherever blocks begin.
    pub fn parse(&self, block: &Block) -> Result<RecordBatch, Error> {
        let parsed = match std::str::from_utf8(&block.text) {
            Ok(text) => self.records(block, text),
            Err(error) => Err(self.not_utf8(block, error.valid_up_to())),
        };
        // Columns whose values are looked at last say nothing while others say something.
        let is_late = |field: &Arc<Field>| is_settled_late(field.data_type());
        match parsed {
            Err(error) if self.layout.schema.fields().iter().any(is_late) => {
                Err(self.one_by_one(block).unwrap_or(error))
            }
            parsed => parsed,
        }
    }

    pub(crate) fn records(&self, block: &Block, text: &str) -> Result<RecordBatch, Error> {
        let columns = self.layout.file_columns.len();
        let mut reader = RecordReader::new(&block.text, self.dialect, Some(columns));
        let mut fields = Fields::default();
        let expected = self.expected_rows(block);
        let reading = |guessed| Reading { dates: self.dialect.dates, guessed };
        let mut builders: Vec<Option<Column>> = self
            .layout
            .sources
            .iter()
            .zip(self.layout.schema.fields())
            .zip(&self.layout.guessed)
            .map(|((source, field), guessed)| {
                let data_type = in_zone(field.data_type(), self.zone);
                let styles = self.dialect.styles.as_ref();
                source.map(|_| Column::new(&data_type, reading(*guessed), expected).styled(styles))
            })
            .collect();
        let mut rows = 0;
        loop {
            // Fields before a faulty record are parsed first: the first error in the file is
            // reported.
            let read = reader.read(BATCH_RECORDS, &mut fields);
            let batch = Batch { text, fields: &fields, columns, dialect: self.dialect };
            if read.is_ok() || fields.rows() > 0 {
                self.append(block, &batch, &mut builders)?;
            }
            rows += fields.rows();
            match read {
                Ok(true) => {}
                Ok(false) => break,
                Err(fault) => return Err(self.record_error(block, fault)),
            }
        }
        self.finish(block, builders, rows)
    }

    /// The first error of a block whose text at `at` is no UTF-8.
    fn not_utf8(&self, block: &Block, at: usize) -> Error {
        let columns = self.layout.file_columns.len();
        let mut reader = RecordReader::new(&block.text, self.dialect, Some(columns));
        let (mut fields, mut start) = (Fields::default(), 0);
        let fault = loop {
            match reader.read(1, &mut fields) {
                Err(fault) => break Some(fault).filter(|fault| fault.position() <= at),
                Ok(true) if reader.position() <= at => start = reader.position(),
                Ok(_) => break None,
            }
        };
        if let Err(earlier) = self.parse(&head(block, start)) {
            return earlier;
        }
        if let Some(fault) = fault {
            return self.record_error(block, fault);
        }
        let message = format!(
            "{} is not valid UTF-8; {OTHER_ENCODING}",
            shown(&block.text[at..(at + 4).min(block.text.len())])
        );
        self.error(self.line(block, at), message)
    }

    /// The error of the first record of a block that has one when it stands alone.
    fn one_by_one(&self, block: &Block) -> Option<Error> {
        let columns = self.layout.file_columns.len();
        let mut reader = RecordReader::new(&block.text, self.dialect, Some(columns));
        let (mut fields, mut rest) = (Fields::default(), head(block, 0));
        let mut start = 0;
        loop {
            let end = match reader.read(1, &mut fields) {
                Ok(true) => reader.position(),
                Ok(false) => return None,
                Err(_) => block.text.len(),
            };
            // Line after line, so that the lines before need not be counted each time.
            rest.first_line += lines(&rest.text, self.dialect);
            rest.text.clear();
            rest.text.extend_from_slice(&block.text[start..end]);
            let parsed = match std::str::from_utf8(&rest.text) {
                Ok(text) => self.records(&rest, text).err(),
                Err(error) => Some(self.not_utf8(&rest, error.valid_up_to())),
            };
            if parsed.is_some() || end <= start {
                return parsed;
            }
            start = end;
        }
    }

    fn append(
        &self,
        block: &Block,
        batch: &Batch<'_>,
        builders: &mut [Option<Column>],
    ) -> Result<(), Error> {
        let mut first: Option<(BadField, usize)> = None;
        for (index, (builder, source)) in builders.iter_mut().zip(&self.layout.sources).enumerate()
        {
            let (Some(builder), Some(source)) = (builder, source) else { continue };
            if let Err(bad) = builder.append(batch, *source)
                && first.is_none_or(|(earlier, _)| bad.place() < earlier.place())
            {
                first = Some((bad, index));
            }
        }
        match first {
            None => Ok(()),
            Some((bad, index)) => Err(self.field_error(block, bad, index)),
        }
    }

    fn finish(
        &self,
        block: &Block,
        builders: Vec<Option<Column>>,
        rows: usize,
    ) -> Result<RecordBatch, Error> {
        let schema = &self.layout.schema;
        let arrays =
            builders.into_iter().zip(schema.fields()).map(|(builder, field)| match builder {
                Some(column) => of_field(column, field).map_err(|error| {
                    let message = format!("column {:?}: {error}", field.name());
                    let empty = block.text.iter().take_while(|b| matches!(b, b'\r' | b'\n'));
                    let line = (rows == 1).then(|| self.line(block, empty.count())).flatten();
                    self.error(line, message)
                }),
                None => Ok(new_null_array(field.data_type(), rows)),
            });
        let arrays: Vec<ArrayRef> = arrays.collect::<Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)?)
    }

    /// A guess, from the length of the first record, that seldom lets the columns grow.
    fn expected_rows(&self, block: &Block) -> usize {
        let head = &block.text[..block.text.len().min(16_384)];
        let lines = memchr::memchr_iter(self.dialect.terminator, head).count().max(1);
        (block.text.len() / (head.len() / lines).max(1)) * 9 / 8 + 16
    }

    pub(crate) fn line(&self, block: &Block, at: usize) -> Option<u64> {
        let before = &block.text[..at.min(block.text.len())];
        Some(block.first_line + lines(before, self.dialect))
    }

    fn error(&self, line: Option<u64>, message: String) -> Error {
        Error::Import { path: self.path.to_path_buf(), line, message }
    }

    pub(crate) fn record_error(&self, block: &Block, fault: RecordFault) -> Error {
        let columns = self.layout.file_columns.len();
        match fault {
            RecordFault::FieldCount { start, found } => {
                let end = memchr::memchr(self.dialect.terminator, &block.text[start..]);
                let record = &block.text[start..start + end.unwrap_or(block.text.len() - start)];
                let message = format!(
                    "{found} field{} where {columns} {} expected: {}",
                    if found == 1 { "" } else { "s" },
                    if columns == 1 { "is" } else { "are" },
                    shown(record)
                );
                self.error(self.line(block, start), message)
            }
            RecordFault::Unclosed { open } => {
                let text = shown(&block.text[open..]);
                self.error(
                    self.line(block, open),
                    format!("the quote before {text} is never closed"),
                )
            }
            RecordFault::AfterQuote { at } => {
                let from =
                    block.text[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |n| n + 1);
                let rest = memchr::memchr(self.dialect.terminator, &block.text[at..]);
                let end = at + rest.unwrap_or(block.text.len() - at);
                let message = format!(
                    "a field goes on after its closing quote, at character {} of {}",
                    String::from_utf8_lossy(&block.text[from..at]).chars().count() + 1,
                    shown(&block.text[from..end])
                );
                self.error(self.line(block, at), message)
            }
        }
    }

    fn field_error(&self, block: &Block, bad: BadField, index: usize) -> Error {
        let field = self.layout.schema.field(index);
        let mut text = bad.field.text(&block.text).to_vec();
        if bad.field.is_escaped() {
            let content = std::mem::take(&mut text);
            unescape(&content, self.dialect, &mut text);
        }
        let number = self.layout.sources[index].map_or(0, |source| source + 1);
        let hint = match (self.layout.guessed[index], field.data_type()) {
            (true, _) => format!(
                "; the type was guessed from a sample: give another with columns, such as {:?} \
                    VARCHAR, \
                 or look at all rows with sample_size -1",
                field.name()
            ),
            (false, DataType::Timestamp(_, None))
                if text.ends_with(b"Z") || text.contains(&b'+') =>
            {
                "; for an offset the column must be TIMESTAMP WITH TIME ZONE".to_string()
            }
            _ => String::new(),
        };
        let message = format!(
            "column {number} ({:?}): {} is no {}{hint}",
            field.name(),
            shown(&text),
            described(field.data_type()),
        );
        self.error(self.line(block, bad.field.start()), message)
    }
}

/// How many lines end in a text.
pub(crate) fn lines(text: &[u8], dialect: &Dialect) -> u64 {
    memchr::memchr_iter(dialect.terminator, text).count() as u64
}

/// The records of a block before `end`, as a block.
fn head(block: &Block, end: usize) -> Block {
    Block { index: block.index, first_line: block.first_line, text: block.text[..end].to_vec() }
}
