//! Which rows of a batch fulfil the conditions of a scan: [`RowFilter`].
//!
//! Conditions are evaluated one by one. Each reads only the columns that it names, and once few
//! rows are left, only those rows. Columns that are merely returned are read last, and not at all
//! when no row is left.
//!
//! Conditions known at planning always hold for the rows that a scan returns. Conditions that
//! become known while a query runs (the keys of the other side of a join, the bound of the best
//! rows so far) only save work: the operator that they come from checks them again. So such a
//! condition is skipped when it lets nearly all rows through, until it changes, and when it fails:
//! it may see rows that other conditions rule out, and those may be what it fails for.
//!
//! A condition that holds for all rows of a segment by its statistics is not evaluated there (see
//! [`always`](crate::scan::always)).
//!
//! What a condition costs and how many rows it drops is measured, and the one that drops most for
//! its time comes first: a text is compared only in rows whose key the other side of a join has,
//! and keys are looked for in a large table of a join only in rows that a small one leaves.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::buffer::{BooleanBuffer, Buffer};
use arrow::compute::{filter, filter_record_batch, prep_null_mask_filter};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, DynamicFilterTracking, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr,
    Literal, NotExpr,
};
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_expr_common::physical_expr::snapshot_physical_expr;
use swingdb_store::Segment;

use crate::scan::always::Comparison;
use crate::scan::lookups::Lookups;

/// When at most one row in so many is left, the rest of a batch's conditions see only those rows.
const COMPACT_BELOW: usize = 4;
/// Rows a condition known only now is watched for before it is judged.
const PROBATION_ROWS: usize = 4 * 8192;
/// It goes on when it drops at least one row in so many.
const WORTHWHILE: usize = 4;
/// A condition that takes longer for a row sees only the rows that are left, once a quarter of them
/// is gone: to pick them costs some nanoseconds.
const EXPENSIVE_NANOS: f64 = 8.0;
/// What a condition takes for fewer rows says little of what it costs.
const MEASURED_ROWS: usize = 256;
/// After so many batches it is asked anew which condition comes first.
const BATCHES_IN_ORDER: usize = 16;

/// One condition, over a schema of just the columns it names.
struct Condition {
    expr: Arc<dyn PhysicalExpr>,
    /// Those columns' numbers in the table.
    columns: Vec<usize>,
    schema: SchemaRef,
    /// If it is a list of values.
    lookups: Option<Lookups>,
    /// What it consists of, if statistics can tell whether it holds.
    comparisons: Option<Vec<Comparison>>,
    /// It holds for all rows of the segment in hand.
    always: bool,
    /// Whether it may be left out.
    optional: bool,
    /// It has failed for some rows.
    failed: bool,
    /// Whether it may see rows that others have ruled out already.
    sees_all: bool,
    seen: usize,
    passed: usize,
    /// The least nanoseconds for a row of all batches: in others the thread may have waited for a
    /// processor.
    cost: f64,
}

impl Condition {
    fn new(expr: &Arc<dyn PhysicalExpr>, table: &SchemaRef, optional: bool) -> Result<Self> {
        let mut columns = collect_columns(expr).iter().map(Column::index).collect::<Vec<_>>();
        columns.sort_unstable();
        columns.dedup();
        let fields = columns.iter().map(|&column| Arc::clone(&table.fields()[column]));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let lookups = Lookups::of(expr, table);
        let comparisons = Comparison::all_of(expr, table);
        let expr = reassign_expr_columns(Arc::clone(expr), &schema)?;
        let sees_all = optional || cannot_fail(&expr);
        Ok(Self {
            expr,
            columns,
            schema,
            lookups,
            comparisons,
            always: false,
            optional,
            failed: false,
            sees_all,
            seen: 0,
            passed: 0,
            cost: f64::INFINITY,
        })
    }

    /// Whether looking at it has turned out to be worth nothing.
    fn is_idle(&self) -> bool {
        let dropped = self.seen - self.passed;
        let is_idle = self.seen >= PROBATION_ROWS && dropped < self.seen / WORTHWHILE;
        self.optional && (is_idle || self.failed)
    }

    /// Nanoseconds for each row that it drops; infinite until that is measured.
    fn price(&self) -> f64 {
        if self.cost.is_infinite() {
            return f64::INFINITY;
        }
        let dropped = (self.seen - self.passed).max(1);
        self.cost * self.seen as f64 / dropped as f64
    }

