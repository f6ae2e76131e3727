//! Joins whose merged columns the engine gets wrong, and kinds of join it has under another name.
//!
//! After `a LEFT JOIN b USING (k)` the plain name `k` is `a.k`, after `RIGHT JOIN` it is `b.k`,
//! after `FULL JOIN` the one of the two that is not NULL. The engine shows the one whose table
//! comes first in the alphabet for `*`, and takes `k` for ambiguous in WHERE. So these joins get an
//! `ON`, and the plain names in the SELECT what they stand for. Where it takes the columns of a
//! relation to know that (`NATURAL JOIN`, a chain by different columns, `* EXCLUDE (k)`), the
//! planner is asked for them. `SEMI JOIN` and `ANTI JOIN` are the engine's `LEFT SEMI JOIN` and
//! `LEFT ANTI JOIN`.

use std::cell::OnceCell;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, JoinConstraint, JoinOperator, ObjectName, OrderByKind, Query,
    RenameSelectItem, ReplaceSelectElement, ReplaceSelectItem, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableFactor, VisitMut, WildcardAdditionalOptions,
};
use datafusion::sql::sqlparser::ast::{ExcludeSelectItem, OrderBy};

use super::call;
use crate::error::{Error, ObjectKind, Result};
use crate::sql::idents::constraint_mut;
use crate::sql::visit::replace_names;
use crate::sql::write::ast;

/// Gives the columns of a relation, if they are known.
pub(super) type ColumnsOf<'a> = dyn Fn(&TableFactor) -> Option<Vec<String>> + 'a;

