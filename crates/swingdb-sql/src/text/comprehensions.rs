//! `[x * 2 FOR x IN list IF x > 1]`: lists made from others.
//!
//! It becomes `list_transform(list_filter(list, lambda x: x > 1), lambda x: x * 2)` among the
//! tokens, the innermost first. `[x * i FOR x, i IN list IF i > 1]` counts the elements before any
//! is left out: there each becomes a STRUCT that says whether it stays.

use std::ops::Range;

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};

use crate::text::pivot::outer;
use crate::text::tokens::Pass;

/// Fields of the STRUCT for an element: whether it stays, and what is made of it.
const STAYS: &str = "stays";
const VALUE: &str = "value";

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
    let span = pass.with_span(open)?.span;
    let mut made = ListTokens { pass, span, tokens: Vec::new() };
    let value = open + 1..each;
    let counts = names.clone().any(|word| pass.token(word) == Some(&Token::Comma));
    match condition.map(|condition| condition + 1..close) {
        Some(condition) if counts => made.counted(list, names, condition, value),
        condition => {
            made.call("list_transform");
            if condition.is_some() {
                made.call("list_filter");
            }
            made.words(list);
            if let Some(condition) = condition {
                made.lambda(names.clone());
                made.words(condition);
                made.push(&[Token::RParen]);
            }
            made.lambda(names);
            made.words(value);
            made.push(&[Token::RParen]);
        }
    }
    Some((open..close + 1, made.tokens))
}

/// The tokens in place of a list that is made from another.
struct ListTokens<'a> {
    pass: &'a Pass,
    span: Span,
    tokens: Vec<TokenWithSpan>,
}

impl ListTokens<'_> {
    fn push(&mut self, all: &[Token]) {
        let span = self.span;
        self.tokens.extend(all.iter().cloned().map(|token| TokenWithSpan { token, span }));
    }

    fn words(&mut self, range: Range<usize>) {
        let words = range.filter_map(|word| self.pass.with_span(word));
        self.tokens.extend(words.cloned());
    }

    fn call(&mut self, name: &str) {
        self.push(&[Token::make_word(name, None), Token::LParen]);
    }

    fn lambda(&mut self, names: Range<usize>) {
        self.push(&[Token::Comma, Token::make_keyword("LAMBDA")]);
        self.words(names);
        self.push(&[Token::Colon]);
    }

    /// `, lambda each: struct_extract(each, 'name'))`
    fn part(&mut self, name: &str) {
        let each = || Token::make_word("each", None);
        self.push(&[Token::Comma, Token::make_keyword("LAMBDA"), each(), Token::Colon]);
        self.call("struct_extract");
        let name = Token::SingleQuotedString(name.to_string());
        self.push(&[each(), Token::Comma, name, Token::RParen, Token::RParen]);
    }

    fn counted(
        &mut self,
        list: Range<usize>,
        names: Range<usize>,
        condition: Range<usize>,
        value: Range<usize>,
    ) {
        let text = |text: &str| Token::SingleQuotedString(text.to_string());
        self.call("list_transform");
        self.call("list_filter");
        self.call("list_transform");
        self.words(list);
        self.lambda(names);
        self.push(&[Token::LBrace, text(STAYS), Token::Colon]);
        self.words(condition.clone());
        // Nothing is computed for what is left out: it might fail.
        self.push(&[Token::Comma, text(VALUE), Token::Colon]);
        self.push(&["CASE", "WHEN"].map(Token::make_keyword));
        self.words(condition);
        self.push(&[Token::make_keyword("THEN")]);
        self.words(value);
        self.push(&[Token::make_keyword("END"), Token::RBrace, Token::RParen]);
        self.part(STAYS);
        self.part(VALUE);
    }
}

#[cfg(test)]
mod tests {
    use crate::text::forms::tests::parsed;

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
