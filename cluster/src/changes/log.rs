//! A node's side of changes: the open transaction, and the log from which it is made again.
//!
//! The log of a database is a directory: `begin.json`, the steps as `N.json` with their rows in
//! `N.arrow`, and `prepared`, which is written last. A log without `prepared` is of a change that
//! was not decided, since no coordinator was told that this node is ready. The node removes such a
//! log when it starts.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::ipc::reader::FileReader;
use arrow::ipc::writer::{FileWriter, StreamWriter};
use parking_lot::Mutex;
use swingdb::{Connection, Database, InterruptHandle, Interruptible, QueryResult, Value};
use swingdb_common::own_texts::with_own_texts;

use crate::catalog::{self, Member};
use crate::changes::{Begin, Logged, Next, Standing, Step, Stepped, Which};
use crate::cut::SCHEMA;
use crate::error::{Error, Result};
use crate::names::quoted;
use crate::node::Hold;
use crate::node::budget::Budgets;
use crate::wire::{Budget, Bytes, value_of};

/// The name under which a transaction sees rows that arrived.
const ROWS: &str = "__swingdb_cluster_rows";

/// The databases that a node writes.
pub struct Changes {
    writers: HashMap<String, Writer>,
    budgets: Arc<Budgets>,
}

/// A database that the node owns.
struct Writer {
    home: Option<PathBuf>,
    name: String,
    database: Database,
    log: PathBuf,
    open: Mutex<Option<Open>>,
    /// The step that is carried out: the change's number, who has begun it, and what ends the step.
    running: Mutex<Option<(u64, String, InterruptHandle)>>,
    /// The state before the last change, until all nodes have committed it.
    kept: Mutex<Option<Arc<Hold>>>,
}

/// A change that is not committed yet.
struct Open {
    begin: Begin,
    connection: Connection,
    steps: usize,
    is_prepared: bool,
    /// Whether a step of it has failed: nobody knows how much of that was carried out.
    has_failed: bool,
    /// The limit of memory that its connection has.
    budget: Option<Budget>,
    /// The time zone of the last step.
    time_zone: Option<String>,
}

impl Open {
    fn of(begin: Begin, connection: Connection) -> Self {
        let (steps, is_prepared, has_failed, budget, time_zone) = (0, false, false, None, None);
        Self { begin, connection, steps, is_prepared, has_failed, budget, time_zone }
    }

    /// Refuses what follows a step that has failed.
    fn check(&self) -> Result<()> {
        match self.has_failed {
            true => Err(Error::Unsupported(format!(
                "going on with change {}, of which a step has failed",
                self.begin.number
            ))),
            false => Ok(()),
        }
    }

    /// Gives the connection the time zone of the next step.
    fn move_to(&mut self, zone: Option<&String>) -> Result<()> {
        if self.time_zone.as_ref() != zone {
            let default = swingdb_sql::engine::base_state()?.config_options();
            let zone = zone.cloned();
            let next = zone.clone().or_else(|| default.execution.time_zone.clone());
            self.connection.configure_engine(|state| {
                state.config_mut().options_mut().execution.time_zone = next;
                Ok(())
            })?;
            self.time_zone = zone;
        }
        Ok(())
    }
}

fn storage(path: &Path) -> impl Fn(std::io::Error) -> Error + '_ {
    move |error| Error::Unsupported(format!("the change log {}: {error}", path.display()))
}

impl Changes {
    /// Opens databases to write, and takes up what was prepared when the node ended.
    pub fn open(home: Option<&Path>, names: &[String], budgets: Arc<Budgets>) -> Result<Self> {
        let mut writers = HashMap::new();
        for name in names {
            let database = match home {
                Some(home) => Database::open_in(home, name)?,
                None => Database::open(name)?,
            };
            database.connect().query(catalog::MADE_BY)?;
            database.share()?;
            let log = log_directory(home, name)?;
            let writer = Writer {
                home: home.map(Path::to_path_buf),
                name: name.clone(),
                database,
                log,
                open: Mutex::default(),
                running: Mutex::default(),
                kept: Mutex::default(),
            };
            writer.take_up()?;
            writers.insert(name.clone(), writer);
        }
        Ok(Self { writers, budgets })
    }

