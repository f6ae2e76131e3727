//! Frames by RANGE over values that cannot be added to.
//!
//! `sum(v) OVER (ORDER BY at)` has the frame RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW. The
//! query engine wants to know the type of distances for any RANGE, and fails for times of day,
//! intervals, binary values, structs and maps. Without a distance in the frame, GROUPS means the
//! same: all rows that are equal in the order are one. With a distance, times of day are points in
//! time of one day.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, SortExpr, Window, WindowFrame, WindowFrameBound,
    WindowFrameUnits, cast,
};

/// The node with such frames replaced.
pub(crate) fn rewrite(window: Window) -> Result<Transformed<LogicalPlan>> {
    let schema = Arc::clone(window.input.schema());
    let has_time = |expr: &Expr| time_with_distance(&mut expr.clone(), &schema).is_some();
    if !window.window_expr.iter().any(|expr| is_concerned(expr, &schema) || has_time(expr)) {
        return Ok(Transformed::no(LogicalPlan::Window(window)));
    }
    let plan = LogicalPlan::Window(window);
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|mut expr| {
        let name = names.save(&expr);
        if let Some(order) = time_with_distance(&mut expr, &schema) {
            order.expr = of_one_day(std::mem::take(&mut order.expr));
            return Ok(Transformed::yes(name.restore(expr)));
        }
        if !is_concerned(&expr, &schema) {
            return Ok(Transformed::no(expr));
        }
        if let Expr::WindowFunction(function) = &mut expr {
            let frame = &mut function.params.window_frame;
            *frame = WindowFrame::new_bounds(
                WindowFrameUnits::Groups,
                frame.start_bound.clone(),
                frame.end_bound.clone(),
            );
        }
        Ok(Transformed::yes(name.restore(expr)))
    })
}

fn is_concerned(expr: &Expr, schema: &DFSchema) -> bool {
    let Expr::WindowFunction(function) = expr else { return false };
    let frame = &function.params.window_frame;
    let order = function.params.order_by.first();
    let unmeasured = order.and_then(|order| order.expr.get_type(schema).ok()).is_some_and(|t| {
        matches!(
            t,
            DataType::Time32(_)
                | DataType::Time64(_)
                | DataType::Binary
                | DataType::LargeBinary
                | DataType::BinaryView
                | DataType::FixedSizeBinary(_)
                | DataType::Struct(_)
                | DataType::Map(..)
                | DataType::Interval(_)
        )
    });
    frame.units == WindowFrameUnits::Range && unmeasured && !has_distance(frame)
}

fn has_distance(frame: &WindowFrame) -> bool {
    [&frame.start_bound, &frame.end_bound].into_iter().any(|bound| match bound {
        WindowFrameBound::Preceding(by) | WindowFrameBound::Following(by) => !by.is_null(),
        WindowFrameBound::CurrentRow => false,
    })
}

/// The only key of a frame by RANGE with a distance, where it is a time of day.
fn time_with_distance<'a>(expr: &'a mut Expr, schema: &DFSchema) -> Option<&'a mut SortExpr> {
    let Expr::WindowFunction(function) = expr else { return None };
    let frame = &function.params.window_frame;
    if frame.units != WindowFrameUnits::Range || !has_distance(frame) {
        return None;
    }
    let order = function.params.order_by.first_mut()?;
    let given = order.expr.get_type(schema).ok()?;
    matches!(given, DataType::Time32(_) | DataType::Time64(_)).then_some(order)
}

/// The point in time on the first day of 1970.
fn of_one_day(time: Expr) -> Expr {
    let passed = cast(cast(time, DataType::Time64(TimeUnit::Nanosecond)), DataType::Int64);
    cast(passed, DataType::Timestamp(TimeUnit::Nanosecond, None))
}
