//! Names of objects as numbers and back, as PostgreSQL's types `regclass`, `regtype` and others do
//! it: the functions that stand for casts to these types, [`to_regclass`](Gives::NumberOrNull) and
//! its like, and `format_type`.
//!
//! Texts of digits are numbers. A name may have its schema; PostgreSQL's schema `public` is `main`.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result as EngineResult, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use swingdb_common::error::{Error, ObjectKind, Result};

use crate::ast::create::quoted;
use crate::ast::names::{SCHEMA, parse_table_name};
use crate::bind::system::objects::Context;
use crate::bind::system::postgres::{self, Registered};
use crate::bind::system::types;

/// What a function of this module gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Gives {
    /// The number; an error where there is no such object.
    Number,
    /// The number; NULL where there is no such object.
    NumberOrNull,
    /// The name; the digits where there is no such object.
    Name,
}

/// The functions: name, what it is about, what it gives.
const FUNCTIONS: [(&str, Registered, Gives); 16] = [
    ("regclass", Registered::Relation, Gives::Number),
    ("regclass_name", Registered::Relation, Gives::Name),
    ("regdatabase", Registered::Database, Gives::Number),
    ("regdatabase_name", Registered::Database, Gives::Name),
    ("regnamespace", Registered::Schema, Gives::Number),
    ("regnamespace_name", Registered::Schema, Gives::Name),
    // Of a function nobody compares the number: it may be one of many.
    ("regproc", Registered::Function, Gives::Name),
    ("regrole", Registered::Role, Gives::Number),
    ("regrole_name", Registered::Role, Gives::Name),
    ("regtype", Registered::Type, Gives::Number),
    ("regtype_name", Registered::Type, Gives::Name),
    ("to_regclass", Registered::Relation, Gives::NumberOrNull),
    ("to_regnamespace", Registered::Schema, Gives::NumberOrNull),
    ("to_regproc", Registered::Function, Gives::NumberOrNull),
    ("to_regrole", Registered::Role, Gives::NumberOrNull),
    ("to_regtype", Registered::Type, Gives::NumberOrNull),
];

/// The function of a name, in the state that a statement sees.
pub(super) fn function(context: &Context<'_>, name: &str) -> Result<Option<ScalarUDF>> {
    match name {
        "format_type" => return Ok(Some(ScalarUDF::new_from_impl(FormatType::new()))),
        "quote_ident" => return Ok(Some(ScalarUDF::new_from_impl(Quoted::new()))),
        _ => {}
    }
    let Some((name, of, gives)) = FUNCTIONS.iter().find(|(known, ..)| *known == name) else {
        return Ok(None);
    };
    let (mut numbers, mut names) = (HashMap::new(), HashMap::new());
    for (schema, name, oid) in postgres::registered(context, *of)? {
        let whole = match &schema {
            Some(schema) if schema != SCHEMA => format!("{}.{}", quoted(schema), quoted(&name)),
            _ => quoted(&name),
        };
        numbers.entry(key(schema.as_deref(), &name)).or_insert(oid);
        numbers.entry(key(None, &name)).or_insert(oid);
        names.entry(oid).or_insert(whole);
    }
    let signature = Signature::any(1, Volatility::Stable);
    let known = Arc::new(Known { of: *of, numbers, names });
    Ok(Some(ScalarUDF::new_from_impl(Lookup { name, gives: *gives, signature, known })))
}

/// Under what a name is found.
fn key(schema: Option<&str>, name: &str) -> (Option<String>, String) {
    let schema = schema.map(str::to_lowercase).filter(|schema| schema != SCHEMA);
    (schema, name.to_lowercase())
}

/// The objects of one kind.
#[derive(Debug)]
struct Known {
    of: Registered,
    numbers: HashMap<(Option<String>, String), i64>,
    names: HashMap<i64, String>,
}

impl Known {
    fn number(&self, text: &str) -> Option<i64> {
        let text = text.trim();
        if let Ok(number) = text.parse() {
            return Some(number);
        }
        if self.of == Registered::Type {
            return types::number(text);
        }
        let reference = parse_table_name(text);
        let schema = reference.schema().filter(|schema| !schema.eq_ignore_ascii_case("public"));
        self.numbers.get(&key(schema, reference.table())).copied()
    }