    fn writer(&self, database: &str) -> Result<&Writer> {
        self.writers.get(database).ok_or_else(|| {
            Error::Unsupported(format!(
                "changing database {database:?}, which this node only reads; start it with --write"
            ))
        })
    }

    /// The state after change `number`, if it is the one before the last.
    pub fn kept(&self, database: &str, number: u64) -> Option<Arc<Hold>> {
        let kept = self.writers.get(database)?.kept.lock().clone()?;
        (kept.change == number).then_some(kept)
    }

    /// The epoch of the newest shared state of a database that the node owns.
    pub fn epoch(&self, database: &str) -> Option<u64> {
        self.writers.get(database)?.database.epoch()
    }

    /// Opens the transaction of a change.
    pub fn begin(&self, begin: &Begin) -> Result<()> {
        self.writer(&begin.database)?.begin(begin)
    }

    /// Carries out a step; the number of rows that changed.
    pub fn step(&self, next: &Next, rows: Rows) -> Result<Stepped> {
        self.writer(&next.database)?.step(next, rows, &self.budgets)
    }

    /// Ends the step that a change carries out: nobody waits for it any more.
    pub fn interrupt(&self, which: &Which) {
        if let Some(writer) = self.writers.get(&which.database) {
            writer.interrupt(|number, by| which.is_it(number, by));
        }
    }

    /// The state of a change that is open, as far as its steps have been carried out.
    pub fn reading(&self, database: &str, number: u64) -> Result<Hold> {
        let mut open = self.writer(database)?.open.lock();
        let any = Which { database: database.to_string(), number, by: String::new() };
        let connection = opened(&mut open, &any)?.connection.pinned();
        connection.set_read_only("nodes serve snapshots");
        Ok(Hold { connection, change: number })
    }

    /// Drops a change whose coordinator has gone, unless another node decides about it, which has
    /// to be asked: that change is the answer.
    pub fn abandon(&self, database: &str, number: u64, by: &str) -> Result<Option<Begin>> {
        self.writer(database)?.abandon(number, by)
    }

    /// Whether a change is open that has begun so.
    pub fn is_open(&self, begin: &Begin) -> bool {
        let writer = self.writers.get(&begin.database);
        writer.is_some_and(|writer| {
            writer.open.lock().as_ref().is_some_and(|open| open.begin == *begin)
        })
    }

    /// The changes that were prepared when the node ended, and are open again.
    pub fn open_again(&self) -> Vec<Begin> {
        let open = |writer: &Writer| writer.open.lock().as_ref().map(|open| open.begin.clone());
        self.writers.values().filter_map(open).collect()
    }

    /// Makes sure that the change can be committed, whatever happens.
    pub fn prepare(&self, which: &Which) -> Result<()> {
        self.writer(&which.database)?.prepare(which)
    }

    /// Commits a change; nothing happens if it is committed already.
    pub fn commit(&self, which: &Which) -> Result<()> {
        self.writer(&which.database)?.commit(which)
    }

    /// Drops a change; an error if it is committed already.
    pub fn abort(&self, which: &Which) -> Result<()> {
        self.writer(&which.database)?.abort(which)
    }

    /// All nodes have committed a change: the state before it is not needed any more.
    pub fn finish(&self, database: &str, number: u64) -> Result<()> {
        let mut kept = self.writer(database)?.kept.lock();
        if kept.as_ref().is_some_and(|kept| kept.change < number) {
            *kept = None;
        }
        Ok(())
    }

    /// What is known of changes.
    pub fn standing(&self, database: &str) -> Result<Standing> {
        let writer = self.writer(database)?;
        let open = writer.open.lock();
        Ok(Standing {
            last: catalog::change(&writer.database.connect())?,
            open: open.as_ref().map(|open| open.begin.clone()),
            is_prepared: open.as_ref().is_some_and(|open| open.is_prepared),
            place: catalog::member(&writer.database.connect())?,
        })
    }
}

/// Rows of a step.
pub type Rows = Option<(SchemaRef, Vec<RecordBatch>)>;

