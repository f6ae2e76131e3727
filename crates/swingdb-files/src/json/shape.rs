//! What a sample of JSON values has in common: the types of columns, in the order in which their
//! members were first seen.
//!
//! A type is only found where it loses nothing of any value of the sample: whole numbers beyond
//! 64 bits are HUGEINT, and what no number type holds exactly, or what is a number here and a text
//! there, is JSON, which is text as it stands in the file.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, TimeUnit};

use crate::text::json_scanner::{Fault, Scanned, Scanner, Token};
use crate::text::json_values::Kind;
use crate::text::values;
use crate::text::values::DateStyle;

/// Members of an object up to which they are looked through one by one.
const FEW_MEMBERS: usize = 8;

/// What values have in common.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Shape {
    /// All are NULL.
    #[default]
    Unknown,
    Bool,
    Number(Numbers),
    Text(Texts),
    List(Box<Shape>),
    Object(Members),
    /// They have nothing in common.
    Mixed,
}

/// What is true of all numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Numbers {
    /// Written without a fraction or an exponent.
    whole: bool,
    /// Fits a BIGINT.
    small: bool,
    /// Fits a HUGEINT.
    fits: bool,
    /// A whole number is equal to a DOUBLE; no other is too large for one.
    exact: bool,
}

/// What is true of all texts.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Texts {
    date: bool,
    timestamp: bool,
    with_offset: bool,
    without_offset: bool,
}

/// The members of objects, in the order in which they were first seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    names: Vec<String>,
    shapes: Vec<Shape>,
    /// The object that had the member last, to find one that has it twice.
    last: Vec<u64>,
    places: HashMap<String, usize>,
    objects: u64,
}

impl PartialEq for Members {
    fn eq(&self, other: &Self) -> bool {
        self.names == other.names && self.shapes == other.shapes
    }
}

impl Shape {
    /// Takes in the value that begins with `token`.
    pub(super) fn add<'a>(
        &mut self,
        scanner: &mut Scanner<'a>,
        token: Token<'a>,
        depth: usize,
    ) -> Scanned<()> {
        match (&mut *self, token) {
            (_, Token::Null) => return Ok(()),
            (Self::Unknown, _) => {
                *self = Self::of(token);
                return self.add(scanner, token, depth);
            }
            (Self::Bool, Token::Bool(_)) => return Ok(()),
            (Self::Number(numbers), Token::Number(text)) => {
                numbers.add(text.as_bytes());
                return Ok(());
            }
            (Self::Text(texts), Token::Text(text)) => {
                texts.add(text.value().as_bytes());
                return Ok(());
            }
            (Self::List(item), Token::List) => {
                let depth = scanner.deeper(token, depth)?;
                let mut first = true;
                while scanner.element(first)? {
                    first = false;
                    let token = scanner.token()?;
                    item.add(scanner, token, depth)?;
                }
                return Ok(());
            }
            (Self::Object(members), Token::Object) => {
                let depth = scanner.deeper(token, depth)?;
                return members.add(scanner, depth);
            }
            _ => {}
        }
        *self = Self::Mixed;
        scanner.skip(token, depth)
    }

    fn of(token: Token<'_>) -> Self {
        match token {
            Token::Null => Self::Unknown,
            Token::Bool(_) => Self::Bool,
            Token::Number(_) => Self::Number(Numbers::default()),
            Token::Text(_) => Self::Text(Texts::default()),
            Token::List => Self::List(Box::default()),
            Token::Object => Self::Object(Members::default()),
        }
    }

    /// The type, and how it is read.
    pub(super) fn kind(&self) -> (DataType, Kind) {
        let text = (DataType::Utf8View, Kind::Text);
        let json = (DataType::Utf8View, Kind::Json);
        match self {
            Self::Unknown => text,
            Self::Mixed => json,
            Self::Bool => (DataType::Boolean, Kind::Guessed),
            Self::Number(numbers) => match numbers.data_type() {
                Some(data_type) => (data_type, Kind::Guessed),
                None => json,
            },
            Self::Text(texts) => match texts.data_type() {
                Some(data_type) => (data_type, Kind::Guessed),
                None => text,
            },
            Self::List(item) => {
                let (data_type, kind) = item.kind();
                let field = Field::new_list_field(data_type, true);
                (DataType::List(Arc::new(field)), Kind::List(Box::new(kind)))
            }
            // A struct without fields would say that there never are any.
            Self::Object(members) if members.names.is_empty() => json,
            Self::Object(members) => {
                let (fields, keys, kinds) = members.columns();
                (DataType::Struct(fields.into()), Kind::Object { keys, kinds })
            }
        }
    }
}

impl Default for Numbers {
    fn default() -> Self {
        Self { whole: true, small: true, fits: true, exact: true }
    }
}

impl Numbers {
    fn add(&mut self, text: &[u8]) {
        let whole = !text.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E'));
        self.whole &= whole;
        self.small &= whole && values::integer(text).is_some();
        self.fits &= whole && values::decimal(text, 38, 0).is_some();
        // Most numbers need no second look.
        if self.exact && (text.len() > 15 || !whole) {
            self.exact = values::plain_float(text).is_some_and(f64::is_finite);
        }
    }

    fn data_type(&self) -> Option<DataType> {
        match self {
            Self { whole: true, small: true, .. } => Some(DataType::Int64),
            Self { whole: true, fits: true, .. } => Some(DataType::Decimal128(38, 0)),
            Self { whole: false, exact: true, .. } => Some(DataType::Float64),
            _ => None,
        }
    }
}

impl Default for Texts {
    fn default() -> Self {
        Self { date: true, timestamp: true, with_offset: false, without_offset: false }
    }
}

