//! Whether a whole number is one of many: [`is_in`], a look-up of one bit.
//!
//! A list of thousands of numbers in a plan (`x IN (...)`) takes as many expressions, which each
//! step of planning walks over, and which are written and read where plans go over a network. As a
//! set of bits between the least and the greatest it is one value. Semi-joins of distributed
//! databases send such sets (Babb, "Implementing a Relational Database by Means of Specialized
//! Hardware", 1979).

use std::any::Any;
use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::buffer::BooleanBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};

/// The bytes before the bits: the least number, and how many are in the set.
const HEAD: usize = 16;

/// Whether a set can have the values of this type.
pub fn is_of_set(data_type: &DataType) -> bool {
    data_type.is_integer() && *data_type != DataType::UInt64
}

/// `x IN (...)`, where all are whole numbers of one type and their set takes at most so many bytes;
/// `None`: it does not.
pub fn is_in(x: Expr, numbers: &[ScalarValue], most: usize) -> Option<Expr> {
    let first = numbers.first()?.data_type();
    if !is_of_set(&first) {
        return None;
    }
    let array = ScalarValue::iter_to_array(numbers.iter().cloned()).ok()?;
    let array = whole(&array).ok()?;
    let values = array.as_primitive::<Int64Type>();
    let all = || values.iter().flatten();
    let (least, greatest) = (all().min()?, all().max()?);
    let bytes = usize::try_from(greatest.abs_diff(least) / 8 + 1).ok()?;
    if bytes > most {
        return None;
    }
    let mut set = vec![0; HEAD + bytes];
    let mut count = 0_u64;
    for value in all() {
        let place = value.abs_diff(least);
        let (byte, bit) = (HEAD + (place / 8) as usize, 1 << (place % 8));
        count += u64::from(set[byte] & bit == 0);
        set[byte] |= bit;
    }
    set[..8].copy_from_slice(&least.to_le_bytes());
    set[8..HEAD].copy_from_slice(&count.to_le_bytes());
    Some(function().call(vec![x, lit(ScalarValue::Binary(Some(set)))]))
}

/// The expression of a call of [`function`], and how many numbers it looks for.
pub fn looked_for(call: &ScalarFunction) -> Option<(&Expr, u64)> {
    let implementation: &dyn Any = call.func.inner().as_ref();
    implementation.downcast_ref::<IsInSet>()?;
    let [x, Expr::Literal(ScalarValue::Binary(Some(set)), _)] = call.args.as_slice() else {
        return None;
    };
    let count = set.get(8..HEAD)?.try_into().ok()?;
    Some((x, u64::from_le_bytes(count)))
}

/// The function that looks numbers up in a set.
pub fn function() -> &'static Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let signature = Signature::any(2, Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(IsInSet { signature }))
    });
    &FUNCTION
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct IsInSet {
    signature: Signature,
}

impl ScalarUDFImpl for IsInSet {
    fn name(&self) -> &str {
        "is_in_set"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [x, ColumnarValue::Scalar(ScalarValue::Binary(Some(set)))] = args.args.as_slice()
        else {
            return plan_err!("{} takes a number and a set", self.name());
        };
        let Some((head, bits)) = set.split_at_checked(HEAD) else {
            return plan_err!("a set without bounds");
        };
        let least = i64::from_le_bytes(std::array::from_fn(|nth| head[nth]));
        let array = whole(&x.to_array(args.number_rows)?)?;
        let values = array.as_primitive::<Int64Type>();
        let found = BooleanBuffer::collect_bool(values.len(), |row| {
            let value = values.value(row);
            let place = value.abs_diff(least);
            let byte = usize::try_from(place / 8).ok().and_then(|byte| bits.get(byte));
            value >= least && byte.is_some_and(|byte| byte & (1 << (place % 8)) != 0)
        });
        let found: ArrayRef = Arc::new(BooleanArray::new(found, values.nulls().cloned()));
        Ok(ColumnarValue::Array(found))
    }
}

/// Whole numbers of 64 bits.
fn whole(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Int64 => Arc::clone(array),
        _ => cast(array, &DataType::Int64)?,
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int8Array, Int64Array, UInt32Array};
    use arrow::datatypes::Field;
    use datafusion::config::ConfigOptions;
    use datafusion::prelude::col;

    use super::*;

    fn looked_up(set: &Expr, values: ArrayRef) -> Vec<Option<bool>> {
        let Expr::ScalarFunction(call) = set else { panic!("{set}") };
        let Expr::Literal(set, _) = &call.args[1] else { panic!("{call:?}") };
        let rows = values.len();
        let fields = [values.data_type().clone(), set.data_type()];
        let args = ScalarFunctionArgs {
            args: vec![ColumnarValue::Array(values), ColumnarValue::Scalar(set.clone())],
            arg_fields: fields.map(|of| Arc::new(Field::new("a", of, true))).to_vec(),
            number_rows: rows,
            return_field: Arc::new(Field::new("r", DataType::Boolean, true)),
            config_options: Arc::new(ConfigOptions::default()),
        };
        let found = function().invoke_with_args(args).unwrap().into_array(rows).unwrap();
        found.as_boolean().iter().collect()
    }

    #[test]
    fn a_set_has_what_a_list_has() {
        let given: [i64; 6] = [-9, 7, 7, 30, 64, 1000];
        let numbers = given.map(ScalarValue::from);
        let set = is_in(col("x"), &numbers, 200).unwrap();
        let asked = (-2000..2000).collect::<Vec<i64>>();
        let found = looked_up(&set, Arc::new(Int64Array::from(asked.clone())));
        let expected = asked.iter().map(|value| Some(given.contains(value)));
        assert_eq!(found, expected.collect::<Vec<_>>());
        let Expr::ScalarFunction(call) = &set else { panic!("{set}") };
        assert_eq!(looked_for(call), Some((&col("x"), 5)));
        let extremes = vec![Some(i64::MIN), None, Some(i64::MAX)];
        let found = looked_up(&set, Arc::new(Int64Array::from(extremes)));
        assert_eq!(found, [Some(false), None, Some(false)]);
    }

    #[test]
    fn types_that_are_shorter_and_ranges_that_are_too_wide() {
        let numbers = [3_i8, -100].map(ScalarValue::from);
        let set = is_in(col("x"), &numbers, 200).unwrap();
        let found = looked_up(&set, Arc::new(Int8Array::from(vec![-100, 4, 3, 127])));
        assert_eq!(found, [true, false, true, false].map(Some));
        let numbers = [u32::MAX, 5].map(ScalarValue::from);
        assert_eq!(is_in(col("x"), &numbers, 1 << 20), None);
        let set = is_in(col("x"), &numbers[..1], 1).unwrap();
        let found = looked_up(&set, Arc::new(UInt32Array::from(vec![u32::MAX, 0])));
        assert_eq!(found, [true, false].map(Some));
        assert_eq!(is_in(col("x"), &[ScalarValue::from(u64::MAX)], 200), None);
        assert_eq!(is_in(col("x"), &[i64::MIN, i64::MAX].map(ScalarValue::from), 1 << 20), None);
        assert_eq!(is_in(col("x"), &[], 200), None);
    }
}
