//! Which statements are short, as far as that can be told before they run.
//!
//! Where each commit waits for a disk, a transaction that has committed lets short statements go
//! first, and shares its sync with them (`swingdb-store/src/commit/group.rs`). It then waits for
//! them, so they must not wait for anybody else: a statement is short if all it reads are tables of
//! its own database, and if these have few rows. Streams and files of the program, its functions,
//! views and table functions make a statement one of any length.
//!
//! The number of rows is an estimate of time only. A statement that takes longer than it was
//! expected to is waited for all the same; nothing else depends on it.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{ObjectName, Query, TableFactor, Visit, Visitor, With};
use swingdb_store::Catalog;

use crate::execute::target::place;
use crate::session::Session;
use crate::session::transaction::Length;

/// The most rows of all tables that a short statement names. One core looks for a key in as many
/// in about the time of some syncs.
const MAX_ROWS: u64 = 4 << 20;
/// The most pairs of rows, where it names several tables: a join may look at each.
const MAX_PAIRS: u64 = 16 << 20;

/// The length of a statement of which these are the parts that read.
pub(crate) fn length_of<T: Visit>(session: &Session, parts: &[&T], with: Option<&With>) -> Length {
    // Nobody shares a sync where there is none.
    if !session.store().waits_for_disk() || session.has_functions() {
        return Length::Any;
    }
    let catalog = session.store().latest();
    let mut tables =
        Tables { session, catalog: &catalog, known: HashSet::new(), rows: 0, pairs: 1 };
    tables.know(with);
    let mut flow = with.map_or(ControlFlow::Continue(()), |with| with.visit(&mut tables));
    for part in parts {
        if flow.is_continue() {
            flow = part.visit(&mut tables);
        }
    }
    match flow {
        ControlFlow::Continue(()) => Length::Short,
        ControlFlow::Break(()) => Length::Any,
    }
}

/// The tables that a statement reads. Breaks off where it cannot be short.
struct Tables<'a> {
    session: &'a Session,
    catalog: &'a Catalog,
    /// Lowercase names of WITH queries, whose own tables are looked at where they are defined.
    known: HashSet<String>,
    rows: u64,
    pairs: u64,
}

impl Tables<'_> {
    fn know(&mut self, with: Option<&With>) {
        let tables = with.iter().flat_map(|with| &with.cte_tables);
        self.known.extend(tables.map(|table| table.alias.name.value.to_lowercase()));
    }

    /// Rows of a table of this database.
    fn rows_of(&self, name: &ObjectName) -> Option<u64> {
        let place = place(self.session, self.catalog, name).ok()?;
        let found = self.catalog.find_table(&place.schema, &place.name).ok()??;
        self.catalog.row_count(&place.schema, &found).ok()?
    }
}

impl Visitor for Tables<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        // What a recursive query takes, its text does not say.
        if query.with.as_ref().is_some_and(|with| with.recursive) {
            return ControlFlow::Break(());
        }
        self.know(query.with.as_ref());
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { args: None, .. }
            | TableFactor::Derived { .. }
            | TableFactor::NestedJoin { .. } => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    }

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
        if let [part] = name.0.as_slice()
            && let Some(ident) = part.as_ident()
            && self.known.contains(&ident.value.to_lowercase())
        {
            return ControlFlow::Continue(());
        }
        let Some(rows) = self.rows_of(name) else { return ControlFlow::Break(()) };
        self.rows = self.rows.saturating_add(rows);
        self.pairs = self.pairs.saturating_mul(rows.max(1));
        let one = self.pairs == self.rows.max(1);
        match self.rows <= MAX_ROWS && (one || self.pairs <= MAX_PAIRS) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    }
}
