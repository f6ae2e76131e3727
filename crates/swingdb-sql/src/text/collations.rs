//! `a = b COLLATE NOCASE`, `ORDER BY a COLLATE NOCASE`: without regard to case, by `lower(...)`.
//!
//! | written | becomes |
//! |---|---|
//! | `a = b COLLATE NOCASE` | `lower(a) = lower(b)` |
//! | `a COLLATE NOCASE IN (SELECT b ...)` | `lower(a) IN (SELECT lower(b) FROM (...))` |
//! | `ORDER BY a COLLATE NOCASE`, `PARTITION BY`, `DISTINCT ON` | `ORDER BY lower(a)` |
//! | `count(DISTINCT a COLLATE NOCASE)` | `count(DISTINCT lower(a))` |
//! | `arg_min(b, a COLLATE NOCASE)` | `arg_min(b, lower(a))` |
//! | `min(a COLLATE NOCASE)` | `arg_min(a, lower(a))` |
//! | `SELECT a COLLATE NOCASE ... GROUP BY 1` | `SELECT first(a) ... GROUP BY lower(a)` |
//! | `SELECT DISTINCT a COLLATE NOCASE, b` | `SELECT DISTINCT ON (lower(a), 2) a, b` |
//! | `a COLLATE "C"`, `BINARY`, `POSIX` | `a`, for text is compared by its bytes |
//!
//! As `=` are `<` and its like, IS DISTINCT FROM, IN, BETWEEN, LIKE and `CASE a WHEN b`.
//!
//! What is left of COLLATE is refused with the other clauses that nobody carries out. That goes for
//! columns of subqueries, views and new tables too: what names them would have to compare them
//! in the same way, and columns keep no collation.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Distinct, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArguments, GroupByExpr, Ident, NamedWindowExpr, ObjectName,
    OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, Statement, TableAlias,
    TableAliasColumnDef, VisitMut, VisitorMut, WindowSpec, WindowType,
};

use crate::ast::build;
use crate::ast::select_items::column;
use crate::ast::walk::walk_mut;

/// Writes collations out.
pub(crate) fn rewrite<T: VisitMut>(tree: &mut T) {
    // Neither breaks.
    let _ = walk_mut(tree, &mut WithoutCase { depth: 0, shows: false });
    let _ = walk_mut(tree, &mut ByBytes);
}

/// Whether a collation compares texts by their bytes, as they are compared without one.
pub(crate) fn is_by_bytes(collation: &ObjectName) -> bool {
    is_any(collation, &["c", "binary", "posix"])
}

fn is_any(collation: &ObjectName, names: &[&str]) -> bool {
    names.iter().any(|name| build::is_named(collation, name))
}

/// Takes collations away that change nothing. Beside another collation they are still there, so
/// that two of them in one comparison are refused.
struct ByBytes;

impl VisitorMut for ByBytes {
    type Break = ();

    fn post_visit_expr(&mut self, node: &mut Expr) -> ControlFlow<()> {
        if let Expr::Collate { expr, collation } = node
            && is_by_bytes(collation)
        {
            *node = std::mem::replace(expr, build::null());
        }
        ControlFlow::Continue(())
    }
}

/// Compares by texts in lower case.
struct WithoutCase {
    /// How many queries it is inside of.
    depth: usize,
    /// Whether the columns of the statement's own query are shown, and nothing else.
    shows: bool,
}

