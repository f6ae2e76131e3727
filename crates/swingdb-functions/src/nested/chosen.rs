//! Elements of lists chosen by other lists: `list_where(l, [true, false])`, `list_select(l, [3,
//! 1])`; and `list_grade_up(l)`, `list_grade_up(l, 'DESC', 'NULLS FIRST')`, the places of the
//! elements in an order. `first_elements(l, n)` are those that `max(x, n)` and the like give, of
//! all values in their order.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, UInt64Array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{SortOptions, cast, sort_to_indices, take};
use arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::keys::order::sort_keys;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// Those beside true.
    Where,
    /// Those at places, counted from 1.
    Select,
    /// The places in order.
    GradeUp,
    /// As many as a number says.
    First,
}

const FUNCTIONS: &[(&str, Kind)] = &[
    ("list_where", Kind::Where),
    ("array_where", Kind::Where),
    ("list_select", Kind::Select),
    ("array_select", Kind::Select),
    ("list_grade_up", Kind::GradeUp),
    ("array_grade_up", Kind::GradeUp),
    ("grade_up", Kind::GradeUp),
    ("first_elements", Kind::First),
];

/// More elements than this are not asked for by number.
const MAX_FIRST: i64 = 999_999;

/// All functions of this module.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    FUNCTIONS.iter().map(|(name, kind)| {
        let signature = match kind {
            Kind::GradeUp => Signature::variadic_any(Volatility::Immutable),
            Kind::Where | Kind::Select | Kind::First => Signature::any(2, Volatility::Immutable),
        };
        ScalarUDF::new_from_impl(Chosen { name, kind: *kind, signature })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Chosen {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

impl ScalarUDFImpl for Chosen {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let Some(element) = types.first().and_then(element_of) else {
            return plan_err!("{} takes a list", self.name);
        };
        let of = match (self.kind, &types[1..]) {
            (Kind::GradeUp, order) if order.iter().all(DataType::is_string) => &DataType::Int64,
            (Kind::Where | Kind::Select, [by]) if by.is_list() || by.is_null() => element,
            (Kind::First, [number]) if number.is_integer() || number.is_null() => element,
            (Kind::First, _) => {
                return plan_err!("the number of values to give is to be a whole number");
            }
            (Kind::GradeUp, _) => return plan_err!("{} takes a list and an order", self.name),
            _ => return plan_err!("{} takes two lists", self.name),
        };
        Ok(DataType::new_list(of.clone(), true))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let column = |at: usize, of: DataType| -> Result<ArrayRef> {
            let Some(arg) = args.args.get(at) else {
                return plan_err!("{} takes two lists", self.name);
            };
            Ok(cast(&arg.to_array(rows)?, &DataType::new_list(of, true))?)
        };
        let given = args.args.first().map(ColumnarValue::data_type);
        let element = given.as_ref().and_then(element_of).unwrap_or(&DataType::Null);
        let lists = column(0, element.clone())?;
        let lists = lists.as_list::<i32>();
        let found = match self.kind {
            Kind::First => {
                let Some(number) = args.args.get(1) else {
                    return plan_err!("{} takes a list and a number", self.name);
                };
                let numbers = cast(&number.to_array(rows)?, &DataType::Int64)?;
                first(lists, numbers.as_primitive())?
            }
            Kind::GradeUp => grades(lists, options(&args.args[1..])?)?,
            Kind::Where => {
                self.chosen(lists, column(1, DataType::Boolean)?.as_list(), beside_true)?
            }
            Kind::Select => self.chosen(lists, column(1, DataType::Int64)?.as_list(), at_places)?,
        };
        crate::args::as_given(&args, found)
    }
}

/// The type of the elements of a list; NULL is one of NULLs.
fn element_of(list: &DataType) -> Option<&DataType> {
    match list {
        DataType::Null => Some(list),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Some(item.data_type())
        }
        _ => None,
    }
}

/// Appends the places of what is chosen from a list of a length; `None` is NULL.
type Choose = fn(usize, &ArrayRef, &mut Vec<Option<usize>>);

