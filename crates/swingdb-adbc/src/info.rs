//! What the database and the driver are: `get_info`.

use std::collections::HashSet;
use std::sync::Arc;

use adbc_core::constants::ADBC_VERSION_1_1_0;
use adbc_core::options::InfoCode;
use adbc_core::schemas::GET_INFO_SCHEMA;
use arrow::array::{
    ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, UInt32Array, UnionArray,
    new_empty_array,
};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

use crate::rows::{Reader, ready};

/// A value, in the member of the union that its kind has.
enum Info {
    Text(&'static str),
    Flag(bool),
    Number(i64),
}

/// Everything that is said; Arrow's version is that of its crates.
fn all() -> Vec<(InfoCode, Info)> {
    vec![
        (InfoCode::VendorName, Info::Text("SwingDB")),
        (InfoCode::VendorVersion, Info::Text(env!("CARGO_PKG_VERSION"))),
        (InfoCode::VendorSql, Info::Flag(true)),
        (InfoCode::VendorSubstrait, Info::Flag(false)),
        (InfoCode::DriverName, Info::Text("ADBC driver of SwingDB")),
        (InfoCode::DriverVersion, Info::Text(env!("CARGO_PKG_VERSION"))),
        (InfoCode::DriverArrowVersion, Info::Text(arrow::ARROW_VERSION)),
        (InfoCode::DriverAdbcVersion, Info::Number(i64::from(ADBC_VERSION_1_1_0))),
    ]
}

/// The values for some codes, or for all; a code that has none is left out.
pub(crate) fn reader(codes: Option<HashSet<InfoCode>>) -> Result<Reader, ArrowError> {
    let wanted = |code: &InfoCode| codes.as_ref().is_none_or(|codes| codes.contains(code));
    let said: Vec<_> = all().into_iter().filter(|(code, _)| wanted(code)).collect();
    let (mut texts, mut flags, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
    let (mut kinds, mut places): (Vec<i8>, Vec<i32>) = (Vec::new(), Vec::new());
    for (_, info) in &said {
        let (kind, place) = match info {
            Info::Text(text) => (0, push(&mut texts, *text)),
            Info::Flag(flag) => (1, push(&mut flags, *flag)),
            Info::Number(number) => (2, push(&mut numbers, *number)),
        };
        kinds.push(kind);
        places.push(place);
    }
    let schema = Arc::clone(&GET_INFO_SCHEMA);
    let DataType::Union(fields, _) = schema.field(1).data_type() else {
        return Err(ArrowError::SchemaError("the values of get_info are no union".to_string()));
    };
    let given: [ArrayRef; 3] = [
        Arc::new(StringArray::from(texts)),
        Arc::new(BooleanArray::from(flags)),
        Arc::new(Int64Array::from(numbers)),
    ];
    let children = fields.iter().map(|(kind, field)| {
        let given = usize::try_from(kind).ok().and_then(|kind| given.get(kind));
        given.map_or_else(|| new_empty_array(field.data_type()), Arc::clone)
    });
    let values =
        UnionArray::try_new(fields.clone(), kinds.into(), Some(places.into()), children.collect())?;
    let names = UInt32Array::from_iter_values(said.iter().map(|(code, _)| u32::from(code)));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(names), Arc::new(values)])?;
    Ok(ready(schema, vec![batch]))
}

/// Adds a value, and says where it is.
fn push<T>(values: &mut Vec<T>, value: T) -> i32 {
    values.push(value);
    // There are a dozen at most.
    i32::try_from(values.len() - 1).unwrap_or(i32::MAX)
}
