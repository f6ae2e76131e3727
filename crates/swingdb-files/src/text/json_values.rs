//! From JSON text to Arrow columns, exactly or not at all.
//!
//! Each value goes straight into the array that is being built for its column. A value that is not
//! of its column's type, a member that no column has, and one that is there twice are errors with
//! their place; nothing is cut, rounded or dropped. Numbers and times are parsed as fields of CSV
//! files are ([`Column`](crate::text::columns::Column)).
//!
//! **Cycle.** A field of a nested type is JSON, whose single values are read as fields are.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryViewBuilder, FixedSizeListArray, GenericListArray, MapArray, NullBufferBuilder,
    OffsetSizeTrait, RecordBatch, RecordBatchOptions, StringViewBuilder, StructArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, SchemaRef};
use arrow::error::ArrowError;
use swingdb_common::time::zones::{Zone, schema_in_zone};

use crate::text::columns::{Column as Leaf, Reading};
use crate::text::json_scanner::{Fault, Scanned, Scanner, Token};
use crate::text::shown::shown;
use crate::text::types::described;
use crate::text::values;
use crate::text::values::DateStyle;

/// Members of an object up to which they are looked through one by one.
const FEW_MEMBERS: usize = 8;
/// Strings longer than an inline view go into blocks of this size.
const STRING_BLOCK_BYTES: u32 = 1 << 20;

/// How values become those of a type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    /// The type is a guess: only what is written as its values are.
    Guessed,
    /// Strings, as they are.
    Text,
    /// Any value, as it stands in the text.
    Json,
    /// Lists of a guessed type.
    List(Box<Kind>),
    /// Structs of guessed types: the members' names in the file, and what they are.
    Object { keys: Vec<String>, kinds: Vec<Kind> },
    /// The caller has given the type: strings may say numbers, and VARCHAR takes what is no string
    /// as it stands in the text.
    Given,
}

/// How lines become rows.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The columns of the batches.
    pub(crate) schema: SchemaRef,
    /// For each of them the member's name in the file.
    pub(crate) keys: Vec<String>,
    pub(crate) kinds: Vec<Kind>,
    /// What an unknown member's error says about it.
    pub(crate) unknown: &'static str,
}

/// Why lines did not become rows.
#[derive(Debug)]
pub(crate) enum Failure {
    Fault(Fault),
    /// A value turned out to be none when the column was complete.
    Late(ArrowError),
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<ArrowError> for Failure {
    fn from(error: ArrowError) -> Self {
        Self::Late(error)
    }
}

impl Plan {
    /// The same plan, by which points in time that name no offset are told by the clock of `zone`.
    pub(crate) fn in_zone(&self, zone: Zone) -> Self {
        Self { schema: Arc::new(schema_in_zone(&self.schema, zone)), ..self.clone() }
    }

