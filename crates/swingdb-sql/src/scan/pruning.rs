//! Which segments a condition can rule out by their statistics.
//!
//! A segment is left out only when no row of it can fulfil the condition. Statistics may be wider
//! than the live rows; that costs reading, never correctness. A condition that cannot be understood
//! keeps everything.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, UInt64Array};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, DynamicFilterTracking, Literal,
};
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use swingdb_common::error::Result;
use swingdb_functions::arithmetic::casts::decimal_nearest_to;
use swingdb_store::{ColumnStats, Page, Segment, Table};

/// A part of a table that knows bounds of its columns.
pub(crate) trait Bounded {
    /// Physical rows.
    fn rows(&self) -> u64;
    /// Statistics of a column; an error when they cannot be read.
    fn column_stats(&self, column: usize) -> Result<ColumnStats>;
}

impl Bounded for Segment {
    fn rows(&self) -> u64 {
        self.rows() as u64
    }

    fn column_stats(&self, column: usize) -> Result<ColumnStats> {
        self.stats(column)
    }
}

impl Bounded for Page {
    fn rows(&self) -> u64 {
        self.rows
    }

    fn column_stats(&self, column: usize) -> Result<ColumnStats> {
        self.column_stats(column)
    }
}

/// The statistics of some parts of a table.
struct PartStatistics<'a, P> {
    schema: &'a SchemaRef,
    /// The columns that parts have; those behind them (row ids) have no statistics.
    columns: usize,
    parts: &'a [&'a Arc<P>],
}

impl<P: Bounded> PartStatistics<'_, P> {
    fn index(&self, column: &Column) -> Option<usize> {
        self.schema.index_of(&column.name).ok().filter(|index| *index < self.columns)
    }

    fn bounds(
        &self,
        column: &Column,
        bound: impl Fn(ColumnStats) -> Option<ScalarValue>,
    ) -> Option<ArrayRef> {
        let index = self.index(column)?;
        let null = ScalarValue::try_from(self.schema.field(index).data_type()).ok()?;
        // Statistics that cannot be read rule out nothing; reading the rows will say why.
        let stats = self.parts.iter().map(|p| p.column_stats(index));
        let stats = stats.collect::<Result<Vec<_>>>().ok()?;
        let values = stats.into_iter().map(|s| bound(s).unwrap_or_else(|| null.clone()));
        ScalarValue::iter_to_array(values).ok()
    }
}

impl<P: Bounded> PruningStatistics for PartStatistics<'_, P> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, |stats| stats.min)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, |stats| stats.max)
    }

    fn num_containers(&self) -> usize {
        self.parts.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let index = self.index(column)?;
        let counts = self.parts.iter().map(|p| p.column_stats(index).map(|s| s.null_count));
        let counts = counts.collect::<Result<Vec<_>>>().ok()?;
        Some(Arc::new(UInt64Array::from_iter_values(counts)))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        // Physical rows, because NULL counts are physical too.
        let counts = self.parts.iter().map(|p| p.rows());
        Some(Arc::new(UInt64Array::from_iter_values(counts)))
    }

    fn contained(&self, _column: &Column, _values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}

/// The segments of a table that may hold a row that fulfils all of `conditions`, each with its
/// place in the table. `schema` is the table's, perhaps with a row id behind its columns. Pages are
/// ruled out first, so that the cost does not follow the number of segments.
pub(crate) fn select(
    conditions: &[Arc<dyn PhysicalExpr>],
    schema: &SchemaRef,
    table: &Table,
) -> Result<Vec<(u32, Arc<Segment>)>> {
    // One conjunct at a time: one that cannot be understood does not spoil the others.
    let conjuncts = conditions.iter().flat_map(split_conjunction).map(Arc::clone);
    let predicates: Vec<_> = conjuncts.filter_map(|c| understand(c, schema)).collect();
    let columns = table.columns().len();
    let pages: Vec<_> = table.pages().collect();
    let all: Vec<_> = pages.iter().map(|(_, page)| *page).collect();
    let kept = keep(&predicates, schema, columns, &all);
    let mut found = Vec::new();
    for ((first, page), _) in pages.iter().zip(&kept).filter(|(_, kept)| **kept) {
        let segments = page.named_segments()?;
        let numbered = segments.iter().enumerate().map(|(i, s)| ((first + i) as u32, s));
        found.extend(numbered.filter(|(_, s)| s.live_rows() > 0));
    }
    let segments: Vec<_> = found.iter().map(|(_, segment)| *segment).collect();
    let kept = keep(&predicates, schema, columns, &segments);
    let kept = found.into_iter().zip(kept).filter(|(_, kept)| *kept);
    Ok(kept.map(|((place, segment), _)| (place, Arc::clone(segment))).collect())
}

