//! GPS reports of a city's taxis, as in the paper's experiments: ordered by time, with real trips.
//!
//! Every taxi reports each [`TaxiOptions::interval_s`] seconds. Row `r` belongs to tick `r / taxis`
//! and to the taxi that is number `r % taxis` in the order of reporting, so any range of rows can
//! be made alone ([`TaxiGenerator::batch`]); it is the same whoever makes it.
//!
//! | column | type | meaning |
//! |---|---|---|
//! | `taxi_id` | Int32 | 10001 and up |
//! | `time` | Timestamp(us) | whole seconds; never decreases from row to row |
//! | `longitude`, `latitude` | Float64 | degrees, with some metres of noise |
//! | `speed` | Float32, nullable | km/h |
//! | `heading` | Int16 | degrees clockwise from north, 0-359 |
//! | `occupied` | Boolean | whether a passenger is on board |
//!
//! A small share of the rows is wrong as real reports are ([`TaxiOptions::dirty_per_million`]): the
//! position 0/0 or far away, an impossible speed, or none.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Float32Array, Float64Array, Int16Array, Int32Array, RecordBatch,
    RecordBatchReader, TimestampMicrosecondArray,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;

use super::city::{Point, TURN_DEGREES, hot_spots};
use super::random::hash;
use super::taxi_plan::{BLOCK_S, Leg, Planner};

/// Rows of the batches a [`TaxiReader`] yields: a segment of a table.
pub const BATCH_ROWS: u64 = 131_072;

const FIRST_TAXI_ID: i32 = 10_001;
/// Standard deviation of the position noise in each axis, metres.
const NOISE_M: f32 = 4.0;
const MAX_INTERVAL_S: u32 = 600;
const STREAM_NOISE: u64 = 0x6105;

/// What to generate; the default is a day of 4 000 taxis, 20 million rows.
#[derive(Clone, Debug, PartialEq)]
pub struct TaxiOptions {
    /// Number of rows, counted from `first_row`.
    pub rows: u64,
    /// Where to begin; the rows before are not made. Lets a stream go on where a load has ended.
    pub first_row: u64,
    /// Number of taxis, at least 1.
    pub taxis: u32,
    /// Same seed, same rows.
    pub seed: u64,
    /// Seconds between two reports of one taxi, 1 to 600.
    pub interval_s: u32,
    /// Time of row 0, seconds since 1970-01-01.
    pub start_unix_s: i64,
    /// Wrong rows in a million.
    pub dirty_per_million: u32,
}

impl Default for TaxiOptions {
    fn default() -> Self {
        Self {
            rows: 20_000_000,
            first_row: 0,
            taxis: 4_000,
            seed: 42,
            interval_s: 15,
            // 2026-03-02 04:00, a Monday.
            start_unix_s: 1_772_424_000,
            dirty_per_million: 2_000,
        }
    }
}

/// Reports of the default city's taxis; see [`TaxiOptions`] for more choice.
pub fn taxi(rows: u64, seed: u64) -> TaxiReader {
    TaxiReader::new(TaxiOptions { rows, seed, ..TaxiOptions::default() })
}

/// The schema of the reports.
pub fn schema() -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Microsecond, None);
    Arc::new(Schema::new(vec![
        Field::new("taxi_id", DataType::Int32, false),
        Field::new("time", time, false),
        Field::new("longitude", DataType::Float64, false),
        Field::new("latitude", DataType::Float64, false),
        Field::new("speed", DataType::Float32, true),
        Field::new("heading", DataType::Int16, false),
        Field::new("occupied", DataType::Boolean, false),
    ]))
}

/// Makes any range of the rows of one data set; shared by the threads that fill a table.
pub struct TaxiGenerator {
    options: TaxiOptions,
    planner: Planner,
    ticks_per_block: u64,
    /// Multiplier that scatters the taxi numbers over the order of reporting.
    scatter: u64,
    schema: SchemaRef,
}