    /// Whether it should see only the rows that are left of a batch.
    fn sees_left_only(&self, left: usize, rows: usize) -> bool {
        // What may fail sees no row that other conditions rule out.
        let is_expensive = self.cost.is_finite() && self.cost > EXPENSIVE_NANOS;
        left <= rows / COMPACT_BELOW || !self.sees_all || (is_expensive && left <= rows - rows / 4)
    }

    /// Evaluates it for some rows; for which it holds, and how many these are.
    fn apply(&mut self, columns: Vec<ArrayRef>, rows: usize) -> Result<(BooleanBuffer, usize)> {
        let begun = Instant::now();
        let found = self.evaluate(columns, rows)?;
        if rows >= MEASURED_ROWS {
            self.cost = self.cost.min(begun.elapsed().as_nanos() as f64 / rows as f64);
        }
        let passed = found.count_set_bits();
        self.seen += rows;
        self.passed += passed;
        Ok((found, passed))
    }

    fn evaluate(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<BooleanBuffer> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(&self.schema);
        let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
        let found = self.expr.evaluate(&batch)?.into_array(rows)?;
        let Some(found) = found.as_boolean_opt() else {
            return exec_err!("a condition of type {}", found.data_type());
        };
        Ok(match found.null_count() {
            0 => found.values().clone(),
            _ => prep_null_mask_filter(found).values().clone(),
        })
    }
}

/// The conditions of one partition of a running scan.
pub(crate) struct RowFilter {
    conditions: Vec<Condition>,
    dynamic: Vec<(Arc<dyn PhysicalExpr>, DynamicFilterTracking)>,
    table: SchemaRef,
    /// How many of `conditions` were known at planning.
    fixed: usize,
    /// The numbers of all conditions in the order to look at them, and for how many batches more.
    order: Vec<usize>,
    batches_left: usize,
    begun: bool,
}

impl RowFilter {
    /// `fixed` and `dynamic` name columns of `table`.
    pub(crate) fn new(
        fixed: &[Arc<dyn PhysicalExpr>],
        dynamic: &[Arc<dyn PhysicalExpr>],
        table: &SchemaRef,
    ) -> Result<Self> {
        let conditions = fixed.iter().map(|expr| Condition::new(expr, table, false));
        let conditions = conditions.collect::<Result<Vec<_>>>()?;
        let dynamic = dynamic.iter().map(|f| (Arc::clone(f), DynamicFilterTracking::classify(f)));
        Ok(Self {
            fixed: conditions.len(),
            conditions,
            dynamic: dynamic.collect(),
            table: Arc::clone(table),
            order: Vec::new(),
            batches_left: 0,
            begun: false,
        })
    }

    /// Whether there is nothing to look at, ever.
    pub(crate) fn is_empty(&self) -> bool {
        self.conditions.is_empty() && self.dynamic.is_empty()
    }

    /// Takes over what has become known since the last call.
    pub(crate) fn refresh(&mut self) -> Result<()> {
        let mut changed = !self.begun;
        for (_, tracking) in &mut self.dynamic {
            changed |= tracking.watcher().is_some_and(|watcher| watcher.changed());
        }
        if !changed {
            return Ok(());
        }
        self.begun = true;
        let before = self.conditions.split_off(self.fixed);
        for (filter, _) in &self.dynamic {
            let now = snapshot_physical_expr(Arc::clone(filter))?;
            for conjunct in split_conjunction(&now) {
                if !is_true(conjunct) && !tells_zeros_apart(conjunct, &self.table) {
                    self.conditions.push(Condition::new(conjunct, &self.table, true)?);
                }
            }
        }
        // What stays the same keeps its record.
        for condition in &mut self.conditions[self.fixed..] {
            let same = |old: &&Condition| {
                old.columns == condition.columns && old.expr.as_ref() == condition.expr.as_ref()
            };
            if let Some(old) = before.iter().find(same) {
                (condition.seen, condition.passed) = (old.seen, old.passed);
                condition.cost = old.cost;
                condition.failed = old.failed;
            }
        }
        self.batches_left = 0;
        Ok(())
    }

