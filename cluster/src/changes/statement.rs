//! Statements that change a cluster, read from their texts: [`Change`].
//!
//! Only what is the same on each node, whatever rows it has, is sent as a statement. Subqueries
//! would see the rows of one node: the coordinator computes them, and lends their rows
//! ([`lend`](super::lend)). `random()` would differ from node to node: for UPDATE and DELETE it is
//! [drawn](super::drawn) once, elsewhere it is refused where nodes would compute it. Rows to insert
//! are computed by the coordinator, so their query may have anything.

use swingdb::cutter::{Kind, Piece, words};

use crate::changes::assigned::{assignments, is_name};
use crate::changes::constants::call_at;
use crate::changes::drawn::{DRAWN, draws};
use crate::changes::lend::closing;
use crate::changes::merge::{Merge, equal_columns};
use crate::cut::Cut;
use crate::error::{Result, refused};
use crate::names::{is_same, name_of, quoted};

/// See the [module documentation](self).
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The rows of a query become rows of a table.
    Insert {
        /// The table.
        table: String,
        /// Its columns in the order of the query's; none: all.
        columns: Vec<String>,
        /// `BY NAME`: its columns are the query's, by their names.
        by_name: bool,
        /// The query.
        query: String,
        /// `OR REPLACE`, `OR IGNORE`, or nothing.
        or: String,
        /// The text behind the query: `ON CONFLICT ...`, or nothing.
        conflict: String,
        /// The columns of `ON CONFLICT`, and those that it assigns.
        keys: Vec<String>,
        /// `RETURNING ...`, or nothing.
        returning: String,
    },
    /// A table is made.
    Create {
        /// The table.
        table: String,
        /// The statement that makes it without rows; none: its columns are the query's.
        sql: Option<String>,
        /// The query of CREATE TABLE AS.
        query: Option<String>,
        /// How it is cut.
        cut: Cut,
        /// Whether a table of the name goes.
        replace: bool,
        /// `IF NOT EXISTS`: whether nothing is made where there is a table of the name.
        unless_there: bool,
    },
    /// Rows of a table change where they are.
    Rows {
        /// The table.
        table: String,
        /// The statement.
        sql: String,
        /// The columns that get other values.
        assigned: Vec<String>,
        /// Where the statement goes on behind the table.
        behind: usize,
        /// Whether its changed rows are wanted.
        returns: bool,
        /// Whether it [draws](super::drawn) values that are others each time.
        draws: bool,
    },
    /// Rows of a source are merged into a table.
    Merge(Merge),
    /// A table goes.
    Drop {
        /// The table.
        table: String,
        /// The statement.
        sql: String,
    },
    /// Rows of a file become rows of a table.
    Copy {
        /// The table.
        table: String,
        /// Its columns in the order of the file's; none: all.
        columns: Vec<String>,
        /// The statement from FROM.
        from: String,
    },
    /// Columns, names or keys of a table become others.
    Alter {
        /// The table.
        table: String,
        /// The statement.
        sql: String,
    },
    /// A table gets an index.
    Index {
        /// The table.
        table: String,
        /// The statement.
        sql: String,
        /// The columns of a unique one; none: equal values may be several.
        unique: Vec<String>,
    },
    /// A statement about definitions, the same on all nodes.
    Define {
        /// The statement.
        sql: String,
    },
}

/// What would be another value at each node: functions that are another one each time, and names
/// that mean something at the session alone, or at one database.
pub(crate) const VOLATILE: [&str; 27] = [
    "random",
    "rand",
    "setseed",
    "getvariable",
    "current_setting",
    "rowid",
    "uuid",
    "uuidv4",
    "uuidv7",
    "gen_random_uuid",
    "now",
    "today",
    "current_timestamp",
    "current_date",
    "current_time",
    "localtimestamp",
    "localtime",
    "nextval",
    "currval",
    "setval",
    "get_current_timestamp",
    "transaction_timestamp",
    "get_current_time",
    "ago",
    "age",
    "current_database",
    "current_catalog",
];

/// Those of them that need no arguments.
const WITHOUT_ARGUMENTS: [&str; 6] =
    ["rowid", "current_timestamp", "current_date", "current_time", "localtimestamp", "localtime"];

/// Walks the words of a statement.
#[derive(Clone)]
struct Reader<'a> {
    sql: &'a str,
    words: Vec<Piece<'a>>,
    at: usize,
}

impl<'a> Reader<'a> {
    fn of(sql: &'a str) -> Self {
        Self { sql, words: words(sql).collect(), at: 0 }
    }

    /// Another one, from a word on.
    fn behind(&self, at: usize) -> Self {
        Self { sql: self.sql, words: self.words.clone(), at }
    }

    fn is(&self, word: &str) -> bool {
        self.words.get(self.at).is_some_and(|next| next.text.eq_ignore_ascii_case(word))
    }

