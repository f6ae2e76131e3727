//! The function `row_bytes(x)`: lists and structs as bytes that are equal when they are.
//!
//! The engine's hash joins lose pairs of equal structs and lists when there are NULLs in the column
//! or inside of its values. Their bytes in Arrow's row format are joined instead.

use std::sync::{Arc, LazyLock};

use arrow::array::ArrayRef;
use arrow::compute::SortOptions;
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, ExprSchemable, ScalarUDF};

use crate::keys::same_bits::{call, of_key, row_bytes};

/// Puts the function around both sides of a join by lists or structs; whether it did.
pub fn settle((one, left): (&mut Expr, &DFSchema), (other, right): (&mut Expr, &DFSchema)) -> bool {
    let (Ok(a), Ok(b)) = (one.get_type(left), other.get_type(right)) else { return false };
    let known = || RowConverter::supports_fields(&[SortField::new(a.clone())]);
    if a != b || !a.is_nested() || !known() {
        return false;
    }
    for side in [one, other] {
        *side = key_bytes(std::mem::take(side));
    }
    true
}

fn key_bytes(expr: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| of_key("row_bytes", |_| DataType::Binary, bytes));
    call(&FUNCTION, expr)
}

fn bytes(array: &ArrayRef) -> Result<ArrayRef> {
    row_bytes(array, SortOptions::default())
}
