//! The function `row_bytes(x)`: lists and structs as bytes that are equal when they are.
//!
//! The engine's hash joins lose pairs of equal structs and lists when there are NULLs in the column
//! or inside of its values. Their bytes in Arrow's row format are joined instead. They are counted,
//! too: of `count(DISTINCT list)` the engine takes each value for as large as the whole batch that
//! it was in.

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
    if a != b || !has_bytes(&a) {
        return false;
    }
    for side in [one, other] {
        *side = key_bytes(std::mem::take(side));
    }
    true
}

/// Whether values of a type are lists or structs with such bytes.
pub fn has_bytes(given: &DataType) -> bool {
    given.is_nested() && RowConverter::supports_fields(&[SortField::new(given.clone())])
}

/// `row_bytes(x)`.
pub fn key_bytes(expr: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| of_key("row_bytes", |_| DataType::Binary, bytes));
    call(&FUNCTION, expr)
}

fn bytes(array: &ArrayRef) -> Result<ArrayRef> {
    row_bytes(array, SortOptions::default())
}