    /// All rows of some lines, each of which is one object or blank, with the columns `projection`.
    pub(crate) fn decode(
        &self,
        text: &str,
        projection: Option<&[usize]>,
    ) -> Result<RecordBatch, Failure> {
        let schema = match projection {
            Some(projection) => Arc::new(self.schema.project(projection)?),
            None => Arc::clone(&self.schema),
        };
        if let Some(at) = control_character(text) {
            return Err(Fault::new(at, "is no JSON: it has a control character").into());
        }
        let rows = memchr::memchr_iter(b'\n', text.as_bytes()).count() + 1;
        let wanted = |column: &usize| projection.is_none_or(|some| some.contains(column));
        let column = |at: usize| match wanted(&at) {
            true => {
                let data_type = self.schema.field(at).data_type();
                Column::new(data_type, &self.kinds[at], rows).map(|column| Some(Box::new(column)))
            }
            false => Ok(None),
        };
        let columns = (0..self.keys.len()).map(column).collect::<Result<Vec<_>, _>>()?;
        let mut members = Members::new(self.keys.clone(), columns, false);
        let mut scanner = Scanner::new(text, 0);
        let mut rows = 0;
        while !scanner.at_end() {
            if scanner.line_end() {
                continue;
            }
            let token = scanner.token()?;
            if !matches!(token, Token::Object) {
                return Err(Fault::new(scanner.position(), "is no JSON object").into());
            }
            members.push(&mut scanner, 1, self.unknown)?;
            if !scanner.line_end() {
                return Err(Fault::new(scanner.position(), "is more than one JSON object").into());
            }
            rows += 1;
        }
        let mut arrays: Vec<Option<ArrayRef>> = Vec::new();
        for column in members.columns {
            arrays.push(column.map(|column| column.finish()).transpose()?);
        }
        let all: Vec<usize> = (0..arrays.len()).collect();
        let places = projection.unwrap_or(&all);
        let arrays = places.iter().filter_map(|place| arrays[*place].clone()).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
    }
}

/// The first control character that JSON has nowhere.
fn control_character(text: &str) -> Option<usize> {
    const PIECE_BYTES: usize = 4096;
    let bad = |byte: &u8| *byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r');
    // Whole pieces first: that needs no branch for each byte.
    let mut pieces = text.as_bytes().chunks(PIECE_BYTES);
    let start = pieces.position(|piece| piece.iter().filter(|byte| bad(byte)).count() > 0)?;
    let start = start * PIECE_BYTES;
    text.as_bytes()[start..].iter().position(bad).map(|at| start + at)
}

/// Values of one type, from texts of their own.
pub(crate) struct Values(Column);

impl Values {
    pub(crate) fn new(data_type: &DataType) -> Result<Self, ArrowError> {
        Ok(Self(Column::new(data_type, &Kind::Given, 0)?))
    }

    /// Appends the value that `text` is.
    pub(crate) fn push(&mut self, text: &str) -> Result<(), ArrowError> {
        let one_line;
        let text = match memchr::memchr(b'\n', text.as_bytes()) {
            Some(_) => {
                one_line = text.replace('\n', " ");
                one_line.as_str()
            }
            None => text,
        };
        let mut push = || {
            if let Some(at) = control_character(text) {
                return Err(Fault::new(at, "is no JSON: it has a control character"));
            }
            let mut scanner = Scanner::new(text, 0);
            let token = scanner.token()?;
            self.0.push(&mut scanner, token, 0)?;
            match scanner.line_end() {
                true => Ok(()),
                false => scanner.fault("is more than one JSON value"),
            }
        };
        push().map_err(|fault: Fault| {
            ArrowError::ParseError(format!("{}: {}", shown(text.as_bytes()), fault.message()))
        })
    }

    pub(crate) fn finish(self) -> Result<ArrayRef, ArrowError> {
        self.0.finish()
    }
}

/// A column in the making.
struct Column {
    data_type: DataType,
    data: Data,
}

enum Data {
    /// Numbers, truths and times.
    Leaf {
        column: Leaf,
        takes: Takes,
    },
    Text {
        out: StringViewBuilder,
        takes: Takes,
    },
    /// Bytes as pairs of hexadecimal digits.
    Hex(BinaryViewBuilder),
    List {
        ends: Vec<usize>,
        item: Box<Column>,
        valid: NullBufferBuilder,
    },
    Struct {
        members: Members,
        valid: NullBufferBuilder,
        hint: &'static str,
    },
    Map {
        ends: Vec<usize>,
        keys: Box<Column>,
        values: Box<Column>,
        valid: NullBufferBuilder,
    },
}

/// Which values a column takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    Bools,
    Numbers,
    Texts,
    /// What the type is written as, or a string that says the same.
    BoolsAndTexts,
    NumbersAndTexts,
    /// All, as they stand in the text; strings say what they say.
    All,
    /// All as they stand in the text.
    Json,
}

