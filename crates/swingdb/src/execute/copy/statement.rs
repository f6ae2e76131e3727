//! `COPY`: files into tables, tables and queries into files, in SQL.
//!
//! ```text
//! COPY table [(column, ...)] FROM 'path' [options]
//! COPY table [(column, ...)] TO 'path' [options]
//! COPY (query) TO 'path' [options]
//! options: [WITH] (name [value], ...) | STORED AS format | OPTIONS (name value, ...)
//! value:   'string' | word | number | (a, b) | ['a', 'b'] | {'a': 'b'}
//! ```

use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::sql::parser::CreateExternalTable;
use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, ObjectNamePart, Query, Statement, Value as SqlValue,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use swingdb_common::error::{Error, Result};
pub(crate) use swingdb_files::options::{ExportOptions, ImportOptions, OptionValue};
use swingdb_files::table::file_table_with;
use swingdb_files::write::write;

use crate::execute::copy::export::{Rows, reporting, table_rows};
use crate::execute::copy::import::import;
use crate::execute::statement;
use crate::session::Session;
use crate::session::result::QueryResult;
use crate::sql::text::parameters::Params;

/// Options of a statement may be this many.
const MAX_OPTIONS: usize = 1_000;

/// A COPY statement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CopyStatement {
    pub(crate) what: What,
    pub(crate) path: String,
    options: Vec<(String, OptionValue)>,
}

/// What is copied, and in which direction.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    /// Files into a table's columns (all when none are named).
    From { table: ObjectName, columns: Vec<Ident> },
    /// A query's rows into a file.
    To(Box<Query>),
    /// A table's columns (all when none are named) into a file; the query says the same.
    TableTo { table: ObjectName, columns: Vec<Ident>, query: Box<Query> },
}

impl CopyStatement {
    /// Makes this a statement about a file of an exported database. The names of folders above say
    /// nothing about the rows. That a column's values are not NULL, its table says too; so no field
    /// is empty that DuckDB's `force_not_null` would make an empty text of.
    pub(crate) fn of_export(&mut self) {
        self.options.retain(|(name, _)| !name.eq_ignore_ascii_case("force_not_null"));
        let no = OptionValue::Text("false".to_string());
        self.options.push(("hive_partitioning".to_string(), no));
    }
}

/// Parses a COPY statement; the next token is COPY.
pub(crate) fn parse(parser: &mut Parser<'_>) -> Result<CopyStatement> {
    parse_copy(parser)
        .map_err(|error| datafusion::error::DataFusionError::SQL(Box::new(error), None).into())
}

fn parse_copy(parser: &mut Parser<'_>) -> Result<CopyStatement, ParserError> {
    parser.expect_keyword(Keyword::COPY)?;
    let what = match parser.consume_token(&Token::LParen) {
        true => {
            let query = parser.parse_query()?;
            parser.expect_token(&Token::RParen)?;
            parser.expect_keyword(Keyword::TO)?;
            What::To(query)
        }
        false => {
            let table = parser.parse_object_name(false)?;
            let columns = match parser.consume_token(&Token::LParen) {
                true => {
                    let columns = parser.parse_comma_separated(Parser::parse_identifier)?;
                    parser.expect_token(&Token::RParen)?;
                    columns
                }
                false => Vec::new(),
            };
            match parser.expect_one_of_keywords(&[Keyword::FROM, Keyword::TO])? {
                Keyword::FROM => What::From { table, columns },
                _ => {
                    let query = select(&table, &columns)?;
                    What::TableTo { table, columns, query }
                }
            }
        }
    };
    let next = parser.next_token();
    let Token::SingleQuotedString(path) = next.token else {
        return parser.expected("a file name in quotes", next);
    };
    let options = parse_options(parser)?;
    Ok(CopyStatement { what, path, options })
}

/// `SELECT columns FROM table`.
fn select(table: &ObjectName, columns: &[Ident]) -> Result<Box<Query>, ParserError> {
    let list = match columns {
        [] => "*".to_string(),
        _ => columns.iter().map(Ident::to_string).collect::<Vec<_>>().join(", "),
    };
    let dialect = datafusion::sql::sqlparser::dialect::GenericDialect {};
    Parser::new(&dialect).try_with_sql(&format!("SELECT {list} FROM {table}"))?.parse_query()
}

/// Parses `[WITH] (name [value], ...)` and its other forms, of which there may be none.
pub(crate) fn parse_options(
    parser: &mut Parser<'_>,
) -> Result<Vec<(String, OptionValue)>, ParserError> {
    let mut options = Vec::new();
    loop {
        if parser.parse_keywords(&[Keyword::STORED, Keyword::AS]) {
            let format = parser.parse_identifier()?.value;
            options.push(("format".to_string(), OptionValue::Text(format)));
            continue;
        }
        let named = parser.parse_keyword(Keyword::WITH) || parser.parse_keyword(Keyword::OPTIONS);
        if !parser.consume_token(&Token::LParen) {
            return match named {
                true => parser.expected_ref("(", parser.peek_token_ref()),
                false => Ok(options),
            };
        }
        while !parser.consume_token(&Token::RParen) {
            options.push(parse_option(parser)?);
            if options.len() > MAX_OPTIONS {
                return Err(ParserError::ParserError(format!("more than {MAX_OPTIONS} options")));
            }
            if !parser.consume_token(&Token::Comma) {
                parser.expect_token(&Token::RParen)?;
                break;
            }
        }
    }
}

