//! CSV files: read in parallel, exactly, with the line of every error.
//!
//! ```text
//! file --(split: whole records, in order)--> blocks --(fields, columns: in parallel)--> batches
//! ```
//!
//! [`sniff`] decides dialect, names and types first. Everything after that follows the decision
//! strictly: a record that does not fit is an error.

mod lenient;
pub(crate) mod sniff;
pub(crate) mod write;

use std::io::Read;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use parking_lot::Mutex;
use swingdb_common::error::{Error, Result};
use swingdb_common::runtime::cancel;

use crate::csv::lenient::Reject;
use crate::csv::sniff::{Hints, Sniffed};
use crate::input::InputFile;
use crate::options::{ImportOptions, NewLine};
use crate::reading::match_columns::{Matched, match_columns};
use crate::reading::{FileSink, Run, Target};
use crate::text::dialect::Dialect;
use crate::text::fields::{Fields, RecordReader};
use crate::text::parse::{Layout, Parser};
use crate::text::split::{SplitError, Splitter};

use crate::text::shown::{BYTE_ORDER_MARK, OTHER_ENCODING, shown};
use crate::text::split::{Block, MAX_RECORD_BYTES};

/// Rows of a sample when the caller does not say.
const SAMPLE_ROWS: u64 = 20_480;
/// The sample has at most this many bytes, unless the caller wants all rows.
const SAMPLE_BYTES: usize = 2 << 20;
/// Pieces from further on in a file that are looked at as well, and their size.
const FURTHER_PIECES: u64 = 4;
const FURTHER_BYTES: usize = 64 << 10;
/// Bounds for the size of blocks.
const MIN_BLOCK_BYTES: usize = 256 << 10;
const MAX_BLOCK_BYTES: usize = 32 << 20;
/// A file is cut into at least this many blocks for each thread, if they are not too small then.
const BLOCKS_PER_THREAD: u64 = 4;

/// How a set of CSV files is read.
pub(crate) struct CsvScan {
    pub(crate) dialect: Dialect,
    layout: Layout,
    /// For each column of the schema its place in the target table.
    target_columns: Option<Vec<usize>>,
    /// Bytes of a record, on average over the sample.
    record_bytes: usize,
    block_bytes: Option<usize>,
    /// Records that cannot be read are left out.
    lenient: bool,
}

impl CsvScan {
    /// Sniffs the first file, and gives the columns the types of the target or of the caller.
    pub(crate) fn open(
        files: &[InputFile],
        options: &ImportOptions,
        target: Option<&Target<'_>>,
    ) -> Result<Self> {
        let Some(first) = files.first() else { return Err(Error::internal("no CSV file")) };
        let sample = Sample::take(first, options)?;
        check_encoding(first, &sample.text)?;
        check_new_line(first, &sample.text, options)?;
        let hints = hints(options, target);
        let mut sniffed = sniff::sniff(&sample.text, sample.whole, &sample.further, &hints);
        if sniffed.too_wide || sniffed.names.len() > sniff::MAX_COLUMNS {
            let limit = sniff::MAX_COLUMNS;
            return Err(first.broken(&format!("has more than {limit} columns")));
        }
        if sniffed.dialect.header {
            let text = &sample.text[sniffed.lead_bytes..];
            let record = sniff::first_record(text, &sniffed.dialect).unwrap_or_default();
            check_names(first, &record, sniffed.dialect.skip)?;
            fill_up_names(first, &record, &mut sniffed, options.null_padding)?;
        }
        if sample.text.is_empty() && target.is_none() && options.types.is_empty() {
            return Err(first.broken("is empty: nothing to find columns in"));
        }
        let record_bytes = sample.record_bytes(&sniffed);
        let (layout, target_columns) = match target {
            Some(target) => layout_for_target(first, &sniffed, options, target)?,
            None if sample.text.is_empty() => (layout_of_nothing(options), None),
            None => (layout_alone(first, &sniffed, options)?, None),
        };
        let (block_bytes, lenient) = (options.block_bytes, options.ignore_errors);
        let dialect = sniffed.dialect;
        Ok(Self { dialect, layout, target_columns, record_bytes, block_bytes, lenient })
    }

