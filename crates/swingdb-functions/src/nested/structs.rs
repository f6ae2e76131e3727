//! Structs made of others: `struct_insert(s, b := 2)`, `struct_update(s, a := 5)`,
//! `struct_concat(s, t)`, `struct_values(s)`; and the names of their fields, `struct_keys(s)`.
//!
//! A new field and its name follow each other as arguments: `struct_insert(s, 'b', 2)`. Names are
//! told apart without regard to case. NULL is a struct all of whose fields are NULL.

use std::sync::{Arc, LazyLock};

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, ListBuilder, StringViewBuilder, StructArray,
};
use arrow::compute::nullif;
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use crate::keys::same_bits::{call, of_key};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// With fields that it does not have yet.
    Insert,
    /// With fields in the place of its own, or behind them.
    Update,
    /// The fields of all.
    Concat,
    /// Its fields with the names that ROW gives.
    Values,
}

const FUNCTIONS: &[(&str, Kind)] = &[
    ("struct_insert", Kind::Insert),
    ("struct_update", Kind::Update),
    ("struct_concat", Kind::Concat),
    ("struct_values", Kind::Values),
];

/// The same struct, where it is NULL with NULL in all fields: `nullif` leaves the values there.
pub fn null_throughout(expr: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| of_key("null_throughout", Clone::clone, nulls_below));
    call(&FUNCTION, expr)
}

fn nulls_below(structs: &ArrayRef) -> Result<ArrayRef> {
    let Some(nulls) = structs.nulls() else { return Ok(Arc::clone(structs)) };
    let structs = structs.as_struct();
    let absent = BooleanArray::new(!nulls.inner(), None);
    let columns = structs.columns().iter().map(|column| Ok(nullif(column, &absent)?));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let fields = structs.fields().clone();
    Ok(Arc::new(StructArray::try_new(fields, columns, Some(nulls.clone()))?))
}

/// Names of functions whose arguments are written as `name := value` behind the first.
pub const NAMED: [&str; 2] = ["struct_insert", "struct_update"];

