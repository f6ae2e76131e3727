//! Which records a store's state consists of, and how often each is used.
//!
//! A checkpoint replaces the root, the records of changed tables, of the lists that these are in,
//! and of changed pages. Pages use blocks. A block that no page uses any more is freed, and so is a
//! replaced record (INV-DB-12: the log's records are those that the state reaches, and those that
//! wait to be freed).

use std::collections::{BTreeMap, HashMap, HashSet};

use swing_tier::RecordId;

use crate::memory::block_ref::BlockRef;

/// The records of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TableRecords {
    pub record: RecordId,
    pub pages: Vec<RecordId>,
}

/// A page and the blocks that it names.
pub(super) type PageBlocks = (RecordId, Vec<RecordId>);

/// A list of tables, and their ids.
pub(super) type ListTables = (RecordId, Vec<u64>);

/// What a checkpoint replaces.
#[derive(Debug, Default)]
pub(super) struct Change {
    /// Tables by their ids: before and after.
    pub tables: Vec<(u64, Option<TableRecords>, Option<TableRecords>)>,
    /// Blocks of the pages that were written.
    pub added: Vec<PageBlocks>,
    /// Pages that the new state does not have; found out by [`Ledger::apply`].
    removed: Vec<PageBlocks>,
    /// Lists of tables that stay, and those that were written.
    pub lists_kept: Vec<RecordId>,
    pub lists_added: Vec<ListTables>,
    /// Lists that the new state does not have; found out by [`Ledger::apply`].
    lists_removed: Vec<ListTables>,
    /// Ids of tables that are in the root; after [`Ledger::apply`] those of before.
    pub in_root: Vec<u64>,
    pub old_root: Option<RecordId>,
    pub new_root: Option<RecordId>,
}

impl Change {
    /// Lists of the new state.
    fn lists(&self) -> HashSet<RecordId> {
        let added = self.lists_added.iter().map(|(list, _)| *list);
        self.lists_kept.iter().copied().chain(added).collect()
    }

    /// Notes the tables that are in `ledger` and not in the new state.
    pub fn drop_tables(&mut self, ledger: &Ledger) {
        let lists = self.lists();
        let old = ledger.lists.iter().filter(|(list, _)| !lists.contains(list));
        let old = old.flat_map(|(_, ids)| ids).chain(&ledger.in_root);
        let new = self.lists_added.iter().flat_map(|(_, ids)| ids).chain(&self.in_root);
        let new: HashSet<u64> = new.copied().collect();
        let gone = old.filter(|id| !new.contains(id));
        let gone = gone.filter_map(|id| Some((*id, Some(ledger.tables.get(id)?.clone()), None)));
        self.tables.extend(gone.collect::<Vec<_>>());
    }
}

/// The records of a state.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub root: Option<RecordId>,
    pub tables: BTreeMap<u64, TableRecords>,
    /// Lists of tables, with the ids of their tables.
    pub lists: HashMap<RecordId, Vec<u64>>,
    /// Ids of the tables that are in the root.
    pub in_root: Vec<u64>,
    pages: HashMap<RecordId, Vec<RecordId>>,
    /// How many columns and bitmaps are in each block's record.
    uses: HashMap<RecordId, u32>,
}

impl Ledger {
    /// Takes in a page of the state that a store was opened with.
    pub fn add_page(&mut self, page: RecordId, blocks: Vec<RecordId>) {
        for block in &blocks {
            *self.uses.entry(*block).or_insert(0) += 1;
        }
        self.pages.insert(page, blocks);
    }

    /// Whether the state uses this block.
    pub fn uses(&self, block: RecordId) -> bool {
        self.uses.contains_key(&block)
    }

    /// Every record of the state.
    pub fn records(&self) -> HashSet<RecordId> {
        let tables = self.tables.values().map(|table| table.record);
        let others = self.pages.keys().chain(self.uses.keys()).chain(self.lists.keys()).copied();
        tables.chain(others).chain(self.root).collect()
    }

    /// Brings the ledger to the state after a checkpoint. Returns the records that it does not use.
    pub fn apply(&mut self, change: &mut Change) -> Vec<RecordId> {
        let (mut before, mut after) = (HashSet::new(), HashSet::new());
        for (_, old, new) in &change.tables {
            before.extend(old.iter().flat_map(|table| table.pages.iter().copied()));
            after.extend(new.iter().flat_map(|table| table.pages.iter().copied()));
        }
        let gone: Vec<RecordId> = before.difference(&after).copied().collect();
        for (page, blocks) in &change.added {
            self.add_page(*page, blocks.clone());
        }
        let mut dead: Vec<RecordId> = Vec::new();
        for page in gone {
            let blocks = self.pages.get(&page).cloned().unwrap_or_default();
            self.drop_page(page, &blocks, &mut dead);
            change.removed.push((page, blocks));
        }
        for (id, old, new) in &change.tables {
            dead.extend(old.as_ref().map(|table| table.record));
            match new {
                Some(new) => self.tables.insert(*id, new.clone()),
                None => self.tables.remove(id),
            };
        }
        let lists = change.lists();
        let gone = self.lists.extract_if(|list, _| !lists.contains(list));
        change.lists_removed = gone.collect();
        dead.extend(change.lists_removed.iter().map(|(list, _)| *list));
        self.lists.extend(change.lists_added.iter().cloned());
        std::mem::swap(&mut self.in_root, &mut change.in_root);
        change.old_root = self.root;
        self.root = change.new_root;
        dead.extend(change.old_root);
        dead
    }

