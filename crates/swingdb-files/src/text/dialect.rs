//! How a CSV file is written: separators, quotes, and what stands for NULL.

use std::sync::Arc;

use crate::text::styles::Styles;
use crate::text::values::DateStyle;

/// The grammar of one CSV file, completely decided.
///
/// A record ends with the terminator, optionally after a carriage return; fields are separated by
/// the delimiter. A field that begins with the quote character ends with the next one that is
/// neither doubled nor escaped, and may contain anything in between. A quote anywhere else is an
/// ordinary character. A comment ends its record; a line that is nothing else is no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// Between fields: its first byte.
    pub delimiter: u8,
    /// The rest of a delimiter of several bytes.
    pub delimiter_rest: Vec<u8>,
    /// Begins a comment, up to the end of the line, outside quotes.
    pub comment: Option<u8>,
    /// Around fields; `None`: no character is special.
    pub quote: Option<u8>,
    /// Before a quote (or itself) inside a quoted field; the quote itself when it is doubled.
    pub escape: Option<u8>,
    /// `\n`, or `\r` in old files that have nothing else.
    pub terminator: u8,
    /// Whether the first record names the columns.
    pub header: bool,
    /// Lines before the header that are no records.
    pub skip: u64,
    /// Texts that stand for NULL when not quoted.
    pub nulls: Vec<Vec<u8>>,
    /// How dates are written.
    pub dates: DateStyle,
    /// How values are written that the usual parsers do not take.
    pub styles: Option<Arc<Styles>>,
    /// Whether records with fewer fields than columns are filled up with NULLs.
    pub pad: bool,
}

impl Default for Dialect {
    fn default() -> Self {
        Self {
            delimiter: b',',
            delimiter_rest: Vec::new(),
            comment: None,
            quote: Some(b'"'),
            escape: Some(b'"'),
            terminator: b'\n',
            header: true,
            skip: 0,
            nulls: vec![Vec::new()],
            dates: DateStyle::Iso,
            styles: None,
            pad: false,
        }
    }
}

impl Dialect {
    /// Whether more than single bytes tell fields and records apart: such text is read in another,
    /// slower way.
    pub(crate) fn is_extended(&self) -> bool {
        self.comment.is_some() || !self.delimiter_rest.is_empty()
    }

    /// Whether a delimiter stands at `at`.
    #[inline]
    pub(crate) fn delimits(&self, text: &[u8], at: usize) -> bool {
        text.get(at) == Some(&self.delimiter) && text[at + 1..].starts_with(&self.delimiter_rest)
    }

    /// Bytes of the delimiter.
    pub(crate) fn delimiter_len(&self) -> usize {
        1 + self.delimiter_rest.len()
    }

    /// The escape character when it is another one than the quote.
    pub(crate) fn foreign_escape(&self) -> Option<u8> {
        self.escape.filter(|escape| Some(*escape) != self.quote)
    }
}