    /// Puts the conditions in order, now and then: the cheapest way to drop rows first. Those that
    /// may fail stay behind all others, in the order that they have.
    fn settle_order(&mut self) {
        if self.batches_left > 0 {
            self.batches_left -= 1;
            return;
        }
        self.batches_left = BATCHES_IN_ORDER;
        self.order = (0..self.conditions.len()).collect();
        let price = |number: &usize| {
            let condition = &self.conditions[*number];
            (!condition.sees_all, if condition.sees_all { condition.price() } else { 0.0 })
        };
        self.order.sort_by(|one, other| {
            let (one, other) = (price(one), price(other));
            one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
        });
    }

    /// Gets ready for rows of a segment, with the conditions as they are now.
    pub(crate) fn enter(&mut self, segment: &Segment) -> Result<()> {
        self.refresh()?;
        for condition in &mut self.conditions {
            let comparisons = condition.comparisons.as_ref();
            condition.always =
                comparisons.is_some_and(|all| all.iter().all(|c| c.holds_in(segment)));
        }
        Ok(())
    }

    /// The parts of some rows of a segment outside of which no row fulfils the conditions as they
    /// are now (see [`Lookups::parts`]); `None` when that is not known.
    pub(crate) fn parts(
        &mut self,
        segment: &Segment,
        rows: &Range<usize>,
        together: usize,
    ) -> Result<Option<Vec<Range<usize>>>> {
        self.refresh()?;
        let mut least: Option<(usize, Vec<Range<usize>>)> = None;
        for lookups in self.conditions.iter().filter_map(|condition| condition.lookups.as_ref()) {
            if let Some(parts) = lookups.parts(segment, rows, together)? {
                let left = parts.iter().map(Range::len).sum();
                if least.as_ref().is_none_or(|(before, _)| left < *before) {
                    least = Some((left, parts));
                }
            }
        }
        Ok(least.map(|(_, parts)| parts))
    }

    /// The rows of `rows` that are `live` (all when `None`) and fulfil the conditions; `None` for
    /// all rows. `column` reads a column of the table.
    pub(crate) fn select(
        &mut self,
        live: Option<BooleanBuffer>,
        rows: usize,
        column: &dyn Fn(usize) -> Result<ArrayRef>,
    ) -> Result<Option<BooleanBuffer>> {
        let mut selected = live;
        self.settle_order();
        for number in &self.order {
            let condition = &mut self.conditions[*number];
            if condition.always || condition.is_idle() {
                continue;
            }
            let left = selected.as_ref().map_or(rows, BooleanBuffer::count_set_bits);
            if left == 0 {
                break;
            }
            let columns = condition.columns.iter().map(|&c| column(c)).collect::<Result<_>>()?;
            let only = selected.as_ref().filter(|_| condition.sees_left_only(left, rows));
            let result = match only {
                Some(mask) => condition.apply(pick(columns, mask)?, left),
                None => condition.apply(columns, rows),
            };
            let (found, passed) = match result {
                Err(_) if condition.optional => {
                    condition.failed = true;
                    continue;
                }
                other => other?,
            };
            if passed < found.len() {
                selected = Some(match (&selected, only) {
                    (Some(mask), Some(_)) => scatter(mask, &found),
                    (Some(mask), None) => mask & &found,
                    (None, _) => found,
                });
            }
        }
        Ok(selected)
    }
}

