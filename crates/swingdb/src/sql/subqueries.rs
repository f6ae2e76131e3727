//! Subqueries the query engine cannot plan, rewritten into ones it can.
//!
//! The engine wants a correlated scalar subquery to be an aggregate, and IN and EXISTS to stand in
//! a WHERE clause. People write more, above all `UPDATE t SET v = (SELECT s.v FROM s WHERE s.id =
//! t.id)`. So, when a plan holds such a subquery ([`needs_rewrite`]), the statement is planned
//! again from a syntax tree in which ([`rewrite`])
//!
//! | this | is |
//! |---|---|
//! | `(SELECT e FROM ... WHERE ...)` | `only_element((SELECT array_agg(e) FROM ... WHERE ...))` |
//! | `(SELECT e FROM ... ORDER BY o LIMIT 1)` | `(SELECT first_value(e ORDER BY o) FROM ...)` |
//! | `EXISTS (SELECT ... FROM ...)` in a SELECT list | `(SELECT count(*) FROM ...) > 0` |
//! | `x IN (SELECT e FROM ...)` in a SELECT list | counts of `e = x`, of rows, of NULLs, combined |
//! | `... OR x NOT IN (SELECT e FROM ...)` | the same: the engine would take "unknown" for true |
//!
//! [`only_element`](OnlyElement) is an error when the list has more than one element, and is asked
//! only for rows whose value is needed, so the meaning is SQL's. Subqueries of other shapes (GROUP
//! BY, DISTINCT, UNION ...) are left alone and give the engine's own error.

use std::ops::ControlFlow;

use arrow::array::{Array, AsArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result as DfResult, exec_err, plan_err};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr as PlanExpr, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArgumentList, FunctionArguments, GroupByExpr, Ident, LimitClause, ObjectName,
    OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, Statement, TableFactor,
    UnaryOperator, Value, VisitorMut,
};

use crate::sql::plans::any_part;
use crate::sql::visit::{rewrite_own_exprs, walk_mut};
use crate::sql::write::ast;

/// The name of [`OnlyElement`] in SQL.
const ONLY_ELEMENT: &str = "only_element";

/// Whether a plan holds a subquery that the engine would refuse, or take for something else.
pub(crate) fn needs_rewrite(plan: &LogicalPlan) -> bool {
    is_unsound(plan)
        || any_expr(plan, |node, expr| match expr {
            PlanExpr::ScalarSubquery(subquery) => {
                !subquery.outer_ref_columns.is_empty() && !is_single_row(&subquery.subquery)
            }
            PlanExpr::InSubquery(_) | PlanExpr::Exists(_) => {
                !matches!(node, LogicalPlan::Filter(_))
            }
            _ => false,
        })
}

/// Whether a condition holds a NOT IN below an OR or the like. The engine makes a two-valued mark
/// of it, and so takes "unknown", because of a NULL, for true.
pub(crate) fn is_unsound(plan: &LogicalPlan) -> bool {
    any_expr(plan, |node, expr| match (node, expr) {
        (LogicalPlan::Filter(filter), whole) if *whole == filter.predicate => {
            split_conjunction(whole).into_iter().any(|part| !is_plain(part) && holds_not_in(part))
        }
        _ => false,
    })
}

/// `x IN (...)` or `x NOT IN (...)` alone, which the engine joins as SQL wants it.
fn is_plain(condition: &PlanExpr) -> bool {
    match condition {
        PlanExpr::InSubquery(_) => true,
        PlanExpr::Not(inner) => matches!(inner.as_ref(), PlanExpr::InSubquery(_)),
        _ => false,
    }
}

/// Whether a membership stands where unknown is not false: anywhere but in conditions of
/// which AND and OR make the whole.
fn holds_not_in(condition: &PlanExpr) -> bool {
    match condition {
        PlanExpr::BinaryExpr(both) if matches!(both.op, Operator::And | Operator::Or) => {
            holds_not_in(&both.left) || holds_not_in(&both.right)
        }
        PlanExpr::InSubquery(membership) => membership.negated,
        other => other.exists(|part| Ok(matches!(part, PlanExpr::InSubquery(_)))).unwrap_or(true),
    }
}

