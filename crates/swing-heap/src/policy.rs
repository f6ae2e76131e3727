//! Which object leaves memory next: two FIFO lists, or S3-FIFO. Each size class has its own lists.
//!
//! * *Two lists* (the paper of FG_MM, section 1.3): objects enter the active list touched. The
//!   active list's tail moves to the inactive list, unless it was touched: then it loses the mark
//!   and starts again. The inactive list's tail leaves, unless it was touched: then it becomes
//!   active again. The active list holds at most half of the class.
//! * *S3-FIFO* (Yang and others, SOSP 2023): objects enter a small list, a tenth of the class.
//!   Its tail moves to the main list if it was touched at least twice, and leaves otherwise. The
//!   main list's tail starts again with a touch less, and leaves when it has none. Objects that
//!   come back soon after they left the small list enter the main list. "Soon" is counted in
//!   *eras* of an eighth of the class, kept in five bits of the evicted object's entry.

use crate::chunk::{CellList, CellRef, Chunks, NONE};

/// How the heap chooses what to evict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PolicyKind {
    /// Active and inactive FIFO lists with a mark of touch.
    TwoLists,
    /// Small and main FIFO lists, and a memory of what left the small one. On most traces it has
    /// more hits (`docs/experiments-heap.md`).
    #[default]
    S3Fifo,
}

/// The touches of objects, as the policy sees and changes them.
pub(crate) trait Touches {
    /// How often the object was touched, at most 3; `None` while it is in use.
    fn get(&self, id: u32) -> Option<u64>;
    /// Sets the count.
    fn set(&self, id: u32, touches: u64);
}

#[derive(Clone, Copy, Debug)]
struct List {
    head: CellRef,
    tail: CellRef,
    len: usize,
}

impl List {
    const EMPTY: List = List { head: NONE, tail: NONE, len: 0 };

    fn push(&mut self, chunks: &mut Chunks, cell: CellRef, place: CellList) {
        let facts = chunks.cell(cell);
        assert_eq!(facts.list, CellList::Detached, "INV-OBJ-3: a cell is in two lists");
        (facts.prev, facts.next, facts.list) = (NONE, self.head, place);
        match self.head {
            NONE => self.tail = cell,
            head => chunks.cell(head).prev = cell,
        }
        self.head = cell;
        self.len += 1;
    }

    fn remove(&mut self, chunks: &mut Chunks, cell: CellRef) {
        let facts = chunks.cell(cell);
        let (prev, next) = (facts.prev, facts.next);
        (facts.prev, facts.next, facts.list) = (NONE, NONE, CellList::Detached);
        match prev {
            NONE => self.head = next,
            prev => chunks.cell(prev).next = next,
        }
        match next {
            NONE => self.tail = prev,
            next => chunks.cell(next).prev = prev,
        }
        self.len -= 1;
    }
}

/// The lists of one size class.
#[derive(Debug)]
pub(crate) struct Policy {
    kind: PolicyKind,
    first: List,
    second: List,
    /// Objects that left the small list.
    left: u64,
}

/// Eras before an object that left is forgotten.
const REMEMBERED_ERAS: u64 = 8;
const ERAS: u64 = 31;

impl Policy {
    pub(crate) fn new(kind: PolicyKind) -> Self {
        Policy { kind, first: List::EMPTY, second: List::EMPTY, left: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.first.len + self.second.len
    }

    fn now(&self) -> u64 {
        self.left / (self.len() as u64 / REMEMBERED_ERAS).max(1) % ERAS
    }

    /// Takes in a cell. `era` is what the object's entry remembers; returns its first touches.
    pub(crate) fn insert(&mut self, chunks: &mut Chunks, cell: CellRef, era: u8) -> u64 {
        match self.kind {
            PolicyKind::TwoLists => {
                self.first.push(chunks, cell, CellList::First);
                1
            }
            PolicyKind::S3Fifo => {
                let age = (self.now() + ERAS + 1 - u64::from(era)) % ERAS;
                if era != 0 && age < REMEMBERED_ERAS {
                    self.second.push(chunks, cell, CellList::Second);
                } else {
                    self.first.push(chunks, cell, CellList::First);
                }
                0
            }
        }
    }

    /// Takes out a cell, wherever it is.
    pub(crate) fn remove(&mut self, chunks: &mut Chunks, cell: CellRef) {
        match chunks.cell(cell).list {
            CellList::First => self.first.remove(chunks, cell),
            CellList::Second => self.second.remove(chunks, cell),
            other => unreachable!("INV-OBJ-3: a cell in no list is taken out ({other:?})"),
        }
    }

    /// The era to remember for a cell that is evicted now. Call it before [`Policy::remove`].
    pub(crate) fn era_of(&mut self, chunks: &mut Chunks, cell: CellRef) -> u8 {
        if self.kind == PolicyKind::TwoLists || chunks.cell(cell).list != CellList::First {
            return 0;
        }
        let era = self.now() + 1;
        self.left += 1;
        era as u8
    }

    /// The cell to evict next; it stays in its list. `None` if everything is in use.
    pub(crate) fn victim(&mut self, chunks: &mut Chunks, touches: &dyn Touches) -> Option<CellRef> {
        // Each cell loses at most three touches, and moves once between the lists.
        let most = 6 * self.len() + 2;
        for _ in 0..most {
            let all = self.len();
            let from_first = match self.kind {
                PolicyKind::TwoLists => self.first.len > all / 2 || self.second.len == 0,
                PolicyKind::S3Fifo => self.first.len > all / 10 || self.second.len == 0,
            };
            let cell = if from_first { self.first.tail } else { self.second.tail };
            if cell == NONE {
                return None;
            }
            let id = chunks.cell(cell).id;
            let found = touches.get(id);
            match (self.kind, from_first) {
                (PolicyKind::TwoLists, true) => {
                    self.remove(chunks, cell);
                    if found == Some(0) {
                        self.second.push(chunks, cell, CellList::Second);
                    } else {
                        self.first.push(chunks, cell, CellList::First);
                        touches.set(id, 0);
                    }
                }
                (PolicyKind::TwoLists, false) if found == Some(0) => return Some(cell),
                (PolicyKind::TwoLists, false) => {
                    self.remove(chunks, cell);
                    self.first.push(chunks, cell, CellList::First);
                    touches.set(id, 0);
                }
                (PolicyKind::S3Fifo, true) if found.is_some_and(|n| n < 2) => return Some(cell),
                (PolicyKind::S3Fifo, true) => {
                    self.remove(chunks, cell);
                    self.second.push(chunks, cell, CellList::Second);
                    touches.set(id, 0);
                }
                (PolicyKind::S3Fifo, false) if found == Some(0) => return Some(cell),
                (PolicyKind::S3Fifo, false) => {
                    self.remove(chunks, cell);
                    self.second.push(chunks, cell, CellList::Second);
                    touches.set(id, found.unwrap_or(0).saturating_sub(1));
                }
            }
        }
        None
    }
}
