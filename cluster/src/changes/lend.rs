//! Statements whose subqueries need the whole cluster: [`lend`].
//!
//! A node that runs `DELETE FROM t WHERE a IN (SELECT b FROM u)` would see its own rows of `u`
//! only. So the coordinator computes such subqueries. It lends their rows to all nodes under names
//! of their own, which the statement reads instead. A subquery that depends on the row cannot be
//! computed before: then its tables are lent.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, Query, Statement, TableFactor, VisitorMut,
};
use swingdb::cutter::Piece;
use swingdb_sql::ast::build;
use swingdb_sql::ast::walk::walk_statement;
use swingdb_sql::text::parser::parse;
use swingdb_sql::text::statement::Parsed;

use crate::error::{Error, Result, refused};

/// How the names of what is lent begin.
const LENT: &str = "__swingdb_cluster_lent_";

/// Functions of rows that read nothing: each node computes them.
const SERIES: [&str; 3] = ["generate_series", "range", "unnest"];

/// A statement as nodes run it, and the queries whose rows are lent for it.
#[derive(Debug, Default, PartialEq)]
pub struct Lending {
    /// The statement.
    pub sql: String,
    /// Names, and the queries whose rows they stand for.
    pub queries: Vec<(String, String)>,
}

/// What an UPDATE or DELETE reads from the cluster. `is_alone` says whether a query can be computed
/// by itself.
pub fn lend(sql: &str, is_alone: &dyn Fn(&str) -> bool) -> Result<Lending> {
    let unchanged = || Lending { sql: sql.to_string(), queries: Vec::new() };
    let mut statement = match parse(sql)?.pop_front() {
        Some(Parsed::Sql(statement)) => statement,
        _ => return Ok(unchanged()),
    };
    let limit = match statement.as_ref() {
        Statement::Update(update) => &update.limit,
        Statement::Delete(delete) => &delete.limit,
        _ => return Ok(unchanged()),
    };
    if limit.is_some() {
        return refused("LIMIT in UPDATE and DELETE, by which each node would choose rows");
    }
    let (queries, names) = (Vec::new(), BTreeMap::new());
    let mut walk = Walk { is_alone, queries, names, is_behind_target: false, failed: None };
    let done = walk_statement(&mut statement, &mut walk);
    if let (ControlFlow::Break(()), Some(error)) = (done, walk.failed) {
        return Err(error);
    }
    if walk.queries.is_empty() {
        return Ok(unchanged());
    }
    // What nodes read has to be what was meant.
    let written = statement.to_string();
    match parse(&written)?.pop_front() {
        Some(Parsed::Sql(read)) if read == statement => {
            Ok(Lending { sql: written, queries: walk.queries })
        }
        _ => refused(format!("this form of UPDATE or DELETE with subqueries: {written}")),
    }
}

struct Walk<'a> {
    is_alone: &'a dyn Fn(&str) -> bool,
    queries: Vec<(String, String)>,
    /// The names of queries.
    names: BTreeMap<String, String>,
    /// Whether the table that is changed has been seen: it is the first.
    is_behind_target: bool,
    failed: Option<Error>,
}

impl Walk<'_> {
    fn name_of(&mut self, query: String) -> String {
        if let Some(name) = self.names.get(&query) {
            return name.clone();
        }
        let name = format!("{LENT}{}", self.names.len());
        self.names.insert(query.clone(), name.clone());
        self.queries.push((name.clone(), query));
        name
    }

    fn fail(&mut self, error: Error) -> ControlFlow<()> {
        self.failed = Some(error);
        ControlFlow::Break(())
    }
}

impl VisitorMut for Walk<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let text = query.to_string();
        if (self.is_alone)(&text) {
            let name = self.name_of(text);
            match build::parse_query(&format!("SELECT * FROM {name}")) {
                Ok(lent) => *query = lent,
                Err(error) => return self.fail(error.into()),
            }
        } else if query.with.is_some() {
            return self.fail(Error::Unsupported("WITH in a subquery".to_string()));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if !std::mem::replace(&mut self.is_behind_target, true) {
            return ControlFlow::Continue(());
        }
        let TableFactor::Table { name, alias, args, .. } = factor else {
            return ControlFlow::Continue(());
        };
        let is_function = args.is_some();
        let Some(last) = last_part(name).filter(|last| !last.value.starts_with(LENT)) else {
            return ControlFlow::Continue(());
        };
        if is_function && SERIES.iter().any(|series| last.value.eq_ignore_ascii_case(series)) {
            return ControlFlow::Continue(());
        }
        let (last, alias) = (last.clone(), alias.take());
        let query = format!("SELECT * FROM {factor}");
        // What it reads is at the coordinator, as files are.
        if is_function && !(self.is_alone)(&query) {
            let message = format!("{last} with arguments of other tables in UPDATE and DELETE");
            return self.fail(Error::Unsupported(message));
        }
        let lent = self.name_of(query);
        let mut table = build::table(&[&lent], &last);
        if let TableFactor::Table { alias: shown, .. } = &mut table {
            // A file has no name that columns could be qualified by.
            let is_file = last.quote_style == Some('\'');
            *shown = alias.or_else(|| (!is_file).then(|| build::alias(&last)));
        }
        *factor = table;
        ControlFlow::Continue(())
    }
}