/// Whether `wanted` holds for any expression, or part of one, of any node, subqueries included.
fn any_expr(plan: &LogicalPlan, wanted: impl Fn(&LogicalPlan, &PlanExpr) -> bool) -> bool {
    let mut found = false;
    let walked = plan.apply_with_subqueries(|node| {
        found |= any_part(node, |part| wanted(node, part));
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found && walked.is_ok()
}

fn is_single_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Projection(projection) => is_single_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_single_row(&alias.input),
        LogicalPlan::Filter(filter) => is_single_row(&filter.input),
        // LIMIT 1 is one row too, and the engine plans no correlated LIMIT.
        _ => false,
    }
}

/// Rewrites all subqueries of the shapes listed in the [module documentation](self). `is_aggregate`
/// knows the names of aggregate functions.
pub(crate) fn rewrite(statement: &mut Statement, is_aggregate: &dyn Fn(&str) -> bool) {
    // Never breaks, so the result says nothing.
    let _ = walk_mut(statement, &mut Rewriter { is_aggregate });
}

struct Rewriter<'a> {
    is_aggregate: &'a dyn Fn(&str) -> bool,
}

impl VisitorMut for Rewriter<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Subquery(query) = expr
            && let Some(scalar) = self.scalar(query)
        {
            *expr = scalar;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let only = only_relation(select);
        if let Some(condition) = &mut select.selection {
            self.condition(condition, only.as_ref());
        }
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                rewrite_own_exprs(expr, &mut |expr| {
                    if let Some(counted) = self.predicate(expr, only.as_ref()) {
                        *expr = counted;
                    }
                });
            }
        }
        ControlFlow::Continue(())
    }
}

