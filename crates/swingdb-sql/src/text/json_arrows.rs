//! `json -> 'key'`, which the SQL parser takes for a lambda: a token that it does not.
//!
//! A lambda is an argument of a function, and what it computes is more than a text or a number. Any
//! other arrow is that of JSON.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Words that brackets follow without being a function's.
const BEFORE_BRACKETS: [Keyword; 16] = [
    Keyword::ALL,
    Keyword::AND,
    Keyword::AS,
    Keyword::BY,
    Keyword::CASE,
    Keyword::ELSE,
    Keyword::FROM,
    Keyword::HAVING,
    Keyword::IN,
    Keyword::JOIN,
    Keyword::NOT,
    Keyword::ON,
    Keyword::OR,
    Keyword::SELECT,
    Keyword::WHEN,
    Keyword::WHERE,
];

/// Marks the arrows of JSON; `words` are the places of the tokens that are no white space.
pub(crate) fn of_json(tokens: &mut [TokenWithSpan], words: &[usize]) {
    for (word, place) in words.iter().enumerate() {
        if tokens[*place].token != Token::Arrow {
            continue;
        }
        let token = |word: usize| words.get(word).map(|place| &tokens[*place].token);
        let behind = match token(word + 1) {
            Some(Token::Minus) => token(word + 2),
            other => other,
        };
        let is_path = matches!(behind, Some(Token::SingleQuotedString(_) | Token::Number(..)));
        if is_path || !in_arguments(word, &token) {
            tokens[*place].token = Token::HashArrow;
        }
    }
}

/// Whether the nearest bracket that is open at a place is that of a function's arguments.
fn in_arguments<'a>(word: usize, token: &impl Fn(usize) -> Option<&'a Token>) -> bool {
    let mut depth = 0usize;
    for before in (0..word).rev() {
        match token(before) {
            Some(Token::RParen) => depth += 1,
            Some(Token::LParen) if depth > 0 => depth -= 1,
            Some(Token::LParen) => {
                let name = before.checked_sub(1).and_then(token);
                return matches!(name, Some(Token::Word(name))
                    if !BEFORE_BRACKETS.contains(&name.keyword));
            }
            Some(Token::SemiColon) => return false,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;
    use crate::text::dialect::DIALECT;

    #[test]
    fn lambdas_and_json() {
        for (sql, json) in [
            ("SELECT a -> 'x' -> 0 -> -1", 3),
            ("SELECT list_transform(l, x -> x + 1)", 0),
            ("SELECT list_transform(l, x -> f(x) + 1), doc -> path", 1),
            ("SELECT upper(doc -> 'x')", 1),
            ("SELECT 1 WHERE (doc -> path) = 1 AND a IN (SELECT doc -> path)", 2),
            ("SELECT filter((l), x -> x)", 0),
        ] {
            let mut tokens = Tokenizer::new(&DIALECT, sql).tokenize_with_location().unwrap();
            let white = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
            let words: Vec<usize> = (0..tokens.len()).filter(|i| !white(&tokens[*i])).collect();
            of_json(&mut tokens, &words);
            let count = |token: &Token| tokens.iter().filter(|t| &t.token == token).count();
            assert_eq!(count(&Token::HashArrow), json, "{sql}");
        }
    }
}
