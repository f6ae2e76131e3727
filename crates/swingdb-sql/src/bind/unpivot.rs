//! UNPIVOT: a row for each of several columns, as in DuckDB.
//!
//! `UNPIVOT t ON a, b INTO NAME k VALUE v` is `SELECT rest, k, v FROM (SELECT rest,
//! unnest(['a', 'b']) AS k, unnest([a, b]) AS v FROM t) WHERE v IS NOT NULL`: the source is read
//! once. With INCLUDE NULLS the condition is left out.
//!
//! **Cycle.** The walk calls both forms, which ask it for the queries around them.

use std::collections::BTreeSet;

use arrow::datatypes::DataType;
use datafusion::common::Column;
use datafusion::sql::sqlparser::ast::{
    Array, Expr, ExprWithAlias, Ident, NullInclusion, SelectItem, SetExpr, Statement, TableFactor,
};
use swingdb_common::error::{Error, Result};
use swingdb_common::names::free_name;

use crate::ast::build;
use crate::ast::build::{call, text};
use crate::bind::columns;
use crate::bind::columns::typed_of;
use crate::bind::lookahead::Columns;
use crate::bind::pivot::{column, find, names_in};
use crate::bind::pivots::Turner;

/// What becomes one row: its name, and an expression for each value.
struct Entry {
    name: String,
    values: Vec<Expr>,
}

/// The query for an UNPIVOT.
pub(crate) fn turned(turner: &Turner<'_>, factor: &TableFactor) -> Result<TableFactor> {
    let TableFactor::Unpivot { table, value, null_inclusion, name, columns, alias } = factor else {
        return Err(Error::internal("no UNPIVOT"));
    };
    let from = build::from(table.as_ref().clone());
    let source = std::slice::from_ref(&from);
    let all = columns::all_of(turner.planner, &turner.around, source)?.into_iter();
    let names: Vec<String> = all.map(|column| column.name).collect();
    let values = value_names(value)?;
    let (entries, used) = entries(turner, table, columns, &names, values.len())?;
    let is_used = |column: &Column| used.contains(&column.name);
    check_types(&entries, &typed_of(turner.planner, &turner.around, source, &is_used)?)?;
    let mut taken = BTreeSet::new();
    let mut items = Vec::new();
    let mut shown = Vec::new();
    for kept in names.iter().filter(|name| !used.contains(*name)) {
        taken.insert(kept.to_lowercase());
        shown.push(kept.clone());
        items.push(build::item(column(kept), kept.as_str()));
    }
    let mut add = |wanted: &Ident, elements: Vec<Expr>| {
        let free = free_name(&wanted.value, |name| taken.insert(name.to_lowercase()));
        let list = Expr::Array(Array { elem: elements, named: false });
        items.push(build::item(call("unnest", [list]), free.as_str()));
        shown.push(free.clone());
        free
    };
    add(name, entries.iter().map(|entry| text(&entry.name)).collect());
    let mut present = Vec::new();
    for (index, value) in values.iter().enumerate() {
        let elements = entries.iter().filter_map(|entry| entry.values.get(index).cloned());
        let free = add(value, elements.collect());
        present.push(Expr::IsNotNull(Box::new(column(&free))));
    }
    let rows = build::derived(build::select(items, vec![from], None)?, None);
    let condition = match null_inclusion {
        Some(NullInclusion::IncludeNulls) => None,
        _ => Some(build::all(present)),
    };
    let shown = shown.into_iter().map(|name| build::item(column(&name), name)).collect();
    Ok(build::derived(build::select(shown, vec![build::from(rows)], condition)?, alias.clone()))
}

/// The names of the columns of values.
fn value_names(value: &Expr) -> Result<Vec<Ident>> {
    let parts = match value {
        Expr::Tuple(parts) => parts.as_slice(),
        Expr::Nested(inner) => return value_names(inner),
        other => std::slice::from_ref(other),
    };
    let names = parts.iter().map(|part| match part {
        Expr::Identifier(name) => Ok(name.clone()),
        other => Err(Error::plan(format!("UNPIVOT: {other} is no name for a column of values"))),
    });
    names.collect()
}

/// What becomes rows, and the columns that are used up for them.
fn entries(
    turner: &Turner<'_>,
    table: &TableFactor,
    given: &[ExprWithAlias],
    source: &[String],
    width: usize,
) -> Result<(Vec<Entry>, BTreeSet<String>)> {
    let (mut entries, mut used) = (Vec::new(), BTreeSet::new());
    for ExprWithAlias { expr, alias } in given {
        for values in chosen(turner, table, expr)? {
            if values.len() != width {
                return Err(Error::plan(format!(
                    "UNPIVOT has {width} columns of values, and {} of them for {expr}",
                    values.len()
                )));
            }
            let mut parts = Vec::new();
            for value in &values {
                let mentioned = names_in(value, source);
                if let (Expr::Identifier(name), true) = (value, mentioned.is_empty()) {
                    find(source, name)?;
                }
                let [name] = mentioned.as_slice() else {
                    return Err(Error::plan(format!(
                        "UNPIVOT ON {value}, which is not one column"
                    )));
                };
                used.insert(name.clone());
                parts.push(name.clone());
            }
            let name = alias.as_ref().map_or_else(|| parts.join("_"), |alias| alias.value.clone());
            entries.push(Entry { name, values });
        }
    }
    Ok((entries, used))
}

/// The values of each row that an expression means: several rows for COLUMNS.
fn chosen(turner: &Turner<'_>, table: &TableFactor, expr: &Expr) -> Result<Vec<Vec<Expr>>> {
    match expr {
        Expr::Tuple(parts) => return Ok(vec![parts.clone()]),
        Expr::Nested(inner) => return chosen(turner, table, inner),
        _ => {}
    }
    let from = vec![build::from(table.clone())];
    let mut query = build::select(vec![SelectItem::UnnamedExpr(expr.clone())], from.clone(), None)?;
    query.with = turner.around.needed_by(&from);
    let mut statement = build::statement(query, None);
    columns::expand(turner.planner, &mut statement)?;
    let Statement::Query(query) = statement else { return Err(Error::internal("no query")) };
    let SetExpr::Select(select) = *query.body else { return Err(Error::internal("no SELECT")) };
    let rows = select.projection.into_iter().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(vec![expr]),
        _ => None,
    });
    Ok(rows.collect())
}

/// Text and other values do not become one column.
fn check_types(entries: &[Entry], source: &Columns) -> Result<()> {
    let width = entries.first().map_or(0, |entry| entry.values.len());
    let of = |name: &Ident| {
        let mut found = source.iter().filter(|(c, _)| c.name.eq_ignore_ascii_case(&name.value));
        found.next().map(|(column, kind)| (&column.name, kind))
    };
    for index in 0..width {
        let kinds = entries.iter().filter_map(|entry| match entry.values.get(index)? {
            Expr::Identifier(name) => of(name),
            Expr::CompoundIdentifier(parts) => of(parts.last()?),
            _ => None,
        });
        let kinds: Vec<_> = kinds.collect();
        let text = kinds.iter().find(|(_, kind)| is_text(kind));
        let other = kinds.iter().find(|(_, kind)| !is_text(kind) && **kind != DataType::Null);
        if let (Some((text, _)), Some((other, _))) = (text, other) {
            return Err(Error::plan(format!(
                "UNPIVOT of {text}, which is text, and {other}, which is not; write a cast: \
                 {other}::VARCHAR"
            )));
        }
    }
    Ok(())
}

fn is_text(kind: &DataType) -> bool {
    matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}
