//! Random joins, and their rows by nested loops.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray,
    Float64Array, Int32Array, Int64Array, ListArray, RecordBatch, StringArray, StringViewArray,
    StructArray, TimestampMicrosecondArray, UInt64Array,
};
use arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef};
use datafusion::common::{JoinType, NullEquality, Result, ScalarValue};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, col};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use fastrand::Rng;

pub const JOIN_TYPES: [JoinType; 10] = [
    JoinType::Inner,
    JoinType::Left,
    JoinType::Right,
    JoinType::Full,
    JoinType::LeftSemi,
    JoinType::LeftAnti,
    JoinType::RightSemi,
    JoinType::RightAnti,
    JoinType::LeftMark,
    JoinType::RightMark,
];
pub const BATCH_ROWS: [usize; 6] = [1, 2, 7, 64, 1000, 8192];
pub const KEY_KINDS: usize = 14;

/// A row of the output: the numbers of both sides' rows, and a mark.
pub type Row = (Option<i32>, Option<i32>, Option<bool>);

/// A column of random keys of a kind, few different ones or many, some NULL.
pub fn keys(kind: usize, domain: i64, nulls: bool, rows: usize, random: &mut Rng) -> ArrayRef {
    let mut number = || (!nulls || random.u8(..8) > 0).then(|| random.i64(0..domain));
    let numbers = (0..rows).map(|_| number()).collect::<Vec<_>>();
    let texts = || numbers.iter().map(|n| n.map(|n| format!("the text of number {n}")));
    match kind {
        0 => Arc::new(numbers.iter().map(|n| n.map(|n| n as i32 - 5)).collect::<Int32Array>()),
        1 => Arc::new(Int64Array::from(numbers)),
        // Too far apart for an array.
        2 => Arc::new(numbers.iter().map(|n| n.map(|n| n << 40)).collect::<Int64Array>()),
        3 => Arc::new(
            numbers.iter().map(|n| n.map(|n| u64::MAX - n as u64)).collect::<UInt64Array>(),
        ),
        4 => Arc::new(texts().collect::<StringArray>()),
        5 => Arc::new(texts().collect::<StringViewArray>()),
        6 => Arc::new(numbers.iter().map(|n| n.map(|n| n as f64 / 4.0)).collect::<Float64Array>()),
        7 => Arc::new(numbers.iter().map(|n| n.map(|n| n % 2 == 0)).collect::<BooleanArray>()),
        8 => Arc::new(numbers.iter().map(|n| n.map(|n| n as i32)).collect::<Date32Array>()),
        9 => {
            let wide = numbers.iter().map(|n| n.map(i128::from)).collect::<Decimal128Array>();
            Arc::new(wide.with_precision_and_scale(20, 2).expect("it fits"))
        }
        10 => Arc::new(
            texts()
                .collect::<Vec<_>>()
                .iter()
                .map(|t| t.as_deref())
                .collect::<DictionaryArray<Int32Type>>(),
        ),
        11 => {
            let list = |n: &Option<i64>| n.map(|n| vec![Some(n as i32), None]);
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(numbers.iter().map(list)))
        }
        12 => Arc::new(TimestampMicrosecondArray::from(numbers)),
        _ => {
            let inner: ArrayRef = Arc::new(Int64Array::from(numbers));
            let field = Arc::new(Field::new("a", DataType::Int64, true));
            Arc::new(StructArray::from(vec![(field, inner)]))
        }
    }
}

/// One side: columns `{side}0`, `{side}1`, ... of keys, and the rows' numbers as `{side}`.
pub fn side(name: &str, kinds: &[usize], rows: usize, random: &mut Rng) -> RecordBatch {
    let domain = *[3, 20, 1000, 100_000].get(random.usize(..4)).unwrap_or(&3);
    let nulls = random.bool();
    let mut columns = kinds
        .iter()
        .enumerate()
        .map(|(at, &kind)| (format!("{name}{at}"), keys(kind, domain, nulls, rows, random), true))
        .collect::<Vec<_>>();
    let numbers: ArrayRef = Arc::new((0..rows as i32).collect::<Int32Array>());
    columns.insert(random.usize(..=kinds.len()), (name.to_string(), numbers, false));
    RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length")
}

/// Cuts rows into partitions of batches, some of them empty.
pub fn partitions(rows: &RecordBatch, random: &mut Rng) -> Vec<Vec<RecordBatch>> {
    let mut partitions = vec![Vec::new(); random.usize(1..5)];
    let mut from = 0;
    while from < rows.num_rows() {
        let len = random.usize(0..=(rows.num_rows() / 3 + 1)).min(rows.num_rows() - from);
        // In order, so that the numbers of build rows grow.
        let last = partitions.len() - 1;
        let at = (from * partitions.len() / rows.num_rows()).min(last);
        partitions[at].push(rows.slice(from, len));
        from += len;
    }
    partitions
}

pub fn source(partitions: &[Vec<RecordBatch>], schema: SchemaRef) -> Arc<dyn ExecutionPlan> {
    MemorySourceConfig::try_new_exec(partitions, schema, None).expect("rows of the schema")
}

