//! Text: from characters to [statements](statement::Parsed).
//!
//! Forms that the parser does not know are rewritten in the tokens of the text
//! ([`statement_forms`], [`forms`]). Then the text is parsed ([`parser`]): by DataFusion's parser
//! in our [`dialect`], and before it by our own parsers for statements that only this database has
//! ([`macros`], [`sequences`], [`types`], [`backup`], [`copy`]). Clauses that no later stage
//! implements are refused at once ([`clauses`], [`refused`]). Who only needs to know where a
//! statement ends asks the [`cutter`]; who keeps plans asks for a [`template`].
//!
//! This stage sees one text. It knows no catalog and no session.

pub(crate) mod about_session;
pub mod asof;
pub(crate) mod backup;
pub(crate) mod clauses;
pub(crate) mod collations;
pub(crate) mod comprehensions;
pub(crate) mod copy;
pub mod cutter;
pub mod depth;
pub mod dialect;
pub(crate) mod dropped_words;
pub(crate) mod filter_clause;
pub(crate) mod forms;
pub(crate) mod frame_exclude;
pub(crate) mod from_first;
pub(crate) mod grouping_sets;
pub(crate) mod json_arrows;
pub(crate) mod limit_percent;
pub(crate) mod macros;
pub(crate) mod map_keys;
pub mod parameters;
pub mod parser;
pub(crate) mod pivot;
pub(crate) mod pivot_clauses;
pub(crate) mod postgres;
pub(crate) mod query_starts;
pub mod refused;
pub mod relation_statements;
pub(crate) mod sequences;
pub(crate) mod star_patterns;
pub mod statement;
pub(crate) mod statement_forms;
pub mod template;
pub(crate) mod tokens;
pub(crate) mod types;
pub(crate) mod using_key;
pub(crate) mod using_sample;
pub(crate) mod words;
