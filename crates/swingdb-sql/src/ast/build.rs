//! Small pieces of syntax tree, for the queries that the statements here are turned into.

use std::ops::ControlFlow;

use datafusion::common::{Column, TableReference};
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    CaseWhen, CastKind, DataType, ExactNumberInfo, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, Ident, Join, JoinConstraint, JoinOperator, ObjectName,
    ObjectNamePart, Query, Select, SelectItem, SetExpr, Statement, TableAlias, TableFactor,
    TableWithJoins, Value, VisitMut, VisitorMut, With,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use swingdb_common::error::{Error, Result};

use crate::ast::names::{find_name, quoted};
use crate::ast::walk::walk_mut;

/// A query of one SELECT. The parser makes the empty form, so that every other clause is as it
/// leaves it.
pub fn select(
    projection: Vec<SelectItem>,
    from: Vec<TableWithJoins>,
    selection: Option<Expr>,
) -> Result<Query> {
    let mut query = parse_query("SELECT 1")?;
    let select = select_of(&mut query)?;
    select.projection = projection;
    select.from = from;
    select.selection = selection;
    Ok(query)
}

/// The SELECT of a query made by [`select`].
pub fn select_of(query: &mut Query) -> Result<&mut Select> {
    match query.body.as_mut() {
        SetExpr::Select(select) => Ok(select),
        _ => Err(Error::internal("the query is no SELECT")),
    }
}

/// A query of nothing but a body.
pub(crate) fn query(body: SetExpr) -> Query {
    Query {
        with: None,
        body: Box::new(body),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}

/// Parses a query written in this crate.
pub fn parse_query(sql: &str) -> Result<Query> {
    match Parser::new(&GenericDialect {}).try_with_sql(sql).and_then(|mut p| p.parse_query()) {
        Ok(query) => Ok(*query),
        Err(error) => Err(Error::internal(format!("{sql}: {error}"))),
    }
}

/// Parses an expression kept as text: a column's default.
pub fn parse_expr(sql: &str) -> Result<Expr> {
    Parser::new(&GenericDialect {})
        .try_with_sql(sql)
        .and_then(|mut parser| parser.parse_expr())
        .map_err(|error| Error::Parse {
            message: format!("{sql}: {error}"),
            line: None,
            column: None,
        })
}

/// A query as a statement, with the common table expressions the statement began with.
pub fn statement(mut query: Query, with: Option<&With>) -> Statement {
    if query.with.is_none() {
        query.with = with.cloned();
    }
    Statement::Query(Box::new(query))
}

/// `expr AS "name"`.
pub fn item(expr: Expr, name: impl Into<String>) -> SelectItem {
    SelectItem::ExprWithAlias { expr, alias: quoted(&name.into()) }
}

/// `"table"."column"`.
pub fn field(table: &Ident, column: &str) -> Expr {
    Expr::CompoundIdentifier(vec![table.clone(), quoted(column)])
}

/// A quoted name of several parts.
pub fn name(parts: &[&str]) -> ObjectName {
    ObjectName(parts.iter().map(|part| ObjectNamePart::Identifier(quoted(part))).collect())
}

/// `"a"."b" AS alias`.
pub fn table(parts: &[&str], as_name: &Ident) -> TableFactor {
    TableFactor::Table {
        name: name(parts),
        alias: Some(alias(as_name)),
        args: None,
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    }
}

/// `alias`, without column names.
pub fn alias(name: &Ident) -> TableAlias {
    TableAlias { explicit: true, name: name.clone(), columns: Vec::new(), at: None }
}

/// `FROM relation`, without joins.
pub fn from(relation: TableFactor) -> TableWithJoins {
    TableWithJoins { relation, joins: Vec::new() }
}

/// `(query) AS alias`, a query in the place of a relation.
pub(crate) fn derived(query: Query, alias: Option<TableAlias>) -> TableFactor {
    TableFactor::Derived { lateral: false, subquery: Box::new(query), alias, sample: None }
}

/// Makes the body of a query one that shows others' columns: `SELECT shown FROM (body) AS name`.
pub(crate) fn show_of(query: &mut Query, shown: Vec<SelectItem>, name: &Ident) -> Result<()> {
    let mut rows = select(shown, Vec::new(), None)?;
    std::mem::swap(&mut query.body, &mut rows.body);
    select_of(query)?.from = vec![from(derived(rows, Some(alias(name))))];
    Ok(())
}

/// `JOIN relation` with its condition.
pub fn join(relation: TableFactor, constraint: JoinConstraint) -> Join {
    Join { relation, global: false, join_operator: JoinOperator::Inner(constraint) }
}

/// Whether an expression is the word DEFAULT.
pub fn is_default(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(ident) if is_word_default(ident))
}

/// NULL.
pub fn null() -> Expr {
    Expr::Value(Value::Null.with_empty_span())
}

/// An integer.
pub fn integer(value: usize) -> Expr {
    Expr::Value(Value::Number(value.to_string(), false).with_empty_span())
}

/// `a = b`, `a AND b` ...
pub fn binary(
    left: Expr,
    op: datafusion::sql::sqlparser::ast::BinaryOperator,
    right: Expr,
) -> Expr {
    Expr::BinaryOp { left: Box::new(nested(left)), op, right: Box::new(nested(right)) }
}

/// `(expr)`, so that it can stand beside any operator.
pub fn nested(expr: Expr) -> Expr {
    match expr {
        simple @ (Expr::Nested(_)
        | Expr::Identifier(_)
        | Expr::CompoundIdentifier(_)
        | Expr::Value(_)) => simple,
        other => Expr::Nested(Box::new(other)),
    }
}

