//! What stands behind a `*`: the columns it shows without those that EXCLUDE names, and what
//! REPLACE and RENAME make of them.
//!
//! The query engine replaces columns whose names are spelled in the very same way, leaves other
//! names in REPLACE out without a word, and knows no RENAME; of several relations' columns of one
//! name it excludes the first. Here a name is that of a column without regard to case, as in
//! DuckDB, the column gets the name that is written, EXCLUDE means the columns of all relations,
//! and a name of no column is an error.

use datafusion::common::Column;
use datafusion::sql::sqlparser::ast::{
    ExcludeSelectItem, Expr, Function, Ident, IdentWithAlias, ObjectName, RenameSelectItem,
    SelectItem, WildcardAdditionalOptions,
};
use swingdb_common::error::{Error, ObjectKind, Result};

use crate::ast::build::reference;
use crate::ast::names::parts;

/// A column that a `*` shows.
pub(crate) struct Shown {
    pub name: Ident,
    pub value: Expr,
    /// Whether it is not simply a column of a relation.
    is_new: bool,
}

impl Shown {
    pub fn of(column: &Column) -> Self {
        let name = Ident::with_quote('"', &column.name);
        Self { name, value: reference(column), is_new: false }
    }

    pub fn into_item(self) -> SelectItem {
        match self.is_new {
            true => SelectItem::ExprWithAlias { expr: self.value, alias: self.name },
            false => SelectItem::UnnamedExpr(self.value),
        }
    }
}

/// The call of a COLUMNS.
pub(crate) fn columns_call(expr: &Expr) -> Option<&Function> {
    match expr {
        Expr::Function(call) => match call.name.0.as_slice() {
            [part] => {
                let name = part.as_ident().filter(|ident| ident.quote_style.is_none())?;
                name.value.eq_ignore_ascii_case("columns").then_some(call)
            }
            _ => None,
        },
        _ => None,
    }
}

/// Whether a `*` shows less than all columns, or others.
pub(crate) fn changes(options: &WildcardAdditionalOptions) -> bool {
    options.opt_replace.is_some() || options.opt_rename.is_some() || options.opt_exclude.is_some()
}

/// The options without those that are carried out here.
pub(crate) fn choice(options: &WildcardAdditionalOptions) -> WildcardAdditionalOptions {
    WildcardAdditionalOptions {
        opt_replace: None,
        opt_rename: None,
        opt_exclude: None,
        ..options.clone()
    }
}

/// The names behind EXCLUDE.
pub fn excluded(options: &WildcardAdditionalOptions) -> &[ObjectName] {
    match &options.opt_exclude {
        None => &[],
        Some(ExcludeSelectItem::Single(one)) => std::slice::from_ref(one),
        Some(ExcludeSelectItem::Multiple(all)) => all,
    }
}

/// The columns behind RENAME, with their new names.
pub(crate) fn renamed(options: &WildcardAdditionalOptions) -> &[IdentWithAlias] {
    match &options.opt_rename {
        None => &[],
        Some(RenameSelectItem::Single(one)) => std::slice::from_ref(one),
        Some(RenameSelectItem::Multiple(all)) => all,
    }
}

/// Whether a name behind EXCLUDE, with or without its relation, means a column.
fn means(name: &[String], column: &Column) -> bool {
    let alike = |one: &str, other: &str| one.eq_ignore_ascii_case(other);
    match name {
        [name] => alike(name, &column.name),
        [relation, name] => {
            let of = column.relation.as_ref();
            alike(name, &column.name) && of.is_some_and(|of| alike(relation, of.table()))
        }
        _ => false,
    }
}

/// The columns that are left by EXCLUDE.
fn left(options: &WildcardAdditionalOptions, all: &[Column]) -> Result<Vec<Column>> {
    let mut kept = all.to_vec();
    for name in excluded(options) {
        let spelled = parts(name)?;
        if !all.iter().any(|column| means(&spelled, column)) {
            let names = all.iter().map(|column| &column.name);
            return Err(Error::not_found(ObjectKind::Column, spelled.join("."), names));
        }
        kept.retain(|column| !means(&spelled, column));
    }
    match kept.is_empty() {
        true => Err(Error::plan("EXCLUDE leaves no column of those that * shows")),
        false => Ok(kept),
    }
}

/// Whether the engine does with the columns that are chosen what the options say.
pub(crate) fn is_engines(options: &WildcardAdditionalOptions, chosen: &[Column]) -> bool {
    let mut replaced = options.opt_replace.iter().flat_map(|replace| &replace.items);
    let mut excluded = excluded(options).iter();
    options.opt_rename.is_none()
        && excluded.all(|name| {
            let Ok([name]) = <[String; 1]>::try_from(parts(name).unwrap_or_default()) else {
                return false;
            };
            let same = |column: &&Column| means(std::slice::from_ref(&name), column);
            let mut found = chosen.iter().filter(same);
            found.next().is_some_and(|column| column.name == name) && found.next().is_none()
        })
        && replaced.all(|new| chosen.iter().any(|column| column.name == new.column_name.value))
}

/// The columns that are chosen, as EXCLUDE, REPLACE and RENAME make them.
pub(crate) fn shown(options: &WildcardAdditionalOptions, chosen: &[Column]) -> Result<Vec<Shown>> {
    let chosen = &left(options, chosen)?;
    let mut shown = chosen.iter().map(Shown::of).collect::<Vec<_>>();
    let mut changed = vec![false; chosen.len()];
    let mut find = |name: &Ident| {
        let at = position(chosen, name)?;
        match changed.get_mut(at) {
            Some(changed) if !*changed => *changed = true,
            _ => return Err(Error::plan(format!("column {name} is changed twice behind *"))),
        }
        Ok(at)
    };
    for new in options.opt_replace.iter().flat_map(|replace| &replace.items) {
        let (name, value) = (new.column_name.clone(), new.expr.clone());
        let at = find(&name)?;
        shown[at] = Shown { name, value, is_new: true };
    }
    for new in renamed(options) {
        let at = find(&new.ident)?;
        let column = &mut shown[at];
        (column.name, column.is_new) = (new.alias.clone(), true);
    }
    Ok(shown)
}

/// The place of the column that a name means.
fn position(columns: &[Column], name: &Ident) -> Result<usize> {
    let exact = |column: &Column| column.name == name.value;
    let alike = |column: &Column| column.name.eq_ignore_ascii_case(&name.value);
    let found = match columns.iter().position(exact) {
        Some(at) => Some((at, columns.iter().rposition(exact))),
        None => columns.iter().position(alike).map(|at| (at, columns.iter().rposition(alike))),
    };
    match found {
        Some((first, last)) if last == Some(first) => Ok(first),
        Some(_) => Err(Error::plan(format!(
            "column {name} behind * is one of several relations; name the columns"
        ))),
        None => {
            let names = columns.iter().map(|column| &column.name);
            Err(Error::not_found(ObjectKind::Column, name.value.as_str(), names))
        }
    }
}
