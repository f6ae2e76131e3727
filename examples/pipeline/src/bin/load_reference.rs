//! Stage B: loads reference data, the city's zones and their weather by the hour, and shares them.
//!
//! The program ends at once; its database stays in memory for those that come later.

use serde_json::json;
use swingdb::arrow::array::{RecordBatch, RecordBatchIterator};
use swingdb::{Connection, Database};
use swingdb_generate::{WeatherOptions, weather, zones};
use swingdb_pipeline::{Stage, StageResult, number_argument};

const CREATE: &str = "
    CREATE TABLE zones (zone_id INT PRIMARY KEY, zone_name VARCHAR NOT NULL,
        min_longitude DOUBLE NOT NULL, max_longitude DOUBLE NOT NULL,
        min_latitude DOUBLE NOT NULL, max_latitude DOUBLE NOT NULL);
    CREATE TABLE weather (zone_id INT NOT NULL, hour TIMESTAMP NOT NULL,
        temperature_c REAL NOT NULL, rain_mm REAL NOT NULL, wind_kmh REAL NOT NULL,
        humidity_percent SMALLINT NOT NULL, condition VARCHAR NOT NULL,
        PRIMARY KEY (zone_id, hour))";

fn main() -> StageResult {
    let stage = Stage::start("B");
    let seed = number_argument("--seed", 42)?;
    let reference = Database::open("reference")?;
    let con = reference.connect();
    stage.step("load", || {
        con.query(CREATE)?;
        let zones = append(&con, "zones", zones()?)?;
        let reports = weather(&WeatherOptions { seed, ..WeatherOptions::default() })?;
        let rows = zones + append(&con, "weather", reports)?;
        Ok(((), json!({ "rows": rows })))
    })?;
    stage.share(&reference)
}

fn append(con: &Connection, table: &str, batch: RecordBatch) -> StageResult<u64> {
    let schema = batch.schema();
    Ok(con.append(table, RecordBatchIterator::new([Ok(batch)], schema))?)
}
