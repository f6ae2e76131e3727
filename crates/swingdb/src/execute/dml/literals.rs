//! Values written in a statement: literals and parameters straight to columns, without planning.
//!
//! `INSERT INTO t VALUES (...)` with literals and parameters is what programs run thousands of
//! times. Each cell becomes a [`ScalarValue`] of the type it is written in, and a column of cells
//! is converted at once by the rules of [`cast`](swingdb_common::cast). Everything else (function
//! calls, subqueries, casts) is left to the query engine.

use arrow::array::{ArrayRef, new_null_array};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field};
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::DataType::Double;
use datafusion::sql::sqlparser::ast::{CastKind, Expr, UnaryOperator, Value};
use swingdb_common::cast::convert::{Origin, convert_array};
use swingdb_common::error::{Error, Result};
use swingdb_common::time::zones::Zone;
use swingdb_sql::text::parameters::Params;

/// Most digits of an exact literal; longer ones are read as floating point.
const MAX_DECIMAL_DIGITS: usize = 38;

/// The value of a literal or a parameter that is to be stored as `to`; `None` for any other
/// expression.
pub(crate) fn literal(expr: &Expr, to: &DataType, params: &Params) -> Result<Option<ScalarValue>> {
    match expr {
        Expr::Value(value) => plain(&value.value, to, params),
        Expr::Nested(inner) => literal(inner, to, params),
        Expr::Cast { kind: CastKind::Cast, expr, data_type: Double(_), .. } => {
            Ok(double(expr).map(|value| ScalarValue::Float64(Some(value))))
        }
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => number_only(expr, to, ""),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => number_only(expr, to, "-"),
        _ => Ok(None),
    }
}

/// The number of `CAST('1e300' AS DOUBLE)`, which is what stands for `1e300`.
fn double(expr: &Expr) -> Option<f64> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(digits)
                if digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') =>
            {
                digits.parse().ok()
            }
            _ => None,
        },
        _ => None,
    }
}

fn number_only(expr: &Expr, to: &DataType, sign: &str) -> Result<Option<ScalarValue>> {
    match expr {
        Expr::Cast { kind: CastKind::Cast, expr, data_type: Double(_), .. } => {
            let signed = |value: f64| if sign.is_empty() { value } else { -value };
            Ok(double(expr).map(|value| ScalarValue::Float64(Some(signed(value)))))
        }
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => number(&format!("{sign}{digits}"), to).map(Some),
            _ => Ok(None),
        },
        _ => Ok(None),
    }
}

fn plain(value: &Value, to: &DataType, params: &Params) -> Result<Option<ScalarValue>> {
    Ok(Some(match value {
        Value::Null => ScalarValue::Null,
        Value::Boolean(value) => ScalarValue::Boolean(Some(*value)),
        Value::Number(digits, _) => number(digits, to)?,
        Value::SingleQuotedString(text)
        | Value::NationalStringLiteral(text)
        | Value::EscapedStringLiteral(text)
        | Value::UnicodeStringLiteral(text) => ScalarValue::Utf8View(Some(text.clone())),
        Value::DollarQuotedString(text) => ScalarValue::Utf8View(Some(text.value.clone())),
        Value::HexStringLiteral(digits) => ScalarValue::Binary(Some(hex(digits)?)),
        Value::Placeholder(name) => params.get(name)?.clone(),
        _ => return Ok(None),
    }))
}

/// A number as it is written: an integer, an exact decimal, or floating point.
fn number(text: &str, to: &DataType) -> Result<ScalarValue> {
    if let Ok(value) = text.parse::<i64>() {
        return Ok(ScalarValue::Int64(Some(value)));
    }
    if let Ok(value) = text.parse::<u64>() {
        return Ok(ScalarValue::UInt64(Some(value)));
    }
    if !to.is_floating()
        && let Some(decimal) = decimal(text)
    {
        return Ok(decimal);
    }
    match text.parse::<f64>() {
        Ok(value) => Ok(ScalarValue::Float64(Some(value))),
        Err(_) => Err(Error::Conversion { message: format!("{text} is no number"), column: None }),
    }
}

/// Digits with at most one point: no exponent, at most 38 digits.
fn decimal(text: &str) -> Option<ScalarValue> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = format!("{whole}{fraction}");
    let count = digits.trim_start_matches('-').len();
    if count == 0 || count > MAX_DECIMAL_DIGITS {
        return None;
    }
    let value: i128 = digits.parse().ok()?;
    let scale = i8::try_from(fraction.len()).ok()?;
    let precision = u8::try_from(count.max(fraction.len())).ok()?;
    Some(ScalarValue::Decimal128(Some(value), precision, scale))
}

fn hex(digits: &str) -> Result<Vec<u8>> {
    let odd =
        || Error::Conversion { message: format!("X'{digits}' is no byte string"), column: None };
    if !digits.is_ascii() || !digits.len().is_multiple_of(2) {
        return Err(odd());
    }
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| odd());
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// One column from its cells, converted to `to`.
pub(crate) fn column_of(
    cells: Vec<ScalarValue>,
    to: &Field,
    origin: Origin,
    zone: Zone,
) -> Result<ArrayRef> {
    let mut pieces: Vec<ArrayRef> = Vec::new();
    let mut done = 0;
    let mut cells = cells.into_iter().peekable();
    while cells.peek().is_some() {
        let run = take_run(&mut cells);
        let length = run.len();
        let array = array_of(run, to.data_type())?;
        pieces.push(convert_array(&array, to, origin.plus(done), zone)?);
        done += length as u64;
    }
    match pieces.as_slice() {
        [] => Ok(new_null_array(to.data_type(), 0)),
        [one] => Ok(ArrayRef::clone(one)),
        many => {
            let arrays: Vec<&dyn arrow::array::Array> = many.iter().map(AsRef::as_ref).collect();
            Ok(concat(&arrays)?)
        }
    }
}

