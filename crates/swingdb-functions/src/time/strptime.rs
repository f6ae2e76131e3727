//! `strptime(text, format)` and `try_strptime`: a timestamp of a text in one format or several.
//!
//! Specifiers are DuckDB's. What the format does not ask for is that of 1900-01-01 00:00:00.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Builder, StringArray, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, TimeUnit};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use swingdb_common::time::calendar::days_from_civil;
use swingdb_common::time::texts::{Stamp, Where, read_zone};
use swingdb_common::time::zones::Zone;

use super::formats::{Item, MONTHS, WEEKDAYS, items};

/// Both functions.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    [("strptime", false), ("try_strptime", true)].into_iter().map(|(name, tries)| {
        let signature = Signature::any(2, Volatility::Immutable);
        ScalarUDF::new_from_impl(Strptime { name, tries, signature })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Strptime {
    name: &'static str,
    /// Gives NULL for what is not in the format.
    tries: bool,
    signature: Signature,
}

impl ScalarUDFImpl for Strptime {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let is_text = |given: &DataType| given.is_string() || given.is_null();
        let fits = match types {
            [text, DataType::List(format)] => is_text(text) && is_text(format.data_type()),
            [text, format] => is_text(text) && is_text(format),
            _ => false,
        };
        if !fits {
            return plan_err!("{} takes a text and a format, or a list of formats", self.name);
        }
        Ok(DataType::Timestamp(TimeUnit::Microsecond, None))
    }

    /// With a time zone in its format it is a point in time, with nanoseconds a finer timestamp.
    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let mut field = crate::args::returned(self, &args)?;
        let formats = args.scalar_arguments.get(1).copied().flatten();
        let has = |parts: &[char]| formats.is_some_and(|of| has_part(of, parts).unwrap_or(false));
        if has(&['z', 'Z']) {
            let zoned = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
            field = field.with_data_type(zoned);
        } else if has(&['n']) {
            field = field.with_data_type(DataType::Timestamp(TimeUnit::Nanosecond, None));
        }
        Ok(Arc::new(field))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let [texts, formats] = args.args.as_slice() else {
            return exec_err!("{} takes a text and a format", self.name);
        };
        let texts = cast(&texts.to_array(rows)?, &DataType::Utf8)?;
        // Formats that are the same in all rows are one row.
        let is_same = matches!(formats, ColumnarValue::Scalar(_));
        let formats = lists_of(formats, if is_same { 1 } else { rows })?;
        let formats = formats.as_list::<i32>();
        let DataType::Timestamp(unit, zoned) = args.return_field.data_type().clone() else {
            return exec_err!("{} gives a timestamp", self.name);
        };
        let zone = zoned.as_ref().map_or(Zone::UTC, |_| Zone::of(&args.config_options));
        let mut known = Formats::default();
        let mut made = Int64Builder::with_capacity(rows);
        for (row, text) in texts.as_string::<i32>().iter().enumerate() {
            let row = if is_same { 0 } else { row };
            let formats = formats.is_valid(row).then(|| formats.value(row));
            let stamp = match (text, formats) {
                (Some(text), Some(formats)) => self.read(text, formats.as_string(), &mut known)?,
                _ => None,
            };
            let value = stamp.as_ref().and_then(|stamp| stamp.instant(unit, zone));
            if stamp.is_some() && value.is_none() && !self.tries {
                return exec_err!("{}: out of range", self.name);
            }
            made.append_option(value);
        }
        crate::args::as_given(&args, cast(&made.finish(), args.return_field.data_type())?)
    }
}

/// Formats, or lists of them, as lists.
fn lists_of(formats: &ColumnarValue, rows: usize) -> Result<ArrayRef> {
    let formats = formats.to_array(rows)?;
    let list = DataType::new_list(DataType::Utf8, true);
    if formats.data_type().is_null() {
        return Ok(new_null_array(&list, rows));
    }
    Ok(cast(&formats, &list)?)
}

