//! Tables of Arrow batches that a program gives, or a statement has: [`GivenTable`].
//!
//! The engine's own `MemTable` is dealt out to threads by the sizes of its batches, and forgets the
//! order of the rows. This table is cut into as many runs of batches as a plan has partitions, so
//! that the engine leaves them alone: the partitions one after the other are the rows in order,
//! which `InOrder` of `swingdb-sql` relies on.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, plan_err};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use swingdb_common::cast::encoded;
use swingdb_common::error;

/// The same rows without forms of arrays that other libraries have, and not all operators know.
pub(crate) fn plain(
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
) -> error::Result<(SchemaRef, Vec<RecordBatch>)> {
    let has_dictionary = |field: &FieldRef| matches!(field.data_type(), DataType::Dictionary(..));
    let field = |field: &FieldRef| match encoded::plain_type(field.data_type()) {
        Some(plain) => Arc::new(Field::new(field.name(), plain, true)),
        None if has_dictionary(field) && !field.is_nullable() => {
            Arc::new(field.as_ref().clone().with_nullable(true))
        }
        None => Arc::clone(field),
    };
    let fields = schema.fields().iter().map(field).collect::<Fields>();
    let changed = fields != *schema.fields();
    if !changed && !fields.iter().any(has_dictionary) {
        return Ok((schema, batches));
    }
    let plain = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    let batches = batches.into_iter().map(|batch| {
        let columns = batch.columns().iter().map(encoded::plain);
        let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns = columns.collect::<error::Result<Vec<_>>>()?;
        Ok(RecordBatch::try_new_with_options(Arc::clone(&plain), columns, &rows)?)
    });
    let batches = batches.collect::<error::Result<_>>()?;
    Ok((plain, batches))
}

/// Batches that stay as they are. See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct GivenTable {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl GivenTable {
    /// A table of batches, which all must have the columns that the schema says.
    pub(crate) fn try_new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Result<Self> {
        if batches.iter().any(|batch| !schema.contains(&batch.schema())) {
            return plan_err!("a batch of the table has other columns than the table");
        }
        Ok(GivenTable { schema, batches })
    }
}

#[async_trait]
impl TableProvider for GivenTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let parts = in_runs(&self.batches, state.config().target_partitions());
        let source = MemorySourceConfig::try_new(&parts, self.schema(), projection.cloned())?;
        Ok(DataSourceExec::from_data_source(source.with_limit(limit)))
    }
}

/// Batches as `parts` runs of about the same number of rows, or one each if there are fewer; none
/// of the runs is empty, unless there is nothing at all.
fn in_runs(batches: &[RecordBatch], parts: usize) -> Vec<Vec<RecordBatch>> {
    let parts = parts.clamp(1, batches.len().max(1));
    let rows = batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    let mut runs = vec![Vec::new(); parts];
    let (mut run, mut seen) = (0, 0);
    for (index, batch) in batches.iter().enumerate() {
        // The next run begins with its share of the rows, or when each batch left needs one.
        let is_due =
            seen >= rows.div_ceil(parts) * (run + 1) || batches.len() - index < parts - run;
        if is_due && !runs[run].is_empty() && run + 1 < parts {
            run += 1;
        }
        seen += batch.num_rows();
        runs[run].push(batch.clone());
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int64Array};

    fn batch(rows: usize) -> RecordBatch {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![0; rows]));
        RecordBatch::try_from_iter([("a", values)]).unwrap()
    }

    #[test]
    fn runs_keep_the_order_and_none_is_empty() {
        for sizes in [
            vec![],
            vec![3],
            vec![1; 8],
            vec![0, 0, 0, 5],
            vec![100, 1, 1, 1],
            vec![1, 1, 1, 100],
            (1..40).collect(),
        ] {
            let batches: Vec<_> = sizes.iter().map(|rows| batch(*rows)).collect();
            for parts in 1..10 {
                let runs = in_runs(&batches, parts);
                let flat: Vec<_> = runs.iter().flatten().map(RecordBatch::num_rows).collect();
                assert_eq!(flat, sizes, "{parts}");
                assert_eq!(runs.len(), parts.min(sizes.len()).max(1));
                assert!(sizes.is_empty() || runs.iter().all(|run| !run.is_empty()), "{sizes:?}");
            }
        }
        let even = in_runs(&vec![batch(10); 8], 4);
        assert!(even.iter().all(|run| run.len() == 2));
    }
}
