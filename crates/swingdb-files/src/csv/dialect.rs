//! How a CSV file is written: separators, quotes, and what stands for NULL.

use super::values::DateStyle;

/// The grammar of one CSV file, completely decided.
///
/// A record ends with the terminator, optionally after a carriage return; fields are separated by
/// the delimiter. A field that begins with the quote character ends with the next one that is
/// neither doubled nor escaped, and may contain anything in between. A quote anywhere else is an
/// ordinary character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// Between fields.
    pub delimiter: u8,
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
    /// Whether records with fewer fields than columns are filled up with NULLs.
    pub pad: bool,
}

impl Default for Dialect {
    fn default() -> Self {
        Self {
            delimiter: b',',
            quote: Some(b'"'),
            escape: Some(b'"'),
            terminator: b'\n',
            header: true,
            skip: 0,
            nulls: vec![Vec::new()],
            dates: DateStyle::Iso,
            pad: false,
        }
    }
}

impl Dialect {
    /// The escape character when it is another one than the quote.
    pub(crate) fn foreign_escape(&self) -> Option<u8> {
        self.escape.filter(|escape| Some(*escape) != self.quote)
    }
}
