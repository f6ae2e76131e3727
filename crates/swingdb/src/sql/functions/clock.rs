//! The clock of a time zone.

use arrow::array::timezone::Tz;
use arrow::datatypes::DataType;
use chrono::{MappedLocalTime, Offset, TimeDelta, TimeZone};
use datafusion::common::Result;

use super::points::{SECOND, beyond, moment};

/// The clock by which the days of timestamps begin.
#[derive(Clone, Copy)]
pub(super) enum Clock {
    /// Of no time zone: always the same.
    Plain,
    In(Tz),
}

impl Clock {
    /// That of values of a type.
    pub(super) fn of(values: &DataType) -> Result<Self> {
        match values {
            DataType::Timestamp(_, Some(zone)) => Ok(Self::In(zone.parse()?)),
            _ => Ok(Self::Plain),
        }
    }

    /// What the clock shows, in microseconds since 1970.
    pub(super) fn shows(self, micros: i64) -> Result<i64> {
        let Self::In(zone) = self else { return Ok(micros) };
        let offset = zone.offset_from_utc_datetime(&moment(micros)?).fix().local_minus_utc();
        micros.checked_add(i64::from(offset) * SECOND).ok_or_else(beyond)
    }

    /// When it shows that: the first time of two; after what it leaves out, where it does.
    pub(super) fn when_shows(self, shown: i64) -> Result<i64> {
        // No clock is put forward by more.
        const MOST: TimeDelta = TimeDelta::hours(3);
        let Self::In(zone) = self else { return Ok(shown) };
        let shown = moment(shown)?;
        let found = match zone.from_local_datetime(&shown) {
            MappedLocalTime::None => {
                let before = shown.checked_sub_signed(MOST);
                let before = before.and_then(|time| zone.from_local_datetime(&time).earliest());
                before.and_then(|time| time.checked_add_signed(MOST))
            }
            found => found.earliest(),
        };
        found.map(|time| time.timestamp_micros()).ok_or_else(beyond)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600 * SECOND;

    #[test]
    fn a_day_that_begins_at_one() {
        // Clocks went from 2018-11-03 24:00 to 01:00, and on 2019-02-17 back to the 16th, 23:00.
        let zone = Clock::In("America/Sao_Paulo".parse().unwrap());
        let midnight = 1_541_289_600 * SECOND;
        let begins = zone.when_shows(midnight).unwrap();
        assert_eq!(begins, midnight + 3 * HOUR);
        assert_eq!(zone.shows(begins).unwrap(), midnight + HOUR);
        let twice = 1_550_358_000 * SECOND;
        assert_eq!(zone.when_shows(twice).unwrap(), twice + 2 * HOUR);
        assert_eq!(zone.shows(twice + 2 * HOUR).unwrap(), twice);
        assert_eq!(zone.shows(twice + 3 * HOUR).unwrap(), twice);
    }
}
