//! Finding the fields of the records of a block.
//!
//! Eight bytes at a time are compared with the delimiter, the terminator and the quote in one
//! machine word; only bytes that mean something are looked at one by one. Positions are collected
//! for a batch of records and then parsed column by column ([`super::columns`]), while the text is
//! still in the cache.

use crate::text::dialect::Dialect;
use crate::text::split::{Closing, closing_quote};

/// Text of a block may be this long: positions have 30 bits, two are flags.
pub const MAX_BLOCK_BYTES: usize = 1 << 30;

/// A field's place in its block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Field {
    start: u32,
    /// Position of the end in the low bits.
    end: u32,
}

impl Field {
    const QUOTED: u32 = 1 << 31;
    const ESCAPED: u32 = 1 << 30;
    const POSITION: u32 = Self::ESCAPED - 1;

    /// The empty unquoted field at `position`.
    fn empty(position: usize) -> Self {
        Self { start: position as u32, end: position as u32 }
    }

    /// First byte of the content.
    #[inline]
    pub fn start(self) -> usize {
        self.start as usize
    }

    /// The content as written, without the quotes around it.
    #[inline]
    pub fn text(self, block: &[u8]) -> &[u8] {
        &block[self.start as usize..(self.end & Self::POSITION) as usize]
    }

    /// Whether there were quotes around it.
    #[inline]
    pub fn is_quoted(self) -> bool {
        self.end & Self::QUOTED != 0
    }

    /// Whether the content has doubled quotes or escapes that stand for one character.
    #[inline]
    pub fn is_escaped(self) -> bool {
        self.end & Self::ESCAPED != 0
    }
}

/// What is wrong with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordFault {
    /// The record at `start` has `found` fields.
    FieldCount {
        /// Where the record begins in the block.
        start: usize,
        /// Its number of fields.
        found: usize,
    },
    /// The quote at `open` is never closed.
    Unclosed {
        /// Where the quote is in the block.
        open: usize,
    },
    /// Something follows the closing quote of a field at `at`.
    AfterQuote {
        /// Where it is in the block.
        at: usize,
    },
}

impl RecordFault {
    /// Where it is in the block.
    pub fn position(&self) -> usize {
        match *self {
            Self::FieldCount { start, .. } => start,
            Self::Unclosed { open } => open,
            Self::AfterQuote { at } => at,
        }
    }
}

/// The fields of a batch of records, record after record.
#[derive(Debug, Default)]
pub struct Fields {
    fields: Vec<Field>,
    /// Where each record begins.
    starts: Vec<u32>,
}

impl Fields {
    /// Number of records.
    pub fn rows(&self) -> usize {
        self.starts.len()
    }

    /// All fields in order of records.
    pub fn all(&self) -> &[Field] {
        &self.fields
    }

    /// Where record `row` begins in the block.
    #[cfg(test)]
    pub fn start(&self, row: usize) -> usize {
        self.starts[row] as usize
    }
}

/// Walks over the records of a block.
pub struct RecordReader<'a> {
    text: &'a [u8],
    dialect: &'a Dialect,
    /// Number of fields each record must have; `None`: any.
    columns: Option<usize>,
    position: usize,
    patterns: Patterns,
}

/// The special characters, each repeated in all bytes of a word.
#[derive(Clone, Copy)]
struct Patterns {
    delimiter: u64,
    terminator: u64,
    /// The terminator once more when there is no quote: it then costs nothing and finds nothing
    /// new.
    quote: u64,
    /// The terminator once more when there are no comments.
    comment: u64,
}

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// Sets the high bit of each byte of the result where the byte of `word` is zero, exactly.
#[inline]
fn zero_bytes(word: u64) -> u64 {
    !(((word & !HIGH_BITS) + !HIGH_BITS) | word | !HIGH_BITS)
}

impl Patterns {
    fn new(dialect: &Dialect) -> Self {
        let repeat = |byte: u8| u64::from(byte) * LOW_BITS;
        Self {
            delimiter: repeat(dialect.delimiter),
            terminator: repeat(dialect.terminator),
            quote: repeat(dialect.quote.unwrap_or(dialect.terminator)),
            comment: repeat(dialect.comment.unwrap_or(dialect.terminator)),
        }
    }

