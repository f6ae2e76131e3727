//! What the tests of the store share: a namespace of their own, random arrays of every type.

#![allow(dead_code, reason = "each test program uses a part")]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::*;
use fastrand::Rng;
use swing::Namespace;
use swingdb::store::{ColumnDef, Constraint, TableDef};

/// A namespace directory in memory that is removed afterwards.
pub struct Home {
    pub directory: tempfile::TempDir,
    pub namespace: Namespace,
}

impl Home {
    pub fn new() -> Self {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let namespace = Namespace::open(directory.path()).expect("a namespace");
        Self { directory, namespace }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// A table of whole numbers `n`.
pub fn numbers_def(name: &str, constraints: Vec<Constraint>) -> TableDef {
    let column = ColumnDef {
        name: "n".into(),
        data_type: DataType::Int64,
        nullable: true,
        is_uuid: false,
        enumeration: None,
        default_sql: None,
    };
    let (schema, name) = ("main".to_owned(), name.to_owned());
    TableDef { schema, name, columns: vec![column], constraints }
}

/// What no database in a namespace can publish over: files with the names of its next manifests.
pub struct Blocked(Vec<PathBuf>);

impl Blocked {
    pub fn new(home: &Home, database: &str) -> Self {
        let folder = home.path().join(database);
        let next = (1..200).map(|epoch| folder.join(format!("m.{epoch}")));
        let made: Vec<PathBuf> = next.filter(|path| File::create_new(path).is_ok()).collect();
        assert!(!made.is_empty(), "the manifests of {} have other names", folder.display());
        Self(made)
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        self.0.iter().for_each(|path| std::fs::remove_file(path).expect("nobody removed it"));
    }
}

/// A generator whose seed is printed, and can be given by SWINGDB_TEST_SEED.
pub fn seeded(what: &str) -> Rng {
    let given = std::env::var("SWINGDB_TEST_SEED").ok().and_then(|s| s.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    println!("{what}: SWINGDB_TEST_SEED={seed}");
    Rng::with_seed(seed)
}

fn item(data_type: DataType) -> FieldRef {
    Arc::new(Field::new("item", data_type, true))
}

/// Every type that can be stored, nested ones with several kinds of items.
pub fn all_types() -> Vec<DataType> {
    use DataType as T;
    let mut all = vec![
        T::Null,
        T::Boolean,
        T::Int8,
        T::Int16,
        T::Int32,
        T::Int64,
        T::UInt8,
        T::UInt16,
        T::UInt32,
        T::UInt64,
        T::Float16,
        T::Float32,
        T::Float64,
        T::Date32,
        T::Date64,
        T::Time32(TimeUnit::Second),
        T::Time32(TimeUnit::Millisecond),
        T::Time64(TimeUnit::Microsecond),
        T::Time64(TimeUnit::Nanosecond),
        T::Interval(IntervalUnit::YearMonth),
        T::Interval(IntervalUnit::DayTime),
        T::Interval(IntervalUnit::MonthDayNano),
        T::Decimal32(7, 2),
        T::Decimal64(15, 3),
        T::Decimal128(38, 10),
        T::Decimal256(76, 5),
        T::FixedSizeBinary(5),
        T::FixedSizeBinary(16),
        T::Binary,
        T::LargeBinary,
        T::BinaryView,
        T::Utf8,
        T::LargeUtf8,
        T::Utf8View,
    ];
    for unit in
        [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond]
    {
        all.push(T::Timestamp(unit, None));
        all.push(T::Timestamp(unit, Some("+02:00".into())));
        all.push(T::Duration(unit));
    }
    let pair = Fields::from(vec![
        Field::new("a", T::Int32, true),
        Field::new("b", T::Utf8, true),
        Field::new("c", T::List(item(T::Boolean)), true),
    ]);
    let entries = Fields::from(vec![
        Field::new("keys", T::Utf8, false),
        Field::new("values", T::Int64, true),
    ]);
    let union = UnionFields::try_new(
        [0, 3],
        [Field::new("i", T::Int32, true), Field::new("s", T::Utf8, true)],
    )
    .unwrap();
    all.extend([
        T::List(item(T::Int32)),
        T::List(item(T::Utf8View)),
        T::LargeList(item(T::List(item(T::Float64)))),
        T::FixedSizeList(item(T::Int16), 3),
        T::FixedSizeList(item(T::Utf8), 2),
        T::ListView(item(T::Int32)),
        T::LargeListView(item(T::Utf8)),
        T::Struct(pair.clone()),
        T::List(item(T::Struct(pair))),
        T::Map(Arc::new(Field::new("entries", T::Struct(entries), false)), false),
        T::Union(union.clone(), UnionMode::Sparse),
        T::Union(union, UnionMode::Dense),
        T::Dictionary(Box::new(T::Int8), Box::new(T::Utf8)),
        T::Dictionary(Box::new(T::UInt32), Box::new(T::Int64)),
        T::Dictionary(Box::new(T::Int16), Box::new(T::Utf8View)),
        T::RunEndEncoded(
            Arc::new(Field::new("run_ends", T::Int32, false)),
            Arc::new(Field::new("values", T::Utf8, true)),
        ),
    ]);
    all
}

fn nulls(rng: &mut Rng, len: usize, some: bool) -> Option<NullBuffer> {
    some.then(|| NullBuffer::from_iter((0..len).map(|_| rng.u8(..) > 50)))
}

fn text(rng: &mut Rng) -> String {
    let len = if rng.u8(..) < 20 { rng.usize(20..200) } else { rng.usize(0..16) };
    (0..len).map(|_| if rng.u8(..) < 10 { 'ß' } else { rng.alphanumeric() }).collect()
}

/// A random array; with `some_nulls`, about a fifth is NULL.
pub fn random_array(rng: &mut Rng, data_type: &DataType, len: usize, some_nulls: bool) -> ArrayRef {
    use DataType as T;
    let valid = nulls(rng, len, some_nulls);
    match data_type {
        T::Null => new_null_array(data_type, len),
        T::Boolean => {
            let values = BooleanBuffer::from_iter((0..len).map(|_| rng.bool()));
            Arc::new(BooleanArray::new(values, valid))
        }
        T::Utf8 | T::LargeUtf8 | T::Utf8View | T::Binary | T::LargeBinary | T::BinaryView => {
            let is_valid = |i: usize| valid.as_ref().is_none_or(|v| v.is_valid(i));
            let all: StringArray = (0..len).map(|i| is_valid(i).then(|| text(rng))).collect();
            cast(&all, data_type).unwrap()
        }
        T::List(f) => {
            let (offsets, total) = lengths(rng, len);
            let values = random_array(rng, f.data_type(), total, some_nulls);
            Arc::new(ListArray::new(f.clone(), OffsetBuffer::new(offsets.into()), values, valid))
        }
        T::LargeList(f) => {
            let (offsets, total) = lengths(rng, len);
            let offsets: Vec<i64> = offsets.into_iter().map(i64::from).collect();
            let values = random_array(rng, f.data_type(), total, some_nulls);
            let offsets = OffsetBuffer::new(offsets.into());
            Arc::new(LargeListArray::new(f.clone(), offsets, values, valid))
        }
        T::ListView(f) => {
            let (offsets, total) = lengths(rng, len);
            let values = random_array(rng, f.data_type(), total, some_nulls);
            let sizes: Vec<i32> = offsets.windows(2).map(|w| w[1] - w[0]).collect();
            let starts: Vec<i32> = offsets[..len].to_vec();
            Arc::new(ListViewArray::new(f.clone(), starts.into(), sizes.into(), values, valid))
        }
        T::LargeListView(f) => {
            let (offsets, total) = lengths(rng, len);
            let values = random_array(rng, f.data_type(), total, some_nulls);
            let sizes: Vec<i64> = offsets.windows(2).map(|w| (w[1] - w[0]).into()).collect();
            let starts: Vec<i64> = offsets[..len].iter().map(|o| (*o).into()).collect();
            Arc::new(LargeListViewArray::new(f.clone(), starts.into(), sizes.into(), values, valid))
        }
        T::FixedSizeList(f, width) => {
            let values = random_array(rng, f.data_type(), len * *width as usize, some_nulls);
            Arc::new(FixedSizeListArray::new(f.clone(), *width, values, valid))
        }
        T::Struct(fields) => {
            let columns = fields.iter().map(|f| random_array(rng, f.data_type(), len, some_nulls));
            let columns: Vec<ArrayRef> = columns.collect();
            Arc::new(StructArray::new(fields.clone(), columns, valid))
        }
        T::Map(f, sorted) => {
            let (offsets, total) = lengths(rng, len);
            let T::Struct(fields) = f.data_type() else { unreachable!() };
            let keys = random_array(rng, fields[0].data_type(), total, false);
            let values = random_array(rng, fields[1].data_type(), total, some_nulls);
            let entries = StructArray::new(fields.clone(), vec![keys, values], None);
            let offsets = OffsetBuffer::new(offsets.into());
            Arc::new(MapArray::new(f.clone(), offsets, entries, valid, *sorted))
        }
        T::Union(fields, mode) => random_union(rng, fields, *mode, len, some_nulls),
        T::Dictionary(key, value) => {
            let values = random_array(rng, value, 20, false);
            let is_valid = |i: usize| valid.as_ref().is_none_or(|v| v.is_valid(i));
            let keys: Int32Array = (0..len).map(|i| is_valid(i).then(|| rng.i32(0..20))).collect();
            let keys = cast(&keys, key).unwrap();
            let data = keys.to_data().into_builder().data_type(data_type.clone());
            make_array(data.add_child_data(values.to_data()).build().unwrap())
        }
        T::RunEndEncoded(_, values) => {
            let mut ends = Vec::new();
            let mut at = 0;
            while at < len {
                at = (at + rng.usize(1..5)).min(len);
                ends.push(at as i32);
            }
            let values = random_array(rng, values.data_type(), ends.len(), some_nulls);
            Arc::new(RunArray::try_new(&Int32Array::from(ends), &values).unwrap())
        }
        other => random_fixed(rng, other, len, valid),
    }
}

fn random_fixed(
    rng: &mut Rng,
    data_type: &DataType,
    len: usize,
    valid: Option<NullBuffer>,
) -> ArrayRef {
    let width = match data_type {
        DataType::FixedSizeBinary(width) => *width as usize,
        other => other.primitive_width().expect("a fixed width"),
    };
    let mut bytes = vec![0u8; len * width];
    bytes.iter_mut().for_each(|b| *b = rng.u8(..));
    // Decimals and times must be in range to be printed and compared.
    if let DataType::Decimal32(..)
    | DataType::Decimal64(..)
    | DataType::Decimal128(..)
    | DataType::Decimal256(..)
    | DataType::Date64
    | DataType::Timestamp(..)
    | DataType::Time32(_)
    | DataType::Time64(_)
    | DataType::Date32 = data_type
    {
        for value in bytes.chunks_exact_mut(width) {
            value.fill(0);
            value[..2].copy_from_slice(&rng.u16(..).to_le_bytes());
        }
    }
    let data = ArrayData::builder(data_type.clone()).len(len).nulls(valid);
    make_array(data.add_buffer(bytes.into()).align_buffers(true).build().unwrap())
}

fn random_union(
    rng: &mut Rng,
    fields: &UnionFields,
    mode: UnionMode,
    len: usize,
    some_nulls: bool,
) -> ArrayRef {
    let ids: Vec<i8> = (0..len).map(|_| if rng.bool() { 0 } else { 3 }).collect();
    let dense = mode == UnionMode::Dense;
    let mut used = [0, 0];
    let offsets: Vec<i32> = ids
        .iter()
        .map(|id| {
            let slot = usize::from(*id != 0);
            used[slot] += 1;
            used[slot] as i32 - 1
        })
        .collect();
    let children = fields.iter().enumerate().map(|(i, (_, f))| {
        let rows = if dense { used[i] } else { len };
        random_array(rng, f.data_type(), rows, some_nulls)
    });
    let children: Vec<ArrayRef> = children.collect();
    let offsets = dense.then(|| offsets.into());
    Arc::new(UnionArray::try_new(fields.clone(), ids.into(), offsets, children).unwrap())
}

fn lengths(rng: &mut Rng, len: usize) -> (Vec<i32>, usize) {
    let mut offsets = vec![0];
    let mut total = 0;
    for _ in 0..len {
        total += rng.i32(0..4);
        offsets.push(total);
    }
    (offsets, total as usize)
}
