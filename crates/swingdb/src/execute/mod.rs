//! Carrying statements out: all that changes a database, writes or reads files, or tells what is
//! there.
//!
//! [`statement`] takes each statement of a text to its place: changes of rows ([`dml`]) and of what
//! there is ([`ddl`]) through [`changes`], which makes each atomic; files ([`copy`], [`backup`]);
//! what is told ([`show`], [`explain`]).

pub(crate) mod about_session;
pub(crate) mod again;
pub(crate) mod append;
pub(crate) mod appender;
pub(crate) mod atomic;
pub(crate) mod backup;
pub(crate) mod bulk;
pub(crate) mod changes;
pub(crate) mod copy;
pub(crate) mod ddl;
pub(crate) mod dml;
pub(crate) mod explain;
pub(crate) mod parameter_types;
pub(crate) mod prepared;
pub(crate) mod query;
pub(crate) mod show;
pub(crate) mod statement;
pub(crate) mod target;
pub(crate) mod with_changes;