    /// High bits at the special bytes of `word`, whose first byte is the lowest.
    #[inline]
    fn special<const EXTENDED: bool>(&self, word: u64) -> u64 {
        let usual = zero_bytes(word ^ self.delimiter)
            | zero_bytes(word ^ self.terminator)
            | zero_bytes(word ^ self.quote);
        match EXTENDED {
            false => usual,
            true => usual | zero_bytes(word ^ self.comment),
        }
    }
}

/// The state inside one record.
struct Open {
    record_start: usize,
    field_start: usize,
    first_field: usize,
}

impl<'a> RecordReader<'a> {
    /// Reads the records of `text`, which is a whole number of them.
    pub fn new(text: &'a [u8], dialect: &'a Dialect, columns: Option<usize>) -> Self {
        assert!(text.len() < MAX_BLOCK_BYTES, "a block's positions have 30 bits");
        Self { text, dialect, columns, position: 0, patterns: Patterns::new(dialect) }
    }

    /// Where the next record begins.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Goes on behind the line in which a record has a fault.
    pub fn skip_line(&mut self, fault: RecordFault) {
        let from = fault.position().max(self.position);
        let rest = self.text.get(from..).unwrap_or_default();
        let end = memchr::memchr(self.dialect.terminator, rest);
        self.position = end.map_or(self.text.len(), |end| from + end + 1);
    }

    /// Puts the fields of up to `max_rows` records into `fields`; false when no record is left.
    /// After an error the fields of the records before it are there.
    pub fn read(&mut self, max_rows: usize, fields: &mut Fields) -> Result<bool, RecordFault> {
        match self.dialect.is_extended() {
            false => self.read_as::<false>(max_rows, fields),
            true => self.read_as::<true>(max_rows, fields),
        }
    }

    fn read_as<const EXTENDED: bool>(
        &mut self,
        max_rows: usize,
        fields: &mut Fields,
    ) -> Result<bool, RecordFault> {
        fields.fields.clear();
        fields.starts.clear();
        let text = self.text;
        let mut open = self.open(fields);
        let mut at = self.position;
        while fields.starts.len() < max_rows {
            let Some(bytes) = text.get(at..at + 8) else {
                return self.read_tail::<EXTENDED>(at, open, max_rows, fields);
            };
            let mut word = [0u8; 8];
            word.copy_from_slice(bytes);
            let mut special = self.patterns.special::<EXTENDED>(u64::from_le_bytes(word));
            let mut next = at + 8;
            while special != 0 {
                let here = at + (special.trailing_zeros() / 8) as usize;
                special &= special - 1;
                if let Some(resume) = self.special_byte::<EXTENDED>(here, &mut open, fields)? {
                    next = resume;
                    break;
                }
                if fields.starts.len() == max_rows {
                    break;
                }
            }
            at = next;
        }
        self.position = open.record_start;
        Ok(fields.rows() > 0)
    }

    fn open(&self, fields: &Fields) -> Open {
        Open {
            record_start: self.position,
            field_start: self.position,
            first_field: fields.fields.len(),
        }
    }

    /// Handles the special byte at `at`; `Some(position)` when scanning must go on elsewhere.
    #[inline]
    fn special_byte<const EXTENDED: bool>(
        &self,
        at: usize,
        open: &mut Open,
        fields: &mut Fields,
    ) -> Result<Option<usize>, RecordFault> {
        let byte = self.text[at];
        let dialect = self.dialect;
        if byte == dialect.delimiter && (!EXTENDED || dialect.delimits(self.text, at)) {
            fields.fields.push(Field { start: open.field_start as u32, end: at as u32 });
            if EXTENDED {
                open.field_start = at + dialect.delimiter_len();
                return Ok(Some(open.field_start));
            }
            open.field_start = at + 1;
            Ok(None)
        } else if byte == dialect.terminator {
            self.end_record(at, open, fields)?;
            Ok(None)
        } else if EXTENDED && Some(byte) == dialect.comment {
            self.comment(at, open, fields).map(Some)
        } else if at == open.field_start && (!EXTENDED || Some(byte) == dialect.quote) {
            self.quoted_field::<EXTENDED>(at, open, fields).map(Some)
        } else {
            Ok(None)
        }
    }

