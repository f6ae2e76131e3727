//! JSON: one object a line, objects over several lines, or one array of objects.
//!
//! Lines are cut and decoded in parallel like CSV records. A sample gives the columns ([`shape`]):
//! the members of its objects, in the order of their first appearance. A column of strings that
//! are all dates or timestamps gets that type. A key, or a type, first seen after the sample is an
//! error ([`crate::text::json_values`]), so that no value is dropped silently.

mod lenient;
mod shape;
mod whole;
pub(crate) mod write;

use std::io::Read;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema, SchemaRef};
use parking_lot::Mutex;
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_common::time::zones::rezoned;

use crate::csv;
use crate::input::InputFile;
use crate::json::shape::Members;
use crate::options::{ImportOptions, JsonForm};
use crate::reading::match_columns;
use crate::reading::{FileSink, Run, Target};
use crate::text::dialect::Dialect;
use crate::text::json_scanner::{Fault, Scanner, Token};
use crate::text::json_values::{Failure, Kind, Plan, SAMPLED};
use crate::text::shown::{BYTE_ORDER_MARK, shown};
use crate::text::split::{Block, MAX_RECORD_BYTES};

const SAMPLE_ROWS: u64 = 20_480;
const SAMPLE_BYTES: u64 = 8 << 20;
const MIN_BLOCK_BYTES: usize = 256 << 10;
const MAX_BLOCK_BYTES: usize = 16 << 20;

/// How a set of JSON files is read.
pub(crate) struct JsonScan {
    plan: Plan,
    target_columns: Option<Vec<usize>>,
    block_bytes: Option<usize>,
    line_bytes: usize,
    /// How values stand in the files; found out when `None`.
    form: Option<JsonForm>,
    reading: Reading,
}

/// What becomes of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading {
    /// A value is one text.
    whole: bool,
    /// Faulty lines and values are NULL.
    lenient: bool,
}

impl JsonScan {
    /// Finds the columns in a sample of the first file.
    pub(crate) fn open(
        files: &[InputFile],
        options: &ImportOptions,
        target: Option<&Target<'_>>,
    ) -> Result<Self> {
        let Some(first) = files.first() else { return Err(Error::internal("no JSON file")) };
        let (form, block_bytes) = (options.json_form, options.block_bytes);
        let reading = Reading { whole: options.whole_json, lenient: options.ignore_errors };
        if reading.whole {
            let plan = Plan {
                schema: whole::schema(),
                keys: vec!["json".to_string()],
                kinds: vec![Kind::Json],
                unknown: SAMPLED,
            };
            let (target_columns, line_bytes) = (None, 256);
            return Ok(Self { plan, target_columns, block_bytes, line_bytes, form, reading });
        }
        let sample = Sample::take(first, options)?;
        let line_bytes = sample.line_bytes();
        let is_empty = sample.rows == 0;
        if is_empty && let Some(bad) = sample.bad {
            return Err(bad);
        }
        if is_empty && target.is_none() && options.types.is_empty() {
            return Err(first.broken("is empty: nothing to find columns in"));
        }
        let (fields, keys, kinds) = sample.members.columns();
        if fields.is_empty() && !is_empty && target.is_none() {
            return Err(first.broken("has objects without members: nothing to find columns in"));
        }
        let sampled = Plan { schema: Arc::new(Schema::new(fields)), keys, kinds, unknown: SAMPLED };
        let (plan, target_columns) = match target {
            None => (given_types(first, sampled, options, is_empty)?, None),
            Some(target) => {
                let (plan, columns) = for_target(first, sampled, options, target)?;
                (plan, Some(columns))
            }
        };
        sample.check(first, &plan)?;
        Ok(Self { plan, target_columns, block_bytes, line_bytes, form, reading })
    }

