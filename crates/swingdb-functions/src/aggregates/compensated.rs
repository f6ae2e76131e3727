//! Sums and means of floating point numbers that keep what is lost in rounding: `fsum`, `favg`.
//!
//! After A. Neumaier, *Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen*
//! (1974).

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};

/// All functions of this module.
pub(crate) fn functions() -> impl Iterator<Item = AggregateUDF> {
    let all = [("fsum", &["kahan_sum", "sumkahan"][..], false), ("favg", &[], true)];
    all.into_iter().map(|(name, aliases, is_mean)| {
        let aliases = aliases.iter().map(ToString::to_string).collect();
        let signature = Signature::exact(vec![DataType::Float64], Volatility::Immutable);
        AggregateUDF::new_from_impl(Compensated { name, aliases, is_mean, signature })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Compensated {
    name: &'static str,
    aliases: Vec<String>,
    is_mean: bool,
    signature: Signature,
}

impl AggregateUDFImpl for Compensated {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let work = Box::new(Total { is_mean: self.is_mean, ..Total::default() });
        Ok(match args.is_distinct {
            true => super::moments::each_once(work),
            false => work,
        })
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field =
            |name: &str, of| Arc::new(Field::new(format!("{}[{name}]", args.name), of, true));
        if args.is_distinct {
            let item = Field::new_list_field(DataType::Float64, true);
            return Ok(vec![field("values", DataType::List(Arc::new(item)))]);
        }
        Ok(["sum", "lost", "count"].map(|name| field(name, DataType::Float64)).to_vec())
    }
}

/// The sum is `sum` and `lost` together.
#[derive(Debug, Default)]
struct Total {
    is_mean: bool,
    sum: f64,
    lost: f64,
    count: f64,
}

impl Total {
    fn add(&mut self, value: f64) {
        let sum = self.sum + value;
        let (large, small) = match self.sum.abs() >= value.abs() {
            true => (self.sum, value),
            false => (value, self.sum),
        };
        // Nothing is lost beside infinity.
        self.lost += if sum.is_finite() { (large - sum) + small } else { 0.0 };
        self.sum = sum;
    }
}

impl Accumulator for Total {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<Float64Type>().iter().flatten() {
            self.add(value);
            self.count += 1.0;
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let parts: Vec<_> = states.iter().map(|s| s.as_primitive::<Float64Type>()).collect();
        let [sum, lost, count] = parts.as_slice() else {
            return datafusion::common::internal_err!("a compensated sum has three parts");
        };
        for row in 0..sum.len() {
            self.add(sum.value(row));
            self.add(lost.value(row));
            self.count += count.value(row);
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok([self.sum, self.lost, self.count].map(|part| ScalarValue::Float64(Some(part))).to_vec())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let total = self.sum + self.lost;
        let found = if self.is_mean { total / self.count } else { total };
        Ok(ScalarValue::Float64((self.count > 0.0).then_some(found)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}
