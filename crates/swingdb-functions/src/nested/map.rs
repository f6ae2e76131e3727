//! `map(keys, values)` and `MAP {key: value}`: maps of two lists, row by row. `map_concat(m, n)`:
//! the entries of all, of those with the same key the last one's value. `map_from_entries(list)`:
//! of a list of structs of a key and a value.
//!
//! The query engine's own takes NULL for a key, looks at the lengths of all lists together, and
//! lays values along the keys of other rows where they differ.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, ListArray, UInt32Array};
use arrow::compute::{cast, interleave, take};
use arrow::datatypes::{DataType, Field, Fields};
use arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use hashbrown::HashMap;
use swingdb_common::cast::maps::of_parts;
use swingdb_common::types::sql_names::sql_name;

use crate::nested::unified::list_of;

static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = vec![TypeSignature::Nullary, TypeSignature::VariadicAny];
    let signature = Signature::one_of(signature, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(OfLists { signature }))
});

/// All functions of this module; the first is what `map(keys, values)` stands for.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    let signature = Signature::variadic_any(Volatility::Immutable);
    let one = Signature::any(1, Volatility::Immutable);
    [
        FUNCTION.as_ref().clone(),
        ScalarUDF::new_from_impl(Concat { signature }),
        ScalarUDF::new_from_impl(OfEntries { signature: one }),
    ]
    .into_iter()
}

/// `MAP {key: value, ...}`.
pub fn map_of(keys: Vec<Expr>, values: Vec<Expr>) -> Expr {
    FUNCTION.call(vec![list_of(keys), list_of(values)])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfLists {
    signature: Signature,
}

impl ScalarUDFImpl for OfLists {
    fn name(&self) -> &str {
        "map_of_lists"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let element = |list: &DataType| match list {
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                Ok(item.data_type().clone())
            }
            DataType::Null => Ok(DataType::Null),
            other => plan_err!("map takes a list of keys and one of values, not {other}"),
        };
        let (key, value) = match types {
            [] => (DataType::Null, DataType::Null),
            [keys, values] => (element(keys)?, element(values)?),
            _ => return plan_err!("map takes a list of keys and one of values"),
        };
        Ok(map_type(key, value))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let to = args.return_field.data_type();
        let DataType::Map(entries, _) = to else { return plan_err!("map gives a map") };
        let DataType::Struct(pair) = entries.data_type() else { return plan_err!("no entries") };
        if args.args.is_empty() {
            let nothing = pair.iter().map(|part| arrow::array::new_empty_array(part.data_type()));
            let nothing: Vec<ArrayRef> = nothing.collect();
            let found = of_parts(&nothing[0], &nothing[1], &vec![Some(0); rows], to, false)?;
            return crate::args::as_given(&args, found);
        }
        let lists = args.args.iter().zip(pair).map(|(list, part)| {
            let of = DataType::new_list(part.data_type().clone(), true);
            Ok(cast(&list.to_array(rows)?, &of)?.as_list::<i32>().clone())
        });
        let lists = lists.collect::<Result<Vec<ListArray>>>()?;
        let [keys, values] = lists.as_slice() else {
            return plan_err!("map takes a list of keys and one of values");
        };
        let mut lengths = Vec::with_capacity(rows);
        for row in 0..rows {
            let there = keys.is_valid(row) && values.is_valid(row);
            let (length, other) = (keys.value_length(row), values.value_length(row));
            if there && length != other {
                return exec_err!("map of {length} keys and {other} values");
            }
            lengths.push(there.then_some(length as usize));
        }
        let parts = [keys, values].map(|list| {
            let offsets = list.value_offsets();
            let there = lengths.iter().enumerate().filter_map(|(row, n)| Some((row, (*n)?)));
            let all = there
                .flat_map(|(row, n)| (0..n).map(move |at| (offsets[row] as usize + at) as u32));
            take(list.values(), &UInt32Array::from_iter_values(all), None)
        });
        let [keys, values] = parts;
        crate::args::as_given(&args, of_parts(&keys?, &values?, &lengths, to, false)?)
    }
}

