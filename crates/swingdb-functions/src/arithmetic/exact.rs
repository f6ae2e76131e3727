//! Sums, differences and products of decimals that their type has room for, whatever the values.
//!
//! The query engine brings both sides of a sum to one scale, a multiplication for each value, and
//! looks at each step whether the result fits 128 bits. Where the types tell that it does, as for
//! `price * (1 - discount)`, [`Exact`] computes without looking. Constants and whole numbers get
//! the scale of the other side when the statement is planned.

use std::any::Any;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Decimal128Array};
use arrow::compute::kernels::arity::{binary, unary};
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Field, FieldRef};
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::{BinaryExpr, Cast};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, cast,
};

use super::digits;
use super::types::type_of;

/// The function for an operation on decimals whose result always has room; `None` for others.
pub fn call(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return None };
    if !matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply) {
        return None;
    }
    let one = type_of(left, schema).ok()?;
    let (DataType::Decimal128(_, left_scale), other) = (&one, type_of(right, schema).ok()?) else {
        return None;
    };
    let DataType::Decimal128(_, right_scale) = other else { return None };
    let result = expr.get_type(schema).ok()?;
    let DataType::Decimal128(_, scale) = result else { return None };
    if digits::concerned(&one, *op, &other).is_some() {
        return None;
    }
    let args = match op {
        Operator::Multiply if scale == left_scale + right_scale => {
            vec![left.as_ref().clone(), right.as_ref().clone()]
        }
        Operator::Multiply => return None,
        _ => vec![at_scale(left, &one, scale, schema)?, at_scale(right, &other, scale, schema)?],
    };
    Some(function(*op, result)?.call(args))
}

/// The function for an operation with a result that has room; `None` where there is none.
pub fn function(op: Operator, result: DataType) -> Option<ScalarUDF> {
    Some(ScalarUDF::new_from_impl(Exact::new(op, result)?))
}

/// The operation of such a function, and the type of its result.
pub fn parts(function: &ScalarUDF) -> Option<(Operator, DataType)> {
    let function: &dyn Any = function.inner().as_ref();
    let Exact { op, result, .. } = function.downcast_ref::<Exact>()?;
    Some((*op, result.clone()))
}

/// Whether a function is one that [`call`] gives, whose result always has room.
pub fn is_exact(function: &ScalarUDF) -> bool {
    let function: &dyn Any = function.inner().as_ref();
    function.is::<Exact>()
}

/// An expression with a scale: one that has it, or one of a whole number, which can have any.
fn at_scale(expr: &Expr, given: &DataType, scale: i8, schema: &DFSchema) -> Option<Expr> {
    let DataType::Decimal128(precision, own) = *given else { return None };
    if own == scale {
        return Some(expr.clone());
    }
    let more = u8::try_from(scale.checked_sub(own)?).ok()?;
    let precision = precision.checked_add(more).filter(|p| *p <= DECIMAL128_MAX_PRECISION)?;
    match expr {
        Expr::Cast(Cast { expr, .. }) if expr.get_type(schema).ok()?.is_integer() => {
            Some(cast(expr.as_ref().clone(), DataType::Decimal128(precision, scale)))
        }
        Expr::Literal(ScalarValue::Decimal128(value, ..), metadata) => {
            let by = 10_i128.checked_pow(u32::from(more))?;
            let value = match value {
                Some(value) => Some(value.checked_mul(by)?),
                None => None,
            };
            let value = ScalarValue::Decimal128(value, precision, scale);
            Some(Expr::Literal(value, metadata.clone()))
        }
        _ => None,
    }
}

/// See the [module documentation](self). Both sides of a sum or difference have the result's scale.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Exact {
    op: Operator,
    result: DataType,
    /// Has the digits of the result: plans name functions, and one name means one function.
    name: String,
    signature: Signature,
}

