//! The arithmetic operators on whole numbers as functions that fail on overflow.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, Field, FieldRef, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use datafusion::common::{Result, ScalarValue, exec_err, internal_err};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature,
    Volatility,
};

use super::integers::{Integer, Side, compute};
use crate::sql::type_names::sql_name;

/// An operator on whole numbers of one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Operation {
    Add,
    Subtract,
    Multiply,
    ShiftLeft,
    Negate,
}

impl Operation {
    pub(super) fn of(operator: Operator) -> Option<Self> {
        match operator {
            Operator::Plus => Some(Self::Add),
            Operator::Minus => Some(Self::Subtract),
            Operator::Multiply => Some(Self::Multiply),
            Operator::BitwiseShiftLeft => Some(Self::ShiftLeft),
            _ => None,
        }
    }

    fn function_name(self) -> &'static str {
        match self {
            Self::Add => "checked_add",
            Self::Subtract => "checked_subtract",
            Self::Multiply => "checked_multiply",
            Self::ShiftLeft => "checked_shift_left",
            Self::Negate => "checked_negate",
        }
    }

    /// The operator and what it does, for people.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Add => ("+", "addition"),
            Self::Subtract => ("-", "subtraction"),
            Self::Multiply => ("*", "multiplication"),
            Self::ShiftLeft => ("<<", "left shift"),
            Self::Negate => ("-", "negation"),
        }
    }
}

/// An [`Operation`] as a function; both arguments have the same type.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Checked {
    operation: Operation,
    signature: Signature,
}

impl Checked {
    pub(super) fn new(operation: Operation) -> Self {
        let arguments = if operation == Operation::Negate { 1 } else { 2 };
        Self { operation, signature: Signature::any(arguments, Volatility::Immutable) }
    }

    fn run<T: ArrowPrimitiveType>(&self, args: &ScalarFunctionArgs) -> Result<ColumnarValue>
    where
        T::Native: Integer,
    {
        let zero = Operand::<T>::Constant(Some(T::Native::default()));
        let (left, right) = match (self.operation, args.args.as_slice()) {
            (Operation::Negate, [operand]) => (zero, Operand::<T>::of(operand)?),
            (_, [left, right]) => (Operand::<T>::of(left)?, Operand::<T>::of(right)?),
            _ => return internal_err!("{} arguments", args.args.len()),
        };
        let constant = matches!((&left, &right), (Operand::Constant(_), Operand::Constant(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let (Some(a), Some(b)) = (left.side(), right.side()) else {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_new_null(&T::DATA_TYPE)?));
        };
        let (values, overflowed) = match self.operation {
            Operation::Add => compute(a, b, rows, Integer::add),
            Operation::Subtract | Operation::Negate => compute(a, b, rows, Integer::sub),
            Operation::Multiply => compute(a, b, rows, Integer::mul),
            Operation::ShiftLeft => compute(a, b, rows, Integer::shl),
        };
        let nulls = NullBuffer::union(left.nulls(), right.nulls());
        if overflowed {
            self.report::<T>(a, b, rows, nulls.as_ref())?;
        }
        let array: ArrayRef = Arc::new(PrimitiveArray::<T>::new(values.into(), nulls));
        match constant {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?)),
            false => Ok(ColumnarValue::Array(array)),
        }
    }

    /// An error with the first row that is not NULL and overflows, if there is one.
    fn report<T: ArrowPrimitiveType>(
        &self,
        left: Side<'_, T::Native>,
        right: Side<'_, T::Native>,
        rows: usize,
        nulls: Option<&NullBuffer>,
    ) -> Result<()>
    where
        T::Native: Integer,
    {
        for row in (0..rows).filter(|row| nulls.is_none_or(|nulls| nulls.is_valid(*row))) {
            let (a, b) = (left.value(row), right.value(row));
            let (_, flag) = match self.operation {
                Operation::Add => a.add(b),
                Operation::Subtract | Operation::Negate => a.sub(b),
                Operation::Multiply => a.mul(b),
                Operation::ShiftLeft => a.shl(b),
            };
            if flag.is_set() {
                let (sign, what) = self.operation.words();
                let sql = sql_name(&T::DATA_TYPE);
                return match self.operation {
                    Operation::Negate => exec_err!("overflow in {what} of {sql}: -({b:?})"),
                    _ => exec_err!("overflow in {what} of {sql}: {a:?} {sign} {b:?}"),
                };
            }
        }
        Ok(())
    }
}

/// An argument in its own type.
enum Operand<T: ArrowPrimitiveType> {
    Column(PrimitiveArray<T>),
    Constant(Option<T::Native>),
}

impl<T: ArrowPrimitiveType> Operand<T>
where
    T::Native: Integer,
{
    fn of(value: &ColumnarValue) -> Result<Self> {
        let wrong = || internal_err!("{} where {} should be", value.data_type(), T::DATA_TYPE);
        if value.data_type() != T::DATA_TYPE {
            return wrong();
        }
        Ok(match value {
            ColumnarValue::Array(array) => Self::Column(array.as_primitive::<T>().clone()),
            ColumnarValue::Scalar(scalar) => {
                let array = scalar.to_array()?;
                let array = array.as_primitive::<T>();
                Self::Constant(array.is_valid(0).then(|| array.value(0)))
            }
        })
    }

    /// The values; `None` for a constant NULL.
    fn side(&self) -> Option<Side<'_, T::Native>> {
        match self {
            Self::Column(array) => Some(Side::Column(array.values())),
            Self::Constant(value) => value.map(Side::Constant),
        }
    }

    fn nulls(&self) -> Option<&NullBuffer> {
        match self {
            Self::Column(array) => array.nulls(),
            Self::Constant(_) => None,
        }
    }
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        self.operation.function_name()
    }

    /// The name the operator has: columns keep theirs.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let (sign, _) = self.operation.words();
        match args {
            [operand] => Ok(format!("(- {})", operand.schema_name())),
            [left, right] => Ok(format!("{} {sign} {}", left.schema_name(), right.schema_name())),
            _ => internal_err!("{} arguments", args.len()),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types.first() {
            Some(first) => Ok(first.clone()),
            None => internal_err!("{} without arguments", self.name()),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types = args.arg_fields.iter().map(|f| f.data_type().clone()).collect::<Vec<_>>();
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.return_field.data_type() {
            DataType::Int8 => self.run::<Int8Type>(&args),
            DataType::Int16 => self.run::<Int16Type>(&args),
            DataType::Int32 => self.run::<Int32Type>(&args),
            DataType::Int64 => self.run::<Int64Type>(&args),
            DataType::UInt8 => self.run::<UInt8Type>(&args),
            DataType::UInt16 => self.run::<UInt16Type>(&args),
            DataType::UInt32 => self.run::<UInt32Type>(&args),
            DataType::UInt64 => self.run::<UInt64Type>(&args),
            other => internal_err!("{} of {other}", self.name()),
        }
    }

    /// Results that do not wrap around are in the order of the operands.
    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        let orders = inputs.iter().map(|input| input.sort_properties).collect::<Vec<_>>();
        Ok(match (self.operation, orders.as_slice()) {
            (Operation::Add, [left, right]) => left.add(right),
            (Operation::Subtract, [left, right]) => left.sub(right),
            (Operation::Negate, [operand]) => -*operand,
            _ => SortProperties::Unordered,
        })
    }
}
