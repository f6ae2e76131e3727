//! What can go wrong on a cluster: [`Error`]. Wherever one node is to blame, the error names it.

use datafusion::error::DataFusionError;
use swingdb::Error as DatabaseError;

/// How [`Error::Unsupported`] begins.
const REFUSED: &str = "not supported on a cluster: ";

/// The result of operations on a cluster.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// See the [module documentation](self).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An address that is none.
    #[error("{address:?} is no address of a node: write HOST:PORT/DATABASE")]
    Address {
        /// What was given.
        address: String,
    },
    /// A file that is no list of nodes.
    #[error("{}{}: {message}", .file.display(), of_line(*.line))]
    List {
        /// The file.
        file: std::path::PathBuf,
        /// The line; 0: none.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// A text that is no cut.
    #[error(
        "{text:?} is none of as_it_lies, replicated, hash:COLUMN, range:COLUMN:BOUND,BOUND,..."
    )]
    Cut {
        /// What was given.
        text: String,
    },
    /// A node cannot be reached, or has gone away.
    #[error("node {node} does not answer: {message}")]
    NodeLost {
        /// Its address.
        node: String,
        /// What the network said.
        message: String,
    },
    /// A node took longer than it may.
    #[error("node {node} did not answer within {seconds} s")]
    NodeSlow {
        /// Its address.
        node: String,
        /// The limit.
        seconds: f64,
    },
    /// A node of another version.
    #[error("node {node} has version {theirs}, this is {ours}: all nodes need the same version")]
    NodeVersion {
        /// Its address.
        node: String,
        /// Its version.
        theirs: String,
        /// The version of this program.
        ours: String,
    },
    /// A node refused to do something, or failed.
    #[error("node {node}: {message}")]
    NodeFailed {
        /// Its address.
        node: String,
        /// Its words.
        message: String,
    },
    /// A statement failed at a node as it would on one machine: a key is there twice, a value does
    /// not fit.
    #[error("node {node}: {message}")]
    Statement {
        /// The node's address.
        node: String,
        /// The name of the exception that other languages raise.
        class: String,
        /// Its words.
        message: String,
    },
    /// The nodes do not have the same tables.
    #[error("table {table}: {message}")]
    Table {
        /// The table.
        table: String,
        /// What differs.
        message: String,
    },
    /// A list of nodes that is not that of the cluster.
    #[error(
        "node {node} is {theirs}, and {ours} in this list: write all nodes of the cluster in their \
         order; Cluster::resize adds and removes nodes"
    )]
    Member {
        /// The node.
        node: String,
        /// What it is by what it knows.
        theirs: String,
        /// What it is in the list.
        ours: String,
    },
    /// What a cluster does not do.
    #[error("not supported on a cluster: {0}")]
    Unsupported(String),
    /// A change was decided, but some nodes could not be told. It will be carried out.
    #[error(
        "change {change} is decided and will be visible on all nodes, but node {node} could not be \
         told: {message}; Cluster::recover, or the next session that changes something, tells it"
    )]
    Undelivered {
        /// The change.
        change: String,
        /// The node.
        node: String,
        /// What happened.
        message: String,
    },
    /// The network between coordinator and node broke while a change was decided.
    #[error(
        "it is not known whether change {change} was carried out: node {node} decides, and does \
         not answer: {message}; Cluster::recover settles it once the node is back"
    )]
    InDoubt {
        /// The change.
        change: String,
        /// The node that decides.
        node: String,
        /// What happened.
        message: String,
    },
    /// An error of the database.
    #[error(transparent)]
    Database(#[from] swingdb::Error),
}

impl Error {
    /// The exception of a statement that is wrong, whatever node it runs at.
    pub(crate) fn class_of_statement(&self) -> Option<&'static str> {
        match self {
            Self::Database(error) if is_of_statement(error) => Some(class_of(error)),
            _ => None,
        }
    }
}

fn is_of_statement(error: &DatabaseError) -> bool {
    match error {
        DatabaseError::Parse { .. }
        | DatabaseError::Plan { .. }
        | DatabaseError::NotFound { .. }
        | DatabaseError::AlreadyExists { .. }
        | DatabaseError::Constraint { .. }
        | DatabaseError::Conversion { .. }
        | DatabaseError::LimitReached { .. }
        | DatabaseError::Unsupported { .. }
        | DatabaseError::Execution { .. } => true,
        DatabaseError::InStatement { error, .. } => is_of_statement(error),
        _ => false,
    }
}

/// The exception of a database's error.
pub(crate) fn class_of(error: &DatabaseError) -> &'static str {
    match error {
        DatabaseError::Parse { .. } => "ParseError",
        DatabaseError::Plan { .. } => "PlanError",
        DatabaseError::NotFound { .. } => "NotFoundError",
        DatabaseError::AlreadyExists { .. } => "AlreadyExistsError",
        DatabaseError::Constraint { .. } => "ConstraintError",
        DatabaseError::Conversion { .. } => "ConversionError",
        DatabaseError::Import { .. } => "FileImportError",
        DatabaseError::OutOfMemory { .. } | DatabaseError::TemporaryFile { is_full: true, .. } => {
            "OutOfMemoryError"
        }
        DatabaseError::Busy { .. } | DatabaseError::Refused { .. } => "BusyError",
        DatabaseError::NotShared { .. } => "NotSharedError",
        DatabaseError::Transaction { .. } => "TransactionError",
        DatabaseError::Io { .. } | DatabaseError::TemporaryFile { .. } => "FileError",
        DatabaseError::Interrupted => "QueryInterruptedError",
        DatabaseError::TimedOut { .. } => "StatementTimeoutError",
        DatabaseError::LimitReached { .. } => "LimitReachedError",
        DatabaseError::NotAllowed { .. } => "NotAllowedError",
        DatabaseError::Unsupported { .. } => "NotSupportedError",
        DatabaseError::Execution { .. } => "ExecutionError",
        DatabaseError::InStatement { error, .. } => class_of(error),
        _ => "OperationalError",
    }
}

fn of_line(line: usize) -> String {
    if line == 0 { String::new() } else { format!(", line {line}") }
}

/// Refuses what a cluster does not do.
pub(crate) fn refused<T>(what: impl Into<String>) -> Result<T> {
    Err(Error::Unsupported(what.into()))
}

/// Refuses a join by the order of rows.
pub(crate) fn in_any_order(table: &str) -> Error {
    Error::Unsupported(format!(
        "POSITIONAL JOIN with {table}, whose rows have no order over several nodes"
    ))
}

/// A refusal of the planner's, which comes back as a text.
pub(crate) fn refusal_in(text: &str) -> Option<Error> {
    let (_, what) = text.split_once(REFUSED)?;
    Some(Error::Unsupported(what.to_string()))
}

impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        Self::External(Box::new(error))
    }
}

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Self {
        Self::Database(error.into())
    }
}

impl From<arrow::error::ArrowError> for Error {
    fn from(error: arrow::error::ArrowError) -> Self {
        Self::Database(error.into())
    }
}
