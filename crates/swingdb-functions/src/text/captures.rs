//! `regexp_extract(text, pattern, ['year', 'month'], options)`: the groups of the first match of a
//! pattern as a STRUCT, and with `regexp_extract_all` a list of those of all matches.
//!
//! The names are arguments of their own here: `regexp_extract_names(text, pattern, options, 'year',
//! 'month')`. A group that takes no part is the empty text in the first match and NULL among all,
//! as a group alone is. So is each group of a text without a match.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringViewBuilder, StructArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use regex::{Captures, Regex};

use crate::text::patterns::{compiled, each_match};

/// What users call the functions, and their names here.
pub const NAMES: [(&str, &str); 2] = [
    ("regexp_extract", "regexp_extract_names"),
    ("regexp_extract_all", "regexp_extract_all_names"),
];
/// Arguments before the names.
const BEFORE: usize = 3;

/// Both functions.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    NAMES.iter().zip([false, true]).map(|((_, name), all)| {
        let signature = Signature::variadic_any(Volatility::Immutable);
        ScalarUDF::new_from_impl(Named { name, all, signature })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Named {
    name: &'static str,
    /// Of all matches.
    all: bool,
    signature: Signature,
}

impl Named {
    fn fields<'a>(&self, names: impl Iterator<Item = Option<&'a str>>) -> Result<Fields> {
        let names = names.skip(BEFORE).collect::<Vec<_>>();
        let mut fields: Vec<Field> = Vec::with_capacity(names.len());
        for name in names {
            let Some(name) = name else {
                return plan_err!("the names of groups are texts: ['year', 'month']");
            };
            if fields.iter().any(|known| known.name().eq_ignore_ascii_case(name)) {
                return plan_err!("two groups named {name:?}");
            }
            fields.push(Field::new(name, DataType::Utf8View, true));
        }
        if fields.is_empty() {
            return plan_err!("there are no names of groups");
        }
        Ok(fields.into())
    }

    fn regex(&self, pattern: &str, options: &str, names: usize) -> Result<Regex> {
        let regex = compiled(self.name, pattern, options)?;
        let groups = regex.captures_len() - 1;
        if groups < names {
            return exec_err!("the pattern has {groups} groups, and there are {names} names");
        }
        Ok(regex)
    }
}

impl ScalarUDFImpl for Named {
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
        let texts = args.arg_fields.iter().take(BEFORE);
        if let Some(other) = texts
            .map(|field| field.data_type())
            .find(|given| !given.is_string() && !given.is_null())
        {
            return plan_err!("{} takes text, not {other}", self.name);
        }
        let names = args.scalar_arguments.iter();
        let names = names.map(|name| name.and_then(|name| name.try_as_str().flatten()));
        let groups = DataType::Struct(self.fields(names)?);
        let returned = if self.all { DataType::new_list(groups, true) } else { groups };
        Ok(Arc::new(Field::new(self.name, returned, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let names = args.args.iter().map(|arg| match arg {
            ColumnarValue::Scalar(name) => name.try_as_str().flatten(),
            ColumnarValue::Array(_) => None,
        });
        let fields = self.fields(names)?;
        let text = |at: usize| -> Result<ArrayRef> {
            Ok(cast(&args.args[at].to_array(rows)?, &DataType::Utf8View)?)
        };
        let (given, patterns, options) = (text(0)?, text(1)?, text(2)?);
        let (given, patterns) = (given.as_string_view(), patterns.as_string_view());
        let options = options.as_string_view();
        let mut made = Groups::new(&fields, self.all);
        let mut known: Option<((&str, &str), Regex)> = None;
        for row in 0..rows {
            if given.is_null(row) || patterns.is_null(row) || options.is_null(row) {
                made.null();
                continue;
            }
            let key = (patterns.value(row), options.value(row));
            if known.as_ref().is_none_or(|(last, _)| *last != key) {
                known = Some((key, self.regex(key.0, key.1, fields.len())?));
            }
            if let Some((_, regex)) = &known {
                made.row(given.value(row), regex);
            }
        }
        crate::args::as_given(&args, made.finish(fields)?)
    }
}

/// The groups of matches, row by row.
struct Groups {
    all: bool,
    columns: Vec<StringViewBuilder>,
    lengths: Vec<usize>,
    valid: Vec<bool>,
}

impl Groups {
    fn new(fields: &Fields, all: bool) -> Self {
        let columns = fields.iter().map(|_| StringViewBuilder::new()).collect();
        Self { all, columns, lengths: Vec::new(), valid: Vec::new() }
    }

    fn null(&mut self) {
        self.valid.push(false);
        self.lengths.push(0);
        if !self.all {
            self.columns.iter_mut().for_each(StringViewBuilder::append_null);
        }
    }

    fn row(&mut self, text: &str, regex: &Regex) {
        self.valid.push(true);
        let mut matches = 0;
        if self.all {
            each_match(text, regex, |found| {
                matches += 1;
                for (at, column) in self.columns.iter_mut().enumerate() {
                    column.append_option(part(Some(found), at));
                }
            });
        } else {
            let found = regex.captures(text);
            for (at, column) in self.columns.iter_mut().enumerate() {
                column.append_value(part(found.as_ref(), at).unwrap_or_default());
            }
        }
        self.lengths.push(matches);
    }

    fn finish(mut self, fields: Fields) -> Result<ArrayRef> {
        let columns = self.columns.iter_mut().map(|column| Arc::new(column.finish()) as ArrayRef);
        let columns = columns.collect::<Vec<_>>();
        let nulls = NullBuffer::from(self.valid);
        if !self.all {
            return Ok(Arc::new(StructArray::try_new(fields, columns, Some(nulls))?));
        }
        let groups = StructArray::try_new(fields, columns, None)?;
        let field = Arc::new(Field::new_list_field(groups.data_type().clone(), true));
        let offsets = OffsetBuffer::from_lengths(self.lengths);
        Ok(Arc::new(ListArray::try_new(field, offsets, Arc::new(groups), Some(nulls))?))
    }
}

/// What the group with a name matched.
fn part<'t>(found: Option<&Captures<'t>>, at: usize) -> Option<&'t str> {
    found?.get(at + 1).map(|part| part.as_str())
}
