//! Units of time, under all names that DuckDB has for them.

use arrow::array::{Array, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::logical_expr::ColumnarValue;
use swingdb_common::time::intervals::{
    DAYS, HOURS, MICROSECONDS, MILLISECONDS, MINUTES, MONTHS, QUARTERS, SECONDS, WEEKS, YEARS,
};

use super::points::SECOND;
pub use swingdb_common::time::intervals::{CENTURIES, DECADES, MILLENNIA};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Years(i64),
    /// Of the weeks' numbers: a year begins with the week most of which lies in it.
    IsoYears,
    Months(i64),
    /// Of seven days.
    Weeks,
    /// By the clock.
    Days,
    /// So many microseconds, as they pass.
    Micros(i64),
}

pub(super) const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

const UNITS: &[(&[&str], Unit)] = &[
    (MILLENNIA, Unit::Years(1_000)),
    (CENTURIES, Unit::Years(100)),
    (DECADES, Unit::Years(10)),
    (YEARS, Unit::Years(1)),
    (&["isoyear"], Unit::IsoYears),
    (QUARTERS, Unit::Months(3)),
    (MONTHS, Unit::Months(1)),
    (WEEKS, Unit::Weeks),
    (&["weekofyear", "yearweek"], Unit::Weeks),
    (DAYS, Unit::Days),
    (PARTS_IN_DAYS, Unit::Days),
    (HOURS, Unit::Micros(HOUR)),
    (MINUTES, Unit::Micros(MINUTE)),
    (SECONDS, Unit::Micros(SECOND)),
    (&["epoch"], Unit::Micros(SECOND)),
    (MILLISECONDS, Unit::Micros(1_000)),
    (MICROSECONDS, Unit::Micros(1)),
];

/// Parts of dates that change with the day.
const PARTS_IN_DAYS: &[&str] =
    &["dayofmonth", "julian", "dayofweek", "weekday", "dow", "isodow", "dayofyear", "doy"];
impl Unit {
    fn named(name: &str) -> Result<Self> {
        let found = UNITS
            .iter()
            .find(|(names, _)| names.iter().any(|known| known.eq_ignore_ascii_case(name)));
        found.map(|(_, unit)| *unit).ok_or_else(|| {
            let names: Vec<&str> = UNITS.iter().map(|(names, _)| names[0]).collect();
            exec_datafusion_err!("'{name}' is no unit of time; units are {}", names.join(", "))
        })
    }
}

/// The unit of each row, by its name.
pub(super) enum Units {
    /// One for all.
    One(Option<Unit>),
    Each(StringArray),
}

impl Units {
    pub(super) fn of(names: &ColumnarValue) -> Result<Self> {
        let text = |names| cast(names, &DataType::Utf8);
        Ok(match names {
            ColumnarValue::Scalar(name) => {
                let name = text(&name.to_array()?)?;
                let name = name.as_string::<i32>().iter().next().flatten();
                Self::One(name.map(Unit::named).transpose()?)
            }
            ColumnarValue::Array(names) => Self::Each(text(names)?.as_string().clone()),
        })
    }

    /// For each row in turn: its unit; none, where the name is NULL.
    pub(super) fn by_row(&self) -> impl FnMut(usize) -> Result<Option<Unit>> {
        let mut last: Option<(&str, Unit)> = None;
        move |row| {
            let names = match self {
                Self::One(unit) => return Ok(*unit),
                Self::Each(names) => names,
            };
            if names.is_null(row) {
                return Ok(None);
            }
            let name = names.value(row);
            let unit = match last {
                Some((known, unit)) if known == name => unit,
                _ => Unit::named(name)?,
            };
            last = Some((name, unit));
            Ok(Some(unit))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_have_all_their_names_once() {
        let names: Vec<&str> = UNITS.iter().flat_map(|(names, _)| names.iter().copied()).collect();
        for name in &names {
            assert_eq!(names.iter().filter(|other| other == &name).count(), 1, "{name}");
        }
        assert_eq!(Unit::named("Weeks").unwrap(), Unit::Weeks);
        assert!(Unit::named("fortnight").unwrap_err().to_string().contains("units are millennium"));
    }
}
