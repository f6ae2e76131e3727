//! How many rows fulfil conditions, found out by trying them on a sample.
//!
//! Some thousand rows from all over a table tell more than bounds and counts of different values
//! do: they know how columns depend on one another, and what a pattern matches. Sampled columns
//! are copies, remembered for their version of the table.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array,
};
use arrow::compute::{concat, prep_null_mask_filter, take};
use arrow::datatypes::{DataType, Schema};
use datafusion::common::DFSchema;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::expr_rewriter::unnormalize_col;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use swingdb_store::{ReadAhead, Table};

use crate::scan::distinct::{Key, Seen, key};
use crate::scan::filter::cannot_fail;

/// Rows of a sample.
const SAMPLE_ROWS: usize = 4096;
/// Segments they are taken from.
const PLACES: usize = 32;
/// The same of a table that is in its store on a disk: each is read whole.
const PLACES_ON_DISK: usize = 8;
/// Neighbours taken together: in a process that has not touched the table yet, each place costs a
/// page fault.
const RUN: u32 = 16;
/// Columns remembered.
const MAX_REMEMBERED: usize = 400;
/// Rows that must fulfil a condition before their share is believed.
const BELIEVED: usize = 6;

static COLUMNS: Mutex<Option<HashMap<Key, ArrayRef>>> = Mutex::new(None);

/// The conditions in their order, but what may fail behind what cannot.
pub(crate) fn safe_first(conditions: Vec<Arc<dyn PhysicalExpr>>) -> Vec<Arc<dyn PhysicalExpr>> {
    let (mut safe, risky): (Vec<_>, Vec<_>) = conditions.into_iter().partition(cannot_fail);
    safe.extend(risky);
    safe
}

/// The conditions in the order to look at them, those first that rule out most for their cost,
/// and the share of the rows that fulfil all. What may fail stays behind what cannot, in the order
/// of the text.
pub(crate) fn in_order(
    table: &Table,
    conditions: Vec<Arc<dyn PhysicalExpr>>,
) -> (Vec<Arc<dyn PhysicalExpr>>, f64) {
    /// Share taken for granted of conditions that cannot be tried.
    const UNKNOWN: f64 = 0.2;

    if conditions.is_empty() {
        return (conditions, 1.0);
    }
    let Some(found) = try_all(table, &conditions) else {
        return (safe_first(conditions), UNKNOWN);
    };
    let share = found.share();
    let rank = |(condition, passed): &(Arc<dyn PhysicalExpr>, f64)| {
        (1.0 - passed).max(0.001) / cost(table, condition)
    };
    let pairs = conditions.into_iter().zip(found.each);
    let (mut safe, risky): (Vec<_>, Vec<_>) = pairs.partition(|(c, _)| cannot_fail(c));
    safe.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
    safe.extend(risky);
    (safe.into_iter().map(|(condition, _)| condition).collect(), share)
}

/// The share of a table's rows that fulfil `filters`, which name its columns; `guess` where a
/// sample cannot tell.
pub(crate) fn share_of(table: &Table, filters: &[Expr], guess: f64) -> f64 {
    let found = physical(table, filters).and_then(|conditions| try_all(table, &conditions));
    match found {
        Some(found) if found.hits < BELIEVED && !found.whole => guess.min(found.share()),
        Some(found) => found.share(),
        None => guess,
    }
}

fn physical(table: &Table, filters: &[Expr]) -> Option<Vec<Arc<dyn PhysicalExpr>>> {
    let schema = DFSchema::try_from(Arc::clone(table.schema())).ok()?;
    let (props, context) = (ExecutionProps::new(), PhysicalPlanningContext::default());
    let conjuncts = filters.iter().flat_map(split_conjunction);
    let made = conjuncts.map(|filter| {
        create_physical_expr(&unnormalize_col(filter.clone()), &schema, &props, &context)
    });
    made.collect::<Result<Vec<_>, _>>().ok()
}

/// What a sample tells.
struct Tried {
    rows: usize,
    /// Rows that fulfil all conditions.
    hits: usize,
    /// Share of the rows that fulfil each.
    each: Vec<f64>,
    /// Whether the sample is the table.
    whole: bool,
}

impl Tried {
    fn share(&self) -> f64 {
        match self.whole {
            true => self.hits as f64 / self.rows.max(1) as f64,
            // None in the sample does not mean none.
            false => (self.hits as f64 + 0.5) / (self.rows as f64 + 1.0),
        }
    }
}

