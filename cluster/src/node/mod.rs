//! A node: serves snapshots of the databases of its machine to coordinators and other nodes.
//!
//! A snapshot lives as long as the stream that it was asked for by: it ends with the coordinator,
//! however that dies. Parts of plans run here (`datafusion-distributed`'s worker); they read the
//! snapshots of this node by their numbers, and those of other nodes over the network.

pub mod aside;
pub mod budget;
pub mod options;
pub mod orphans;
pub mod service;
pub mod whole_groups;
pub mod worker;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::common::Constraint;
use parking_lot::Mutex;
use swingdb::{Connection, Database};
use swingdb_sql::engine::sample_columns;

use crate::catalog;
use crate::changes::log::Changes;
use crate::error::{Error, Result};
use crate::node::budget::Budgets;
use crate::wire::{self, Contents, Held, HeldTable, Shows, schema_bytes, statistics_bytes};

/// The state of a node's process.
pub struct Node {
    /// Identifies this process to everybody: a scan on it is a local one.
    pub process: String,
    home: Option<PathBuf>,
    token: Option<String>,
    holds: Mutex<HashMap<u64, Arc<Hold>>>,
    next: AtomicU64,
    /// The newest states of the databases that it owns.
    current: Mutex<HashMap<String, Current>>,
    /// Coordinators that attend to their changes.
    pub attending: Mutex<HashSet<String>>,
    /// The databases that this node writes, and what is prepared in them.
    pub changes: Changes,
    /// The limits of memory of sessions.
    pub budgets: Arc<Budgets>,
}

/// A snapshot that somebody has.
pub struct Hold {
    /// A session that reads it.
    pub connection: Connection,
    /// The change of the cluster that it shows.
    pub change: u64,
}

/// The newest state of a database, as far as somebody has asked for it.
struct Current {
    epoch: u64,
    hold: Arc<Hold>,
    contents: Arc<Contents>,
}

/// The right to read a snapshot of a node; it ends with its drop.
pub struct HoldGuard {
    node: Arc<Node>,
    number: u64,
}

impl Drop for HoldGuard {
    fn drop(&mut self) {
        self.node.holds.lock().remove(&self.number);
    }
}

impl Node {
    /// A node for the databases of a namespace. `writes` names those that it owns and changes.
    pub fn new(home: Option<PathBuf>, token: Option<String>, writes: &[String]) -> Result<Self> {
        let process = format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
        let (holds, next) = (Mutex::default(), AtomicU64::new(1));
        let budgets = Arc::new(Budgets::default());
        let changes = Changes::open(home.as_deref(), writes, Arc::clone(&budgets))?;
        let (current, attending) = (Mutex::default(), Mutex::default());
        Ok(Self { process, home, token, holds, next, current, attending, changes, budgets })
    }

    /// The secret that this node asks for, and shows to other nodes.
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Takes a snapshot of a database, which shows a certain state. What is in it is not said again
    /// where `known` is this process and the snapshot's epoch.
    pub fn hold(
        self: &Arc<Self>,
        database: &str,
        shows: Shows,
        known: Option<(String, u64)>,
    ) -> Result<(HoldGuard, Held)> {
        let (hold, contents) = match shows {
            Shows::Newest => self.current(database)?,
            Shows::Open(number) => (Arc::new(self.changes.reading(database, number)?), None),
            Shows::After(change) => {
                let kept = self.changes.kept(database, change);
                let (hold, contents) = match kept {
                    Some(kept) => (kept, None),
                    None => self.current(database)?,
                };
                if hold.change != change {
                    return Err(Error::Unsupported(format!(
                        "the state after change {change} of database {database}; the newest is \
                         after {}",
                        hold.change
                    )));
                }
                (hold, contents)
            }
        };
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.holds.lock().insert(number, Arc::clone(&hold));
        let guard = HoldGuard { node: Arc::clone(self), number };
        let epoch = hold.connection.database().epoch().unwrap_or(0);
        // Only of a database that it owns this node knows that an epoch means one state.
        let is_known = known
            .is_some_and(|(process, known)| process == self.process && known == epoch)
            && !matches!(shows, Shows::Open(_))
            && self.changes.epoch(database).is_some();
        let contents = match (is_known, contents) {
            (true, _) => None,
            (false, Some(contents)) => Some(contents.as_ref().clone()),
            (false, None) => Some(contents_of(&hold)?),
        };
        let (process, change, memory) = (self.process.clone(), hold.change, budget::of_node()?);
        Ok((guard, Held { hold: number, process, epoch, change, memory, contents }))
    }

