//! Dates, times and timestamps as text, both ways, as DuckDB has them.
//!
//! ```text
//! 2024-03-05   0045-03-15 (BC)   12024-03-05
//! 06:07:08.25
//! 2024-03-05 06:07:08.25   0045-03-15 (BC) 06:07:08
//! 2024-03-05 06:07:08+01   2024-03-05 06:07:08-03:30
//! ```
//!
//! Read are also `2024/3/5`, `2024-03-05T06:07`, `-0044-03-15`, `epoch`, and behind a time a zone:
//! `Z`, `+01`, `+0130`, `+01:30:15`, `Europe/Berlin`. A zone is checked where it does not matter,
//! as in the text of a TIMESTAMP. Digits behind the ninth of a fraction are left out.

use arrow::array::{Array, AsArray, StringArray};
use arrow::datatypes::{
    DataType, Date32Type, Date64Type, Time32MillisecondType, Time32SecondType,
    Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};

use crate::time::calendar::{civil_from_days, days_from_civil};
use crate::time::zones::Zone;

const SECOND_NS: i64 = 1_000_000_000;
const DAY_S: i64 = 86_400;
const DAY_NS: i64 = DAY_S * SECOND_NS;
/// Zones are at most so far ahead or behind.
const MOST_OFFSET_H: i64 = 23;

/// How many of the unit are a second.
pub fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => SECOND_NS,
    }
}

// ---- writing ------------------------------------------------------------------------------------

