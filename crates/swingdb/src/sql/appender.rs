//! Appending row by row (placeholder).

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::sql::session::Session;
use crate::value::Value;

/// Appends rows to a table through a buffer.
pub struct Appender {}

impl Appender {
    pub(crate) fn new(_: Arc<Session>, _: &str) -> Result<Self> {
        Err(Error::unsupported("appender"))
    }

    /// Appends one row: a value for each column.
    pub fn append_row(&mut self, _row: &[Value]) -> Result<()> {
        Err(Error::unsupported("appender"))
    }

    /// Makes the rows appended so far visible; their number since the last flush.
    pub fn flush(&mut self) -> Result<u64> {
        Err(Error::unsupported("appender"))
    }
}
