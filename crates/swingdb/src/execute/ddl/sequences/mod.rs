//! CREATE SEQUENCE: numbers that `nextval('s')` gives out one after the other.
//!
//! A statement that takes numbers is one that changes the database, also a SELECT: it runs in the
//! session's write transaction, which notes at its end what was given out. Meanwhile the sequences
//! it has taken from are in memory, behind a lock, for all its threads
//! ([`Numbers`](crate::session::sequences::Numbers)). Numbers are
//! part of what a transaction does, as rows are: what is rolled back is given out again.
//!
//! | module | |
//! |---|---|
//! | `text::sequences` of `swingdb-sql` | the statements |
//! | [`define`] | CREATE, ALTER, DROP, SHOW |
//! | [`bind::sequences`](swingdb_sql::bind::sequences) | which sequences a statement means |
//! | [`session::sequences`](crate::session::sequences) | `nextval` and `currval` |

pub(crate) mod define;
