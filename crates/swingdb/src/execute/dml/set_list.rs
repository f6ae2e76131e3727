//! `SET` lists of UPDATE, ON CONFLICT DO UPDATE and MERGE: which column gets which expression.

use std::collections::HashSet;

use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, ObjectName, Query, SelectItem, SetExpr,
};
use swingdb_common::error::{Error, Result};
use swingdb_sql::ast::build;
use swingdb_sql::ast::names::{last_part, parts};
use swingdb_store::{ColumnDef, Table};

use crate::execute::target::{check_given, column, twice};

/// A column (its index in the table) and the expression it gets.
#[derive(Clone, Debug)]
pub(crate) struct Set {
    pub(crate) column: usize,
    pub(crate) value: Expr,
}

/// Takes a SET list apart. `names` are what the target table may be called in it.
pub(crate) fn sets(table: &Table, list: &[Assignment], names: &[&str]) -> Result<Vec<Set>> {
    let mut sets = Vec::with_capacity(list.len());
    for assignment in list {
        match &assignment.target {
            AssignmentTarget::ColumnName(name) => {
                let column = target_column(table, name, names)?;
                sets.push(Set { column, value: assignment.value.clone() });
            }
            AssignmentTarget::Tuple(targets) => {
                let values = split(&assignment.value, targets.len())?;
                for (name, value) in targets.iter().zip(values) {
                    sets.push(Set { column: target_column(table, name, names)?, value });
                }
            }
        }
    }
    let mut seen = HashSet::new();
    for set in &mut sets {
        if !seen.insert(set.column) {
            return Err(twice(table, set.column));
        }
        set.value = stored_form(&set.value, &table.columns()[set.column])?;
    }
    Ok(sets)
}

fn target_column(table: &Table, name: &ObjectName, names: &[&str]) -> Result<usize> {
    let all = parts(name)?;
    let qualified = all.len() > 1;
    if qualified && !names.iter().any(|n| n.eq_ignore_ascii_case(&all[all.len() - 2])) {
        return Err(Error::plan(format!(
            "SET {name}: only whole columns of table {:?} can be set",
            table.name()
        )));
    }
    let column = column(table, &last_part(name)?)?;
    check_given(table, &[column]).map(|()| column)
}

/// `(a, b) = (1, 2)`, `= ROW(1, 2)`, or `= (SELECT x, y ...)`: one expression for each column.
fn split(value: &Expr, count: usize) -> Result<Vec<Expr>> {
    let values = match value {
        Expr::Tuple(values) => values.clone(),
        Expr::Struct { values, fields } if fields.is_empty() => values.clone(),
        Expr::Nested(inner) if count == 1 => vec![inner.as_ref().clone()],
        Expr::Subquery(query) => split_query(query)?,
        other if count == 1 => vec![other.clone()],
        other => {
            return Err(Error::plan(format!("SET (...) = {other}: {count} values are needed")));
        }
    };
    if values.len() != count {
        let given = values.len();
        return Err(Error::plan(format!("SET (...) has {count} columns, and {given} values")));
    }
    Ok(values)
}

fn split_query(query: &Query) -> Result<Vec<Expr>> {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return Err(Error::unsupported("SET (...) = a query that is no plain SELECT"));
    };
    let one = |index: usize, item: &SelectItem| match item {
        SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. } => {
            let mut query = query.clone();
            if let SetExpr::Select(select) = query.body.as_mut() {
                select.projection = vec![select.projection.swap_remove(index)];
            }
            Ok(Expr::Subquery(Box::new(query)))
        }
        other => Err(Error::unsupported(format!("SET (...) = (SELECT {other} ...)"))),
    };
    select.projection.iter().enumerate().map(|(index, item)| one(index, item)).collect()
}

/// DEFAULT becomes the column's default.
pub(crate) fn stored_form(value: &Expr, column: &ColumnDef) -> Result<Expr> {
    if build::is_default(value) {
        return match &column.default_sql {
            Some(sql) => build::parse_expr(sql).map(build::nested),
            None => Ok(build::null()),
        };
    }
    Ok(value.clone())
}
