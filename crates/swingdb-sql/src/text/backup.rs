//! The statements about whole databases, none of which the parser knows.

use datafusion::sql::parser::DFParser;
use datafusion::sql::sqlparser::ast::Statement;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use swingdb_common::error::Result;

use crate::text::copy::parse_options;
use crate::text::statement::{ExportDatabase, Own};
use crate::text::words::{forced, next_word, parser_error};

/// The statement that comes next, if it is one about whole databases, or CREATE FORCE VIEW.
pub(crate) fn parse(parser: &mut DFParser<'_>) -> Result<Option<Own>> {
    if next_word(parser, 0, "export") && next_word(parser, 1, "database") {
        (0..2).for_each(|_| parser.parser.advance_token());
        let export = export(&mut parser.parser).map_err(parser_error)?;
        return Ok(Some(Own::ExportDatabase(Box::new(export))));
    }
    if next_word(parser, 0, "import") && next_word(parser, 1, "database") {
        (0..2).for_each(|_| parser.parser.advance_token());
        let folder = folder(&mut parser.parser).map_err(parser_error)?;
        return Ok(Some(Own::ImportDatabase { folder }));
    }
    if let Some(or_replace) = forced(parser, &["view"], 0) {
        let create = parser.parser.parse_create_view(false, or_replace, false, None);
        let statement = Statement::CreateView(create.map_err(parser_error)?);
        return Ok(Some(Own::ForceView(Box::new(statement))));
    }
    Ok(None)
}

fn export(parser: &mut Parser<'_>) -> Result<ExportDatabase, ParserError> {
    let next = parser.peek_token();
    let database = match next.token {
        Token::Word(word) => {
            parser.advance_token();
            parser.expect_keyword_is(Keyword::TO)?;
            Some(word.value)
        }
        _ => None,
    };
    let folder = folder(parser)?;
    Ok(ExportDatabase { database, folder, options: parse_options(parser)? })
}

fn folder(parser: &mut Parser<'_>) -> Result<String, ParserError> {
    let next = parser.next_token();
    match next.token {
        Token::SingleQuotedString(folder) if !folder.is_empty() => Ok(folder),
        _ => parser.expected("the name of a folder in quotes", next),
    }
}
