//! Other definitions for tables: what all statements that change them come to.

use std::sync::Arc;

use swingdb_common::error::Result;

use crate::catalog::definition::Definition;
use crate::catalog::edit;
use crate::catalog::notes::TableNotes;
use crate::catalog::page::{Page, page_segments};
use crate::catalog::table::Table;
use crate::segments::chunk::Chunk;
use crate::segments::segment::Segment;
use crate::txn::transaction::WriteTxn;

impl WriteTxn {
    /// Puts a table of a new name into the catalog.
    pub(crate) fn add_table(
        &mut self,
        schema: &str,
        name: &str,
        definition: Arc<Definition>,
        segments: Vec<Arc<Segment>>,
    ) -> Result<()> {
        let id = self.current.next_table;
        let names = (Arc::from(schema), Arc::from(name));
        let space = self.current.space.clone();
        let empty = Table::new(id, names, definition.clone(), space.clone(), Vec::new());
        let capacity = page_segments(definition.columns.len());
        let pages = segments.chunks(capacity);
        let page = |g: &[Arc<Segment>]| Page::new(&space, &definition.schema, g.to_vec());
        let table = empty.with_pages(pages.map(page).collect());
        self.change_catalog(|next| next.next_table += 1);
        self.put_table(table, Vec::new())
    }

    /// Gives a table another definition of the same columns.
    pub(crate) fn redefine(&mut self, table: &Table, definition: Definition) -> Result<()> {
        self.redefine_with(table, definition, Segment::chunks)
    }

    /// Gives a table another definition and its segments the chunks that `chunks` picks or adds.
    pub(crate) fn redefine_with(
        &mut self,
        table: &Table,
        definition: Definition,
        mut chunks: impl FnMut(&Segment) -> Result<Vec<Arc<Chunk>>>,
    ) -> Result<()> {
        let definition = Arc::new(definition);
        let change = edit::redefine(table, definition.clone(), |segment| {
            let deletion = segment.deletion().cloned();
            Ok(segment.with(definition.schema.clone(), chunks(segment)?, deletion))
        })?;
        self.writer_mut()?.unique.forget(table.id());
        self.put_table(change.table, change.dropped)?;
        Ok(())
    }

    /// Replaces the notes on a table. The rows stay as they are.
    pub fn set_notes(&mut self, schema: &str, table: &str, notes: TableNotes) -> Result<()> {
        let table = self.table_of(schema, table)?;
        notes.check(table.columns().len())?;
        let definition = Definition::clone(&table.definition).with_notes(notes);
        let names = (table.schema_name.clone(), table.name.clone());
        let (space, pages) = (table.space.clone(), table.pages.clone());
        let noted = Table::new(table.id(), names, Arc::new(definition), space, pages);
        self.put_table(noted, Vec::new())?;
        Ok(())
    }
}
