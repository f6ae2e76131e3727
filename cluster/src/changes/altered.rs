//! What ALTER TABLE does to the cut of a table: [`Altered`].
//!
//! All nodes carry the same statement out. Only the column of the cut, and the names by which the
//! cut is known, concern the cluster.

use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTableOperation, ObjectName, RenameTableNameKind, Statement,
};
use swingdb_sql::text::parser::parse;
use swingdb_sql::text::statement::Parsed;

use crate::cut::Cut;
use crate::error::{Result, refused};
use crate::names::is_same;

/// A table after an ALTER TABLE.
#[derive(Debug, PartialEq)]
pub(crate) struct Altered {
    /// What it is called.
    pub(crate) table: String,
    /// How it is cut.
    pub(crate) cut: Cut,
    /// Whether it may have a key that it did not have.
    pub(crate) has_new_key: bool,
}

impl Altered {
    /// What a statement makes of a table.
    pub(crate) fn of(sql: &str, table: &str, cut: &Cut) -> Result<Self> {
        let Some(Parsed::Sql(statement)) = parse(sql)?.pop_front() else {
            return refused("this form of ALTER TABLE");
        };
        let Statement::AlterTable(alter) = *statement else {
            return refused("this form of ALTER TABLE");
        };
        let (table, cut) = (table.to_string(), cut.clone());
        let mut altered = Self { table, cut, has_new_key: false };
        alter.operations.iter().try_for_each(|operation| altered.take(operation))?;
        Ok(altered)
    }

    fn take(&mut self, operation: &AlterTableOperation) -> Result<()> {
        use AlterTableOperation as Op;
        match operation {
            Op::AddColumn { .. } => Ok(()),
            Op::AddConstraint { .. } => {
                self.has_new_key = true;
                Ok(())
            }
            Op::DropColumn { column_names, .. } => {
                let is_cut = column_names.iter().any(|name| self.is_cut(&name.value));
                if is_cut { self.refuse("without") } else { Ok(()) }
            }
            Op::RenameColumn { old_column_name, new_column_name } => {
                if self.is_cut(&old_column_name.value) {
                    self.cut = self.cut.by(&new_column_name.value);
                }
                Ok(())
            }
            Op::RenameTable {
                table_name: RenameTableNameKind::To(name) | RenameTableNameKind::As(name),
            } => {
                self.table = last_part(name)?;
                Ok(())
            }
            Op::AlterColumn { column_name, op } => match op {
                AlterColumnOperation::SetNotNull
                | AlterColumnOperation::DropNotNull
                | AlterColumnOperation::SetDefault { .. }
                | AlterColumnOperation::DropDefault => Ok(()),
                AlterColumnOperation::SetDataType { .. } if !self.is_cut(&column_name.value) => {
                    Ok(())
                }
                AlterColumnOperation::SetDataType { .. } => self.refuse("with another type of"),
                _ => refused(format!("ALTER TABLE ... {operation}")),
            },
            _ => refused(format!("ALTER TABLE ... {operation}")),
        }
    }

    fn is_cut(&self, column: &str) -> bool {
        self.cut.column().is_some_and(|cut| is_same(cut, column))
    }

    fn refuse(&self, what: &str) -> Result<()> {
        let column = self.cut.column().unwrap_or_default();
        refused(format!(
            "table {} {what} {column}, by which it is cut; make another table of its rows",
            self.table
        ))
    }
}

/// The name of a table of schema `main`.
fn last_part(name: &ObjectName) -> Result<String> {
    let parts = name.0.iter().map(|part| part.as_ident()).collect::<Option<Vec<_>>>();
    match parts.as_deref() {
        Some([name]) => Ok(name.value.clone()),
        Some([schema, name]) if is_same(&schema.value, "main") => Ok(name.value.clone()),
        _ => refused(format!("ALTER TABLE ... RENAME TO {name}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn altered(rest: &str) -> Result<(String, String, bool)> {
        let cut = Cut::Hash { column: "k".to_string() };
        let made = Altered::of(&format!("ALTER TABLE t {rest}"), "t", &cut)?;
        Ok((made.table, made.cut.to_string(), made.has_new_key))
    }

    #[test]
    fn the_cut_follows_names() {
        for (rest, table, cut, has_new_key) in [
            ("ADD COLUMN a INTEGER DEFAULT 1", "t", "hash:k", false),
            ("DROP COLUMN IF EXISTS a", "t", "hash:k", false),
            ("RENAME COLUMN a TO b", "t", "hash:k", false),
            ("RENAME COLUMN \"K\" TO key", "t", "hash:key", false),
            ("RENAME TO \"a b\"", "a b", "hash:k", false),
            ("ALTER COLUMN a TYPE DOUBLE", "t", "hash:k", false),
            ("ALTER COLUMN k SET NOT NULL", "t", "hash:k", false),
            ("ALTER a SET DEFAULT 3, ALTER a DROP DEFAULT", "t", "hash:k", false),
            ("ADD PRIMARY KEY (k)", "t", "hash:k", true),
            ("ADD UNIQUE (k, a)", "t", "hash:k", true),
        ] {
            let expected = (table.to_string(), cut.to_string(), has_new_key);
            assert_eq!(altered(rest).unwrap(), expected, "{rest}");
        }
        for rest in ["DROP COLUMN k", "ALTER COLUMN K TYPE BIGINT", "RENAME TO other.t"] {
            assert!(altered(rest).is_err(), "{rest}");
        }
    }
}
