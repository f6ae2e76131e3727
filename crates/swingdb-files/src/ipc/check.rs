//! What Arrow files and streams say of their columns, looked at before the decoder believes it:
//! where types are absent or of no possible width, lists without an item, or buffers shorter than
//! their arrays, it would panic instead of saying so (Arrow's "Columnar format", section on IPC;
//! `Schema.fbs` and `Message.fbs`).

use std::collections::{HashMap, HashSet, VecDeque};
use std::str::FromStr;

use arrow::array::timezone::Tz;
use arrow::datatypes::{
    DECIMAL32_MAX_PRECISION, DECIMAL64_MAX_PRECISION, DECIMAL128_MAX_PRECISION,
    DECIMAL256_MAX_PRECISION, DataType, Field, Schema, UnionMode,
};
use arrow::error::ArrowError;
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::{
    DateUnit, Endianness, Field as RawField, Int, IntervalUnit, MetadataVersion, Precision,
    RecordBatch, Schema as RawSchema, TimeUnit, Type, Union, UnionMode as RawUnionMode,
};

/// Rows of a batch: columns of NULLs alone have them without a byte.
const MAX_ROWS: i64 = i32::MAX as i64;

pub(super) fn broken(why: impl Into<String>) -> ArrowError {
    ArrowError::ParseError(why.into())
}

type Checked<T = ()> = Result<T, ArrowError>;

/// The columns of a file or stream, which the decoder can be trusted with.
pub(super) struct Columns {
    schema: Schema,
    /// The values' type of each dictionary.
    dictionaries: HashMap<i64, DataType>,
}

impl Columns {
    /// Looks at a schema.
    pub(super) fn of(raw: RawSchema<'_>) -> Checked<Self> {
        if raw.endianness() != Endianness::Little {
            return Err(broken("the numbers are big-endian, which is not supported"));
        }
        let fields = raw.fields().ok_or_else(|| broken("the schema has no columns"))?;
        fields.iter().try_for_each(check_field)?;
        let schema = fb_to_schema(raw);
        let mut dictionaries = HashMap::new();
        for field in schema.fields() {
            check_type(field.name(), field.data_type())?;
            find_dictionaries(field, &mut dictionaries);
        }
        Ok(Self { schema, dictionaries })
    }

    /// Looks at a batch of rows whose buffers have `sizes` bytes when they are decompressed.
    pub(super) fn check_rows(
        &self,
        batch: &RecordBatch<'_>,
        version: MetadataVersion,
        sizes: &[u64],
    ) -> Checked {
        let types = self.schema.fields().iter().map(|field| field.data_type());
        check_arrays(batch, version, sizes, types)
    }

    /// Looks at the values of a dictionary.
    pub(super) fn check_dictionary(
        &self,
        id: i64,
        batch: &RecordBatch<'_>,
        version: MetadataVersion,
        sizes: &[u64],
    ) -> Checked {
        let values = self.dictionaries.get(&id);
        let values = values.ok_or_else(|| broken(format!("no column has dictionary {id}")))?;
        check_arrays(batch, version, sizes, std::iter::once(values))
    }
}

fn find_dictionaries(field: &Field, found: &mut HashMap<i64, DataType>) {
    if let DataType::Dictionary(_, values) = field.data_type() {
        #[expect(deprecated, reason = "the decoder finds dictionaries by the same number")]
        let id = field.dict_id();
        found.extend(id.map(|id| (id, values.as_ref().clone())));
    }
    children(field.data_type(), &mut |child| find_dictionaries(child, found));
}

/// Calls `each` for the fields that a type is made of.
fn children(data_type: &DataType, each: &mut dyn FnMut(&Field)) {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => each(item),
        DataType::Struct(fields) => fields.iter().for_each(|field| each(field)),
        DataType::Union(fields, _) => fields.iter().for_each(|(_, field)| each(field)),
        DataType::RunEndEncoded(ends, values) => {
            each(ends);
            each(values);
        }
        DataType::Dictionary(_, values) => children(values, each),
        _ => {}
    }
}

/// Looks at a field as it is written: all that its kind of type needs has to be there.
fn check_field(field: RawField<'_>) -> Checked {
    let wrong = |what: &str| {
        let name = field.name().unwrap_or_default();
        Err(broken(format!("column {name:?} {what}")))
    };
    if let Some(dictionary) = field.dictionary()
        && !dictionary.indexType().is_some_and(is_int)
    {
        return wrong("has a dictionary whose keys are no integers");
    }
    let count = field.children().map_or(0, |children| children.len());
    let wanted = match field.type_type() {
        Type::List | Type::LargeList | Type::ListView | Type::LargeListView => Some(1),
        Type::FixedSizeList | Type::Map => Some(1),
        Type::RunEndEncoded => Some(2),
        _ => None,
    };
    if wanted.is_some_and(|wanted| wanted != count) {
        return wrong(&format!("has {count} types inside"));
    }
    if !is_possible(&field, count) {
        return wrong("has no possible type");
    }
    field.children().into_iter().flatten().try_for_each(check_field)
}

