//! Text to lists, structs and maps: `'[1, NULL]'`, `'{a: 1, "b c": x}'`, `'(1, x)'`, `'{k=1}'`.
//!
//! What a cast to text writes reads back. A text is cut into those of its parts, all rows of one
//! level at once, and the parts are cast to their types, which may be nested again. JSON is cut by
//! [`read_json`]. Rules of other texts are DuckDB's, but that names of fields go without regard to
//! case where none is the same:
//!
//! * White space around parts does not count. What is in brackets of any kind is one part as it is
//!   written.
//! * Both quotes quote, also in the middle of a part; behind a backslash in quotes any character
//!   stands for itself, and outside of quotes a quote does.
//! * NULL without quotes is no value, in capitals or not.
//!
//! ```text
//! '[a, "b, c", NULL]'  ->  a | b, c | NULL
//! ```
//!
//! **Cycle.** Parts are cast as values alone are ([`normalize`](super::normalize)), which reads
//! nested texts here.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait,
    StringViewArray, StringViewBuilder, StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, FieldRef, Fields};
use arrow::util::display::FormatOptions;

use super::maps::wrong_keys;
use crate::cast::nested_json;
use crate::cast::normalize::prepared;
use crate::cast::parts::{Part, Wrong, is_nested};
use crate::error::{Error, Result};
use crate::types::sql_names::sql_name;

/// Texts longer than this are cut in messages.
const MAX_SHOWN_CHARS: usize = 60;

/// The values that texts are of a nested type; of a text that is none an error, or NULL where
/// `safe`.
pub fn read(texts: &StringViewArray, to: &DataType, safe: bool) -> Result<ArrayRef> {
    Reader { to, safe, json: false }.values(texts)
}

/// The values of a nested type that texts are as JSON.
pub fn read_json(texts: &StringViewArray, to: &DataType, safe: bool) -> Result<ArrayRef> {
    Reader { to, safe, json: true }.values(texts)
}

/// Texts as values of a type.
fn cast(parts: &ArrayRef, to: &DataType, safe: bool) -> Result<ArrayRef> {
    let options = |safe| CastOptions { safe, format_options: FormatOptions::default() };
    let ready = prepared(parts, to, safe)?;
    let found = cast_with_options(&ready, to, &options(safe));
    found.or_else(|error| {
        let lenient = cast_with_options(&ready, to, &options(true))?;
        let wrong = (0..ready.len()).find(|row| ready.is_valid(*row) && lenient.is_null(*row));
        let Some(row) = wrong.filter(|_| parts.data_type() == &DataType::Utf8View) else {
            return Err(error.into());
        };
        let shown = shown(parts.as_string_view().value(row));
        Err(conversion(format!("{shown} is no valid {}", sql_name(to))))
    })
}

fn conversion(message: String) -> Error {
    Error::Conversion { message, column: None }
}

fn shown(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("'{}...'", &text[..end]),
        None => format!("'{text}'"),
    }
}

/// Of the texts of one type.
struct Reader<'a> {
    to: &'a DataType,
    safe: bool,
    /// The texts are JSON.
    json: bool,
}

