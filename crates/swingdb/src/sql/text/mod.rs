//! Text: from characters to [statements](statement::Parsed).
//!
//! The tokens of a text are rewritten where the parser does not know a form ([`tokens`],
//! [`forms`]), then parsed ([`parser`]): by DataFusion's parser in our [`dialect`], and before it
//! by our own parsers for statements that only this database has ([`macros`], [`sequences`],
//! [`backup`], [`copy`]). What nobody would carry out is refused at once ([`clauses`],
//! [`refused`]).
//!
//! This stage sees one text. It knows no catalog and no session.

pub(crate) mod asof;
pub(crate) mod backup;
pub(crate) mod clauses;
pub(crate) mod comprehensions;
pub(crate) mod copy;
pub(crate) mod depth;
pub(crate) mod dialect;
pub(crate) mod filter_clause;
pub(crate) mod forms;
pub(crate) mod from_first;
pub(crate) mod grouping_sets;
pub(crate) mod json_arrows;
pub(crate) mod macros;
pub(crate) mod parameters;
pub(crate) mod parser;
pub(crate) mod pivot;
pub(crate) mod query_starts;
pub(crate) mod refused;
pub(crate) mod relation_statements;
pub(crate) mod sequences;
pub(crate) mod star_patterns;
pub(crate) mod statement;
pub(crate) mod tokens;
pub(crate) mod using_sample;
pub(crate) mod words;