impl Rewriter<'_> {
    fn scalar(&self, query: &Query) -> Option<Expr> {
        let (select, expr) = self.plain(query)?;
        let mut select = select.clone();
        let order = match query.order_by.as_ref().map(|order| &order.kind) {
            None => Vec::new(),
            Some(OrderByKind::Expressions(order)) => order.clone(),
            Some(OrderByKind::All(_)) => return None,
        };
        let first = match &query.limit_clause {
            None => false,
            Some(limit) if is_one(limit) => true,
            Some(_) => return None,
        };
        let aggregate = if first {
            call("first_value", expr.clone(), order)
        } else {
            call("array_agg", expr.clone(), Vec::new())
        };
        select.projection = vec![SelectItem::UnnamedExpr(aggregate)];
        let subquery = Expr::Subquery(Box::new(bare(query, select)));
        Some(if first { subquery } else { call(ONLY_ELEMENT, subquery, Vec::new()) })
    }

    /// IN below an OR or the like; alone, or as one of several conditions, it stays.
    fn condition(&self, condition: &mut Expr, only: Option<&Ident>) {
        match condition {
            Expr::Nested(inner) => self.condition(inner, only),
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
                self.condition(left, only);
                self.condition(right, only);
            }
            Expr::InSubquery { .. } => {}
            Expr::UnaryOp { op: UnaryOperator::Not, expr } if is_membership(expr) => {}
            other => rewrite_own_exprs(other, &mut |expr| {
                if matches!(expr, Expr::InSubquery { .. })
                    && let Some(counted) = self.predicate(expr, only)
                {
                    *expr = counted;
                }
            }),
        }
    }

    /// `only`: the name of the one relation of the SELECT, which plain names belong to.
    fn predicate(&self, expr: &Expr, only: Option<&Ident>) -> Option<Expr> {
        match expr {
            Expr::Exists { subquery, negated } => {
                let (select, _) = self.any_columns(subquery)?;
                let count = counting(subquery, select, None);
                let op = if *negated { BinaryOperator::Eq } else { BinaryOperator::Gt };
                Some(ast::nested(ast::binary(count, op, ast::integer(0))))
            }
            Expr::InSubquery { expr, subquery, negated } => {
                let (select, element) = self.plain(subquery)?;
                let expr = qualified(expr, only)?;
                let found = match captures(select, &expr) {
                    false => {
                        let equal = ast::binary(element.clone(), BinaryOperator::Eq, expr.clone());
                        counting(subquery, select, Some(equal))
                    }
                    true => counting_apart(subquery, select, element, &expr)?,
                };
                let unknown = Expr::IsNull(Box::new(ast::nested(element.clone())));
                let some = |condition: Option<Expr>| {
                    let count = counting(subquery, select, condition);
                    ast::binary(count, BinaryOperator::Gt, ast::integer(0))
                };
                let null = ast::binary(
                    Expr::IsNull(Box::new(ast::nested(expr))),
                    BinaryOperator::Or,
                    some(Some(unknown)),
                );
                let truth = |value: bool| ast::boolean(value != *negated);
                Some(ast::case(vec![
                    (ast::binary(found, BinaryOperator::Gt, ast::integer(0)), truth(true)),
                    (
                        Expr::Nested(Box::new(is_empty(counting(subquery, select, None)))),
                        truth(false),
                    ),
                    (null, ast::null()),
                    (ast::boolean(true), truth(false)),
                ]))
            }
            _ => None,
        }
    }

    /// A SELECT of one expression that is no aggregate, with nothing but FROM and WHERE.
    fn plain<'q>(&self, query: &'q Query) -> Option<(&'q Select, &'q Expr)> {
        let (select, expr) = self.any_columns(query)?;
        match select.projection.as_slice() {
            [SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }] => {
                expr.map(|expr| (select, expr))
            }
            _ => None,
        }
    }

    /// A SELECT without aggregates, with nothing but FROM and WHERE; and its first expression.
    fn any_columns<'q>(&self, query: &'q Query) -> Option<(&'q Select, Option<&'q Expr>)> {
        let SetExpr::Select(select) = query.body.as_ref() else { return None };
        let grouped = match &select.group_by {
            GroupByExpr::Expressions(exprs, modifiers) => {
                !exprs.is_empty() || !modifiers.is_empty()
            }
            GroupByExpr::All(_) => true,
        };
        let plain = !grouped
            && !select.from.is_empty()
            && select.distinct.is_none()
            && select.having.is_none()
            && select.qualify.is_none()
            && query.fetch.is_none();
        let expr = match select.projection.first()? {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
            _ => None,
        };
        let aggregated = expr.is_some_and(|expr| self.aggregates(expr));
        (plain && !aggregated).then_some((select.as_ref(), expr))
    }

    fn aggregates(&self, expr: &Expr) -> bool {
        let mut found = false;
        ast::rewrite_exprs(&mut expr.clone(), |expr| {
            if let Expr::Function(function) = expr {
                let name = function.name.to_string().to_lowercase();
                found |= function.over.is_some() || (self.is_aggregate)(&name);
            }
        });
        found
    }
}

fn is_membership(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_membership(inner),
        other => matches!(other, Expr::InSubquery { .. }),
    }
}

/// The name of the relation of a SELECT from just one.
fn only_relation(select: &Select) -> Option<Ident> {
    match select.from.as_slice() {
        [from] if from.joins.is_empty() => relation_name(&from.relation).cloned(),
        _ => None,
    }
}

fn relation_name(relation: &TableFactor) -> Option<&Ident> {
    match relation {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. } => Some(&alias.name),
        TableFactor::Table { name, .. } => name.0.last()?.as_ident(),
        _ => None,
    }
}

