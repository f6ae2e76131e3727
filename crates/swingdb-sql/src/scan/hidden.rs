//! Columns that a stored table has only where the name it is read under asks for them: its
//! [row ids](ROWID_COLUMN), and the [places](PLACE_COLUMN) of its rows. SQL calls these `rowid`.

use arrow::datatypes::Schema;
use swingdb_common::hidden;
use swingdb_store::Table;

/// The column of row ids: UInt64, never NULL; see [`RowId`](swingdb_store::RowId).
pub const ROWID_COLUMN: &str = "__rowid";
/// The column of places: Int64, never NULL, ascending in the order of the table. Deleted rows keep
/// theirs, as long as the table's segments stay.
pub const PLACE_COLUMN: &str = "rowid";

/// Behind a table's name if it is read with [`ROWID_COLUMN`] as one more, last column.
const ROWID_SUFFIX: &str = hidden!("rowid");
/// The same for [`PLACE_COLUMN`], also behind the other suffix.
const PLACE_SUFFIX: &str = hidden!("places");

/// Columns that a table has only where they are asked for. They are asked for by the table's name,
/// which is all that the engine hands to a provider of tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HiddenColumns {
    /// [`ROWID_COLUMN`].
    pub row_ids: bool,
    /// [`PLACE_COLUMN`].
    pub places: bool,
}

impl HiddenColumns {
    /// The name under which a table has these columns: the opposite of [`of_name`](Self::of_name).
    pub fn name(self, table: &str) -> String {
        let row_ids = if self.row_ids { ROWID_SUFFIX } else { "" };
        let places = if self.places { PLACE_SUFFIX } else { "" };
        format!("{table}{row_ids}{places}")
    }

    /// The hidden columns that a name asks for by its suffixes, and the name without them.
    pub(crate) fn of_name(name: &str) -> (&str, Self) {
        let (name, places) = match name.strip_suffix(PLACE_SUFFIX) {
            Some(name) => (name, true),
            None => (name, false),
        };
        let (name, row_ids) = match name.strip_suffix(ROWID_SUFFIX) {
            Some(name) => (name, true),
            None => (name, false),
        };
        (name, Self { row_ids, places })
    }

    /// Those that `schema` has behind the columns of `table`.
    pub(crate) fn of_schema(schema: &Schema, table: &Table) -> Self {
        let hidden = schema.fields().iter().skip(table.columns().len());
        let has = |name: &str| hidden.clone().any(|field| field.name() == name);
        Self { row_ids: has(ROWID_COLUMN), places: has(PLACE_COLUMN) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_which_columns_there_are() {
        for (row_ids, places) in [(false, false), (false, true), (true, false), (true, true)] {
            let hidden = HiddenColumns { row_ids, places };
            assert_eq!(HiddenColumns::of_name(&hidden.name("t")), ("t", hidden));
        }
    }
}
