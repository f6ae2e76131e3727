//! Generated rows straight into tables, on all cores, each table in one statement.

use parking_lot::Mutex;
use swingdb::{BulkAppend, Connection, Result};

use super::taxi::{BATCH_ROWS, TaxiGenerator, TaxiOptions, TaxiPlans};
use super::tpch::TpchTable;
use super::weather::{WeatherOptions, weather, zones};

/// Appends the taxis' reports to `table`, creating it when it does not exist; the number of rows.
///
/// ```
/// use swingdb_generate::{TaxiOptions, fill_taxi};
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
    let append = BulkAppend::new(table, generator.schema()).expected_rows(options.rows);
    connection.bulk_append(&append, pieces, |piece, part| {
        let start = rows.start + piece * BATCH_ROWS;
        let mut plan = plans.lock().pop().unwrap_or_default();
        let batch = generator.batch(start..rows.end.min(start + BATCH_ROWS), &mut plan)?;
        plans.lock().push(plan);
        part.append(batch)
    })
}

/// Creates and fills the eight tables of TPC-H; the rows of each. With `keys`, with their primary
/// keys.
pub fn fill_tpch(connection: &Connection, scale: f64, keys: bool) -> Result<Vec<(TpchTable, u64)>> {
    let one = |table: TpchTable| {
        let parts = table.parts(scale);
        let key = if keys { table.primary_key() } else { &[] };
        let append = BulkAppend::new(table.name(), table.schema())
            .primary_key(key)
            .expected_rows(table.approximate_rows(scale));
        let filled = connection.bulk_append(&append, parts as u64, |piece, part| {
            for batch in table.part(scale, piece as i32 + 1, parts) {
                part.append(batch?)?;
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
        let append = BulkAppend::new(table, batch.schema()).expected_rows(count);
        rows += connection.bulk_append(&append, 1, |_, part| part.append(batch.clone()))?;
    }
    Ok(rows)
}
