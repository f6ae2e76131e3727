//! Hourly weather for each zone of the city, and the zones: reference data to join with the taxis.
//!
//! Zones are a grid of boxes in longitude and latitude that covers every street. The weather is
//! made by rule, not by physics: it gets warmer after sunrise, rain comes in spells that last hours
//! and move from zone to zone.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Float32Array, Float64Array, Int16Array, Int32Array, RecordBatch, StringViewArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;

use super::city::{CENTRE_LATITUDE, CENTRE_LONGITUDE};
use super::random::{hash, normal, unit};

/// Zones from west to east.
pub const ZONE_COLUMNS: u32 = 6;
/// Zones from south to north.
pub const ZONE_ROWS: u32 = 4;
const ZONE_WIDTH_DEGREES: f64 = 0.042;
const ZONE_HEIGHT_DEGREES: f64 = 0.042;
const STREAM_RAIN: u64 = 0x4A17;
const STREAM_AIR: u64 = 0xA14;

/// What to generate; the default is two weeks from the day the taxis begin.
#[derive(Clone, Debug, PartialEq)]
pub struct WeatherOptions {
    /// Same seed, same weather.
    pub seed: u64,
    /// First hour, seconds since 1970-01-01.
    pub start_unix_s: i64,
    /// Number of hours.
    pub hours: u32,
}

impl Default for WeatherOptions {
    fn default() -> Self {
        // 2026-03-02 00:00.
        Self { seed: 42, start_unix_s: 1_772_409_600, hours: 14 * 24 }
    }
}

/// The zones: `zone_id`, `zone_name`, and the box `min_longitude <= x < max_longitude`, likewise in
/// latitude.
pub fn zones() -> Result<RecordBatch, ArrowError> {
    const NAMES: [&str; 4] = ["South", "Inner South", "Inner North", "North"];
    let double = |name: &str| Field::new(name, DataType::Float64, false);
    let schema = Schema::new(vec![
        Field::new("zone_id", DataType::Int32, false),
        Field::new("zone_name", DataType::Utf8View, false),
        double("min_longitude"),
        double("max_longitude"),
        double("min_latitude"),
        double("max_latitude"),
    ]);
    let west = CENTRE_LONGITUDE - f64::from(ZONE_COLUMNS) / 2.0 * ZONE_WIDTH_DEGREES;
    let south = CENTRE_LATITUDE - f64::from(ZONE_ROWS) / 2.0 * ZONE_HEIGHT_DEGREES;
    let places: Vec<(u32, u32)> =
        (0..ZONE_ROWS).flat_map(|row| (0..ZONE_COLUMNS).map(move |column| (row, column))).collect();
    let edges = |f: &dyn Fn(u32, u32) -> f64| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values(
            places.iter().map(|(row, column)| f(*row, *column)),
        ))
    };
    let ids = Int32Array::from_iter_values((1..).take(places.len()));
    let names = StringViewArray::from_iter_values(
        places.iter().map(|(row, column)| format!("{} {}", NAMES[*row as usize], column + 1)),
    );
    let columns: Vec<ArrayRef> = vec![
        Arc::new(ids),
        Arc::new(names),
        edges(&|_, column| west + f64::from(column) * ZONE_WIDTH_DEGREES),
        edges(&|_, column| west + f64::from(column + 1) * ZONE_WIDTH_DEGREES),
        edges(&|row, _| south + f64::from(row) * ZONE_HEIGHT_DEGREES),
        edges(&|row, _| south + f64::from(row + 1) * ZONE_HEIGHT_DEGREES),
    ];
    RecordBatch::try_new(Arc::new(schema), columns)
}

/// The schema of [`weather`].
pub fn schema() -> SchemaRef {
    let float = |name: &str| Field::new(name, DataType::Float32, false);
    Arc::new(Schema::new(vec![
        Field::new("zone_id", DataType::Int32, false),
        Field::new("hour", DataType::Timestamp(TimeUnit::Microsecond, None), false),
        float("temperature_c"),
        float("rain_mm"),
        float("wind_kmh"),
        Field::new("humidity_percent", DataType::Int16, false),
        Field::new("condition", DataType::Utf8View, false),
    ]))
}

/// One row an hour and zone, ordered by hour.
///
/// ```
/// use swingdb_generate::{WeatherOptions, weather};
/// let day = weather(&WeatherOptions { hours: 24, ..Default::default() }).unwrap();
/// assert_eq!(day.num_rows(), 24 * 24);
/// ```
pub fn weather(options: &WeatherOptions) -> Result<RecordBatch, ArrowError> {
    let zone_count = ZONE_COLUMNS * ZONE_ROWS;
    let rows: Vec<Report> = (0..options.hours)
        .flat_map(|hour| (0..zone_count).map(move |zone| report(options, hour, zone)))
        .collect();
    let ids = rows.iter().map(|row| row.zone as i32 + 1);
    let hours =
        rows.iter().map(|row| (options.start_unix_s + i64::from(row.hour) * 3600) * 1_000_000);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from_iter_values(ids)),
        Arc::new(TimestampMicrosecondArray::from_iter_values(hours)),
        Arc::new(Float32Array::from_iter_values(rows.iter().map(|row| row.temperature_c))),
        Arc::new(Float32Array::from_iter_values(rows.iter().map(|row| row.rain_mm))),
        Arc::new(Float32Array::from_iter_values(rows.iter().map(|row| row.wind_kmh))),
        Arc::new(Int16Array::from_iter_values(rows.iter().map(|row| row.humidity_percent))),
        Arc::new(StringViewArray::from_iter_values(rows.iter().map(Report::condition))),
    ];
    RecordBatch::try_new(schema(), columns)
}

