//! JSON made of values: `to_json(x)`, `json_object('a', x, ...)`, `json_array(x, ...)`.
//!
//! Texts are strings, except those that [are JSON](mark): what functions of JSON made is put in as
//! it is. Times, durations and the like are strings, bytes are hexadecimal digits. Numbers that
//! JSON does not have are strings, `"NaN"`, so that what is made can always be read.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, MapArray, StringViewArray, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use arrow::error::ArrowError;
use arrow::json::writer::{EncoderOptions, NullableEncoder, make_encoder};
use arrow::json::{Encoder, EncoderFactory};
use datafusion::common::{Result, exec_datafusion_err, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};
use swingdb_common::cast::normalize::as_text;
use swingdb_common::error::Error;
use swingdb_common::time::intervals::interval_texts;
use swingdb_common::time::texts::{is_moment, moment_texts};

use crate::json::marks::{is_marked, mark};

/// Texts of one field as those of another, where only one of the two is JSON.
pub fn marked_as(expected: &Field, given: &Field, texts: &Expr) -> Option<Expr> {
    match (is_marked(expected), is_marked(given)) {
        (true, false) => Some(crate::json::paths::whole(texts.clone())),
        (false, true) => Some(unmarked(texts.clone())),
        _ => None,
    }
}

/// The same texts, which nobody takes for JSON or UUIDs.
pub fn unmarked(texts: Expr) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    ScalarUDF::new_from_impl(Unmarked { signature }).call(vec![texts])
}

/// The same text, which nobody takes for JSON.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Unmarked {
    signature: Signature,
}

