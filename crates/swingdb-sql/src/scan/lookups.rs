//! Which rows of a segment can have one of a list of values, in a column that the segment is sorted
//! by: [`Lookups`].
//!
//! A join with few keys hands the scan of its other side the list of them, and `WHERE id IN (...)`
//! has one. In a sorted column two binary searches for each value find its rows, in place of a
//! comparison with each row: what an index would be asked.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, make_comparator};
use arrow::compute::{SortOptions, sort};
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, InListExpr, Literal};
use swingdb_store::{SEGMENT_ROWS, Segment};

use crate::scan::search::{first, is_searchable};

/// Values are looked up when there are so many rows for each; else a look at all rows is as fast.
const ROWS_FOR_A_VALUE: usize = 128;
/// Of more values not even a whole segment has so many rows for each.
const MOST_VALUES: usize = SEGMENT_ROWS / ROWS_FOR_A_VALUE;

/// A list of values that a column has to be in.
#[derive(Debug)]
pub(crate) struct Lookups {
    column: usize,
    /// In order.
    values: ArrayRef,
}

impl Lookups {
    /// Of a condition on columns of `table`; `None` where it is no list of values for a column.
    pub(crate) fn of(condition: &Arc<dyn PhysicalExpr>, table: &SchemaRef) -> Option<Self> {
        let mut values = Vec::new();
        let column = collect(condition, &mut values)?;
        if values.len() > MOST_VALUES {
            return None;
        }
        let data_type = table.field(column).data_type();
        // No row is equal to NULL. Zeros of both signs are equal, but not one value.
        values.retain(|value| !value.is_null());
        let fit = values.iter().all(|value| value.data_type() == *data_type);
        if !fit || values.is_empty() || data_type.is_floating() || data_type.is_nested() {
            return None;
        }
        let values = sort(&ScalarValue::iter_to_array(values).ok()?, None).ok()?;
        Some(Self { column, values })
    }

    /// The parts of some rows of a segment that hold all rows with one of the values, in order, and
    /// others between them: each has at most `together` rows, or rows of one value. `None` where to
    /// search is not possible, or gains little.
    pub(crate) fn parts(
        &self,
        segment: &Segment,
        rows: &Range<usize>,
        together: usize,
    ) -> Result<Option<Vec<Range<usize>>>> {
        let few = self.values.len() <= rows.len() / ROWS_FOR_A_VALUE;
        // Hidden columns come behind those of the table.
        if !few || self.column >= segment.columns() || !is_searchable(segment, self.column)? {
            return Ok(None);
        }
        let column = segment.slice(self.column, rows.clone())?;
        let compare = make_comparator(&column, &self.values, SortOptions::default())?;
        let mut parts: Vec<Range<usize>> = Vec::new();
        let mut from = 0;
        for value in 0..self.values.len() {
            let start = first(from..column.len(), |row| Ok(compare(row, value).is_ge()))?;
            let end = first(start..column.len(), |row| Ok(compare(row, value).is_gt()))?;
            from = end;
            if start == end {
                continue;
            }
            let (start, end) = (rows.start + start, rows.start + end);
            match parts.last_mut() {
                Some(last) if end - last.start <= together => last.end = end,
                _ => parts.push(start..end),
            }
        }
        let left: usize = parts.iter().map(Range::len).sum();
        Ok((left <= rows.len() / 2).then_some(parts))
    }
}

/// Adds the values that a condition has a column be equal to one of; the column's number.
fn collect(condition: &Arc<dyn PhysicalExpr>, values: &mut Vec<ScalarValue>) -> Option<usize> {
    if let Some(list) = condition.downcast_ref::<InListExpr>() {
        if list.list().len() > MOST_VALUES {
            return None;
        }
        for value in list.list() {
            values.push(value.downcast_ref::<Literal>()?.value().clone());
        }
        let column = list.expr().downcast_ref::<Column>()?.index();
        return (!list.negated()).then_some(column);
    }
    let compared = condition.downcast_ref::<BinaryExpr>()?;
    let (left, right) = (compared.left(), compared.right());
    match compared.op() {
        // A short list is taken apart.
        Operator::Or => {
            let column = collect(left, values)?;
            (collect(right, values)? == column).then_some(column)
        }
        Operator::Eq => {
            let (column, value) = match left.downcast_ref::<Column>() {
                Some(column) => (column, right),
                None => (right.downcast_ref::<Column>()?, left),
            };
            values.push(value.downcast_ref::<Literal>()?.value().clone());
            Some(column.index())
        }
        _ => None,
    }
}
