//! Fields of structs and values of maps, `s.a`: the engine's `get_field`, but with NULL for a
//! struct that is NULL.
//!
//! Arrow lets a struct that is NULL have any values below, and kernels such as `nullif` and `zip`
//! (CASE) leave them there. The engine takes a field's values as they are:
//! `(CASE WHEN false THEN s END).a` would be what `s` has. (`GetFieldFunc::invoke_with_args`)
//!
//! As with columns, a name that no field has is that of the one which differs from it in case only.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::nullif;
use arrow::datatypes::{DataType, FieldRef, Fields};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::functions::core::get_field;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ExpressionPlacement, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, lit,
};

/// The function under the name of the engine's.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    [ScalarUDF::clone(&FIELD_OF)].into_iter()
}

static FIELD_OF: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::new_from_impl(FieldOf(get_field()))));

/// A field of a struct.
pub fn field_of(of: Expr, name: &str) -> Expr {
    FIELD_OF.call(vec![of, lit(name)])
}

/// How a field is spelled that a name means, where that is otherwise.
fn spelled<'a>(fields: &'a Fields, name: &str) -> Option<&'a str> {
    if fields.find(name).is_some() {
        return None;
    }
    let mut alike = fields.iter().filter(|field| field.name().eq_ignore_ascii_case(name));
    alike.next().filter(|_| alike.next().is_none()).map(|field| field.name().as_str())
}

/// The names of a path as the fields are spelled, for those that are otherwise; `of` is the type of
/// what the path begins at.
fn path_as_spelled<'a>(
    of: &DataType,
    path: impl Iterator<Item = Option<&'a ScalarValue>>,
) -> Vec<Option<ScalarValue>> {
    let mut at = Some(of);
    let steps = path.map(|step| {
        let within = match at.take()? {
            DataType::Dictionary(_, of) => of.as_ref(),
            of => of,
        };
        let (fields, name) = match within {
            DataType::Struct(fields) => (fields, step?.try_as_str().flatten()?),
            DataType::Map(entries, _) => {
                let DataType::Struct(entry) = entries.data_type() else { return None };
                at = entry.get(1).map(|value| value.data_type());
                return None;
            }
            _ => return None,
        };
        let other = spelled(fields, name);
        at = fields.find(other.unwrap_or(name)).map(|(_, field)| field.data_type());
        other.map(ScalarValue::from)
    });
    steps.collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct FieldOf(Arc<ScalarUDF>);

impl FieldOf {
    /// One step into a struct or a map.
    fn step(
        &self,
        args: &ScalarFunctionArgs,
        of: ArrayRef,
        name: &ColumnarValue,
    ) -> Result<ArrayRef> {
        let nulls = match of.data_type() {
            DataType::Struct(_) => of.as_struct().nulls().filter(|nulls| nulls.null_count() > 0),
            _ => None,
        };
        let said = match name {
            ColumnarValue::Scalar(name) => {
                path_as_spelled(of.data_type(), [Some(name)].into_iter())
            }
            ColumnarValue::Array(_) => Vec::new(),
        };
        let said = said.into_iter().next().flatten().map(ColumnarValue::Scalar);
        let hidden = nulls.map(|nulls| BooleanArray::new(!nulls.inner(), None));
        let step = ScalarFunctionArgs {
            args: vec![ColumnarValue::Array(of), said.unwrap_or_else(|| name.clone())],
            ..args.clone()
        };
        let found = self.0.inner().invoke_with_args(step)?.into_array(args.number_rows)?;
        Ok(match hidden {
            Some(hidden) if !found.data_type().is_null() => nullif(found.as_ref(), &hidden)?,
            _ => found,
        })
    }
}

impl ScalarUDFImpl for FieldOf {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.0.inner().schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.0.inner().return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let Some((of, path)) = args.arg_fields.first().zip(args.scalar_arguments.get(1..)) else {
            return self.0.inner().return_field_from_args(args);
        };
        let said = path_as_spelled(of.data_type(), path.iter().copied());
        let path = path.iter().zip(&said).map(|(name, said)| said.as_ref().or(*name));
        let scalar_arguments = [None].into_iter().chain(path).collect::<Vec<_>>();
        let args = ReturnFieldArgs { scalar_arguments: &scalar_arguments, ..args };
        self.0.inner().return_field_from_args(args)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.0.inner().coerce_types(types)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [of, names @ ..] = args.args.as_slice() else {
            return exec_err!("get_field takes a struct and names of fields");
        };
        if of.data_type().is_null() {
            return self.0.inner().invoke_with_args(args);
        }
        let one_row = matches!(of, ColumnarValue::Scalar(_));
        let rows = if one_row { 1 } else { args.number_rows };
        let args_of_rows = ScalarFunctionArgs { number_rows: rows, ..args.clone() };
        let mut at = of.clone().into_array(rows)?;
        for name in names {
            at = self.step(&args_of_rows, at, name)?;
        }
        match one_row {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(at.as_ref(), 0)?)),
            false => Ok(ColumnarValue::Array(at)),
        }
    }

    fn simplify(&self, mut args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let path = args.iter().skip(1).map(|name| name.as_literal());
        let said = path_as_spelled(&info.get_data_type(&args[0])?, path);
        if said.iter().any(Option::is_some) {
            for (name, said) in args.iter_mut().skip(1).zip(said) {
                if let Some(said) = said {
                    *name = lit(said);
                }
            }
            return Ok(ExprSimplifyResult::Simplified(FIELD_OF.call(args)));
        }
        // What the engine makes of more names is its own function again.
        match args.len() == 2 {
            true => self.0.inner().simplify(args, info),
            false => Ok(ExprSimplifyResult::Original(args)),
        }
    }

    fn placement(&self, args: &[ExpressionPlacement]) -> ExpressionPlacement {
        self.0.inner().placement(args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }
}
