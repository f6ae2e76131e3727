//! Relations of a FROM clause with a column that no `*` shows: stored tables whose
//! [places](crate::scan::hidden) are asked for, and sides of a POSITIONAL JOIN.

use std::ops::ControlFlow;

use datafusion::common::Column;
use datafusion::sql::sqlparser::ast::{
    ObjectNamePart, TableFactor, TableWithJoins, Visit, Visitor,
};
use swingdb_common::hidden;

use crate::ast::names::name_of;
use crate::scan::hidden::{HiddenColumns, PLACE_COLUMN};

/// The numbers of rows in a POSITIONAL JOIN.
pub(crate) const POSITION: &str = hidden!("position");

/// The relations of a FROM clause with a hidden column, by their names in expressions.
pub(crate) struct Hidden(Vec<String>);

impl Hidden {
    pub(crate) fn of(from: &[TableWithJoins]) -> Self {
        struct Search(Vec<String>);
        impl Visitor for Search {
            type Break = ();
            fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
                if let TableFactor::Table { name, .. } = factor
                    && let Some(ObjectNamePart::Identifier(last)) = name.0.last()
                    && HiddenColumns::of_name(&last.value).1.places
                {
                    self.0.extend(name_of(factor).map(|name| name.value.clone()));
                }
                ControlFlow::Continue(())
            }
        }
        let mut search = Search(Vec::new());
        for from in from {
            let _ = Visit::visit(from, &mut search);
        }
        Self(search.0)
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether no `*` shows a column.
    pub(crate) fn has(&self, column: &Column) -> bool {
        let of = column.relation.as_ref();
        let is_hidden = |name: &String| of.is_some_and(|of| of.table().eq_ignore_ascii_case(name));
        column.name == POSITION || column.name == PLACE_COLUMN && self.0.iter().any(is_hidden)
    }
}
