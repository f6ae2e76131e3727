//! The column of `FROM range(...)`, `FROM generate_series(...)` and `FROM unnest(...)`.
//!
//! It is called as the relation is: `range` in `FROM range(3)`, `i` in `FROM range(3) AS i`. The
//! engine calls it otherwise. As in DuckDB it can also be named by its function, as `i.range` or,
//! where there is nothing but series, `range`.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, OneOrManyWithParens, Query, Select, SelectItem,
    SetExpr, Statement, TableAlias, TableAliasColumnDef, TableFactor, VisitorMut,
};

use crate::ast::build;
use crate::ast::build::is_named;
use crate::ast::walk::{rewrite_own_exprs, walk_mut};

/// The functions.
const SERIES: [&str; 3] = ["range", "generate_series", UNNEST];
const UNNEST: &str = "unnest";

/// Names the columns of series. Other rewrites look at names, so this comes first.
pub(crate) fn name_series(statement: &mut Statement) {
    // Never breaks.
    let _ = walk_mut(statement, &mut Namer::default());
}

/// A relation of a FROM clause.
struct Relation {
    name: Ident,
    /// The function that makes it, if its one column has no name of its own.
    function: Option<&'static str>,
}

/// The relations of a query.
#[derive(Default)]
struct Scope {
    relations: Vec<Relation>,
    /// A plain name may mean something else than a column of a series.
    open: bool,
}

impl Scope {
    /// What the expressions of a SELECT see.
    fn of_select(select: &Select) -> Self {
        let mut scope = Self::default();
        for table in &select.from {
            scope.add(&table.relation);
            table.joins.iter().for_each(|join| scope.add(&join.relation));
        }
        let is_given = |item: &SelectItem| match item {
            SelectItem::ExprWithAlias { alias, .. } => is_function(alias),
            _ => false,
        };
        scope.open |= select.projection.iter().any(is_given);
        scope
    }

    /// What the ORDER BY of a query sees.
    fn of_query(query: &Query) -> Self {
        let SetExpr::Select(select) = query.body.as_ref() else {
            return Self { open: true, ..Self::default() };
        };
        let mut scope = Self::of_select(select);
        let is_given = |item: &SelectItem| match item {
            SelectItem::UnnamedExpr(expr) => last_name(expr).is_some_and(is_function),
            _ => false,
        };
        scope.open |= select.projection.iter().any(is_given);
        scope
    }

    fn add(&mut self, factor: &TableFactor) {
        let (name, function) = match factor {
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                self.add(&table_with_joins.relation);
                table_with_joins.joins.iter().for_each(|join| self.add(&join.relation));
                return;
            }
            TableFactor::Table { alias: Some(alias), .. }
            | TableFactor::UNNEST { alias: Some(alias), .. } => {
                let function = series(factor).filter(|_| alias.columns.is_empty());
                (alias.name.clone(), function)
            }
            TableFactor::Table { name, alias: None, .. } => {
                let Some(name) = name.0.last().and_then(|part| part.as_ident()) else { return };
                (name.clone(), series(factor))
            }
            TableFactor::Derived { alias: Some(alias), .. } => (alias.name.clone(), None),
            TableFactor::UNNEST { alias: None, .. } => (Ident::new(UNNEST), series(factor)),
            _ => {
                self.open = true;
                return;
            }
        };
        self.open |= function.is_none();
        self.relations.push(Relation { name, function });
    }

    /// The name of the relation that has such a column, where the name alone says it.
    fn plain(&self, column: &Ident) -> Option<&Ident> {
        let is_column = |relation: &&Relation| {
            let named = relation.name.value.eq_ignore_ascii_case(&column.value);
            named || relation.function.is_some_and(|name| name.eq_ignore_ascii_case(&column.value))
        };
        let mut found = self.relations.iter().filter(is_column);
        let first = found.next().filter(|_| !self.open && found.next().is_none())?;
        Some(&first.name)
    }
}

/// Whether it is the name of a function of series.
fn is_function(name: &Ident) -> bool {
    SERIES.iter().any(|function| name.value.eq_ignore_ascii_case(function))
}

/// The name of a column, without that of its relation.
fn last_name(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(parts) => parts.last(),
        _ => None,
    }
}

