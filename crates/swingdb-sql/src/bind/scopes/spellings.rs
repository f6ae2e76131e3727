//! Whether a statement spells a name in several ways: [`are_several`].

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use datafusion::common::TableReference;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{
    Expr, Query, Select, SelectItem, Statement, TableAlias, TableFactor, VisitorMut,
};

use crate::ast::walk::walk_mut;
use crate::bind::catalogs::Found;
use crate::bind::lookahead::Lookahead;

/// Whether one of some names, in lower case, is spelled in several ways: by expressions, by what
/// the statement names so, or by the tables that it reads. What a file spells is not known: there
/// it is enough that the statement names something so.
pub(crate) fn are_several(
    planner: &dyn Lookahead,
    statement: &mut Statement,
    names: &BTreeSet<String>,
) -> bool {
    if names.is_empty() {
        return false;
    }
    let mut found =
        Spellings { planner, names, found: BTreeMap::new(), given: false, opaque: false };
    // Never breaks.
    let _ = walk_mut(statement, &mut found);
    found.given && found.opaque || found.found.values().any(|spellings| spellings.len() > 1)
}

struct Spellings<'a> {
    planner: &'a dyn Lookahead,
    names: &'a BTreeSet<String>,
    found: BTreeMap<String, BTreeSet<String>>,
    /// Whether the statement calls something by one of the names.
    given: bool,
    /// Whether it reads something whose columns only the planner knows.
    opaque: bool,
}

impl Spellings<'_> {
    fn add(&mut self, name: &str) -> bool {
        let folded = name.to_lowercase();
        let is_one = self.names.contains(&folded);
        if is_one {
            self.found.entry(folded).or_default().insert(name.to_string());
        }
        is_one
    }

    fn add_given(&mut self, name: &str) {
        self.given |= self.add(name);
    }

    fn add_alias(&mut self, alias: &TableAlias) {
        alias.columns.iter().for_each(|column| self.add_given(&column.name.value));
    }

    /// A table's columns.
    fn add_table(&mut self, reference: &TableReference) {
        match self.planner.view().find(reference) {
            Ok(Some(Found::Table { table, .. })) => {
                table.columns().iter().for_each(|column| {
                    self.add(&column.name);
                });
            }
            Ok(Some(_)) => {
                let schema = self.planner.columns(reference).ok().flatten();
                let fields = schema.iter().flat_map(|schema| schema.fields());
                fields.for_each(|field| {
                    self.add(field.name());
                });
            }
            _ => self.opaque |= crate::ast::names::looks_like_file(reference.table()),
        }
    }
}

impl VisitorMut for Spellings<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            self.add_alias(&cte.alias);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &select.projection {
            if let SelectItem::ExprWithAlias { alias, .. } = item {
                self.add_given(&alias.value);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { name, args: None, alias, .. } => {
                alias.iter().for_each(|alias| self.add_alias(alias));
                if let Ok(reference) = object_name_to_table_reference(name.clone(), false) {
                    self.add_table(&reference);
                }
            }
            TableFactor::Derived { alias, .. } | TableFactor::NestedJoin { alias, .. } => {
                alias.iter().for_each(|alias| self.add_alias(alias));
            }
            _ => self.opaque = true,
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let name = match expr {
            Expr::Identifier(name) => Some(&*name),
            Expr::CompoundIdentifier(parts) => parts.last(),
            _ => None,
        };
        if let Some(name) = name {
            self.add(&name.value);
        }
        ControlFlow::Continue(())
    }
}
