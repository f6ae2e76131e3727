//! `COPY table TO STDOUT` and `COPY (query) TO STDOUT`: [`CopyOut`].
//!
//! The three formats of PostgreSQL, with its options and defaults: text, which psql's `\copy`
//! writes to files as it comes, CSV, and binary, which drivers read without parsing numbers.

use std::iter::Peekable;

use bytes::{BufMut, BytesMut};
use pgwire::messages::copy::{CopyDone, CopyOutResponse};
use swingdb::cutter::{Kind, Piece, words};

use crate::postgres::failure::Failure;
use crate::postgres::rows::{Batch, Rows, sized_message};
use crate::postgres::sqlstate::Refusal;
use crate::postgres::values::{Format, sized, write};
use crate::postgres::wire::Wire;

/// The header of a binary copy: the signature, no flags, no extension.
const BINARY_HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
const OPTIONS: &str = "FORMAT, DELIMITER, NULL, HEADER, QUOTE, ESCAPE, FORCE_QUOTE, ENCODING";

/// How rows are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Form {
    #[default]
    Text,
    Csv,
    Binary,
}

/// Columns whose values are quoted in any case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Forced {
    #[default]
    None,
    All,
    Named(Vec<String>),
}

/// A copy to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOut {
    /// The query whose rows are copied.
    pub query: String,
    form: Form,
    delimiter: u8,
    null: String,
    has_header: bool,
    quote: u8,
    escape: u8,
    forced: Forced,
}

type Pieces<'a, 'b> = &'b mut Peekable<std::vec::IntoIter<Piece<'a>>>;

