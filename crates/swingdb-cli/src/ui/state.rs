//! Sessions and runs: [`State`].
//!
//! A session is a snapshot with a lease on its state. The page asks after its session every few
//! seconds. A session that nobody asks after for [`FORGOTTEN`], and in which nothing runs, is
//! ended, so that a browser that has crashed does not hold memory of a database for long.

use super::grid::Limit;
use super::run::{Run, Work};
use crate::failure::Failure;
use crate::home::Home;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use swingdb::Database;

/// Why changes are refused.
const WHY: &str = "this cell reads a snapshot of the database, which only its writer changes. Tick \
    \"scratch\" to change this page's snapshot alone, or change the database in the program that \
    writes it, or with `swingdb sql DATABASE --write`";
/// After how long a session is forgotten. Browsers wake pages in the background once a minute.
const FORGOTTEN: Duration = Duration::from_secs(600);
/// The most sessions at a time.
const MAX_SESSIONS: usize = 32;
/// The most runs at a time that have not ended.
const MAX_RUNNING: usize = 8;
/// The most runs whose results are kept, and the bytes of all these results.
const MAX_KEPT: usize = 128;
const MAX_KEPT_BYTES: usize = 256 << 20;
/// The most bytes of the results of one run.
const RUN_BYTES: usize = 32 << 20;
/// The most bytes of one value.
const CELL_BYTES: usize = 4 << 10;

/// What the command line says.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Rows of a result that are kept.
    pub rows: usize,
}

/// What was asked for cannot be done: the status of HTTP, and the reason.
pub struct Refused(pub u16, pub String);

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Refused(400, failure.text())
    }
}

/// A snapshot, or a private database.
pub struct Session {
    pub number: u64,
    /// The database that it is a snapshot of; `None`: it is private.
    pub name: Option<String>,
    /// Whether cells may change the snapshot.
    pub scratch: bool,
    database: Mutex<Database>,
    asked: Mutex<Instant>,
}

impl Session {
    /// The snapshot.
    pub fn database(&self) -> Database {
        self.database.lock().clone()
    }
}

/// See the [module documentation](self).
pub struct State {
    home: Home,
    /// The database that the page shows first.
    pub first: Option<String>,
    limits: Limits,
    tables: Mutex<Tables>,
    /// Wakes the thread that ends forgotten sessions.
    ending: Condvar,
}

#[derive(Default)]
struct Tables {
    ending: bool,
    next: u64,
    sessions: BTreeMap<u64, Arc<Session>>,
    runs: BTreeMap<u64, Arc<Run>>,
}

impl Tables {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Ends sessions that nobody has asked after for so long, and in which nothing runs.
    fn forget(&mut self, patience: Duration) {
        let runs = self.runs.values().filter(|run| !run.has_ended());
        let running: Vec<u64> = runs.map(|run| run.session).collect();
        self.sessions.retain(|number, session| {
            session.asked.lock().elapsed() <= patience || running.contains(number)
        });
        self.runs.retain(|_, run| self.sessions.contains_key(&run.session));
    }

    /// Throws away results until there are few enough: the oldest ones first.
    fn make_room(&mut self) {
        let mut bytes: usize = self.runs.values().map(|run| run.bytes()).sum();
        let ended: Vec<u64> = self
            .runs
            .iter()
            .filter(|(_, run)| run.has_ended())
            .map(|(number, _)| *number)
            .collect();
        for number in ended {
            if self.runs.len() < MAX_KEPT && bytes < MAX_KEPT_BYTES {
                return;
            }
            bytes -= self.runs.remove(&number).map_or(0, |run| run.bytes()).min(bytes);
        }
    }
}

impl State {
    pub fn new(home: Home, first: Option<String>, limits: Limits) -> Arc<Self> {
        let (tables, ending) = (Mutex::default(), Condvar::new());
        Arc::new(State { home, first, limits, tables, ending })
    }

    /// The directory of the databases.
    pub fn home(&self) -> &Home {
        &self.home
    }

    fn snapshot(&self, name: Option<&str>) -> Result<Database, Refused> {
        Ok(match name {
            Some(name) => self.home.snapshot(name)?,
            None => self.home.private()?,
        })
    }

    /// A new session on the newest shared state of a database, or on a private one.
    pub fn open(&self, name: Option<String>, scratch: bool) -> Result<Arc<Session>, Refused> {
        let database = Mutex::new(self.snapshot(name.as_deref())?);
        let mut tables = self.tables.lock();
        if tables.ending {
            return Err(Refused(503, "the program ends".to_string()));
        }
        if tables.sessions.len() >= MAX_SESSIONS {
            let text = format!("there are {MAX_SESSIONS} sessions already: close other pages");
            return Err(Refused(429, text));
        }
        let (number, asked) = (tables.number(), Mutex::new(Instant::now()));
        let session = Arc::new(Session { number, name, scratch, database, asked });
        tables.sessions.insert(number, Arc::clone(&session));
        Ok(session)
    }

    /// A session that somebody asks after.
    pub fn session(&self, number: u64) -> Result<Arc<Session>, Refused> {
        let found = self.tables.lock().sessions.get(&number).cloned();
        let session = found.ok_or_else(|| Refused(404, "there is no such session".to_string()))?;
        *session.asked.lock() = Instant::now();
        Ok(session)
    }

    /// Moves a session to the newest shared state: a new snapshot, so that this also holds for a
    /// changed one and for a database that was made anew.
    pub fn refresh(&self, session: &Session) -> Result<(), Refused> {
        let new = self.snapshot(session.name.as_deref())?;
        *session.database.lock() = new;
        Ok(())
    }