/// All functions of this module.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    let made = FUNCTIONS.iter().map(|(name, kind)| {
        let signature = Signature::variadic_any(Volatility::Immutable);
        ScalarUDF::new_from_impl(OfStructs { name, kind: *kind, signature })
    });
    let signature = Signature::any(1, Volatility::Immutable);
    made.chain([ScalarUDF::new_from_impl(Keys { signature })])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfStructs {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

/// Where a field of the result comes from: an argument, or a field of one.
#[derive(Clone, Copy)]
struct From {
    arg: usize,
    field: Option<usize>,
}

impl OfStructs {
    /// The fields of the result. `name` gives the text of an argument.
    fn fields(
        &self,
        given: &[FieldRef],
        name: &dyn Fn(usize) -> Option<String>,
    ) -> Result<Vec<(Field, From)>> {
        let structs = if self.kind == Kind::Concat { given.len() } else { 1 };
        let mut all: Vec<(Field, From)> = Vec::new();
        for (arg, field) in given.iter().enumerate().take(structs) {
            let DataType::Struct(fields) = field.data_type() else {
                return plan_err!("{} takes a STRUCT, not {}", self.name, field.data_type());
            };
            for (place, field) in fields.iter().enumerate() {
                let mut field = field.as_ref().clone().with_nullable(true);
                if self.kind == Kind::Values {
                    field.set_name(format!("c{place}"));
                }
                self.add(&mut all, field, From { arg, field: Some(place) })?;
            }
        }
        let takes_fields = matches!(self.kind, Kind::Insert | Kind::Update);
        if takes_fields == (structs == given.len()) {
            let takes = if takes_fields { "fields: name := value" } else { "nothing else" };
            return plan_err!("{} takes a STRUCT and {takes}", self.name);
        }
        for arg in (structs..given.len()).step_by(2) {
            let (Some(name), Some(value)) = (name(arg), given.get(arg + 1)) else {
                return plan_err!("{} takes a STRUCT and fields: name := value", self.name);
            };
            let is_named = |known: &(Field, From)| {
                known.1.field.is_none() && known.0.name().eq_ignore_ascii_case(&name)
            };
            if all.iter().any(is_named) {
                return plan_err!("{}: two fields named {name:?}", self.name);
            }
            let field = value.as_ref().clone().with_name(name).with_nullable(true);
            self.add(&mut all, field, From { arg: arg + 1, field: None })?;
        }
        Ok(all)
    }

    fn add(&self, all: &mut Vec<(Field, From)>, field: Field, from: From) -> Result<()> {
        match all.iter_mut().find(|(known, _)| known.name().eq_ignore_ascii_case(field.name())) {
            None => all.push((field, from)),
            Some(known) if self.kind == Kind::Update => *known = (field, from),
            Some(_) => return plan_err!("{}: two fields named {:?}", self.name, field.name()),
        }
        Ok(())
    }
}

impl ScalarUDFImpl for OfStructs {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        plan_err!("{} depends on names", self.name)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let name = |arg: usize| {
            let value = args.scalar_arguments.get(arg).copied().flatten()?;
            value.try_as_str().flatten().map(str::to_string)
        };
        let fields = self.fields(args.arg_fields, &name)?;
        let fields = fields.into_iter().map(|(field, _)| field).collect::<Fields>();
        Ok(Arc::new(Field::new(self.name, DataType::Struct(fields), true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let name = |arg: usize| match args.args.get(arg) {
            Some(ColumnarValue::Scalar(value)) => value.try_as_str().flatten().map(str::to_string),
            _ => None,
        };
        let fields = self.fields(&args.arg_fields, &name)?;
        let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let columns = fields.iter().map(|(_, from)| part(&arrays, *from));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let fields = fields.into_iter().map(|(field, _)| field).collect::<Fields>();
        // What another struct adds or changes is there in any case.
        let nulls = arrays.first().filter(|_| self.kind == Kind::Values);
        let nulls = nulls.and_then(|given| given.nulls().cloned());
        let made = StructArray::try_new_with_length(fields, columns, nulls, rows)?;
        crate::args::as_given(&args, Arc::new(made))
    }
}

/// `struct_keys(s)`: NULL has none.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Keys {
    signature: Signature,
}

impl ScalarUDFImpl for Keys {
    fn name(&self) -> &str {
        "struct_keys"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [DataType::Struct(_) | DataType::Null] => {
                Ok(DataType::new_list(DataType::Utf8View, true))
            }
            _ => plan_err!("{} takes a STRUCT", self.name()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let [given] = args.args.as_slice() else {
            return plan_err!("{} takes a STRUCT", self.name());
        };
        let given = given.to_array(rows)?;
        let DataType::Struct(fields) = given.data_type() else {
            let nothing = arrow::array::new_null_array(args.return_type(), rows);
            return crate::args::as_given(&args, nothing);
        };
        let mut keys = ListBuilder::new(StringViewBuilder::new());
        for row in 0..rows {
            let is_there = given.is_valid(row);
            for field in fields.iter().filter(|_| is_there) {
                keys.values().append_value(field.name());
            }
            keys.append(is_there);
        }
        crate::args::as_given(&args, Arc::new(keys.finish()))
    }
}

/// A column of the result, NULL where the struct is.
fn part(arrays: &[ArrayRef], from: From) -> Result<ArrayRef> {
    let array = &arrays[from.arg];
    let Some(place) = from.field else { return Ok(Arc::clone(array)) };
    let Some(structs) = array.as_struct_opt() else { return exec_err!("no STRUCT") };
    let column = structs.column(place);
    match structs.nulls() {
        None => Ok(Arc::clone(column)),
        Some(_) => Ok(nullif(column, &arrow::compute::is_null(structs)?)?),
    }
}