impl CopyOut {
    /// The copy that a statement asks for; `None` where it asks for something else.
    pub fn of(statement: &str) -> Result<Option<Self>, Refusal> {
        let mut pieces = words(statement).collect::<Vec<_>>();
        let is = |piece: &Piece<'_>, word: &str| {
            piece.kind == Kind::Word && piece.text.eq_ignore_ascii_case(word)
        };
        if !pieces.first().is_some_and(|piece| is(piece, "copy")) {
            return Ok(None);
        }
        let (mut depth, mut to) = (0_usize, None);
        for (place, piece) in pieces.iter().enumerate() {
            match piece.text {
                "(" => depth += 1,
                ")" => depth = depth.saturating_sub(1),
                _ if depth == 0 && is(piece, "to") => {
                    to = Some(place);
                    break;
                }
                _ => {}
            }
        }
        let Some(to) = to.filter(|to| *to > 1) else { return Ok(None) };
        if !pieces.get(to + 1).is_some_and(|piece| is(piece, "stdout")) {
            return Ok(None);
        }
        let at = |piece: &Piece<'_>| piece.text.as_ptr().addr() - statement.as_ptr().addr();
        let what = statement[at(&pieces[1])..at(&pieces[to])].trim();
        let query = match (what.strip_prefix('('), pieces[1].text) {
            (Some(query), _) => match query.strip_suffix(')') {
                Some(query) => query.to_string(),
                None => return Err(Refusal::new("42601", "COPY (query) TO: expected )")),
            },
            // `table (columns)`.
            (None, _) => match pieces[1..to].iter().position(|piece| piece.text == "(") {
                Some(bracket) => {
                    let (from, columns) = what.split_at(at(&pieces[1 + bracket]) - at(&pieces[1]));
                    let columns = columns.trim().trim_start_matches('(').trim_end_matches(')');
                    format!("SELECT {columns} FROM {from}")
                }
                None => format!("SELECT * FROM {what}"),
            },
        };
        let mut copy = Self {
            query,
            form: Form::Text,
            delimiter: 0,
            null: "\0".to_string(),
            has_header: false,
            quote: b'"',
            escape: 0,
            forced: Forced::None,
        };
        copy.options(&mut pieces.split_off(to + 2).into_iter().peekable())?;
        copy.settle()?;
        Ok(Some(copy))
    }

    /// Both forms: in brackets with commas, and the older one without.
    fn options(&mut self, pieces: Pieces<'_, '_>) -> Result<(), Refusal> {
        take(pieces, "with");
        let in_brackets = take(pieces, "(");
        while let Some(piece) = pieces.next() {
            let name = piece.text.to_lowercase();
            match (name.as_str(), in_brackets) {
                (")", true) => match pieces.next() {
                    None => return Ok(()),
                    Some(piece) => return Err(unexpected(&piece)),
                },
                (",", true) => {}
                ("format", true) => self.form = form(pieces)?,
                ("csv", false) => self.form = Form::Csv,
                ("binary", false) => self.form = Form::Binary,
                ("delimiter" | "delimiters", _) => self.delimiter = byte(pieces, &name)?,
                ("null", _) => self.null = text(pieces, &name)?,
                ("header", _) => self.has_header = !in_brackets || truth(pieces)?,
                ("quote", _) => self.quote = byte(pieces, &name)?,
                ("escape", _) => self.escape = byte(pieces, &name)?,
                ("encoding", _) => {
                    let encoding = text(pieces, &name)?;
                    if !matches!(encoding.to_lowercase().as_str(), "utf8" | "utf-8") {
                        let message = format!("encoding {encoding:?}: this server sends UTF8");
                        return Err(Refusal::new("0A000", message));
                    }
                }
                ("force_quote", true) => self.forced = columns(pieces)?,
                ("force", false) if take(pieces, "quote") => self.forced = columns(pieces)?,
                _ => return Err(unexpected(&piece)),
            }
        }
        match in_brackets {
            true => Err(Refusal::new("42601", "COPY: the options end without )")),
            false => Ok(()),
        }
    }

    /// Takes the format's defaults for options that are not given, and refuses options of others.
    fn settle(&mut self) -> Result<(), Refusal> {
        let is_csv = self.form == Form::Csv;
        let refuse = |what: &str| Err(Refusal::new("0A000", format!("COPY: {what}")));
        let has_texts = self.delimiter != 0 || self.null != "\0" || self.has_header;
        if self.form == Form::Binary && has_texts {
            return refuse("DELIMITER, NULL and HEADER do not belong to the binary format");
        }
        if !is_csv && (self.quote != b'"' || self.escape != 0 || self.forced != Forced::None) {
            return refuse("QUOTE, ESCAPE and FORCE_QUOTE belong to the format csv");
        }
        if self.delimiter == 0 {
            self.delimiter = if is_csv { b',' } else { b'\t' };
        }
        if self.null == "\0" {
            self.null = if is_csv { String::new() } else { "\\N".to_string() };
        }
        if self.escape == 0 {
            self.escape = self.quote;
        }
        if matches!(self.delimiter, b'\n' | b'\r') || self.null.contains(['\n', '\r']) {
            return refuse("DELIMITER and NULL cannot have line breaks");
        }
        if is_csv && self.delimiter == self.quote {
            return refuse("DELIMITER and QUOTE must differ");
        }
        if !is_csv && (self.delimiter == b'\\' || self.delimiter.is_ascii_alphanumeric()) {
            return refuse("DELIMITER cannot be a letter, a digit or a backslash in this format");
        }
        Ok(())
    }

    /// The formats of the values, for one and all columns.
    pub fn formats(&self) -> [i16; 1] {
        [i16::from(self.form == Form::Binary)]
    }

    /// Sends all rows; the tag.
    pub fn send(&self, mut rows: Rows, wire: &mut Wire) -> Result<String, Failure> {
        let names = rows.names();
        let code = self.formats()[0];
        let count = i16::try_from(names.len())
            .map_err(|_| Refusal::new("54011", "a copy has at most 32767 columns"))?;
        wire.send(&CopyOutResponse::new(code as i8, count, vec![code; names.len()]))?;
        let is_binary = self.form == Form::Binary;
        if self.has_header {
            message(wire, |out| {
                self.put_names(&names, out);
                Ok(())
            })?;
        }
        let forced = names.iter().map(|name| self.is_forced(name)).collect::<Vec<_>>();
        // PostgreSQL sends the binary header in one message with the first row or the end.
        let mut header = if is_binary { BINARY_HEADER } else { &[] };
        let (mut sent, mut value) = (0_u64, BytesMut::new());
        while let Some(batch) = rows.next_batch()? {
            for row in 0..batch.rows {
                message(wire, |out| {
                    out.put_slice(std::mem::take(&mut header));
                    match is_binary {
                        true => put_binary(&batch, row, count, out),
                        false => self.put_row(&batch, row, &forced, &mut value, out),
                    }
                })?;
                sent += 1;
            }
        }
        if is_binary {
            message(wire, |out| {
                out.put_slice(header);
                out.put_i16(-1);
                Ok(())
            })?;
        }
        wire.send(&CopyDone::new())?;
        Ok(format!("COPY {sent}"))
    }

    fn is_forced(&self, name: &str) -> bool {
        match &self.forced {
            Forced::None => false,
            Forced::All => true,
            Forced::Named(columns) => columns.iter().any(|one| one.eq_ignore_ascii_case(name)),
        }
    }

    fn put_names(&self, names: &[String], out: &mut BytesMut) {
        for (column, name) in names.iter().enumerate() {
            if column > 0 {
                out.put_u8(self.delimiter);
            }
            self.put_text(name.as_bytes(), false, names.len() == 1, out);
        }
        out.put_u8(b'\n');
    }

    /// Writes a row as text or CSV. `value` is room for one of its values.
    fn put_row(
        &self,
        batch: &Batch,
        row: usize,
        forced: &[bool],
        value: &mut BytesMut,
        out: &mut BytesMut,
    ) -> Result<(), Refusal> {
        for (at, (column, nulls)) in batch.columns.iter().enumerate() {
            if at > 0 {
                out.put_u8(self.delimiter);
            }
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                out.put_slice(self.null.as_bytes());
                continue;
            }
            value.clear();
            write(column, row, Format::Text, value)?;
            self.put_text(value, forced[at], forced.len() == 1, out);
        }
        out.put_u8(b'\n');
        Ok(())
    }

    /// Writes a text that is not NULL.
    fn put_text(&self, text: &[u8], is_forced: bool, is_alone: bool, out: &mut BytesMut) {
        if self.form == Form::Text {
            for byte in text {
                match byte {
                    0x08 => out.put_slice(b"\\b"),
                    0x0b => out.put_slice(b"\\v"),
                    0x0c => out.put_slice(b"\\f"),
                    b'\n' => out.put_slice(b"\\n"),
                    b'\r' => out.put_slice(b"\\r"),
                    b'\t' => out.put_slice(b"\\t"),
                    b'\\' => out.put_slice(b"\\\\"),
                    byte if *byte == self.delimiter => out.put_slice(&[b'\\', *byte]),
                    byte => out.put_u8(*byte),
                }
            }
            return;
        }
        let is_special =
            |byte: &u8| *byte == self.delimiter || *byte == self.quote || b"\n\r".contains(byte);
        // A text that reads as NULL, and the end of a copy alone in its line.
        let is_quoted = is_forced
            || text == self.null.as_bytes()
            || text.iter().any(is_special)
            || (is_alone && text == b"\\.");
        if !is_quoted {
            out.put_slice(text);
            return;
        }
        out.put_u8(self.quote);
        for byte in text {
            if *byte == self.quote || *byte == self.escape {
                out.put_u8(self.escape);
            }
            out.put_u8(*byte);
        }
        out.put_u8(self.quote);
    }
}