/// Whether a format has one of these specifiers.
fn has_part(formats: &ScalarValue, parts: &[char]) -> Result<bool> {
    let formats = lists_of(&ColumnarValue::Scalar(formats.clone()), 1)?;
    let formats = formats.as_list::<i32>().values();
    let is_part = |item: &Item| matches!(item, Item::Part(part) if parts.contains(part));
    for format in formats.as_string::<i32>().iter().flatten() {
        if items(format)?.iter().any(is_part) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Formats that were taken apart, the last first.
#[derive(Default)]
struct Formats(Vec<(String, Vec<Item>)>);

impl Formats {
    const MOST: usize = 16;

    fn of(&mut self, format: &str) -> Result<&[Item]> {
        let at = match self.0.iter().position(|(known, _)| known == format) {
            Some(at) => at,
            None => {
                let items = readable(format)?;
                self.0.truncate(Self::MOST - 1);
                self.0.insert(0, (format.to_string(), items));
                0
            }
        };
        Ok(&self.0[at].1)
    }
}

/// The parts of a format, all of which can be read.
fn readable(format: &str) -> Result<Vec<Item>> {
    let items = items(format.trim())?;
    let unknown = items.iter().find_map(|item| match item {
        Item::Part(part) if !READ.contains(*part) => Some(part),
        _ => None,
    });
    match unknown {
        Some(part) => exec_err!("'{format}': strptime does not read %{part}"),
        None => Ok(items),
    }
}

/// A format of dates and times that texts are read by, as `strptime` does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeFormat {
    written: String,
    items: Vec<Item>,
}

impl TimeFormat {
    /// The format that is written so.
    pub fn new(format: &str) -> Result<Self> {
        Ok(Self { written: format.to_string(), items: readable(format)? })
    }

    /// How it is written.
    pub fn written(&self) -> &str {
        &self.written
    }

    /// Whether it asks for a time zone.
    pub fn has_zone(&self) -> bool {
        self.items.iter().any(|item| matches!(item, Item::Part('z' | 'Z')))
    }

    /// Whether it asks for nanoseconds.
    pub fn has_nanos(&self) -> bool {
        self.items.contains(&Item::Part('n'))
    }

    /// What a text in this format says; `None` when it is not in it.
    pub fn read(&self, text: &str) -> Option<Stamp> {
        read(text, &self.items)
    }
}

/// The specifiers that are read.
const READ: &str = "aAbBdfgGHIjmMnpSuUVwWyYzZ";

impl Strptime {
    /// NULL among the formats is none.
    fn read(
        &self,
        text: &str,
        formats: &StringArray,
        known: &mut Formats,
    ) -> Result<Option<Stamp>> {
        for format in formats.iter().flatten() {
            if let Some(stamp) = read(text, known.of(format)?) {
                return Ok(Some(stamp));
            }
        }
        if self.tries || formats.null_count() == formats.len() {
            return Ok(None);
        }
        let all: Vec<String> =
            formats.iter().flatten().map(|format| format!("'{format}'")).collect();
        exec_err!("{}: '{text}' is not in the format {}", self.name, all.join(" or "))
    }
}

/// What a text says of a timestamp.
#[derive(Default)]
struct Parts {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    /// The first day of a week, by its specifier, and the number of the week.
    week: Option<(char, i64)>,
    /// From Sunday, which is 0.
    weekday: Option<i64>,
    /// The year of the weeks' numbers.
    iso_year: Option<i64>,
    hour: i64,
    /// Whether the hour is one of twelve.
    half: Option<bool>,
    minute: i64,
    second: i64,
    nanos: i64,
    zone: Option<Where>,
}

/// The timestamp of a text in a format.
fn read(text: &str, format: &[Item]) -> Option<Stamp> {
    let mut parts = Parts::default();
    let mut rest = text.trim_ascii();
    for item in format {
        rest = match item {
            Item::Space => {
                let behind = rest.trim_ascii_start();
                if behind.len() == rest.len() {
                    return None;
                }
                behind
            }
            Item::Text(char) => rest.strip_prefix(*char)?,
            Item::Part(part) => parts.take(*part, rest)?,
        };
    }
    if !rest.is_empty() {
        return None;
    }
    let days = parts.days()?;
    let nanos = parts.clock()?;
    Some(Stamp { days, nanos, zone: parts.zone })
}

/// How long the zone is that a text begins with: an offset has two digits after its sign, and
/// two more for minutes, and for seconds behind a colon.
fn zone_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    if !text.starts_with(['+', '-']) {
        let is_zone = |c: char| c.is_ascii_alphanumeric() || "+-:/_".contains(c);
        return text.find(|c: char| !is_zone(c)).unwrap_or(text.len());
    }
    let digits = |at: usize| (at..at + 2).all(|at| bytes.get(at).is_some_and(u8::is_ascii_digit));
    let mut end = 1;
    for part in 0..3 {
        let colon = usize::from(part > 0 && bytes.get(end) == Some(&b':'));
        // Without a colon, what follows hours and minutes is none of the zone.
        if !digits(end + colon) || part == 2 && colon == 0 {
            break;
        }
        end += colon + 2;
    }
    end
}