    /// The columns.
    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.plan.schema)
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
        let full = self.line_bytes.saturating_mul(run.batch_rows) / 100 * 97;
        let block_bytes =
            self.block_bytes.unwrap_or_else(|| full.clamp(MIN_BLOCK_BYTES, MAX_BLOCK_BYTES));
        let plan = self.plan.in_zone(run.zone);
        let schema = match run.projection {
            Some(columns) => Arc::new(self.plan.schema.project(columns)?),
            None => Arc::clone(&self.plan.schema),
        };
        let mut order = 0;
        for (number, file) in files.iter().enumerate() {
            let reader = open_lines(file, Some(run), self.form)?;
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
            let work = |order: u64, block: Block| {
                let batch = self.reading.decode(file, &plan, &block, run.projection)?;
                sink(order, number, rezoned(&batch, &schema)?)
            };
            run.in_parallel(next, work)?;
            order = last.into_inner();
        }
        Ok(())
    }
}

/// Lines, and nothing else is special.
fn line_dialect() -> Dialect {
    Dialect { quote: None, escape: None, header: false, ..Dialect::default() }
}

fn open_lines(
    file: &InputFile,
    run: Option<&Run<'_>>,
    form: Option<JsonForm>,
) -> Result<Box<dyn Read + Send>> {
    let mut reader = file.open(run.map(|run| Arc::clone(&run.meter)))?;
    let mut head = Vec::new();
    let read = (&mut reader).take(4_096).read_to_end(&mut head);
    read.map_err(|error| file.read_error(error))?;
    if head.starts_with(BYTE_ORDER_MARK) {
        head.drain(..BYTE_ORDER_MARK.len());
    }
    let form = form.unwrap_or_else(|| JsonForm::of(&head));
    let begins = head.trim_ascii_start().first();
    if form == JsonForm::Array && !matches!(begins, None | Some(b'[')) {
        return Err(file.broken("is no array, which the options say it is"));
    }
    let whole = std::io::Cursor::new(head).chain(reader);
    Ok(match form {
        JsonForm::Lines => Box::new(whole),
        JsonForm::Array | JsonForm::Spread => Box::new(ObjectLines::new(whole, form)),
    })
}

impl JsonForm {
    /// By the beginning of a file. A line that could end there is taken to, so that a line which is
    /// broken is an error and does not swallow the next ones.
    fn of(head: &[u8]) -> Self {
        let head = head.trim_ascii_start();
        let end = memchr::memchr(b'\n', head);
        let (line, rest) = head.split_at(end.unwrap_or(head.len()));
        match (head.first(), line.trim_ascii_end()) {
            (Some(b'['), _) => Self::Array,
            (Some(b'{'), [.., b'{' | b'[']) if end.is_some() => Self::Spread,
            (Some(b'{'), [.., b',']) if end.is_some() => {
                // A name follows in an object, and no other object.
                let is_next = rest.trim_ascii_start().first() == Some(&b'{');
                match is_next && ends_in_object(line) {
                    true => Self::Lines,
                    false => Self::Spread,
                }
            }
            _ => Self::Lines,
        }
    }
}

/// Whether the last bracket that a text leaves open is that of an object.
fn ends_in_object(text: &[u8]) -> bool {
    let (mut open, mut strings) = (Vec::new(), Strings::default());
    for byte in text {
        match byte {
            byte if strings.have(*byte) => {}
            b'[' | b'{' => open.push(*byte),
            b']' | b'}' => drop(open.pop()),
            _ => {}
        }
    }
    open.last() == Some(&b'{')
}

impl Reading {
    /// The rows of a block; the error is that of its first faulty line.
    fn decode(
        self,
        file: &InputFile,
        plan: &Plan,
        block: &Block,
        projection: Option<&[usize]>,
    ) -> Result<RecordBatch> {
        match self.rows(plan, &block.text, projection) {
            Ok(batch) => Ok(batch),
            Err(_) if self.lenient => lenient::decode(&block.text, plan, projection),
            Err(_) => Err(self.first_bad_line(file, plan, block, projection)),
        }
    }

    /// The rows of some lines.
    fn rows(
        self,
        plan: &Plan,
        text: &[u8],
        projection: Option<&[usize]>,
    ) -> std::result::Result<RecordBatch, Failure> {
        if self.whole {
            return whole::decode(text, projection, self.lenient);
        }
        match std::str::from_utf8(text) {
            Ok(text) => plan.decode(text, projection),
            Err(_) => {
                let wrong = "is not valid UTF-8; convert the file to UTF-8 first";
                Err(Fault::new(0, wrong).into())
            }
        }
    }

