//! `COPY`: files into tables, tables and queries into files, as it is written.

use datafusion::sql::sqlparser::ast::{Ident, ObjectName, Query};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use swingdb_common::error::Result;
use swingdb_files::options::OptionValue;

use crate::text::statement::{CopyStatement, What};

/// Options of a statement may be this many.
const MAX_OPTIONS: usize = 1_000;

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
pub(crate) fn select(table: &ObjectName, columns: &[Ident]) -> Result<Box<Query>, ParserError> {
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
    let has_value = parser.consume_token(&Token::Eq);
    let value = match parser.peek_token().token {
        Token::Comma | Token::RParen if !has_value => OptionValue::Flag,
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
        // FORCE_QUOTE *.
        Token::Mul => Ok(OptionValue::Text("*".to_string())),
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

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;
    use swingdb_common::error::Error;

    use super::*;

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