impl ScalarUDFImpl for Unmarked {
    fn name(&self) -> &str {
        "json_text"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [given] => Ok(given.clone()),
            _ => plan_err!("{} takes one text", self.name()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [given] => Ok(given.clone()),
            _ => exec_err!("{} takes one text", self.name()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// Of one value; NULL for NULL.
    Value,
    /// Of one STRUCT.
    Row,
    /// Of one list.
    List,
    /// An object of keys and values in turn.
    Object,
    /// An array of the arguments.
    Array,
    /// What `CAST(x AS JSON)` is: text is JSON already, or an error, or NULL where that is `safe`.
    Cast { safe: bool },
}

/// Names of the functions.
const FUNCTIONS: &[(&str, Kind)] = &[
    ("to_json", Kind::Value),
    ("json_quote", Kind::Value),
    ("row_to_json", Kind::Row),
    ("array_to_json", Kind::List),
    ("json_object", Kind::Object),
    ("json_array", Kind::Array),
    (AS_JSON, Kind::Cast { safe: false }),
    (TRY_AS_JSON, Kind::Cast { safe: true }),
];

/// What `CAST(x AS JSON)` is written as.
pub const AS_JSON: &str = "as_json";
/// What `TRY_CAST(x AS JSON)` is written as.
pub const TRY_AS_JSON: &str = "try_as_json";

/// What `CAST(value AS JSON)` is, or TRY_CAST, where `safe`.
pub fn as_json(value: Expr, safe: bool) -> Expr {
    let name = if safe { TRY_AS_JSON } else { AS_JSON };
    let signature = Signature::any(1, Volatility::Immutable);
    let function = ToJson { name, kind: Kind::Cast { safe }, signature };
    ScalarUDF::new_from_impl(function).call(vec![value])
}

/// All functions of this module.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    FUNCTIONS.iter().map(|(name, kind)| {
        let volatility = Volatility::Immutable;
        let signature = match kind {
            Kind::Value | Kind::Row | Kind::List | Kind::Cast { .. } => {
                Signature::any(1, volatility)
            }
            Kind::Object | Kind::Array => Signature::one_of(
                vec![TypeSignature::Nullary, TypeSignature::VariadicAny],
                volatility,
            ),
        };
        ScalarUDF::new_from_impl(ToJson { name, kind: *kind, signature })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ToJson {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

impl ScalarUDFImpl for ToJson {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match (self.kind, types) {
            (Kind::Row, [given]) if !matches!(given, DataType::Struct(_) | DataType::Null) => {
                plan_err!("{} takes a STRUCT, not {given}", self.name)
            }
            (Kind::List, [given]) if !given.is_list() && !given.is_null() => {
                plan_err!("{} takes a list, not {given}", self.name)
            }
            (Kind::Object, types) if !types.len().is_multiple_of(2) => {
                plan_err!("{} takes keys and values in turn, and has a key too many", self.name)
            }
            (Kind::Object, types) => match types.iter().step_by(2).find(|key| !key.is_string()) {
                Some(other) => plan_err!("keys of {} are text, not {other}", self.name),
                None => Ok(DataType::Utf8View),
            },
            _ => Ok(DataType::Utf8View),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(mark(crate::args::returned(self, &args)?))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let columns = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let found = match (self.kind, columns.as_slice()) {
            (Kind::Cast { safe }, [given]) if given.data_type().is_string() => {
                checked(texts(given)?, safe)?
            }
            _ => self.rows(&columns, &args.arg_fields, rows)?,
        };
        crate::args::as_given(&args, Arc::new(found))
    }
}

/// Texts, all of which are JSON; NULL, where `safe`, for those that are none.
pub(crate) fn checked_json(given: &ArrayRef, safe: bool) -> Result<ArrayRef> {
    let found: ArrayRef = Arc::new(checked(texts(given)?, safe)?);
    Ok(cast(&found, given.data_type())?)
}

/// Texts, all of which are JSON.
fn checked(given: StringViewArray, safe: bool) -> Result<StringViewArray> {
    let is_json = |text: &str| crate::json::paths::check(text).is_ok();
    let wrong = given.iter().flatten().find_map(|t| Some((t, crate::json::paths::check(t).err()?)));
    match wrong {
        None => Ok(given),
        Some(_) if safe => Ok(given.iter().map(|text| text.filter(|t| is_json(t))).collect()),
        Some((text, error)) => {
            let message = format!("{text:?} is no JSON: {error}");
            Err(Error::Conversion { message, column: None }.into())
        }
    }
}

impl ToJson {
    fn rows(
        &self,
        columns: &[ArrayRef],
        fields: &[FieldRef],
        rows: usize,
    ) -> Result<StringViewArray> {
        let encoders = fields.iter().zip(columns).enumerate().map(|(place, (field, column))| {
            // A key is a string, also where it is JSON.
            let is_key = self.kind == Kind::Object && place % 2 == 0;
            make_encoder(field, column, if is_key { &PLAIN } else { &OPTIONS })
        });
        let mut encoders = encoders.collect::<Result<Vec<_>, ArrowError>>()?;
        let (mut made, mut text) = (StringViewBuilder::with_capacity(rows), Vec::new());
        for row in 0..rows {
            text.clear();
            match (self.kind, encoders.as_mut_slice()) {
                (Kind::Object, all) => self.object(all, row, &mut text)?,
                (Kind::Array, all) => array(all, row, &mut text),
                (_, [value]) if !value.is_null(row) => value.encode(row, &mut text),
                _ => {
                    made.append_null();
                    continue;
                }
            }
            let text = std::str::from_utf8(&text)
                .map_err(|error| exec_datafusion_err!("{}: {error}", self.name))?;
            made.try_append_value(text)?;
        }
        Ok(made.finish())
    }

    fn object(
        &self,
        pairs: &mut [NullableEncoder<'_>],
        row: usize,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        out.push(b'{');
        for (place, value) in pairs.iter_mut().enumerate() {
            match place {
                0 => {}
                _ if place % 2 == 0 => out.push(b','),
                _ => out.push(b':'),
            }
            if place % 2 == 0 && value.is_null(row) {
                return exec_err!("a key of {} is NULL", self.name);
            }
            or_null(value, row, out);
        }
        out.push(b'}');
        Ok(())
    }
}

fn array(values: &mut [NullableEncoder<'_>], row: usize, out: &mut Vec<u8>) {
    out.push(b'[');
    for (place, value) in values.iter_mut().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        or_null(value, row, out);
    }
    out.push(b']');
}

fn or_null(value: &mut NullableEncoder<'_>, row: usize, out: &mut Vec<u8>) {
    match value.is_null(row) {
        true => out.extend_from_slice(b"null"),
        false => value.encode(row, out),
    }
}

// ---- values -------------------------------------------------------------------------------------

/// How values are written: as a cast to VARCHAR writes them, where JSON has no such type.
static OPTIONS: LazyLock<EncoderOptions> =
    LazyLock::new(|| plain_options().with_encoder_factory(Arc::new(Special)));
/// The same without what [`Special`] does.
static PLAIN: LazyLock<EncoderOptions> = LazyLock::new(plain_options);

fn plain_options() -> EncoderOptions {
    EncoderOptions::default().with_explicit_nulls(true)
}

/// What `arrow` writes otherwise: texts that are JSON, timestamps, intervals, numbers that JSON
/// does not have, and maps of other keys than texts.
#[derive(Debug)]
struct Special;

impl EncoderFactory for Special {
    fn make_default_encoder<'a>(
        &self,
        field: &'a FieldRef,
        array: &'a dyn Array,
        options: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        let encoder: Box<dyn Encoder + 'a> = match array.data_type() {
            given if given.is_string() && is_marked(field) => Box::new(Json(texts(array)?)),
            given if given.is_floating() => {
                let numbers = cast(array, &DataType::Float64)?;
                if numbers.as_primitive::<Float64Type>().values().iter().all(|n| n.is_finite()) {
                    return Ok(None);
                }
                Box::new(Numbers { numbers, finite: make_encoder(field, array, &PLAIN)? })
            }
            given if is_moment(given) => match moment_texts(array) {
                Some(written) => Box::new(Plain(texts(&written)?)),
                None => return Ok(None),
            },
            DataType::Interval(_) | DataType::Duration(_) => match interval_texts(array) {
                Some(written) => Box::new(Plain(texts(&written)?)),
                None => return Ok(None),
            },
            _ => return map_encoder(array, options),
        };
        Ok(Some(NullableEncoder::new(encoder, array.nulls().cloned())))
    }
}

/// What writes maps whose keys are no texts, which `arrow` refuses: the keys as a cast to VARCHAR
/// writes them. `None` for all other values.
pub fn map_encoder<'a>(
    array: &'a dyn Array,
    options: &'a EncoderOptions,
) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
    let Some(map) = array.as_map_opt().filter(|map| !map.keys().data_type().is_string()) else {
        return Ok(None);
    };
    let encoder = Box::new(Map::new(map, options)?);
    Ok(Some(NullableEncoder::new(encoder, array.nulls().cloned())))
}

fn texts(array: &dyn Array) -> Result<StringViewArray, ArrowError> {
    Ok(cast(array, &DataType::Utf8View)?.as_string_view().clone())
}

/// Texts that are JSON. Where the engine has mixed them with others, as a UNION does, those are
/// strings.
struct Json(StringViewArray);

impl Encoder for Json {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let text = self.0.value(row);
        match crate::json::paths::check(text) {
            Ok(_) if text.contains([' ', '\t', '\n', '\r']) => {
                out.extend_from_slice(crate::json::paths::compact(text).as_bytes());
            }
            Ok(_) => out.extend_from_slice(text.as_bytes()),
            Err(_) => write_string(text, out),
        }
    }
}

