//! Which segments a condition can rule out by their statistics.
//!
//! A segment is left out only when no row of it can fulfil the condition. Statistics may be wider
//! than the live rows; that costs reading, never correctness. A condition that cannot be understood
//! keeps everything.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, UInt64Array};
use arrow::datatypes::SchemaRef;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, ScalarValue};
use datafusion::physical_expr::expressions::DynamicFilterTracking;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};

use crate::store::{ColumnStats, Segment};

/// The statistics of a run of segments.
struct SegmentStatistics<'a> {
    schema: &'a SchemaRef,
    segments: &'a [Arc<Segment>],
}

impl SegmentStatistics<'_> {
    fn bounds(
        &self,
        column: &Column,
        bound: impl Fn(ColumnStats) -> Option<ScalarValue>,
    ) -> Option<ArrayRef> {
        let index = self.schema.index_of(&column.name).ok()?;
        if index >= self.segments.first()?.columns() {
            return None;
        }
        let null = ScalarValue::try_from(self.schema.field(index).data_type()).ok()?;
        let values =
            self.segments.iter().map(|s| bound(s.stats(index)).unwrap_or_else(|| null.clone()));
        ScalarValue::iter_to_array(values).ok()
    }
}

impl PruningStatistics for SegmentStatistics<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, |stats| stats.min)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, |stats| stats.max)
    }

    fn num_containers(&self) -> usize {
        self.segments.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let index = self.schema.index_of(&column.name).ok()?;
        if index >= self.segments.first()?.columns() {
            return None;
        }
        let counts = self.segments.iter().map(|s| s.stats(index).null_count);
        Some(Arc::new(UInt64Array::from_iter_values(counts)))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        // Physical rows, because NULL counts are physical too.
        let counts = self.segments.iter().map(|s| s.rows() as u64);
        Some(Arc::new(UInt64Array::from_iter_values(counts)))
    }

    fn contained(&self, _column: &Column, _values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}

/// For each segment, whether it may hold a row that fulfils `filter`. `schema` is the table's, its
/// columns in the segments' order.
pub(crate) fn keep(
    filter: &Arc<dyn PhysicalExpr>,
    schema: &SchemaRef,
    segments: &[Arc<Segment>],
) -> Vec<bool> {
    let mut kept = vec![true; segments.len()];
    if segments.is_empty() {
        return kept;
    }
    // One conjunct at a time: one that cannot be understood does not spoil the others.
    for conjunct in split_conjunction(filter) {
        let Some(predicate) = understand(Arc::clone(conjunct), schema) else { continue };
        let statistics = SegmentStatistics { schema, segments };
        if let Ok(may_match) = predicate.prune(&statistics) {
            kept.iter_mut().zip(may_match).for_each(|(kept, may)| *kept &= may);
        }
    }
    kept
}

/// The condition on statistics that follows from a condition on rows; `None` when none does.
fn understand(filter: Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> Option<PruningPredicate> {
    let builder = PruningPredicateBuilder::new().with_file_schema(Arc::clone(schema));
    builder.try_build(filter).ok().filter(|predicate| !predicate.always_true())
}

/// Decides segment by segment while a scan runs, with conditions that become known only then: the
/// bound of the best rows so far of ORDER BY ... LIMIT, the keys of the other side of a join.
pub(crate) struct DynamicPruner {
    filters: Vec<(Arc<dyn PhysicalExpr>, DynamicFilterTracking)>,
    predicates: Vec<PruningPredicate>,
    /// The columns the conditions name.
    schema: SchemaRef,
    table_schema: SchemaRef,
    built: bool,
}

impl DynamicPruner {
    /// `filters` name columns of `schema`, which are some of `table_schema`'s.
    pub(crate) fn new(
        filters: &[Arc<dyn PhysicalExpr>],
        schema: SchemaRef,
        table_schema: SchemaRef,
    ) -> Self {
        let filters = filters.iter().map(|f| (Arc::clone(f), DynamicFilterTracking::classify(f)));
        let filters = filters.collect();
        Self { filters, predicates: Vec::new(), schema, table_schema, built: false }
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
                .filter_map(|filter| understand(filter, &self.schema))
                .collect();
        }
        let segments = std::slice::from_ref(segment);
        let statistics = SegmentStatistics { schema: &self.table_schema, segments };
        self.predicates.iter().all(|p| p.prune(&statistics).map_or(true, |keep| keep[0]))
    }
}
