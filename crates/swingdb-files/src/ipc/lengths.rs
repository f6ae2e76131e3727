//! The lengths that Arrow files and streams tell, looked at before the decoder believes them: it
//! asks for as much memory at once, and where there is none the process would end.
//!
//! A message is a header, which says how long its body is and where the buffers lie in that. Of a
//! batch whose buffers are compressed each begins with its length before that (Arrow's
//! "Columnar format", sections on IPC and on compression of buffers).

use std::fs::File;
use std::io::{BufReader, Error as IoError, Read, Seek, SeekFrom};

use arrow::error::ArrowError;
use arrow::ipc::reader::read_footer_length;
use arrow::ipc::{KeyValue, Message, MessageHeader, RecordBatch, root_as_footer, root_as_message};

use crate::ipc::check::{Columns, broken};

/// Comes before a message's length since version 0.15 of the format.
const CONTINUES: [u8; 4] = [0xFF; 4];
/// A length that says: this buffer is not compressed.
const NOT_COMPRESSED: i64 = -1;
const PREFIX: usize = size_of::<i64>();

/// Looks at a message: its schema is put into `columns`, its batch has to be one of theirs. `read`
/// fills its argument with the body's bytes from a place on.
fn check_message(
    columns: &mut Option<Columns>,
    message: &Message<'_>,
    body: u64,
    read: impl FnMut(u64, &mut [u8]) -> Result<(), IoError>,
) -> Result<(), ArrowError> {
    let missing = || broken("a batch comes before the schema");
    match message.header_type() {
        MessageHeader::Schema => {
            let schema = message.header_as_schema().ok_or_else(|| broken("a schema is empty"))?;
            *columns = Some(Columns::of(schema)?);
            Ok(())
        }
        MessageHeader::RecordBatch => {
            let batch = message.header_as_record_batch();
            let batch = batch.ok_or_else(|| broken("a batch is empty"))?;
            let sizes = sizes(batch, body, read)?;
            columns.as_ref().ok_or_else(missing)?.check_rows(&batch, message.version(), &sizes)
        }
        MessageHeader::DictionaryBatch => {
            let batch = message.header_as_dictionary_batch();
            let (id, batch) = batch
                .and_then(|batch| Some((batch.id(), batch.data()?)))
                .ok_or_else(|| broken("a dictionary is empty"))?;
            let sizes = sizes(batch, body, read)?;
            let columns = columns.as_ref().ok_or_else(missing)?;
            columns.check_dictionary(id, &batch, message.version(), &sizes)
        }
        _ => Err(broken("a message is neither a schema nor a batch")),
    }
}

/// The bytes of a batch's buffers when they are decompressed: there has to be memory for them.
fn sizes(
    batch: RecordBatch<'_>,
    body: u64,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<(), IoError>,
) -> Result<Vec<u64>, ArrowError> {
    if batch.nodes().is_none() || batch.buffers().is_none() {
        return Err(broken("a batch has no arrays"));
    }
    let outside = || broken("a buffer lies outside of its batch");
    let mut sizes = Vec::new();
    let mut total = 0_usize;
    for buffer in batch.buffers().into_iter().flatten() {
        let start = u64::try_from(buffer.offset()).map_err(|_| outside())?;
        let length = u64::try_from(buffer.length()).map_err(|_| outside())?;
        if start.checked_add(length).is_none_or(|end| end > body) {
            return Err(outside());
        }
        if batch.compression().is_none() || length == 0 {
            sizes.push(length);
            continue;
        }
        if length < PREFIX as u64 {
            return Err(broken("a compressed buffer has no length"));
        }
        let mut prefix = [0; PREFIX];
        read(start, &mut prefix)?;
        let decompressed = i64::from_le_bytes(prefix);
        if decompressed == NOT_COMPRESSED {
            sizes.push(length - PREFIX as u64);
            continue;
        }
        let decompressed = usize::try_from(decompressed).ok();
        let sum = decompressed.and_then(|decompressed| total.checked_add(decompressed));
        total = sum.ok_or_else(|| broken("a compressed buffer tells no possible length"))?;
        sizes.push(decompressed.unwrap_or(0) as u64);
    }
    // Nothing is stored there: whether so much would be given is all that is asked. The compiler
    // must not take the answer for granted.
    let mut room = Vec::<u8>::new();
    let answer = room.try_reserve_exact(total);
    std::hint::black_box(&mut room);
    if answer.is_err() {
        return Err(broken(format!("a batch has {total} bytes, for which there is no memory")));
    }
    Ok(sizes)
}

