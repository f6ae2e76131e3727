//! `reverse(text)`: the characters that a reader sees, from the last to the first. Letters keep
//! their accents, and flags and families their parts.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use unicode_segmentation::UnicodeSegmentation;

/// The function, in place of the engine's, which goes by code points.
pub(crate) fn function() -> ScalarUDF {
    let signature = Signature::string(1, Volatility::Immutable);
    ScalarUDF::new_from_impl(Reverse { signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Reverse {
    signature: Signature,
}

impl ScalarUDFImpl for Reverse {
    fn name(&self) -> &str {
        "reverse"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [given] = args.args.as_slice() else { return plan_err!("reverse takes a text") };
        let texts = cast(&given.to_array(crate::args::rows_of(&args))?, &DataType::Utf8View)?;
        let texts = texts.as_string_view().iter().map(|text| text.map(reversed));
        let found: ArrayRef = Arc::new(texts.collect::<StringViewArray>());
        crate::args::as_given(&args, found)
    }
}

fn reversed(text: &str) -> String {
    match text.is_ascii() {
        true => text.chars().rev().collect(),
        false => text.graphemes(true).rev().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_together_stays_so() {
        for (text, found) in [
            ("abc", "cba"),
            ("a\r\nb", "b\n\ra"),
            ("e\u{301}a", "ae\u{301}"),
            ("\u{1f1e9}\u{1f1ea}\u{1f1eb}\u{1f1f7}x", "x\u{1f1eb}\u{1f1f7}\u{1f1e9}\u{1f1ea}"),
            ("", ""),
        ] {
            assert_eq!(reversed(text), found, "{text:?}");
        }
    }
}
