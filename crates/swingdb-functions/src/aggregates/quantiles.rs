//! Quantiles of any type: `quantile_disc`, `quantile_cont`, `median`, `approx_quantile`.
//!
//! A fraction may be a list of several, for a list of quantiles. A negative one counts from the
//! greatest value down, as `WITHIN GROUP (ORDER BY x DESC)` does. Values are gathered and searched
//! by [`picked`](super::picked); the median of decimals, and an approximate quantile of floating
//! point numbers, are the query engine's own.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, downcast_primitive};
use arrow::compute::{concat, filter, is_not_null};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Field, FieldRef, Float64Type, TimeUnit,
};
use arrow::row::{RowConverter, SortField};
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, Signature, Volatility,
};
use datafusion::physical_expr::expressions::Literal;

use super::picked::{Fraction, picked};
use super::quantile_groups::{QuantileGroups, QuantileRows, Quantiles};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// One of the values.
    Disc,
    /// Between two values, in proportion.
    Cont,
    /// The middle; of what has nothing in between, one of the values.
    Median,
    /// Between two values, as near as their type is to it.
    Approx,
}

/// All functions of this module, in place of the engine's.
pub(crate) fn replace(all: &mut Vec<Arc<AggregateUDF>>) {
    let engines = |name: &str| all.iter().find(|function| function.name() == name).cloned();
    let functions = [
        ("quantile_disc", &["quantile", "percentile_disc", "reservoir_quantile"][..], Kind::Disc),
        ("percentile_cont", &["quantile_cont"], Kind::Cont),
        ("median", &[], Kind::Median),
        ("approx_quantile", &[], Kind::Approx),
    ];
    let functions = functions.map(|(name, aliases, kind)| {
        let engine = match kind {
            Kind::Approx => engines("approx_percentile_cont"),
            _ => engines(name),
        };
        let aliases = aliases.iter().map(ToString::to_string).collect();
        let signature = Signature::user_defined(Volatility::Immutable);
        AggregateUDF::new_from_impl(Quantile { name, aliases, kind, engine, signature })
    });
    all.retain(|known| functions.iter().all(|ours| ours.name() != known.name()));
    all.extend(functions.map(Arc::new));
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Quantile {
    name: &'static str,
    aliases: Vec<String>,
    kind: Kind,
    /// Is faster where it knows the types.
    engine: Option<Arc<AggregateUDF>>,
    signature: Signature,
}

impl Quantile {
    /// What values are taken as.
    fn taken(&self, given: &DataType) -> DataType {
        use DataType::{Date32, Date64, Float64, Null, Timestamp};
        let is_between = self.kind == Kind::Cont || self.kind == Kind::Median;
        match given {
            Null => Float64,
            whole if whole.is_integer() && is_between => Float64,
            // HUGEINT.
            DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0) if is_between => Float64,
            Date32 | Date64 if is_between => Timestamp(TimeUnit::Microsecond, None),
            other => other.clone(),
        }
    }

    /// Whether something can lie between two values.
    fn is_between(&self, of: &DataType) -> bool {
        self.kind != Kind::Disc && (of.is_numeric() || of.is_temporal())
    }

    /// The engine's function, if it is one quantile of what it knows.
    fn of_engine(&self, types: &[DataType]) -> Option<&Arc<AggregateUDF>> {
        let is_known = match (self.kind, types) {
            // The engine's middle of two numbers is infinite where their sum is.
            (Kind::Median, [value]) => value.is_decimal(),
            (Kind::Approx, [value, fraction]) => value.is_floating() && !fraction.is_list(),
            _ => false,
        };
        self.engine.as_ref().filter(|_| is_known)
    }

    fn of_engine_for(&self, args: &AccumulatorArgs<'_>) -> Result<Option<&Arc<AggregateUDF>>> {
        let types = args.expr_fields.iter().map(|field| field.data_type().clone());
        // Says what is wrong with a fraction in our words.
        self.fractions(args)?;
        Ok(self.of_engine(&types.collect::<Vec<_>>()))
    }

    /// The fractions, and whether they are a list.
    fn fractions(&self, args: &AccumulatorArgs<'_>) -> Result<(Vec<Fraction>, bool)> {
        let is_down = args.order_bys.first().is_some_and(|key| key.options.descending);
        let fractions = match args.exprs {
            [_] => return Ok((vec![Fraction { of: 0.5, is_down: false }], false)),
            [_, fractions] => fractions.downcast_ref::<Literal>().map(Literal::value),
            _ => None,
        };
        let Some(fractions) = fractions else {
            return plan_err!("the fraction of {} is to be a constant", self.name);
        };
        let one = |given: Option<f64>| match given {
            Some(of) if of < 0.0 && self.kind == Kind::Approx || !(-1.0..=1.0).contains(&of) => {
                let least = if self.kind == Kind::Approx { 0 } else { -1 };
                plan_err!("{} takes fractions from {least} to 1, not {of}", self.name)
            }
            Some(of) => Ok(Fraction { of: of.abs(), is_down: is_down != (of < 0.0) }),
            None => plan_err!("the fraction of {} is NULL; it is to be a number", self.name),
        };
        match fractions {
            ScalarValue::Float64(fraction) => Ok((vec![one(*fraction)?], false)),
            ScalarValue::List(list) if !list.is_null(0) => {
                let all = list.value(0);
                let all = all.as_primitive::<Float64Type>().iter().map(one);
                Ok((all.collect::<Result<_>>()?, true))
            }
            _ => plan_err!("the fraction of {} is NULL; it is to be a number", self.name),
        }
    }
}

