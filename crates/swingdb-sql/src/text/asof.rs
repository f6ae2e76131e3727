//! `ASOF JOIN` and `POSITIONAL JOIN`, rewritten into kinds of joins that the parser knows.
//!
//! The parser knows neither. Before it runs, `ASOF JOIN` becomes `GLOBAL JOIN`, and `POSITIONAL
//! JOIN` becomes `GLOBAL CROSS JOIN`: ClickHouse's word, which nothing else here uses. Later passes
//! read the mark ([`desugar::asof`](crate::desugar::asof),
//! [`bind::positional`](crate::bind::positional)).

use std::fmt::Display;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    JoinConstraint, Select, TableFactor, TableWithJoins, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer, Word};

use crate::ast::build::only_argument;
use crate::ast::names::constraint_mut;
use crate::ast::walk::walk_mut;
use crate::nodes::asof::MARK;
use crate::text::dialect::DIALECT;
use crate::text::tokens::Pass;

const READ: &str = "GLOBAL";

const WRITTEN: &str = "ASOF";

const POSITIONAL: &str = "POSITIONAL";

/// The word behind GLOBAL for POSITIONAL.
const CROSS: &str = "CROSS";

/// Puts GLOBAL for ASOF, and GLOBAL CROSS for POSITIONAL. A GLOBAL that is written is a name: `FROM
/// t global JOIN s`.
pub(crate) fn rewrite_tokens(pass: &mut Pass) {
    quote(pass, READ);
    for word in before_joins(pass, POSITIONAL, &["join"]).into_iter().rev() {
        pass.replace(word, 1, [READ, CROSS].map(Token::make_keyword).to_vec());
    }
    // The other syntax is the parser's, and then refused.
    if !(0..pass.len()).any(|word| pass.is_word(word, "match_condition")) {
        rename(pass, WRITTEN, READ);
    }
}

/// The text of a query or expression with ASOF JOIN as it is written.
pub fn written<T: Display + VisitMut + Clone>(tree: &T) -> String {
    let text = tree.to_string();
    if !text.contains(MARK) && !text.contains(READ) {
        return text;
    }
    let mut tree = tree.clone();
    // Never breaks, so the result says nothing.
    let _ = walk_mut(&mut tree, &mut Unmark);
    let text = tree.to_string();
    let Ok(tokens) = Tokenizer::new(&DIALECT, &text).tokenize_with_location() else { return text };
    let mut pass = Pass::new(tokens);
    for word in before_joins(&pass, READ, &["cross"]).into_iter().rev() {
        pass.replace(word, 2, vec![Token::make_keyword(POSITIONAL)]);
    }
    rename(&mut pass, READ, WRITTEN);
    pass.finish().into_iter().map(|token| token.token.to_string()).collect()
}

struct Unmark;

impl Unmark {
    fn joins<'a>(from: impl IntoIterator<Item = &'a mut TableWithJoins>) -> ControlFlow<()> {
        for join in from.into_iter().flat_map(|from| &mut from.joins) {
            if let Some(JoinConstraint::On(condition)) = constraint_mut(&mut join.join_operator)
                && let Some(inner) = only_argument(condition, MARK)
            {
                *condition = inner.clone();
                join.global = true;
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

pub(crate) fn rename(pass: &mut Pass, from: &str, to: &str) {
    for word in before_joins(pass, from, &KINDS) {
        pass.replace(word, 1, vec![Token::make_keyword(to)]);
    }
}

/// Quotes a word before a JOIN.
pub(crate) fn quote(pass: &mut Pass, word: &str) {
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
