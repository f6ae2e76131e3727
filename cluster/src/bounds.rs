//! Bounds of range cuts, as they are kept: [`settled`].
//!
//! A bound is an SQL expression, and each session computes its value. So it is kept in a form that
//! means one value: in all sessions, whatever their time zones are, and at any time.

use arrow::datatypes::FieldRef;
use datafusion::common::ScalarValue;
use swingdb::cutter::{Kind, words};
use swingdb::field_type;

use crate::cut::is_ascending;
use crate::error::{Error, Result};
use crate::session::Session;

/// The bounds of a table's cut in that form; `field` is the column of the cut. As the session means
/// them now: in its time zone.
pub(crate) fn settled(
    session: &Session,
    table: &str,
    field: &FieldRef,
    bounds: &[String],
) -> Result<Vec<String>> {
    let wrong = |message| Err(Error::Table { table: table.to_string(), message });
    let wanted = field_type(field);
    let (mut texts, mut values) = (Vec::new(), Vec::<ScalarValue>::new());
    for bound in bounds {
        let text = session.value(&format!("SELECT CAST(CAST({bound} AS {wanted}) AS VARCHAR)"))?;
        let Some(Some(text)) = text.try_as_str() else {
            return wrong(format!("the bound {bound} of its cut is NULL"));
        };
        let kept = match is_literal(bound, text) {
            true => bound.clone(),
            false => format!("CAST('{}' AS {wanted})", text.replace('\'', "''")),
        };
        values.push(session.value(&format!("SELECT CAST({kept} AS {wanted})"))?);
        texts.push(kept);
    }
    match is_ascending(&values)? {
        true => Ok(texts),
        false => wrong(format!("the bounds {} of its cut do not ascend", bounds.join(", "))),
    }
}

/// Whether a bound is just the text of its value: a number, or a string that a type may precede.
fn is_literal(bound: &str, text: &str) -> bool {
    let quoted = format!("'{}'", text.replace('\'', "''"));
    let all = words(bound).collect::<Vec<_>>();
    match all.as_slice() {
        [only] if only.text == quoted => true,
        [kind, last] if kind.kind == Kind::Word && last.text == quoted => true,
        _ => bound.trim() == text && text.parse::<f64>().is_ok_and(f64::is_finite),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_mean_their_text() {
        for (bound, text, is) in [
            ("10", "10", true),
            (" -2.5", "-2.5", true),
            ("'a''b'", "a'b", true),
            ("DATE '2024-01-01'", "2024-01-01", true),
            ("'2024-01-01'", "2024-01-01 00:00:00+00", false),
            ("10", "10.00", false),
            ("5 + 5", "10", false),
            ("x", "x", false),
            ("'now'", "2024-01-01", false),
        ] {
            assert_eq!(is_literal(bound, text), is, "{bound}");
        }
    }
}
