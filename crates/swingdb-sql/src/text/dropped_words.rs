//! Words that the parser reads and drops: the syntax tree has no trace of them, so nobody would do
//! what they ask for, nor refuse it.
//!
//! | written | becomes |
//! |---|---|
//! | `sum(x) FILTER OVER ()` | `FILTER` is a name, which the parser then refuses here |
//! | `FROM t GLOBAL` | `GLOBAL` is a name, as in DuckDB |
//! | `(a INT GENERATED)`, `LIKE t CLONE`, `INSERT INTO LOCAL t` | these words are names too |
//! | `CREATE TEMP SCHEMA s`, `CREATE LOCAL VIEW v`, `FROM unnest(l) WITH` | refused |
//! | `SHOW TERSE ALL`, `SHOW a + `, `DESCRIBE VERBOSE t`, `SET GLOBAL TIME ZONE 'UTC'` | refused |
//!
//! `tests/dropped_words.rs` puts keywords everywhere, and finds what the parser drops.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Word};
use swingdb_common::error::Result;

use crate::text::tokens::Pass;
use crate::text::words::unexpected;

/// Refuses words that the parser would drop, or makes names of them.
pub(crate) fn rewrite(pass: &mut Pass) -> Result<()> {
    for word in 0..pass.len() {
        if is_beginning(pass, word) {
            beginning(pass, word)?;
        }
        if pass.is_word(word, "WITH") && !goes_on(pass, word) {
            return refuse(pass, word + 1, "what WITH is about");
        }
        if is_name(pass, word) {
            make_name(pass, word);
        }
    }
    Ok(())
}

fn is_beginning(pass: &Pass, word: usize) -> bool {
    word.checked_sub(1).is_none_or(|before| pass.token(before) == Some(&Token::SemiColon))
}

fn is_any(pass: &Pass, word: usize, words: &[&str]) -> bool {
    words.iter().any(|one| pass.is_word(word, one))
}

/// Whether these words come next, `(` among them.
fn come_next(pass: &Pass, word: usize, words: &[&str]) -> bool {
    words.iter().zip(word..).all(|(one, at)| match *one {
        "(" => pass.token(at) == Some(&Token::LParen),
        one => pass.is_word(at, one),
    })
}

/// Whether a word is a name, as what makes a clause of it is not there.
fn is_name(pass: &Pass, word: usize) -> bool {
    let before = |words| word.checked_sub(1).is_some_and(|before| is_any(pass, before, words));
    let next = |words| come_next(pass, word + 1, words);
    match pass.keyword(word) {
        Some(Keyword::FILTER) => {
            let call = word.checked_sub(1).and_then(|before| pass.token(before));
            call == Some(&Token::RParen) && !next(&["("])
        }
        Some(Keyword::GLOBAL) => !before(&["CREATE", "REPLACE", "SET", "SHOW"]),
        Some(Keyword::LOCAL) => before(&["INTO"]),
        Some(Keyword::CLONE) => !matches!(pass.token(word + 1), Some(Token::Word(_))),
        Some(Keyword::GENERATED) => {
            let computed = next(&["ALWAYS", "AS", "("]) || next(&["AS", "("]);
            let numbered = next(&["ALWAYS", "AS", "IDENTITY"]);
            !(computed || numbered || next(&["BY", "DEFAULT", "AS", "IDENTITY"]))
        }
        _ => false,
    }
}

/// The parser goes by the keyword of a word, not by its text.
fn make_name(pass: &mut Pass, word: usize) {
    if let Some(Token::Word(written)) = pass.token(word).cloned() {
        let name = Word { keyword: Keyword::NoKeyword, ..written };
        pass.set(word, Token::Word(name));
    }
}

/// Whether something that a WITH may be about follows it.
fn goes_on(pass: &Pass, with: usize) -> bool {
    const OTHER_CLAUSES: &[&str] = &[
        "WHERE",
        "GROUP",
        "HAVING",
        "QUALIFY",
        "WINDOW",
        "LIMIT",
        "UNION",
        "EXCEPT",
        "INTERSECT",
        "JOIN",
        "CROSS",
        "NATURAL",
        "INNER",
        "LEFT",
        "RIGHT",
        "FULL",
    ];
    let is_column = with.checked_sub(1).is_some_and(|at| pass.token(at) == Some(&Token::Period));
    let other = is_any(pass, with + 1, OTHER_CLAUSES)
        && !pass.is_word(with + 2, "AS")
        && pass.token(with + 2) != Some(&Token::LParen);
    let ends = matches!(
        pass.token(with + 1),
        None | Some(Token::EOF | Token::SemiColon | Token::RParen | Token::Comma)
    );
    is_column || !(other || ends)
}

/// The words that a statement begins with.
fn beginning(pass: &Pass, word: usize) -> Result<()> {
    match pass.keyword(word) {
        Some(Keyword::CREATE) => create(pass, word + 1),
        Some(Keyword::SHOW) => show(pass, word + 1),
        Some(Keyword::DESCRIBE | Keyword::DESC)
            if is_any(pass, word + 1, &["ANALYZE", "ESTIMATE", "VERBOSE"])
                && matches!(pass.token(word + 2), Some(Token::Word(_))) =>
        {
            refuse(pass, word + 1, "a query or a table")
        }
        Some(Keyword::SET) if come_next(pass, word + 1, &["GLOBAL", "TIME", "ZONE"]) => {
            refuse(pass, word + 1, "TIME ZONE, which holds for the session")
        }
        _ => Ok(()),
    }
}

