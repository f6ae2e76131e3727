//! The constant arguments of table functions that read files.

use arrow::array::{Array, ArrayRef};
use datafusion::common::{DataFusionError, ScalarValue};
use datafusion::logical_expr::Expr;
use swingdb_common::error::Error;

use crate::options::{FileFormat, ImportOptions, OptionValue};

/// The file names and the options of a call.
pub(crate) fn given(
    function: &str,
    format: FileFormat,
    args: &[Expr],
) -> datafusion::error::Result<(Vec<String>, ImportOptions)> {
    let usage = || {
        let text = format!(
            "{function} takes a file name or pattern, or a list of them, then options: \
             {function}('*.csv', option = value ...), {function}(['a.csv', 'b.csv'])"
        );
        DataFusionError::from(Error::plan(text))
    };
    let mut values = args.iter().skip(1).map(literal);
    let Some(paths) = args.first().and_then(paths) else { return Err(usage()) };
    let mut options = ImportOptions { format: Some(format), ..ImportOptions::default() };
    while let Some(name) = values.next() {
        let (Some(OptionValue::Text(name)), Some(Some(value))) = (name, values.next()) else {
            return Err(usage());
        };
        options.set(&name, &value).map_err(DataFusionError::from)?;
    }
    Ok((paths, options))
}

/// The file name, or the list of file names, that is the first argument.
pub(crate) fn paths(expr: &Expr) -> Option<Vec<String>> {
    match literal(expr)? {
        OptionValue::Text(path) => Some(vec![path]),
        OptionValue::List(paths) => Some(paths),
        _ => None,
    }
}

/// The texts of a list.
fn texts(list: &ScalarValue) -> Option<Vec<String>> {
    let list = match list {
        ScalarValue::List(list) => list.value(0),
        ScalarValue::LargeList(list) => list.value(0),
        ScalarValue::FixedSizeList(list) => list.value(0),
        _ => return None,
    };
    let text = |row| match ScalarValue::try_from_array(&list, row) {
        Ok(value) => value.try_as_str().flatten().map(str::to_string),
        Err(_) => None,
    };
    (0..list.len()).map(text).collect()
}

/// A constant argument.
pub(crate) fn literal(expr: &Expr) -> Option<OptionValue> {
    let value = match expr {
        Expr::Literal(value, _) => value.clone(),
        Expr::Negative(inner) => match literal(inner)? {
            OptionValue::Number(number) => return Some(OptionValue::Number(format!("-{number}"))),
            _ => return None,
        },
        _ => return None,
    };
    match &value {
        ScalarValue::Utf8(Some(text))
        | ScalarValue::LargeUtf8(Some(text))
        | ScalarValue::Utf8View(Some(text)) => Some(OptionValue::Text(text.clone())),
        ScalarValue::List(_) | ScalarValue::LargeList(_) | ScalarValue::FixedSizeList(_) => {
            texts(&value).map(OptionValue::List)
        }
        ScalarValue::Boolean(Some(flag)) => Some(OptionValue::Text(flag.to_string())),
        ScalarValue::Struct(fields) => {
            let text = |column: &ArrayRef| match ScalarValue::try_from_array(column, 0) {
                Ok(value) => value.try_as_str().flatten().map(str::to_string),
                Err(_) => None,
            };
            let pairs = fields.fields().iter().zip(fields.columns());
            let pairs = pairs.map(|(field, column)| Some((field.name().clone(), text(column)?)));
            Some(OptionValue::Map(pairs.collect::<Option<Vec<_>>>()?))
        }
        number if number.data_type().is_numeric() && !number.is_null() => {
            Some(OptionValue::Number(number.to_string()))
        }
        _ => None,
    }
}
