//! `l[i]`, `l[i:j]` and `l[i:j:k]` with places of 64 bits. The engine knows none beyond 32 bits,
//! where no list has anything. Backwards, `l[3:0:-1]`, it finds nothing where a bound is outside of
//! the list.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, AsArray, Int64Array, Int64Builder};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::functions_nested::extract::{array_element_udf, array_slice_udf};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};

use crate::engines_own::as_engines;

/// No list has as many elements.
const FARTHEST: i64 = i32::MAX as i64;

static ELEMENT: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| of(array_element_udf()));
static SLICE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| of(array_slice_udf()));

/// What stands in the place of a function of the engine, if that is one of these.
pub fn with_all_places(engines: &Arc<ScalarUDF>) -> Option<Arc<ScalarUDF>> {
    let own: &Arc<ScalarUDF> = match engines.name() {
        "array_element" => &ELEMENT,
        "array_slice" => &SLICE,
        _ => return None,
    };
    (own.as_ref() != engines.as_ref()).then(|| Arc::clone(own))
}

fn of(engines: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(OfPlaces { engines }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfPlaces {
    engines: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for OfPlaces {
    as_engines!();

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        for place in args.args.iter_mut().skip(1).filter(|p| p.data_type() == DataType::Int64) {
            match place {
                ColumnarValue::Scalar(ScalarValue::Int64(Some(at))) => *at = near(*at),
                ColumnarValue::Array(places) => {
                    let all = places.as_primitive::<Int64Type>();
                    if all.values().iter().any(|at| near(*at) != *at) {
                        let all: Int64Array = all.unary(near);
                        *places = Arc::new(all);
                    }
                }
                ColumnarValue::Scalar(_) => {}
            }
        }
        if let [list, from, to, step] = args.args.as_mut_slice() {
            bound_backwards(list, from, to, step)?;
        }
        self.engines.invoke_with_args(args)
    }
}

/// Moves the bounds of slices with a negative step into their lists.
fn bound_backwards(
    list: &ColumnarValue,
    from: &mut ColumnarValue,
    to: &mut ColumnarValue,
    step: &ColumnarValue,
) -> Result<()> {
    let forwards = matches!(step, ColumnarValue::Scalar(ScalarValue::Int64(Some(1..) | None)));
    let bounds = [&*from, &*to, step];
    if forwards || bounds.iter().any(|bound| bound.data_type() != DataType::Int64) {
        return Ok(());
    }
    let all = [list.clone(), from.clone(), to.clone(), step.clone()];
    let is_constant = all.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
    let all = ColumnarValue::values_to_arrays(&all)?;
    let lists = all[0].as_ref();
    let [first, last, step] = [1, 2, 3].map(|place| all[place].as_primitive::<Int64Type>());
    let mut moved = (Int64Builder::new(), Int64Builder::new());
    for row in 0..lists.len() {
        if first.is_null(row) || last.is_null(row) || step.is_null(row) {
            moved.0.append_null();
            moved.1.append_null();
            continue;
        }
        let (first, last, step) = (first.value(row), last.value(row), step.value(row));
        let (first, last) = match elements(lists, row) {
            Some(count) if step < 0 => backwards(first, last, count),
            _ => (first, last),
        };
        moved.0.append_value(first);
        moved.1.append_value(last);
    }
    let value = |mut bounds: Int64Builder| {
        let bounds = bounds.finish();
        Ok::<_, DataFusionError>(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&bounds, 0)?),
            false => ColumnarValue::Array(Arc::new(bounds)),
        })
    };
    (*from, *to) = (value(moved.0)?, value(moved.1)?);
    Ok(())
}

/// Bounds of a slice backwards that lie in a list of so many elements; bounds that leave none where
/// nothing lies between them.
fn backwards(first: i64, last: i64, count: i64) -> (i64, i64) {
    let from_start = |place: i64| if place < 0 { place + count + 1 } else { place };
    let (first, last) = (from_start(first).min(count), from_start(last).max(1));
    if first < last { (count + 1, count + 1) } else { (first, last) }
}

/// The number of elements of a list; `None` where it is NULL.
fn elements(lists: &dyn Array, row: usize) -> Option<i64> {
    if lists.is_null(row) {
        return None;
    }
    let count = match lists.data_type() {
        DataType::List(_) => i64::from(lists.as_list::<i32>().value_length(row)),
        DataType::LargeList(_) => lists.as_list::<i64>().value_length(row),
        DataType::FixedSizeList(_, count) => i64::from(*count),
        DataType::ListView(_) => i64::from(lists.as_list_view::<i32>().value_size(row)),
        DataType::LargeListView(_) => lists.as_list_view::<i64>().value_size(row),
        _ => return None,
    };
    Some(count)
}

fn near(place: i64) -> i64 {
    place.clamp(-FARTHEST, FARTHEST)
}
