//! Functions that call a lambda for the elements of lists: [`functions`].
//!
//! | function | answer |
//! |---|---|
//! | `list_transform(l, lambda x, i: ...)` | what the lambda makes of each element |
//! | `list_filter(l, lambda x, i: ...)` | the elements for which it is true |
//! | `list_reduce(l, lambda a, x, i: ..., first)` | what it makes of all, from left to right |
//!
//! `i` is the place of the element, from 1. The engine's own `list_transform` and `list_filter`
//! know no places, and it has no `list_reduce`.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListArray, UInt32Array, new_empty_array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{CastOptions, cast, cast_with_options, filter, interleave, take, take_arrays};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::utils::list_values_row_number;
use datafusion::common::{Result, exec_err, internal_err, plan_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::type_coercion::binary::type_union_coercion;
use datafusion::logical_expr::{
    ColumnarValue, HigherOrderFunctionArgs, HigherOrderReturnFieldArgs, HigherOrderSignature,
    HigherOrderUDF, HigherOrderUDFImpl, LambdaArgument, LambdaParametersProgress, ValueOrLambda,
    Volatility,
};
use swingdb_common::runtime::cancel;
use swingdb_common::types::sql_names::sql_name;

use crate::bounded::ask;
use crate::bounded::size::bytes_of_copies;
use crate::nested::unified::common_floating;

/// The functions, those in place of the engine's too.
pub(crate) fn functions() -> [Arc<HigherOrderUDF>; 3] {
    [Kind::Transform, Kind::Filter, Kind::Reduce].map(|kind| {
        let (_, aliases) = kind.names();
        let aliases = aliases.iter().map(ToString::to_string).collect();
        let signature = HigherOrderSignature::user_defined(Volatility::Immutable);
        Arc::new(HigherOrderUDF::new_from_impl(OfLambda { kind, signature, aliases }))
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Transform,
    Filter,
    Reduce,
}

impl Kind {
    fn names(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::Transform => ("array_transform", &["list_transform"]),
            Self::Filter => ("array_filter", &["list_filter"]),
            Self::Reduce => ("list_reduce", &["array_reduce", "reduce"]),
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfLambda {
    kind: Kind,
    signature: HigherOrderSignature,
    aliases: Vec<String>,
}

/// The arguments of a call: a list, a lambda, and perhaps what to begin with.
type Parts<'a, V, L> = (&'a V, &'a L, Option<&'a V>);

impl OfLambda {
    fn parts<'a, V, L>(&self, args: &'a [ValueOrLambda<V, L>]) -> Result<Parts<'a, V, L>> {
        match (args, self.kind) {
            ([ValueOrLambda::Value(list), ValueOrLambda::Lambda(lambda)], _) => {
                Ok((list, lambda, None))
            }
            (
                [
                    ValueOrLambda::Value(list),
                    ValueOrLambda::Lambda(lambda),
                    ValueOrLambda::Value(first),
                ],
                Kind::Reduce,
            ) => Ok((list, lambda, Some(first))),
            (_, Kind::Reduce) => {
                plan_err!("{} takes a list, a lambda, and perhaps a first value", self.name())
            }
            _ => plan_err!("{} takes a list and a lambda", self.name()),
        }
    }
}

fn element(list: &DataType) -> Result<&FieldRef> {
    match list {
        DataType::List(element) => Ok(element),
        other => internal_err!("{other} is no list"),
    }
}

impl HigherOrderUDFImpl for OfLambda {
    fn name(&self) -> &str {
        self.kind.names().0
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &HigherOrderSignature {
        &self.signature
    }

    fn coerce_value_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let list = match types.first() {
            Some(
                DataType::List(element)
                | DataType::LargeList(element)
                | DataType::ListView(element)
                | DataType::LargeListView(element)
                | DataType::FixedSizeList(element, _),
            ) => Arc::clone(element),
            Some(DataType::Null) => Arc::new(Field::new_list_field(DataType::Null, true)),
            Some(other) => return plan_err!("{} takes a list, not {other}", self.name()),
            None => return plan_err!("{} takes a list and a lambda", self.name()),
        };
        let Some(first) = types.get(1) else { return Ok(vec![DataType::List(list)]) };
        let item = list.data_type();
        match common_floating(item, first).or_else(|| type_union_coercion(item, first)) {
            Some(both) => Ok(vec![DataType::new_list(both.clone(), true), both]),
            None => plan_err!("{}: a list of {} and {first}", self.name(), list.data_type()),
        }
    }

    fn lambda_parameters(
        &self,
        _step: usize,
        fields: &[ValueOrLambda<FieldRef, Option<FieldRef>>],
    ) -> Result<LambdaParametersProgress> {
        let (list, _, _) = self.parts(fields)?;
        let element = element(list.data_type())?;
        let place = Arc::new(Field::new("place", DataType::Int64, false));
        let mut given = vec![Arc::clone(element), place];
        if self.kind == Kind::Reduce {
            let made = element.as_ref().clone().with_nullable(true);
            given.insert(0, Arc::new(made));
        }
        Ok(LambdaParametersProgress::Complete(vec![given]))
    }

    fn return_field_from_args(&self, args: HigherOrderReturnFieldArgs<'_>) -> Result<FieldRef> {
        let (list, lambda, _) = self.parts(args.arg_fields)?;
        let element = element(list.data_type())?;
        let returned = match self.kind {
            Kind::Transform => {
                let made = Field::new_list_field(lambda.data_type().clone(), lambda.is_nullable());
                DataType::List(Arc::new(made))
            }
            Kind::Filter => list.data_type().clone(),
            Kind::Reduce if is_kept(lambda.data_type(), element.data_type()) => {
                element.data_type().clone()
            }
            Kind::Reduce => {
                return plan_err!(
                    "{}: the lambda makes {}, which is no {} as the elements are; cast one of them",
                    self.name(),
                    sql_name(lambda.data_type()),
                    sql_name(element.data_type())
                );
            }
        };
        let is_nullable = list.is_nullable() || self.kind == Kind::Reduce;
        Ok(Arc::new(Field::new("", returned, is_nullable)))
    }

    fn invoke_with_args(&self, args: HigherOrderFunctionArgs) -> Result<ColumnarValue> {
        let (list, lambda, first) = self.parts(&args.args)?;
        let lists = list.to_array(args.number_rows)?;
        let Some(lists) = lists.as_list_opt::<i32>() else {
            return internal_err!("{} of {}", self.name(), lists.data_type());
        };
        let asks = Asks { name: self.name(), config: &args.config_options };
        let found: ArrayRef = match self.kind {
            Kind::Transform => {
                Arc::new(transformed(lists, lambda, element(args.return_field.data_type())?, asks)?)
            }
            Kind::Filter => Arc::new(filtered(lists, lambda, asks)?),
            Kind::Reduce => {
                let first = first.map(|first| first.to_array(args.number_rows)).transpose()?;
                reduced(lists, lambda, first.as_ref())?
            }
        };
        Ok(ColumnarValue::Array(found))
    }
}

/// Whether each value of a type is one of another: a cast loses nothing, or fails.
fn is_kept(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::Null, _) => true,
        (from, to) if from.is_string() && to.is_string() => true,
        (from, to) if from.is_integer() => {
            to.is_integer() || matches!(to, DataType::Decimal128(..) | DataType::Float64)
        }
        (DataType::Decimal128(_, from), DataType::Decimal128(_, to)) => from <= to,
        (DataType::Float32, DataType::Float64) => true,
        (
            DataType::List(from) | DataType::FixedSizeList(from, _) | DataType::LargeList(from),
            DataType::List(to),
        ) => is_kept(from.data_type(), to.data_type()),
        (from, to) => from == to,
    }
}

