//! `lead` and `lag` that find their places among NULLs: [`functions`].
//!
//! With IGNORE NULLS the query engine computes them row by row and counts wrongly behind a gap of
//! NULLs (apache/datafusion#25471). Over a whole partition at once it counts right, so that is how
//! they are computed. Also, a LIMIT above must not cut the rows that they look ahead at: how far
//! that is nobody knows when NULLs are passed over, and `lag` with a negative offset looks ahead
//! as well. By an offset of NULL there is no row: the engine would take it for 0.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, new_null_array};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::functions_window::lead_lag::{lag_udwf, lead_udwf};
use datafusion::logical_expr::function::{
    ExpressionArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs,
};
use datafusion::logical_expr::{
    LimitEffect, PartitionEvaluator, ReversedUDWF, Signature, WindowUDF, WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;

/// The name of the function that looks back.
const LAG_NAME: &str = "lag";

/// The functions in place of the engine's.
pub(crate) fn functions() -> [Arc<WindowUDF>; 2] {
    [lead_udwf(), lag_udwf()].map(|engines| Shift { engines, is_reversed: false }.function())
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Shift {
    engines: Arc<WindowUDF>,
    /// It gets rows in the reverse of the order that it is defined by.
    is_reversed: bool,
}

impl Shift {
    fn function(self) -> Arc<WindowUDF> {
        Arc::new(WindowUDF::new_from_impl(self))
    }
}

impl WindowUDFImpl for Shift {
    fn name(&self) -> &str {
        self.engines.name()
    }

    fn signature(&self) -> &Signature {
        self.engines.signature()
    }

    fn expressions(&self, args: ExpressionArgs<'_>) -> Vec<Arc<dyn PhysicalExpr>> {
        self.engines.expressions(args)
    }

    fn partition_evaluator(
        &self,
        args: PartitionEvaluatorArgs<'_>,
    ) -> Result<Box<dyn PartitionEvaluator>> {
        let offset = args.input_exprs().get(1).and_then(|arg| arg.downcast_ref::<Literal>());
        if offset.is_some_and(|offset| offset.value().is_null())
            && let Some(field) = args.input_fields().first()
        {
            return Ok(Box::new(Nothing(field.data_type().clone())));
        }
        let ignores_nulls = args.ignore_nulls();
        let engines = self.engines.partition_evaluator_factory(args)?;
        Ok(if ignores_nulls { Box::new(WholePartitions(engines)) } else { engines })
    }

    fn field(&self, args: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        self.engines.field(args)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.engines.coerce_types(types)
    }

    fn reverse_expr(&self) -> ReversedUDWF {
        // The same function: the engine tells it that rows come in reverse (`is_reversed` of
        // `PartitionEvaluatorArgs`), and it turns the offset round.
        let reversed = Self { is_reversed: !self.is_reversed, ..self.clone() };
        ReversedUDWF::Reversed(reversed.function())
    }

    fn limit_effect(&self, args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        let offset = args.get(1).map(|arg| arg.downcast_ref::<Literal>().map(Literal::value));
        let is_forward = match offset {
            None => true,
            Some(Some(ScalarValue::Int64(Some(offset)))) => *offset >= 0,
            Some(_) => false,
        };
        // In reverse `lag` looks at rows that are yet to come.
        match self.name() == LAG_NAME && is_forward && !self.is_reversed {
            true => LimitEffect::None,
            false => LimitEffect::Unknown,
        }
    }
}

/// NULL for each row.
#[derive(Debug)]
struct Nothing(DataType);

impl PartitionEvaluator for Nothing {
    fn evaluate_all(&mut self, _values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        Ok(new_null_array(&self.0, rows))
    }

    fn evaluate(&mut self, _values: &[ArrayRef], _range: &Range<usize>) -> Result<ScalarValue> {
        ScalarValue::try_new_null(&self.0)
    }
}

/// Computes the engine's function for a partition at once, never row by row.
#[derive(Debug)]
struct WholePartitions(Box<dyn PartitionEvaluator>);

impl PartitionEvaluator for WholePartitions {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        self.0.evaluate_all(values, rows)
    }

    fn evaluate(&mut self, _values: &[ArrayRef], _range: &Range<usize>) -> Result<ScalarValue> {
        internal_err!("lead and lag that ignore NULLs are computed for whole partitions")
    }

    fn supports_bounded_execution(&self) -> bool {
        false
    }
}