/// Writes a row in the binary format.
fn put_binary(batch: &Batch, row: usize, count: i16, out: &mut BytesMut) -> Result<(), Refusal> {
    out.put_i16(count);
    for (column, nulls) in &batch.columns {
        match nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            true => out.put_i32(-1),
            false => sized(out, |out| write(column, row, Format::Binary, out))?,
        }
    }
    Ok(())
}

/// Sends one message of a copy, whose bytes `put` writes.
fn message(
    wire: &mut Wire,
    put: impl FnOnce(&mut BytesMut) -> Result<(), Refusal>,
) -> Result<(), Failure> {
    let out = wire.output();
    let start = out.len();
    out.put_u8(b'd');
    if let Err(refusal) = sized_message(out, put) {
        // No half a message before the error.
        wire.output().truncate(start);
        return Err(refusal.into());
    }
    Ok(wire.send_much()?)
}

/// Takes the next piece if it is this word or sign.
fn take(pieces: Pieces<'_, '_>, text: &str) -> bool {
    pieces.next_if(|piece| piece.text.eq_ignore_ascii_case(text)).is_some()
}

fn form(pieces: Pieces<'_, '_>) -> Result<Form, Refusal> {
    let name = text_or_word(pieces, "FORMAT")?;
    match name.to_lowercase().as_str() {
        "text" => Ok(Form::Text),
        "csv" => Ok(Form::Csv),
        "binary" => Ok(Form::Binary),
        _ => {
            let message = format!("COPY format {name:?} is not known: text, csv, binary");
            Err(Refusal::new("22023", message))
        }
    }
}

fn text(pieces: Pieces<'_, '_>, of: &str) -> Result<String, Refusal> {
    take(pieces, "as");
    let piece = pieces.next();
    let text = piece.map(|piece| piece.text).unwrap_or_default();
    let escaped = text.strip_prefix(['E', 'e']).filter(|rest| rest.starts_with('\''));
    let inner = escaped.unwrap_or(text).strip_prefix('\'').and_then(|t| t.strip_suffix('\''));
    let Some(inner) = inner else {
        let message = format!("COPY: {} is a text in quotes", of.to_uppercase());
        return Err(Refusal::new("42601", message));
    };
    let inner = inner.replace("''", "'");
    Ok(match escaped {
        Some(_) => inner.replace("\\t", "\t").replace("\\\\", "\\"),
        None => inner,
    })
}

fn text_or_word(pieces: Pieces<'_, '_>, of: &str) -> Result<String, Refusal> {
    match pieces.next_if(|piece| piece.kind == Kind::Word) {
        Some(word) => Ok(word.text.to_string()),
        None => text(pieces, of),
    }
}

