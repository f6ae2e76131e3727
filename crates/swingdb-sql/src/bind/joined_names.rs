//! Names for relations without one that USING or NATURAL joins: subqueries and calls of functions.
//!
//! A merged column is that of one side, which needs a name to say so. All relations get theirs
//! before columns are looked up, so that all passes see the same names.
//!
//! Joins in brackets that have a name, `(a FULL JOIN b USING (k)) AS x`, become a query: `x.k` is
//! the merged column, which neither side has.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Ident, Select, SelectItem, Statement, TableFactor, VisitorMut, WildcardAdditionalOptions,
};
use swingdb_common::error::Result;

use crate::ast::build;
use crate::ast::walk::walk_mut;
use crate::bind::using_joins::merges;

/// Names them.
pub(crate) fn give(statement: &mut Statement) {
    struct Namer {
        unnamed: usize,
    }
    impl VisitorMut for Namer {
        type Break = ();
        fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
            if let Ok(Some(query)) = as_query(factor) {
                *factor = query;
            }
            ControlFlow::Continue(())
        }
        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
            if select.from.iter().flat_map(|from| &from.joins).any(merges) {
                name_relations(select, &mut self.unnamed);
            }
            ControlFlow::Continue(())
        }
    }
    // Never breaks, so the result says nothing.
    let _ = walk_mut(statement, &mut Namer { unnamed: 0 });
}

/// The query that joins in brackets are which have a name.
fn as_query(factor: &TableFactor) -> Result<Option<TableFactor>> {
    let TableFactor::NestedJoin { table_with_joins, alias: Some(alias) } = factor else {
        return Ok(None);
    };
    if !table_with_joins.joins.iter().any(merges) {
        return Ok(None);
    }
    let all = SelectItem::Wildcard(WildcardAdditionalOptions::default());
    let query = build::select(vec![all], vec![table_with_joins.as_ref().clone()], None)?;
    let (subquery, alias) = (Box::new(query), Some(alias.clone()));
    Ok(Some(TableFactor::Derived { lateral: false, subquery, alias, sample: None }))
}

/// Gives relations without a name one that no other has; `unnamed` counts them.
fn name_relations(select: &mut Select, unnamed: &mut usize) {
    for from in &mut select.from {
        let joined = from.joins.iter_mut().map(|join| &mut join.relation);
        for relation in std::iter::once(&mut from.relation).chain(joined) {
            let (TableFactor::Derived { alias: alias @ None, .. }
            | TableFactor::Table { alias: alias @ None, args: Some(_), .. }
            | TableFactor::Function { alias: alias @ None, .. }
            | TableFactor::UNNEST { alias: alias @ None, .. }) = relation
            else {
                continue;
            };
            *unnamed += 1;
            *alias = Some(build::alias(&Ident::with_quote('"', format!("joined ({unnamed})"))));
        }
    }
}
