//! Text with an exponent that is cast to a decimal: `'1.5e3'`, which the engine's cast does not
//! know, becomes `'1500'`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder};

/// Places before or behind the point beyond which no decimal has digits, with room to spare.
const MAX_PLACES: i64 = 200;

/// Texts without exponents.
pub(super) fn resolved(texts: ArrayRef) -> ArrayRef {
    let given = texts.as_string_view();
    let has_exponent = |text: &str| text.contains(['e', 'E']);
    if !given.iter().flatten().any(has_exponent) {
        return texts;
    }
    let mut made = StringViewBuilder::with_capacity(given.len());
    for text in given {
        match text.map(|text| (text, plain(text))) {
            None => made.append_null(),
            Some((_, Some(digits))) => made.append_value(digits),
            Some((text, None)) => made.append_value(text),
        }
    }
    Arc::new(made.finish())
}

/// A number without its exponent; `None` of other texts.
fn plain(text: &str) -> Option<String> {
    let text = text.trim();
    let (number, exponent) = text.split_once(['e', 'E'])?;
    let exponent: i64 = exponent.parse().ok()?;
    let (sign, number) = match number.strip_prefix('-') {
        Some(number) => ("-", number),
        None => ("", number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // Leading zeros are no places.
    let whole_zeros = whole.len() - whole.trim_start_matches('0').len();
    let point = (whole.len() as i64).saturating_add(exponent);
    if digits.bytes().all(|byte| byte == b'0') || point < -MAX_PLACES {
        return Some("0".to_string());
    }
    if point - whole_zeros as i64 > MAX_PLACES {
        return None;
    }
    let zeros = |count: i64| "0".repeat(usize::try_from(count).unwrap_or(0));
    let length = digits.len() as i64;
    Some(match usize::try_from(point) {
        Ok(at) if point < length => format!("{sign}0{}.{}", &digits[..at], &digits[at..]),
        Ok(_) => format!("{sign}{digits}{}", zeros(point - length)),
        Err(_) => format!("{sign}0.{}{digits}", zeros(-point)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_point_moves() {
        for (given, expected) in [
            ("1e3", "1000"),
            ("-1.5E+1", "-15"),
            (" +1234.56789e-1 ", "0123.456789"),
            (".1e3", "100"),
            ("5.8207660913467407e-11", "0.000000000058207660913467407"),
            ("1e-9999", "0"),
            ("00000e1", "0"),
            ("12e-2", "0.12"),
        ] {
            assert_eq!(plain(given).unwrap(), expected, "{given}");
        }
        for none in ["12", "1e", "e3", "1e3.5", "1x3e2", "1e9999", "--1e3", ".e1"] {
            assert_eq!(plain(none), None, "{none}");
        }
    }
}
