//! Which extents are worth copying before they are stored to.
//!
//! In general those that were stored to between the last two publishes and between the two before,
//! in the order in which they were stored to.

use std::collections::HashMap;

use crate::model::extent_word::{self, FROZEN, IN_PLACE, NO_PLANE, SPARE, UNARMED};
use crate::model::units::{Epoch, ExtentId};

/// What is to be copied, and what has been.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// Stored to since the last publish, and between that and the one before: in an older version
    /// that nobody will need after the next publish.
    again: Vec<ExtentId>,
    /// The same at the last publish: still to be copied, the next one at the end.
    pub(crate) due: Vec<ExtentId>,
    /// What the last publish has superseded has been given up: extents have spare memory if ever.
    pub(crate) begun: bool,
    /// Copied since the last publish, and not stored to; since when there was the version before.
    pub(crate) made: HashMap<ExtentId, Epoch>,
}

impl Ahead {
    /// An extent has been stored to again.
    pub(crate) fn note(&mut self, extent: ExtentId) {
        self.again.push(extent);
    }

    /// The extent has been stored to: since when there was the version before, if this one was
    /// made ahead.
    pub(crate) fn made_from(&mut self, extent: ExtentId) -> Option<Epoch> {
        self.made.remove(&extent)
    }

    /// A publish: what comes next is another interval.
    pub(crate) fn turn(&mut self) {
        self.due = std::mem::take(&mut self.again);
        self.due.reverse();
        self.begun = false;
        self.made.clear();
    }
}

/// Whether the extent with this word was neither stored to meanwhile, nor is shown by nobody, nor
/// without memory that is held for it.
pub(crate) fn may_be_copied(word: u32) -> bool {
    let flags = SPARE | IN_PLACE | UNARMED | NO_PLANE;
    extent_word::state_of(word) == FROZEN && word & flags == SPARE
}
