//! Changes of the whole cluster: on all nodes, or on none.
//!
//! A change has a number, one more than that of the last. It goes in two phases:
//!
//! 1. Each node carries the change out in a transaction that it does not commit. Before it answers
//!    "prepared", the statements and rows of the change are on its disk ([`log`]).
//! 2. One of the nodes, the *decider*, commits. That commit is the decision: its transaction also
//!    writes the change's number into the decider's table `swingdb_cluster.changes`. Then the other
//!    nodes commit.
//!
//! Nobody else has to remember anything. A coordinator attends to its change by a stream from each
//! node. When that ends before the decision, the coordinator has gone: the decider drops the
//! change, as do nodes that have not prepared it. Those that have ask the decider
//! ([`orphans`](crate::node::orphans)): a number that its table lacks, and that it does not have
//! open, is not going to be there. [`Cluster::recover`](crate::Cluster::recover) does the same at
//! once. A node that dies after it has prepared carries the change out again from its log when it
//! starts.
//!
//! A number alone does not say which change is meant: nodes drop the change of a coordinator that
//! hangs, and the next change gets its number. So what a coordinator asks of a node names the
//! coordinator, and `swingdb_cluster.changes` says whose change was committed.
//!
//! Until all nodes have committed, each keeps the state before the change, and a session that finds
//! nodes of different changes asks for the older of the two.

pub(crate) mod altered;
pub(crate) mod assigned;
pub(crate) mod constants;
pub mod coordinator;
pub(crate) mod drawn;
pub mod lend;
pub mod log;
pub mod merge;
pub(crate) mod moved;
pub(crate) mod narrow;
pub mod resize;
pub mod statement;
pub(crate) mod steps;

use serde::{Deserialize, Serialize};

use crate::catalog::Member;
use crate::wire::{Budget, Bytes};

/// What a coordinator asks of a node's transaction.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Step {
    /// Runs a statement.
    Statement {
        /// Its text.
        sql: String,
        /// Its parameters, as the engine writes values.
        #[serde(default)]
        parameters: Vec<Bytes>,
    },
    /// Says how a table is cut.
    Cut {
        /// The table.
        table: String,
        /// The cut as JSON; `None`: the table is gone.
        cut: Option<String>,
    },
    /// Adds rows; they follow as batches.
    Rows {
        /// The table.
        table: String,
        /// The columns that the rows have, in order.
        columns: Vec<String>,
        /// `OR REPLACE`, `OR IGNORE`, or nothing.
        #[serde(default)]
        or: String,
        /// `ON CONFLICT ...` and `RETURNING ...`, or nothing.
        #[serde(default)]
        behind: String,
        /// The values of the parameters in that.
        #[serde(default)]
        parameters: Vec<Bytes>,
    },
    /// Rows that the next statement may read, under a name; they follow as batches.
    Lend {
        /// The name.
        name: String,
    },
    /// Says what the node is in the cluster.
    Member(Member),
    /// Rows that are not needed any more.
    TakeBack {
        /// Their names.
        names: Vec<String>,
    },
}

/// What a step has done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stepped {
    /// How many rows have changed.
    pub rows: u64,
    /// The rows of RETURNING, as an Arrow IPC stream.
    pub returned: Option<Bytes>,
}

/// The beginning of a change at a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Begin {
    /// The database.
    pub database: String,
    /// The number of the change.
    pub number: u64,
    /// The address of the node that decides.
    pub decider: String,
    /// That node's database.
    pub decider_database: String,
    /// Whether this is the decider.
    pub decides: bool,
    /// Whether the node comes to the cluster by this change: it has not seen those before.
    #[serde(default)]
    pub joins: bool,
    /// Who has begun it, and attends to it; empty: nobody does.
    #[serde(default)]
    pub coordinator: String,
}

/// A step of a change.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Next {
    /// The database.
    pub database: String,
    /// The number of the change.
    pub number: u64,
    /// The step.
    pub step: Step,
    /// Who has begun the change.
    #[serde(default)]
    pub by: String,
    /// The session's limit of memory; `None`: the node's.
    #[serde(default)]
    pub budget: Option<Budget>,
    /// The session's time zone; `None`: the node's.
    #[serde(default)]
    pub time_zone: Option<String>,
}

/// A step as a node writes it down, to carry it out again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Logged {
    /// The step.
    pub step: Step,
    /// The time zone in which it was carried out; `None`: the node's.
    pub time_zone: Option<String>,
}

/// A question about a change, or an order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Which {
    /// The database.
    pub database: String,
    /// The number of the change.
    pub number: u64,
    /// Who has begun it; empty: whoever has.
    #[serde(default)]
    pub by: String,
}

impl Which {
    /// Whether a change of this number is meant that somebody has begun.
    pub fn is_it(&self, number: u64, by: &str) -> bool {
        number == self.number && (self.by.is_empty() || self.by == by)
    }
}

/// What a node knows of the changes of a database.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Standing {
    /// The last change that it has committed.
    pub last: u64,
    /// The change that is prepared, or begun.
    pub open: Option<Begin>,
    /// Whether it is prepared.
    pub is_prepared: bool,
    /// What the node is in the cluster.
    pub place: Option<Member>,
}