impl Column {
    fn new(data_type: &DataType, kind: &Kind, rows: usize) -> Result<Self, ArrowError> {
        let strings =
            || StringViewBuilder::with_capacity(rows).with_fixed_block_size(STRING_BLOCK_BYTES);
        let valid = || NullBufferBuilder::new(rows);
        let inner = |kind: &Kind| match kind {
            Kind::List(inner) => Kind::clone(inner),
            other => other.clone(),
        };
        let data = match data_type {
            DataType::Utf8View | DataType::Utf8 | DataType::LargeUtf8 => {
                let takes = match kind {
                    Kind::Json => Takes::Json,
                    Kind::Given => Takes::All,
                    _ => Takes::Texts,
                };
                Data::Text { out: strings(), takes }
            }
            DataType::BinaryView
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::FixedSizeBinary(_) => Data::Hex(
                BinaryViewBuilder::with_capacity(rows).with_fixed_block_size(STRING_BLOCK_BYTES),
            ),
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                let item = Self::new(item.data_type(), &inner(kind), rows)?;
                Data::List { ends: Vec::with_capacity(rows), item: Box::new(item), valid: valid() }
            }
            DataType::Struct(fields) => {
                let members = Members::of_struct(fields, kind, rows)?;
                let hint = match kind {
                    Kind::Given => GIVEN,
                    _ => SAMPLED,
                };
                Data::Struct { members, valid: valid(), hint }
            }
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(fields) if fields.len() == 2 => Data::Map {
                    ends: Vec::with_capacity(rows),
                    keys: Box::new(Self::new(fields[0].data_type(), &Kind::Given, rows)?),
                    values: Box::new(Self::new(fields[1].data_type(), &Kind::Given, rows)?),
                    valid: valid(),
                },
                _ => return Err(unreadable(data_type)),
            },
            other if other.is_nested() || matches!(other, DataType::Dictionary(..)) => {
                return Err(unreadable(data_type));
            }
            leaf => {
                let guessed = *kind == Kind::Guessed;
                let reading = Reading { dates: DateStyle::Iso, guessed };
                let takes = match (leaf, guessed) {
                    (DataType::Boolean, true) => Takes::Bools,
                    (DataType::Boolean, false) => Takes::BoolsAndTexts,
                    (number, true) if number.is_numeric() => Takes::Numbers,
                    (number, false) if number.is_numeric() => Takes::NumbersAndTexts,
                    _ => Takes::Texts,
                };
                Data::Leaf { column: Leaf::new(leaf, reading, rows), takes }
            }
        };
        Ok(Self { data_type: data_type.clone(), data })
    }

    /// Appends the value that begins with `token`.
    fn push<'a>(
        &mut self,
        scanner: &mut Scanner<'a>,
        token: Token<'a>,
        depth: usize,
    ) -> Scanned<()> {
        match (&mut self.data, token) {
            (Data::Text { takes: Takes::Json, .. }, token) if !matches!(token, Token::Null) => {
                self.push_text(scanner, token, depth)
            }
            (_, Token::Null) => {
                self.push_null();
                Ok(())
            }
            (Data::Leaf { .. }, _) => self.push_leaf(scanner, token, depth),
            (Data::Text { .. }, _) => self.push_text(scanner, token, depth),
            (Data::Hex(out), Token::Text(text)) => {
                let bytes = hex(text.value().as_bytes());
                match bytes.map(|bytes| out.try_append_value(bytes)) {
                    Some(Ok(())) => Ok(()),
                    _ => self.wrong(scanner, token, depth),
                }
            }
            (Data::List { ends, item, valid }, Token::List) => {
                let depth = scanner.deeper(token, depth)?;
                let start = ends.last().copied().unwrap_or(0);
                let mut count = 0;
                while scanner.element(count == 0)? {
                    let token = scanner.token()?;
                    item.push(scanner, token, depth)?;
                    count += 1;
                }
                if let DataType::FixedSizeList(_, length) = &self.data_type
                    && count != *length as usize
                {
                    return scanner.fault(format!("a list of {count} where {length} are expected"));
                }
                ends.push(start + count);
                valid.append_non_null();
                Ok(())
            }
            (Data::Struct { members, valid, hint }, Token::Object) => {
                let depth = scanner.deeper(token, depth)?;
                valid.append_non_null();
                members.push(scanner, depth, hint)
            }
            (Data::Map { .. }, Token::Object) => {
                let depth = scanner.deeper(token, depth)?;
                self.push_map(scanner, depth)
            }
            _ => self.wrong(scanner, token, depth),
        }
    }

    #[inline]
    fn push_leaf<'a>(
        &mut self,
        scanner: &mut Scanner<'a>,
        token: Token<'a>,
        depth: usize,
    ) -> Scanned<()> {
        let Data::Leaf { column, takes } = &mut self.data else { return Ok(()) };
        use Takes::{Bools, BoolsAndTexts, Numbers, NumbersAndTexts, Texts};
        let pushed = match (token, *takes) {
            (Token::Bool(value), Bools | BoolsAndTexts) => {
                column.push(Some(if value { "true" } else { "false" }))
            }
            (Token::Number(text), Numbers | NumbersAndTexts) => match column.push(Some(text)) {
                // A whole number may be written with an exponent, or with zeros behind a point.
                Err(error) if self.data_type.is_integer() => {
                    let whole = values::decimal(text.as_bytes(), 38, 0);
                    whole.ok_or(error).and_then(|whole| column.push(Some(&whole.to_string())))
                }
                pushed => pushed,
            },
            (Token::Text(text), Texts | BoolsAndTexts | NumbersAndTexts) => match text.plain() {
                Some(plain) => column.push(Some(plain)),
                None => column.push(Some(&text.value())),
            },
            _ => return self.wrong(scanner, token, depth),
        };
        match pushed {
            Ok(()) => Ok(()),
            Err(_) => self.wrong(scanner, token, depth),
        }
    }

    #[inline]
    fn push_text<'a>(
        &mut self,
        scanner: &mut Scanner<'a>,
        token: Token<'a>,
        depth: usize,
    ) -> Scanned<()> {
        let Data::Text { out, takes } = &mut self.data else { return Ok(()) };
        let appended = match (token, *takes) {
            (Token::Text(text), Takes::Texts | Takes::All) => match text.plain() {
                Some(plain) => out.try_append_value(plain),
                None => out.try_append_value(text.value()),
            },
            (_, Takes::Texts) => return self.wrong(scanner, token, depth),
            _ => {
                let start = scanner.start_of(token);
                scanner.skip(token, depth)?;
                out.try_append_value(scanner.since(start))
            }
        };
        appended.or_else(|error| scanner.fault(error.to_string()))
    }

    fn push_map(&mut self, scanner: &mut Scanner<'_>, depth: usize) -> Scanned<()> {
        let Data::Map { ends, keys, values, valid } = &mut self.data else { return Ok(()) };
        let mut seen = HashSet::new();
        let start = ends.last().copied().unwrap_or(0);
        while let Some(name) = scanner.member(seen.is_empty())? {
            let name = name.value();
            let pushed = match &mut keys.data {
                Data::Leaf { column, .. } => column.push(Some(&name)).is_ok(),
                Data::Text { out, .. } => out.try_append_value(&name).is_ok(),
                _ => false,
            };
            if !pushed {
                let kind = described(&keys.data_type);
                return scanner.fault(format!("key {} is no {kind}", shown(name.as_bytes())));
            }
            if !seen.insert(name.clone().into_owned()) {
                return scanner.fault(format!("has key {name:?} twice"));
            }
            let token = scanner.token()?;
            values.push(scanner, token, depth)?;
        }
        ends.push(start + seen.len());
        valid.append_non_null();
        Ok(())
    }

    fn push_null(&mut self) {
        match &mut self.data {
            // NULL is a value of every type.
            Data::Leaf { column, .. } => _ = column.push(None),
            Data::Text { out, .. } => out.append_null(),
            Data::Hex(out) => out.append_null(),
            Data::List { ends, item, valid } => {
                let mut end = ends.last().copied().unwrap_or(0);
                if let DataType::FixedSizeList(_, length) = &self.data_type {
                    (0..*length).for_each(|_| item.push_null());
                    end += *length as usize;
                }
                ends.push(end);
                valid.append_null();
            }
            Data::Struct { members, valid, .. } => {
                members.columns.iter_mut().flatten().for_each(|column| column.push_null());
                valid.append_null();
            }
            Data::Map { ends, valid, .. } => {
                ends.push(ends.last().copied().unwrap_or(0));
                valid.append_null();
            }
        }
    }

    /// The error of a value that is none of this type.
    #[cold]
    fn wrong<'a>(&self, scanner: &mut Scanner<'a>, token: Token<'a>, depth: usize) -> Scanned<()> {
        let start = scanner.start_of(token);
        // What is no JSON, or too deep, is told first.
        scanner.skip(token, depth)?;
        let found = shown(scanner.since(start).as_bytes());
        Err(Fault::new(start, format!("{found} is no {}", self.named())))
    }

    fn named(&self) -> String {
        match (&self.data, &self.data_type) {
            (Data::Hex(_), _) => "BLOB (hexadecimal digits)".to_string(),
            (_, data_type) => described(data_type).replace(" (as JSON)", ""),
        }
    }

    fn finish(self) -> Result<ArrayRef, ArrowError> {
        let array: ArrayRef = match self.data {
            Data::Leaf { column, .. } => column.finish()?,
            Data::Text { mut out, .. } => Arc::new(out.finish()),
            Data::Hex(mut out) => Arc::new(out.finish()),
            Data::Struct { members, mut valid, .. } => {
                let DataType::Struct(fields) = &self.data_type else {
                    return Err(unreadable(&self.data_type));
                };
                // Types are nested in each other: what is called here is called for each level.
                let mut columns = Vec::new();
                for column in members.columns.into_iter().flatten() {
                    columns.push(column.finish()?);
                }
                let rows = valid.len();
                let nulls = valid.finish();
                Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, rows)?)
            }
            Data::List { ends, item, mut valid } => {
                let (item, nulls) = (item.finish()?, valid.finish());
                match &self.data_type {
                    DataType::List(field) => list::<i32>(field, &ends, item, nulls)?,
                    DataType::LargeList(field) => list::<i64>(field, &ends, item, nulls)?,
                    DataType::FixedSizeList(field, length) => Arc::new(
                        FixedSizeListArray::try_new(Arc::clone(field), *length, item, nulls)?,
                    ),
                    other => return Err(unreadable(other)),
                }
            }
            Data::Map { ends, keys, values, mut valid } => {
                let DataType::Map(entries, sorted) = &self.data_type else {
                    return Err(unreadable(&self.data_type));
                };
                let DataType::Struct(fields) = entries.data_type() else {
                    return Err(unreadable(&self.data_type));
                };
                let columns = vec![keys.finish()?, values.finish()?];
                let pairs = StructArray::try_new(fields.clone(), columns, None)?;
                let offsets = offsets::<i32>(&ends)?;
                Arc::new(MapArray::try_new(
                    Arc::clone(entries),
                    offsets,
                    pairs,
                    valid.finish(),
                    *sorted,
                )?)
            }
        };
        if array.data_type() == &self.data_type {
            return Ok(array);
        }
        let array = match self.data_type {
            // There is no cast from views.
            DataType::FixedSizeBinary(_) => cast(&array, &DataType::Binary)?,
            _ => array,
        };
        let options = CastOptions { safe: false, ..CastOptions::default() };
        cast_with_options(&array, &self.data_type, &options)
    }
}