/// For each part, whether it may hold a row that fulfils all of `predicates`.
fn keep<P: Bounded>(
    predicates: &[PruningPredicate],
    schema: &SchemaRef,
    columns: usize,
    parts: &[&Arc<P>],
) -> Vec<bool> {
    let mut kept = vec![true; parts.len()];
    if parts.is_empty() {
        return kept;
    }
    let statistics = PartStatistics { schema, columns, parts };
    for predicate in predicates {
        if let Ok(may_match) = predicate.prune(&statistics) {
            kept.iter_mut().zip(may_match).for_each(|(kept, may)| *kept &= may);
        }
    }
    kept
}

/// The condition on statistics that follows from a condition on rows; `None` when none does.
fn understand(filter: Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> Option<PruningPredicate> {
    let builder = PruningPredicateBuilder::new().with_file_schema(Arc::clone(schema));
    let filter = loosened(&filter, schema).unwrap_or(filter);
    builder.try_build(filter).ok().filter(|predicate| !predicate.always_true())
}

/// What follows from a condition on decimals as numbers of 64 bits, in which the engine's cast
/// stands for the nearest number: it gives that or one beside it, and bounds can be put into it.
fn loosened(filter: &Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> Option<Arc<dyn PhysicalExpr>> {
    let compared = filter.downcast_ref::<BinaryExpr>()?;
    let (left, right) = (compared.left(), compared.right());
    if matches!(compared.op(), Operator::And | Operator::Or) {
        let [one, other] = [left, right].map(|side| loosened(side, schema));
        if one.is_none() && other.is_none() {
            return None;
        }
        let one = one.unwrap_or_else(|| Arc::clone(left));
        let other = other.unwrap_or_else(|| Arc::clone(right));
        return Some(Arc::new(BinaryExpr::new(one, *compared.op(), other)));
    }
    let (decimal, op, number) = match decimal_nearest_to(left, schema) {
        Some(decimal) => (decimal, *compared.op(), right),
        None => (decimal_nearest_to(right, schema)?, compared.op().swap()?, left),
    };
    let number = match number.downcast_ref::<Literal>()?.value() {
        ScalarValue::Float64(Some(number)) if number.is_finite() => *number,
        _ => return None,
    };
    let cast: Arc<dyn PhysicalExpr> =
        Arc::new(CastExpr::new(Arc::clone(decimal), DataType::Float64, None));
    let beside = |op: Operator, number: f64| -> Arc<dyn PhysicalExpr> {
        let number = Arc::new(Literal::new(ScalarValue::Float64(Some(number))));
        Arc::new(BinaryExpr::new(Arc::clone(&cast), op, number))
    };
    // Several times what the last bit of a number can make.
    let margin = number.abs() * (8.0 * f64::EPSILON);
    let from = beside(Operator::GtEq, number - margin);
    let to = beside(Operator::LtEq, number + margin);
    match op {
        Operator::Gt | Operator::GtEq => Some(from),
        Operator::Lt | Operator::LtEq => Some(to),
        Operator::Eq => Some(Arc::new(BinaryExpr::new(from, Operator::And, to))),
        _ => None,
    }
}

/// Decides segment by segment while a scan runs, with conditions that become known only then: the
/// bound of the best rows so far of ORDER BY ... LIMIT, the keys of the other side of a join.
pub(crate) struct DynamicPruner {
    filters: Vec<(Arc<dyn PhysicalExpr>, DynamicFilterTracking)>,
    predicates: Vec<PruningPredicate>,
    table_schema: SchemaRef,
    built: bool,
}

impl DynamicPruner {
    /// `filters` name columns of `table_schema`.
    pub(crate) fn new(filters: &[Arc<dyn PhysicalExpr>], table_schema: SchemaRef) -> Self {
        let filters = filters.iter().map(|f| (Arc::clone(f), DynamicFilterTracking::classify(f)));
        let filters = filters.collect();
        Self { filters, predicates: Vec::new(), table_schema, built: false }
    }

    /// Whether `segment` may hold a row that fulfils the conditions as they are now.
    pub(crate) fn keeps(&mut self, segment: &Arc<Segment>) -> bool {
        if self.filters.is_empty() {
            return true;
        }
        let mut changed = !self.built;
        for (_, tracking) in &mut self.filters {
            changed |= tracking.watcher().is_some_and(|w| w.changed());
        }
        if changed {
            self.built = true;
            self.predicates = self
                .filters
                .iter()
                .flat_map(|(filter, _)| split_conjunction(filter).into_iter().map(Arc::clone))
                .filter_map(|filter| understand(filter, &self.table_schema))
                .collect();
        }
        keep(&self.predicates, &self.table_schema, segment.columns(), &[segment])[0]
    }
}
