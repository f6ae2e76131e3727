//! Dates, times and durations between Python's `datetime` and Arrow's numbers.
//!
//! Python's types count microseconds and know the years 1 to 9999. What is finer is cut off
//! (towards the past) on its way to Python; pandas and NumPy hand over nanoseconds. What is outside
//! is an error, not another date.

use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDate, PyDateTime, PyDelta, PyTime, PyTzInfo};

use swingdb::civil_from_days;

use crate::errors;

/// Microseconds of a day.
pub const DAY_US: i64 = 86_400_000_000;
/// Nanoseconds of a microsecond.
pub const NANOS_OF_MICRO: i64 = 1_000;
/// `date(1970, 1, 1).toordinal()`.
const EPOCH_ORDINAL: i64 = 719_163;

fn out_of_range(what: &str) -> PyErr {
    errors::new(
        "DataError",
        format!("a {what} is outside the years 1 to 9999 of Python's datetime; ask for .arrow()"),
    )
}

fn python_civil(days: i64, what: &str) -> PyResult<(i32, u8, u8)> {
    // Bounds the sum inside civil_from_days, and every Python date lies well within.
    if days.abs() > 4_000_000 {
        return Err(out_of_range(what));
    }
    let (year, month, day) = civil_from_days(days);
    if !(1..=9999).contains(&year) {
        return Err(out_of_range(what));
    }
    Ok((year as i32, month, day))
}

