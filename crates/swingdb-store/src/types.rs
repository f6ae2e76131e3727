//! Types that statements have named: `CREATE TYPE mood AS ENUM ('sad', 'ok')`.
//!
//! A name stands for a type, whose SQL is kept as text. Columns have the type itself, not its name:
//! so a type can be dropped, and what was made with it stays as it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use swingdb_common::error::{Error, ObjectKind, Result};

use super::alter::{IfExists, check_name};
use super::catalog::Catalog;
use super::txn::WriteTxn;

/// Named types of a schema: for each name the SQL of the type.
pub(super) type Types = BTreeMap<Arc<str>, Arc<str>>;

impl Catalog {
    /// Whether there is any named type.
    pub fn has_types(&self) -> bool {
        self.schemas.values().any(|node| !node.types.is_empty())
    }

    /// Named types of a schema in alphabetical order.
    pub fn type_names(&self, schema: &str) -> Vec<String> {
        let all = self.schemas.get(schema).into_iter().flat_map(|node| node.types.keys());
        all.map(|name| name.to_string()).collect()
    }

    /// The SQL of a named type.
    pub fn find_type(&self, schema: &str, name: &str) -> Option<Arc<str>> {
        self.schemas.get(schema)?.types.get(name).cloned()
    }
}

impl WriteTxn {
    /// Names a type; `false`: the name existed and `if_exists` is `Skip`.
    pub fn create_type(
        &mut self,
        schema: &str,
        name: &str,
        sql: &str,
        if_exists: IfExists,
    ) -> Result<bool> {
        check_name(name)?;
        self.check_schema(schema)?;
        if self.current.find_type(schema, name).is_some() {
            match if_exists {
                IfExists::Skip => return Ok(false),
                IfExists::Replace => {}
                IfExists::Fail => {
                    let (kind, name) = (ObjectKind::Type, name.to_owned());
                    return Err(Error::AlreadyExists { kind, name });
                }
            }
        }
        self.change_schema(schema, |node| {
            node.types.insert(Arc::from(name), Arc::from(sql));
        });
        Ok(true)
    }

    /// Drops a named type; columns that were declared with it stay as they are.
    pub fn drop_type(&mut self, schema: &str, name: &str) -> Result<()> {
        if self.current.find_type(schema, name).is_none() {
            let names = self.current.type_names(schema);
            return Err(Error::not_found(ObjectKind::Type, name, names));
        }
        self.change_schema(schema, |node| {
            node.types.remove(name);
        });
        Ok(())
    }
}
