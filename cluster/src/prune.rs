//! Which nodes can have rows that a condition keeps: [`Placing::places`].
//!
//! A condition on the column of a cut leaves nodes out: `=`, `IN` and `IS NULL` for hash and range
//! cuts, comparisons for range cuts, and these under `AND` and `OR`. Every other condition keeps
//! all nodes.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

use crate::cut::{Cut, nodes_of};

/// A cut whose values are known: where each row of a table is.
#[derive(Clone, Debug)]
pub struct Placing {
    /// The cut.
    pub cut: Cut,
    /// The values of the bounds of a range cut.
    pub bounds: Vec<ScalarValue>,
    /// How many nodes there are.
    pub nodes: usize,
}

/// Whether equal values are on the same node: 0.0 and -0.0 need not be, nor texts whose equality is
/// not that of their bytes.
pub fn is_equal_by_bytes(field: &Field) -> bool {
    let data_type = field.data_type();
    let is_text = matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    data_type.is_integer()
        || data_type.is_decimal()
        || matches!(data_type, DataType::Date32 | DataType::Timestamp(..))
        || is_text && field.metadata().is_empty()
}

/// A set of nodes: whether each is in it.
type Set = Vec<bool>;

impl Placing {
    /// The nodes that can have rows which fulfil all conditions; at least one. `field` is the
    /// column of the cut.
    pub fn places(&self, conditions: &[Expr], field: &Field) -> Vec<usize> {
        let mut kept = vec![true; self.nodes];
        if is_equal_by_bytes(field) {
            for condition in conditions {
                if let Some(some) = self.of(condition, field) {
                    kept = both(&kept, &some);
                }
            }
        }
        let places = kept.iter().enumerate().filter(|(_, is)| **is).map(|(nth, _)| nth);
        let places = places.collect::<Vec<_>>();
        // A scan of nothing is still a scan.
        if places.is_empty() { vec![0] } else { places }
    }

    /// The nodes with rows that fulfil a condition; `None`: nothing is known of it.
    fn of(&self, condition: &Expr, field: &Field) -> Option<Set> {
        match condition {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
                match (self.of(left, field), self.of(right, field)) {
                    (Some(left), Some(right)) => Some(both(&left, &right)),
                    (one, other) => one.or(other),
                }
            }
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
                let (left, right) = (self.of(left, field)?, self.of(right, field)?);
                Some(left.iter().zip(&right).map(|(one, other)| *one || *other).collect())
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => match (&**left, &**right) {
                (Expr::Column(column), Expr::Literal(value, _)) if column.name == *field.name() => {
                    self.compared(*op, value, field)
                }
                (Expr::Literal(value, _), Expr::Column(column)) if column.name == *field.name() => {
                    self.compared(op.swap()?, value, field)
                }
                _ => None,
            },
            Expr::InList(InList { expr, list, negated: false }) if is_column(expr, field) => {
                let mut some = vec![false; self.nodes];
                for value in list {
                    let Expr::Literal(value, _) = value else { return None };
                    // No value is in a list because of a NULL in it.
                    if !value.is_null() {
                        some[self.place(value, field)?] = true;
                    }
                }
                Some(some)
            }
            Expr::Between(between) if !between.negated && is_column(&between.expr, field) => {
                let (Expr::Literal(low, _), Expr::Literal(high, _)) =
                    (&*between.low, &*between.high)
                else {
                    return None;
                };
                let low = self.compared(Operator::GtEq, low, field)?;
                Some(both(&low, &self.compared(Operator::LtEq, high, field)?))
            }
            Expr::IsNull(of) if is_column(of, field) => {
                let null = ScalarValue::try_from(field.data_type()).ok()?;
                Some(self.only(self.place_of(null)?))
            }
            _ => None,
        }
    }

    fn compared(&self, operator: Operator, value: &ScalarValue, field: &Field) -> Option<Set> {
        if value.is_null() {
            return None;
        }
        let place = self.place(value, field)?;
        let bound = value.cast_to(field.data_type()).ok()?;
        let is_range = matches!(self.cut, Cut::Range { .. });
        let ordered = |keep: &dyn Fn(usize) -> bool| {
            is_range.then(|| (0..self.nodes).map(keep).collect::<Set>())
        };
        match operator {
            Operator::Eq => Some(self.only(place)),
            // The node that begins at this value has none below it.
            Operator::Lt if place > 0 && self.bounds.get(place - 1) == Some(&bound) => {
                ordered(&|nth| nth < place)
            }
            Operator::Lt | Operator::LtEq => ordered(&|nth| nth <= place),
            Operator::Gt | Operator::GtEq => ordered(&|nth| nth >= place),
            _ => None,
        }
    }

    fn only(&self, place: usize) -> Set {
        (0..self.nodes).map(|nth| nth == place).collect()
    }

    /// The node of a value, if the column can have exactly this value.
    fn place(&self, value: &ScalarValue, field: &Field) -> Option<usize> {
        let cast = value.cast_to(field.data_type()).ok()?;
        let back = cast.cast_to(&value.data_type()).ok()?;
        (!cast.is_null() && back == *value).then(|| self.place_of(cast))?
    }

    fn place_of(&self, value: ScalarValue) -> Option<usize> {
        let keys: ArrayRef = value.to_array().ok()?;
        let nodes = nodes_of(&self.cut, &keys, &self.bounds, self.nodes).ok()?;
        nodes.first().copied()
    }
}

