//! Words and names that the parsers of our own statements look for.

use datafusion::sql::parser::DFParser;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use swingdb_common::error::{Error, Result};

pub(crate) fn unexpected(expected: &str, found: &TokenWithSpan) -> Error {
    Error::Parse {
        message: format!("expected {expected}, found {}", found.token),
        line: Some(found.span.start.line),
        column: Some(found.span.start.column),
    }
}

pub(crate) fn parser_error(error: datafusion::sql::sqlparser::parser::ParserError) -> Error {
    datafusion::error::DataFusionError::SQL(Box::new(error), None).into()
}

/// Whether the token `ahead` of the next one is the word `word`.
pub(crate) fn next_word(parser: &DFParser<'_>, ahead: usize, word: &str) -> bool {
    match parser.parser.peek_nth_token(ahead).token {
        Token::Word(w) => w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word),
        _ => false,
    }
}

/// Whether the parser has just read these words and signs. Words are unquoted.
pub(crate) fn is_behind(parser: &Parser<'_>, words: &[&str]) -> bool {
    let read = (0..=parser.get_current_index()).rev().map(|at| &parser.token_at(at).token);
    let mut read = read.filter(|token| !matches!(token, Token::Whitespace(_)));
    words.iter().rev().all(|wanted| match read.next() {
        Some(Token::Word(word)) => {
            word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted)
        }
        Some(Token::LParen) => *wanted == "(",
        Some(Token::RParen) => *wanted == ")",
        Some(Token::Eq) => *wanted == "=",
        _ => false,
    })
}

/// Whether a CREATE replaces what is there, and whether for the session only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Creation {
    pub(crate) or_replace: bool,
    pub(crate) temporary: bool,
}

/// Goes behind `CREATE [OR REPLACE] [TEMP] kind`, if that comes next.
pub(crate) fn creation(parser: &mut DFParser<'_>, kinds: &[&str]) -> Option<Creation> {
    if !next_word(parser, 0, "create") {
        return None;
    }
    let or_replace = next_word(parser, 1, "or") && next_word(parser, 2, "replace");
    let word = if or_replace { 3 } else { 1 };
    let temporary = next_word(parser, word, "temp") || next_word(parser, word, "temporary");
    let word = word + usize::from(temporary);
    let is_kind = kinds.iter().any(|kind| next_word(parser, word, kind));
    is_kind.then(|| {
        (0..=word).for_each(|_| parser.parser.advance_token());
        Creation { or_replace, temporary }
    })
}

/// Goes to the kind of `CREATE [OR REPLACE] FORCE kind`, or so many words behind it, if that comes
/// next; whether it replaces what is there.
pub(crate) fn forced(parser: &mut DFParser<'_>, kinds: &[&str], behind: usize) -> Option<bool> {
    let or_replace = next_word(parser, 1, "or") && next_word(parser, 2, "replace");
    let word = if or_replace { 3 } else { 1 };
    let is_kind = next_word(parser, 0, "create")
        && next_word(parser, word, "force")
        && kinds.iter().any(|kind| next_word(parser, word + 1, kind));
    is_kind.then(|| {
        (0..=word + behind).for_each(|_| parser.parser.advance_token());
        or_replace
    })
}

pub(crate) fn ends(parser: &DFParser<'_>, ahead: usize) -> bool {
    matches!(parser.parser.peek_nth_token(ahead).token, Token::EOF | Token::SemiColon)
}

/// A name written as a word, quoted or not, or as a string.
pub(crate) fn parse_name(parser: &mut DFParser<'_>) -> Result<String> {
    let next = parser.parser.next_token();
    match next.token {
        Token::Word(word) => Ok(word.value),
        Token::SingleQuotedString(name) => Ok(name),
        _ => Err(unexpected("a name", &next)),
    }
}
