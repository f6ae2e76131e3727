//! The column of `FROM range(...)` and `FROM generate_series(...)`.
//!
//! It is called as the relation is: `range` in `FROM range(3)`, `i` in `FROM range(3) AS i`. The
//! engine calls it `value`.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Ident, Statement, TableAliasColumnDef, TableFactor, VisitorMut,
};

use crate::ast::build;
use crate::ast::walk::walk_mut;

/// Names the columns of series. Other rewrites look at names, so this comes first.
pub(crate) fn name_series(statement: &mut Statement) {
    // Never breaks.
    let _ = walk_mut(statement, &mut Namer);
}

struct Namer;

impl VisitorMut for Namer {
    type Break = ();

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, alias, args: Some(_), .. } = factor
            && let [part] = name.0.as_slice()
            && let Some(function) = part.as_ident()
        {
            let function = function.value.to_ascii_lowercase();
            if matches!(function.as_str(), "range" | "generate_series") {
                let alias = alias.get_or_insert_with(|| build::alias(&Ident::new(function)));
                if alias.columns.is_empty() {
                    let column = TableAliasColumnDef { name: alias.name.clone(), data_type: None };
                    alias.columns.push(column);
                }
            }
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
        ] {
            let mut statements = Parser::parse_sql(&DIALECT, given).unwrap();
            name_series(&mut statements[0]);
            assert_eq!(statements[0].to_string(), expected);
        }
    }
}
