//! What writes values as JSON: those of JSON files, and nested ones in CSV.

use std::sync::Arc;

use arrow::array::{Array, AsArray, PrimitiveArray, StringArray};
use arrow::datatypes::{ArrowPrimitiveType, DataType, FieldRef, Float32Type, Float64Type};
use arrow::error::ArrowError;
use arrow::json::WriterBuilder;
use arrow::json::writer::{Encoder, EncoderFactory, EncoderOptions, NullableEncoder};
use swingdb_common::time::intervals::interval_texts;
use swingdb_functions::json::to_json::map_encoder;

/// A writer of rows whose values are written as `to_json` writes them.
pub fn builder() -> WriterBuilder {
    WriterBuilder::new().with_explicit_nulls(true).with_encoder_factory(Arc::new(Special))
}

/// Writes as `to_json` does what the writer's own encoder writes otherwise: NaN and infinities,
/// which are no numbers in JSON, as strings, intervals as a cast to text does, and maps with keys
/// that are no texts.
#[derive(Debug)]
struct Special;

impl EncoderFactory for Special {
    fn make_default_encoder<'a>(
        &self,
        _field: &'a FieldRef,
        array: &'a dyn Array,
        options: &'a EncoderOptions,
    ) -> std::result::Result<Option<NullableEncoder<'a>>, ArrowError> {
        let encoder: Option<Box<dyn Encoder + 'a>> = match array.data_type() {
            DataType::Float32 => odd(array.as_primitive::<Float32Type>()),
            DataType::Float64 => odd(array.as_primitive::<Float64Type>()),
            DataType::Interval(_) | DataType::Duration(_) => {
                interval_texts(array).map(|texts| Box::new(Spans(texts)) as _)
            }
            _ => return map_encoder(array, options),
        };
        Ok(encoder.map(|encoder| NullableEncoder::new(encoder, array.nulls().cloned())))
    }
}

/// Intervals as text, in which nothing needs more than quotes.
struct Spans(StringArray);

impl Encoder for Spans {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        out.push(b'"');
        out.extend_from_slice(self.0.value(row).as_bytes());
        out.push(b'"');
    }
}

/// An encoder for an array with values that are no numbers.
fn odd<'a, T>(array: &'a PrimitiveArray<T>) -> Option<Box<dyn Encoder + 'a>>
where
    T: ArrowPrimitiveType,
    T::Native: Into<f64> + ryu::Float,
{
    let mut values = array.values().iter().map(|value| (*value).into());
    values.any(|value: f64| !value.is_finite()).then(|| Box::new(Odd(array)) as _)
}

struct Odd<'a, T: ArrowPrimitiveType>(&'a PrimitiveArray<T>);

impl<T> Encoder for Odd<'_, T>
where
    T: ArrowPrimitiveType,
    T::Native: Into<f64> + ryu::Float,
{
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let value = self.0.value(row);
        let wide: f64 = value.into();
        let text: &[u8] = match (wide.is_nan(), wide == f64::INFINITY, wide == f64::NEG_INFINITY) {
            (true, ..) => b"\"NaN\"",
            (_, true, _) => b"\"Infinity\"",
            (.., true) => b"\"-Infinity\"",
            _ => return out.extend_from_slice(ryu::Buffer::new().format_finite(value).as_bytes()),
        };
        out.extend_from_slice(text);
    }
}