impl Chosen {
    fn chosen(&self, lists: &ListArray, by: &ListArray, choose: Choose) -> Result<ArrayRef> {
        let (mut taken, mut places) = (Vec::new(), Vec::new());
        let mut lengths = Vec::with_capacity(lists.len());
        for row in 0..lists.len() {
            places.clear();
            if lists.is_valid(row) && by.is_valid(row) {
                let length = lists.value_length(row) as usize;
                let by = by.value(row);
                if by.null_count() > 0 {
                    let what = match self.kind {
                        Kind::Where => "says neither true nor false",
                        _ => "is no place",
                    };
                    return exec_err!("{}: NULL {what}", self.name);
                }
                choose(length, &by, &mut places);
            }
            let first = lists.value_offsets()[row] as u64;
            taken.extend(places.iter().map(|place| place.map(|place| first + place as u64)));
            lengths.push(places.len());
        }
        let values = take(lists.values(), &UInt64Array::from(taken), None)?;
        let nulls = NullBuffer::union(lists.nulls(), by.nulls());
        list_of(values, lengths, nulls)
    }
}

pub(super) fn list_of(
    values: ArrayRef,
    lengths: Vec<usize>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let item = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(ListArray::try_new(item, offsets, values, nulls)?))
}

fn beside_true(length: usize, by: &ArrayRef, places: &mut Vec<Option<usize>>) {
    let chosen = by.as_boolean().values().set_indices();
    places.extend(chosen.map(|place| (place < length).then_some(place)));
}

fn at_places(length: usize, by: &ArrayRef, places: &mut Vec<Option<usize>>) {
    let place = |at: &i64| usize::try_from(at.checked_sub(1)?).ok().filter(|at| *at < length);
    places.extend(by.as_primitive::<Int64Type>().values().iter().map(place));
}

/// As many elements of each list as a number says.
fn first(lists: &ListArray, numbers: &Int64Array) -> Result<ArrayRef> {
    let (mut taken, mut lengths) = (Vec::new(), Vec::with_capacity(lists.len()));
    for (row, number) in numbers.iter().enumerate() {
        let length = match number {
            _ if lists.is_null(row) => 0,
            Some(number @ 1..=MAX_FIRST) => (number as usize).min(lists.value(row).len()),
            Some(number) => {
                return exec_err!(
                    "{number} values are no number of values to give, 1 to {MAX_FIRST}"
                );
            }
            None => return exec_err!("the number of values to give is NULL"),
        };
        let first = lists.value_offsets()[row] as u64;
        taken.extend(first..first + length as u64);
        lengths.push(length);
    }
    let values = take(lists.values(), &UInt64Array::from(taken), None)?;
    list_of(values, lengths, lists.nulls().cloned())
}

/// `'ASC'` or `'DESC'`, then `'NULLS FIRST'` or `'NULLS LAST'`, as the arguments have them.
pub(super) fn options(words: &[ColumnarValue]) -> Result<SortOptions> {
    let mut options = SortOptions { descending: false, nulls_first: false };
    for (place, word) in words.iter().enumerate() {
        let word = match word {
            ColumnarValue::Scalar(word) => word.try_as_str().flatten().map(str::to_uppercase),
            ColumnarValue::Array(_) => None,
        };
        match (place, word.as_deref()) {
            (0, Some("ASC" | "DESC")) => options.descending = word.as_deref() == Some("DESC"),
            (1, Some("NULLS FIRST" | "NULLS LAST")) => {
                options.nulls_first = word.as_deref() == Some("NULLS FIRST");
            }
            _ => return exec_err!("the order is 'ASC' or 'DESC', 'NULLS FIRST' or 'NULLS LAST'"),
        }
    }
    Ok(options)
}

/// The places of the elements in their order.
fn grades(lists: &ListArray, options: SortOptions) -> Result<ArrayRef> {
    let (mut grades, mut lengths) = (Vec::new(), Vec::with_capacity(lists.len()));
    let keys = sort_keys(lists.values())?;
    for row in 0..lists.len() {
        let before = grades.len();
        if lists.is_valid(row) {
            let first = lists.value_offsets()[row] as usize;
            let length = lists.value_length(row) as usize;
            let order = sort_to_indices(&keys.slice(first, length), Some(options), None)?;
            grades.extend(order.values().iter().map(|at| i64::from(*at) + 1));
        }
        lengths.push(grades.len() - before);
    }
    list_of(Arc::new(Int64Array::from(grades)), lengths, lists.nulls().cloned())
}
