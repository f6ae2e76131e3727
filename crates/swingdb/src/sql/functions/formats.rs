//! Formats of dates and times, as `strftime` and `strptime` take them.

/// A format to read by, as the engine's library takes it: fractions behind a point have any length.
pub(super) fn to_read(format: &str) -> String {
    to_write(&format.replace(".%f", "%.f").replace(".%g", "%.f"))
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