    /// The columns.
    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.layout.schema)
    }

    /// See [`crate::file_scan::FileScan::target_columns`].
    pub(crate) fn target_columns(&self) -> Option<&[usize]> {
        self.target_columns.as_deref()
    }

    /// Reads all files; see [`crate::file_scan::FileScan::run`].
    pub(crate) fn run(
        &self,
        files: &[InputFile],
        run: &Run<'_>,
        sink: &FileSink<'_>,
    ) -> Result<()> {
        // Which records can be read is a matter of all columns, whichever are wanted.
        let layout = match run.projection {
            Some(projection) if !self.lenient => self.layout.project(projection)?,
            _ => self.layout.clone(),
        };
        let total = match files.iter().any(InputFile::is_stream) {
            // Nobody knows; blocks that fill segments are right for all but short ones.
            true => u64::MAX,
            false => files.iter().map(|file| file.bytes).sum(),
        };
        let block_bytes = self.block_bytes(total, run);
        let mut feed = Feed {
            scan: self,
            files,
            run,
            layout: &layout,
            next_file: 0,
            open: None,
            block_bytes,
            next_index: 0,
        };
        let pool: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());
        let next = || {
            let recycled = pool.lock().pop().unwrap_or_default();
            let piece = feed.next(recycled)?;
            Ok(piece.map(|piece| (piece.block.index, piece)))
        };
        let work = |order: u64, piece: Piece| {
            let file = &files[piece.file];
            let parser = Parser {
                path: &file.path,
                dialect: &self.dialect,
                layout: &piece.layout,
                zone: run.zone,
            };
            let batch = match self.lenient {
                false => parser.parse(&piece.block)?,
                true => {
                    let all = parser.parse_lenient(&piece.block)?;
                    run.projection.map_or(Ok(all.clone()), |wanted| all.project(wanted))?
                }
            };
            pool.lock().push(piece.block.text);
            sink(order, piece.file, batch)
        };
        run.in_parallel(next, work)
    }

    /// The records that `ignore_errors` leaves out, with the numbers of their files, up to `most`
    /// of them and some more.
    pub(crate) fn rejects(
        &self,
        files: &[InputFile],
        run: &Run<'_>,
        most: usize,
    ) -> Result<Vec<(usize, Reject)>> {
        let layout = &self.layout;
        let block_bytes = self.block_bytes(files.iter().map(|file| file.bytes).sum(), run);
        let (next_file, open, next_index) = (0, None, 0);
        let scan = self;
        let mut feed = Feed { scan, files, run, layout, next_file, open, block_bytes, next_index };
        let mut rejects = Vec::new();
        while let Some(piece) = feed.next(Vec::new())? {
            cancel::go_on()?;
            let path = &files[piece.file].path;
            let (dialect, layout) = (&self.dialect, &piece.layout);
            let parser = Parser { path, dialect, layout, zone: run.zone };
            let found = parser.rejects(&piece.block).into_iter();
            rejects.extend(found.map(|reject| (piece.file, reject)));
            if rejects.len() > most {
                break;
            }
        }
        Ok(rejects)
    }

    /// A block has about `batch_rows` records, and there are enough of them for all threads.
    fn block_bytes(&self, total: u64, run: &Run<'_>) -> usize {
        if let Some(bytes) = self.block_bytes {
            return bytes;
        }
        // A little less, so that most blocks fill a segment and do not begin another.
        let full = self.record_bytes.saturating_mul(run.batch_rows) / 100 * 97;
        let share = total / (run.threads as u64 * BLOCKS_PER_THREAD).max(1);
        full.min(usize::try_from(share).unwrap_or(usize::MAX))
            .clamp(MIN_BLOCK_BYTES, MAX_BLOCK_BYTES)
    }
}

/// A block and the file it comes from.
struct Piece {
    file: usize,
    layout: Layout,
    block: Block,
}

/// The file whose blocks are handed out.
struct Opened {
    number: usize,
    layout: Layout,
    splitter: Splitter<Box<dyn Read + Send>>,
}

/// Hands out the blocks of all files in order.
struct Feed<'a> {
    scan: &'a CsvScan,
    files: &'a [InputFile],
    run: &'a Run<'a>,
    layout: &'a Layout,
    next_file: usize,
    open: Option<Opened>,
    block_bytes: usize,
    next_index: u64,
}

