//! UUIDs are texts of one form: 36 characters, digits in lower case.
//!
//! A column that is declared UUID, and what is cast to UUID, is marked in the metadata of its
//! field. Its texts are canonical, so that equal values are equal texts: in comparisons, keys,
//! joins and groups. What comes into such a column is brought into that form, or refused.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};

use crate::error::{Error, Result};

/// In the metadata of a field: its texts are UUIDs in canonical form.
const MARK: &str = "swingdb.uuid";
/// In the metadata of a field: where in its lists and structs there are such UUIDs.
const PLACES: &str = "swingdb.uuids";
/// Arrow's own extension type, of 16 bytes.
const EXTENSION: (&str, &str) = ("ARROW:extension:name", "arrow.uuid");
/// Bytes of a UUID.
pub(crate) const WIDTH: i32 = 16;
/// Characters of its text.
const LENGTH: usize = 36;
/// Places of its hyphens.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// Whether a field says that its texts are UUIDs in canonical form.
pub fn is_marked(field: &Field) -> bool {
    field.metadata().contains_key(MARK) && field.data_type().is_string()
}

/// Where UUIDs in canonical form are inside of a field's values; written as for a cast to such a
/// type.
pub fn places(field: &Field) -> Option<&str> {
    field.metadata().get(PLACES).map(String::as_str)
}

/// The field of values with UUIDs inside.
pub fn with_places(mut field: Field, places: &str) -> Field {
    field.metadata_mut().insert(PLACES.to_string(), places.to_string());
    field
}

/// Whether a field has the bytes of UUIDs.
pub fn has_bytes(field: &Field) -> bool {
    let (key, name) = EXTENSION;
    *field.data_type() == DataType::FixedSizeBinary(WIDTH)
        && field.metadata().get(key).is_some_and(|known| known == name)
}

/// The field of texts that are UUIDs.
pub fn marked(mut field: Field) -> Field {
    let mut metadata = std::mem::take(field.metadata_mut());
    metadata.retain(|key, _| !key.starts_with("ARROW:extension:"));
    metadata.insert(MARK.to_string(), String::new());
    field.with_data_type(DataType::Utf8View).with_metadata(metadata)
}

/// Texts or bytes as UUIDs in canonical form; NULL, where `safe`, for those that are none.
pub fn canonical(array: &ArrayRef, safe: bool) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::FixedSizeBinary(WIDTH) => {
            let bytes = array.as_fixed_size_binary().iter();
            let texts = bytes.map(|bytes| bytes.map(|bytes| text_of(bytes.iter().copied())));
            Ok(Arc::new(texts.collect::<StringViewArray>()))
        }
        DataType::Utf8View => of_texts(array, safe),
        given if given.is_string() || given.is_null() => {
            of_texts(&cast(array, &DataType::Utf8View)?, safe)
        }
        other => Err(Error::internal(format!("a UUID of {other}"))),
    }
}

fn of_texts(array: &ArrayRef, safe: bool) -> Result<ArrayRef> {
    let texts = array.as_string_view();
    if texts.iter().flatten().all(is_canonical) {
        return Ok(Arc::clone(array));
    }
    let mut made = StringViewBuilder::with_capacity(texts.len());
    for (row, text) in texts.iter().enumerate() {
        match text.map(|text| (text, read(text))) {
            Some((_, Some(bytes))) => made.append_value(text_of(bytes.into_iter())),
            Some((text, None)) if !safe => {
                let text: String = text.chars().take(60).collect();
                let message = format!("row {}: '{text}' is no valid UUID", row + 1);
                return Err(Error::Conversion { message, column: None });
            }
            _ => made.append_null(),
        }
    }
    Ok(Arc::new(made.finish()))
}

fn is_canonical(text: &str) -> bool {
    let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == LENGTH
        && text.bytes().enumerate().all(|(place, byte)| match HYPHENS.contains(&place) {
            true => byte == b'-',
            false => digit(byte),
        })
}

/// The bytes of 32 hexadecimal digits; hyphens may stand between them, braces around all.
fn read(text: &str) -> Option<[u8; WIDTH as usize]> {
    let inside = text.strip_prefix('{').map_or(Some(text), |rest| rest.strip_suffix('}'))?;
    let mut bytes = [0; WIDTH as usize];
    let mut count = 0;
    for char in inside.chars().filter(|char| *char != '-') {
        let digit = char.to_digit(16)? as u8;
        let byte = bytes.get_mut(count / 2)?;
        *byte = (*byte << 4) | digit;
        count += 1;
    }
    (count == 2 * bytes.len()).then_some(bytes)
}

fn text_of(bytes: impl Iterator<Item = u8>) -> String {
    let mut text = String::with_capacity(LENGTH);
    for byte in bytes {
        if HYPHENS.contains(&text.len()) {
            text.push('-');
        }
        for half in [byte >> 4, byte & 15] {
            text.extend(char::from_digit(u32::from(half), 16));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use arrow::array::FixedSizeBinaryArray;

    use super::*;

    #[test]
    fn every_form_has_one_canonical_text() {
        let expected = "aaaa0000-1111-2222-3333-44445555666f";
        for text in [
            "aaaa0000-1111-2222-3333-44445555666f",
            "AAAA0000-1111-2222-3333-44445555666F",
            "aaaa000011112222333344445555666f",
            "{aaaa0000-1111-2222-3333-44445555666F}",
            "aaaa-0000-1111-2222-3333-4444-5555-666f",
        ] {
            let array: ArrayRef = Arc::new(StringViewArray::from(vec![Some(text), None]));
            let found = canonical(&array, false).unwrap();
            assert_eq!(found.as_string_view().value(0), expected, "{text}");
            assert!(found.is_null(1));
        }
    }

    #[test]
    fn other_texts_are_none() {
        for text in [
            "",
            "x",
            "aaaa0000-1111-2222-3333-44445555666",
            "{aaaa",
            " aaaa",
            "aaaa0000-1111-2222-3333-44445555666f0",
            "aaaa0000-1111-2222-3333-44445555666g",
        ] {
            let array: ArrayRef = Arc::new(StringViewArray::from(vec![text]));
            let error = canonical(&array, false).unwrap_err().to_string();
            assert!(error.contains("is no valid UUID"), "{error}");
            assert!(canonical(&array, true).unwrap().is_null(0), "{text}");
        }
    }

    #[test]
    fn bytes_are_uuids() {
        let bytes = (0..16).map(|i| i * 17).collect::<Vec<u8>>();
        let array = FixedSizeBinaryArray::try_from_iter(std::iter::once(bytes)).unwrap();
        let found = canonical(&(Arc::new(array) as ArrayRef), false).unwrap();
        assert_eq!(found.as_string_view().value(0), "00112233-4455-6677-8899-aabbccddeeff");
    }
}
