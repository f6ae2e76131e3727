//! New versions of tables from old ones, and what becomes unreachable by that.

use std::collections::BTreeMap;
use std::sync::Arc;

use swingdb_common::error::Result;

use crate::catalog::definition::Definition;
use crate::catalog::page::{Page, page_segments};
use crate::catalog::table::Table;
use crate::memory::space::Blocks;
use crate::segments::segment::Segment;

/// A new version of a table.
pub(crate) struct Change {
    pub table: Arc<Table>,
    /// Blocks of the old version that the new one does not reach.
    pub dropped: Vec<Arc<Blocks>>,
}

/// Everything of a page that a new version does not reach when the page is replaced by `new`. What
/// stays is detached from the record that goes.
fn drop_page(
    page: &Page,
    old: &[Arc<Segment>],
    new: &[Arc<Segment>],
    dropped: &mut Vec<Arc<Blocks>>,
) -> Result<()> {
    let mut stay: Vec<*const Segment> = new.iter().map(Arc::as_ptr).collect();
    stay.sort_unstable();
    let stays = |segment: &Arc<Segment>| stay.binary_search(&Arc::as_ptr(segment)).is_ok();
    let mut before: Vec<*const Segment> = old.iter().map(Arc::as_ptr).collect();
    before.sort_unstable();
    // A changed segment shares the chunks that did not change.
    let mut kept: Vec<*const Blocks> = Vec::new();
    for segment in new.iter().filter(|s| before.binary_search(&Arc::as_ptr(s)).is_err()) {
        kept.extend(segment.blocks()?.iter().map(Arc::as_ptr));
    }
    kept.sort_unstable();
    for segment in old {
        segment.detach()?;
        if !stays(segment) {
            let gone = segment.blocks()?.into_iter();
            dropped.extend(gone.filter(|b| kept.binary_search(&Arc::as_ptr(b)).is_err()));
        }
    }
    dropped.extend(page.record().cloned());
    Ok(())
}

/// Replaces segments by index; `None` removes one.
pub(crate) fn replace(
    table: &Table,
    mut changes: BTreeMap<usize, Option<Arc<Segment>>>,
) -> Result<Change> {
    let (mut pages, mut dropped) = (Vec::with_capacity(table.pages.len()), Vec::new());
    let mut first = 0;
    for page in &table.pages {
        let end = first + page.segments;
        let later = changes.split_off(&end);
        let here = std::mem::replace(&mut changes, later);
        if here.is_empty() {
            pages.push(page.clone());
        } else {
            let old = page.segments()?;
            let mut new = Vec::with_capacity(old.len());
            for (index, segment) in (first..).zip(old.iter()) {
                match here.get(&index) {
                    None => new.push(segment.clone()),
                    Some(None) => {}
                    Some(Some(changed)) => new.push(changed.clone()),
                }
            }
            drop_page(page, old, &new, &mut dropped)?;
            if !new.is_empty() {
                pages.push(Page::new(&table.space, table.schema(), new));
            }
        }
        first = end;
    }
    Ok(Change { table: table.with_pages(pages), dropped })
}

/// Removes the last `removed` segments and appends others.
pub(crate) fn append(table: &Table, removed: usize, segments: Vec<Arc<Segment>>) -> Result<Change> {
    let capacity = page_segments(table.columns().len());
    let mut pages = table.pages.clone();
    let mut dropped = Vec::new();
    let mut tail: Vec<Arc<Segment>> = Vec::new();
    let mut left = removed;
    // The last page takes part when it has room or loses segments.
    while let Some(page) = pages.last() {
        if left == 0 && (page.segments >= capacity || !tail.is_empty()) {
            break;
        }
        let old = page.segments()?.clone();
        let keep = old.len() - left.min(old.len());
        left -= old.len() - keep;
        drop_page(page, &old, &old[..keep], &mut dropped)?;
        tail.splice(0..0, old[..keep].iter().cloned());
        pages.pop();
        if left == 0 {
            break;
        }
    }
    tail.extend(segments);
    for group in tail.chunks(capacity) {
        pages.push(Page::new(&table.space, table.schema(), group.to_vec()));
    }
    Ok(Change { table: table.with_pages(pages), dropped })
}

/// Gives all segments another definition (columns added, dropped, renamed).
pub(crate) fn redefine(
    table: &Table,
    definition: Arc<Definition>,
    mut segment: impl FnMut(&Arc<Segment>) -> Result<Arc<Segment>>,
) -> Result<Change> {
    let mut dropped = Vec::new();
    let mut all = Vec::with_capacity(table.segment_count());
    for page in &table.pages {
        let old = page.segments()?;
        let new = old.iter().map(&mut segment).collect::<Result<Vec<_>>>()?;
        drop_page(page, old, &new, &mut dropped)?;
        all.extend(new);
    }
    let capacity = page_segments(definition.columns.len());
    let pages = all.chunks(capacity);
    let pages = pages.map(|g| Page::new(&table.space, &definition.schema, g.to_vec())).collect();
    let names = (table.schema_name.clone(), table.name.clone());
    let table = Table::new(table.id, names, definition, table.space.clone(), pages);
    Ok(Change { table, dropped })
}

/// All blocks of a table's pages and segments (not its own record).
pub(crate) fn all_blocks(table: &Table) -> Result<Vec<Arc<Blocks>>> {
    let mut blocks = Vec::new();
    for page in &table.pages {
        drop_page(page, page.segments()?, &[], &mut blocks)?;
    }
    Ok(blocks)
}