/// At least `width` digits.
fn padded(value: u64, width: usize, out: &mut Vec<u8>) {
    let mut buffer = [b'0'; 20];
    let (mut at, mut rest) = (buffer.len(), value);
    while rest > 0 {
        at -= 1;
        buffer[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    out.extend_from_slice(&buffer[at.min(buffer.len() - width)..]);
}

/// A date, of its days since 1970.
pub fn date_text(days: i64, out: &mut Vec<u8>) {
    let (year, month, day) = civil_from_days(days);
    // There is no year 0.
    let counted = if year > 0 { year } else { 1 - year };
    padded(counted.unsigned_abs(), 4, out);
    out.push(b'-');
    padded(month.into(), 2, out);
    out.push(b'-');
    padded(day.into(), 2, out);
    if year <= 0 {
        out.extend_from_slice(b" (BC)");
    }
}

/// A time of day, in parts of a second.
pub fn time_text(value: i64, per_second: i64, out: &mut Vec<u8>) {
    let second = value.div_euclid(per_second).unsigned_abs();
    padded(second / 3_600, 2, out);
    for part in [second / 60 % 60, second % 60] {
        out.push(b':');
        padded(part, 2, out);
    }
    let fraction = value.rem_euclid(per_second);
    if fraction != 0 {
        out.push(b'.');
        padded(fraction.unsigned_abs(), per_second.ilog10() as usize, out);
        while out.last() == Some(&b'0') {
            out.pop();
        }
    }
}

/// A timestamp, in parts of a second since 1970.
pub fn stamp_text(value: i64, per_second: i64, out: &mut Vec<u8>) {
    let day = DAY_S * per_second;
    date_text(value.div_euclid(day), out);
    out.push(b' ');
    time_text(value.rem_euclid(day), per_second, out);
}

/// A point in time by the clock of a zone, and how far that is ahead of UTC.
pub fn zoned_text(value: i64, per_second: i64, zone: Zone, out: &mut Vec<u8>) {
    let offset = zone.offset_s(value.div_euclid(per_second));
    match value.checked_add(offset * per_second) {
        Some(shown) => {
            stamp_text(shown, per_second, out);
            offset_text(offset, out);
        }
        // The clock is beyond what can be counted: that of UTC is not.
        None => {
            stamp_text(value, per_second, out);
            offset_text(0, out);
        }
    }
}

/// `+01`, `-03:30`, `+00:53:28`.
pub fn offset_text(offset_s: i64, out: &mut Vec<u8>) {
    out.push(if offset_s < 0 { b'-' } else { b'+' });
    let seconds = offset_s.unsigned_abs();
    padded(seconds / 3_600, 2, out);
    let parts: &[u64] = match (seconds / 60 % 60, seconds % 60) {
        (0, 0) => &[],
        (minutes, 0) => &[minutes],
        (minutes, seconds) => &[minutes, seconds],
    };
    for part in parts {
        out.push(b':');
        padded(*part, 2, out);
    }
}

/// The number that a timestamp is stored as.
pub(crate) fn stamp_at(array: &dyn Array, unit: TimeUnit, row: usize) -> i64 {
    match unit {
        TimeUnit::Second => array.as_primitive::<TimestampSecondType>().value(row),
        TimeUnit::Millisecond => array.as_primitive::<TimestampMillisecondType>().value(row),
        TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().value(row),
        TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().value(row),
    }
}

/// The text of one value that is there: of a date, a time or a timestamp. Points in time are shown
/// by the clock of the zone. `false` for another type.
pub fn moment_text(array: &dyn Array, row: usize, zone: Zone, out: &mut Vec<u8>) -> bool {
    match array.data_type() {
        DataType::Date32 => date_text(array.as_primitive::<Date32Type>().value(row).into(), out),
        DataType::Date64 => {
            let millis = array.as_primitive::<Date64Type>().value(row);
            date_text(millis.div_euclid(DAY_S * 1_000), out);
        }
        DataType::Time32(TimeUnit::Second) => {
            time_text(array.as_primitive::<Time32SecondType>().value(row).into(), 1, out);
        }
        DataType::Time32(_) => {
            let millis = array.as_primitive::<Time32MillisecondType>().value(row);
            time_text(millis.into(), 1_000, out);
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            time_text(array.as_primitive::<Time64MicrosecondType>().value(row), 1_000_000, out);
        }
        DataType::Time64(_) => {
            time_text(array.as_primitive::<Time64NanosecondType>().value(row), SECOND_NS, out);
        }
        DataType::Timestamp(unit, None) => {
            stamp_text(stamp_at(array, *unit, row), per_second(*unit), out);
        }
        DataType::Timestamp(unit, Some(_)) => {
            zoned_text(stamp_at(array, *unit, row), per_second(*unit), zone, out);
        }
        _ => return false,
    }
    true
}

/// Whether values have such texts.
pub fn is_moment(data_type: &DataType) -> bool {
    use DataType::{Date32, Date64, Time32, Time64, Timestamp};
    matches!(data_type, Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..))
}

/// Dates, times and timestamps as text; `None` for another type. Points in time are shown by the
/// clock of the zone.
pub(crate) fn moment_texts_in(array: &dyn Array, zone: Zone) -> Option<StringArray> {
    if !is_moment(array.data_type()) {
        return None;
    }
    let mut text = Vec::new();
    let texts = (0..array.len()).map(|row| {
        array.is_valid(row).then(|| {
            text.clear();
            moment_text(array, row, zone, &mut text);
            String::from_utf8_lossy(&text).into_owned()
        })
    });
    Some(texts.collect())
}

/// Dates, times and timestamps as text, as a cast to VARCHAR writes them; `None` for another type.
/// Points in time are shown by the clock of the zone that their type names.
pub fn moment_texts(array: &dyn Array) -> Option<StringArray> {
    let zone = match array.data_type() {
        DataType::Timestamp(_, Some(name)) => Zone::of_arrow(name).unwrap_or_default(),
        _ => Zone::UTC,
    };
    moment_texts_in(array, zone)
}

// ---- reading ------------------------------------------------------------------------------------

/// What a text is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A date, with a time or not.
    Moment,
    /// A time of day, with a date before it or not.
    Time,
}

/// What a text says: days since 1970, nanoseconds of the day, a zone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stamp {
    /// Days since 1970.
    pub days: i64,
    /// Nanoseconds since midnight.
    pub nanos: i64,
    /// The zone, where the text has one.
    pub zone: Option<Where>,
}

/// The zone in a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Where {
    /// So many seconds ahead of UTC.
    Offset(i64),
    /// A zone by its name.
    In(Zone),
}

impl Stamp {
    /// In parts of a second since 1970, by the clock; what does not fit is `None`. Digits that the
    /// unit does not have are rounded away, half away from zero; those behind microseconds are left
    /// out.
    pub(crate) fn shown(&self, unit: TimeUnit) -> Option<i64> {
        let seconds = self.days.checked_mul(DAY_S)?;
        let whole = self.nanos / 1_000;
        match unit {
            TimeUnit::Nanosecond => seconds.checked_mul(SECOND_NS)?.checked_add(self.nanos),
            TimeUnit::Microsecond => seconds.checked_mul(1_000_000)?.checked_add(whole),
            TimeUnit::Second | TimeUnit::Millisecond => {
                let micros = seconds.checked_mul(1_000_000)?.checked_add(whole)?;
                Some(rounded(micros, 1_000_000 / per_second(unit)))
            }
        }
    }