/// Whether the type of a field with so many children is one that there is.
fn is_possible(field: &RawField<'_>, children: usize) -> bool {
    match field.type_type() {
        Type::Null | Type::Bool | Type::Struct_ | Type::RunEndEncoded => true,
        Type::Binary | Type::LargeBinary | Type::BinaryView => true,
        Type::Utf8 | Type::LargeUtf8 | Type::Utf8View => true,
        Type::List | Type::LargeList | Type::ListView | Type::LargeListView => true,
        Type::Int => field.type_as_int().is_some_and(is_int),
        Type::FixedSizeBinary => {
            field.type_as_fixed_size_binary().is_some_and(|of| of.byteWidth() >= 0)
        }
        Type::FloatingPoint => field.type_as_floating_point().is_some_and(|of| {
            matches!(of.precision(), Precision::HALF | Precision::SINGLE | Precision::DOUBLE)
        }),
        Type::Date => field
            .type_as_date()
            .is_some_and(|of| matches!(of.unit(), DateUnit::DAY | DateUnit::MILLISECOND)),
        Type::Time => field.type_as_time().is_some_and(|of| match of.bitWidth() {
            32 => matches!(of.unit(), TimeUnit::SECOND | TimeUnit::MILLISECOND),
            64 => matches!(of.unit(), TimeUnit::MICROSECOND | TimeUnit::NANOSECOND),
            _ => false,
        }),
        Type::Timestamp => field.type_as_timestamp().is_some_and(|of| is_unit(of.unit())),
        Type::Duration => field.type_as_duration().is_some_and(|of| is_unit(of.unit())),
        Type::Interval => field.type_as_interval().is_some_and(|of| {
            let units =
                [IntervalUnit::YEAR_MONTH, IntervalUnit::DAY_TIME, IntervalUnit::MONTH_DAY_NANO];
            units.contains(&of.unit())
        }),
        Type::Decimal => field.type_as_decimal().is_some_and(|of| {
            matches!(of.bitWidth(), 32 | 64 | 128 | 256)
                && u8::try_from(of.precision()).is_ok()
                && i8::try_from(of.scale()).is_ok()
        }),
        Type::FixedSizeList => field.type_as_fixed_size_list().is_some_and(|of| of.listSize() >= 0),
        Type::Map => field.type_as_map().is_some(),
        Type::Union => field.type_as_union().is_some_and(|of| is_union(of, children)),
        _ => false,
    }
}

fn is_union(union: Union<'_>, children: usize) -> bool {
    let mode = matches!(union.mode(), RawUnionMode::Dense | RawUnionMode::Sparse);
    let ids: Vec<i32> = match union.typeIds() {
        Some(ids) => ids.iter().collect(),
        None => (0..).take(children).collect(),
    };
    let mut unique = HashSet::new();
    let fit = ids.iter().all(|id| (0..=i32::from(i8::MAX)).contains(id) && unique.insert(*id));
    mode && fit && ids.len() == children
}

fn is_int(int: Int<'_>) -> bool {
    matches!(int.bitWidth(), 8 | 16 | 32 | 64)
}

fn is_unit(unit: TimeUnit) -> bool {
    let units =
        [TimeUnit::SECOND, TimeUnit::MILLISECOND, TimeUnit::MICROSECOND, TimeUnit::NANOSECOND];
    units.contains(&unit)
}

/// Refuses columns of types that can be written and are none, such as a DECIMAL with more digits
/// than there are, or a time zone that does not exist.
pub fn check_columns(schema: &Schema) -> swingdb_common::error::Result<()> {
    let check = |field: &std::sync::Arc<Field>| check_type(field.name(), field.data_type());
    schema.fields().iter().try_for_each(check).map_err(|error| match error {
        ArrowError::ParseError(message) => swingdb_common::error::Error::plan(message),
        other => other.into(),
    })
}