/// A `date` from days since 1970-01-01.
pub fn date(py: Python<'_>, days: i64) -> PyResult<Bound<'_, PyAny>> {
    let (year, month, day) = python_civil(days, "date")?;
    Ok(PyDate::new(py, year, month, day)?.into_any())
}

/// A `time` from microseconds since midnight.
pub fn time(py: Python<'_>, us: i64) -> PyResult<Bound<'_, PyAny>> {
    let us = us.rem_euclid(DAY_US);
    let (hour, minute, second, micro) = clock(us);
    Ok(PyTime::new(py, hour, minute, second, micro, None)?.into_any())
}

/// A `timedelta` from microseconds.
pub fn timedelta(py: Python<'_>, us: i64) -> PyResult<Bound<'_, PyAny>> {
    let (days, rest) = (us.div_euclid(DAY_US), us.rem_euclid(DAY_US));
    let days = i32::try_from(days).map_err(|_| out_of_range("duration"))?;
    let (seconds, micros) = ((rest / 1_000_000) as i32, (rest % 1_000_000) as i32);
    Ok(PyDelta::new(py, days, seconds, micros, true)?.into_any())
}

fn clock(us: i64) -> (u8, u8, u8, u32) {
    let seconds = us / 1_000_000;
    (
        (seconds / 3600) as u8,
        (seconds / 60 % 60) as u8,
        (seconds % 60) as u8,
        (us % 1_000_000) as u32,
    )
}

/// The time zone of a column of timestamps.
pub struct Zone<'py> {
    utc: Option<Bound<'py, PyTzInfo>>,
    /// What UTC times are moved to; `None` when the zone is UTC itself, or there is no zone.
    target: Option<Bound<'py, PyAny>>,
}

impl<'py> Zone<'py> {
    /// The zone called `name` in Arrow: an IANA name or an offset such as `+02:00`.
    pub fn new(py: Python<'py>, name: Option<&str>) -> PyResult<Self> {
        let Some(name) = name else { return Ok(Self { utc: None, target: None }) };
        let utc = Some(PyTzInfo::utc(py)?.to_owned());
        if matches!(name, "UTC" | "utc" | "Z" | "+00:00" | "Etc/UTC") {
            return Ok(Self { utc, target: None });
        }
        let target = match offset_minutes(name) {
            Some(minutes) => {
                let offset = PyDelta::new(py, 0, minutes * 60, 0, true)?;
                py.import(intern!(py, "datetime"))?
                    .getattr(intern!(py, "timezone"))?
                    .call1((offset,))?
            }
            None => py
                .import(intern!(py, "zoneinfo"))?
                .getattr(intern!(py, "ZoneInfo"))?
                .call1((name,))?,
        };
        Ok(Self { utc, target: Some(target) })
    }

    /// A `datetime` from microseconds since 1970-01-01 (UTC if there is a zone).
    pub fn datetime(&self, py: Python<'py>, us: i64) -> PyResult<Bound<'py, PyAny>> {
        let (year, month, day) = python_civil(us.div_euclid(DAY_US), "timestamp")?;
        let (hour, minute, second, micro) = clock(us.rem_euclid(DAY_US));
        let zone = self.utc.as_ref();
        let made = PyDateTime::new(py, year, month, day, hour, minute, second, micro, zone)?;
        match &self.target {
            Some(target) => made.call_method1(intern!(py, "astimezone"), (target,)),
            None => Ok(made.into_any()),
        }
    }
}

/// The minutes of an offset such as `+02:00` or `-0530`.
fn offset_minutes(name: &str) -> Option<i32> {
    let sign = match name.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let digits: String = name[1..].chars().filter(|c| *c != ':').collect();
    if !digits.is_ascii() || !matches!(digits.len(), 2 | 4) {
        return None;
    }
    let hours: i32 = digits[..2].parse().ok()?;
    let minutes: i32 = if digits.len() == 4 { digits[2..].parse().ok()? } else { 0 };
    Some(sign * (hours * 60 + minutes))
}

fn int_attr(object: &Bound<'_, PyAny>, name: &Bound<'_, pyo3::types::PyString>) -> PyResult<i64> {
    object.getattr(name)?.extract()
}

/// Days since 1970-01-01 of a `date`.
pub fn days_of(date: &Bound<'_, PyAny>) -> PyResult<i32> {
    let ordinal: i64 = date.call_method0(intern!(date.py(), "toordinal"))?.extract()?;
    // Ordinals run from 1 to 3 652 059.
    Ok((ordinal - EPOCH_ORDINAL) as i32)
}

/// Microseconds since midnight of a `time` or of the time part of a `datetime`.
pub fn clock_us_of(time: &Bound<'_, PyAny>) -> PyResult<i64> {
    let py = time.py();
    let seconds = int_attr(time, intern!(py, "hour"))? * 3600
        + int_attr(time, intern!(py, "minute"))? * 60
        + int_attr(time, intern!(py, "second"))?;
    Ok(seconds * 1_000_000 + int_attr(time, intern!(py, "microsecond"))?)
}

/// Microseconds of a `timedelta`; an error beyond 292 000 years.
pub fn delta_us_of(delta: &Bound<'_, PyAny>) -> PyResult<i64> {
    let py = delta.py();
    let days = int_attr(delta, intern!(py, "days"))?;
    let rest = int_attr(delta, intern!(py, "seconds"))? * 1_000_000
        + int_attr(delta, intern!(py, "microseconds"))?;
    days.checked_mul(DAY_US)
        .and_then(|us| us.checked_add(rest))
        .ok_or_else(|| errors::new("DataError", "a timedelta is too long for microseconds"))
}

/// Whether a normal value is one of NumPy's, with nanoseconds.
pub fn is_numpy(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(value.get_type().module()?.to_str()? == "numpy")
}

/// Nanoseconds of a `timedelta`, of pandas or of NumPy; an error beyond 292 years.
pub fn delta_ns_of(delta: &Bound<'_, PyAny>) -> PyResult<i64> {
    match is_numpy(delta)? {
        true => numpy_units(delta),
        false => with_ns(delta_us_of(delta)?, delta, "nanoseconds"),
    }
}

/// The number of nanoseconds that a time or duration of NumPy is.
pub fn numpy_units(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    value.call_method1(intern!(value.py(), "astype"), ("int64",))?.extract()
}

/// Microseconds as nanoseconds, with those that pandas has beyond.
pub fn with_ns(us: i64, value: &Bound<'_, PyAny>, nanoseconds: &str) -> PyResult<i64> {
    let rest = match value.getattr_opt(nanoseconds)? {
        Some(rest) => rest.extract::<i64>()?,
        None => 0,
    };
    us.checked_mul(NANOS_OF_MICRO).and_then(|ns| ns.checked_add(rest)).ok_or_else(|| {
        let message = format!(
            "{value} does not go beside nanoseconds, which 64 bits have for the years 1678 to 2261"
        );
        errors::new("DataError", message)
    })
}

/// Microseconds since 1970-01-01 of a `datetime`, in UTC if it has a zone, and the zone's name.
pub fn instant_of(datetime: &Bound<'_, PyAny>) -> PyResult<(i64, Option<Arc<str>>)> {
    let py = datetime.py();
    let local = i64::from(days_of(datetime)?) * DAY_US + clock_us_of(datetime)?;
    let zone = datetime.getattr(intern!(py, "tzinfo"))?;
    if zone.is_none() {
        return Ok((local, None));
    }
    let offset = datetime.call_method0(intern!(py, "utcoffset"))?;
    if offset.is_none() {
        return Ok((local, None));
    }
    let offset = delta_us_of(&offset)?;
    Ok((local - offset, Some(zone_name(&zone, offset)?)))
}

/// The name Arrow knows a zone by: its IANA name, `UTC`, or its offset at that moment.
fn zone_name(zone: &Bound<'_, PyAny>, offset_us: i64) -> PyResult<Arc<str>> {
    let py = zone.py();
    for attribute in [intern!(py, "key"), intern!(py, "zone")] {
        if let Some(name) = zone.getattr_opt(attribute)?
            && let Ok(name) = name.extract::<String>()
        {
            return Ok(name.into());
        }
    }
    let minutes = offset_us / 60_000_000;
    if offset_us == 0 || offset_us % 60_000_000 != 0 {
        // An offset of odd seconds has no name in Arrow; the instant is kept.
        return Ok("UTC".into());
    }
    let sign = if minutes < 0 { '-' } else { '+' };
    Ok(format!("{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60).into())
}

/// The classes that Python values are told apart by, imported once.
pub struct Classes {
    /// `decimal.Decimal`.
    pub decimal: Py<PyAny>,
    /// `uuid.UUID`.
    pub uuid: Py<PyAny>,
    /// `swingdb.types.Interval`.
    pub interval: Py<PyAny>,
}

static CLASSES: PyOnceLock<Classes> = PyOnceLock::new();

/// The classes, imported at the first call.
pub fn classes(py: Python<'_>) -> PyResult<&Classes> {
    CLASSES.get_or_try_init(py, || {
        Ok(Classes {
            decimal: py.import("decimal")?.getattr("Decimal")?.unbind(),
            uuid: py.import("uuid")?.getattr("UUID")?.unbind(),
            interval: py.import("swingdb.types")?.getattr("Interval")?.unbind(),
        })
    })
}
