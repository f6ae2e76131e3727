//! Casts that mean what they mean in DuckDB and PostgreSQL.
//!
//! A fraction is rounded where the engine would cut it off: `CAST(3.7 AS INTEGER)` is 4, as it is
//! when 3.7 is stored in a column of whole numbers. A timestamp as text is `2024-01-01 10:00:00`,
//! which reads back, and not `2024-01-01T10:00:00`. [`wrapped`] puts a function around what is
//! cast; the cast itself stays the engine's.

use std::sync::{Arc, LazyLock};

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, TryCast, Volatility,
};

use crate::sql::write::convert::prepared;

/// What is done to a value before it is cast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Preparation {
    /// Fractions are rounded.
    Round,
    /// Timestamps become text.
    Text,
}

/// Whether an expression is a cast, which may need preparation.
pub(super) fn is_cast(expr: &Expr) -> bool {
    matches!(expr, Expr::Cast(_) | Expr::TryCast(_))
}

/// The cast of a prepared value; `None` when it is right as it is.
pub(super) fn wrapped(expr: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let (inner, field) = match expr {
        Expr::Cast(cast) => (&cast.expr, &cast.field),
        Expr::TryCast(cast) => (&cast.expr, &cast.field),
        _ => return Ok(None),
    };
    let Some(preparation) = preparation(&inner.get_type(schema)?, field.data_type()) else {
        return Ok(None);
    };
    let call = ScalarFunction::new_udf(function(preparation), vec![inner.as_ref().clone()]);
    let inner = Box::new(Expr::ScalarFunction(call));
    Ok(Some(match expr {
        Expr::TryCast(cast) => {
            Expr::TryCast(TryCast { expr: inner, field: Arc::clone(&cast.field) })
        }
        _ => Expr::Cast(Cast { expr: inner, field: Arc::clone(field) }),
    }))
}

fn preparation(from: &DataType, to: &DataType) -> Option<Preparation> {
    let fraction = match from {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => *scale > 0,
        other => other.is_floating(),
    };
    if fraction && to.is_integer() {
        return Some(Preparation::Round);
    }
    let timestamp = matches!(from, DataType::Timestamp(..));
    (timestamp && to.is_string()).then_some(Preparation::Text)
}

fn function(preparation: Preparation) -> Arc<ScalarUDF> {
    static ROUND: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| make(Preparation::Round));
    static TEXT: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| make(Preparation::Text));
    match preparation {
        Preparation::Round => Arc::clone(&ROUND),
        Preparation::Text => Arc::clone(&TEXT),
    }
}

fn make(preparation: Preparation) -> Arc<ScalarUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(Prepare { preparation, signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Prepare {
    preparation: Preparation,
    signature: Signature,
}

impl Prepare {
    fn apply(&self, array: &ArrayRef) -> Result<ArrayRef> {
        let to = match self.preparation {
            Preparation::Round => DataType::Int64,
            Preparation::Text => DataType::Utf8,
        };
        prepared(array, &to).map_err(|error| DataFusionError::External(Box::new(error)))
    }
}

impl ScalarUDFImpl for Prepare {
    fn name(&self) -> &str {
        match self.preparation {
            Preparation::Round => "rounded",
            Preparation::Text => "timestamp_text",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [given] = types else { return plan_err!("{} takes one value", self.name()) };
        Ok(match (self.preparation, given) {
            (Preparation::Text, _) => DataType::Utf8,
            (_, DataType::Float16) => DataType::Float32,
            (_, DataType::Decimal128(p, s)) if *s > 0 => DataType::Decimal128(*p, 0),
            (_, DataType::Decimal256(p, s)) if *s > 0 => DataType::Decimal256(*p, 0),
            (_, other) => other.clone(),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Array(array)] => Ok(ColumnarValue::Array(self.apply(array)?)),
            [ColumnarValue::Scalar(value)] => {
                let array = self.apply(&value.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
            }
            _ => plan_err!("{} takes one value", self.name()),
        }
    }

    /// Rounding keeps the order, and so does the text of timestamps but for years beyond 9999.
    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(match (self.preparation, inputs) {
            (Preparation::Round, [input]) => input.sort_properties,
            _ => SortProperties::Unordered,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lossy_casts_are_prepared() {
        let timestamp = DataType::Timestamp(arrow::datatypes::TimeUnit::Second, None);
        for (from, to, expected) in [
            (DataType::Float64, DataType::Int32, Some(Preparation::Round)),
            (DataType::Decimal128(5, 2), DataType::UInt8, Some(Preparation::Round)),
            (DataType::Decimal128(5, 0), DataType::Int32, None),
            (DataType::Int64, DataType::Int8, None),
            (DataType::Float64, DataType::Utf8, None),
            (timestamp.clone(), DataType::Utf8View, Some(Preparation::Text)),
            (timestamp, DataType::Date32, None),
            (DataType::Date32, DataType::Utf8, None),
        ] {
            assert_eq!(preparation(&from, &to), expected, "{from} to {to}");
        }
    }
}