/// Looks at a type that can be written, and may still be none.
fn check_type(name: &str, data_type: &DataType) -> Checked {
    let wrong = |what: String| Err(broken(format!("column {name:?} {what}")));
    let decimal = |precision: u8, scale: i8, most: u8| {
        // A negative scale stands for zeros before the point.
        match (1..=most).contains(&precision) && (-(most as i8)..=precision as i8).contains(&scale)
        {
            true => Ok(()),
            false => wrong(format!("is no possible type: DECIMAL({precision}, {scale})")),
        }
    };
    match data_type {
        DataType::Decimal32(p, s) => decimal(*p, *s, DECIMAL32_MAX_PRECISION)?,
        DataType::Decimal64(p, s) => decimal(*p, *s, DECIMAL64_MAX_PRECISION)?,
        DataType::Decimal128(p, s) => decimal(*p, *s, DECIMAL128_MAX_PRECISION)?,
        DataType::Decimal256(p, s) => decimal(*p, *s, DECIMAL256_MAX_PRECISION)?,
        DataType::Timestamp(_, Some(zone)) if Tz::from_str(zone).is_err() => {
            return wrong(format!("has a time zone that does not exist: {zone:?}"));
        }
        DataType::FixedSizeBinary(width) | DataType::FixedSizeList(_, width) if *width < 0 => {
            return wrong("has values of less than no length".to_string());
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => {}
            _ => return wrong("is a map whose entries are no pairs".to_string()),
        },
        DataType::RunEndEncoded(ends, _) => match ends.data_type() {
            DataType::Int16 | DataType::Int32 | DataType::Int64 => {}
            _ => return wrong("has runs whose ends are no integers".to_string()),
        },
        DataType::Dictionary(keys, _) if !keys.is_dictionary_key_type() => {
            return wrong("has a dictionary whose keys are no integers".to_string());
        }
        _ => {}
    }
    if let DataType::Dictionary(_, values) = data_type {
        check_type(name, values)?;
    }
    let mut result = Ok(());
    children(data_type, &mut |child| {
        if result.is_ok() {
            result = check_type(name, child.data_type());
        }
    });
    result
}

/// Looks at the arrays of a batch: whether each is as long as it says, and has buffers for that.
fn check_arrays<'a>(
    batch: &RecordBatch<'_>,
    version: MetadataVersion,
    sizes: &[u64],
    types: impl Iterator<Item = &'a DataType>,
) -> Checked {
    if !(0..=MAX_ROWS).contains(&batch.length()) {
        return Err(broken(format!("a batch has {} rows", batch.length())));
    }
    let nodes: Vec<(i64, i64)> = batch
        .nodes()
        .into_iter()
        .flatten()
        .map(|node| (node.length(), node.null_count()))
        .collect();
    let variadic = batch.variadicBufferCounts().into_iter().flatten().collect();
    let unions_have_nulls = version < MetadataVersion::V5;
    let mut walk = Walk { nodes: &nodes, sizes, variadic, unions_have_nulls };
    for data_type in types {
        if walk.array(data_type)? != batch.length() as u64 {
            return Err(broken("a batch has not as many rows as its columns"));
        }
    }
    match walk.variadic.is_empty() {
        true => Ok(()),
        false => Err(broken("a batch counts the buffers of more columns than it has")),
    }
}

/// What of a batch is still to be looked at.
struct Walk<'a> {
    /// Lengths of arrays, and how many of their values are NULL.
    nodes: &'a [(i64, i64)],
    /// Bytes of buffers.
    sizes: &'a [u64],
    /// How many buffers each array of views has for long values.
    variadic: VecDeque<i64>,
    unions_have_nulls: bool,
}

