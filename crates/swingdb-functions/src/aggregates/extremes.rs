//! `min` and `max` of floating point numbers in groups, of intervals, of lists and structs.
//!
//! The engine's own forget a NaN when a number follows, and start from the largest finite number,
//! so that a group of nothing but infinities has a wrong extreme. These compare by the total order,
//! in which a NaN without a sign is the greatest; of others there are none here, see
//! [`signs`](super::signs). Intervals are compared by their length, lists and structs in their
//! [`order`](super::order). Everything else is left to the engine.

use arrow::array::{ArrowNativeTypeOp, ArrowPrimitiveType};
use arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::min_max::{Max, Min};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature, StatisticsArgs,
};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::prim_op;

use crate::aggregates::nested_extremes::NestedExtremes;
use crate::keys::intervals::{ExtremeLength, is_interval};
use crate::keys::order::{ExtremeNested, MovingNested, is_ordered_otherwise, is_sorted_by_bytes};

/// The function `min`.
pub fn least_of_groups() -> AggregateUDF {
    AggregateUDF::new_from_impl(Extreme { engine: Min::new(), greatest: false })
}

/// The function `max`.
pub fn greatest_of_groups() -> AggregateUDF {
    AggregateUDF::new_from_impl(Extreme { engine: Max::new(), greatest: true })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Extreme<F> {
    engine: F,
    greatest: bool,
}

/// One extreme a group.
fn groups<T: ArrowPrimitiveType + Send>(
    data_type: &DataType,
    greatest: bool,
) -> Box<dyn GroupsAccumulator> {
    if greatest {
        let keep = |most: &mut T::Native, value: T::Native| {
            if value.is_gt(*most) {
                *most = value;
            }
        };
        let all = prim_op::PrimitiveGroupsAccumulator::<T, _>::new(data_type, keep);
        return Box::new(all.with_starting_value(T::Native::MIN_TOTAL_ORDER));
    }
    let keep = |least: &mut T::Native, value: T::Native| {
        if value.is_lt(*least) {
            *least = value;
        }
    };
    let all = prim_op::PrimitiveGroupsAccumulator::<T, _>::new(data_type, keep);
    Box::new(all.with_starting_value(T::Native::MAX_TOTAL_ORDER))
}

impl<F: AggregateUDFImpl + Eq + std::hash::Hash> AggregateUDFImpl for Extreme<F> {
    fn name(&self) -> &str {
        self.engine.name()
    }

    fn signature(&self) -> &Signature {
        self.engine.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.engine.return_type(arg_types)
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.engine.coerce_types(arg_types)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        match args.return_field.data_type() {
            given if is_interval(given) => Ok(Box::new(ExtremeLength::new(self.greatest))),
            given if is_ordered_otherwise(given) => {
                Ok(Box::new(ExtremeNested::new(self.greatest, given)?))
            }
            _ => self.engine.accumulator(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        let given = args.return_field.data_type();
        is_ordered_otherwise(given)
            || !is_interval(given) && self.engine.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let given = args.return_field.data_type();
        Ok(match given {
            DataType::Float16 => groups::<Float16Type>(given, self.greatest),
            DataType::Float32 => groups::<Float32Type>(given, self.greatest),
            DataType::Float64 => groups::<Float64Type>(given, self.greatest),
            nested if is_ordered_otherwise(nested) => {
                Box::new(NestedExtremes::new(nested.clone(), self.greatest))
            }
            _ => return self.engine.create_groups_accumulator(args),
        })
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        match args.return_field.data_type() {
            given if is_sorted_by_bytes(given) => {
                Ok(Box::new(MovingNested::new(self.greatest, given)?))
            }
            _ => self.engine.create_sliding_accumulator(args),
        }
    }

    fn is_descending(&self) -> Option<bool> {
        self.engine.is_descending()
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.engine.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.engine.reverse_expr()
    }

    fn value_from_stats(&self, args: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        match is_sorted_by_bytes(args.return_type) {
            true => None,
            false => self.engine.value_from_stats(args),
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.engine.documentation()
    }

    /// Of rows that are added one by one the greatest grows; but the engine takes NULL, as long as
    /// there is nothing else, for the least or the greatest as it suits, and leaves out sorts.
    fn set_monotonicity(&self, _data_type: &DataType) -> SetMonotonicity {
        SetMonotonicity::NotMonotonic
    }
}