impl Feed<'_> {
    fn next(&mut self, mut recycled: Vec<u8>) -> Result<Option<Piece>> {
        loop {
            self.run.check()?;
            if self.open.is_none() && !self.open_next()? {
                return Ok(None);
            }
            let Some(Opened { number, layout, splitter }) = &mut self.open else { return Ok(None) };
            let file = &self.files[*number];
            let block = splitter.next_block(recycled).map_err(|error| split_error(file, error))?;
            self.next_index = splitter.next_index();
            match block {
                Some(block) => {
                    return Ok(Some(Piece { file: *number, layout: layout.clone(), block }));
                }
                None => self.open = None,
            }
            recycled = Vec::new();
        }
    }

    /// Opens the next file behind its skipped lines and its header; false when there is none.
    fn open_next(&mut self) -> Result<bool> {
        let Some(file) = self.files.get(self.next_file) else { return Ok(false) };
        let dialect = &self.scan.dialect;
        let reader = file.open(Some(Arc::clone(&self.run.meter)))?;
        let (header, lines, reader) = read_head(file, reader, dialect)?;
        let layout = match header {
            Some(names) if self.next_file > 0 => self.layout.for_header(file, &names)?,
            _ => self.layout.clone(),
        };
        let splitter = Splitter::new(reader, dialect.clone(), self.block_bytes, lines + 1)
            .first_index(self.next_index);
        self.open = Some(Opened { number: self.next_file, layout, splitter });
        self.next_file += 1;
        Ok(true)
    }
}

/// Cuts lines for another text format.
pub(crate) fn splitter(
    source: Box<dyn Read + Send>,
    dialect: Dialect,
    block_bytes: usize,
    first_index: u64,
) -> Splitter<Box<dyn Read + Send>> {
    Splitter::new(source, dialect, block_bytes, 1).first_index(first_index)
}

/// The next block of such a file.
pub(crate) fn next_block(
    file: &InputFile,
    splitter: &mut Splitter<Box<dyn Read + Send>>,
) -> Result<Option<Block>> {
    splitter.next_block(Vec::new()).map_err(|error| split_error(file, error))
}

fn split_error(file: &InputFile, error: SplitError) -> Error {
    match error {
        SplitError::Io(error) => file.read_error(error),
        SplitError::TooLong { line, in_quotes } => {
            let limit = MAX_RECORD_BYTES >> 20;
            let what = match in_quotes {
                true => format!("the quote that opens here is not closed within {limit} MiB"),
                false => format!("the record that begins here is longer than {limit} MiB"),
            };
            Error::Import { path: file.path.clone(), line: Some(line), message: what }
        }
    }
}

/// Refuses text that begins as UTF-16 does: with its mark, or with a zero in every second byte,
/// which would be a letter of its own in UTF-8.
pub(crate) fn check_encoding(file: &InputFile, text: &[u8]) -> Result<()> {
    const LOOKED_AT: usize = 256;
    let head = &text[..text.len().min(LOOKED_AT)];
    let zeros = |first: usize| head.iter().skip(first).step_by(2).filter(|b| **b == 0).count();
    let (even, odd) = (zeros(0), zeros(1));
    let is_wide =
        head.len() >= 4 && even.max(odd) * 4 > head.len() && even.min(odd) * 8 < head.len();
    if head.starts_with(b"\xFF\xFE") || head.starts_with(b"\xFE\xFF") || is_wide {
        return Err(file.broken("is UTF-16; CSV of it is read with encoding = 'utf-16'"));
    }
    Ok(())
}

/// Refuses a file whose first line ends otherwise than the caller says.
fn check_new_line(file: &InputFile, text: &[u8], options: &ImportOptions) -> Result<()> {
    let Some(said) = options.new_line else { return Ok(()) };
    let Some(end) = memchr::memchr2(b'\n', b'\r', text) else { return Ok(()) };
    let found = match &text[end..] {
        [b'\n', ..] => NewLine::Lf,
        [b'\r', b'\n', ..] => NewLine::CrLf,
        _ => NewLine::Cr,
    };
    match found == said {
        true => Ok(()),
        false => {
            let (said, found) = (said.written(), found.written());
            Err(file
                .broken(&format!("option new_line says {said}, the first line ends in {found}")))
        }
    }
}

