//! `range(a, b, INTERVAL '1 day')` and `generate_series(a, b, INTERVAL '1 day')`.
//!
//! Of points in time each value is the one before it and the interval, by the clock of the zone
//! that the type names. Dates go by days. Whole numbers go to the engine's functions. Those would
//! end a series of points in time, without an error, where the clock leaves a time out, and have
//! nanoseconds, so no years after 2262. Of dates `range` would leave out the last value where no
//! value is the end (DataFusion 55.2).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Date32Array, Int64Array, ListArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Field, FieldRef, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
    IntervalUnit, TimeUnit,
};
use datafusion::common::{Result, exec_err};
use datafusion::functions_nested::range::{gen_series_udf, range_udf};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use swingdb_common::time::zones::Zone;

use super::points::beyond;
use super::zones::moved;

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    [(range_udf(), false), (gen_series_udf(), true)].into_iter().map(|(engines, has_end)| {
        let signature = Signature::user_defined(Volatility::Immutable);
        ScalarUDF::new_from_impl(Series { engines, has_end, signature })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Series {
    /// The function of the same name that makes whole numbers and dates.
    engines: Arc<ScalarUDF>,
    /// Whether the end is one of the values.
    has_end: bool,
    signature: Signature,
}

impl ScalarUDFImpl for Series {
    fn name(&self) -> &str {
        self.engines.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [point @ DataType::Timestamp(..), _, _] => Ok(DataType::List(item(point))),
            _ => self.engines.return_type(types),
        }
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if let Some(point) = point_type(types) {
            return Ok(vec![point.clone(), point, INTERVAL]);
        }
        let fields = types.iter().map(|given| Arc::new(Field::new("", given.clone(), true)));
        let fields = fields.collect::<Vec<FieldRef>>();
        let fields = fields_with_udf(&fields, self.engines.as_ref())?;
        Ok(fields.iter().map(|field| field.data_type().clone()).collect())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [from, to, by] = args.args.as_slice() else {
            return self.engines.invoke_with_args(args);
        };
        let (unit, zone, has_dates) = match from.data_type() {
            DataType::Timestamp(unit, zone) => (unit, zone, false),
            DataType::Date32 | DataType::Date64 => (TimeUnit::Second, None, true),
            _ => return self.engines.invoke_with_args(args),
        };
        let zone = zone.as_deref().and_then(Zone::of_arrow).unwrap_or_default();
        let rows = crate::args::rows_of(&args);
        let (from, to) = match has_dates {
            false => (numbers(&from.to_array(rows)?)?, numbers(&to.to_array(rows)?)?),
            true => (seconds(from, rows)?, seconds(to, rows)?),
        };
        let by = cast(&by.to_array(rows)?, &INTERVAL)?;
        let between = Between { from, to, by, has_end: self.has_end, has_dates };
        let found = between.series(unit, zone, &args)?;
        crate::args::as_given(&args, Arc::new(found))
    }
}

/// The field of the elements.
fn item(of: &DataType) -> FieldRef {
    Arc::new(Field::new_list_field(of.clone(), true))
}

/// The type of the values if the arguments are points in time and an interval.
fn point_type(types: &[DataType]) -> Option<DataType> {
    let [from, to, by] = types else { return None };
    let is_step = matches!(by, DataType::Interval(_) | DataType::Duration(_));
    if !(is_step || by.is_string() || by.is_null()) {
        return None;
    }
    let mut found: Option<(TimeUnit, Option<Arc<str>>)> = None;
    for given in [from, to] {
        match given {
            DataType::Timestamp(unit, zone) => {
                let (finest, known) = found.unwrap_or((*unit, None));
                found = Some((finest.max(*unit), known.or_else(|| zone.clone())));
            }
            DataType::Date32 | DataType::Date64 | DataType::Null => {}
            text if text.is_string() => {}
            _ => return None,
        }
    }
    found.map(|(unit, zone)| DataType::Timestamp(unit, zone))
}

fn numbers(given: &ArrayRef) -> Result<Int64Array> {
    Ok(cast(given, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
}

/// Dates as points in time.
fn seconds(given: &ColumnarValue, rows: usize) -> Result<Int64Array> {
    numbers(&cast(&given.to_array(rows)?, &DataType::Timestamp(TimeUnit::Second, None))?)
}

/// The bounds and steps of the rows.
struct Between {
    from: Int64Array,
    to: Int64Array,
    by: ArrayRef,
    has_end: bool,
    /// The values are dates, and the bounds are seconds.
    has_dates: bool,
}

const DAY_SECONDS: i64 = 24 * 60 * 60;

impl Between {
    fn series(&self, unit: TimeUnit, zone: Zone, args: &ScalarFunctionArgs) -> Result<ListArray> {
        let rows = self.from.len();
        let by = self.by.as_primitive::<IntervalMonthDayNanoType>();
        let (mut values, mut lengths) = (Vec::new(), Vec::with_capacity(rows));
        let mut valid = Vec::with_capacity(rows);
        for row in 0..rows {
            let before = values.len();
            let known = self.from.is_valid(row) && self.to.is_valid(row) && by.is_valid(row);
            if known {
                let bounds = (self.from.value(row), self.to.value(row));
                self.one(bounds, by.value(row), unit, zone, &mut values)?;
            }
            lengths.push(values.len() - before);
            valid.push(known);
        }
        let point = match args.return_type() {
            DataType::List(field) => field.data_type().clone(),
            other => return exec_err!("a series of points in time is no {other}"),
        };
        let values = match self.has_dates {
            false => cast(&Int64Array::from(values), &point)?,
            // Whole days of what a date can say.
            true => {
                let days = values.into_iter().map(|seconds| seconds.div_euclid(DAY_SECONDS));
                let days = days.map(|days| i32::try_from(days).map_err(|_| beyond()));
                cast(&Date32Array::from(days.collect::<Result<Vec<i32>>>()?), &point)?
            }
        };
        let offsets = OffsetBuffer::from_lengths(lengths);
        Ok(ListArray::try_new(item(&point), offsets, values, Some(NullBuffer::from(valid)))?)
    }

    /// Adds the values from one point in time to another.
    fn one(
        &self,
        (from, to): (i64, i64),
        by: IntervalMonthDayNano,
        unit: TimeUnit,
        zone: Zone,
        values: &mut Vec<i64>,
    ) -> Result<()> {
        let signs = [i64::from(by.months), i64::from(by.days), by.nanoseconds].map(i64::signum);
        let is_back = match (signs.contains(&1), signs.contains(&-1)) {
            (true, false) => false,
            (false, true) => true,
            (false, false) => return exec_err!("{}: the interval is 0", self.name()),
            (true, true) => {
                return exec_err!("{}: the interval goes forward and back", self.name());
            }
        };
        if self.has_dates && by.nanoseconds != 0 {
            return exec_err!(
                "{}: the interval between dates is of whole days; cast the first to TIMESTAMP",
                self.name()
            );
        }
        let mut at = from;
        while at != to && (at < to) != is_back || at == to && self.has_end {
            values.push(at);
            let next = moved(at, unit, by, zone).ok_or_else(beyond)?;
            if next == at || (next < at) != is_back {
                return exec_err!("{}: the interval is shorter than a unit", self.name());
            }
            at = next;
        }
        Ok(())
    }

    fn name(&self) -> &'static str {
        if self.has_end { "generate_series" } else { "range" }
    }
}

#[cfg(test)]
mod tests {
    use swingdb_common::time::texts::{Kind, read_stamp, zoned_text};

    use super::*;

    const SECOND: i64 = 1_000_000;

    fn series(bounds: [&str; 2], by: IntervalMonthDayNano, has_end: bool) -> Vec<String> {
        let zone = Zone::named("America/New_York").unwrap();
        let unit = TimeUnit::Microsecond;
        let [from, to] =
            bounds.map(|text| read_stamp(text, Kind::Moment).unwrap().instant(unit, zone).unwrap());
        let none = Int64Array::from(Vec::<i64>::new());
        let (by_none, has_dates): (ArrayRef, _) = (Arc::new(none.clone()), false);
        let between = Between { from: none.clone(), to: none, by: by_none, has_end, has_dates };
        let mut values = Vec::new();
        between.one((from, to), by, unit, zone, &mut values).unwrap();
        let text = |value: &i64| {
            let mut text = Vec::new();
            zoned_text(*value, SECOND, zone, &mut text);
            String::from_utf8(text).unwrap()
        };
        values.iter().map(text).collect()
    }

    #[test]
    fn days_of_the_clock_go_on_behind_a_time_that_it_leaves_out() {
        let day = IntervalMonthDayNano::new(0, 1, 0);
        assert_eq!(
            series(["2024-03-08 02:30", "2024-03-12 00:00"], day, false),
            [
                "2024-03-08 02:30:00-05",
                "2024-03-09 02:30:00-05",
                "2024-03-10 03:30:00-04",
                "2024-03-11 03:30:00-04"
            ]
        );
        let back = IntervalMonthDayNano::new(0, -1, 0);
        assert_eq!(
            series(["2024-11-04 12:00", "2024-11-02 12:00"], back, true),
            ["2024-11-04 12:00:00-05", "2024-11-03 12:00:00-05", "2024-11-02 12:00:00-04"]
        );
        assert!(series(["2024-11-04 12:00", "2024-11-04 12:00"], day, false).is_empty());
        assert_eq!(series(["2024-11-04 12:00", "2024-11-04 12:00"], back, true).len(), 1);
        assert!(series(["2024-11-04 12:00", "2024-11-02 12:00"], day, true).is_empty());
    }
}
