//! `INTERVAL '1 day 02:03:04.5'`: hours, minutes and seconds as a clock shows them.
//!
//! The engine reads numbers with units only: such a part becomes `2 hours 3 minutes 4.5 seconds`. A
//! sign is that of all three.

use datafusion::sql::sqlparser::ast::{DataType, Expr, Interval, Value, ValueWithSpan};

/// Rewrites the text of an interval, or that is cast to one.
pub(super) fn rewrite(expr: &mut Expr) {
    let text = match expr {
        Expr::Interval(Interval { value, leading_field: None, .. }) => value,
        Expr::Cast { expr, data_type: DataType::Interval { .. }, .. } => expr,
        _ => return,
    };
    if let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) = &mut **text
        && text.contains(':')
    {
        let words: Vec<_> = text.split_ascii_whitespace().map(in_units).collect();
        *text = words.join(" ");
    }
}

/// A word with units where it is a clock's; others as they are.
fn in_units(word: &str) -> String {
    let (sign, clock) = match word.strip_prefix('-') {
        Some(clock) => ("-", clock),
        None => ("", word.strip_prefix('+').unwrap_or(word)),
    };
    let parts: Vec<_> = clock.split(':').collect();
    let (hours, minutes, seconds) = match parts.as_slice() {
        [hours, minutes] => (*hours, *minutes, "0"),
        [hours, minutes, seconds] => (*hours, *minutes, *seconds),
        _ => return word.to_owned(),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let below_60 = |text: &str| text.len() <= 2 && digits(text) && text < "60";
    let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
    if !(digits(hours) && below_60(minutes) && below_60(whole) && digits(fraction)) {
        return word.to_owned();
    }
    format!("{sign}{hours} hours {sign}{minutes} minutes {sign}{seconds} seconds")
}

#[cfg(test)]
mod tests {
    use super::in_units;

    #[test]
    fn a_clocks_words_get_units() {
        assert_eq!(in_units("02:03:04.5"), "02 hours 03 minutes 04.5 seconds");
        assert_eq!(in_units("-100:00"), "-100 hours -00 minutes -0 seconds");
        assert_eq!(in_units("+1:5"), "1 hours 5 minutes 0 seconds");
        for same in ["1", "day", "1:60", "1:2:60", ":1", "1:", "a:b", "1:2:3:4", "1:2:3.", "1:-2"] {
            assert_eq!(in_units(same), same);
        }
    }
}
