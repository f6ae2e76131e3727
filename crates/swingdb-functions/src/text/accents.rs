//! `strip_accents(text)`: letters without the marks on them.

use std::sync::Arc;

use arrow::array::{AsArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};
use icu_properties::CodePointMapData;
use icu_properties::props::GeneralCategory;

/// The function.
pub(crate) fn function() -> ScalarUDF {
    let signature = Signature::any(1, Volatility::Immutable);
    ScalarUDF::new_from_impl(StripAccents { signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct StripAccents {
    signature: Signature,
}

impl ScalarUDFImpl for StripAccents {
    fn name(&self) -> &str {
        "strip_accents"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [given] if given.is_string() || given.is_null() => Ok(DataType::Utf8View),
            _ => plan_err!("strip_accents takes a text"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [given] = args.args.as_slice() else {
            return plan_err!("strip_accents takes a text");
        };
        let texts = cast(&given.to_array(crate::args::rows_of(&args))?, &DataType::Utf8View)?;
        let texts = texts.as_string_view().iter().map(|text| text.map(stripped));
        let found = Arc::new(texts.collect::<StringViewArray>());
        crate::args::as_given(&args, found)
    }
}

/// A text without marks. Letters that Unicode composes of parts are taken apart first, and put
/// together again, so that those of Korean stay one character.
fn stripped(text: &str) -> String {
    if text.is_ascii() {
        return text.to_string();
    }
    let categories = CodePointMapData::<GeneralCategory>::new();
    let is_mark = |char: char| {
        use GeneralCategory as C;
        matches!(categories.get(char), C::NonspacingMark | C::SpacingMark | C::EnclosingMark)
    };
    let parts = DecomposingNormalizerBorrowed::new_nfd().normalize_iter(text.chars());
    let plain = parts.filter(|char| !is_mark(*char));
    ComposingNormalizerBorrowed::new_nfc().normalize_iter(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_go_and_letters_stay() {
        for (given, expected) in
            [("Ä é ñ Ή", "A e n Η"), ("ø ł ﬁ ǆ", "ø ł ﬁ ǆ"), ("한국", "한국"), ("e\u{301}", "e")]
        {
            assert_eq!(stripped(given), expected);
        }
    }
}
