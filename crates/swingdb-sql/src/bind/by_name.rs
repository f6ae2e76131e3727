//! `UNION BY NAME`: columns of the same name in whatever case are one, and each is there once.
//!
//! The engine tells names apart by their case, and would make of `SELECT 1 AS x UNION BY NAME
//! SELECT 2 AS X` two columns. So columns of the right side get the spelling of the left. A name
//! that is in one SELECT list twice does not say which column it meets: it is an error.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, SetExpr, SetOperator, Statement, VisitorMut,
};
use swingdb_common::error::{Error, Result};

use crate::ast::build;
use crate::ast::shown_names::{are_same, is_by_name, shown_names};
use crate::ast::walk::walk_mut;
use crate::bind::columns::columns_of;
use crate::bind::lookahead::Lookahead;
use crate::bind::with_clauses::Withs;

/// Lets the columns of each UNION BY NAME have names that are the same, or differ.
pub(crate) fn match_names(planner: &dyn Lookahead, statement: &mut Statement) -> Result<()> {
    let mut matcher = Matcher { planner, around: Withs::default(), failed: None };
    // Breaks only with an error, which the walk keeps.
    let _ = walk_mut(statement, &mut matcher);
    matcher.failed.map_or(Ok(()), Err)
}

struct Matcher<'a> {
    planner: &'a dyn Lookahead,
    around: Withs,
    failed: Option<Error>,
}

impl VisitorMut for Matcher<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.around.enter(query);
        match self.settle(&mut query.body) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.around.leave();
        ControlFlow::Continue(())
    }
}

impl Matcher<'_> {
    /// From the innermost outwards.
    fn settle(&self, body: &mut SetExpr) -> Result<()> {
        let SetExpr::SetOperation { op, set_quantifier, left, right } = body else {
            return Ok(());
        };
        self.settle(left)?;
        self.settle(right)?;
        if *op != SetOperator::Union || !is_by_name(*set_quantifier) {
            return Ok(());
        }
        let (Some(known), Some(names)) = (self.names(left), self.names(right)) else {
            return Ok(());
        };
        each_once(&known)?;
        each_once(&names)?;
        let spelt = |name: &String| known.iter().find(|other| are_same(name, other));
        if names.iter().any(|name| spelt(name).is_some_and(|other| other != name)) {
            let items = names.iter().map(|name| {
                let column = Expr::Identifier(Ident::with_quote('"', name));
                build::item(column, spelt(name).unwrap_or(name).clone())
            });
            let side = SetExpr::clone(right);
            let relation =
                build::derived(build::query(side), Some(build::alias(&Ident::new("side"))));
            **right = *build::select(items.collect(), vec![build::from(relation)], None)?.body;
        }
        Ok(())
    }

    /// The names of a query's columns as they are written, if they are known.
    fn names(&self, body: &SetExpr) -> Option<Vec<String>> {
        shown_names(body, &|star, from| {
            let columns = columns_of(self.planner, &self.around, star.clone(), from).ok()?;
            Some(columns.into_iter().map(|column| column.name).collect())
        })
    }
}

fn each_once(names: &[String]) -> Result<()> {
    for (place, name) in names.iter().enumerate() {
        if names[..place].iter().any(|other| are_same(name, other)) {
            return Err(Error::plan(format!(
                "UNION BY NAME: two columns of one side are named {name:?}; give one another name"
            )));
        }
    }
    Ok(())
}