    /// Takes [`Ledger::apply`] back.
    pub fn revert(&mut self, change: Change) {
        for (page, blocks) in change.removed {
            self.add_page(page, blocks);
        }
        for (page, blocks) in &change.added {
            self.drop_page(*page, blocks, &mut Vec::new());
        }
        for (id, old, _) in change.tables.into_iter().rev() {
            match old {
                Some(old) => self.tables.insert(id, old),
                None => self.tables.remove(&id),
            };
        }
        for (list, _) in &change.lists_added {
            self.lists.remove(list);
        }
        self.lists.extend(change.lists_removed);
        self.in_root = change.in_root;
        self.root = change.old_root;
    }

    fn drop_page(&mut self, page: RecordId, blocks: &[RecordId], dead: &mut Vec<RecordId>) {
        self.pages.remove(&page);
        dead.push(page);
        for block in blocks {
            match self.uses.get_mut(block) {
                Some(count) if *count > 1 => *count -= 1,
                _ => {
                    self.uses.remove(block);
                    dead.push(*block);
                }
            }
        }
    }
}

/// Finds the record of a block by its contents, in a store that was opened when the database was in
/// memory already.
#[derive(Debug, Default)]
pub(super) struct Known(HashMap<(u128, u64), Vec<BlockRef>>);

impl Known {
    pub fn add(&mut self, block: &BlockRef) {
        self.0.entry((block.check, block.len)).or_default().push(*block);
    }

    /// Whether a record may have these contents.
    pub fn has(&self, check: u128, len: u64) -> bool {
        self.0.contains_key(&(check, len))
    }

    /// A record with these contents that `ledger` still has. Each is handed out once.
    pub fn take(&mut self, check: u128, len: u64, ledger: &Ledger) -> Option<BlockRef> {
        let blocks = self.0.get_mut(&(check, len))?;
        while let Some(block) = blocks.pop() {
            if ledger.uses(block.record) {
                return Some(block);
            }
        }
        self.0.remove(&(check, len));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(numbers: &[u64]) -> Vec<RecordId> {
        numbers.iter().map(|n| RecordId(*n)).collect()
    }

    fn table(record: u64, pages: &[u64]) -> Option<TableRecords> {
        Some(TableRecords { record: RecordId(record), pages: ids(pages) })
    }

    #[test]
    fn what_is_replaced_is_dead_and_comes_back_when_reverted() {
        let mut ledger = Ledger::default();
        let mut first = Change {
            tables: vec![(1, None, table(10, &[20, 21]))],
            added: vec![(RecordId(20), ids(&[30, 31])), (RecordId(21), ids(&[31, 32]))],
            new_root: Some(RecordId(1)),
            ..Change::default()
        };
        assert!(ledger.apply(&mut first).is_empty());
        let mut second = Change {
            tables: vec![(1, table(10, &[20, 21]), table(11, &[20, 22]))],
            added: vec![(RecordId(22), ids(&[32, 33]))],
            new_root: Some(RecordId(2)),
            ..Change::default()
        };
        let mut dead = ledger.apply(&mut second);
        dead.sort_unstable();
        assert_eq!(dead, ids(&[1, 10, 21]), "31 is in page 20, 32 in page 22");
        let expected = ids(&[2, 11, 20, 22, 30, 31, 32, 33]).into_iter().collect();
        assert_eq!(ledger.records(), expected);
        ledger.revert(second);
        let expected = ids(&[1, 10, 20, 21, 30, 31, 32]).into_iter().collect();
        assert_eq!(ledger.records(), expected);
        assert_eq!(ledger.uses[&RecordId(31)], 2);
        let mut third = Change {
            tables: vec![(1, table(10, &[20, 21]), None)],
            new_root: Some(RecordId(3)),
            ..Change::default()
        };
        ledger.apply(&mut third);
        assert_eq!(ledger.records(), ids(&[3]).into_iter().collect());
    }

    #[test]
    fn tables_are_gone_with_the_lists_that_had_them() {
        let list = |record: u64, ids: &[u64]| (RecordId(record), ids.to_vec());
        let mut ledger = Ledger::default();
        let mut first = Change {
            tables: (1..=4).map(|id| (id, None, table(10 + id, &[]))).collect(),
            lists_added: vec![list(50, &[1, 2]), list(51, &[3, 4])],
            new_root: Some(RecordId(90)),
            ..Change::default()
        };
        ledger.apply(&mut first);
        // Table 2 is dropped, table 1 has other rows.
        let mut second = Change {
            tables: vec![(1, table(11, &[]), table(21, &[]))],
            lists_kept: ids(&[51]),
            lists_added: vec![list(52, &[1])],
            new_root: Some(RecordId(91)),
            ..Change::default()
        };
        second.drop_tables(&ledger);
        let mut dead = ledger.apply(&mut second);
        dead.sort_unstable();
        assert_eq!(dead, ids(&[11, 12, 50, 90]));
        assert_eq!(ledger.records(), ids(&[21, 13, 14, 51, 52, 91]).into_iter().collect());
        // What is left comes into the root.
        let mut third =
            Change { in_root: vec![1, 3], new_root: Some(RecordId(92)), ..Change::default() };
        third.drop_tables(&ledger);
        let mut dead = ledger.apply(&mut third);
        dead.sort_unstable();
        assert_eq!(dead, ids(&[14, 51, 52, 91]));
        ledger.revert(third);
        ledger.revert(second);
        assert_eq!(ledger.records(), ids(&[11, 12, 13, 14, 50, 51, 90]).into_iter().collect());
        assert_eq!(ledger.lists.len(), 2);
        assert!(ledger.in_root.is_empty());
    }
}
