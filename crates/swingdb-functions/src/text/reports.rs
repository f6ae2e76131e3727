//! Functions for reports and scripts: `bar(x, min, max, width)`, `regexp_escape(text)`,
//! `error(message)`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use swingdb_common::error::Error;

/// Characters of a bar where nobody says how many.
const DEFAULT_WIDTH: f64 = 80.0;
const MAX_WIDTH: f64 = 1000.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// A number as a line, in a frame of a width.
    Bar,
    /// A regular expression for the text itself.
    Escape,
    /// Fails.
    Error,
}

/// All functions of this module.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    // A constant that fails would fail while a statement is planned, also where it is not reached.
    let all = [
        ("bar", Kind::Bar, Volatility::Immutable),
        ("regexp_escape", Kind::Escape, Volatility::Immutable),
        ("error", Kind::Error, Volatility::Volatile),
    ];
    all.into_iter().map(|(name, kind, volatility)| {
        let signature = match kind {
            Kind::Bar => Signature::variadic_any(volatility),
            Kind::Escape | Kind::Error => Signature::any(1, volatility),
        };
        ScalarUDF::new_from_impl(OfReports { name, kind, signature })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfReports {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

impl ScalarUDFImpl for OfReports {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let is_number = |given: &DataType| given.is_numeric() || given.is_null();
        let is_text = |given: &DataType| given.is_string() || given.is_null();
        match self.kind {
            Kind::Bar if !(3..=4).contains(&types.len()) || !types.iter().all(is_number) => {
                plan_err!("bar takes a number, the least, the greatest and a width")
            }
            Kind::Escape | Kind::Error if !types.iter().all(is_text) => {
                plan_err!("{} takes a text", self.name)
            }
            Kind::Error => Ok(DataType::Null),
            Kind::Bar | Kind::Escape => Ok(DataType::Utf8View),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let columns = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let found = match (self.kind, columns.as_slice()) {
            (Kind::Bar, columns) => bars(columns)?,
            (Kind::Escape, [texts]) => escaped(texts)?,
            (Kind::Error, [messages]) => failed(messages, &args)?,
            _ => return plan_err!("{} takes one value", self.name),
        };
        crate::args::as_given(&args, found)
    }
}

/// The error of the first message; where there is none nothing.
fn failed(messages: &ArrayRef, args: &ScalarFunctionArgs) -> Result<ArrayRef> {
    let texts = cast(messages, &DataType::Utf8View)?;
    let first = texts.as_string_view().iter().flatten().next().filter(|_| args.number_rows > 0);
    match first {
        Some(message) => {
            Err(Error::Conversion { message: message.to_string(), column: None }.into())
        }
        None => ScalarValue::Null.to_array_of_size(messages.len()),
    }
}

fn escaped(texts: &ArrayRef) -> Result<ArrayRef> {
    let texts = cast(texts, &DataType::Utf8View)?;
    let one = |text: &str| {
        let mut escaped = String::with_capacity(text.len() * 2);
        for char in text.chars() {
            if char.is_ascii() && !char.is_ascii_alphanumeric() && char != '_' {
                escaped.push('\\');
            }
            escaped.push(char);
        }
        escaped
    };
    let escaped = texts.as_string_view().iter().map(|text| text.map(one));
    Ok(Arc::new(escaped.collect::<StringViewArray>()))
}

fn bars(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let numbers = columns.iter().map(|column| cast(column, &DataType::Float64));
    let numbers = numbers.collect::<std::result::Result<Vec<_>, _>>()?;
    let numbers = numbers.iter().map(|column| column.as_primitive::<Float64Type>());
    let numbers = numbers.collect::<Vec<_>>();
    let rows = columns.first().map_or(0, |column| column.len());
    let one = |row: usize| {
        let given = numbers.iter().map(|column| column.is_valid(row).then(|| column.value(row)));
        let Some(given) = given.collect::<Option<Vec<_>>>() else { return Ok(None) };
        let [number, least, greatest] = [given[0], given[1], given[2]];
        bar(number, least, greatest, given.get(3).copied().unwrap_or(DEFAULT_WIDTH)).map(Some)
    };
    Ok(Arc::new((0..rows).map(one).collect::<Result<StringViewArray>>()?))
}

/// Full blocks, and one that is full to an eighth; then spaces.
fn bar(number: f64, least: f64, greatest: f64, width: f64) -> Result<String> {
    const PARTS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    if !(1.0..=MAX_WIDTH).contains(&width) {
        return exec_err!("bar: a width of {width}; it is 1 to {MAX_WIDTH}");
    }
    let share = match number {
        low if low <= least => 0.0,
        high if high >= greatest => 1.0,
        // Beside a NaN or an infinite bound it is NaN, of which nothing is shown.
        between => (between - least) / (greatest - least),
    };
    let eighths = (share * width * 8.0) as usize;
    let width = width as usize;
    let mut text = "█".repeat(eighths / 8);
    if let Some(part) = (eighths % 8).checked_sub(1) {
        text.push(PARTS[part]);
    }
    text.push_str(&" ".repeat(width.saturating_sub(eighths.div_ceil(8))));
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_of_eighths() {
        assert_eq!(bar(5.0, 0.0, 10.0, 10.0).unwrap(), "█████     ");
        assert_eq!(bar(7.3, 0.0, 10.0, 10.0).unwrap(), "███████▎  ");
        assert_eq!(bar(-1.0, 0.0, 10.0, 3.0).unwrap(), "   ");
        assert_eq!(bar(11.0, 0.0, 10.0, 3.0).unwrap(), "███");
        assert_eq!(bar(1.0, 0.0, 3.0, 4.9).unwrap(), "█▋  ");
        assert_eq!(bar(5.0, 5.0, 5.0, 2.0).unwrap(), "  ");
        assert_eq!(bar(6.0, 9.0, 5.0, 2.0).unwrap(), "  ");
        assert_eq!(bar(f64::INFINITY, 0.0, 1.0, 2.0).unwrap(), "██");
        assert_eq!(bar(1.0, f64::NAN, f64::INFINITY, 2.0).unwrap(), "  ");
        assert!(bar(1.0, 0.0, 10.0, 0.0).is_err() && bar(1.0, 0.0, 10.0, 1001.0).is_err());
    }
}
