//! The arithmetic operators on whole numbers as functions that fail on overflow.
//!
//! `a + b - c` is one function of three operands, not two of two: the engine asks a function for
//! its name and its type again and again, and answers from its arguments, so that planning a sum
//! of nested calls took time by the cube of their number.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::{Array, ArrowPrimitiveType, AsArray, PrimitiveArray};
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
use swingdb_common::types::sql_names::sql_name;

use super::integers::{Integer, Side, compute};

/// An operator on whole numbers of one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// `+`.
    Add,
    /// `-`.
    Subtract,
    /// `*`.
    Multiply,
    /// `<<`.
    ShiftLeft,
    /// `>>`.
    ShiftRight,
    /// `-` before one operand.
    Negate,
}

impl Operation {
    /// That of an operator, where it is one of these.
    pub fn of(operator: Operator) -> Option<Self> {
        match operator {
            Operator::Plus => Some(Self::Add),
            Operator::Minus => Some(Self::Subtract),
            Operator::Multiply => Some(Self::Multiply),
            Operator::BitwiseShiftLeft => Some(Self::ShiftLeft),
            Operator::BitwiseShiftRight => Some(Self::ShiftRight),
            _ => None,
        }
    }

    fn function_name(self) -> &'static str {
        match self {
            Self::Add => "checked_add",
            Self::Subtract => "checked_subtract",
            Self::Multiply => "checked_multiply",
            Self::ShiftLeft => "checked_shift_left",
            Self::ShiftRight => "checked_shift_right",
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
            Self::ShiftRight => (">>", "right shift"),
            Self::Negate => ("-", "negation"),
        }
    }
}

/// [`Operation`]s from left to right as a function; all operands have the same type.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Checked {
    /// One less than there are operands; [`Operation::Negate`] stands alone and has one.
    operations: Vec<Operation>,
    name: String,
    signature: Signature,
}

impl Checked {
    /// How many operations one function has at most: all its operands are in memory at once.
    const LONGEST: usize = 63;

    /// One after the other, from left to right.
    pub fn new(operations: Vec<Operation>) -> Self {
        let first = operations[0];
        let operands = if first == Operation::Negate { 1 } else { operations.len() + 1 };
        // Plans name functions, and one name means one function.
        let name = match operations.len() {
            1 => first.function_name().to_string(),
            _ => {
                let signs = operations.iter().map(|operation| operation.words().0);
                format!("checked[{}]", signs.collect::<Vec<_>>().join(" "))
            }
        };
        Self { operations, name, signature: Signature::any(operands, Volatility::Immutable) }
    }

    /// The operation, if it is a single one.
    pub fn only(&self) -> Option<Operation> {
        (self.operations.len() == 1).then(|| self.operations[0])
    }

    /// This function and one more operation behind it, if it can have one.
    pub fn followed_by(&self, operation: Operation) -> Option<Self> {
        let full = self.operations.len() == Self::LONGEST;
        if full || self.operations[0] == Operation::Negate || operation == Operation::Negate {
            return None;
        }
        Some(Self::new([self.operations.as_slice(), &[operation]].concat()))
    }

    fn run<T: ArrowPrimitiveType>(&self, args: &ScalarFunctionArgs) -> Result<ColumnarValue>
    where
        T::Native: Integer,
    {
        let (mut result, operands) = match (self.operations[0], args.args.as_slice()) {
            (Operation::Negate, operands) => {
                (Operand::<T>::Constant(Some(T::Native::default())), operands)
            }
            (_, [first, operands @ ..]) => (Operand::<T>::of(first)?, operands),
            (_, []) => return internal_err!("{} without arguments", self.name),
        };
        if operands.len() != self.operations.len() {
            return internal_err!("{} arguments of {}", args.args.len(), self.name);
        }
        for (operation, operand) in self.operations.iter().zip(operands) {
            result = operation.run(result, Operand::of(operand)?, args.number_rows)?;
        }
        Ok(match result {
            Operand::Column(array) => ColumnarValue::Array(Arc::new(array)),
            Operand::Constant(value) => {
                ColumnarValue::Scalar(ScalarValue::new_primitive::<T>(value, &T::DATA_TYPE)?)
            }
        })
    }
}

impl Operation {
    fn run<T: ArrowPrimitiveType>(
        self,
        left: Operand<T>,
        right: Operand<T>,
        rows: usize,
    ) -> Result<Operand<T>>
    where
        T::Native: Integer,
    {
        let constant = matches!((&left, &right), (Operand::Constant(_), Operand::Constant(_)));
        let rows = if constant { 1 } else { rows };
        let (Some(a), Some(b)) = (left.side(), right.side()) else {
            return Ok(Operand::Constant(None));
        };
        let (values, overflowed) = match self {
            Self::Add => compute(a, b, rows, Integer::add),
            Self::Subtract | Self::Negate => compute(a, b, rows, Integer::sub),
            Self::Multiply => compute(a, b, rows, Integer::mul),
            Self::ShiftLeft => compute(a, b, rows, Integer::shl),
            Self::ShiftRight => compute(a, b, rows, Integer::shr),
        };
        let nulls = NullBuffer::union(left.nulls(), right.nulls());
        if overflowed {
            self.report::<T>(a, b, rows, nulls.as_ref())?;
        }
        Ok(match constant {
            true => Operand::Constant(values.first().copied()),
            false => Operand::Column(PrimitiveArray::new(values.into(), nulls)),
        })
    }

    /// An error with the first row that is not NULL and overflows, if there is one.
    fn report<T: ArrowPrimitiveType>(
        self,
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
            let (_, flag) = match self {
                Self::Add => a.add(b),
                Self::Subtract | Self::Negate => a.sub(b),
                Self::Multiply => a.mul(b),
                Self::ShiftLeft => a.shl(b),
                Self::ShiftRight => a.shr(b),
            };
            if flag.is_set() {
                let (sign, what) = self.words();
                let sql = sql_name(&T::DATA_TYPE);
                return match self {
                    Self::Negate => exec_err!("overflow in {what} of {sql}: -({b:?})"),
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
        &self.name
    }

    /// The name the operator has: columns keep theirs.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let Some((first, operands)) = args.split_first() else {
            return internal_err!("{} without arguments", self.name);
        };
        if self.operations[0] == Operation::Negate {
            return Ok(format!("(- {})", first.schema_name()));
        }
        let mut name = first.schema_name().to_string();
        for (operation, operand) in self.operations.iter().zip(operands) {
            let (sign, _) = operation.words();
            write!(name, " {sign} {}", operand.schema_name())?;
        }
        Ok(name)
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
        let mut orders = inputs.iter().map(|input| input.sort_properties);
        let first = orders.next().unwrap_or(SortProperties::Unordered);
        if self.operations[0] == Operation::Negate {
            return Ok(-first);
        }
        let both = self.operations.iter().zip(orders);
        Ok(both.fold(first, |left, (operation, right)| match operation {
            Operation::Add => left.add(&right),
            Operation::Subtract => left.sub(&right),
            _ => SortProperties::Unordered,
        }))
    }
}
