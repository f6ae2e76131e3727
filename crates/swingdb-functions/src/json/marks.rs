//! Fields whose texts are JSON: marked in their metadata.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{Field, FieldRef};

/// In the metadata of a field: its texts are JSON.
const IS_JSON: &str = "swingdb.json";

/// The field of texts that are JSON.
pub(super) fn mark(field: Field) -> FieldRef {
    Arc::new(field.with_metadata(HashMap::from([(IS_JSON.to_string(), String::new())])))
}

/// Whether a field says that its texts are JSON.
pub fn is_marked(field: &Field) -> bool {
    field.metadata().contains_key(IS_JSON) && field.data_type().is_string()
}
