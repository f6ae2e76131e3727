//! The parts of nested values: lists, structs and maps.

use arrow::datatypes::DataType;

/// Whether this is the type of lists, structs or maps.
pub fn is_nested(data_type: &DataType) -> bool {
    use DataType::{FixedSizeList, LargeList, List, Map, Struct};
    matches!(data_type, List(_) | LargeList(_) | FixedSizeList(..) | Struct(_) | Map(..))
}

/// What is wrong with a text.
pub(super) type Wrong = &'static str;

/// NULL, or the text of a part.
pub(super) type Part = Option<String>;
