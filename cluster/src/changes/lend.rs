//! Statements whose subqueries need the whole cluster: [`lend`].
//!
//! A node that runs `DELETE FROM t WHERE a IN (SELECT b FROM u)` would see its own rows of `u`
//! only. So the coordinator computes such subqueries. It lends their rows to all nodes under names
//! of their own, which the statement reads instead. A subquery that depends on the row cannot be
//! computed before: then its tables are lent.

use std::collections::BTreeMap;

use swingdb::cutter::{Kind, Piece, pieces};

use crate::error::{Error, Result, refused};

/// A statement as nodes run it, and the queries whose rows are lent for it.
#[derive(Debug, Default, PartialEq)]
pub struct Lending {
    /// The statement.
    pub sql: String,
    /// Names, and the queries whose rows they stand for.
    pub queries: Vec<(String, String)>,
}

/// Words behind a table that are not its alias.
const NO_ALIAS: [&str; 28] = [
    "where",
    "set",
    "on",
    "join",
    "left",
    "right",
    "full",
    "inner",
    "outer",
    "cross",
    "natural",
    "semi",
    "anti",
    "asof",
    "positional",
    "group",
    "order",
    "limit",
    "offset",
    "having",
    "using",
    "union",
    "except",
    "intersect",
    "returning",
    "tablesample",
    "qualify",
    "window",
];
/// Words that end a list of tables.
const ENDS_TABLES: [&str; 14] = [
    "where",
    "set",
    "group",
    "order",
    "limit",
    "offset",
    "having",
    "union",
    "except",
    "intersect",
    "returning",
    "qualify",
    "window",
    "select",
];

/// The statement of `sql`, whose tables begin at byte `from`: behind the table that it changes.
/// `is_alone` says whether a query can be computed by itself.
pub fn lend(sql: &str, from: usize, is_alone: &dyn Fn(&str) -> bool) -> Result<Lending> {
    let mut walk = Walk { is_alone, made: Lending::default(), names: BTreeMap::new() };
    let (head, tail) = sql.split_at(from);
    let all = pieces(tail).collect::<Vec<_>>();
    let tail = walk.text(&all, true)?;
    walk.made.sql = format!("{head}{tail}");
    Ok(walk.made)
}

struct Walk<'a> {
    is_alone: &'a dyn Fn(&str) -> bool,
    made: Lending,
    /// The names of queries.
    names: BTreeMap<String, String>,
}