/// The type of maps. A key is never NULL, so that one without a type is none.
fn map_type(key: DataType, value: DataType) -> DataType {
    let key = if key.is_null() { DataType::Int32 } else { key };
    let value = if value.is_null() { DataType::Int32 } else { value };
    let pair = [Field::new("key", key, false), Field::new("value", value, true)];
    let entries = Field::new("entries", DataType::Struct(Fields::from_iter(pair)), false);
    DataType::Map(Arc::new(entries), false)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfEntries {
    signature: Signature,
}

impl ScalarUDFImpl for OfEntries {
    fn name(&self) -> &str {
        "map_from_entries"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let item = match types {
            [DataType::List(item) | DataType::LargeList(item)]
            | [DataType::FixedSizeList(item, _)] => item.data_type(),
            [DataType::Null] => &DataType::Null,
            _ => return plan_err!("{} takes a list of structs", self.name()),
        };
        match item {
            DataType::Null => Ok(map_type(DataType::Null, DataType::Null)),
            DataType::Struct(pair) if pair.len() == 2 => {
                Ok(map_type(pair[0].data_type().clone(), pair[1].data_type().clone()))
            }
            other => {
                let other = sql_name(other);
                plan_err!("{} takes structs of a key and a value, not {other}", self.name())
            }
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let to = args.return_type();
        let (DataType::Map(entries, _), [given]) = (to, args.args.as_slice()) else {
            return plan_err!("{} gives a map", self.name());
        };
        let item = Field::new_list_field(entries.data_type().clone(), true);
        let lists = given.to_array(rows)?;
        let item = match lists.data_type() {
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _)
                if !item.data_type().is_null() =>
            {
                Arc::clone(item)
            }
            _ => Arc::new(item),
        };
        let lists = cast(&lists, &DataType::List(item))?.as_list::<i32>().clone();
        let (mut places, mut lengths) = (Vec::new(), Vec::with_capacity(rows));
        for row in 0..rows {
            let offsets = lists.value_offsets();
            let of = offsets[row] as u32..offsets[row + 1] as u32;
            lengths.push(lists.is_valid(row).then_some(of.len()));
            if lists.is_valid(row) {
                places.extend(of);
            }
        }
        let pairs = take(lists.values(), &UInt32Array::from(places), None)?;
        if pairs.null_count() > 0 {
            return exec_err!("a key of a map is NULL");
        }
        let DataType::Struct(pair) = entries.data_type() else { return plan_err!("no entries") };
        let pairs = pairs.as_struct();
        let part = |at: usize| cast(pairs.column(at), pair[at].data_type());
        let found = of_parts(&part(0)?, &part(1)?, &lengths, to, false)?;
        crate::args::as_given(&args, found)
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Concat {
    signature: Signature,
}

impl ScalarUDFImpl for Concat {
    fn name(&self) -> &str {
        "map_concat"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let mut maps = types.iter().filter(|given| !given.is_null());
        let Some(first) = maps.next() else { return Ok(DataType::Null) };
        if !matches!(first, DataType::Map(..)) {
            return plan_err!("{} takes maps, not {first}", self.name());
        }
        // Texts of one type in SQL may be of several here.
        match maps.find(|other| sql_name(first) != sql_name(other)) {
            None => Ok(first.clone()),
            Some(other) => {
                let (first, other) = (sql_name(first), sql_name(other));
                plan_err!("{} takes maps of one type, not {first} and {other}", self.name())
            }
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let to = args.return_type();
        let DataType::Map(entries, _) = to else {
            return crate::args::as_given(&args, arrow::array::new_null_array(to, rows));
        };
        let DataType::Struct(pair) = entries.data_type() else { return plan_err!("no entries") };
        let mut maps = Vec::with_capacity(args.args.len());
        for given in args.args.iter().filter(|given| !given.data_type().is_null()) {
            maps.push(cast(&given.to_array(rows)?, to)?.as_map().clone());
        }
        let keys = maps.iter().map(|map| map.keys().as_ref()).collect::<Vec<&dyn Array>>();
        let values = maps.iter().map(|map| map.values().as_ref()).collect::<Vec<&dyn Array>>();
        let fields = vec![SortField::new(pair[0].data_type().clone())];
        let converter = RowConverter::new(fields)?;
        let as_rows = maps.iter().map(|map| converter.convert_columns(&[Arc::clone(map.keys())]));
        let as_rows = as_rows.collect::<std::result::Result<Vec<_>, _>>()?;
        let (mut taken_keys, mut taken_values) = (Vec::new(), Vec::new());
        let mut lengths = Vec::with_capacity(rows);
        for row in 0..rows {
            let (first, mut places) = (taken_keys.len(), HashMap::new());
            let mut is_there = false;
            for (of, map) in maps.iter().enumerate().filter(|(_, map)| map.is_valid(row)) {
                is_there = true;
                let offsets = map.value_offsets();
                for at in offsets[row] as usize..offsets[row + 1] as usize {
                    let next = taken_keys.len();
                    let place = *places.entry(as_rows[of].row(at).owned()).or_insert(next);
                    if place == next {
                        taken_keys.push((of, at));
                        taken_values.push((of, at));
                    } else {
                        taken_values[place] = (of, at);
                    }
                }
            }
            lengths.push(is_there.then_some(taken_keys.len() - first));
        }
        let (keys, values) = (interleave(&keys, &taken_keys)?, interleave(&values, &taken_values)?);
        crate::args::as_given(&args, of_parts(&keys, &values, &lengths, to, false)?)
    }
}
