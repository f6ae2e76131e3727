//! Building the table: collect, put together, scatter, build.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_empty_array};
use arrow::compute::concat;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::runtime::JoinSet;
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::common::{NullEquality, Result, resources_datafusion_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr_common::utils::evaluate_expressions_to_arrays;
use datafusion::physical_plan::SendableRecordBatchStream;
use futures::StreamExt;
use parking_lot::Mutex;

use super::bounds::{Bounds, BoundsOfKeys};
use super::buffers_once::buffers_once;
use super::direct::{Dense, Many, Range, Unique};
use super::hashed::{Hashed, HashedPart, part_shift};
use super::key_set::KeySet;
use super::keys;
use super::marks::Marks;
use super::metrics::BuildMetrics;
use super::published::{Known, Published};
use super::scattered::Scattered;
use super::table::{MOST_ROWS, Table};
use super::workers::{failed, in_parallel};

/// Rows that are hashed and scattered at a time.
const SCATTER_ROWS: usize = 1 << 15;
/// Rows of a part: its directory and entries fit a processor's second-level cache.
const PART_ROWS: usize = 1 << 14;
/// Numbers of a range for each row, above which clearing the array takes longer than its faster
/// look-ups save.
const SPARSE: usize = 512;
/// More parts would not fit the first-level cache while rows are scattered.
const MAX_PART_BITS: u32 = 8;

/// Parameters of the build.
pub(crate) struct Build {
    pub(crate) schema: SchemaRef,
    /// The keys, in the columns of the build side.
    pub(crate) on: Vec<PhysicalExprRef>,
    pub(crate) null_equality: NullEquality,
    /// Whether it is asked which build rows found a partner.
    pub(crate) notes_visited: bool,
    pub(crate) workers: usize,
    pub(crate) density: Density,
    /// Where scans of the probe side learn of the keys.
    pub(crate) published: Option<Published>,
    pub(crate) reservation: MemoryReservation,
    pub(crate) metrics: BuildMetrics,
}

/// When whole numbers get an array instead of a hash table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Density {
    /// A smaller range does, unless [`SPARSE`].
    pub(crate) small_range: usize,
    /// A larger one does where this share of its numbers occurs.
    pub(crate) least_share: f64,
}

impl Density {
    fn allows(&self, span: u32, rows: usize) -> bool {
        let numbers = span as usize + 1;
        let is_small = numbers <= self.small_range && numbers / SPARSE <= rows;
        is_small || rows as f64 > numbers as f64 * self.least_share
    }
}

/// The build side, complete.
#[derive(Debug)]
pub(crate) struct BuildSide {
    /// All rows, in the order of their numbers.
    pub(crate) batch: RecordBatch,
    pub(crate) keys: Vec<ArrayRef>,
    pub(crate) table: Arc<Table>,
    pub(crate) visited: Option<Marks>,
    /// Whether a key is NULL somewhere.
    pub(crate) has_null_key: bool,
    /// Returns the memory when the last probing partition ends.
    _reservation: Vec<MemoryReservation>,
}

/// The rows that one task collected.
struct TaskRows {
    batches: Vec<RecordBatch>,
    /// For each batch, the keys that are not columns of it.
    computed: Vec<Vec<ArrayRef>>,
    rows: usize,
    bounds: Option<BoundsOfKeys>,
    reservation: MemoryReservation,
}

impl Build {
    /// Collects the build side's partitions, and builds the table of their rows.
    pub(crate) async fn run(self, inputs: Vec<SendableRecordBatchStream>) -> Result<BuildSide> {
        let timer = self.metrics.time.clone();
        let _timer = timer.timer();
        let this = Arc::new(self);
        let collected = Self::collect_all(&this, inputs).await?;
        let rows = collected.iter().map(|part| part.rows).sum::<usize>();
        if rows > MOST_ROWS {
            return Err(resources_datafusion_err!(
                "a hash join builds a table of at most {MOST_ROWS} rows, not of {rows}; \
                 let it build the smaller side, or filter the rows first"
            ));
        }
        let (mut parts, mut reservations, mut bounds) = (Vec::new(), Vec::new(), Vec::new());
        for part in collected {
            parts.push((part.batches, part.computed));
            reservations.push(part.reservation);
            bounds.extend(part.bounds);
        }
        let bounds = BoundsOfKeys::of_all(bounds)?;
        let (batch, keys) = this.together(parts, rows).await?;
        let keys = Arc::new(keys);
        let table = Arc::new(this.table(&keys, rows, &bounds).await?);
        this.metrics.memory.add(this.reservation.size());
        if let Some(published) = &this.published {
            let set = this.key_set(&keys, rows, &bounds).await?;
            published.publish(Known { table: &table, set, keys: &keys, bounds: &bounds })?;
        }
        let visited = this
            .notes_visited
            .then(|| this.reservation.try_grow(Marks::bytes(rows)).map(|()| Marks::new(rows)));
        let visited = visited.transpose()?;
        reservations.push(this.reservation.split(this.reservation.size()));
        let keys = Arc::unwrap_or_clone(keys);
        let has_null_key = keys.iter().any(|key| key.logical_null_count() > 0);
        Ok(BuildSide { batch, keys, table, visited, has_null_key, _reservation: reservations })
    }

