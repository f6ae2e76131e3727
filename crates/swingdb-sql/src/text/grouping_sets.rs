//! `GROUP BY` of sets in sets, as a call that the parser takes.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Word};

use crate::text::tokens::Pass;

/// Stands for GROUPING SETS inside of others.
pub(crate) const INNER: &str = "grouping_sets";

/// Makes GROUPING SETS in GROUPING SETS a function.
pub(crate) fn rewrite_tokens(pass: &mut Pass) {
    let name = |name: &str| {
        let (value, keyword) = (name.to_string(), Keyword::NoKeyword);
        Token::Word(Word { value, quote_style: None, keyword })
    };
    let (mut outer_end, mut inner_end) = (0_usize, 0_usize);
    let mut word = 0;
    while word + 2 < pass.len() {
        let is_sets = pass.is_word(word, "GROUPING") && pass.is_word(word + 1, "SETS");
        if is_sets && word < outer_end {
            pass.replace(word, 2, vec![name(INNER)]);
            outer_end -= 1;
            let end = pass.closing(word + 1).unwrap_or_default();
            inner_end = end.max(inner_end.saturating_sub(1));
        } else if is_sets && pass.token(word + 2) == Some(&Token::LParen) {
            outer_end = pass.closing(word + 2).unwrap_or_default();
        } else if word < inner_end && is_empty_set(pass, word) {
            pass.replace(word, 1, vec![name("rollup"), Token::LParen]);
            (outer_end, inner_end) = (outer_end + 1, inner_end + 1);
            word += 1;
        }
        word += 1;
    }
}

/// `()` where an element of a list stands.
fn is_empty_set(pass: &Pass, open: usize) -> bool {
    let before = open.checked_sub(1).and_then(|word| pass.token(word));
    pass.token(open) == Some(&Token::LParen)
        && pass.token(open + 1) == Some(&Token::RParen)
        && matches!(before, Some(Token::Comma | Token::LParen))
}
