//! What segments know about their columns, in DataFusion's terms.
//!
//! Exact figures let the planner answer `count(*)`, `min` and `max` without reading a row, and
//! choose join orders. A figure is called exact only when it describes precisely the rows a scan
//! returns: bounds and NULL counts of a segment with deleted rows are estimates, row counts never
//! are.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use swingdb_common::error::Result;
use swingdb_store::{ColumnStats, Segment, Table};

use crate::scan::distinct::recent_distinct;

/// Statistics of the columns `projection` of a whole table. A column number beyond the table's
/// columns stands for the row id.
pub(crate) fn of_table(table: &Table, projection: &[usize]) -> Result<Statistics> {
    let rows = table.row_count() as usize;
    let schema = table.schema();
    let columns = projection
        .iter()
        .map(|&column| match schema.fields().get(column) {
            Some(field) => {
                let stats = table.stats(column)?;
                let unique = is_unique(table, column);
                let sampled = recent_distinct(table, column);
                Ok(column_statistics(&stats, field.data_type(), rows, unique, sampled))
            }
            None => Ok(row_id_statistics(rows)),
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(assemble(rows, columns))
}

/// Statistics of the columns `projection` of some segments of a table.
pub(crate) fn of_segments(
    table: &Table,
    segments: &[(u32, Arc<Segment>)],
    projection: &[usize],
) -> Result<Statistics> {
    let rows = segments.iter().map(|(_, s)| s.live_rows()).sum::<usize>();
    let schema = table.schema();
    let columns = projection.iter().map(|&column| match schema.fields().get(column) {
        Some(field) => {
            let mut stats: Option<ColumnStats> = None;
            for (_, segment) in segments {
                let next = segment.stats(column)?;
                stats = Some(match stats {
                    Some(before) => merge(before, next),
                    None => next,
                });
            }
            let Some(stats) = stats else { return Ok(ColumnStatistics::new_unknown()) };
            let unique = is_unique(table, column);
            let sampled = recent_distinct(table, column);
            Ok(column_statistics(&stats, field.data_type(), rows, unique, sampled))
        }
        None => Ok(row_id_statistics(rows)),
    });
    Ok(assemble(rows, columns.collect::<Result<Vec<_>>>()?))
}

/// What is left of some rows when a condition lets a `share` of them through.
pub(crate) fn scaled(all: Statistics, share: f64) -> Statistics {
    let rows = all.num_rows.get_value().copied().unwrap_or(0);
    let left = ((rows as f64 * share) as usize).clamp(1, rows.max(1));
    let mut scaled = all.to_inexact();
    scaled.num_rows = Precision::Inexact(left);
    let part = |bytes: usize| (bytes as f64 * left as f64 / rows.max(1) as f64) as usize;
    for column in &mut scaled.column_statistics {
        column.distinct_count = match column.distinct_count.get_value() {
            Some(distinct) => Precision::Inexact((*distinct).min(left)),
            None => Precision::Absent,
        };
        column.null_count = match column.null_count.get_value() {
            Some(nulls) => Precision::Inexact(part(*nulls)),
            None => Precision::Absent,
        };
        column.byte_size = match column.byte_size.get_value() {
            Some(bytes) => Precision::Inexact(part(*bytes)),
            None => Precision::Absent,
        };
    }
    scaled.total_byte_size = match scaled.total_byte_size.get_value() {
        Some(bytes) => Precision::Inexact(part(*bytes)),
        None => Precision::Absent,
    };
    scaled
}

fn assemble(rows: usize, columns: Vec<ColumnStatistics>) -> Statistics {
    let bytes = columns.iter().fold(Precision::Exact(0), |sum, c| sum.add(&c.byte_size));
    Statistics {
        num_rows: Precision::Exact(rows),
        total_byte_size: bytes,
        column_statistics: columns,
    }
}

fn is_unique(table: &Table, column: usize) -> bool {
    table.constraints().iter().any(|c| c.columns() == [column])
}

fn row_id_statistics(rows: usize) -> ColumnStatistics {
    ColumnStatistics {
        null_count: Precision::Exact(0),
        distinct_count: Precision::Exact(rows),
        byte_size: Precision::Exact(rows * size_of::<u64>()),
        ..ColumnStatistics::new_unknown()
    }
}

/// Bounds and counts of two parts together.
fn merge(a: ColumnStats, b: ColumnStats) -> ColumnStats {
    let pick =
        |x: Option<ScalarValue>, y: Option<ScalarValue>, first_if: std::cmp::Ordering| match (x, y)
        {
            (Some(x), Some(y)) => match x.partial_cmp(&y) {
                Some(order) if order == first_if => Some(x),
                Some(_) => Some(y),
                None => None,
            },
            // A part without bounds is all NULL when it is exact; otherwise nothing is known.
            (x, y) => x.or(y),
        };
    let known = (a.min.is_some() || a.exact) && (b.min.is_some() || b.exact);
    let exact = a.exact && b.exact;
    let (min, max) = if known {
        (
            pick(a.min, b.min, std::cmp::Ordering::Less),
            pick(a.max, b.max, std::cmp::Ordering::Greater),
        )
    } else {
        (None, None)
    };
    ColumnStats { null_count: a.null_count + b.null_count, min, max, exact, sorted: false }
}

fn column_statistics(
    stats: &ColumnStats,
    data_type: &DataType,
    rows: usize,
    unique: bool,
    sampled: Option<f64>,
) -> ColumnStatistics {
    let bound = |value: &Option<ScalarValue>| match value {
        Some(value) if stats.exact => Precision::Exact(value.clone()),
        Some(value) => Precision::Inexact(value.clone()),
        None => Precision::Absent,
    };
    let nulls = (stats.null_count as usize).min(rows);
    let distinct = match sampled {
        _ if unique => Precision::Inexact(rows - nulls),
        Some(sampled) => Precision::Inexact((sampled as usize).min(rows - nulls)),
        None => estimate_distinct(stats, rows - nulls),
    };
    let byte_size = match data_type.primitive_width() {
        Some(width) => Precision::Exact(rows * width),
        None => Precision::Inexact(rows * ESTIMATED_STRING_BYTES),
    };
    ColumnStatistics {
        null_count: if stats.exact { Precision::Exact(nulls) } else { Precision::Inexact(nulls) },
        min_value: bound(&stats.min),
        max_value: bound(&stats.max),
        sum_value: Precision::Absent,
        distinct_count: distinct,
        byte_size,
    }
}

/// Bytes a value of variable width is taken to have.
const ESTIMATED_STRING_BYTES: usize = 24;

/// For whole numbers and dates: there cannot be more values than lie between the bounds.
fn estimate_distinct(stats: &ColumnStats, values: usize) -> Precision<usize> {
    let (Some(min), Some(max)) = (&stats.min, &stats.max) else { return Precision::Absent };
    match (min.distance(max), min.data_type()) {
        (_, DataType::Float32 | DataType::Float64) | (None, _) => Precision::Absent,
        (Some(span), _) => Precision::Inexact(values.min(span.saturating_add(1))),
    }
}

/// The schema of `projection` over a table's columns and its row id.
pub(crate) fn project(schema: &Schema, projection: &[usize]) -> Schema {
    let fields = projection.iter().map(|&i| Arc::clone(&schema.fields()[i])).collect::<Vec<_>>();
    Schema::new_with_metadata(fields, schema.metadata().clone())
}