/// The plans of one block of time, kept by a thread between two calls of
/// [`TaxiGenerator::batch`]: neighbouring ranges then share them.
#[derive(Default)]
pub struct TaxiPlans {
    block: Option<u64>,
    legs: Vec<Leg>,
    /// `legs[starts[i]..starts[i + 1]]` belong to taxi `i`.
    starts: Vec<u32>,
}

impl TaxiGenerator {
    /// A generator; numbers outside their limits are moved to the nearest one.
    pub fn new(mut options: TaxiOptions) -> Self {
        options.taxis = options.taxis.max(1);
        options.interval_s = options.interval_s.clamp(1, MAX_INTERVAL_S);
        options.dirty_per_million = options.dirty_per_million.min(1_000_000);
        let ticks_per_block = u64::from(BLOCK_S / options.interval_s);
        let block_s = ticks_per_block as u32 * options.interval_s;
        let origin_s = options.start_unix_s.rem_euclid(86_400) as u64;
        let spots = hot_spots(options.seed);
        let planner = Planner::new(options.seed, spots, block_s, origin_s);
        let scatter = scatter_multiplier(u64::from(options.taxis));
        Self { options, planner, ticks_per_block, scatter, schema: schema() }
    }

    /// The options in force.
    pub fn options(&self) -> &TaxiOptions {
        &self.options
    }

    /// The schema of the batches.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// All rows of this data set.
    pub fn rows(&self) -> Range<u64> {
        let first = self.options.first_row;
        first..first.saturating_add(self.options.rows)
    }

    /// The rows of `range`, whichever it is.
    pub fn batch(
        &self,
        range: Range<u64>,
        plans: &mut TaxiPlans,
    ) -> Result<RecordBatch, ArrowError> {
        let taxis = u64::from(self.options.taxis);
        let mut columns = Columns::with_capacity(range.end.saturating_sub(range.start) as usize);
        let rows_per_block = self.ticks_per_block * taxis;
        let mut row = range.start;
        while row < range.end {
            let block = row / rows_per_block;
            let end = range.end.min((block + 1) * rows_per_block);
            self.prepare(block, plans);
            self.fill(row..end, block * self.ticks_per_block, plans, &mut columns);
            row = end;
        }
        columns.finish(self.schema())
    }

    fn prepare(&self, block: u64, plans: &mut TaxiPlans) {
        if plans.block == Some(block) {
            return;
        }
        plans.legs.clear();
        plans.starts.clear();
        for taxi in 0..self.options.taxis {
            plans.starts.push(plans.legs.len() as u32);
            self.planner.plan(taxi, block, &mut plans.legs);
        }
        plans.starts.push(plans.legs.len() as u32);
        plans.block = Some(block);
    }

    /// Appends `rows`, which lie in the block that begins with `first_tick`.
    fn fill(&self, rows: Range<u64>, first_tick: u64, plans: &TaxiPlans, columns: &mut Columns) {
        let taxis = u64::from(self.options.taxis);
        let interval = u64::from(self.options.interval_s);
        let mut cursors: Vec<u32> = plans.starts[..taxis as usize].to_vec();
        let mut current: Vec<Leg> = cursors.iter().map(|at| plans.legs[*at as usize]).collect();
        let noise_seed = self.options.seed ^ STREAM_NOISE;
        let dirty_below = u64::from(self.options.dirty_per_million) * (1 << 20) / 1_000_000;
        let profile = self.planner.profile();
        let mut row = rows.start;
        while row < rows.end {
            let tick = row / taxis;
            let first = row - tick * taxis;
            let last = taxis.min(first + (rows.end - row));
            let tick_s = (tick - first_tick) * interval;
            for order in first..last {
                let second = order * interval / taxis;
                let now_s = (tick_s + second) as f32;
                let leg = &mut current[order as usize];
                while now_s >= leg.end_s {
                    cursors[order as usize] += 1;
                    *leg = plans.legs[cursors[order as usize] as usize];
                }
                let moment = leg.at(now_s, profile);
                let bits = hash(noise_seed, tick * taxis + order);
                let place = moment.place.blurred(bits);
                let (longitude, latitude) = place.to_degrees();
                columns.time.push(
                    (self.options.start_unix_s + (tick * interval + second) as i64) * 1_000_000,
                );
                columns.taxi_id.push(FIRST_TAXI_ID + (order * self.scatter % taxis) as i32);
                columns.longitude.push(longitude);
                columns.latitude.push(latitude);
                columns.speed.push(moment.speed_kmh);
                columns.heading.push((moment.heading + 360 - TURN_DEGREES) % 360);
                columns.occupied.push(leg.occupied);
                if bits & 0xF_FFFF < dirty_below {
                    columns.spoil_last(bits >> 20);
                }
            }
            row += last - first;
        }
    }
}

