//! A report as JSON, with all curves: for plots, and for programs.

use std::fmt::Write;

use crate::probe::period::Period;
use crate::probe::run::Report;

impl Report {
    /// One JSON object on one line: `profile` (as in the saved file; `null` for what was not
    /// found), `engine`, `bytes`, `seconds`, `offsets` and `strides` (the curves, in nanoseconds),
    /// `alone` and `together`.
    pub fn to_json(&self) -> String {
        let profile = self.profile.lines().into_iter().map(|(name, value)| {
            let value = if value == "none" { "null".to_owned() } else { value };
            format!("{}:{value}", text(name))
        });
        let offsets = self.offsets.iter().map(|sweep| {
            let curves = sweep.curves.iter().map(|curve| {
                let values = numbers(&curve.values);
                let noise = number(curve.noise);
                let bytes = curve.request_bytes;
                format!("{{\"request_bytes\":{bytes},\"noise_ns\":{noise},\"ns\":{values}}}")
            });
            format!(
                "{{\"step_bytes\":{},\"rounds\":{},\"period\":{},\"curves\":{}}}",
                sweep.step,
                sweep.rounds,
                period(sweep.period),
                list(curves)
            )
        });
        let strides = self.strides.iter().map(|sweep| {
            format!(
                "{{\"unit_bytes\":{},\"rounds\":{},\"period\":{},\"noise_ns\":{},\"ns\":{}}}",
                sweep.unit_bytes,
                sweep.rounds,
                period(sweep.period),
                number(sweep.curve.noise),
                numbers(&sweep.curve.values)
            )
        });
        let alone = self
            .speed
            .alone
            .iter()
            .map(|&(bytes, ns)| format!("{{\"request_bytes\":{bytes},\"ns\":{}}}", number(ns)));
        let together = self.speed.together.iter().map(|t| {
            let (bytes, depth, ns) = (t.request_bytes, t.depth, number(t.request_ns));
            let noise = number(t.noise_ns);
            format!(
                "{{\"request_bytes\":{bytes},\"depth\":{depth},\"ns\":{ns},\"noise_ns\":{noise}}}"
            )
        });
        format!(
            "{{\"profile\":{{{}}},\"engine\":{},\"bytes\":{},\"seconds\":{},\"offsets\":{},\
             \"strides\":{},\"alone\":{},\"together\":{}}}",
            profile.collect::<Vec<_>>().join(","),
            text(&self.engine),
            self.bytes,
            number(self.time.as_secs_f64()),
            list(offsets),
            list(strides),
            list(alone),
            list(together)
        )
    }
}

fn period(period: Option<Period>) -> String {
    let Some(Period { steps, inner, p_value, share, effect }) = period else {
        return "null".to_owned();
    };
    let inner = inner.map_or_else(|| "null".to_owned(), |inner| inner.to_string());
    format!(
        "{{\"steps\":{steps},\"inner\":{inner},\"p_value\":{},\"share\":{},\"effect\":{}}}",
        number(p_value),
        number(share),
        number(effect)
    )
}

/// Four decimals are enough; what is no number is `null`.
fn number(value: f64) -> String {
    if value.is_finite() { format!("{}", (value * 1e4).round() / 1e4) } else { "null".to_owned() }
}

fn numbers(values: &[f64]) -> String {
    list(values.iter().map(|&value| number(value.round())))
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

fn text(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control < ' ' => {
                // Writing to a string does not fail.
                let _ = write!(quoted, "\\u{:04x}", control as u32);
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_numbers_are_json() {
        assert_eq!(text("a \"b\" \\ \n"), "\"a \\\"b\\\" \\\\ \\u000a\"");
        assert_eq!(numbers(&[1.4, 100_000.0, f64::NAN]), "[1,100000,null]");
        assert_eq!((number(0.002), number(1.23456)), ("0.002".into(), "1.2346".into()));
        assert_eq!(period(None), "null");
    }
}
