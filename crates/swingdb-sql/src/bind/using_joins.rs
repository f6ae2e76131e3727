//! Joins by USING and NATURAL, whose merged columns the engine gets wrong.
//!
//! After `a LEFT JOIN b USING (k)` the plain name `k` is `a.k`, after `RIGHT JOIN` it is `b.k`,
//! after `FULL JOIN` the one of the two that is not NULL. The engine shows the one whose table
//! comes first in the alphabet for `*`, and takes `k` for ambiguous in WHERE. So these joins get an
//! `ON`, and the plain names in the SELECT what they stand for, also in the conditions of joins
//! behind them, in arguments and LATERAL subqueries of FROM, and in subqueries that have no column
//! of the name. All that has to know which columns are merged, and what `*` shows after that, asks
//! here ([`shown`]).

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use datafusion::common::TableReference;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ExcludeSelectItem, Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectName,
    ObjectNamePart, OrderBy, OrderByKind, Query, ReplaceSelectElement, ReplaceSelectItem, Select,
    SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Statement, TableFactor, TableWithJoins,
    VisitMut, VisitorMut, WildcardAdditionalOptions,
};
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_common::names::free_name;

use crate::ast::build::call;
use crate::ast::names::constraint_mut;
use crate::ast::walk::walk_mut;
use crate::ast::{build, stars};
use crate::desugar::relations::Relations;

/// Gives the columns of a relation, if they are known.
pub(crate) type ColumnsOf<'a> = dyn Fn(&TableFactor) -> Option<Vec<String>> + 'a;

/// Gives the joins of a statement an ON. Names must be resolved.
pub(crate) fn rewrite(relations: &mut dyn Relations, statement: &mut Statement) -> Result<()> {
    let mut rewriter = Rewriter { relations, failed: None };
    // Breaks only with an error, which the rewriter keeps.
    let _ = walk_mut(statement, &mut rewriter);
    rewriter.failed.map_or(Ok(()), Err)
}

struct Rewriter<'a> {
    relations: &'a mut dyn Relations,
    failed: Option<Error>,
}

impl VisitorMut for Rewriter<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.relations.enter(query);
        let relations = &*self.relations;
        let columns = |factor: &TableFactor| relations.names_of(factor);
        let order_by = query.order_by.as_mut();
        let result = match query.body.as_mut() {
            SetExpr::Select(select) => rewrite_select(select, order_by, &columns),
            other => operands(other, &columns),
        };
        match result {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.relations.leave();
        ControlFlow::Continue(())
    }
}

/// Whether a join merges columns.
pub(crate) fn merges(join: &Join) -> bool {
    use JoinConstraint::{Natural, Using};
    matches!(constraint(&join.join_operator), Some((Using(_) | Natural, _)))
}

/// The columns that a `*` shows of a FROM clause, with what qualifies them; `None` where it cannot
/// be told whose they are.
pub(crate) fn shown(
    from: &[TableWithJoins],
    columns: &ColumnsOf<'_>,
) -> Option<Vec<(Option<TableReference>, String)>> {
    let merged = Merged::of(from, columns).ok()??;
    let items = merged.chosen(&WildcardAdditionalOptions::default()).ok()?;
    let column = |item| match item {
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(mut parts)) => {
            let name = parts.pop()?.value;
            let of = parts.into_iter().map(ObjectNamePart::Identifier).collect();
            Some((object_name_to_table_reference(ObjectName(of), false).ok(), name))
        }
        SelectItem::ExprWithAlias { alias, .. } => Some((None, alias.value)),
        _ => None,
    };
    items.into_iter().map(column).collect()
}

fn operands(body: &mut SetExpr, columns: &ColumnsOf<'_>) -> Result<()> {
    match body {
        SetExpr::Select(select) => rewrite_select(select, None, columns),
        SetExpr::SetOperation { left, right, .. } => {
            operands(left, columns)?;
            operands(right, columns)
        }
        _ => Ok(()),
    }
}

