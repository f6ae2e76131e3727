//! Plans that name their tables instead of holding them.
//!
//! A plan that is kept for later must not hold versions of tables: their memory would stay. So the
//! scans of a plan get the names of their tables ([`with_names`]), and later the tables that have
//! these names then ([`with_tables`]).

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    Expr, LogicalPlan, TableProviderFilterPushDown, TableScan, TableSource,
};
use swingdb_common::error::{Error, Result};
use swingdb_store::Catalog;

use crate::scan::hidden::HiddenColumns;
use crate::scan::table::SwingTable;

/// Stands for a table of a catalog.
struct NamedTable {
    schema: SchemaRef,
    schema_name: String,
    name: String,
    hidden: HiddenColumns,
}

impl TableSource for NamedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// As of the table itself.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>, DataFusionError> {
        Ok(vec![TableProviderFilterPushDown::Exact; filters.len()])
    }
}

/// The plan with names for its tables; `None` if it reads anything but tables of this catalog.
pub fn with_names(plan: LogicalPlan, catalog: &Catalog) -> Result<Option<LogicalPlan>> {
    let mut reads_others = false;
    let plan = with_sources(plan, |scan| {
        let named = named(scan, catalog);
        reads_others |= named.is_none();
        Ok(named.map(|named| Arc::new(named) as _))
    })?;
    Ok((!reads_others).then_some(plan))
}

/// The plan with the tables that its names mean in this catalog, which must define the same as that
/// which gave the names.
pub fn with_tables(plan: LogicalPlan, catalog: &Catalog) -> Result<LogicalPlan> {
    with_sources(plan, |scan| {
        let Some(named) = scan.source.downcast_ref::<NamedTable>() else { return Ok(None) };
        let table = catalog.table(&named.schema_name, &named.name)?;
        let table = table.ok_or_else(|| Error::internal("a table of a kept plan is gone"))?;
        let table = SwingTable::new(table, named.hidden);
        Ok(Some(provider_as_source(Arc::new(table))))
    })
}

fn named(scan: &TableScan, catalog: &Catalog) -> Option<NamedTable> {
    let provider = source_as_provider(&scan.source).ok()?;
    let read = provider.downcast_ref::<SwingTable>()?;
    let table = read.table();
    let (schema_name, name) = (table.schema_name().to_string(), table.name().to_string());
    let known = catalog.table(&schema_name, &name).ok()??;
    let schema = scan.source.schema();
    let hidden = HiddenColumns::of_schema(&schema, table);
    Arc::ptr_eq(&known, table).then_some(NamedTable { schema, schema_name, name, hidden })
}

/// The plan with other sources for its scans; `None` leaves a scan as it is. Scans that had one
/// source have one again: by that, parts of a plan are known to read the same
/// ([`crate::plan::materialized_parts`]).
fn with_sources(
    plan: LogicalPlan,
    mut other: impl FnMut(&TableScan) -> Result<Option<Arc<dyn TableSource>>>,
) -> Result<LogicalPlan> {
    let mut known: Vec<[Arc<dyn TableSource>; 2]> = Vec::new();
    let plan = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::TableScan(mut scan) = node else { return Ok(Transformed::no(node)) };
        let found = known.iter().find(|[before, _]| Arc::ptr_eq(before, &scan.source));
        let source = match found {
            Some([_, source]) => Some(Arc::clone(source)),
            None => other(&scan).map_err(DataFusionError::from)?,
        };
        let Some(source) = source else {
            return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
        };
        if found.is_none() {
            known.push([Arc::clone(&scan.source), Arc::clone(&source)]);
        }
        scan.source = source;
        Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
    });
    Ok(plan.data()?)
}
