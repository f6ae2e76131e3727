//! `date_diff('day', a, b)`: how many boundaries of a unit lie between two points in time, and
//! `date_sub('day', a, b)`: how many whole units. The unit may be another in each row.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, Int64Builder};
use arrow::datatypes::DataType;
use chrono::{Datelike, NaiveDateTime};
use datafusion::common::{Result, exec_datafusion_err, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::age::whole_months;
use super::points::{DAY, by_their_clock, is_moment, is_time, micros, moment, months};
use super::units::{Unit, Units};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Boundaries,
    WholeUnits,
}

/// Both functions, and their other names.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    let of = [
        ("date_diff", ["datediff"], Kind::Boundaries),
        ("date_sub", ["datesub"], Kind::WholeUnits),
    ];
    of.into_iter().map(|(name, aliases, kind)| {
        let signature = Signature::any(3, Volatility::Immutable);
        let aliases = aliases.map(String::from).to_vec();
        ScalarUDF::new_from_impl(Span { name, aliases, kind, signature })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Span {
    name: &'static str,
    aliases: Vec<String>,
    kind: Kind,
    signature: Signature,
}

impl ScalarUDFImpl for Span {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let is_point = |given: &DataType| {
            given.is_null() || given.is_string() || is_moment(given) || is_time(given)
        };
        match types {
            [unit, earlier, later] if unit.is_string() || unit.is_null() => {
                let mixed =
                    is_time(earlier) && is_moment(later) || is_moment(earlier) && is_time(later);
                if is_point(earlier) && is_point(later) && !mixed {
                    return Ok(DataType::Int64);
                }
                plan_err!("{} takes a unit and two dates, timestamps or times", self.name)
            }
            _ => plan_err!("{} takes a unit and two points in time", self.name),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let [unit, earlier, later] = args.args.as_slice() else {
            return exec_err!("{} takes a unit and two points in time", self.name);
        };
        let points = [Points::of(earlier, rows)?, Points::of(later, rows)?];
        let found = self.between(&Units::of(unit)?, &points, rows)?;
        crate::args::as_given(&args, Arc::new(found) as ArrayRef)
    }
}

struct Points {
    /// Microseconds since 1970, or since midnight.
    passed: Int64Array,
    /// By the clock of their time zone.
    local: Int64Array,
    are_times: bool,
}

impl Points {
    fn of(values: &ColumnarValue, rows: usize) -> Result<Self> {
        let values = values.to_array(rows)?;
        let are_times = is_time(values.data_type());
        let passed = micros(&values)?;
        let local = match by_their_clock(&values)? {
            Some(local) => micros(&local)?,
            None => passed.clone(),
        };
        Ok(Self { passed, local, are_times })
    }
}

impl Span {
    fn between(
        &self,
        units: &Units,
        [earlier, later]: &[Points; 2],
        rows: usize,
    ) -> Result<Int64Array> {
        let of_times = earlier.are_times || later.are_times;
        let mut unit = units.by_row();
        let mut found = Int64Builder::with_capacity(rows);
        for row in 0..rows {
            if earlier.passed.is_null(row) || later.passed.is_null(row) {
                found.append_null();
                continue;
            }
            let Some(unit) = unit(row)? else {
                found.append_null();
                continue;
            };
            if of_times && !matches!(unit, Unit::Micros(_)) {
                return exec_err!("{}: a TIME has only hours and parts of them", self.name);
            }
            let (from, to) = match unit {
                Unit::Micros(_) => (&earlier.passed, &later.passed),
                _ => (&earlier.local, &later.local),
            };
            found.append_value(match self.kind {
                Kind::Boundaries => boundaries(unit, from.value(row), to.value(row))?,
                Kind::WholeUnits => whole_units(unit, from.value(row), to.value(row))?,
            });
        }
        Ok(found.finish())
    }
}

fn boundaries(unit: Unit, from: i64, to: i64) -> Result<i64> {
    let passed = |length: i64| to.div_euclid(length) - from.div_euclid(length);
    let counted = |count: fn(NaiveDateTime) -> i64, length: i64| -> Result<i64> {
        Ok(count(moment(to)?) / length - count(moment(from)?) / length)
    };
    match unit {
        Unit::Years(length) => counted(|time| i64::from(time.year()), length),
        Unit::IsoYears => counted(|time| i64::from(time.iso_week().year()), 1),
        Unit::Months(length) => counted(months, length),
        Unit::Weeks => Ok(passed(DAY) / 7),
        Unit::Days => Ok(passed(DAY)),
        Unit::Micros(1) => elapsed(from, to),
        Unit::Micros(length) => Ok(passed(length)),
    }
}

fn whole_units(unit: Unit, from: i64, to: i64) -> Result<i64> {
    let months = || -> Result<i64> { Ok(whole_months(moment(to)?, moment(from)?)) };
    Ok(match unit {
        Unit::Years(length) => months()? / (12 * length),
        Unit::IsoYears => months()? / 12,
        Unit::Months(length) => months()? / length,
        Unit::Weeks => elapsed(from, to)? / (7 * DAY),
        Unit::Days => elapsed(from, to)? / DAY,
        Unit::Micros(length) => elapsed(from, to)? / length,
    })
}

fn elapsed(from: i64, to: i64) -> Result<i64> {
    to.checked_sub(from).ok_or_else(|| exec_datafusion_err!("a span of time is out of range"))
}

#[cfg(test)]
mod tests {
    use super::super::points::SECOND;
    use super::*;

    #[test]
    fn boundaries_before_1970() {
        assert_eq!(boundaries(Unit::Micros(SECOND), -1, 0).unwrap(), 1);
        assert_eq!(whole_units(Unit::Micros(SECOND), -1, 0).unwrap(), 0);
        assert_eq!(boundaries(Unit::Days, -DAY - 1, -1).unwrap(), 1);
        assert_eq!(boundaries(Unit::Months(3), -1, 0).unwrap(), 1);
    }

    #[test]
    fn spans_that_do_not_fit_are_errors() {
        assert!(boundaries(Unit::Micros(1), i64::MIN, i64::MAX).is_err());
        assert!(whole_units(Unit::Days, i64::MIN, i64::MAX).is_err());
        assert!(boundaries(Unit::Years(1), i64::MIN, 0).is_err());
        let millis = boundaries(Unit::Micros(1_000), i64::MIN, i64::MAX);
        assert_eq!(millis.unwrap(), 18_446_744_073_709_551);
    }
}
