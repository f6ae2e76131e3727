//! `avg` of whole numbers that adds them up exactly: rounded are only the total, and the quotient.
//!
//! The engine turns each number into a `DOUBLE` before it adds it, so that what it gives of large
//! ones depends on the order of the rows. Fractions are left to it; decimals of nearly 38 digits as
//! wider ones. Points in time, times of day and durations are whole numbers of their units, and so
//! is their average. Of these the engine knows durations only, and adds them up without a look at
//! overflow. Intervals are in [`interval_totals`](super::interval_totals).

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::cast;
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Field, FieldRef, IntervalUnit, TimeUnit,
};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::functions_aggregate::sum::Sum;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, ReversedUDAF,
    Signature, Volatility,
};

use super::average_groups::AverageGroups;
use super::interval_totals::{interval_states, interval_totals};
use super::quotients::{TOTAL, parts, quotient, whole_quotient};
use super::sum::total;
use crate::aggregates::sliding::moving_sum;

/// Places that the engine's average of decimals has beyond those of the values.
const MORE_PLACES: u8 = 4;

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// The function in place of the engine's.
pub fn exact_average(engine: Arc<AggregateUDF>) -> AggregateUDF {
    let signature = Signature::user_defined(Volatility::Immutable);
    AggregateUDF::new_from_impl(ExactAverage { engine, signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ExactAverage {
    /// Knows all other types.
    engine: Arc<AggregateUDF>,
    signature: Signature,
}

/// Whether the values are whole numbers, also of units of time.
fn is_whole(fields: &[FieldRef]) -> bool {
    fields
        .first()
        .is_some_and(|field| field.data_type().is_integer() || of_time(field.data_type()).is_some())
}

fn is_interval(fields: &[FieldRef]) -> bool {
    fields.first().is_some_and(|field| *field.data_type() == INTERVAL)
}

/// The type in which points in time, times and durations are averaged.
fn of_time(given: &DataType) -> Option<DataType> {
    let finer = |unit: &TimeUnit| match unit {
        TimeUnit::Nanosecond => TimeUnit::Nanosecond,
        _ => TimeUnit::Microsecond,
    };
    match given {
        DataType::Date32 | DataType::Date64 => {
            Some(DataType::Timestamp(TimeUnit::Microsecond, None))
        }
        DataType::Timestamp(unit, zone) => Some(DataType::Timestamp(finer(unit), zone.clone())),
        DataType::Time32(_) => Some(DataType::Time64(TimeUnit::Microsecond)),
        DataType::Time64(unit) => Some(DataType::Time64(*unit)),
        DataType::Duration(unit) => Some(DataType::Duration(*unit)),
        _ => None,
    }
}

/// Values as whole numbers.
fn units(values: &ArrayRef) -> Result<ArrayRef> {
    match values.data_type() {
        whole if whole.is_integer() => Ok(Arc::clone(values)),
        _ => Ok(cast(values, &DataType::Int64)?),
    }
}

/// A field of what [`units`] makes of such values.
fn units_field(field: &FieldRef) -> FieldRef {
    match field.data_type().is_integer() {
        true => Arc::clone(field),
        false => Arc::new(field.as_ref().clone().with_data_type(DataType::Int64)),
    }
}

/// What a sum of the same values is called with.
fn of_sum<'a>(args: AccumulatorArgs<'a>, fields: &'a [FieldRef]) -> AccumulatorArgs<'a> {
    AccumulatorArgs { return_field: Arc::clone(&fields[0]), expr_fields: fields, ..args }
}

impl AggregateUDFImpl for ExactAverage {
    fn name(&self) -> &str {
        self.engine.name()
    }

    fn aliases(&self) -> &[String] {
        self.engine.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [whole] if whole.is_signed_integer() => Ok(vec![DataType::Int64]),
            [whole] if whole.is_unsigned_integer() => Ok(vec![DataType::UInt64]),
            [DataType::Interval(_)] => Ok(vec![INTERVAL]),
            [DataType::Null] => Ok(vec![DataType::Float64]),
            [time] if of_time(time).is_some() => Ok(of_time(time).into_iter().collect()),
            // The average has four more places, for which 38 digits may be too few.
            [DataType::Decimal128(digits, scale)]
                if *digits > DECIMAL128_MAX_PRECISION - MORE_PLACES =>
            {
                Ok(vec![DataType::Decimal256(*digits, *scale)])
            }
            _ => {
                let fields = types.iter().map(|of| Arc::new(Field::new("", of.clone(), true)));
                let taken = fields_with_udf(&fields.collect::<Vec<_>>(), self.engine.as_ref())?;
                Ok(taken.iter().map(|field| field.data_type().clone()).collect())
            }
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [whole] if whole.is_integer() => Ok(DataType::Float64),
            [time] if of_time(time).is_some() || *time == INTERVAL => Ok(time.clone()),
            _ => self.engine.return_type(types),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if is_interval(args.expr_fields) {
            return interval_totals(true, args.is_distinct);
        }
        let returns = args.return_field.data_type().clone();
        match (is_whole(args.expr_fields), args.is_distinct) {
            (false, _) => self.engine.accumulator(args),
            (true, false) => Ok(Box::new(Average::of(returns))),
            (true, true) => {
                let fields = [units_field(&args.expr_fields[0])];
                let gathered = Sum::new().accumulator(of_sum(args, &fields))?;
                Ok(Box::new(DistinctAverage { gathered, returns }))
            }
        }
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        if is_interval(args.expr_fields) {
            return interval_totals(true, args.is_distinct);
        }
        let returns = args.return_field.data_type().clone();
        match (is_whole(args.expr_fields), args.is_distinct) {
            (false, false) if *args.expr_fields[0].data_type() == DataType::Float64 => {
                Ok(moving_sum(true))
            }
            (false, _) => self.engine.create_sliding_accumulator(args),
            (true, false) => Ok(Box::new(Average::of(returns))),
            (true, true) => {
                let fields = [units_field(&args.expr_fields[0])];
                let gathered = Sum::new().create_sliding_accumulator(of_sum(args, &fields))?;
                Ok(Box::new(DistinctAverage { gathered, returns }))
            }
        }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = |part, of| Arc::new(Field::new(format!("{}[{part}]", args.name), of, true));
        if is_interval(args.input_fields) {
            return Ok(interval_states(args.name));
        }
        if !is_whole(args.input_fields) {
            return self.engine.state_fields(args);
        }
        if args.is_distinct {
            let fields = [units_field(&args.input_fields[0])];
            let return_field = Arc::clone(&fields[0]);
            let args = StateFieldsArgs { return_field, input_fields: &fields, ..args };
            return Sum::new().state_fields(args);
        }
        Ok(vec![field("total", TOTAL), field("count", DataType::UInt64)])
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        match is_whole(args.expr_fields) || is_interval(args.expr_fields) {
            true => !args.is_distinct && args.expr_fields[0].data_type().is_integer(),
            false => self.engine.groups_accumulator_supported(args),
        }
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        match is_whole(args.expr_fields) {
            true => Ok(Box::new(AverageGroups::default())),
            false => self.engine.create_groups_accumulator(args),
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.engine.documentation()
    }
}

/// Also of rows that come and go.
#[derive(Debug)]
struct Average {
    total: i128,
    count: u64,
    returns: DataType,
}

impl Average {
    fn of(returns: DataType) -> Self {
        Self { total: 0, count: 0, returns }
    }
}

impl Accumulator for Average {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (total, count) = total(&units(&values[0])?, &TOTAL)?;
        self.total += total;
        self.count += count as u64;
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (total, count) = total(&units(&values[0])?, &TOTAL)?;
        self.total -= total;
        self.count -= count as u64;
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (totals, counts) = parts(states)?;
        self.total += totals.values().iter().sum::<i128>();
        self.count += counts.values().iter().sum::<u64>();
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let total = ScalarValue::Decimal128(Some(self.total), DECIMAL128_MAX_PRECISION, 0);
        Ok(vec![total, ScalarValue::UInt64(Some(self.count))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.returns == DataType::Float64 {
            let average = (self.count > 0).then(|| quotient(self.total, self.count));
            return Ok(ScalarValue::Float64(average));
        }
        let average = (self.count > 0).then(|| whole_quotient(self.total, self.count));
        // An average lies between values that have room.
        let average = average.map(|average| average.clamp(i64::MIN.into(), i64::MAX.into()) as i64);
        ScalarValue::Int64(average).cast_to(&self.returns)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The average of the distinct values that the engine's sum has gathered.
#[derive(Debug)]
struct DistinctAverage {
    gathered: Box<dyn Accumulator>,
    returns: DataType,
}

impl Accumulator for DistinctAverage {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.gathered.update_batch(&[units(&values[0])?])
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.gathered.retract_batch(&[units(&values[0])?])
    }

    fn supports_retract_batch(&self) -> bool {
        self.gathered.supports_retract_batch()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.gathered.merge_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.gathered.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let state = self.gathered.state()?;
        let [ScalarValue::List(list)] = state.as_slice() else {
            return internal_err!("a state that is no list of the distinct values");
        };
        let mut average = Average::of(self.returns.clone());
        for values in list.iter().flatten() {
            average.update_batch(&[values])?;
        }
        average.evaluate()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.gathered.size()
    }
}
