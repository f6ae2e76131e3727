//! Statements that change something.
//!
//! [`execute`] takes one parsed statement whose parameters are numbered and whose names are in
//! their right case. Data is changed in three steps: an ordinary query finds rows and computes
//! values ([`update`], [`merge`], [`insert`]); [`convert`] turns them into what the columns store,
//! or says why not; the store's write transaction applies them. [`txn`] makes each statement atomic
//! and keeps BEGIN ... COMMIT.
//!
//! | module | statements |
//! |---|---|
//! | [`insert`], [`conflict`] | INSERT (VALUES, queries, BY NAME, ON CONFLICT) |
//! | [`update`] | UPDATE, DELETE, TRUNCATE |
//! | [`merge`] | MERGE INTO |
//! | [`create`], [`create_as`] | CREATE TABLE / VIEW / SCHEMA, also AS and CLONE |
//! | [`alter`], [`remove`] | ALTER TABLE; DROP |
//! | [`txn`] | BEGIN, COMMIT, ROLLBACK, SAVEPOINT, RELEASE |

pub(crate) mod defaults;
pub(crate) mod insert;
pub(crate) mod literals;
pub(crate) mod merge;
pub(crate) mod on_conflict;
pub(crate) mod returning;
pub(crate) mod row_set;
pub(crate) mod set_list;
pub(crate) mod update;