    async fn collect_all(
        this: &Arc<Self>,
        inputs: Vec<SendableRecordBatchStream>,
    ) -> Result<Vec<TaskRows>> {
        let mut tasks = JoinSet::new();
        let mut all = inputs.iter().map(|_| None).collect::<Vec<Option<TaskRows>>>();
        for (number, input) in inputs.into_iter().enumerate() {
            let this = Arc::clone(this);
            tasks.spawn(async move { (number, this.collect(input).await) });
        }
        while let Some(ended) = tasks.join_next().await {
            let (number, collected) = ended.map_err(failed)?;
            all[number] = Some(collected?);
        }
        Ok(all.into_iter().flatten().collect())
    }

    /// Collects one partition.
    async fn collect(&self, mut input: SendableRecordBatchStream) -> Result<TaskRows> {
        let types = self.key_types()?;
        let wants_bounds = self.published.is_some() || may_be_array(&types);
        let mut collected = TaskRows {
            batches: Vec::new(),
            computed: Vec::new(),
            rows: 0,
            bounds: wants_bounds.then(|| BoundsOfKeys::new(&types)).transpose()?,
            reservation: self.reservation.new_empty(),
        };
        let mut memory = RecordBatchMemoryCounter::new();
        while let Some(batch) = input.next().await {
            let batch = batch?;
            if batch.num_rows() == 0 {
                continue;
            }
            let bytes = memory.count_batch(&batch);
            collected.reservation.try_grow(bytes)?;
            self.metrics.memory.add(bytes);
            self.metrics.input_batches.add(1);
            self.metrics.input_rows.add(batch.num_rows());
            let computes = self.on.iter().any(|key| !key.is::<Column>());
            if computes || collected.bounds.is_some() {
                let keys = evaluate_expressions_to_arrays(&self.on, &batch)?;
                if let Some(bounds) = &mut collected.bounds {
                    bounds.add(&keys)?;
                }
                let own = self.on.iter().zip(keys).filter(|(key, _)| !key.is::<Column>());
                collected.computed.push(own.map(|(_, key)| key).collect());
            }
            collected.rows += batch.num_rows();
            collected.batches.push(batch);
        }
        self.metrics.collectors.add(usize::from(collected.rows > 0));
        Ok(collected)
    }

    fn key_types(&self) -> Result<Vec<DataType>> {
        self.on.iter().map(|key| key.data_type(&self.schema)).collect()
    }

    /// All rows as one batch, and their keys. Each column is put together by one task.
    async fn together(
        &self,
        parts: Vec<(Vec<RecordBatch>, Vec<Vec<ArrayRef>>)>,
        rows: usize,
    ) -> Result<(RecordBatch, Vec<ArrayRef>)> {
        let (mut batches, mut computed) = (Vec::new(), Vec::new());
        for (of_part, keys) in parts {
            batches.extend(of_part);
            computed.extend(keys);
        }
        let width = self.schema.fields().len();
        let own = self.on.iter().filter(|key| !key.is::<Column>());
        let own = own.map(|key| key.data_type(&self.schema)).collect::<Result<Vec<_>>>()?;
        let mut types =
            self.schema.fields().iter().map(|f| f.data_type().clone()).collect::<Vec<_>>();
        types.extend(own);
        let pieces = Mutex::new((batches, computed));
        let columns = types.len();
        let column = move |at: usize| -> Result<ArrayRef> {
            let arrays = {
                let pieces = pieces.lock();
                let (batches, computed) = &*pieces;
                match at.checked_sub(width) {
                    None => batches.iter().map(|b| Arc::clone(b.column(at))).collect::<Vec<_>>(),
                    Some(own) => computed.iter().map(|keys| Arc::clone(&keys[own])).collect(),
                }
            };
            Ok(match arrays.as_slice() {
                [] => new_empty_array(&types[at]),
                [one] => Arc::clone(one),
                _ => {
                    let arrays = arrays.iter().map(AsRef::as_ref).collect::<Vec<&dyn Array>>();
                    buffers_once(concat(&arrays)?)?
                }
            })
        };
        let mut columns = in_parallel(self.workers, columns, column).await?.results;
        let mut own = columns.split_off(width).into_iter();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(&self.schema);
        let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
        let of_batch = |key: &PhysicalExprRef| match key.downcast_ref::<Column>() {
            Some(column) => Some(Arc::clone(batch.column(column.index()))),
            None => own.next(),
        };
        let keys = self.on.iter().filter_map(of_batch).collect::<Vec<_>>();
        debug_assert_eq!(keys.len(), self.on.len());
        Ok((batch, keys))
    }