fn byte(pieces: Pieces<'_, '_>, of: &str) -> Result<u8, Refusal> {
    match text(pieces, of)?.as_bytes() {
        [byte] => Ok(*byte),
        _ => {
            let message = format!("COPY: {} is one character of ASCII", of.to_uppercase());
            Err(Refusal::new("0A000", message))
        }
    }
}

/// `HEADER`, `HEADER true`.
fn truth(pieces: Pieces<'_, '_>) -> Result<bool, Refusal> {
    if pieces.peek().is_none_or(|piece| matches!(piece.text, "," | ")")) {
        return Ok(true);
    }
    match text_or_word(pieces, "HEADER")?.to_lowercase().as_str() {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        other => Err(Refusal::new("22023", format!("COPY: HEADER is true or false, not {other}"))),
    }
}

fn columns(pieces: Pieces<'_, '_>) -> Result<Forced, Refusal> {
    if take(pieces, "*") {
        return Ok(Forced::All);
    }
    let in_brackets = take(pieces, "(");
    let mut names = Vec::new();
    loop {
        match pieces.next() {
            Some(piece) if matches!(piece.kind, Kind::Word | Kind::Quoted) => {
                names.push(piece.text.trim_matches('"').replace("\"\"", "\""));
            }
            Some(piece) => return Err(unexpected(&piece)),
            None => return Err(Refusal::new("42601", "COPY: FORCE_QUOTE names columns")),
        }
        if !take(pieces, ",") {
            break;
        }
    }
    match in_brackets && !take(pieces, ")") {
        true => Err(Refusal::new("42601", "COPY: FORCE_QUOTE (columns): expected )")),
        false => Ok(Forced::Named(names)),
    }
}

fn unexpected(piece: &Piece<'_>) -> Refusal {
    let message =
        format!("COPY TO STDOUT: {} is not known here; options are {OPTIONS}", piece.text);
    Refusal::new("42601", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_read() {
        let query = |statement| CopyOut::of(statement).unwrap().map(|copy| copy.query);
        assert_eq!(query("COPY t TO STDOUT").as_deref(), Some("SELECT * FROM t"));
        assert_eq!(
            query("copy s.\"a (to)\" (b, \"c)\") to stdout csv").as_deref(),
            Some("SELECT b, \"c)\" FROM s.\"a (to)\" ")
        );
        assert_eq!(
            query("COPY (SELECT ')' AS \"to\" FROM (VALUES (1))) TO STDOUT WITH (FORMAT csv)"),
            Some("SELECT ')' AS \"to\" FROM (VALUES (1))".to_string())
        );
        assert_eq!(query("COPY t TO 'file.csv'"), None);
        assert_eq!(query("COPY t FROM STDIN"), None);
        assert_eq!(query("SELECT 1"), None);
    }

    #[test]
    fn options_are_those_of_the_format() {
        let of = |options: &str| CopyOut::of(&format!("COPY t TO STDOUT {options}"));
        let csv = of("WITH CSV HEADER DELIMITER AS ';' NULL 'none' QUOTE '''' FORCE QUOTE a, b");
        let csv = csv.unwrap().unwrap();
        assert_eq!(
            (csv.form, csv.delimiter, csv.quote, csv.escape),
            (Form::Csv, b';', b'\'', b'\'')
        );
        assert_eq!((csv.null.as_str(), csv.has_header), ("none", true));
        assert_eq!(csv.forced, Forced::Named(vec!["a".into(), "b".into()]));
        let modern = of(
            "(FORMAT 'csv', HEADER, DELIMITER ';', NULL 'none', QUOTE '''', FORCE_QUOTE (a, b))",
        );
        assert_eq!(modern.unwrap().unwrap(), csv);
        let plain = of("").unwrap().unwrap();
        assert_eq!((plain.form, plain.delimiter, plain.null.as_str()), (Form::Text, b'\t', "\\N"));
        assert_eq!(of("BINARY").unwrap().unwrap().form, Form::Binary);
        assert!(of("(FORMAT csv, HEADER false)").unwrap().is_some_and(|copy| !copy.has_header));
        for (wrong, code) in [
            ("(FORMAT parquet)", "22023"),
            ("(FORMAT binary, HEADER)", "0A000"),
            ("(QUOTE '|')", "0A000"),
            ("(DELIMITER 'ab')", "0A000"),
            ("(FORMAT csv, OIDS)", "42601"),
            ("(FORMAT csv", "42601"),
            ("CSV HEADER nothing", "42601"),
            ("(ENCODING 'LATIN1')", "0A000"),
        ] {
            assert_eq!(of(wrong).map_err(|refusal| refusal.code), Err(code), "{wrong}");
        }
    }
}