impl Exact {
    fn new(op: Operator, result: DataType) -> Option<Self> {
        let what = match op {
            Operator::Plus => "exact_add",
            Operator::Minus => "exact_subtract",
            Operator::Multiply => "exact_multiply",
            _ => return None,
        };
        let DataType::Decimal128(precision, scale) = result else { return None };
        let name = format!("{what}[{precision},{scale}]");
        Some(Self { op, result, name, signature: Signature::any(2, Volatility::Immutable) })
    }

    /// Nothing overflows but what NULLs hide.
    fn compute(&self, left: i128, right: i128) -> i128 {
        match self.op {
            Operator::Plus => left.wrapping_add(right),
            Operator::Minus => left.wrapping_sub(right),
            _ => left.wrapping_mul(right),
        }
    }

    fn arrays(&self, left: &Decimal128Array, right: &Decimal128Array) -> Result<Decimal128Array> {
        // One loop for each operation, without a choice in it.
        Ok(match self.op {
            Operator::Plus => binary(left, right, i128::wrapping_add),
            Operator::Minus => binary(left, right, i128::wrapping_sub),
            _ => binary(left, right, i128::wrapping_mul),
        }?)
    }

    fn with_constant(
        &self,
        array: &Decimal128Array,
        constant: i128,
        first: bool,
    ) -> Decimal128Array {
        match (self.op, first) {
            (Operator::Plus, _) => unary(array, |value: i128| value.wrapping_add(constant)),
            (Operator::Minus, true) => unary(array, |value: i128| constant.wrapping_sub(value)),
            (Operator::Minus, false) => unary(array, |value: i128| value.wrapping_sub(constant)),
            _ => unary(array, |value: i128| value.wrapping_mul(constant)),
        }
    }
}

fn constant(value: &ScalarValue) -> Result<Option<i128>> {
    match value {
        ScalarValue::Decimal128(value, ..) => Ok(*value),
        other => internal_err!("exact arithmetic of {other}"),
    }
}

impl ScalarUDFImpl for Exact {
    fn name(&self) -> &str {
        &self.name
    }

