//! The statements about macros, of which the parser knows only the simplest.

use datafusion::sql::parser::DFParser;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use swingdb_common::error::Result;
use swingdb_store::MacroKind;

use crate::text::statement::{Body, CreateMacro, DropMacro, Own, Parameter, Variant};
use crate::text::words::{Creation, creation, forced, next_word, parser_error};

/// The statement that comes next, if it is one about macros.
pub(crate) fn parse(parser: &mut DFParser<'_>) -> Result<Option<Own>> {
    const KINDS: [&str; 2] = ["macro", "function"];
    let is_macro = |parser: &DFParser<'_>, ahead: usize| {
        KINDS.iter().any(|kind| next_word(parser, ahead, kind))
    };
    if let Some(creation) = creation(parser, &KINDS) {
        let create = create(&mut parser.parser, creation).map_err(parser_error)?;
        return Ok(Some(Own::CreateMacro(Box::new(create))));
    }
    if let Some(or_replace) = forced(parser, &KINDS, 1) {
        let creation = Creation { or_replace, temporary: false };
        let create = create(&mut parser.parser, creation).map_err(parser_error)?;
        return Ok(Some(Own::CreateMacro(Box::new(CreateMacro { force: true, ..create }))));
    }
    if next_word(parser, 0, "drop") && is_macro(parser, 1) {
        (0..2).for_each(|_| parser.parser.advance_token());
        return Ok(Some(Own::DropMacro(drop(&mut parser.parser).map_err(parser_error)?)));
    } else if next_word(parser, 0, "show") {
        if next_word(parser, 1, "macros") {
            (0..2).for_each(|_| parser.parser.advance_token());
            return Ok(Some(Own::ShowMacros));
        }
        if next_word(parser, 1, "create") && is_macro(parser, 2) {
            (0..3).for_each(|_| parser.parser.advance_token());
            let name = parser.parser.parse_object_name(false).map_err(parser_error)?;
            return Ok(Some(Own::ShowCreateMacro { name }));
        }
    }
    Ok(None)
}

fn create(parser: &mut Parser<'_>, creation: Creation) -> Result<CreateMacro, ParserError> {
    let Creation { or_replace, temporary } = creation;
    let if_not_exists = parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
    let name = parser.parse_object_name(false)?;
    let variants = parser.parse_comma_separated(variant)?;
    Ok(CreateMacro { or_replace, if_not_exists, temporary, force: false, name, variants })
}

fn variant(parser: &mut Parser<'_>) -> Result<Variant, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let parameters = parser.parse_comma_separated0(parameter, Token::RParen)?;
    parser.expect_token(&Token::RParen)?;
    parser.expect_keyword_is(Keyword::AS)?;
    let body = match parser.parse_keyword(Keyword::TABLE) {
        true => Body::Query(parser.parse_query()?),
        false => Body::Expr(Box::new(parser.parse_expr()?)),
    };
    Ok(Variant { parameters, body })
}

fn parameter(parser: &mut Parser<'_>) -> Result<Parameter, ParserError> {
    let name = parser.parse_identifier()?;
    let has_default =
        parser.consume_token(&Token::Assignment) || parser.consume_token(&Token::RArrow);
    let default = has_default.then(|| parser.parse_expr()).transpose()?;
    let next = parser.peek_token();
    if !matches!(next.token, Token::Comma | Token::RParen) {
        return parser.expected(
            "a comma, a default (name := value) or a bracket after a parameter, which has no type",
            next,
        );
    }
    Ok(Parameter { name, default })
}

fn drop(parser: &mut Parser<'_>) -> Result<DropMacro, ParserError> {
    let kind = match parser.parse_keyword(Keyword::TABLE) {
        true => MacroKind::Table,
        false => MacroKind::Scalar,
    };
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let names = parser.parse_comma_separated(|p| p.parse_object_name(false))?;
    // Views and tables keep no hold of a macro, so there is nothing that either word could change.
    let _ = parser.parse_one_of_keywords(&[Keyword::CASCADE, Keyword::RESTRICT]);
    Ok(DropMacro { kind, if_exists, names })
}
