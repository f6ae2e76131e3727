//! Answers of statements that tell something: small tables of texts and numbers.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{Field, Schema};
use swingdb_common::error::Result;

use crate::session::result::QueryResult;

/// One batch as a result.
pub(crate) fn result(columns: Vec<(&str, ArrayRef)>, tag: &'static str) -> Result<QueryResult> {
    let fields = columns
        .iter()
        .map(|(name, array)| Field::new(*name, array.data_type().clone(), array.null_count() > 0));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays)?;
    Ok(QueryResult::ready(schema, vec![batch], tag))
}

/// A column of texts.
pub(crate) fn strings(values: impl IntoIterator<Item = impl Into<String>>) -> ArrayRef {
    let values = values.into_iter().map(Into::into).collect::<Vec<String>>();
    Arc::new(StringArray::from(values))
}
