//! Finding out how a CSV file is written, and what types its columns have, from a sample.
//!
//! The dialect is the candidate whose records agree best on their number of fields. The types are
//! those that every value of the sample has, from the narrowest on: boolean, integer, number, date,
//! time, timestamp, and text when nothing else fits. What the caller has decided is never guessed.
//! Empty lines and titles, which are lines of one field above records of several, are skipped.
//! A value behind the sample that is not of the guessed type is an error with its line, never a
//! silent NULL.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use swingdb_common::names::free_name;

use crate::options::Delimiter;
use crate::text::dialect::Dialect;
use crate::text::fields::{Field, Fields, RecordFault, RecordReader, unescape};
use crate::text::styles::Styles;
use crate::text::values::{self, DateStyle};

const DELIMITERS: [u8; 4] = [b',', b'|', b';', b'\t'];
/// Fields of a record may be this many.
pub const MAX_COLUMNS: usize = 65_536;

/// What the caller has decided; the rest is found out.
#[derive(Clone, Debug, Default)]
pub struct Hints {
    /// The delimiter.
    pub delimiter: Option<Delimiter>,
    /// What begins a comment.
    pub comment: Option<u8>,
    /// The last byte of a line.
    pub terminator: Option<u8>,
    /// How values are written.
    pub styles: Option<Arc<Styles>>,
    /// Records that cannot be read are left out.
    pub lenient: bool,
    /// The quote; `Some(None)`: there is none.
    pub quote: Option<Option<u8>>,
    /// The escape character.
    pub escape: Option<Option<u8>>,
    /// Whether there is a header.
    pub header: Option<bool>,
    /// Lines to skip.
    pub skip: u64,
    /// Texts that stand for NULL.
    pub nulls: Option<Vec<Vec<u8>>>,
    /// How dates are written.
    pub dates: Option<DateStyle>,
    /// Whether short records are filled up.
    pub pad: bool,
    /// Names the columns are expected to have: a first record with these is a header.
    pub expected_names: Option<Vec<String>>,
    /// All columns are text.
    pub all_text: bool,
}

/// What was found out.
#[derive(Clone, Debug, PartialEq)]
pub struct Sniffed {
    /// The grammar.
    pub dialect: Dialect,
    /// Names of the columns: from the header, or `column0`, `column1`, ...
    pub names: Vec<String>,
    /// Their types.
    pub types: Vec<DataType>,
    /// A record had more than [`MAX_COLUMNS`] fields by some delimiter, and one by all others.
    pub too_wide: bool,
    /// Bytes of the sample before the first record: of lines that the dialect skips, beside those
    /// that the caller has it skip.
    pub lead_bytes: usize,
    /// Fields of the header, where the caller says that there is one, and the records have others.
    pub odd_header: Option<usize>,
}

/// The fields of a record as they are meant, most of them where they stand in the text.
#[derive(Debug, Default)]
pub struct Record<'a> {
    fields: Vec<Option<Cow<'a, [u8]>>>,
    /// Nothing stands behind the last delimiter, whatever the texts for NULL are.
    ends_in_delimiter: bool,
}

impl<'a> std::ops::Deref for Record<'a> {
    type Target = Vec<Option<Cow<'a, [u8]>>>;

    fn deref(&self) -> &Self::Target {
        &self.fields
    }
}

/// The records of a sample under a dialect.
#[derive(Default)]
struct Records<'a> {
    all: Vec<Record<'a>>,
    /// What is wrong with the first record that cannot be read.
    fault: Option<RecordFault>,
    /// Some field stands between quotes.
    has_quotes: bool,
}