fn unreadable(data_type: &DataType) -> ArrowError {
    ArrowError::NotYetImplemented(format!("values of type {data_type} in JSON"))
}

fn offsets<O: OffsetSizeTrait>(ends: &[usize]) -> Result<OffsetBuffer<O>, ArrowError> {
    let too_many = || ArrowError::OffsetOverflowError(ends.last().copied().unwrap_or(0));
    let all = std::iter::once(&0).chain(ends).map(|end| O::from_usize(*end).ok_or_else(too_many));
    Ok(OffsetBuffer::new(all.collect::<Result<Vec<_>, _>>()?.into()))
}

fn list<O: OffsetSizeTrait>(
    field: &FieldRef,
    ends: &[usize],
    item: ArrayRef,
    nulls: Option<arrow::buffer::NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    let array = GenericListArray::<O>::try_new(Arc::clone(field), offsets(ends)?, item, nulls)?;
    Ok(Arc::new(array))
}

/// Bytes from pairs of hexadecimal digits.
fn hex(digits: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: &u8| (*byte as char).to_digit(16);
    let pairs = digits.chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    pairs.map(|pair| Some((digit(&pair[0])? * 16 + digit(&pair[1])?) as u8)).collect()
}

pub(crate) const SAMPLED: &str = "which no row of the sample has; look at all rows with \
                                  sample_size -1";
