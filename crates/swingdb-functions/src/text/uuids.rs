//! What `CAST(x AS UUID)` is written as: texts and bytes in [canonical form](crate::uuid). And
//! `uuid()`, which is random, and `uuidv7()`, which begins with the time.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

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
    let made = [("uuid", random as fn() -> u128), ("uuidv7", timed)].map(|(name, make)| {
        let signature = Signature::nullary(Volatility::Volatile);
        ScalarUDF::new_from_impl(Made { name, make, signature })
    });
    [FUNCTION.clone(), new(TRY_AS_UUID, true)].into_iter().chain(made)
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

/// A function that makes UUIDs.
#[derive(Debug)]
struct Made {
    name: &'static str,
    make: fn() -> u128,
    signature: Signature,
}

impl PartialEq for Made {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Made {}

impl Hash for Made {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Made {
    fn name(&self) -> &str {
        self.name
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
        let made = (0..args.number_rows).map(|_| Some(written((self.make)())));
        Ok(ColumnarValue::Array(Arc::new(made.collect::<StringViewArray>())))
    }
}

/// Time since 1970.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Bits that no other call gets.
fn bits(now: Duration) -> u128 {
    // A forked child draws what its parent draws: process and time tell them apart.
    let process = u128::from(std::process::id()) << 96;
    xxh3_128(&(fastrand::u128(..) ^ process ^ now.as_nanos()).to_le_bytes())
}

/// With the version, and the variant of RFC 9562.
fn of_version(version: u128, bits: u128) -> u128 {
    let free = !((0xf << 76) | (0x3 << 62));
    (bits & free) | (version << 76) | (2 << 62)
}

/// Random bits; see RFC 9562, section 5.4.
fn random() -> u128 {
    of_version(4, bits(now()))
}

/// Milliseconds since 1970, then random bits; see RFC 9562, section 5.7.
fn timed() -> u128 {
    let now = now();
    let millis = (now.as_millis() & 0xffff_ffff_ffff) << 80;
    of_version(7, millis | (bits(now) & (u128::MAX >> 48)))
}

fn written(uuid: u128) -> String {
    let digits = format!("{uuid:032x}");
    [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]).join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_have_their_version_and_variant() {
        for (make, version) in [(random as fn() -> u128, b'4'), (timed, b'7')] {
            let (one, other) = (written(make()), written(make()));
            assert!(one != other && one.len() == 36, "{one} {other}");
            assert_eq!(one[..8] == other[..8], version == b'7', "{one} {other}");
            let (one, variants) = (one.as_bytes(), b"89ab");
            assert!(one[14] == version && variants.contains(&one[19]), "{one:?}");
        }
    }
}