    /// The error for the first line of a block that cannot be decoded alone.
    fn first_bad_line(
        self,
        file: &InputFile,
        plan: &Plan,
        block: &Block,
        projection: Option<&[usize]>,
    ) -> Error {
        for (number, line) in block.text.split(|byte| *byte == b'\n').enumerate() {
            let wrong = match self.rows(plan, line, projection) {
                Ok(_) => continue,
                Err(Failure::Fault(fault)) => told(&fault),
                Err(Failure::Late(error)) => {
                    format!("does not fit the columns: {}", Error::from(error))
                }
            };
            return line_error(file, block.first_line + number as u64, line, &wrong);
        }
        file.broken("cannot be read as a whole, though each of its lines can")
    }
}

fn line_error(file: &InputFile, number: u64, line: &[u8], wrong: &str) -> Error {
    let message = format!("{} {wrong}", shown(line.trim_ascii_end()));
    Error::Import { path: file.path.clone(), line: Some(number), message }
}

fn told(fault: &Fault) -> String {
    let message = fault.message();
    match message.contains("the line ends") {
        true => format!("{message}; write each object on one line"),
        false => message,
    }
}

/// The first lines of a file.
struct Sample {
    text: Vec<u8>,
    members: Members,
    rows: u64,
    /// The error of the line that ended the sample.
    bad: Option<Error>,
}

impl Sample {
    fn take(file: &InputFile, options: &ImportOptions) -> Result<Self> {
        let rows = options.sample_rows.unwrap_or(SAMPLE_ROWS);
        let limit = if rows == u64::MAX { u64::MAX } else { SAMPLE_BYTES };
        let mut text = Vec::new();
        let mut reader = open_lines(file, None, options.json_form)?;
        let read = (&mut reader).take(limit).read_to_end(&mut text);
        let whole = (read.map_err(|error| file.read_error(error))? as u64) < limit;
        if !whole {
            // At least one line, however long it is.
            while memchr::memchr(b'\n', &text).is_none() && text.len() < MAX_RECORD_BYTES {
                let read = (&mut reader).take(limit).read_to_end(&mut text);
                if read.map_err(|error| file.read_error(error))? == 0 {
                    break;
                }
            }
            let end = memchr::memrchr(b'\n', &text).map_or(text.len(), |end| end + 1);
            text.truncate(end);
        }
        if !options.ignore_errors {
            csv::check_encoding(file, &text)?;
        }
        let mut sample = Self { text, members: Members::default(), rows: 0, bad: None };
        let text = std::mem::take(&mut sample.text);
        let mut end = 0;
        for (number, line) in (1..).zip(text.split_inclusive(|byte| *byte == b'\n')) {
            if sample.rows >= rows {
                break;
            }
            if let Err(wrong) = sample.add(line)
                && !options.ignore_errors
            {
                sample.bad = Some(line_error(file, number, line, &wrong));
                break;
            }
            end += line.len();
        }
        sample.text = text;
        sample.text.truncate(end);
        Ok(sample)
    }

    /// Takes in a line; the error says what is wrong with it.
    fn add(&mut self, line: &[u8]) -> std::result::Result<(), String> {
        let invalid = || "is not valid UTF-8; convert the file to UTF-8 first".to_string();
        let line = std::str::from_utf8(line).map_err(|_| invalid())?;
        let mut scanner = Scanner::new(line, 0);
        if scanner.line_end() {
            return Ok(());
        }
        let mut add = || {
            if !matches!(scanner.token()?, Token::Object) {
                return scanner
                    .fault("is no JSON object; read_json_objects reads values of any kind");
            }
            self.members.add(&mut scanner, 1)?;
            match scanner.line_end() {
                true => Ok(()),
                false => scanner.fault("is more than one JSON object"),
            }
        };
        add().map_err(|fault| told(&fault))?;
        self.rows += 1;
        Ok(())
    }