/// An expression that means the same inside a subquery: every name says what it belongs to.
fn qualified(expr: &Expr, only: Option<&Ident>) -> Option<Expr> {
    let mut moved = expr.clone();
    let mut sound = true;
    ast::rewrite_exprs(&mut moved, |part| match part {
        Expr::Identifier(ident) => match only {
            Some(table) => *part = Expr::CompoundIdentifier(vec![table.clone(), ident.clone()]),
            None => sound = false,
        },
        Expr::Subquery(_) | Expr::InSubquery { .. } | Expr::Exists { .. } => sound = false,
        _ => {}
    });
    sound.then_some(moved)
}

/// Whether names of an expression that is moved into a SELECT would mean a relation of its own
/// there.
fn captures(select: &Select, moved: &Expr) -> bool {
    let factors = select.from.iter().flat_map(|from| {
        std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
    });
    // What has no name here may hold any.
    let inner = factors.map(relation_name).collect::<Option<Vec<&Ident>>>();
    let mut captured = false;
    ast::rewrite_exprs(&mut moved.clone(), |part| {
        if let Expr::CompoundIdentifier(parts) = part {
            let qualifiers = &parts[..parts.len() - 1];
            captured |= inner.as_ref().is_none_or(|names| {
                let meant = |name: &&Ident| {
                    qualifiers.iter().any(|q| q.value.eq_ignore_ascii_case(&name.value))
                };
                names.iter().any(meant)
            });
        }
    });
    captured
}

/// `(SELECT count(*) FROM (SELECT element ...) AS members WHERE members.element = expr)`
fn counting_apart(query: &Query, select: &Select, element: &Expr, expr: &Expr) -> Option<Expr> {
    const MEMBERS: &str = "\u{1}members";
    const ELEMENT: &str = "\u{1}element";
    let mut inner = select.clone();
    inner.projection = vec![ast::item(element.clone(), ELEMENT)];
    let members = Ident::with_quote('"', MEMBERS);
    let derived = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(bare(query, inner)),
        alias: Some(ast::alias(&members)),
        sample: None,
    };
    let count = function("count", FunctionArgExpr::Wildcard, Vec::new());
    let equal = ast::binary(ast::field(&members, ELEMENT), BinaryOperator::Eq, expr.clone());
    let items = vec![SelectItem::UnnamedExpr(count)];
    let query = ast::select(items, vec![ast::from(derived)], Some(equal)).ok()?;
    Some(Expr::Subquery(Box::new(query)))
}

fn is_one(limit: &LimitClause) -> bool {
    let LimitClause::LimitOffset { limit: Some(Expr::Value(value)), offset: None, limit_by } =
        limit
    else {
        return false;
    };
    limit_by.is_empty() && matches!(&value.value, Value::Number(digits, _) if digits == "1")
}

/// `(SELECT count(*) FROM ... WHERE ... AND condition)`
fn counting(query: &Query, select: &Select, condition: Option<Expr>) -> Expr {
    let mut select = select.clone();
    let conditions = select.selection.take().into_iter().chain(condition);
    select.selection = conditions.reduce(|a, b| ast::binary(a, BinaryOperator::And, b));
    let count = function("count", FunctionArgExpr::Wildcard, Vec::new());
    select.projection = vec![SelectItem::UnnamedExpr(count)];
    Expr::Subquery(Box::new(bare(query, select)))
}

fn is_empty(count: Expr) -> Expr {
    ast::binary(count, BinaryOperator::Eq, ast::integer(0))
}

/// The query with another SELECT, and without ORDER BY and LIMIT.
fn bare(query: &Query, select: Select) -> Query {
    let mut bare = query.clone();
    bare.order_by = None;
    bare.limit_clause = None;
    bare.body = Box::new(SetExpr::Select(Box::new(select)));
    bare
}

fn call(name: &str, argument: Expr, order: Vec<OrderByExpr>) -> Expr {
    function(name, FunctionArgExpr::Expr(argument), order)
}

