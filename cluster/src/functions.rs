//! Functions that stand in plans only, and carry something besides their name: [`Carried`].
//!
//! Plans name functions. The database puts some of its own in the place of operators and casts:
//! those that check for overflow, those on decimals, those that round. Their names say what they
//! carry, so that one name means one function. A node makes such a function anew from what is told
//! of it, and is only told of functions that come out the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::logical_expr::{Operator, ScalarUDF};
use serde::{Deserialize, Serialize};
use swingdb_common::time::zones::Zone;
use swingdb_functions::arithmetic::checked::{Checked, Operation};
use swingdb_functions::arithmetic::prepared::{Preparing, preparing, preparing_of};
use swingdb_functions::arithmetic::{digits, exact, kept, whole_quotient};
use swingdb_functions::keys::bit_set;

use crate::by_cut::{ByCut, Places};
use crate::wire::{Bytes, schema_bytes, schema_of, value_bytes, value_of};

/// See the [module documentation](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Carried {
    /// Whole numbers that must not overflow.
    Checked {
        /// Its name, which has the operations.
        name: String,
    },
    /// An operation on decimals whose result has room.
    Exact {
        /// The operation.
        sign: String,
        /// Digits of the result.
        precision: u8,
        /// Those behind the point.
        scale: i8,
    },
    /// An operation on decimals whose result may have too many digits.
    Fits {
        /// The operation.
        what: String,
    },
    /// What is cast, prepared for that.
    Prepared {
        /// A schema of one column, which has the type of the cast.
        to: Bytes,
        /// Whether it is a TRY_CAST.
        safe: bool,
        /// The zone of the session.
        zone: String,
        /// Whether it reads JSON.
        json: bool,
    },
    /// A cast that is not to be moved.
    Kept,
    /// What looks keys up in a set.
    IsInSet,
    /// A quotient of HUGEINT.
    WholeQuotient,
    /// What says where a shuffle sends a row.
    ByCut {
        /// The bounds of a range cut.
        bounds: Option<Vec<Bytes>>,
        /// How many nodes there are.
        nodes: usize,
        /// Partitions at each.
        partitions: usize,
    },
}

/// Functions by their names.
pub type ByName = BTreeMap<String, Carried>;

/// The operations on decimals, and how they are told.
const SIGNS: [(&str, Operator); 3] =
    [("+", Operator::Plus), ("-", Operator::Minus), ("*", Operator::Multiply)];

impl Carried {
    /// What makes a function; `None` of one that is not among these.
    pub fn of(function: &ScalarUDF) -> Option<Self> {
        let carried = Self::told(function)?;
        (carried.function()? == *function).then_some(carried)
    }

    fn told(function: &ScalarUDF) -> Option<Self> {
        if let Some((op, DataType::Decimal128(precision, scale))) = exact::parts(function) {
            let (sign, _) = SIGNS.into_iter().find(|(_, one)| *one == op)?;
            return Some(Self::Exact { sign: sign.to_string(), precision, scale });
        }
        if let Some(what) = digits::operation_of(function) {
            return Some(Self::Fits { what: what.to_string() });
        }
        if let Some(Preparing { to, safe, zone, json }) = preparing_of(function) {
            let schema = Arc::new(Schema::new(vec![Field::new("to", to, true)]));
            let (to, zone) = (schema_bytes(&schema), zone.to_string());
            return Some(Self::Prepared { to, safe, zone, json });
        }
        if let Some(Places { bounds, nodes, partitions }) = ByCut::of(function) {
            let (nodes, partitions) = (*nodes, *partitions);
            let bounds = bounds.as_ref().map(|all| all.iter().map(value_bytes).collect());
            let bounds = bounds.transpose().ok()?;
            return Some(Self::ByCut { bounds, nodes, partitions });
        }
        if *function == *kept::function() {
            return Some(Self::Kept);
        }
        if *function == **bit_set::function() {
            return Some(Self::IsInSet);
        }
        if function == whole_quotient::function() {
            return Some(Self::WholeQuotient);
        }
        Some(Self::Checked { name: function.name().to_string() })
    }