impl VisitorMut for WithoutCase {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<()> {
        self.shows = match statement {
            Statement::Query(_) | Statement::Insert(_) => true,
            Statement::Prepare { .. } => self.shows,
            _ => false,
        };
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        // UNION and the like compare what their queries show.
        self.shows &= self.depth > 1 || matches!(query.body.as_ref(), SetExpr::Select(_));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, node: &mut Expr) -> ControlFlow<()> {
        match node {
            Expr::BinaryOp { left, op, right } if is_comparison(op) => {
                without_case([left.as_mut(), right.as_mut()]);
            }
            Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
                without_case([left.as_mut(), right.as_mut()]);
            }
            Expr::InList { expr, list, negated: _ } => {
                without_case(std::iter::once(expr.as_mut()).chain(list));
            }
            Expr::Between { expr, negated: _, low, high } => {
                without_case([expr.as_mut(), low.as_mut(), high.as_mut()]);
            }
            // In lower case, the character that escapes would be another one.
            Expr::Like { expr, pattern, escape_char: None, .. } => {
                without_case([expr.as_mut(), pattern.as_mut()]);
            }
            Expr::Case { operand: Some(operand), conditions, .. } => {
                let whens = conditions.iter_mut().map(|when| &mut when.condition);
                without_case(std::iter::once(operand.as_mut()).chain(whens));
            }
            Expr::InSubquery { expr, subquery, negated: _ } => {
                in_lower_rows(expr, subquery);
            }
            Expr::AnyOp { left, compare_op, right, .. }
            | Expr::AllOp { left, compare_op, right, .. }
                if is_comparison(compare_op) =>
            {
                if let Expr::Subquery(rows) = right.as_mut() {
                    in_lower_rows(left, rows);
                }
            }
            Expr::Function(function) => {
                in_call(function);
                if self.shows
                    && self.depth <= 1
                    && let Some(call) = of_least(function)
                {
                    *node = call;
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        let shows = self.shows && self.depth == 0;
        let mut order = match query.order_by.as_mut().map(|order| &mut order.kind) {
            Some(OrderByKind::Expressions(all)) => Some(all),
            // Would have to be written out first.
            Some(OrderByKind::All(_)) => return ControlFlow::Continue(()),
            None => None,
        };
        if let (SetExpr::Select(select), Some(order)) = (query.body.as_ref(), &mut order)
            && shows
        {
            name_shown(select, order);
        }
        in_selects(&mut query.body, shows);
        if let Some(order) = order {
            in_order(order);
        }
        ControlFlow::Continue(())
    }
}

/// The SELECTs of one query; those of other queries have their own turn.
fn in_selects(body: &mut SetExpr, shows: bool) {
    match body {
        SetExpr::Select(select) => {
            in_groups(select, shows);
            in_distinct(select, shows);
            for window in &mut select.named_window {
                if let NamedWindowExpr::WindowSpec(window) = &mut window.1 {
                    in_window(window);
                }
            }
        }
        SetExpr::SetOperation { left, right, .. } => {
            in_selects(left, shows);
            in_selects(right, shows);
        }
        _ => {}
    }
}

fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

/// What NOCASE is written behind.
fn collated(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::Nested(inner) => collated(inner),
        Expr::Collate { expr, collation } if is_any(collation, &["nocase"]) => Some(expr),
        _ => None,
    }
}

/// Whether another collation than NOCASE is written behind it.
fn is_otherwise(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_otherwise(inner),
        Expr::Collate { expr: _, collation } => !is_any(collation, &["nocase"]),
        _ => false,
    }
}

fn lower(expr: &Expr) -> Expr {
    build::call("lower", [expr.clone()])
}

/// Compares texts in lower case, where one of them says so.
fn without_case<'a>(all: impl IntoIterator<Item = &'a mut Expr>) {
    let all: Vec<&mut Expr> = all.into_iter().collect();
    let is_said = all.iter().any(|expr| collated(expr).is_some());
    if !is_said || all.iter().any(|expr| is_otherwise(expr)) {
        return;
    }
    for expr in all {
        *expr = lower(collated(expr).unwrap_or(expr));
    }
}

/// Compares a text with the rows of a query, both in lower case.
fn in_lower_rows(expr: &mut Expr, rows: &mut Query) {
    let Some(plain) = collated(expr) else { return };
    *expr = lower(plain);
    let (relation, column) = (Ident::new("collated"), Ident::new("text"));
    let name = TableAliasColumnDef { name: column.clone(), data_type: None };
    let from = build::derived(
        rows.clone(),
        Some(TableAlias { columns: vec![name], ..build::alias(&relation) }),
    );
    let text = Expr::CompoundIdentifier(vec![relation, column]);
    let list = vec![SelectItem::UnnamedExpr(lower(&text))];
    // The parser knows the query that this is made of.
    if let Ok(query) = build::select(list, vec![build::from(from)], None) {
        *rows = query;
    }
}