    /// The point in time, where the clock is that of `zone` unless the text names another.
    pub fn instant(&self, unit: TimeUnit, zone: Zone) -> Option<i64> {
        let zone = match self.zone {
            Some(Where::Offset(offset)) => {
                return self.shown(unit)?.checked_sub(offset.checked_mul(per_second(unit))?);
            }
            Some(Where::In(zone)) => zone,
            None => zone,
        };
        instant_of(self.shown(unit)?, unit, zone)
    }
}

/// When the clock of a zone shows a timestamp.
pub fn instant_of(shown: i64, unit: TimeUnit, zone: Zone) -> Option<i64> {
    if zone.is_utc() {
        return Some(shown);
    }
    let per_second = per_second(unit);
    let seconds = shown.div_euclid(per_second);
    let micros = seconds.checked_mul(1_000_000)?;
    let ahead = micros.checked_sub(zone.when_shows(micros)?)? / 1_000_000;
    shown.checked_sub(ahead * per_second)
}

/// What the clock of a zone shows at a point in time.
pub fn shown_of(instant: i64, unit: TimeUnit, zone: Zone) -> Option<i64> {
    let per_second = per_second(unit);
    let offset = zone.offset_s(instant.div_euclid(per_second));
    instant.checked_add(offset * per_second)
}

/// A quotient rounded half away from zero.
pub(crate) fn rounded(value: i64, by: i64) -> i64 {
    let rest = value % by;
    value / by + if rest.abs() >= by - rest.abs() { rest.signum() } else { 0 }
}

/// The date, time, or both that a text is.
pub fn read_stamp(text: &str, kind: Kind) -> Option<Stamp> {
    let text = text.trim_ascii();
    if text.eq_ignore_ascii_case("epoch") && kind == Kind::Moment {
        return Some(Stamp { days: 0, nanos: 0, zone: None });
    }
    if kind == Kind::Time && !text.get(1..)?.contains('-') || is_clock(text) {
        if kind == Kind::Moment {
            return None;
        }
        let (nanos, zone) = read_clock(text.as_bytes())?;
        return (nanos < DAY_NS).then_some(Stamp { days: 0, nanos, zone });
    }
    let (days, rest) = read_date(text.as_bytes())?;
    let stamp = match rest {
        [] if kind == Kind::Moment => Stamp { days, nanos: 0, zone: None },
        [b'T' | b't' | b' ', clock @ ..] => {
            let (nanos, zone) = read_clock(clock.trim_ascii())?;
            Stamp { days, nanos, zone }
        }
        _ => return None,
    };
    // 24:00:00 is the next midnight.
    let next = stamp.nanos / DAY_NS;
    (next == 0 || kind == Kind::Moment).then_some(Stamp {
        days: stamp.days + next,
        nanos: stamp.nanos % DAY_NS,
        ..stamp
    })
}

/// Whether a text begins as a time of day does.
fn is_clock(text: &str) -> bool {
    matches!(text.as_bytes(), [b'0'..=b'9', b':', ..] | [b'0'..=b'9', b'0'..=b'9', b':', ..])
}

