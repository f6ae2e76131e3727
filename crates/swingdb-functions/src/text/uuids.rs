//! What `CAST(x AS UUID)` is written as: texts and bytes in [canonical form](crate::uuid).

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use swingdb_common::types::sql_names::sql_name;
use swingdb_common::uuid::{canonical, marked};

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
    [FUNCTION.clone(), new(TRY_AS_UUID, true)].into_iter()
}

/// The value as a UUID.
pub fn as_uuid(value: Expr) -> Expr {
    FUNCTION.call(vec![value])
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