    /// The table of all rows.
    async fn table(
        &self,
        keys: &Arc<Vec<ArrayRef>>,
        rows: usize,
        bounds: &[Option<Bounds>],
    ) -> Result<Table> {
        let valid = keys::matchable(keys, self.null_equality).map(Arc::new);
        if valid.as_ref().map_or(rows, |valid| rows - valid.null_count()) == 0 {
            return Ok(Table::Empty);
        }
        let part_bits = part_bits(rows);
        if let Some(range) = self.range(keys, rows, bounds, part_bits) {
            self.metrics.arrays.add(1);
            return self.array(keys, rows, range).await;
        }
        let part_bytes = HashedPart::bytes_of(rows.div_ceil(1 << part_bits)) << part_bits;
        self.reservation.try_grow(part_bytes)?;
        let scattering = Scattering { bytes: Scattered::bytes(rows), rows, valid };
        let parts = 1 << part_bits;
        let of_keys = Arc::clone(keys);
        let scattered =
            self.scatter(scattering, part_shift(part_bits), parts, move |at, len, out| {
                let keys = of_keys.iter().map(|key| key.slice(at, len)).collect::<Vec<_>>();
                keys::hashes(&keys, len, out)
            });
        let scattered = scattered.await?;
        let build = {
            let scattered = Arc::clone(&scattered.0);
            move |part| Ok(HashedPart::new(&scattered, part, part_bits))
        };
        let done = in_parallel(self.workers, parts, build).await?;
        self.metrics.workers.add(done.workers);
        let table = Hashed::new(done.results, part_bits);
        self.account(part_bytes, table.bytes());
        Ok(Table::Hashed(table))
    }

    /// The set of all keys, if they are whole numbers that are close enough together, and there is
    /// memory for it.
    async fn key_set(
        &self,
        keys: &Arc<Vec<ArrayRef>>,
        rows: usize,
        bounds: &[Option<Bounds>],
    ) -> Result<Option<Arc<KeySet>>> {
        // As one part: its numbers are not scattered.
        let Some(range) = range_of(keys, bounds, 0) else { return Ok(None) };
        let bytes = KeySet::bytes(&range, rows);
        if bytes.is_none_or(|bytes| self.reservation.try_grow(bytes).is_err()) {
            return Ok(None);
        }
        let set = Arc::new(KeySet::new(range));
        let (keys, filled) = (Arc::clone(keys), Arc::clone(&set));
        let fill = move |piece: usize| {
            let first = piece * SCATTER_ROWS;
            let keys = keys[0].slice(first, SCATTER_ROWS.min(rows - first));
            filled.add(keys.as_ref(), &mut Vec::with_capacity(keys.len()));
            Ok(())
        };
        in_parallel(self.workers, rows.div_ceil(SCATTER_ROWS), fill).await?;
        Ok(Some(set))
    }

    /// The range of the keys, if an array is the better table.
    fn range(
        &self,
        keys: &[ArrayRef],
        rows: usize,
        bounds: &[Option<Bounds>],
        part_bits: u32,
    ) -> Option<Range> {
        let has_nulls = keys.first().is_some_and(|key| key.null_count() > 0);
        if has_nulls && self.null_equality == NullEquality::NullEqualsNull {
            return None;
        }
        let range = range_of(keys, bounds, part_bits)?;
        self.density.allows(range.span, rows).then_some(range)
    }

