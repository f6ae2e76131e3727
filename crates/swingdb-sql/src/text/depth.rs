//! How deep a statement may nest, and room on the stack for those that do.
//!
//! The parser makes a tree of `1 + 1 + ...` that is as deep as the text is long, and almost all
//! that follows walks trees by recursion: rewrites, the planner, the optimizer, evaluation, the
//! release of a tree's memory. A thread whose stack overflows ends the process. So:
//!
//! 1. [`room`] bounds the depth of the tree from the tokens alone, before there is a tree. Brackets
//!    that nest too deep are refused here.
//! 2. The text is parsed on a stack of that size ([`with_stack`]).
//! 3. [`settle`] makes the tree flat where its shape has no meaning: `a OR b OR c OR d` becomes
//!    `(a OR b) OR (c OR d)`, and `UNION ALL` alike, so that lists that programs write may be long.
//!    What is deeper than [`MAX_DEPTH`] afterwards is an error.
//!
//! So no tree that leaves the parser is deeper than that. What views, macros and common table
//! expressions make of several such trees is measured as a plan ([`size`](crate::plan::size)).

use std::ops::ControlFlow;
use std::sync::Once;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Query, SetExpr, SetOperator, SetQuantifier, TableFactor, Values,
    VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use swingdb_common::error::{Error, Result};

use crate::ast::build;
use crate::ast::walk::walk_mut;

/// Expressions that may stand inside one another: enough for sums of a thousand terms. A set
/// operation or a subquery counts as several.
const MAX_DEPTH: usize = 1_200;
/// Brackets inside one another.
const MAX_BRACKETS: usize = 256;
/// Expressions that a query counts as: planning one takes more of the stack.
const QUERY_DEPTH: usize = 4;
/// Longest list of AND, OR, UNION and their like whose tree stays as the parser made it.
const MAX_CHAIN: usize = 32;
/// What parsing and releasing take of the stack for each token that may add a level.
const BYTES_PER_LEVEL: usize = 512;
/// What planning takes of the stack for each query inside another, and besides.
const BYTES_PER_QUERY: usize = 160 << 10;
const PLANNING_BYTES: usize = 2 << 20;
/// Most levels that there is a stack for.
const MAX_LEVELS: usize = 2_000_000;
/// A stack with this much left is enough for whatever is within the limits.
pub(crate) const ENOUGH_BYTES: usize = 6 << 20;
/// The stack of a statement where that is not left.
const STACK_BYTES: usize = 32 << 20;

/// What the parser's and the engine's walks leave of the stack before they go on on a new one: much
/// of what they call at each step recurses without looking.
const LEFT_BYTES: usize = 1 << 20;

/// Makes the parser and the engine look early enough whether there is room on the stack.
pub fn leave_room() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        recursive::set_minimum_stack_size(LEFT_BYTES);
        recursive::set_stack_allocation_size(STACK_BYTES);
    });
}

/// Runs `work` where the stack is large enough for trees within the limits.
pub fn with_enough_stack<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(ENOUGH_BYTES, STACK_BYTES, work)
}

/// Runs `work`, which makes trees of up to `levels` levels and may release them.
pub(crate) fn with_stack<T>(levels: usize, work: impl FnOnce() -> T) -> T {
    let bytes = levels.saturating_mul(BYTES_PER_LEVEL) + ENOUGH_BYTES;
    stacker::maybe_grow(bytes, bytes.max(STACK_BYTES), work)
}

/// Runs `work`, which plans a statement: the engine's planner recurses for each query in another.
pub(crate) fn with_planning_stack<T>(queries: usize, work: impl FnOnce() -> T) -> T {
    let bytes = PLANNING_BYTES + queries.saturating_mul(BYTES_PER_QUERY);
    stacker::maybe_grow(bytes, bytes.max(STACK_BYTES), work)
}