fn rewrite_select(
    select: &mut Select,
    order_by: Option<&mut OrderBy>,
    columns: &ColumnsOf<'_>,
) -> Result<()> {
    let (mut merging, mut needed) = (false, false);
    for join in select.from.iter().flat_map(|from| &from.joins) {
        if let Some((JoinConstraint::Using(_) | JoinConstraint::Natural, value)) =
            constraint(&join.join_operator)
        {
            merging = true;
            needed |= !matches!(value, Value::Left) || is_asof(join);
        }
    }
    if !merging {
        return Ok(());
    }
    match Merged::of(&select.from, columns)? {
        Some(merged) => merged.apply(select, order_by),
        None if !needed => Ok(()),
        None => Err(Error::unsupported(
            "RIGHT, FULL or ASOF JOIN with USING or NATURAL where it cannot be told whose the \
             columns are; write ON",
        )),
    }
}

/// Which side's column a merged one is.
#[derive(Clone, Copy)]
enum Value {
    Left,
    Right,
    /// The one that is not NULL.
    Either,
}

/// The constraint of a join, and what its merged columns are; `None` of joins that have other kinds
/// of results.
fn constraint(operator: &JoinOperator) -> Option<(&JoinConstraint, Value)> {
    use JoinOperator as J;
    match operator {
        J::Join(on)
        | J::Inner(on)
        | J::Left(on)
        | J::LeftOuter(on)
        | J::CrossJoin(on)
        | J::Semi(on)
        | J::LeftSemi(on)
        | J::Anti(on)
        | J::LeftAnti(on)
        | J::AsOf { match_condition: _, constraint: on } => Some((on, Value::Left)),
        J::Right(on) | J::RightOuter(on) => Some((on, Value::Right)),
        J::FullOuter(on) => Some((on, Value::Either)),
        _ => None,
    }
}

/// A relation that `*` shows.
struct Relation<'a> {
    /// What qualifies its columns.
    of: Vec<Ident>,
    factor: TableFactor,
    /// Which of the relations between commas it belongs to.
    chain: usize,
    /// Its columns that are merged into those of others.
    hidden: Vec<Ident>,
    columns_of: &'a ColumnsOf<'a>,
    columns: OnceCell<Option<Vec<String>>>,
}

impl<'a> Relation<'a> {
    fn of(factor: &TableFactor, chain: usize, columns_of: &'a ColumnsOf<'a>) -> Option<Self> {
        let (of, factor) = (qualifier(factor)?, factor.clone());
        let columns = OnceCell::new();
        Some(Self { of, factor, chain, hidden: Vec::new(), columns_of, columns })
    }

    fn columns(&self) -> Option<&[String]> {
        self.columns.get_or_init(|| (self.columns_of)(&self.factor)).as_deref()
    }

    /// The column of a name, if it is known to have one that is not merged into another's.
    fn column(&self, name: &Ident) -> Option<Ident> {
        let columns = self.columns()?;
        let exact = columns.iter().find(|column| **column == name.value);
        let found = exact.or_else(|| columns.iter().find(|column| is_called(column, name)))?;
        let own = !self.hidden.iter().any(|hidden| is_called(found, hidden));
        own.then(|| Ident::with_quote('"', found))
    }

    /// The name that its column has which USING calls so. A quoted one is known to be spelled so
    /// everywhere; whoever has been asked already may know better.
    fn own(&self, name: &Ident) -> Ident {
        match (name.quote_style, self.columns.get()) {
            (Some(_), None) => name.clone(),
            _ => self.column(&unquoted(name)).unwrap_or_else(|| name.clone()),
        }
    }
}

fn is_asof(join: &Join) -> bool {
    matches!(join.join_operator, JoinOperator::AsOf { .. })
}

/// The condition of an ASOF JOIN by `USING (k, t)`: the last column is that of the time.
fn nearest(mut equal: Vec<Expr>) -> Expr {
    if let Some(Expr::BinaryOp { op, .. }) = equal.last_mut() {
        *op = BinaryOperator::GtEq;
    }
    build::all(equal)
}

/// Several columns merged into one.
struct Column {
    /// Its name in the relation that shows it.
    name: Ident,
    /// Its names in the others.
    others: Vec<Ident>,
    /// What the name stands for.
    value: Expr,
    /// The place of the relation that shows it.
    place: usize,
    chain: usize,
}

