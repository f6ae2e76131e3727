//! The statements about sequences; the parser knows their options in one order only.

use datafusion::sql::parser::DFParser;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use swingdb_common::error::Result;

use crate::text::statement::{AlterSequence, Change, CreateSequence, DropSequence, Options, Own};
use crate::text::words::{Creation, creation, next_word, parser_error};

/// The statement that comes next, if it is one about sequences.
pub(crate) fn parse(parser: &mut DFParser<'_>) -> Result<Option<Own>> {
    if let Some(creation) = creation(parser, &["sequence"]) {
        let create = create(&mut parser.parser, creation).map_err(parser_error)?;
        return Ok(Some(Own::CreateSequence(Box::new(create))));
    }
    if next_word(parser, 0, "alter") && next_word(parser, 1, "sequence") {
        (0..2).for_each(|_| parser.parser.advance_token());
        return Ok(Some(Own::AlterSequence(alter(&mut parser.parser).map_err(parser_error)?)));
    }
    if next_word(parser, 0, "drop") && next_word(parser, 1, "sequence") {
        (0..2).for_each(|_| parser.parser.advance_token());
        return Ok(Some(Own::DropSequence(drop(&mut parser.parser).map_err(parser_error)?)));
    } else if next_word(parser, 0, "show") && next_word(parser, 1, "sequences") {
        (0..2).for_each(|_| parser.parser.advance_token());
        return Ok(Some(Own::ShowSequences));
    }
    Ok(None)
}

fn create(parser: &mut Parser<'_>, creation: Creation) -> Result<CreateSequence, ParserError> {
    let Creation { or_replace, temporary } = creation;
    let if_not_exists = parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
    let name = parser.parse_object_name(false)?;
    let options = options(parser)?;
    Ok(CreateSequence { or_replace, if_not_exists, temporary, name, options })
}

/// In any order, each at most once.
fn options(parser: &mut Parser<'_>) -> Result<Options, ParserError> {
    const KNOWN: [Keyword; 6] = [
        Keyword::INCREMENT,
        Keyword::MINVALUE,
        Keyword::MAXVALUE,
        Keyword::START,
        Keyword::CYCLE,
        Keyword::NO,
    ];
    let (mut options, mut seen) = (Options::default(), Vec::new());
    while let Some(mut word) = parser.parse_one_of_keywords(&KNOWN) {
        let mut none = false;
        if word == Keyword::NO {
            let of = [Keyword::MINVALUE, Keyword::MAXVALUE, Keyword::CYCLE];
            (word, none) = (parser.expect_one_of_keywords(&of)?, true);
        }
        if seen.contains(&word) {
            return Err(ParserError::ParserError(format!("{word:?} is said twice")));
        }
        seen.push(word);
        match word {
            Keyword::CYCLE => options.cycle = !none,
            _ if none => {}
            Keyword::INCREMENT => {
                let _ = parser.parse_keyword(Keyword::BY);
                options.increment = Some(number(parser)?);
            }
            Keyword::START => {
                let _ = parser.parse_keyword(Keyword::WITH);
                options.start = Some(number(parser)?);
            }
            Keyword::MINVALUE => options.min = Some(number(parser)?),
            _ => options.max = Some(number(parser)?),
        }
    }
    Ok(options)
}

fn alter(parser: &mut Parser<'_>) -> Result<AlterSequence, ParserError> {
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let name = parser.parse_object_name(false)?;
    let mut change = Change::default();
    loop {
        let twice = match parser.peek_token().token {
            Token::EOF | Token::SemiColon if change != Change::default() => {
                return Ok(AlterSequence { if_exists, name, change });
            }
            _ => changed(parser, &mut change)?,
        };
        if twice {
            return Err(ParserError::ParserError("an option is said twice".to_string()));
        }
    }
}

/// Reads one option; whether it was there already.
fn changed(parser: &mut Parser<'_>, change: &mut Change) -> Result<bool, ParserError> {
    const KNOWN: [Keyword; 7] = [
        Keyword::INCREMENT,
        Keyword::MINVALUE,
        Keyword::MAXVALUE,
        Keyword::START,
        Keyword::RESTART,
        Keyword::CYCLE,
        Keyword::NO,
    ];
    Ok(match parser.expect_one_of_keywords(&KNOWN)? {
        Keyword::INCREMENT => {
            let _ = parser.parse_keyword(Keyword::BY);
            change.increment.replace(number(parser)?).is_some()
        }
        Keyword::MINVALUE => change.min.replace(number(parser)?).is_some(),
        Keyword::MAXVALUE => change.max.replace(number(parser)?).is_some(),
        Keyword::START => {
            let _ = parser.parse_keyword(Keyword::WITH);
            change.start.replace(number(parser)?).is_some()
        }
        Keyword::RESTART => {
            let twice = std::mem::replace(&mut change.restart, true);
            let with = parser.parse_keyword(Keyword::WITH);
            let signs = [Token::Minus, Token::Plus];
            let next = parser.peek_token().token;
            match with || matches!(next, Token::Number(..)) || signs.contains(&next) {
                true => change.start.replace(number(parser)?).is_some() || twice,
                false => twice,
            }
        }
        Keyword::CYCLE => change.cycle.replace(true).is_some(),
        _ => {
            parser.expect_keyword_is(Keyword::CYCLE)?;
            change.cycle.replace(false).is_some()
        }
    })
}

fn number(parser: &mut Parser<'_>) -> Result<i64, ParserError> {
    let sign = if parser.consume_token(&Token::Minus) { "-" } else { "" };
    let next = parser.next_token();
    let digits = match &next.token {
        Token::Number(digits, _) => digits.as_str(),
        _ => return parser.expected("a whole number", next),
    };
    match format!("{sign}{digits}").parse() {
        Ok(number) => Ok(number),
        Err(_) => parser.expected("a whole number of 64 bits", next),
    }
}

fn drop(parser: &mut Parser<'_>) -> Result<DropSequence, ParserError> {
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let names = parser.parse_comma_separated(|p| p.parse_object_name(false))?;
    let last = parser.parse_one_of_keywords(&[Keyword::CASCADE, Keyword::RESTRICT]);
    Ok(DropSequence { if_exists, cascade: last == Some(Keyword::CASCADE), names })
}
