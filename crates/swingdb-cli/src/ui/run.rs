//! The statements of one cell: [`Run`].
//!
//! A run has a thread and a connection of its own, so that one that takes long keeps no other back.
//! Its statements run one after the other, up to the first error. What they return is kept as text
//! ([`Grid`]) up to limits; a query whose rows are more than that is ended there.
//!
//! A cancelled run is interrupted again whenever somebody asks for its state: an interrupt between
//! two statements reaches neither.

use super::grid::{Grid, Limit};
use crate::failure::{Failure, Outcome};
use crate::output::plan;
use crate::runner::{Position, next_statement};
use parking_lot::{Condvar, Mutex};
use serde_json::{Value, json};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use swingdb::{Connection, Database, Error, InterruptHandle, QueryResult};

/// Address space of a run's thread: the engine plans deep statements on stacks of its own.
const STACK: usize = 4 << 20;
/// The most statements of one run whose results are kept.
const MAX_RESULTS: usize = 100;
/// The most bytes of a plan that are kept.
const MAX_PLAN: usize = 1 << 20;
/// What has the engine run the statement on its next line and say what each operator did.
const EXPLAIN: &str = "EXPLAIN ANALYZE\n";

/// What a run is to do.
pub struct Work {
    pub database: Database,
    pub sql: String,
    /// Whether the last statement is to be explained: its plan instead of its rows.
    pub explain: bool,
    /// Why changes are refused; `None`: they are not.
    pub read_only: Option<&'static str>,
    pub limit: Limit,
}

/// See the [module documentation](self).
pub struct Run {
    /// The session that it belongs to.
    pub session: u64,
    interrupt: InterruptHandle,
    cancelled: AtomicBool,
    begun: Instant,
    inner: Mutex<Inner>,
    ended: Condvar,
}

#[derive(Default)]
struct Inner {
    results: Vec<Done>,
    /// How far the statement is that runs now: units done, all of them, their name.
    progress: Option<(u64, Option<u64>, String)>,
    end: Option<End>,
}

/// A statement that has run.
struct Done {
    tag: &'static str,
    taken: Duration,
    changed: Option<u64>,
    grid: Option<Grid>,
    plan: Option<Vec<plan::Node>>,
}

/// How a run has ended.
struct End {
    state: &'static str,
    taken: Duration,
    /// The reason, and the line and column of the cell that it is about.
    error: Option<(String, Option<(u64, u64)>)>,
}

impl Run {
    /// Starts a run.
    pub fn start(session: u64, work: Work) -> Outcome<Arc<Self>> {
        let connection = work.database.connect();
        if let Some(why) = work.read_only {
            connection.set_read_only(why);
        }
        let run = Arc::new(Run {
            session,
            interrupt: connection.interrupt_handle(),
            cancelled: AtomicBool::new(false),
            begun: Instant::now(),
            inner: Mutex::default(),
            ended: Condvar::new(),
        });
        let weak = Arc::downgrade(&run);
        connection.set_progress(Some(Arc::new(move |done, total, unit: &str| {
            if let Some(run) = weak.upgrade() {
                run.inner.lock().progress = Some((done, total, unit.to_string()));
            }
        })));
        let own = Arc::clone(&run);
        let thread = std::thread::Builder::new().name("cell".to_string()).stack_size(STACK);
        thread.spawn(move || own.work(connection, work)).map_err(Failure::from)?;
        Ok(run)
    }

    fn work(&self, connection: Connection, work: Work) {
        let all = AssertUnwindSafe(|| self.statements(&connection, &work));
        let outcome = catch_unwind(all).unwrap_or_else(|_| {
            Err((Failure::message("the program has a defect: the statement panicked"), None))
        });
        // The lease on the state ends before anybody hears that the run has ended.
        drop((connection, work));
        let (state, error) = match outcome {
            Ok(()) => ("done", None),
            Err((Failure::Database(Error::Interrupted), _)) => ("cancelled", None),
            Err((failure, place)) => ("failed", Some((failure.text(), place))),
        };
        let mut inner = self.inner.lock();
        inner.progress = None;
        inner.end = Some(End { state, taken: self.begun.elapsed(), error });
        drop(inner);
        self.ended.notify_all();
    }

