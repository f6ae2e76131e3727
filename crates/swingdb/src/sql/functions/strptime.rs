//! `strptime(text, format)` and `try_strptime`: a timestamp of a text in one format or several.
//!
//! What the format does not ask for is that of 1900-01-01 00:00:00.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, StringArray, TimestampMicrosecondBuilder, new_null_array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, TimeUnit};
use chrono::format::{Item, ParseErrorKind, ParseResult, Parsed, StrftimeItems, parse};
use chrono::{DateTime, NaiveDate, NaiveTime, TimeDelta};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use super::formats;

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

    /// With the offset of a time zone in its format it is a point in time.
    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let mut field = super::returned(self, &args)?;
        let formats = args.scalar_arguments.get(1).copied().flatten();
        if formats.is_some_and(|formats| has_zone(formats).unwrap_or(false)) {
            let zoned = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
            field = field.with_data_type(zoned);
        }
        Ok(Arc::new(field))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = super::rows_of(&args);
        let [texts, formats] = args.args.as_slice() else {
            return exec_err!("{} takes a text and a format", self.name);
        };
        let texts = cast(&texts.to_array(rows)?, &DataType::Utf8)?;
        // Formats that are the same in all rows are one row.
        let is_same = matches!(formats, ColumnarValue::Scalar(_));
        let formats = lists_of(formats, if is_same { 1 } else { rows })?;
        let formats = formats.as_list::<i32>();
        let mut known = Formats::default();
        let mut made = TimestampMicrosecondBuilder::with_capacity(rows);
        for (row, text) in texts.as_string::<i32>().iter().enumerate() {
            let row = if is_same { 0 } else { row };
            let formats = formats.is_valid(row).then(|| formats.value(row));
            made.append_option(match (text, formats) {
                (Some(text), Some(formats)) => self.read(text, formats.as_string(), &mut known)?,
                _ => None,
            });
        }
        let made = cast(&made.finish(), args.return_field.data_type())?;
        super::as_given(&args, made)
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

fn has_zone(formats: &ScalarValue) -> Result<bool> {
    let formats = lists_of(&ColumnarValue::Scalar(formats.clone()), 1)?;
    let formats = formats.as_list::<i32>().values();
    Ok(formats.as_string::<i32>().iter().flatten().any(|format| format.contains("%z")))
}

/// Formats that were taken apart, the last first.
#[derive(Default)]
struct Formats(Vec<(String, Vec<Item<'static>>)>);

impl Formats {
    const MOST: usize = 16;

    fn of(&mut self, format: &str) -> Result<&[Item<'static>]> {
        let at = match self.0.iter().position(|(known, _)| known == format) {
            Some(at) => at,
            None => {
                if format.contains("%Z") {
                    return exec_err!("names of time zones (%Z) are not read; %z reads offsets");
                }
                let items = StrftimeItems::new(&formats::to_read(format.trim())).parse_to_owned();
                let items = items.map_err(|_| {
                    exec_datafusion_err!("'{format}' is no format of dates and times")
                })?;
                self.0.truncate(Self::MOST - 1);
                self.0.insert(0, (format.to_string(), items));
                0
            }
        };
        Ok(&self.0[at].1)
    }
}

impl Strptime {
    /// NULL among the formats is none.
    fn read(&self, text: &str, formats: &StringArray, known: &mut Formats) -> Result<Option<i64>> {
        for format in formats.iter().flatten() {
            if let Some(micros) = micros(text.trim(), known.of(format)?) {
                return Ok(Some(micros));
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

/// Microseconds since 1970, if the text is in the format.
fn micros(text: &str, format: &[Item<'static>]) -> Option<i64> {
    let mut parsed = Parsed::new();
    parse(&mut parsed, text, format.iter()).ok()?;
    let time = if let Some(seconds) = parsed.timestamp() {
        DateTime::from_timestamp(seconds, parsed.nanosecond().unwrap_or(0))?.naive_utc()
    } else {
        date(&mut parsed)?.and_time(time(&mut parsed).ok()?)
    };
    let offset = TimeDelta::seconds(i64::from(parsed.offset().unwrap_or(0)));
    Some(time.checked_sub_signed(offset)?.and_utc().timestamp_micros())
}

/// The date, of January 1900 as far as it is not there.
fn date(parsed: &mut Parsed) -> Option<NaiveDate> {
    // Two digits are a year of 1969 to 2068.
    if parsed.year_mod_100().is_some_and(|year| year >= 69) && parsed.year_div_100().is_none() {
        let _ = parsed.set_year_div_100(19);
    }
    let defaults: [fn(&mut Parsed) -> ParseResult<()>; 3] = [
        |parsed| match (parsed.year_mod_100(), parsed.isoyear()) {
            (None, None) => parsed.set_year(1900),
            _ => Ok(()),
        },
        |parsed| parsed.set_month(1),
        |parsed| parsed.set_day(1),
    ];
    let mut date = parsed.to_naive_date();
    for default in defaults {
        match &date {
            Err(error) if error.kind() == ParseErrorKind::NotEnough => {
                // What is there already stays.
                let _ = default(parsed);
                date = parsed.to_naive_date();
            }
            _ => break,
        }
    }
    date.ok()
}

/// The time of the day, midnight as far as it is not there.
fn time(parsed: &mut Parsed) -> ParseResult<NaiveTime> {
    if parsed.hour_div_12().is_none() {
        parsed.set_ampm(false)?;
    }
    if parsed.hour_mod_12().is_none() {
        parsed.set_hour12(12)?;
    }
    if parsed.minute().is_none() {
        parsed.set_minute(0)?;
    }
    if parsed.second().is_none() && parsed.nanosecond().is_some() {
        parsed.set_second(0)?;
    }
    parsed.to_naive_time()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, format: &str) -> String {
        let mut known = Formats::default();
        match micros(text, known.of(format).unwrap()) {
            Some(micros) => {
                DateTime::from_timestamp_micros(micros).unwrap().naive_utc().to_string()
            }
            None => "-".to_string(),
        }
    }

    #[test]
    fn what_is_missing_is_of_1900() {
        assert_eq!(read("2024", "%Y"), "2024-01-01 00:00:00");
        assert_eq!(read("03-2024", "%m-%Y"), "2024-03-01 00:00:00");
        assert_eq!(read("7 3", "%d %m"), "1900-03-07 00:00:00");
        assert_eq!(read("12:30", "%H:%M"), "1900-01-01 12:30:00");
        assert_eq!(read("24-060", "%y-%j"), "2024-02-29 00:00:00");
        assert_eq!(read("5/3/24 3PM", "%d/%m/%y %I%p"), "2024-03-05 15:00:00");
        assert_eq!(read("5/3/24 12AM", "%d/%m/%y %I%p"), "2024-03-05 00:00:00");
        assert_eq!(read("69 1", "%y %m"), "1969-01-01 00:00:00");
        assert_eq!(read("68 1", "%y %m"), "2068-01-01 00:00:00");
        assert_eq!(read("1500-01-02 03:04:05.25", "%x %H:%M:%S.%f"), "1500-01-02 03:04:05.250");
        assert_eq!(read("2024-03-05 01:00 +0200", "%Y-%m-%d %H:%M %z"), "2024-03-04 23:00:00");
    }

    #[test]
    fn what_contradicts_itself_is_none() {
        assert_eq!(read("2023-02-29", "%Y-%m-%d"), "-");
        assert_eq!(read("2024 24 x", "%Y %y"), "-");
        assert_eq!(read("2024 23", "%Y %y"), "-");
        assert_eq!(read("", "%Y"), "-");
    }
}
