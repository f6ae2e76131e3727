//! Stage A: loads the positions of a city's taxis, shares them, and goes on writing.
//!
//! After the first share the next reports arrive, tick by tick, and each is shared in its turn,
//! until the program's input closes. Whoever took a snapshot keeps the state of that moment.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use swingdb::{Connection, Database};
use swingdb_generate::{TaxiOptions, TaxiReader, hot_spots};
use swingdb_pipeline::{Stage, StageResult, number_argument};

/// Between two ticks of fresh reports: a hundred times faster than the taxis really report.
const TICK: Duration = Duration::from_millis(150);

const CREATE: &str = "CREATE TABLE gps (
    taxi_id INT NOT NULL, time TIMESTAMP NOT NULL, longitude DOUBLE NOT NULL,
    latitude DOUBLE NOT NULL, speed REAL, heading SMALLINT NOT NULL, occupied BOOLEAN NOT NULL)";

fn main() -> StageResult {
    let stage = Stage::start("A");
    let rows = number_argument("--rows", 20_000_000)?;
    let seed = number_argument("--seed", 42)?;
    let options = TaxiOptions { rows, seed, ..TaxiOptions::default() };

    let taxi = Database::open("taxi")?;
    let con = taxi.connect();
    store_hot_spots(&con, seed)?;
    stage.step("load", || {
        con.query(CREATE)?;
        let loaded = con.append("gps", TaxiReader::new(options.clone()))?;
        Ok(((), json!({ "rows": loaded })))
    })?;
    stage.share(&taxi)?;
    write_on(&stage, &taxi, &con, options)
}

/// The places where the generator lets trips begin and end: the truth that stage D's clusters are
/// compared with. No stage reads it.
fn store_hot_spots(con: &Connection, seed: u64) -> StageResult {
    con.query("CREATE TABLE hot_spots (name VARCHAR, longitude DOUBLE, latitude DOUBLE)")?;
    for spot in hot_spots(seed) {
        let values = [spot.name.into(), spot.longitude.into(), spot.latitude.into()];
        con.execute("INSERT INTO hot_spots VALUES (?, ?, ?)", &values)?;
    }
    Ok(())
}

/// Appends and shares tick after tick until the input closes.
fn write_on(stage: &Stage, taxi: &Database, con: &Connection, loaded: TaxiOptions) -> StageResult {
    static STOP: AtomicBool = AtomicBool::new(false);
    std::thread::spawn(|| {
        // Any end of the input, also a broken one, means that nobody wants more.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        STOP.store(true, Ordering::Relaxed);
    });
    let mut first_row = loaded.rows;
    while !STOP.load(Ordering::Relaxed) {
        let tick = TaxiOptions { first_row, rows: u64::from(loaded.taxis), ..loaded.clone() };
        stage.step("write on", || {
            first_row += con.append("gps", TaxiReader::new(tick))?;
            let shared = taxi.share()?;
            let share_us = shared.duration.as_micros() as u64;
            Ok(((), json!({ "rows": first_row, "share_us": share_us })))
        })?;
        std::thread::sleep(TICK);
    }
    Ok(())
}
