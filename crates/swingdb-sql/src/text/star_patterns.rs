//! `SELECT * LIKE 'k%'`: the columns whose names fit a pattern, as in DuckDB.
//!
//! It becomes `COLUMNS(*, lambda name: name LIKE 'k%')` among the tokens, which
//! [`columns`](crate::bind::columns) knows; `* EXCLUDE (a) NOT ILIKE`, `t.* GLOB` and
//! `* SIMILAR TO` likewise. The parser knows `* ILIKE` alone, and the engine passes it over.

use std::ops::Range;

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::text::tokens::Pass;

/// Puts COLUMNS for each star with a pattern.
pub(crate) fn rewrite(pass: &mut Pass) {
    for star in (0..pass.len()).rev() {
        if pass.token(star) == Some(&Token::Mul)
            && let Some((words, tokens)) = rewritten(pass, star)
        {
            pass.splice(words, tokens);
        }
    }
}

fn rewritten(pass: &Pass, star: usize) -> Option<(Range<usize>, Vec<TokenWithSpan>)> {
    let test = behind_exclude(pass, star + 1)?;
    let end = behind_pattern(pass, test)?;
    let mut start = star;
    while let Some(name) = start.checked_sub(2)
        && pass.token(start - 1) == Some(&Token::Period)
        && matches!(pass.token(name), Some(Token::Word(_)))
    {
        start = name;
    }
    // Anywhere else it is the sign of a product.
    let before = start.checked_sub(1)?;
    let is_first = match pass.token(before)? {
        Token::Comma | Token::LParen | Token::RParen => true,
        _ => {
            matches!(pass.keyword(before), Some(Keyword::SELECT | Keyword::DISTINCT | Keyword::ALL))
        }
    };
    if !is_first {
        return None;
    }
    let span = pass.with_span(star)?.span;
    let mut tokens = Vec::new();
    let mut push = |all: &[Token]| {
        tokens.extend(all.iter().cloned().map(|token| TokenWithSpan { token, span }));
    };
    let inside = pass.token(before) == Some(&Token::LParen)
        && before.checked_sub(1).is_some_and(|word| pass.is_word(word, "columns"));
    let name = Token::make_word("name", Some('"'));
    if !inside {
        push(&[Token::make_word("columns", None), Token::LParen]);
    }
    let words = |words: Range<usize>| words.filter_map(|word| pass.with_span(word)).cloned();
    tokens.extend(words(start..test));
    let lambda = [Token::Comma, Token::make_keyword("LAMBDA"), name.clone(), Token::Colon, name];
    tokens.extend(lambda.map(|token| TokenWithSpan { token, span }));
    tokens.extend(words(test..end));
    if !inside {
        tokens.push(TokenWithSpan { token: Token::RParen, span });
    }
    Some((start..end, tokens))
}

/// The word behind `EXCLUDE (a, b)` or `EXCLUDE a`, if it is there.
fn behind_exclude(pass: &Pass, word: usize) -> Option<usize> {
    if !matches!(pass.keyword(word), Some(Keyword::EXCLUDE | Keyword::EXCEPT)) {
        return Some(word);
    }
    match pass.token(word + 1)? {
        Token::LParen => pass.closing(word + 1).map(|close| close + 1),
        Token::Word(_) => Some(word + 2),
        _ => None,
    }
}

/// The word behind `[NOT] LIKE 'pattern' [ESCAPE 'c']`.
fn behind_pattern(pass: &Pass, word: usize) -> Option<usize> {
    let is_text = |word| matches!(pass.token(word), Some(Token::SingleQuotedString(_)));
    let word = word + usize::from(pass.keyword(word) == Some(Keyword::NOT));
    let pattern = match pass.keyword(word) {
        Some(Keyword::LIKE | Keyword::ILIKE) => word + 1,
        Some(Keyword::SIMILAR) if pass.keyword(word + 1) == Some(Keyword::TO) => word + 2,
        _ if pass.is_word(word, "glob") => word + 1,
        _ => return None,
    };
    let escaped = pass.keyword(pattern + 1) == Some(Keyword::ESCAPE) && is_text(pattern + 2);
    is_text(pattern).then_some(if escaped { pattern + 3 } else { pattern + 1 })
}

#[cfg(test)]
mod tests {
    use crate::text::forms::tests::parsed;

    #[test]
    fn patterns_become_conditions() {
        for (given, expected) in [
            ("SELECT * LIKE 'k%'", "SELECT columns(*, lambda \"name\" : \"name\" LIKE 'k%')"),
            (
                "SELECT a, t.* NOT ILIKE 'k' ESCAPE '$' AS x FROM t",
                "SELECT a, columns(t.*, lambda \"name\" : \"name\" NOT ILIKE 'k' ESCAPE '$') \
                 AS x FROM t",
            ),
            (
                "SELECT max(COLUMNS(* EXCLUDE (a) SIMILAR TO 'b'))",
                "SELECT max(COLUMNS(* EXCLUDE (a), lambda \"name\" : \"name\" SIMILAR TO 'b'))",
            ),
            (
                "FROM t SELECT DISTINCT s.t.* GLOB 'k*'",
                "FROM t SELECT DISTINCT columns(s.t.*, lambda \"name\" : glob(\"name\", 'k*'))",
            ),
        ] {
            assert_eq!(parsed(given), expected);
        }
    }

    #[test]
    fn products_stay() {
        for same in ["SELECT 2 * glob, a * b LIKE 'c' FROM t", "SELECT count(*) LIKE 'c' FROM t"] {
            assert_eq!(parsed(same), same);
        }
    }
}
