//! Functions of single rows whose answers come from the catalogs, the settings or the variables of
//! the session. Each is made for the one statement that calls it.

use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{Result as EngineResult, ScalarValue, plan_err};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::prelude::SessionConfig;
use swingdb_common::error::{Error, ObjectKind, Result};

use crate::bind::system::names::SCALARS;
use crate::bind::system::objects::Context;
use crate::bind::system::{postgres, registered, version};
use crate::options::shown;

/// The variables of a session, which SET VARIABLE gives their values; names in lower case.
#[derive(Clone, Debug, Default)]
pub struct Variables(pub Arc<BTreeMap<String, (FieldRef, ScalarValue)>>);

impl Variables {
    /// The variables that a configuration carries.
    pub fn of(config: &SessionConfig) -> Self {
        config.get_extension::<Self>().map(|known| Self::clone(&known)).unwrap_or_default()
    }

    /// Puts them into a configuration.
    pub fn carry(self, config: &mut SessionConfig) {
        config.set_extension(Arc::new(self));
    }
}

/// The function of a name in [`SCALARS`], in the state that a statement sees.
pub(crate) fn function(context: &Context<'_>, name: &str) -> Result<Option<ScalarUDF>> {
    let Some(name) = SCALARS.iter().find(|known| known.eq_ignore_ascii_case(name)) else {
        return Ok(None);
    };
    Ok(Some(match *name {
        "current_setting" => ScalarUDF::new_from_impl(Named::settings(context.state)),
        "version" => version::function(context.state),
        "getvariable" => ScalarUDF::new_from_impl(Named {
            name,
            signature: Signature::any(1, Volatility::Stable),
            values: Variables::of(context.state.config()).0,
        }),
        name => {
            if let Some(function) = registered::function(context, name)? {
                return Ok(Some(function));
            }
            let values = postgres::looked_up(context, name)?.into_iter().collect();
            let signature = Signature::variadic_any(Volatility::Stable);
            ScalarUDF::new_from_impl(Lookup { name, signature, values: Arc::new(values) })
        }
    }))
}

/// A function whose argument, a constant, names what it gives.
#[derive(Debug)]
struct Named {
    name: &'static str,
    signature: Signature,
    values: Arc<BTreeMap<String, (FieldRef, ScalarValue)>>,
}

impl Named {
    fn settings(state: &SessionState) -> Self {
        let typed = |(name, value): (String, String)| {
            let value = match shown::input_type(&name) {
                "BIGINT" => ScalarValue::Int64(value.parse().ok()),
                "BOOLEAN" => ScalarValue::Boolean(value.parse().ok()),
                _ => ScalarValue::Utf8(Some(value)),
            };
            let field = Arc::new(Field::new(&name, value.data_type(), true));
            (name, (field, value))
        };
        // What clients of PostgreSQL compare with `pg_am`, and go by.
        let of_postgres = [
            ("default_table_access_method", "heap"),
            ("server_version", version::POSTGRES),
            ("server_version_num", version::POSTGRES_NUMBER),
        ];
        let of_postgres = of_postgres.map(|(name, value)| (name.to_string(), value.to_string()));
        let values = shown::all(state).into_iter().chain(of_postgres).map(typed).collect();
        let signature = Signature::any(1, Volatility::Stable);
        Self { name: "current_setting", signature, values: Arc::new(values) }
    }

    /// The values of names that are no constants, as texts.
    fn texts(&self, names: &ArrayRef) -> EngineResult<ColumnarValue> {
        let names = cast(names, &DataType::Utf8)?;
        let texts = names.as_string::<i32>().iter().map(|name| {
            let Some(name) = name else { return Ok(None) };
            Ok(self.value(name)?.map(|(_, value)| value.to_string()))
        });
        Ok(ColumnarValue::Array(Arc::new(texts.collect::<EngineResult<StringArray>>()?)))
    }

    /// What a name stands for; `None` for a variable that has no value.
    fn value(&self, name: &str) -> EngineResult<Option<&(FieldRef, ScalarValue)>> {
        let found = self.values.get(&name.to_lowercase());
        match found {
            None if self.name == "current_setting" => {
                Err(Error::not_found(ObjectKind::Setting, name, self.values.keys()).into())
            }
            found => Ok(found),
        }
    }
}