impl Walk<'_> {
    /// Looks at the next array and those inside of it; its length.
    fn array(&mut self, data_type: &DataType) -> Checked<u64> {
        let [node, rest @ ..] = self.nodes else {
            return Err(broken("a batch has too few arrays"));
        };
        self.nodes = rest;
        let (length, nulls) = *node;
        if !(0..=MAX_ROWS).contains(&length) || !(0..=length).contains(&nulls) {
            return Err(broken(format!("an array has {length} values, {nulls} of them NULL")));
        }
        let length = length as u64;
        let is_union = matches!(data_type, DataType::Union(..));
        match data_type {
            DataType::Null | DataType::RunEndEncoded(..) => {}
            DataType::Union(..) if !self.unions_have_nulls => {}
            _ => {
                let wanted = if nulls > 0 && !is_union { length.div_ceil(8) } else { 0 };
                self.buffer(wanted, "which values are NULL")?;
            }
        }
        self.values(data_type, length)?;
        Ok(length)
    }

    /// Looks at what comes behind the NULLs.
    fn values(&mut self, data_type: &DataType, length: u64) -> Checked {
        let offsets = if length == 0 { 0 } else { length + 1 };
        match data_type {
            DataType::Null => Ok(()),
            DataType::Boolean => self.buffer(length.div_ceil(8), "truths"),
            DataType::Utf8 | DataType::Binary => {
                self.whole(offsets, 4, "where texts begin")?;
                self.buffer(0, "texts")
            }
            DataType::LargeUtf8 | DataType::LargeBinary => {
                self.whole(offsets, 8, "where texts begin")?;
                self.buffer(0, "texts")
            }
            DataType::Utf8View | DataType::BinaryView => {
                self.whole(length, 16, "views of texts")?;
                let count = self.variadic.pop_front();
                let count = count.and_then(|count| usize::try_from(count).ok());
                let rest = count.and_then(|count| self.sizes.get(count..));
                self.sizes = rest.ok_or_else(|| broken("an array of views has too few buffers"))?;
                Ok(())
            }
            DataType::Dictionary(keys, _) => self.values(keys, length),
            DataType::RunEndEncoded(..) | DataType::Union(..) => self.nested(data_type, length),
            nested if nested.is_nested() => self.nested(nested, length),
            DataType::FixedSizeBinary(width) => {
                let width = u64::try_from(*width).unwrap_or(0);
                let wanted = length.checked_mul(width);
                self.buffer(wanted.ok_or_else(|| broken("values are too long"))?, "values")
            }
            other => {
                let width = other.primitive_width();
                let width = width.ok_or_else(|| broken(format!("columns of type {other}")))?;
                self.whole(length, width as u64, "values")
            }
        }
    }

    /// As [`Walk::values`], of what has arrays inside.
    fn nested(&mut self, data_type: &DataType, length: u64) -> Checked {
        let offsets = if length == 0 { 0 } else { length + 1 };
        match data_type {
            DataType::List(item) | DataType::Map(item, _) => {
                self.whole(offsets, 4, "where lists begin")?;
                self.array(item.data_type()).map(drop)
            }
            DataType::LargeList(item) => {
                self.whole(offsets, 8, "where lists begin")?;
                self.array(item.data_type()).map(drop)
            }
            DataType::ListView(item) | DataType::LargeListView(item) => {
                let wide = matches!(data_type, DataType::LargeListView(_));
                let bytes = if wide { 8 } else { 4 };
                self.whole(length, bytes, "where lists begin")?;
                self.whole(length, bytes, "how long lists are")?;
                self.array(item.data_type()).map(drop)
            }
            DataType::FixedSizeList(item, size) => {
                let wanted = length.checked_mul(u64::try_from(*size).unwrap_or(0));
                let found = self.array(item.data_type())?;
                match wanted.is_some_and(|wanted| wanted <= found) {
                    true => Ok(()),
                    false => Err(broken("lists of fixed length have too few items")),
                }
            }
            DataType::Struct(fields) => {
                for field in fields {
                    if self.array(field.data_type())? != length {
                        return Err(broken("a struct has not as many values as its fields"));
                    }
                }
                Ok(())
            }
            DataType::RunEndEncoded(ends, values) => {
                let ends = self.array(ends.data_type())?;
                match self.array(values.data_type())? == ends && (ends > 0 || length == 0) {
                    true => Ok(()),
                    false => Err(broken("runs have not as many ends as values")),
                }
            }
            DataType::Union(fields, mode) => {
                self.buffer(length, "types of values")?;
                if *mode == UnionMode::Dense {
                    self.whole(length, 4, "places of values")?;
                }
                fields.iter().try_for_each(|(_, field)| self.array(field.data_type()).map(drop))
            }
            other => Err(broken(format!("columns of type {other}"))),
        }
    }

    /// Looks at the next buffer, which has to have so many values of `width` bytes, and whole ones
    /// only: the decoder takes all of it for values.
    fn whole(&mut self, count: u64, width: u64, what: &str) -> Checked {
        let size = self.sizes.first().copied().unwrap_or_default();
        let wanted = count.checked_mul(width).ok_or_else(|| broken("values are too long"))?;
        self.buffer(wanted, what)?;
        match size.checked_rem(width) {
            Some(0) | None => Ok(()),
            Some(_) => Err(broken(format!("{what}: {size} bytes are no whole number of {width}"))),
        }
    }

    /// Looks at the next buffer, which has to have so many bytes.
    fn buffer(&mut self, wanted: u64, what: &str) -> Checked {
        let [size, rest @ ..] = self.sizes else {
            return Err(broken("a batch has too few buffers"));
        };
        self.sizes = rest;
        match *size >= wanted {
            true => Ok(()),
            false => Err(broken(format!("{what}: {size} bytes where {wanted} are needed"))),
        }
    }
}
