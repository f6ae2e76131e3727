//! Texts as the bytes that they are, and back: `encode(text)`, `decode(blob)`. A cast reads and
//! writes `\xHH` for bytes instead. And how many bytes a text or BLOB has, the
//! SHA-1 of them, and bytes that are written with digits of base 2.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, StringViewArray};
use arrow::compute::kernels::length::length;
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::DataType;
use arrow::util::display::FormatOptions;
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use sha1::{Digest, Sha1};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    ToBytes,
    ToText,
    Length,
    Sha1,
    /// Bytes of digits of base 2.
    Unbin,
}

/// Names of the functions, and what users call them.
const FUNCTIONS: &[(&str, &str, Kind)] = &[
    ("text_bytes", "encode", Kind::ToBytes),
    ("bytes_text", "decode", Kind::ToText),
    ("byte_length", "octet_length", Kind::Length),
    ("sha1", "sha1", Kind::Sha1),
    ("unbin", "unbin", Kind::Unbin),
    ("from_binary", "from_binary", Kind::Unbin),
];

/// All functions of this module.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    FUNCTIONS.iter().map(|(name, shown, kind)| {
        let signature = Signature::any(1, Volatility::Immutable);
        ScalarUDF::new_from_impl(Coded { name, shown, kind: *kind, signature })
    })
}

/// `octet_length(x)`.
pub fn byte_length(args: Vec<Expr>) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    let (name, shown) = ("byte_length", "octet_length");
    ScalarUDF::new_from_impl(Coded { name, shown, kind: Kind::Length, signature }).call(args)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Coded {
    name: &'static str,
    shown: &'static str,
    kind: Kind,
    signature: Signature,
}

impl ScalarUDFImpl for Coded {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [given] = types else { return plan_err!("{} takes one value", self.name) };
        let is_bytes = given.is_binary() || matches!(given, DataType::FixedSizeBinary(_));
        let (fits, takes, returns) = match self.kind {
            Kind::ToBytes => (given.is_string(), "a text", DataType::Binary),
            Kind::Unbin => (given.is_string(), "a text", DataType::Binary),
            Kind::ToText => (is_bytes, "a BLOB", DataType::Utf8View),
            Kind::Length => (is_bytes || given.is_string(), "a text or BLOB", DataType::Int64),
            Kind::Sha1 => (is_bytes || given.is_string(), "a text or BLOB", DataType::Utf8View),
        };
        match fits || given.is_null() {
            true => Ok(returns),
            false => plan_err!("{} takes {takes}, not {given}", self.shown),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [given] = args.args.as_slice() else {
            return plan_err!("{} takes one value", self.name);
        };
        let given = given.to_array(crate::args::rows_of(&args))?;
        let found: ArrayRef = match self.kind {
            Kind::ToBytes => cast(&given, &DataType::Binary)?,
            Kind::ToText => self.texts(&given)?,
            Kind::Unbin => {
                let digits = cast(&given, &DataType::Utf8View)?;
                let digits = digits.as_string_view().iter();
                let bytes = digits.map(|digits| digits.map(|text| self.unbin(text)).transpose());
                Arc::new(bytes.collect::<Result<BinaryArray>>()?)
            }
            Kind::Sha1 => {
                let bytes = cast(&given, &DataType::BinaryView)?;
                let hashes = bytes.as_binary_view().iter().map(|bytes| bytes.map(sha1_digits));
                Arc::new(hashes.collect::<StringViewArray>())
            }
            Kind::Length => {
                let given = match given.data_type() {
                    DataType::FixedSizeBinary(_) | DataType::Null => {
                        cast(&given, &DataType::Binary)?
                    }
                    _ => given,
                };
                cast(&length(&given)?, &DataType::Int64)?
            }
        };
        crate::args::as_given(&args, found)
    }
}

fn sha1_digits(bytes: &[u8]) -> String {
    Sha1::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Coded {
    /// The bytes that digits stand for, eight digits each; the first byte may have fewer.
    fn unbin(&self, digits: &str) -> Result<Vec<u8>> {
        if let Some(wrong) = digits.chars().find(|digit| !matches!(digit, '0' | '1')) {
            return exec_err!("{} of {digits:?}: {wrong:?} is no digit of base 2", self.shown);
        }
        let bytes = digits.as_bytes().rchunks(8).rev();
        let value = |byte: u8, digit: &u8| byte << 1 | (digit - b'0');
        Ok(bytes.map(|digits| digits.iter().fold(0, value)).collect())
    }

    fn texts(&self, given: &ArrayRef) -> Result<ArrayRef> {
        let safe = CastOptions { safe: true, format_options: FormatOptions::default() };
        let bytes = cast(given, &DataType::BinaryView)?;
        let texts = cast_with_options(&bytes, &DataType::Utf8View, &safe)?;
        match (0..bytes.len()).find(|row| bytes.is_valid(*row) && texts.is_null(*row)) {
            None => Ok(texts),
            Some(row) => {
                let bytes = bytes.as_binary_view().value(row).escape_ascii();
                exec_err!("{} of '{bytes}': these bytes are no UTF-8", self.shown)
            }
        }
    }
}