impl PartialEq for Named {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.values, &other.values)
    }
}

impl Eq for Named {}

impl Hash for Named {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Named {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> EngineResult<DataType> {
        plan_err!("{} takes a name in quotes", self.name)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> EngineResult<FieldRef> {
        match args.scalar_arguments {
            [Some(name)] => match name.try_as_str() {
                Some(Some(name)) => {
                    let found = self.value(name)?;
                    let unset = || Arc::new(Field::new(self.name, DataType::Null, true));
                    Ok(found.map_or_else(unset, |(field, _)| Arc::clone(field)))
                }
                _ => plan_err!("{} takes a name in quotes", self.name),
            },
            // What is no constant here may be one where it runs: a parameter, or a cast.
            [None] if self.name == "current_setting" => {
                Ok(Arc::new(Field::new(self.name, DataType::Utf8, true)))
            }
            _ => plan_err!("{} takes a name in quotes, and no more", self.name),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> EngineResult<ColumnarValue> {
        let returned = args.return_field.data_type();
        let name = match args.args.as_slice() {
            [ColumnarValue::Array(names)]
                if self.name == "current_setting" && *returned == DataType::Utf8 =>
            {
                return self.texts(names);
            }
            [ColumnarValue::Scalar(name)] => name.try_as_str().flatten().map(str::to_string),
            [ColumnarValue::Array(names)] if !names.is_empty() => {
                let name = ScalarValue::try_from_array(names, 0)?;
                name.try_as_str().flatten().map(str::to_string)
            }
            _ => None,
        };
        let Some(name) = name else { return plan_err!("{} takes a name in quotes", self.name) };
        let value = self.value(&name)?.map(|(_, value)| value.clone());
        let value = value.unwrap_or(ScalarValue::Null);
        let value = if value.data_type() == *returned { value } else { value.cast_to(returned)? };
        Ok(ColumnarValue::Scalar(value))
    }
}

/// A function that gives a text, or what the text is cast to, for the number of an object, and
/// for some also the number of a column.
#[derive(Debug)]
struct Lookup {
    name: &'static str,
    signature: Signature,
    values: Arc<HashMap<(i64, i64), String>>,
}

impl Lookup {
    fn returns(&self) -> DataType {
        match self.name {
            "object_size" => DataType::Int64,
            "pg_function_is_visible" | "pg_table_is_visible" => DataType::Boolean,
            _ => DataType::Utf8,
        }
    }
}

impl PartialEq for Lookup {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.values, &other.values)
    }
}

impl Eq for Lookup {}

impl Hash for Lookup {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Lookup {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> EngineResult<DataType> {
        let possible = match self.name {
            "col_description" => 2..=2,
            "pg_get_indexdef" => 1..=3,
            _ => 1..=2,
        };
        match possible.contains(&types.len()) {
            true => Ok(self.returns()),
            false => plan_err!("{} takes the number of an object", self.name),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> EngineResult<ColumnarValue> {
        let rows = args.number_rows;
        let number = |at: usize| -> EngineResult<_> {
            Ok(cast(&args.args[at].to_array(rows)?, &DataType::Int64)?)
        };
        let objects = number(0)?;
        let objects = objects.as_primitive::<Int64Type>();
        // 0 is the object itself: a table's comment is none of a column.
        let least = i64::from(self.name == "col_description");
        let by_column = least == 1 || self.name == "pg_get_indexdef" && args.args.len() > 1;
        let columns = if by_column { Some(number(1)?) } else { None };
        let columns = columns.as_ref().map(|columns| columns.as_primitive::<Int64Type>());
        let texts = (0..rows).map(|row| {
            let column = match columns {
                None => Some(0),
                Some(columns) => (columns.is_valid(row) && columns.value(row) >= least)
                    .then(|| columns.value(row)),
            };
            let object = objects.is_valid(row).then(|| objects.value(row));
            self.values.get(&(object?, column?)).map(String::as_str)
        });
        let texts = texts.collect::<StringArray>();
        Ok(ColumnarValue::Array(cast(&texts, &self.returns())?))
    }
}
