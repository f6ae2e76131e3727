//! The clocks of time zones: what they show at a point in time, and when they show that.
//!
//! A TIMESTAMPTZ is a point in time. The zone of the session says what its clock shows then: in
//! text, in parts of dates, in sums with days and months. Points in time are microseconds since
//! 1970 in UTC; what a clock shows is the same number as if the clock were that of UTC.
//!
//! Rules of zones end with the year 2099 in the library's tables. Later years follow the rules of a
//! year of 2072 to 2099 that has the same days of the week.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use chrono::{DateTime, Offset, TimeZone};
use datafusion::config::ConfigOptions;

use crate::time::calendar::{civil_from_days, days_from_civil};

const SECOND: i64 = 1_000_000;
const DAY_S: i64 = 86_400;

/// The first year that the tables do not have, and one that is old enough for all of them.
const YEARS_END: i64 = 2_100;
const OLDEST_S: i64 = -300_000_000_000;

/// A time zone. The default is UTC.
#[derive(Clone, Copy, Default)]
pub struct Zone {
    /// `None`: UTC, whose clock shows the point in time itself.
    zone: Option<Tz>,
}

impl Zone {
    /// Universal time.
    pub const UTC: Self = Self { zone: None };

    /// The zone of a name, without regard to capitals where possible; offsets are no names.
    pub fn named(name: &str) -> Option<Self> {
        let name = name.trim();
        if name.is_empty() || name.starts_with(['+', '-']) {
            return None;
        }
        let spellings = [name.to_string(), name.to_ascii_uppercase(), in_capitals(name)];
        spellings.iter().find_map(|name| Self::of_arrow(name))
    }

    /// The zone that Arrow's types name: by its exact name, or its offset.
    pub fn of_arrow(name: &str) -> Option<Self> {
        let zone: Tz = name.parse().ok()?;
        let is_utc = matches!(
            name,
            "UTC" | "Etc/UTC" | "Etc/UCT" | "UCT" | "Zulu" | "Etc/Zulu" | "Universal"
        );
        let is_utc = is_utc || matches!(name, "+00:00" | "+00" | "+0000" | "-00:00");
        Some(Self { zone: (!is_utc).then_some(zone) })
    }

    /// The zone of a session.
    pub fn of(config: &ConfigOptions) -> Self {
        let name = config.execution.time_zone.as_deref();
        name.and_then(Self::of_arrow).unwrap_or_default()
    }

    /// Whether the clock shows universal time.
    pub fn is_utc(self) -> bool {
        self.zone.is_none()
    }

    /// Whether the engine takes values of a type for what the zone makes of them.
    pub fn is_of(self, data_type: &DataType) -> bool {
        let of_type = match data_type {
            DataType::Timestamp(_, Some(name)) => Self::of_arrow(name),
            _ => return true,
        };
        self.is_utc() && of_type.is_some_and(Self::is_utc)
    }

    /// How far the clock is ahead of UTC at a point in time, both in seconds.
    pub fn offset_s(self, seconds: i64) -> i64 {
        let Some(zone) = self.zone else { return 0 };
        let known = within_tables(seconds).max(OLDEST_S);
        match DateTime::from_timestamp(known, 0) {
            Some(at) => {
                let offset = zone.offset_from_utc_datetime(&at.naive_utc());
                i64::from(offset.fix().local_minus_utc())
            }
            None => 0,
        }
    }

    /// What the clock shows at a point in time.
    pub fn shows(self, micros: i64) -> Option<i64> {
        micros.checked_add(self.offset_s(micros.div_euclid(SECOND)) * SECOND)
    }

    /// When the clock shows that: the last time of two, as clocks are put back; as much later as
    /// the clock is put forward, where it never shows that.
    pub fn when_shows(self, shown: i64) -> Option<i64> {
        let Candidates { before, after } = self.candidates(shown)?;
        Some(match (before, after) {
            (Some(first), Some(second)) => first.max(second),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => self.behind_gap(shown)?,
        })
    }

    /// The first time of two, else as [`when_shows`](Self::when_shows).
    pub fn first_shows(self, shown: i64) -> Option<i64> {
        let Candidates { before, after } = self.candidates(shown)?;
        match (before, after) {
            (Some(first), Some(second)) => Some(first.min(second)),
            _ => self.when_shows(shown),
        }
    }

    /// The time of two at which the clock is as far ahead as at another point in time, else as
    /// [`when_shows`](Self::when_shows).
    pub fn shows_as_at(self, shown: i64, micros: i64) -> Option<i64> {
        let offset = self.offset_s(micros.div_euclid(SECOND));
        match self.at_offset(shown, offset)? {
            Some(found) => Some(found),
            None => self.when_shows(shown),
        }
    }