/// Looks at `sample`, the first bytes of a file behind the skipped lines; `whole`: all of the file.
/// `further` are pieces from other places of the file that begin with a record, if all is well.
pub fn sniff(sample: &[u8], whole: bool, further: &[Vec<u8>], hints: &Hints) -> Sniffed {
    let terminator = hints.terminator.unwrap_or_else(|| match memchr::memchr(b'\n', sample) {
        None if memchr::memchr(b'\r', sample).is_some() => b'\r',
        _ => b'\n',
    });
    let (dialect, mut records) = best_dialect(sample, whole, terminator, hints);
    let mut columns = usual_count(&records).0;
    let lead = Lead::of(sample, &dialect, columns, hints);
    let mut more: Vec<Record<'_>> =
        further.iter().flat_map(|piece| regular_records(piece, &dialect, columns, hints)).collect();
    let expected = hints.expected_names.as_ref().is_some_and(|names| names.len() == columns);
    if !expected && all_end_in_delimiter(&records) && more.iter().all(ends_in_delimiter) {
        records.iter_mut().chain(&mut more).for_each(|record| _ = record.fields.pop());
        columns = usual_count(&records).0;
    }
    let of_columns = |record: &&Record<'_>| record.len() == columns;
    let rows: Vec<&Record<'_>> = records.iter().chain(&more).filter(of_columns).collect();
    let too_wide = columns == 1 && is_too_wide(sample, &dialect, hints);
    let sniffed = match lead.odd {
        None => decide(dialect, columns, &rows, hints),
        Some(fields) => decide_below(fields, dialect, columns, &rows, hints),
    };
    Sniffed { too_wide, ..behind(&lead, sample, sniffed) }
}

/// What stands before the first record with the usual number of fields.
#[derive(Default)]
struct Lead {
    /// Bytes of empty lines and of titles.
    bytes: usize,
    /// Fields of a record behind these that is neither.
    odd: Option<usize>,
}

impl Lead {
    fn of(text: &[u8], dialect: &Dialect, columns: usize, hints: &Hints) -> Self {
        let mut reader = RecordReader::new(text, dialect, None);
        let mut fields = Fields::default();
        loop {
            let bytes = reader.position();
            match reader.read(1, &mut fields) {
                Ok(true) => {}
                Err(fault) if hints.lenient => {
                    reader.skip_line(fault);
                    continue;
                }
                // It is an error when it is read.
                Ok(false) | Err(_) => return Self::default(),
            }
            let is_empty = |field: &Field| field.text(text).is_empty() && !field.is_quoted();
            match fields.all() {
                [field] if is_empty(field) => {}
                all if all.len() == columns => return Self { bytes, odd: None },
                // A record that is filled up.
                all if hints.pad && all.len() < columns => {
                    return Self { bytes, odd: Some(all.len()) };
                }
                [_] => {}
                _ if hints.lenient => {}
                all => return Self { bytes, odd: Some(all.len()) },
            }
        }
    }
}