    /// The name the operator has: columns keep theirs.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [left, right] => {
                Ok(format!("{} {} {}", left.schema_name(), self.op, right.schema_name()))
            }
            _ => internal_err!("{} takes two values", self.name()),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.result.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.result.clone(), nullable)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        use ColumnarValue::{Array, Scalar};
        let numbers = |array: &ArrayRef| array.as_primitive::<Decimal128Type>().clone();
        let DataType::Decimal128(precision, scale) = self.result else {
            return internal_err!("{} of {}", self.name(), self.result);
        };
        let one = |value| Scalar(ScalarValue::Decimal128(value, precision, scale));
        // The engine asks whether a condition holds where a column is NULL, with a column of those.
        if args.args.iter().any(|arg| arg.data_type().is_null()) {
            return Ok(one(None));
        }
        let made = match args.args.as_slice() {
            [Array(left), Array(right)] => self.arrays(&numbers(left), &numbers(right))?,
            [Scalar(left), Scalar(right)] => {
                let both = constant(left)?.zip(constant(right)?);
                return Ok(one(both.map(|(left, right)| self.compute(left, right))));
            }
            [Array(array), Scalar(value)] => match constant(value)? {
                Some(value) => self.with_constant(&numbers(array), value, false),
                None => return Ok(one(None)),
            },
            [Scalar(value), Array(array)] => match constant(value)? {
                Some(value) => self.with_constant(&numbers(array), value, true),
                None => return Ok(one(None)),
            },
            _ => return internal_err!("{} takes two values", self.name()),
        };
        Ok(Array(Arc::new(made.with_data_type(self.result.clone()))))
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(match (self.op, inputs) {
            (Operator::Plus, [left, right]) => left.sort_properties.add(&right.sort_properties),
            (Operator::Minus, [left, right]) => left.sort_properties.sub(&right.sort_properties),
            _ => SortProperties::Unordered,
        })
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Schema;
    use datafusion::logical_expr::{col, lit};

    use super::*;

    fn schema() -> DFSchema {
        let field = |name: &str, p, s| Field::new(name, DataType::Decimal128(p, s), true);
        let fields =
            vec![field("a", 15, 2), field("b", 15, 2), field("c", 37, 2), field("d", 9, 4)];
        DFSchema::try_from(Schema::new(fields)).unwrap()
    }

    #[test]
    fn what_has_room_is_a_function_of_the_same_type() {
        let whole = || cast(lit(1_i64), DataType::Decimal128(20, 0));
        let fixed = || lit(ScalarValue::Decimal128(Some(7), 3, 1));
        for (expr, expected) in [
            (col("a") + col("b"), true),
            (col("a") * col("b"), true),
            (whole() - col("a"), true),
            (col("d") + fixed(), true),
            (col("c") + col("c"), true),
            // Scales of columns that differ; too few digits; no arithmetic.
            (col("a") + col("d"), false),
            (col("a") * col("c"), false),
            (col("a") / col("b"), false),
            (col("a").eq(col("b")), false),
        ] {
            let given = expr.get_type(&schema()).unwrap();
            let found = call(&expr, &schema());
            assert_eq!(found.is_some(), expected, "{expr}");
            if let Some(found) = found {
                assert_eq!(found.get_type(&schema()).unwrap(), given, "{expr}");
            }
        }
    }

    #[test]
    fn one_name_means_one_function() {
        for op in [Operator::Plus, Operator::Minus, Operator::Multiply] {
            let made = |precision| function(op, DataType::Decimal128(precision, 4)).unwrap();
            assert_ne!(made(20).name(), made(21).name());
            let (op, result) = parts(&made(20)).unwrap();
            assert_eq!(function(op, result), Some(made(20)));
        }
        assert!(function(Operator::Divide, DataType::Decimal128(20, 4)).is_none());
        assert!(function(Operator::Plus, DataType::Int64).is_none());
    }

    #[test]
    fn values_are_those_of_the_operator() {
        let most = 10_i128.pow(15) - 1;
        let array = |values: Vec<Option<i128>>| -> ArrayRef {
            let array = Decimal128Array::from(values);
            Arc::new(array.with_precision_and_scale(15, 2).unwrap())
        };
        let (left, right) = (array(vec![Some(most), None, Some(-5)]), array(vec![Some(-most); 3]));
        for op in [Operator::Plus, Operator::Minus, Operator::Multiply] {
            let expr =
                Expr::BinaryExpr(BinaryExpr::new(Box::new(col("a")), op, Box::new(col("b"))));
            let result = expr.get_type(&schema()).unwrap();
            let exact = Exact::new(op, result.clone()).unwrap();
            let run = |args: Vec<ColumnarValue>| {
                let args = ScalarFunctionArgs {
                    args,
                    arg_fields: Vec::new(),
                    number_rows: 3,
                    return_field: Arc::new(Field::new("", result.clone(), true)),
                    config_options: Arc::default(),
                };
                exact.invoke_with_args(args).unwrap().to_array(3).unwrap()
            };
            let (array, scalar) = (ColumnarValue::Array, |array: &ArrayRef, row| {
                ColumnarValue::Scalar(ScalarValue::try_from_array(array, row).unwrap())
            });
            let whole = run(vec![array(Arc::clone(&left)), array(Arc::clone(&right))]);
            assert_eq!(*whole.data_type(), result);
            let constant = run(vec![array(Arc::clone(&left)), scalar(&right, 0)]);
            assert_eq!(&whole, &constant);
            for row in 0..3 {
                let one = run(vec![scalar(&left, row), array(right.slice(0, 3))]);
                assert_eq!(&one.slice(0, 1), &whole.slice(row, 1), "{op} {row}");
                let both = run(vec![scalar(&left, row), scalar(&right, row)]);
                assert_eq!(&both.slice(0, 1), &whole.slice(row, 1), "{op} {row}");
            }
            let expected = exact.compute(-5, -most);
            assert_eq!(whole.as_primitive::<Decimal128Type>().value(2), expected);
        }
    }
}
