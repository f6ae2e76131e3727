//! The walk that puts queries for PIVOT and UNPIVOT.
//!
//! It comes before all other rewrites, which then see ordinary queries. A PIVOT that does not say
//! which values it has asks for them: the query for that is answered from the same view of the data
//! that the statement is planned against.
//!
//! **Cycle.** The walk calls both forms, which ask it for the queries around them.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Query, Statement, TableFactor, VisitorMut};
use swingdb_common::error::{Error, Result};

use crate::ast::walk::walk_mut;
use crate::bind::lookahead::Lookahead;
use crate::bind::with_clauses::Withs;
use crate::bind::{pivot, unpivot};

/// Puts a query for every PIVOT and UNPIVOT of a statement.
pub fn turn_tables(planner: &dyn Lookahead, statement: &mut Statement) -> Result<()> {
    let in_view = matches!(statement, Statement::CreateView(_));
    let mut turner = Turner { planner, in_view, around: Withs::default(), failed: None };
    // Breaks only with an error, which the walk keeps.
    let _ = walk_mut(statement, &mut turner);
    turner.failed.map_or(Ok(()), Err)
}

pub(crate) struct Turner<'a> {
    pub planner: &'a dyn Lookahead,
    /// Whether the statement makes a view, whose columns must not depend on rows.
    pub in_view: bool,
    pub around: Withs,
    failed: Option<Error>,
}

impl VisitorMut for Turner<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.around.enter(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.around.leave();
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let turned = match factor {
            TableFactor::Pivot { .. } => pivot::turned(self, factor),
            TableFactor::Unpivot { .. } => unpivot::turned(self, factor),
            _ => return ControlFlow::Continue(()),
        };
        match turned {
            Ok(turned) => {
                *factor = turned;
                ControlFlow::Continue(())
            }
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}
