//! A table of the database as DataFusion sees it.
//!
//! [`SwingTable`] stands for one immutable version of a table. Reading goes through
//! [`SwingSource`]; everything that would change it returns an error: DataFusion hands DELETE and
//! UPDATE to a provider with conditions it cannot express simply left out, so such statements never
//! come this way.

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{ScanArgs, ScanResult, Session, TableProvider};
use datafusion::common::{Constraint as DfConstraint, Constraints, DFSchema, Statistics};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::dml::{InsertOp, MergeIntoClause};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use swingdb_store::{Constraint, Segment, Table};

use crate::options::BATCH_ROWS;
use crate::scan::hidden::{HiddenColumns, PLACE_COLUMN, ROWID_COLUMN};
use crate::scan::source::SwingSource;
use crate::scan::{narrow, pruning, sample, statistics};

/// One version of a table, for reading.
#[derive(Debug)]
pub(crate) struct SwingTable {
    table: Arc<Table>,
    /// The table's columns, and behind them the hidden ones that were asked for.
    schema: SchemaRef,
    constraints: Constraints,
}

impl SwingTable {
    pub(crate) fn new(table: Arc<Table>, hidden: HiddenColumns) -> Self {
        let mut schema = Arc::clone(table.schema());
        if hidden != HiddenColumns::default() {
            let mut fields = schema.fields().to_vec();
            if hidden.row_ids {
                fields.push(Arc::new(Field::new(ROWID_COLUMN, DataType::UInt64, false)));
            }
            if hidden.places {
                fields.push(Arc::new(Field::new(PLACE_COLUMN, DataType::Int64, false)));
            }
            schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
        }
        // Only primary keys: DataFusion takes a unique column with NULLs for a key all the same.
        let keys = table.constraints().iter().filter_map(|constraint| match constraint {
            Constraint::Primary(columns) => Some(DfConstraint::PrimaryKey(columns.clone())),
            Constraint::Unique(_) => None,
        });
        let constraints = Constraints::new_unverified(keys.collect());
        Self { table, schema, constraints }
    }

    /// The version of the table.
    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The scan of some columns of the rows that fulfil all filters.
    pub(super) fn plan_scan(
        &self,
        state: &dyn Session,
        projection: Option<&[usize]>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = DFSchema::try_from(Arc::clone(&self.schema))?;
        let mut conditions = Vec::with_capacity(filters.len());
        for filter in filters.iter().flat_map(split_conjunction) {
            conditions.push(state.create_physical_expr(filter.clone(), &schema)?);
        }
        let (segments, pruned) = match conditions.is_empty() {
            true => (with_index(&self.table.segments()?), 0),
            false => {
                let kept = pruning::select(&conditions, &self.schema, &self.table)?;
                let pruned = self.table.segment_count() - kept.len();
                (kept, pruned)
            }
        };
        let ranges = narrow::rows_of_interest(&self.table, &segments, &conditions)?;
        let few = ranges.as_ref().map(|ranges| ranges.iter().map(Range::len).sum::<usize>());
        let (conditions, share) = match few.filter(|rows| *rows <= BATCH_ROWS) {
            // To try them takes longer than to look at so few rows.
            Some(rows) => {
                (sample::safe_first(conditions), rows as f64 / self.table.row_count().max(1) as f64)
            }
            None => sample::in_order(&self.table, conditions),
        };
        // The first rows of a table are the same each time; there is nothing to do in parallel.
        let partitions = match limit {
            Some(_) if conditions.is_empty() => 1,
            _ => state.config().target_partitions(),
        };
        let all = (0..self.schema.fields().len()).collect::<Vec<_>>();
        let source = SwingSource::try_new(
            Arc::clone(&self.table),
            Arc::clone(&self.schema),
            segments,
            projection.unwrap_or(&all).to_vec(),
            partitions,
        )?
        .with_ranges(ranges)
        .with_limit(limit)
        .with_conditions(conditions, share)
        .with_pruned(pruned);
        Ok(DataSourceExec::from_data_source(source))
    }
}

/// The segments worth reading, each with its place in the table.
fn with_index(segments: &[Arc<Segment>]) -> Vec<(u32, Arc<Segment>)> {
    let kept = segments.iter().enumerate().filter(|(_, s)| s.live_rows() > 0);
    kept.map(|(i, segment)| (i as u32, Arc::clone(segment))).collect()
}

fn refused(what: &str) -> DataFusionError {
    DataFusionError::Internal(format!("{what} reached the reading side of a table"))
}

#[async_trait]
impl TableProvider for SwingTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn statistics(&self) -> Option<Statistics> {
        let all = (0..self.schema.fields().len()).collect::<Vec<_>>();
        statistics::of_table(&self.table, &all).ok()
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        // They decide which segments are read, and which rows of those are returned.
        Ok(vec![TableProviderFilterPushDown::Exact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.plan_scan(state, projection.map(Vec::as_slice), filters, limit)
    }

    async fn scan_with_args<'a>(
        &self,
        state: &dyn Session,
        args: ScanArgs<'a>,
    ) -> Result<ScanResult> {
        let filters = args.filters().unwrap_or(&[]);
        Ok(self.plan_scan(state, args.projection(), filters, args.limit())?.into())
    }

    async fn insert_into(
        &self,
        _state: &dyn Session,
        _input: Arc<dyn ExecutionPlan>,
        _insert_op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Err(refused("INSERT"))
    }

    async fn delete_from(
        &self,
        _state: &dyn Session,
        _filters: Vec<Expr>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Err(refused("DELETE"))
    }

    async fn update(
        &self,
        _state: &dyn Session,
        _assignments: Vec<(String, Expr)>,
        _filters: Vec<Expr>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Err(refused("UPDATE"))
    }

    async fn truncate(&self, _state: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        Err(refused("TRUNCATE"))
    }

    async fn merge_into(
        &self,
        _state: &dyn Session,
        _source: Arc<dyn ExecutionPlan>,
        _merge_schema: datafusion::common::DFSchemaRef,
        _on: Expr,
        _clauses: Vec<MergeIntoClause>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Err(refused("MERGE"))
    }
}