const GIVEN: &str = "for which there is no column";

/// The members of objects as columns.
struct Members {
    keys: Vec<String>,
    /// `None`: known, and not asked for.
    columns: Vec<Option<Box<Column>>>,
    /// The row that had the member last.
    last: Vec<u64>,
    rows: u64,
    /// Where there are many.
    places: HashMap<String, usize>,
    /// Names go by the case only where no other tells them apart.
    any_case: bool,
}

impl Members {
    fn new(keys: Vec<String>, columns: Vec<Option<Box<Column>>>, any_case: bool) -> Self {
        let places = match keys.len() {
            ..=FEW_MEMBERS => HashMap::new(),
            _ => keys.iter().cloned().zip(0..).collect(),
        };
        let last = vec![0; keys.len()];
        Self { keys, columns, last, rows: 0, places, any_case }
    }

    fn of_struct(fields: &Fields, kind: &Kind, rows: usize) -> Result<Self, ArrowError> {
        let name = |field: &FieldRef| Field::name(field).clone();
        let (keys, kinds, given) = match kind {
            Kind::Object { keys, kinds } => (keys.clone(), kinds.clone(), false),
            other => (fields.iter().map(name).collect(), vec![other.clone(); fields.len()], true),
        };
        let mut columns = Vec::new();
        for (field, kind) in fields.iter().zip(&kinds) {
            columns.push(Some(Box::new(Column::new(field.data_type(), kind, rows)?)));
        }
        Ok(Self::new(keys, columns, given))
    }

