//! TODO

pub(crate) mod backup;
pub(crate) mod comprehensions;
pub(crate) mod depth;
pub(crate) mod dialect;
pub(crate) mod filter_clause;
pub(crate) mod from_first;
pub(crate) mod json_arrows;
pub(crate) mod macros;
pub(crate) mod parameters;
pub(crate) mod pivot;
pub(crate) mod query_starts;
pub(crate) mod refused;
pub(crate) mod relation_statements;
pub(crate) mod sequences;
pub(crate) mod star_patterns;
pub(crate) mod tokens;
pub(crate) mod using_sample;
