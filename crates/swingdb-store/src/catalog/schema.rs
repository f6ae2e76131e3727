//! What a schema has, and how the root record says it: [`SchemaNode`].

use std::collections::BTreeMap;
use std::sync::Arc;

use swingdb_common::error::Result;

use crate::catalog::macros::{Macro, MacroKind};
use crate::catalog::notes::{Commented, Comments, RootNotes, view_column};
use crate::catalog::rules::References;
use crate::catalog::sequences::Sequence;
use crate::catalog::table_list::TableList;
use crate::catalog::types::Types;
use crate::codec::{Reader, Writer};

/// A view: a name for a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// Name.
    pub name: String,
    /// The query.
    pub sql: String,
    /// Names of the result columns, when given.
    pub columns: Option<Vec<String>>,
}

/// The tables, views, macros, sequences and named types of a schema.
#[derive(Debug, Clone, Default)]
pub(crate) struct SchemaNode {
    pub tables: TableList,
    pub views: BTreeMap<Arc<str>, Arc<View>>,
    pub macros: BTreeMap<(MacroKind, Arc<str>), Arc<Macro>>,
    pub sequences: BTreeMap<Arc<str>, Arc<Sequence>>,
    pub types: Types,
    pub references: References,
    pub comments: Comments,
}

impl SchemaNode {
    /// Writes all but the tables, the named types and the comments.
    pub fn write_rest(&self, w: &mut Writer) {
        w.len(self.views.len());
        for (name, view) in &self.views {
            w.text(name);
            w.text(&view.sql);
            w.option(view.columns.as_ref(), |w, columns| {
                w.len(columns.len());
                columns.iter().for_each(|c| w.text(c));
            });
        }
        w.len(self.macros.len());
        self.macros.values().for_each(|one| one.write(w));
        w.len(self.sequences.len());
        self.sequences.values().for_each(|one| one.write(w));
    }

    /// A schema without tables, named types and comments.
    pub fn read_rest(r: &mut Reader<'_>) -> Result<Self> {
        let views = r.list(|r| {
            let name: Arc<str> = Arc::from(r.text()?);
            let sql = r.text()?.to_owned();
            let columns = r.option(|r| r.list(|r| Ok(r.text()?.to_owned())))?;
            Ok((name.clone(), Arc::new(View { name: name.to_string(), sql, columns })))
        })?;
        let macros = r.list(|r| {
            let one = Macro::read(r)?;
            Ok((one.key(), Arc::new(one)))
        })?;
        let sequences = r.list(|r| {
            let one = Sequence::read(r)?;
            Ok((Arc::from(one.name.as_str()), Arc::new(one)))
        })?;
        Ok(Self {
            tables: TableList::default(),
            views: views.into_iter().collect(),
            macros: macros.into_iter().collect(),
            sequences: sequences.into_iter().collect(),
            types: Types::new(),
            references: References::new(),
            comments: Comments::new(),
        })
    }

    /// Forgets the comment on an object that is dropped or replaced; of a view also those on its
    /// columns.
    pub fn forget_comment(&mut self, on: Commented, name: &str) {
        self.comments.remove(&(on, Arc::from(name)));
        if on == Commented::View {
            let columns = view_column(name, "");
            self.comments.retain(|(on, name), _| {
                *on != Commented::ViewColumn || !name.starts_with(&columns)
            });
        }
    }

    /// What the sections of the root record say of it.
    pub fn notes(&self) -> RootNotes {
        let (comments, types) = (self.comments.clone(), self.types.clone());
        RootNotes { comments, types, references: self.references.clone() }
    }

    /// Takes in what they say.
    pub fn set_notes(&mut self, noted: RootNotes) {
        self.comments = noted.comments;
        self.types = noted.types;
        self.references = noted.references;
    }
}
