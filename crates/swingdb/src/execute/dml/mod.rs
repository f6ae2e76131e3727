//! Statements that change rows.
//!
//! They come parsed, their parameters numbered and their names in the right case. Rows are changed
//! in three steps: an ordinary query finds rows and computes values ([`update`], [`merge`],
//! [`insert`]); [`cast`](swingdb_common::cast) turns them into what the columns store, or says why
//! not; the store's write transaction applies them. [`changes`](super::changes) makes each
//! statement atomic.
//!
//! | module | statements |
//! |---|---|
//! | [`insert`], [`on_conflict`] | INSERT (VALUES, queries, BY NAME, ON CONFLICT) |
//! | [`update`] | UPDATE, DELETE, TRUNCATE |
//! | [`merge`] | MERGE INTO |

pub(crate) mod defaults;
pub(crate) mod insert;
pub(crate) mod length;
pub(crate) mod literals;
pub(crate) mod merge;
pub(crate) mod on_conflict;
pub(crate) mod returning;
pub(crate) mod row_set;
pub(crate) mod set_list;
pub(crate) mod update;