    fn name(&self, number: i64) -> String {
        if self.of == Registered::Type {
            return types::shown(number, None);
        }
        self.names.get(&number).cloned().unwrap_or_else(|| number.to_string())
    }

    fn missing(&self, name: &str) -> Error {
        let kind = match self.of {
            Registered::Relation => ObjectKind::Table,
            Registered::Database => ObjectKind::Database,
            Registered::Schema => ObjectKind::Schema,
            Registered::Function => ObjectKind::Function,
            Registered::Type => ObjectKind::Type,
            Registered::Role => ObjectKind::Other,
        };
        Error::not_found(kind, name, self.names.values())
    }
}

/// A function of [`FUNCTIONS`].
#[derive(Debug)]
struct Lookup {
    name: &'static str,
    gives: Gives,
    signature: Signature,
    known: Arc<Known>,
}

impl PartialEq for Lookup {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.known, &other.known)
    }
}

impl Eq for Lookup {}

impl Hash for Lookup {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl Lookup {
    fn numbers(&self, given: &ArrayRef) -> Result<ArrayRef> {
        if !given.data_type().is_string() {
            return Ok(cast(given, &DataType::Int64)?);
        }
        let texts = cast(given, &DataType::Utf8)?;
        let numbers = texts.as_string::<i32>().iter().map(|text| {
            let Some(text) = text else { return Ok(None) };
            match self.known.number(text) {
                None if self.gives != Gives::NumberOrNull => Err(self.known.missing(text)),
                found => Ok(found),
            }
        });
        Ok(Arc::new(numbers.collect::<Result<Int64Array>>()?))
    }

    fn names(&self, given: &ArrayRef) -> Result<ArrayRef> {
        let numbers = self.numbers(given)?;
        let numbers = numbers.as_primitive::<Int64Type>().iter();
        let names = numbers.map(|number| number.map(|number| self.known.name(number)));
        Ok(Arc::new(names.collect::<StringArray>()))
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
        match types {
            [given] if given.is_string() || given.is_integer() || given.is_null() => {}
            _ => return plan_err!("{} takes the name of an object, or its number", self.name),
        }
        Ok(match self.gives {
            Gives::Number | Gives::NumberOrNull => DataType::Int64,
            Gives::Name => DataType::Utf8,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> EngineResult<ColumnarValue> {
        let given = args.args[0].to_array(args.number_rows)?;
        let found = match self.gives {
            Gives::Number | Gives::NumberOrNull => self.numbers(&given)?,
            Gives::Name => self.names(&given)?,
        };
        Ok(ColumnarValue::Array(found))
    }
}

/// `format_type(oid, modifier)`: the name of a type in SQL, with precision and scale.
#[derive(Debug, PartialEq, Eq, Hash)]
struct FormatType {
    signature: Signature,
}

impl FormatType {
    fn new() -> Self {
        Self { signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for FormatType {
    fn name(&self) -> &str {
        "format_type"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> EngineResult<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> EngineResult<ColumnarValue> {
        let numbers = |at: usize| -> EngineResult<ArrayRef> {
            Ok(cast(&args.args[at].to_array(args.number_rows)?, &DataType::Int64)?)
        };
        let (oids, modifiers) = (numbers(0)?, numbers(1)?);
        let (oids, modifiers) =
            (oids.as_primitive::<Int64Type>(), modifiers.as_primitive::<Int64Type>());
        let both = oids.iter().zip(modifiers);
        let names = both.map(|(oid, modifier)| oid.map(|oid| types::shown(oid, modifier)));
        Ok(ColumnarValue::Array(Arc::new(names.collect::<StringArray>())))
    }
}

/// `quote_ident(name)`: the name as SQL writes it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Quoted {
    signature: Signature,
}

impl Quoted {
    fn new() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Quoted {
    fn name(&self) -> &str {
        "quote_ident"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> EngineResult<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> EngineResult<ColumnarValue> {
        let names = cast(&args.args[0].to_array(args.number_rows)?, &DataType::Utf8)?;
        let names = names.as_string::<i32>().iter().map(|name| name.map(quoted));
        Ok(ColumnarValue::Array(Arc::new(names.collect::<StringArray>())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bind::system::names::SCALARS;

    #[test]
    fn each_function_has_its_name_in_the_list() {
        for (name, ..) in FUNCTIONS {
            assert!(SCALARS.contains(&name), "{name}");
        }
    }
}