/// A number of at most so many digits in a range, and what follows.
fn number(text: &str, most: usize, range: std::ops::RangeInclusive<i64>) -> Option<(i64, &str)> {
    let count = text.bytes().take(most).take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at(count);
    let number = digits.parse().ok().filter(|number| range.contains(number))?;
    Some((number, rest))
}

/// Which of some names a text begins with, and what follows; the longest of them.
fn named<'a>(text: &'a str, names: &[&str], length: Option<usize>) -> Option<(i64, &'a str)> {
    let found = names.iter().enumerate().find_map(|(place, name)| {
        let name = length.map_or(*name, |length| &name[..length]);
        let begins = text.get(..name.len())?.eq_ignore_ascii_case(name);
        begins.then_some((place, name.len()))
    });
    let (place, length) = found?;
    Some((i64::try_from(place).ok()?, &text[length..]))
}

/// Nanoseconds of at most so many digits behind a point, and what follows.
fn fraction(text: &str, most: usize) -> Option<(i64, &str)> {
    let (number, rest) = number(text, most, 0..=999_999_999)?;
    let digits = u32::try_from(text.len() - rest.len()).ok()?;
    Some((number * 10_i64.pow(9_u32.checked_sub(digits)?), rest))
}

impl Parts {
    /// Takes what a specifier stands for from the begin of a text.
    fn take<'a>(&mut self, part: char, text: &'a str) -> Option<&'a str> {
        let (place, rest) = match part {
            'a' => named(text, &WEEKDAYS, Some(3))?,
            'A' => named(text, &WEEKDAYS, None)?,
            'b' => named(text, &MONTHS, Some(3))?,
            'B' => named(text, &MONTHS, None)?,
            'd' => number(text, 2, 1..=31)?,
            'f' => fraction(text, 6)?,
            'g' => fraction(text, 3)?,
            'n' => fraction(text, 9)?,
            'G' | 'Y' => number(text, 4, 0..=9_999)?,
            'H' => number(text, 2, 0..=23)?,
            'I' => number(text, 2, 1..=12)?,
            'j' => number(text, 3, 1..=366)?,
            'm' => number(text, 2, 1..=12)?,
            'M' | 'S' => number(text, 2, 0..=59)?,
            'p' => named(text, &["AM", "PM"], None)?,
            'u' => number(text, 1, 1..=7)?,
            'U' | 'W' => number(text, 2, 0..=53)?,
            'V' => number(text, 2, 1..=53)?,
            'w' => number(text, 1, 0..=6)?,
            'y' => number(text, 2, 0..=99)?,
            'z' | 'Z' => {
                let (zone, rest) = text.split_at(zone_length(text));
                let zone = read_zone(zone)?;
                if part == 'Z' && matches!(zone, Where::Offset(_)) {
                    return None;
                }
                self.zone = Some(zone);
                (0, rest)
            }
            _ => return None,
        };
        match part {
            'b' | 'B' => self.month = Some(place + 1),
            'd' => self.day = Some(place),
            'f' | 'g' | 'n' => self.nanos = place,
            'G' => self.iso_year = Some(place),
            'Y' => self.year = Some(place),
            'y' => self.year = Some(if place < 69 { 2_000 + place } else { 1_900 + place }),
            'H' | 'I' => self.hour = place,
            'j' => self.day_of_year = Some(place),
            'm' => self.month = Some(place),
            'M' => self.minute = place,
            'S' => self.second = place,
            'p' => self.half = Some(place == 1),
            'u' => self.weekday = Some(place % 7),
            'w' => self.weekday = Some(place),
            'U' | 'W' | 'V' => self.week = Some((part, place)),
            // Names of days say nothing that the date does not.
            _ => {}
        }
        Some(rest)
    }

    /// Days since 1970.
    fn days(&self) -> Option<i64> {
        const DEFAULT: i64 = 1_900;
        let day = |year: i64, month: i64, day: i64| {
            let [month, day] = [month, day].map(|part| u32::try_from(part).ok());
            days_from_civil(i32::try_from(year).ok()?, month?, day?).map(i64::from)
        };
        let year = self.year.unwrap_or(DEFAULT);
        if self.month.is_some() || self.day.is_some() {
            return day(year, self.month.unwrap_or(1), self.day.unwrap_or(1));
        }
        if let Some(number) = self.day_of_year {
            return Some(day(year, 1, 1)? + number - 1);
        }
        // 1970-01-01 was a Thursday.
        let from_monday = |days: i64| (days + 3).rem_euclid(7);
        match (self.week, self.iso_year) {
            (Some(('V', week)), Some(year)) => {
                // The first week has the 4th of January.
                let fourth = day(year, 1, 4)?;
                let first = fourth - from_monday(fourth);
                let weekday = self.weekday.map_or(0, |from_sunday| (from_sunday + 6) % 7);
                Some(first + (week - 1) * 7 + weekday)
            }
            (Some(('V', _)), None) => None,
            (Some((begin, week)), _) => {
                let begins_on_sunday = begin == 'U';
                let from_begin = |days: i64| from_monday(days + i64::from(begins_on_sunday));
                let new_year = day(year, 1, 1)?;
                let first = new_year + (7 - from_begin(new_year)) % 7;
                let weekday = self.weekday.map_or(0, |from_sunday| match begins_on_sunday {
                    true => from_sunday,
                    false => (from_sunday + 6) % 7,
                });
                Some(first + (week - 1) * 7 + weekday)
            }
            (None, Some(iso_year)) => day(self.year.unwrap_or(iso_year), 1, 1),
            (None, None) => day(year, 1, 1),
        }
    }

    /// Nanoseconds since midnight.
    fn clock(&self) -> Option<i64> {
        let hour = match self.half {
            None => self.hour,
            Some(_) if self.hour > 12 => return None,
            Some(is_afternoon) => self.hour % 12 + if is_afternoon { 12 } else { 0 },
        };
        Some((hour * 3_600 + self.minute * 60 + self.second) * 1_000_000_000 + self.nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use swingdb_common::time::texts::{date_text, time_text};

    fn written(text: &str, format: &str) -> String {
        let mut known = Formats::default();
        let Some(stamp) = read(text, known.of(format).unwrap()) else { return "-".to_string() };
        let mut out = Vec::new();
        date_text(stamp.days, &mut out);
        out.push(b' ');
        time_text(stamp.nanos, 1_000_000_000, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_is_missing_is_of_1900() {
        for (text, format, found) in [
            ("2024", "%Y", "2024-01-01 00:00:00"),
            ("03-2024", "%m-%Y", "2024-03-01 00:00:00"),
            ("7 3", "%d %m", "1900-03-07 00:00:00"),
            ("12:30", "%H:%M", "1900-01-01 12:30:00"),
            ("24-060", "%y-%j", "2024-02-29 00:00:00"),
            ("2023 366", "%Y %j", "2024-01-01 00:00:00"),
            ("5/3/24 3PM", "%d/%m/%y %I%p", "2024-03-05 15:00:00"),
            ("5/3/24 12AM", "%d/%m/%y %I%p", "2024-03-05 00:00:00"),
            ("06:05 pm", "%H:%M %p", "1900-01-01 18:05:00"),
            ("69 1", "%y %m", "1969-01-01 00:00:00"),
            ("68 1", "%y %m", "2068-01-01 00:00:00"),
            ("1500-01-02 03:04:05.25", "%x %H:%M:%S.%f", "1500-01-02 03:04:05.25"),
            ("03:04:05.123456789", "%X.%n", "1900-01-01 03:04:05.123456789"),
            ("5.5", "%S.%g", "1900-01-01 00:00:05.5"),
            ("2 JANUARY 2024", "%d %B %Y", "2024-01-02 00:00:00"),
            (" 2024-01-02   03 ", "%Y-%m-%d %H", "2024-01-02 03:00:00"),
            ("20240102", "%Y%m%d", "2024-01-02 00:00:00"),
            ("100%", "%m0%%", "1900-10-01 00:00:00"),
        ] {
            assert_eq!(written(text, format), found, "{text} {format}");
        }
    }

    #[test]
    fn weeks_and_days_of_weeks() {
        for (text, format, found) in [
            ("Mon 2024-01-02", "%a %Y-%m-%d", "2024-01-02 00:00:00"),
            ("2024 5", "%Y %U", "2024-02-04 00:00:00"),
            ("2024 5", "%Y %W", "2024-01-29 00:00:00"),
            ("2024 5 3", "%Y %U %w", "2024-02-07 00:00:00"),
            ("2024 00", "%Y %U", "2023-12-31 00:00:00"),
            ("2024 5", "%G %V", "2024-01-29 00:00:00"),
            ("2024 1 7", "%G %V %u", "2024-01-07 00:00:00"),
            ("2024 53", "%G %V", "2024-12-30 00:00:00"),
            ("2024-05-06 18 Sun", "%Y-%m-%d %U %a", "2024-05-06 00:00:00"),
            ("2024 05", "%Y %V", "-"),
        ] {
            assert_eq!(written(text, format), found, "{text} {format}");
        }
    }

    #[test]
    fn what_contradicts_itself_is_none() {
        for (text, format) in [
            ("2023-02-29", "%Y-%m-%d"),
            ("2024 24 x", "%Y %y"),
            ("", "%Y"),
            ("04:05:60", "%H:%M:%S"),
            ("18:05 PM", "%H:%M %p"),
            ("00:05 AM", "%I:%M %p"),
            ("24:00", "%H:%M"),
            ("2024-13", "%Y-%m"),
            ("03:04:05.1234567", "%H:%M:%S.%f"),
            ("2024-01-02x", "%Y-%m-%d"),
            ("2024-01-0203", "%Y-%m-%d %H"),
            ("12:05 XM", "%I:%M %p"),
        ] {
            assert_eq!(written(text, format), "-", "{text} {format}");
        }
    }

    #[test]
    fn zones_are_read() {
        let mut known = Formats::default();
        let mut zone = |text: &str, format: &str| {
            read(text, known.of(format).unwrap()).and_then(|stamp| stamp.zone)
        };
        assert_eq!(zone("04:05+00", "%H:%M%z"), Some(Where::Offset(0)));
        assert_eq!(zone("04:05 -0130", "%H:%M %z"), Some(Where::Offset(-5_400)));
        assert_eq!(zone("04:05 +01:30", "%H:%M %z"), Some(Where::Offset(5_400)));
        assert!(matches!(zone("04:05 Asia/Tokyo", "%H:%M %Z"), Some(Where::In(_))));
        assert_eq!(zone("04:05 Nowhere", "%H:%M %Z"), None);
        assert_eq!(zone("+02/2024", "%z/%Y"), Some(Where::Offset(7_200)));
        assert_eq!(zone("-02:30-2024", "%z-%Y"), Some(Where::Offset(-9_000)));
        assert_eq!(zone("+02302024", "%z%Y"), Some(Where::Offset(9_000)));
        assert_eq!(zone("+2 2024", "%z %Y"), None);
        assert!(known.of("%Q").is_err());
    }
}
