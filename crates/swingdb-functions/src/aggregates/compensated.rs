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
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, Signature, Volatility,
};

use super::number_groups::{NumberGroups, Summary};

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
        let work = Box::new(OfOneGroup { is_mean: self.is_mean, total: Total::default() });
        Ok(match args.is_distinct {
            true => super::moments::each_once(work),
            false => work,
        })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(
        &self,
        _args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let is_mean = self.is_mean;
        Ok(Box::new(NumberGroups::new(move |total: &Total| Ok(total.value(is_mean)))))
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
#[derive(Debug, Clone, Default)]
struct Total {
    sum: f64,
    lost: f64,
    count: f64,
}

impl Total {
    fn gather(&mut self, value: f64) {
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

impl Total {
    /// The sum, or the mean; `None` of no numbers.
    fn value(&self, is_mean: bool) -> Option<f64> {
        let total = self.sum + self.lost;
        let found = if is_mean { total / self.count } else { total };
        (self.count > 0.0).then_some(found)
    }
}

impl Summary<3> for Total {
    fn add(&mut self, value: f64) {
        self.gather(value);
        self.count += 1.0;
    }

    fn merge(&mut self, [sum, lost, count]: [f64; 3]) {
        self.gather(sum);
        self.gather(lost);
        self.count += count;
    }

    fn parts(&self) -> [f64; 3] {
        [self.sum, self.lost, self.count]
    }
}

#[derive(Debug)]
struct OfOneGroup {
    is_mean: bool,
    total: Total,
}

impl Accumulator for OfOneGroup {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<Float64Type>();
        values.iter().flatten().for_each(|value| self.total.add(value));
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let parts: Vec<_> = states.iter().map(|s| s.as_primitive::<Float64Type>()).collect();
        let [sum, lost, count] = parts.as_slice() else {
            return datafusion::common::internal_err!("a compensated sum has three parts");
        };
        for row in 0..sum.len() {
            self.total.merge([sum, lost, count].map(|part| part.value(row)));
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(self.total.parts().map(|part| ScalarValue::Float64(Some(part))).to_vec())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.total.value(self.is_mean)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}
