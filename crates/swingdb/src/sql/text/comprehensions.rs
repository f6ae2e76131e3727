//! `[x * 2 FOR x IN list IF x > 1]`: lists made from others.
//!
//! It becomes `list_transform(list_filter(list, lambda x: x > 1), lambda x: x * 2)` among the
//! tokens, the innermost first.

use std::ops::Range;

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::sql::text::pivot::outer;
use crate::sql::text::tokens::Pass;

/// Puts calls for the lists that are made from others.
pub(crate) fn rewrite(pass: &mut Pass) {
    if !(0..pass.len()).any(|word| pass.keyword(word) == Some(Keyword::FOR)) {
        return;
    }
    for word in (0..pass.len()).rev() {
        if pass.token(word) == Some(&Token::LBracket)
            && let Some((words, tokens)) = made(pass, word)
        {
            pass.splice(words, tokens);
        }
    }
}

fn made(pass: &Pass, open: usize) -> Option<(Range<usize>, Vec<TokenWithSpan>)> {
    let inner = outer(pass, open + 1..pass.len());
    let close = inner.last()? + 1;
    if pass.token(close) != Some(&Token::RBracket) {
        return None;
    }
    let find = |keyword, behind: usize| {
        inner.iter().copied().find(|w| *w > behind && pass.keyword(*w) == Some(keyword))
    };
    let each = find(Keyword::FOR, open)?;
    let source = find(Keyword::IN, each)?;
    let condition = find(Keyword::IF, source);
    let names = each + 1..source;
    let list = source + 1..condition.unwrap_or(close);
    if each == open + 1 || names.is_empty() || list.is_empty() {
        return None;
    }
    let mut tokens = Vec::new();
    let span = pass.with_span(open)?.span;
    let push = |tokens: &mut Vec<TokenWithSpan>, all: &[Token]| {
        tokens.extend(all.iter().cloned().map(|token| TokenWithSpan { token, span }));
    };
    let words = |tokens: &mut Vec<TokenWithSpan>, range: Range<usize>| {
        tokens.extend(range.filter_map(|word| pass.with_span(word)).cloned());
    };
    let call = |name| [Token::make_word(name, None), Token::LParen];
    let lambda = [Token::Comma, Token::make_keyword("LAMBDA")];
    push(&mut tokens, &call("list_transform"));
    if condition.is_some() {
        push(&mut tokens, &call("list_filter"));
    }
    words(&mut tokens, list);
    if let Some(condition) = condition {
        push(&mut tokens, &lambda);
        words(&mut tokens, names.clone());
        push(&mut tokens, &[Token::Colon]);
        words(&mut tokens, condition + 1..close);
        push(&mut tokens, &[Token::RParen]);
    }
    push(&mut tokens, &lambda);
    words(&mut tokens, names);
    push(&mut tokens, &[Token::Colon]);
    words(&mut tokens, open + 1..each);
    push(&mut tokens, &[Token::RParen]);
    Some((open..close + 1, tokens))
}

#[cfg(test)]
mod tests {
    use crate::sql::text::forms::tests::parsed;

    #[test]
    fn calls_of_lambdas() {
        for (given, expected) in [
            ("SELECT [x + 1 FOR x IN l]", "SELECT list_transform(l, lambda x : x + 1)"),
            (
                "SELECT [[y FOR y IN x IF y > 1] FOR x IN f(a, b)][1] FROM t",
                "SELECT list_transform(f(a, b), lambda x : \
                 list_transform(list_filter(x, lambda y : y > 1), lambda y : y))[1] FROM t",
            ),
            ("SELECT [1, 2], l[1:2]", "SELECT [1, 2], l[1:2]"),
        ] {
            assert_eq!(parsed(given), expected);
        }
    }
}
