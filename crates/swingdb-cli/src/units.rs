//! Numbers for people: sizes, durations, counts, times.

use std::time::Duration;

/// `1.5 GiB`: three digits at most, binary units.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{n} B"),
        _ if value < 9.95 => format!("{value:.1} {}", UNITS[unit]),
        _ => format!("{value:.0} {}", UNITS[unit]),
    }
}

/// `1.234 s`, `12.3 ms`, `250 us`.
pub fn duration(time: Duration) -> String {
    let us = time.as_micros();
    match us {
        0..1000 => format!("{us} us"),
        1000..1_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        1_000_000..60_000_000 => format!("{:.3} s", us as f64 / 1e6),
        _ => format!("{} min {:.1} s", us / 60_000_000, (us % 60_000_000) as f64 / 1e6),
    }
}

/// `1 row`, `12 345 678 rows`.
pub fn rows(n: u64) -> String {
    if n == 1 { "1 row".to_string() } else { format!("{} rows", grouped(n)) }
}

/// Thin groups of three digits, read more easily and copied as one word by nobody: a space.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// How long ago a moment was, both in nanoseconds since 1970: `3 s`, `2 min`, `5 h`, `9 d`.
pub fn age(then_ns: u64, now_ns: u64) -> String {
    let seconds = now_ns.saturating_sub(then_ns) / 1_000_000_000;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let sizes = [0, 999, 1000, 1024, 10 << 10, 1 << 20, 1536 << 20, 1 << 50];
        let texts = sizes.map(bytes);
        let expected =
            ["0 B", "999 B", "1.0 KiB", "1.0 KiB", "10 KiB", "1.0 MiB", "1.5 GiB", "1.0 PiB"];
        assert_eq!(texts, expected);
        assert_eq!(duration(Duration::from_micros(250)), "250 us");
        assert_eq!(duration(Duration::from_micros(12_345)), "12.3 ms");
        assert_eq!(duration(Duration::from_millis(1234)), "1.234 s");
        assert_eq!(duration(Duration::from_secs(61)), "1 min 1.0 s");
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(1_234_567), "1 234 567");
        assert_eq!((rows(1), rows(1000)), ("1 row".into(), "1 000 rows".into()));
        let second = 1_000_000_000;
        assert_eq!(age(0, 90 * second), "90 s");
        assert_eq!(age(10, 5), "0 s");
        assert_eq!(age(0, 3 * 86_400 * second), "3 d");
    }
}