/// The condition `l > r` on the numbers of both rows.
pub fn filter(left: &Schema, right: &Schema) -> JoinFilter {
    let schema = Schema::new(vec![
        Field::new("l", DataType::Int32, false),
        Field::new("r", DataType::Int32, false),
    ]);
    let index = |schema: &Schema, name| schema.index_of(name).expect("each side has numbers");
    let columns = JoinFilter::build_column_indices(vec![index(left, "l")], vec![index(right, "r")]);
    let (l, r) = (Arc::new(Column::new("l", 0)), Arc::new(Column::new("r", 1)));
    JoinFilter::new(Arc::new(BinaryExpr::new(l, Operator::Gt, r)), columns, Arc::new(schema))
}

/// Keys that are equal, all of both sides.
pub fn on_all(
    keys: usize,
    left: &Schema,
    right: &Schema,
) -> Result<Vec<(PhysicalExprRef, PhysicalExprRef)>> {
    let pair = |at| Ok((col(&format!("l{at}"), left)?, col(&format!("r{at}"), right)?));
    (0..keys).map(pair).collect()
}

pub fn null_equality(random: &mut Rng) -> NullEquality {
    match random.bool() {
        true => NullEquality::NullEqualsNull,
        false => NullEquality::NullEqualsNothing,
    }
}

/// The join with the numbers of rows only, in any order.
pub fn of_numbers(join: &HashJoinExec, random: &mut Rng) -> Result<HashJoinExec> {
    let fields = join.schema().fields().clone();
    let is_kept = |at: &usize| ["l", "r", "mark"].contains(&fields[*at].name().as_str());
    let mut kept = (0..fields.len()).filter(is_kept).collect::<Vec<_>>();
    random.shuffle(&mut kept);
    join.with_projection(Some(kept))
}

/// The rows of a join by nested loops: for each row of the probe side, and those of the build side
/// that come last.
pub struct Expected {
    pub of_probe: Vec<Vec<Row>>,
    pub last: Vec<Row>,
}

pub fn nested_loops(
    left: &RecordBatch,
    right: &RecordBatch,
    keys: usize,
    join_type: JoinType,
    null_equality: NullEquality,
    filtered: bool,
) -> Expected {
    use JoinType as J;
    let values = |batch: &RecordBatch, name: &str| {
        (0..keys)
            .map(|at| {
                let column = batch.column_by_name(&format!("{name}{at}")).expect("a key");
                let value = |row| ScalarValue::try_from_array(column, row).expect("a value");
                (0..batch.num_rows()).map(value).collect::<Vec<_>>()
            })
            .collect::<Vec<_>>()
    };
    let (l, r) = (values(left, "l"), values(right, "r"));
    let equal = |i: usize, j: usize| {
        l.iter().zip(&r).all(|(l, r)| match (l[i].is_null(), r[j].is_null()) {
            (false, false) => l[i] == r[j],
            (true, true) => null_equality == NullEquality::NullEqualsNull,
            _ => false,
        })
    };
    let mut visited = vec![false; left.num_rows()];
    let mut of_probe = Vec::new();
    for j in 0..right.num_rows() {
        let partners = (0..left.num_rows()).filter(|&i| (!filtered || i > j) && equal(i, j));
        let partners = partners.collect::<Vec<_>>();
        partners.iter().for_each(|&i| visited[i] = true);
        let (number, found) = (Some(j as i32), !partners.is_empty());
        let pairs = partners.iter().map(|&i| (Some(i as i32), number, None));
        of_probe.push(match join_type {
            J::Inner | J::Left => pairs.collect::<Vec<_>>(),
            J::Right | J::Full if found => pairs.collect(),
            J::Right | J::Full => vec![(None, number, None)],
            J::RightSemi if found => vec![(None, number, None)],
            J::RightAnti if !found => vec![(None, number, None)],
            J::RightMark => vec![(None, number, Some(found))],
            _ => vec![],
        });
    }
    let last = visited.iter().enumerate().filter_map(|(i, &visited)| {
        let row = (Some(i as i32), None, None);
        match join_type {
            J::LeftSemi => visited.then_some(row),
            J::Left | J::Full | J::LeftAnti => (!visited).then_some(row),
            J::LeftMark => Some((row.0, None, Some(visited))),
            _ => None,
        }
    });
    Expected { of_probe, last: last.collect() }
}

pub fn rows_of(batches: &[RecordBatch]) -> Vec<Row> {
    let mut rows = Vec::new();
    for batch in batches {
        let number = |name| {
            let column = batch.column_by_name(name)?;
            Some(column.as_primitive::<Int32Type>().clone())
        };
        let (l, r) = (number("l"), number("r"));
        let mark = batch.column_by_name("mark").map(|mark| mark.as_boolean().clone());
        let value = |numbers: &Option<Int32Array>, row: usize| {
            numbers.as_ref().filter(|n| n.is_valid(row)).map(|n| n.value(row))
        };
        for row in 0..batch.num_rows() {
            let mark = mark.as_ref().map(|mark| mark.value(row));
            rows.push((value(&l, row), value(&r, row), mark));
        }
    }
    rows
}

pub fn seed() -> u64 {
    let given = std::env::var("SWING_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    println!("SWING_SEED={seed}");
    seed
}
