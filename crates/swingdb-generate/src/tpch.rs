//! The eight tables of TPC-H, made by the `tpchgen` crates: the same rows as the official `dbgen`.
//!
//! A table is cut into parts of about a segment, each of which can be made alone: that is how a
//! table is filled on all cores ([`TpchTable::part`]).

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow,
    SupplierArrow,
};

/// Rows a part has at most, nearly: the parts of `lineitem` vary by a few rows in a thousand.
const PART_ROWS: f64 = 130_000.0;
/// Rows of one batch: small enough for the cache while a batch is made.
const BATCH_ROWS: usize = 16_384;

/// One of the benchmark's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TpchTable {
    /// Five regions.
    Region,
    /// 25 nations.
    Nation,
    /// 10 000 suppliers at scale factor 1.
    Supplier,
    /// 150 000 customers at scale factor 1.
    Customer,
    /// 200 000 parts at scale factor 1.
    Part,
    /// 800 000 offers of parts by suppliers at scale factor 1.
    PartSupp,
    /// 1 500 000 orders at scale factor 1.
    Orders,
    /// About 6 000 000 lines of orders at scale factor 1.
    LineItem,
}

/// A stream of batches of one part of a table.
pub type PartReader = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

impl TpchTable {
    /// All tables, referenced ones before those that refer to them.
    pub const ALL: [TpchTable; 8] = [
        TpchTable::Region,
        TpchTable::Nation,
        TpchTable::Supplier,
        TpchTable::Customer,
        TpchTable::Part,
        TpchTable::PartSupp,
        TpchTable::Orders,
        TpchTable::LineItem,
    ];

    /// The table's name in the benchmark.
    pub fn name(self) -> &'static str {
        match self {
            TpchTable::Region => "region",
            TpchTable::Nation => "nation",
            TpchTable::Supplier => "supplier",
            TpchTable::Customer => "customer",
            TpchTable::Part => "part",
            TpchTable::PartSupp => "partsupp",
            TpchTable::Orders => "orders",
            TpchTable::LineItem => "lineitem",
        }
    }

    /// The columns of the primary key.
    pub fn primary_key(self) -> &'static [&'static str] {
        match self {
            TpchTable::Region => &["r_regionkey"],
            TpchTable::Nation => &["n_nationkey"],
            TpchTable::Supplier => &["s_suppkey"],
            TpchTable::Customer => &["c_custkey"],
            TpchTable::Part => &["p_partkey"],
            TpchTable::PartSupp => &["ps_partkey", "ps_suppkey"],
            TpchTable::Orders => &["o_orderkey"],
            TpchTable::LineItem => &["l_orderkey", "l_linenumber"],
        }
    }

    /// The table's columns; strings are `Utf8View`, money is `Decimal128(15, 2)`.
    pub fn schema(self) -> SchemaRef {
        match self {
            TpchTable::Region => RegionArrow::schema_ref(),
            TpchTable::Nation => NationArrow::schema_ref(),
            TpchTable::Supplier => SupplierArrow::schema_ref(),
            TpchTable::Customer => CustomerArrow::schema_ref(),
            TpchTable::Part => PartArrow::schema_ref(),
            TpchTable::PartSupp => PartSuppArrow::schema_ref(),
            TpchTable::Orders => OrderArrow::schema_ref(),
            TpchTable::LineItem => LineItemArrow::schema_ref(),
        }
    }

    /// Number of rows at `scale`; exact except for `lineitem`, where it is the expected one.
    pub fn approximate_rows(self, scale: f64) -> u64 {
        let scaled = |base: f64| (base * scale).max(1.0) as u64;
        match self {
            TpchTable::Region => 5,
            TpchTable::Nation => 25,
            TpchTable::Supplier => scaled(10_000.0),
            TpchTable::Customer => scaled(150_000.0),
            TpchTable::Part => scaled(200_000.0),
            TpchTable::PartSupp => scaled(800_000.0),
            TpchTable::Orders => scaled(1_500_000.0),
            TpchTable::LineItem => scaled(6_001_215.0),
        }
    }

    /// Into how many parts the table is cut at `scale`.
    pub fn parts(self, scale: f64) -> i32 {
        match self {
            TpchTable::Region | TpchTable::Nation => 1,
            table => (table.approximate_rows(scale) as f64 / PART_ROWS).ceil().max(1.0) as i32,
        }
    }

    /// Part number `part`, counted from 1, of `parts`.
    pub fn part(self, scale: f64, part: i32, parts: i32) -> PartReader {
        macro_rules! reader {
            ($generator:ident, $arrow:ident) => {
                reader($arrow::new($generator::new(scale, part, parts)).with_batch_size(BATCH_ROWS))
            };
        }
        match self {
            TpchTable::Region => reader!(RegionGenerator, RegionArrow),
            TpchTable::Nation => reader!(NationGenerator, NationArrow),
            TpchTable::Supplier => reader!(SupplierGenerator, SupplierArrow),
            TpchTable::Customer => reader!(CustomerGenerator, CustomerArrow),
            TpchTable::Part => reader!(PartGenerator, PartArrow),
            TpchTable::PartSupp => reader!(PartSuppGenerator, PartSuppArrow),
            TpchTable::Orders => reader!(OrderGenerator, OrderArrow),
            TpchTable::LineItem => reader!(LineItemGenerator, LineItemArrow),
        }
    }
}

fn reader(batches: impl RecordBatchReader + Send + 'static) -> PartReader {
    Box::new(batches)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::compute::concat_batches;

    #[test]
    fn parts_together_are_the_whole_table() {
        for table in TpchTable::ALL {
            let all = |parts: i32| {
                let batches: Vec<RecordBatch> = (1..=parts)
                    .flat_map(|part| table.part(0.01, part, parts))
                    .map(|batch| batch.unwrap())
                    .collect();
                concat_batches(&table.schema(), &batches).unwrap()
            };
            let whole = all(1);
            let rows = whole.num_rows() as f64;
            let expected = table.approximate_rows(0.01) as f64;
            assert!((rows - expected).abs() <= expected * 0.02, "{} {rows}", table.name());
            if table.parts(1.0) > 1 {
                assert_eq!(whole, all(3), "{}", table.name());
            }
            for column in table.primary_key() {
                assert!(table.schema().column_with_name(column).is_some(), "{column}");
            }
        }
    }
}
