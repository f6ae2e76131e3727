//! Frames by RANGE over values that cannot be added to.
//!
//! `sum(v) OVER (ORDER BY at)` has the frame RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW. The
//! query engine wants to know the type of distances for any RANGE, and fails for times of day,
//! intervals, binary values and structs. Without a distance in the frame, GROUPS means the same:
//! all rows that are equal in the order are one.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, Window, WindowFrame, WindowFrameBound, WindowFrameUnits,
};

/// The node with such frames replaced.
pub(crate) fn rewrite(window: Window) -> Result<Transformed<LogicalPlan>> {
    let schema = Arc::clone(window.input.schema());
    if !window.window_expr.iter().any(|expr| is_concerned(expr, &schema)) {
        return Ok(Transformed::no(LogicalPlan::Window(window)));
    }
    let plan = LogicalPlan::Window(window);
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|mut expr| {
        let name = names.save(&expr);
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
                | DataType::Interval(_)
        )
    });
    let distance = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(by) | WindowFrameBound::Following(by) => !by.is_null(),
        WindowFrameBound::CurrentRow => false,
    };
    frame.units == WindowFrameUnits::Range
        && unmeasured
        && !distance(&frame.start_bound)
        && !distance(&frame.end_bound)
}
