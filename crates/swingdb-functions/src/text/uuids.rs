//! What `CAST(x AS UUID)` is written as: texts and bytes in [canonical form](crate::uuid). And
//! `uuidv7()`, a UUID that begins with the time.

use std::sync::{Arc, LazyLock};
use std::time::{SystemTime, UNIX_EPOCH};

use arrow::array::StringViewArray;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use swingdb_common::types::sql_names::sql_name;
use swingdb_common::uuid::{canonical, marked};
use xxhash_rust::xxh3::xxh3_128;

/// What `CAST(x AS UUID)` is written as.
pub const AS_UUID: &str = "as_uuid";
/// What `TRY_CAST(x AS UUID)` is written as.
pub const TRY_AS_UUID: &str = "try_as_uuid";

static FUNCTION: LazyLock<ScalarUDF> = LazyLock::new(|| new(AS_UUID, false));

fn new(name: &'static str, safe: bool) -> ScalarUDF {
    let signature = Signature::any(1, Volatility::Immutable);
    ScalarUDF::new_from_impl(AsUuid { name, safe, signature })
}

/// All functions of this module.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    let signature = Signature::nullary(Volatility::Volatile);
    let timed = ScalarUDF::new_from_impl(Timed { signature });
    [FUNCTION.clone(), new(TRY_AS_UUID, true), timed].into_iter()
}

/// The value as a UUID.
pub fn as_uuid(value: Expr) -> Expr {
    FUNCTION.call(vec![value])
}

/// The same, or NULL, where `safe`, of what is none.
pub fn as_uuid_or_null(value: Expr, safe: bool) -> Expr {
    if safe { new(TRY_AS_UUID, true).call(vec![value]) } else { as_uuid(value) }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct AsUuid {
    name: &'static str,
    /// What is none is NULL.
    safe: bool,
    signature: Signature,
}

impl ScalarUDFImpl for AsUuid {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [DataType::FixedSizeBinary(16)] => Ok(DataType::Utf8View),
            [text] if text.is_string() || text.is_null() => Ok(DataType::Utf8View),
            [other] => plan_err!("{} cannot be cast to UUID", sql_name(other)),
            _ => plan_err!("{} takes one value", self.name),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(marked(crate::args::returned(self, &args)?)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_slice() else {
            return plan_err!("{} takes one value", self.name);
        };
        let found = canonical(&value.to_array(crate::args::rows_of(&args))?, self.safe)?;
        crate::args::as_given(&args, found)
    }
}

/// `uuidv7()`: milliseconds since 1970, then random bits.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Timed {
    signature: Signature,
}

impl ScalarUDFImpl for Timed {
    fn name(&self) -> &str {
        "uuidv7"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(marked(crate::args::returned(self, &args)?)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let made = (0..args.number_rows).map(|_| Some(timed()));
        Ok(ColumnarValue::Array(Arc::new(made.collect::<StringViewArray>())))
    }
}

/// See RFC 9562, section 5.7.
fn timed() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = since.as_millis() & 0xffff_ffff_ffff;
    // A forked child draws what its parent draws: process and time tell them apart.
    let process = u128::from(std::process::id()) << 96;
    let random = xxh3_128(&(fastrand::u128(..) ^ process ^ since.as_nanos()).to_le_bytes());
    let version = (7_u128 << 76) | (((random >> 64) & 0xfff) << 64);
    let variant = (2_u128 << 62) | (random & (u128::MAX >> 66));
    let digits = format!("{:032x}", (millis << 80) | version | variant);
    [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]).join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_of_the_time_has_its_version_and_variant() {
        let (one, other) = (timed(), timed());
        assert!(one != other && one.len() == 36 && one[..8] == other[..8], "{one} {other}");
        assert!(one.as_bytes()[14] == b'7' && b"89ab".contains(&one.as_bytes()[19]), "{one}");
    }
}