/// Tries conditions on a table's columns. None when one fails, or a column cannot be sampled.
fn try_all(table: &Table, conditions: &[Arc<dyn PhysicalExpr>]) -> Option<Tried> {
    let (mut all, mut rows): (Option<BooleanArray>, usize) = (None, 0);
    let mut each = Vec::with_capacity(conditions.len());
    for condition in conditions {
        let found = evaluate(table, condition)?;
        rows = found.len();
        let found = match found.as_boolean_opt()? {
            found if found.null_count() == 0 => found.clone(),
            found => prep_null_mask_filter(found),
        };
        each.push(found.true_count() as f64 / rows.max(1) as f64);
        all = Some(match all {
            Some(all) => arrow::compute::and(&all, &found).ok()?,
            None => found,
        });
    }
    let whole = table.row_count() as usize <= rows;
    Some(Tried { rows, hits: all?.true_count(), each, whole })
}

/// An expression's values for the sampled rows of a table. None when it fails, or a column cannot
/// be sampled.
fn evaluate(table: &Table, expr: &Arc<dyn PhysicalExpr>) -> Option<ArrayRef> {
    let mut columns = collect_columns(expr).iter().map(Column::index).collect::<Vec<_>>();
    columns.sort_unstable();
    columns.dedup();
    let fields = columns.iter().map(|&column| {
        (column < table.columns().len()).then(|| Arc::clone(&table.schema().fields()[column]))
    });
    let schema = Arc::new(Schema::new(fields.collect::<Option<Vec<_>>>()?));
    let arrays = columns.iter().map(|&column| sampled(table, column));
    let arrays = arrays.collect::<Option<Vec<_>>>()?;
    let rows = arrays.first()?.len();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let expr = reassign_expr_columns(Arc::clone(expr), &schema).ok()?;
    let batch = RecordBatch::try_new_with_options(schema, arrays, &options).ok()?;
    expr.evaluate(&batch).ok()?.into_array(rows).ok()
}

/// How many different values an expression over columns of `table` has; None where a sample cannot
/// tell.
pub(crate) fn distinct_of(table: &Table, expr: &Expr) -> Option<f64> {
    let made = physical(table, std::slice::from_ref(expr))?;
    let [expr] = made.as_slice() else { return None };
    let mut seen = Seen::default();
    seen.add(&evaluate(table, expr)?)?;
    Some(seen.extrapolate(table.row_count()))
}

/// What looking at a condition costs a row, in about nanoseconds.
fn cost(table: &Table, condition: &Arc<dyn PhysicalExpr>) -> f64 {
    let columns = collect_columns(condition);
    let types = columns.iter().map(|c| table.schema().fields().get(c.index()));
    let of_type = types.map(|field| match field.map(|f| f.data_type()) {
        Some(t) => t.primitive_width().map_or(8.0, |width| width as f64 / 8.0),
        None => 1.0,
    });
    let depth = condition.children().iter().map(|c| c.children().len()).sum::<usize>();
    0.2 + of_type.sum::<f64>() * (1.0 + depth as f64)
}

/// The sampled rows of a column.
fn sampled(table: &Table, column: usize) -> Option<ArrayRef> {
    // Never waits: in a forked child the lock may be held by a thread that is not there.
    if let Ok(columns) = COLUMNS.try_lock()
        && let Some(known) = columns.as_ref().and_then(|c| c.get(&key(table, column)))
    {
        return Some(Arc::clone(known));
    }
    let array = draw(table, column)?;
    if let Ok(mut columns) = COLUMNS.try_lock() {
        let all = columns.get_or_insert_with(HashMap::new);
        if all.len() >= MAX_REMEMBERED {
            all.clear();
        }
        all.insert(key(table, column), Arc::clone(&array));
    }
    Some(array)
}

fn draw(table: &Table, column: usize) -> Option<ArrayRef> {
    let data_type = table.schema().field(column).data_type();
    let flat = data_type.primitive_width().is_some()
        || matches!(data_type, DataType::Boolean | DataType::Utf8 | DataType::Utf8View);
    let segments = table.segments().ok()?;
    if !flat || segments.is_empty() {
        return None;
    }
    let most = if table.is_in_memory() { PLACES } else { PLACES_ON_DISK };
    let places = most.min(segments.len());
    let chosen = || (0..places).map(|place| &segments[place * segments.len() / places]);
    // All of them by one scan of the disk, as long as this is held.
    let _ahead = ReadAhead::begin(chosen().map(Arc::as_ref), &[column]).ok()?;
    let mut parts = Vec::with_capacity(places);
    for segment in chosen() {
        // All of a small table: then the step is one.
        let step = (segment.rows() * places).div_ceil(SAMPLE_ROWS).max(1);
        let rows = segment.rows() as u32;
        let runs = (0..rows).step_by(step * RUN as usize);
        let indices = runs.flat_map(|start| start..(start + RUN).min(rows));
        let indices = UInt32Array::from_iter_values(indices);
        parts.push(take(&segment.array(column).ok()?, &indices, None).ok()?);
    }
    let parts = parts.iter().map(|part| part.as_ref()).collect::<Vec<_>>();
    let array = concat(&parts).ok()?;
    // Views would keep the table's memory.
    match array.as_string_view_opt() {
        Some(views) => Some(Arc::new(views.gc())),
        None => Some(array),
    }
}
