//! What a [`Catalog`] says of objects that are no tables, and of indexes.

use std::sync::Arc;

use swingdb_common::error::Result;

use crate::catalog::macros::{Macro, MacroKind};
use crate::catalog::notes::{Commented, Index, view_column};
use crate::catalog::schema::View;
use crate::catalog::sequences::Sequence;
use crate::catalog::state::Catalog;
use crate::catalog::table::Table;

impl Catalog {
    /// Views of a schema in alphabetical order.
    pub fn view_names(&self, schema: &str) -> Vec<String> {
        let views = self.schemas.get(schema).map(|s| s.views.keys());
        views.into_iter().flatten().map(|n| n.to_string()).collect()
    }

    /// A view.
    pub fn view(&self, schema: &str, name: &str) -> Result<Option<Arc<View>>> {
        Ok(self.schemas.get(schema).and_then(|s| s.views.get(name)).cloned())
    }

    /// Whether there is any macro.
    pub fn has_macros(&self) -> bool {
        self.schemas.values().any(|node| !node.macros.is_empty())
    }

    /// Macros of a kind and schema in alphabetical order.
    pub fn macro_names(&self, schema: &str, kind: MacroKind) -> Vec<String> {
        let all = self.schemas.get(schema).into_iter().flat_map(|node| node.macros.keys());
        all.filter(|(of, _)| *of == kind).map(|(_, name)| name.to_string()).collect()
    }

    /// A macro.
    pub fn find_macro(&self, schema: &str, name: &str, kind: MacroKind) -> Option<Arc<Macro>> {
        self.schemas.get(schema)?.macros.get(&(kind, Arc::from(name))).cloned()
    }

    /// Whether there is any sequence.
    pub fn has_sequences(&self) -> bool {
        self.schemas.values().any(|node| !node.sequences.is_empty())
    }

    /// Sequences of a schema in alphabetical order.
    pub fn sequence_names(&self, schema: &str) -> Vec<String> {
        let all = self.schemas.get(schema).into_iter().flat_map(|node| node.sequences.keys());
        all.map(|name| name.to_string()).collect()
    }

    /// A sequence.
    pub fn sequence(&self, schema: &str, name: &str) -> Option<Arc<Sequence>> {
        self.schemas.get(schema)?.sequences.get(name).cloned()
    }

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

    /// The comment on an object that is no table.
    pub fn comment(&self, schema: &str, on: Commented, name: &str) -> Option<Arc<str>> {
        self.schemas.get(schema)?.comments.get(&(on, Arc::from(name))).cloned()
    }

    /// The comments on a view, and on its columns, each with the column's name.
    pub fn comments_of_view(&self, schema: &str, view: &str) -> Vec<(Option<String>, Arc<str>)> {
        let begin = view_column(view, "");
        let comments = self.schemas.get(schema).into_iter().flat_map(|schema| &schema.comments);
        let of_view = comments.filter_map(|((on, name), text)| match on {
            Commented::View if **name == *view => Some((None, Arc::clone(text))),
            Commented::ViewColumn => {
                let column = name.strip_prefix(begin.as_str())?;
                Some((Some(column.to_owned()), Arc::clone(text)))
            }
            _ => None,
        });
        of_view.collect()
    }

    /// The table that has an index of this name, and the index's place among its indexes.
    pub fn find_index(&self, schema: &str, name: &str) -> Result<Option<(Arc<Table>, usize)>> {
        for table in self.table_names(schema)? {
            let Some(table) = self.table(schema, &table)? else { continue };
            let is_it = |index: &Index| index.name.eq_ignore_ascii_case(name);
            if let Some(at) = table.notes().indexes.iter().position(is_it) {
                return Ok(Some((table, at)));
            }
        }
        Ok(None)
    }
}