    fn take(&mut self, word: &str) -> bool {
        let is = self.is(word);
        self.at += usize::from(is);
        is
    }

    fn take_all(&mut self, all: &[&str]) -> bool {
        let next = self.words.iter().skip(self.at).take(all.len());
        let same = next.zip(all).filter(|(next, word)| next.text.eq_ignore_ascii_case(word));
        let is = same.count() == all.len();
        self.at += if is { all.len() } else { 0 };
        is
    }

    fn name(&mut self) -> Result<String> {
        let Some(next) = self.words.get(self.at) else { return refused("a name is missing") };
        self.at += 1;
        match name_of(next) {
            Some(name) => Ok(name),
            None => refused(format!("a name like {}", next.text)),
        }
    }

    /// The name of a table of schema `main`.
    fn table(&mut self) -> Result<String> {
        let first = self.name()?;
        if !self.take(".") {
            return Ok(first);
        }
        match is_same(&first, "main") {
            true => self.name(),
            false => refused(format!("schema {first}: tables of a cluster are in schema main")),
        }
    }

    /// A name behind AS or alone.
    fn alias(&mut self) -> Result<String> {
        self.take("as");
        self.name()
    }

    /// What has not been read.
    fn rest(&self) -> &'a str {
        let Some(next) = self.words.get(self.at) else { return "" };
        let start = next.text.as_ptr() as usize - self.sql.as_ptr() as usize;
        &self.sql[start..]
    }

    /// Where two words follow each other outside of parentheses; the second may be empty.
    fn outermost(&self, first: &str, second: &str) -> Option<usize> {
        let mut depth = 0;
        for (at, word) in self.words.iter().enumerate().skip(self.at) {
            match word.text {
                "(" => depth += 1,
                ")" => depth -= 1,
                text if depth == 0
                    && text.eq_ignore_ascii_case(first)
                    && !is_name(&self.words, at) =>
                {
                    let next = self.words.get(at + 1).map_or("", |next| next.text);
                    if second.is_empty() || next.eq_ignore_ascii_case(second) {
                        return Some(at);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// The text and the words up to a word, or to the end.
    fn until(&self, end: Option<usize>) -> (String, Vec<Piece<'a>>) {
        let end = end.unwrap_or(self.words.len());
        let words = self.words.get(self.at..end).unwrap_or_default().to_vec();
        let place = |piece: &Piece<'_>| piece.text.as_ptr() as usize - self.sql.as_ptr() as usize;
        let stop = self.words.get(end).map_or(self.sql.len(), place);
        let start = words.first().map_or(stop, place);
        (self.sql[start..stop].trim_end().to_string(), words)
    }

    /// Where an INSERT begins behind something else.
    fn inserts(&self) -> Option<usize> {
        let kinds = ["into", "or"].map(|next| self.outermost("insert", next));
        kinds.into_iter().flatten().min()
    }

    /// Names in parentheses, if they come next.
    fn names(&mut self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        if !self.take("(") {
            return Ok(names);
        }
        loop {
            names.push(self.name()?);
            if self.take(")") {
                return Ok(names);
            }
            if !self.take(",") {
                return refused("this list of columns");
            }
        }
    }

    fn has(&self, word: &str) -> bool {
        let rest = self.words.iter().skip(self.at);
        rest.filter(|next| next.kind == Kind::Word).any(|next| next.text.eq_ignore_ascii_case(word))
    }

    /// Refuses [`VOLATILE`] functions: words with arguments behind them, or those without. The
    /// coordinator [computes](super::constants) some of them.
    fn refuse_volatile(&self, what: &str) -> Result<()> {
        self.refuse_volatile_but(what, 0)
    }

    /// The same, but for what is [drawn](super::drawn) before a word.
    fn refuse_volatile_but(&self, what: &str, drawn_before: usize) -> Result<()> {
        let rest = self.words.get(self.at..).unwrap_or_default();
        let found = rest.iter().enumerate().find(|(at, word)| {
            let is = |name: &&str| word.text.eq_ignore_ascii_case(name);
            let is_drawn = self.at + at < drawn_before && DRAWN.iter().any(&is);
            word.kind == Kind::Word
                && !is_drawn
                && call_at(rest, *at).is_none()
                && (WITHOUT_ARGUMENTS.iter().any(&is)
                    || VOLATILE.iter().any(&is)
                        && rest.get(at + 1).is_some_and(|next| next.text == "(")
                        && !(is(&"age") && has_two_values(rest, at + 1)))
        });
        match found {
            Some((_, word)) => refused(format!("{what} with {}", word.text.to_uppercase())),
            None => Ok(()),
        }
    }

    /// Refuses what the coordinator would compute where a column gets its name from it.
    fn refuse_computed(&self, what: &str) -> Result<()> {
        match (self.at..self.words.len()).find(|at| call_at(&self.words, *at).is_some()) {
            Some(at) => refused(format!("{what} with {}", self.words[at].text.to_uppercase())),
            None => Ok(()),
        }
    }

    fn refuse(&self, all: &[&str], what: &str) -> Result<()> {
        match all.iter().find(|word| self.has(word)) {
            Some(word) => refused(format!("{what} with {}", word.to_uppercase())),
            None => Ok(()),
        }
    }
}

impl Change {
    /// The change that a statement makes; `None` of one that only reads, or changes the session.
    pub fn of(sql: &str, cut: &Cut) -> Result<Option<Self>> {
        let mut reader = Reader::of(sql);
        let first = reader.words.first().map_or("", |word| word.text).to_lowercase();
        reader.at = 1;
        match first.as_str() {
            "insert" => insert(reader).map(Some),
            "update" | "delete" | "truncate" => rows(reader, &first).map(Some),
            "create" => create(reader, cut),
            "drop" => drop_table(reader),
            "alter" => alter(reader).map(Some),
            "copy" if !reader.is("(") => copy(reader),
            "with" if reader.inserts().is_some() => with_insert(reader).map(Some),
            "merge" => merge(reader).map(Some),
            "comment" => Ok(Some(Self::Define { sql: sql.to_string() })),
            "savepoint" | "import" | "export" | "checkpoint" | "attach" | "detach" | "load"
            | "vacuum" | "clone" => refused(first.to_uppercase()),
            "analyze" if !reader.rest().trim_matches(';').trim().is_empty() => {
                refused("ANALYZE of a table")
            }
            "with"
                if ["update", "delete"].iter().any(|word| reader.outermost(word, "").is_some()) =>
            {
                refused("WITH before UPDATE or DELETE")
            }
            _ => Ok(None),
        }
    }
}

/// Whether a query of WITH is none, but a change: `AS (DELETE ...)`.
fn changes_within(words: &[Piece<'_>]) -> bool {
    let is = |word: &Piece<'_>, all: &[&str]| {
        word.kind == Kind::Word && all.iter().any(|one| word.text.eq_ignore_ascii_case(one))
    };
    words.windows(3).any(|next| {
        is(&next[0], &["as", "materialized"])
            && next[1].text == "("
            && is(&next[2], &["insert", "update", "delete", "merge"])
    })
}

/// Whether a call has two values in its parentheses: `age` of two moments is always the same.
fn has_two_values(words: &[Piece<'_>], open: usize) -> bool {
    let mut depth = 0;
    let commas = words[open..].iter().map_while(|word| {
        match word.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        (depth > 0).then_some(depth == 1 && word.text == ",")
    });
    commas.filter(|is_comma| *is_comma).count() == 1
}

/// The table that a statement changes or drops, where it may be a temporary one: its schema, which
/// may be missing, and its name.
pub(crate) fn target(sql: &str) -> Option<(Option<String>, String)> {
    let mut reader = Reader::of(sql);
    let first = reader.words.first()?.text.to_lowercase();
    reader.at = 1;
    match first.as_str() {
        "insert" => {
            let _ = reader.take("or") && reader.name().is_ok();
            reader.take("into");
        }
        "merge" => _ = reader.take("into"),
        "delete" => _ = reader.take("from"),
        "truncate" => _ = reader.take("table"),
        "drop" | "alter" | "create" => {
            reader.take_all(&["or", "replace"]);
            if !reader.take("table") && !reader.take("view") {
                return None;
            }
            reader.take_all(&["if", "not", "exists"]);
            reader.take_all(&["if", "exists"]);
        }
        "update" | "copy" => {}
        _ => return None,
    }
    let name = reader.name().ok()?;
    match reader.take(".") {
        true => Some((Some(name), reader.name().ok()?)),
        false => Some((None, name)),
    }
}

fn insert(mut reader: Reader<'_>) -> Result<Change> {
    let mut or = String::new();
    for kind in ["replace", "ignore"] {
        if reader.take_all(&["or", kind]) {
            or = format!("OR {} ", kind.to_uppercase());
        }
    }
    if !reader.take("into") {
        return refused("INSERT without INTO");
    }
    let table = reader.table()?;
    let by_name = reader.take_all(&["by", "name"]);
    let is_by_position = !by_name && reader.take_all(&["by", "position"]);
    let mut columns = Vec::new();
    let starts = ["select", "with", "from", "values", "table", "("];
    let is_query = reader
        .words
        .get(reader.at + 1)
        .is_some_and(|next| starts.iter().any(|start| next.text.eq_ignore_ascii_case(start)));
    if !is_query && !by_name && !is_by_position {
        columns = reader.names()?;
    }
    if !starts.iter().any(|start| reader.is(start)) {
        return refused(format!("INSERT INTO {table} {}", reader.rest()));
    }
    let returning = reader.outermost("returning", "");
    let conflict = reader.outermost("on", "conflict");
    let (query, _) = reader.until(conflict.or(returning));
    let (conflict, keys) = match conflict {
        Some(at) => {
            reader.at = at;
            let (text, _) = reader.until(returning);
            // A column may be called RETURNING: what is behind it is looked at too.
            let keys = assignments(&reader.words[at..])?;
            reader.refuse(&["select"], "ON CONFLICT")?;
            reader.refuse_volatile("ON CONFLICT")?;
            (text, keys)
        }
        None => (String::new(), Vec::new()),
    };
    let returning = match returning {
        Some(at) => {
            reader.at = at;
            reader.refuse(&["select", "rowid", "getvariable", "current_setting"], "RETURNING")?;
            reader.rest().to_string()
        }
        None => String::new(),
    };
    Ok(Change::Insert { table, columns, by_name, query, or, conflict, keys, returning })
}

/// `WITH ... INSERT INTO t SELECT ...`: the WITH is the query's.
fn with_insert(reader: Reader<'_>) -> Result<Change> {
    let Some(at) = reader.inserts() else { return refused("this form of WITH") };
    if changes_within(&reader.words) {
        return refused("a change in WITH before another one");
    }
    let (with, _) = Reader { at: 0, ..reader.clone() }.until(Some(at));
    let rest = Reader { at, ..reader }.rest();
    let mut change = insert(Reader { at: 1, ..Reader::of(rest) })?;
    if let Change::Insert { query, .. } = &mut change {
        let first = words(query).next().map_or("", |word| word.text).to_lowercase();
        *query = match first.as_str() {
            "values" => return refused("WITH before INSERT INTO ... VALUES"),
            "with" => format!("{with} SELECT * FROM ({query})"),
            _ => format!("{with} {query}"),
        };
    }
    Ok(change)
}

fn merge(mut reader: Reader<'_>) -> Result<Change> {
    if !reader.take("into") {
        return refused("MERGE without INTO");
    }
    let table = reader.table()?;
    let alias = if reader.is("using") { table.clone() } else { reader.alias()? };
    if !reader.take("using") {
        return refused("MERGE without USING");
    }
    let start = reader.at;
    let name = match reader.is("(") {
        true => {
            reader.at = closing(&reader.words, reader.at)? + 1;
            String::new()
        }
        false => reader.table()?,
    };
    let end = std::mem::replace(&mut reader.at, start);
    let (source, _) = reader.until(Some(end));
    reader.at = end;
    let source_alias = if reader.is("on") { name } else { reader.alias()? };
    let columns = reader.at;
    reader.names()?;
    let end = std::mem::replace(&mut reader.at, columns);
    let (source_columns, _) = reader.until(Some(end));
    reader.at = end;
    let on = reader.rest().to_string();
    if source_alias.is_empty() || !reader.take("on") {
        return refused("MERGE whose source has no name, or without ON");
    }
    reader.refuse(&["select"], "MERGE")?;
    reader.refuse_volatile("MERGE")?;
    if let Some(at) = reader.outermost("returning", "") {
        let behind = reader.behind(at);
        behind.refuse_computed("RETURNING")?;
    }
    // The WHEN of a CASE is no clause.
    let clauses = [reader.outermost("when", "matched"), reader.outermost("when", "not")];
    let (_, condition) = reader.until(clauses.into_iter().flatten().min());
    let equal = equal_columns(&condition);
    let merge = Merge { table, alias, source, source_alias, source_columns, on, equal };
    Ok(Change::Merge(merge))
}

fn rows(mut reader: Reader<'_>, kind: &str) -> Result<Change> {
    reader.take(if kind == "delete" { "from" } else { "table" });
    let table = reader.table()?;
    let what = kind.to_uppercase();
    let returning = reader.outermost("returning", "");
    let end = returning.unwrap_or(reader.words.len());
    let draws = draws(&reader.until(returning).0);
    reader.refuse_volatile_but(&what, end)?;
    if let Some(at) = returning {
        let behind = reader.behind(at);
        behind.refuse(&["select"], "RETURNING")?;
        behind.refuse_computed("RETURNING")?;
    }
    let mut assigned = Vec::new();
    if kind == "update" {
        assigned = assignments(&reader.words[reader.at..])?;
        if assigned.is_empty() {
            return refused("UPDATE without an assignment");
        }
    }
    let behind = reader.sql.len() - reader.rest().len();
    let (sql, returns) = (reader.sql.to_string(), returning.is_some());
    Ok(Change::Rows { table, sql, assigned, behind, returns, draws })
}

fn create(mut reader: Reader<'_>, cut: &Cut) -> Result<Option<Change>> {
    let replace = reader.take_all(&["or", "replace"]);
    if reader.is("temp") || reader.is("temporary") {
        return Ok(None);
    }
    if ["view", "macro", "function", "type"].iter().any(|kind| reader.is(kind)) {
        if reader.is("type") {
            // Each node would read its own rows.
            reader.refuse(&["select", "from", "values", "with"], "CREATE TYPE")?;
        }
        return Ok(Some(Change::Define { sql: reader.sql.to_string() }));
    }
    let is_unique = reader.take("unique");
    if reader.take("index") {
        return index(reader, is_unique).map(Some);
    }
    if is_unique || !reader.take("table") {
        return refused(format!("CREATE {}", reader.rest().split(' ').next().unwrap_or("")));
    }
    let unless_there = reader.take_all(&["if", "not", "exists"]);
    let table = reader.table()?;
    let made = |sql: Option<&str>, query| {
        let (table, sql, cut) = (table.clone(), sql.map(str::to_string), cut.clone());
        Ok(Some(Change::Create { table, sql, query, cut, replace, unless_there }))
    };
    if reader.take("as") {
        return made(None, Some(reader.rest().to_string()));
    }
    if !reader.is("(") {
        return refused("this form of CREATE TABLE");
    }
    let behind = closing(&reader.words, reader.at)? + 1;
    if reader.words.get(behind).is_some_and(|next| next.text.eq_ignore_ascii_case("as")) {
        let names = names_of_columns(&reader.words[reader.at + 1..behind - 1])?;
        reader.at = behind + 1;
        return made(None, Some(format!("SELECT * FROM ({}) AS q({names})", reader.rest())));
    }
    reader.refuse(
        &["references", "foreign", "generated", "select", "clone", "nextval"],
        "CREATE TABLE",
    )?;
    reader.refuse_volatile("CREATE TABLE")?;
    made(Some(reader.sql), None)
}

/// The columns of CREATE TABLE t (a, b) AS, as the query's columns are named.
fn names_of_columns(words: &[Piece<'_>]) -> Result<String> {
    let mut names = Vec::new();
    for part in words.split(|word| word.text == ",") {
        match part {
            [word] => names.extend(name_of(word).map(|name| quoted(&name))),
            _ => return refused("columns with types in CREATE TABLE AS"),
        }
    }
    Ok(names.join(", "))
}

fn drop_table(mut reader: Reader<'_>) -> Result<Option<Change>> {
    let sql = reader.sql.to_string();
    if ["view", "macro", "function", "type", "index"].iter().any(|kind| reader.is(kind)) {
        return Ok(Some(Change::Define { sql }));
    }
    if !reader.take("table") {
        return refused(format!("DROP {}", reader.rest().split(' ').next().unwrap_or("")));
    }
    reader.take_all(&["if", "exists"]);
    let table = reader.table()?;
    if reader.is(",") {
        return refused("DROP TABLE of several tables");
    }
    Ok(Some(Change::Drop { table, sql }))
}

fn alter(mut reader: Reader<'_>) -> Result<Change> {
    if !reader.take("table") {
        return refused(format!("ALTER {}", reader.rest().split(' ').next().unwrap_or("")));
    }
    reader.take_all(&["if", "exists"]);
    let table = reader.table()?;
    reader.refuse(&["select", "references", "foreign", "generated", "nextval"], "ALTER TABLE")?;
    reader.refuse_volatile("ALTER TABLE")?;
    Ok(Change::Alter { table, sql: reader.sql.to_string() })
}

/// CREATE INDEX: each node has one of its own rows.
fn index(mut reader: Reader<'_>, is_unique: bool) -> Result<Change> {
    let sql = reader.sql.to_string();
    let Some(on) = reader.outermost("on", "") else { return refused("CREATE INDEX without ON") };
    reader.at = on + 1;
    let table = reader.table()?;
    if reader.take("using") {
        reader.name()?;
    }
    let unique = if is_unique { reader.names()? } else { Vec::new() };
    Ok(Change::Index { table, sql, unique })
}

/// COPY t FROM 'file': the coordinator reads the file, and deals its rows out.
fn copy(mut reader: Reader<'_>) -> Result<Option<Change>> {
    let table = reader.table()?;
    let columns = reader.names()?;
    if reader.is("to") {
        return Ok(None);
    }
    let from = reader.rest().to_string();
    if !reader.take("from") {
        return refused("this form of COPY");
    }
    let file = reader.words.get(reader.at).filter(|word| word.text.starts_with('\''));
    match file {
        Some(_) => Ok(Some(Change::Copy { table, columns, from })),
        None => refused("COPY from something else than a file"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    fn read(sql: &str) -> Result<Option<Change>> {
        Change::of(sql, &Cut::AsItLies)
    }

    #[test]
    fn inserts_have_a_table_columns_and_a_query() {
        let change = read("INSERT INTO main.\"T x\" (a, \"b\"\"c\") VALUES (1, ')')").unwrap();
        let Some(Change::Insert { table, columns, query, .. }) = change else {
            panic!("{change:?}")
        };
        assert_eq!((table.as_str(), query.as_str()), ("T x", "VALUES (1, ')')"));
        assert_eq!(columns, ["a", "b\"c"]);
        let change = read("insert into t (select 1)").unwrap();
        assert!(matches!(change, Some(Change::Insert { columns, .. }) if columns.is_empty()));
        for (sql, is_by_name) in
            [("INSERT INTO t BY NAME FROM s", true), ("INSERT INTO t BY POSITION FROM s", false)]
        {
            let Some(Change::Insert { by_name, query, .. }) = read(sql).unwrap() else {
                panic!("{sql}")
            };
            assert_eq!((by_name, query.as_str()), (is_by_name, "FROM s"));
        }
        assert!(read("INSERT INTO t DEFAULT VALUES").is_err());
        assert!(read("INSERT INTO s.t VALUES (1)").is_err());
    }

    #[test]
    fn what_nodes_would_compute_differently_is_refused() {
        for sql in [
            "DELETE FROM t WHERE a > nextval('s')",
            "UPDATE t SET a = 1 RETURNING random()",
            "DELETE FROM t RETURNING (SELECT max(a) FROM u)",
            "INSERT INTO t VALUES (1) ON CONFLICT DO UPDATE SET a = random()",
            "UPDATE t SET a = 1 RETURNING current_timestamp",
            "MERGE INTO t USING u ON a = b WHEN MATCHED THEN UPDATE SET c = random()",
            "MERGE INTO t USING (SELECT 1) ON a = b WHEN MATCHED THEN DELETE",
            "CREATE TABLE t (a INTEGER DEFAULT random())",
            "CREATE TABLE t (a INTEGER) AS SELECT 1",
            "DELETE FROM t WHERE rowid = 0",
            "CREATE TYPE x AS ENUM (SELECT s FROM t)",
            "UPDATE t SET a = getvariable(b)",
            "DELETE FROM t WHERE a < b RETURNING transaction_timestamp()",
            "UPDATE t SET a = age(greatest(b, c))",
            "UPDATE t SET a = ago(b)",
            "INSERT INTO t VALUES (1) RETURNING rowid",
            "WITH x AS (SELECT 1) DELETE FROM t WHERE a IN (FROM x)",
            "WITH x AS (SELECT 1) INSERT INTO t VALUES (1)",
            "WITH x AS (DELETE FROM t RETURNING a) INSERT INTO u FROM x",
            "WITH x AS NOT MATERIALIZED (UPDATE t SET a = 1 RETURNING a) INSERT INTO u FROM x",
            "CREATE SCHEMA s",
            "ANALYZE t (a)",
            "CREATE UNIQUE INDEX i ON t (a + 1)",
            "ALTER TABLE t ALTER COLUMN a SET DEFAULT random()",
        ] {
            assert!(matches!(read(sql), Err(Error::Unsupported(_))), "{sql}");
        }
        for sql in [
            "UPDATE t SET a = age(greatest(b, c), d)",
            "UPDATE t SET a = random() RETURNING a",
            "DELETE FROM t WHERE a IN (SELECT b FROM u WHERE c > random())",
            // The coordinator computes these.
            "UPDATE t SET a = current_timestamp",
            "UPDATE t SET a = getvariable('x')",
            "DELETE FROM t WHERE a < transaction_timestamp()",
        ] {
            assert!(matches!(read(sql), Ok(Some(Change::Rows { .. }))), "{sql}");
        }
        let change = read("UPDATE t SET a = 1, b = 'random' WHERE c = 2").unwrap();
        let Some(Change::Rows { assigned, .. }) = change else { panic!("{change:?}") };
        assert_eq!(assigned, ["a", "b"]);
        let change = read("UPDATE t SET a = (b = c), d = u.e FROM u WHERE f = u.g").unwrap();
        let Some(Change::Rows { assigned, behind, .. }) = change else { panic!("{change:?}") };
        assert_eq!((assigned.join(" "), behind), ("a d".to_string(), 9));
        // What does not end the list of assignments, and how names can be written.
        for (set, expected) in [
            ("a = CASE WHEN b = c THEN 1 ELSE 2 END, k = 1 WHERE d = 2", ["a", "k"]),
            ("a = b IS DISTINCT FROM c, k = 1 WHERE d = 2", ["a", "k"]),
            ("a = [b, c], \"k\"\"l\" = 1 FROM u WHERE d = 2", ["a", "k\"l"]),
            ("`a` = 1, \"set\" = 2", ["a", "set"]),
            ("a = 1, k[1] = 2", ["a", "k"]),
            ("a.k = (SELECT max(b) FROM u WHERE c = d)", ["a", "k"]),
        ] {
            let sql = format!("UPDATE t SET {set}");
            let Ok(Some(Change::Rows { assigned, .. })) = read(&sql) else { panic!("{sql}") };
            assert_eq!(assigned, expected, "{sql}");
        }
        assert!(read("UPDATE t SET a = (1, k = 2").is_err());
    }

    #[test]
    fn all_functions_that_are_another_value_each_time_are_known() {
        let one = swingdb::Database::private().unwrap().connect();
        let sql = "SELECT DISTINCT function_name FROM duckdb_functions() \
                   WHERE stability <> 'CONSISTENT' AND function_name <> 'error'";
        let batches = one.query(sql).unwrap().collect().unwrap();
        let names = crate::catalog::texts(&batches, 0).unwrap();
        assert!(names.len() > 10, "{names:?}");
        let unknown = names.iter().filter(|name| !VOLATILE.contains(&name.as_str()));
        assert_eq!(unknown.collect::<Vec<_>>(), Vec::<&String>::new());
    }

    #[test]
    fn tables_of_queries_are_made_of_rows_of_the_cluster() {
        for (sql, wanted) in [
            ("CREATE TABLE t AS VALUES (1)", "VALUES (1)"),
            (
                "CREATE TABLE t(a, \"b\"\"c\") AS FROM u",
                "SELECT * FROM (FROM u) AS q(\"a\", \"b\"\"c\")",
            ),
        ] {
            let Ok(Some(Change::Create { sql: None, query, .. })) = read(sql) else {
                panic!("{sql}")
            };
            assert_eq!(query.as_deref(), Some(wanted));
        }
        // Columns and types may be called as functions are.
        let made = read("CREATE TABLE t (a INTEGER, b DECIMAL(4, 2), u UUID, today DATE)").unwrap();
        assert!(matches!(made, Some(Change::Create { sql: Some(_), query: None, .. })));
    }

    #[test]
    fn a_with_before_an_insert_is_its_querys() {
        for (sql, wanted) in [
            ("WITH x AS (SELECT 1) INSERT INTO t FROM x", "WITH x AS (SELECT 1) FROM x"),
            (
                "WITH RECURSIVE x AS (SELECT 1) INSERT OR IGNORE INTO t (a) WITH y AS (FROM x) \
                 FROM y",
                "WITH RECURSIVE x AS (SELECT 1) SELECT * FROM (WITH y AS (FROM x) FROM y)",
            ),
        ] {
            let Ok(Some(Change::Insert { table, query, .. })) = read(sql) else { panic!("{sql}") };
            assert_eq!((table.as_str(), query.as_str()), ("t", wanted), "{sql}");
        }
        let select = read("WITH x AS (SELECT 1 AS insert) SELECT insert FROM x").unwrap();
        assert_eq!(select, None);
    }

    #[test]
    fn files_have_options_and_indexes_have_columns() {
        let copied = read("COPY t (a, \"b\") FROM 'x.csv' (HEADER, DELIMITER ';')").unwrap();
        let texts = |all: &[&str]| all.iter().map(|text| text.to_string()).collect::<Vec<_>>();
        let from = "FROM 'x.csv' (HEADER, DELIMITER ';')".to_string();
        let (table, columns) = ("t".to_string(), texts(&["a", "b"]));
        assert_eq!(copied, Some(Change::Copy { table, columns, from }));
        for (sql, columns) in [
            ("CREATE INDEX i ON main.t (a)", &[][..]),
            ("CREATE INDEX IF NOT EXISTS i ON t (lower(a))", &[]),
            ("CREATE UNIQUE INDEX i ON t (k, \"a b\")", &["k", "a b"]),
        ] {
            let Ok(Some(Change::Index { table, unique, .. })) = read(sql) else { panic!("{sql}") };
            assert_eq!((table.as_str(), unique), ("t", texts(columns)), "{sql}");
        }
        let dropped = read("DROP INDEX IF EXISTS i").unwrap();
        assert!(matches!(dropped, Some(Change::Define { .. })), "{dropped:?}");
    }

    #[test]
    fn targets_are_the_tables_that_statements_change() {
        for (sql, wanted) in [
            ("INSERT INTO t VALUES (1)", Some((None, "t"))),
            ("insert or replace into temp.\"T x\" FROM u", Some((Some("temp"), "T x"))),
            ("UPDATE main.t SET a = 1", Some((Some("main"), "t"))),
            ("DELETE FROM t", Some((None, "t"))),
            ("TRUNCATE t", Some((None, "t"))),
            ("MERGE INTO t USING u ON a = b WHEN MATCHED THEN DELETE", Some((None, "t"))),
            ("DROP TABLE IF EXISTS t", Some((None, "t"))),
            ("ALTER TABLE t ADD COLUMN a INTEGER", Some((None, "t"))),
            ("CREATE OR REPLACE TABLE temp.t (a INTEGER)", Some((Some("temp"), "t"))),
            ("COPY t FROM 'x'", Some((None, "t"))),
            ("COPY (FROM t) TO 'x'", None),
            ("SELECT * FROM t", None),
        ] {
            let wanted = wanted.map(|(schema, name): (Option<&str>, &str)| {
                (schema.map(str::to_string), name.to_string())
            });
            assert_eq!(target(sql), wanted, "{sql}");
        }
    }

    #[test]
    fn inserts_say_what_happens_to_rows_that_are_there() {
        let sql = "INSERT OR REPLACE INTO t (a) SELECT b FROM u ON CONFLICT (a) DO UPDATE \
                   SET c = excluded.c, d = 1 WHERE e = 2 RETURNING a, c AS on";
        let change = read(sql).unwrap();
        let Some(Change::Insert { query, or, conflict, keys, returning, .. }) = change else {
            panic!("{change:?}")
        };
        assert_eq!((query.as_str(), or.as_str()), ("SELECT b FROM u", "OR REPLACE "));
        let expected = "ON CONFLICT (a) DO UPDATE SET c = excluded.c, d = 1 WHERE e = 2";
        assert_eq!((conflict.as_str(), returning.as_str()), (expected, "RETURNING a, c AS on"));
        assert_eq!(keys, ["c", "d"]);
        for set in ["end = excluded.end", "a = t.returning", "returning = 1", "a = returning"] {
            let sql =
                format!("INSERT INTO t FROM u ON CONFLICT (a) DO UPDATE SET {set}, k = excluded.k");
            let Ok(Some(Change::Insert { keys, .. })) = read(&sql) else { panic!("{sql}") };
            assert_eq!(keys.last().map(String::as_str), Some("k"), "{sql}");
        }
        let change = read("INSERT INTO t SELECT a FROM u JOIN v ON a = b").unwrap();
        let Some(Change::Insert { query, conflict, .. }) = change else { panic!("{change:?}") };
        assert_eq!((query.as_str(), conflict.as_str()), ("SELECT a FROM u JOIN v ON a = b", ""));
    }

    #[test]
    fn merges_say_what_has_to_be_equal() {
        let sql = "MERGE INTO t AS x USING (SELECT a FROM u) q ON x.k = q.a AND q.b > (1 + 2) \
                   WHEN MATCHED THEN DELETE";
        let change = read(sql).unwrap();
        let Some(Change::Merge(merge)) = change else { panic!("{change:?}") };
        assert_eq!((merge.alias.as_str(), merge.source_alias.as_str()), ("x", "q"));
        assert_eq!(merge.source, "(SELECT a FROM u)");
        assert_eq!(merge.source_columns, "");
        let named = "MERGE INTO t USING (VALUES (1, 2)) AS q(a, \"b c\") ON t.k = q.a";
        let Ok(Some(Change::Merge(named))) = read(named) else { panic!("{named}") };
        assert_eq!(named.source_columns, "(a, \"b c\")");
        assert_eq!(named.on, "ON t.k = q.a");
        let text = |one: &str| one.to_string();
        assert_eq!(merge.equal, [[(text("x"), text("k")), (text("q"), text("a"))]]);
        assert!(merge.on.starts_with("ON x.k = q.a AND") && merge.on.ends_with("DELETE"));
        let change = read("MERGE INTO t USING u ON t.k = u.a OR true WHEN MATCHED THEN DELETE");
        let Ok(Some(Change::Merge(merge))) = change else { panic!("{change:?}") };
        assert_eq!((merge.source.as_str(), merge.equal.len()), ("u", 0));
        // What comes behind the first WHEN may take the condition back.
        for more in ["t.when = 3", "CASE WHEN t.b THEN u.c END"] {
            let sql = format!(
                "MERGE INTO t USING u ON t.k = u.a AND {more} OR true WHEN NOT MATCHED THEN DELETE"
            );
            let Ok(Some(Change::Merge(merge))) = read(&sql) else { panic!("{sql}") };
            assert!(merge.equal.is_empty(), "{sql}");
        }
    }

    #[test]
    fn reading_is_no_change() {
        for sql in [
            "SELECT 1",
            "FROM t",
            "WITH x AS (SELECT 1) FROM x",
            "SET TimeZone = 'UTC'",
            "CREATE TEMP TABLE x AS SELECT 1",
            "EXPLAIN SELECT 1",
            "ANALYZE",
            "COPY t TO 'x.csv'",
            "COPY (SELECT * FROM t) TO 'x.csv'",
        ] {
            assert_eq!(read(sql).unwrap(), None, "{sql}");
        }
    }
}