/// Where the log of a database is: beside the database, so that it lasts as long as that does.
fn log_directory(home: Option<&Path>, name: &str) -> Result<PathBuf> {
    let home = match (home, std::env::var_os("SWINGDB_HOME")) {
        (Some(home), _) => home.to_path_buf(),
        (None, Some(home)) => PathBuf::from(home),
        (None, None) => {
            let user = std::fs::metadata("/proc/self").map_err(storage(Path::new("/proc/self")))?;
            PathBuf::from(format!(
                "/dev/shm/swingdb-{}",
                std::os::unix::fs::MetadataExt::uid(&user)
            ))
        }
    };
    // Outside of the namespace's folder, in which every file has a meaning.
    let mut beside = home.into_os_string();
    beside.push("-cluster");
    Ok(PathBuf::from(beside).join(name))
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let new = path.with_extension("new");
    let mut file = File::create(&new).map_err(storage(&new))?;
    file.write_all(bytes).map_err(storage(&new))?;
    file.sync_all().map_err(storage(&new))?;
    fs::rename(&new, path).map_err(storage(path))?;
    if let Some(folder) = path.parent() {
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(storage(folder))?;
    }
    Ok(())
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let bytes = fs::read(path).map_err(storage(path))?;
    serde_json::from_slice(&bytes)
        .map_err(|error| Error::Unsupported(format!("the change log {}: {error}", path.display())))
}

fn json<T: serde::Serialize>(value: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| Error::Unsupported(error.to_string()))
}

impl Writer {
    /// Carries out again what was prepared; forgets what was not.
    fn take_up(&self) -> Result<()> {
        if !self.log.exists() {
            return Ok(());
        }
        if !self.log.join("prepared").exists() {
            return self.forget();
        }
        let begin = read::<Begin>(&self.log.join("begin.json"))?;
        let connection = self.database.connect();
        if catalog::coordinator_of(&connection, begin.number)?.is_some() {
            self.database.share()?;
            return self.forget();
        }
        if !follows(&begin, catalog::change(&connection)?) {
            // Of a database that is gone: another has its name.
            return self.forget();
        }
        connection.begin()?;
        let mut open = Open::of(begin, connection);
        while self.log.join(format!("{}.json", open.steps)).exists() {
            let next = read::<Logged>(&self.log.join(format!("{}.json", open.steps)))?;
            open.move_to(next.time_zone.as_ref())?;
            carry_out(&open.connection, &next.step, self.read_rows(open.steps)?)?;
            open.steps += 1;
        }
        note(&open.connection, &open.begin)?;
        open.is_prepared = true;
        *self.open.lock() = Some(open);
        Ok(())
    }

