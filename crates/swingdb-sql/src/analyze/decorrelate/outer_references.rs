//! What a subquery refers to outside of it.

use arrow::datatypes::FieldRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// The columns outside of a subquery that it refers to, each once. Subqueries inside it are not
/// looked into: what they refer to is part of it, as long as the innermost are unnested first.
pub(crate) fn references(plan: &LogicalPlan) -> Result<Vec<(FieldRef, Column)>> {
    let mut found = Vec::new();
    each_reference(plan, &mut |field, column| {
        if !found.iter().any(|(_, known)| known == column) {
            found.push((field.clone(), column.clone()));
        }
    })?;
    Ok(found)
}

/// Whether a plan refers to one of these columns outside of it.
pub(crate) fn refers(plan: &LogicalPlan, columns: &[Column]) -> Result<bool> {
    let mut found = false;
    each_reference(plan, &mut |_, column| found |= columns.contains(column))?;
    Ok(found)
}

fn each_reference(plan: &LogicalPlan, f: &mut impl FnMut(&FieldRef, &Column)) -> Result<()> {
    plan.apply(|node| {
        if matches!(node, LogicalPlan::Subquery(_)) {
            return Ok(TreeNodeRecursion::Jump);
        }
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                if let Expr::OuterReferenceColumn(field, column) = part {
                    f(field, column);
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(())
}

/// Whether an expression refers to one of these columns outside of its plan.
pub(crate) fn mentions(expr: &Expr, columns: &[Column]) -> Result<bool> {
    expr.exists(|part| {
        Ok(matches!(part, Expr::OuterReferenceColumn(_, column) if columns.contains(column)))
    })
}

/// Columns of a plan that stand for columns outside of it.
pub(crate) struct Stand<'a> {
    pub outer: &'a [Column],
    pub keys: &'a [Column],
}

impl Stand<'_> {
    /// An expression of the node with the columns in place of what they stand for.
    pub fn expr(&self, expr: Expr) -> Result<Expr> {
        let replaced = expr.transform_up(|part| {
            let Expr::OuterReferenceColumn(_, column) = &part else {
                return Ok(Transformed::no(part));
            };
            let at = self.outer.iter().position(|outer| outer == column);
            Ok(match at.and_then(|at| self.keys.get(at)) {
                Some(key) => Transformed::yes(Expr::Column(key.clone())),
                None => Transformed::no(part),
            })
        });
        replaced.data()
    }

    pub fn exprs(&self, exprs: &[Expr]) -> Result<Vec<Expr>> {
        exprs.iter().map(|expr| self.expr(expr.clone())).collect()
    }

    /// Expressions whose columns keep their names.
    pub fn named(&self, exprs: &[Expr]) -> Result<Vec<Expr>> {
        let names = NamePreserver::new_for_projection();
        let named = exprs.iter().map(|expr| {
            let name = names.save(expr);
            Ok(name.restore(self.expr(expr.clone())?))
        });
        named.collect()
    }
}
