//! RETURNING: the changed rows, through a SELECT list.
//!
//! The rows (new values for INSERT and UPDATE, old ones for DELETE) are put under the table's name
//! as an in-memory table, and the list is run over it as an ordinary query, subqueries included.
//! The rows may have columns behind those of the table.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Fields, Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::{SelectItem, With};
use swingdb_common::cast::convert::nullable;
use swingdb_common::error::{Error, Result};
use swingdb_common::hidden;
use swingdb_common::names::free_name;
use swingdb_common::runtime::memory::AccountedRows;
use swingdb_sql::ast::build;
use swingdb_sql::ast::names::{last_part, quoted};
use swingdb_sql::ast::shown_names::column_name;
use swingdb_sql::ast::stars::excluded;
use swingdb_sql::text::parameters::Params;
use swingdb_store::{Catalog, RowId, Table};

use crate::execute::target::{Named, QualifiedName, Target, find_table};
use crate::session::Session;

/// The name of the in-memory table; no identifier a person writes contains a control character.
const RETURNED: &str = hidden!("returned");

/// Rows that are read at once: so many are in memory before their size is known.
const CHUNK_ROWS: usize = 8_192;

/// Full rows of the changed table.
pub(crate) struct Changed;

impl Changed {
    /// The rows `ids` of the table as it is in `catalog`.
    pub(crate) fn rows(
        catalog: &Catalog,
        target: &Target,
        ids: &[RowId],
        collected: &mut AccountedRows,
    ) -> Result<Vec<RecordBatch>> {
        let place = QualifiedName { schema: target.schema.clone(), name: target.name.clone() };
        let table = find_table(catalog, &place)?
            .ok_or_else(|| Error::internal("the changed table is gone"))?
            .table;
        let all: Vec<usize> = (0..table.columns().len()).collect();
        let rows = |ids: &[RowId]| {
            let rows = table.take(ids, &all)?;
            collected.add(&rows)?;
            Ok(rows)
        };
        match ids {
            [] => table.take(ids, &all).map(|none| vec![none]),
            ids => ids.chunks(CHUNK_ROWS).map(rows).collect(),
        }
    }
}

/// A RETURNING list.
pub(crate) struct Returning<'a> {
    named: &'a Named,
    items: &'a [SelectItem],
    with: Option<&'a With>,
}

impl<'a> Returning<'a> {
    pub(crate) fn new(named: &'a Named, items: &'a [SelectItem], with: Option<&'a With>) -> Self {
        Self { named, items, with }
    }

    /// The list for these rows.
    pub(crate) fn run(
        &self,
        session: &Session,
        params: &Params,
        rows: Vec<RecordBatch>,
        collected: &mut AccountedRows,
    ) -> Result<(SchemaRef, Vec<RecordBatch>)> {
        let relation = build::table(&[RETURNED], &self.named.alias);
        let items = told_apart(self.items, &self.named.target.table);
        let mut query = build::select(items, vec![build::from(relation)], None)?;
        let Target { schema, name, table } = &self.named.target;
        build::shorten_qualifiers(&mut query, schema, name, &quoted(&self.named.alias.value));
        let own = table.schema().fields();
        let more = rows.first().map(RecordBatch::schema);
        let more = more.iter().flat_map(|schema| schema.fields().iter().skip(own.len()));
        let shown: SchemaRef =
            Arc::new(Schema::new(own.iter().chain(more).cloned().collect::<Fields>()));
        let extra = [(RETURNED.to_string(), nullable(&shown), rows)];
        let plan = session.plan_with(&build::statement(query, self.with), params, &extra)?;
        let stream = session.run(plan)?;
        let schema = stream.schema();
        // A result that is too large is an error while the statement can still be undone.
        let mut meter = session.limits().meter();
        let counted = collected.over(stream).map(|batch| {
            let batch = batch?;
            meter.as_mut().map_or(Ok(()), |meter| meter.count(&batch))?;
            Ok(batch)
        });
        Ok((schema, counted.collect::<Result<Vec<_>>>()?))
    }
}

/// The list with other names for columns that are called as one before them, as in a SELECT:
/// `RETURNING *, a` gives `a` and `a_1`.
fn told_apart(items: &[SelectItem], table: &Table) -> Vec<SelectItem> {
    let mut used = BTreeSet::new();
    let mut told = Vec::with_capacity(items.len());
    for item in items {
        let (name, expr) = match item {
            SelectItem::ExprWithAlias { expr, alias } => (alias.value.clone(), expr),
            SelectItem::UnnamedExpr(expr) if let Some(name) = column_name(expr) => {
                (name.to_string(), expr)
            }
            SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) => {
                let left_out = excluded(options).iter().filter_map(|name| last_part(name).ok());
                let left_out = left_out.map(|name| name.to_lowercase()).collect::<Vec<_>>();
                let shown = table.columns().iter().map(|column| column.name.to_lowercase());
                used.extend(shown.filter(|name| !left_out.contains(name)));
                told.push(item.clone());
                continue;
            }
            _ => {
                told.push(item.clone());
                continue;
            }
        };
        let free = free_name(&name, |name| used.insert(name.to_lowercase()));
        told.push(if free == name { item.clone() } else { build::item(expr.clone(), free) });
    }
    told
}