/// The elements of all lists, one behind the other.
fn elements(lists: &ListArray) -> ArrayRef {
    let offsets = lists.value_offsets();
    let (begin, end) = (offsets[0] as usize, offsets[lists.len()] as usize);
    lists.values().slice(begin, end - begin)
}

/// The offsets of lists from the first element that one of them has.
fn offsets(lists: &ListArray) -> OffsetBuffer<i32> {
    OffsetBuffer::from_lengths((0..lists.len()).map(|row| lists.value_length(row) as usize))
}

/// What a lambda makes of each element, and of its place.
fn of_each(
    lists: &ListArray,
    lambda: &LambdaArgument,
    made: &DataType,
    asks: Asks<'_>,
) -> Result<ArrayRef> {
    let values = elements(lists);
    // A lambda that fails must not where it has nothing to do.
    if values.is_empty() {
        return Ok(new_empty_array(made));
    }
    let places = || -> Result<ArrayRef> {
        let lengths = (0..lists.len()).map(|row| i64::from(lists.value_length(row)));
        Ok(Arc::new(lengths.flat_map(|length| 1..=length).collect::<Int64Array>()))
    };
    // What is asked for is held until the function has returned.
    let mut held = Vec::new();
    let found = lambda.evaluate(&[&|| Ok(Arc::clone(&values)), &places], |captured| {
        let lengths = (0..lists.len()).map(|row| lists.value_length(row).max(0) as u64);
        for column in captured {
            held.extend(asks.for_copies(column, lengths.clone())?);
        }
        let lists: ArrayRef = Arc::new(lists.clone());
        Ok(take_arrays(captured, &list_values_row_number(&lists)?, None)?)
    })?;
    if let ColumnarValue::Scalar(one) = &found {
        held.extend(asks.for_copies(&one.to_array()?, [values.len() as u64].into_iter())?);
    }
    found.into_array(values.len())
}

/// Asks for the memory of what a lambda is given and makes.
#[derive(Clone, Copy)]
struct Asks<'a> {
    name: &'a str,
    config: &'a ConfigOptions,
}

