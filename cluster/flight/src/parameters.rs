//! Values for prepared statements: [`Parameters`], read by [`rows_of`], and the types that a
//! statement expects: [`expected`].

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use arrow::ipc::root_as_message;
use arrow_flight::FlightData;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use arrow_flight::sql::server::PeekableFlightDataStream;
use futures::TryStreamExt;
use swingdb::plain_rows::plain_schema;
use swingdb::{ScalarValue, Value};
use tonic::Status;

use crate::status::of_database;

/// The most rows of parameters of one call.
const MAX_ROWS: usize = 100_000;

/// What the parameters of one call may take in memory.
const MAX_BYTES: usize = 128 << 20;
/// What a value takes whose elements lie elsewhere, beside them.
const NESTED_BYTES: usize = 256;

/// Rows of values, and what they take.
#[derive(Debug, Default)]
pub struct Parameters {
    /// The values of `$1`, `$2` and so on.
    pub rows: Vec<Vec<Value>>,
    /// Bytes in memory.
    pub bytes: usize,
}

impl Parameters {
    fn take(&mut self, bytes: usize) -> Result<(), Status> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > MAX_BYTES { Err(too_large()) } else { Ok(()) }
    }

    fn add(&mut self, batch: &RecordBatch) -> Result<(), Status> {
        if self.rows.len() + batch.num_rows() > MAX_ROWS {
            let message = format!("more than {MAX_ROWS} rows of parameters in one call");
            return Err(Status::resource_exhausted(message));
        }
        // Lists and the like go on lying in their batch.
        if batch.columns().iter().any(|column| column.data_type().is_nested()) {
            self.take(batch.get_array_memory_size())?;
        }
        for row in 0..batch.num_rows() {
            self.take(size_of::<Vec<Value>>())?;
            let mut values = Vec::with_capacity(batch.num_columns());
            for column in batch.columns() {
                let value = ScalarValue::try_from_array(column, row);
                let value = value.map_err(|error| of_database(&error.into()))?;
                self.take(bytes_of(&value))?;
                values.push(if value.is_null() { Value::Null } else { Value::Scalar(value) });
            }
            self.rows.push(values);
        }
        Ok(())
    }
}

/// What a value takes, without what it shares with its batch.
fn bytes_of(value: &ScalarValue) -> usize {
    use ScalarValue as S;
    let behind = match value {
        S::Utf8(Some(text)) | S::LargeUtf8(Some(text)) | S::Utf8View(Some(text)) => text.len(),
        S::Binary(Some(bytes))
        | S::LargeBinary(Some(bytes))
        | S::BinaryView(Some(bytes))
        | S::FixedSizeBinary(_, Some(bytes)) => bytes.len(),
        S::Dictionary(_, value) | S::RunEndEncoded(_, _, value) => bytes_of(value),
        value if value.data_type().is_nested() => NESTED_BYTES,
        _ => 0,
    };
    size_of::<Value>() + behind
}

/// The batches that a client sends.
pub fn batches_of(sent: PeekableFlightDataStream) -> FlightRecordBatchStream {
    let sent = sent.map_err(|status| FlightError::Tonic(Box::new(status)));
    // A message may have a command only.
    let sent = sent.try_filter(|data| std::future::ready(!data.data_header.is_empty()));
    let mut dictionaries = 0;
    let sent = sent.and_then(move |data| {
        let checked = check(&data, &mut dictionaries);
        let checked = checked.map_err(|status| FlightError::Tonic(Box::new(status)));
        std::future::ready(checked.map(|()| data))
    });
    FlightRecordBatchStream::new_from_flight_data(sent)
}

/// The values that a client sends.
pub async fn rows_of(sent: PeekableFlightDataStream) -> Result<Parameters, Status> {
    let mut batches = batches_of(sent);
    let mut parameters = Parameters::default();
    while let Some(batch) = batches.try_next().await? {
        parameters.add(&batch)?;
    }
    Ok(parameters)
}

/// Refuses what could take much more memory than its message: compressed buffers, since what they
/// become is known only afterwards, and dictionaries without end, which are kept up to the end of
/// the call. `dictionaries` counts the bytes of those that came before.
fn check(data: &FlightData, dictionaries: &mut usize) -> Result<(), Status> {
    // What is no message, the decoder says better.
    let Ok(message) = root_as_message(&data.data_header) else { return Ok(()) };
    let dictionary = message.header_as_dictionary_batch();
    if dictionary.is_some() {
        *dictionaries = dictionaries.saturating_add(data.data_body.len());
        if *dictionaries > MAX_BYTES {
            return Err(too_large());
        }
    }
    let dictionary = dictionary.and_then(|dictionary| dictionary.data());
    let batch = message.header_as_record_batch().or(dictionary);
    match batch.is_some_and(|batch| batch.compression().is_some()) {
        true => Err(Status::unimplemented("rows are not taken in compressed batches")),
        false => Ok(()),
    }
}

