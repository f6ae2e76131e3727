//! ENUM: texts of which a type lists all, in its own order.
//!
//! Values are stored and handed out as texts. A column of such a type, and what is cast to one, is
//! marked in the metadata of its field with the list, as SQL writes it. What comes into such a
//! column is looked up in the list, or refused. Values of one such type are compared by their
//! positions; beside other texts they are texts, as in DuckDB.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder, UInt32Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};

use crate::error::{Error, Result};

/// In the metadata of a field: the values of the ENUM that its texts are of, as SQL writes them.
const MARK: &str = "swingdb.enum";
/// Values that a type may have.
pub const MAX_VALUES: usize = 65_535;
/// Characters of a value that messages show.
const SHOWN_CHARS: usize = 60;

/// An ENUM: its values, in their order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EnumType(Arc<[String]>);

impl EnumType {
    /// The type of these values, which must differ from one another.
    pub fn new(values: Vec<String>) -> Result<Self> {
        if values.len() > MAX_VALUES {
            let message = format!("an ENUM of {} values; at most {MAX_VALUES}", values.len());
            return Err(Error::plan(message));
        }
        let mut seen = HashSet::new();
        if let Some(twice) = values.iter().find(|value| !seen.insert(value.as_str())) {
            return Err(Error::plan(format!("an ENUM with the value {} twice", quoted(twice))));
        }
        Ok(Self(values.into()))
    }

    /// The type that [`EnumType::list`] has written.
    pub fn of_list(list: &str) -> Option<Self> {
        let mut values = Vec::new();
        let mut rest = list;
        while !rest.is_empty() {
            rest = rest.strip_prefix('\'')?;
            let mut value = String::new();
            loop {
                let end = rest.find('\'')?;
                value.push_str(&rest[..end]);
                rest = &rest[end + 1..];
                match rest.strip_prefix('\'') {
                    Some(behind) => {
                        value.push('\'');
                        rest = behind;
                    }
                    None => break,
                }
            }
            values.push(value);
            rest = rest.strip_prefix(", ").unwrap_or(rest);
        }
        Self::new(values).ok()
    }

    /// The type of a field, if it has one.
    pub fn of_field(field: &Field) -> Option<Self> {
        match field.data_type().is_string() {
            true => Self::of_list(field.metadata().get(MARK)?),
            false => None,
        }
    }

    /// Its values.
    pub fn values(&self) -> &[String] {
        &self.0
    }

    /// Its values as SQL writes them: `'a', 'b'`.
    pub fn list(&self) -> String {
        self.0.iter().map(|value| quoted(value)).collect::<Vec<_>>().join(", ")
    }

    /// The field of texts that are of this type.
    pub fn marked(&self, mut field: Field) -> Field {
        field.metadata_mut().insert(MARK.to_string(), self.list());
        field.with_data_type(DataType::Utf8View)
    }

    /// Texts as values of the type; NULL, where `safe`, for those that are none.
    pub fn check(&self, array: &ArrayRef, safe: bool) -> Result<ArrayRef> {
        let texts = texts(array)?;
        let known: HashSet<&str> = self.0.iter().map(String::as_str).collect();
        let view = texts.as_string_view();
        let is_wrong = |text: Option<&str>| text.is_some_and(|text| !known.contains(text));
        let Some(row) = view.iter().position(is_wrong) else { return Ok(texts) };
        if !safe {
            let text: String = view.value(row).chars().take(SHOWN_CHARS).collect();
            let message = format!("row {}: '{text}' is no value of {self}", row + 1);
            return Err(Error::Conversion { message, column: None });
        }
        let mut made = StringViewBuilder::with_capacity(view.len());
        view.iter().for_each(|text| made.append_option(text.filter(|text| known.contains(text))));
        Ok(Arc::new(made.finish()))
    }

    /// The positions of values in the list, from 0.
    pub fn positions(&self, array: &ArrayRef) -> Result<ArrayRef> {
        let texts = texts(array)?;
        let known: HashMap<&str, u32> = self.0.iter().map(String::as_str).zip(0..).collect();
        let position = |text: Option<&str>| match text {
            None => Ok(None),
            Some(text) => match known.get(text) {
                Some(at) => Ok(Some(*at)),
                None => Err(Error::Conversion {
                    message: format!("'{text}' is no value of {self}"),
                    column: None,
                }),
            },
        };
        let found = texts.as_string_view().iter().map(position);
        Ok(Arc::new(found.collect::<Result<UInt32Array>>()?))
    }

    /// The type of numbers that count its values, as in DuckDB.
    pub fn code_type(&self) -> DataType {
        match self.0.len() {
            0..=255 => DataType::UInt8,
            _ => DataType::UInt16,
        }
    }
}

impl fmt::Display for EnumType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ENUM({})", self.list())
    }
}

fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

fn texts(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Utf8View => Ok(Arc::clone(array)),
        given if given.is_string() || given.is_null() => Ok(cast(array, &DataType::Utf8View)?),
        other => Err(Error::internal(format!("an ENUM of {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::StringViewArray;

    use super::*;

    fn of(values: &[&str]) -> EnumType {
        EnumType::new(values.iter().map(|value| (*value).to_string()).collect()).unwrap()
    }

    #[test]
    fn a_list_reads_back() {
        for values in [&["a", "b"][..], &["it's", "", "a, b", "'"], &[]] {
            let made = of(values);
            assert_eq!(EnumType::of_list(&made.list()).as_ref(), Some(&made), "{values:?}");
        }
        for broken in ["a", "'a", "'a' 'b", "'a', 'a'"] {
            assert_eq!(EnumType::of_list(broken), None, "{broken}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        let moods = of(&["sad", "ok"]);
        let array: ArrayRef = Arc::new(StringViewArray::from(vec![Some("ok"), None, Some("no")]));
        let error = moods.check(&array, false).unwrap_err().to_string();
        assert!(error.contains("row 3: 'no' is no value of ENUM('sad', 'ok')"), "{error}");
        let safe = moods.check(&array, true).unwrap();
        assert!(safe.is_valid(0) && safe.is_null(1) && safe.is_null(2));
        assert!(moods.positions(&array).is_err());
        let found = moods.positions(&safe).unwrap();
        assert_eq!(found.as_ref(), &UInt32Array::from(vec![Some(1), None, None]) as &dyn Array);
    }
}