impl Asks<'_> {
    /// For as many copies of each value as `times` says.
    fn for_copies(
        self,
        of: &ArrayRef,
        times: impl Iterator<Item = u64>,
    ) -> Result<Option<MemoryReservation>> {
        ask(self.name, self.config, bytes_of_copies(of, times)?)
    }
}

fn transformed(
    lists: &ListArray,
    lambda: &LambdaArgument,
    made: &FieldRef,
    asks: Asks<'_>,
) -> Result<ListArray> {
    let values = of_each(lists, lambda, made.data_type(), asks)?;
    Ok(ListArray::try_new(Arc::clone(made), offsets(lists), values, lists.nulls().cloned())?)
}

fn filtered(lists: &ListArray, lambda: &LambdaArgument, asks: Asks<'_>) -> Result<ListArray> {
    let chosen = of_each(lists, lambda, &DataType::Boolean, asks)?;
    let chosen = match chosen.data_type() {
        DataType::Boolean | DataType::Null => cast(&chosen, &DataType::Boolean)?,
        number if number.is_integer() => cast(&chosen, &DataType::Boolean)?,
        other => return exec_err!("the lambda of list_filter makes a BOOLEAN, not {other}"),
    };
    // NULL is not true.
    let chosen: BooleanArray =
        chosen.as_boolean().iter().map(|chosen| Some(chosen == Some(true))).collect();
    let before = offsets(lists);
    let lengths = before.windows(2).map(|ends| {
        let (begin, end) = (ends[0] as usize, ends[1] as usize);
        chosen.values().slice(begin, end - begin).count_set_bits()
    });
    let after = OffsetBuffer::from_lengths(lengths.collect::<Vec<_>>());
    let values = filter(&elements(lists), &chosen)?;
    let DataType::List(field) = lists.data_type() else {
        return internal_err!("{} is no list", lists.data_type());
    };
    Ok(ListArray::try_new(Arc::clone(field), after, values, lists.nulls().cloned())?)
}

/// Which lists have elements left, and what has been made of those before.
struct Work {
    rows: Vec<u32>,
    made: ArrayRef,
}

/// One step a place: the lists that have one take it together.
fn reduced(
    lists: &ListArray,
    lambda: &LambdaArgument,
    first: Option<&ArrayRef>,
) -> Result<ArrayRef> {
    let values = elements(lists);
    let begins = offsets(lists);
    let has = |row: usize, place: usize| place < lists.value_length(row) as usize;
    let rows = (0..lists.len()).filter(|row| lists.is_valid(*row)).collect::<Vec<_>>();
    if first.is_none() && rows.iter().any(|row| !has(*row, 0)) {
        return exec_err!("list_reduce of an empty list needs a first value");
    }
    let of_place = |rows: &[u32], place: usize| -> Result<ArrayRef> {
        let at = rows.iter().map(|row| begins[*row as usize] as u32 + place as u32);
        Ok(take(&values, &UInt32Array::from_iter_values(at), None)?)
    };
    let rows = rows.into_iter().map(|row| row as u32).collect::<Vec<_>>();
    let made = match first {
        Some(first) => take(first, &UInt32Array::from(rows.clone()), None)?,
        None => of_place(&rows, 0)?,
    };
    let mut work = Work { rows, made };
    // Where the answer of each list is; NULL, where it is NULL.
    let mut answers = vec![arrow::array::new_null_array(values.data_type(), 1)];
    let mut found = vec![(0, 0); lists.len()];
    let mut place = usize::from(first.is_none());
    loop {
        cancel::check()?;
        let (mut left, mut at, mut done) = (Vec::new(), Vec::new(), Vec::new());
        for (position, row) in work.rows.iter().enumerate() {
            if has(*row as usize, place) {
                left.push(*row);
                at.push(position as u32);
            } else {
                found[*row as usize] = (answers.len(), done.len());
                done.push(position as u32);
            }
        }
        if !done.is_empty() {
            answers.push(take(&work.made, &UInt32Array::from(done), None)?);
        }
        if left.is_empty() {
            break;
        }
        let made = take(&work.made, &UInt32Array::from(at), None)?;
        let taken = of_place(&left, place)?;
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![place as i64 + 1; left.len()]));
        let next = lambda.evaluate(
            &[&|| Ok(Arc::clone(&made)), &|| Ok(Arc::clone(&taken)), &|| Ok(Arc::clone(&numbers))],
            |captured| Ok(take_arrays(captured, &UInt32Array::from(left.clone()), None)?),
        )?;
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let next = next.into_array(left.len())?;
        let next = cast_with_options(&next, values.data_type(), &options)?;
        work = Work { rows: left, made: next };
        place += 1;
    }
    let answers = answers.iter().map(AsRef::as_ref).collect::<Vec<_>>();
    Ok(interleave(&answers, &found)?)
}
