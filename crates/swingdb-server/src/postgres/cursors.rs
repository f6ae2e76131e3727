//! Cursors, of which a client fetches so many rows at a time: [`Cursors`].
//!
//! `DECLARE`, `FETCH`, `MOVE` and `CLOSE` as PostgreSQL has them, forward only. The rows of a
//! cursor are computed as they are fetched, of the state that it was declared in. It ends with its
//! transaction unless it is declared `WITH HOLD`; then it ends with the session, or with the
//! transaction that has declared it if that is rolled back.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use swingdb::cutter::{Kind, Piece, words};
use swingdb::{InterruptHandle, QueryResult};

use crate::postgres::portals::MAX_NAMES;
use crate::postgres::rows::Rows;
use crate::postgres::sqlstate::Refusal;

/// A statement about cursors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About<'a> {
    /// `DECLARE name CURSOR FOR query`.
    Declare {
        /// The cursor's name.
        name: String,
        /// Whether rows go in the binary format where a client does not choose one.
        is_binary: bool,
        /// Whether it outlives its transaction.
        is_held: bool,
        /// The query, as it is written.
        query: &'a str,
    },
    /// `FETCH count FROM name`.
    Fetch(u64, String),
    /// `MOVE count FROM name`.
    Move(u64, String),
    /// `CLOSE name`, or `CLOSE ALL`.
    Close(Option<String>),
}

impl<'a> About<'a> {
    /// The statement, taken apart; `None` where it is not about cursors.
    pub fn of(statement: &'a str) -> Result<Option<Self>, Refusal> {
        let mut pieces = words(statement).peekable();
        let first = pieces.next().filter(|piece| piece.kind == Kind::Word);
        let about = match first.map(|piece| piece.text.to_lowercase()).as_deref() {
            Some("declare") => Self::declare(statement, &mut pieces)?,
            Some("fetch") => {
                let (count, name) = direction(&mut pieces)?;
                Self::Fetch(count, name)
            }
            Some("move") => {
                let (count, name) = direction(&mut pieces)?;
                Self::Move(count, name)
            }
            Some("close") => match word(&mut pieces, &["all"]) {
                Some(_) => Self::Close(None),
                None => Self::Close(Some(name(&mut pieces)?)),
            },
            _ => return Ok(None),
        };
        match (&about, pieces.next()) {
            (Self::Declare { .. }, _) | (_, None) => Ok(Some(about)),
            (_, Some(piece)) => Err(unexpected(Some(&piece), "the end of the statement")),
        }
    }

    fn declare(
        statement: &'a str,
        pieces: &mut Peekable<impl Iterator<Item = Piece<'a>>>,
    ) -> Result<Self, Refusal> {
        let name = name(pieces)?;
        let (mut is_binary, mut is_held) = (false, false);
        while let Some(option) =
            word(pieces, &["binary", "insensitive", "asensitive", "scroll", "no", "cursor"])
        {
            match option.as_str() {
                "binary" => is_binary = true,
                "scroll" => return Err(forward_only()),
                "no" => expect(pieces, "scroll")?,
                "cursor" => break,
                _ => {}
            }
        }
        if let Some(option) = word(pieces, &["with", "without"]) {
            expect(pieces, "hold")?;
            is_held = option == "with";
        }
        let Some(piece) = pieces.next().filter(|piece| piece.text.eq_ignore_ascii_case("for"))
        else {
            return Err(Refusal::new("42601", "DECLARE name CURSOR FOR query: FOR is missing"));
        };
        // Pieces are parts of the statement.
        let end = piece.text.as_ptr().addr() - statement.as_ptr().addr() + piece.text.len();
        let query = statement[end..].trim();
        let first = words(query).next().map(|piece| piece.text.to_lowercase());
        let reads = ["select", "with", "values", "from", "table", "("];
        match first.as_deref() {
            Some(first) if reads.contains(&first) => {}
            _ => return Err(Refusal::new("42601", "a cursor is declared FOR a query")),
        }
        Ok(Self::Declare { name, is_binary, is_held, query })
    }
}

/// How many rows forward, and of which cursor.
fn direction<'a>(
    pieces: &mut Peekable<impl Iterator<Item = Piece<'a>>>,
) -> Result<(u64, String), Refusal> {
    let backward = ["prior", "first", "last", "absolute", "relative", "backward"];
    let is_sign = pieces.peek().is_some_and(|piece| piece.text == "-");
    if is_sign || word(pieces, &backward).is_some() {
        return Err(forward_only());
    }
    let mut count = 1;
    if word(pieces, &["next"]).is_none() {
        word(pieces, &["forward"]);
        let number = pieces.peek().and_then(|piece| piece.text.parse().ok());
        if word(pieces, &["all"]).is_some() {
            count = u64::MAX;
        } else if let Some(number) = number {
            pieces.next();
            count = number;
        }
    }
    if count == 0 {
        return Err(forward_only());
    }
    word(pieces, &["from", "in"]);
    Ok((count, name(pieces)?))
}