impl Reader<'_> {
    fn values(&self, texts: &StringViewArray) -> Result<ArrayRef> {
        match self.to {
            DataType::List(item) => self.lists::<i32>(texts, item),
            DataType::LargeList(item) => self.lists::<i64>(texts, item),
            DataType::FixedSizeList(item, length) => self.arrays(texts, item, *length),
            DataType::Struct(fields) => self.structs(texts, fields),
            DataType::Map(entries, sorted) => self.maps(texts, entries, *sorted),
            other => Err(Error::internal(format!("{} is not nested", sql_name(other)))),
        }
    }

    /// The parts as values of a type.
    fn cast(&self, mut parts: StringViewBuilder, to: &DataType) -> Result<ArrayRef> {
        let parts = parts.finish();
        match self.json && is_nested(to) {
            true => Reader { to, ..*self }.values(&parts),
            false => cast(&(Arc::new(parts) as _), to, self.safe),
        }
    }

    fn elements(&self, text: &str, item: &DataType) -> Result<Vec<Part>, Wrong> {
        match self.json {
            true => nested_json::elements(text, item),
            false => elements(text),
        }
    }

    fn members(&self, text: &str, fields: &Fields) -> Result<Vec<Part>, Wrong> {
        match self.json {
            true => nested_json::members(text, fields, self.safe),
            false => members(text, fields),
        }
    }

    fn pairs(&self, text: &str, value: &DataType) -> Result<Vec<(Part, Part)>, Wrong> {
        match self.json {
            true => nested_json::pairs(text, value),
            false => pairs(text),
        }
    }

    /// What a text is cut into; `None` where it is NULL, or wrong and that does not matter.
    fn cut<T>(
        &self,
        text: Option<&str>,
        cut: impl Fn(&str) -> Result<T, Wrong>,
    ) -> Result<Option<T>> {
        let Some(text) = text.map(str::trim_ascii) else { return Ok(None) };
        if self.json && text == nested_json::NULL {
            return Ok(None);
        }
        match cut(text) {
            Ok(parts) => Ok(Some(parts)),
            Err(_) if self.safe => Ok(None),
            Err(wrong) => {
                let to = sql_name(self.to);
                Err(conversion(format!("{} is no valid {to}: {wrong}", shown(text))))
            }
        }
    }

    fn lists<O: OffsetSizeTrait>(
        &self,
        texts: &StringViewArray,
        item: &FieldRef,
    ) -> Result<ArrayRef> {
        let (mut parts, mut valid) = (StringViewBuilder::new(), Vec::with_capacity(texts.len()));
        let mut lengths = Vec::with_capacity(texts.len());
        for text in texts {
            let elements = self.cut(text, |text| self.elements(text, item.data_type()))?;
            valid.push(elements.is_some());
            let elements = elements.unwrap_or_default();
            lengths.push(elements.len());
            elements.into_iter().for_each(|part| parts.append_option(part));
        }
        let values = self.cast(parts, item.data_type())?;
        let offsets = OffsetBuffer::<O>::from_lengths(lengths);
        let nulls = Some(NullBuffer::from(valid));
        Ok(Arc::new(GenericListArray::<O>::try_new(Arc::clone(item), offsets, values, nulls)?))
    }

    fn arrays(&self, texts: &StringViewArray, item: &FieldRef, length: i32) -> Result<ArrayRef> {
        let (mut parts, mut valid) = (StringViewBuilder::new(), Vec::with_capacity(texts.len()));
        let count = usize::try_from(length).unwrap_or_default();
        for text in texts {
            let elements =
                self.cut(text, |text| match self.elements(text, item.data_type())? {
                    all if all.len() == count => Ok(all),
                    _ => Err("another number of elements"),
                })?;
            valid.push(elements.is_some());
            let elements = elements.unwrap_or_else(|| vec![None; count]);
            elements.into_iter().for_each(|part| parts.append_option(part));
        }
        let values = self.cast(parts, item.data_type())?;
        let nulls = Some(NullBuffer::from(valid));
        Ok(Arc::new(FixedSizeListArray::try_new(Arc::clone(item), length, values, nulls)?))
    }

    fn structs(&self, texts: &StringViewArray, fields: &Fields) -> Result<ArrayRef> {
        let mut columns = fields.iter().map(|_| StringViewBuilder::new()).collect::<Vec<_>>();
        let mut valid = Vec::with_capacity(texts.len());
        for text in texts {
            let members = self.cut(text, |text| self.members(text, fields))?;
            valid.push(members.is_some());
            let members = members.unwrap_or_else(|| vec![None; fields.len()]);
            for (column, member) in columns.iter_mut().zip(members) {
                column.append_option(member);
            }
        }
        let columns = columns.into_iter().zip(fields);
        let columns = columns.map(|(column, field)| self.cast(column, field.data_type()));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let nulls = Some(NullBuffer::from(valid));
        let (fields, rows) = (fields.clone(), texts.len());
        Ok(Arc::new(StructArray::try_new_with_length(fields, columns, nulls, rows)?))
    }

    fn maps(&self, texts: &StringViewArray, entries: &FieldRef, sorted: bool) -> Result<ArrayRef> {
        let DataType::Struct(fields) = entries.data_type() else {
            return Err(Error::internal("a map has entries".to_string()));
        };
        let [key, value] = fields.as_ref() else {
            return Err(Error::internal("entries of a map have a key and a value".to_string()));
        };
        let (mut keys, mut values) = (StringViewBuilder::new(), StringViewBuilder::new());
        let mut valid = Vec::with_capacity(texts.len());
        let mut lengths = Vec::with_capacity(texts.len());
        for text in texts {
            let pairs = self.cut(text, |text| self.pairs(text, value.data_type()))?;
            valid.push(pairs.is_some());
            let pairs = pairs.unwrap_or_default();
            lengths.push(pairs.len());
            for (key, value) in pairs {
                keys.append_option(key);
                values.append_option(value);
            }
        }
        let keys = self.cast(keys, key.data_type())?;
        let offsets = OffsetBuffer::from_lengths(lengths);
        let wrong = wrong_keys(&keys, &offsets)?;
        if let Some((row, problem)) = wrong.first() {
            if !self.safe {
                let (text, to) = (shown(texts.value(*row)), sql_name(self.to));
                return Err(conversion(format!("{text} is no valid {to}: {problem}")));
            }
            let mut right = texts.iter().collect::<Vec<_>>();
            wrong.iter().for_each(|(row, _)| right[*row] = None);
            return self.maps(&right.into_iter().collect(), entries, sorted);
        }
        let values = self.cast(values, value.data_type())?;
        let pairs = StructArray::try_new(fields.clone(), vec![keys, values], None)?;
        let nulls = Some(NullBuffer::from(valid));
        Ok(Arc::new(MapArray::try_new(Arc::clone(entries), offsets, pairs, nulls, sorted)?))
    }
}

