//! `l[i]` and `l[i:j]` with places of 64 bits. The engine knows none beyond 32 bits, where no list
//! has anything.

use std::sync::{Arc, LazyLock};

use arrow::array::{AsArray, Int64Array};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, ScalarValue};
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
        self.engines.invoke_with_args(args)
    }
}

fn near(place: i64) -> i64 {
    place.clamp(-FARTHEST, FARTHEST)
}