fn is_column(expr: &Expr, field: &Field) -> bool {
    matches!(expr, Expr::Column(column) if column.name == *field.name())
}

fn both(one: &[bool], other: &[bool]) -> Set {
    one.iter().zip(other).map(|(one, other)| *one && *other).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, RecordBatch};
    use datafusion::logical_expr::{col, lit};
    use std::sync::Arc;

    const NODES: usize = 4;

    fn hash() -> Placing {
        let cut = Cut::Hash { column: "a".to_string() };
        Placing { cut, bounds: Vec::new(), nodes: NODES }
    }

    fn range() -> Placing {
        let cut = Cut::Range { column: "a".to_string(), bounds: Vec::new() };
        let bounds = [10_i64, 20, 30].map(ScalarValue::from).to_vec();
        Placing { cut, bounds, nodes: NODES }
    }

    fn field() -> Field {
        Field::new("a", DataType::Int64, true)
    }

    /// Where `deal` puts a value.
    fn dealt(placing: &Placing, value: Option<i64>) -> usize {
        let keys: ArrayRef = Arc::new(Int64Array::from(vec![value]));
        let batch = RecordBatch::try_from_iter([("a", keys)]).unwrap();
        let parts = crate::cut::deal(&batch, &placing.cut, &placing.bounds, NODES, 0).unwrap();
        parts.iter().position(|part| part.num_rows() == 1).unwrap()
    }

    #[test]
    fn values_are_looked_for_where_they_were_dealt_to() {
        for placing in [hash(), range()] {
            for value in -5_i64..50 {
                let there = vec![dealt(&placing, Some(value))];
                assert_eq!(placing.places(&[col("a").eq(lit(value))], &field()), there);
                assert_eq!(placing.places(&[lit(value as i32).eq(col("a"))], &field()), there);
                let two = col("a").in_list(vec![lit(value), lit(ScalarValue::Int64(None))], false);
                assert_eq!(placing.places(&[two], &field()), there);
            }
            let null = vec![dealt(&placing, None)];
            assert_eq!(placing.places(&[col("a").is_null()], &field()), null);
        }
    }

    #[test]
    fn ranges_leave_out_nodes_of_range_cuts_only() {
        let conditions = [col("a").gt_eq(lit(10_i64)), col("a").lt(lit(25_i64))];
        assert_eq!(range().places(&conditions, &field()), [1, 2]);
        assert_eq!(hash().places(&conditions, &field()), [0, 1, 2, 3]);
        for (end, below, up_to) in
            [(20_i32, vec![0, 1], vec![0, 1, 2]), (21, vec![0, 1, 2], vec![0, 1, 2])]
        {
            assert_eq!(range().places(&[col("a").lt(lit(end))], &field()), below, "{end}");
            assert_eq!(range().places(&[col("a").lt_eq(lit(end))], &field()), up_to, "{end}");
        }
        let between = col("a").between(lit(25_i64), lit(100_i64));
        assert_eq!(range().places(&[between], &field()), [2, 3]);
        let either = col("a").lt(lit(5_i64)).or(col("a").eq(lit(35_i64)));
        assert_eq!(range().places(&[either], &field()), [0, 3]);
        // Nothing fulfils it: one node says so.
        let none = [col("a").lt(lit(5_i64)), col("a").gt(lit(35_i64))];
        assert_eq!(range().places(&none, &field()), [0]);
    }

    #[test]
    fn what_is_not_known_keeps_all() {
        let all = [0, 1, 2, 3];
        for placing in [hash(), range()] {
            for condition in [
                col("b").eq(lit(1_i64)),
                col("a").not_eq(lit(1_i64)),
                col("a").eq(lit(1.5)),
                col("a").eq(col("b")),
                col("a").in_list(vec![lit(1_i64)], true),
                col("a").eq(lit(1_i64)).or(col("b").eq(lit(1_i64))),
                col("a").eq(lit(ScalarValue::Int64(None))),
            ] {
                let one = std::slice::from_ref(&condition);
                assert_eq!(placing.places(one, &field()), all, "{condition}");
            }
            // Equality of these is not that of their bytes.
            let double = Field::new("a", DataType::Float64, true);
            assert_eq!(placing.places(&[col("a").eq(lit(1.0))], &double), all);
        }
    }
}