// ---- one text -----------------------------------------------------------------------------------

/// What is between two brackets around all of a text.
fn inside(text: &str, open: char, close: char, missing: Wrong) -> Result<&str, Wrong> {
    text.strip_prefix(open).and_then(|rest| rest.strip_suffix(close)).ok_or(missing)
}

/// `[a, b]`
fn elements(text: &str) -> Result<Vec<Part>, Wrong> {
    parts(inside(text, '[', ']', "a list is in [ ]")?, ']')
}

/// The parts between commas; none where there is nothing.
fn parts(inside: &str, close: char) -> Result<Vec<Part>, Wrong> {
    let mut scanner = Scanner { rest: inside, close };
    let mut parts = Vec::new();
    if inside.trim_ascii().is_empty() {
        return Ok(parts);
    }
    loop {
        let (part, end) = scanner.part(&[','])?;
        parts.push(part.value());
        if end.is_none() {
            return Ok(parts);
        }
    }
}

/// `{a: 1, b: 2}` and `(1, 2)`, in the order of the fields.
fn members(text: &str, fields: &Fields) -> Result<Vec<Part>, Wrong> {
    if text.starts_with('(') {
        let mut values = parts(inside(text, '(', ')', "a ( without ) at the end")?, ')')?;
        if values.len() > fields.len() {
            return Err("more values than fields");
        }
        values.resize(fields.len(), None);
        return Ok(values);
    }
    let mut values = vec![None; fields.len()];
    for (name, value) in named(inside(text, '{', '}', "a STRUCT is in { } or ( )")?, ':')? {
        let name = name.text;
        let exact = fields.iter().position(|field| *field.name() == name);
        let alike = || fields.iter().position(|field| field.name().eq_ignore_ascii_case(&name));
        match exact.or_else(alike) {
            Some(place) => values[place] = value,
            None => return Err("it has a field that the STRUCT does not have"),
        }
    }
    Ok(values)
}

/// `{k=1, l=2}`
fn pairs(text: &str) -> Result<Vec<(Part, Part)>, Wrong> {
    let pairs = named(inside(text, '{', '}', "a MAP is in { }")?, '=')?;
    Ok(pairs.into_iter().map(|(key, value)| (key.value(), value)).collect())
}

fn named(inside: &str, mark: char) -> Result<Vec<(Piece, Part)>, Wrong> {
    let mut scanner = Scanner { rest: inside, close: '}' };
    let mut named = Vec::new();
    if inside.trim_ascii().is_empty() {
        return Ok(named);
    }
    loop {
        let (name, end) = scanner.part(&[mark, ','])?;
        if end != Some(mark) {
            return Err("a name without a value");
        }
        let (value, end) = scanner.part(&[','])?;
        named.push((name, value.value()));
        if end.is_none() {
            return Ok(named);
        }
    }
}

/// A part as it is read.
struct Piece {
    text: String,
    /// Whether all of it is as it was written, without quotes.
    plain: bool,
}

impl Piece {
    fn value(self) -> Part {
        let is_null = self.plain && self.text.eq_ignore_ascii_case("null");
        (!is_null).then_some(self.text)
    }
}

struct Scanner<'a> {
    rest: &'a str,
    /// The bracket that closes all of it, and cannot be in it.
    close: char,
}

