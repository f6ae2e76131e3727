//! `list_sort`, `list_max` and `list_min` of elements that the engine has in another order than
//! SQL: of intervals, which go by their length, of lists, structs and maps, in which a NULL inside
//! is the greatest, and of floating point numbers, whose NaN with a sign is no other than those
//! without.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, UInt64Array};
use arrow::compute::{SortOptions, cast, sort_to_indices, take};
use arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};
use datafusion::functions_nested::min_max::{array_max_udf, array_min_udf};
use datafusion::functions_nested::sort::array_sort_udf;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};
use swingdb_common::floats::{canonical, has_floats};

use crate::engines_own::as_engines;
use crate::keys::order::{is_sorted_by_bytes, sort_keys};
use crate::nested::chosen::{list_of, options};

/// The functions in place of the engine's.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    let all = [
        (array_sort_udf(), Kind::Sort),
        (array_max_udf(), Kind::Max),
        (array_min_udf(), Kind::Min),
    ];
    all.into_iter().map(|(engines, kind)| ScalarUDF::new_from_impl(Sorted { engines, kind }))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Sort,
    Max,
    Min,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Sorted {
    engines: Arc<ScalarUDF>,
    kind: Kind,
}

impl ScalarUDFImpl for Sorted {
    as_engines!();

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(list) = args.args.first() else {
            return plan_err!("{} takes a list", self.name());
        };
        let element = match list.data_type() {
            DataType::List(item) | DataType::LargeList(item) => item.data_type().clone(),
            _ => return self.engines.invoke_with_args(args),
        };
        let any_null = |word: &ColumnarValue| match word {
            ColumnarValue::Scalar(word) => word.is_null(),
            ColumnarValue::Array(words) => words.null_count() > 0,
        };
        if is_sorted_by_bytes(&element) && !args.args.iter().skip(1).any(any_null) {
            let rows = crate::args::rows_of(&args);
            let lists = cast(&list.to_array(rows)?, &DataType::new_list(element, true))?;
            let lists = lists.as_list::<i32>();
            let found = match self.kind {
                Kind::Sort => sorted(lists, options(&args.args[1..])?)?,
                Kind::Max => extremes(lists, true)?,
                Kind::Min => extremes(lists, false)?,
            };
            return crate::args::as_given(&args, cast(&found, args.return_type())?);
        }
        if has_floats(&element) {
            let settled = match list {
                ColumnarValue::Array(lists) => ColumnarValue::Array(canonical(lists)?),
                ColumnarValue::Scalar(list) => {
                    let list = canonical(&list.to_array()?)?;
                    ColumnarValue::Scalar(datafusion::common::ScalarValue::try_from_array(
                        &list, 0,
                    )?)
                }
            };
            args.args[0] = settled;
        }
        self.engines.invoke_with_args(args)
    }
}

/// The elements of each list in their order.
fn sorted(lists: &ListArray, options: SortOptions) -> Result<ArrayRef> {
    let keys = sort_keys(lists.values())?;
    let (mut taken, mut lengths) = (Vec::new(), Vec::with_capacity(lists.len()));
    for row in 0..lists.len() {
        let first = lists.value_offsets()[row] as usize;
        let length = if lists.is_valid(row) { lists.value_length(row) as usize } else { 0 };
        let order = sort_to_indices(&keys.slice(first, length), Some(options), None)?;
        taken.extend(order.values().iter().map(|at| first as u64 + u64::from(*at)));
        lengths.push(length);
    }
    let values = take(lists.values(), &UInt64Array::from(taken), None)?;
    list_of(values, lengths, lists.nulls().cloned())
}

/// The greatest or the least element of each list; NULLs are left out.
fn extremes(lists: &ListArray, greatest: bool) -> Result<ArrayRef> {
    let keys = sort_keys(lists.values())?;
    let keys = keys.as_binary::<i32>();
    let of = |row: usize| {
        let first = lists.value_offsets()[row] as usize;
        let length = if lists.is_valid(row) { lists.value_length(row) as usize } else { 0 };
        let there = (first..first + length).filter(|at| keys.is_valid(*at));
        let best = match greatest {
            true => there.max_by_key(|at| keys.value(*at)),
            false => there.min_by_key(|at| keys.value(*at)),
        };
        best.map(|at| at as u64)
    };
    let places = (0..lists.len()).map(of).collect::<UInt64Array>();
    Ok(take(lists.values(), &places, None)?)
}
