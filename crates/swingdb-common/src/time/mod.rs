//! The calendar, time zones, intervals, and dates and times as text.

pub mod calendar;
pub mod intervals;
pub mod texts;
pub mod zones;