impl Column {
    fn is_called(&self, name: &Ident) -> bool {
        std::iter::once(&self.name).chain(&self.others).any(|own| is_called(&own.value, name))
    }
}

/// The columns that the joins of a SELECT merge.
struct Merged<'a> {
    columns: Vec<Column>,
    shown: Vec<Relation<'a>>,
    /// The new condition of each join that merges columns, or is by columns merged before.
    conditions: Vec<Option<Expr>>,
    /// The relations in their order, with values for the names of columns merged before them.
    factors: Vec<TableFactor>,
    columns_of: &'a ColumnsOf<'a>,
}

impl<'a> Merged<'a> {
    /// `None` where it cannot be told whose the columns are.
    fn of(from: &[TableWithJoins], columns_of: &'a ColumnsOf<'a>) -> Result<Option<Self>> {
        let (columns, shown, conditions, factors) = Default::default();
        let mut merged = Self { columns, shown, conditions, factors, columns_of };
        for (chain, from) in from.iter().enumerate() {
            let Some(first) = Relation::of(&from.relation, chain, columns_of) else {
                return Ok(None);
            };
            merged.see(&from.relation);
            merged.shown.push(first);
            for join in &from.joins {
                let Some(right) = Relation::of(&join.relation, chain, columns_of) else {
                    return Ok(None);
                };
                merged.see(&join.relation);
                if !merged.add(right, join)? {
                    return Ok(None);
                }
            }
        }
        Ok(Some(merged))
    }

    /// Adds a relation that is joined to those before it; false where it cannot be told whose the
    /// columns are.
    fn add(&mut self, mut right: Relation<'a>, join: &Join) -> Result<bool> {
        let Some((on, value)) = constraint(&join.join_operator) else { return Ok(false) };
        let names = match on {
            JoinConstraint::On(_) | JoinConstraint::None => Vec::new(),
            JoinConstraint::Using(names) => names.iter().map(plain).collect::<Result<_>>()?,
            JoinConstraint::Natural => match self.shared(&right) {
                Some(names) if names.is_empty() => {
                    return Err(Error::plan(
                        "NATURAL JOIN of relations without a common column; write CROSS JOIN",
                    ));
                }
                Some(names) => names,
                None => return Ok(false),
            },
        };
        let mut condition = match on {
            JoinConstraint::On(on) => self.condition(on),
            _ => None,
        };
        if !names.is_empty() {
            let Some(equal) = self.join(&names, &mut right, value) else { return Ok(false) };
            condition = Some(if is_asof(join) { nearest(equal) } else { build::all(equal) });
        }
        self.conditions.push(condition);
        use JoinOperator::{Anti, LeftAnti, LeftSemi, Semi};
        if !matches!(join.join_operator, Semi(_) | LeftSemi(_) | Anti(_) | LeftAnti(_)) {
            self.shown.push(right);
        }
        Ok(true)
    }

    /// Adds a relation as it is seen among those before it.
    fn see(&mut self, factor: &TableFactor) {
        let mut factor = factor.clone();
        // Names in the brackets of other joins are their own.
        if !self.columns.is_empty() && !matches!(factor, TableFactor::NestedJoin { .. }) {
            self.replace(&mut factor);
        }
        self.factors.push(factor);
    }

    /// A condition with values for the names of columns merged before, which win over a column of
    /// the relation that is joined.
    fn condition(&self, on: &Expr) -> Option<Expr> {
        if self.columns.is_empty() {
            return None;
        }
        let mut on = on.clone();
        self.replace(&mut on);
        Some(on)
    }

    /// The relations before another that it is joined to, with their places.
    fn before(&self, right: &Relation<'_>) -> impl Iterator<Item = (usize, &Relation<'a>)> {
        let chain = right.chain;
        self.shown.iter().enumerate().filter(move |(_, relation)| relation.chain == chain)
    }