/// What was found out where the first record has another number of fields than the others: it names
/// no columns, unless the caller says so.
fn decide_below(
    fields: usize,
    dialect: Dialect,
    columns: usize,
    rows: &[&Record<'_>],
    hints: &Hints,
) -> Sniffed {
    let all_are_data = Hints { header: Some(false), ..hints.clone() };
    let mut sniffed = decide(dialect, columns, rows, &all_are_data);
    if hints.header == Some(true) {
        sniffed.dialect.header = true;
        sniffed.odd_header = Some(fields);
    }
    sniffed
}

/// The same, with the lines above the header skipped. Without a header an empty line is skipped or
/// NULL, as everywhere, and a title is no record, which is an error.
fn behind(lead: &Lead, sample: &[u8], mut sniffed: Sniffed) -> Sniffed {
    if sniffed.dialect.header {
        let lines = memchr::memchr_iter(sniffed.dialect.terminator, &sample[..lead.bytes]);
        sniffed.dialect.skip += lines.count() as u64;
        sniffed.lead_bytes = lead.bytes;
    }
    sniffed
}

/// The delimiters that come into question.
fn delimiters(hints: &Hints) -> Vec<Delimiter> {
    match hints.delimiter {
        Some(delimiter) => vec![delimiter],
        None => DELIMITERS.map(Delimiter::from).to_vec(),
    }
}

/// Whether the first record has more than [`MAX_COLUMNS`] fields by one of the delimiters.
fn is_too_wide(sample: &[u8], dialect: &Dialect, hints: &Hints) -> bool {
    delimiters(hints).into_iter().any(|delimiter| {
        let delimiter_rest = delimiter.rest().to_vec();
        let dialect = Dialect { delimiter: delimiter.first(), delimiter_rest, ..dialect.clone() };
        let mut fields = Fields::default();
        let read = RecordReader::new(sample, &dialect, None).read(1, &mut fields);
        read.is_ok() && fields.all().len() > MAX_COLUMNS
    })
}

/// Whether the last field is nothing, and there are others.
fn ends_in_delimiter(record: &Record<'_>) -> bool {
    record.len() > 1 && record.ends_in_delimiter
}

/// Whether all records end in a delimiter, with no column behind it.
fn all_end_in_delimiter(records: &[Record<'_>]) -> bool {
    records.len() > 1 && records.iter().all(ends_in_delimiter)
}

/// Header, date style, names and types, once the records are known.
fn decide(mut dialect: Dialect, columns: usize, rows: &[&Record<'_>], hints: &Hints) -> Sniffed {
    let body = rows.get(1..).unwrap_or_default();
    dialect.dates = hints.dates.unwrap_or_else(|| date_style(columns, rows));
    let types_of = |rows: &[&Record<'_>]| -> Vec<DataType> {
        let one = |column: usize| match hints.all_text {
            true => DataType::Utf8View,
            false => column_type(rows.iter().map(|row| row[column].as_deref()), &dialect),
        };
        (0..columns).map(one).collect()
    };
    let body_types = types_of(body);
    let header = match (hints.header, rows.first()) {
        (Some(header), _) => header,
        (None, None) => true,
        (None, Some(first)) => looks_like_header(first, body, &body_types, &dialect, hints),
    };
    let types = if header { body_types } else { types_of(rows) };
    let names = match rows.first() {
        Some(first) if header => header_names(first),
        _ => (0..columns).map(|column| format!("column{column}")).collect(),
    };
    dialect.header = header;
    Sniffed { dialect, names, types, too_wide: false, lead_bytes: 0, odd_header: None }
}

/// The first name of a header that is no text.
pub fn invalid_name<'a>(header: &'a [Option<Cow<'_, [u8]>>]) -> Option<&'a [u8]> {
    let mut names = header.iter().flatten().map(AsRef::as_ref);
    names.find(|name| std::str::from_utf8(name).is_err())
}

/// Names from the fields of a header: trimmed, made unique, never empty.
pub fn header_names(header: &[Option<Cow<'_, [u8]>>]) -> Vec<String> {
    let mut taken = HashSet::new();
    let name = |(column, field): (usize, &Option<Cow<'_, [u8]>>)| {
        let text = String::from_utf8_lossy(field.as_deref().unwrap_or_default()).trim().to_string();
        let base = if text.is_empty() { format!("column{column}") } else { text };
        free_name(&base, |name| taken.insert(name.to_lowercase()))
    };
    header.iter().enumerate().map(name).collect()
}

/// The first record of `text` under `dialect`.
pub fn first_record<'a>(text: &'a [u8], dialect: &Dialect) -> Option<Record<'a>> {
    records(text, dialect, 1, false).all.into_iter().next()
}

/// How well records agree: larger is better. Whether most have several fields, whether all can be
/// read, the share of those with the usual number of fields, this number, and whether there are
/// quotes.
type Score = (bool, bool, usize, usize, bool);

/// The candidate whose records agree best.
fn best_dialect<'a>(
    sample: &'a [u8],
    whole: bool,
    terminator: u8,
    hints: &Hints,
) -> (Dialect, Vec<Record<'a>>) {
    let delimiters = delimiters(hints);
    let quotes = match hints.quote {
        Some(quote) => vec![quote],
        // Single quotes only where there are no double ones: apostrophes are frequent.
        None if memchr::memchr(b'"', sample).is_some() => vec![Some(b'"')],
        None => vec![Some(b'"'), Some(b'\'')],
    };
    let mut best: Option<(Score, Dialect, Vec<Record<'_>>)> = None;
    for quote in quotes {
        for escape in escapes(sample, quote, hints) {
            for delimiter in &delimiters {
                let dialect = Dialect {
                    delimiter: delimiter.first(),
                    delimiter_rest: delimiter.rest().to_vec(),
                    comment: hints.comment,
                    quote,
                    escape,
                    terminator,
                    header: true,
                    skip: hints.skip,
                    nulls: hints.nulls.clone().unwrap_or_else(|| vec![Vec::new()]),
                    dates: DateStyle::Iso,
                    styles: hints.styles.clone(),
                    pad: hints.pad,
                };
                let Records { all: mut records, fault, has_quotes } =
                    records(sample, &dialect, usize::MAX, hints.lenient);
                // A quote that is open at the end may be closed behind the sample.
                let is_broken = match fault {
                    Some(RecordFault::Unclosed { .. }) => whole,
                    other => other.is_some(),
                };
                if !whole && records.len() > 1 {
                    records.pop();
                }
                let (fields, agreeing) = usual_count(&records);
                let columns = fields - usize::from(all_end_in_delimiter(&records));
                let percent = agreeing * 100 / records.len().max(1);
                // One column always agrees: several that nearly do are better.
                let several = columns > 1 && percent >= 50;
                let score = (several, !is_broken, percent, columns, has_quotes);
                if best.as_ref().is_none_or(|(other, ..)| score > *other) {
                    best = Some((score, dialect, records));
                }
            }
        }
    }
    best.map(|(_, dialect, records)| (dialect, records)).unwrap_or_default()
}

/// The doubled quote first; a backslash only where one stands before a quote.
fn escapes(sample: &[u8], quote: Option<u8>, hints: &Hints) -> Vec<Option<u8>> {
    if let Some(escape) = hints.escape {
        return vec![escape];
    }
    let Some(quote) = quote else { return vec![None] };
    match memchr::memmem::find(sample, &[b'\\', quote]) {
        Some(_) => vec![Some(quote), Some(b'\\')],
        None => vec![Some(quote)],
    }
}

/// The most frequent number of fields, and how many records have it. Empty lines do not count.
fn usual_count(records: &[Record<'_>]) -> (usize, usize) {
    let mut counts: Vec<(usize, usize)> = Vec::new();
    for record in records {
        match counts.iter_mut().find(|(fields, _)| *fields == record.len()) {
            Some((_, count)) => *count += 1,
            None => counts.push((record.len(), 1)),
        }
    }
    let best = counts.iter().max_by_key(|(fields, count)| (*count, *fields));
    best.copied().unwrap_or((1, 0))
}

/// The records of `text`, up to the first that cannot be read, or without these; without empty
/// lines.
fn records<'a>(text: &'a [u8], dialect: &Dialect, limit: usize, lenient: bool) -> Records<'a> {
    let mut reader = RecordReader::new(text, dialect, None);
    let mut fields = Fields::default();
    let mut out = Records::default();
    let mut buffer = Vec::new();
    while out.all.len() < limit {
        let more = reader.read(1, &mut fields);
        if let Err(fault) = more {
            out.fault = out.fault.or(Some(fault));
            if lenient {
                reader.skip_line(fault);
                continue;
            }
        }
        if !matches!(more, Ok(true)) || fields.all().len() > MAX_COLUMNS {
            break;
        }
        let record: Vec<Option<Cow<'_, [u8]>>> = fields
            .all()
            .iter()
            .map(|field| {
                out.has_quotes |= field.is_quoted();
                let value = field.text(text);
                let is_null = !field.is_quoted() && dialect.nulls.iter().any(|null| null == value);
                if field.is_escaped() {
                    unescape(value, dialect, &mut buffer);
                    return Some(Cow::Owned(buffer.clone()));
                }
                (!is_null).then_some(Cow::Borrowed(value))
            })
            .collect();
        let is_open = |field: &Field| field.text(text).is_empty() && !field.is_quoted();
        let ends_in_delimiter = fields.all().last().is_some_and(is_open);
        let blank =
            matches!(&record[..], [None]) && dialect.nulls.iter().any(|null| null.is_empty());
        if !blank {
            out.all.push(Record { fields: record, ends_in_delimiter });
        }
    }
    out
}

/// The records of a piece from the middle of a file; none when they do not look like records, since
/// the piece may begin inside a quoted field.
fn regular_records<'a>(
    piece: &'a [u8],
    dialect: &Dialect,
    columns: usize,
    hints: &Hints,
) -> Vec<Record<'a>> {
    let mut records = records(piece, dialect, usize::MAX, hints.lenient).all;
    records.pop();
    match records.iter().all(|record| record.len() == columns) {
        true => records,
        false => Vec::new(),
    }
}