    fn statements(
        &self,
        connection: &Connection,
        work: &Work,
    ) -> Result<(), (Failure, Option<(u64, u64)>)> {
        let text = work.sql.as_str();
        let mut rest = text;
        let mut room = work.limit;
        while let Some((sql, after)) = next_statement(rest, false) {
            let place = Position::of(text, sql);
            let is_last = next_statement(after, false).is_none();
            let done = match work.explain && is_last {
                true => self.statement(connection, &format!("{EXPLAIN}{sql}"), room),
                false => self.statement(connection, sql, room),
            };
            let done = done.map_err(|failure| match failure {
                Failure::Database(Error::Interrupted) => (failure, None),
                other if work.explain && is_last => {
                    place.located(one_line_up(other), text, sql, after)
                }
                other => place.located(other, text, sql, after),
            })?;
            room.bytes = room.bytes.saturating_sub(done.grid.as_ref().map_or(0, Grid::bytes));
            let mut inner = self.inner.lock();
            inner.progress = None;
            if inner.results.len() < MAX_RESULTS {
                inner.results.push(done);
            }
            rest = after;
        }
        Ok(())
    }

    fn statement(&self, connection: &Connection, sql: &str, room: Limit) -> Outcome<Done> {
        if self.cancelled.load(Ordering::Acquire) {
            return Err(Error::Interrupted.into());
        }
        let begun = Instant::now();
        let result = connection.query(sql)?;
        let (tag, changed) = (result.tag(), result.rows_changed());
        let (mut grid, mut plan) = (None, None);
        if result.has_rows() {
            let whole = Limit { cell_bytes: MAX_PLAN, ..room };
            let rows = kept(result, if tag == "EXPLAIN" { whole } else { room })?;
            plan = plan_of(&rows).filter(|_| tag == "EXPLAIN");
            grid = Some(rows);
        } else {
            // A statement without rows may still have to be driven to its end.
            result.collect()?;
        }
        Ok(Done { tag, taken: begun.elapsed(), changed, grid, plan })
    }

    /// Ends its running statement; the others do not run.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        self.interrupt.interrupt();
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.inner.lock().end.is_some()
    }

    /// Bytes of the results that are kept.
    pub fn bytes(&self) -> usize {
        let inner = self.inner.lock();
        inner.results.iter().filter_map(|done| done.grid.as_ref()).map(Grid::bytes).sum()
    }

    /// Waits until it has ended, but not longer than that.
    pub fn wait(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let mut inner = self.inner.lock();
        while inner.end.is_none() && !self.ended.wait_until(&mut inner, until).timed_out() {}
    }

    /// Its state, and what there is of results.
    pub fn about(&self) -> Value {
        if self.cancelled.load(Ordering::Acquire) {
            self.interrupt.interrupt();
        }
        let inner = self.inner.lock();
        let progress = inner
            .progress
            .as_ref()
            .map(|(done, total, unit)| json!({"done": done, "total": total, "unit": unit}));
        let end = inner.end.as_ref();
        let error = end.and_then(|end| end.error.as_ref()).map(|(text, place)| {
            let (line, column) = place.unzip();
            json!({"message": text, "line": line, "column": column})
        });
        json!({
            "state": end.map_or("running", |end| end.state),
            "elapsed_ms": millis(end.map_or_else(|| self.begun.elapsed(), |end| end.taken)),
            "progress": progress,
            "results": inner.results.iter().map(Done::about).collect::<Vec<_>>(),
            "error": error,
        })
    }

    /// Rows of its result number `index`; `None` if there is none.
    pub fn page(&self, index: usize, offset: usize, limit: usize) -> Option<Value> {
        let inner = self.inner.lock();
        inner.results.get(index)?.grid.as_ref().map(|grid| grid.page(offset, limit))
    }
}

impl Done {
    fn about(&self) -> Value {
        let mut value = self.grid.as_ref().map_or_else(|| json!({"columns": null}), Grid::about);
        value["tag"] = json!(self.tag);
        value["elapsed_ms"] = json!(millis(self.taken));
        value["rows_changed"] = json!(self.changed);
        value["plan"] = json!(self.plan.as_ref().map(|nodes| {
            let node = |node: &plan::Node| {
                json!({
                    "indent": node.indent,
                    "operator": node.name,
                    "detail": node.detail,
                    "rows": node.rows,
                    "time": node.time,
                    "share": node.share,
                })
            };
            nodes.iter().map(node).collect::<Vec<_>>()
        }));
        value
    }
}

