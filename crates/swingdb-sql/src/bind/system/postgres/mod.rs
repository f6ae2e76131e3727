//! The tables of `pg_catalog`, by which clients of PostgreSQL find tables, columns, keys, indexes
//! and comments. They list the session's own database and its temporary tables.
//!
//! | file | what is there |
//! |---|---|
//! | [`relations`] | schemas, tables, views |
//! | [`columns`] | columns, defaults, types |
//! | [`keys`] | indexes and constraints |
//! | [`routines`] | functions and sequences |
//! | [`comments`] | comments |
//! | [`cluster`] | databases, users, settings |
//! | [`empty`] | tables that have no rows |
//! | [`by_number`] | what functions tell of an object by its number |

mod by_number;
mod cluster;
mod columns;
mod comments;
mod empty;
mod keys;
mod relations;
mod routines;

use crate::bind::system::constraints;
use crate::bind::system::objects::{Database, Objects, Relation, Schema};

pub(super) use self::by_number::{Registered, looked_up, registered};
pub(super) use self::cluster::{access_methods, database, roles, settings, tablespaces, users};
pub(super) use self::columns::{all_types, attrdef, attribute};
pub(super) use self::comments::description;
pub(super) use self::empty::EMPTY;
pub(super) use self::keys::{constraint, index, indexes};
pub(super) use self::relations::{class, namespace, tables, views};
pub(super) use self::routines::{procedures, sequence_numbers, sequences};

/// The number of the one user.
const OWNER: i64 = 10;
/// The name of the one user.
const USER: &str = "swingdb";
/// The numbers of `pg_class` and others of PostgreSQL's own tables, as PostgreSQL has them.
const PG_CLASS: i64 = 1259;
const PG_PROC: i64 = 1255;
const CATALOG_TABLES: [(&str, i64); 20] = [
    ("pg_am", 2601),
    ("pg_attrdef", 2604),
    ("pg_attribute", 1249),
    ("pg_class", PG_CLASS),
    ("pg_collation", 3456),
    ("pg_constraint", 2606),
    ("pg_database", 1262),
    ("pg_depend", 2608),
    ("pg_description", 2609),
    ("pg_enum", 3501),
    ("pg_extension", 3079),
    ("pg_index", 2610),
    ("pg_inherits", 2611),
    ("pg_namespace", 2615),
    ("pg_proc", PG_PROC),
    ("pg_rewrite", 2618),
    ("pg_sequence", 2224),
    ("pg_tablespace", 1213),
    ("pg_trigger", 2620),
    ("pg_type", 1247),
];

/// The numbers of the ways to store tables and indexes, as PostgreSQL has them.
const HEAP: i64 = 2;
const BTREE: i64 = 403;

/// Whether a constraint has an index in PostgreSQL; it has the number of the constraint.
fn is_key(kind: constraints::Kind) -> bool {
    matches!(kind, constraints::Kind::Primary | constraints::Kind::Unique)
}

impl Objects {
    /// The schemas of the own database and of temporary tables.
    fn own_schemas(&self) -> impl Iterator<Item = (&Database, &Schema)> {
        self.schemas().filter(|(database, _)| !database.attached)
    }

    fn own_relations(&self) -> impl Iterator<Item = (&Database, &Schema, &Relation)> {
        self.relations().filter(|(database, _, _)| !database.attached)
    }
}
