//! TODO

pub(crate) mod append;
pub(crate) mod appender;
pub(crate) mod backup;
pub(crate) mod changes;
pub(crate) mod copy;
pub(crate) mod ddl;
pub(crate) mod dml;
pub(crate) mod explain;
pub(crate) mod prepared;
pub(crate) mod show;
pub(crate) mod statement;
pub(crate) mod target;
