//! What the Rust stages of the pipeline share: events for the timeline, waiting, arguments.
//!
//! A stage tells the orchestrator (`run.py`) what it did by printing one JSON object a line on its
//! standard output. Times are nanoseconds of the system clock, so that those of different processes
//! can be drawn on one axis.

use std::io::Write;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use swingdb::{Database, Error};

/// What a stage's `main` returns.
pub type StageResult<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// A stage gives up when what it waits for has not been shared after this time.
const MAX_WAIT: Duration = Duration::from_secs(600);
const POLL: Duration = Duration::from_millis(5);
const WAIT_WORTH_TELLING_NS: u64 = 1_000_000;

/// One program of the pipeline, as the orchestrator sees it.
pub struct Stage {
    letter: &'static str,
}

impl Stage {
    /// Reports that the program has started.
    pub fn start(letter: &'static str) -> Self {
        let stage = Self { letter };
        stage.event("start", now_ns(), now_ns(), json!({}));
        stage
    }

    /// Runs `body` and reports how long it took, with the facts it returns beside its value.
    pub fn step<T>(
        &self,
        kind: &str,
        body: impl FnOnce() -> StageResult<(T, Value)>,
    ) -> StageResult<T> {
        let start = now_ns();
        let (value, facts) = body()?;
        self.event(kind, start, now_ns(), facts);
        Ok(value)
    }

    /// Waits until the database `proposed` is shared and takes a snapshot of it under the name
    /// `target`. Reports the waiting and the taking separately.
    pub fn take_snapshot(&self, proposed: &str, target: &str) -> StageResult<Database> {
        let (waited, deadline) = (now_ns(), Instant::now() + MAX_WAIT);
        loop {
            let (before, start) = (without_core_ns(), now_ns());
            match Database::get_snapshot(proposed, target) {
                Ok(taken) => {
                    let end = now_ns();
                    self.event(&format!("wait for {proposed}"), waited, start, json!({}));
                    self.event(
                        "snapshot",
                        start,
                        end,
                        with_core(json!({ "of": proposed }), before),
                    );
                    return Ok(taken);
                }
                // Not made yet, or not shared yet.
                Err(Error::NotFound { .. } | Error::NotShared { .. })
                    if Instant::now() < deadline =>
                {
                    std::thread::sleep(POLL);
                }
                Err(other) => return Err(other.into()),
            }
        }
    }

    /// Shares `database` and reports how long that took.
    pub fn share(&self, database: &Database) -> StageResult {
        let before = without_core_ns();
        self.step("share", || {
            let epoch = database.share()?.epoch;
            Ok(((), with_core(json!({ "epoch": epoch }), before)))
        })
    }

    fn event(&self, kind: &str, start_ns: u64, end_ns: u64, facts: Value) {
        let mut record = json!({
            "stage": self.letter, "kind": kind, "start_ns": start_ns, "end_ns": end_ns,
        });
        if let (Value::Object(record), Value::Object(facts)) = (&mut record, facts) {
            record.extend(facts);
        }
        // An orchestrator that is gone reads no events; the stage ends by its closed input.
        let _ = writeln!(std::io::stdout(), "{record}");
    }
}

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// How long this thread has been ready to run without a core to run on, if the kernel counts it.
fn without_core_ns() -> u64 {
    let counts = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    counts.split(' ').nth(1).and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// The facts of an event, and how long of it other programs had the cores, when that is what took.
fn with_core(mut facts: Value, before_ns: u64) -> Value {
    let waited_ns = without_core_ns().saturating_sub(before_ns);
    if waited_ns >= WAIT_WORTH_TELLING_NS {
        facts["without a core"] = json!(format!("{:.1} ms", waited_ns as f64 / 1e6));
    }
    facts
}

/// The number after `--name` on the command line, or `default`.
pub fn number_argument(name: &str, default: u64) -> StageResult<u64> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    match (arguments.next(), arguments.next()) {
        (None, _) => Ok(default),
        (_, Some(value)) => Ok(value.parse()?),
        (_, None) => Err(format!("{name} needs a number").into()),
    }
}
