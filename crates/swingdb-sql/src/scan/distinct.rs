//! How many different values a column has, by its statistics and by a sample.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex};

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::{cast, take};
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};
use datafusion::common::ScalarValue;
use swingdb_store::{ReadAhead, Table};

/// Rows looked at to guess how many different values a column has.
pub(crate) const SAMPLE_ROWS: usize = 4096;

/// Segments those rows are taken from.
pub(crate) const PLACES: usize = 8;

/// Numbers, dates and times as a number; `None` for everything else.
pub(crate) fn on_number_line(value: &ScalarValue) -> Option<f64> {
    match value {
        ScalarValue::Decimal128(Some(v), _, scale) => Some(*v as f64 / 10f64.powi((*scale).into())),
        ScalarValue::Date32(Some(days)) => Some(f64::from(*days) * 86_400e9),
        ScalarValue::TimestampSecond(Some(v), _) => Some(*v as f64 * 1e9),
        ScalarValue::TimestampMillisecond(Some(v), _) => Some(*v as f64 * 1e6),
        ScalarValue::TimestampMicrosecond(Some(v), _) => Some(*v as f64 * 1e3),
        ScalarValue::TimestampNanosecond(Some(v), _) => Some(*v as f64),
        other if other.data_type().is_numeric() && !other.is_null() => {
            match other.cast_to(&DataType::Float64).ok()? {
                ScalarValue::Float64(v) => v,
                _ => None,
            }
        }
        _ => None,
    }
}

pub(crate) fn bounds(table: &Table, column: usize) -> Option<(f64, f64)> {
    let stats = table.stats(column).ok()?;
    on_number_line(stats.min.as_ref()?).zip(on_number_line(stats.max.as_ref()?))
}

pub(crate) fn distinct_values(table: &Table, column: usize) -> f64 {
    let rows = table.row_count() as f64;
    if table.constraints().iter().any(|c| c.columns() == [column]) {
        return rows;
    }
    let step = match table.schema().field(column).data_type() {
        DataType::Date32 => Some(86_400e9),
        t if t.is_integer() => Some(1.0),
        DataType::Decimal128(_, scale) => Some(10f64.powi(-i32::from(*scale))),
        _ => None,
    };
    let range = match step.and_then(|step| Some((bounds(table, column)?, step))) {
        Some(((low, high), step)) => (high - low) / step + 1.0,
        None => f64::INFINITY,
    };
    // A narrow range is close to the truth; else a sample tells more.
    if range <= rows * 0.01 {
        return range.max(1.0);
    }
    sampled(table, column).unwrap_or(rows).min(range).max(1.0)
}

/// The number of different values as far as a sample has been taken already.
pub(crate) fn remembered_distinct(table: &Table, column: usize) -> Option<f64> {
    // Never waits: in a forked child the lock may be held by a thread that is not there.
    let remembered = REMEMBERED.try_lock().ok()?;
    remembered.as_ref()?.get(&key(table, column)).copied()
}

/// Version of a table (as far as matters here) and column.
pub(crate) type Key = (u64, u64, u64, usize);

/// Columns remembered.
const MAX_REMEMBERED: usize = 10_000;

static REMEMBERED: Mutex<Option<HashMap<Key, f64>>> = Mutex::new(None);

/// For tables and columns: how many rows the table had when it was last sampled, and what came out.
type Recent = HashMap<(u64, usize), (u64, f64)>;

static RECENT: Mutex<Option<Recent>> = Mutex::new(None);

/// As [`remembered_distinct`], or by a sample of a version that had nearly as many rows.
pub(crate) fn recent_distinct(table: &Table, column: usize) -> Option<f64> {
    if let Some(known) = remembered_distinct(table, column) {
        return Some(known);
    }
    let recent = RECENT.try_lock().ok()?;
    let (rows, distinct) = *recent.as_ref()?.get(&(table.id(), column))?;
    (rows.abs_diff(table.row_count()) <= rows / 5).then_some(distinct)
}

/// Samples the columns of a table of which nothing is known.
pub(crate) fn sample_columns(table: &Table) {
    for column in 0..table.columns().len() {
        if recent_distinct(table, column).is_none() {
            distinct_values(table, column);
        }
    }
}

pub(crate) fn key(table: &Table, column: usize) -> Key {
    (table.id(), table.row_count(), table.bytes(), column)
}

/// Different values extrapolated from the rows of a few places of the table, remembered for its
/// version.
pub(crate) fn sampled(table: &Table, column: usize) -> Option<f64> {
    if let Some(known) = remembered_distinct(table, column) {
        return Some(known);
    }
    let distinct = sample(table, column)?;
    remember(&REMEMBERED, key(table, column), distinct);
    remember(&RECENT, (table.id(), column), (table.row_count(), distinct));
    Some(distinct)
}

fn remember<K: Eq + Hash, V>(known: &Mutex<Option<HashMap<K, V>>>, key: K, value: V) {
    if let Ok(mut known) = known.try_lock() {
        let all = known.get_or_insert_with(HashMap::new);
        if all.len() >= MAX_REMEMBERED {
            all.clear();
        }
        all.insert(key, value);
    }
}

