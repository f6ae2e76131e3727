//! Rows of VALUES: of several types, and with subqueries in them, `VALUES ((SELECT 1), (SELECT
//! 2))`.
//!
//! The engine computes a list of values while it makes the physical plan, before it runs any
//! subquery. So a row that has one becomes a query without FROM, and what is left stays a list: all
//! of them together are a UNION ALL.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{
    Cast, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Union, Values,
};

use crate::plan::decimals_and_floats::{converted, distinct, settled};
use crate::plan::moments::is_date;
use crate::plan::{dates_and_numbers, decimals_and_floats};

/// Places that the engine gives decimals which it makes of REAL.
const FLOAT_PLACES: i8 = 7;

/// A list of values, or what takes its place.
pub(crate) fn rewrite(list: Values) -> Result<Transformed<LogicalPlan>> {
    let list = match retyped(&list)? {
        Some(LogicalPlan::Values(retyped)) => Transformed::yes(retyped),
        _ => Transformed::no(list),
    };
    let changed = list.transformed;
    let list = list.data;
    if !list.values.iter().any(|row| has_subquery(row)) {
        return Ok(Transformed::new_transformed(LogicalPlan::Values(list), changed));
    }
    let mut parts = Vec::new();
    for rows in list.values.chunk_by(|one, next| !has_subquery(one) && !has_subquery(next)) {
        parts.push(Arc::new(match rows {
            [row] if has_subquery(row) => {
                let names = list.schema.fields().iter().map(|field| field.name());
                let columns = row.iter().zip(names).map(|(value, name)| value.clone().alias(name));
                LogicalPlanBuilder::empty(true).project(columns)?.build()?
            }
            rows => LogicalPlan::Values(Values {
                schema: Arc::clone(&list.schema),
                values: rows.to_vec(),
            }),
        }));
    }
    Ok(Transformed::yes(match parts.as_slice() {
        [only] => only.as_ref().clone(),
        _ => {
            let union = Union::try_new_with_loose_types(parts)?;
            dates_and_numbers::check_union(&union)?;
            decimals_and_floats::rewrite_union(union)?.data
        }
    }))
}

/// The list with other types for columns of several types, as they have in UNION: the engine has
/// cast them to its own common type already, which has no zone, or digits too few. `None`: its
/// types are right.
fn retyped(list: &Values) -> Result<Option<LogicalPlan>> {
    let mut rows: Option<Vec<Vec<Expr>>> = None;
    for (at, field) in list.schema.fields().iter().enumerate() {
        let common = field.data_type();
        if !may_be_wrong(common) {
            continue;
        }
        let cells = list.values.iter().map(|row| uncast(&row[at], common));
        let cells = cells.map(|cell| cell.get_type(&list.schema).map(|given| (given, cell)));
        let cells = cells.collect::<Result<Vec<_>>>()?;
        let types = distinct(cells.iter().map(|(given, _)| given.clone()));
        if types.iter().all(|given| settled(given, &types) == *given) {
            continue;
        }
        let rows = rows.get_or_insert_with(|| list.values.clone());
        for (row, (given, cell)) in rows.iter_mut().zip(cells) {
            let becomes = settled(&given, &types);
            row[at] = match becomes == given {
                true => cell.clone(),
                false => converted(cell.clone(), &becomes),
            };
        }
    }
    rows.map(|rows| LogicalPlanBuilder::values(rows)?.build()).transpose()
}

/// Whether the engine makes such a type of values of several types, where another one is right.
fn may_be_wrong(common: &DataType) -> bool {
    match common {
        DataType::Timestamp(unit, None) => *unit == TimeUnit::Nanosecond,
        DataType::Decimal128(_, scale) => *scale >= FLOAT_PLACES,
        other => other.is_nested(),
    }
}

/// A value without the engine's cast to the common type.
fn uncast<'a>(cell: &'a Expr, common: &DataType) -> &'a Expr {
    let Expr::Cast(Cast { expr, field }) = cell else { return cell };
    let is_kind = |given: DataType| match common {
        DataType::Timestamp(..) => is_date(&given) || matches!(given, DataType::Timestamp(..)),
        DataType::Decimal128(..) => given.is_numeric(),
        _ => given.is_nested(),
    };
    let fits = field.data_type() == common && expr.get_type(&DFSchema::empty()).is_ok_and(is_kind);
    if fits { expr.as_ref() } else { cell }
}

fn has_subquery(row: &[Expr]) -> bool {
    let is_subquery = |part: &Expr| {
        Ok(matches!(
            part,
            Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
        ))
    };
    row.iter().any(|value| value.exists(is_subquery).unwrap_or(true))
}
