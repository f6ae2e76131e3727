//! Functions of dates, times and intervals.

pub mod age;
pub mod buckets;
pub mod clock;
pub mod extracted;
pub mod formats;
pub mod made;
pub mod minutes;
pub mod parts;
pub mod points;
pub mod seconds;
pub mod series;
pub mod spans;
pub mod strftime;
pub mod strptime;
pub mod to_char;
pub mod truncation;
pub mod units;
pub mod zones;