/// The most levels that a tree of these tokens can have.
pub(crate) fn room(tokens: &[TokenWithSpan]) -> Result<usize> {
    let mut open = vec![Level::default()];
    let (mut levels, mut most) = (0, 0);
    // `INT[][][]` nests as brackets inside one another do.
    let (mut in_a_row, mut closed) = (0, false);
    // `STRUCT<a STRUCT<...>>`, as types of structs are written by now.
    let (mut angles, mut of_type) = (0_usize, false);
    for token in tokens {
        match &token.token {
            Token::Whitespace(_) => continue,
            Token::Comma => levels -= open.last_mut().map_or(0, Level::next_element),
            Token::SemiColon => {
                open = vec![Level::default()];
                levels = 0;
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                if open.len() > 1 {
                    levels -= open.pop().map_or(0, |level| level.all());
                }
            }
            other => {
                levels += 1;
                most = most.max(levels);
                if let Some(level) = open.last_mut() {
                    level.count(other);
                }
                if matches!(other, Token::LParen | Token::LBracket | Token::LBrace) {
                    open.push(Level::default());
                }
            }
        }
        match token.token {
            Token::LBracket => in_a_row = if closed { in_a_row + 1 } else { 1 },
            Token::RBracket | Token::Number(..) => {}
            _ if open.len() == 1 || !closed => {}
            _ => in_a_row = 0,
        }
        closed = token.token == Token::RBracket;
        match &token.token {
            Token::Lt if of_type => angles += 1,
            Token::Gt => angles = angles.saturating_sub(1),
            Token::ShiftRight => angles = angles.saturating_sub(2),
            Token::SemiColon => angles = 0,
            _ => {}
        }
        of_type = matches!(&token.token, Token::Word(word)
            if matches!(word.keyword, Keyword::STRUCT | Keyword::ARRAY | Keyword::MAP));
        if (open.len() + angles).max(in_a_row) > MAX_BRACKETS {
            return Err(Error::Parse {
                message: format!("brackets inside one another more than {MAX_BRACKETS} deep"),
                line: Some(token.span.start.line),
                column: Some(token.span.start.column),
            });
        }
    }
    if most > MAX_LEVELS {
        return Err(too_deep());
    }
    Ok(most)
}

/// What stands between two brackets, so far.
#[derive(Default)]
struct Level {
    /// Tokens since the last comma.
    element: usize,
    /// UNION and its like, which commas do not end.
    operations: usize,
}

impl Level {
    fn count(&mut self, token: &Token) {
        let operation = matches!(token, Token::Word(word) if matches!(word.keyword,
            Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT | Keyword::MINUS));
        match operation {
            true => self.operations += 1,
            false => self.element += 1,
        }
    }

    fn next_element(&mut self) -> usize {
        std::mem::take(&mut self.element)
    }

    fn all(&self) -> usize {
        self.element + self.operations
    }
}

/// Makes a tree flat where its shape has no meaning; the error of one that is too deep.
pub(crate) fn settle<T: VisitMut>(tree: &mut T) -> Result<()> {
    let mut settle = Settle::default();
    // Breaks only with an error, which the walk keeps.
    let _ = walk_mut(tree, &mut settle);
    settle.failed.map_or(Ok(()), Err)
}

fn too_deep() -> Error {
    Error::plan(format!(
        "the statement nests expressions or queries more than {MAX_DEPTH} deep; a long chain of \
         operators does too: split it, or use a list, as in x IN (...), list_sum([...]), \
         concat(...)"
    ))
}

#[derive(Default)]
struct Settle {
    depth: usize,
    /// What the expressions around count as, where that is more than one.
    wide: Vec<usize>,
    queries: Vec<usize>,
    failed: Option<Error>,
}