    /// The point in time if the clock is so far ahead then.
    fn at_offset(self, shown: i64, offset_s: i64) -> Option<Option<i64>> {
        let micros = shown.checked_sub(offset_s * SECOND)?;
        Some((self.offset_s(micros.div_euclid(SECOND)) == offset_s).then_some(micros))
    }

    fn candidates(self, shown: i64) -> Option<Candidates> {
        let seconds = shown.div_euclid(SECOND);
        // No clock is a day ahead or behind, and none is put twice within two days.
        let (early, late) = (self.offset_s(seconds - DAY_S), self.offset_s(seconds + DAY_S));
        let before = self.at_offset(shown, early)?;
        let after = if late == early { before } else { self.at_offset(shown, late)? };
        Some(Candidates { before, after })
    }

    fn behind_gap(self, shown: i64) -> Option<i64> {
        let early = self.offset_s(shown.div_euclid(SECOND) - DAY_S);
        shown.checked_sub(early * SECOND)
    }
}

/// When a clock shows something, by its offsets before and after.
struct Candidates {
    before: Option<i64>,
    after: Option<i64>,
}

/// The same point in a year that the tables have.
fn within_tables(seconds: i64) -> i64 {
    let (year, ..) = civil_from_days(seconds.div_euclid(DAY_S));
    if year < YEARS_END {
        return seconds;
    }
    let first_day = |year: i64| {
        let year = i32::try_from(year).ok()?;
        days_from_civil(year, 1, 1).map(i64::from)
    };
    let of_year = |year: i64| Some((first_day(year)?, first_day(year + 1)?));
    let Some((begin, end)) = of_year(year) else { return seconds };
    // Any 28 years in which every fourth is a leap year have all kinds of years.
    let alike = (YEARS_END - 28..YEARS_END).filter_map(of_year);
    let mut alike =
        alike.filter(|(first, next)| next - first == end - begin && (begin - first) % 7 == 0);
    alike.next().map_or(seconds, |(first, _)| seconds - (begin - first) * DAY_S)
}

/// `Europe/Berlin` of `europe/berlin`: names of zones begin words with capitals.
fn in_capitals(name: &str) -> String {
    let mut begins = true;
    let letters = name.chars().map(|letter| {
        let new = if begins { letter.to_ascii_uppercase() } else { letter.to_ascii_lowercase() };
        begins = matches!(letter, '/' | '_' | '-' | '+');
        new
    });
    letters.collect()
}

/// The type with the zone in place of the zones that it names.
pub fn in_zone(data_type: &DataType, zone: Zone) -> DataType {
    use DataType as D;
    let field = |field: &FieldRef| -> FieldRef {
        let new = in_zone(field.data_type(), zone);
        match new == *field.data_type() {
            true => Arc::clone(field),
            false => Arc::new(field.as_ref().clone().with_data_type(new)),
        }
    };
    match data_type {
        D::Timestamp(unit, Some(_)) => D::Timestamp(*unit, Some(zone.to_string().into())),
        D::List(item) => D::List(field(item)),
        D::LargeList(item) => D::LargeList(field(item)),
        D::FixedSizeList(item, length) => D::FixedSizeList(field(item), *length),
        D::Struct(fields) => D::Struct(fields.iter().map(field).collect()),
        D::Map(entries, sorted) => D::Map(field(entries), *sorted),
        other => other.clone(),
    }
}

/// The same points in time as of a type that [names the zone](in_zone).
pub fn shown_in(array: &ArrayRef, zone: Zone) -> Result<ArrayRef, ArrowError> {
    let named = in_zone(array.data_type(), zone);
    match named == *array.data_type() {
        true => Ok(Arc::clone(array)),
        false => cast(array, &named),
    }
}

/// The schema with the zone in place of the zones that its types name.
pub fn schema_in_zone(schema: &Schema, zone: Zone) -> Schema {
    let field = |field: &FieldRef| {
        let data_type = in_zone(field.data_type(), zone);
        field.as_ref().clone().with_data_type(data_type)
    };
    let fields = schema.fields().iter().map(field).collect::<Vec<_>>();
    Schema::new_with_metadata(fields, schema.metadata().clone())
}

/// The same rows with the types of a schema, which differ in the names of zones at most.
pub fn rezoned(batch: &RecordBatch, schema: &SchemaRef) -> crate::error::Result<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields()).map(|(array, field)| {
        match array.data_type() == field.data_type() {
            true => Ok(Arc::clone(array)),
            false => cast(array, field.data_type()),
        }
    });
    let columns = columns.collect::<Result<Vec<_>, ArrowError>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.zone {
            Some(zone) => zone.fmt(f),
            None => f.write_str("UTC"),
        }
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Zone({self})")
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        match (self.zone, other.zone) {
            (None, None) => true,
            (Some(_), Some(_)) => self.to_string() == other.to_string(),
            _ => false,
        }
    }
}

