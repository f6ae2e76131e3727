//! Statements that change what there is: CREATE, ALTER, DROP.

pub(crate) mod alter;
pub(crate) mod checks;
pub(crate) mod column_defs;
pub(crate) mod comments;
pub(crate) mod create;
pub(crate) mod create_as;
pub(crate) mod drop;
pub(crate) mod foreign;
pub(crate) mod generated;
pub(crate) mod indexes;
pub(crate) mod macros;
pub(crate) mod sequences;
pub(crate) mod types;
