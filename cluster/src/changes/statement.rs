//! Statements that change a cluster, read from their texts: [`Change`].
//!
//! Only what is the same on each node, whatever rows it has, is sent as a statement. Subqueries
//! would see the rows of one node, and `random()` would differ from node to node: they are refused
//! where nodes would compute them. Rows to insert are computed by the coordinator, so their query
//! may have anything.

use swingdb::cutter::{Kind, Piece, words};

use crate::cut::Cut;
use crate::error::{Error, Result};

/// See the [module documentation](self).
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The rows of a query become rows of a table.
    Insert {
        /// The table.
        table: String,
        /// Its columns in the order of the query's; none: all.
        columns: Vec<String>,
        /// The query.
        query: String,
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
    },
    /// Rows of a table change where they are.
    Rows {
        /// The table.
        table: String,
        /// The statement.
        sql: String,
        /// The columns that get other values.
        assigned: Vec<String>,
    },
    /// A table goes.
    Drop {
        /// The table.
        table: String,
        /// The statement.
        sql: String,
    },
    /// A statement about definitions, the same on all nodes.
    Define {
        /// The statement.
        sql: String,
    },
}

/// Functions that are another value each time.
const VOLATILE: [&str; 15] = [
    "random",
    "setseed",
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
    "nextval",
    "currval",
    "get_current_timestamp",
];

fn refused<T>(what: impl Into<String>) -> Result<T> {
    Err(Error::Unsupported(what.into()))
}

/// Walks the words of a statement.
struct Reader<'a> {
    sql: &'a str,
    words: Vec<Piece<'a>>,
    at: usize,
}

impl<'a> Reader<'a> {
    fn of(sql: &'a str) -> Self {
        Self { sql, words: words(sql).collect(), at: 0 }
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
        match next.kind {
            Kind::Word => Ok(next.text.to_string()),
            Kind::Quoted if next.text.starts_with('"') => {
                let inner = next.text.trim_start_matches('"');
                let inner = inner.strip_suffix('"').unwrap_or(inner);
                Ok(inner.replace("\"\"", "\""))
            }
            _ => refused(format!("a name like {}", next.text)),
        }
    }

    /// The name of a table of schema `main`.
    fn table(&mut self) -> Result<String> {
        let first = self.name()?;
        if !self.take(".") {
            return Ok(first);
        }
        match first.eq_ignore_ascii_case("main") {
            true => self.name(),
            false => refused(format!("schema {first}: tables of a cluster are in schema main")),
        }
    }

    /// What has not been read.
    fn rest(&self) -> &'a str {
        let Some(next) = self.words.get(self.at) else { return "" };
        let start = next.text.as_ptr() as usize - self.sql.as_ptr() as usize;
        &self.sql[start..]
    }

    fn has(&self, word: &str) -> bool {
        let rest = self.words.iter().skip(self.at);
        rest.filter(|next| next.kind == Kind::Word).any(|next| next.text.eq_ignore_ascii_case(word))
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
            "merge" | "begin" | "start" | "commit" | "rollback" | "abort" | "savepoint"
            | "import" | "export" | "checkpoint" | "comment" | "attach" | "detach" | "load"
            | "vacuum" | "clone" => refused(first.to_uppercase()),
            "with" if ["insert", "update", "delete"].iter().any(|word| reader.has(word)) => {
                refused("WITH before INSERT, UPDATE or DELETE")
            }
            _ => Ok(None),
        }
    }
}

fn insert(mut reader: Reader<'_>) -> Result<Change> {
    if reader.is("or") {
        return refused("INSERT OR REPLACE, INSERT OR IGNORE");
    }
    if !reader.take("into") {
        return refused("INSERT without INTO");
    }
    let table = reader.table()?;
    let mut columns = Vec::new();
    let starts = ["select", "with", "from", "values", "table", "("];
    let is_query = reader
        .words
        .get(reader.at + 1)
        .is_some_and(|next| starts.iter().any(|start| next.text.eq_ignore_ascii_case(start)));
    if reader.is("(") && !is_query {
        reader.at += 1;
        loop {
            columns.push(reader.name()?);
            if reader.take(")") {
                break;
            }
            if !reader.take(",") {
                return refused("this list of columns");
            }
        }
    }
    if !starts.iter().any(|start| reader.is(start)) {
        return refused(format!("INSERT INTO {table} {}", reader.rest()));
    }
    reader.refuse(&["conflict", "returning"], "INSERT")?;
    Ok(Change::Insert { table, columns, query: reader.rest().to_string() })
}

fn rows(mut reader: Reader<'_>, kind: &str) -> Result<Change> {
    reader.take(if kind == "delete" { "from" } else { "table" });
    let table = reader.table()?;
    let what = kind.to_uppercase();
    reader.refuse(&["select", "from", "using", "returning", "with", "exists"], &what)?;
    reader.refuse(&VOLATILE, &what)?;
    let mut assigned = Vec::new();
    if kind == "update" {
        // Every name before an equals sign, also of a condition: that only refuses more.
        for pair in reader.words.windows(2).skip(reader.at.saturating_sub(1)) {
            if pair[1].text == "=" {
                assigned.push(pair[0].text.trim_matches('"').to_string());
            }
        }
        if reader.words.get(reader.at + 1).is_some_and(|next| next.text == "(") {
            return refused("UPDATE with a list of columns");
        }
    }
    Ok(Change::Rows { table, sql: reader.sql.to_string(), assigned })
}

