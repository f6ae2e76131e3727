//! Aggregates over moving frames that cannot take a row off again: computed anew for each frame.
//!
//! The query engine refuses them (`retract_batch` is not implemented). Each frame costs time in
//! proportion to its rows; a statement that takes long this way can be interrupted between frames.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::concat;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature,
};
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use swingdb_common::runtime::cancel;

/// Aggregates that are known to take rows off again, whatever they are of.
const RETRACTING: &[&str] = &["count", "min", "max"];
/// The same, but not with DISTINCT.
const RETRACTING_ALL: &[&str] = &["sum", "avg"];

/// The same aggregate for frames whose first row moves.
pub fn in_moving_frames(function: Arc<AggregateUDF>, is_distinct: bool) -> Arc<AggregateUDF> {
    let name = function.name();
    match RETRACTING.contains(&name) || !is_distinct && RETRACTING_ALL.contains(&name) {
        true => function,
        false => Moving::of(function),
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Moving {
    engine: Arc<AggregateUDF>,
}

impl Moving {
    fn of(engine: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
        Arc::new(AggregateUDF::new_from_impl(Self { engine }))
    }
}

impl AggregateUDFImpl for Moving {
    fn name(&self) -> &str {
        self.engine.name()
    }

    fn signature(&self) -> &Signature {
        self.engine.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.engine.coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.engine.return_type(types)
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        self.engine.return_field(fields)
    }

    fn is_nullable(&self) -> bool {
        self.engine.is_nullable()
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.engine.accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.engine.state_fields(args)
    }

    fn groups_accumulator_supported(&self, _args: AccumulatorArgs<'_>) -> bool {
        false
    }

    fn create_groups_accumulator(
        &self,
        _args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        internal_err!("frames are no groups")
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        let plain = AggregateExprBuilder::new(Arc::clone(&self.engine), args.exprs.to_vec())
            .schema(Arc::new(args.schema.clone()))
            .alias(args.name)
            .order_by(args.order_bys.to_vec())
            .with_ignore_nulls(args.ignore_nulls)
            .with_distinct(args.is_distinct)
            .build()?;
        let of = args.return_field.data_type().clone();
        match self.engine.create_sliding_accumulator(args) {
            Ok(inner) if self.name() == "bit_xor" && inner.supports_retract_batch() => {
                Ok(Box::new(OfValues { inner, of, values: 0 }))
            }
            Ok(engines) if engines.supports_retract_batch() => Ok(engines),
            _ => Ok(Box::new(Frame { plain, rows: Vec::new(), new: Vec::new(), left: 0 })),
        }
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.engine.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.engine.reverse_udf() {
            ReversedUDAF::Reversed(engine) => ReversedUDAF::Reversed(Self::of(engine)),
            other => other,
        }
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.engine.default_value(data_type)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.engine.supports_null_handling_clause()
    }

    fn supports_within_group_clause(&self) -> bool {
        self.engine.supports_within_group_clause()
    }
}

/// NULL where a frame has no value any more: what is left of the engine's `bit_xor` is 0 then.
#[derive(Debug)]
struct OfValues {
    inner: Box<dyn Accumulator>,
    of: DataType,
    /// Values in the frame that are not NULL.
    values: usize,
}

fn known(values: &[ArrayRef]) -> usize {
    values.first().map_or(0, |column| column.len() - column.logical_null_count())
}

impl Accumulator for OfValues {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.values += known(values);
        self.inner.update_batch(values)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.values -= known(values).min(self.values);
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match self.values {
            0 => ScalarValue::try_new_null(&self.of),
            _ => self.inner.evaluate(),
        }
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> Result<()> {
        internal_err!("frames are not merged")
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("a frame has no state")
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size()
    }
}

/// The arguments of the rows of a frame.
#[derive(Debug)]
struct Frame {
    plain: AggregateFunctionExpr,
    /// Columns of rows, of which the first `left` are in the frame no more.
    rows: Vec<ArrayRef>,
    /// Columns of the rows behind them.
    new: Vec<Vec<ArrayRef>>,
    left: usize,
}

impl Frame {
    /// The columns of the rows that are in the frame.
    fn settle(&mut self) -> Result<&[ArrayRef]> {
        let new = std::mem::take(&mut self.new);
        let left = std::mem::take(&mut self.left);
        let of_rows = left.min(self.rows.first().map_or(0, |column| column.len()));
        let mut settled = Vec::new();
        for column in 0..new.first().map_or(self.rows.len(), Vec::len) {
            let old = self.rows.get(column).map(|old| old.slice(of_rows, old.len() - of_rows));
            let pieces = old.iter().chain(new.iter().map(|columns| &columns[column]));
            let all = concat(&pieces.map(|piece| piece.as_ref()).collect::<Vec<_>>())?;
            settled.push(all.slice(left - of_rows, all.len() - (left - of_rows)));
        }
        self.rows = settled;
        Ok(&self.rows)
    }
}

impl Accumulator for Frame {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.new.push(values.to_vec());
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.left += values.first().map_or(0, |column| column.len());
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        cancel::check()?;
        let mut plain = self.plain.create_accumulator()?;
        let rows = self.settle()?;
        if rows.first().is_some_and(|column| !column.is_empty()) {
            plain.update_batch(rows)?;
        }
        plain.evaluate()
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> Result<()> {
        internal_err!("frames are not merged")
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("a frame has no state")
    }

    fn size(&self) -> usize {
        let columns = self.rows.iter().chain(self.new.iter().flatten());
        size_of_val(self) + columns.map(|column| column.get_array_memory_size()).sum::<usize>()
    }
}