impl Point {
    /// The place as a GPS receiver reports it.
    #[inline]
    fn blurred(self, bits: u64) -> Self {
        // The sum of four uniform bytes: mean 510, standard deviation 147.8.
        let sum = |bits: u64| {
            (bits & 0xFF) + (bits >> 8 & 0xFF) + (bits >> 16 & 0xFF) + (bits >> 24 & 0xFF)
        };
        let noise = |sum: u64| (sum as f32 - 510.0) * (NOISE_M / 147.8);
        Self { x: self.x + noise(sum(bits)), y: self.y + noise(sum(bits >> 32)) }
    }
}

/// A multiplier without a common factor with `count`, so that multiplying permutes `0..count`.
fn scatter_multiplier(count: u64) -> u64 {
    const CANDIDATES: [u64; 4] = [7_919, 104_729, 15_485_863, 1];
    let coprime = |a: u64| {
        let (mut a, mut b) = (a, count);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a == 1
    };
    CANDIDATES.into_iter().find(|a| coprime(*a)).unwrap_or(1)
}

/// The columns of a batch in the making.
struct Columns {
    taxi_id: Vec<i32>,
    time: Vec<i64>,
    longitude: Vec<f64>,
    latitude: Vec<f64>,
    speed: Vec<f32>,
    heading: Vec<i16>,
    occupied: Vec<bool>,
    /// Rows whose speed is NULL, ascending.
    no_speed: Vec<usize>,
}

impl Columns {
    fn with_capacity(rows: usize) -> Self {
        Self {
            taxi_id: Vec::with_capacity(rows),
            time: Vec::with_capacity(rows),
            longitude: Vec::with_capacity(rows),
            latitude: Vec::with_capacity(rows),
            speed: Vec::with_capacity(rows),
            heading: Vec::with_capacity(rows),
            occupied: Vec::with_capacity(rows),
            no_speed: Vec::new(),
        }
    }

    /// Makes the row appended last wrong in one of the ways real reports are.
    #[cold]
    fn spoil_last(&mut self, bits: u64) {
        let Some(row) = self.taxi_id.len().checked_sub(1) else { return };
        match bits % 5 {
            0 => {
                self.longitude[row] = 0.0;
                self.latitude[row] = 0.0;
            }
            1 => {
                self.longitude[row] += 20.0 + (bits >> 8 & 0x1F) as f64;
                self.latitude[row] -= 10.0;
            }
            2 => self.speed[row] = -1.0,
            3 => self.speed[row] = 201.0 + (bits >> 8 & 0x1FF) as f32,
            _ => {
                self.speed[row] = 0.0;
                self.no_speed.push(row);
            }
        }
    }

    fn finish(self, schema: SchemaRef) -> Result<RecordBatch, ArrowError> {
        let rows = self.taxi_id.len();
        let valid = (!self.no_speed.is_empty()).then(|| {
            let mut bits = vec![0xFFu8; rows.div_ceil(8)];
            for row in &self.no_speed {
                bits[row / 8] &= !(1 << (row % 8));
            }
            NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(bits), 0, rows))
        });
        let occupied = BooleanBuffer::collect_bool(rows, |row| self.occupied[row]);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from(self.taxi_id)),
            Arc::new(TimestampMicrosecondArray::from(self.time)),
            Arc::new(Float64Array::from(self.longitude)),
            Arc::new(Float64Array::from(self.latitude)),
            Arc::new(Float32Array::new(self.speed.into(), valid)),
            Arc::new(Int16Array::from(self.heading)),
            Arc::new(BooleanArray::new(occupied, None)),
        ];
        RecordBatch::try_new(schema, columns)
    }
}