fn create(mut reader: Reader<'_>, cut: &Cut) -> Result<Option<Change>> {
    let replace = reader.take_all(&["or", "replace"]);
    if reader.is("temp") || reader.is("temporary") {
        return Ok(None);
    }
    if ["view", "macro", "function", "type"].iter().any(|kind| reader.is(kind)) {
        return Ok(Some(Change::Define { sql: reader.sql.to_string() }));
    }
    if !reader.take("table") {
        return refused(format!("CREATE {}", reader.rest().split(' ').next().unwrap_or("")));
    }
    if reader.take_all(&["if", "not", "exists"]) {
        return refused("CREATE TABLE IF NOT EXISTS");
    }
    let table = reader.table()?;
    let cut = cut.clone();
    if reader.take("as") {
        let query = Some(reader.rest().to_string());
        return Ok(Some(Change::Create { table, sql: None, query, cut, replace }));
    }
    if !reader.is("(") {
        return refused("this form of CREATE TABLE");
    }
    reader.refuse(
        &["references", "foreign", "generated", "select", "clone", "nextval"],
        "CREATE TABLE",
    )?;
    reader.refuse(&VOLATILE, "CREATE TABLE")?;
    let sql = Some(reader.sql.to_string());
    Ok(Some(Change::Create { table, sql, query: None, cut, replace }))
}

fn drop_table(mut reader: Reader<'_>) -> Result<Option<Change>> {
    let sql = reader.sql.to_string();
    if ["view", "macro", "function", "type"].iter().any(|kind| reader.is(kind)) {
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
    reader.table()?;
    if !reader.is("add") {
        return refused("ALTER TABLE, except ADD COLUMN");
    }
    reader.refuse(&["select", "references", "primary", "unique", "foreign"], "ALTER TABLE")?;
    reader.refuse(&VOLATILE, "ALTER TABLE")?;
    Ok(Change::Define { sql: reader.sql.to_string() })
}

/// COPY t FROM 'file': the coordinator reads the file, and deals its rows out.
fn copy(mut reader: Reader<'_>) -> Result<Option<Change>> {
    let table = reader.table()?;
    if reader.is("to") {
        return Ok(None);
    }
    if !reader.take("from") {
        return refused("this form of COPY");
    }
    let file = reader.words.get(reader.at).filter(|word| word.text.starts_with('\''));
    let Some(file) = file else { return refused("COPY from something else than a file") };
    let query = format!("SELECT * FROM {}", file.text);
    reader.at += 1;
    if !reader.rest().is_empty() {
        return refused("options of COPY; write INSERT INTO t SELECT ... FROM read_csv(...)");
    }
    Ok(Some(Change::Insert { table, columns: Vec::new(), query }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(sql: &str) -> Result<Option<Change>> {
        Change::of(sql, &Cut::AsItLies)
    }

    #[test]
    fn inserts_have_a_table_columns_and_a_query() {
        let change = read("INSERT INTO main.\"T x\" (a, \"b\"\"c\") VALUES (1, ')')").unwrap();
        let Some(Change::Insert { table, columns, query }) = change else { panic!("{change:?}") };
        assert_eq!((table.as_str(), query.as_str()), ("T x", "VALUES (1, ')')"));
        assert_eq!(columns, ["a", "b\"c"]);
        let change = read("insert into t (select 1)").unwrap();
        assert!(matches!(change, Some(Change::Insert { columns, .. }) if columns.is_empty()));
        assert!(read("INSERT INTO t VALUES (1) RETURNING a").is_err());
        assert!(read("INSERT INTO t DEFAULT VALUES").is_err());
        assert!(read("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING").is_err());
        assert!(read("INSERT INTO s.t VALUES (1)").is_err());
    }

    #[test]
    fn what_nodes_would_compute_differently_is_refused() {
        for sql in [
            "DELETE FROM t WHERE a IN (SELECT b FROM u)",
            "UPDATE t SET a = random()",
            "UPDATE t SET a = u.a FROM u",
            "DELETE FROM t USING u WHERE a = b",
            "UPDATE t SET a = current_timestamp",
            "MERGE INTO t USING u ON a = b WHEN MATCHED THEN DELETE",
            "BEGIN",
            "CREATE TABLE t (a INTEGER DEFAULT random())",
            "WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x",
        ] {
            assert!(matches!(read(sql), Err(Error::Unsupported(_))), "{sql}");
        }
        let change = read("UPDATE t SET a = 1, b = 'random' WHERE c = 2").unwrap();
        let Some(Change::Rows { assigned, .. }) = change else { panic!("{change:?}") };
        assert_eq!(assigned, ["a", "b", "c"]);
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
            "COPY t TO 'x.csv'",
            "COPY (SELECT * FROM t) TO 'x.csv'",
        ] {
            assert_eq!(read(sql).unwrap(), None, "{sql}");
        }
    }
}