/// Whether the first record names the columns.
fn looks_like_header(
    first: &Record<'_>,
    body: &[&Record<'_>],
    body_types: &[DataType],
    dialect: &Dialect,
    hints: &Hints,
) -> bool {
    let names: Vec<String> = first
        .iter()
        .map(|field| String::from_utf8_lossy(field.as_deref().unwrap_or_default()).to_lowercase())
        .collect();
    if let Some(expected) = &hints.expected_names {
        let known =
            |name: &String| expected.iter().any(|other| other.to_lowercase() == name.trim());
        if names.iter().all(known) {
            return true;
        }
    }
    // An empty name says nothing; exports of tables with an index begin with one.
    let named = |column: &usize| first[*column].as_deref().is_some_and(|text| !text.is_empty());
    let typed = |column: &usize| body_types[*column] != DataType::Utf8View;
    let differs = |column: usize| {
        let alone = column_type(std::iter::once(first[column].as_deref()), dialect);
        alone == DataType::Utf8View
    };
    let columns = || (0..body_types.len()).filter(named);
    if (0..body_types.len()).any(|column| typed(&column)) {
        // A header has no value of any other type than text, and text where values are typed.
        return columns().any(|column| typed(&column)) && columns().filter(typed).all(differs);
    }
    // All text: names look like names, are different, and do not occur below.
    let looks_like_name = |column: usize| {
        let below = || body.iter().filter_map(|row| row[column].as_deref());
        is_name(names[column].trim(), below)
    };
    let unique = columns().map(|column| &names[column]).collect::<HashSet<_>>();
    let repeated = |column: usize| body.iter().any(|row| row[column] == first[column]);
    !unique.is_empty()
        && unique.len() == columns().count()
        && columns().all(looks_like_name)
        && !columns().any(repeated)
}

/// Whether text is more likely the name of a column than one of its values, which are `below`.
fn is_name<'a, I: Iterator<Item = &'a [u8]>>(text: &str, below: impl Fn() -> I) -> bool {
    const MAX_CHARS: usize = 64;
    // Codes stand above codes: `A12` is no name above `B7`.
    let has_digits = text.bytes().any(|byte| byte.is_ascii_digit());
    let form = outline(text.as_bytes());
    let is_code =
        has_digits && below().next().is_some() && below().all(|value| outline(value) == form);
    text.chars().any(char::is_alphabetic)
        && text.chars().count() <= MAX_CHARS
        && !text.contains(['\n', '@'])
        && !text.contains("://")
        && !is_code
}

/// Runs of digits and of letters as one of each: what codes of one kind have in common.
fn outline(text: &[u8]) -> Vec<u8> {
    let mut kinds: Vec<u8> = values::trim(text)
        .iter()
        .map(|byte| match byte {
            b'0'..=b'9' => b'9',
            b'a'..=b'z' | b'A'..=b'Z' | 0x80.. => b'a',
            other => *other,
        })
        .collect();
    kinds.dedup();
    kinds
}

/// The narrowest type that all values have.
fn column_type<'a>(
    values: impl Iterator<Item = Option<&'a [u8]>> + Clone,
    dialect: &Dialect,
) -> DataType {
    let dates = dialect.dates;
    let present = values.flatten().filter(|text| !text.is_empty());
    if present.clone().next().is_none() {
        return DataType::Utf8View;
    }
    let all = |test: &dyn Fn(&[u8]) -> bool| present.clone().all(test);
    if all(&|text| values::boolean_word(text).is_some()) {
        return DataType::Boolean;
    }
    // A format that the caller gives comes first: `%Y%m%d` reads what looks like a number.
    let (mut date_format, mut timestamp_format) = (None, None);
    if let Some(styles) = &dialect.styles {
        (date_format, timestamp_format) = (styles.dates.as_ref(), styles.timestamps.as_ref());
    }
    if let Some(format) = date_format
        && all(&|text| Styles::date(format, text).is_some())
    {
        return DataType::Date32;
    }
    if let Some(format) = timestamp_format
        && all(&|text| std::str::from_utf8(text).is_ok_and(|text| format.read(text).is_some()))
    {
        return Styles::timestamp_type(format);
    }
    if let Some(number) = styled_number_type(present.clone(), dialect) {
        return number;
    }
    if date_format.is_none() && all(&|text| values::date(text, dates).is_some()) {
        return DataType::Date32;
    }
    if all(&|text| values::time(text).is_some_and(|nanos| nanos % 1_000 == 0)) {
        return DataType::Time64(TimeUnit::Microsecond);
    }
    match timestamp_format {
        Some(_) => DataType::Utf8View,
        None => timestamp_type(present, dates).unwrap_or(DataType::Utf8View),
    }
}

