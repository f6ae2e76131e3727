//! Whether a condition holds for every row of a segment, by its statistics: [`Comparison`].
//!
//! Rows often come in the order of a time or a number, and a query wants those since a day: most
//! segments are either ruled out (see [`pruning`](crate::scan::pruning)) or wanted as they are. The
//! condition is not evaluated for the latter, and their rows are not copied.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use swingdb_store::{ColumnStats, Segment};

/// That a column is on one side of a constant.
#[derive(Debug)]
pub(crate) struct Comparison {
    column: usize,
    op: Operator,
    constant: ScalarValue,
}

impl Comparison {
    /// The comparisons that a condition on columns of `table` consists of; `None` where it is
    /// something else. Floating point has values that are equal and in an order all the same, so
    /// it is something else, too.
    pub(crate) fn all_of(
        condition: &Arc<dyn PhysicalExpr>,
        table: &SchemaRef,
    ) -> Option<Vec<Self>> {
        split_conjunction(condition).into_iter().map(|one| Self::of(one, table)).collect()
    }

    fn of(condition: &Arc<dyn PhysicalExpr>, table: &SchemaRef) -> Option<Self> {
        let compared = condition.downcast_ref::<BinaryExpr>()?;
        let (left, right) = (compared.left(), compared.right());
        let (column, op, constant) = match left.downcast_ref::<Column>() {
            Some(column) => (column, *compared.op(), right),
            None => (right.downcast_ref::<Column>()?, compared.op().swap()?, left),
        };
        let constant = constant.downcast_ref::<Literal>()?.value();
        let data_type = table.field(column.index()).data_type();
        let is_ordered = matches!(
            op,
            Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq | Operator::NotEq
        );
        let fits = is_ordered
            && !constant.is_null()
            && constant.data_type() == *data_type
            && !data_type.is_floating()
            && !data_type.is_nested();
        fits.then(|| Self { column: column.index(), op, constant: constant.clone() })
    }

    /// Whether it holds for each row of a segment. Bounds may be wider than the values are.
    pub(crate) fn holds_in(&self, segment: &Segment) -> bool {
        // Hidden columns come behind those of the table. Statistics that cannot be read tell
        // nothing; reading the rows will say why.
        self.column < segment.columns()
            && segment.stats(self.column).is_ok_and(|stats| self.holds_between(&stats))
    }

    fn holds_between(&self, stats: &ColumnStats) -> bool {
        let (Some(min), Some(max)) = (&stats.min, &stats.max) else { return false };
        let compare = |bound: &ScalarValue| bound.partial_cmp(&self.constant);
        let (Some(min), Some(max)) = (compare(min), compare(max)) else { return false };
        let is_outside = min == Ordering::Greater || max == Ordering::Less;
        stats.null_count == 0
            && match self.op {
                Operator::Lt => max == Ordering::Less,
                Operator::LtEq => max != Ordering::Greater,
                Operator::Gt => min == Ordering::Greater,
                Operator::GtEq => min != Ordering::Less,
                _ => is_outside,
            }
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::physical_expr::expressions::lit;

    use super::*;

    /// All comparisons of small numbers with all bounds around them.
    #[test]
    fn what_holds_by_bounds_holds_for_all_values_between_them() {
        use Operator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        let table = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)]));
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new("a", 0));
        let mut held = 0;
        for op in [Lt, LtEq, Gt, GtEq, NotEq, Eq] {
            for constant in 0..6_i64 {
                for is_swapped in [false, true] {
                    let (left, right) = match is_swapped {
                        false => (Arc::clone(&column), lit(constant)),
                        true => (lit(constant), Arc::clone(&column)),
                    };
                    let condition: Arc<dyn PhysicalExpr> =
                        Arc::new(BinaryExpr::new(left, op, right));
                    let found = Comparison::all_of(&condition, &table);
                    assert_eq!(found.is_some(), op != Eq);
                    let Some(found) = found else { continue };
                    for (min, max) in (0..6).flat_map(|min| (min..6).map(move |max| (min, max))) {
                        let holds = |value: i64| {
                            let (one, other) =
                                if is_swapped { (constant, value) } else { (value, constant) };
                            match op {
                                Lt => one < other,
                                LtEq => one <= other,
                                Gt => one > other,
                                GtEq => one >= other,
                                _ => one != other,
                            }
                        };
                        let stats = |null_count| ColumnStats {
                            null_count,
                            min: Some(ScalarValue::Int64(Some(min))),
                            max: Some(ScalarValue::Int64(Some(max))),
                            exact: true,
                            sorted: false,
                        };
                        let by_bounds = found[0].holds_between(&stats(0));
                        assert_eq!(by_bounds, (min..=max).all(holds), "{condition} {min} {max}");
                        assert!(!found[0].holds_between(&stats(1)));
                        held += usize::from(by_bounds);
                    }
                }
            }
        }
        assert!(held > 0);
    }

    #[test]
    fn other_conditions_tell_nothing() {
        let fields = [("a", DataType::Int64), ("f", DataType::Float64)];
        let fields = fields.map(|(name, of)| Field::new(name, of, true));
        let table = Arc::new(Schema::new(fields.to_vec()));
        let column = |at: usize| -> Arc<dyn PhysicalExpr> {
            Arc::new(Column::new(table.field(at).name(), at))
        };
        let of = |left, op, right| -> Arc<dyn PhysicalExpr> {
            Arc::new(BinaryExpr::new(left, op, right))
        };
        let is_known = |condition| Comparison::all_of(&condition, &table).is_some();
        let less = of(column(0), Operator::Lt, lit(5_i64));
        assert!(is_known(of(Arc::clone(&less), Operator::And, Arc::clone(&less))));
        assert!(!is_known(of(Arc::clone(&less), Operator::Or, less)));
        assert!(!is_known(of(column(1), Operator::Lt, lit(5.0_f64))));
        assert!(!is_known(of(column(0), Operator::Lt, lit(5_i32))));
        assert!(!is_known(of(column(0), Operator::Lt, lit(ScalarValue::Int64(None)))));
        assert!(!is_known(of(column(0), Operator::Lt, column(0))));
    }
}