/// CREATE, without what it creates.
fn create(pass: &Pass, word: usize) -> Result<()> {
    let replaces = if come_next(pass, word, &["OR", "REPLACE"]) { 2 } else { 0 };
    let scope = word + replaces;
    let scoped = is_any(pass, scope, &["GLOBAL", "LOCAL", "TRANSIENT"]);
    let temp = scope + usize::from(scoped);
    let temporary = is_any(pass, temp, &["TEMP", "TEMPORARY"]);
    let what = temp + usize::from(temporary);
    let is_table = pass.is_word(what, "TABLE");
    let is_local = pass.is_word(scope, "LOCAL") && temporary;
    if scoped && !is_table && !is_local {
        return refuse(pass, scope, "TABLE, VIEW or another thing to create");
    }
    if temporary && is_any(pass, what, &["SCHEMA", "INDEX", "UNIQUE"]) {
        return refuse(pass, what, "TABLE or VIEW behind TEMP");
    }
    Ok(())
}

/// What comes behind SHOW.
fn show(pass: &Pass, first: usize) -> Result<()> {
    let end = (first..pass.len())
        .find(|word| matches!(pass.token(*word), None | Some(Token::SemiColon | Token::EOF)))
        .unwrap_or(pass.len());
    let is_word = |word| matches!(pass.token(word), Some(Token::Word(_)));
    if is_any(pass, first, &["EXTERNAL", "GLOBAL", "SESSION", "TERSE"]) && is_word(first + 1) {
        return refuse(pass, first, "what is to be shown");
    }
    // What WHERE has to be instead, a later error says.
    if (first..end).any(|word| pass.is_word(word, "WHERE")) {
        return Ok(());
    }
    let is_odd = |word: &usize| match pass.token(*word) {
        Some(Token::Period) => *word == first || !is_word(*word - 1) || !is_word(*word + 1),
        Some(
            Token::Word(_)
            | Token::SingleQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::Number(..)
            | Token::Placeholder(_),
        ) => false,
        _ => true,
    };
    match (first..end).find(is_odd) {
        Some(odd) => refuse(pass, odd, "the end of the statement"),
        None => Ok(()),
    }
}

fn refuse(pass: &Pass, word: usize, expected: &str) -> Result<()> {
    let found = pass.with_span(word).or_else(|| pass.with_span(pass.len().saturating_sub(1)));
    found.map_or(Ok(()), |found| Err(unexpected(expected, found)))
}

#[cfg(test)]
mod tests {
    use crate::text::forms::tests::parsed;
    use crate::text::parser::parse;

    #[test]
    fn what_would_be_dropped_is_refused() {
        for sql in [
            "SELECT sum(a) FILTER OVER () FROM t",
            "SELECT * FROM t GLOBAL s",
            "CREATE TABLE t (a INT GENERATED)",
            "CREATE TABLE t (a INT GENERATED ALWAYS AS, b INT)",
            "CREATE TABLE t (a INT, CONSTRAINT PRIMARY KEY (a))",
            "CREATE TABLE t LIKE u CLONE",
            "CREATE TABLE t CLONE (a INT)",
            "CREATE VIEW v (a GENERATED) AS SELECT 1",
            "CREATE TEMP SCHEMA s",
            "COPY t TO 'f' (FORMAT = )",
            "PIVOT t ON a IN (1, , 2) USING sum(b)",
            "PIVOT t ON , a USING sum(b)",
            "CREATE TEMPORARY UNIQUE INDEX i ON t (a)",
            "CREATE LOCAL VIEW v AS SELECT 1",
            "CREATE OR REPLACE TRANSIENT VIEW v AS SELECT 1",
            "CREATE GLOBAL TEMP VIEW v AS SELECT 1",
            "SELECT * FROM unnest([1]) AS u (a) WITH",
            "SELECT * FROM unnest([1]) AS u (a) WITH WHERE a > 1",
            "SELECT sum(a) OVER w FROM t WINDOW w AS MATERIALIZED (ORDER BY a)",
            "SHOW TERSE ALL",
            "SHOW a + ",
            "SHOW . a",
            "DESCRIBE VERBOSE t",
            "SET GLOBAL TIME ZONE 'UTC'",
        ] {
            assert!(parse(sql).is_err(), "{sql}");
        }
    }

    #[test]
    fn the_same_words_are_names() {
        for (given, expected) in [
            ("SELECT filter FROM range(3) filter", "SELECT filter FROM range(3) filter"),
            ("FROM t GLOBAL WHERE 1", "SELECT * FROM t GLOBAL WHERE 1"),
            ("SELECT generated, clone FROM t", "SELECT generated, clone FROM t"),
            ("INSERT INTO local VALUES (1)", "INSERT INTO local VALUES (1)"),
            ("WITH left AS (SELECT 1) FROM \"left\"", "WITH left AS (SELECT 1) FROM \"left\""),
            ("SHOW a.b", "SHOW a b"),
            ("CREATE LOCAL TEMP VIEW v AS SELECT 1", "CREATE TEMPORARY VIEW v AS SELECT 1"),
        ] {
            assert_eq!(parsed(given), expected);
        }
    }
}
