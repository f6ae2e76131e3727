//! The value of a key in a map: `m['key']`, which is `map_extract_value(m, 'key')`, and
//! `map_extract(m, 'key')`, a list of it, which is empty where the key is not there.
//!
//! The engine's own compares a key of the very type of the map only, or makes one of it by a cast:
//! then 1.4 would find 1.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, UInt32Array};
use arrow::array::{Float32Array, Float64Array, make_comparator};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{SortOptions, cast, take};
use arrow::datatypes::{DataType, Field, FieldRef, Float32Type, Float64Type};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use swingdb_common::types::sql_names::sql_name;

use crate::nested::unified::common_floating;

static VALUE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(function(false)));

/// All functions of this module.
pub(crate) fn functions() -> impl Iterator<Item = ScalarUDF> {
    [VALUE.as_ref().clone(), function(true)].into_iter()
}

/// `map[key]`.
pub fn value_of(map: Expr, key: Expr) -> Expr {
    VALUE.call(vec![map, key])
}

fn function(lists: bool) -> ScalarUDF {
    let aliases = if lists { vec!["element_at".to_string()] } else { Vec::new() };
    let signature = Signature::user_defined(Volatility::Immutable);
    ScalarUDF::new_from_impl(OfKey { lists, aliases, signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfKey {
    /// Whether the answer is a list.
    lists: bool,
    aliases: Vec<String>,
    signature: Signature,
}

impl ScalarUDFImpl for OfKey {
    fn name(&self) -> &str {
        if self.lists { "map_extract" } else { "map_extract_value" }
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [map, _] = types else { return plan_err!("{} takes a map and a key", self.name()) };
        let Some((_, value)) = parts(map) else { return Ok(DataType::Null) };
        Ok(if self.lists { DataType::List(item(value)) } else { value.clone() })
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [map, given] = types else {
            return plan_err!("{} takes a map and a key", self.name());
        };
        if map.is_null() {
            return Ok(types.to_vec());
        }
        let Some((key, _)) = parts(map) else {
            return plan_err!("{} takes a map, not {}", self.name(), sql_name(map));
        };
        // A text is read as the key that it writes.
        if given.is_null() || given.is_string() || key.is_string() {
            return Ok(vec![map.clone(), key.clone()]);
        }
        match comparison_coercion(key, given) {
            Some(_) => Ok(types.to_vec()),
            None => {
                let (given, key) = (sql_name(given), sql_name(key));
                plan_err!("{}: {given} is no key of a map with keys of {key}", self.name())
            }
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = crate::args::rows_of(&args);
        let to = args.return_type();
        let [map, key] = args.args.as_slice() else {
            return plan_err!("{} takes a map and a key", self.name());
        };
        let map = map.to_array(rows)?;
        let Some(maps) = map.as_map_opt() else {
            return crate::args::as_given(&args, arrow::array::new_null_array(to, rows));
        };
        let places = places(maps, &key.to_array(rows)?)?;
        if !self.lists {
            let places = UInt32Array::from(places);
            return crate::args::as_given(&args, take(maps.values(), &places, None)?);
        }
        let lengths = places.iter().map(|place| usize::from(place.is_some()));
        let offsets = OffsetBuffer::from_lengths(lengths);
        let there = UInt32Array::from_iter_values(places.iter().flatten().copied());
        let values = take(maps.values(), &there, None)?;
        let field = item(values.data_type());
        let found = ListArray::try_new(field, offsets, values, maps.nulls().cloned())?;
        crate::args::as_given(&args, Arc::new(found))
    }
}

/// The types of the keys and of the values.
fn parts(map: &DataType) -> Option<(&DataType, &DataType)> {
    let DataType::Map(entries, _) = map else { return None };
    match entries.data_type() {
        DataType::Struct(pair) if pair.len() == 2 => {
            Some((pair[0].data_type(), pair[1].data_type()))
        }
        _ => None,
    }
}

fn item(of: &DataType) -> FieldRef {
    Arc::new(Field::new_list_field(of.clone(), true))
}

/// Where among the entries of all maps the key of each row is.
fn places(maps: &MapArray, wanted: &ArrayRef) -> Result<Vec<Option<u32>>> {
    let (known, given) = (maps.keys().data_type(), wanted.data_type());
    let common = match known == given || given.is_null() {
        true => known.clone(),
        false => {
            match common_floating(known, given).or_else(|| comparison_coercion(known, given)) {
                Some(common) => common,
                None => return plan_err!("{} is no {}", sql_name(given), sql_name(known)),
            }
        }
    };
    let keys = one_zero(cast(maps.keys(), &common)?);
    let wanted = one_zero(cast(wanted, &common)?);
    let compared = make_comparator(&keys, &wanted, SortOptions::default())?;
    let offsets = maps.value_offsets();
    let place = |row: usize| {
        if maps.is_null(row) || wanted.is_null(row) {
            return None;
        }
        let mut entries = offsets[row] as usize..offsets[row + 1] as usize;
        entries.find(|entry| compared(*entry, row).is_eq()).map(|entry| entry as u32)
    };
    Ok((0..maps.len()).map(place).collect())
}

/// Numbers of which zero has one form, and what is none has one.
fn one_zero(numbers: ArrayRef) -> ArrayRef {
    match numbers.data_type() {
        DataType::Float32 => {
            let one = |x: f32| if x.is_nan() { f32::NAN } else { x + 0.0 };
            let found: Float32Array = numbers.as_primitive::<Float32Type>().unary(one);
            Arc::new(found)
        }
        DataType::Float64 => {
            let one = |x: f64| if x.is_nan() { f64::NAN } else { x + 0.0 };
            let found: Float64Array = numbers.as_primitive::<Float64Type>().unary(one);
            Arc::new(found)
        }
        _ => numbers,
    }
}
