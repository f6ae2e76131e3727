//! Single values as messages show them.

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// Values longer than this are cut in messages.
const MAX_SHOWN_CHARS: usize = 60;

/// One value as a person would write it, cut when long.
pub fn show(array: &ArrayRef, row: usize) -> String {
    let options = FormatOptions::default();
    let text = match ArrayFormatter::try_new(array, &options) {
        Ok(formatter) => formatter.value(row).to_string(),
        Err(_) => "a value".to_string(),
    };
    let mut short: String = text.chars().take(MAX_SHOWN_CHARS).collect();
    if short.len() < text.len() {
        short.push_str("...");
    }
    match array.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => format!("'{short}'"),
        _ => short,
    }
}
