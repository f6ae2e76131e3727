//! `row_number`, `rank`, `dense_rank` and `ntile` as BIGINT: [`functions`].
//!
//! The query engine's own count in unsigned numbers. There the difference of two ranks overflows
//! where it is negative, and a comparison with a BIGINT is one of decimals.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::{SortOptions, cast};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_window::ntile::ntile_udwf;
use datafusion::functions_window::rank::{dense_rank_udwf, rank_udwf};
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::function::{
    ExpressionArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs,
};
use datafusion::logical_expr::window_state::WindowAggState;
use datafusion::logical_expr::{
    LimitEffect, PartitionEvaluator, ReversedUDWF, WindowUDF, WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;

use crate::engines_own::as_engines_named;

/// What places of rows are counted in.
const COUNT: DataType = DataType::Int64;

/// The functions in place of the engine's.
pub(crate) fn functions() -> [Arc<WindowUDF>; 4] {
    [row_number_udwf(), rank_udwf(), dense_rank_udwf(), ntile_udwf()]
        .map(|engines| Arc::new(WindowUDF::new_from_impl(RankFunction { engines })))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct RankFunction {
    engines: Arc<WindowUDF>,
}

impl WindowUDFImpl for RankFunction {
    as_engines_named!(engines);

    fn expressions(&self, args: ExpressionArgs<'_>) -> Vec<Arc<dyn PhysicalExpr>> {
        self.engines.expressions(args)
    }

    fn partition_evaluator(
        &self,
        args: PartitionEvaluatorArgs<'_>,
    ) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Counted(self.engines.partition_evaluator_factory(args)?)))
    }

    fn field(&self, args: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        let field = self.engines.field(args)?;
        Ok(Arc::new(field.as_ref().clone().with_data_type(COUNT)))
    }

    fn sort_options(&self) -> Option<SortOptions> {
        self.engines.sort_options()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.engines.coerce_types(types)
    }

    fn reverse_expr(&self) -> ReversedUDWF {
        match self.engines.reverse_expr() {
            ReversedUDWF::Identical => ReversedUDWF::Identical,
            // The opposite would be one of the engine's own.
            ReversedUDWF::NotSupported | ReversedUDWF::Reversed(_) => ReversedUDWF::NotSupported,
        }
    }

    fn limit_effect(&self, args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        self.engines.inner().limit_effect(args)
    }
}

/// The engine's numbers, as BIGINT.
#[derive(Debug)]
struct Counted(Box<dyn PartitionEvaluator>);

impl PartitionEvaluator for Counted {
    fn memoize(&mut self, state: &mut WindowAggState) -> Result<()> {
        self.0.memoize(state)
    }

    fn get_range(&self, row: usize, rows: usize) -> Result<Range<usize>> {
        self.0.get_range(row, rows)
    }

    fn is_causal(&self) -> bool {
        self.0.is_causal()
    }

    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        Ok(cast(&self.0.evaluate_all(values, rows)?, &COUNT)?)
    }

    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        match self.0.evaluate(values, range)? {
            ScalarValue::UInt64(count) => {
                Ok(ScalarValue::Int64(count.and_then(|count| i64::try_from(count).ok())))
            }
            other => other.cast_to(&COUNT),
        }
    }

    fn evaluate_all_with_rank(&self, rows: usize, ranks: &[Range<usize>]) -> Result<ArrayRef> {
        Ok(cast(&self.0.evaluate_all_with_rank(rows, ranks)?, &COUNT)?)
    }

    fn supports_bounded_execution(&self) -> bool {
        self.0.supports_bounded_execution()
    }

    fn uses_window_frame(&self) -> bool {
        self.0.uses_window_frame()
    }

    fn include_rank(&self) -> bool {
        self.0.include_rank()
    }
}
