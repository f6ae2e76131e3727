//! Appending rows that several threads make: [`BulkAppend`].
//!
//! Who calls cuts the work into numbered pieces. The threads of the session take one after another,
//! and each writes its rows straight into segments of the table. The rows of piece 0 come first in
//! the table, then those of piece 1, whichever was ready first. All pieces are one statement: an
//! error in one of them leaves the table as it was, and an interrupted one too.
//!
//! ```
//! # let home = tempfile::tempdir_in("/dev/shm").unwrap();
//! use std::sync::Arc;
//!
//! use swingdb::arrow::array::{ArrayRef, Int64Array, RecordBatch};
//! use swingdb::{BulkAppend, Database};
//! # let database = Database::private_in(home.path())?;
//! let con = database.connect();
//! let numbers = |range: std::ops::Range<i64>| {
//!     let n: ArrayRef = Arc::new(Int64Array::from_iter_values(range));
//!     RecordBatch::try_from_iter([("n", n)])
//! };
//! let append = BulkAppend::new("numbers", numbers(0..0)?.schema()).primary_key(&["n"]);
//! let rows = con.bulk_append(&append, 10, |piece, part| {
//!     let first = piece as i64 * 1000;
//!     part.append(numbers(first..first + 1000)?)
//! })?;
//! assert_eq!(rows, 10_000);
//! # Ok::<(), swingdb::Error>(())
//! ```

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use swingdb_common::cast::convert::{Origin, check_assignable, convert_array, relabel};
use swingdb_common::error::{Error, Result};
use swingdb_common::runtime::meter::Meter;
use swingdb_common::runtime::parallel::in_parallel;
use swingdb_common::time::zones::Zone;
use swingdb_store::{ColumnDef, Constraint, IfExists, PartWriter, TableDef};

use crate::execute::atomic::with_txn;
use crate::execute::copy::import::parse_name;
use crate::execute::target::{self, QualifiedName, Target};
use crate::session::{Session, temporary};

/// Which table rows go to; see the [module documentation](self).
#[derive(Clone, Debug)]
pub struct BulkAppend {
    table: String,
    schema: SchemaRef,
    key: Vec<usize>,
    expected_rows: Option<u64>,
}

/// Where the rows of one piece go.
pub struct BulkPart<'a> {
    writer: PartWriter,
    columns: &'a [ColumnDef],
    schema: &'a SchemaRef,
    meter: &'a Meter,
    zone: Zone,
    rows: u64,
}

impl BulkAppend {
    /// Appends to `table`, a name as SQL writes it. The table is made with the columns of `schema`
    /// when there is none. If there is one, the columns go into its columns by position, and values
    /// are converted as INSERT converts them.
    pub fn new(table: impl Into<String>, schema: SchemaRef) -> Self {
        Self { table: table.into(), schema, key: Vec::new(), expected_rows: None }
    }

    /// The primary key that the table gets if it is made. Names that are no columns are left out.
    #[must_use]
    pub fn primary_key(mut self, columns: &[&str]) -> Self {
        let place = |column: &&str| self.schema.index_of(column).ok();
        self.key = columns.iter().filter_map(place).collect();
        self
    }

    /// How many rows there will be, or about as many: what progress is measured by.
    #[must_use]
    pub fn expected_rows(mut self, rows: u64) -> Self {
        self.expected_rows = Some(rows);
        self
    }

    /// Has `make` called for each of `pieces` pieces; the number of rows.
    pub(crate) fn run(
        &self,
        session: &Arc<Session>,
        pieces: u64,
        make: impl Fn(u64, &mut BulkPart<'_>) -> Result<()> + Sync,
    ) -> Result<u64> {
        let _running = session.lock_statement()?;
        let name = parse_name(&self.table)?;
        let (session, name) = &temporary::of_table(session, &name);
        let token = session.cancel_token();
        let meter = Meter::new(session.progress(), self.expected_rows, "rows");
        let appended = with_txn(session, |txn| {
            let place = target::place(session, &txn.view(), name)?;
            if target::find_table(&txn.view(), &place)?.is_none() {
                txn.create_table(self.definition(&place), IfExists::Fail)?;
            }
            let Target { schema, name, table } = target::target(session, &txn.view(), name)?;
            self.check(table.columns())?;
            let writer = txn.writer(&schema, &name)?;
            let mut numbers = 0..pieces;
            let next = || {
                token.check()?;
                Ok(numbers.next().map(|piece| (piece, piece)))
            };
            let zone = session.zone();
            let work = |order: u64, piece: u64| {
                let (columns, schema) = (table.columns(), table.schema());
                let writer = writer.part(order)?;
                let mut part = BulkPart { writer, columns, schema, meter: &meter, zone, rows: 0 };
                make(piece, &mut part)?;
                part.writer.finish()
            };
            in_parallel(session.threads()?, next, work)?;
            txn.adopt(writer)
        })?;
        meter.finish();
        Ok(appended)
    }

    /// Refuses what INSERT would refuse whatever the values.
    fn check(&self, columns: &[ColumnDef]) -> Result<()> {
        check_count(&self.schema, columns)?;
        let mut both = self.schema.fields().iter().zip(columns);
        both.try_for_each(|(field, column)| {
            check_assignable(field.data_type(), &column.data_type, &column.name)
        })
    }

    fn definition(&self, place: &QualifiedName) -> TableDef {
        let columns = self.schema.fields().iter().map(|field| ColumnDef {
            name: field.name().clone(),
            data_type: field.data_type().clone(),
            nullable: field.is_nullable(),
            is_uuid: false,
            enumeration: None,
            default_sql: None,
        });
        let key = Some(self.key.clone()).filter(|key| !key.is_empty());
        TableDef {
            schema: place.schema.clone(),
            name: place.name.clone(),
            columns: columns.collect(),
            constraints: key.map(Constraint::Primary).into_iter().collect(),
        }
    }
}

impl BulkPart<'_> {
    /// Appends a batch behind the rows that this piece has so far.
    pub fn append(&mut self, batch: RecordBatch) -> Result<()> {
        let rows = batch.num_rows();
        check_count(batch.schema_ref(), self.columns)?;
        let origin = Origin::rows(self.rows);
        let both = batch.columns().iter().zip(self.columns);
        let columns: Result<Vec<_>> = both
            .map(|(array, column)| convert_array(array, &column.field(), origin, self.zone))
            .collect();
        self.writer.push(relabel(columns?, self.schema, rows)?)?;
        self.meter.add(rows as u64);
        self.rows += rows as u64;
        Ok(())
    }
}

fn check_count(given: &SchemaRef, columns: &[ColumnDef]) -> Result<()> {
    let (given, wanted) = (given.fields().len(), columns.len());
    if given == wanted {
        return Ok(());
    }
    Err(Error::plan(format!("rows of {given} columns for a table of {wanted}")))
}