fn last_part(name: &ObjectName) -> Option<&Ident> {
    name.0.last()?.as_ident()
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

    fn lent(sql: &str) -> (String, Vec<String>) {
        // Here a query is alone unless it names `t`, the table that is changed.
        let made = lend(sql, &|query| !query.contains("t.")).unwrap();
        let short = |text: &str| text.replace(LENT, "#").replace('"', "'");
        (short(&made.sql), made.queries.into_iter().map(|(_, query)| short(&query)).collect())
    }

    fn texts(all: &[&str]) -> Vec<String> {
        all.iter().map(|text| text.to_string()).collect()
    }

    #[test]
    fn queries_that_are_alone_are_lent() {
        let sql = "DELETE FROM t WHERE a IN (SELECT b FROM u WHERE c = ')') AND d < (1 + 2)";
        let expected = "DELETE FROM t WHERE a IN (SELECT * FROM #0) AND d < (1 + 2)";
        let queries = texts(&["SELECT b FROM u WHERE c = ')'"]);
        assert_eq!(lent(sql), (expected.to_string(), queries));
        let sql = "DELETE FROM t WHERE a > (SELECT 1) OR b > (SELECT 1)";
        let expected = "DELETE FROM t WHERE a > (SELECT * FROM #0) OR b > (SELECT * FROM #0)";
        assert_eq!(lent(sql).0, expected);
        // A WITH of its own goes with its query; one that depends on the row does not.
        let sql = "UPDATE t SET a = (WITH x AS (SELECT 1 AS b) SELECT b FROM x)";
        assert_eq!(lent(sql).0, "UPDATE t SET a = (SELECT * FROM #0)");
        let sql = "UPDATE t SET a = (WITH x AS (SELECT t.a AS b) SELECT b FROM x)";
        assert!(lend(sql, &|query| !query.contains("t.")).is_err());
    }

    #[test]
    fn tables_of_others_are_lent() {
        let sql = "DELETE FROM t WHERE EXISTS (SELECT 1 FROM u JOIN main.v w ON u.a = w.a, \"X y\" \
                   WHERE t.a = u.a)";
        let (sql, queries) = lent(sql);
        let expected = "DELETE FROM t WHERE EXISTS (SELECT 1 FROM '#0' AS u JOIN '#1' w ON \
                        u.a = w.a, '#2' AS 'X y' WHERE t.a = u.a)";
        assert_eq!(sql, expected);
        let wanted = ["SELECT * FROM u", "SELECT * FROM main.v", "SELECT * FROM 'X y'"];
        assert_eq!(queries, texts(&wanted));
        let sql = "UPDATE t SET a = u.b FROM u, generate_series(1, 2) AS g WHERE t.k = u.k";
        let expected =
            "UPDATE t SET a = u.b FROM '#0' AS u, generate_series(1, 2) AS g WHERE t.k = u.k";
        assert_eq!(lent(sql).0, expected);
        // Nodes have other files than the coordinator.
        let sql = "DELETE FROM t USING read_csv('x.csv', header = true) c WHERE c.a = t.a";
        let (sql, queries) = lent(sql);
        assert_eq!(sql, "DELETE FROM t USING '#0' c WHERE c.a = t.a");
        assert_eq!(queries, texts(&["SELECT * FROM read_csv('x.csv', 'header', true)"]));
        let sql = "DELETE FROM t USING u, read_csv(t.f) AS c WHERE c.a = t.a";
        assert!(lend(sql, &|query| !query.contains("t.")).is_err());
        let sql = "DELETE FROM t USING (SELECT a FROM u) AS q WHERE q.a = t.a";
        let expected = "DELETE FROM t USING (SELECT * FROM #0) AS q WHERE q.a = t.a";
        assert_eq!(lent(sql).0, expected);
        // The sample is taken once.
        let sql = "DELETE FROM t USING u TABLESAMPLE (10 PERCENT) WHERE u.a = t.a";
        assert_eq!(lent(sql).0, "DELETE FROM t USING '#0' AS u WHERE u.a = t.a");
    }

    #[test]
    fn columns_may_be_called_as_keywords_are() {
        let sql = "UPDATE t SET a = (SELECT max(u.from) FROM u WHERE u.using = t.set), b = t.from";
        let (sql, queries) = lent(sql);
        let expected = "UPDATE t SET a = (SELECT max(u.from) FROM '#0' AS u WHERE u.using = \
                        t.set), b = t.from";
        assert_eq!((sql.as_str(), queries), (expected, texts(&["SELECT * FROM u"])));
    }

    #[test]
    fn other_words_are_no_tables() {
        for sql in [
            "DELETE FROM t WHERE extract(year FROM d) = 2020",
            "DELETE FROM t WHERE a IS DISTINCT FROM b",
            "DELETE FROM t WHERE substring(a FROM 2) = trim(LEADING 'x' FROM b)",
            "UPDATE t SET a = 1, b = 2 WHERE c IN (1, 2)",
            "TRUNCATE t",
        ] {
            assert_eq!(lent(sql), (sql.to_string(), Vec::new()));
        }
        assert!(lend("DELETE FROM t WHERE (a", &|_| true).is_err());
        // Each node would choose as many.
        for sql in ["DELETE FROM t LIMIT 1", "UPDATE t SET a = 1 ORDER BY a LIMIT 2"] {
            assert!(lend(sql, &|_| true).is_err(), "{sql}");
        }
    }
}
