//! A server of snapshots: programs that speak the PostgreSQL protocol read a database while its one
//! writer writes.
//!
//! Nothing in SwingDB needs a server. It is for programs in other languages, on other machines, and
//! for tools that speak a protocol: psql, BI tools, Grafana. Each session is a snapshot of its own,
//! taken in this process; `docs/server.md` says what a session sees and what it may do.
//!
//! | file | what is in it |
//! |---|---|
//! | [`options`] | the command line, checked |
//! | [`limits`] | limits of a session |
//! | [`session`] | a snapshot, a connection to it, and which state a statement sees |
//! | [`transport`] | bytes, plain or in TLS |
//! | [`token`] | the secret that clients show |
//! | [`registry`] | which sessions there are; interrupting them; the end |
//! | [`listen`] | accepting connections |
//! | [`postgres`] | the PostgreSQL protocol |

pub mod limits;
pub mod listen;
pub mod options;
pub mod postgres;
pub mod registry;
pub mod session;
pub mod shared;
pub mod token;
pub mod transport;
