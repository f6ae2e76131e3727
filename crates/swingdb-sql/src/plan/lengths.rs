//! `length` of a list is how many elements it has, and of a BLOB how many bytes.
//!
//! The query engine's `length` turns whatever it gets into text: `length([1, 2])` would be 6, the
//! characters of `[1, 2]`.

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::functions_nested::length::array_length_udf;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, ExprSchemable, cast};
use swingdb_functions::text::blobs::byte_length;

const LENGTH: &str = "character_length";

/// Whether this is a call of it.
pub(crate) fn is_concerned(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.name() == LENGTH && call.args.len() == 1)
}

/// The number of elements, where it is that of a list.
pub(crate) fn rewrite(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expr {
        Expr::ScalarFunction(call) if call.name() == LENGTH && is_list(&call.args, schema) => {
            let counted = ScalarFunction::new_udf(array_length_udf(), call.args);
            Transformed::yes(cast(Expr::ScalarFunction(counted), DataType::Int64))
        }
        Expr::ScalarFunction(call) if call.name() == LENGTH && is_blob(&call.args, schema) => {
            Transformed::yes(byte_length(call.args))
        }
        other => Transformed::no(other),
    }
}

fn is_blob(args: &[Expr], schema: &DFSchema) -> bool {
    let [arg] = args else { return false };
    arg.get_type(schema).is_ok_and(|t| t.is_binary() || matches!(t, DataType::FixedSizeBinary(_)))
}

fn is_list(args: &[Expr], schema: &DFSchema) -> bool {
    let [arg] = args else { return false };
    arg.get_type(schema).is_ok_and(|t| {
        matches!(
            t,
            DataType::List(_)
                | DataType::LargeList(_)
                | DataType::FixedSizeList(..)
                | DataType::ListView(_)
                | DataType::LargeListView(_)
        )
    })
}
