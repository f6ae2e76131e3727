//! What `CAST(x AS ENUM (...))` is written as, and the functions that tell what an ENUM is made of.
//!
//! Only a plan knows of which ENUM an argument is. So its values come to these functions as a
//! constant behind it, [as SQL writes them](EnumType::list); `enum_code(x)` and the like, which
//! users write with one argument, are replaced while a statement is planned.

use std::sync::{Arc, LazyLock};

use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, lit,
};
use swingdb_common::enums::EnumType;
use swingdb_common::types::sql_names::sql_name;

/// What `CAST(x AS ENUM (...))` is written as.
pub const AS_ENUM: &str = "as_enum";
/// What `TRY_CAST(x AS ENUM (...))` is written as.
pub const TRY_AS_ENUM: &str = "try_as_enum";
/// The position of a value in its list.
pub const POSITION: &str = "enum_position";
/// Functions that users call with a value alone.
pub const ASKED: [&str; 5] =
    ["enum_code", "enum_first", "enum_last", "enum_range", "enum_range_boundary"];

static CAST: LazyLock<ScalarUDF> = LazyLock::new(|| new(AS_ENUM, Kind::Cast { safe: false }));
static PLACE: LazyLock<ScalarUDF> = LazyLock::new(|| new(POSITION, Kind::Position));

fn new(name: &'static str, kind: Kind) -> ScalarUDF {
    let signature = match kind {
        Kind::Asked => Signature::variadic_any(Volatility::Immutable),
        _ => Signature::any(2, Volatility::Immutable),
    };
    ScalarUDF::new_from_impl(Enums { name, kind, signature })
}

/// All functions of this module.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    let casts = [CAST.clone(), new(TRY_AS_ENUM, Kind::Cast { safe: true }), PLACE.clone()];
    casts.into_iter().chain(ASKED.map(|name| new(name, Kind::Asked)))
}

/// The value as one of an ENUM.
pub fn as_enum(value: Expr, of: &EnumType) -> Expr {
    CAST.call(vec![value, lit(of.list())])
}

/// The position of a value in the list of its ENUM, from 0.
pub fn position(value: Expr, of: &EnumType) -> Expr {
    PLACE.call(vec![value, lit(of.list())])
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Cast {
        /// What is no value is NULL.
        safe: bool,
    },
    Position,
    Asked,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Enums {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

fn listed(value: Option<&ScalarValue>) -> Result<EnumType> {
    let list = value.and_then(|value| value.try_as_str().flatten());
    match list.and_then(EnumType::of_list) {
        Some(found) => Ok(found),
        None => plan_err!("an ENUM without the list of its values"),
    }
}

impl ScalarUDFImpl for Enums {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let made = match self.kind {
            Kind::Cast { .. } => DataType::Utf8View,
            Kind::Position => DataType::UInt32,
            Kind::Asked => return plan_err!("{} takes a value of an ENUM", self.name),
        };
        match types {
            [given, _] if given.is_string() || given.is_null() => Ok(made),
            [other, _] => plan_err!("{} cannot be cast to ENUM", sql_name(other)),
            _ => plan_err!("{} takes a value and a list", self.name),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        if self.kind == Kind::Asked {
            // What it will be is known once the plan says of which ENUM the value is.
            let made = match self.name {
                "enum_code" => DataType::UInt16,
                "enum_first" | "enum_last" => DataType::Utf8View,
                _ => DataType::new_list(DataType::Utf8View, true),
            };
            return Ok(Arc::new(Field::new(self.name, made, true)));
        }
        let field = crate::args::returned(self, &args)?;
        match self.kind {
            Kind::Cast { .. } => {
                let list = args.scalar_arguments.get(1).copied().flatten();
                Ok(Arc::new(listed(list)?.marked(field)))
            }
            _ => Ok(Arc::new(field)),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value, ColumnarValue::Scalar(list)] = args.args.as_slice() else {
            return plan_err!("{} takes a value of an ENUM", self.name);
        };
        let of = listed(Some(list))?;
        let value = value.to_array(crate::args::rows_of(&args))?;
        let found = match self.kind {
            Kind::Cast { safe } => of.check(&value, safe)?,
            Kind::Position => cast(&of.positions(&value)?, &DataType::UInt32)?,
            Kind::Asked => return plan_err!("{} takes a value of an ENUM", self.name),
        };
        crate::args::as_given(&args, found)
    }
}