    /// The columns that a relation has in common with those before it.
    fn shared(&self, right: &Relation<'_>) -> Option<Vec<Ident>> {
        let mut shared = Vec::new();
        for (_, left) in self.before(right) {
            for name in left.columns()?.iter().map(Ident::new) {
                let is_new = !shared.iter().any(|known: &Ident| is_called(&known.value, &name));
                if is_new && right.column(&name).is_some() {
                    shared.push(Ident::with_quote('"', name.value));
                }
            }
        }
        right.columns().map(|_| shared)
    }

    /// The conditions of a join by columns that relations so far are joined by, or that just one
    /// of them has.
    fn join(
        &mut self,
        names: &[Ident],
        right: &mut Relation<'_>,
        value: Value,
    ) -> Option<Vec<Expr>> {
        let mut equal = Vec::with_capacity(names.len());
        for name in names {
            let other = right.own(name);
            let theirs = field(&right.of, &other);
            let at = match self.position(name, right.chain) {
                Some(known) => known,
                None => {
                    let column = self.owned(name, right)?;
                    self.columns.push(column);
                    self.columns.len() - 1
                }
            };
            let column = self.columns.get_mut(at)?;
            let left = column.value.clone();
            equal.push(build::binary(left.clone(), BinaryOperator::Eq, theirs.clone()));
            column.value = match value {
                Value::Left => left,
                Value::Right => theirs,
                Value::Either => call("coalesce", [left, theirs]),
            };
            column.others.push(other.clone());
            right.hidden.push(other);
        }
        Some(equal)
    }

    /// The column of this name of the relations before another, if just one of them has it.
    fn owned(&self, name: &Ident, right: &Relation<'_>) -> Option<Column> {
        let all = self.before(right).collect::<Vec<_>>();
        let (name, (place, owner)) = match all.as_slice() {
            [only] => (only.1.own(name), *only),
            several => {
                let mut owners = Vec::new();
                for (place, relation) in several {
                    relation.columns()?;
                    owners.extend(
                        relation.column(&unquoted(name)).map(|own| (own, (*place, *relation))),
                    );
                }
                match owners.len() {
                    1 => owners.pop()?,
                    _ => return None,
                }
            }
        };
        let value = field(&owner.of, &name);
        Some(Column { name, others: Vec::new(), value, place, chain: right.chain })
    }

    fn position(&self, name: &Ident, chain: usize) -> Option<usize> {
        let is = |column: &Column| column.chain == chain && column.is_called(name);
        self.columns.iter().position(is)
    }

