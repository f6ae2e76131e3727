//! What stands behind a `*`: the columns it shows, and what REPLACE and RENAME make of them.
//!
//! The query engine replaces columns whose names are spelled in the very same way, leaves other
//! names in REPLACE out without a word, and knows no RENAME. Here a name is that of a column
//! without regard to case, as in DuckDB, the column gets the name that is written, and a name of no
//! column is an error. EXCLUDE is the engine's.

use datafusion::common::Column;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, RenameSelectItem, SelectItem, WildcardAdditionalOptions,
};

use crate::error::{Error, ObjectKind, Result};
use crate::sql::columns::reference;

/// A column that a `*` shows.
pub(super) struct Shown {
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

/// Whether a `*` makes other columns of those that it shows.
pub(super) fn changes(options: &WildcardAdditionalOptions) -> bool {
    options.opt_replace.is_some() || options.opt_rename.is_some()
}

/// The options that only choose columns.
pub(super) fn choice(options: &WildcardAdditionalOptions) -> WildcardAdditionalOptions {
    WildcardAdditionalOptions { opt_replace: None, opt_rename: None, ..options.clone() }
}

/// Whether the engine does with the columns that are chosen what the options say.
pub(super) fn is_engines(options: &WildcardAdditionalOptions, chosen: &[Column]) -> bool {
    let mut replaced = options.opt_replace.iter().flat_map(|replace| &replace.items);
    options.opt_rename.is_none()
        && replaced.all(|new| chosen.iter().any(|column| column.name == new.column_name.value))
}

/// The columns that are chosen, as REPLACE and RENAME make them.
pub(super) fn shown(options: &WildcardAdditionalOptions, chosen: &[Column]) -> Result<Vec<Shown>> {
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
    let renamed = match &options.opt_rename {
        None => &[][..],
        Some(RenameSelectItem::Single(one)) => std::slice::from_ref(one),
        Some(RenameSelectItem::Multiple(all)) => all,
    };
    for new in renamed {
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