impl Scanner<'_> {
    /// The part up to the next mark outside of quotes and brackets, and that mark.
    fn part(&mut self, marks: &[char]) -> Result<(Piece, Option<char>), Wrong> {
        let mut piece = Piece { text: String::new(), plain: true };
        // How much of the text is in quotes, or in brackets: white space there counts.
        let mut kept = 0;
        self.rest = self.rest.trim_ascii_start();
        let mut end = None;
        while let Some(char) = self.next() {
            match char {
                char if marks.contains(&char) => {
                    end = Some(char);
                    break;
                }
                '"' | '\'' => {
                    piece.plain = false;
                    self.quoted(char, &mut piece.text)?;
                    kept = piece.text.len();
                }
                '\\' if self.rest.starts_with(['"', '\'']) => {
                    piece.plain = false;
                    piece.text.extend(self.next());
                    kept = piece.text.len();
                }
                '[' | '{' | '(' => {
                    self.bracket(char, &mut piece.text)?;
                    kept = piece.text.len();
                }
                char if char == self.close => return Err("something behind its last bracket"),
                char => piece.text.push(char),
            }
        }
        let trimmed = piece.text[kept..].trim_ascii_end().len();
        piece.text.truncate(kept + trimmed);
        Ok((piece, end))
    }

    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let next = chars.next();
        self.rest = chars.as_str();
        next
    }

    /// What is up to the closing quote, without it.
    fn quoted(&mut self, quote: char, text: &mut String) -> Result<(), Wrong> {
        const OPEN: Wrong = "a quote is not closed";
        loop {
            match self.next().ok_or(OPEN)? {
                '\\' => text.push(self.next().ok_or(OPEN)?),
                char if char == quote => return Ok(()),
                char => text.push(char),
            }
        }
    }

    /// All up to the closing bracket as it is written.
    fn bracket(&mut self, open: char, text: &mut String) -> Result<(), Wrong> {
        let closing = |open| match open {
            '[' => ']',
            '{' => '}',
            _ => ')',
        };
        text.push(open);
        let (mut expected, mut quote) = (vec![closing(open)], None);
        while let Some(last) = expected.last() {
            let char = self.next().ok_or("a bracket is not closed")?;
            text.push(char);
            match (quote, char) {
                (_, '\\') => text.extend(self.next()),
                (Some(open), char) if char == open => quote = None,
                (Some(_), _) => {}
                (None, '"' | '\'') => quote = Some(char),
                (None, '[' | '{' | '(') => expected.push(closing(char)),
                (None, char) if char == *last => {
                    expected.pop();
                }
                (None, _) => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<String, Wrong> {
        let shown = |part: Part| part.unwrap_or_else(|| "-".to_string());
        Ok(elements(text)?.into_iter().map(shown).collect::<Vec<_>>().join("|"))
    }

    #[test]
    fn elements_of_lists() {
        for (text, expected) in [
            ("[]", ""),
            ("[ ]", ""),
            ("[1, 2 ,3 ]", "1|2|3"),
            ("[a b , ü]", "a b|ü"),
            ("[a,,b,]", "a||b|"),
            ("[NULL, null, 'NULL', NULLs]", "-|-|NULL|NULLs"),
            (r#"[' a ', "b, c" , x'y 'z ]"#, " a |b, c|xy z"),
            (r#"["a\"b\\", 'c\'\d']"#, r#"a"b\|c'd"#),
            (r#"[\"a\', b\c, d\,e]"#, r#""a'|b\c|d\|e"#),
            (
                r#"[[1, "]"], {a: ['}']}, (b, c) , d[e, f]]"#,
                r#"[1, "]"]|{a: ['}']}|(b, c)|d[e, f]"#,
            ),
        ] {
            assert_eq!(of(text).as_deref(), Ok(expected), "{text}");
        }
        for wrong in
            ["", "a", "[1", "1]", "[1] x", "[1] x]", "['a]", "[(a, b]", "[{a]", r#"['a\']"#, "["]
        {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_and_keys() {
        let fields =
            ["a", "B c"].map(|name| arrow::datatypes::Field::new(name, DataType::Utf8, true));
        let fields = Fields::from(fields.to_vec());
        let of = |text: &str| members(text, &fields);
        let value = |text: &str| Some(text.to_string());
        assert_eq!(of("{a: x:y, 'B c': NULL}"), Ok(vec![value("x:y"), None]));
        assert_eq!(of("{b C: {d: 1}}"), Ok(vec![None, value("{d: 1}")]));
        assert_eq!(of("(1)"), Ok(vec![value("1"), None]));
        assert_eq!(of("{}"), Ok(vec![None, None]));
        for wrong in ["{a: 1, }", "{a}", "{d: 1}", "(1, 2, 3)", "a: 1", "{a: 1", "[1]"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            pairs("{'a=b'=c=d, NULL=}").unwrap(),
            [(value("a=b"), value("c=d")), (None, value(""))]
        );
        assert!(pairs("{a=1,}").is_err() && pairs("{a}").is_err());
    }
}
