//! Aggregates of numbers beyond mean and variance: `skewness`, `kurtosis`, `kurtosis_pop`,
//! `product` and `mad`, the median of the distances from the median, also of dates and times.
//!
//! Moments are kept around the mean and joined by the formulas of P. Pébay, *Formulas for robust,
//! one-pass parallel computation of covariances and arbitrary-order statistical moments* (2008).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Field, FieldRef, Float64Type, IntervalMonthDayNano, IntervalUnit,
};
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, Signature, Volatility,
};

use super::number_groups::{NumberGroups, Summary};
use super::picked::number_between;
use super::quantile_groups::{QuantileGroups, Quantiles};
use crate::time::points::{DAY, is_moment, is_time, micros};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// Of a sample; NULL of less than three numbers, and where all are the same.
    Skewness,
    /// Of a sample, in excess of a normal distribution's; NULL of less than four numbers.
    Kurtosis,
    /// The same of a population.
    KurtosisPop,
    Product,
    Mad,
}

const FUNCTIONS: &[(&str, Kind)] = &[
    ("skewness", Kind::Skewness),
    ("kurtosis", Kind::Kurtosis),
    ("kurtosis_pop", Kind::KurtosisPop),
    ("product", Kind::Product),
    ("mad", Kind::Mad),
];