pub(super) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The first rows of a result. Dropping what is left of it ends its computation.
fn kept(result: QueryResult, limit: Limit) -> Outcome<Grid> {
    let mut grid = Grid::new(result.schema());
    for batch in result {
        if !grid.add(&batch?, limit)? {
            break;
        }
    }
    Ok(grid)
}

/// The operators of EXPLAIN ANALYZE.
fn plan_of(grid: &Grid) -> Option<Vec<plan::Node>> {
    let row = (0..grid.rows()).find(|row| grid.value(*row, 0) == Some(plan::WITH_METRICS))?;
    Some(plan::nodes(grid.value(row, 1)?)).filter(|nodes| !nodes.is_empty())
}

/// A failure of a statement below [`EXPLAIN`] as one of the statement itself.
fn one_line_up(failure: Failure) -> Failure {
    match failure {
        Failure::Database(Error::Parse { message, line: Some(line @ 2..), column }) => {
            Failure::Database(Error::Parse { message, line: Some(line - 1), column })
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Limit = Limit { rows: 10, bytes: 1 << 20, cell_bytes: 1000 };

    fn run(sql: &str, explain: bool) -> (tempfile::TempDir, Arc<Run>) {
        let home = tempfile::tempdir_in("/dev/shm").unwrap();
        let database = Database::private_in(home.path()).unwrap();
        let sql = sql.to_string();
        let work = Work { database, sql, explain, read_only: None, limit: LIMIT };
        (home, Run::start(1, work).unwrap())
    }

    fn ended(sql: &str, explain: bool) -> Value {
        let (_home, run) = run(sql, explain);
        run.wait(Duration::from_secs(60));
        run.about()
    }

    #[test]
    fn statements_run_up_to_an_error() {
        let about =
            ended("CREATE TABLE t(a INT); INSERT INTO t VALUES (1), (2); SELECT * FROM t", false);
        assert_eq!((&about["state"], &about["error"]), (&json!("done"), &Value::Null));
        assert_eq!(about["results"][1]["rows_changed"], 2);
        assert_eq!(about["results"][2]["rows"], 2);
        let about = ended("SELECT 1;\n SELECT nosuch; SELECT 3", false);
        assert_eq!((&about["state"], &about["results"][1]), (&json!("failed"), &Value::Null));
        let error = &about["error"];
        assert_eq!((&error["line"], &error["column"]), (&json!(2), &json!(9)));
        assert!(error["message"].as_str().unwrap().ends_with("\n          ^"), "{error}");
    }

    #[test]
    fn long_results_are_ended() {
        let about = ended("SELECT * FROM range(1000000000000)", false);
        assert_eq!((&about["results"][0]["rows"], &about["state"]), (&json!(10), &json!("done")));
        assert_eq!(about["results"][0]["more"], true);
    }

    #[test]
    fn the_last_statement_is_explained() {
        let about = ended("SET threads = 1; SELECT count(*) FROM range(10)", true);
        assert_eq!(about["results"][0]["tag"], "SET");
        let plan = about["results"][1]["plan"].as_array().unwrap();
        assert!(plan[0]["indent"].as_u64() < plan[1]["indent"].as_u64(), "{plan:?}");
        for sql in ["SELECT nosuch", "SELECT 1;  SELECT nosuch", "\nSELECT nosuch", "SELECT 1 +"] {
            let (plain, explained) = (ended(sql, false), ended(sql, true));
            assert_eq!(plain["error"], explained["error"], "{sql}");
        }
    }

    #[test]
    fn a_run_is_cancelled() {
        let slow =
            "SELECT count(*) FROM range(100000000) a(i), range(10000) b(j) WHERE i * j % 7 = 3";
        let (_home, run) = run(&format!("{slow}; {slow}"), false);
        assert_eq!(run.about()["state"], "running");
        run.cancel();
        run.wait(Duration::from_secs(30));
        assert_eq!((&run.about()["state"], run.has_ended()), (&json!("cancelled"), true));
    }
}