    /// A comment begins at `at`, outside quotes; returns where the next line begins.
    fn comment(
        &self,
        at: usize,
        open: &mut Open,
        fields: &mut Fields,
    ) -> Result<usize, RecordFault> {
        let next = self.line_end(at) + 1;
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
        let is_alone = fields.fields.len() == open.first_field
            && self.text[open.record_start..at].iter().all(is_blank);
        if is_alone {
            let first_field = fields.fields.len();
            *open = Open { record_start: next, field_start: next, first_field };
            return Ok(next);
        }
        fields.fields.push(Field { start: open.field_start as u32, end: at as u32 });
        self.close_record(next, open, fields)?;
        Ok(next)
    }

    /// Where the line ends in which `at` lies.
    fn line_end(&self, at: usize) -> usize {
        let rest = self.text.get(at..).unwrap_or_default();
        let end = memchr::memchr(self.dialect.terminator, rest);
        end.map_or(self.text.len(), |end| at + end)
    }

    /// The record ends at `end` with an unquoted field.
    #[inline]
    fn end_record(
        &self,
        end: usize,
        open: &mut Open,
        fields: &mut Fields,
    ) -> Result<(), RecordFault> {
        let content = match end > open.field_start && self.text[end - 1] == b'\r' {
            true => end - 1,
            false => end,
        };
        fields.fields.push(Field { start: open.field_start as u32, end: content as u32 });
        self.close_record(end + 1, open, fields)
    }

    /// All fields of the record are there: counts them, and begins the next record at `next`.
    #[inline]
    fn close_record(
        &self,
        next: usize,
        open: &mut Open,
        fields: &mut Fields,
    ) -> Result<(), RecordFault> {
        let found = fields.fields.len() - open.first_field;
        if self.columns.is_some_and(|columns| columns != found) {
            self.odd_record(found, open, fields)?;
        } else {
            fields.starts.push(open.record_start as u32);
        }
        *open = Open { record_start: next, field_start: next, first_field: fields.fields.len() };
        Ok(())
    }

    /// A record without the right number of fields: an empty line, a delimiter at the end of the
    /// line, a short record where that is allowed, or an error.
    #[cold]
    fn odd_record(
        &self,
        found: usize,
        open: &Open,
        fields: &mut Fields,
    ) -> Result<(), RecordFault> {
        let columns = self.columns.unwrap_or(found);
        let last = fields.fields.last().copied().unwrap_or_default();
        let last_is_empty = last.text(self.text).is_empty() && !last.is_quoted();
        if found == 1 && last_is_empty {
            fields.fields.truncate(open.first_field);
            return Ok(());
        }
        if found == columns + 1 && last_is_empty {
            fields.fields.pop();
        } else if found < columns && self.dialect.pad {
            let place = Field::empty(last.start());
            fields.fields.resize(open.first_field + columns, place);
        } else {
            return Err(RecordFault::FieldCount { start: open.record_start, found });
        }
        fields.starts.push(open.record_start as u32);
        Ok(())
    }

    /// The quoted field whose quote is at `at`; returns where scanning goes on.
    fn quoted_field<const EXTENDED: bool>(
        &self,
        at: usize,
        open: &mut Open,
        fields: &mut Fields,
    ) -> Result<usize, RecordFault> {
        let text = self.text;
        let quote = text[at];
        let escape = self.dialect.foreign_escape();
        let Closing::At(close) = closing_quote(text, at + 1, quote, escape) else {
            return Err(RecordFault::Unclosed { open: at });
        };
        let content = &text[at + 1..close];
        let escaped = match escape {
            None => memchr::memchr(quote, content).is_some(),
            Some(escape) => memchr::memchr(escape, content).is_some(),
        };
        let flags = if escaped { Field::QUOTED | Field::ESCAPED } else { Field::QUOTED };
        fields.fields.push(Field { start: at as u32 + 1, end: close as u32 | flags });
        let after = close + 1;
        match text.get(after) {
            None => {
                self.close_record(after, open, fields)?;
                Ok(after)
            }
            Some(byte) if !EXTENDED && *byte == self.dialect.delimiter => {
                open.field_start = after + 1;
                Ok(after + 1)
            }
            Some(_) if EXTENDED && self.dialect.delimits(text, after) => {
                open.field_start = after + self.dialect.delimiter_len();
                Ok(open.field_start)
            }
            Some(byte) if EXTENDED && Some(*byte) == self.dialect.comment => {
                let next = self.line_end(after) + 1;
                self.close_record(next, open, fields)?;
                Ok(next)
            }
            Some(byte) if *byte == self.dialect.terminator => {
                self.close_record(after + 1, open, fields)?;
                Ok(after + 1)
            }
            Some(b'\r') if text.get(after + 1) == Some(&self.dialect.terminator) => {
                self.close_record(after + 2, open, fields)?;
                Ok(after + 2)
            }
            Some(b'\r') if after + 1 == text.len() => {
                self.close_record(after + 1, open, fields)?;
                Ok(after + 1)
            }
            Some(_) => Err(RecordFault::AfterQuote { at: after }),
        }
    }

