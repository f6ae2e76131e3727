//! Sums of one expression with several constants added to it: [`OFFSET_SUMS`].
//!
//! `sum(x + 1), sum(x + 2)` needs what `sum(x), count(x)` tells: `sum(x + c)` is
//! `sum(x) + c * count(x)`. However many such sums there are, these two are added up.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::{Aggregate, Cast, Expr, ExprSchemable, LogicalPlan, lit};
use swingdb_common::time::zones::Zone;

use crate::analyze::arithmetic::{checked_expr, plus_constant};
use crate::optimize::aggregate_rewrite::{as_one, replace_aggregate};
use crate::optimize::rule::OwnRule;

/// The largest constant: added to a whole number of 32 bits it is far from what 64 bits hold.
const LARGEST: u64 = 1 << 32;

/// See the [module documentation](self).
pub(crate) const OFFSET_SUMS: OwnRule =
    OwnRule::bottom_up("OffsetSums", |plan| replace_aggregate(plan, from_sums_and_counts));

/// `sum(x + offset)`, with what it is made of.
struct OffsetSum {
    sum: Expr,
    count: Expr,
    offset: i64,
}

impl OffsetSum {
    fn of(expr: &Expr, aggregate: &Aggregate) -> Result<Option<Self>> {
        let expr = expr.clone().unalias();
        let Expr::AggregateFunction(AggregateFunction { func, params }) = &expr else {
            return Ok(None);
        };
        let AggregateFunctionParams { args, distinct, order_by, .. } = params;
        if func.name() != "sum" || *distinct || !order_by.is_empty() {
            return Ok(None);
        }
        let [arg] = args.as_slice() else { return Ok(None) };
        let (of, offset) = plus_constant(arg).unwrap_or((arg, 0));
        // What cannot leave its type: otherwise the overflow of a row would be passed over.
        let Expr::Cast(Cast { expr: narrow, field }) = of else { return Ok(None) };
        let from = narrow.get_type(aggregate.input.schema())?;
        let has_room = *field.data_type() == DataType::Int64
            && from.is_integer()
            && from.primitive_width().is_some_and(|bytes| bytes <= size_of::<i32>());
        if !has_room || offset.unsigned_abs() > LARGEST || of.is_volatile() {
            return Ok(None);
        }
        let call = |func, of: &Expr| {
            let params = AggregateFunctionParams { args: vec![of.clone()], ..params.clone() };
            Expr::AggregateFunction(AggregateFunction { func, params })
        };
        let (sum, count) = (call(Arc::clone(func), of), call(count_udaf(), narrow));
        Ok(Some(Self { sum, count, offset }))
    }
}

/// An aggregate of the new list, by its place in it.
enum NewAggregate {
    Same(usize),
    /// The sum at the first place, and so often the constant as the second one has counted.
    Moved(usize, usize, i64),
}

/// The aggregate from sums and counts, where there are several sums of the same.
fn from_sums_and_counts(aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    let sums = aggregate.aggr_expr.iter().map(|expr| OffsetSum::of(expr, aggregate));
    let sums = sums.collect::<Result<Vec<_>>>()?;
    let is_one_of_several =
        |one: &OffsetSum| sums.iter().flatten().filter(|other| other.sum == one.sum).count() > 1;
    let mut list: Vec<Expr> = Vec::new();
    let mut place = |expr: Expr| {
        list.iter().position(|known| *known == expr).unwrap_or_else(|| {
            list.push(expr);
            list.len() - 1
        })
    };
    let each = sums.iter().zip(&aggregate.aggr_expr).map(|(sum, expr)| {
        let expr = expr.clone().unalias();
        match sum {
            Some(one) if one.sum != expr && is_one_of_several(one) => {
                NewAggregate::Moved(place(one.sum.clone()), place(one.count.clone()), one.offset)
            }
            _ => NewAggregate::Same(place(expr)),
        }
    });
    let each: Vec<NewAggregate> = each.collect();
    if each.iter().all(|made| matches!(made, NewAggregate::Same(_))) {
        return Ok(None);
    }
    // Sums of one column in two types have one name.
    let list = list.into_iter().enumerate().map(|(n, expr)| expr.alias(format!("__part_{n}")));
    let input = Arc::clone(&aggregate.input);
    let inner = Aggregate::try_new(input, aggregate.group_expr.clone(), list.collect())?;
    let keys = aggregate.schema.fields().len() - aggregate.aggr_expr.len();
    let columns: Vec<Expr> = inner.schema.columns().into_iter().map(Expr::Column).collect();
    let made = &columns[keys..];
    let values = each.iter().map(|one| match one {
        NewAggregate::Same(at) => Ok(made[*at].clone()),
        NewAggregate::Moved(sum, count, offset) => {
            let moved = made[*count].clone() * lit(*offset) + made[*sum].clone();
            // Whole numbers only: there is no clock in it.
            checked_expr(moved, &inner.schema, Zone::UTC)
        }
    });
    let values = values.collect::<Result<_>>()?;
    as_one(aggregate, inner, values).map(Some)
}
