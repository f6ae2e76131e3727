//! `ROWS $1 PRECEDING`, `ROWS 1 + 1 PRECEDING`: bounds of frames that are computed.
//!
//! The query engine takes numbers and intervals that are written. So what a constant bound is, the
//! planner is asked, and the value is written in its place. A bound that names columns is refused.

use std::ops::ControlFlow;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, Interval, NamedWindowExpr, Select, Statement, Value, VisitorMut,
    WindowFrameBound, WindowSpec, WindowType,
};
use swingdb_common::error::{Error, Result};

use crate::ast::build;
use crate::ast::walk::{rewrite_own_exprs, walk_mut};
use crate::bind::lookahead::Lookahead;

/// Writes the values of computed bounds in their places.
pub(crate) fn compute(planner: &dyn Lookahead, statement: &mut Statement) -> Result<()> {
    let mut result = Ok(());
    let mut settle = |by: &mut Expr| {
        if is_written(by) {
            return ControlFlow::Continue(());
        }
        match value(planner, by) {
            Ok(value) => {
                *by = value;
                ControlFlow::Continue(())
            }
            Err(error) => {
                result = Err(error);
                ControlFlow::Break(())
            }
        }
    };
    let _ = walk_mut(statement, &mut Bounds(&mut settle));
    result
}

/// Puts a number in the place of bounds that are parameters, for a statement that is planned
/// without values.
pub fn without_parameters(statement: &mut Statement) {
    let mut forget = |by: &mut Expr| {
        if matches!(by, Expr::Value(value) if matches!(value.value, Value::Placeholder(_))) {
            *by = build::integer(1);
        }
        ControlFlow::Continue(())
    };
    // Never breaks.
    let _ = walk_mut(statement, &mut Bounds(&mut forget));
}

/// Visits the bounds of all frames.
struct Bounds<'a>(&'a mut dyn FnMut(&mut Expr) -> ControlFlow<()>);

impl VisitorMut for Bounds<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(Function { over: Some(WindowType::WindowSpec(window)), .. }) => {
                self.of_window(window)
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        select.named_window.iter_mut().try_for_each(|window| match &mut window.1 {
            NamedWindowExpr::WindowSpec(window) => self.of_window(window),
            NamedWindowExpr::NamedWindow(_) => ControlFlow::Continue(()),
        })
    }
}

impl Bounds<'_> {
    fn of_window(&mut self, window: &mut WindowSpec) -> ControlFlow<()> {
        let Some(frame) = &mut window.window_frame else { return ControlFlow::Continue(()) };
        for bound in frame.end_bound.iter_mut().chain([&mut frame.start_bound]) {
            if let WindowFrameBound::Preceding(Some(by)) | WindowFrameBound::Following(Some(by)) =
                bound
            {
                (self.0)(by)?;
            }
        }
        ControlFlow::Continue(())
    }
}

/// Whether the query engine takes a bound as it is, or says what is wrong with it.
fn is_written(by: &Expr) -> bool {
    match by {
        Expr::Value(value) => !matches!(value.value, Value::Placeholder(_)),
        Expr::Interval(interval) => is_written(&interval.value),
        _ => false,
    }
}

fn value(planner: &dyn Lookahead, by: &Expr) -> Result<Expr> {
    let refused = |why: String| Error::plan(format!("the bound {by} of a frame {why}"));
    let mut names_column = false;
    rewrite_own_exprs(&mut by.clone(), &mut |part| {
        names_column |= matches!(part, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    });
    if names_column {
        return Err(Error::unsupported(format!(
            "the bound {by} of a frame, which differs from row to row; join the table with itself, \
             on the rows that are in the frame of each"
        )));
    }
    let query = build::select(vec![build::item(by.clone(), "bound")], Vec::new(), None)?;
    let values = planner.constants(build::statement(query, None));
    let values = values.map_err(|error| refused(format!("is computed once: {error}")))?;
    let value = values.into_iter().next().unwrap_or(ScalarValue::Null);
    if value.is_null() {
        return Err(refused("is NULL".to_string()));
    }
    let number = |text: String| match text.starts_with('-') {
        true => Err(refused(format!("is negative: {text}"))),
        false => Ok(Expr::Value(Value::Number(text, false).with_empty_span())),
    };
    match value {
        ScalarValue::IntervalMonthDayNano(Some(by)) => Ok(interval(format!(
            "{} months {} days {} nanoseconds",
            by.months, by.days, by.nanoseconds
        ))),
        ScalarValue::DurationMicrosecond(Some(by)) => Ok(interval(format!("{by} microseconds"))),
        ScalarValue::DurationNanosecond(Some(by)) => Ok(interval(format!("{by} nanoseconds"))),
        of_number if of_number.data_type().is_numeric() => {
            number(of_number.cast_to(&DataType::Utf8)?.to_string())
        }
        other => Err(refused(format!("is neither a number nor an interval: {other}"))),
    }
}

fn interval(text: String) -> Expr {
    Expr::Interval(Interval {
        value: Box::new(build::text(&text)),
        leading_field: None,
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    })
}
