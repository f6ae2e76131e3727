//! Batches as messages: [`Rows`].

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{Schema, SchemaRef};
use bytes::BufMut;
use pgwire::messages::data::{FieldDescription, RowDescription};
use swingdb::{InterruptHandle, QueryResult};

use crate::postgres::columns::{Column, Nulls};
use crate::postgres::failure::Failure;
use crate::postgres::sqlstate::Refusal;
use crate::postgres::types::PgType;
use crate::postgres::values::{Format, sized, write};
use crate::postgres::wire::Wire;

/// The most columns that a message can name.
const MAX_COLUMNS: usize = 32_767;

/// The formats of columns that a client asks for: none means text, one is for all.
pub fn formats(asked: &[i16], columns: usize) -> Result<Vec<Format>, Refusal> {
    let format = |code: &i16| match code {
        0 => Ok(Format::Text),
        1 => Ok(Format::Binary),
        other => Err(Refusal::protocol(format!("format {other} of a result is not known"))),
    };
    match asked {
        [] => Ok(vec![Format::Text; columns]),
        [all] => Ok(vec![format(all)?; columns]),
        each if each.len() == columns => each.iter().map(format).collect(),
        each => Err(Refusal::protocol(format!(
            "{} formats were given for {columns} columns",
            each.len()
        ))),
    }
}

/// The message that describes columns.
pub fn description(schema: &Schema, formats: &[Format]) -> Result<RowDescription, Refusal> {
    if schema.fields().len() > MAX_COLUMNS {
        return Err(Refusal::new("54011", format!("a result has at most {MAX_COLUMNS} columns")));
    }
    let fields = schema.fields().iter().zip(formats).map(|(field, format)| {
        let pg = PgType::of(field);
        let code = i16::from(*format == Format::Binary);
        FieldDescription::new(
            field.name().replace('\0', ""),
            0,
            0,
            pg.oid(),
            pg.size(),
            pg.modifier(),
            code,
        )
    });
    Ok(RowDescription::new(fields.collect()))
}

/// Rows that are sent as they are computed, one batch in memory at a time.
pub struct Rows {
    batches: Box<dyn Iterator<Item = swingdb::Result<RecordBatch>> + Send>,
    interrupt: Option<InterruptHandle>,
    schema: SchemaRef,
    tag: &'static str,
    formats: Vec<Format>,
    batch: Option<Batch>,
    /// How many have been sent.
    pub sent: u64,
}

/// Some rows, in the forms that values are written from.
pub(super) struct Batch {
    pub(super) columns: Vec<(Column, Nulls)>,
    pub(super) rows: usize,
    next: usize,
}

impl Batch {
    fn of(schema: &Schema, batch: &RecordBatch) -> Result<Self, Refusal> {
        let columns = schema.fields().iter().zip(batch.columns());
        let columns = columns.map(|(field, array)| Column::of(field, array));
        Ok(Self { columns: columns.collect::<Result<_, _>>()?, rows: batch.num_rows(), next: 0 })
    }

    /// Writes one row as a message.
    fn write(&self, formats: &[Format], wire: &mut Wire) -> Result<(), Failure> {
        let out = wire.output();
        let start = out.len();
        out.put_u8(b'D');
        let written = sized_message(out, |out| {
            out.put_u16(self.columns.len() as u16);
            for ((column, nulls), format) in self.columns.iter().zip(formats) {
                match nulls.as_ref().is_some_and(|nulls| nulls.is_null(self.next)) {
                    true => out.put_i32(-1),
                    false => sized(out, |out| write(column, self.next, *format, out))?,
                }
            }
            Ok(())
        });
        if let Err(error) = written {
            // No half a message before the error.
            wire.output().truncate(start);
            return Err(error.into());
        }
        Ok(wire.send_much()?)
    }
}

/// Writes a message behind its length, which counts itself.
pub(super) fn sized_message(
    out: &mut bytes::BytesMut,
    write: impl FnOnce(&mut bytes::BytesMut) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let start = out.len();
    out.put_i32(0);
    write(out)?;
    let length = i32::try_from(out.len() - start);
    let length = length.map_err(|_| Refusal::new("54000", "a row is larger than 2 GiB"))?;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

impl Rows {
    /// The rows of a result, in the formats that the client asks for.
    pub fn new(result: QueryResult, asked: &[i16]) -> Result<Self, Refusal> {
        let (schema, tag) = (result.schema(), result.tag());
        let interrupt = result.interrupt_handle();
        Self::of_batches(schema, Box::new(result), interrupt, tag, asked)
    }

    /// The rows of batches, which a request to cancel ends by `interrupt`.
    pub fn of_batches(
        schema: SchemaRef,
        batches: Box<dyn Iterator<Item = swingdb::Result<RecordBatch>> + Send>,
        interrupt: Option<InterruptHandle>,
        tag: &'static str,
        asked: &[i16],
    ) -> Result<Self, Refusal> {
        let formats = formats(asked, schema.fields().len())?;
        Ok(Self { batches, interrupt, schema, tag, formats, batch: None, sent: 0 })
    }

    /// One row of one text.
    pub fn of_text(name: &str, value: &str, asked: &[i16]) -> Result<Self, Refusal> {
        let array: ArrayRef = Arc::new(StringArray::from(vec![value]));
        let batch = RecordBatch::try_from_iter([(name, array)])?;
        let schema = batch.schema();
        Self::of_batches(schema, Box::new(std::iter::once(Ok(batch))), None, "SHOW", asked)
    }

    /// The numbers of the columns' types.
    pub fn types(&self) -> Vec<u32> {
        self.schema.fields().iter().map(|field| PgType::of(field).oid()).collect()
    }

    /// The kind of statement.
    pub fn tag(&self) -> &'static str {
        self.tag
    }

    /// The message that describes the columns.
    pub fn description(&self) -> Result<RowDescription, Refusal> {
        description(&self.schema, &self.formats)
    }

    /// The names of the columns.
    pub(super) fn names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The next rows, for a caller who writes them.
    pub(super) fn next_batch(&mut self) -> Result<Option<Batch>, Refusal> {
        let Some(batch) = self.batches.next() else { return Ok(None) };
        Ok(Some(Batch::of(&self.schema, &batch?)?))
    }

    /// Sends at most so many rows; whether that was the last.
    pub fn send(&mut self, wire: &mut Wire, most: u64) -> Result<bool, Failure> {
        let mut left = most;
        // The message that reads is not always the one that began.
        if let Some(interrupt) = &self.interrupt {
            interrupt.join_here();
        }
        loop {
            if let Some(batch) = &mut self.batch {
                while batch.next < batch.rows {
                    if left == 0 {
                        return Ok(false);
                    }
                    batch.write(&self.formats, wire)?;
                    batch.next += 1;
                    self.sent += 1;
                    left -= 1;
                }
            }
            self.batch = match self.next_batch()? {
                None => return Ok(true),
                batch => batch,
            };
        }
    }
}
