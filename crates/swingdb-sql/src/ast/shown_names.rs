//! The names of a query's columns, as they are written: [`shown_names`].

use datafusion::sql::sqlparser::ast::{Expr, SelectItem, SetExpr, SetQuantifier, TableWithJoins};

/// The names of what a `*` stands for, behind this FROM, if they are known.
pub(crate) type StarNames<'a> = dyn Fn(&SelectItem, &[TableWithJoins]) -> Option<Vec<String>> + 'a;

/// The names of a query's columns, if they are known. `UNION BY NAME` has those of both sides.
pub(crate) fn shown_names(body: &SetExpr, stars: &StarNames<'_>) -> Option<Vec<String>> {
    match body {
        SetExpr::Query(query) => shown_names(&query.body, stars),
        SetExpr::SetOperation { op: _, set_quantifier, left, right } => {
            let mut all = shown_names(left, stars)?;
            if is_by_name(*set_quantifier) {
                let more = shown_names(right, stars)?;
                let is_new = |name: &String| !all.iter().any(|other| are_same(name, other));
                let more: Vec<String> = more.into_iter().filter(is_new).collect();
                all.extend(more);
            }
            Some(all)
        }
        SetExpr::Select(select) => {
            let mut all = Vec::with_capacity(select.projection.len());
            for item in &select.projection {
                match item {
                    SelectItem::ExprWithAlias { alias, .. } => all.push(alias.value.clone()),
                    SelectItem::UnnamedExpr(expr) => all.push(name_of(expr)),
                    star => all.extend(stars(star, &select.from)?),
                }
            }
            Some(all)
        }
        _ => None,
    }
}

/// The name of a column that an expression without an alias shows.
pub(crate) fn name_of(expr: &Expr) -> String {
    column_name(expr).map_or_else(|| expr.to_string(), str::to_string)
}

/// The name of the column that an expression is, if it is one.
pub fn column_name(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Identifier(name) => Some(&name.value),
        Expr::CompoundIdentifier(path) => path.last().map(|name| name.value.as_str()),
        _ => None,
    }
}

/// Whether the columns of a UNION go by their names.
pub(crate) fn is_by_name(quantifier: SetQuantifier) -> bool {
    use SetQuantifier::{AllByName, ByName, DistinctByName};
    matches!(quantifier, ByName | AllByName | DistinctByName)
}

/// Whether two names are one, in whatever case.
pub(crate) fn are_same(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}