fn write_string(text: &str, out: &mut Vec<u8>) {
    // A text cannot fail to be written into memory.
    let _ = serde_json::to_writer(out, text);
}

/// Texts that need nothing but quotes.
struct Plain(StringViewArray);

impl Encoder for Plain {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        out.push(b'"');
        out.extend_from_slice(self.0.value(row).as_bytes());
        out.push(b'"');
    }
}

/// Numbers of which some are not finite.
struct Numbers<'a> {
    numbers: ArrayRef,
    finite: NullableEncoder<'a>,
}

impl Encoder for Numbers<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        match self.numbers.as_primitive::<Float64Type>().value(row) {
            number if number.is_finite() => self.finite.encode(row, out),
            number if number.is_nan() => out.extend_from_slice(b"\"NaN\""),
            number if number > 0.0 => out.extend_from_slice(b"\"Infinity\""),
            _ => out.extend_from_slice(b"\"-Infinity\""),
        }
    }
}

/// Maps whose keys become texts.
struct Map<'a> {
    map: &'a MapArray,
    keys: StringViewArray,
    values: NullableEncoder<'a>,
}

impl<'a> Map<'a> {
    fn new(map: &'a MapArray, options: &'a EncoderOptions) -> Result<Self, ArrowError> {
        let value = match map.data_type() {
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(parts) => parts.get(1),
                _ => None,
            },
            _ => None,
        };
        let value = value.ok_or_else(|| ArrowError::JsonError("a map has no values".into()))?;
        let values = make_encoder(value, map.values().as_ref(), options)?;
        let keys = as_text(map.keys()).map_err(|error| ArrowError::ExternalError(error.into()))?;
        Ok(Self { map, keys: texts(&keys)?, values })
    }
}

impl Encoder for Map<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let offsets = self.map.value_offsets();
        let entries = offsets[row] as usize..offsets[row + 1] as usize;
        out.push(b'{');
        for (place, entry) in entries.enumerate() {
            if place > 0 {
                out.push(b',');
            }
            write_string(self.keys.value(entry), out);
            out.push(b':');
            or_null(&mut self.values, entry, out);
        }
        out.push(b'}');
    }
}
