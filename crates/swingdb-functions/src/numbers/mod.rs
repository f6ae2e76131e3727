//! Functions of numbers.

pub mod of_numbers;
pub mod places;
pub mod rounding;
mod special;

use datafusion::logical_expr::ScalarUDF;

/// The functions that SQL calls by name.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    of_numbers::functions().chain(places::functions()).chain(special::functions())
}
