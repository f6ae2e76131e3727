//! Types by their SQL names, for options and messages.

use std::any::TypeId;

use arrow::datatypes::DataType;
use datafusion::sql::sqlparser::dialect::{Dialect, DuckDbDialect};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use swingdb_common::error::{Error, Result};
use swingdb_common::types::arrow_types::arrow_type;
use swingdb_common::types::sql_names::sql_name;

/// The SQL name of `data_type`, with the form in which a field has to write it where that is
/// special.
pub(crate) fn described(data_type: &DataType) -> String {
    match data_type {
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => "BLOB (printable characters and \\xHH)".into(),
        nested if nested.is_nested() => format!("{} (as JSON)", sql_name(nested)),
        other => sql_name(other),
    }
}

/// The Arrow type of a SQL type name.
pub(crate) fn parse_type(sql: &str) -> Result<DataType> {
    let unknown = || Error::plan(format!("unknown type {sql:?}"));
    let mut tokens = Tokenizer::new(&Types, sql).tokenize().map_err(|_| unknown())?;
    tokens.retain(|token| !matches!(token, Token::Whitespace(_)));
    bracket_maps(&mut tokens);
    let mut parser = Parser::new(&Types).with_tokens(tokens);
    let parsed = parser.parse_data_type().map_err(|_| unknown())?;
    match parser.peek_token_ref().token {
        Token::EOF => arrow_type(&parsed),
        _ => Err(unknown()),
    }
}

/// `MAP(K, V)` as `MAP<K, V>`: the dialect that reads `STRUCT(a INT)` has no other MAP.
fn bracket_maps(tokens: &mut [Token]) {
    // For each bracket that is open, whether it is that of a MAP.
    let mut open = Vec::new();
    let mut is_behind_map = false;
    for token in tokens {
        let is_map = matches!(token, Token::Word(word) if word.keyword == Keyword::MAP);
        match token {
            Token::LParen => {
                open.push(is_behind_map);
                if is_behind_map {
                    *token = Token::Lt;
                }
            }
            Token::RParen if open.pop() == Some(true) => *token = Token::Gt,
            _ => {}
        }
        is_behind_map = is_map;
    }
}

/// The dialect of types: DuckDB's, with maps in angle brackets.
#[derive(Debug)]
struct Types;

impl Dialect for Types {
    fn dialect(&self) -> TypeId {
        TypeId::of::<DuckDbDialect>()
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        DuckDbDialect {}.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        DuckDbDialect {}.is_identifier_part(ch)
    }

    fn supports_array_typedef_with_brackets(&self) -> bool {
        true
    }

    fn supports_map_literal_with_angle_brackets(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_and_what_is_in_them() {
        let shown = |sql: &str| parse_type(sql).map(|found| sql_name(&found));
        for (sql, name) in [
            ("MAP(VARCHAR, INTEGER)", "MAP(VARCHAR, INTEGER)"),
            ("map(date, DECIMAL(10, 2))[]", "MAP(DATE, DECIMAL(10,2))[]"),
            (
                "MAP(INT, MAP(INT, STRUCT(a INT)))",
                "MAP(INTEGER, MAP(INTEGER, STRUCT(\"a\" INTEGER)))",
            ),
            ("STRUCT(m MAP(VARCHAR, BIGINT[]))", "STRUCT(\"m\" MAP(VARCHAR, BIGINT[]))"),
            ("INTEGER", "INTEGER"),
        ] {
            assert_eq!(shown(sql).unwrap(), name, "{sql}");
        }
        for wrong in ["MAP", "MAP(INT)", "INTEGER)", "INTEGER x", "nothing"] {
            assert!(shown(wrong).is_err(), "{wrong}");
        }
    }
}
