//! Aggregates of floating point numbers over moving frames, without subtraction.
//!
//! The query engine takes what leaves a frame off the total. Of floating point numbers that keeps
//! what rounding has lost: behind 1e17 the sum of 2 and 3 is 0, behind an infinity or NaN it is NaN
//! for ever. [`Queue`] joins what is in the frame instead, in constant time a row on average: the
//! two stacks of K. Tangwongsan, M. Hirzel and S. Schneider, *Optimal and general out-of-order
//! sliding-window aggregation* (2019), section 2. Its memory grows with the frame, 8 to 48 bytes a
//! row.

use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use arrow::datatypes::{DataType, FieldRef, Float64Type};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, StatisticsArgs,
};

use crate::engines_own::as_engines_aggregate;

/// What is known of some rows. Joining is associative; the default is that of no rows.
pub(super) trait Part: Copy + Debug + Default + Send + Sync {
    /// What is known of the rows of both, those of `self` first.
    fn joined(&self, other: &Self) -> Self;
}

/// Parts that come at one end and leave at the other, and all of them joined.
#[derive(Debug, Default)]
pub(super) struct Queue<P> {
    /// The oldest parts, the oldest one last; each joined with all that came after it up to the
    /// end of this stack.
    old: Vec<P>,
    /// The parts that came since.
    new: Vec<P>,
    /// All parts of `new`.
    of_new: P,
}

impl<P: Part> Queue<P> {
    pub(super) fn push(&mut self, part: P) {
        self.new.push(part);
        self.of_new = self.of_new.joined(&part);
    }

    /// Drops the oldest part.
    pub(super) fn pop(&mut self) {
        if self.old.is_empty() {
            let mut all = P::default();
            for part in self.new.drain(..).rev() {
                all = part.joined(&all);
                self.old.push(all);
            }
            self.of_new = P::default();
        }
        self.old.pop();
    }

    pub(super) fn len(&self) -> usize {
        self.old.len() + self.new.len()
    }

    pub(super) fn total(&self) -> P {
        self.old.last().map_or(self.of_new, |old| old.joined(&self.of_new))
    }

    pub(super) fn size(&self) -> usize {
        size_of_val(self) + (self.old.capacity() + self.new.capacity()) * size_of::<P>()
    }
}

/// The sum of some numbers.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Sum(f64);

impl Part for Sum {
    fn joined(&self, other: &Self) -> Self {
        Self(self.0 + other.0)
    }
}

/// Counts, means and sums of squared distances from the mean of one or two numbers a row, after
/// Pébay as in [`moments`](super::moments).
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Spread {
    count: f64,
    x: f64,
    y: f64,
    xx: f64,
    yy: f64,
    xy: f64,
}

impl Part for Spread {
    fn joined(&self, other: &Self) -> Self {
        if self.count == 0.0 || other.count == 0.0 {
            return if self.count == 0.0 { *other } else { *self };
        }
        let count = self.count + other.count;
        let (dx, dy) = (other.x - self.x, other.y - self.y);
        let weight = self.count * other.count / count;
        Self {
            count,
            x: self.x + dx * other.count / count,
            y: self.y + dy * other.count / count,
            xx: self.xx + other.xx + dx * dx * weight,
            yy: self.yy + other.yy + dy * dy * weight,
            xy: self.xy + other.xy + dx * dy * weight,
        }
    }
}

/// What is asked of numbers that come and go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Variance { sample: bool, root: bool },
    Covariance { sample: bool },
    Correlation,
    Slope,
    Intercept,
    R2,
    AverageX,
    AverageY,
    Sxx,
    Syy,
    Sxy,
}

