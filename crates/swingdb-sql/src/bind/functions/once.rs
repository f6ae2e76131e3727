//! `drawn_once(x, n)`: an expression whose random numbers are drawn once for all its copies.
//!
//! A call that becomes a template may have an argument in several places, as `lpad(x, n)` has `n`;
//! and the query engine takes two equal calls over windows for one. Where random numbers are drawn,
//! both change what is meant. So copies of an argument are marked with one number, equal calls with
//! different ones; [`drawn_once`](crate::plan::drawn_once) lets those with one number have one
//! value.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, VisitMut, VisitorMut,
};

use crate::ast::build;
use crate::ast::build::call;
use crate::ast::walk::walk_mut;
use crate::bind::reused_aliases::is_volatile;

/// The name of the function.
pub(crate) const DRAWN_ONCE: &str = "drawn_once";

/// An expression for several places, marked if it draws random numbers.
pub(crate) fn marked(expr: &Expr) -> Expr {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    if !is_volatile(expr) {
        return expr.clone();
    }
    let number = NEXT.fetch_add(1, Ordering::Relaxed) % u64::from(u32::MAX);
    call(DRAWN_ONCE, [expr.clone(), build::integer(number as usize)])
}

/// Tells calls over windows apart that draw random numbers.
pub(crate) fn tell_draws_apart<T: VisitMut>(tree: &mut T) {
    struct Marker;
    impl VisitorMut for Marker {
        type Break = ();
        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Function(function) = expr
                && function.over.is_some()
                && let FunctionArguments::List(list) = &mut function.args
            {
                for arg in &mut list.args {
                    if let FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) = arg {
                        *value = marked(value);
                    }
                }
            }
            ControlFlow::Continue(())
        }
    }
    // Never breaks.
    let _ = walk_mut(tree, &mut Marker);
}

/// The function: it gives its first argument.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(DrawnOnce { signature: Signature::any(2, Volatility::Volatile) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DrawnOnce {
    signature: Signature,
}

impl ScalarUDFImpl for DrawnOnce {
    fn name(&self) -> &str {
        DRAWN_ONCE
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [value, _] => Ok(value.clone()),
            _ => plan_err!("{DRAWN_ONCE} takes a value and a number"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [value, _] => Ok(value.clone()),
            _ => plan_err!("{DRAWN_ONCE} takes a value and a number"),
        }
    }
}
