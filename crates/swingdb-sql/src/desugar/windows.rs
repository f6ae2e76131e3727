//! Windows that a WINDOW clause names: `OVER w`, `OVER (w ORDER BY x)`, `WINDOW b AS (a ...)`.
//!
//! The query engine looks names up in `OVER w` of the SELECT list only, and does not read the name
//! of the window that another one begins with. So each window gets what it takes from the one it
//! names, as the SQL standard, PostgreSQL and DuckDB have it: the PARTITION BY, which it must not
//! have itself, and the ORDER BY unless it has one. A window with a frame cannot be extended.
//!
//! The query engine refuses a QUALIFY without a window, also where the SELECT list has one, as if
//! it had none. So such a condition gets a window of the list that changes nothing.

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, NamedWindowDefinition, NamedWindowExpr, OrderBy, Query, Select, SetExpr, VisitMut,
    WindowSpec, WindowType,
};
use swingdb_common::error::{Error, Result};

use crate::ast::build;
use crate::ast::walk::rewrite_own_exprs;

/// Puts what their names mean in the windows of a query.
pub(crate) fn rewrite(query: &mut Query) -> Result<()> {
    let Query { body, order_by, .. } = query;
    of_body(body, order_by.as_mut())
}

/// `order_by` belongs to the only SELECT. Queries in brackets are looked at on their own.
fn of_body(body: &mut SetExpr, order_by: Option<&mut OrderBy>) -> Result<()> {
    match body {
        SetExpr::Select(select) => of_select(select, order_by),
        SetExpr::SetOperation { left, right, .. } => {
            of_body(left, None)?;
            of_body(right, None)
        }
        _ => Ok(()),
    }
}

fn of_select(select: &mut Select, order_by: Option<&mut OrderBy>) -> Result<()> {
    let mut known = Known::default();
    for definition in std::mem::take(&mut select.named_window) {
        known.define(definition)?;
    }
    let mut result = Ok(());
    let mut settle = |expr: &mut Expr| {
        if let Expr::Function(function) = expr
            && let Some(window) = function.over.take()
        {
            match known.settled(window) {
                Ok(settled) => function.over = Some(WindowType::WindowSpec(settled)),
                Err(error) if result.is_ok() => result = Err(error),
                Err(_) => {}
            }
        }
    };
    // The queries in FROM have windows of their own, and so have subqueries.
    rewrite_own_exprs(&mut select.distinct, &mut settle);
    rewrite_own_exprs(&mut select.projection, &mut settle);
    rewrite_own_exprs(&mut select.qualify, &mut settle);
    if let Some(order_by) = order_by {
        rewrite_own_exprs(order_by, &mut settle);
    }
    show_window(select);
    result
}

/// Adds a window of the SELECT list to a QUALIFY that has none.
fn show_window(select: &mut Select) {
    let Some(condition) = &mut select.qualify else { return };
    if first_window(condition).is_none()
        && let Some(window) = first_window(&mut select.projection)
    {
        let is_null = Expr::IsNull(Box::new(build::nested(window)));
        let is_either = Expr::IsNotNull(Box::new(build::nested(is_null)));
        *condition = build::all([std::mem::replace(condition, build::null()), is_either]);
    }
}

fn first_window<T: VisitMut>(tree: &mut T) -> Option<Expr> {
    let mut found = None;
    rewrite_own_exprs(tree, &mut |expr| {
        if found.is_none() && matches!(expr, Expr::Function(call) if call.over.is_some()) {
            found = Some(expr.clone());
        }
    });
    found
}

/// The windows defined so far, in full.
#[derive(Default)]
struct Known(Vec<(Ident, WindowSpec)>);

impl Known {
    fn define(&mut self, definition: NamedWindowDefinition) -> Result<()> {
        let NamedWindowDefinition(name, meaning) = definition;
        if self.find(&name).is_ok() {
            return Err(Error::plan(format!("the window {name} is defined more than once")));
        }
        let window = match meaning {
            NamedWindowExpr::NamedWindow(other) => WindowType::NamedWindow(other),
            NamedWindowExpr::WindowSpec(window) => WindowType::WindowSpec(window),
        };
        let settled = self.settled(window)?;
        self.0.push((name, settled));
        Ok(())
    }

