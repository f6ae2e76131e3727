//! Names: their parts, what qualifies columns, and what the engine calls our catalog.

use std::ops::ControlFlow;

use datafusion::common::TableReference;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, JoinConstraint, JoinOperator, ObjectName, TableFactor, VisitorMut,
};
use swingdb_common::error::{Error, Result};

use crate::ast::walk::walk_mut;

/// The parts of a dotted name.
pub fn parts(name: &ObjectName) -> Result<Vec<String>> {
    let part = |part: &datafusion::sql::sqlparser::ast::ObjectNamePart| {
        part.as_ident().map(|ident| ident.value.clone())
    };
    name.0
        .iter()
        .map(part)
        .collect::<Option<Vec<String>>>()
        .ok_or_else(|| Error::plan(format!("{name} is not the name of a table")))
}

/// The stored spelling of a name: an exact match goes before one that differs in case.
pub fn find_name(names: &[String], wanted: &str) -> Option<String> {
    let exact = names.iter().find(|name| *name == wanted);
    exact.or_else(|| names.iter().find(|name| name.eq_ignore_ascii_case(wanted))).cloned()
}

/// The last part of a dotted name: the column of `t.a`.
pub fn last_part(name: &ObjectName) -> Result<String> {
    parts(name)?.pop().ok_or_else(|| Error::plan("an empty name"))
}

/// An identifier that is taken as it is.
pub fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

/// The parts of a macro's name, as
/// [`Catalogs::find_macro`](crate::bind::catalogs::Catalogs::find_macro) takes them.
pub fn plain_parts(name: &ObjectName) -> Option<Vec<&str>> {
    name.0.iter().map(|part| part.as_ident().map(|ident| ident.value.as_str())).collect()
}

/// The name of a column that an expression without a name computes: its text. The parser is given
/// the `->` of JSON as `#>` (see [`json_arrows`](crate::text::json_arrows)).
pub(crate) fn written_name(expr: &Expr) -> String {
    struct Arrows;
    impl VisitorMut for Arrows {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::BinaryOp { op: op @ BinaryOperator::HashArrow, .. } = expr {
                *op = BinaryOperator::Arrow;
            }
            ControlFlow::Continue(())
        }
    }
    let text = expr.to_string();
    if !text.contains("#>") {
        return text;
    }
    let mut written = expr.clone();
    // Never breaks, so the result says nothing.
    let _ = walk_mut(&mut written, &mut Arrows);
    written.to_string()
}

/// The name that qualifies the columns of a relation.
pub(crate) fn name_of(factor: &TableFactor) -> Option<&Ident> {
    match factor {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::TableFunction { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. }
        | TableFactor::UNNEST { alias: Some(alias), .. }
        | TableFactor::NestedJoin { alias: Some(alias), .. } => Some(&alias.name),
        TableFactor::Table { name, args: None, .. } => last(name),
        _ => None,
    }
}

pub(crate) fn last(name: &ObjectName) -> Option<&Ident> {
    name.0.last()?.as_ident()
}

/// A table's name as API calls take it: parts separated by dots, quoted where they contain some.
pub fn parse_table_name(name: &str) -> TableReference {
    TableReference::parse_str_normalized(name, true)
}

/// The name of the database's own catalog in fully qualified names.
pub const CATALOG: &str = "swingdb";

/// The schema of unqualified names.
pub const SCHEMA: &str = "main";

/// The constraint of a join.
pub(crate) fn constraint_mut(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    use JoinOperator as J;
    match operator {
        J::Join(c)
        | J::Inner(c)
        | J::Left(c)
        | J::LeftOuter(c)
        | J::Right(c)
        | J::RightOuter(c)
        | J::FullOuter(c)
        | J::CrossJoin(c)
        | J::Semi(c)
        | J::LeftSemi(c)
        | J::RightSemi(c)
        | J::Anti(c)
        | J::LeftAnti(c)
        | J::RightAnti(c)
        | J::AsOf { match_condition: _, constraint: c } => Some(c),
        _ => None,
    }
}

/// Whether a name that is no table can be the path of a file.
pub(crate) fn looks_like_file(name: &str) -> bool {
    name.contains('/') || name.contains('.') || name.contains('*')
}