/// As [`number_type`], of numbers in the caller's style.
fn styled_number_type<'a>(
    values: impl Iterator<Item = &'a [u8]> + Clone,
    dialect: &Dialect,
) -> Option<DataType> {
    let Some(style) = dialect.styles.as_ref().and_then(|styles| styles.numbers) else {
        return number_type(values);
    };
    let usual = values.map(|text| {
        let mut usual = Vec::new();
        style.rewrite(text, &mut usual).then_some(usual)
    });
    let usual = usual.collect::<Option<Vec<Vec<u8>>>>()?;
    number_type(usual.iter().map(Vec::as_slice))
}

/// The narrowest type of numbers that all values have.
fn number_type<'a>(values: impl Iterator<Item = &'a [u8]> + Clone) -> Option<DataType> {
    let all = |test: &dyn Fn(&[u8]) -> bool| values.clone().all(test);
    if !all(&values::is_plain_number) {
        return None;
    }
    if all(&|text| values::integer(text).is_some()) {
        return Some(DataType::Int64);
    }
    if all(&is_digits) {
        let fits = all(&|text| values::decimal(text, 38, 0).is_some());
        return Some(if fits { DataType::Decimal128(38, 0) } else { DataType::Utf8View });
    }
    all(&|text| values::plain_float(text).is_some()).then_some(DataType::Float64)
}