/// All functions of this module.
pub(crate) fn functions() -> impl Iterator<Item = AggregateUDF> {
    FUNCTIONS.iter().map(|(name, kind)| {
        let signature = match kind {
            Kind::Mad => Signature::user_defined(Volatility::Immutable),
            _ => Signature::exact(vec![DataType::Float64], Volatility::Immutable),
        };
        AggregateUDF::new_from_impl(OfNumbers { name, kind: *kind, signature })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfNumbers {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

impl AggregateUDFImpl for OfNumbers {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [given] if has_distances(given) => Ok(vec![given.clone()]),
            [given] if given.is_numeric() || given.is_null() => Ok(vec![DataType::Float64]),
            _ => plan_err!("{} takes numbers, dates or times", self.name),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [given] if has_distances(given) => Ok(DataType::Interval(IntervalUnit::MonthDayNano)),
            _ => Ok(DataType::Float64),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let mut work: Box<dyn Accumulator> = match self.kind {
            Kind::Mad => Box::new(Distances::default()),
            kind => Box::new(Moments { kind, all: Moment::default() }),
        };
        if args.is_distinct {
            work = each_once(work);
        }
        if args.expr_fields.first().is_some_and(|field| has_distances(field.data_type())) {
            work = Box::new(Times { work });
        }
        Ok(work)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        let are_numbers = args.expr_fields.iter().all(|field| field.data_type().is_floating());
        are_numbers && !args.is_distinct
    }

    fn create_groups_accumulator(
        &self,
        _args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let kind = self.kind;
        if kind == Kind::Mad {
            let asked = Quantiles::median_of_distances();
            return Ok(Box::new(QuantileGroups::<Float64Type>::new(DataType::Float64, asked)));
        }
        Ok(Box::new(NumberGroups::new(move |moment: &Moment| moment.value(kind))))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field =
            |name: &str, of| Arc::new(Field::new(format!("{}[{name}]", args.name), of, true));
        if args.is_distinct || self.kind == Kind::Mad {
            let item = Field::new_list_field(DataType::Float64, true);
            return Ok(vec![field("values", DataType::List(Arc::new(item)))]);
        }
        Ok(Moment::PARTS.iter().map(|name| field(name, DataType::Float64)).collect())
    }
}

/// What gives each number to `work` once.
pub(super) fn each_once(work: Box<dyn Accumulator>) -> Box<dyn Accumulator> {
    Box::new(Distinct { seen: Distances::default(), room: 0, work })
}

/// Count, mean, sums of powers of the distances from the mean; and the product.
#[derive(Debug, Clone, Copy)]
struct Moment {
    count: f64,
    mean: f64,
    second: f64,
    third: f64,
    fourth: f64,
    product: f64,
}

impl Default for Moment {
    fn default() -> Self {
        Self { count: 0.0, mean: 0.0, second: 0.0, third: 0.0, fourth: 0.0, product: 1.0 }
    }
}

impl Moment {
    const PARTS: [&str; 6] = ["count", "mean", "second", "third", "fourth", "product"];

    fn of(value: f64) -> Self {
        Self { count: 1.0, mean: value, product: value, ..Self::default() }
    }

    fn joined(&self, other: &Self) -> Self {
        if self.count == 0.0 || other.count == 0.0 {
            return if self.count == 0.0 { *other } else { *self };
        }
        let (a, b) = (self.count, other.count);
        let count = a + b;
        let apart = other.mean - self.mean;
        let share = apart / count;
        let (second, third) = (self.second, self.third);
        Self {
            count,
            mean: self.mean + share * b,
            second: second + other.second + apart * share * a * b,
            third: third
                + other.third
                + apart * share * share * a * b * (a - b)
                + 3.0 * share * (a * other.second - b * second),
            fourth: self.fourth
                + other.fourth
                + apart * share * share * share * a * b * (a * a - a * b + b * b)
                + 6.0 * share * share * (a * a * other.second + b * b * second)
                + 4.0 * share * (a * other.third - b * third),
            product: self.product * other.product,
        }
    }

    /// What a function is of the numbers.
    fn value(&self, kind: Kind) -> Result<Option<f64>> {
        let (name, found) = match kind {
            Kind::Skewness => ("skewness", self.skewness()),
            Kind::Kurtosis => ("kurtosis", self.kurtosis()),
            Kind::KurtosisPop => {
                let tails = self.tails().filter(|_| self.count > 1.0);
                ("kurtosis_pop", tails.map(|tails| tails - 3.0))
            }
            Kind::Product | Kind::Mad => {
                return Ok((self.count > 0.0).then_some(self.product));
            }
        };
        match found.is_some_and(|found| !found.is_finite()) {
            true => exec_err!("the {name} is out of range; leave infinity, NaN and the like out"),
            false => Ok(found),
        }
    }

    fn skewness(&self) -> Option<f64> {
        let n = self.count;
        if n <= 2.0 {
            return None;
        }
        let spread = (self.second / n).powi(3).sqrt();
        (spread != 0.0).then(|| (n * (n - 1.0)).sqrt() / (n - 2.0) * (self.third / n) / spread)
    }

    /// Fourth moment over the squared second one.
    fn tails(&self) -> Option<f64> {
        let second = self.second / self.count;
        (second > 0.0 || second.is_nan()).then(|| self.fourth / self.count / (second * second))
    }

    fn kurtosis(&self) -> Option<f64> {
        let n = self.count;
        let tails = self.tails().filter(|_| n > 3.0)?;
        Some((n - 1.0) * ((n + 1.0) * tails - 3.0 * (n - 1.0)) / ((n - 2.0) * (n - 3.0)))
    }
}

impl Summary<6> for Moment {
    fn add(&mut self, value: f64) {
        *self = self.joined(&Self::of(value));
    }

    fn merge(&mut self, [count, mean, second, third, fourth, product]: [f64; 6]) {
        *self = self.joined(&Self { count, mean, second, third, fourth, product });
    }

    fn parts(&self) -> [f64; 6] {
        [self.count, self.mean, self.second, self.third, self.fourth, self.product]
    }
}

#[derive(Debug)]
struct Moments {
    kind: Kind,
    all: Moment,
}

impl Accumulator for Moments {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<Float64Type>().iter().flatten() {
            self.all.add(value);
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let parts: Vec<_> = states.iter().map(|s| s.as_primitive::<Float64Type>()).collect();
        let [count, mean, second, third, fourth, product] = parts.as_slice() else {
            return exec_err!("a moment has six parts");
        };
        for row in 0..count.len() {
            let parts = [count, mean, second, third, fourth, product];
            self.all.merge(parts.map(|part| part.value(row)));
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(self.all.parts().map(|part| ScalarValue::Float64(Some(part))).to_vec())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.all.value(self.kind)?))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// All numbers, for the median of how far they are from theirs.
#[derive(Debug, Default)]
struct Distances {
    numbers: Vec<f64>,
}

/// The middle of numbers, or the mean of the two in the middle.
fn median(numbers: &mut [f64]) -> Option<f64> {
    let middle = numbers.len() / 2;
    let odd = numbers.len() % 2 == 1;
    if numbers.is_empty() {
        return None;
    }
    let (below, upper, _) = numbers.select_nth_unstable_by(middle, f64::total_cmp);
    let upper = *upper;
    let lower = below.iter().copied().max_by(f64::total_cmp).filter(|_| !odd).unwrap_or(upper);
    Some(number_between(lower, upper, 0.5))
}

impl Accumulator for Distances {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.numbers.extend(values[0].as_primitive::<Float64Type>().iter().flatten());
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        states[0].as_list::<i32>().iter().flatten().try_for_each(|list| self.update_batch(&[list]))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let numbers: ArrayRef = Arc::new(Float64Array::from(std::mem::take(&mut self.numbers)));
        Ok(vec![SingleRowListArrayBuilder::new(numbers).build_list_scalar()])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let middle = median(&mut self.numbers);
        let far = |middle: f64| {
            let mut far: Vec<f64> = self.numbers.iter().map(|n| (n - middle).abs()).collect();
            median(&mut far)
        };
        Ok(ScalarValue::Float64(middle.and_then(far)))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.numbers.capacity() * size_of::<f64>()
    }
}

/// Whether values are dates or times.
fn has_distances(given: &DataType) -> bool {
    is_moment(given) || is_time(given)
}

/// Dates and times as numbers of microseconds, and how far they are apart as an interval of days
/// and what is less than a day.
#[derive(Debug)]
struct Times {
    work: Box<dyn Accumulator>,
}

impl Accumulator for Times {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let micros: ArrayRef = Arc::new(micros(&values[0])?);
        self.work.update_batch(&[cast(&micros, &DataType::Float64)?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.work.merge_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.work.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let found = match self.work.evaluate()? {
            ScalarValue::Float64(found) => found.map(|micros| micros as i64),
            other => return exec_err!("a distance of times is no {}", other.data_type()),
        };
        let interval = found.map(|micros| {
            let days = i32::try_from(micros / DAY).unwrap_or(i32::MAX);
            IntervalMonthDayNano::new(0, days, micros % DAY * 1_000)
        });
        Ok(ScalarValue::IntervalMonthDayNano(interval))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.work.size()
    }
}

/// Each number once.
#[derive(Debug)]
struct Distinct {
    seen: Distances,
    /// So many numbers may be there before the same ones are sought.
    room: usize,
    work: Box<dyn Accumulator>,
}

impl Accumulator for Distinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.seen.update_batch(values)?;
        self.shorten_sometimes();
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.seen.merge_batch(states)?;
        self.shorten_sometimes();
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.shorten();
        self.seen.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.shorten();
        let numbers = std::mem::take(&mut self.seen.numbers);
        self.work.update_batch(&[Arc::new(Float64Array::from(numbers))])?;
        self.work.evaluate()
    }

    fn size(&self) -> usize {
        self.seen.size() + self.work.size()
    }
}

impl Distinct {
    fn shorten_sometimes(&mut self) {
        const LEAST: usize = 1 << 16;
        if self.seen.numbers.len() > self.room {
            self.shorten();
            self.room = LEAST.max(self.seen.numbers.len() * 2);
        }
    }

    fn shorten(&mut self) {
        let numbers = &mut self.seen.numbers;
        numbers.iter_mut().for_each(|n| *n = if n.is_nan() { f64::NAN } else { *n + 0.0 });
        numbers.sort_unstable_by(f64::total_cmp);
        numbers.dedup_by(|a, b| a.to_bits() == b.to_bits());
    }
}