impl Eq for Zone {}

impl Hash for Zone {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.to_string().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::texts::{Kind, read_stamp, stamp_text};

    fn micros(text: &str) -> i64 {
        let stamp = read_stamp(text, Kind::Moment).unwrap();
        stamp.days * DAY_S * SECOND + stamp.nanos / 1_000
    }

    fn text(micros: i64) -> String {
        let mut text = Vec::new();
        stamp_text(micros, SECOND, &mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn names_of_zones() {
        for (name, known) in [
            ("Europe/Berlin", Some("Europe/Berlin")),
            ("america/new_york", Some("America/New_York")),
            ("utc", Some("UTC")),
            ("est", Some("EST")),
            ("Etc/GMT-3", Some("Etc/GMT-3")),
            ("etc/gmt-3", None),
            ("+02:00", None),
            ("Nowhere/City", None),
            ("", None),
        ] {
            let found = Zone::named(name).map(|zone| zone.to_string());
            // The last word of a name in capitals only is not known in other letters.
            assert_eq!(found.as_deref(), known, "{name}");
        }
        assert!(Zone::of_arrow("+02:00").is_some_and(|zone| !zone.is_utc()));
        assert!(Zone::of_arrow("+00:00").is_some_and(Zone::is_utc));
    }

    #[test]
    fn clocks_that_are_put_forward_and_back() {
        let berlin = Zone::named("Europe/Berlin").unwrap();
        for (shown, when) in [
            ("2024-03-31 01:59:59", "2024-03-31 00:59:59"),
            ("2024-03-31 02:30:00", "2024-03-31 01:30:00"),
            ("2024-03-31 03:30:00", "2024-03-31 01:30:00"),
            ("2024-10-27 02:30:00", "2024-10-27 01:30:00"),
            ("2024-10-27 03:30:00", "2024-10-27 02:30:00"),
        ] {
            assert_eq!(text(berlin.when_shows(micros(shown)).unwrap()), when, "{shown}");
        }
        let twice = micros("2024-10-27 02:30:00");
        assert_eq!(text(berlin.first_shows(twice).unwrap()), "2024-10-27 00:30:00");
        let summer = berlin.shows_as_at(twice, micros("2024-07-01 00:00:00"));
        assert_eq!(text(summer.unwrap()), "2024-10-27 00:30:00");
        assert_eq!(
            text(berlin.shows(micros("1800-01-01 00:00:00")).unwrap()),
            "1800-01-01 00:53:28"
        );
        let apia = Zone::named("Pacific/Apia").unwrap();
        let skipped = apia.when_shows(micros("2011-12-30 12:00:00")).unwrap();
        assert_eq!(text(skipped), "2011-12-30 22:00:00");
    }

    #[test]
    fn rules_go_on_in_far_years() {
        let new_york = Zone::named("America/New_York").unwrap();
        let far = |year: i32, month, day| {
            i64::from(days_from_civil(year, month, day).unwrap()) * DAY_S + 12 * 3_600
        };
        for year in [2_050, 2_099, 2_100, 2_101, 2_400, 9_999, 200_000] {
            assert_eq!(new_york.offset_s(far(year, 7, 1)), -4 * 3_600, "{year}");
            assert_eq!(new_york.offset_s(far(year, 1, 15)), -5 * 3_600, "{year}");
        }
        // The second Sunday of March 2100 is the 14th.
        assert_eq!(new_york.offset_s(far(2_100, 3, 13)), -5 * 3_600);
        assert_eq!(new_york.offset_s(far(2_100, 3, 14)), -4 * 3_600);
        assert_eq!(Zone::UTC.shows(i64::MAX), Some(i64::MAX));
        assert_eq!(new_york.shows(i64::MIN), None);
    }

    #[test]
    fn what_is_shown_is_shown_then() {
        let mut random = fastrand::Rng::with_seed(11);
        for name in ["Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Asia/Kathmandu"] {
            let zone = Zone::named(name).unwrap();
            for _ in 0..5_000 {
                let at = random.i64(-4_000_000_000..8_000_000_000) * SECOND;
                let shown = zone.shows(at).unwrap();
                let [first, last] =
                    [zone.first_shows(shown).unwrap(), zone.when_shows(shown).unwrap()];
                assert!(first == at || last == at, "{name} {at}");
                assert_eq!(zone.shows_as_at(shown, at), Some(at), "{name} {at}");
            }
        }
    }
}
