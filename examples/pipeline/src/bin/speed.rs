//! Stage E: the average speed in each zone for every 15 seconds.
//!
//! The paper's second SwingDB experiment (section 6.3.2, Figure 17): little crosses between the
//! programs, nearly all is computing. Works on its own snapshot of C's database under the name
//! `speeds` and shares its result there.

use serde_json::json;
use swingdb_pipeline::{Stage, StageResult};

const AVERAGE: &str = "
    CREATE TABLE average_speed AS
    SELECT date_bin(INTERVAL '15 seconds', time) AS slot, zone_id,
           avg(speed) AS speed, count(*) AS reports
    FROM positions
    GROUP BY slot, zone_id";

fn main() -> StageResult {
    let stage = Stage::start("E");
    let mine = stage.take_snapshot("clean", "speeds")?;
    let con = mine.connect();
    stage.step("average speed", || {
        let created = con.query(AVERAGE)?;
        Ok(((), json!({ "groups": created.rows_changed() })))
    })?;
    stage.share(&mine)
}
