//! `[a, b]` and `coalesce(a, b)` of values that the engine finds no common type for: of bytes
//! beside a NULL without a type, and of times of day in several units.

use std::sync::Arc;

use arrow::array::{ListArray, new_null_array};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, FieldRef, TimeUnit};
use datafusion::common::{Result, plan_err};
use datafusion::functions::core::coalesce as coalesce_udf;
use datafusion::functions_nested::make_array::make_array_udf;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
};
use swingdb_common::types::sql_names::sql_name;

use crate::engines_own::as_engines;

/// The functions in place of the engine's.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    let all = [make_array_udf(), coalesce_udf()];
    all.into_iter().map(|engines| ScalarUDF::new_from_impl(OfOneType { engines }))
}

/// `coalesce(a, b)`, which `nvl` and `ifnull` are.
pub fn first_of() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(OfOneType { engines: coalesce_udf() }))
}

/// `[a, b]`.
pub fn list_of(elements: Vec<Expr>) -> Expr {
    ScalarUDF::new_from_impl(OfOneType { engines: make_array_udf() }).call(elements)
}

/// The type of the finest of times of day, where there are several types, and nothing but NULLs
/// beside them.
pub fn common_time(types: &[DataType]) -> Option<DataType> {
    let mut typed = types.iter().filter(|given| !given.is_null());
    let first = typed.next()?;
    let (mut finest, mut differ) = (first, false);
    for given in typed {
        differ |= given != first;
        if fineness(given)? > fineness(finest)? {
            finest = given;
        }
    }
    (differ && fineness(finest).is_some()).then(|| finest.clone())
}

/// The floating point type of a decimal beside floating point. The engine's is a decimal of 15
/// places, which takes tiny numbers for zero, and has no large ones.
pub fn common_floating(a: &DataType, b: &DataType) -> Option<DataType> {
    let floating = match (a, b) {
        (decimal, floating) if decimal.is_decimal() && floating.is_floating() => floating,
        (floating, decimal) if decimal.is_decimal() && floating.is_floating() => floating,
        _ => return None,
    };
    Some(match floating {
        DataType::Float64 => DataType::Float64,
        _ => DataType::Float32,
    })
}

/// Whether texts that are written are read as values of this type, which is none of numbers.
pub fn is_read(of: &DataType) -> bool {
    of.is_temporal() || of.is_nested() || *of == DataType::Boolean
}

/// Refuses a text that is no written one beside values of a type.
pub fn beside<T>(function: &str, other: &DataType) -> Result<T> {
    let other = sql_name(other);
    plan_err!("{function}: a VARCHAR beside {other}; cast one to the type of the other")
}

/// The one type that is beside texts, where [`is_read`] says that these are read as such.
pub fn beside_texts(types: &[DataType]) -> Option<DataType> {
    if !types.iter().any(DataType::is_string) {
        return None;
    }
    let mut others = types.iter().filter(|given| !given.is_null() && !given.is_string());
    let first = others.next()?;
    (is_read(first) && others.all(|given| given == first)).then(|| first.clone())
}

fn fineness(given: &DataType) -> Option<u8> {
    match given {
        DataType::Time32(TimeUnit::Second) => Some(0),
        DataType::Time32(TimeUnit::Millisecond) => Some(1),
        DataType::Time64(TimeUnit::Microsecond) => Some(2),
        DataType::Time64(TimeUnit::Nanosecond) => Some(3),
        _ => None,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfOneType {
    engines: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for OfOneType {
    as_engines!();

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if let Some(common) = common_time(types) {
            return Ok(vec![common; types.len()]);
        }
        // Texts that are written are read where the plan is known, and others refused.
        if beside_texts(types).is_some() {
            return Ok(types.to_vec());
        }
        let mut typed = types.iter().filter(|given| !given.is_null());
        match typed.next() {
            Some(first) if first.is_binary() && typed.all(|given| given == first) => {
                Ok(vec![first.clone(); types.len()])
            }
            _ => self.engines.coerce_types(types),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let ReturnFieldArgs { arg_fields, scalar_arguments } = args;
        let types = arg_fields.iter().map(|field| field.data_type().clone()).collect::<Vec<_>>();
        let Some(other) = beside_texts(&types) else {
            return self.engines.return_field_from_args(args);
        };
        let read = |field: &FieldRef| match field.data_type().is_string() {
            true => Arc::new(field.as_ref().clone().with_data_type(other.clone())),
            false => Arc::clone(field),
        };
        let arg_fields = arg_fields.iter().map(read).collect::<Vec<_>>();
        let args = ReturnFieldArgs { arg_fields: &arg_fields, scalar_arguments };
        self.engines.return_field_from_args(args)
    }

    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.engines.inner().simplify(args, context)
    }

    fn conditional_arguments<'a>(
        &self,
        args: &'a [Expr],
    ) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.engines.conditional_arguments(args)
    }

    fn short_circuits(&self) -> bool {
        self.engines.short_circuits()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let types = args.arg_fields.iter().map(|field| field.data_type().clone());
        if let Some(other) = beside_texts(&types.collect::<Vec<_>>()) {
            return beside(self.name(), &other);
        }
        // The engine makes one list of all rows.
        if self.name() == make_array_udf().name()
            && !args.args.is_empty()
            && args.arg_fields.iter().all(|field| field.data_type().is_null())
            && let DataType::List(element) = args.return_type()
        {
            let (width, rows) = (args.args.len(), args.number_rows);
            let nulls = new_null_array(element.data_type(), width * rows);
            let offsets = OffsetBuffer::from_repeated_length(width, rows);
            let lists = ListArray::try_new(Arc::clone(element), offsets, nulls, None)?;
            return Ok(ColumnarValue::Array(Arc::new(lists)));
        }
        self.engines.invoke_with_args(args)
    }
}