pub(crate) fn sample(table: &Table, column: usize) -> Option<f64> {
    let segments = table.segments().ok()?;
    if segments.is_empty() {
        return Some(0.0);
    }
    // Evenly spread rows: neighbours are often alike.
    let places = PLACES.min(segments.len());
    let mut seen = Seen::default();
    let chosen = || (0..places).map(|place| &segments[place * segments.len() / places]);
    // All of them by one scan of the disk, as long as this is held.
    let _ahead = ReadAhead::begin(chosen().map(Arc::as_ref), &[column]).ok()?;
    for segment in chosen() {
        let step = (segment.rows() * places / SAMPLE_ROWS).max(1);
        let indices = (0..segment.rows() as u32).step_by(step);
        let array = segment.array(column).ok()?;
        seen.add(&take(&array, &UInt32Array::from_iter_values(indices), None).ok()?)?;
    }
    Some(seen.extrapolate(table.row_count()))
}

/// The values of a sample, and how often each was seen.
#[derive(Default)]
pub(crate) struct Seen {
    times: HashMap<Vec<u8>, u32>,
    counted: usize,
}

impl Seen {
    /// Counts the values of an array; None for types that cannot be compared.
    pub(crate) fn add(&mut self, array: &ArrayRef) -> Option<()> {
        // Views would compare by prefix and place.
        let array = match array.data_type() {
            DataType::Utf8View => cast(array, &DataType::Utf8).ok()?,
            _ => Arc::clone(array),
        };
        let converter = RowConverter::new(vec![SortField::new(array.data_type().clone())]).ok()?;
        let rows = converter.convert_columns(std::slice::from_ref(&array)).ok()?;
        self.counted += array.len();
        for row in &rows {
            *self.times.entry(row.as_ref().to_vec()).or_default() += 1;
        }
        Some(())
    }

    /// How many different values there are among `rows` rows.
    ///
    /// Where all values are about as frequent, those seen twice say how many there are to be seen
    /// (Chao, "Nonparametric estimation of the number of classes", 1984). That is so if few were
    /// seen three times: if even values are seen `l` times on average, `l^k / k!` of them are seen
    /// `k` times, and the product below is 2/3 of the square; it is 3/2 where frequencies fall as
    /// ranks do. Then values seen once stand for many not seen: they are scaled by the square root
    /// of the sampling ratio (Charikar et al., "Towards estimation error guarantees for distinct
    /// values", PODS 2000). Where nearly all were seen once, and none twice, they are keys.
    pub(crate) fn extrapolate(&self, rows: u64) -> f64 {
        let seen = |n| self.times.values().filter(|times| **times == n).count() as f64;
        let (once, twice, thrice) = (seen(1), seen(2), seen(3));
        let (distinct, counted) = (self.times.len() as f64, self.counted.max(1) as f64);
        let rows = rows as f64;
        let (keys, nearly_all) = (rows * once / counted, once > 0.9 * counted);
        if nearly_all && twice == 0.0 {
            return keys.max(distinct);
        }
        if nearly_all || once * thrice <= twice * twice {
            // Chao's estimate with its correction for few that were seen twice.
            let unseen = once * (once - 1.0) / (2.0 * (twice + 1.0));
            return (distinct + unseen).min(keys).max(distinct);
        }
        (rows / counted).max(1.0).sqrt() * once + (distinct - once)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::StringArray;

    use super::*;

    /// How many different values there seem to be among 10 million of which a sample is taken.
    fn guessed(value: impl Fn(usize) -> usize) -> f64 {
        let sample = StringArray::from_iter_values((0..SAMPLE_ROWS).map(|i| value(i).to_string()));
        let mut seen = Seen::default();
        seen.add(&(Arc::new(sample) as ArrayRef)).unwrap();
        seen.extrapolate(10_000_000)
    }

    #[test]
    fn samples_tell_keys_from_many_groups() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut of = |values: usize| (0..SAMPLE_ROWS).map(|_| random.usize(..values)).collect();
        for (values, off) in [(100, 1.1), (1000, 1.1), (3000, 1.2), (10_000, 1.3), (50_000, 1.5)] {
            let sample: Vec<usize> = of(values);
            let ratio = guessed(|i| sample[i]) / values as f64;
            assert!((1.0 / off..off).contains(&ratio), "{values}: {ratio}");
        }
        let sample: Vec<usize> = of(500_000);
        let ratio = guessed(|i| sample[i]) / 500_000.0;
        assert!((0.4..4.0).contains(&ratio), "{ratio}");
        assert_eq!(guessed(|i| i), 10_000_000.0);
        // One value that is frequent says nothing about the others.
        assert!(guessed(|i| if i % 20 == 0 { 0 } else { i }) > 9_000_000.0);
        assert!(guessed(|i| if i % 2 == 0 { 0 } else { i }) > 1_000_000.0);
        // Nor does one that was seen once.
        assert_eq!(guessed(|i| if i == 7 { 3 } else { i % 3 }), 4.0);
        let sample: Vec<usize> = of(5000);
        let ratio = guessed(|i| if i % 2 == 0 { 0 } else { 1 + sample[i] }) / 5001.0;
        assert!((0.8..1.3).contains(&ratio), "{ratio}");
    }

    /// Few values are frequent and a great many rare, as words are.
    #[test]
    fn samples_of_uneven_values_stand_for_more() {
        let mut random = fastrand::Rng::with_seed(7);
        // Value number n comes in a share of rows that falls with n.
        let words: Vec<usize> =
            (0..SAMPLE_ROWS).map(|_| 1_000_000f64.powf(random.f64()) as usize).collect();
        assert!(guessed(|i| words[i]) > 50_000.0, "a million, of which most are rare");
    }
}