/// The next word, if it is one of some.
fn word<'a>(pieces: &mut Peekable<impl Iterator<Item = Piece<'a>>>, of: &[&str]) -> Option<String> {
    let lower = pieces.peek().filter(|piece| piece.kind == Kind::Word)?.text.to_lowercase();
    if !of.contains(&lower.as_str()) {
        return None;
    }
    pieces.next();
    Some(lower)
}

fn expect<'a>(
    pieces: &mut Peekable<impl Iterator<Item = Piece<'a>>>,
    what: &str,
) -> Result<(), Refusal> {
    match word(pieces, &[what]) {
        Some(_) => Ok(()),
        None => Err(unexpected(pieces.peek(), &what.to_uppercase())),
    }
}

fn name<'a>(pieces: &mut Peekable<impl Iterator<Item = Piece<'a>>>) -> Result<String, Refusal> {
    let piece = pieces.next();
    match piece {
        Some(Piece { kind: Kind::Word, text, .. }) => Ok(text.to_lowercase()),
        Some(Piece { kind: Kind::Quoted, text, .. }) if text.starts_with('"') => {
            Ok(text.trim_matches('"').replace("\"\"", "\""))
        }
        _ => Err(unexpected(piece.as_ref(), "the name of a cursor")),
    }
}

fn unexpected(found: Option<&Piece<'_>>, wanted: &str) -> Refusal {
    let found = found.map_or("the end of the statement", |piece| piece.text);
    Refusal::new("42601", format!("expected {wanted}, found {found}"))
}

fn forward_only() -> Refusal {
    Refusal::new("55000", "cursors of this server only move forward, by one row or more")
}

/// The rows of a cursor, of which several fetches take some, one after the other.
struct Source {
    batches: Box<dyn Iterator<Item = swingdb::Result<RecordBatch>> + Send>,
    /// The rest of the last batch.
    left: Option<RecordBatch>,
}

/// The next rows of a cursor.
struct Next {
    source: Arc<Mutex<Source>>,
    /// How many, at most.
    count: u64,
}

impl Iterator for Next {
    type Item = swingdb::Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.count == 0 {
            return None;
        }
        let mut source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        let batch = match source.left.take() {
            Some(batch) => batch,
            None => match source.batches.next()? {
                Ok(batch) => batch,
                Err(error) => return Some(Err(error)),
            },
        };
        let rows = batch.num_rows();
        let taken = usize::try_from(self.count).map_or(rows, |count| count.min(rows));
        if taken < rows {
            source.left = Some(batch.slice(taken, rows - taken));
        }
        self.count -= taken as u64;
        Some(Ok(batch.slice(0, taken)))
    }
}

struct Cursor {
    source: Arc<Mutex<Source>>,
    schema: SchemaRef,
    interrupt: Option<InterruptHandle>,
    is_binary: bool,
    is_held: bool,
    /// Whether the transaction that it was declared in has ended.
    is_settled: bool,
}

impl Cursor {
    fn next(&self, count: u64) -> Next {
        Next { source: Arc::clone(&self.source), count }
    }
}

/// The cursors of a session.
#[derive(Default)]
pub struct Cursors {
    by_name: BTreeMap<String, Cursor>,
}

impl Cursors {
    /// Refuses a cursor that cannot be declared.
    pub fn check(&self, name: &str, is_held: bool, in_transaction: bool) -> Result<(), Refusal> {
        if !is_held && !in_transaction {
            let message = "a cursor ends with its transaction, and none is open: BEGIN first, or \
                declare it WITH HOLD";
            return Err(Refusal::new("25P01", message));
        }
        if self.by_name.contains_key(name) {
            return Err(Refusal::new("42P03", format!("cursor {name:?} exists already")));
        }
        if self.by_name.len() >= MAX_NAMES {
            let message = format!("a session has at most {MAX_NAMES} cursors");
            return Err(Refusal::new("54000", message));
        }
        Ok(())
    }