    /// Ends a session and all that runs in it.
    pub fn close(&self, number: u64) {
        let mut tables = self.tables.lock();
        tables.sessions.remove(&number);
        tables.runs.retain(|_, run| {
            if run.session == number {
                run.cancel();
            }
            run.session != number
        });
    }

    /// Runs a cell; the number of the run.
    pub fn run(&self, session: &Session, sql: String, explain: bool) -> Result<u64, Refused> {
        let changeable = session.scratch || session.name.is_none();
        let read_only = (!changeable).then_some(WHY);
        let limit = Limit { rows: self.limits.rows, bytes: RUN_BYTES, cell_bytes: CELL_BYTES };
        let work = Work { database: session.database(), sql, explain, read_only, limit };
        let mut tables = self.tables.lock();
        if tables.ending {
            return Err(Refused(503, "the program ends".to_string()));
        }
        let running = tables.runs.values().filter(|run| !run.has_ended()).count();
        if running >= MAX_RUNNING {
            let text = format!("{MAX_RUNNING} cells are running: wait for one, or cancel it");
            return Err(Refused(429, text));
        }
        tables.make_room();
        let number = tables.number();
        tables.runs.insert(number, Run::start(session.number, work)?);
        Ok(number)
    }

    /// A run whose results are kept.
    pub fn find(&self, number: u64) -> Result<Arc<Run>, Refused> {
        let found = self.tables.lock().runs.get(&number).cloned();
        found.ok_or_else(|| Refused(404, "the result is no longer kept: run it again".to_string()))
    }

    /// Cancels a run, and throws its results away.
    pub fn forget(&self, number: u64) {
        let run = self.tables.lock().runs.remove(&number);
        if let Some(run) = run {
            run.cancel();
        }
    }

    /// Ends forgotten sessions until the end.
    pub fn sweep(&self) {
        let mut tables = self.tables.lock();
        while !tables.ending {
            tables.forget(FORGOTTEN);
            self.ending.wait_for(&mut tables, FORGOTTEN / 10);
        }
    }

    /// Cancels everything, waits for it at most so long, and ends all sessions; whether all runs
    /// have ended.
    pub fn end(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let mut tables = self.tables.lock();
        tables.ending = true;
        let runs = std::mem::take(&mut tables.runs);
        drop(tables);
        self.ending.notify_all();
        for run in runs.values() {
            run.cancel();
        }
        let mut all = true;
        for run in runs.values() {
            while !run.has_ended() && Instant::now() < until {
                run.cancel();
                run.wait(Duration::from_millis(50));
            }
            all &= run.has_ended();
        }
        self.tables.lock().sessions.clear();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(home: &tempfile::TempDir) -> Arc<State> {
        let home = Home::new(Some(home.path().to_path_buf()), None);
        State::new(home, None, Limits { rows: 10 })
    }

    const SLOW: &str =
        "SELECT count(*) FROM range(100000000) a(i), range(10000) b(j) WHERE i * j % 7 = 3";

    #[test]
    fn sessions_and_runs_are_few_and_end() {
        let home = tempfile::tempdir_in("/dev/shm").unwrap();
        let state = state(&home);
        let session = state.open(None, false).ok().unwrap();
        let mut runs = Vec::new();
        for _ in 0..MAX_RUNNING {
            runs.push(state.run(&session, SLOW.to_string(), false).ok().unwrap());
        }
        let full = state.run(&session, "SELECT 1".to_string(), false).err().unwrap();
        assert_eq!(full.0, 429);
        let one = state.find(runs[0]).ok().unwrap();
        state.forget(runs[0]);
        one.wait(Duration::from_secs(30));
        assert!(one.has_ended() && state.find(runs[0]).is_err());
        assert!(state.run(&session, "SELECT 1".to_string(), false).is_ok());
        for _ in 1..MAX_SESSIONS {
            assert!(state.open(None, false).is_ok());
        }
        assert_eq!(state.open(None, false).err().unwrap().0, 429);
        let other = state.find(runs[1]).ok().unwrap();
        state.close(session.number);
        other.wait(Duration::from_secs(30));
        assert!(other.has_ended() && state.session(session.number).is_err());
        drop(session);
        assert!(state.end(Duration::from_secs(30)));
        assert_eq!(state.open(None, false).err().unwrap().0, 503);
    }

    #[test]
    fn forgotten_sessions_end_unless_something_runs() {
        let home = tempfile::tempdir_in("/dev/shm").unwrap();
        let state = state(&home);
        let open = || state.open(None, false).ok().unwrap().number;
        let (idle, busy) = (open(), open());
        let session = state.session(busy).ok().unwrap();
        let run = state.run(&session, SLOW.to_string(), false).ok().unwrap();
        state.tables.lock().forget(Duration::from_secs(60));
        assert!(state.session(idle).is_ok());
        state.tables.lock().forget(Duration::ZERO);
        assert!(state.session(idle).is_err() && state.session(busy).is_ok());
        let run = state.find(run).ok().unwrap();
        run.cancel();
        run.wait(Duration::from_secs(30));
        state.tables.lock().forget(Duration::ZERO);
        assert!(state.session(busy).is_err() && state.tables.lock().runs.is_empty());
    }

    #[test]
    fn old_results_make_room() {
        let home = tempfile::tempdir_in("/dev/shm").unwrap();
        let state = state(&home);
        let session = state.open(None, false).ok().unwrap();
        let mut first = None;
        for _ in 0..=MAX_KEPT {
            let number = state.run(&session, "SELECT 1".to_string(), false).ok().unwrap();
            state.find(number).ok().unwrap().wait(Duration::from_secs(30));
            first.get_or_insert(number);
        }
        assert!(first.is_some_and(|first| state.find(first).is_err()));
        assert!(state.tables.lock().runs.len() <= MAX_KEPT);
    }
}
