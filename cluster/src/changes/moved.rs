//! UPDATE of the column by which a table is cut: its rows go to the nodes of their new values.
//!
//! The coordinator computes the new rows by a query on the state before, has the nodes delete the
//! old ones, and deals the new ones out. Nodes check keys and conditions as they come.

use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, Ident, Statement, TableFactor,
};
use swingdb_sql::ast::build;
use swingdb_sql::text::parser::parse;
use swingdb_sql::text::statement::Parsed;

use crate::error::{Result, refused};
use crate::names::is_same;
use crate::session::Known;

/// The parts of an UPDATE that moves rows.
#[derive(Debug, PartialEq)]
pub(crate) struct Moved {
    /// The query of the new rows: all columns of the table.
    pub(crate) query: String,
    /// The statement that takes the old ones away.
    pub(crate) delete: String,
    /// `RETURNING ...`, or nothing.
    pub(crate) returning: String,
}

impl Moved {
    /// Takes an UPDATE of a table apart.
    pub(crate) fn of(sql: &str, known: &Known) -> Result<Self> {
        let what = "UPDATE of the column by which a table is cut, or with random values";
        let Some(Parsed::Sql(statement)) = parse(sql)?.pop_front() else { return refused(what) };
        let Statement::Update(update) = *statement else { return refused(what) };
        if update.from.is_some() || !update.table.joins.is_empty() {
            return refused(format!("{what} with FROM: write a subquery as its value"));
        }
        let is_other = update.or.is_some() || update.limit.is_some() || !update.order_by.is_empty();
        let TableFactor::Table { name, alias, .. } = &update.table.relation else {
            return refused(what);
        };
        if is_other || update.output.is_some() {
            return refused(format!("this form of {what}"));
        }
        if alias.is_some() && update.returning.is_some() {
            return refused(format!("{what} with another name for the table and RETURNING"));
        }
        let last = name.0.last().and_then(|part| part.as_ident());
        let called = alias.as_ref().map(|alias| &alias.name).or(last);
        let called = called.map_or("", |name| name.value.as_str());
        let values = update.assignments.iter().map(|one| Ok((column(one, called)?, &one.value)));
        let values = values.collect::<Result<Vec<_>>>()?;
        let fields = known.schema.fields().iter().enumerate().map(|(nth, field)| {
            let value = values.iter().find(|(name, _)| is_same(name, field.name()));
            let own = || Expr::Identifier(Ident::with_quote('"', field.name()));
            // Two of them may be the same expression.
            build::item(value.map_or_else(own, |(_, value)| (*value).clone()), format!("c{nth}"))
        });
        let (table, condition) = (update.table.clone(), update.selection.clone());
        let made = build::select(fields.collect(), vec![table.clone()], condition.clone())?;
        let query = made.to_string();
        // What is run has to be what was meant.
        match parse(&query)?.pop_front() {
            Some(Parsed::Sql(read)) if *read == Statement::Query(Box::new(made)) => {}
            _ => return refused(format!("this form of {what}: {query}")),
        }
        let condition = condition.map_or_else(String::new, |one| format!(" WHERE {one}"));
        let delete = format!("DELETE FROM {table}{condition}");
        let returning = update.returning.iter().map(|items| {
            let items = items.iter().map(ToString::to_string).collect::<Vec<_>>();
            format!("RETURNING {}", items.join(", "))
        });
        Ok(Self { query, delete, returning: returning.collect() })
    }
}

/// The column of an assignment; `table` is what the statement calls the table.
fn column(assignment: &Assignment, table: &str) -> Result<String> {
    if build::is_default(&assignment.value) {
        return refused("DEFAULT in an UPDATE that moves rows to other nodes: write the value");
    }
    let parts = match &assignment.target {
        AssignmentTarget::ColumnName(name) => {
            name.0.iter().map(|part| part.as_ident()).collect::<Option<Vec<_>>>()
        }
        AssignmentTarget::Tuple(_) => None,
    };
    match parts.as_deref() {
        Some([column]) => Ok(column.value.clone()),
        Some([of, column]) if is_same(&of.value, table) => Ok(column.value.clone()),
        _ => refused(format!("an UPDATE of {} that moves rows to other nodes", assignment.target)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cut::Cut;
    use arrow::datatypes::{DataType, Field, Schema};
    use std::sync::Arc;

    fn moved(sql: &str) -> Result<Moved> {
        let fields = ["k", "a b", "c"].map(|name| Field::new(name, DataType::Int64, true));
        let schema = Arc::new(Schema::new(fields.to_vec()));
        Moved::of(sql, &Known::empty(schema, Cut::Hash { column: "k".to_string() }))
    }

    #[test]
    fn new_rows_are_a_query_and_old_ones_are_deleted() {
        let made = moved("UPDATE t SET K = k + 1, t.c = (SELECT max(x) FROM u) WHERE c > 2");
        let made = made.unwrap();
        let query = "SELECT k + 1 AS 'c0', 'a b' AS 'c1', (SELECT max(x) FROM u) AS 'c2' \
                     FROM t WHERE c > 2";
        assert_eq!(made.query.replace('"', "'"), query);
        assert_eq!(made.delete, "DELETE FROM t WHERE c > 2");
        assert_eq!(made.returning, "");
        let made = moved("UPDATE t SET k = 1 RETURNING k, c + 1 AS d").unwrap();
        assert_eq!(made.delete, "DELETE FROM t");
        assert_eq!(made.returning, "RETURNING k, c + 1 AS d");
        let made = moved("UPDATE t AS x SET k = x.c WHERE x.k = 3").unwrap();
        assert_eq!(made.delete, "DELETE FROM t AS x WHERE x.k = 3");
        for sql in [
            "UPDATE t SET k = u.k FROM u WHERE t.c = u.c",
            "UPDATE t SET k = DEFAULT",
            "UPDATE t SET (k, c) = (1, 2)",
            "UPDATE t AS x SET k = 1 RETURNING x.c",
        ] {
            assert!(moved(sql).is_err(), "{sql}");
        }
    }
}
