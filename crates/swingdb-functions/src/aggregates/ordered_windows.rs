//! `list(x ORDER BY y) OVER (...)`: aggregates in an order of their own over the rows of a window.
//!
//! The query engine knows ORDER BY in aggregates of groups only. So the keys of such a call become
//! arguments of another function: `array_agg_in_order(x, 'desc last', y) OVER (...)`, which sorts
//! the rows of each frame.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::SortOptions;
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::Literal;

use super::counted_values::one_of_each;
use super::ordered::{Gathering, Nothing, has_null, sorted};
use crate::keys::intervals::lengths;
use crate::keys::order::{bytes, is_ordered_otherwise};

/// The functions, and how many constants each has behind its value.
pub const FUNCTIONS: &[(&str, &str, usize)] = &[
    ("array_agg", "array_agg_in_order", 0),
    ("string_agg", "string_agg_in_order", 1),
    ("first_value", "first_value_in_order", 0),
    ("last_value", "last_value_in_order", 0),
    ("nth_value", "nth_value_in_order", 1),
    ("mode", "mode_in_order", 0),
];

fn options_in(text: &str) -> Vec<SortOptions> {
    let options = text.split(',').map(|key| SortOptions {
        descending: key.starts_with("desc"),
        nulls_first: key.ends_with("first"),
    });
    options.collect()
}

/// All functions of this module, of the aggregates that there are.
pub(crate) fn functions(all: &[Arc<AggregateUDF>]) -> Vec<Arc<AggregateUDF>> {
    let functions = FUNCTIONS.iter().filter_map(|(plain, in_order, constants)| {
        let plain = all.iter().find(|known| known.name() == *plain)?;
        let signature = Signature::user_defined(Volatility::Immutable);
        let function =
            InOrder { name: in_order, plain: sorted(plain), constants: *constants, signature };
        Some(Arc::new(AggregateUDF::new_from_impl(function)))
    });
    functions.collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct InOrder {
    name: &'static str,
    /// Gets the values of a frame in order.
    plain: Arc<AggregateUDF>,
    constants: usize,
    signature: Signature,
}

impl InOrder {
    /// How many arguments are the plain function's.
    fn own(&self, args: usize) -> Result<usize> {
        match self.constants + 1 {
            own if own + 1 < args => Ok(own),
            _ => plan_err!("{} has no keys; write {}(...)", self.name, self.plain.name()),
        }
    }
}

impl AggregateUDFImpl for InOrder {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let (own, keys) = types.split_at(self.own(types.len())?);
        let field = |of: &DataType| -> FieldRef { Arc::new(Field::new("", of.clone(), true)) };
        let own = own.iter().map(field).collect::<Vec<_>>();
        let own = fields_with_udf(&own, self.plain.as_ref())?;
        Ok(own.iter().map(|field| field.data_type().clone()).chain(keys.iter().cloned()).collect())
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        internal_err!("{} has a field", self.name)
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        self.plain.return_field(&fields[..self.own(fields.len())?])
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let own = self.own(args.exprs.len())?;
        let options = args.exprs[own].downcast_ref::<Literal>();
        let Some(Some(options)) = options.and_then(|options| options.value().try_as_str()) else {
            return plan_err!("{} is written as {}(...)", self.name, self.plain.name());
        };
        let options = options_in(options);
        let value = args.expr_fields[0].data_type().clone();
        let keys = args.expr_fields[own + 1..].iter().map(|key| key_type(key.data_type()));
        let types = std::iter::once(value).chain(keys).collect::<Vec<_>>();
        let plain = AggregateExprBuilder::new(Arc::clone(&self.plain), args.exprs[..own].to_vec())
            .schema(Arc::new(args.schema.clone()))
            .alias(args.name)
            .with_ignore_nulls(args.ignore_nulls)
            .build()?;
        let rows = Gathering::new(&types, 1, options, args.is_distinct).with_leaving();
        let frame = Box::new(Frame { plain, own, rows });
        Ok(if has_null(&args.exprs[..own]) { Box::new(Nothing(frame)) } else { frame })
    }

    fn state_fields(&self, _args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        plan_err!("{} is a function of windows", self.name)
    }
}

/// Intervals are ordered by their length, lists, structs and maps as everywhere in SQL.
fn key_type(of: &DataType) -> DataType {
    match of {
        DataType::Interval(_) => DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0),
        nested if is_ordered_otherwise(nested) => DataType::Binary,
        other => other.clone(),
    }
}

fn key(values: &ArrayRef) -> Result<ArrayRef> {
    match values.data_type() {
        DataType::Interval(_) => lengths(values),
        nested if is_ordered_otherwise(nested) => bytes(values),
        _ => Ok(one_of_each(values)),
    }
}

/// The rows of a frame.
#[derive(Debug)]
struct Frame {
    plain: AggregateFunctionExpr,
    /// How many arguments are its own.
    own: usize,
    rows: Gathering,
}

impl Accumulator for Frame {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let keys = values[self.own + 1..].iter().map(key).collect::<Result<Vec<_>>>()?;
        self.rows.add(std::iter::once(Arc::clone(&values[0])).chain(keys))
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.rows.leave(values[0].len())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let columns = self.rows.sorted()?;
        let mut work = self.plain.create_accumulator()?;
        work.update_batch(&columns[..1])?;
        work.evaluate()
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> Result<()> {
        internal_err!("frames are not merged")
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("a frame has no state")
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.rows.bytes
    }
}