/// `LATERAL unnest(t.l)` is `unnest(t.l)`, which sees what is before it as it is, and
/// `LATERAL range(t.n)` is `unnest(range(t.n))`.
fn without_lateral(factor: &mut TableFactor) {
    let TableFactor::Function { name, args, alias, with_ordinality: false, .. } = factor else {
        return;
    };
    let Some(function) = SERIES.into_iter().find(|function| is_named(name, function)) else {
        return;
    };
    let Some(mut args) = positional(args) else { return };
    let list = match (function, args.len()) {
        (UNNEST, 1) => args.remove(0),
        (UNNEST, _) => return,
        _ => build::call(function, args),
    };
    *factor = elements(list, alias.take());
}

/// `range(t.n)`, which depends on the rows before it, is `unnest(range(t.n))`.
fn as_list(factor: &mut TableFactor) {
    let Some(function) = series(factor).filter(|function| *function != UNNEST) else { return };
    let TableFactor::Table { alias, args: Some(args), with_ordinality: false, .. } = factor else {
        return;
    };
    if let Some(args) = positional(&args.args).filter(|args| args.iter().any(names_columns)) {
        *factor = elements(build::call(function, args), alias.take());
    }
}

/// The arguments of a call, if none has a name.
fn positional(args: &[FunctionArg]) -> Option<Vec<Expr>> {
    let expr = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    args.iter().map(expr).collect()
}

/// The relation of a list's elements.
fn elements(list: Expr, alias: Option<TableAlias>) -> TableFactor {
    TableFactor::UNNEST {
        array_exprs: vec![list],
        alias,
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: false,
    }
}