/// Refuses names of columns that are no UTF-8; `skipped` lines stand before them.
fn check_names(
    file: &InputFile,
    record: &[Option<std::borrow::Cow<'_, [u8]>>],
    skipped: u64,
) -> Result<()> {
    let Some(name) = sniff::invalid_name(record) else { return Ok(()) };
    let message = format!("column name {} is not valid UTF-8; {OTHER_ENCODING}", shown(name));
    Err(Error::Import { path: file.path.clone(), line: Some(skipped + 1), message })
}

/// The names of a header that has another number of fields than the records: those behind it have
/// none where short records are filled up.
fn fill_up_names(
    file: &InputFile,
    header: &[Option<std::borrow::Cow<'_, [u8]>>],
    sniffed: &mut Sniffed,
    fills_up: bool,
) -> Result<()> {
    let Some(fields) = sniffed.odd_header else { return Ok(()) };
    let columns = sniffed.names.len();
    if !fills_up || fields > columns {
        let message = format!("the header has {fields} fields, and the records have {columns}");
        let line = Some(sniffed.dialect.skip + 1);
        return Err(Error::Import { path: file.path.clone(), line, message });
    }
    let mut all = header.to_vec();
    all.resize(columns, None);
    sniffed.names = sniff::header_names(&all);
    Ok(())
}

type Head = (Option<Vec<String>>, u64, Box<dyn Read + Send>);

/// Reads past byte order mark, skipped lines and header: the header's names, the number of lines
/// read, and a reader of the rest.
fn read_head(
    file: &InputFile,
    mut reader: Box<dyn Read + Send>,
    dialect: &Dialect,
) -> Result<Head> {
    const STEP_BYTES: usize = 64 << 10;
    let mut text = Vec::new();
    let mut more = |text: &mut Vec<u8>| -> Result<bool> {
        let read = (&mut reader).take(STEP_BYTES as u64).read_to_end(text);
        Ok(read.map_err(|error| file.read_error(error))? == STEP_BYTES)
    };
    let mut goes_on = more(&mut text)?;
    let mut start = if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    let mut lines = 0;
    for _ in 0..dialect.skip {
        while memchr::memchr(dialect.terminator, &text[start..]).is_none() && goes_on {
            goes_on = more(&mut text)?;
        }
        let end = memchr::memchr(dialect.terminator, &text[start..]);
        lines += u64::from(end.is_some());
        start = end.map_or(text.len(), |end| start + end + 1);
    }
    if !dialect.header {
        let rest = std::io::Cursor::new(text.split_off(start)).chain(reader);
        return Ok((None, lines, Box::new(rest)));
    }
    loop {
        let mut records = RecordReader::new(&text[start..], dialect, None);
        let mut found = Fields::default();
        let read = records.read(1, &mut found);
        let end = start + records.position();
        // A record that reaches the end of what was read may go on.
        if (read.is_err() || end >= text.len()) && goes_on && text.len() < MAX_RECORD_BYTES {
            goes_on = more(&mut text)?;
            continue;
        }
        let record = sniff::first_record(&text[start..], dialect).unwrap_or_default();
        check_names(file, &record, lines)?;
        let names = sniff::header_names(&record);
        let end = if read.is_err() { text.len() } else { end };
        lines += memchr::memchr_iter(dialect.terminator, &text[start..end]).count() as u64;
        let rest = std::io::Cursor::new(text.split_off(end)).chain(reader);
        return Ok((Some(names), lines, Box::new(rest)));
    }
}

/// The first bytes of a file behind the skipped lines, and pieces from further on.
pub(crate) struct Sample {
    pub(crate) text: Vec<u8>,
    whole: bool,
    further: Vec<Vec<u8>>,
}

impl Sample {
    pub(crate) fn take(file: &InputFile, options: &ImportOptions) -> Result<Self> {
        let rows = options.sample_rows.unwrap_or(SAMPLE_ROWS);
        let limit = if rows == u64::MAX { u64::MAX } else { SAMPLE_BYTES as u64 };
        let mut text = Vec::new();
        let mut reader = file.open(None)?;
        let mut whole = false;
        // At least one record behind the first, however long they are.
        while !whole && !has_lines(&text, options.skip + 2) && text.len() < MAX_RECORD_BYTES {
            let read = (&mut reader).take(limit).read_to_end(&mut text);
            whole = (read.map_err(|error| file.read_error(error))? as u64) < limit;
        }
        let mark = if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        text.drain(..mark);
        for _ in 0..options.skip {
            let end = memchr::memchr2(b'\n', b'\r', &text).map_or(text.len(), |end| end + 1);
            let crlf = usize::from(text[..end].ends_with(b"\r") && text.get(end) == Some(&b'\n'));
            text.drain(..end + crlf);
        }
        // Cutting at the wanted number of rows is rough: a line is a row here. Before the rows may
        // stand a header, and the last line of a sample is left out, since it may be cut off.
        let lines = usize::try_from(rows).unwrap_or(usize::MAX).saturating_add(1);
        let end = memchr::memchr_iter(b'\n', &text).nth(lines);
        if let Some(end) = end {
            whole &= end + 1 == text.len();
            text.truncate(end + 1);
        }
        let further = match !whole && options.sample_rows.is_none() && file.is_plain() {
            true => further_pieces(file)?,
            false => Vec::new(),
        };
        Ok(Self { text, whole, further })
    }

    fn record_bytes(&self, sniffed: &Sniffed) -> usize {
        let lines = memchr::memchr_iter(sniffed.dialect.terminator, &self.text).count();
        self.text.len() / lines.max(1) + 1
    }
}

/// Whether there are so many line ends.
fn has_lines(text: &[u8], count: u64) -> bool {
    let wanted = usize::try_from(count).unwrap_or(usize::MAX);
    memchr::memchr2_iter(b'\n', b'\r', text).nth(wanted.saturating_sub(1)).is_some()
}

/// Pieces at even distances, each from the beginning of a line on.
fn further_pieces(file: &InputFile) -> Result<Vec<Vec<u8>>> {
    use std::os::unix::fs::FileExt;
    let fail = |error| Error::io(&file.path, error);
    let source = file.file().map_err(fail)?;
    let mut pieces = Vec::new();
    for number in 1..=FURTHER_PIECES {
        let mut piece = vec![0; FURTHER_BYTES];
        // The last piece ends with the file.
        let place = file.bytes.saturating_sub(FURTHER_BYTES as u64) / FURTHER_PIECES * number;
        let read = source.read_at(&mut piece, place).map_err(fail)?;
        piece.truncate(read);
        if let Some(end) = memchr::memchr(b'\n', &piece) {
            pieces.push(piece.split_off(end + 1));
        }
    }
    Ok(pieces)
}

fn hints(options: &ImportOptions, target: Option<&Target<'_>>) -> Hints {
    let names =
        |target: &Target<'_>| target.fields.iter().map(|field| field.name().clone()).collect();
    let of_types: Vec<String> = options.types.iter().map(|(name, _)| name.clone()).collect();
    let expected = target.map(names).or_else(|| (!of_types.is_empty()).then_some(of_types));
    Hints {
        delimiter: options.delimiter,
        comment: options.comment,
        terminator: options.new_line.map(NewLine::terminator),
        styles: options.styles(),
        lenient: options.ignore_errors,
        quote: options.quote,
        escape: options.escape,
        header: options.header,
        skip: options.skip,
        nulls: (!options.nulls.is_empty())
            .then(|| options.nulls.iter().map(|null| null.as_bytes().to_vec()).collect()),
        dates: options.dates,
        pad: options.null_padding,
        expected_names: expected,
        all_text: options.all_text,
    }
}

/// The layout of an empty file: the columns that the caller names.
fn layout_of_nothing(options: &ImportOptions) -> Layout {
    let column = |(name, of): &(String, DataType)| Field::new(name, of.clone(), true);
    let fields: Vec<Field> = options.types.iter().map(column).collect();
    Layout {
        sources: (0..fields.len()).map(Some).collect(),
        file_columns: fields.iter().map(|field| field.name().clone()).collect(),
        guessed: vec![false; fields.len()],
        schema: Arc::new(Schema::new(fields)),
    }
}

/// The layout when there is no table yet: all columns, with the sniffed types or the caller's.
fn layout_alone(file: &InputFile, sniffed: &Sniffed, options: &ImportOptions) -> Result<Layout> {
    let mut names = names(file, sniffed, options)?;
    // Types for all columns of a file without header name them.
    let unnamed = !sniffed.dialect.header && options.names.is_empty();
    if unnamed && options.types.len() == names.len() {
        names = options.types.iter().map(|(name, _)| name.clone()).collect();
    }
    let mut types = sniffed.types.clone();
    let mut guessed = vec![true; types.len()];
    check_count(file, "types", options.types_in_order.len(), types.len())?;
    for (at, data_type) in options.types_in_order.iter().enumerate() {
        types[at] = data_type.clone();
        guessed[at] = false;
    }
    for (name, data_type) in &options.types {
        match names.iter().position(|other| other.eq_ignore_ascii_case(name)) {
            Some(at) => {
                types[at] = data_type.clone();
                guessed[at] = false;
            }
            None => {
                let kind = swingdb_common::error::ObjectKind::Column;
                let missing = Error::not_found(kind, name.clone(), &names);
                return Err(file.broken(&missing.to_string()));
            }
        }
    }
    let fields: Vec<Field> = names
        .iter()
        .zip(types)
        .map(|(name, data_type)| Field::new(name, data_type, true))
        .collect();
    Ok(Layout {
        schema: Arc::new(Schema::new(fields)),
        sources: (0..names.len()).map(Some).collect(),
        file_columns: names,
        guessed,
    })
}

/// The names of all columns: those that the caller gives the first ones, and those found.
fn names(file: &InputFile, sniffed: &Sniffed, options: &ImportOptions) -> Result<Vec<String>> {
    let mut names = sniffed.names.clone();
    check_count(file, "names", options.names.len(), names.len())?;
    for (at, name) in options.names.iter().enumerate() {
        names[at].clone_from(name);
    }
    for name in names.iter().skip(options.names.len()) {
        if options.names.iter().any(|given| given.eq_ignore_ascii_case(name)) {
            let message = format!("two columns are called {name:?}; name all of them");
            return Err(file.broken(&message));
        }
    }
    Ok(names)
}

fn check_count(file: &InputFile, option: &str, given: usize, columns: usize) -> Result<()> {
    match given > columns {
        true => Err(file.broken(&format!("there are {columns} columns, and {given} {option}"))),
        false => Ok(()),
    }
}

/// The layout for a table's columns.
fn layout_for_target(
    file: &InputFile,
    sniffed: &Sniffed,
    options: &ImportOptions,
    target: &Target<'_>,
) -> Result<(Layout, Option<Vec<usize>>)> {
    let names = names(file, sniffed, options)?;
    let are_named = sniffed.dialect.header || options.names.len() == names.len();
    let named = are_named.then_some(&names[..]);
    let Matched { target_columns } = match_columns(&file.path, named, names.len(), target)?;
    check_count(file, "types", options.types_in_order.len(), names.len())?;
    let fields: Vec<Field> = target_columns
        .iter()
        .enumerate()
        .map(|(at, column)| {
            let field = &target.fields[*column];
            let given =
                options.types.iter().find(|(name, _)| name.eq_ignore_ascii_case(field.name()));
            let given = given.map(|(_, data_type)| data_type).or(options.types_in_order.get(at));
            let data_type = given.unwrap_or(field.data_type());
            Field::new(field.name(), data_type.clone(), true)
        })
        .collect();
    let layout = Layout {
        schema: Arc::new(Schema::new(fields)),
        sources: (0..target_columns.len()).map(Some).collect(),
        file_columns: names,
        guessed: vec![false; target_columns.len()],
    };
    Ok((layout, Some(target_columns)))
}

impl Layout {
    /// Only the columns `projection`.
    fn project(&self, projection: &[usize]) -> Result<Self> {
        Ok(Self {
            schema: Arc::new(self.schema.project(projection)?),
            sources: projection.iter().map(|column| self.sources[*column]).collect(),
            file_columns: self.file_columns.clone(),
            guessed: projection.iter().map(|column| self.guessed[*column]).collect(),
        })
    }

    /// The same columns in a further file, which may have them in another order.
    fn for_header(&self, file: &InputFile, names: &[String]) -> Result<Self> {
        let find = |wanted: &String| {
            names.iter().position(|name| name.eq_ignore_ascii_case(wanted)).ok_or_else(|| {
                file.broken(&format!("has no column {wanted:?}, which the first file has"))
            })
        };
        if names.len() != self.file_columns.len() {
            let (here, there) = (names.len(), self.file_columns.len());
            return Err(file.broken(&format!("has {here} columns, the first file has {there}")));
        }
        let places: Vec<usize> = self.file_columns.iter().map(find).collect::<Result<_>>()?;
        Ok(Self {
            schema: Arc::clone(&self.schema),
            sources: self.sources.iter().map(|source| source.map(|old| places[old])).collect(),
            file_columns: names.to_vec(),
            guessed: self.guessed.clone(),
        })
    }
}
