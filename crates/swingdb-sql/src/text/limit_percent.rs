//! `LIMIT 40%` and `LIMIT 40 PERCENT`: the number becomes the argument of a mark, which
//! [`desugar`](crate::desugar::limit_percent) writes out.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Word};

use crate::text::tokens::Pass;

/// The function that stands for a share.
pub(crate) const PERCENT_MARK: &str = "\u{1}percent";

/// Marks the shares of a text.
pub(crate) fn rewrite(pass: &mut Pass) {
    let mut word = 0;
    while word < pass.len() {
        if pass.keyword(word) == Some(Keyword::LIMIT)
            && let Some(number @ Token::Number(..)) = pass.token(word + 1).cloned()
            && is_percent(pass, word + 2)
        {
            let mark = Token::Word(Word {
                value: PERCENT_MARK.to_string(),
                quote_style: Some('"'),
                keyword: Keyword::NoKeyword,
            });
            pass.replace(word + 1, 2, vec![mark, Token::LParen, number, Token::RParen]);
        }
        word += 1;
    }
}

/// Whether the word is a percent sign that nothing comes behind: `LIMIT 7 % 4` is 3 rows.
fn is_percent(pass: &Pass, word: usize) -> bool {
    let ends = match pass.token(word + 1) {
        None | Some(Token::SemiColon | Token::RParen | Token::EOF) => true,
        _ => pass.keyword(word + 1) == Some(Keyword::OFFSET),
    };
    pass.is_word(word, "PERCENT") || ends && pass.token(word) == Some(&Token::Mod)
}