impl Texts {
    fn add(&mut self, text: &[u8]) {
        self.date = self.date && values::date(text, DateStyle::Iso).is_some();
        if !self.timestamp {
            return;
        }
        match values::date_time(text, DateStyle::Iso) {
            Some(at) if at.instant(1_000_000).is_some() => {
                self.with_offset |= at.offset_s.is_some();
                self.without_offset |= at.offset_s.is_none();
            }
            _ => self.timestamp = false,
        }
    }

    fn data_type(&self) -> Option<DataType> {
        match (self.date, self.timestamp, self.with_offset, self.without_offset) {
            (true, ..) => Some(DataType::Date32),
            (_, true, true, false) => {
                Some(DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())))
            }
            (_, true, false, true) => Some(DataType::Timestamp(TimeUnit::Microsecond, None)),
            _ => None,
        }
    }
}

impl Members {
    /// Takes in the members of an object whose `{` is behind us.
    pub(super) fn add(&mut self, scanner: &mut Scanner<'_>, depth: usize) -> Scanned<()> {
        self.objects += 1;
        let (mut first, mut expected) = (true, 0);
        loop {
            let start = scanner.position();
            let Some(name) = scanner.member(first)? else { return Ok(()) };
            first = false;
            let name = name.value();
            // Objects mostly have the same members in the same order.
            let at = match self.names.get(expected) {
                Some(known) if *known == name => expected,
                _ => self.place(&name),
            };
            if std::mem::replace(&mut self.last[at], self.objects) == self.objects {
                let what = format!("has member {name:?} twice");
                return Err(Fault::new(start, what));
            }
            expected = at + 1;
            let token = scanner.token()?;
            self.shapes[at].add(scanner, token, depth)?;
        }
    }

    fn place(&mut self, name: &str) -> usize {
        let known = match self.names.len() {
            ..=FEW_MEMBERS => self.names.iter().position(|known| known == name),
            _ => {
                if self.places.is_empty() {
                    let places = self.names.iter().cloned().zip(0..);
                    self.places.extend(places);
                }
                self.places.get(name).copied()
            }
        };
        known.unwrap_or_else(|| {
            let at = self.names.len();
            if !self.places.is_empty() {
                self.places.insert(name.to_string(), at);
            }
            self.names.push(name.to_string());
            self.shapes.push(Shape::Unknown);
            self.last.push(0);
            at
        })
    }

    /// Fields, the members' names in the file, and how each is read. A name that differs from an
    /// earlier one in case only gets a number, as names of CSV columns do.
    pub(super) fn columns(&self) -> (Vec<Field>, Vec<String>, Vec<Kind>) {
        let names: Vec<Option<Cow<'_, [u8]>>> =
            self.names.iter().map(|name| Some(name.as_bytes().into())).collect();
        let unique = crate::csv::sniff::header_names(&names);
        let (mut fields, mut kinds) = (Vec::new(), Vec::new());
        for (name, shape) in unique.into_iter().zip(&self.shapes) {
            let (data_type, kind) = shape.kind();
            fields.push(Field::new(name, data_type, true));
            kinds.push(kind);
        }
        (fields, self.names.clone(), kinds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(lines: &str) -> Shape {
        let mut shape = Shape::Unknown;
        for line in lines.lines() {
            let mut scanner = Scanner::new(line, 0);
            let token = scanner.token().unwrap();
            shape.add(&mut scanner, token, 0).unwrap();
            assert!(scanner.line_end() && scanner.at_end(), "{line}");
        }
        shape
    }

    fn data_type(lines: &str) -> String {
        shape(lines).kind().0.to_string()
    }

    #[test]
    fn no_type_loses_anything() {
        let micros = "Timestamp(µs)";
        for (lines, expected) in [
            ("1\nnull\n-2", "Int64"),
            ("9223372036854775808", "Decimal128(38, 0)"),
            ("1\n1.5", "Float64"),
            ("9007199254740992\n1.5", "Float64"),
            ("9007199254740993\n1.5", "Utf8View"),
            ("1e400", "Utf8View"),
            ("12345678901234567890123456789012345678901", "Utf8View"),
            ("true\nfalse", "Boolean"),
            ("true\n1", "Utf8View"),
            ("1\n\"x\"", "Utf8View"),
            ("\"2024-01-31\"", "Date32"),
            ("\"2024-01-31\"\n\"2024-01-31 10:00:00\"", micros),
            ("\"2024-01-31\"\n\"x\"", "Utf8View"),
            ("\"2024-01-31T10:00:00Z\"\n\"2024-01-31\"", "Utf8View"),
            ("[]\n[1]\n[null, 2.5]", "List(Float64)"),
            ("{}", "Utf8View"),
            ("{}\n{\"z\":1}\n{\"a\":[]}", "Struct(\"z\": Int64, \"a\": List(Utf8View))"),
            ("{\"a\":1,\"A\":true}", "Struct(\"a\": Int64, \"A_1\": Boolean)"),
        ] {
            assert_eq!(data_type(lines), expected, "{lines}");
        }
    }

    #[test]
    fn the_order_is_that_of_the_file() {
        let names: Vec<String> = (0..40).map(|n| format!("m{}", n * 7 % 40)).collect();
        let line = |names: &[String]| {
            let members: Vec<String> = names.iter().map(|name| format!("{name:?}:1")).collect();
            format!("{{{}}}", members.join(","))
        };
        let mut reversed = names[..30].to_vec();
        reversed.reverse();
        let lines = [line(&names[..20]), line(&reversed), line(&names)].join("\n");
        let Shape::Object(members) = shape(&lines) else { panic!() };
        let first: Vec<String> = names[..20].to_vec();
        assert_eq!(members.names[..20], first);
        assert_eq!(members.names.len(), 40);
        assert_eq!(members.names[20], reversed[0]);
    }
}
