//! Joins whose merged columns the engine gets wrong, and kinds of join it has under another name.
//!
//! After `a RIGHT JOIN b USING (k)` the plain name `k` is `b.k`, after `FULL JOIN` the one of the
//! two that is not NULL; the engine takes `a.k` for both. So these joins get an `ON`, and the plain
//! names in the SELECT what they stand for. `SEMI JOIN` and `ANTI JOIN` are the engine's
//! `LEFT SEMI JOIN` and `LEFT ANTI JOIN`.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, JoinConstraint, JoinOperator, ObjectName, OrderByKind, Query,
    ReplaceSelectElement, ReplaceSelectItem, Select, SelectItem, SelectItemQualifiedWildcardKind,
    SetExpr, TableFactor, VisitMut, WildcardAdditionalOptions,
};
use datafusion::sql::sqlparser::ast::{ExcludeSelectItem, OrderBy};

use super::call;
use crate::error::{Error, Result};
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
    let merges = |operator: &JoinOperator| match merging(operator) {
        None | Some((JoinConstraint::On(_) | JoinConstraint::None, _)) => false,
        Some(_) => true,
    };
    let mut all = select.from.iter().flat_map(|from| &from.joins);
    if !all.any(|join| merges(&join.join_operator)) {
        return Ok(());
    }
    let Some(merged) = Merged::of(select)? else {
        return Err(Error::unsupported(
            "RIGHT or FULL JOIN with USING or NATURAL beside other joins or of tables without a \
             name; write ON",
        ));
    };
    merged.apply(select, order_by)
}

/// The constraint of a join whose merged columns are not the left ones, and whether it is FULL.
fn merging(operator: &JoinOperator) -> Option<(&JoinConstraint, bool)> {
    match operator {
        JoinOperator::Right(on) | JoinOperator::RightOuter(on) => Some((on, false)),
        JoinOperator::FullOuter(on) => Some((on, true)),
        _ => None,
    }
}

/// The columns that the only join of a SELECT merges.
struct Merged {
    left: Vec<Ident>,
    right: Vec<Ident>,
    columns: Vec<Ident>,
    full: bool,
}

impl Merged {
    fn of(select: &Select) -> Result<Option<Self>> {
        let [from] = select.from.as_slice() else { return Ok(None) };
        let [join] = from.joins.as_slice() else { return Ok(None) };
        let (Some(left), Some(right)) = (qualifier(&from.relation), qualifier(&join.relation))
        else {
            return Ok(None);
        };
        let Some((JoinConstraint::Using(names), full)) = merging(&join.join_operator) else {
            return Ok(None);
        };
        let one = |name: &ObjectName| match name.0.as_slice() {
            [part] => part.as_ident().cloned(),
            _ => None,
        };
        let columns = names.iter().map(one).collect::<Option<Vec<Ident>>>();
        let columns = columns.ok_or_else(|| Error::plan("USING takes plain names of columns"))?;
        Ok(Some(Self { left, right, columns, full }))
    }

    /// What the plain name of a merged column stands for.
    fn value(&self, column: &Ident) -> Expr {
        let right = field(&self.right, column);
        match self.full {
            true => call("coalesce", [field(&self.left, column), right]),
            false => right,
        }
    }

    fn find(&self, name: &Ident) -> Option<&Ident> {
        let equal = |column: &&Ident| match (column.quote_style, name.quote_style) {
            (None, None) => column.value.eq_ignore_ascii_case(&name.value),
            _ => column.value == name.value,
        };
        self.columns.iter().find(equal)
    }

    fn apply(&self, select: &mut Select, order_by: Option<&mut OrderBy>) -> Result<()> {
        let mut shown = Vec::new();
        let mut projection = Vec::with_capacity(select.projection.len() + 1);
        for item in std::mem::take(&mut select.projection) {
            match item {
                SelectItem::Wildcard(options) => {
                    if options != WildcardAdditionalOptions::default() {
                        return Err(Error::unsupported(
                            "options of * after RIGHT or FULL JOIN USING; name the columns",
                        ));
                    }
                    shown.extend(self.columns.iter().cloned());
                    projection.extend(self.wildcards());
                }
                SelectItem::UnnamedExpr(Expr::Identifier(name)) if self.find(&name).is_some() => {
                    shown.push(name.clone());
                    projection
                        .push(SelectItem::ExprWithAlias { expr: self.value(&name), alias: name });
                }
                other => projection.push(other),
            }
        }
        select.projection = projection;
        let on = self.columns.iter().map(|column| {
            let (left, right) = (field(&self.left, column), field(&self.right, column));
            ast::binary(left, BinaryOperator::Eq, right)
        });
        let on = JoinConstraint::On(ast::all(on));
        let mut from = std::mem::take(&mut select.from);
        let operator = &mut from[0].joins[0].join_operator;
        *operator = match self.full {
            true => JoinOperator::FullOuter(on),
            false => JoinOperator::Right(on),
        };
        self.replace(select);
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

    /// `left.* REPLACE (k), right.* EXCLUDE (k)`
    fn wildcards(&self) -> [SelectItem; 2] {
        let element = |column: &Ident| {
            Box::new(ReplaceSelectElement {
                expr: self.value(column),
                column_name: column.clone(),
                as_keyword: true,
            })
        };
        let replace = ReplaceSelectItem { items: self.columns.iter().map(element).collect() };
        let exclude = self.columns.iter().map(|c| ObjectName::from(vec![c.clone()])).collect();
        let all = |of: &[Ident], options| {
            let name = SelectItemQualifiedWildcardKind::ObjectName(ObjectName::from(of.to_vec()));
            SelectItem::QualifiedWildcard(name, options)
        };
        let left = WildcardAdditionalOptions { opt_replace: Some(replace), ..Default::default() };
        let right = WildcardAdditionalOptions {
            opt_exclude: Some(ExcludeSelectItem::Multiple(exclude)),
            ..Default::default()
        };
        [all(&self.left, left), all(&self.right, right)]
    }

    /// Puts values for the plain names.
    fn replace<T: VisitMut>(&self, tree: &mut T) {
        replace_names(tree, &mut |name| self.find(name).map(|column| self.value(column)));
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
    fn names_in_subqueries_are_their_own() {
        let all = rewritten(
            "SELECT k FROM t FULL JOIN s USING (k) WHERE EXISTS (SELECT 1 FROM u WHERE k = 1)",
        );
        assert!(all.unwrap().ends_with("WHERE EXISTS (SELECT 1 FROM u WHERE k = 1)"));
    }

    #[test]
    fn others_stay() {
        for same in [
            "SELECT k FROM t JOIN s USING(k) LEFT JOIN u USING(k)",
            "SELECT k FROM t FULL JOIN s ON t.k = s.k",
            "SELECT * FROM t NATURAL JOIN s",
        ] {
            assert_eq!(rewritten(same).unwrap(), same);
        }
        assert!(rewritten("SELECT 1 FROM t NATURAL FULL JOIN s").is_err());
        assert!(rewritten("SELECT 1 FROM t FULL JOIN s USING (k) JOIN u USING (k)").is_err());
        assert_eq!(
            rewritten("SELECT 1 FROM t SEMI JOIN s USING (k)").unwrap(),
            "SELECT 1 FROM t LEFT SEMI JOIN s USING(k)"
        );
    }
}