    /// The merged column that a plain name means.
    fn find(&self, name: &Ident) -> Option<&Column> {
        let column = self.columns.iter().find(|column| column.is_called(name))?;
        let is_others = |relation: &Relation<'_>| {
            relation.chain != column.chain && relation.column(&unquoted(name)).is_some()
        };
        (!self.shown.iter().any(is_others)).then_some(column)
    }

    /// What the plain name of a merged column stands for.
    fn value(&self, name: &Ident) -> Option<Expr> {
        self.find(name).map(|column| column.value.clone())
    }

    fn apply(&self, select: &mut Select, order_by: Option<&mut OrderBy>) -> Result<()> {
        // ALL are the columns of the result, which the engine counts when they are listed.
        let by_all = order_by.as_ref().is_some_and(|by| matches!(by.kind, OrderByKind::All(_)));
        let listed = by_all && self.shown.iter().all(|relation| relation.columns().is_some());
        let given = select.projection.iter().filter_map(name_of).map(|(name, _)| name.clone());
        let given = given.collect::<Vec<_>>();
        let mut shown = Vec::new();
        let mut projection = Vec::with_capacity(select.projection.len() + 1);
        for item in std::mem::take(&mut select.projection) {
            match item {
                SelectItem::Wildcard(options) => {
                    let all = options == WildcardAdditionalOptions::default();
                    let items = match all && !listed && !self.clashes() {
                        true => self.wildcards().collect(),
                        false => self.chosen(&options)?,
                    };
                    let merged = self.columns.iter().map(|column| column.name.clone());
                    shown.extend(merged.filter(|name| all || items.iter().any(|i| shows(i, name))));
                    projection.extend(items);
                }
                SelectItem::UnnamedExpr(Expr::Identifier(name)) => match self.find(&name) {
                    Some(column) => {
                        let is_taken = |alias: &&Ident| {
                            shown.iter().chain(&given).any(|name| name.value == alias.value)
                        };
                        // Another spelling of the same name is another name already.
                        let own = Some(&column.name).filter(|own| !is_taken(own));
                        let (expr, alias) = (column.value.clone(), own.unwrap_or(&name).clone());
                        shown.push(alias.clone());
                        projection.push(SelectItem::ExprWithAlias { expr, alias });
                    }
                    None => projection.push(SelectItem::UnnamedExpr(Expr::Identifier(name))),
                },
                other => projection.push(other),
            }
        }
        select.projection = projection;
        let mut from = std::mem::take(&mut select.from);
        self.replace(select);
        self.settle(&mut from);
        select.from = from;
        if let Some(OrderBy { kind: OrderByKind::Expressions(order), .. }) = order_by {
            let named = select.projection.iter().filter_map(name_of);
            shown.extend(named.filter(|(_, is_alias)| *is_alias).map(|(name, _)| name.clone()));
            for by in order {
                // The name of a column of the result stays one.
                let named = match &by.expr {
                    Expr::Identifier(name) => {
                        shown.iter().find(|shown| shown.value.eq_ignore_ascii_case(&name.value))
                    }
                    _ => None,
                };
                match named {
                    Some(name) => by.expr = Expr::Identifier(name.clone()),
                    None => self.replace(&mut by.expr),
                }
            }
        }
        Ok(())
    }

    /// Puts the relations as they are seen, and the conditions, into a FROM.
    fn settle(&self, from: &mut [TableWithJoins]) {
        let mut factors = self.factors.iter();
        for from in &mut *from {
            let joined = from.joins.iter_mut().map(|join| &mut join.relation);
            for (own, seen) in std::iter::once(&mut from.relation).chain(joined).zip(&mut factors) {
                own.clone_from(seen);
            }
        }
        for (join, condition) in from.iter_mut().flat_map(|f| &mut f.joins).zip(&self.conditions) {
            if let (Some(on), Some(condition)) =
                (constraint_mut(&mut join.join_operator), condition)
            {
                *on = JoinConstraint::On(condition.clone());
            }
        }
    }

    /// The columns of `* EXCLUDE (...)` and the like, one by one.
    fn chosen(&self, options: &WildcardAdditionalOptions) -> Result<Vec<SelectItem>> {
        let mut choice = Choice::of(options)?;
        let mut items = Vec::new();
        for (place, relation) in self.shown.iter().enumerate() {
            let Some(columns) = relation.columns() else {
                return Err(Error::unsupported(
                    "options of * after a join with USING or NATURAL; name the columns",
                ));
            };
            for name in columns.iter().map(|name| Ident::with_quote('"', name)) {
                if relation.column(&name).is_none() || choice.excludes(&name) {
                    continue;
                }
                let at = self.position(&name, relation.chain);
                let merged = at.and_then(|at| self.columns.get(at));
                let merged = merged.filter(|column| column.place == place);
                let value = merged
                    .map_or_else(|| field(&relation.of, &name), |column| column.value.clone());
                items.push(choice.item(&name, value));
            }
        }
        number_names(&mut items);
        choice.finish().map(|()| items)
    }

    /// Whether another column is called as one that is no column of a table any more.
    fn clashes(&self) -> bool {
        self.columns.iter().any(|column| {
            let of = self.shown.get(column.place).map(|relation| &relation.of);
            let is_own = of.is_some_and(|of| column.value == field(of, &column.name));
            let others = || self.shown.iter().enumerate().filter(|(at, _)| *at != column.place);
            !is_own && others().any(|(_, other)| other.column(&unquoted(&column.name)).is_some())
        })
    }

    /// `left.* REPLACE (coalesce(left.k, right.k) AS k), right.* EXCLUDE (k)`
    fn wildcards(&self) -> impl Iterator<Item = SelectItem> {
        self.shown.iter().enumerate().map(|(place, relation)| {
            let Relation { of, hidden, .. } = relation;
            let own =
                |column: &&Column| column.place == place && column.value != field(of, &column.name);
            let element = |column: &Column| {
                Box::new(ReplaceSelectElement {
                    expr: column.value.clone(),
                    column_name: column.name.clone(),
                    as_keyword: true,
                })
            };
            let replaced = self.columns.iter().filter(own).map(element).collect::<Vec<_>>();
            let names = hidden.iter().map(|column| ObjectName::from(vec![column.clone()]));
            let options = WildcardAdditionalOptions {
                opt_replace: (!replaced.is_empty())
                    .then_some(ReplaceSelectItem { items: replaced }),
                opt_exclude: (!hidden.is_empty())
                    .then(|| ExcludeSelectItem::Multiple(names.collect())),
                ..Default::default()
            };
            let name = ObjectName::from(of.clone());
            let name = SelectItemQualifiedWildcardKind::ObjectName(name);
            SelectItem::QualifiedWildcard(name, options)
        })
    }

    /// Puts values for the plain names. In a subquery these are names that it has no column for.
    fn replace<T: VisitMut>(&self, tree: &mut T) {
        let mut replacer = Replacer { merged: self, inside: Vec::new() };
        // Never breaks, so the result says nothing.
        let _ = walk_mut(tree, &mut replacer);
    }
}