    fn find(&self, name: &Ident) -> Result<&WindowSpec> {
        let is_meant = |known: &Ident| known.value.eq_ignore_ascii_case(&name.value);
        let found = self.0.iter().find(|(known, _)| is_meant(known));
        let found = found.map(|(_, window)| window);
        found.ok_or_else(|| {
            Error::plan(format!("there is no window {name}; define it: WINDOW {name} AS (...)"))
        })
    }

    /// A window that names no other.
    fn settled(&self, window: WindowType) -> Result<WindowSpec> {
        let mut window = match window {
            WindowType::NamedWindow(name) => return self.find(&name).cloned(),
            WindowType::WindowSpec(window) => window,
        };
        let Some(name) = window.window_name.take() else { return Ok(window) };
        let base = self.find(&name)?;
        let refused = |what: &str| {
            Err(Error::plan(format!("a window that begins with {name} cannot have {what}")))
        };
        if !window.partition_by.is_empty() {
            return refused("a PARTITION BY of its own");
        }
        if !window.order_by.is_empty() && !base.order_by.is_empty() {
            return refused("an ORDER BY of its own, for that window has one");
        }
        if base.window_frame.is_some() {
            return Err(Error::plan(format!(
                "no window can begin with {name}, for {name} has a frame; write OVER {name}, or \
                 give the frame to each window alone"
            )));
        }
        window.partition_by.clone_from(&base.partition_by);
        if window.order_by.is_empty() {
            window.order_by.clone_from(&base.order_by);
        }
        Ok(window)
    }
}

#[cfg(test)]
mod tests {
    use crate::desugar::tests::rewritten;

    #[test]
    fn windows_take_what_the_named_one_has() {
        assert_eq!(
            rewritten("SELECT sum(x) OVER (P ORDER BY x) FROM t WINDOW p AS (PARTITION BY g)")
                .unwrap(),
            "SELECT sum(x) OVER (PARTITION BY g ORDER BY x) FROM t"
        );
        assert_eq!(
            rewritten(
                "SELECT a FROM t WINDOW p AS (PARTITION BY g), o AS (p ORDER BY x) QUALIFY \
                 rank() OVER o = 1 ORDER BY sum(x) OVER (o ROWS 1 PRECEDING)"
            )
            .unwrap(),
            "SELECT a FROM t QUALIFY rank() OVER (PARTITION BY g ORDER BY x) = 1 ORDER BY \
             sum(x) OVER (PARTITION BY g ORDER BY x ROWS 1 PRECEDING)"
        );
        assert_eq!(
            rewritten(
                "SELECT sum(x) OVER (w) FROM t WINDOW w AS (ORDER BY g) UNION ALL \
                 SELECT sum(x) OVER (w) FROM t WINDOW w AS (ORDER BY x)"
            )
            .unwrap(),
            "SELECT sum(x) OVER (ORDER BY g) FROM t UNION ALL \
             SELECT sum(x) OVER (ORDER BY x) FROM t"
        );
    }

    #[test]
    fn a_condition_of_qualify_without_a_window_gets_one() {
        assert_eq!(
            rewritten("SELECT a, rank() OVER (ORDER BY x) FROM t QUALIFY a > 1 OR x > 2").unwrap(),
            "SELECT a, rank() OVER (ORDER BY x) FROM t QUALIFY (a > 1 OR x > 2) AND \
             (((rank() OVER (ORDER BY x)) IS NULL) IS NOT NULL)"
        );
        let none = "SELECT a, (SELECT rank() OVER () FROM u) FROM t QUALIFY a > 1";
        assert_eq!(rewritten(none).unwrap(), none);
    }

    #[test]
    fn what_cannot_be_taken_is_refused() {
        for sql in [
            "SELECT sum(x) OVER (nowhere) FROM t",
            "SELECT sum(x) OVER nowhere FROM t",
            "SELECT sum(x) OVER (w PARTITION BY x) FROM t WINDOW w AS (ORDER BY g)",
            "SELECT sum(x) OVER (w ORDER BY x) FROM t WINDOW w AS (ORDER BY g)",
            "SELECT sum(x) OVER (w) FROM t WINDOW w AS (ORDER BY g ROWS 1 PRECEDING)",
            "SELECT x FROM t WINDOW w AS (ORDER BY g), W AS (ORDER BY x)",
            "SELECT x FROM t WINDOW v AS (w ORDER BY x), w AS (PARTITION BY g)",
        ] {
            assert!(rewritten(sql).is_err(), "{sql}");
        }
    }
}
