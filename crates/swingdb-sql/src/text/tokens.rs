//! The tokens of a text, looked at and changed word by word: [`Pass`].

use std::ops::Range;

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// The tokens of a text, by the words that count.
pub(crate) struct Pass {
    tokens: Vec<TokenWithSpan>,
    /// Indices of the tokens that are not white space or comments.
    words: Vec<usize>,
}

impl Pass {
    pub(crate) fn new(tokens: Vec<TokenWithSpan>) -> Self {
        let words = significant(&tokens);
        Self { tokens, words }
    }

    pub(crate) fn finish(self) -> Vec<TokenWithSpan> {
        self.tokens
    }

    /// The number of words.
    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// Puts `tokens` before each of the words `at`, which are in ascending order; behind the last
    /// word for a place behind it.
    pub(crate) fn insert_before(&mut self, at: &[usize], tokens: &[Token]) {
        let Some(end) = self.tokens.last().map(|token| token.span) else { return };
        let at = at.iter().map(|word| self.words.get(*word).copied().unwrap_or(self.tokens.len()));
        let at = at.collect::<Vec<_>>();
        let mut at = at.into_iter().peekable();
        if at.peek().is_none() {
            return;
        }
        let given = |span| tokens.iter().cloned().map(move |token| TokenWithSpan { token, span });
        let mut all = Vec::with_capacity(self.tokens.len() + tokens.len());
        for (index, token) in std::mem::take(&mut self.tokens).into_iter().enumerate() {
            if at.next_if_eq(&index).is_some() {
                all.extend(given(token.span));
            }
            all.push(token);
        }
        if at.next().is_some() {
            all.extend(given(end));
        }
        self.words = significant(&all);
        self.tokens = all;
    }

    /// Puts other tokens in the place of some words and what lies between them.
    pub(crate) fn splice(&mut self, words: Range<usize>, tokens: Vec<TokenWithSpan>) {
        let (Some(first), Some(last)) =
            (self.words.get(words.start), words.end.checked_sub(1).and_then(|w| self.words.get(w)))
        else {
            return;
        };
        if first <= last {
            self.tokens.splice(*first..=*last, tokens);
            self.words = significant(&self.tokens);
        }
    }

    pub(crate) fn with_span(&self, word: usize) -> Option<&TokenWithSpan> {
        self.words.get(word).map(|index| &self.tokens[*index])
    }

    pub(crate) fn token(&self, word: usize) -> Option<&Token> {
        self.words.get(word).map(|index| &self.tokens[*index].token)
    }

    /// The keyword at a place; quoted identifiers are none.
    pub(crate) fn keyword(&self, word: usize) -> Option<Keyword> {
        match self.token(word)? {
            Token::Word(w) if w.quote_style.is_none() => Some(w.keyword),
            _ => None,
        }
    }

    pub(crate) fn is_word(&self, word: usize, text: &str) -> bool {
        matches!(self.token(word), Some(Token::Word(w))
            if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(text))
    }

    pub(crate) fn set(&mut self, word: usize, token: Token) {
        let index = self.words[word];
        self.tokens[index].token = token;
    }

    /// Replaces `count` significant tokens from `word` on (and what lies between them).
    pub(crate) fn replace(&mut self, word: usize, count: usize, with: Vec<Token>) {
        let (first, last) = (self.words[word], self.words[word + count - 1]);
        let span = self.tokens[first].span;
        let with: Vec<TokenWithSpan> =
            with.into_iter().map(|token| TokenWithSpan { token, span }).collect();
        self.tokens.splice(first..=last, with);
        self.words = significant(&self.tokens);
    }

    /// The words behind one that are in no brackets, to the end of the query it is in.
    pub(crate) fn words_after(&self, word: usize) -> impl Iterator<Item = usize> {
        self.outside_brackets(word + 1..self.len(), true)
    }

    /// The words before one that are in no brackets, back to where the brackets around it begin.
    pub(crate) fn words_before(&self, word: usize) -> impl Iterator<Item = usize> {
        self.outside_brackets((0..word).rev(), false)
    }

    fn outside_brackets(
        &self,
        words: impl Iterator<Item = usize>,
        forwards: bool,
    ) -> impl Iterator<Item = usize> {
        let mut depth = 0_usize;
        let outside = words.map_while(move |word| {
            let opens = match self.token(word)? {
                Token::LParen | Token::LBracket | Token::LBrace => true,
                Token::RParen | Token::RBracket | Token::RBrace => false,
                Token::SemiColon | Token::VerticalBarRightAngleBracket => return None,
                _ => return Some((depth == 0).then_some(word)),
            };
            depth = if opens == forwards { depth + 1 } else { depth.checked_sub(1)? };
            Some(None)
        });
        outside.flatten()
    }

    pub(crate) fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0usize;
        for word in open..self.words.len() {
            match self.token(word)? {
                Token::LParen => depth += 1,
                Token::RParen => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(word);
                    }
                }
                Token::SemiColon => return None,
                _ => {}
            }
        }
        None
    }

    /// Takes words away.
    pub(crate) fn blank(&mut self, words: &[usize]) {
        for word in words {
            self.set(*word, Token::Whitespace(Whitespace::Space));
        }
        self.words = significant(&self.tokens);
    }

    /// All tokens, and the places of those that are words.
    pub(crate) fn parts(&mut self) -> (&mut [TokenWithSpan], &[usize]) {
        (&mut self.tokens, &self.words)
    }
}

fn significant(tokens: &[TokenWithSpan]) -> Vec<usize> {
    let is_text = |index: &usize| !matches!(tokens[*index].token, Token::Whitespace(_));
    (0..tokens.len()).filter(is_text).collect()
}