/// Puts values for plain names.
struct Replacer<'a> {
    merged: &'a Merged<'a>,
    /// The names that each of the subqueries around has itself; `None` where they are not known.
    inside: Vec<Option<BTreeSet<String>>>,
}

impl VisitorMut for Replacer<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let own = query.with.is_none().then(|| own_names(&query.body, self.merged.columns_of));
        self.inside.push(own.flatten());
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.inside.pop();
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Identifier(name) = expr
            && let Some(value) = self.merged.value(name)
        {
            let called = name.value.to_lowercase();
            let is_others = |own: &Option<BTreeSet<String>>| {
                own.as_ref().is_some_and(|names| !names.contains(&called))
            };
            if self.inside.iter().all(is_others) {
                *expr = value;
            }
        }
        ControlFlow::Continue(())
    }
}

/// The names, in small letters, that a plain name inside of a query may mean before one outside.
fn own_names(body: &SetExpr, columns_of: &ColumnsOf<'_>) -> Option<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    match body {
        SetExpr::Select(select) => {
            for from in &select.from {
                let joined = from.joins.iter().map(|join| &join.relation);
                for relation in std::iter::once(&from.relation).chain(joined) {
                    names.extend(columns_of(relation)?.iter().map(|name| name.to_lowercase()));
                }
            }
            let aliases = select.projection.iter().filter_map(name_of);
            names.extend(aliases.map(|(name, _)| name.value.to_lowercase()));
        }
        SetExpr::SetOperation { left, right, .. } => {
            names.extend(own_names(left, columns_of)?);
            names.extend(own_names(right, columns_of)?);
        }
        SetExpr::Values(_) => {}
        _ => return None,
    }
    Some(names)
}

/// What stands behind a `*`.
#[derive(Default)]
struct Choice {
    /// Each with whether it has been met.
    excluded: Vec<(Ident, bool)>,
    replaced: Vec<(Ident, Expr)>,
    renamed: Vec<(Ident, Ident)>,
}

impl Choice {
    fn of(options: &WildcardAdditionalOptions) -> Result<Self> {
        let others = options.opt_ilike.is_some()
            || options.opt_except.is_some()
            || options.opt_alias.is_some();
        if others {
            return Err(Error::unsupported("this option of *; write EXCLUDE, REPLACE or RENAME"));
        }
        let mut choice = Self::default();
        for name in stars::excluded(options) {
            choice.excluded.push((plain(name)?, false));
        }
        for element in options.opt_replace.iter().flat_map(|replace| &replace.items) {
            choice.replaced.push((element.column_name.clone(), element.expr.clone()));
        }
        choice
            .renamed
            .extend(stars::renamed(options).iter().map(|to| (to.ident.clone(), to.alias.clone())));
        Ok(choice)
    }