    /// Appends an object whose `{` is behind us.
    #[inline]
    fn push(&mut self, scanner: &mut Scanner<'_>, depth: usize, hint: &str) -> Scanned<()> {
        self.rows += 1;
        let (mut count, mut expected) = (0, 0);
        while let Some(text) = scanner.member(count == 0)? {
            let at = match (text.plain(), self.keys.get(expected)) {
                (Some(name), Some(key)) if key == name => Some(expected),
                _ => self.place(&text.value()),
            };
            let Some(at) = at else {
                let name = text.value();
                return scanner.fault(format!("has member {name:?}, {hint}"));
            };
            if std::mem::replace(&mut self.last[at], self.rows) == self.rows {
                return scanner.fault(format!("has member {:?} twice", self.keys[at]));
            }
            count += 1;
            expected = at + 1;
            let token = scanner.token()?;
            match &mut self.columns[at] {
                Some(column) => column
                    .push(scanner, token, depth)
                    .map_err(|fault| fault.inside(&self.keys[at]))?,
                None => scanner.skip(token, depth)?,
            }
        }
        if count < self.keys.len() {
            let absent = self.columns.iter_mut().zip(&self.last);
            let absent = absent.filter(|(_, last)| **last != self.rows);
            absent.filter_map(|(column, _)| column.as_mut()).for_each(|column| column.push_null());
        }
        Ok(())
    }

    fn place(&self, name: &str) -> Option<usize> {
        let exact = match self.places.is_empty() {
            true => self.keys.iter().position(|key| key == name),
            false => self.places.get(name).copied(),
        };
        let same = || self.keys.iter().position(|key| key.eq_ignore_ascii_case(name));
        exact.or_else(|| if self.any_case { same() } else { None })
    }
}
