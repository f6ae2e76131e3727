//! `ASOF JOIN`, which the parser knows from another database only, with another syntax.
//!
//! `a ASOF JOIN b ON ...` is read as `a GLOBAL JOIN b ON ...`, a word of yet another database that
//! the parser keeps and nobody here uses. From then on that mark is the function around the
//! condition, of which [`crate::sql::asof`] makes the join.

use std::fmt::Display;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Join, JoinConstraint, JoinOperator, Select, TableFactor, TableWithJoins,
    VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer, Word};
use swingdb_common::error::{Error, Result};

use crate::sql::analyze::asof::MARK;
use crate::sql::ast::build;
use crate::sql::ast::walk::walk_mut;
use crate::sql::bind::identifiers::constraint_mut;
use crate::sql::desugar::{call, only_argument};
use crate::sql::text::dialect::DIALECT;
use crate::sql::text::tokens::Pass;

const READ: &str = "GLOBAL";
const WRITTEN: &str = "ASOF";

/// Puts GLOBAL for ASOF. A GLOBAL that is written is a name: `FROM t global JOIN s`.
pub(crate) fn rewrite_tokens(pass: &mut Pass) {
    quote(pass, READ);
    // The other syntax is the parser's, and then refused.
    if !(0..pass.len()).any(|word| pass.is_word(word, "match_condition")) {
        rename(pass, WRITTEN, READ);
    }
}

/// The text of a query or expression with ASOF JOIN as it is written.
pub(crate) fn written<T: Display + VisitMut + Clone>(tree: &T) -> String {
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

fn rename(pass: &mut Pass, from: &str, to: &str) {
    for word in before_joins(pass, from) {
        pass.replace(word, 1, vec![Token::make_keyword(to)]);
    }
}

/// Quotes a word before a JOIN.
fn quote(pass: &mut Pass, word: &str) {
    for at in before_joins(pass, word) {
        let Some(Token::Word(written)) = pass.token(at).cloned() else { continue };
        let keyword = Keyword::NoKeyword;
        let name = Word { quote_style: Some('"'), keyword, ..written };
        pass.replace(at, 1, vec![Token::Word(name)]);
    }
}

/// Where a word stands before a JOIN, and is no name behind AS.
fn before_joins(pass: &Pass, word: &str) -> Vec<usize> {
    const KINDS: [&str; 7] = ["join", "left", "inner", "right", "full", "semi", "anti"];
    let is = |at: &usize| {
        pass.is_word(*at, word)
            && !pass.is_word(at - 1, "as")
            && KINDS.iter().any(|kind| pass.is_word(at + 1, kind))
    };
    (1..pass.len()).filter(is).collect()
}

/// Whether this is an ASOF JOIN whose condition is not marked yet.
pub(crate) fn is_open(join: &Join) -> bool {
    join.global
}

/// Marks the conditions of a chain of joins; USING is left to who knows the columns.
pub(crate) fn mark(from: &mut TableWithJoins) -> Result<()> {
    use JoinOperator as J;
    for join in from.joins.iter_mut().filter(|join| is_open(join)) {
        if !matches!(join.join_operator, J::Join(_) | J::Inner(_) | J::Left(_) | J::LeftOuter(_)) {
            return Err(Error::unsupported(
                "ASOF JOIN of this kind; write ASOF JOIN or ASOF LEFT JOIN, with the sides \
                 exchanged perhaps",
            ));
        }
        match constraint_mut(&mut join.join_operator) {
            Some(JoinConstraint::Using(_)) => {}
            Some(JoinConstraint::On(condition)) => {
                *condition = marked(condition.clone());
                close(join);
            }
            _ => {
                return Err(Error::plan(
                    "ASOF JOIN needs a condition: ON a.k = b.k AND a.t >= b.t, or USING (k, t)",
                ));
            }
        }
    }
    Ok(())
}

/// As [`mark`], of joins in brackets.
pub(crate) fn mark_nested(from: &mut TableWithJoins) -> Result<()> {
    mark(from)?;
    match from.joins.iter().any(is_open) {
        true => Err(Error::unsupported("ASOF JOIN with USING in brackets; write ON")),
        false => Ok(()),
    }
}

/// The condition of `USING (k, t)`: what is said of the last column is `>=`.
pub(crate) fn nearest(mut equal: Vec<Expr>) -> Expr {
    if let Some(Expr::BinaryOp { op, .. }) = equal.last_mut() {
        *op = BinaryOperator::GtEq;
    }
    marked(build::all(equal))
}

/// After the condition has been put for USING.
pub(crate) fn close(join: &mut Join) {
    join.global = false;
}

fn marked(condition: Expr) -> Expr {
    call(MARK, [condition])
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::Statement;

    use crate::execute::statement::{Parsed, parse};
    use crate::sql::desugar::asof::written;
    use crate::sql::desugar::tests::rewritten;

    #[test]
    fn asof_as_it_is_written() {
        let parsed = |sql: &str| match parse(sql).unwrap().pop_front() {
            Some(Parsed::Sql(statement)) => *statement,
            other => panic!("{other:?}"),
        };
        let text = "SELECT 'ASOF JOIN' FROM (a ASOF JOIN b ON a.t < b.t) ASOF LEFT JOIN c \
                    ON a.k = c.k AND a.t >= c.t";
        let mut statement = parsed(text);
        crate::sql::desugar::rewrite(None, &mut statement).unwrap();
        let marked = "SELECT 'ASOF JOIN' FROM (a JOIN b ON asof_join(a.t < b.t)) LEFT JOIN c \
                      ON asof_join(a.k = c.k AND a.t >= c.t)";
        assert_eq!(statement.to_string(), marked);
        let Statement::Query(query) = statement else { panic!("{statement}") };
        assert_eq!(written(query.as_ref()), text);
        assert!(rewritten("SELECT 1 FROM a GLOBAL FULL JOIN b ON a.t < b.t").is_err());
    }
}
