//! CREATE TYPE and DROP TYPE.

use datafusion::sql::parser::DFParser;
use datafusion::sql::sqlparser::ast::DataType;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use swingdb_common::error::Result;

use crate::text::statement::{CreateType, DropType, Named, Own};
use crate::text::words::{Creation, creation, next_word, parser_error};

/// The statement that comes next, if it is one about types.
pub(crate) fn parse(parser: &mut DFParser<'_>) -> Result<Option<Own>> {
    if let Some(creation) = creation(parser, &["type"]) {
        let create = create(&mut parser.parser, creation).map_err(parser_error)?;
        return Ok(Some(Own::CreateType(Box::new(create))));
    }
    if next_word(parser, 0, "drop") && next_word(parser, 1, "type") {
        (0..2).for_each(|_| parser.parser.advance_token());
        return Ok(Some(Own::DropType(drop(&mut parser.parser).map_err(parser_error)?)));
    }
    Ok(None)
}

fn create(parser: &mut Parser<'_>, creation: Creation) -> Result<CreateType, ParserError> {
    let Creation { or_replace, temporary } = creation;
    let if_not_exists = parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
    let name = parser.parse_object_name(false)?;
    parser.expect_keyword_is(Keyword::AS)?;
    let what = what(parser)?;
    Ok(CreateType { or_replace, if_not_exists, temporary, name, what })
}

fn what(parser: &mut Parser<'_>) -> Result<Named, ParserError> {
    let is_enum = matches!(&parser.peek_token().token, Token::Word(word)
        if word.keyword == Keyword::ENUM && word.quote_style.is_none());
    let starts_query = |token: &Token| {
        let queries = [Keyword::SELECT, Keyword::WITH, Keyword::FROM, Keyword::VALUES];
        matches!(token, Token::Word(word) if queries.contains(&word.keyword))
    };
    let bracket = is_enum && parser.peek_nth_token(1).token == Token::LParen;
    if bracket && starts_query(&parser.peek_nth_token(2).token) {
        (0..2).for_each(|_| parser.advance_token());
        let query = parser.parse_query()?;
        parser.expect_token(&Token::RParen)?;
        return Ok(Named::EnumOf(query));
    }
    if bracket && parser.peek_nth_token(2).token == Token::RParen {
        (0..3).for_each(|_| parser.advance_token());
        return Ok(Named::Type(DataType::Enum(Vec::new(), None)));
    }
    parser.parse_data_type().map(Named::Type)
}

fn drop(parser: &mut Parser<'_>) -> Result<DropType, ParserError> {
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let names = parser.parse_comma_separated(|p| p.parse_object_name(false))?;
    // Nothing depends on a name, so both say the same.
    let _ = parser.parse_one_of_keywords(&[Keyword::CASCADE, Keyword::RESTRICT]);
    Ok(DropType { if_exists, names })
}
