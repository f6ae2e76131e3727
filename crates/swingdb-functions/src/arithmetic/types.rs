//! The type of a long sum or of nested casts: [`type_of`].
//!
//! The engine adds two empty arrays to learn the type of `a + b`, and makes the name of a call, of
//! all its arguments, to learn the call's. A pass that asks at each part of an expression then
//! takes time by the square of its length, or by the cube.

use std::any::Any;

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::BinaryExpr;
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{Expr, ExprSchemable, Operator, ScalarUDF};

use super::checked::Checked;
use super::kept::Kept;
use super::prepared::Prepare;

/// The type of an expression, as `get_type` gives it.
pub fn type_of(expr: &Expr, schema: &DFSchema) -> Result<DataType> {
    // Sums are nested on their left, as deep as they are long.
    let (mut first, mut steps) = (expr, Vec::new());
    while let Expr::BinaryExpr(BinaryExpr { left, op, right }) = first
        && matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply)
    {
        steps.push((op, right));
        first = left;
    }
    let mut of = match first {
        Expr::ScalarFunction(call) if depends_on_first(&call.func) => match call.args.first() {
            Some(arg) => call.func.inner().return_type(&[type_of(arg, schema)?])?,
            None => first.get_type(schema)?,
        },
        _ => first.get_type(schema)?,
    };
    for (op, right) in steps.into_iter().rev() {
        let other = type_of(right, schema)?;
        let is_same = of == other && (of.is_integer() || of.is_floating());
        if !is_same {
            of = BinaryTypeCoercer::new(&of, op, &other).get_result_type()?;
        }
    }
    Ok(of)
}

/// Whether the type of a function is that of its first argument, or what it makes of it.
fn depends_on_first(function: &ScalarUDF) -> bool {
    let function: &dyn Any = function.inner().as_ref();
    function.is::<Checked>() || function.is::<Prepare>() || function.is::<Kept>()
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{Field, Schema, TimeUnit};
    use datafusion::logical_expr::{cast, col, lit};
    use swingdb_common::time::zones::Zone;

    use super::super::kept::function;
    use super::super::prepared::{Preparing, preparing};
    use super::*;

    #[test]
    fn the_type_is_the_engines() -> Result<()> {
        let types = [
            DataType::Int8,
            DataType::Int32,
            DataType::UInt64,
            DataType::Float32,
            DataType::Float64,
            DataType::Decimal128(10, 2),
            DataType::Date32,
            DataType::Timestamp(TimeUnit::Microsecond, None),
            DataType::Utf8View,
            DataType::Null,
        ];
        let name = |number: usize| format!("c{number}");
        let fields = types.iter().enumerate().map(|(number, of)| (name(number), of.clone()));
        let fields = fields.map(|(name, of)| Field::new(name, of, true)).collect::<Vec<_>>();
        let schema = DFSchema::try_from(Schema::new(fields))?;
        let columns = || (0..types.len()).map(|number| col(name(number)));
        let preparing = preparing(&Preparing {
            to: DataType::Int16,
            safe: false,
            zone: Zone::UTC,
            json: false,
        });
        for (one, other) in
            columns().flat_map(|one| columns().map(move |other| (one.clone(), other)))
        {
            let sums = [one.clone() + other.clone() - one.clone(), one.clone() * other.clone()];
            let nested = sums.into_iter().flat_map(|sum| [other.clone() - sum.clone(), sum]);
            for sum in nested {
                let found = type_of(&sum, &schema).ok();
                assert_eq!(found, sum.get_type(&schema).ok(), "{sum}");
                let prepared =
                    function().call(vec![cast(preparing.call(vec![sum]), DataType::Int16)]);
                let more = prepared + lit(1_i16);
                // What is cast may be refused, which others say.
                if let Ok(wanted) = more.get_type(&schema) {
                    assert_eq!(type_of(&more, &schema)?, wanted, "{more}");
                }
            }
        }
        Ok(())
    }
}
