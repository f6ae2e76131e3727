//! Rows that are there already, as a plan: [`HeldRowsExec`].

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{SpillFile, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExprRef};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::spill::SpillManager;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    SendableRecordBatchStream,
};
use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;

/// Where rows are held.
pub(super) enum Held {
    Memory(Vec<RecordBatch>),
    Files(Vec<Arc<dyn SpillFile>>, SpillManager),
}

/// One partition of rows that one execution takes.
pub(super) struct HeldRowsExec {
    held: Mutex<Option<Held>>,
    properties: Arc<PlanProperties>,
}

impl fmt::Debug for HeldRowsExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HeldRowsExec")
    }
}

impl HeldRowsExec {
    pub(super) fn plan(schema: SchemaRef, held: Held) -> Arc<dyn ExecutionPlan> {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Arc::new(Self { held: Mutex::new(Some(held)), properties: Arc::new(properties) })
    }
}

impl DisplayAs for HeldRowsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HeldRowsExec")
    }
}

impl ExecutionPlan for HeldRowsExec {
    fn name(&self) -> &str {
        "HeldRowsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&PhysicalExprRef) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let schema = self.schema();
        let rows = match self.held.lock().take() {
            None => stream::empty().boxed(),
            Some(Held::Memory(batches)) => stream::iter(batches.into_iter().map(Ok)).boxed(),
            Some(Held::Files(files, manager)) => {
                let read = move |file| manager.read_spill_as_stream(file, None);
                stream::iter(files).map(read).try_flatten().boxed()
            }
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}