struct Report {
    zone: u32,
    hour: u32,
    temperature_c: f32,
    rain_mm: f32,
    wind_kmh: f32,
    humidity_percent: i16,
}

impl Report {
    fn condition(&self) -> &'static str {
        match self {
            report if report.rain_mm >= 4.0 => "heavy rain",
            report if report.rain_mm > 0.0 => "rain",
            report if report.humidity_percent > 80 => "cloudy",
            report if report.wind_kmh > 30.0 => "windy",
            _ => "clear",
        }
    }
}

fn report(options: &WeatherOptions, hour: u32, zone: u32) -> Report {
    let clock = ((options.start_unix_s.rem_euclid(86_400) / 3600) as u32 + hour) % 24;
    let rain_mm = rain(options.seed, hour, zone);
    let air = hash(options.seed ^ STREAM_AIR, u64::from(hour) << 16 | u64::from(zone));
    let regional = hash(options.seed ^ STREAM_AIR, u64::from(hour / 6) << 32);
    // A parabola with its summit at 15 o'clock.
    let from_summit = (clock as f32 + 9.0) % 24.0 - 12.0;
    let sun = 1.0 - (12.0 - from_summit.abs()) / 12.0;
    let warmth = 6.0 * (sun * sun * 2.0 - 1.0);
    let temperature_c =
        21.0 + warmth + normal(air) * 0.6 + normal(regional) - rain_mm.min(6.0) * 0.5;
    let wind_kmh = (14.0 + normal(regional) * 8.0 + normal(air.rotate_left(17)) * 2.0).max(0.0);
    let humidity = 62.0 - warmth * 2.5 + rain_mm.min(8.0) * 4.0 + normal(air.rotate_left(31)) * 3.0;
    Report {
        zone,
        hour,
        temperature_c,
        rain_mm,
        wind_kmh,
        humidity_percent: humidity.clamp(20.0, 100.0) as i16,
    }
}

/// Spells of rain: each eight-hour span may have one, which passes over the city from the west.
fn rain(seed: u64, hour: u32, zone: u32) -> f32 {
    const SPAN_HOURS: u32 = 8;
    const CHANCE: f64 = 0.35;
    let spell = hash(seed ^ STREAM_RAIN, u64::from(hour / SPAN_HOURS));
    if unit(spell) >= CHANCE {
        return 0.0;
    }
    let bits = spell.rotate_left(29);
    let begin = (bits % 4) as f32;
    let length = 2.0 + (bits >> 8 & 3) as f32;
    let column = (zone % ZONE_COLUMNS) as f32;
    let since = (hour % SPAN_HOURS) as f32 - begin - column * 0.3;
    if since < 0.0 || since >= length {
        return 0.0;
    }
    let strength = 0.5 + 7.0 * unit(hash(spell, u64::from(zone) << 8 | u64::from(hour % 8))) as f32;
    (strength * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::super::city::{HALF_HEIGHT_M, HALF_WIDTH_M, Point};
    use super::*;
    use arrow::array::AsArray;
    use arrow::datatypes::{Float32Type, Float64Type};

    #[test]
    fn zones_cover_every_street() {
        let zones = zones().unwrap();
        let edge = |column: usize| zones.column(column).as_primitive::<Float64Type>();
        for (x, y) in [(-1.0, -1.0), (-1.0, 1.0), (1.0, -1.0), (1.0, 1.0), (0.0, 0.0)] {
            let (lon, lat) = Point { x: x * HALF_WIDTH_M, y: y * HALF_HEIGHT_M }.to_degrees();
            let inside = (0..zones.num_rows())
                .filter(|row| {
                    (edge(2).value(*row)..edge(3).value(*row)).contains(&lon)
                        && (edge(4).value(*row)..edge(5).value(*row)).contains(&lat)
                })
                .count();
            assert_eq!(inside, 1, "{lon} {lat}");
        }
    }

    #[test]
    fn weather_is_plausible() {
        let batch = weather(&WeatherOptions { hours: 24 * 60, ..Default::default() }).unwrap();
        assert_eq!(
            batch,
            weather(&WeatherOptions { hours: 24 * 60, ..Default::default() }).unwrap()
        );
        let temperature = batch.column(2).as_primitive::<Float32Type>().values();
        assert!(temperature.iter().all(|t| (5.0..38.0).contains(t)));
        let zone_count = (ZONE_COLUMNS * ZONE_ROWS) as usize;
        let at = |clock: usize| -> f32 {
            let hours = temperature.chunks(zone_count).skip(clock).step_by(24);
            hours.map(|zones| zones[0]).sum::<f32>() / 60.0
        };
        assert!(at(15) > at(4) + 5.0, "{} {}", at(15), at(4));
        let rain = batch.column(3).as_primitive::<Float32Type>().values();
        let wet = rain.iter().filter(|mm| **mm > 0.0).count() as f64 / rain.len() as f64;
        assert!((0.05..0.35).contains(&wet), "{wet}");
    }
}
