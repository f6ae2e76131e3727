//! EXPORT DATABASE and IMPORT DATABASE: a whole database as a folder of SQL scripts and data files.
//!
//! The folder has the form of DuckDB's: `schema.sql` makes schemas, sequences, tables, macros and
//! views; `load.sql` has one COPY for each table; each table has one data file. `swingdb.sql` has
//! the statements that no other system knows. It is there only if it has some. All three are
//! ordinary SQL that anybody can run by hand.
//!
//! **Export.** One immutable catalog state is written. Its scripts are tried out first, in an empty
//! private database, and must make the same definitions there ([`script`]); so an export that
//! succeeds can be imported. Files are written under a temporary name ([`OutputFolder`]).
//!
//! **Import.** The scripts run in one transaction, in a session that knows nothing but the database
//! ([`Session::alone`]): temporary tables, variables of a program and attached databases cannot be
//! mistaken for what the scripts name. An error undoes all of it ([`read`]).
//!
//! | module | |
//! |---|---|
//! | `text::backup` of `swingdb-sql` | the statements |
//! | [`script`] | the statements that make what a catalog has, and in which order |
//! | [`force`] | CREATE FORCE VIEW |
//! | [`files`] | names of data files; values that Parquet has no type for |
//! | [`write`] | EXPORT DATABASE |
//! | [`read`] | IMPORT DATABASE |
//!
//! [`OutputFolder`]: swingdb_files::output_folder::OutputFolder
//! [`Session::alone`]: crate::session::Session::alone

pub(crate) mod files;
pub(crate) mod force;
pub(crate) mod read;
pub(crate) mod script;
pub(crate) mod write;

/// Makes schemas, sequences, tables, macros and views.
const SCHEMA: &str = "schema.sql";
/// Fills the tables.
const LOAD: &str = "load.sql";
/// What only this database understands.
const OWN: &str = "swingdb.sql";
