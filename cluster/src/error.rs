//! What can go wrong on a cluster: [`Error`]. Wherever one node is to blame, the error names it.

use datafusion::error::DataFusionError;

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
    /// The nodes do not have the same tables.
    #[error("table {table}: {message}")]
    Table {
        /// The table.
        table: String,
        /// What differs.
        message: String,
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