fn function(name: &str, argument: FunctionArgExpr, order: Vec<OrderByExpr>) -> Expr {
    let clauses = match order.is_empty() {
        true => Vec::new(),
        false => vec![FunctionArgumentClause::OrderBy(order)],
    };
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: vec![FunctionArg::Unnamed(argument)],
            clauses,
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// The function to be registered with the engine.
pub(crate) fn only_element() -> ScalarUDF {
    ScalarUDF::from(OnlyElement { signature: Signature::any(1, Volatility::Immutable) })
}

/// `only_element(list)`: the element of a list of one, NULL for none, an error for more.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OnlyElement {
    signature: Signature,
}

impl ScalarUDFImpl for OnlyElement {
    fn name(&self) -> &str {
        ONLY_ELEMENT
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        match types {
            [DataType::List(field)] => Ok(field.data_type().clone()),
            [DataType::Null] => Ok(DataType::Null),
            _ => plan_err!("{ONLY_ELEMENT} takes one list"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let array = match args.args.as_slice() {
            [value] => value.to_array(args.number_rows)?,
            _ => return plan_err!("{ONLY_ELEMENT} takes one list"),
        };
        let Some(lists) = array.as_list_opt::<i32>() else {
            return Ok(ColumnarValue::Array(array));
        };
        let mut elements = Vec::with_capacity(lists.len());
        for row in 0..lists.len() {
            elements.push(match lists.value_length(row) {
                _ if lists.is_null(row) => None,
                0 => None,
                1 => Some(lists.value_offsets()[row] as u32),
                _ => return exec_err!("a subquery used as a value returned more than one row"),
            });
        }
        let elements = UInt32Array::from(elements);
        Ok(ColumnarValue::Array(take(lists.values(), &elements, None)?))
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    fn rewritten(sql: &str) -> String {
        let mut statements = Parser::parse_sql(&GenericDialect {}, sql).unwrap();
        rewrite(&mut statements[0], &|name| name == "max");
        statements[0].to_string()
    }

    #[test]
    fn scalar_subqueries() {
        assert_eq!(
            rewritten("SELECT (SELECT v FROM s WHERE s.id = t.id) FROM t"),
            "SELECT only_element((SELECT array_agg(v) FROM s WHERE s.id = t.id)) FROM t"
        );
        assert_eq!(
            rewritten(
                "SELECT (SELECT v + 1 FROM s WHERE s.id = t.id ORDER BY w DESC LIMIT 1) FROM t"
            ),
            "SELECT (SELECT first_value(v + 1 ORDER BY w DESC) FROM s WHERE s.id = t.id) FROM t"
        );
        for same in
            ["SELECT (SELECT max(v) FROM s) FROM t", "SELECT (SELECT v FROM s GROUP BY v) FROM t"]
        {
            assert_eq!(rewritten(same), same);
        }
    }

    #[test]
    fn not_in_below_or() {
        let below = rewritten("SELECT 1 FROM t WHERE a AND (b OR c NOT IN (SELECT d FROM s))");
        assert!(below.contains("(b OR CASE WHEN"), "{below}");
        let alone = "SELECT 1 FROM t WHERE a AND (c NOT IN (SELECT d FROM s)) AND \
                     NOT (c IN (SELECT 1 FROM s))";
        assert_eq!(rewritten(alone), alone);
    }

    #[test]
    fn predicates_in_a_select_list() {
        assert_eq!(
            rewritten("SELECT EXISTS (SELECT 1 FROM s WHERE s.id = t.id) FROM t"),
            "SELECT (((SELECT count(*) FROM s WHERE s.id = t.id)) > 0) FROM t"
        );
        let filter = "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM s) AND a IN (SELECT b FROM s)";
        assert_eq!(rewritten(filter), filter);
        let same = rewritten("SELECT a IN (SELECT b FROM t) FROM t");
        assert!(same.contains("members\".\"\u{1}element\" = t.a"), "{same}");
        let member = rewritten("SELECT a NOT IN (SELECT b FROM s WHERE c) FROM t");
        assert!(member.starts_with("SELECT CASE WHEN"), "{member}");
        assert!(member.contains("WHERE c AND (b = t.a)"), "{member}");
    }
}
