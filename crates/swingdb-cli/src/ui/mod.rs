//! The web page of `swingdb ui`: its HTTP server, and what the page asks for.
//!
//! | file | what is in it |
//! |---|---|
//! | [`http`] | requests and responses of HTTP/1.1, with limits and deadlines |
//! | [`guard`] | which requests are answered: token, `Host`, `Origin` |
//! | [`assets`] | the files of the page, part of the program |
//! | [`grid`] | rows as text, kept within limits |
//! | [`run`] | the statements of one cell: progress, results, cancelling |
//! | [`state`] | sessions (snapshots) and runs |
//! | [`overview`] | databases, and which process holds which memory |
//! | [`tables`] | tables, columns, sizes |
//! | [`api`] | the calls of the page; `docs/ui.md` describes them |
//! | [`listen`] | accepting connections |
//!
//! Threads: one accepts connections, one for each open connection, one for each running cell, one
//! that ends forgotten sessions. Each kind has a maximum. Queries compute on the engine's threads.

mod api;
mod assets;
mod grid;
mod guard;
mod http;
mod listen;
mod overview;
mod run;
mod state;
mod tables;

pub use guard::Token;
pub use listen::Server;
pub use state::{Limits, State};