/// The aggregates of the engine that subtract, but for `sum` and `avg`.
const SUBTRACTING: &[(&str, Kind)] = &[
    ("var", Kind::Variance { sample: true, root: false }),
    ("var_pop", Kind::Variance { sample: false, root: false }),
    ("stddev", Kind::Variance { sample: true, root: true }),
    ("stddev_pop", Kind::Variance { sample: false, root: true }),
    ("covar_samp", Kind::Covariance { sample: true }),
    ("covar_pop", Kind::Covariance { sample: false }),
    ("corr", Kind::Correlation),
    ("regr_slope", Kind::Slope),
    ("regr_intercept", Kind::Intercept),
    ("regr_r2", Kind::R2),
    ("regr_avgx", Kind::AverageX),
    ("regr_avgy", Kind::AverageY),
    ("regr_sxx", Kind::Sxx),
    ("regr_syy", Kind::Syy),
    ("regr_sxy", Kind::Sxy),
];

impl Kind {
    fn of(self, all: &Spread) -> Option<f64> {
        let n = all.count;
        let several = (n > 1.0).then_some(());
        match self {
            Self::Variance { sample, root } => {
                let rows = if sample { n - 1.0 } else { n };
                let found = (rows > 0.0).then(|| all.xx / rows);
                // One number is no distance from itself, also where it is infinite.
                let found = if n == 1.0 { found.map(|_| 0.0) } else { found };
                found.map(|found| if root { found.sqrt() } else { found })
            }
            Self::Covariance { sample } => {
                let rows = if sample { n - 1.0 } else { n };
                (rows > 0.0).then(|| all.xy / rows)
            }
            Self::Correlation if all.x.is_nan() && all.y.is_nan() => Some(f64::NAN),
            Self::Correlation => {
                let known = n > 1.0 && !all.x.is_nan() && !all.y.is_nan();
                let spread = known && all.xx != 0.0 && all.yy != 0.0;
                let both = all.xx * all.yy;
                spread.then(|| match both.is_normal() {
                    true => all.xy / both.sqrt(),
                    false => all.xy / all.xx.sqrt() / all.yy.sqrt(),
                })
            }
            // Those of regressions have the dependent number first.
            Self::Slope => several.filter(|()| all.yy != 0.0).map(|()| all.xy / all.yy),
            Self::Intercept => {
                several.filter(|()| all.yy != 0.0).map(|()| all.x - all.xy / all.yy * all.y)
            }
            Self::R2 => several
                .filter(|()| all.xx != 0.0 && all.yy != 0.0)
                .map(|()| all.xy * all.xy / (all.xx * all.yy)),
            Self::AverageX => (n > 0.0).then_some(all.y),
            Self::AverageY => (n > 0.0).then_some(all.x),
            Self::Sxx => (n > 0.0).then_some(all.yy),
            Self::Syy => (n > 0.0).then_some(all.xx),
            Self::Sxy => (n > 0.0).then_some(all.xy),
        }
    }
}

/// Puts accumulators of this module into the aggregates that have others for moving frames.
pub(crate) fn replace(all: &mut [Arc<AggregateUDF>]) {
    for function in all {
        let known = SUBTRACTING.iter().find(|(name, _)| *name == function.name());
        if let Some((_, kind)) = known {
            let engine = Arc::clone(function);
            *function = Arc::new(AggregateUDF::new_from_impl(Moving { engine, kind: *kind }));
        }
    }
}

/// The sum, or the mean, of floating point numbers in a moving frame.
pub(crate) fn moving_sum(is_mean: bool) -> Box<dyn Accumulator> {
    Box::new(MovingSum { is_mean, queue: Queue::default() })
}

#[derive(Debug)]
struct MovingSum {
    is_mean: bool,
    queue: Queue<Sum>,
}

/// The numbers of an argument.
fn numbers(values: &[ArrayRef], place: usize) -> Result<&Float64Array> {
    match values.get(place).and_then(|array| array.as_primitive_opt::<Float64Type>()) {
        Some(numbers) => Ok(numbers),
        None => internal_err!("an aggregate of a moving frame without numbers"),
    }
}

/// Nobody asks for a state: a frame is not spread over partitions.
fn no_state<T>() -> Result<T> {
    internal_err!("the state of a moving frame")
}

