//! The clock of a time zone.

use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};
use swingdb_common::time::zones::Zone;

use super::points::beyond;

/// The clock by which the days of timestamps begin.
#[derive(Clone, Copy)]
pub(super) enum Clock {
    /// Of no time zone: always the same.
    Plain,
    In(Zone),
}

impl Clock {
    /// That of values of a type.
    pub(super) fn of(values: &DataType) -> Result<Self> {
        match values {
            DataType::Timestamp(_, Some(name)) => match Zone::of_arrow(name) {
                Some(zone) => Ok(Self::In(zone)),
                None => exec_err!("there is no time zone '{name}'"),
            },
            _ => Ok(Self::Plain),
        }
    }

    pub(super) fn is_zoned(self) -> bool {
        matches!(self, Self::In(_))
    }

    /// What the clock shows, in microseconds since 1970.
    pub(super) fn shows(self, micros: i64) -> Result<i64> {
        let Self::In(zone) = self else { return Ok(micros) };
        zone.shows(micros).ok_or_else(beyond)
    }

    /// When it shows that: the second time of two; after what it leaves out, where it does.
    pub(super) fn when_shows(self, shown: i64) -> Result<i64> {
        let Self::In(zone) = self else { return Ok(shown) };
        zone.when_shows(shown).ok_or_else(beyond)
    }

    /// The first time of two, which is no later than any time of what begins then.
    pub(super) fn first_shows(self, shown: i64) -> Result<i64> {
        let Self::In(zone) = self else { return Ok(shown) };
        zone.first_shows(shown).ok_or_else(beyond)
    }
}

#[cfg(test)]
mod tests {
    use super::super::points::SECOND;
    use super::*;

    const HOUR: i64 = 3_600 * SECOND;

    #[test]
    fn a_day_that_begins_at_one() {
        // Clocks went from 2018-11-03 24:00 to 01:00, and on 2019-02-17 back to the 16th, 23:00.
        let zone = Clock::In(Zone::named("America/Sao_Paulo").unwrap());
        let midnight = 1_541_289_600 * SECOND;
        let begins = zone.when_shows(midnight).unwrap();
        assert_eq!(begins, midnight + 3 * HOUR);
        assert_eq!(zone.shows(begins).unwrap(), midnight + HOUR);
        let twice = 1_550_358_000 * SECOND;
        assert_eq!(zone.first_shows(twice).unwrap(), twice + 2 * HOUR);
        assert_eq!(zone.when_shows(twice).unwrap(), twice + 3 * HOUR);
        assert_eq!(zone.shows(twice + 2 * HOUR).unwrap(), twice);
        assert_eq!(zone.shows(twice + 3 * HOUR).unwrap(), twice);
    }
}
