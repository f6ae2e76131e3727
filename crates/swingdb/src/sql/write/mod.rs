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

pub(crate) mod alter;
mod arrows;
pub(crate) mod assign;
pub(crate) mod ast;
pub(crate) mod check;
pub(crate) mod conflict;
pub(crate) mod create;
mod create_as;
pub(crate) mod defaults;
pub(crate) mod dispatch;
pub(crate) mod insert;
pub(crate) mod merge;
pub(crate) mod remove;
pub(crate) mod returning;
pub(crate) mod rowset;
pub(crate) mod target;
pub(crate) mod tokens;
pub(crate) mod txn;
pub(crate) mod update;
pub(crate) mod values;

pub(crate) use dispatch::{Outcome, execute, explain_query, handles, with_txn, with_txn_of};
pub(crate) use txn::{Begin, TxnState};