/// All of `exprs`, or `TRUE` when there are none.
pub fn all(exprs: impl IntoIterator<Item = Expr>) -> Expr {
    use datafusion::sql::sqlparser::ast::BinaryOperator::And;
    let both = |left, right| binary(left, And, right);
    exprs.into_iter().reduce(both).unwrap_or_else(|| boolean(true))
}

/// `CASE WHEN a THEN b ... END`; NULL without any WHEN.
pub fn case(whens: Vec<(Expr, Expr)>) -> Expr {
    if whens.is_empty() {
        return null();
    }
    let when = |(condition, result)| CaseWhen { condition, result };
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: whens.into_iter().map(when).collect(),
        else_result: None,
    }
}

/// TRUE or FALSE.
pub fn boolean(value: bool) -> Expr {
    Expr::Value(Value::Boolean(value).with_empty_span())
}

/// Rewrites every expression of a piece of syntax tree, children first.
pub fn rewrite_exprs<T: VisitMut>(tree: &mut T, rewrite: impl FnMut(&mut Expr)) {
    struct Each<F>(F);
    impl<F: FnMut(&mut Expr)> VisitorMut for Each<F> {
        type Break = ();
        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            (self.0)(expr);
            ControlFlow::Continue(())
        }
    }
    // Never breaks, so the result says nothing.
    let _ = walk_mut(tree, &mut Each(rewrite));
}

/// Plain names that are columns of a table become `table.column`. An expression with a subquery is
/// left alone: names inside it may be the subquery's own.
pub fn qualify(expr: &mut Expr, table: &Ident, columns: &[String]) {
    let mut has_subquery = false;
    rewrite_exprs(expr, |part| {
        has_subquery |=
            matches!(part, Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. });
    });
    if has_subquery {
        return;
    }
    rewrite_exprs(expr, |part| {
        if let Expr::Identifier(ident) = part
            && !is_word_default(ident)
            && let Some(column) = find_name(columns, &ident.value)
        {
            *part = field(table, &column);
        }
    });
}

fn is_word_default(ident: &Ident) -> bool {
    ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default")
}

/// `schema.table.column` becomes `alias.column`: the query names the table by its alias only.
pub fn shorten_qualifiers<T: VisitMut>(tree: &mut T, schema: &str, table: &str, short: &Ident) {
    let is = |ident: &Ident, wanted: &str| ident.value.eq_ignore_ascii_case(wanted);
    rewrite_exprs(tree, |expr| {
        if let Expr::CompoundIdentifier(parts) = expr
            && let [first, second, rest @ ..] = parts.as_slice()
            && !rest.is_empty()
            && is(first, schema)
            && is(second, table)
        {
            let mut shorter = vec![short.clone()];
            shorter.extend_from_slice(rest);
            *parts = shorter;
        }
    });
}

pub(crate) fn text(value: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(value.to_string()).with_empty_span())
}

pub(crate) fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

/// The argument of `name(argument)`.
pub(crate) fn only_argument<'a>(expr: &'a Expr, name: &str) -> Option<&'a Expr> {
    let Expr::Function(Function { name: called, args: FunctionArguments::List(list), .. }) = expr
    else {
        return None;
    };
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] if is_named(called, name) => {
            Some(argument)
        }
        _ => None,
    }
}

/// Whether this is the plain name, in capitals or not.
pub(crate) fn is_named(name: &ObjectName, plain: &str) -> bool {
    let [part] = name.0.as_slice() else { return false };
    part.as_ident().is_some_and(|ident| ident.value.eq_ignore_ascii_case(plain))
}

/// `name(args)`.
pub(crate) fn call(name: &str, args: impl IntoIterator<Item = Expr>) -> Expr {
    let arg = |expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr));
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: args.into_iter().map(arg).collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// The name of a column, with its relation's before it.
pub(crate) fn reference(column: &Column) -> Expr {
    let mut parts: Vec<Ident> = Vec::new();
    match &column.relation {
        None => return Expr::Identifier(quoted(&column.name)),
        Some(TableReference::Bare { table }) => parts.push(quoted(table)),
        Some(TableReference::Partial { schema, table }) => {
            parts.extend([quoted(schema), quoted(table)]);
        }
        Some(TableReference::Full { catalog, schema, table }) => {
            parts.extend([quoted(catalog), quoted(schema), quoted(table)]);
        }
    }
    parts.push(quoted(&column.name));
    Expr::CompoundIdentifier(parts)
}

pub(crate) const DOUBLE: DataType = DataType::Double(ExactNumberInfo::None);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_put_together() {
        let t = Ident::new("t");
        let query = select(
            vec![item(field(&t, "a b"), "x")],
            vec![from(table(&["main", "t"], &t))],
            Some(all([boolean(true), field(&t, "c")])),
        );
        assert_eq!(
            query.unwrap().to_string(),
            "SELECT t.\"a b\" AS \"x\" FROM \"main\".\"t\" AS t WHERE true AND t.\"c\""
        );
    }

    #[test]
    fn qualifiers_with_a_schema_are_shortened() {
        let mut expr = parse_expr("main.T.a + other.t.b + t.c").unwrap();
        shorten_qualifiers(&mut expr, "main", "t", &Ident::new("t"));
        assert_eq!(expr.to_string(), "t.a + other.t.b + t.c");
    }

    #[test]
    fn default_is_a_word_and_not_a_name() {
        assert!(is_default(&parse_expr("DEFAULT").unwrap()));
        assert!(is_default(&parse_expr("default").unwrap()));
        assert!(!is_default(&parse_expr("\"default\"").unwrap()));
    }
}