fn parse_option(parser: &mut Parser<'_>) -> Result<(String, OptionValue), ParserError> {
    let mut name = parse_word(parser)?;
    // DataFusion's names have a prefix: format.delimiter.
    while parser.consume_token(&Token::Period) {
        name = parse_word(parser)?;
    }
    if let Some((_, last)) = name.rsplit_once('.') {
        name = last.to_string();
    }
    // DuckDB's options may have one.
    let _ = parser.consume_token(&Token::Eq);
    let value = match parser.peek_token().token {
        Token::Comma | Token::RParen => OptionValue::Flag,
        Token::LParen => OptionValue::List(parse_list(parser, &Token::RParen)?),
        Token::LBracket => OptionValue::List(parse_list(parser, &Token::RBracket)?),
        Token::LBrace => OptionValue::Map(parse_map(parser)?),
        _ => parse_scalar(parser)?,
    };
    Ok((name, value))
}

/// A word or a string.
fn parse_word(parser: &mut Parser<'_>) -> Result<String, ParserError> {
    let next = parser.next_token();
    match next.token {
        Token::Word(word) => Ok(word.value),
        Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) => Ok(text),
        _ => parser.expected("a name", next),
    }
}

fn parse_scalar(parser: &mut Parser<'_>) -> Result<OptionValue, ParserError> {
    let next = parser.next_token();
    match next.token {
        Token::Word(word) => Ok(OptionValue::Text(word.value)),
        Token::SingleQuotedString(text)
        | Token::EscapedStringLiteral(text)
        | Token::DoubleQuotedString(text) => Ok(OptionValue::Text(text)),
        Token::Number(number, _) => Ok(OptionValue::Number(number)),
        Token::Minus => match parse_scalar(parser)? {
            OptionValue::Number(number) => Ok(OptionValue::Number(format!("-{number}"))),
            _ => parser.expected("a number", next),
        },
        _ => parser.expected("a value", next),
    }
}

fn parse_text(parser: &mut Parser<'_>) -> Result<String, ParserError> {
    match parse_scalar(parser)? {
        OptionValue::Text(text) | OptionValue::Number(text) => Ok(text),
        _ => parser.expected("a value", parser.peek_token()),
    }
}

fn parse_list(parser: &mut Parser<'_>, end: &Token) -> Result<Vec<String>, ParserError> {
    parser.next_token();
    let mut list = Vec::new();
    while !parser.consume_token(end) {
        list.push(parse_text(parser)?);
        if !parser.consume_token(&Token::Comma) {
            parser.expect_token(end)?;
            break;
        }
    }
    Ok(list)
}

fn parse_map(parser: &mut Parser<'_>) -> Result<Vec<(String, String)>, ParserError> {
    parser.next_token();
    let mut map = Vec::new();
    while !parser.consume_token(&Token::RBrace) {
        let name = parse_text(parser)?;
        parser.expect_token(&Token::Colon)?;
        map.push((name, parse_text(parser)?));
        if !parser.consume_token(&Token::Comma) {
            parser.expect_token(&Token::RBrace)?;
            break;
        }
    }
    Ok(map)
}

/// Runs a COPY statement inside the session's running statement.
pub(crate) fn execute(
    session: &Arc<Session>,
    copy: CopyStatement,
    params: &Params,
) -> Result<QueryResult> {
    let query = match copy.what {
        What::From { table, columns } => {
            let mut options = ImportOptions { must_exist: true, ..ImportOptions::default() };
            for (name, value) in &copy.options {
                options.set(name, value)?;
            }
            options.columns = columns.into_iter().map(|column| column.value).collect();
            let rows = import(session, &copy.path, &table, &options)?.rows;
            return Ok(QueryResult::changed(Some(rows), "COPY"));
        }
        What::TableTo { table, columns, query } => match table_rows(session, &table, &columns)? {
            Some(rows) => return copy_to(session, &copy.path, &copy.options, rows),
            None => query,
        },
        What::To(query) => query,
    };
    let rows = statement::execute_sql(session, Statement::Query(query), params)?;
    copy_to(session, &copy.path, &copy.options, (rows.schema(), Box::new(rows)))
}

fn copy_to(
    session: &Session,
    path: &str,
    given: &[(String, OptionValue)],
    (schema, mut rows): (SchemaRef, Rows),
) -> Result<QueryResult> {
    let mut options = ExportOptions::default();
    for (name, value) in given {
        options.set(name, value)?;
    }
    let path = Path::new(path.strip_prefix("file://").unwrap_or(path));
    let report = write(schema, &mut rows, path, &options, session.zone(), &reporting(session)?)?;
    Ok(QueryResult::changed(Some(report.rows), "COPY"))
}