/// The rows of a mask.
fn pick(columns: Vec<ArrayRef>, mask: &BooleanBuffer) -> Result<Vec<ArrayRef>> {
    let mask = BooleanArray::new(mask.clone(), None);
    if let [column] = columns.as_slice() {
        return Ok(vec![filter(column, &mask)?]);
    }
    let fields = columns
        .iter()
        .enumerate()
        .map(|(i, c)| arrow::datatypes::Field::new(i.to_string(), c.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let options = RecordBatchOptions::new().with_row_count(Some(mask.len()));
    let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
    Ok(filter_record_batch(&batch, &mask)?.columns().to_vec())
}

/// The rows of `mask` whose bit in `found` (one for each of them) is set.
fn scatter(mask: &BooleanBuffer, found: &BooleanBuffer) -> BooleanBuffer {
    let mut words = vec![0u64; mask.len().div_ceil(64)];
    for (nth, row) in mask.set_indices().enumerate() {
        words[row / 64] |= u64::from(found.value(nth)) << (row % 64);
    }
    words.iter_mut().for_each(|word| *word = word.to_le());
    BooleanBuffer::new(Buffer::from_vec(words), 0, mask.len())
}

/// A list of floating point knows one zero from the other; the join it comes from does not. The
/// bounds of the list, which come with it, are compared by value.
fn tells_zeros_apart(expr: &Arc<dyn PhysicalExpr>, table: &SchemaRef) -> bool {
    let list = expr.downcast_ref::<InListExpr>();
    list.is_some_and(|list| list.expr().data_type(table).is_ok_and(|t| t.is_floating()))
}

fn is_true(expr: &Arc<dyn PhysicalExpr>) -> bool {
    use datafusion::common::ScalarValue;
    let literal = expr.downcast_ref::<Literal>();
    literal.is_some_and(|l| matches!(l.value(), ScalarValue::Boolean(Some(true))))
}

/// Whether computing a condition cannot give an error, whatever the values: then it does not
/// matter which rows it sees.
pub(crate) fn cannot_fail(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let mut safe = true;
    let walked = expr.apply(|e| {
        let known = e.is::<Column>()
            || e.is::<Literal>()
            || e.is::<NotExpr>()
            || e.is::<IsNullExpr>()
            || e.is::<IsNotNullExpr>()
            || e.is::<InListExpr>()
            || e.is::<LikeExpr>()
            || e.downcast_ref::<BinaryExpr>().is_some_and(|b| is_comparison(*b.op()));
        safe &= known;
        Ok(if known { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    walked.is_ok() && safe
}

fn is_comparison(operator: Operator) -> bool {
    operator.supports_propagation()
        || matches!(operator, Operator::And | Operator::Or | Operator::NotEq)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_return_to_their_rows() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for rows in [0, 1, 7, 8, 63, 64, 65, 1000, 8192] {
            let mask = (0..rows).map(|_| random.bool()).collect::<Vec<_>>();
            let wanted = mask.iter().map(|m| *m && random.bool()).collect::<Vec<_>>();
            let pairs = mask.iter().zip(&wanted);
            let found = pairs.filter(|(m, _)| **m).map(|(_, w)| *w).collect::<Vec<_>>();
            let mask = BooleanBuffer::from(mask);
            assert_eq!(scatter(&mask, &BooleanBuffer::from(found)), BooleanBuffer::from(wanted));
        }
    }

    #[test]
    fn what_drops_most_rows_for_its_time_is_looked_at_first() {
        use std::cell::RefCell;

        use arrow::array::Int64Array;
        use arrow::datatypes::{DataType, Field};
        use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, lit};

        let field = |name| Field::new(name, DataType::Int64, false);
        let table = Arc::new(Schema::new(vec![field("fixed"), field("key")]));
        let compare = |column: usize, op, with: i64| -> Arc<dyn PhysicalExpr> {
            let column = Arc::new(Column::new(table.field(column).name(), column));
            Arc::new(BinaryExpr::new(column, op, lit(with)))
        };
        let fixed = compare(0, Operator::Lt, 1 << 40);
        let keys = compare(1, Operator::Eq, 7);
        let dynamic = DynamicFilterPhysicalExpr::new(vec![], lit(true));
        dynamic.update(keys).unwrap();
        let mut filter = RowFilter::new(&[fixed], &[Arc::new(dynamic)], &table).unwrap();
        filter.refresh().unwrap();

        let read = RefCell::new(Vec::new());
        let mut order_of = |rows: usize| {
            read.borrow_mut().clear();
            let column = |number| -> Result<ArrayRef> {
                read.borrow_mut().push(number);
                Ok(Arc::new(Int64Array::from_iter_values(0..rows as i64)))
            };
            let selected = filter.select(None, rows, &column).unwrap().unwrap();
            assert_eq!(selected.set_indices().collect::<Vec<_>>(), [7]);
            read.borrow().clone()
        };
        for _ in 0..=BATCHES_IN_ORDER {
            assert_eq!(order_of(MEASURED_ROWS), [0, 1]);
        }
        // One drops all rows but one, the other none.
        assert_eq!(order_of(MEASURED_ROWS), [1, 0]);
    }
}