    /// Bytes of a line, on average.
    fn line_bytes(&self) -> usize {
        self.text.len() / usize::try_from(self.rows).unwrap_or(usize::MAX).max(1) + 1
    }

    /// The error of the first faulty line, when one has been met: those before it may be faulty
    /// too, when they are read as rows of the plan.
    fn check(self, file: &InputFile, plan: &Plan) -> Result<()> {
        let Some(bad) = self.bad else { return Ok(()) };
        let block = Block { index: 0, first_line: 1, text: self.text };
        Reading { whole: false, lenient: false }.decode(file, plan, &block, None)?;
        Err(bad)
    }
}

/// The plan with the types that the caller gives: of members that the sample has, or of all.
fn given_types(
    file: &InputFile,
    plan: Plan,
    options: &ImportOptions,
    is_empty: bool,
) -> Result<Plan> {
    let Plan { schema, mut keys, mut kinds, .. } = plan;
    let mut fields: Vec<Field> = schema.fields().iter().map(|field| Field::clone(field)).collect();
    for (name, data_type) in &options.types {
        let same = |field: &Field| field.name() == name;
        let similar = |field: &Field| field.name().eq_ignore_ascii_case(name);
        // A key may have blanks around it, which the name of a column has only if it is given.
        let key = keys.iter().position(|key| key == name);
        let at = key.or_else(|| fields.iter().position(same));
        let at = at.or_else(|| fields.iter().position(similar));
        match at {
            Some(at) => {
                let is_trimmed = key.is_some() && fields[at].name() == name.trim();
                let name = if is_trimmed { name } else { fields[at].name() };
                fields[at] = Field::new(name, data_type.clone(), true);
                kinds[at] = Kind::Given;
            }
            None if is_empty => {
                fields.push(Field::new(name, data_type.clone(), true));
                keys.push(name.clone());
                kinds.push(Kind::Given);
            }
            None => {
                let known = schema.fields().iter().map(|field| field.name());
                let missing = Error::not_found(ObjectKind::Column, name.clone(), known);
                return Err(file.broken(&missing.to_string()));
            }
        }
    }
    Ok(Plan { schema: Arc::new(Schema::new(fields)), keys, kinds, unknown: SAMPLED })
}

