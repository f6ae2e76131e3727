//! Joins whose merged columns the engine gets wrong, and kinds of join it has under another name.
//!
//! After `a LEFT JOIN b USING (k)` the plain name `k` is `a.k`, after `RIGHT JOIN` it is `b.k`,
//! after `FULL JOIN` the one of the two that is not NULL. The engine shows the one whose table
//! comes first in the alphabet for `*`, and takes `k` for ambiguous in WHERE. So these joins get an
//! `ON`, and the plain names in the SELECT what they stand for. `SEMI JOIN` and `ANTI JOIN` are the
//! engine's `LEFT SEMI JOIN` and `LEFT ANTI JOIN`.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, JoinConstraint, JoinOperator, ObjectName, OrderByKind, Query,
    ReplaceSelectElement, ReplaceSelectItem, Select, SelectItem, SelectItemQualifiedWildcardKind,
    SetExpr, TableFactor, VisitMut, WildcardAdditionalOptions,
};
use datafusion::sql::sqlparser::ast::{ExcludeSelectItem, OrderBy};

use super::call;
use crate::error::{Error, Result};
use crate::sql::idents::constraint_mut;
use crate::sql::visit::replace_names;
use crate::sql::write::ast;

/// Rewrites the joins of a query's own SELECTs; subqueries are visited by themselves.
pub(super) fn rewrite(query: &mut Query) -> Result<()> {
    let order_by = query.order_by.as_mut();
    match query.body.as_mut() {
        SetExpr::Select(select) => rewrite_select(select, order_by),
        other => operands(other),
    }
}

fn operands(body: &mut SetExpr) -> Result<()> {
    match body {
        SetExpr::Select(select) => rewrite_select(select, None),
        SetExpr::SetOperation { left, right, .. } => {
            operands(left)?;
            operands(right)
        }
        _ => Ok(()),
    }
}

fn rewrite_select(select: &mut Select, order_by: Option<&mut OrderBy>) -> Result<()> {
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
    let chosen = |item: &SelectItem| {
        matches!(item, SelectItem::Wildcard(options)
            if *options != WildcardAdditionalOptions::default())
    };
    match (Merged::of(select)?, select.projection.iter().any(chosen)) {
        (Some(merged), false) => {
            merged.apply(select, order_by);
            Ok(())
        }
        _ if !needed => Ok(()),
        (Some(_), true) => {
            Err(Error::unsupported("options of * after RIGHT or FULL JOIN USING; name the columns"))
        }
        (None, _) => Err(Error::unsupported(
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

/// The columns that the joins of a SELECT merge.
#[derive(Default)]
struct Merged {
    /// Their names, and what these stand for.
    columns: Vec<(Ident, Expr)>,
    /// The relations that `*` shows, each with the columns of it that are merged into others.
    shown: Vec<(Vec<Ident>, Vec<Ident>)>,
    /// The condition of each join that merges columns.
    conditions: Vec<Option<Expr>>,
}

impl Merged {
    /// `None` where it cannot be told whose the columns are.
    fn of(select: &Select) -> Result<Option<Self>> {
        let [from] = select.from.as_slice() else { return Ok(None) };
        let Some(first) = qualifier(&from.relation) else { return Ok(None) };
        let mut merged = Self { shown: vec![(first, Vec::new())], ..Self::default() };
        for join in &from.joins {
            let (Some(right), Some((on, value))) =
                (qualifier(&join.relation), constraint(&join.join_operator))
            else {
                return Ok(None);
            };
            let mut hidden = Vec::new();
            let condition = match on {
                JoinConstraint::On(_) | JoinConstraint::None => None,
                JoinConstraint::Using(_)
                    if from.joins.len() > 1 && !matches!(value, Value::Left) =>
                {
                    return Ok(None);
                }
                JoinConstraint::Using(names) => {
                    hidden = names.iter().map(plain).collect::<Result<_>>()?;
                    match merged.join(&hidden, &right, value) {
                        Some(condition) => Some(condition),
                        None => return Ok(None),
                    }
                }
                JoinConstraint::Natural => return Ok(None),
            };
            merged.conditions.push(condition);
            let operator = &join.join_operator;
            if !matches!(operator, JoinOperator::LeftSemi(_) | JoinOperator::LeftAnti(_)) {
                merged.shown.push((right, hidden));
            }
        }
        Ok(Some(merged))
    }

    /// The condition of a join by columns that all relations so far are joined by, or that the only
    /// one has.
    fn join(&mut self, columns: &[Ident], right: &[Ident], value: Value) -> Option<Expr> {
        let mut equal = Vec::with_capacity(columns.len());
        for column in columns {
            let left = match (self.find(column), self.conditions.is_empty()) {
                (Some((_, known)), _) => known.clone(),
                (None, true) => field(&self.shown[0].0, column),
                (None, false) => return None,
            };
            let other = field(right, column);
            equal.push(ast::binary(left.clone(), BinaryOperator::Eq, other.clone()));
            if self.find(column).is_none() {
                let stands_for = match value {
                    Value::Left => left,
                    Value::Right => other,
                    Value::Either => call("coalesce", [left, other]),
                };
                self.columns.push((column.clone(), stands_for));
            }
        }
        Some(ast::all(equal))
    }

    fn find(&self, name: &Ident) -> Option<&(Ident, Expr)> {
        let equal = |(column, _): &&(Ident, Expr)| match (column.quote_style, name.quote_style) {
            (None, None) => column.value.eq_ignore_ascii_case(&name.value),
            _ => column.value == name.value,
        };
        self.columns.iter().find(equal)
    }

    /// What the plain name of a merged column stands for.
    fn value(&self, name: &Ident) -> Option<Expr> {
        self.find(name).map(|(_, value)| value.clone())
    }

    fn apply(&self, select: &mut Select, order_by: Option<&mut OrderBy>) {
        let mut shown = Vec::new();
        let mut projection = Vec::with_capacity(select.projection.len() + 1);
        for item in std::mem::take(&mut select.projection) {
            match item {
                SelectItem::Wildcard(_) => {
                    shown.extend(self.columns.iter().map(|(column, _)| column.clone()));
                    projection.extend(self.wildcards());
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
    }

    /// `left.* REPLACE (coalesce(left.k, right.k) AS k), right.* EXCLUDE (k)`
    fn wildcards(&self) -> impl Iterator<Item = SelectItem> {
        self.shown.iter().enumerate().map(|(place, (of, hidden))| {
            let own = |(column, value): &&(Ident, Expr)| place == 0 && *value != field(of, column);
            let element = |(column, value): &(Ident, Expr)| {
                Box::new(ReplaceSelectElement {
                    expr: value.clone(),
                    column_name: column.clone(),
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
