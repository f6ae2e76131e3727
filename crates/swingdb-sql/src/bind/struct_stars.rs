//! `SELECT st.* FROM t`: the fields of a column that is a STRUCT.
//!
//! A relation of that name wins.

use std::ops::ControlFlow;

use arrow::datatypes::{DataType, Fields};
use datafusion::common::Column;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, Select, SelectItem, SelectItemQualifiedWildcardKind, Statement,
    TableFactor, TableWithJoins, Visit, Visitor, WildcardAdditionalOptions,
};
use swingdb_common::error::{Error, Result};

use crate::ast::build::reference;
use crate::ast::names::name_of;
use crate::ast::{build, stars};
use crate::bind::columns::{each_select, typed_of};
use crate::bind::lookahead::Lookahead;
use crate::bind::with_clauses::Withs;

/// Puts the fields for every `column.*` of a statement.
pub(crate) fn expand_structs(planner: &dyn Lookahead, statement: &mut Statement) -> Result<()> {
    each_select(statement, &mut |around, select| expand(planner, around, select))
}

fn expand(planner: &dyn Lookahead, around: &Withs, select: &mut Select) -> Result<()> {
    if !select.projection.iter().any(|item| star(item).is_some()) {
        return Ok(());
    }
    let relations = names(&select.from);
    let mut projection = Vec::with_capacity(select.projection.len());
    for item in std::mem::take(&mut select.projection) {
        let fields = match star(&item) {
            Some((path, options)) if !is_relation(&path, &relations) => {
                let is_named = |column: &Column| path.iter().any(|part| alike(part, &column.name));
                // What cannot be planned is an error of the whole statement.
                let columns = typed_of(planner, around, &select.from, &is_named);
                fields(&path, options, &columns.unwrap_or_default())?
            }
            _ => None,
        };
        match fields {
            Some(fields) => projection.extend(fields),
            None => projection.push(item),
        }
    }
    select.projection = projection;
    Ok(())
}

/// The path before the star of `a.b.*`.
fn star(item: &SelectItem) -> Option<(Vec<Ident>, &WildcardAdditionalOptions)> {
    match item {
        SelectItem::QualifiedWildcard(
            SelectItemQualifiedWildcardKind::ObjectName(ObjectName(parts)),
            options,
        ) => {
            let path = parts.iter().map(|part| part.as_ident().cloned());
            Some((path.collect::<Option<Vec<_>>>()?, options))
        }
        _ => None,
    }
}

/// The names that relations of a FROM clause have there.
fn names(from: &[TableWithJoins]) -> Vec<String> {
    struct Names(Vec<String>);
    impl Visitor for Names {
        type Break = ();
        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            self.0.extend(name_of(factor).map(lower));
            ControlFlow::Continue(())
        }
    }
    let mut names = Names(Vec::new());
    let _ = Visit::visit(&from.to_vec(), &mut names);
    names.0
}

fn alike(name: &Ident, other: &str) -> bool {
    name.value.eq_ignore_ascii_case(other)
}

fn lower(name: &Ident) -> String {
    name.value.to_lowercase()
}

fn is_relation(path: &[Ident], relations: &[String]) -> bool {
    path.last().is_some_and(|name| relations.contains(&lower(name)))
}

/// The fields that `path.*` means; `None` when it names no column.
fn fields(
    path: &[Ident],
    options: &WildcardAdditionalOptions,
    columns: &[(Column, DataType)],
) -> Result<Option<Vec<SelectItem>>> {
    let (place, below) = match path {
        [first, below @ ..] if columns.iter().any(|(c, _)| alike(first, &c.name)) => {
            (columns.iter().find(|(c, _)| alike(first, &c.name)), below)
        }
        [table, name, below @ ..] => {
            let of_table = |c: &Column| {
                alike(name, &c.name) && c.relation.as_ref().is_some_and(|r| alike(table, r.table()))
            };
            (columns.iter().find(|(c, _)| of_table(c)), below)
        }
        _ => (None, path),
    };
    let Some((column, kind)) = place else { return Ok(None) };
    let mut whole = match reference(column) {
        Expr::CompoundIdentifier(parts) => parts,
        Expr::Identifier(name) => vec![name],
        _ => return Ok(None),
    };
    let mut kind = kind;
    for part in below {
        let field = members(kind).and_then(|all| all.iter().find(|f| alike(part, f.name())));
        let Some(field) = field else { return Ok(None) };
        whole.push(Ident::with_quote('"', field.name()));
        kind = field.data_type();
    }
    let Some(members) = members(kind) else {
        let name = path.iter().map(ToString::to_string).collect::<Vec<_>>().join(".");
        return Err(Error::plan(format!("{name}.*: {name} is neither a table nor a STRUCT")));
    };
    let left_out = left_out(options)?;
    let kept = members.iter().filter(|f| !left_out.iter().any(|name| alike(name, f.name())));
    let items = kept.map(|field| {
        let mut parts = whole.clone();
        parts.push(Ident::with_quote('"', field.name()));
        build::item(Expr::CompoundIdentifier(parts), field.name().as_str())
    });
    Ok(Some(items.collect()))
}

fn members(kind: &DataType) -> Option<&Fields> {
    match kind {
        DataType::Struct(fields) => Some(fields),
        _ => None,
    }
}

/// The names that EXCLUDE leaves out.
fn left_out(options: &WildcardAdditionalOptions) -> Result<Vec<Ident>> {
    if options.opt_replace.is_some() || options.opt_rename.is_some() || options.opt_ilike.is_some()
    {
        return Err(Error::unsupported("REPLACE and RENAME of a STRUCT's fields; write them out"));
    }
    let last = |name: &ObjectName| name.0.last().and_then(|part| part.as_ident()).cloned();
    Ok(stars::excluded(options).iter().filter_map(last).collect())
}
