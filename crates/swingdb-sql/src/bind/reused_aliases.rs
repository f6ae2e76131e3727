//! Names that a SELECT list gives to its expressions, used again in the same SELECT.
//!
//! `SELECT km / h AS speed, speed * 3.6 AS kmh FROM t WHERE speed > 1` is what DuckDB and others
//! understand; the engine knows such names only behind GROUP BY. So the expression is put where
//! the name stands: in later items and in WHERE. A column of a table wins over a name, and where
//! it cannot be told whether there is such a column (a function in FROM, the same name elsewhere
//! in the statement), nothing is done. Expressions that give another value each time keep their
//! single place.

use std::collections::{BTreeMap, BTreeSet};

use datafusion::sql::sqlparser::ast::{Expr, Ident, Select, SelectItem};

use crate::ast::walk::replace_names;

/// Functions that give another value each time.
const VOLATILE: [&str; 6] = ["random", "uuid", "uuidv7", "gen_random_uuid", "nextval", "setval"];

/// What a statement says about names, in lower case.
#[derive(Default)]
pub(crate) struct Names {
    /// Columns of its tables, also renamed ones.
    pub columns: BTreeSet<String>,
    /// How many items of SELECT lists have each name.
    pub aliases: BTreeMap<String, usize>,
    /// Whether there may be columns that are not known.
    pub open: bool,
}

impl Names {
    pub fn add_column(&mut self, name: &str) {
        self.columns.insert(name.to_lowercase());
    }

    pub fn add_alias(&mut self, name: &str) {
        *self.aliases.entry(name.to_lowercase()).or_default() += 1;
    }

    fn is_reusable(&self, alias: &str) -> bool {
        !self.open && !self.columns.contains(alias) && self.aliases.get(alias) == Some(&1)
    }
}

/// Puts expressions for the names that are used again in `select`.
pub(crate) fn expand(select: &mut Select, names: &Names) {
    let mut known = BTreeMap::new();
    for item in &mut select.projection {
        let changed = match item {
            SelectItem::UnnamedExpr(expr) => {
                let text = expr.to_string();
                replace(expr, &known).then(|| SelectItem::ExprWithAlias {
                    expr: expr.clone(),
                    alias: Ident::with_quote('"', text),
                })
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                replace(expr, &known);
                let name = alias.value.to_lowercase();
                if names.is_reusable(&name) && !is_volatile(expr) {
                    known.insert(name, expr.clone());
                }
                None
            }
            _ => None,
        };
        if let Some(changed) = changed {
            *item = changed;
        }
    }
    if let Some(condition) = &mut select.selection {
        replace(condition, &known);
    }
}

/// Whether something was replaced.
fn replace(expr: &mut Expr, known: &BTreeMap<String, Expr>) -> bool {
    if known.is_empty() {
        return false;
    }
    let mut replaced = false;
    replace_names(expr, &mut |name| {
        let meant = known.get(&name.value.to_lowercase())?.clone();
        replaced = true;
        Some(Expr::Nested(Box::new(meant)))
    });
    replaced
}

/// Whether an expression gives another value each time.
pub(crate) fn is_volatile(expr: &Expr) -> bool {
    let mut volatile = false;
    crate::ast::build::rewrite_exprs(&mut expr.clone(), |part| {
        if let Expr::Function(function) = part {
            let name = function.name.to_string().to_lowercase();
            volatile |= VOLATILE.contains(&name.as_str());
        }
    });
    volatile
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::{SetExpr, Statement};
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;
    use crate::text::dialect::DIALECT;

    fn expanded(sql: &str, columns: &[&str]) -> String {
        let mut names = Names::default();
        columns.iter().for_each(|column| names.add_column(column));
        let statement = Parser::parse_sql(&DIALECT, sql).unwrap().remove(0);
        let Statement::Query(mut query) = statement else { panic!("{sql}") };
        let SetExpr::Select(select) = query.body.as_mut() else { panic!("{sql}") };
        for item in &select.projection {
            if let SelectItem::ExprWithAlias { alias, .. } = item {
                names.add_alias(&alias.value);
            }
        }
        expand(select, &names);
        select.to_string()
    }

    #[test]
    fn names_are_used_again() {
        assert_eq!(
            expanded("SELECT a + 1 AS x, X * 2 AS y, y FROM t WHERE x > 1", &["a"]),
            "SELECT a + 1 AS x, (a + 1) * 2 AS y, ((a + 1) * 2) AS \"y\" FROM t WHERE (a + 1) > 1"
        );
    }

    #[test]
    fn columns_win_and_values_stay() {
        for same in [
            "SELECT a + 1 AS a, a * 2 FROM t WHERE a > 1",
            "SELECT random() AS r, r + 1 FROM t",
            "SELECT a AS x, (SELECT x FROM s) FROM t",
            "SELECT a AS x, a AS x, x FROM t",
        ] {
            assert_eq!(expanded(same, &["a"]), same);
        }
    }
}