    /// The function.
    pub fn function(&self) -> Option<ScalarUDF> {
        match self {
            Self::Checked { name } => checked(name),
            Self::Exact { sign, precision, scale } => {
                let (_, op) = SIGNS.into_iter().find(|(one, _)| one == sign)?;
                exact::function(op, DataType::Decimal128(*precision, *scale))
            }
            Self::Fits { what } => digits::function(what),
            Self::Prepared { to, safe, zone, json } => {
                let to = schema_of(to).ok()?.fields().first()?.data_type().clone();
                let (safe, json, zone) = (*safe, *json, Zone::of_arrow(zone)?);
                Some(preparing(&Preparing { to, safe, zone, json }))
            }
            Self::Kept => Some(kept::function().as_ref().clone()),
            Self::IsInSet => Some(bit_set::function().as_ref().clone()),
            Self::WholeQuotient => Some(whole_quotient::function().clone()),
            Self::ByCut { bounds, nodes, partitions } => {
                let (nodes, partitions) = (*nodes, *partitions);
                let bounds = bounds.as_ref().map(|all| all.iter().map(value_of).collect());
                let bounds = bounds.transpose().ok()?;
                ByCut::function(Places { bounds, nodes, partitions })
            }
        }
    }
}

fn checked(name: &str) -> Option<ScalarUDF> {
    let operations = match name {
        "checked_negate" => vec![Operation::Negate],
        "checked_add" => vec![Operation::Add],
        "checked_subtract" => vec![Operation::Subtract],
        "checked_multiply" => vec![Operation::Multiply],
        "checked_shift_left" => vec![Operation::ShiftLeft],
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

/// Adds a function to others; `false` if another one has its name.
pub fn add(all: &mut ByName, name: &str, carried: Carried) -> bool {
    let known = all.entry(name.to_string()).or_insert_with(|| carried.clone());
    *known == carried
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::TimeUnit;
    use datafusion::common::ScalarValue;

    fn comes_back(function: &ScalarUDF) {
        let carried = Carried::of(function).unwrap();
        let text = serde_json::to_string(&carried).unwrap();
        let read = serde_json::from_str::<Carried>(&text).unwrap();
        assert_eq!(read.function().as_ref(), Some(function), "{text}");
    }

    #[test]
    fn functions_are_made_anew() {
        use Operation as O;
        let mut names = std::collections::BTreeSet::new();
        for operations in
            [vec![O::Add], vec![O::Negate], vec![O::Multiply; 3], vec![O::Add, O::Subtract, O::Add]]
        {
            comes_back(&ScalarUDF::new_from_impl(Checked::new(operations)));
        }
        for (precision, scale) in [(16, 2), (32, 4), (38, 6), (10, 0), (3, 1)] {
            for (_, op) in SIGNS {
                let function = exact::function(op, DataType::Decimal128(precision, scale)).unwrap();
                comes_back(&function);
                assert!(names.insert(function.name().to_string()), "{}", function.name());
            }
        }
        for what in ["addition", "division"] {
            comes_back(&digits::function(what).unwrap());
        }
        let zoned = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        for to in [DataType::Int32, DataType::Float64, DataType::Utf8View, zoned] {
            for (safe, zone) in [(true, "UTC"), (false, "UTC"), (false, "Europe/Oslo")] {
                let zone = Zone::of_arrow(zone).unwrap();
                let function = preparing(&Preparing { to: to.clone(), safe, zone, json: false });
                comes_back(&function);
                assert!(names.insert(function.name().to_string()), "{}", function.name());
            }
        }
        comes_back(&kept::function());
        comes_back(whole_quotient::function());
        for bounds in [None, Some(vec![]), Some(vec!["a", "b"]), Some(vec!["b", "a"])] {
            let bounds = bounds.map(|all| all.into_iter().map(ScalarValue::from).collect());
            for (nodes, partitions) in [(2, 4), (4, 2)] {
                let places = Places { bounds: bounds.clone(), nodes, partitions };
                let function = ByCut::function(places).unwrap();
                comes_back(&function);
                assert!(names.insert(function.name().to_string()), "{}", function.name());
            }
        }
    }

    #[test]
    fn one_name_means_one_function() {
        let mut all = ByName::new();
        let mut add = |carried| add(&mut all, "f", carried);
        assert!(add(Carried::Kept) && add(Carried::Kept) && !add(Carried::WholeQuotient));
        // Chains of as many operations, and of more.
        let named = |count| ScalarUDF::new_from_impl(Checked::new(vec![Operation::Add; count]));
        assert_ne!(named(1).name(), named(2).name());
        assert_ne!(named(2).name(), named(3).name());
    }
}