/// The longest run of cells of one type; NULL literals belong to any.
fn take_run(cells: &mut std::iter::Peekable<std::vec::IntoIter<ScalarValue>>) -> Vec<ScalarValue> {
    let mut run = Vec::new();
    let mut kind: Option<DataType> = None;
    while let Some(cell) = cells.next_if(|cell| {
        let own = cell.data_type();
        own == DataType::Null || kind.as_ref().is_none_or(|kind| *kind == own)
    }) {
        let own = cell.data_type();
        if own != DataType::Null {
            kind = Some(own);
        }
        run.push(cell);
    }
    run
}

fn array_of(mut run: Vec<ScalarValue>, to: &DataType) -> Result<ArrayRef> {
    let kind = run.iter().map(ScalarValue::data_type).find(|kind| *kind != DataType::Null);
    let Some(kind) = kind else { return Ok(new_null_array(to, run.len())) };
    let null = ScalarValue::try_from(&kind)?;
    for cell in &mut run {
        if *cell == ScalarValue::Null {
            *cell = null.clone();
        }
    }
    Ok(ScalarValue::iter_to_array(run)?)
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Decimal128Array, Int32Array};
    use arrow::datatypes::Float64Type;

    use super::*;
    use swingdb_sql::ast::build::parse_expr;

    fn column(data_type: DataType) -> Field {
        Field::new("c", data_type, true)
    }

    fn value(sql: &str, to: DataType) -> Option<ScalarValue> {
        literal(&parse_expr(sql).unwrap(), &to, &Params::default()).unwrap()
    }

    #[test]
    fn literals_keep_what_is_written() {
        let int = DataType::Int32;
        assert_eq!(value("7", int.clone()), Some(ScalarValue::Int64(Some(7))));
        assert_eq!(value("-(7)", int.clone()), None);
        assert_eq!(value("- 7", int.clone()), Some(ScalarValue::Int64(Some(-7))));
        let least = value("-9223372036854775808", int.clone());
        assert_eq!(least, Some(ScalarValue::Int64(Some(i64::MIN))));
        let most = value("18446744073709551615", int.clone());
        assert_eq!(most, Some(ScalarValue::UInt64(Some(u64::MAX))));
        assert_eq!(value("2.50", int), Some(ScalarValue::Decimal128(Some(250), 3, 2)));
        let float = value("2.50", DataType::Float64);
        assert_eq!(float, Some(ScalarValue::Float64(Some(2.5))));
        assert_eq!(value(".5", DataType::Int32), Some(ScalarValue::Decimal128(Some(5), 1, 1)));
        let small = value("0.05", DataType::Int32);
        assert_eq!(small, Some(ScalarValue::Decimal128(Some(5), 3, 2)));
        assert_eq!(value("1e3", DataType::Int32), Some(ScalarValue::Float64(Some(1000.0))));
        let bytes = value("X'00fF'", DataType::Binary);
        assert_eq!(bytes, Some(ScalarValue::Binary(Some(vec![0, 255]))));
        assert_eq!(value("NULL", DataType::Int32), Some(ScalarValue::Null));
        assert_eq!(value("1 + 1", DataType::Int32), None);
        assert_eq!(value("now()", DataType::Int32), None);
    }

    #[test]
    fn a_column_of_mixed_cells() {
        let cells = vec![
            ScalarValue::Null,
            ScalarValue::Int64(Some(1)),
            ScalarValue::Null,
            ScalarValue::Utf8View(Some("2".into())),
            ScalarValue::Decimal128(Some(25), 2, 1),
        ];
        let utc = Zone::UTC;
        let array =
            column_of(cells.clone(), &column(DataType::Int32), Origin::rows(0), utc).unwrap();
        let expected = Int32Array::from(vec![None, Some(1), None, Some(2), Some(3)]);
        assert_eq!(array.as_ref(), &expected);
        let array = column_of(cells, &column(DataType::Float64), Origin::rows(0), utc).unwrap();
        assert_eq!(array.as_primitive::<Float64Type>().value(4), 2.5);
    }

    #[test]
    fn decimals_are_exact() {
        let cells = vec![ScalarValue::Decimal128(Some(123_456_789_012_345_678_905), 21, 2)];
        let to = DataType::Decimal128(38, 2);
        let array = column_of(cells, &column(to), Origin::rows(0), Zone::UTC).unwrap();
        let expected = Decimal128Array::from(vec![123_456_789_012_345_678_905]);
        assert_eq!(array.as_ref(), &expected.with_precision_and_scale(38, 2).unwrap());
    }

    #[test]
    fn an_error_names_the_row() {
        let cells = vec![ScalarValue::Int64(Some(1)), ScalarValue::Utf8View(Some("x".into()))];
        let to = column(DataType::Int32);
        let error = column_of(cells, &to, Origin::rows(5), Zone::UTC).unwrap_err();
        assert_eq!(error.to_string(), "column \"c\": row 7: 'x' is no valid INTEGER");
    }
}
