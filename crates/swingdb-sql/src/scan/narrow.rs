//! Which rows of a segment can fulfil a condition on a column that the segment is sorted by.
//!
//! `WHERE id = 7` on rows in the order of their ids: two binary searches find the rows, instead of
//! a look at all of the segment. It is the index that a table in the order of its key has anyway.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, make_comparator};
use arrow::compute::SortOptions;
use datafusion::common::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use swingdb_store::{Segment, Table};

use crate::scan::search::{first, is_searchable};

/// Segments that are searched at most. Of more all rows but those of the first and the last segment
/// are likely to be wanted, and to search takes time.
const MOST_SEGMENTS: usize = 16;

/// For each segment the rows that can fulfil all of `conditions`; `None` where that is all rows.
pub(crate) fn rows_of_interest(
    table: &Table,
    segments: &[(u32, Arc<Segment>)],
    conditions: &[Arc<dyn PhysicalExpr>],
) -> Result<Option<Vec<Range<usize>>>> {
    let conjuncts = conditions.iter().flat_map(split_conjunction);
    let bounds = conjuncts.filter_map(|c| Bound::of(c, table)).collect::<Vec<_>>();
    if bounds.is_empty() || segments.len() > MOST_SEGMENTS {
        return Ok(None);
    }
    let (mut narrowed, mut ranges) = (false, Vec::with_capacity(segments.len()));
    for (_, segment) in segments {
        let mut rows = 0..segment.rows();
        for bound in &bounds {
            bound.narrow(segment, &mut rows)?;
        }
        narrowed |= rows.len() < segment.rows();
        ranges.push(rows);
    }
    Ok(narrowed.then_some(ranges))
}

/// A comparison of a column with a value of its type.
struct Bound {
    column: usize,
    op: Operator,
    /// One row.
    value: ArrayRef,
}

impl Bound {
    fn of(condition: &Arc<dyn PhysicalExpr>, table: &Table) -> Option<Self> {
        let compared = condition.downcast_ref::<BinaryExpr>()?;
        let of_sides = |column: &Arc<dyn PhysicalExpr>, value: &Arc<dyn PhysicalExpr>| {
            let column = column.downcast_ref::<Column>()?.index();
            Some((column, value.downcast_ref::<Literal>()?.value().clone()))
        };
        let (left, right, op) = (compared.left(), compared.right(), *compared.op());
        let ((column, value), op) = match of_sides(left, right) {
            Some(found) => (found, op),
            None => (of_sides(right, left)?, op.swap()?),
        };
        use Operator::{Eq, Gt, GtEq, Lt, LtEq};
        let schema = table.schema();
        // Zeros of both signs are equal, but not one value; row ids are no column of the table.
        let fits = column < table.columns().len()
            && *schema.field(column).data_type() == value.data_type()
            && !value.data_type().is_floating()
            && !value.is_null();
        if !fits || !matches!(op, Eq | Gt | GtEq | Lt | LtEq) {
            return None;
        }
        Some(Self { column, op, value: value.to_array().ok()? })
    }

    /// Leaves out the rows of a segment that the condition does not hold for.
    fn narrow(&self, segment: &Segment, rows: &mut Range<usize>) -> Result<()> {
        if !is_searchable(segment, self.column)? {
            return Ok(());
        }
        use Operator::{Eq, Gt, GtEq, Lt, LtEq};
        if matches!(self.op, Eq | GtEq | Gt) {
            let start = self.first(segment, rows, self.op != Gt)?;
            rows.start = start;
        }
        if matches!(self.op, Eq | LtEq | Lt) {
            let end = self.first(segment, rows, self.op == Lt)?;
            rows.end = end;
        }
        Ok(())
    }

    /// The first of some rows whose value is greater than the bound's; with `or_equal` also one
    /// that is as great.
    fn first(&self, segment: &Segment, rows: &Range<usize>, or_equal: bool) -> Result<usize> {
        first(rows.clone(), |row| {
            let there = segment.slice(self.column, row..row + 1)?;
            let order = make_comparator(&there, &self.value, SortOptions::default())?(0, 0);
            Ok(order.is_gt() || (or_equal && order.is_eq()))
        })
    }
}