impl AggregateUDFImpl for Quantile {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match (self.kind, types) {
            (Kind::Median, [value]) => Ok(vec![self.taken(value)]),
            (Kind::Disc | Kind::Cont | Kind::Approx, [value, fraction]) => {
                let fraction = match fraction.is_list() {
                    true => DataType::new_list(DataType::Float64, true),
                    false => DataType::Float64,
                };
                Ok(vec![self.taken(value), fraction])
            }
            (Kind::Median, _) => plan_err!("median takes a value"),
            _ => plan_err!("{} takes a value, and a fraction from -1 to 1", self.name),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let needs_between = self.kind == Kind::Cont || self.kind == Kind::Approx;
        match types {
            [value, ..] if needs_between && !self.is_between(value) => {
                plan_err!("{} takes numbers and times; quantile_disc takes all", self.name)
            }
            [value] => Ok(value.clone()),
            [value, fraction] if fraction.is_list() => Ok(DataType::new_list(value.clone(), true)),
            [value, _] => Ok(value.clone()),
            _ => plan_err!("{} takes a value and a fraction", self.name),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if let Some(engine) = self.of_engine_for(&args)? {
            return engine.accumulator(args);
        }
        let (fractions, is_list) = self.fractions(&args)?;
        let of = args.expr_fields[0].data_type().clone();
        let is_between = self.is_between(&of);
        let once = args.is_distinct;
        Ok(Box::new(Values {
            of,
            fractions,
            is_list,
            is_between,
            once,
            pieces: Vec::new(),
            bytes: 0,
            left: 0,
        }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let types = args.input_fields.iter().map(|field| field.data_type().clone());
        if let Some(engine) = self.of_engine(&types.collect::<Vec<_>>()) {
            return engine.state_fields(args);
        }
        let Some(value) = args.input_fields.first() else {
            return plan_err!("{} takes a value", self.name);
        };
        let name = format!("{}[values]", args.name);
        let values = DataType::new_list(value.data_type().clone(), true);
        Ok(vec![Arc::new(Field::new(name, values, true))])
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        // What is wrong with a fraction is said by the accumulator.
        match (self.of_engine_for(&args), self.fractions(&args)) {
            (Ok(Some(engine)), _) => engine.groups_accumulator_supported(args),
            (Ok(None), Ok(_)) => true,
            _ => false,
        }
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        if let Some(engine) = self.of_engine_for(&args)? {
            return engine.create_groups_accumulator(args);
        }
        let of = args.expr_fields[0].data_type().clone();
        let (fractions, is_list) = self.fractions(&args)?;
        let is_between = self.is_between(&of);
        let asked = Quantiles { fractions, is_list, is_between, of_distances: false };
        if args.is_distinct {
            return Ok(Box::new(QuantileRows::new(of, asked, true)));
        }
        macro_rules! groups {
            ($type:ty) => {
                Ok(Box::new(QuantileGroups::<$type>::new(of, asked)))
            };
        }
        downcast_primitive! {
            of => (groups),
            _ => Ok(Box::new(QuantileRows::new(of, asked, false))),
        }
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        match self.of_engine_for(&args)? {
            Some(engine) => engine.create_sliding_accumulator(args),
            None => self.accumulator(args),
        }
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn supports_within_group_clause(&self) -> bool {
        self.kind == Kind::Disc || self.kind == Kind::Cont
    }
}

/// All values, NULLs too as long as rows may leave again.
#[derive(Debug)]
struct Values {
    of: DataType,
    fractions: Vec<Fraction>,
    is_list: bool,
    is_between: bool,
    /// Each value counts once.
    once: bool,
    pieces: Vec<ArrayRef>,
    bytes: usize,
    /// So many rows at the front have left.
    left: usize,
}

impl Values {
    fn add(&mut self, piece: ArrayRef) -> Result<()> {
        self.bytes += piece.to_data().get_slice_memory_size()? + size_of::<BooleanArray>();
        self.pieces.push(piece);
        Ok(())
    }

    /// The rows that are there, as one piece.
    fn whole(&mut self) -> Result<ArrayRef> {
        let parts: Vec<&dyn Array> = self.pieces.iter().map(AsRef::as_ref).collect();
        let all = match parts.as_slice() {
            [] => arrow::array::new_empty_array(&self.of),
            parts => concat(parts)?,
        };
        let all = all.slice(self.left, all.len() - self.left);
        self.left = 0;
        self.bytes = 0;
        self.pieces.clear();
        self.add(Arc::clone(&all))?;
        Ok(all)
    }

    /// The values that count.
    fn counted(&mut self) -> Result<ArrayRef> {
        let all = self.whole()?;
        let known = match all.null_count() {
            0 => all,
            _ => filter(&all, &is_not_null(&all)?)?,
        };
        if !self.once {
            return Ok(known);
        }
        let converter = RowConverter::new(vec![SortField::new(self.of.clone())])?;
        let rows = converter.convert_columns(std::slice::from_ref(&known))?;
        let mut seen = hashbrown::HashSet::new();
        let firsts: BooleanArray = rows.iter().map(|row| Some(seen.insert(row))).collect();
        Ok(filter(&known, &firsts)?)
    }
}

impl Accumulator for Values {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(Arc::clone(&values[0]))
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.left += values[0].len();
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        states[0].as_list::<i32>().iter().flatten().try_for_each(|values| self.add(values))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = self.counted()?;
        Ok(vec![SingleRowListArrayBuilder::new(values).build_list_scalar()])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let values = self.counted()?;
        if values.is_empty() {
            let of = match self.is_list {
                true => DataType::new_list(self.of.clone(), true),
                false => self.of.clone(),
            };
            return ScalarValue::try_new_null(&of);
        }
        let found = picked(&values, &self.fractions, self.is_between)?;
        match self.is_list {
            true => Ok(SingleRowListArrayBuilder::new(found).build_list_scalar()),
            false => ScalarValue::try_from_array(&found, 0),
        }
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.bytes
    }
}