/// Microseconds, or nanoseconds where digits would be lost; with a zone when every value has an
/// offset.
fn timestamp_type<'a>(
    mut values: impl Iterator<Item = &'a [u8]>,
    dates: DateStyle,
) -> Option<DataType> {
    let (mut with_offset, mut without, mut fine) = (false, false, false);
    let known = values.all(|text| match values::timestamp(text, dates) {
        None => false,
        Some(at) => {
            with_offset |= at.offset_s.is_some();
            without |= at.offset_s.is_none();
            fine |= at.nanos % 1_000 != 0;
            let per_second = if fine { 1_000_000_000 } else { 1_000_000 };
            at.instant(per_second).is_some()
        }
    });
    if !known || with_offset && without {
        return None;
    }
    let unit = if fine { TimeUnit::Nanosecond } else { TimeUnit::Microsecond };
    Some(DataType::Timestamp(unit, with_offset.then(|| "UTC".into())))
}

fn is_digits(text: &[u8]) -> bool {
    let text = values::trim(text);
    text.strip_prefix(b"-").unwrap_or(text).iter().all(u8::is_ascii_digit)
}

/// The style in which most columns' values are dates; ISO when none are, or when day and month
/// cannot be told apart.
fn date_style(columns: usize, rows: &[&Record<'_>]) -> DateStyle {
    let mut styles = Vec::new();
    for separator in *b"/.-" {
        styles.push(DateStyle::YearFirst(separator));
        styles.push(DateStyle::DayFirst(separator));
        styles.push(DateStyle::MonthFirst(separator));
    }
    let body = rows.get(1..).filter(|body| !body.is_empty()).unwrap_or(rows);
    let dates_in = |style: DateStyle| {
        let is_date = |column: &usize| {
            let mut present = body
                .iter()
                .filter_map(|row| row[*column].as_deref())
                .filter(|text| !text.is_empty());
            present.clone().next().is_some()
                && present.all(|text| values::date_time(text, style).is_some())
        };
        (0..columns).filter(is_date).count()
    };
    let most = dates_in(DateStyle::Iso);
    let counts: Vec<usize> = styles.iter().map(|style| dates_in(*style)).collect();
    let best = counts.iter().copied().max().unwrap_or(0);
    let ties = counts.iter().filter(|count| **count == best).count();
    match counts.iter().position(|count| *count == best) {
        Some(at) if best > most && ties == 1 => styles[at],
        _ => DateStyle::Iso,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Sniffed {
        sniff(text.as_bytes(), true, &[], &Hints::default())
    }

    fn types(text: &str) -> Vec<DataType> {
        found(text).types
    }

    const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

    #[test]
    fn delimiters_and_headers() {
        for delimiter in [',', ';', '|', '\t'] {
            let text = "id,name,when\n1,ann,2024-01-02\n2,\"b,o;b|x\",2024-01-03\n";
            let outside = text.replace("b,o;b|x", "Q").replace(',', &delimiter.to_string());
            let sniffed = found(&outside.replace('Q', "b,o;b|x"));
            assert_eq!(sniffed.dialect.delimiter as char, delimiter);
            assert!(sniffed.dialect.header);
            assert_eq!(sniffed.names, ["id", "name", "when"]);
            assert_eq!(sniffed.types, [DataType::Int64, DataType::Utf8View, DataType::Date32]);
        }
        let bare = found("1,2\n3,4\n");
        assert!(!bare.dialect.header);
        assert_eq!(bare.names, ["column0", "column1"]);
        assert!(found("name,town\nann,oslo\nbob,bergen\n").dialect.header);
        assert!(!found("ann,oslo\nann,bergen\nbob,oslo\n").dialect.header);
        for header in [
            ",a,b\n0,1,2\n",
            "a,,b\n0,1,2\n",
            "city\nOslo\nBern\n",
            "a,,\nx,y,z\n",
            "2019 sales,name/of\nx,y\n",
            "prix (€)\nbas\n",
            "a,b\n",
            "code\nA1\nB2\n",
            "address1,address2\n12 Main St,Apt 4\n7 Elm Rd,Apt 9\n",
        ] {
            assert!(found(header).dialect.header, "{header}");
        }
        let names = found("a,,b\n0,1,2\n").names;
        assert_eq!(names, ["a", "column1", "b"]);
        for data in [",,\n1,2,3\n", "x,\ny,5\nz,6\n", "007\n008\n", "A1\nB2\n", "a@b.c\nd@e.f\n"] {
            assert!(!found(data).dialect.header, "{data}");
        }
        assert_eq!(found("a,a,,A\n1,2,3,4\n5,6,7,8").names.len(), 4);
    }

    #[test]
    fn types_from_the_narrowest() {
        assert_eq!(types("x\n1\n-2\n"), [DataType::Int64]);
        assert_eq!(types("x\n1\n2.5\n1e9\n"), [DataType::Float64]);
        assert_eq!(types("x\n12345678901234567890\n1\n"), [DataType::Decimal128(38, 0)]);
        assert_eq!(types("x\ntrue\nFalse\n"), [DataType::Boolean]);
        assert_eq!(types("x\n2024-01-01 10:00:00\n2024-01-01\n"), [TIMESTAMP]);
        assert_eq!(types("x\n10:00:00\n"), [DataType::Time64(TimeUnit::Microsecond)]);
        assert_eq!(
            types("x\n2024-01-01 10:00:00.123456789\n"),
            [DataType::Timestamp(TimeUnit::Nanosecond, None)]
        );
        let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        assert_eq!(types("x\n2024-01-01T10:00:00Z\n2024-01-01T10:00:00+02:00\n"), [utc]);
        assert_eq!(types("x,y\n007,1\n123,2\n"), [DataType::Utf8View, DataType::Int64]);
        assert_eq!(types("x,y\n,1\n,2\n"), [DataType::Utf8View, DataType::Int64]);
        assert_eq!(types("x,y\n1,\n,2\n"), [DataType::Int64, DataType::Int64]);
    }

    #[test]
    fn dates_in_other_styles_only_when_certain() {
        assert_eq!(
            found("d,n\n13.02.2024,1\n01.02.2024,2\n").dialect.dates,
            DateStyle::DayFirst(b'.')
        );
        assert_eq!(
            found("d,n\n02/13/2024,1\n01/02/2024,2\n").dialect.dates,
            DateStyle::MonthFirst(b'/')
        );
        assert_eq!(types("d,n\n01/02/2024,1\n"), [DataType::Utf8View, DataType::Int64]);
        assert_eq!(types("d,n\n2024/02/13 10:00:00,1\n"), [TIMESTAMP, DataType::Int64]);
    }

    #[test]
    fn quotes_escapes_line_ends_and_trailing_delimiters() {
        let single = found("a,b\n'x,y',1\n'z',2\n");
        assert_eq!(single.dialect.quote, Some(b'\''));
        let escaped = found("a,b\n\"x\\\",y\",1\n\"z\",2\n");
        assert_eq!(escaped.dialect.escape, Some(b'\\'));
        let later = found("a;b\nx;1\n\"y\\\"z\";2\n");
        assert_eq!(later.dialect.escape, Some(b'\\'), "the first records have none");
        let lenient = Hints { lenient: true, ..Hints::default() };
        let text = b"a;b\nx;1\n\"y\\\"z\";2\n";
        assert_eq!(sniff(text, true, &[], &lenient).dialect.escape, Some(b'\\'), "left out");
        let all_quoted = found("a,b\n'1','x'\n'2','y'\n");
        assert_eq!(all_quoted.dialect.quote, Some(b'\''));
        assert_eq!(all_quoted.types, [DataType::Int64, DataType::Utf8View]);
        let apostrophes = found("a,b\n'tis,it's\n'twas,2\n");
        assert_eq!(apostrophes.dialect.quote, Some(b'"'));
        assert_eq!(found("a,b\r1,2\r3,4\r").dialect.terminator, b'\r');
        assert_eq!(types("1|x|\n2|y|\n"), [DataType::Int64, DataType::Utf8View]);
        assert_eq!(types("a,b\r\n1,2\r\n"), [DataType::Int64, DataType::Int64]);
    }

    #[test]
    fn a_last_column_that_is_empty_in_the_sample() {
        let sample = b"1,2,\n3,4,\n5,6,\n7";
        let columns = |further: &[Vec<u8>], names: Option<&[&str]>| {
            let names = names.map(|names| names.iter().map(|name| name.to_string()).collect());
            let hints = Hints { expected_names: names, ..Hints::default() };
            sniff(sample, false, further, &hints).types.len()
        };
        assert_eq!(columns(&[], None), 2, "a delimiter at the end");
        assert_eq!(columns(&[b"8,9,\n10,11,\n12".to_vec()], None), 2);
        assert_eq!(columns(&[b"8,9,\n10,11,x\n12".to_vec()], None), 3, "seen further on");
        assert_eq!(columns(&[], Some(&["a", "b", "c"])), 3, "as the table has it");
        assert_eq!(columns(&[], Some(&["a", "b"])), 2);
    }

    #[test]
    fn a_last_column_of_nothing_but_null() {
        let nulls = Some(vec![b"NA".to_vec()]);
        let hints = Hints { nulls, ..Hints::default() };
        let columns = |text: &str| sniff(text.as_bytes(), true, &[], &hints).types.len();
        assert_eq!(columns("1,2,NA\n3,4,NA\n"), 3);
        assert_eq!(columns("1,2,\n3,4,\n"), 2, "a delimiter at the end");
    }

    #[test]
    fn lines_above_the_header() {
        let skipped = |text: &str| {
            let sniffed = found(text);
            (sniffed.dialect.skip, sniffed.names, sniffed.dialect.header)
        };
        let names = || vec!["name".to_string(), "city".to_string()];
        assert_eq!(skipped("name,city\nx,y\nz,w\n"), (0, names(), true));
        assert_eq!(skipped("A title\n\nname,city\nx,y\nz,w\n"), (2, names(), true));
        assert_eq!(skipped("\r\nname,city\r\nx,y\r\n"), (1, names(), true));
        assert_eq!(skipped("\"A\ntitle\"\nname,city\nx,y\nz,w\n"), (2, names(), true));
        assert_eq!(skipped("\nname\nx\n"), (1, vec!["name".to_string()], true));
        let numbers = (0, vec!["column0".to_string(), "column1".to_string()], false);
        assert_eq!(skipped("A title\n1,2\n3,4\n"), numbers);
        assert_eq!(skipped("a,b,c\nx,y\nz,w\n"), numbers, "no title");
        let hints = Hints { header: Some(true), ..Hints::default() };
        let odd = |text: &str| sniff(text.as_bytes(), true, &[], &hints).odd_header;
        assert_eq!(odd("a,b,c\nx,y\nz,w\n"), Some(3));
        assert_eq!(odd("A title\na,b\nx,y\n"), None);
    }

    #[test]
    fn nothing_at_all() {
        let sniffed = found("");
        assert_eq!((sniffed.names.len(), sniffed.types.len()), (1, 1));
        assert!(found("a,b\n").dialect.header);
    }

    #[test]
    fn pieces_from_further_on_widen_types() {
        let piece = b"9,1.5\n10,2.5\n11,x".to_vec();
        let sniffed = sniff(b"a,b\n1,2\n3,4\n5,6", false, &[piece], &Hints::default());
        assert_eq!(sniffed.types, [DataType::Int64, DataType::Float64]);
        let torn = b"9\",1.5\n10,2.5,7\n11,x".to_vec();
        let sniffed = sniff(b"a,b\n1,2\n3,4\n5,6", false, &[torn], &Hints::default());
        assert_eq!(sniffed.types, [DataType::Int64, DataType::Int64]);
    }
}