    fn forget(&self) -> Result<()> {
        // First of all the file that makes it a change.
        for file in ["prepared", "begin.json"] {
            match fs::remove_file(self.log.join(file)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(storage(&self.log)(error));
                }
                _ => {}
            }
        }
        match fs::remove_dir_all(&self.log) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(storage(&self.log)(error))
            }
            _ => Ok(()),
        }
    }

    fn begin(&self, begin: &Begin) -> Result<()> {
        let mut open = self.open.lock();
        if let Some(open) = open.as_ref() {
            return Err(Error::Unsupported(format!(
                "two changes at a time: change {} is open on database {}; if its coordinator is \
                 gone, Cluster::recover settles it",
                open.begin.number, self.name
            )));
        }
        let connection = self.database.connect();
        let last = catalog::change(&connection)?;
        if !follows(begin, last) {
            return Err(Error::Unsupported(format!(
                "change {} of database {}, whose last change is {last}",
                begin.number, self.name
            )));
        }
        self.forget()?;
        fs::create_dir_all(&self.log).map_err(storage(&self.log))?;
        write(&self.log.join("begin.json"), &json(begin)?)?;
        connection.begin()?;
        *open = Some(Open::of(begin.clone(), connection));
        Ok(())
    }

    fn step(&self, next: &Next, rows: Rows, budgets: &Budgets) -> Result<Stepped> {
        let Next { database, number, by, .. } = next;
        let which = Which { database: database.clone(), number: *number, by: by.clone() };
        let mut open = self.open.lock();
        let open = opened(&mut open, &which)?;
        if open.is_prepared {
            return Err(Error::Unsupported(format!("steps of change {number}: it is prepared")));
        }
        open.check()?;
        // Also where it panics.
        open.has_failed = true;
        let done = self.step_of(open, next, rows, budgets);
        open.has_failed = done.is_err();
        done
    }

    fn step_of(
        &self,
        open: &mut Open,
        next: &Next,
        rows: Rows,
        budgets: &Budgets,
    ) -> Result<Stepped> {
        let (number, step) = (next.number, &next.step);
        if open.budget != next.budget {
            open.connection.configure_engine(|state| {
                *state = budgets.limited(state, next.budget.as_ref())?;
                Ok(())
            })?;
            open.budget.clone_from(&next.budget);
        }
        open.move_to(next.time_zone.as_ref())?;
        if let Some((schema, batches)) = &rows {
            self.write_rows(open.steps, schema, batches)?;
        }
        let logged = Logged { step: step.clone(), time_zone: next.time_zone.clone() };
        write(&self.log.join(format!("{}.json", open.steps)), &json(&logged)?)?;
        open.steps += 1;
        let work = Interruptible::default();
        *self.running.lock() = Some((number, open.begin.coordinator.clone(), work.handle()));
        let done = work.run(|| carry_out(&open.connection, step, rows));
        *self.running.lock() = None;
        done
    }

    /// Ends the step that is carried out, if it is of a change that is meant.
    fn interrupt(&self, is_meant: impl FnOnce(u64, &str) -> bool) {
        let running = self.running.lock();
        if let Some((number, by, handle)) = running.as_ref()
            && is_meant(*number, by)
        {
            handle.interrupt();
        }
    }

    fn write_rows(&self, step: usize, schema: &SchemaRef, batches: &[RecordBatch]) -> Result<()> {
        let path = self.log.join(format!("{step}.arrow"));
        let file = File::create(&path).map_err(storage(&path))?;
        let mut writer = FileWriter::try_new(file, schema)?;
        for batch in batches {
            writer.write(batch)?;
        }
        writer.finish()?;
        writer.get_ref().sync_all().map_err(storage(&path))
    }

    fn read_rows(&self, step: usize) -> Result<Rows> {
        let path = self.log.join(format!("{step}.arrow"));
        if !path.exists() {
            return Ok(None);
        }
        let reader = FileReader::try_new(File::open(&path).map_err(storage(&path))?, None)?;
        let schema = reader.schema();
        Ok(Some((schema, reader.collect::<Result<Vec<_>, _>>()?)))
    }

    fn prepare(&self, which: &Which) -> Result<()> {
        let mut open = self.open.lock();
        let open = opened(&mut open, which)?;
        open.check()?;
        if !open.is_prepared {
            note(&open.connection, &open.begin)?;
            write(&self.log.join("prepared"), b"")?;
            open.is_prepared = true;
        }
        Ok(())
    }

    fn commit(&self, which: &Which) -> Result<()> {
        let number = which.number;
        let mut place = self.open.lock();
        if let Some(by) = catalog::coordinator_of(&self.database.connect(), number)? {
            if !which.is_it(number, &by) {
                let other = format!("change {number}: it was dropped, and another has its number");
                return Err(Error::Unsupported(other));
            }
            self.database.share()?;
            return Ok(());
        }
        let open = opened(&mut place, which)?;
        if !open.is_prepared {
            return Err(Error::Unsupported(format!("change {number} without preparing it")));
        }
        let before = match &self.home {
            Some(home) => Database::snapshot_in(home, &self.name)?,
            None => Database::snapshot(&self.name)?,
        };
        *self.kept.lock() = Some(Arc::new(Hold::of(&before)?));
        open.connection.commit()?;
        *place = None;
        self.database.share()?;
        self.forget()
    }

    fn abort(&self, which: &Which) -> Result<()> {
        self.interrupt(|number, by| which.is_it(number, by));
        let (number, mut place) = (which.number, self.open.lock());
        match catalog::coordinator_of(&self.database.connect(), number)? {
            Some(by) if which.is_it(number, &by) => {
                Err(Error::Unsupported(format!("dropping change {number}: it is committed")))
            }
            None if opened(&mut place, which).is_ok() => self.drop_open(&mut place),
            _ => Ok(()),
        }
    }

    fn drop_open(&self, place: &mut Option<Open>) -> Result<()> {
        // First the log: after a crash the change must not come back.
        self.forget()?;
        match place.take() {
            Some(open) => Ok(open.connection.rollback()?),
            None => Ok(()),
        }
    }

    fn abandon(&self, number: u64, by: &str) -> Result<Option<Begin>> {
        self.interrupt(|running, coordinator| running == number && coordinator == by);
        let mut place = self.open.lock();
        let is_it = |open: &&Open| open.begin.number == number && open.begin.coordinator == by;
        let Some(open) = place.as_ref().filter(is_it) else { return Ok(None) };
        if open.is_prepared && !open.begin.decides {
            return Ok(Some(open.begin.clone()));
        }
        if catalog::coordinator_of(&self.database.connect(), number)?.is_some() {
            return Ok(None);
        }
        self.drop_open(&mut place)?;
        Ok(None)
    }
}