impl Settle {
    fn enter(&mut self, levels: usize) -> ControlFlow<()> {
        self.depth += levels;
        if self.depth > MAX_DEPTH {
            self.failed = Some(too_deep());
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

/// `a[1][2][3]` is one node of the tree, and three of the plan.
fn accesses(expr: &Expr) -> usize {
    match expr {
        Expr::CompoundFieldAccess { access_chain, .. } => access_chain.len(),
        _ => 0,
    }
}

impl VisitorMut for Settle {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        balance(expr);
        let accesses = accesses(expr);
        if accesses > 0 {
            self.wide.push(accesses);
        }
        self.enter(1 + accesses)
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let accesses = if accesses(expr) > 0 { self.wide.pop().unwrap_or_default() } else { 0 };
        self.depth -= 1 + accesses;
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let levels = QUERY_DEPTH * (1 + settle_operations(&mut query.body));
        self.queries.push(levels);
        self.enter(levels)
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth -= self.queries.pop().unwrap_or_default();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, _factor: &mut TableFactor) -> ControlFlow<()> {
        self.enter(1)
    }

    fn post_visit_table_factor(&mut self, _factor: &mut TableFactor) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}

/// Makes a long list of AND, or of OR, a tree of little depth.
fn balance(expr: &mut Expr) {
    let Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } = expr else {
        return;
    };
    let op = op.clone();
    let is_same = |expr: &Expr| matches!(expr, Expr::BinaryOp { op: inner, .. } if *inner == op);
    let (mut count, mut next) = (1, &*expr);
    while let Expr::BinaryOp { left, .. } = next
        && is_same(next)
    {
        (count, next) = (count + 1, left.as_ref());
    }
    if count <= MAX_CHAIN {
        return;
    }
    let mut operands = Vec::with_capacity(count);
    let mut rest = std::mem::replace(expr, build::null());
    while is_same(&rest) {
        let Expr::BinaryOp { left, right, .. } = rest else { break };
        operands.push(*right);
        rest = *left;
    }
    operands.push(rest);
    operands.reverse();
    let join = |left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: op.clone(),
        right: Box::new(right),
    };
    if let Some(balanced) = pairwise(operands, join) {
        *expr = balanced;
    }
}

/// Joins neighbours until one is left.
fn pairwise<T>(mut all: Vec<T>, join: impl Fn(T, T) -> T) -> Option<T> {
    while all.len() > 1 {
        let mut joined = Vec::with_capacity(all.len().div_ceil(2));
        let mut rest = all.into_iter();
        while let Some(left) = rest.next() {
            joined.push(match rest.next() {
                Some(right) => join(left, right),
                None => left,
            });
        }
        all = joined;
    }
    all.pop()
}

/// An operator between two queries.
type Operation = (SetOperator, SetQuantifier);

/// Makes long lists of one set operation trees of little depth; how deep operations are inside one
/// another then.
fn settle_operations(body: &mut SetExpr) -> usize {
    let (mut count, mut next) = (0, &*body);
    while let SetExpr::SetOperation { left, .. } = next {
        (count, next) = (count + 1, left.as_ref());
    }
    if count == 0 {
        return 0;
    }
    let mut operations: Vec<(Operation, SetExpr)> = Vec::with_capacity(count);
    let mut rest = take(body);
    let mut deepest = 0;
    while let SetExpr::SetOperation { left, op, set_quantifier, right } = rest {
        let mut right = *right;
        deepest = deepest.max(settle_operations(&mut right));
        operations.push(((op, set_quantifier), right));
        rest = *left;
    }
    let mut depth = 0;
    let mut operations = operations.into_iter().rev().peekable();
    while let Some((operation, first)) = operations.next() {
        let mut run = vec![first];
        while let Some((_, more)) = operations.next_if(|(next, _)| *next == operation) {
            run.push(more);
        }
        let short = run.len() <= MAX_CHAIN || !is_associative(operation);
        depth += if short { run.len() } else { run.len().ilog2() as usize + 2 };
        rest = match short {
            true => run.into_iter().fold(rest, |left, right| joined(left, operation, right)),
            false => balanced(rest, operation, run),
        };
    }
    *body = rest;
    depth + deepest
}

fn take(body: &mut SetExpr) -> SetExpr {
    std::mem::replace(body, empty())
}

fn joined(left: SetExpr, (op, set_quantifier): Operation, right: SetExpr) -> SetExpr {
    SetExpr::SetOperation { left: Box::new(left), op, set_quantifier, right: Box::new(right) }
}

/// Whether operands may be put together in any groups. Columns that go by their names may not: the
/// first query that has one says where it stands.
fn is_associative((_, quantifier): Operation) -> bool {
    use SetQuantifier::{All, Distinct, None};
    matches!(quantifier, All | Distinct | None)
}

