//! What to write instead of statements of other databases.
//!
//! Some statements parse but are not implemented, and some do not even parse. Each is refused with
//! an error that names an equivalent, or says that the statement is not needed here.

use datafusion::sql::parser::DFParser;
use datafusion::sql::sqlparser::ast::Statement;
use datafusion::sql::sqlparser::tokenizer::Token;
use swingdb_common::error::Error;

/// First word of a statement, and what to do instead.
const HINTS: &[(&str, &str)] = &[
    ("call", "write SELECT * FROM function(...)"),
    ("force checkpoint", "write CHECKPOINT; it waits for no reader"),
    (
        "checkpoint",
        "write CHECKPOINT alone, for the session's own database, or CHECKPOINT TO 'directory'",
    ),
    (
        "create secret",
        "the program swingdb-remote reads s3:// and gs:// with the keys in its environment \
         (AWS_ACCESS_KEY_ID and the like)",
    ),
    ("create trigger", "there are no triggers"),
    ("create type", "write CREATE TYPE name AS ENUM ('a', ...), or AS the type that it stands for"),
    ("export", "write EXPORT DATABASE 'folder', or COPY table TO 'file.parquet'"),
    ("grant", "files of the namespace belong to one user; there are no rights inside"),
    ("import", "write IMPORT DATABASE 'folder', or COPY table FROM 'file'"),
    ("install", "there are no extensions"),
    ("load", "there are no extensions"),
    ("lock", "a statement never waits for readers; BEGIN IMMEDIATE takes the write transaction"),
    ("pivot", "write PIVOT t ON column USING sum(x) GROUP BY others"),
    (
        "pragma",
        "there are table_info, database_size, show_tables and version; write DESCRIBE t, SHOW \
         TABLES, SHOW ALL or SET name = value",
    ),
    ("reindex", "an index is never out of date"),
    ("revoke", "files of the namespace belong to one user; there are no rights inside"),
    ("unpivot", "write UNPIVOT t ON a, b INTO NAME k VALUE v"),
];

/// Table functions of DuckDB's extensions, and what to do instead.
const TABLE_FUNCTIONS: &[(&[&str], &str)] = &[
    (
        &["iceberg_scan"],
        "read the Parquet files of the newest version, whose names a library of the format lists: \
         read_parquet(['a.parquet', ...])",
    ),
    (
        &["postgres_scan", "postgres_query", "mysql_scan", "mysql_query", "sqlite_scan"],
        "let a client of that database write a file or a pipe, and read it: COPY t FROM 'file.csv'",
    ),
    (&["read_xlsx", "st_read"], "save the sheet as CSV, and read that: read_csv('file.csv')"),
];

/// The error for a call of a table function that is not there.
pub(crate) fn no_table_function(name: &str) -> String {
    let folded = name.to_ascii_lowercase();
    let hint = TABLE_FUNCTIONS.iter().find(|(names, _)| names.contains(&&*folded));
    let hint = hint.map(|(_, hint)| format!("; {hint}")).unwrap_or_default();
    format!("there is no table function {name}{hint}")
}

fn hint(words: &str) -> Option<&'static str> {
    let words = words.to_ascii_lowercase();
    let begins = |(first, _): &&(&str, &str)| {
        words.strip_prefix(first).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    };
    HINTS.iter().find(begins).map(|(_, hint)| *hint)
}

/// The error for a statement that nobody runs.
pub fn refused(statement: &Statement) -> Error {
    let text = statement.to_string();
    let words = text.split_whitespace().take(3).collect::<Vec<_>>().join(" ");
    // Words between, as in CREATE OR REPLACE MACRO, say nothing here.
    let plain = text.split_whitespace().take(6);
    let plain = plain.filter(|w| !["OR", "REPLACE", "TEMP", "TEMPORARY"].contains(w));
    Error::unsupported(match hint(&plain.collect::<Vec<_>>().join(" ")) {
        Some(hint) => format!("{words} ...; {hint}"),
        None => format!("{words} ..."),
    })
}

/// The error for a statement whose first word the parser does not know.
pub(crate) fn unknown(parser: &DFParser<'_>) -> Option<Error> {
    let Token::Word(word) = parser.parser.peek_token().token else { return None };
    // What these begin, the parser knows.
    let known = ["analyze", "comment", "create", "grant", "install", "load", "lock", "revoke"];
    if word.quote_style.is_some() || known.iter().any(|k| word.value.eq_ignore_ascii_case(k)) {
        return None;
    }
    let hint = hint(&word.value)?;
    Some(Error::unsupported(format!("{} ...; {hint}", word.value.to_uppercase())))
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;
    use crate::text::dialect::DIALECT;

    fn message(sql: &str) -> String {
        refused(&Parser::parse_sql(&DIALECT, sql).unwrap().remove(0)).to_string()
    }

    #[test]
    fn statements_of_others() {
        assert!(message("CREATE TYPE pair AS (a INT, b INT)").contains("AS ENUM"));
        assert!(message("CREATE SECRET s (TYPE S3)").contains("AWS_ACCESS_KEY_ID"));
        assert!(message("KILL 5").ends_with("KILL 5 ..."));
    }

    #[test]
    fn functions_of_extensions() {
        assert!(no_table_function("Iceberg_Scan").contains("read_parquet(["));
        assert_eq!(no_table_function("nope"), "there is no table function nope");
    }

    #[test]
    fn words_match_as_wholes() {
        assert!(hint("loaded x").is_none());
        assert!(hint("LOAD x").is_some());
        assert!(hint("create types").is_none());
    }
}