fn opened<'a>(place: &'a mut Option<Open>, which: &Which) -> Result<&'a mut Open> {
    match place {
        Some(open) if which.is_it(open.begin.number, &open.begin.coordinator) => Ok(open),
        _ => {
            let number = which.number;
            Err(Error::Unsupported(format!("change {number}, which is not open on this node")))
        }
    }
}

fn carry_out(connection: &Connection, step: &Step, rows: Rows) -> Result<Stepped> {
    match step {
        Step::Statement { sql, parameters } => {
            stepped(connection.execute(sql, &values_of(parameters)?)?)
        }
        Step::Cut { table, cut } => {
            let name = table.replace('\'', "''");
            connection.query(&format!("DELETE FROM {SCHEMA}.tables WHERE name = '{name}'"))?;
            if let Some(cut) = cut {
                let cut = cut.replace('\'', "''");
                let sql = format!("INSERT INTO {SCHEMA}.tables VALUES ('{name}', '{cut}')");
                connection.query(&sql)?;
            }
            Ok(Stepped::default())
        }
        Step::Rows { table, columns, or, behind, parameters } => {
            let Some((schema, batches)) = rows else { return Ok(Stepped::default()) };
            connection.register(ROWS, schema, batches)?;
            let columns = columns.iter().map(|column| quoted(column)).collect::<Vec<_>>();
            let (table, columns) = (quoted(table), columns.join(", "));
            let sql = format!("INSERT {or}INTO {table} ({columns}) SELECT * FROM {ROWS} {behind}");
            let added = values_of(parameters).and_then(|values| {
                let added = connection.execute(&sql, &values)?;
                stepped(added)
            });
            connection.deregister(ROWS);
            added
        }
        Step::Lend { name } => {
            let Some((schema, batches)) = rows else { return Ok(Stepped::default()) };
            connection.register(name, schema, batches)?;
            Ok(Stepped::default())
        }
        Step::Member(Member { shards, copies, shard, copy }) => {
            connection.query(&format!("DELETE FROM {SCHEMA}.member"))?;
            let values = format!("{shards}, {copies}, {shard}, {copy}");
            connection.query(&format!("INSERT INTO {SCHEMA}.member VALUES ({values})"))?;
            Ok(Stepped::default())
        }
        Step::TakeBack { names } => {
            for name in names {
                connection.deregister(name);
            }
            Ok(Stepped::default())
        }
    }
}

/// The values of parameters.
fn values_of(parameters: &[Bytes]) -> Result<Vec<Value>> {
    let values = parameters.iter().map(|bytes| value_of(bytes).map(Value::Scalar));
    values.collect::<Result<Vec<_>, _>>().map_err(Error::Unsupported)
}

/// What a statement has done, and the rows that it returns.
fn stepped(result: QueryResult) -> Result<Stepped> {
    let (changed, schema) = (result.rows_changed(), result.schema());
    if schema.fields().is_empty() {
        return Ok(Stepped { rows: changed.unwrap_or(0), returned: None });
    }
    let mut writer = StreamWriter::try_new(Vec::new(), &schema)?;
    let mut count = 0;
    for batch in result {
        let batch = batch?;
        count += batch.num_rows() as u64;
        writer.write(&with_own_texts(&batch)?)?;
    }
    let returned = Some(Bytes(writer.into_inner()?));
    Ok(Stepped { rows: changed.unwrap_or(count), returned })
}

/// Whether a change is the next one of a database whose last change has this number.
fn follows(begin: &Begin, last: u64) -> bool {
    last + 1 == begin.number || begin.joins && last < begin.number
}

fn note(connection: &Connection, begin: &Begin) -> Result<()> {
    let (number, by) = (begin.number, begin.coordinator.replace('\'', "''"));
    connection.query(&format!("INSERT INTO {SCHEMA}.changes VALUES ({number}, '{by}')"))?;
    Ok(())
}
