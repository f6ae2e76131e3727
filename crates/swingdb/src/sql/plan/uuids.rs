//! UUIDs beside texts and beside bytes: both sides of a comparison are UUIDs then.
//!
//! `u = 'AAAA0000-...'` is true of the UUID that is written in small letters too. A text that is
//! none is an error, as in DuckDB.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{Between, BinaryExpr, InList, InSubquery};
use datafusion::logical_expr::{
    Cast, Expr, ExprSchemable, Join, LogicalPlan, LogicalPlanBuilder, Operator, TryCast,
};
use swingdb_common::uuid::{has_bytes, is_marked};
use swingdb_functions::json::to_json::unmarked;
use swingdb_functions::text::uuids::as_uuid;

/// Whether this compares.
pub(crate) fn is_concerned(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op, .. }) => is_comparison(*op),
        Expr::Between(_) | Expr::InList(_) | Expr::InSubquery(_) => true,
        Expr::Cast(Cast { field, .. }) | Expr::TryCast(TryCast { field, .. }) => {
            field.data_type().is_string()
        }
        _ => false,
    }
}

fn is_comparison(operator: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// What an operand is, beside others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A UUID in canonical form.
    Canonical,
    /// The bytes of a UUID.
    Bytes,
    Text,
    Other,
}

fn kind(expr: &Expr, schema: &DFSchema) -> Kind {
    match expr.to_field(schema) {
        Ok((_, field)) if is_marked(&field) => Kind::Canonical,
        Ok((_, field)) if has_bytes(&field) => Kind::Bytes,
        Ok((_, field)) if field.data_type().is_string() => Kind::Text,
        _ => Kind::Other,
    }
}

/// The comparison with UUIDs on all sides, where there is one.
pub(crate) fn rewrite(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let changed = match &mut expr {
        Expr::BinaryExpr(BinaryExpr { left, right, .. }) => {
            unify(vec![left.as_mut(), right.as_mut()], schema)
        }
        Expr::Between(Between { expr, low, high, .. }) => {
            unify(vec![expr.as_mut(), low.as_mut(), high.as_mut()], schema)
        }
        Expr::InList(InList { expr, list, .. }) => {
            unify(std::iter::once(expr.as_mut()).chain(list).collect(), schema)
        }
        Expr::InSubquery(InSubquery { expr, subquery, .. }) => {
            let rows = Arc::clone(&subquery.subquery);
            let (relation, field) = rows.schema().qualified_field(0);
            let column = Expr::Column((relation, field).into());
            let name = field.name().clone();
            let (mut one, mut other) = (expr.as_ref().clone(), column.clone());
            let changed = unify_both([&mut one, &mut other], [schema, rows.schema()]);
            if other != column {
                let plan = LogicalPlanBuilder::from(rows).project([other.alias(name)])?.build()?;
                subquery.subquery = Arc::new(plan);
            }
            **expr = one;
            changed
        }
        Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) => {
            as_text(expr.as_mut(), schema)
        }
        _ => false,
    };
    Ok(Transformed::new_transformed(expr, changed))
}

/// Makes text of UUIDs that are cast to text: the engine keeps the mark.
fn as_text(expr: &mut Expr, schema: &DFSchema) -> bool {
    let of = kind(expr, schema);
    match of {
        Kind::Canonical => *expr = unmarked(std::mem::take(expr)),
        Kind::Bytes => *expr = unmarked(as_uuid(std::mem::take(expr))),
        Kind::Text | Kind::Other => {}
    }
    matches!(of, Kind::Canonical | Kind::Bytes)
}

/// The keys of a join.
pub(crate) fn rewrite_join(mut join: Join) -> Transformed<Join> {
    let (left, right) = (Arc::clone(join.left.schema()), Arc::clone(join.right.schema()));
    let mut changed = false;
    for (one, other) in &mut join.on {
        changed |= unify_both([one, other], [&left, &right]);
    }
    Transformed::new_transformed(join, changed)
}

fn unify(operands: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let kinds = operands.iter().map(|operand| kind(operand, schema)).collect::<Vec<_>>();
    convert(operands, &kinds)
}

fn unify_both(operands: [&mut Expr; 2], schemas: [&DFSchema; 2]) -> bool {
    let kinds = [kind(operands[0], schemas[0]), kind(operands[1], schemas[1])];
    convert(operands.into(), &kinds)
}

/// Makes UUIDs of texts and bytes, where a UUID is beside them.
fn convert(operands: Vec<&mut Expr>, kinds: &[Kind]) -> bool {
    let is_uuid = |kind: &Kind| matches!(kind, Kind::Canonical | Kind::Bytes);
    let same = kinds.iter().all(|kind| Some(kind) == kinds.first());
    if same || !kinds.iter().any(is_uuid) {
        return false;
    }
    let mut changed = false;
    for (operand, kind) in operands.into_iter().zip(kinds) {
        if matches!(kind, Kind::Text | Kind::Bytes) {
            *operand = as_uuid(std::mem::take(operand));
            changed = true;
        }
    }
    changed
}

/// The node with the keys of joins brought to UUIDs.
pub(crate) fn of_node(plan: LogicalPlan) -> Transformed<LogicalPlan> {
    match plan {
        LogicalPlan::Join(join) => rewrite_join(join).update_data(LogicalPlan::Join),
        other => Transformed::no(other),
    }
}