    /// Declares a cursor over the rows of a query.
    pub fn declare(
        &mut self,
        name: String,
        result: QueryResult,
        is_binary: bool,
        is_held: bool,
        in_transaction: bool,
    ) {
        let (schema, interrupt) = (result.schema(), result.interrupt_handle());
        let source = Arc::new(Mutex::new(Source { batches: Box::new(result), left: None }));
        let is_settled = !in_transaction;
        let cursor = Cursor { source, schema, interrupt, is_binary, is_held, is_settled };
        self.by_name.insert(name, cursor);
    }

    fn get(&self, name: &str) -> Result<&Cursor, Refusal> {
        self.by_name
            .get(name)
            .ok_or_else(|| Refusal::new("34000", format!("cursor {name:?} does not exist")))
    }

    /// The next rows, at most so many, in the formats that the client asks for.
    pub fn fetch(&self, count: u64, name: &str, asked: &[i16]) -> Result<Rows, Refusal> {
        let cursor = self.get(name)?;
        let asked = if asked.is_empty() && cursor.is_binary { &[1][..] } else { asked };
        let (schema, interrupt) = (Arc::clone(&cursor.schema), cursor.interrupt.clone());
        Rows::of_batches(schema, Box::new(cursor.next(count)), interrupt, "FETCH", asked)
    }

    /// Leaves rows out, at most so many; how many these were.
    pub fn skip(&self, count: u64, name: &str) -> Result<u64, Refusal> {
        let cursor = self.get(name)?;
        if let Some(interrupt) = &cursor.interrupt {
            interrupt.join_here();
        }
        let mut skipped = 0;
        for batch in cursor.next(count) {
            skipped += batch?.num_rows() as u64;
        }
        Ok(skipped)
    }

    /// Whether there is a cursor of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Ends a cursor, if there is one.
    pub fn close(&mut self, name: &str) -> bool {
        self.by_name.remove(name).is_some()
    }

    /// Ends all cursors.
    pub fn close_all(&mut self) {
        self.by_name.clear();
    }

    /// The end of a transaction.
    pub fn end_transaction(&mut self, is_rolled_back: bool) {
        self.by_name.retain(|_, cursor| {
            let stays = cursor.is_held && (cursor.is_settled || !is_rolled_back);
            cursor.is_settled = true;
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(statement: &str) -> Result<Option<About<'_>>, &'static str> {
        About::of(statement).map_err(|refusal| refusal.code)
    }

    #[test]
    fn statements_about_cursors_are_read() {
        let declared = |name: &str, is_binary, is_held, query| {
            Ok(Some(About::Declare { name: name.into(), is_binary, is_held, query }))
        };
        let fetched = |count, name: &str| Ok(Some(About::Fetch(count, name.into())));
        assert_eq!(
            about("DECLARE C CURSOR FOR SELECT 1 -- for"),
            declared("c", false, false, "SELECT 1 -- for")
        );
        assert_eq!(
            about("declare \"a \"\"B\" binary no scroll cursor with hold for\n(VALUES (1))"),
            declared("a \"B", true, true, "(VALUES (1))")
        );
        assert_eq!(about("DECLARE c SCROLL CURSOR FOR SELECT 1"), Err("55000"));
        assert_eq!(about("DECLARE c CURSOR FOR DELETE FROM t"), Err("42601"));
        assert_eq!(about("DECLARE c CURSOR SELECT 1"), Err("42601"));
        assert_eq!(about("FETCH c"), fetched(1, "c"));
        assert_eq!(about("FETCH NEXT FROM c"), fetched(1, "c"));
        assert_eq!(about("FETCH 7 IN \"C\""), fetched(7, "C"));
        assert_eq!(about("FETCH FORWARD 7 FROM c"), fetched(7, "c"));
        assert_eq!(about("FETCH FORWARD ALL c"), fetched(u64::MAX, "c"));
        assert_eq!(about("MOVE ALL IN c"), Ok(Some(About::Move(u64::MAX, "c".into()))));
        for backward in ["PRIOR", "BACKWARD 1", "-1", "ABSOLUTE 5", "0", "FORWARD 0", "LAST"] {
            assert_eq!(about(&format!("FETCH {backward} FROM c")), Err("55000"), "{backward}");
        }
        assert_eq!(about("FETCH 7 FROM"), Err("42601"));
        assert_eq!(about("FETCH 7 FROM c d"), Err("42601"));
        assert_eq!(about("CLOSE c"), Ok(Some(About::Close(Some("c".into())))));
        assert_eq!(about("close all"), Ok(Some(About::Close(None))));
        assert_eq!(about("SELECT 1"), Ok(None));
    }
}
