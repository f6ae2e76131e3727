//! Columns whose value is the same in all rows of a file: the keys of Hive folders
//! (`year=2026/month=03/part.parquet`), and the file's name.
//!
//! Keys are columns where all files have the same ones, unless the caller says otherwise. They come
//! behind the file's own columns, in the order of their names; a key that is also a column of the
//! file takes its place. Their types are BIGINT, DATE or TIMESTAMP where all values are such and
//! lose nothing, else VARCHAR.

use std::path::Component;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::array::RecordBatch;
use arrow::array::RecordBatchOptions;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use datafusion::common::ScalarValue;
use swingdb_common::error::{Error, ObjectKind, Result};

use crate::input::InputFile;
use crate::options::ImportOptions;
use crate::text::columns::{Column, Reading};
use crate::text::types::described;
use crate::text::values::{self, DateStyle};

/// What a folder is called whose rows have NULL for the key.
pub(crate) const NULL_FOLDER: &str = "__HIVE_DEFAULT_PARTITION__";

/// The columns, and for each file their values.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileColumns {
    fields: Vec<FieldRef>,
    values: Vec<Vec<ScalarValue>>,
}

/// Keys and values of a file's folders, by the name of the key.
type Keys = Vec<(String, Option<String>)>;

impl FileColumns {
    /// The columns that `files` have by where they lie, and by what the caller asks for.
    pub(crate) fn find(files: &[InputFile], options: &ImportOptions) -> Result<Self> {
        let mut columns = Self { fields: Vec::new(), values: vec![Vec::new(); files.len()] };
        if let Some(name) = &options.filename {
            let name = Field::new(name, DataType::Utf8View, false);
            let paths = files.iter().map(|file| file.path.to_string_lossy().into_owned());
            columns.add(name, paths.map(|path| ScalarValue::Utf8View(Some(path))));
        }
        let all: Vec<Keys> = files.iter().map(keys).collect();
        let Some(first) = all.first() else { return Ok(columns) };
        let same = |keys: &Keys| keys.iter().map(|(key, _)| key).eq(first.iter().map(|(k, _)| k));
        let unique = first.windows(2).all(|pair| !pair[0].0.eq_ignore_ascii_case(&pair[1].0));
        match (options.hive_partitioning, all.iter().position(|keys| !same(keys))) {
            (Some(false), _) => return Ok(columns),
            (Some(true), Some(other)) => {
                let message = "lies in folders with other keys than the first file";
                return Err(files[other].broken(message));
            }
            (Some(true), None) if !unique => {
                return Err(files[0].broken("lies in two folders of one key"));
            }
            (None, mismatch) if mismatch.is_some() || !unique => return Ok(columns),
            _ => {}
        }
        for (name, _) in &options.hive_types {
            if !first.iter().any(|(key, _)| key.eq_ignore_ascii_case(name)) {
                let known = first.iter().map(|(key, _)| key);
                return Err(Error::not_found(ObjectKind::Column, name.clone(), known));
            }
        }
        for (place, (key, _)) in first.iter().enumerate() {
            let texts: Vec<Option<&str>> =
                all.iter().map(|keys| keys[place].1.as_deref()).collect();
            let given = options.hive_types.iter().find(|(name, _)| key.eq_ignore_ascii_case(name));
            let (data_type, guessed) = match given {
                Some((_, data_type)) => (data_type.clone(), false),
                None if options.hive_types_autocast == Some(false) => (DataType::Utf8View, true),
                None => (type_of(&texts), true),
            };
            let values = values_of(&files[0], key, &texts, &data_type, guessed)?;
            columns.add(Field::new(key, data_type, true), values.into_iter());
        }
        Ok(columns)
    }