    /// The last bytes of the block, less than a word, one by one.
    fn read_tail<const EXTENDED: bool>(
        &mut self,
        mut at: usize,
        mut open: Open,
        max_rows: usize,
        fields: &mut Fields,
    ) -> Result<bool, RecordFault> {
        let text = self.text;
        while at < text.len() && fields.starts.len() < max_rows {
            let byte = text[at];
            let is_special = byte == self.dialect.delimiter
                || byte == self.dialect.terminator
                || Some(byte) == self.dialect.quote
                || EXTENDED && Some(byte) == self.dialect.comment;
            let resume = match is_special {
                true => self.special_byte::<EXTENDED>(at, &mut open, fields)?,
                false => None,
            };
            at = resume.unwrap_or(at + 1);
        }
        // The file may end without a terminator, and with a delimiter: then one more field is
        // empty.
        let in_record = open.record_start < text.len();
        if fields.starts.len() < max_rows && in_record && at >= text.len() {
            self.end_record(text.len(), &mut open, fields)?;
        }
        self.position = open.record_start.min(text.len());
        Ok(fields.rows() > 0)
    }
}

/// Writes the content of an escaped field into `out` as the characters that are meant.
pub fn unescape(content: &[u8], dialect: &Dialect, out: &mut Vec<u8>) {
    out.clear();
    let quote = dialect.quote.unwrap_or(b'"');
    let mark = dialect.foreign_escape().unwrap_or(quote);
    let mut rest = content;
    while let Some(at) = memchr::memchr(mark, rest) {
        out.extend_from_slice(&rest[..at]);
        // The character after the mark is taken as it is.
        if let Some(next) = rest.get(at + 1) {
            out.push(*next);
        }
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    type Rows = Vec<Vec<Option<Vec<u8>>>>;

    /// Records by a plain state machine; `None` is the empty unquoted field.
    fn naive(text: &[u8]) -> Option<Rows> {
        let mut rows: Rows = Vec::new();
        let mut at = 0;
        while at < text.len() {
            let mut row = Vec::new();
            loop {
                if text.get(at) == Some(&b'"') {
                    let mut value = Vec::new();
                    at += 1;
                    loop {
                        match (text.get(at)?, text.get(at + 1)) {
                            (b'"', Some(b'"')) => {
                                value.push(b'"');
                                at += 2;
                            }
                            (b'"', _) => break,
                            (byte, _) => {
                                value.push(*byte);
                                at += 1;
                            }
                        }
                    }
                    at += 1;
                    row.push(Some(value));
                    let rest = text.get(at..).unwrap_or_default();
                    if rest.starts_with(b"\r\n") || rest == b"\r" {
                        at += 1;
                    }
                    if !matches!(text.get(at), None | Some(b',' | b'\n')) {
                        return None;
                    }
                } else {
                    let len = text[at..].iter().position(|byte| matches!(byte, b',' | b'\n'));
                    let end = at + len.unwrap_or(text.len() - at);
                    let mut value = &text[at..end];
                    if text.get(end) != Some(&b',') && value.ends_with(b"\r") {
                        value = &value[..value.len() - 1];
                    }
                    row.push((!value.is_empty()).then(|| value.to_vec()));
                    at = end;
                }
                match text.get(at) {
                    Some(b',') => at += 1,
                    _ => break,
                }
            }
            at += 1;
            rows.push(row);
        }
        Some(rows)
    }

    fn fast(text: &[u8], batch: usize) -> Option<Rows> {
        let dialect = Dialect::default();
        let mut reader = RecordReader::new(text, &dialect, None);
        let (mut fields, mut rows, mut buffer) = (Fields::default(), Vec::new(), Vec::new());
        while reader.read(batch, &mut fields).ok()? {
            for row in 0..fields.rows() {
                let end = match row + 1 < fields.rows() {
                    true => fields.start(row + 1),
                    false => reader.position().max(fields.start(row) + 1),
                };
                let inside = |field: &&Field| {
                    let start = field.start() - usize::from(field.is_quoted());
                    (fields.start(row)..end).contains(&start)
                        || start == text.len() && row + 1 == fields.rows()
                };
                rows.push(
                    fields
                        .all()
                        .iter()
                        .filter(inside)
                        .map(|field| {
                            if field.is_escaped() {
                                unescape(field.text(text), &dialect, &mut buffer);
                                return Some(buffer.clone());
                            }
                            let value = field.text(text).to_vec();
                            (field.is_quoted() || !value.is_empty()).then_some(value)
                        })
                        .collect(),
                );
            }
        }
        Some(rows)
    }

    #[test]
    fn random_text_is_read_like_a_state_machine_does() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..30_000 {
            let len = random.usize(0..40);
            let text: Vec<u8> = (0..len).map(|_| b"abc,,\"\"\n\r"[random.usize(0..9)]).collect();
            let batch = random.usize(1..5);
            assert_eq!(fast(&text, batch), naive(&text), "{}", text.escape_ascii());
        }
    }

    fn texts(text: &str, dialect: &Dialect, batch: usize) -> Vec<String> {
        let mut reader = RecordReader::new(text.as_bytes(), dialect, None);
        let (mut fields, mut all) = (Fields::default(), Vec::new());
        while reader.read(batch, &mut fields).unwrap() {
            let field = |field: &Field| String::from_utf8_lossy(field.text(text.as_bytes())).into();
            all.extend(fields.all().iter().map(field));
        }
        all
    }

    #[test]
    fn delimiters_of_several_bytes_and_comments() {
        let bars = Dialect { delimiter_rest: b"|".to_vec(), delimiter: b'|', ..Dialect::default() };
        let hash = Dialect { comment: Some(b'#'), ..Dialect::default() };
        let both = Dialect { comment: Some(b'#'), ..bars.clone() };
        for batch in 1..4 {
            let read = |text, dialect| texts(text, dialect, batch).join("/");
            assert_eq!(read("a||b\n1|2||\"x||y\"||z\n", &bars), "a/b/1|2/x||y/z");
            assert_eq!(read("a|||\"b\n|\"||c", &bars), "a/|\"b/|\"/c");
            assert_eq!(
                read("# x\na,b\n  # \"y\n1,\"#z\"#t\n#\n2,c # d\n#", &hash),
                "a/b/1/#z/2/c "
            );
            assert_eq!(
                read("a||b#||c\n#||\"\nlonger||than a word", &both),
                "a/b/longer/than a word"
            );
        }
    }

    fn faults(text: &[u8], columns: usize, pad: bool) -> Result<usize, RecordFault> {
        let dialect = Dialect { pad, ..Dialect::default() };
        let mut reader = RecordReader::new(text, &dialect, Some(columns));
        let mut fields = Fields::default();
        let mut rows = 0;
        while reader.read(2, &mut fields)? {
            assert_eq!(fields.all().len(), fields.rows() * columns);
            rows += fields.rows();
        }
        Ok(rows)
    }

    #[test]
    fn records_must_have_the_right_number_of_fields() {
        assert_eq!(faults(b"a,b\nc,d\ne,f", 2, false), Ok(3));
        assert_eq!(faults(b"a,b\n\n\nc,d\n\n", 2, false), Ok(2));
        assert_eq!(faults(b"a\n\nb\n", 1, false), Ok(3));
        assert_eq!(faults(b"a|b,\nc,d,\n", 2, false), Ok(2));
        assert_eq!(faults(b"a\nb,c", 2, true), Ok(2));
        let count = |start, found| Err(RecordFault::FieldCount { start, found });
        assert_eq!(faults(b"a,b\nc,d\ne\n", 2, false), count(8, 1));
        assert_eq!(faults(b"a,b\nc,d,e\n", 2, false), count(4, 3));
        assert_eq!(faults(b"a,b\nc,\"d", 2, false), Err(RecordFault::Unclosed { open: 6 }));
        assert_eq!(faults(b"a,\"b\"x\n", 2, false), Err(RecordFault::AfterQuote { at: 5 }));
    }
}
