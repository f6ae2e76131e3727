//! `INSERT ... BY NAME`, and the alias of a table that takes rows, in a syntax tree.
//!
//! The parser's node has no place for BY NAME. It has one for the parts of a table, Hive's
//! PARTITION, where `*` stands for the columns that the query names: `INSERT INTO t AS t PARTITION
//! (*) SELECT ...`. The dialect reads this `*` ([`text::dialect`](crate::text::dialect)).
//!
//! Behind the name of the table the parser takes most words for an alias. So a text that has none
//! gets the table's own name as one ([`text::statement_forms`](crate::text::statement_forms)).

use datafusion::sql::sqlparser::ast::{Expr, Ident, Insert, TableObject};

use crate::ast::names::{last, quoted};

/// Whether values go to the columns that have their names.
pub fn is_by_name(insert: &Insert) -> bool {
    matches!(insert.partitioned.as_deref(), Some([Expr::Wildcard(_)]))
}

/// What the statement calls its table, if that is another name.
pub fn alias(insert: &Insert) -> Option<Ident> {
    let alias = &insert.table_alias.as_ref()?.alias;
    let own = match &insert.table {
        TableObject::TableName(name) => last(name),
        _ => None,
    };
    let is_own = own.is_some_and(|own| own.value.eq_ignore_ascii_case(&alias.value));
    (!is_own).then(|| quoted(&alias.value))
}
