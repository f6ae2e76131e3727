//! Statements of a transaction that change what is no table: macros, sequences, named types, and
//! the comments on these and on views.

use std::sync::Arc;

use swingdb_common::error::{Error, ObjectKind, Result};

use crate::catalog::macros::{Macro, MacroKind};
use crate::catalog::names::{IfExists, check_name};
use crate::catalog::notes::{Commented, check_comment};
use crate::catalog::sequences::Sequence;
use crate::txn::transaction::WriteTxn;

fn commented(kind: MacroKind) -> Commented {
    match kind {
        MacroKind::Scalar => Commented::Macro,
        MacroKind::Table => Commented::TableMacro,
    }
}

impl WriteTxn {
    /// Creates a macro; `false`: it existed and `if_exists` is `Skip`.
    pub fn create_macro(&mut self, schema: &str, new: Macro, if_exists: IfExists) -> Result<bool> {
        new.check()?;
        self.check_schema(schema)?;
        let exists = self.current.find_macro(schema, &new.name, new.kind).is_some();
        match if_exists {
            IfExists::Skip if exists => return Ok(false),
            IfExists::Fail if exists => {
                return Err(Error::AlreadyExists { kind: new.kind.object(), name: new.name });
            }
            _ => {}
        }
        self.change_schema(schema, |node| {
            node.forget_comment(commented(new.kind), &new.name);
            node.macros.insert(new.key(), Arc::new(new));
        });
        Ok(true)
    }

    /// Drops a macro.
    pub fn drop_macro(&mut self, schema: &str, name: &str, kind: MacroKind) -> Result<()> {
        if self.current.find_macro(schema, name, kind).is_none() {
            let names = self.current.macro_names(schema, kind);
            return Err(Error::not_found(kind.object(), name, names));
        }
        self.change_schema(schema, |node| {
            node.macros.remove(&(kind, Arc::from(name)));
            node.forget_comment(commented(kind), name);
        });
        Ok(())
    }

    /// Creates a sequence; `false`: it existed and `if_exists` is `Skip`.
    pub fn create_sequence(
        &mut self,
        schema: &str,
        new: Sequence,
        if_exists: IfExists,
    ) -> Result<bool> {
        new.check()?;
        self.check_schema(schema)?;
        let exists = self.current.sequence(schema, &new.name).is_some();
        match if_exists {
            IfExists::Skip if exists => return Ok(false),
            IfExists::Fail if exists => {
                return Err(Error::AlreadyExists { kind: ObjectKind::Sequence, name: new.name });
            }
            _ => {}
        }
        if exists {
            self.drop_sequence(schema, &new.name)?;
        }
        self.put_sequence(schema, new);
        Ok(true)
    }

    /// Drops a sequence.
    pub fn drop_sequence(&mut self, schema: &str, name: &str) -> Result<()> {
        if self.current.sequence(schema, name).is_none() {
            let names = self.current.sequence_names(schema);
            return Err(Error::not_found(ObjectKind::Sequence, name, names));
        }
        self.change_schema(schema, |node| {
            node.sequences.remove(name);
            node.forget_comment(Commented::Sequence, name);
        });
        Ok(())
    }

    /// Notes what a sequence has given out.
    pub fn advance_sequence(&mut self, schema: &str, moved: Sequence) -> Result<()> {
        moved.check()?;
        if self.current.sequence(schema, &moved.name).is_none() {
            let names = self.current.sequence_names(schema);
            return Err(Error::not_found(ObjectKind::Sequence, moved.name, names));
        }
        self.put_sequence(schema, moved);
        Ok(())
    }

    fn put_sequence(&mut self, schema: &str, sequence: Sequence) {
        self.change_schema(schema, |node| {
            node.sequences.insert(Arc::from(sequence.name.as_str()), Arc::new(sequence));
        });
    }

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

    /// Sets or removes the comment on an object that is no table.
    pub fn set_comment(
        &mut self,
        schema: &str,
        on: Commented,
        name: &str,
        comment: Option<&str>,
    ) -> Result<()> {
        self.check_schema(schema)?;
        check_comment(comment)?;
        let key = (on, Arc::from(name));
        self.change_schema(schema, |node| match comment {
            Some(comment) => drop(node.comments.insert(key, Arc::from(comment))),
            None => drop(node.comments.remove(&key)),
        });
        Ok(())
    }
}