    /// Columns whose values the caller has as texts, one for each file.
    pub(crate) fn given(
        columns: Vec<(FieldRef, Vec<Option<&str>>)>,
        files: &[InputFile],
    ) -> Result<Self> {
        let mut all = Self { fields: Vec::new(), values: vec![Vec::new(); files.len()] };
        let Some(first) = files.first() else { return Ok(all) };
        for (field, texts) in columns {
            let values = values_of(first, field.name(), &texts, field.data_type(), false)?;
            all.add(Field::clone(&field), values.into_iter());
        }
        Ok(all)
    }

    fn add(&mut self, field: Field, values: impl Iterator<Item = ScalarValue>) {
        self.fields.push(Arc::new(field));
        self.values.iter_mut().zip(values).for_each(|(all, value)| all.push(value));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    pub(crate) fn fields(&self) -> &[FieldRef] {
        &self.fields
    }

    /// The values in the rows of a file.
    pub(crate) fn values(&self, file: usize) -> &[ScalarValue] {
        &self.values[file]
    }

    /// The columns whose names `wanted` takes.
    pub(crate) fn only(&self, wanted: impl Fn(&str) -> bool) -> Self {
        let places: Vec<usize> =
            (0..self.fields.len()).filter(|place| wanted(self.fields[*place].name())).collect();
        let of = |all: &Vec<ScalarValue>| places.iter().map(|place| all[*place].clone()).collect();
        Self {
            fields: places.iter().map(|place| Arc::clone(&self.fields[*place])).collect(),
            values: self.values.iter().map(of).collect(),
        }
    }
}

/// The keys of the folders that a file lies in.
fn keys(file: &InputFile) -> Keys {
    let folders = file.path.parent().into_iter().flat_map(|parent| parent.components());
    let mut keys: Keys = folders
        .filter_map(|folder| match folder {
            Component::Normal(name) => {
                let (key, value) = name.to_str()?.split_once('=')?;
                let value = (value != NULL_FOLDER).then(|| decoded(value));
                (!key.is_empty()).then(|| (decoded(key), value))
            }
            _ => None,
        })
        .collect();
    keys.sort_by(|(a, _), (b, _)| a.cmp(b));
    keys
}

/// Text in which `%20` and the like stand for bytes; as it is where it then is no text.
pub(crate) fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let digit = |at: usize| after.get(at).and_then(|byte| (*byte as char).to_digit(16));
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_string())
}

/// The narrowest type that loses nothing of any value.
fn type_of(texts: &[Option<&str>]) -> DataType {
    let all = |test: &dyn Fn(&[u8]) -> bool| {
        texts.iter().flatten().all(|text| test(text.as_bytes()))
            && texts.iter().any(Option::is_some)
    };
    let at = |text: &[u8]| values::date_time(text, DateStyle::Iso);
    let local = |text: &[u8]| {
        at(text).is_some_and(|at| at.offset_s.is_none() && at.instant(1_000_000).is_some())
    };
    match () {
        () if all(&|text| values::plain_integer(text).is_some()) => DataType::Int64,
        () if all(&|text| values::date(text, DateStyle::Iso).is_some()) => DataType::Date32,
        () if all(&local) => DataType::Timestamp(TimeUnit::Microsecond, None),
        () => DataType::Utf8View,
    }
}

fn values_of(
    file: &InputFile,
    key: &str,
    texts: &[Option<&str>],
    data_type: &DataType,
    guessed: bool,
) -> Result<Vec<ScalarValue>> {
    let mut column =
        Column::new(data_type, Reading { dates: DateStyle::Iso, guessed }, texts.len());
    for text in texts {
        column.push(*text).map_err(|_| {
            let text = text.unwrap_or_default();
            file.broken(&format!("folder key {key:?}: {text:?} is no {}", described(data_type)))
        })?;
    }
    let array =
        column.finish().map_err(|error| file.broken(&format!("folder key {key:?}: {error}")))?;
    let value = |row| ScalarValue::try_from_array(&array, row).map_err(Error::from);
    (0..texts.len()).map(value).collect()
}

