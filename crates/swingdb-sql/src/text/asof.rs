//! `ASOF JOIN` and `POSITIONAL JOIN`, which the parser knows in other forms.
//!
//! The parser reads `a ASOF JOIN b MATCH_CONDITION (...) ON ...`. Before it runs, `a ASOF JOIN b
//! ON ...` gets the match condition `*`, and that of an `ASOF LEFT JOIN` is `* (+)`. The dialect
//! reads these two, and [`ast::asof`](crate::ast::asof) says what the
//! syntax tree then has. `POSITIONAL JOIN` becomes `GLOBAL CROSS JOIN`: GLOBAL is ClickHouse's
//! word, which nothing else here uses, and [`bind::positional`](crate::bind::positional) reads it.

use std::fmt::Display;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    JoinConstraint, JoinOperator, Select, TableFactor, TableWithJoins, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer, Whitespace, Word};
use swingdb_common::error::{Error, Result};

use crate::ast::asof::{self, Kind};
use crate::ast::build::only_argument;
use crate::ast::walk::walk_mut;
use crate::nodes::asof::MARK;
use crate::text::dialect::{DIALECT, OUTER};
use crate::text::tokens::Pass;

const ASOF: &str = "ASOF";

const MATCH_CONDITION: &str = "MATCH_CONDITION";

const GLOBAL: &str = "GLOBAL";

const POSITIONAL: &str = "POSITIONAL";

/// The word behind GLOBAL for POSITIONAL.
const CROSS: &str = "CROSS";

/// Gives ASOF JOIN a match condition, and puts GLOBAL CROSS for POSITIONAL. A GLOBAL that is
/// written is a name: `FROM t global JOIN s`.
pub(crate) fn rewrite_tokens(pass: &mut Pass) -> Result<()> {
    quote(pass, GLOBAL);
    for word in before_joins(pass, POSITIONAL, &["join"]).into_iter().rev() {
        pass.replace(word, 1, [GLOBAL, CROSS].map(Token::make_keyword).to_vec());
    }
    // From the last one on, so that the places of those before it stay.
    for word in before_joins(pass, ASOF, &KINDS).into_iter().rev() {
        give_match_condition(pass, word)?;
    }
    Ok(())
}

/// Of `ASOF LEFT JOIN b ON ...`, whose first word is at `asof`, makes `ASOF JOIN b MATCH_CONDITION
/// (* (+)) ON ...`.
fn give_match_condition(pass: &mut Pass, asof: usize) -> Result<()> {
    let is = |word: usize, texts: &[&str]| texts.iter().any(|text| pass.is_word(word, text));
    let (kind, words) = match (is(asof + 1, &["left"]), is(asof + 2, &["outer"])) {
        (true, outer) => (Kind::Left, 1 + usize::from(outer)),
        (false, _) => (Kind::Inner, usize::from(is(asof + 1, &["inner"]))),
    };
    let join = asof + 1 + words;
    if is(join, &["right", "full", "semi", "anti", "cross"]) {
        return Err(Error::unsupported(
            "ASOF JOIN of this kind; write ASOF JOIN or ASOF LEFT JOIN, with the sides exchanged \
             perhaps",
        ));
    }
    if !is(join, &["join"]) {
        return Ok(());
    }
    let behind = end_of_relation(pass, join + 1);
    if is(behind, &[MATCH_CONDITION]) {
        return Ok(());
    }
    let outer = if kind == Kind::Left { &OUTER[..] } else { &[] };
    let mut tokens = vec![Token::make_keyword(MATCH_CONDITION), Token::LParen, Token::Mul];
    tokens.extend_from_slice(outer);
    tokens.push(Token::RParen);
    pass.insert_before(&[behind], &tokens);
    if words > 0 {
        pass.replace(asof + 1, words, Vec::new());
    }
    Ok(())
}

/// Words that a relation of a FROM clause ends before.
const ENDS: [&str; 27] = [
    "on",
    "using",
    "match_condition",
    "join",
    "left",
    "right",
    "full",
    "inner",
    "cross",
    "semi",
    "anti",
    "natural",
    "asof",
    "global",
    "where",
    "group",
    "having",
    "qualify",
    "window",
    "order",
    "limit",
    "offset",
    "fetch",
    "union",
    "except",
    "intersect",
    "select",
];