/// Looks at the batches of a file by its footer; leaves the source at its beginning.
pub(super) fn check_file(source: &mut BufReader<File>, bytes: u64) -> Result<(), ArrowError> {
    const TRAILER: usize = 10;
    let mut trailer = [0; TRAILER];
    source.seek(SeekFrom::Start(bytes.saturating_sub(TRAILER as u64)))?;
    source.read_exact(&mut trailer)?;
    let length = u64::try_from(read_footer_length(trailer)?).unwrap_or(u64::MAX);
    let start = bytes.checked_sub(TRAILER as u64).and_then(|end| end.checked_sub(length));
    let start = start.ok_or_else(|| broken("the footer is longer than the file"))?;
    let mut footer = Vec::new();
    source.seek(SeekFrom::Start(start))?;
    source.take(length).read_to_end(&mut footer)?;
    let footer = root_as_footer(&footer).map_err(|error| broken(error.to_string()))?;
    let schema = footer.schema().ok_or_else(|| broken("the footer has no schema"))?;
    let mut columns = Some(Columns::of(schema)?);
    let named = |pair: KeyValue<'_>| pair.key().is_some() && pair.value().is_some();
    if !footer.custom_metadata().into_iter().flatten().all(named) {
        return Err(broken("the footer has a key without a value"));
    }
    let rows = footer.recordBatches().into_iter().flatten();
    let rows = rows.map(|block| (block, MessageHeader::RecordBatch));
    let dictionaries = footer.dictionaries().into_iter().flatten();
    let dictionaries = dictionaries.map(|block| (block, MessageHeader::DictionaryBatch));
    for (block, kind) in rows.chain(dictionaries) {
        let outside = || broken("a batch lies outside of the file");
        let part = |length: i64| u64::try_from(length).map_err(|_| outside());
        let (start, body) = (part(block.offset())?, part(block.bodyLength())?);
        let body_at = start.checked_add(part(block.metaDataLength().into())?);
        let body_at = body_at.ok_or_else(outside)?;
        if body_at.checked_add(body).is_none_or(|end| end > bytes) {
            return Err(outside());
        }
        let mut header = vec![0; (body_at - start) as usize];
        source.seek(SeekFrom::Start(start))?;
        source.read_exact(&mut header)?;
        let header = match header.strip_prefix(&CONTINUES) {
            Some(rest) => rest.get(4..),
            None => header.get(4..),
        };
        let message = root_as_message(header.ok_or_else(|| broken("a message is too short"))?);
        let message = message.map_err(|error| broken(error.to_string()))?;
        if message.header_type() != kind {
            return Err(broken("the footer calls a message what it is not"));
        }
        if message.bodyLength() != block.bodyLength() {
            return Err(broken("the footer has another length of a batch than the batch"));
        }
        check_message(&mut columns, &message, body, |place, to| {
            source.seek(SeekFrom::Start(body_at + place))?;
            source.read_exact(to)
        })?;
    }
    source.rewind()?;
    Ok(())
}

/// A stream of which each message has been looked at when it is given on.
pub(super) struct CheckedStream<R> {
    source: R,
    /// A message, and how much of it has been given on.
    message: Vec<u8>,
    given: usize,
    ended: bool,
    /// The schema, once it has come.
    columns: Option<Columns>,
}

impl<R: Read> CheckedStream<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source, message: Vec::new(), given: 0, ended: false, columns: None }
    }

    /// Reads so many bytes behind what there is, as far as the source has them: memory is taken for
    /// what comes.
    fn append(&mut self, length: u64) -> Result<bool, IoError> {
        Ok((&mut self.source).take(length).read_to_end(&mut self.message)? as u64 == length)
    }

    /// Reads the next message. A stream may end without a message that says so.
    fn next(&mut self) -> Result<(), ArrowError> {
        self.message.clear();
        self.given = 0;
        self.ended = true;
        let longer = || broken("a message is longer than the file");
        if !self.append(4)? {
            return if self.message.is_empty() { Ok(()) } else { Err(longer()) };
        }
        if self.message == CONTINUES && !self.append(4)? {
            return Err(longer());
        }
        let lengths = self.message.len();
        let length = self.message.last_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        if length == 0 {
            return Ok(());
        }
        // The decoder would take memory for all of it, and find only then that it is not there.
        if !self.append(length.into())? {
            return Err(longer());
        }
        let header_end = self.message.len();
        let message = root_as_message(&self.message[lengths..]);
        let message = message.map_err(|error| broken(error.to_string()))?;
        let body = u64::try_from(message.bodyLength());
        let body = body.map_err(|_| broken("a message tells no possible length"))?;
        if !self.append(body)? {
            return Err(longer());
        }
        let message = root_as_message(&self.message[lengths..header_end]);
        let message = message.map_err(|error| broken(error.to_string()))?;
        if message.header_type() == MessageHeader::Schema && self.columns.is_some() {
            return Err(broken("a stream has a second schema"));
        }
        check_message(&mut self.columns, &message, body, |place, to| {
            let from = header_end + place as usize;
            to.copy_from_slice(&self.message[from..from + to.len()]);
            Ok(())
        })?;
        self.ended = false;
        Ok(())
    }
}

impl<R: Read> Read for CheckedStream<R> {
    fn read(&mut self, to: &mut [u8]) -> Result<usize, IoError> {
        if self.given == self.message.len() && !self.ended {
            self.next().map_err(|error| {
                // Whoever asks again gets nothing of it.
                self.message.clear();
                match error {
                    ArrowError::IoError(_, error) => error,
                    other => IoError::other(other),
                }
            })?;
        }
        let rest = &self.message[self.given..];
        let count = rest.len().min(to.len());
        to[..count].copy_from_slice(&rest[..count]);
        self.given += count;
        Ok(count)
    }
}