impl Walk<'_> {
    fn name_of(&mut self, query: String) -> String {
        if let Some(name) = self.names.get(&query) {
            return name.clone();
        }
        let name = format!("__swingdb_cluster_lent_{}", self.names.len());
        self.names.insert(query.clone(), name.clone());
        self.made.queries.push((name.clone(), query));
        name
    }

    /// A piece of a statement with what is lent in its place; `has_tables`: a list of tables can
    /// follow.
    fn text(&mut self, all: &[Piece<'_>], mut has_tables: bool) -> Result<String> {
        let mut text = String::new();
        let (mut in_tables, mut is_table_next, mut before) = (false, false, String::new());
        let mut at = 0;
        while at < all.len() {
            let piece = all[at];
            if matches!(piece.kind, Kind::Blank | Kind::Comment) {
                text.push_str(piece.text);
                at += 1;
                continue;
            }
            let word = piece.text.to_lowercase();
            if word == "(" {
                let end = closing(all, at)?;
                text.push_str(&self.group(&all[at + 1..end])?);
                (is_table_next, before, at) = (false, ")".to_string(), end + 1);
                continue;
            }
            let is_name = matches!(piece.kind, Kind::Word | Kind::Quoted);
            if is_table_next && is_name && word != "lateral" {
                let (lent, next) = self.table(all, at);
                text.push_str(&lent);
                (is_table_next, before, at) = (false, word, next);
                continue;
            }
            match word.as_str() {
                "with" => return Err(Error::Unsupported("WITH in a subquery".to_string())),
                "select" => has_tables = true,
                _ => {}
            }
            if piece.kind == Kind::Word {
                let opens = matches!(word.as_str(), "from" | "using") && before != "distinct";
                if has_tables && (opens || in_tables && word == "join") {
                    (in_tables, is_table_next) = (true, true);
                } else if ENDS_TABLES.contains(&word.as_str()) {
                    (in_tables, is_table_next) = (false, false);
                }
            } else {
                is_table_next = in_tables && word == ",";
            }
            text.push_str(piece.text);
            (before, at) = (word, at + 1);
        }
        Ok(text)
    }

    /// What stands between parentheses, with them.
    fn group(&mut self, inner: &[Piece<'_>]) -> Result<String> {
        let text = inner.iter().map(|piece| piece.text).collect::<String>();
        let first = inner.iter().find(|p| !matches!(p.kind, Kind::Blank | Kind::Comment));
        let first = first.map_or(String::new(), |piece| piece.text.to_lowercase());
        let is_query = matches!(first.as_str(), "select" | "with" | "from");
        if is_query && (self.is_alone)(&text) {
            return Ok(format!("(SELECT * FROM {})", self.name_of(text)));
        }
        Ok(format!("({})", self.text(inner, is_query)?))
    }

    /// The table at a place, and where the text goes on.
    fn table(&mut self, all: &[Piece<'_>], at: usize) -> (String, usize) {
        let is_blank = |piece: &Piece<'_>| matches!(piece.kind, Kind::Blank | Kind::Comment);
        let mut end = at + 1;
        while all.get(end).is_some_and(|piece| piece.text == ".") && end + 1 < all.len() {
            end += 2;
        }
        let name = all[at..end].iter().map(|piece| piece.text).collect::<String>();
        let next = all[end..].iter().find(|piece| !is_blank(piece));
        // A function: each node computes it.
        if next.is_some_and(|next| next.text == "(") {
            return (name, end);
        }
        let lent = self.name_of(format!("SELECT * FROM {name}"));
        let has_alias = next.is_some_and(|next| {
            let is_name = matches!(next.kind, Kind::Word | Kind::Quoted);
            is_name && !NO_ALIAS.contains(&next.text.to_lowercase().as_str())
        });
        let alias = all[end - 1].text;
        match has_alias || alias.starts_with('\'') {
            true => (format!("(SELECT * FROM {lent})"), end),
            false => (format!("(SELECT * FROM {lent}) AS {alias}"), end),
        }
    }
}

/// The parenthesis that closes the one at a place.
pub(super) fn closing(all: &[Piece<'_>], open: usize) -> Result<usize> {
    let mut depth = 0;
    for (at, piece) in all.iter().enumerate().skip(open) {
        match piece.text {
            "(" => depth += 1,
            ")" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Ok(at);
        }
    }
    refused("a parenthesis that does not close")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lent(sql: &str, from: &str) -> (String, Vec<String>) {
        let at = sql.find(from).unwrap();
        // Here a query is alone unless it names `t`, the table that is changed.
        let made = lend(sql, at, &|query| !query.contains("t.")).unwrap();
        let short = |text: &str| text.replace("__swingdb_cluster_lent_", "#");
        (short(&made.sql), made.queries.into_iter().map(|(_, query)| query).collect())
    }

    fn texts(all: &[&str]) -> Vec<String> {
        all.iter().map(|text| text.to_string()).collect()
    }

    #[test]
    fn queries_that_are_alone_are_lent() {
        let sql = "DELETE FROM t WHERE a IN (SELECT b FROM u WHERE c = ')') AND d < (1 + 2)";
        let expected = "DELETE FROM t WHERE a IN (SELECT * FROM #0) AND d < (1 + 2)";
        let queries = texts(&["SELECT b FROM u WHERE c = ')'"]);
        assert_eq!(lent(sql, " WHERE"), (expected.to_string(), queries));
        let sql = "DELETE FROM t WHERE a > (SELECT 1) OR b > (SELECT 1)";
        let expected = "DELETE FROM t WHERE a > (SELECT * FROM #0) OR b > (SELECT * FROM #0)";
        assert_eq!(lent(sql, " WHERE").0, expected);
    }

    #[test]
    fn tables_of_others_are_lent() {
        let sql = "DELETE FROM t WHERE EXISTS (SELECT 1 FROM u JOIN main.v w ON u.a = w.a, \"X y\" \
                   WHERE t.a = u.a)";
        let (sql, queries) = lent(sql, " WHERE");
        let expected = "DELETE FROM t WHERE EXISTS (SELECT 1 FROM (SELECT * FROM #0) AS u JOIN \
                        (SELECT * FROM #1) w ON u.a = w.a, (SELECT * FROM #2) AS \"X y\" \
                        WHERE t.a = u.a)";
        assert_eq!(sql, expected);
        let wanted = ["SELECT * FROM u", "SELECT * FROM main.v", "SELECT * FROM \"X y\""];
        assert_eq!(queries, texts(&wanted));
        let sql = "UPDATE t SET a = u.b FROM u, generate_series(1, 2) AS g WHERE t.k = u.k";
        let expected = "UPDATE t SET a = u.b FROM (SELECT * FROM #0) AS u, generate_series(1, 2) \
                        AS g WHERE t.k = u.k";
        assert_eq!(lent(sql, " SET").0, expected);
        let sql = "DELETE FROM t USING (SELECT a FROM u) AS q WHERE q.a = t.a";
        let expected = "DELETE FROM t USING (SELECT * FROM #0) AS q WHERE q.a = t.a";
        assert_eq!(lent(sql, " USING").0, expected);
    }

    #[test]
    fn other_words_are_no_tables() {
        for sql in [
            "DELETE FROM t WHERE extract(year FROM d) = 2020",
            "DELETE FROM t WHERE a IS DISTINCT FROM b",
            "UPDATE t SET a = 1, b = 2 WHERE c IN (1, 2)",
        ] {
            let at = if sql.contains("SET") { " SET" } else { " WHERE" };
            assert_eq!(lent(sql, at), (sql.to_string(), Vec::new()));
        }
        assert!(lend("DELETE FROM t WHERE (a", 13, &|_| true).is_err());
    }
}
