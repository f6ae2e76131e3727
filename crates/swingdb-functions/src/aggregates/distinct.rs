//! `corr(DISTINCT x, y)` and the like: aggregates of several values that do not look at DISTINCT,
//! and those that cannot gather different values group by group.
//!
//! The rows are gathered, and the aggregate gets each different one once, when its value is asked
//! for. NULLs are values here: the aggregate leaves them out as it does otherwise.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::FieldRef;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, StatisticsArgs,
};
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};

use super::ordered::{Gathering, gathered_field};
use crate::engines_own::as_engines_aggregate;

/// The functions of the engine that do not look at DISTINCT, or not group by group.
const WITHOUT_DISTINCT: &[&str] = &[
    "approx_percentile_cont",
    "approx_percentile_cont_with_weight",
    "bit_xor",
    "corr",
    "covar_pop",
    "covar_samp",
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
    "stddev",
    "stddev_pop",
];

/// Lets them look at DISTINCT.
pub(crate) fn replace(all: &mut [Arc<AggregateUDF>]) {
    for function in all.iter_mut().filter(|function| WITHOUT_DISTINCT.contains(&function.name())) {
        let engine = Arc::clone(function);
        *function = Arc::new(AggregateUDF::new_from_impl(WithDistinct { engine }));
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct WithDistinct {
    engine: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for WithDistinct {
    as_engines_aggregate!();

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if !args.is_distinct {
            return self.engine.accumulator(args);
        }
        let types = args.expr_fields.iter().map(|field| field.data_type().clone());
        let types = types.collect::<Vec<_>>();
        let plain = AggregateExprBuilder::new(Arc::clone(&self.engine), args.exprs.to_vec())
            .schema(Arc::new(args.schema.clone()))
            .alias(args.name)
            .order_by(args.order_bys.to_vec())
            .build()?;
        let rows = Gathering::new(&types, types.len(), Vec::new(), true);
        Ok(Box::new(DistinctRows { plain, rows }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        match args.is_distinct {
            true => {
                let args = StateFieldsArgs { ordering_fields: &[], ..args };
                Ok(vec![gathered_field(&args, args.input_fields)])
            }
            false => self.engine.state_fields(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        !args.is_distinct && self.engine.groups_accumulator_supported(args)
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
        match args.is_distinct {
            true => self.accumulator(args),
            false => self.engine.create_sliding_accumulator(args),
        }
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.engine.supports_null_handling_clause()
    }

    fn supports_within_group_clause(&self) -> bool {
        self.engine.supports_within_group_clause()
    }

    fn value_from_stats(&self, args: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        match args.is_distinct {
            true => None,
            false => self.engine.value_from_stats(args),
        }
    }
}

/// The aggregate of the different rows.
#[derive(Debug)]
struct DistinctRows {
    plain: AggregateFunctionExpr,
    rows: Gathering,
}

impl Accumulator for DistinctRows {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.rows.add(values.iter().map(Arc::clone))
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.rows.add_lists(&states[0])
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let columns = self.rows.sorted()?;
        Ok(vec![self.rows.as_list(columns)?])
    }

    /// A window asks again and again, as rows come.
    fn evaluate(&mut self) -> Result<ScalarValue> {
        let columns = self.rows.sorted()?;
        let mut work = self.plain.create_accumulator()?;
        if columns.first().is_some_and(|column| !column.is_empty()) {
            work.update_batch(&columns)?;
        }
        work.evaluate()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.rows.bytes
    }
}