    fn excludes(&mut self, name: &Ident) -> bool {
        let mut found = false;
        for (excluded, met) in &mut self.excluded {
            if is_called(&name.value, excluded) {
                (found, *met) = (true, true);
            }
        }
        found
    }

    fn item(&mut self, name: &Ident, value: Expr) -> SelectItem {
        let at = self.replaced.iter().position(|(of, _)| is_called(&name.value, of));
        let (expr, is_plain) = match at {
            Some(at) => (self.replaced.swap_remove(at).1, false),
            None => {
                let is_plain = matches!(value, Expr::CompoundIdentifier(_));
                (value, is_plain)
            }
        };
        let new = self.renamed.iter().position(|(of, _)| is_called(&name.value, of));
        match new {
            Some(at) => SelectItem::ExprWithAlias { expr, alias: self.renamed.swap_remove(at).1 },
            None if is_plain => SelectItem::UnnamedExpr(expr),
            None => SelectItem::ExprWithAlias { expr, alias: name.clone() },
        }
    }

    /// Fails when a name was none of a column.
    fn finish(self) -> Result<()> {
        let excluded = self.excluded.into_iter().filter(|(_, met)| !met).map(|(name, _)| name);
        let others = self.replaced.into_iter().map(|(name, _)| name);
        let others = others.chain(self.renamed.into_iter().map(|(name, _)| name));
        match excluded.chain(others).next() {
            Some(name) => {
                let none: [&str; 0] = [];
                Err(Error::not_found(ObjectKind::Column, name.value, none))
            }
            None => Ok(()),
        }
    }
}

/// The name of a column of a result, and whether it is an alias.
fn name_of(item: &SelectItem) -> Option<(&Ident, bool)> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some((alias, true)),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => Some((parts.last()?, false)),
        _ => None,
    }
}

fn shows(item: &SelectItem, name: &Ident) -> bool {
    name_of(item).is_some_and(|(shown, _)| shown.value == name.value)
}

/// Gives the later ones of equal names a number, unless the names of tables tell them apart.
fn number_names(items: &mut [SelectItem]) {
    let mut taken: BTreeMap<String, bool> = BTreeMap::new();
    for item in items {
        let Some((name, is_alias)) = name_of(item) else { continue };
        let base = name.value.clone();
        let name = free_name(&base, |name| {
            !taken.get(name).is_some_and(|before| *before || is_alias || name != base)
        });
        let is_numbered = name != base;
        *taken.entry(name.clone()).or_default() |= is_alias || is_numbered;
        if is_numbered
            && let SelectItem::ExprWithAlias { expr, .. } | SelectItem::UnnamedExpr(expr) = item
        {
            let (expr, alias) = (expr.clone(), Ident::with_quote('"', name));
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
    }
}

/// Whether a column is meant by a name.
fn is_called(column: &str, name: &Ident) -> bool {
    match name.quote_style {
        None => column.eq_ignore_ascii_case(&name.value),
        Some(_) => column == name.value,
    }
}

fn unquoted(name: &Ident) -> Ident {
    Ident::new(&name.value)
}

/// What qualifies the columns of a relation.
fn qualifier(relation: &TableFactor) -> Option<Vec<Ident>> {
    match relation {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. }
        | TableFactor::UNNEST { alias: Some(alias), .. }
        | TableFactor::NestedJoin { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. } => Some(vec![alias.name.clone()]),
        TableFactor::Table { name, args: None, .. } => {
            name.0.iter().map(|part| part.as_ident().cloned()).collect()
        }
        _ => None,
    }
}

/// A name that USING lists.
fn plain(name: &ObjectName) -> Result<Ident> {
    match name.0.as_slice() {
        [part] => part.as_ident().cloned(),
        _ => None,
    }
    .ok_or_else(|| Error::plan("USING takes plain names of columns"))
}