fn too_large() -> Status {
    let most = MAX_BYTES >> 20;
    Status::resource_exhausted(format!(
        "more than {most} MiB of parameters or dictionaries in one call"
    ))
}

/// The columns that a client is to send; the type of one of which nothing is known is null.
pub fn expected(types: Vec<Option<FieldRef>>) -> Schema {
    let field = |(place, known): (usize, Option<FieldRef>)| {
        let of = known.map_or(DataType::Null, |field| field.data_type().clone());
        Arc::new(Field::new((place + 1).to_string(), of, true))
    };
    let fields = types.into_iter().enumerate().map(field).collect::<Vec<_>>();
    plain_schema(&Schema::new(fields))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{DictionaryArray, Int32Array, Int64Array, ListArray, StringArray};
    use arrow::buffer::OffsetBuffer;
    use arrow::ipc::CompressionType;
    use arrow::ipc::writer::IpcWriteOptions;
    use arrow_flight::encode::{DictionaryHandling, FlightDataEncoderBuilder};

    #[test]
    fn rows_become_values_and_types_plain() {
        let batch = RecordBatch::try_from_iter([
            ("1", Arc::new(Int64Array::from(vec![Some(7), None])) as _),
            ("2", Arc::new(StringArray::from(vec!["a", "b"])) as _),
        ]);
        let batch = batch.unwrap();
        let text = |text: &str| Value::Scalar(ScalarValue::Utf8(Some(text.to_string())));
        let seven = Value::Scalar(ScalarValue::Int64(Some(7)));
        let mut parameters = Parameters::default();
        parameters.add(&batch).unwrap();
        assert_eq!(parameters.rows, [vec![seven, text("a")], vec![Value::Null, text("b")]]);
        let known = Some(Arc::new(Field::new("x", DataType::Utf8View, false)));
        let schema = expected(vec![known, None]);
        assert_eq!(schema.field(0).data_type(), &DataType::Utf8);
        assert_eq!(schema.field(1).data_type(), &DataType::Null);
    }

    #[test]
    fn parameters_have_a_limit_of_bytes() {
        let words = StringArray::from(vec!["x".repeat(1 << 20)]);
        let keys = Int32Array::from(vec![0; 1000]);
        let texts = DictionaryArray::new(keys, Arc::new(words));
        let batch = RecordBatch::try_from_iter([("1", Arc::new(texts) as _)]).unwrap();
        // Short as it is sent, long as values.
        assert!(batch.get_array_memory_size() < 4 << 20);
        let mut parameters = Parameters::default();
        let error = parameters.add(&batch).unwrap_err();
        assert_eq!(error.code(), tonic::Code::ResourceExhausted);
        assert!(parameters.rows.len() < 200 && error.message().contains("128 MiB"), "{error}");
        // Lists share what they were sent in: it is counted once.
        let items = Arc::new(Int32Array::from(vec![1; 1 << 20]));
        let field = Arc::new(Field::new("item", DataType::Int32, true));
        let offsets = OffsetBuffer::from_lengths(vec![1 << 10; 1 << 10]);
        let lists = ListArray::new(field, offsets, items, None);
        let batch = RecordBatch::try_from_iter([("1", Arc::new(lists) as _)]).unwrap();
        let mut parameters = Parameters::default();
        parameters.add(&batch).unwrap();
        assert!((4 << 20..8 << 20).contains(&parameters.bytes), "{}", parameters.bytes);
        let rows = vec![0_i64; MAX_ROWS + 1];
        let batch = RecordBatch::try_from_iter([("1", Arc::new(Int64Array::from(rows)) as _)]);
        assert!(Parameters::default().add(&batch.unwrap()).is_err());
    }

    #[tokio::test]
    async fn messages_cannot_become_much_larger() {
        let texts = StringArray::from(vec!["x".repeat(1 << 20)]);
        let texts = DictionaryArray::new(Int32Array::from(vec![0]), Arc::new(texts));
        let batch = RecordBatch::try_from_iter([("1", Arc::new(texts) as _)]).unwrap();
        for compression in [None, Some(CompressionType::LZ4_FRAME)] {
            let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
            let sent = FlightDataEncoderBuilder::new()
                .with_options(options)
                .with_dictionary_handling(DictionaryHandling::Resend)
                .build(futures::stream::iter([Ok(batch.clone())]));
            let sent = sent.try_collect::<Vec<_>>().await.unwrap();
            let mut dictionaries = 0;
            let mut check = |data| check(data, &mut dictionaries);
            if compression.is_some() {
                let error = sent.iter().find_map(|data| check(data).err()).unwrap();
                assert_eq!(error.code(), tonic::Code::Unimplemented);
                continue;
            }
            assert!(sent.iter().all(|data| check(data).is_ok()));
            let error = (0..200).find_map(|_| sent.iter().find_map(|data| check(data).err()));
            assert_eq!(error.unwrap().code(), tonic::Code::ResourceExhausted);
        }
    }
}
