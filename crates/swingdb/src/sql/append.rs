//! Appending Arrow batches (placeholder).

use arrow::array::RecordBatchReader;

use crate::error::{Error, Result};
use crate::sql::session::Session;

pub(crate) fn append_batches(_: &Session, _: &str, _: impl RecordBatchReader) -> Result<u64> {
    Err(Error::unsupported("append"))
}