/// All rows of a data set in order, in batches of [`BATCH_ROWS`].
pub struct TaxiReader {
    generator: TaxiGenerator,
    plans: TaxiPlans,
    next: u64,
}

impl TaxiReader {
    /// Reads the data set of `options`.
    pub fn new(options: TaxiOptions) -> Self {
        let generator = TaxiGenerator::new(options);
        let next = generator.rows().start;
        Self { generator, plans: TaxiPlans::default(), next }
    }
}

impl Iterator for TaxiReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let end = self.generator.rows().end;
        if self.next >= end {
            return None;
        }
        let range = self.next..end.min(self.next + BATCH_ROWS);
        self.next = range.end;
        Some(self.generator.batch(range, &mut self.plans))
    }
}

impl RecordBatchReader for TaxiReader {
    fn schema(&self) -> SchemaRef {
        self.generator.schema()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Array;
    use arrow::array::AsArray;
    use arrow::compute::concat_batches;
    use arrow::datatypes::{Float32Type, Float64Type, Int32Type, TimestampMicrosecondType};

    fn all(options: TaxiOptions) -> RecordBatch {
        let reader = TaxiReader::new(options);
        let schema = reader.schema();
        let batches: Vec<RecordBatch> = reader.map(|batch| batch.unwrap()).collect();
        concat_batches(&schema, &batches).unwrap()
    }

    #[test]
    fn any_split_gives_the_same_rows() {
        let options = TaxiOptions { rows: 50_000, taxis: 37, seed: 5, ..TaxiOptions::default() };
        let whole = all(options.clone());
        let generator = TaxiGenerator::new(options.clone());
        let mut random = fastrand::Rng::with_seed(11);
        for _ in 0..30 {
            let start = random.u64(0..50_000);
            let len = random.u64(0..(50_000 - start).min(20_000));
            let mut plans = TaxiPlans::default();
            let part = generator.batch(start..start + len, &mut plans).unwrap();
            assert_eq!(part, whole.slice(start as usize, len as usize));
        }
        let tail = TaxiOptions { first_row: 30_001, rows: 19_999, ..options };
        assert_eq!(all(tail), whole.slice(30_001, 19_999));
    }

    #[test]
    fn rows_are_ordered_by_time_and_each_taxi_reports_once_a_tick() {
        let batch = all(TaxiOptions { rows: 12_000, taxis: 400, ..TaxiOptions::default() });
        let times = batch.column(1).as_primitive::<TimestampMicrosecondType>().values();
        assert!(times.windows(2).all(|pair| pair[0] <= pair[1]));
        let ids = batch.column(0).as_primitive::<Int32Type>().values();
        for tick in ids.chunks(400) {
            let mut sorted = tick.to_vec();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(FIRST_TAXI_ID..FIRST_TAXI_ID + 400));
        }
    }

    #[test]
    fn the_share_of_wrong_rows_is_as_asked() {
        let rows = 400_000;
        let options = TaxiOptions { rows, dirty_per_million: 10_000, ..TaxiOptions::default() };
        let batch = all(options);
        let longitude = batch.column(2).as_primitive::<Float64Type>();
        let speed = batch.column(4).as_primitive::<Float32Type>();
        let wrong = (0..batch.num_rows())
            .filter(|row| {
                !(113.0..115.0).contains(&longitude.value(*row))
                    || speed.is_null(*row)
                    || !(0.0..200.0).contains(&speed.value(*row))
            })
            .count();
        assert!((3_600..4_400).contains(&wrong), "{wrong}");
        let clean = all(TaxiOptions { rows: 10_000, dirty_per_million: 0, ..Default::default() });
        assert_eq!(clean.column(4).null_count(), 0);
    }
}
