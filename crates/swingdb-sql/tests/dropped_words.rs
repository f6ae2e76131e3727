//! No word of a statement is read and dropped.
//!
//! The parser takes some words and leaves no trace of them in its syntax tree. What they ask for
//! would not be done, and nobody would be told. Each of some words is put at each place of some
//! statements; what still parses must be another statement.

use datafusion::sql::sqlparser::keywords::ALL_KEYWORDS;
use swingdb_sql::text::parser::parse;
use swingdb_sql::text::statement::Parsed;

/// Statements with as many clauses as go into one, their words and signs separated by spaces.
const STATEMENTS: &str = include_str!("dropped_words/statements.txt");

/// Keywords that the parser has been seen to drop, clauses that it may take for nothing, and signs.
const WORDS: &str = include_str!("dropped_words/words.txt");

/// Words that say nothing, with the first word of their statements, and why.
const NOISE: &[(&str, &str)] = &[
    // A list may end with a comma.
    ("", ","),
    // INT SIGNED is INT.
    ("", "SIGNED"),
    // DECIMAL(3, +1); a[1:2:] is a slice whose step is left out.
    ("SELECT", "+"),
    ("SELECT", ":"),
    // ASOF LEFT OUTER JOIN is ASOF LEFT JOIN.
    ("SELECT * FROM t ASOF LEFT JOIN", "OUTER"),
    // A query of WITH is computed once where that is cheaper.
    ("WITH", "MATERIALIZED"),
    ("ALTER", "COLUMN"),
    // Written twice, before COLUMN and behind it.
    ("ALTER", "IF NOT EXISTS"),
    // Settings are the session's anyway.
    ("SET", "SESSION"),
    ("COMMIT", "TRAN"),
    ("COMMIT", "TRANSACTION"),
    ("COMMIT", "WORK"),
    ("COMMIT", "AND NO CHAIN"),
    ("ROLLBACK", "TRAN"),
    ("ROLLBACK", "TRANSACTION"),
    ("ROLLBACK", "WORK"),
    ("ROLLBACK", "AND NO CHAIN"),
    // Neither does anything.
    ("VACUUM", "ANALYZE"),
    // Before options, and between an option and its value.
    ("COPY", "WITH"),
    ("COPY", "="),
    ("EXPORT", "WITH"),
    ("EXPORT", "="),
];

fn parsed(sql: &str) -> Option<Parsed> {
    let mut statements = parse(sql).ok()?;
    (statements.len() == 1).then(|| statements.pop_front()).flatten()
}

fn are_equal(one: &Parsed, other: &Parsed) -> bool {
    match (one, other) {
        (Parsed::Sql(one), Parsed::Sql(other)) => one == other,
        (Parsed::Explain(one), Parsed::Explain(other)) => one == other,
        (Parsed::Copy(one), Parsed::Copy(other)) => one == other,
        (Parsed::External(one), Parsed::External(other)) => one == other,
        (Parsed::Reset(one), Parsed::Reset(other)) => one == other,
        (Parsed::Own(one), Parsed::Own(other)) => one == other,
        _ => false,
    }
}

fn is_noise(sql: &str, word: &str) -> bool {
    NOISE.iter().any(|(first, noise)| *noise == word && sql.starts_with(first))
}

/// Where one of some words may be put into the statements without making others of them.
fn dropped(words: &[&str]) -> Vec<String> {
    let mut dropped = Vec::new();
    for sql in STATEMENTS.lines() {
        let before = parsed(sql).unwrap_or_else(|| panic!("{sql}: {:?}", parse(sql)));
        let parts: Vec<&str> = sql.split(' ').collect();
        for at in 0..=parts.len() {
            let (left, right) = parts.split_at(at);
            let (left, right) = (left.join(" "), right.join(" "));
            for word in words.iter().filter(|word| !is_noise(sql, word)) {
                let after = parsed(&format!("{left} {word} {right}"));
                if after.is_some_and(|after| are_equal(&before, &after)) {
                    dropped.push(format!("{left} >>> {word} <<< {right}"));
                }
            }
        }
    }
    dropped
}

#[test]
fn no_word_is_read_and_dropped() {
    let dropped = dropped(&WORDS.lines().collect::<Vec<_>>());
    assert!(dropped.is_empty(), "{} are dropped:\n{}", dropped.len(), dropped.join("\n"));
}

/// Takes minutes: for a new version of the parser.
#[test]
#[ignore = "takes minutes; run it with a new version of the parser"]
fn no_keyword_is_read_and_dropped() {
    let dropped = dropped(ALL_KEYWORDS);
    assert!(dropped.is_empty(), "{} are dropped:\n{}", dropped.len(), dropped.join("\n"));
}
