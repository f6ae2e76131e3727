//! Types that statements have named: `CREATE TYPE mood AS ENUM ('sad', 'ok')`.
//!
//! A name stands for a type, whose SQL is kept as text. Columns have the type itself, not its name:
//! so a type can be dropped, and what was made with it stays as it is.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Named types of a schema: for each name the SQL of the type.
pub(crate) type Types = BTreeMap<Arc<str>, Arc<str>>;
