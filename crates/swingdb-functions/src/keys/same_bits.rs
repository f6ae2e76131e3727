//! Functions of one value that keys are put into: `same_bits(x)`, see [`canonical`], and others.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, BinaryArray};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use swingdb_common::floats::canonical;

const NAME: &str = "same_bits";
/// The name of [`interval_length`](super::intervals::interval_length).
pub(super) const LENGTH: &str = "interval_length";

/// `same_bits(expr)`: equal numbers get equal bits.
pub fn same_bits(expr: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| of_key(NAME, Clone::clone, |array| Ok(canonical(array)?)));
    call(&FUNCTION, expr)
}

/// Whether an expression is such a call, or another that gives equal numbers equal bits, under
/// whatever name.
pub fn is_same_bits(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_same_bits(&alias.expr),
        Expr::ScalarFunction(call) => matches!(call.name(), NAME | LENGTH),
        _ => false,
    }
}

/// The function of a key.
pub fn call(function: &Arc<ScalarUDF>, expr: Expr) -> Expr {
    call_of(function, vec![expr])
}

pub(super) fn call_of(function: &Arc<ScalarUDF>, args: Vec<Expr>) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(function), args))
}

/// Values as bytes of Arrow's row format, NULL for NULL.
pub(super) fn row_bytes(array: &ArrayRef, options: SortOptions) -> Result<ArrayRef> {
    let field = SortField::new_with_options(array.data_type().clone(), options);
    let rows = RowConverter::new(vec![field])?.convert_columns(std::slice::from_ref(array))?;
    let (offsets, bytes, _) = rows.try_into_binary()?.into_parts();
    Ok(Arc::new(BinaryArray::try_new(offsets, bytes, array.nulls().cloned())?))
}

/// A function that gives NULL for NULL; `returns` is the type of what `apply` gives for a type.
pub fn of_key(
    name: &'static str,
    returns: fn(&DataType) -> DataType,
    apply: fn(&ArrayRef) -> Result<ArrayRef>,
) -> Arc<ScalarUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(OfKey { name, returns, apply, signature }))
}

#[derive(Debug)]
struct OfKey {
    name: &'static str,
    returns: fn(&DataType) -> DataType,
    apply: fn(&ArrayRef) -> Result<ArrayRef>,
    signature: Signature,
}

impl PartialEq for OfKey {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for OfKey {}

impl Hash for OfKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for OfKey {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [given] => Ok((self.returns)(given)),
            _ => plan_err!("{} takes one value", self.name),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        match args.arg_fields {
            [given] => {
                let returned = (self.returns)(given.data_type());
                Ok(Arc::new(Field::new(self.name, returned, given.is_nullable())))
            }
            _ => plan_err!("{} takes one value", self.name),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Array(array)] => Ok(ColumnarValue::Array((self.apply)(array)?)),
            [ColumnarValue::Scalar(value)] => {
                let array = (self.apply)(&value.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
            }
            _ => plan_err!("{} takes one value", self.name),
        }
    }
}