impl Accumulator for MovingSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        numbers(values, 0)?.iter().flatten().for_each(|number| self.queue.push(Sum(number)));
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let numbers = numbers(values, 0)?;
        (numbers.null_count()..numbers.len()).for_each(|_| self.queue.pop());
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> Result<()> {
        no_state()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        no_state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let (Sum(sum), count) = (self.queue.total(), self.queue.len());
        let found = if self.is_mean { sum / count as f64 } else { sum };
        Ok(ScalarValue::Float64((count > 0).then_some(found)))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.queue.size()
    }
}

/// Of the rows that have all numbers.
#[derive(Debug)]
struct MovingSpread {
    kind: Kind,
    queue: Queue<Spread>,
}

impl MovingSpread {
    /// Calls `row` with the numbers of each row that has all of them.
    fn each(values: &[ArrayRef], mut row: impl FnMut(f64, f64)) -> Result<()> {
        let x = numbers(values, 0)?;
        let y = if values.len() > 1 { numbers(values, 1)? } else { x };
        for (x, y) in x.iter().zip(y) {
            if let (Some(x), Some(y)) = (x, y) {
                row(x, y);
            }
        }
        Ok(())
    }
}

impl Accumulator for MovingSpread {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let queue = &mut self.queue;
        Self::each(values, |x, y| queue.push(Spread { count: 1.0, x, y, ..Spread::default() }))
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let queue = &mut self.queue;
        Self::each(values, |_, _| queue.pop())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> Result<()> {
        no_state()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        no_state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.kind.of(&self.queue.total())))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.queue.size()
    }
}

/// An aggregate of the engine, with an accumulator of ours for moving frames.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Moving {
    engine: Arc<AggregateUDF>,
    kind: Kind,
}

impl AggregateUDFImpl for Moving {
    as_engines_aggregate!();

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.engine.accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.engine.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.engine.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        self.engine.create_groups_accumulator(args)
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        let are_numbers = |field: &FieldRef| *field.data_type() == DataType::Float64;
        match !args.is_distinct && args.expr_fields.iter().all(are_numbers) {
            true => Ok(Box::new(MovingSpread { kind: self.kind, queue: Queue::default() })),
            false => self.engine.create_sliding_accumulator(args),
        }
    }

    fn value_from_stats(&self, args: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        self.engine.value_from_stats(args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All frames of random rows, against the same rows joined anew.
    #[test]
    fn a_queue_is_what_is_in_it() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut queue, mut rows) = (Queue::<Sum>::default(), std::collections::VecDeque::new());
        for _ in 0..10_000 {
            if rows.is_empty() || random.u8(0..100) < 52 {
                let value = f64::from(random.i32(-1000..1000));
                rows.push_back(value);
                queue.push(Sum(value));
            } else {
                rows.pop_front();
                queue.pop();
            }
            assert_eq!(queue.len(), rows.len());
            assert_eq!(queue.total().0, rows.iter().sum::<f64>());
        }
    }

    #[test]
    fn outliers_leave_nothing_behind() {
        let column = |values: &[f64]| -> ArrayRef { Arc::new(Float64Array::from(values.to_vec())) };
        for outlier in [1e17, f64::INFINITY, f64::NAN] {
            let mut sum = moving_sum(false);
            sum.update_batch(&[column(&[outlier, 2.0])]).unwrap();
            sum.retract_batch(&[column(&[outlier])]).unwrap();
            sum.update_batch(&[column(&[3.0])]).unwrap();
            assert_eq!(sum.evaluate().unwrap(), ScalarValue::Float64(Some(5.0)));
            let kind = Kind::Variance { sample: false, root: true };
            let mut spread = MovingSpread { kind, queue: Queue::default() };
            spread.update_batch(&[column(&[outlier, 5.0])]).unwrap();
            spread.retract_batch(&[column(&[outlier])]).unwrap();
            spread.update_batch(&[column(&[5.0])]).unwrap();
            assert_eq!(spread.evaluate().unwrap(), ScalarValue::Float64(Some(0.0)));
        }
    }
}