    /// The newest shared state, and what is in it. Of a database that this node owns, both are made
    /// once for each state.
    pub fn current(&self, database: &str) -> Result<(Arc<Hold>, Option<Arc<Contents>>)> {
        let epoch = self.changes.epoch(database);
        if let Some(known) = self.current.lock().get(database)
            && epoch == Some(known.epoch)
        {
            return Ok((Arc::clone(&known.hold), Some(Arc::clone(&known.contents))));
        }
        let hold = Arc::new(self.newest(database)?);
        let (true, Some(epoch)) = (epoch.is_some(), hold.connection.database().epoch()) else {
            return Ok((hold, None));
        };
        let contents = Arc::new(contents_of(&hold)?);
        let (made, said) = (Arc::clone(&hold), Arc::clone(&contents));
        let mut current = self.current.lock();
        // Another thread may have taken a newer one meanwhile.
        if current.get(database).is_none_or(|known| known.epoch <= epoch) {
            let known = Current { epoch, hold: made, contents: said };
            current.insert(database.to_string(), known);
        }
        Ok((hold, Some(contents)))
    }

    /// The newest shared state of a database.
    pub fn newest(&self, database: &str) -> Result<Hold> {
        let snapshot = match &self.home {
            Some(home) => Database::snapshot_in(home, database)?,
            None => Database::snapshot(database)?,
        };
        Hold::of(&snapshot)
    }

    /// The snapshot of a number.
    pub fn held(&self, number: u64) -> Result<Arc<Hold>> {
        let found = self.holds.lock().get(&number).cloned();
        found.ok_or_else(|| {
            Error::Unsupported(format!("snapshot {number}, which this node does not hold any more"))
        })
    }

    /// How many snapshots are held.
    pub fn holds(&self) -> usize {
        self.holds.lock().len()
    }
}

/// What is in a snapshot.
fn contents_of(hold: &Hold) -> Result<Contents> {
    let connection = &hold.connection;
    let cuts = catalog::cuts(connection)?;
    let mut tables = Vec::new();
    for name in catalog::tables(connection)? {
        let provider = connection.table_provider("main", &name)?;
        let keys = provider.constraints().into_iter().flat_map(|all| all.iter());
        let primary_key = keys.clone().find_map(|constraint| match constraint {
            Constraint::PrimaryKey(columns) => Some(columns.clone()),
            Constraint::Unique(_) => None,
        });
        sample_columns(provider.as_ref());
        let statistics = provider
            .statistics()
            .unwrap_or_else(|| datafusion::common::Statistics::new_unknown(&provider.schema()));
        tables.push(HeldTable {
            schema: schema_bytes(&provider.schema()),
            statistics: statistics_bytes(&statistics),
            primary_key: primary_key.unwrap_or_default(),
            cut: cuts.get(&name).cloned().unwrap_or_default(),
            name,
        });
    }
    let place = catalog::member(connection)?;
    let (definitions, script) = catalog::definitions(connection)?;
    Ok(Contents { place, tables, definitions, script })
}

impl Hold {
    /// A session on a snapshot.
    pub fn of(snapshot: &Database) -> Result<Self> {
        let connection = snapshot.connect();
        connection.set_read_only("nodes serve snapshots");
        let change = catalog::change(&connection)?;
        Ok(Self { connection, change })
    }
}

/// Whether two versions can work with each other.
pub fn check_version(theirs: &str) -> std::result::Result<(), String> {
    let ours = wire::version();
    match theirs == ours {
        true => Ok(()),
        false => Err(ours),
    }
}
