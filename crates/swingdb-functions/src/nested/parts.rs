//! JSON and UUIDs inside of lists, structs and maps: `CAST(x AS JSON[])`, `x::MAP(UUID, INT)`.
//!
//! The engine's types say text there. A cast to such a type is written as a call of [`AS_PARTS`]
//! around it, with the places of JSON and UUIDs as a second argument: `[j` for a list of JSON,
//! `{1u}` for a STRUCT whose second field is a UUID, `(uj)` for a MAP of UUIDs to JSON; `-` is any
//! other type. What is no JSON or UUID is an error, and NULL in a TRY_CAST.

use std::iter::Peekable;
use std::str::Chars;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, GenericListArray, OffsetSizeTrait, StructArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, lit,
};
use datafusion::sql::sqlparser::ast::{ArrayElemTypeDef, DataType as SqlType};
use swingdb_common::cast::maps;
use swingdb_common::uuid;

use crate::json::to_json::checked_json;

/// What a cast to a type with JSON or UUIDs in it is written in.
pub const AS_PARTS: &str = "as_parts";
/// The same of TRY_CAST.
pub const TRY_AS_PARTS: &str = "try_as_parts";

/// Where JSON and UUIDs are in a nested type; `None` where they are nowhere, or all of it.
pub fn places(sql_type: &SqlType) -> Option<String> {
    let text = match sql_type {
        SqlType::JSON | SqlType::JSONB | SqlType::Uuid => return None,
        nested => place(nested),
    };
    text.contains(['j', 'u']).then_some(text)
}

fn place(sql_type: &SqlType) -> String {
    match sql_type {
        SqlType::JSON | SqlType::JSONB => "j".to_string(),
        SqlType::Uuid => "u".to_string(),
        SqlType::Array(
            ArrayElemTypeDef::AngleBracket(inner)
            | ArrayElemTypeDef::Parenthesis(inner)
            | ArrayElemTypeDef::SquareBracket(inner, _),
        ) => format!("[{}", place(inner)),
        SqlType::Struct(fields, _) | SqlType::Tuple(fields) => {
            let places = fields.iter().enumerate().map(|(at, f)| (at, place(&f.field_type)));
            let places = places.filter(|(_, place)| place.contains(['j', 'u']));
            let places = places.map(|(at, place)| format!("{at}{place}"));
            format!("{{{}}}", places.collect::<String>())
        }
        SqlType::Map(key, value) => format!("({}{})", place(key), place(value)),
        SqlType::Nullable(inner) => place(inner),
        _ => "-".to_string(),
    }
}

/// All functions of this module.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    [(AS_PARTS, false), (TRY_AS_PARTS, true)].into_iter().map(|(name, safe)| {
        let signature = Signature::any(2, Volatility::Immutable);
        ScalarUDF::new_from_impl(AsParts { name, safe, signature })
    })
}

/// A value with UUIDs in canonical form at places.
pub fn as_parts(value: Expr, places: &str) -> Expr {
    let signature = Signature::any(2, Volatility::Immutable);
    let function = AsParts { name: AS_PARTS, safe: false, signature };
    ScalarUDF::new_from_impl(function).call(vec![value, lit(places)])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct AsParts {
    name: &'static str,
    safe: bool,
    signature: Signature,
}

impl ScalarUDFImpl for AsParts {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [given, _] => Ok(given.clone()),
            _ => plan_err!("{} takes a value and places", self.name),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = crate::args::returned(self, &args)?;
        let places = args.scalar_arguments.get(1).copied().flatten();
        let places = places.and_then(|places| places.try_as_str().flatten());
        Ok(Arc::new(match places {
            Some(places) if places.contains('u') => uuid::with_places(field, places),
            _ => field,
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value, ColumnarValue::Scalar(places)] = args.args.as_slice() else {
            return plan_err!("{} takes a value and places", self.name);
        };
        let Some(Some(places)) = places.try_as_str() else {
            return plan_err!("{} takes places as a text", self.name);
        };
        let array = match value {
            ColumnarValue::Array(array) => Arc::clone(array),
            ColumnarValue::Scalar(value) => value.to_array()?,
        };
        let found = Walk { places: places.chars().peekable(), safe: self.safe }.part(&array)?;
        Ok(match value {
            ColumnarValue::Array(_) => ColumnarValue::Array(found),
            ColumnarValue::Scalar(_) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?)
            }
        })
    }
}

/// Goes through values and the places of their type at once.
struct Walk<'a> {
    places: Peekable<Chars<'a>>,
    safe: bool,
}

impl Walk<'_> {
    fn part(&mut self, array: &ArrayRef) -> Result<ArrayRef> {
        match (self.places.next(), array.data_type()) {
            (Some('-'), _) => Ok(Arc::clone(array)),
            (Some('j'), text) if text.is_string() => checked_json(array, self.safe),
            (Some('u'), text) if text.is_string() => {
                Ok(cast(&uuid::canonical(array, self.safe)?, text)?)
            }
            (Some('['), DataType::List(item)) => self.list(array.as_list::<i32>(), item),
            (Some('['), DataType::LargeList(item)) => self.list(array.as_list::<i64>(), item),
            (Some('['), DataType::FixedSizeList(item, length)) => {
                let list = array.as_fixed_size_list();
                let values = self.part(list.values())?;
                let nulls = list.nulls().cloned();
                Ok(Arc::new(FixedSizeListArray::try_new(item.clone(), *length, values, nulls)?))
            }
            (Some('{'), DataType::Struct(fields)) => {
                let mut columns = array.as_struct().columns().to_vec();
                while let Some(at) = self.number() {
                    let Some(column) = columns.get_mut(at) else {
                        return internal_err!("a STRUCT of fewer fields");
                    };
                    *column = self.part(column)?;
                }
                let (nulls, rows) = (array.nulls().cloned(), array.len());
                Ok(Arc::new(StructArray::try_new_with_length(
                    fields.clone(),
                    columns,
                    nulls,
                    rows,
                )?))
            }
            (Some('('), to @ DataType::Map(..)) => {
                let map = array.as_map();
                let (keys, values) = (self.part(map.keys())?, self.part(map.values())?);
                self.places.next();
                Ok(maps::with_parts(map, &keys, &values, to, self.safe)?)
            }
            (place, other) => internal_err!("places of another type: {place:?} of {other}"),
        }
    }

    /// The number of a field; `None` behind the last one.
    fn number(&mut self) -> Option<usize> {
        let mut number = None;
        while let Some(digit) = self.places.peek().and_then(|char| char.to_digit(10)) {
            self.places.next();
            number = Some(number.unwrap_or(0) * 10 + digit as usize);
        }
        if number.is_none() {
            self.places.next();
        }
        number
    }

    fn list<O: OffsetSizeTrait>(
        &mut self,
        list: &GenericListArray<O>,
        item: &Arc<Field>,
    ) -> Result<ArrayRef> {
        let values = self.part(list.values())?;
        let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
        Ok(Arc::new(GenericListArray::try_new(Arc::clone(item), offsets, values, nulls)?))
    }
}
