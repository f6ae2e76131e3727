//! `rowid`: the places of a stored table's rows, as one more column.
//!
//! No `*` shows it, and a column of that name wins. Where a statement names a `rowid`, each stored
//! table without such a column is read under a name that gives it one (see [`HiddenColumns`]). Each
//! `*` beside it is written out without.

use std::ops::ControlFlow;

use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{
    Expr, FromTable, Ident, JoinConstraint, ObjectName, ObjectNamePart, Select, SelectItem,
    Statement, TableFactor, TableWithJoins, UpdateTableFromKind, VisitorMut,
};
use swingdb_common::error::{Error, Result};

use crate::ast::build::{alias, reference, rewrite_exprs, shorten_qualifiers};
use crate::ast::names::{constraint_mut, name_of};
use crate::ast::stars;
use crate::ast::walk::walk_mut;
use crate::bind::catalogs::Found;
use crate::bind::columns::{columns_of, each_select};
use crate::bind::hidden::Hidden;
use crate::bind::lookahead::Lookahead;
use crate::bind::with_clauses::Withs;
use crate::scan::hidden::{HiddenColumns, PLACE_COLUMN};

/// Gives the tables of a statement that names a `rowid` that column.
pub(crate) fn show(planner: &dyn Lookahead, statement: &mut Statement) -> Result<()> {
    if !is_named_in(statement) {
        return Ok(());
    }
    each_select(statement, &mut |around, select| show_in(planner, around, select))?;
    show_in_change(planner, statement);
    Ok(())
}

/// The same for the other relations of a change. Its own table gets the column where the change is
/// carried out.
fn show_in_change(planner: &dyn Lookahead, statement: &mut Statement) {
    let (target, others) = match statement {
        Statement::Update(update) => {
            use UpdateTableFromKind::{AfterSet, BeforeSet};
            let others = update.from.iter_mut().flat_map(|from| match from {
                BeforeSet(from) | AfterSet(from) => from,
            });
            (update.table.relation.clone(), others.collect::<Vec<_>>())
        }
        Statement::Delete(delete) => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
            let Some(target) = from.first() else { return };
            (target.relation.clone(), delete.using.iter_mut().flatten().collect())
        }
        Statement::Merge(merge) => (merge.table.clone(), Vec::new()),
        _ => return,
    };
    let mut shortened = Vec::new();
    for from in others {
        show_joined(planner, &Withs::default(), from, &mut shortened);
    }
    for (schema, table) in shortened {
        let short = Ident::with_quote('"', &table);
        shorten_qualifiers(statement, &schema, &table, &short);
    }
    // Passes that spell names as their columns do not see this one.
    if show_table(planner, &Withs::default(), &mut target.clone()).is_some() {
        rewrite_exprs(statement, |expr| match expr {
            Expr::Identifier(name) => spell(name),
            Expr::CompoundIdentifier(parts) => parts.last_mut().map_or((), spell),
            _ => {}
        });
    }
}

fn spell(name: &mut Ident) {
    if name.quote_style.is_none() && is_rowid(name) {
        *name = Ident::with_quote('"', PLACE_COLUMN);
    }
}

fn is_rowid(ident: &Ident) -> bool {
    ident.value.eq_ignore_ascii_case(PLACE_COLUMN)
}