/// CREATE EXTERNAL TABLE: the files are a table of this session.
pub(crate) fn create_external_table(
    session: &Arc<Session>,
    create: CreateExternalTable,
) -> Result<QueryResult> {
    let mut options = ImportOptions::default();
    if !create.file_type.is_empty() {
        options.set("format", &OptionValue::Text(create.file_type.clone()))?;
    }
    for (name, value) in &create.options {
        let name = name.rsplit_once('.').map_or(name.as_str(), |(_, last)| last);
        options.set(name, &option_value(value)?)?;
    }
    for column in &create.columns {
        let data_type = swingdb_common::types::arrow_types::arrow_type(&column.data_type)?;
        options.types.push((column.name.value.clone(), data_type));
    }
    let [.., ObjectNamePart::Identifier(name)] = &create.name.0[..] else {
        return Err(Error::plan(format!("{} is not the name of a table", create.name)));
    };
    let taken = session.view()?.names().iter().any(|other| other.eq_ignore_ascii_case(&name.value));
    if taken && create.if_not_exists {
        return Ok(QueryResult::changed(None, "CREATE EXTERNAL TABLE"));
    }
    if taken && !create.or_replace {
        let kind = swingdb_common::error::ObjectKind::Table;
        return Err(Error::AlreadyExists { kind, name: name.value.clone() });
    }
    let [location] = &create.locations[..] else {
        return Err(Error::unsupported("several locations; use a pattern such as '/path/*.csv'"));
    };
    let provider = file_table_with(std::slice::from_ref(location), &options)?;
    session.register_provider(&name.value, provider);
    Ok(QueryResult::changed(None, "CREATE EXTERNAL TABLE"))
}

fn option_value(value: &SqlValue) -> Result<OptionValue> {
    match value {
        SqlValue::Number(number, _) => Ok(OptionValue::Number(number.to_string())),
        SqlValue::Boolean(flag) => Ok(OptionValue::Text(flag.to_string())),
        SqlValue::SingleQuotedString(text)
        | SqlValue::DoubleQuotedString(text)
        | SqlValue::EscapedStringLiteral(text) => Ok(OptionValue::Text(text.clone())),
        other => Err(Error::plan(format!("{other} is no value for an option"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;

    fn parsed(sql: &str) -> Result<CopyStatement> {
        let dialect = DuckDbDialect {};
        let mut parser = Parser::new(&dialect).try_with_sql(sql).unwrap();
        let copy = parse(&mut parser)?;
        assert_eq!(parser.peek_token().token, Token::EOF, "{sql}");
        Ok(copy)
    }

    #[test]
    fn both_directions_and_all_kinds_of_options() {
        let text = |text: &str| OptionValue::Text(text.to_string());
        let copy = parsed(
            "COPY s.t (a, \"b c\") FROM 'x.csv' (FORMAT csv, HEADER, DELIMITER ';', SKIP 2, \
             sample_size -1, NULL 'NA', columns {'a': 'INT', b: 'VARCHAR'}, header = false)",
        )
        .unwrap();
        let What::From { table, columns } = &copy.what else { panic!("{copy:?}") };
        assert_eq!((table.to_string().as_str(), columns.len()), ("s.t", 2));
        assert_eq!(copy.options[0], ("FORMAT".to_string(), text("csv")));
        assert_eq!(copy.options[1].1, OptionValue::Flag);
        assert_eq!(copy.options[4].1, OptionValue::Number("-1".into()));
        let OptionValue::Map(map) = &copy.options[6].1 else { panic!() };
        assert_eq!(map[1], ("b".to_string(), "VARCHAR".to_string()));
        assert_eq!(copy.options[7].1, text("false"));

        let copy = parsed("COPY (SELECT 1 AS a) TO 'x.parquet' WITH (compression zstd)").unwrap();
        assert!(matches!(copy.what, What::To(_)));
        let copy = parsed("COPY t TO 'x' STORED AS CSV OPTIONS ('format.delimiter' '|')").unwrap();
        assert_eq!(copy.options[1], ("delimiter".to_string(), text("|")));
        let copy = parsed("copy t (b, a) to 'x.csv'").unwrap();
        let What::TableTo { query, .. } = &copy.what else { panic!() };
        assert_eq!(query.to_string(), "SELECT b, a FROM t");
    }

    #[test]
    fn what_is_no_copy() {
        for sql in [
            "COPY t",
            "COPY t FROM",
            "COPY t FROM x.csv",
            "COPY (SELECT 1) FROM 'x'",
            "COPY t FROM 'x' WITH",
            "COPY t TO 'x' (a b c)",
        ] {
            assert!(matches!(parsed(sql), Err(Error::Parse { .. })), "{sql}");
        }
    }
}
