//! `LIMIT 40%`: a share of the rows.
//!
//! `SELECT ... LIMIT 40%` is `SELECT * FROM (SELECT ...) QUALIFY row_number() OVER () * 100 <=
//! count(*) OVER () * 40`: the whole number of rows that is not above the share, as in DuckDB.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    LimitClause, ObjectName, Query, SelectItem, WildcardAdditionalOptions, WindowSpec, WindowType,
};
use swingdb_common::error::{Error, Result};

use crate::ast::build;
use crate::text::limit_percent::PERCENT_MARK;

/// What the query inside is called.
const LIMITED: &str = "\u{1}limited";

/// Writes a share of the rows out, if the query has one.
pub(crate) fn rewrite(query: &mut Query) -> Result<()> {
    let Some(LimitClause::LimitOffset { limit: Some(limit), offset, .. }) = &query.limit_clause
    else {
        return Ok(());
    };
    let Some(percent) = share(limit)? else { return Ok(()) };
    if offset.is_some() {
        return Err(Error::unsupported(
            "LIMIT with a share of the rows beside OFFSET; write a query around it with OFFSET",
        ));
    }
    let with = query.with.take();
    query.limit_clause = None;
    let inner = build::derived(query.clone(), Some(build::alias(&Ident::with_quote('"', LIMITED))));
    let all = SelectItem::Wildcard(WildcardAdditionalOptions::default());
    let mut outer = build::select(vec![all], vec![build::from(inner)], None)?;
    let number =
        build::binary(over("row_number", []), BinaryOperator::Multiply, build::integer(100));
    let rows = build::binary(over("count", [build::integer(1)]), BinaryOperator::Multiply, percent);
    build::select_of(&mut outer)?.qualify = Some(build::binary(number, BinaryOperator::LtEq, rows));
    outer.with = with;
    *query = outer;
    Ok(())
}

/// The percentage, if a limit is one.
fn share(limit: &Expr) -> Result<Option<Expr>> {
    let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = limit else {
        return Ok(None);
    };
    let is_mark = |name: &ObjectName| {
        matches!(name.0.as_slice(), [part]
            if part.as_ident().is_some_and(|ident| ident.value == PERCENT_MARK))
    };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(percent))] = list.args.as_slice() else {
        return Ok(None);
    };
    if !is_mark(name) {
        return Ok(None);
    }
    let written = percent.to_string();
    match written.parse::<f64>() {
        Ok(number) if (0.0..=100.0).contains(&number) => Ok(Some(percent.clone())),
        _ => Err(Error::plan(format!("LIMIT {written}%: a share is from 0% to 100%"))),
    }
}

/// A function of all rows.
fn over(name: &str, args: impl IntoIterator<Item = Expr>) -> Expr {
    let mut call = build::call(name, args);
    if let Expr::Function(function) = &mut call {
        function.over = Some(WindowType::WindowSpec(WindowSpec {
            window_name: None,
            partition_by: Vec::new(),
            order_by: Vec::new(),
            window_frame: None,
        }));
    }
    call
}
