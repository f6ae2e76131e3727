//! Formats of dates and times, as `strftime` and `strptime` take them.

use datafusion::common::{Result, exec_err};

pub(super) const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// A part of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// White space, of any length.
    Space,
    Text(char),
    /// A specifier.
    Part(char),
}

/// A format to read by. `%-d` reads what `%d` does; `%c`, `%x` and `%X` are those of ISO 8601.
pub(super) fn items(format: &str) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    let mut given = format.chars();
    while let Some(char) = given.next() {
        if char.is_ascii_whitespace() {
            if items.last() != Some(&Item::Space) {
                items.push(Item::Space);
            }
            continue;
        }
        if char != '%' {
            items.push(Item::Text(char));
            continue;
        }
        let mut part = given.next();
        if part == Some('-') {
            part = given.next();
        }
        match part {
            Some('%') => items.push(Item::Text('%')),
            Some('c') => items.extend(self::items("%Y-%m-%d %H:%M:%S")?),
            Some('x') => items.extend(self::items("%Y-%m-%d")?),
            Some('X') => items.extend(self::items("%H:%M:%S")?),
            Some(part) if part.is_ascii_alphabetic() => items.push(Item::Part(part)),
            _ => return exec_err!("'{format}' is no format of dates and times"),
        }
    }
    Ok(items)
}

/// A format to write in, as the engine's library takes it: `%f`, `%g` and `%n` are the micro-,
/// milli- and nanoseconds with all their digits; `%c`, `%x` and `%X` are those of ISO 8601.
pub(super) fn to_write(format: &str) -> String {
    let mut text = String::with_capacity(format.len() + 4);
    let mut given = format.chars();
    while let Some(char) = given.next() {
        if char != '%' {
            text.push(char);
            continue;
        }
        match given.next() {
            Some('f') => text.push_str("%6f"),
            Some('g') => text.push_str("%3f"),
            Some('n') => text.push_str("%9f"),
            Some('c') => text.push_str("%Y-%m-%d %H:%M:%S"),
            Some('x') => text.push_str("%Y-%m-%d"),
            Some('X') => text.push_str("%H:%M:%S"),
            other => text.extend(std::iter::once('%').chain(other)),
        }
    }
    text
}