/// Rewrites the joins of a query's own SELECTs; subqueries are visited by themselves.
pub(super) fn rewrite(query: &mut Query, columns: &ColumnsOf<'_>) -> Result<()> {
    let order_by = query.order_by.as_mut();
    match query.body.as_mut() {
        SetExpr::Select(select) => rewrite_select(select, order_by, columns),
        other => operands(other, columns),
    }
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
    for join in select.from.iter_mut().flat_map(|from| &mut from.joins) {
        let operator = &mut join.join_operator;
        match operator {
            JoinOperator::Semi(on) => *operator = JoinOperator::LeftSemi(on.clone()),
            JoinOperator::Anti(on) => *operator = JoinOperator::LeftAnti(on.clone()),
            JoinOperator::AsOf { .. } => return Err(Error::unsupported(crate::sql::foreign::ASOF)),
            _ => {}
        }
    }
    let (mut merging, mut needed) = (false, false);
    for join in select.from.iter().flat_map(|from| &from.joins) {
        if let Some((JoinConstraint::Using(_) | JoinConstraint::Natural, value)) =
            constraint(&join.join_operator)
        {
            merging = true;
            needed |= !matches!(value, Value::Left);
        }
    }
    if !merging {
        return Ok(());
    }
    match Merged::of(select, columns)? {
        Some(merged) => merged.apply(select, order_by),
        None if !needed => Ok(()),
        None => Err(Error::unsupported(
            "RIGHT or FULL JOIN with USING or NATURAL beside other joins or of tables without a \
             name; write ON",
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
        | J::LeftSemi(on)
        | J::LeftAnti(on) => Some((on, Value::Left)),
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
    /// Its columns that are merged into those of others.
    hidden: Vec<Ident>,
    columns_of: &'a ColumnsOf<'a>,
    columns: OnceCell<Option<Vec<String>>>,
}

impl<'a> Relation<'a> {
    fn of(factor: &TableFactor, columns_of: &'a ColumnsOf<'a>) -> Option<Self> {
        let (of, factor) = (qualifier(factor)?, factor.clone());
        let columns = OnceCell::new();
        Some(Self { of, factor, hidden: Vec::new(), columns_of, columns })
    }

    fn columns(&self) -> Option<&[String]> {
        self.columns.get_or_init(|| (self.columns_of)(&self.factor)).as_deref()
    }

    /// The column of a name, if it is known to have one that is not merged into another's.
    fn column(&self, name: &Ident) -> Option<Ident> {
        let found = self.columns()?.iter().find(|column| is_called(column, name))?;
        let own = !self.hidden.iter().any(|hidden| is_called(found, hidden));
        own.then(|| Ident::with_quote('"', found))
    }
}

/// Several columns merged into one.
struct Column {
    name: Ident,
    /// What the name stands for.
    value: Expr,
    /// The place of the relation that shows it.
    place: usize,
}

/// The columns that the joins of a SELECT merge.
struct Merged<'a> {
    columns: Vec<Column>,
    shown: Vec<Relation<'a>>,
    /// The condition of each join that merges columns.
    conditions: Vec<Option<Expr>>,
}

impl<'a> Merged<'a> {
    /// `None` where it cannot be told whose the columns are.
    fn of(select: &Select, columns_of: &'a ColumnsOf<'a>) -> Result<Option<Self>> {
        let [from] = select.from.as_slice() else { return Ok(None) };
        let Some(first) = Relation::of(&from.relation, columns_of) else { return Ok(None) };
        let mut merged = Self { columns: Vec::new(), shown: vec![first], conditions: Vec::new() };
        for join in &from.joins {
            let (Some(mut right), Some((on, value))) =
                (Relation::of(&join.relation, columns_of), constraint(&join.join_operator))
            else {
                return Ok(None);
            };
            let names = match on {
                JoinConstraint::On(_) | JoinConstraint::None => Vec::new(),
                _ if from.joins.len() > 1 && !matches!(value, Value::Left) => return Ok(None),
                JoinConstraint::Using(names) => names.iter().map(plain).collect::<Result<_>>()?,
                JoinConstraint::Natural => match merged.shared(&right) {
                    Some(names) if !names.is_empty() => names,
                    _ => return Ok(None),
                },
            };
            let mut condition = None;
            if !names.is_empty() {
                let Some(equal) = merged.join(&names, &mut right, value) else { return Ok(None) };
                condition = Some(equal);
            }
            merged.conditions.push(condition);
            let operator = &join.join_operator;
            if !matches!(operator, JoinOperator::LeftSemi(_) | JoinOperator::LeftAnti(_)) {
                merged.shown.push(right);
            }
        }
        Ok(Some(merged))
    }

    /// The columns that a relation has in common with those before it.
    fn shared(&self, right: &Relation<'_>) -> Option<Vec<Ident>> {
        let mut shared = Vec::new();
        for left in &self.shown {
            for name in left.columns()? {
                let name = Ident::with_quote('"', name);
                let is_new = !shared.iter().any(|known: &Ident| is_called(&known.value, &name));
                if is_new && right.column(&unquoted(&name)).is_some() {
                    shared.push(name);
                }
            }
        }
        right.columns().map(|_| shared)
    }

    /// The condition of a join by columns that relations so far are joined by, or that just one of
    /// them has.
    fn join(&mut self, names: &[Ident], right: &mut Relation<'_>, value: Value) -> Option<Expr> {
        let mut equal = Vec::with_capacity(names.len());
        for name in names {
            let known = self.find(name).map(|column| column.value.clone());
            let (left, place) = match (known, self.shown.as_slice()) {
                (Some(value), _) => (value, None),
                (None, [only]) => (field(&only.of, name), Some(0)),
                (None, several) => {
                    let owners = several.iter().enumerate();
                    let mut owners = owners.filter_map(|(place, relation)| {
                        relation.column(name).map(|own| (field(&relation.of, &own), place))
                    });
                    match (owners.next(), owners.next()) {
                        (Some((owner, place)), None) => (owner, Some(place)),
                        _ => return None,
                    }
                }
            };
            // Asked only when something else has asked already: the names are equal, nearly always.
            let other = match right.columns.get() {
                Some(_) => right.column(&unquoted(name)).unwrap_or_else(|| name.clone()),
                None => name.clone(),
            };
            let theirs = field(&right.of, &other);
            equal.push(ast::binary(left.clone(), BinaryOperator::Eq, theirs.clone()));
            if let Some(place) = place {
                let value = match value {
                    Value::Left => left,
                    Value::Right => theirs,
                    Value::Either => call("coalesce", [left, theirs]),
                };
                self.columns.push(Column { name: name.clone(), value, place });
            }
            right.hidden.push(other);
        }
        Some(ast::all(equal))
    }

    fn find(&self, name: &Ident) -> Option<&Column> {
        self.columns.iter().find(|column| match column.name.quote_style {
            None => is_called(&column.name.value, name),
            Some(_) => column.name.value == name.value,
        })
    }

    /// What the plain name of a merged column stands for.
    fn value(&self, name: &Ident) -> Option<Expr> {
        self.find(name).map(|column| column.value.clone())
    }

    fn apply(&self, select: &mut Select, order_by: Option<&mut OrderBy>) -> Result<()> {
        // ALL are the columns of the result, which the engine counts when they are listed.
        let by_all = order_by.as_ref().is_some_and(|by| matches!(by.kind, OrderByKind::All(_)));
        let listed = by_all && self.shown.iter().all(|relation| relation.columns().is_some());
        let mut shown = Vec::new();
        let mut projection = Vec::with_capacity(select.projection.len() + 1);
        for item in std::mem::take(&mut select.projection) {
            match item {
                SelectItem::Wildcard(options) => {
                    shown.extend(self.columns.iter().map(|column| column.name.clone()));
                    match options == WildcardAdditionalOptions::default() && !listed {
                        true => projection.extend(self.wildcards()),
                        false => projection.extend(self.chosen(&options)?),
                    }
                }
                SelectItem::UnnamedExpr(Expr::Identifier(name)) => match self.value(&name) {
                    Some(expr) => {
                        shown.push(name.clone());
                        projection.push(SelectItem::ExprWithAlias { expr, alias: name });
                    }
                    None => projection.push(SelectItem::UnnamedExpr(Expr::Identifier(name))),
                },
                other => projection.push(other),
            }
        }
        select.projection = projection;
        let mut from = std::mem::take(&mut select.from);
        self.replace(select);
        for (join, condition) in from.iter_mut().flat_map(|f| &mut f.joins).zip(&self.conditions) {
            if let (Some(on), Some(condition)) =
                (constraint_mut(&mut join.join_operator), condition)
            {
                *on = JoinConstraint::On(condition.clone());
            }
        }
        select.from = from;
        if let Some(OrderBy { kind: OrderByKind::Expressions(order), .. }) = order_by {
            for by in order {
                // The name of a column of the result stays one.
                let named = matches!(&by.expr, Expr::Identifier(name)
                    if shown.iter().any(|s| s.value.eq_ignore_ascii_case(&name.value)));
                if !named {
                    self.replace(&mut by.expr);
                }
            }
        }
        Ok(())
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
                let merged = self.find(&name).filter(|column| column.place == place);
                let value = merged
                    .map_or_else(|| field(&relation.of, &name), |column| column.value.clone());
                items.push(choice.item(&name, value));
            }
        }
        choice.finish().map(|()| items)
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

    /// Puts values for the plain names.
    fn replace<T: VisitMut>(&self, tree: &mut T) {
        replace_names(tree, &mut |name| self.value(name));
    }
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
        let excluded = match &options.opt_exclude {
            None => &[][..],
            Some(ExcludeSelectItem::Single(name)) => std::slice::from_ref(name),
            Some(ExcludeSelectItem::Multiple(names)) => names,
        };
        for name in excluded {
            choice.excluded.push((plain(name)?, false));
        }
        for element in options.opt_replace.iter().flat_map(|replace| &replace.items) {
            choice.replaced.push((element.column_name.clone(), element.expr.clone()));
        }
        let renamed = match &options.opt_rename {
            None => &[][..],
            Some(RenameSelectItem::Single(one)) => std::slice::from_ref(one),
            Some(RenameSelectItem::Multiple(all)) => all,
        };
        choice.renamed.extend(renamed.iter().map(|to| (to.ident.clone(), to.alias.clone())));
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
    use super::super::tests::rewritten;

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
        assert!(rewritten("SELECT 1 FROM t FULL JOIN s USING (k) JOIN u USING (k)").is_err());
        assert_eq!(
            rewritten("SELECT 1 FROM t SEMI JOIN s USING (k)").unwrap(),
            "SELECT 1 FROM t LEFT SEMI JOIN s ON t.k = s.k"
        );
    }
}
