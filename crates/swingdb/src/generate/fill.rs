//! Generated rows straight into tables, on all cores, each table in one statement.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use swingdb_common::error::Result;
use swingdb_common::runtime::meter::Meter;
use swingdb_common::runtime::parallel::in_parallel;
use swingdb_store::{ColumnDef, Constraint, IfExists, PartWriter, TableDef};

use crate::connection::Connection;
use crate::execute::atomic::with_txn;
use crate::execute::copy::import::parse_name;
use crate::execute::target;
use crate::session::Session;

use super::taxi::{BATCH_ROWS, TaxiGenerator, TaxiOptions, TaxiPlans};
use super::tpch::TpchTable;
use super::weather::{WeatherOptions, weather, zones};

/// Appends the taxis' reports to `table`, creating it when it does not exist; the number of rows.
///
/// ```
/// use swingdb::generate::{TaxiOptions, fill_taxi};
/// # let home = tempfile::tempdir_in("/dev/shm").unwrap();
/// # let database = swingdb::Database::private_in(home.path())?;
/// let con = database.connect();
/// let options = TaxiOptions { rows: 10_000, taxis: 100, ..TaxiOptions::default() };
/// assert_eq!(fill_taxi(&con, "taxi", &options)?, 10_000);
/// # Ok::<(), swingdb::Error>(())
/// ```
pub fn fill_taxi(connection: &Connection, table: &str, options: &TaxiOptions) -> Result<u64> {
    let generator = TaxiGenerator::new(options.clone());
    let rows = generator.rows();
    let pieces = (rows.end - rows.start).div_ceil(BATCH_ROWS);
    let plans: Mutex<Vec<TaxiPlans>> = Mutex::new(Vec::new());
    let fill = Fill { table, schema: generator.schema(), key: &[], pieces, rows: options.rows };
    fill.run(connection.session(), |piece, part| {
        let start = rows.start + piece * BATCH_ROWS;
        let mut plan = plans.lock().pop().unwrap_or_default();
        let batch = generator.batch(start..rows.end.min(start + BATCH_ROWS), &mut plan)?;
        plans.lock().push(plan);
        part.take(batch)
    })
}

/// Creates and fills the eight tables of TPC-H; the rows of each. With `keys`, with their primary
/// keys.
pub fn fill_tpch(connection: &Connection, scale: f64, keys: bool) -> Result<Vec<(TpchTable, u64)>> {
    let one = |table: TpchTable| {
        let parts = table.parts(scale);
        let key = if keys { table.primary_key() } else { &[] };
        let (pieces, rows) = (parts as u64, table.approximate_rows(scale));
        let fill = Fill { table: table.name(), schema: table.schema(), key, pieces, rows };
        let filled = fill.run(connection.session(), |piece, part| {
            for batch in table.part(scale, piece as i32 + 1, parts) {
                part.take(batch?)?;
            }
            Ok(())
        })?;
        Ok((table, filled))
    };
    TpchTable::ALL.into_iter().map(one).collect()
}

/// Fills the tables `zones` and `weather`, creating them when they do not exist; the rows of both.
pub fn fill_weather(connection: &Connection, options: &WeatherOptions) -> Result<u64> {
    let mut rows = 0;
    for (table, batch) in [("zones", zones()?), ("weather", weather(options)?)] {
        let count = batch.num_rows() as u64;
        let fill = Fill { table, schema: batch.schema(), key: &[], pieces: 1, rows: count };
        rows += fill.run(connection.session(), |_, part| part.take(batch.clone()))?;
    }
    Ok(rows)
}

/// The filling of one table.
struct Fill<'a> {
    table: &'a str,
    schema: SchemaRef,
    key: &'a [&'a str],
    /// Pieces of work, numbered from 0 in the order of their rows.
    pieces: u64,
    /// Rows expected, for progress.
    rows: u64,
}

/// Where the rows of one piece go.
struct Part<'a> {
    writer: PartWriter,
    meter: &'a Meter,
    schema: &'a SchemaRef,
}

impl Part<'_> {
    fn take(&mut self, batch: RecordBatch) -> Result<()> {
        self.meter.add(batch.num_rows() as u64);
        self.writer.push(batch.with_schema(Arc::clone(self.schema))?)
    }
}

impl Fill<'_> {
    fn run(
        &self,
        session: &Arc<Session>,
        make: impl Fn(u64, &mut Part<'_>) -> Result<()> + Sync,
    ) -> Result<u64> {
        let _running = session.lock_statement();
        let name = parse_name(self.table)?;
        let catalog = session.view()?.main.catalog;
        let place = target::place(session, &catalog, &name)?;
        let token = session.cancel_token();
        let meter = Meter::new(session.progress(), Some(self.rows), "rows");
        let filled = with_txn(session, |txn| {
            let definition = self.definition(&place.schema, &place.name);
            txn.create_table(definition, IfExists::Skip)?;
            let writer = txn.writer(&place.schema, &place.name)?;
            let mut numbers = 0..self.pieces;
            let next = || {
                token.check()?;
                Ok(numbers.next().map(|piece| (piece, piece)))
            };
            let work = |order: u64, piece: u64| {
                let schema = writer.schema();
                let mut part = Part { writer: writer.part(order)?, meter: &meter, schema };
                make(piece, &mut part)?;
                part.writer.finish()
            };
            in_parallel(session.threads()?, next, work)?;
            txn.adopt(writer)
        })?;
        meter.finish();
        Ok(filled)
    }

    fn definition(&self, schema: &str, name: &str) -> TableDef {
        let fields = self.schema.fields();
        let columns = fields.iter().map(|field| ColumnDef {
            name: field.name().clone(),
            data_type: field.data_type().clone(),
            nullable: field.is_nullable(),
            is_uuid: false,
            enumeration: None,
            default_sql: None,
        });
        let place = |column: &&str| fields.iter().position(|field| field.name() == column);
        let key: Vec<usize> = self.key.iter().filter_map(place).collect();
        let constraints = if key.is_empty() { Vec::new() } else { vec![Constraint::Primary(key)] };
        TableDef {
            schema: schema.into(),
            name: name.into(),
            columns: columns.collect(),
            constraints,
        }
    }
}