fn in_order(all: &mut [OrderByExpr]) {
    for one in all {
        in_lower(&mut one.expr);
    }
}

fn in_lower(expr: &mut Expr) {
    if let Some(plain) = collated(expr) {
        *expr = lower(plain);
    }
}

fn in_window(window: &mut WindowSpec) {
    window.partition_by.iter_mut().for_each(in_lower);
    in_order(&mut window.order_by);
}

/// ORDER BY of an aggregate, windows, and arguments that only compare.
fn in_call(function: &mut Function) {
    let compared = match function.name.to_string().to_ascii_lowercase().as_str() {
        "count" => Some(0),
        "arg_min" | "arg_max" | "min_by" | "max_by" | "argmin" | "argmax" => Some(1),
        _ => None,
    };
    if let FunctionArguments::List(list) = &mut function.args {
        for clause in &mut list.clauses {
            if let FunctionArgumentClause::OrderBy(order) = clause {
                in_order(order);
            }
        }
        if let Some(place) = compared
            && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))) = list.args.get_mut(place)
        {
            in_lower(arg);
        }
    }
    in_order(&mut function.within_group);
    if let Some(WindowType::WindowSpec(window)) = &mut function.over {
        in_window(window);
    }
}

/// `min(a COLLATE NOCASE)`, `max(...)`: the first, or last, text without regard to case.
fn of_least(function: &Function) -> Option<Expr> {
    let by = match function.name.to_string().to_ascii_lowercase().as_str() {
        "min" => "arg_min",
        "max" => "arg_max",
        _ => return None,
    };
    let FunctionArguments::List(list) = &function.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))] = list.args.as_slice() else {
        return None;
    };
    let plain = collated(arg)?;
    if list.duplicate_treatment == Some(DuplicateTreatment::Distinct) {
        return None;
    }
    let mut call = build::call(by, [plain.clone(), lower(plain)]);
    if let Expr::Function(called) = &mut call {
        called.filter = function.filter.clone();
        called.over = function.over.clone();
    }
    Some(call)
}

/// `ORDER BY 1`, `ORDER BY name` of a column of the result that has NOCASE.
fn name_shown(select: &Select, order: &mut [OrderByExpr]) {
    for one in order {
        let item = match &one.expr {
            Expr::Identifier(name) => select.projection.iter().find_map(|item| match item {
                SelectItem::ExprWithAlias { expr, alias }
                    if alias.value.eq_ignore_ascii_case(&name.value) =>
                {
                    Some(expr.clone())
                }
                _ => None,
            }),
            key => column(key, &select.projection),
        };
        if let Some(item) = item.filter(|item| collated(item).is_some()) {
            one.expr = item;
        }
    }
}

fn shown(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

/// `GROUP BY a COLLATE NOCASE`: by texts in lower case; the result shows the first text of a group.
fn in_groups(select: &mut Select, shows: bool) {
    let GroupByExpr::Expressions(keys, _) = &mut select.group_by else { return };
    let mut grouped = Vec::new();
    for key in keys {
        let named = column(key, &select.projection);
        let Some(plain) = collated(named.as_ref().unwrap_or(key)).cloned() else { continue };
        *key = lower(&plain);
        grouped.push(plain);
    }
    // Groups that DISTINCT makes one would have to be those of another collation.
    if grouped.is_empty() || !shows || select.distinct.is_some() {
        return;
    }
    for item in &mut select.projection {
        let name = match item {
            SelectItem::UnnamedExpr(expr) => Ident::with_quote('"', expr.to_string()),
            SelectItem::ExprWithAlias { alias, .. } => alias.clone(),
            _ => continue,
        };
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
            continue;
        };
        if let Some(plain) = collated(expr).filter(|plain| grouped.contains(plain)) {
            let expr = build::call("first", [plain.clone()]);
            *item = SelectItem::ExprWithAlias { expr, alias: name };
        }
    }
}