/// `first` and many more, joined by one operation.
fn balanced(first: SetExpr, operation: Operation, more: Vec<SetExpr>) -> SetExpr {
    let all = (SetOperator::Union, SetQuantifier::All);
    // Written with brackets, as it is meant: it may become the text of a view.
    let pairs = |operation: Operation| move |left, right| joined(left, operation, bracketed(right));
    match operation.0 {
        // Duplicates go once, at the end.
        SetOperator::Union => {
            let mut operands = more;
            let half = operands.split_off(operands.len() / 2);
            operands.insert(0, first);
            let (left, right) = (pairwise(operands, pairs(all)), pairwise(half, pairs(all)));
            put_together(left, operation, right)
        }
        SetOperator::Intersect => {
            let operands = std::iter::once(first).chain(more).collect();
            put_together(pairwise(operands, pairs(operation)), operation, None)
        }
        // What is in none of the others.
        SetOperator::Except | SetOperator::Minus => {
            put_together(Some(first), operation, pairwise(more, pairs(all)))
        }
    }
}

fn put_together(left: Option<SetExpr>, operation: Operation, right: Option<SetExpr>) -> SetExpr {
    match (left, right) {
        (Some(left), Some(right)) => joined(left, operation, bracketed(right)),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => empty(),
    }
}

fn bracketed(body: SetExpr) -> SetExpr {
    match body {
        SetExpr::SetOperation { .. } => SetExpr::Query(Box::new(build::query(body))),
        other => other,
    }
}

fn empty() -> SetExpr {
    SetExpr::Values(Values { explicit_row: false, value_keyword: false, rows: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::parser::parse;

    fn depth_of(text: &str) -> Result<String> {
        parse(text).map(|mut all| match all.pop_front() {
            Some(crate::text::statement::Parsed::Sql(statement)) => statement.to_string(),
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn long_lists_are_flat_and_keep_their_meaning() {
        for operator in [" OR ", " AND "] {
            let text = format!("SELECT {}", vec!["a"; 5_000].join(operator));
            assert_eq!(depth_of(&text).unwrap(), text);
        }
        let text = vec!["SELECT 1"; 40].join(" UNION ");
        let made = depth_of(&text).unwrap();
        assert!(made.starts_with("SELECT 1 UNION ALL SELECT 1 UNION ALL (SELECT 1"), "{made}");
        assert_eq!(made.matches(" UNION (").count(), 1, "{made}");
        let text = vec!["SELECT 1"; 40].join(" EXCEPT ");
        let made = depth_of(&text).unwrap();
        assert!(made.starts_with("SELECT 1 EXCEPT (SELECT 1 UNION ALL"), "{made}");
        // It stays as it is when it is written and read again.
        assert_eq!(depth_of(&made).unwrap(), made);
        let short = "SELECT 1 UNION SELECT 2 UNION ALL SELECT 3 EXCEPT SELECT 4";
        assert_eq!(depth_of(short).unwrap(), short);
    }

    #[test]
    fn what_is_deeper_is_an_error() {
        let many = |part: &str, count: usize| part.repeat(count);
        let chains = [
            format!("SELECT 1{}", many(" + 1", 50_000)),
            format!("SELECT 'a'{}", many(" || 'a'", 50_000)),
            format!("SELECT 1{}", many("::INT", 50_000)),
            format!("SELECT a{} FROM t", many("[1]", 50_000)),
            format!("SELECT 1{}", many(" IS NULL", 50_000)),
            format!("SELECT 1{}", many(" UNION SELECT 1 UNION ALL SELECT 1", 10_000)),
            format!("SELECT {}1", many("- ", 50_000)),
            format!("SELECT {}1", many("NOT ", 50_000)),
            format!("SELECT {}1{}", many("(", 50_000), many(")", 50_000)),
            format!("SELECT CAST(1 AS {}INT{})", many("STRUCT(a ", 50_000), many(")", 50_000)),
            format!("SELECT 1{} FROM", many(" + 1", 50_000)),
        ];
        for chain in chains {
            let error = depth_of(&chain).unwrap_err();
            let told = matches!(error, Error::Plan { .. } | Error::Parse { .. });
            assert!(told, "{error:?}: {}", &chain[..40]);
        }
        assert!(depth_of(&format!("SELECT 1{}", many(" + 1", 900))).is_ok());
    }
}