/// Whether a column is named outside of queries of its own.
fn names_columns(expr: &Expr) -> bool {
    let mut found = false;
    rewrite_own_exprs(&mut expr.clone(), &mut |part| {
        found |= matches!(part, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    });
    found
}

/// The function of a relation that is a series.
fn series(factor: &TableFactor) -> Option<&'static str> {
    match factor {
        TableFactor::Table { name, args: Some(_), .. } => {
            let [part] = name.0.as_slice() else { return None };
            let function = part.as_ident()?;
            let is_called = |name: &&str| function.value.eq_ignore_ascii_case(name);
            SERIES.into_iter().filter(|name| *name != UNNEST).find(is_called)
        }
        TableFactor::UNNEST { array_exprs, with_offset: false, with_ordinality: false, .. } => {
            match array_exprs.as_slice() {
                [one] => (!is_struct(one)).then_some(UNNEST),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Whether an expression makes a STRUCT, whose fields are columns of their own.
fn is_struct(expr: &Expr) -> bool {
    match expr {
        Expr::Struct { .. } | Expr::Dictionary(_) | Expr::Tuple(_) => true,
        Expr::Nested(inner) => is_struct(inner),
        Expr::Function(call) => {
            let [part] = call.name.0.as_slice() else { return false };
            let is_called = |name: &Ident| {
                ["struct_pack", "row", "struct", "named_struct"]
                    .iter()
                    .any(|makes| name.value.eq_ignore_ascii_case(makes))
            };
            part.as_ident().is_some_and(is_called)
        }
        _ => false,
    }
}

#[derive(Default)]
struct Namer {
    scopes: Vec<Scope>,
    /// The parameters of the lambdas around, which hide columns.
    lambdas: Vec<Vec<Ident>>,
}

impl Namer {
    /// The column that is named by its function, and is called as its relation is.
    fn renamed(&self, expr: &Expr) -> Option<Expr> {
        let begins = match expr {
            Expr::CompoundIdentifier(parts) => parts.first()?,
            Expr::Identifier(name) => name,
            _ => return None,
        };
        let same = |parameter: &Ident| parameter.value.eq_ignore_ascii_case(&begins.value);
        if self.lambdas.iter().flatten().any(same) {
            return None;
        }
        let name = match expr {
            Expr::CompoundIdentifier(parts) => {
                let [table, column] = parts.as_slice() else { return None };
                let mut all = self.scopes.iter().rev().flat_map(|scope| &scope.relations);
                let same = |name: &Ident| name.value.eq_ignore_ascii_case(&table.value);
                let relation = all.find(|relation| same(&relation.name))?;
                let function = relation.function?;
                column.value.eq_ignore_ascii_case(function).then_some(&relation.name)?
            }
            Expr::Identifier(column) => self.scopes.last()?.plain(column)?,
            _ => return None,
        };
        let is_other = !last_name(expr)?.value.eq_ignore_ascii_case(&name.value);
        is_other.then(|| Expr::CompoundIdentifier(vec![name.clone(), name.clone()]))
    }
}

impl VisitorMut for Namer {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.scopes.push(Scope::of_query(query));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for table in &mut select.from {
            without_lateral(&mut table.relation);
            table.joins.iter_mut().for_each(|join| without_lateral(&mut join.relation));
        }
        self.scopes.push(Scope::of_select(select));
        // The result keeps the name that is written.
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(written) = item
                && let Some(expr) = self.renamed(written)
                && let Some(alias) = last_name(written).cloned()
            {
                *item = SelectItem::ExprWithAlias { expr, alias };
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _select: &mut Select) -> ControlFlow<()> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Lambda(lambda) = expr {
            let parameters = match &lambda.params {
                OneOrManyWithParens::One(one) => std::slice::from_ref(one),
                OneOrManyWithParens::Many(all) => all.as_slice(),
            };
            self.lambdas.push(parameters.iter().map(|one| one.name.clone()).collect());
        }
        if let Some(column) = self.renamed(expr) {
            *expr = column;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Lambda(_) = expr {
            self.lambdas.pop();
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let Some(function) = series(factor)
            && let TableFactor::Table { alias, .. } | TableFactor::UNNEST { alias, .. } = factor
        {
            let alias = alias.get_or_insert_with(|| build::alias(&Ident::new(function)));
            if alias.columns.is_empty() {
                let column = TableAliasColumnDef { name: alias.name.clone(), data_type: None };
                alias.columns.push(column);
            }
            as_list(factor);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;
    use crate::text::dialect::DIALECT;

    #[test]
    fn columns_are_called_as_their_series() {
        for (given, expected) in [
            ("SELECT * FROM range(3)", "SELECT * FROM range(3) AS range (range)"),
            ("SELECT i FROM Range(3) AS i", "SELECT i FROM Range(3) AS i (i)"),
            ("SELECT i FROM range(3) AS t (i)", "SELECT i FROM range(3) AS t (i)"),
            ("SELECT range(3) FROM range", "SELECT range(3) FROM range"),
            (
                "SELECT * FROM t, range(t.n, $1) AS i",
                "SELECT * FROM t, UNNEST(range(t.n, $1)) AS i (i)",
            ),
            (
                "SELECT * FROM t LEFT JOIN LATERAL range(t.n) AS i ON true",
                "SELECT * FROM t LEFT JOIN UNNEST(range(t.n)) AS i (i) ON true",
            ),
            ("SELECT * FROM unnest(l) AS u", "SELECT * FROM UNNEST(l) AS u (u)"),
            ("SELECT x.range FROM range(3) x", "SELECT x.x AS range FROM range(3) x (x)"),
            (
                "SELECT 1 FROM range(3) x WHERE range > 1",
                "SELECT 1 FROM range(3) x (x) WHERE x.x > 1",
            ),
            (
                "SELECT 1 FROM range(3) x WHERE EXISTS (SELECT 1 FROM t WHERE t.a = x.range)",
                "SELECT 1 FROM range(3) x (x) WHERE EXISTS (SELECT 1 FROM t WHERE t.a = x.x)",
            ),
            (
                "SELECT range FROM range(3) x ORDER BY range",
                "SELECT x.x AS range FROM range(3) x (x) ORDER BY range",
            ),
            (
                "SELECT -x AS range FROM range(3) x ORDER BY range",
                "SELECT -x AS range FROM range(3) x (x) ORDER BY range",
            ),
            ("SELECT range FROM range(3) x, t", "SELECT range FROM range(3) x (x), t"),
            ("SELECT x.range FROM range(3) x (range)", "SELECT x.range FROM range(3) x (range)"),
            ("SELECT -x AS range FROM range(3) x", "SELECT -x AS range FROM range(3) x (x)"),
            (
                "SELECT list_transform(l, range -> range + 1), range FROM range(3) x",
                "SELECT list_transform(l, range -> range + 1), x.x AS range FROM range(3) x (x)",
            ),
            (
                "SELECT * FROM unnest(struct_pack(a := 1, b := 2))",
                "SELECT * FROM UNNEST(struct_pack(a := 1, b := 2))",
            ),
        ] {
            let mut statements = Parser::parse_sql(&DIALECT, given).unwrap();
            name_series(&mut statements[0]);
            assert_eq!(statements[0].to_string(), expected);
        }
    }
}