    /// An array over a range of whole numbers.
    async fn array(&self, keys: &[ArrayRef], rows: usize, range: Range) -> Result<Table> {
        let key = Arc::clone(&keys[0]);
        let valid = keys::matchable(keys, NullEquality::NullEqualsNothing).map(Arc::new);
        let expected = Unique::bytes_of(&range);
        self.reservation.try_grow(expected)?;
        let scattering = Scattering { bytes: Scattered::bytes(rows), rows, valid };
        let parts = range.parts();
        let scattered = self.scatter(scattering, range.shift, parts, move |at, len, out| {
            // A NULL may have any value: it is left out before its part is looked at.
            keys::offsets(key.slice(at, len).as_ref(), range.least, out);
            Ok(())
        });
        let (scattered, _bytes) = scattered.await?;
        let twice = Arc::new(AtomicBool::new(false));
        let build = {
            let (scattered, twice) = (Arc::clone(&scattered), Arc::clone(&twice));
            move |part| {
                if twice.load(Ordering::Relaxed) {
                    return Ok(None);
                }
                let unique = Unique::new(&scattered, part, &range);
                twice.fetch_or(unique.is_none(), Ordering::Relaxed);
                Ok(unique)
            }
        };
        let done = in_parallel(self.workers, parts, build).await?;
        if let Some(unique) = done.results.into_iter().collect::<Option<Vec<_>>>() {
            self.metrics.workers.add(done.workers);
            let table = Dense::<Unique>::new(unique, range);
            self.account(expected, table.bytes());
            return Ok(Table::Unique(table));
        }
        let more = Many::bytes_of(&range, rows).saturating_sub(expected);
        self.reservation.try_grow(more)?;
        let build = move |part| Ok(Many::new(&scattered, part, &range));
        let done = in_parallel(self.workers, parts, build).await?;
        self.metrics.workers.add(done.workers);
        let table = Dense::<Many>::new(done.results, range);
        self.account(expected + more, table.bytes());
        Ok(Table::Many(table))
    }

    /// Sorts all rows by part. `values` writes the hashes or offsets of some rows. The memory for
    /// it is returned with the second result.
    async fn scatter<F>(
        &self,
        all: Scattering,
        shift: u32,
        parts: usize,
        values: F,
    ) -> Result<(Arc<Vec<Scattered>>, MemoryReservation)>
    where
        F: Fn(usize, usize, &mut Vec<u64>) -> Result<()> + Send + Sync + 'static,
    {
        let Scattering { rows, valid, bytes } = all;
        let reservation = self.reservation.new_empty();
        reservation.try_grow(bytes)?;
        let piece = move |piece: usize| {
            let first = piece * SCATTER_ROWS;
            let rows = SCATTER_ROWS.min(rows - first);
            let mut hashes = Vec::with_capacity(rows);
            values(first, rows, &mut hashes)?;
            let valid = valid.as_ref().map(|valid| valid.slice(first, rows));
            let first = u32::try_from(first).unwrap_or(u32::MAX);
            Ok(Scattered::new(&hashes, first, valid.as_ref(), shift, parts))
        };
        let done = in_parallel(self.workers, rows.div_ceil(SCATTER_ROWS), piece).await?;
        Ok((Arc::new(done.results), reservation))
    }

    /// Corrects what was reserved for a table.
    fn account(&self, reserved: usize, taken: usize) {
        if taken > reserved {
            self.reservation.grow(taken - reserved);
        } else {
            self.reservation.shrink(reserved - taken);
        }
    }
}

/// The rows to scatter.
struct Scattering {
    rows: usize,
    valid: Option<Arc<arrow::buffer::NullBuffer>>,
    bytes: usize,
}

/// The range of the keys, if there is one key and it is a whole number.
fn range_of(keys: &[ArrayRef], bounds: &[Option<Bounds>], part_bits: u32) -> Option<Range> {
    let ([key], [Some(bounds)]) = (keys, bounds) else { return None };
    if !keys::is_whole_number(key.data_type()) {
        return None;
    }
    let [least, greatest] = [&bounds.least, &bounds.greatest].map(keys::whole_number);
    Range::new(least?, greatest?, part_bits)
}

/// Whether a table of such keys may be an array.
fn may_be_array(types: &[DataType]) -> bool {
    matches!(types, [one] if keys::is_whole_number(one))
}

/// How many bits of the hash, or of the key, tell the part of a row.
fn part_bits(rows: usize) -> u32 {
    let parts = rows.div_ceil(PART_ROWS).next_power_of_two();
    parts.trailing_zeros().min(MAX_PART_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_grow_with_the_rows() {
        let bits = [0, 1, 16_384, 16_385, 1 << 20, 1 << 30].map(part_bits);
        assert_eq!(bits, [0, 0, 0, 1, 6, 8]);
    }
}
