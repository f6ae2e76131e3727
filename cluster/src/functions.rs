//! Functions that stand in plans only, and carry something besides their name: [`Carried`].
//!
//! Plans name functions. The database puts some of its own in the place of operators: those that
//! check for overflow, and those on decimals that need not. A node makes such a function anew from
//! what is told of it, and is only told of functions that come out the same.

use std::collections::BTreeMap;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::DFSchema;
use datafusion::logical_expr::{Expr, Operator, ScalarUDF, TypeSignature, binary_expr, col};
use serde::{Deserialize, Serialize};
use swingdb_functions::arithmetic::checked::{Checked, Operation};
use swingdb_functions::arithmetic::exact;

/// See the [module documentation](self).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    name: String,
    operands: usize,
    /// Digits and scale of its result.
    decimal: Option<(u8, i8)>,
}

/// Functions by their names.
pub type ByName = BTreeMap<String, Carried>;

impl Carried {
    /// What makes a function that gives `result`; `None` where that is not enough.
    pub fn of(function: &ScalarUDF, result: &DataType) -> Option<Self> {
        let TypeSignature::Any(operands) = function.signature().type_signature else { return None };
        let decimal = match result {
            DataType::Decimal128(precision, scale) => Some((*precision, *scale)),
            _ => None,
        };
        let carried = Self { name: function.name().to_string(), operands, decimal };
        (carried.function()? == *function).then_some(carried)
    }

    /// The function.
    pub fn function(&self) -> Option<ScalarUDF> {
        match self.name.as_str() {
            "exact_add" => self.exact(Operator::Plus),
            "exact_subtract" => self.exact(Operator::Minus),
            "exact_multiply" => self.exact(Operator::Multiply),
            _ => self.checked(),
        }
    }

    fn checked(&self) -> Option<ScalarUDF> {
        let operations = match self.name.as_str() {
            "checked_negate" => vec![Operation::Negate],
            "checked_add" => self.all(Operation::Add)?,
            "checked_subtract" => self.all(Operation::Subtract)?,
            "checked_multiply" => self.all(Operation::Multiply)?,
            "checked_shift_left" => self.all(Operation::ShiftLeft)?,
            name => {
                let signs = name.strip_prefix("checked[")?.strip_suffix(']')?.split(' ');
                let operations = signs.map(|sign| match sign {
                    "+" => Some(Operation::Add),
                    "-" => Some(Operation::Subtract),
                    "*" => Some(Operation::Multiply),
                    "<<" => Some(Operation::ShiftLeft),
                    _ => None,
                });
                operations.collect::<Option<Vec<_>>>()?
            }
        };
        (!operations.is_empty()).then(|| ScalarUDF::new_from_impl(Checked::new(operations)))
    }

    fn all(&self, operation: Operation) -> Option<Vec<Operation>> {
        Some(vec![operation; self.operands.checked_sub(1)?])
    }

    /// The function for operands whose result has these digits.
    fn exact(&self, operator: Operator) -> Option<ScalarUDF> {
        let (precision, scale) = self.decimal?;
        if operator != Operator::Multiply {
            let operand = (precision.checked_sub(1)?, scale);
            return exact_of(operator, operand, operand);
        }
        for other in 1..precision {
            let own = precision - 1 - other;
            for other_scale in 0..=i8::try_from(other).ok()? {
                let own_scale = scale - other_scale;
                if own > 0
                    && (0..=i8::try_from(own).ok()?).contains(&own_scale)
                    && let Some(function) =
                        exact_of(operator, (own, own_scale), (other, other_scale))
                {
                    return Some(function);
                }
            }
        }
        None
    }
}

fn exact_of(operator: Operator, left: (u8, i8), right: (u8, i8)) -> Option<ScalarUDF> {
    let field =
        |name, (precision, scale)| Field::new(name, DataType::Decimal128(precision, scale), true);
    let schema = Schema::new(vec![field("a", left), field("b", right)]);
    let schema = DFSchema::try_from(schema).ok()?;
    match exact::call(&binary_expr(col("a"), operator, col("b")), &schema)? {
        Expr::ScalarFunction(call) => Some(call.func.as_ref().clone()),
        _ => None,
    }
}

/// Adds a function to others; `false` if another one has its name.
pub fn add(all: &mut ByName, carried: Carried) -> bool {
    let known = all.entry(carried.name.clone()).or_insert_with(|| carried.clone());
    *known == carried
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comes_back(function: &ScalarUDF, result: &DataType) {
        let carried = Carried::of(function, result).unwrap();
        let text = serde_json::to_string(&carried).unwrap();
        let read = serde_json::from_str::<Carried>(&text).unwrap();
        assert_eq!(read.function().as_ref(), Some(function), "{text}");
    }

    #[test]
    fn functions_are_made_anew() {
        use Operation as O;
        for operations in
            [vec![O::Add], vec![O::Negate], vec![O::Multiply; 3], vec![O::Add, O::Subtract, O::Add]]
        {
            comes_back(&ScalarUDF::new_from_impl(Checked::new(operations)), &DataType::Int64);
        }
        for (precision, scale) in [(16, 2), (32, 4), (38, 6), (10, 0), (3, 1)] {
            let result = DataType::Decimal128(precision, scale);
            for name in ["exact_add", "exact_subtract", "exact_multiply"] {
                let decimal = Some((precision, scale));
                let made = Carried { name: name.to_string(), operands: 2, decimal };
                if let Some(function) = made.function() {
                    comes_back(&function, &result);
                }
            }
        }
    }

    #[test]
    fn one_name_means_one_function() {
        let one = |operands| Carried { name: "checked_add".to_string(), operands, decimal: None };
        let mut all = ByName::new();
        assert!(add(&mut all, one(2)) && add(&mut all, one(2)) && !add(&mut all, one(3)));
    }
}
