//! The WITH clauses around a part of a statement: [`Withs`].

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Cte, ObjectName, ObjectNamePart, Query, TableWithJoins, Visit, Visitor, With,
};

/// The WITH clauses of the queries around what is visited in a syntax tree.
#[derive(Default)]
pub(crate) struct Withs(Vec<Level>);

struct Level {
    with: Option<With>,
    /// How many queries directly inside of this one have been entered: those of its WITH clause are
    /// the first.
    entered: usize,
}

impl Withs {
    /// For `pre_visit_query`.
    pub(crate) fn enter(&mut self, query: &Query) {
        if let Some(around) = self.0.last_mut() {
            around.entered = around.entered.saturating_add(1);
        }
        self.0.push(Level { with: query.with.clone(), entered: 0 });
    }

    /// For a query below this one that is no part of its WITH clause.
    pub(crate) fn enter_below(&mut self, query: &Query) {
        self.0.push(Level { with: query.with.clone(), entered: usize::MAX });
    }

    /// For `post_visit_query`.
    pub(crate) fn leave(&mut self) {
        self.0.pop();
    }

    /// Whether a name is that of a query here, and so of no table.
    pub(crate) fn has(&self, name: &str) -> bool {
        let mut queries = self.levels().into_iter().rev().flat_map(|ctes| ctes.iter().rev());
        queries.any(|cte| cte.alias.name.value.eq_ignore_ascii_case(name))
    }

    /// The queries that can be seen here, by the clause that they are in, the outermost first: of a
    /// WITH clause, inside of one of its queries, those before that.
    pub(crate) fn levels(&self) -> Vec<&[Cte]> {
        let levels = self.0.iter().enumerate().map(|(at, level)| {
            let is_innermost = at + 1 == self.0.len();
            let before = if is_innermost { usize::MAX } else { level.entered.saturating_sub(1) };
            let ctes = level.with.as_ref().map_or(&[][..], |with| with.cte_tables.as_slice());
            &ctes[..before.min(ctes.len())]
        });
        levels.collect()
    }

    /// A WITH clause of what a FROM clause needs.
    pub(crate) fn needed_by(&self, from: &[TableWithJoins]) -> Option<With> {
        let mut wanted = Wanted::default();
        let _ = Visit::visit(&from.to_vec(), &mut wanted);
        let mut needed = Vec::new();
        for cte in self.levels().into_iter().flatten().rev() {
            if wanted.0.contains(&cte.alias.name.value.to_lowercase()) {
                let _ = Visit::visit(&cte.query, &mut wanted);
                needed.push(cte.clone());
            }
        }
        needed.reverse();
        let recursive = self.0.iter().flat_map(|level| &level.with).any(|with| with.recursive);
        let with_token = AttachedToken::empty();
        (!needed.is_empty()).then_some(With { with_token, recursive, cte_tables: needed })
    }
}

/// The names of relations, in lower case.
#[derive(Default)]
struct Wanted(BTreeSet<String>);

impl Visitor for Wanted {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        if let [ObjectNamePart::Identifier(name)] = relation.0.as_slice() {
            self.0.insert(name.value.to_lowercase());
        }
        ControlFlow::Continue(())
    }
}
