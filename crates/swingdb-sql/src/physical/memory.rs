//! How much memory rows are expected to take, and how much there is.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use swingdb_functions::bounded::MemoryLeft;

/// Bytes of a value that has no fixed width, and what a row takes in a table besides.
const VALUE_BYTES: usize = 64;
const ENTRY_BYTES: usize = 16;

/// What all operators of a session may hold together, if that is bounded.
pub(crate) fn memory_limit(config: &ConfigOptions) -> Option<usize> {
    match config.extensions.get::<MemoryLeft>()?.0.memory_limit() {
        MemoryLimit::Finite(limit) => Some(limit),
        _ => None,
    }
}

/// What a hash table of a plan's rows takes, if it is known how many there may be.
pub(crate) fn table_bytes(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    let known = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new()).ok()?;
    let of_row = row_bytes(&plan.schema(), VALUE_BYTES) + ENTRY_BYTES;
    Some(known.num_rows.get_value()?.saturating_mul(of_row))
}

/// Bytes of a row, where values that have no fixed width take so many.
pub(crate) fn row_bytes(schema: &SchemaRef, value_bytes: usize) -> usize {
    let width = |of: &DataType| match of {
        DataType::Null => 0,
        DataType::Boolean => 1,
        other => other.primitive_width().unwrap_or(value_bytes),
    };
    schema.fields().iter().map(|field| width(field.data_type())).sum()
}