/// A number of `least` to `most` digits, and what follows.
fn number(text: &[u8], least: usize, most: usize) -> Option<(i64, &[u8])> {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count < least || count > most {
        return None;
    }
    let (digits, rest) = text.split_at(count);
    Some((digits.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')), rest))
}

/// A date in days since 1970, and what follows.
fn read_date(text: &[u8]) -> Option<(i64, &[u8])> {
    // Years have at most seven digits.
    if let Some((number, rest)) = number(text, 8, 8) {
        return Some((days_of(number / 10_000, number / 100 % 100, number % 100)?, rest));
    }
    let (is_negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let (year, rest) = number(text, 1, 7)?;
    let (separator, rest) = rest.split_first().filter(|(mark, _)| matches!(mark, b'-' | b'/'))?;
    let (month, rest) = number(rest, 1, 2)?;
    let rest = rest.strip_prefix(std::slice::from_ref(separator))?;
    let (day, rest) = number(rest, 1, 2)?;
    let era = rest.trim_ascii_start();
    let (year, rest) = match era.get(..4) {
        Some(mark) if mark.eq_ignore_ascii_case(b"(BC)") => {
            if is_negative || year == 0 {
                return None;
            }
            (1 - year, &era[4..])
        }
        _ => (if is_negative { -year } else { year }, rest),
    };
    Some((days_of(year, month, day)?, rest))
}

/// Days since 1970 of a day that exists.
fn days_of(year: i64, month: i64, day: i64) -> Option<i64> {
    // The calendar is the same after 400 years.
    let turns = year.div_euclid(400);
    let year = i32::try_from(year.rem_euclid(400)).ok()?;
    let days = days_from_civil(year, u32::try_from(month).ok()?, u32::try_from(day).ok()?)?;
    Some(i64::from(days) + turns * 146_097)
}

/// A time of day in nanoseconds, up to 24:00:00, and its zone.
fn read_clock(text: &[u8]) -> Option<(i64, Option<Where>)> {
    let (hours, rest) = number(text, 1, 2)?;
    let (minutes, rest) = number(rest.strip_prefix(b":")?, 1, 2)?;
    let (seconds, rest) = match rest {
        [b':', rest @ ..] => number(rest, 1, 2)?,
        _ => (0, rest),
    };
    let (fraction, rest) = match rest {
        [b'.', rest @ ..] => fraction(rest),
        _ => (0, rest),
    };
    let whole = hours * 3_600 + minutes * 60 + seconds;
    let nanos = whole * SECOND_NS + fraction;
    if hours > 24 || minutes > 59 || seconds > 59 || nanos > DAY_NS {
        return None;
    }
    let zone = match rest.trim_ascii_start() {
        [] => None,
        zone => Some(read_zone(std::str::from_utf8(zone).ok()?)?),
    };
    Some((nanos, zone))
}

/// Nanoseconds of the digits behind a point, and what follows.
fn fraction(text: &[u8]) -> (i64, &[u8]) {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(count);
    let padded = digits.iter().chain(std::iter::repeat(&b'0')).take(9);
    (padded.fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')), rest)
}

/// `Z`, an offset, or the name of a zone.
pub fn read_zone(text: &str) -> Option<Where> {
    if text.eq_ignore_ascii_case("z") {
        return Some(Where::Offset(0));
    }
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return Zone::named(text).map(Where::In),
    };
    let (hours, rest) = two_digits(&text.as_bytes()[1..])?;
    let (minutes, rest) = match rest {
        [] => (0, rest),
        [b':', rest @ ..] => two_digits(rest)?,
        _ => two_digits(rest)?,
    };
    let (seconds, rest) = match rest {
        [b':', rest @ ..] => two_digits(rest)?,
        _ => (0, rest),
    };
    if !rest.is_empty() || hours > MOST_OFFSET_H || minutes > 59 || seconds > 59 {
        return None;
    }
    Some(Where::Offset(sign * (hours * 3_600 + minutes * 60 + seconds)))
}

fn two_digits(text: &[u8]) -> Option<(i64, &[u8])> {
    match text {
        [a @ b'0'..=b'9', b @ b'0'..=b'9', rest @ ..] => {
            Some((i64::from(a - b'0') * 10 + i64::from(b - b'0'), rest))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> String {
        let Some(stamp) = read_stamp(text, Kind::Moment) else { return "-".into() };
        let mut out = Vec::new();
        date_text(stamp.days, &mut out);
        out.push(b' ');
        time_text(stamp.nanos, SECOND_NS, &mut out);
        match stamp.zone {
            Some(Where::Offset(offset)) => offset_text(offset, &mut out),
            Some(Where::In(zone)) => out.extend_from_slice(format!(" {zone}").as_bytes()),
            None => {}
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_is_read() {
        for (text, read) in [
            ("2024-03-05", "2024-03-05 00:00:00"),
            (" 2024/3/5   6:07 ", "2024-03-05 06:07:00"),
            ("20240305", "2024-03-05 00:00:00"),
            ("2024-03-05T06:07:08.2500", "2024-03-05 06:07:08.25"),
            ("2024-03-05 06:07:08.1234567899", "2024-03-05 06:07:08.123456789"),
            ("2024-03-05 06:07:08.", "2024-03-05 06:07:08"),
            ("2024-03-05 24:00:00", "2024-03-06 00:00:00"),
            ("12024-03-05", "12024-03-05 00:00:00"),
            ("+12024-03-05", "12024-03-05 00:00:00"),
            ("-0044-03-15 01:02:03", "0045-03-15 (BC) 01:02:03"),
            ("0045-03-15 (bc) 01:02:03", "0045-03-15 (BC) 01:02:03"),
            ("0000-01-01", "0001-01-01 (BC) 00:00:00"),
            ("epoch", "1970-01-01 00:00:00"),
            ("2024-03-05 06:07:08Z", "2024-03-05 06:07:08+00"),
            ("2024-03-05 06:07:08+01", "2024-03-05 06:07:08+01"),
            ("2024-03-05 06:07:08+00", "2024-03-05 06:07:08+00"),
            ("2024-03-05 06:07-0330", "2024-03-05 06:07:00-03:30"),
            ("2024-03-05 06:07 +01:30:15", "2024-03-05 06:07:00+01:30:15"),
            ("2024-03-05 06:07 asia/tokyo", "2024-03-05 06:07:00 Asia/Tokyo"),
            ("2024-03-05 06:07 UTC", "2024-03-05 06:07:00 UTC"),
        ] {
            assert_eq!(written(text), read, "{text}");
        }
        for text in [
            "",
            "x",
            "2024",
            "2024-03",
            "2024-13-01",
            "2023-02-29",
            "2024-03-05 6",
            "2024-03-05 x",
            "2024-03-05 06:60",
            "2024-03-05 23:59:60",
            "2024-03-05 24:00:01",
            "2024-03-05+02",
            "2024-03-05Z",
            "2024-03-05 06:07 Nowhere",
            "2024-03-05 06:07+99",
            "2024-03-05 06:07+8",
            "2024-03-05 06:07+01:3",
            "06:07:08",
            "0000-01-01 (BC)",
            "2024-03/05",
            "2024-03-05 PM",
        ] {
            assert_eq!(written(text), "-", "{text}");
        }
    }

    #[test]
    fn times_of_day() {
        let read = |text: &str| read_stamp(text, Kind::Time).map(|stamp| stamp.nanos / 1_000_000);
        assert_eq!(read("01:02:03.5"), Some(3_723_500));
        assert_eq!(read("1:2"), Some(3_720_000));
        assert_eq!(read("2024-01-01 01:02:03+05"), Some(3_723_000));
        assert_eq!(read("01:02:03-05"), Some(3_723_000));
        for text in ["24:00:00", "23:59:60", "12", "2024-01-01", "1:60", "x", "", "01:02 x"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn texts_read_back() {
        let mut random = fastrand::Rng::with_seed(5);
        let zones = ["UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kolkata"];
        let zones = zones.map(|name| Zone::named(name).unwrap());
        for _ in 0..20_000 {
            let unit = [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond]
                [random.usize(0..3)];
            let value = random.i64(-90_000_000_000..300_000_000_000) * per_second(unit)
                + random.i64(0..per_second(unit));
            let mut text = Vec::new();
            stamp_text(value, per_second(unit), &mut text);
            let text = String::from_utf8(text).unwrap();
            let stamp = read_stamp(&text, Kind::Moment);
            assert_eq!(stamp.and_then(|stamp| stamp.shown(unit)), Some(value), "{text}");
            let zone = zones[random.usize(0..zones.len())];
            let mut text = Vec::new();
            zoned_text(value, per_second(unit), zone, &mut text);
            let text = String::from_utf8(text).unwrap();
            let stamp = read_stamp(&text, Kind::Moment);
            assert_eq!(stamp.and_then(|s| s.instant(unit, Zone::UTC)), Some(value), "{text}");
        }
    }

    #[test]
    fn halves_are_rounded_away_from_zero() {
        for (value, by, result) in
            [(15, 10, 2), (14, 10, 1), (-15, 10, -2), (-14, 10, -1), (5, 10, 1), (-5, 10, -1)]
        {
            assert_eq!(rounded(value, by), result, "{value}");
        }
        assert_eq!(rounded(i64::MIN, 1_000), -9_223_372_036_854_776);
        let stamp = read_stamp("1969-12-31 23:59:59.5", Kind::Moment).unwrap();
        assert_eq!(stamp.shown(TimeUnit::Second), Some(-1));
        assert_eq!(stamp.shown(TimeUnit::Millisecond), Some(-500));
    }
}