/// The word behind a relation that begins with a word.
fn end_of_relation(pass: &Pass, first: usize) -> usize {
    let mut depth = 0_usize;
    for word in first..pass.len() {
        match pass.token(word) {
            Some(Token::LParen | Token::LBracket | Token::LBrace) => depth += 1,
            Some(Token::RParen | Token::RBracket | Token::RBrace) if depth > 0 => depth -= 1,
            Some(Token::RParen | Token::RBracket | Token::RBrace) => return word,
            Some(Token::Comma | Token::SemiColon) if depth == 0 => return word,
            _ if depth == 0 && ENDS.iter().any(|end| pass.is_word(word, end)) => return word,
            _ => {}
        }
    }
    pass.len()
}

/// The text of a query or expression with ASOF JOIN as it is written.
pub fn written<T: Display + VisitMut + Clone>(tree: &T) -> String {
    let text = tree.to_string();
    if ![MARK, MATCH_CONDITION, GLOBAL].iter().any(|word| text.contains(word)) {
        return text;
    }
    let mut tree = tree.clone();
    // Never breaks, so the result says nothing.
    let _ = walk_mut(&mut tree, &mut Unmark);
    let text = tree.to_string();
    let Ok(tokens) = Tokenizer::new(&DIALECT, &text).tokenize_with_location() else { return text };
    let mut pass = Pass::new(tokens);
    for word in before_joins(&pass, GLOBAL, &["cross"]).into_iter().rev() {
        pass.replace(word, 2, vec![Token::make_keyword(POSITIONAL)]);
    }
    for word in before_joins(&pass, ASOF, &["join"]).into_iter().rev() {
        take_match_condition(&mut pass, word);
    }
    pass.finish().into_iter().map(|token| token.token.to_string()).collect()
}

/// The opposite of [`give_match_condition`].
fn take_match_condition(pass: &mut Pass, asof: usize) {
    let word = end_of_relation(pass, asof + 2);
    let follow = |at: usize, tokens: &[Token]| {
        (at..).zip(tokens).all(|(at, token)| pass.token(at) == Some(token))
    };
    if !pass.is_word(word, MATCH_CONDITION) || !follow(word + 1, &[Token::LParen, Token::Mul]) {
        return;
    }
    let outer = follow(word + 3, &OUTER);
    let words = 4 + if outer { OUTER.len() } else { 0 };
    // With the space before the constraint.
    let Some(constraint) = pass.with_span(word + words).cloned() else { return };
    pass.splice(word..word + words + 1, vec![constraint]);
    if outer {
        let [asof_word, left] = [ASOF, "LEFT"].map(Token::make_keyword);
        pass.replace(asof, 1, vec![asof_word, Token::Whitespace(Whitespace::Space), left]);
    }
}

struct Unmark;

impl Unmark {
    fn joins<'a>(from: impl IntoIterator<Item = &'a mut TableWithJoins>) -> ControlFlow<()> {
        for join in from.into_iter().flat_map(|from| &mut from.joins) {
            let (kind, on) = match &join.join_operator {
                JoinOperator::Join(on) => (Kind::Inner, on),
                JoinOperator::Left(on) => (Kind::Left, on),
                _ => continue,
            };
            if let JoinConstraint::On(condition) = on
                && let Some(inner) = only_argument(condition, MARK)
            {
                join.join_operator = asof::join(kind, JoinConstraint::On(inner.clone()));
            }
        }
        ControlFlow::Continue(())
    }
}

impl VisitorMut for Unmark {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        Self::joins(&mut select.from)
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::NestedJoin { table_with_joins, .. } => {
                Self::joins([table_with_joins.as_mut()])
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Quotes a word before a JOIN.
fn quote(pass: &mut Pass, word: &str) {
    for at in before_joins(pass, word, &KINDS) {
        let Some(Token::Word(written)) = pass.token(at).cloned() else { continue };
        let keyword = Keyword::NoKeyword;
        let name = Word { quote_style: Some('"'), keyword, ..written };
        pass.replace(at, 1, vec![Token::Word(name)]);
    }
}

/// Words that a join begins with.
const KINDS: [&str; 8] = ["join", "left", "inner", "right", "full", "semi", "anti", "cross"];

/// Where a word stands before a JOIN that begins with one of `kinds`, and is no name behind AS.
fn before_joins(pass: &Pass, word: &str, kinds: &[&str]) -> Vec<usize> {
    let is = |at: &usize| {
        pass.is_word(*at, word)
            && !pass.is_word(at - 1, "as")
            && kinds.iter().any(|kind| pass.is_word(at + 1, kind))
    };
    (1..pass.len()).filter(is).collect()
}
