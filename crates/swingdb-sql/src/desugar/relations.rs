//! What the rewrites of this stage may know of the relations in a query: [`Relations`].

use datafusion::sql::sqlparser::ast::{Expr, Query, SelectItem, TableFactor, TableWithJoins};

/// Tells columns of relations, inside of the queries that have been entered and not left.
pub(crate) trait Relations {
    /// For `pre_visit_query`.
    fn enter(&mut self, query: &Query);

    /// For `post_visit_query`.
    fn leave(&mut self);

    /// The names of a relation's columns, if they are known.
    fn names_of(&self, factor: &TableFactor) -> Option<Vec<String>>;

    /// The columns that an item of a SELECT stands for, if they are known.
    fn columns_of(&self, item: &SelectItem, from: &[TableWithJoins]) -> Option<Vec<Expr>>;
}
