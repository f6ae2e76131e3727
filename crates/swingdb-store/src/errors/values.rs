//! Values of rows as errors show them.

use arrow::array::{Array, ArrayRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// A value for a message.
pub(crate) fn shown(column: &ArrayRef, row: usize) -> String {
    let options = FormatOptions::default().with_null("NULL");
    let formatted = ArrayFormatter::try_new(column.as_ref(), &options);
    let text = formatted.map(|f| f.value(row).to_string()).unwrap_or_default();
    if column.data_type().is_string() && column.is_valid(row) { format!("'{text}'") } else { text }
}