/// `SELECT DISTINCT a COLLATE NOCASE`: of the rows that are the same in lower case the first.
fn in_distinct(select: &mut Select, shows: bool) {
    match &mut select.distinct {
        Some(Distinct::On(keys)) => keys.iter_mut().for_each(in_lower),
        Some(Distinct::Distinct) if shows => {
            let grouped = match &select.group_by {
                GroupByExpr::Expressions(keys, _) => !keys.is_empty(),
                GroupByExpr::All(_) => true,
            };
            let items = select.projection.iter().map(shown).collect::<Option<Vec<_>>>();
            // What a star stands for is not known yet.
            let Some(items) = items.filter(|_| !grouped) else { return };
            if !items.iter().any(|item| collated(item).is_some()) {
                return;
            }
            let key = |(index, item): (usize, &&Expr)| match collated(item) {
                Some(plain) => lower(plain),
                None => build::integer(index + 1),
            };
            let keys = items.iter().enumerate().map(key).collect();
            select.distinct = Some(Distinct::On(keys));
            for item in &mut select.projection {
                if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
                    && let Some(plain) = collated(expr)
                {
                    *expr = plain.clone();
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;
    use crate::text::dialect::DIALECT;

    #[test]
    fn comparisons_and_orders_are_in_lower_case() {
        for (given, expected) in [
            ("SELECT a = b COLLATE NOCASE", "SELECT lower(a) = lower(b)"),
            ("SELECT a COLLATE nocase IN ('X', b)", "SELECT lower(a) IN (lower('X'), lower(b))"),
            ("SELECT a < (b COLLATE \"C\")", "SELECT a < (b)"),
            ("SELECT a FROM t ORDER BY a COLLATE NOCASE", "SELECT a FROM t ORDER BY lower(a)"),
            ("SELECT a COLLATE NOCASE", "SELECT a COLLATE NOCASE"),
            ("SELECT a = b COLLATE de", "SELECT a = b COLLATE de"),
            ("SELECT a COLLATE \"C\" = b COLLATE NOCASE", "SELECT a = b COLLATE NOCASE"),
            (
                "SELECT a COLLATE NOCASE, count(*) FROM t GROUP BY 1 ORDER BY 1",
                "SELECT first(a) AS \"a COLLATE NOCASE\", count(*) FROM t GROUP BY lower(a) \
                 ORDER BY lower(a)",
            ),
            // Behind a star, a number is that of another column than the list shows.
            (
                "SELECT *, a COLLATE NOCASE FROM t ORDER BY 2",
                "SELECT *, a COLLATE NOCASE FROM t ORDER BY 2",
            ),
            (
                "SELECT DISTINCT a COLLATE NOCASE AS x, b FROM t ORDER BY x",
                "SELECT DISTINCT ON (lower(a), 2) a AS x, b FROM t ORDER BY lower(a)",
            ),
            (
                "SELECT * FROM (SELECT DISTINCT a COLLATE NOCASE FROM t)",
                "SELECT * FROM (SELECT DISTINCT a COLLATE NOCASE FROM t)",
            ),
            (
                "SELECT min(a COLLATE NOCASE) FROM t UNION SELECT 'A'",
                "SELECT min(a COLLATE NOCASE) FROM t UNION SELECT 'A'",
            ),
            (
                "CREATE TABLE u AS SELECT DISTINCT a COLLATE NOCASE FROM t",
                "CREATE TABLE u AS SELECT DISTINCT a COLLATE NOCASE FROM t",
            ),
            (
                "SELECT a COLLATE NOCASE IN (SELECT b FROM u)",
                "SELECT lower(a) IN (SELECT lower(collated.text) FROM (SELECT b FROM u) \
                 AS collated (text))",
            ),
            (
                "SELECT max(a COLLATE NOCASE) OVER (PARTITION BY b COLLATE NOCASE) FROM t",
                "SELECT arg_max(a, lower(a)) OVER (PARTITION BY lower(b)) FROM t",
            ),
        ] {
            let mut statements = Parser::parse_sql(&DIALECT, given).unwrap();
            rewrite(&mut statements[0]);
            assert_eq!(statements[0].to_string(), expected);
        }
    }
}