fn is_named_in(statement: &mut Statement) -> bool {
    struct Search;
    impl VisitorMut for Search {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            found(match expr {
                Expr::Identifier(name) => is_rowid(name),
                Expr::CompoundIdentifier(parts) => parts.last().is_some_and(is_rowid),
                _ => false,
            })
        }
        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
            let joins = select.from.iter_mut().flat_map(|from| &mut from.joins);
            let mut joins = joins.filter_map(|join| constraint_mut(&mut join.join_operator));
            found(joins.any(|constraint| match constraint {
                JoinConstraint::Using(names) => names.iter().any(|name| {
                    name.0.last().and_then(ObjectNamePart::as_ident).is_some_and(is_rowid)
                }),
                _ => false,
            }))
        }
    }
    fn found(is: bool) -> ControlFlow<()> {
        if is { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
    walk_mut(statement, &mut Search).is_break()
}

fn show_in(planner: &dyn Lookahead, around: &Withs, select: &mut Select) -> Result<()> {
    let mut shortened = Vec::new();
    for from in &mut select.from {
        show_joined(planner, around, from, &mut shortened);
    }
    if Hidden::of(&select.from).is_empty() {
        return Ok(());
    }
    let mut joins = select.from.iter_mut().flat_map(|from| &mut from.joins);
    let natural = |constraint: &mut JoinConstraint| matches!(constraint, JoinConstraint::Natural);
    if joins.any(|join| constraint_mut(&mut join.join_operator).is_some_and(natural)) {
        return Err(Error::unsupported("rowid beside a NATURAL JOIN; write JOIN ... USING (...)"));
    }
    for (schema, table) in shortened {
        let short = Ident::with_quote('"', &table);
        shorten_qualifiers(select, &schema, &table, &short);
    }
    write_out_stars(planner, around, select)
}

/// Writes the columns of each `*` out, without those that are hidden.
pub(crate) fn write_out_stars(
    planner: &dyn Lookahead,
    around: &Withs,
    select: &mut Select,
) -> Result<()> {
    let mut projection = Vec::with_capacity(select.projection.len());
    for item in std::mem::take(&mut select.projection) {
        match written_out(planner, around, &select.from, &item)? {
            Some(columns) => projection.extend(columns),
            None => projection.push(item),
        }
    }
    select.projection = projection;
    Ok(())
}

/// Gives the tables of a join their hidden columns. Tables with a schema before their name are put
/// into `shortened`, by schema and name: they have an alias now.
fn show_joined(
    planner: &dyn Lookahead,
    around: &Withs,
    from: &mut TableWithJoins,
    shortened: &mut Vec<(String, String)>,
) {
    let relations = std::iter::once(&mut from.relation);
    for factor in relations.chain(from.joins.iter_mut().map(|join| &mut join.relation)) {
        match factor {
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                show_joined(planner, around, table_with_joins, shortened);
            }
            _ => shortened.extend(show_table(planner, around, factor).flatten()),
        }
    }
}

/// Gives a table its hidden column; `None` for other relations. Gives schema and name of a table
/// with a schema before its name.
fn show_table(
    planner: &dyn Lookahead,
    around: &Withs,
    factor: &mut TableFactor,
) -> Option<Option<(String, String)>> {
    let called = name_of(factor)?.clone();
    let TableFactor::Table { name, alias: given, args: None, .. } = factor else { return None };
    if given.as_ref().is_some_and(|given| !given.columns.is_empty()) || is_query(around, name) {
        return None;
    }
    let reference = object_name_to_table_reference(name.clone(), false).ok()?;
    let Ok(Some(Found::Table { table, hidden, .. })) = planner.view().find(&reference) else {
        return None;
    };
    let columns = table.columns();
    if hidden.places || columns.iter().any(|c| c.name.eq_ignore_ascii_case(PLACE_COLUMN)) {
        return None;
    }
    let schema = reference.schema().map(str::to_string);
    let place = name.0.last_mut()?;
    let places = HiddenColumns { places: true, ..HiddenColumns::default() };
    let hidden = places.name(&place.as_ident()?.value);
    *place = ObjectNamePart::Identifier(Ident::with_quote('"', hidden));
    if given.is_some() {
        return Some(None);
    }
    let short = called.value.clone();
    *given = Some(alias(&called));
    Some(schema.map(|schema| (schema, short)))
}

fn is_query(around: &Withs, name: &ObjectName) -> bool {
    match name.0.as_slice() {
        [ObjectNamePart::Identifier(name)] => around.has(&name.value),
        _ => false,
    }
}

/// The columns that a `*` shows.
fn written_out(
    planner: &dyn Lookahead,
    around: &Withs,
    from: &[TableWithJoins],
    item: &SelectItem,
) -> Result<Option<Vec<SelectItem>>> {
    let (choice, options) = match item {
        SelectItem::Wildcard(options) => (SelectItem::Wildcard(stars::choice(options)), options),
        SelectItem::QualifiedWildcard(of, options) => {
            let choice = stars::choice(options);
            (SelectItem::QualifiedWildcard(of.clone(), choice), options)
        }
        _ => return Ok(None),
    };
    // The star of a STRUCT is written out elsewhere; what cannot be planned is an error there.
    let Ok(columns) = columns_of(planner, around, choice, from) else { return Ok(None) };
    let hidden = Hidden::of(from);
    let columns = columns.into_iter().filter(|column| !hidden.has(column)).collect::<Vec<_>>();
    if !stars::changes(options) {
        let columns = columns.iter().map(|column| SelectItem::UnnamedExpr(reference(column)));
        return Ok(Some(columns.collect()));
    }
    let shown = stars::shown(options, &columns)?.into_iter();
    Ok(Some(shown.map(stars::Shown::into_item).collect()))
}
