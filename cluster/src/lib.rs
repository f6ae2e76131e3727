//! A cluster: shards of tables on several machines, each with its own SwingDB, read as one table.
//!
//! Each machine runs `swingdb-node` ([`node`]). A program opens a [`Cluster`] of their addresses,
//! and a [`Session`] on it sees the tables of all nodes, at one state of all.
//!
//! | file | what is in it |
//! |---|---|
//! | [`error`] | what goes wrong, with the node that is to blame |
//! | `names` | names in SQL texts |
//! | [`cut`] | how rows are dealt out to nodes |
//! | `bounds` | bounds of range cuts, as they are kept |
//! | [`prune`] | which nodes a condition leaves out |
//! | `reduce` | keys of joins that are asked for before a plan is sent |
//! | [`wire`] | messages between coordinator and nodes |
//! | [`settings`] | settings of a session that travel with plans |
//! | `staged` | parts of a plan that run at the nodes, where the whole cannot |
//! | `subqueries` | values that are computed before a plan is sent |
//! | `blame` | nodes that are out of memory, in errors of plans |
//! | [`client`] | connections, limits of time |
//! | [`catalog`] | what a node's database knows of the cluster |
//! | [`scan`] | tables and their shards in plans |
//! | [`colocate`], [`local_shuffle`] | work that stays where its rows are |
//! | [`functions`] | functions of plans that carry something besides their names |
//! | [`by_cut`] | shuffles that send rows to where a cut has put their keys |
//! | `few_groups` | groups that one task puts together |
//! | `joins` | the database's own joins, as bytes and in their places |
//! | `top_of_groups` | another operator of the database's, as bytes |
//! | [`planner`] | which parts of a plan run where |
//! | `shown` | what EXPLAIN shows of queries that come before a statement |
//! | [`node`] | the server |
//! | [`changes`] | changes of all nodes or none |
//! | [`cluster`], [`session`] | the coordinator |
//! | `listings` | what statements list of tables and other definitions |
//! | `block` | transactions of several statements |
//! | `parameters` | values of statements, and of their parts |
//! | [`list`] | a file that names the nodes |
//! | [`serve`] | a session for a program in another language |

#![forbid(unsafe_code)]

pub(crate) mod blame;
pub(crate) mod block;
pub(crate) mod bounds;
pub mod by_cut;
pub mod catalog;
pub mod changes;
pub mod client;
pub mod cluster;
pub mod colocate;
pub mod cut;
pub mod error;
pub(crate) mod few_groups;
pub mod functions;
pub(crate) mod joins;
pub mod list;
pub(crate) mod listings;
pub mod local_shuffle;
pub(crate) mod names;
pub mod node;
pub(crate) mod parameters;
pub mod planner;
pub mod prune;
pub(crate) mod reduce;
pub mod scan;
pub mod serve;
pub mod session;
pub mod settings;
pub(crate) mod shown;
pub(crate) mod staged;
pub(crate) mod subqueries;
pub(crate) mod top_of_groups;
pub mod wire;

pub use cluster::{Cluster, Options};
pub use cut::Cut;
pub use error::{Error, Result};
pub use list::List;
pub use parameters::Given;
pub use session::{Rows, Session};
