//! Columns that a stored table has only where the name it is read under asks for them: its
//! [row ids](ROWID_COLUMN), and the [places](PLACE_COLUMN) of its rows. SQL calls these `rowid`.

use arrow::datatypes::Schema;
use swingdb_store::Table;

/// Put behind a table's name, this names the same table with its row ids as one more, last column.
/// The control character keeps it apart from every name a user writes.
pub const ROWID_SUFFIX: &str = "\u{1}rowid";
/// The column of row ids: UInt64, never NULL; see [`RowId`](swingdb_store::RowId).
pub const ROWID_COLUMN: &str = "__rowid";
/// The same, also behind the other suffix, for the places of its rows as `rowid`.
pub const PLACE_SUFFIX: &str = "\u{1}places";
/// The column of places: Int64, never NULL, ascending in the order of the table. Deleted rows keep
/// theirs, as long as the table's segments stay.
pub const PLACE_COLUMN: &str = "rowid";

/// Columns that a table has only where they are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HiddenColumns {
    /// [`ROWID_COLUMN`].
    pub row_ids: bool,
    /// [`PLACE_COLUMN`].
    pub places: bool,
}

impl HiddenColumns {
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