fn field(of: &[Ident], column: &Ident) -> Expr {
    Expr::CompoundIdentifier(of.iter().chain([column]).cloned().collect())
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;
    use crate::bind::joined_names;
    use crate::desugar::tests::Unknown;
    use crate::text::dialect::DIALECT;

    fn rewritten(sql: &str) -> Result<String> {
        let mut statements = Parser::parse_sql(&DIALECT, sql).unwrap();
        joined_names::give(&mut statements[0]);
        rewrite(&mut Unknown, &mut statements[0])?;
        Ok(statements[0].to_string())
    }

    #[test]
    fn merged_columns_of_full_and_right_joins() {
        assert_eq!(
            rewritten("SELECT k, a FROM t FULL JOIN s USING (k) WHERE k > 1 ORDER BY k").unwrap(),
            "SELECT coalesce(t.k, s.k) AS k, a FROM t FULL JOIN s ON t.k = s.k \
             WHERE coalesce(t.k, s.k) > 1 ORDER BY k"
        );
        assert_eq!(
            rewritten("SELECT a FROM main.t RIGHT JOIN s AS x USING (k) ORDER BY k").unwrap(),
            "SELECT a FROM main.t RIGHT JOIN s AS x ON main.t.k = x.k ORDER BY x.k"
        );
        assert_eq!(
            rewritten("SELECT * FROM t RIGHT JOIN s USING (k)").unwrap(),
            "SELECT t.* REPLACE (s.k AS k), s.* EXCLUDE (k) FROM t RIGHT JOIN s ON t.k = s.k"
        );
    }

    #[test]
    fn merged_columns_are_the_left_ones() {
        assert_eq!(
            rewritten("SELECT * FROM t LEFT JOIN s USING (k) JOIN u USING (k) WHERE k = 1")
                .unwrap(),
            "SELECT t.*, s.* EXCLUDE (k), u.* EXCLUDE (k) FROM t LEFT JOIN s ON t.k = s.k \
             JOIN u ON t.k = u.k WHERE t.k = 1"
        );
    }

    #[test]
    fn merged_columns_of_chains() {
        assert_eq!(
            rewritten(
                "SELECT k FROM t FULL JOIN s USING (k) LEFT JOIN u USING (k), \
                 v RIGHT JOIN w USING (j)"
            )
            .unwrap(),
            "SELECT coalesce(t.k, s.k) AS k FROM t FULL JOIN s ON t.k = s.k \
             LEFT JOIN u ON (coalesce(t.k, s.k)) = u.k, v RIGHT JOIN w ON v.j = w.j"
        );
        assert_eq!(
            rewritten("SELECT k FROM t RIGHT JOIN s USING (k) FULL JOIN u USING (k)").unwrap(),
            "SELECT coalesce(s.k, u.k) AS k FROM t RIGHT JOIN s ON t.k = s.k \
             FULL JOIN u ON s.k = u.k"
        );
        assert_eq!(
            rewritten("SELECT 1 FROM (SELECT 1 AS k) FULL JOIN s USING (k)").unwrap(),
            "SELECT 1 FROM (SELECT 1 AS k) AS \"joined (1)\" \
             FULL JOIN s ON \"joined (1)\".k = s.k"
        );
    }

    #[test]
    fn names_in_subqueries_are_their_own() {
        let all = rewritten(
            "SELECT k FROM t FULL JOIN s USING (k) WHERE EXISTS (SELECT 1 FROM u WHERE k = 1)",
        );
        assert!(all.unwrap().ends_with("WHERE EXISTS (SELECT 1 FROM u WHERE k = 1)"));
    }

    #[test]
    fn others_stay() {
        for same in [
            "SELECT k FROM t JOIN s USING(k) LEFT JOIN u USING(j)",
            "SELECT k FROM t FULL JOIN s ON t.k = s.k",
            "SELECT * FROM t NATURAL JOIN s",
        ] {
            assert_eq!(rewritten(same).unwrap(), same);
        }
        assert!(rewritten("SELECT 1 FROM t NATURAL FULL JOIN s").is_err());
        assert_eq!(
            rewritten("SELECT 1 FROM t SEMI JOIN s USING (k)").unwrap(),
            "SELECT 1 FROM t SEMI JOIN s ON t.k = s.k"
        );
    }
}