/// The plan for a table's columns. Members without a column of their own are an error, absent ones
/// are NULL.
fn for_target(
    file: &InputFile,
    plan: Plan,
    options: &ImportOptions,
    target: &Target<'_>,
) -> Result<(Plan, Vec<usize>)> {
    let names = &plan.keys;
    let columns = match names.is_empty() {
        // No rows, or none that says anything, whatever their columns would be.
        true => Vec::new(),
        false => {
            match_columns::match_columns(&file.path, Some(names), names.len(), target)?
                .target_columns
        }
    };
    let fields = columns.iter().zip(names).map(|(column, name)| {
        let field = &target.fields[*column];
        let same = |(name, _): &&(String, _)| field.name().eq_ignore_ascii_case(name);
        let given = options.types.iter().find(same);
        let data_type = given.map_or(field.data_type(), |(_, data_type)| data_type);
        Field::new(name, data_type.clone(), true)
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let kinds = vec![Kind::Given; names.len()];
    Ok((Plan { schema, keys: plan.keys, kinds, unknown: SAMPLED }, columns))
}

/// Tells the bytes of texts from others, one after the other.
#[derive(Default)]
struct Strings {
    inside: bool,
    escaped: bool,
}

impl Strings {
    /// Whether the next byte belongs to a text; its quotes do.
    fn have(&mut self, byte: u8) -> bool {
        let was_inside = self.inside;
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' => self.escaped = was_inside,
            b'"' => self.inside = !was_inside,
            _ => {}
        }
        was_inside || self.inside
    }
}

/// Gives each object a line while a file is read: elements of an array, objects over several lines.
struct ObjectLines<R> {
    source: R,
    /// How deep the objects lie.
    outside: usize,
    depth: usize,
    strings: Strings,
    buffer: Vec<u8>,
}

impl<R: Read> ObjectLines<R> {
    fn new(source: R, form: JsonForm) -> Self {
        let outside = usize::from(form == JsonForm::Array);
        let buffer = Vec::new();
        Self { source, outside, depth: 0, strings: Strings::default(), buffer }
    }

    /// The byte that stands for `byte`.
    fn translate(&mut self, byte: u8) -> u8 {
        if self.strings.have(byte) {
            return byte;
        }
        match byte {
            b'[' | b'{' => {
                self.depth += 1;
                if self.depth == self.outside {
                    return b' ';
                }
            }
            b']' | b'}' => {
                let was = self.depth;
                self.depth = was.saturating_sub(1);
                if was > 0 && was == self.outside {
                    return b'\n';
                }
            }
            b',' if self.outside > 0 && self.depth == self.outside => return b'\n',
            b'\n' | b'\r' if self.outside > 0 || self.depth > 0 => return b' ',
            _ => {}
        }
        byte
    }
}

impl<R: Read> Read for ObjectLines<R> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(out.len(), 0);
        let read = self.source.read(&mut buffer)?;
        if read == 0 && !out.is_empty() && (self.depth > 0 || self.strings.inside) {
            let what = match self.outside {
                0 => "an object is not closed: the end of the file is missing",
                _ => "the array is not closed: the end of the file is missing",
            };
            return Err(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, what));
        }
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
    fn an_array_that_is_cut_off_is_an_error() {
        let whole = br#"[{"a": 1}, {"a": "]"}]"#;
        for length in 0..=whole.len() {
            let mut lines = ObjectLines::new(&whole[..length], JsonForm::Array);
            let read = lines.read_to_string(&mut String::new());
            assert_eq!(read.is_ok(), length == 0 || length == whole.len(), "{length}");
        }
    }

    #[test]
    fn arrays_become_lines() {
        let text = br#" [ {"a": [1, 2], "b": "x],\"{"} ,
            {"a": [],
             "b": "\\"} ] "#;
        let mut out = String::new();
        ObjectLines::new(&text[..], JsonForm::Array).read_to_string(&mut out).unwrap();
        let lines: Vec<&str> = out.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        assert_eq!(lines.len(), 2, "{out}");
        for line in lines {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(value.is_object());
        }
    }

    #[test]
    fn objects_over_several_lines_become_lines() {
        let text = "{\n \"a\": {\"b\": [1,\n2]},\n\"c\": \"}\\\"\"\n}\n\n{\r\n}\n";
        let mut out = String::new();
        ObjectLines::new(text.as_bytes(), JsonForm::Spread).read_to_string(&mut out).unwrap();
        let lines: Vec<&str> = out.lines().filter(|line| !line.trim().is_empty()).collect();
        assert_eq!(lines.len(), 2, "{out}");
        for line in lines {
            assert!(serde_json::from_str::<serde_json::Value>(line).unwrap().is_object());
        }
        let whole = ObjectLines::new(&text.as_bytes()[..10], JsonForm::Spread);
        assert!(std::io::read_to_string(whole).unwrap_err().to_string().contains("not closed"));
        for (head, form) in [
            (" [\n", JsonForm::Array),
            ("{\n", JsonForm::Spread),
            ("\n{\"a\": {\r\n", JsonForm::Spread),
            ("{\"a\": 1,\n", JsonForm::Spread),
            ("{\"a\": 1,\n\n\"b\": 2}", JsonForm::Spread),
            ("{\"a\": [\"]\\\"\", {},\n{\"b\": 2}]}", JsonForm::Spread),
            ("{\"a\": [1], \"b\": {},\n{\"a\": 1}", JsonForm::Lines),
            ("{\"a\":\n{\"a\": 1}", JsonForm::Lines),
            ("{\"a\": 1}\n{", JsonForm::Lines),
            ("{", JsonForm::Lines),
            ("", JsonForm::Lines),
        ] {
            assert_eq!(JsonForm::of(head.as_bytes()), form, "{head:?}");
        }
    }
}
