//! The clauses of PIVOT: `ON s IN ('a' AS first), y USING sum(x) AS total GROUP BY g`.
//!
//! [`pivot`](super::pivot) puts them where the parser reads the columns of its own PIVOT:
//! `PIVOT (PIVOT () FOR (ON ... USING ... GROUP BY ...) IN (ANY))`. There the dialect asks for an
//! expression, which [`ast::pivot`](crate::ast::pivot) describes.

use datafusion::sql::sqlparser::ast::{Expr, Ident};
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::ast::pivot::{Clauses, with_name};
use crate::text::words::is_behind;

/// Words that a clause begins with.
const CLAUSES: [Keyword; 3] = [Keyword::ON, Keyword::USING, Keyword::GROUP];

/// Reads the clauses, if the parser stands before them.
pub(crate) fn parse(parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
    let opens = ["PIVOT", "(", ")", "FOR", "("];
    (begins(parser) && is_behind(parser, &opens)).then(|| clauses(parser).map(Clauses::into_expr))
}

fn begins(parser: &Parser<'_>) -> bool {
    matches!(&parser.peek_token_ref().token, Token::Word(word)
        if word.quote_style.is_none() && CLAUSES.contains(&word.keyword))
}

fn clauses(parser: &mut Parser<'_>) -> Result<Clauses, ParserError> {
    let mut clauses = Clauses::default();
    if parser.parse_keyword(Keyword::ON) {
        clauses.on = list(parser, spread)?;
    }
    if parser.parse_keyword(Keyword::USING) {
        clauses.using = list(parser, aggregate)?;
    }
    if parser.parse_keyword(Keyword::GROUP) {
        parser.expect_keyword(Keyword::BY)?;
        clauses.groups = list(parser, |parser| parser.parse_expr())?;
    }
    Ok(clauses)
}

/// Parts between commas, of which one may stand behind the last part.
fn list(
    parser: &mut Parser<'_>,
    part: impl Fn(&mut Parser<'_>) -> Result<Expr, ParserError>,
) -> Result<Vec<Expr>, ParserError> {
    let mut parts = vec![part(parser)?];
    while parser.consume_token(&Token::Comma) && !ends(parser) {
        parts.push(part(parser)?);
    }
    Ok(parts)
}

fn ends(parser: &Parser<'_>) -> bool {
    parser.peek_token_ref().token == Token::RParen || begins(parser)
}

/// `s` or `s IN ('a', 'b' AS c)`.
fn spread(parser: &mut Parser<'_>) -> Result<Expr, ParserError> {
    match parser.maybe_parse(spread_in)? {
        Some(spread) => Ok(spread),
        None => parser.parse_expr(),
    }
}

/// Values have names, which other lists of values have not.
fn spread_in(parser: &mut Parser<'_>) -> Result<Expr, ParserError> {
    let expr = parser.parse_subexpr(GenericDialect.prec_value(Precedence::Between))?;
    let expr = Box::new(expr);
    parser.expect_keyword(Keyword::IN)?;
    parser.expect_token(&Token::LParen)?;
    let is_query = matches!(&parser.peek_token_ref().token, Token::Word(word)
        if matches!(word.keyword, Keyword::SELECT | Keyword::WITH | Keyword::FROM));
    let spread = match is_query {
        true => Expr::InSubquery { expr, subquery: parser.parse_query()?, negated: false },
        false => Expr::InList { expr, list: list(parser, value)?, negated: false },
    };
    parser.expect_token(&Token::RParen)?;
    match parser.peek_token_ref().token == Token::Comma || ends(parser) {
        true => Ok(spread),
        false => parser.expected_ref("',' or a clause of PIVOT", parser.peek_token_ref()),
    }
}

/// `'b' AS c`.
fn value(parser: &mut Parser<'_>) -> Result<Expr, ParserError> {
    let expr = parser.parse_expr()?;
    let name = if parser.parse_keyword(Keyword::AS) { Some(name(parser)?) } else { None };
    Ok(with_name(expr, name))
}

/// `sum(x) AS total` or `sum(x) total`.
fn aggregate(parser: &mut Parser<'_>) -> Result<Expr, ParserError> {
    let expr = parser.parse_expr()?;
    let is_name = matches!(parser.peek_token_ref().token, Token::Word(_)) && !begins(parser);
    let is_named = parser.parse_keyword(Keyword::AS) || is_name;
    let name = if is_named { Some(name(parser)?) } else { None };
    Ok(with_name(expr, name))
}

fn name(parser: &mut Parser<'_>) -> Result<Ident, ParserError> {
    parser.parse_identifier()
}
