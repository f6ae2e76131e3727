//! What a state of a database is: its schemas and what these have, down to the pages of tables.
//!
//! ```text
//! Catalog (state) -> SchemaNode (schema) -> TableList -> TableEntry -> Table -> Page -> segments
//! ```
//!
//! All of it is immutable: [`edit`] makes new versions of tables from old ones. What a table is
//! made of is its [`definition`], with its [`rules`] and [`notes`]; [`macros`], [`sequences`] and
//! [`types`] belong to a schema, and [`lookup`] finds them. A state also says which store on a disk
//! the database has ([`link`]), and from which states it came ([`history`]).

pub(crate) mod definition;
pub(crate) mod edit;
pub(crate) mod entry;
pub(crate) mod history;
pub(crate) mod link;
pub(crate) mod lookup;
pub(crate) mod macros;
pub(crate) mod names;
pub(crate) mod notes;
pub(crate) mod page;
pub(crate) mod rules;
pub(crate) mod schema;
pub(crate) mod sequences;
pub(crate) mod state;
pub(crate) mod table;
pub(crate) mod table_list;
pub(crate) mod types;
