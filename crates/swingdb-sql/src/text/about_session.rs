//! Statements that other databases have for their sessions and their upkeep, none of which the
//! parser knows as they are meant here: USE, ANALYZE, VACUUM, SET VARIABLE, PRAGMA.

use datafusion::sql::parser::DFParser;
use datafusion::sql::sqlparser::ast::Ident;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use swingdb_common::error::{Error, Result};

use crate::text::dialect::DIALECT;
use crate::text::refused;
use crate::text::statement::{Own, Parsed};
use crate::text::words::{ends, next_word, parser_error};

/// The statement that comes next, if it is one of these.
pub(crate) fn parse(parser: &mut DFParser<'_>) -> Result<Option<Own>> {
    let own = own(parser)?;
    if own.is_some() && !ends(parser, 0) {
        let found = parser.parser.peek_token();
        return Err(parser_error(ParserError::ParserError(format!(
            "Expected: end of statement, found: {}{}",
            found.token, found.span.start
        ))));
    }
    Ok(own)
}

fn own(parser: &mut DFParser<'_>) -> Result<Option<Own>> {
    if next_word(parser, 0, "use") && !ends(parser, 1) {
        parser.parser.advance_token();
        let name = parser.parser.parse_object_name(false).map_err(parser_error)?;
        return Ok(Some(Own::Use { name }));
    }
    let begins = |word: &str| next_word(parser, 0, word);
    if begins("analyze") || begins("vacuum") {
        return tidy(parser).map(Some);
    }
    let (set, reset) = (begins("set"), begins("reset"));
    if (set || reset) && next_word(parser, 1, "variable") {
        (0..2).for_each(|_| parser.parser.advance_token());
        let name = parser.parser.parse_identifier().map_err(parser_error)?;
        if reset {
            return Ok(Some(Own::ResetVariable { name }));
        }
        value(&mut parser.parser, name).map(Some).map_err(parser_error)
    } else {
        Ok(None)
    }
}

fn value(parser: &mut Parser<'_>, name: Ident) -> Result<Own, ParserError> {
    let next = parser.next_token();
    let is_to = matches!(&next.token, Token::Word(word) if word.value.eq_ignore_ascii_case("to"));
    if next.token != Token::Eq && !is_to {
        return parser.expected("= or TO", next);
    }
    Ok(Own::SetVariable { name, value: Box::new(parser.parse_expr()?) })
}

/// `ANALYZE [t [(columns)]]`, `VACUUM [ANALYZE] [t [(columns)]]`.
fn tidy(parser: &mut DFParser<'_>) -> Result<Own> {
    let verb = if next_word(parser, 0, "vacuum") { "VACUUM" } else { "ANALYZE" };
    parser.parser.advance_token();
    if verb == "VACUUM" && next_word(parser, 0, "analyze") {
        parser.parser.advance_token();
    }
    for word in ["full", "freeze", "verbose"] {
        if next_word(parser, 0, word) && (ends(parser, 1) || verb == "VACUUM") {
            let word = word.to_uppercase();
            let hint = "memory of deleted rows is given back by itself";
            return Err(Error::unsupported(format!("{verb} {word}; {hint}")));
        }
    }
    if ends(parser, 0) {
        return Ok(Own::Tidy { verb, table: None, columns: Vec::new() });
    }
    let table = parser.parser.parse_object_name(false).map_err(parser_error)?;
    let columns = match parser.parser.peek_token_ref().token {
        Token::LParen => {
            parser.parser.advance_token();
            let names = parser.parser.parse_comma_separated(Parser::parse_identifier);
            let names = names.map_err(parser_error)?;
            parser.parser.expect_token(&Token::RParen).map_err(parser_error)?;
            names
        }
        _ => Vec::new(),
    };
    Ok(Own::Tidy { verb, table: Some(table), columns })
}

/// PRAGMAs that tell something, each of which is a function too.
const TELLING: [&str; 5] =
    ["database_list", "database_size", "show_tables", "table_info", "version"];

/// `PRAGMA table_info('t')` is `SELECT * FROM pragma_table_info('t')`, and `PRAGMA name = value`
/// sets a setting.
pub(crate) fn pragma(parser: &mut DFParser<'_>) -> Result<Option<Parsed>> {
    if !next_word(parser, 0, "pragma") {
        return Ok(None);
    }
    let name = match parser.parser.peek_nth_token(1).token {
        Token::Word(word) => word.value.to_lowercase(),
        _ => return Ok(None),
    };
    let sets = parser.parser.peek_nth_token(2).token == Token::Eq;
    if !sets && !TELLING.contains(&name.as_str()) {
        return Ok(None);
    }
    let mut words = Vec::new();
    (0..2).for_each(|_| parser.parser.advance_token());
    while !ends(parser, 0) {
        words.push(parser.parser.next_token().token);
    }
    let text = words.iter().map(spelled).collect::<Vec<_>>().join(" ");
    let sql = match (sets, words.as_slice()) {
        (true, _) => format!("SET {name} {text}"),
        (false, []) => format!("SELECT * FROM pragma_{name}()"),
        // DuckDB takes the name without quotes too.
        (false, [Token::LParen, Token::Word(word), Token::RParen]) => {
            format!("SELECT * FROM pragma_{name}('{}')", word.value.replace('\'', "''"))
        }
        (false, _) => format!("SELECT * FROM pragma_{name}{text}"),
    };
    let mut statements = Parser::parse_sql(&DIALECT, &sql).map_err(parser_error)?;
    match (statements.pop(), statements.is_empty()) {
        (Some(statement), true) => Ok(Some(Parsed::Sql(Box::new(statement)))),
        _ => refused::unknown(parser).map_or(Ok(None), Err),
    }
}

fn spelled(token: &Token) -> String {
    match token {
        Token::SingleQuotedString(text) => format!("'{}'", text.replace('\'', "''")),
        other => other.to_string(),
    }
}