/// A file's own columns, and those that it has by where it lies.
#[derive(Clone, Debug)]
pub(crate) struct Combined {
    schema: SchemaRef,
    sources: Vec<Source>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A column of the file.
    File(usize),
    /// One that the path of the file gives, of [`FileColumns`].
    Path(usize),
}

impl Combined {
    pub(crate) fn new(
        file: &SchemaRef,
        columns: &FileColumns,
        options: &ImportOptions,
    ) -> Result<Self> {
        let mut fields: Vec<FieldRef> = file.fields().to_vec();
        let mut sources: Vec<Source> = (0..fields.len()).map(Source::File).collect();
        for (place, field) in columns.fields().iter().enumerate() {
            let same = |other: &FieldRef| other.name().eq_ignore_ascii_case(field.name());
            let is_filename = options.filename.as_ref().is_some_and(|name| name == field.name());
            match fields.iter().position(same) {
                Some(_) if is_filename => {
                    return Err(Error::plan(format!(
                        "option filename adds column {0:?}, which the files have already; give \
                         another name: filename = 'name'",
                        field.name()
                    )));
                }
                Some(at) => {
                    fields[at] = Arc::clone(field);
                    sources[at] = Source::Path(place);
                }
                None => {
                    fields.push(Arc::clone(field));
                    sources.push(Source::Path(place));
                }
            }
        }
        Ok(Self { schema: Arc::new(Schema::new(fields)), sources })
    }

    /// All columns of the file, and behind them the others.
    pub(crate) fn appended(file: &SchemaRef, columns: &FileColumns) -> Self {
        let places = columns.fields().iter().cloned();
        let fields: Vec<FieldRef> = file.fields().iter().cloned().chain(places).collect();
        let sources = (0..file.fields().len()).map(Source::File);
        let sources = sources.chain((0..columns.fields().len()).map(Source::Path)).collect();
        Self { schema: Arc::new(Schema::new(fields)), sources }
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    pub(crate) fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// The columns `projection`, and those of the file that are needed for them.
    pub(crate) fn project(&self, projection: Option<&[usize]>) -> Result<(Self, Vec<usize>)> {
        let all: Vec<usize> = (0..self.sources.len()).collect();
        let projection = projection.unwrap_or(&all);
        let mut inner = Vec::new();
        let mut sources = Vec::new();
        for column in projection {
            sources.push(match self.sources[*column] {
                Source::File(at) => {
                    inner.push(at);
                    Source::File(inner.len() - 1)
                }
                place => place,
            });
        }
        let schema = Arc::new(self.schema.project(projection)?);
        Ok((Self { schema, sources }, inner))
    }

    /// A batch of a file with all columns.
    pub(crate) fn complete(
        &self,
        batch: &RecordBatch,
        values: &[ScalarValue],
    ) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let column = |source: &Source| -> Result<ArrayRef> {
            match source {
                Source::File(at) => Ok(Arc::clone(batch.column(*at))),
                Source::Path(at) => Ok(values[*at].to_array_of_size(rows)?),
            }
        };
        let columns = self.sources.iter().map(column).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(self.schema(), columns, &options)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_lose_nothing() {
        for (texts, expected) in [
            (&[Some("2023"), None, Some("-5")][..], DataType::Int64),
            (&[Some("01"), Some("02")], DataType::Utf8View),
            (&[Some("2024-01-31")], DataType::Date32),
            (&[Some("2024-01-31 10:00:00")], DataType::Timestamp(TimeUnit::Microsecond, None)),
            (&[Some("2024-01-31T10:00:00Z")], DataType::Utf8View),
            (&[None], DataType::Utf8View),
            (&[Some("1"), Some("x")], DataType::Utf8View),
        ] {
            assert_eq!(type_of(texts), expected, "{texts:?}");
        }
        assert_eq!(decoded("a%20b%2Fc%zz%"), "a b/c%zz%");
        assert_eq!(decoded("%FF"), "%FF");
    }
}
