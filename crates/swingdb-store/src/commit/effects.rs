//! What a transaction has done to blocks ([`Effects`]), and what its commit makes of them
//! ([`Verdict`], [`Applied`]).

use std::sync::Arc;

use crate::memory::space::{Blocks, Foreign, Ground};

/// What a transaction did to blocks so far.
#[derive(Default)]
pub(crate) struct Effects {
    /// Blocks it made.
    pub created: Vec<Arc<Blocks>>,
    /// Blocks its catalog reaches no more.
    pub dropped: Vec<Arc<Blocks>>,
    /// Chunks that one more table uses.
    pub shared: Vec<Arc<Blocks>>,
    /// Foreign ranges it mapped.
    pub ranges: Vec<Arc<Foreign>>,
}

/// What a commit does to blocks.
#[derive(Default)]
pub(crate) struct Verdict {
    /// Dropped blocks that no table uses any more.
    pub gone: Vec<Arc<Blocks>>,
    /// Changed counts of shared chunks, with the count before.
    pub counts: Vec<(u64, Option<u32>)>,
    /// Foreign ranges that are listed from now on, and that are not any more.
    pub listed: Vec<Arc<Foreign>>,
    pub unlisted: Vec<Arc<Foreign>>,
}

impl Verdict {
    /// Blocks change their state: those that were made live, those that nobody uses die.
    pub fn apply(&self, ground: &Ground, effects: &Effects) {
        let space = &ground.space;
        effects.created.iter().for_each(|b| b.promote());
        self.gone.iter().for_each(|b| b.retire());
        self.listed.iter().for_each(|r| space.set_foreign(r, true));
        self.unlisted.iter().for_each(|r| space.set_foreign(r, false));
    }

    /// The commit is there to stay.
    pub fn settle(&self, ground: &Ground) {
        self.unlisted.iter().for_each(|r| ground.space.forget_foreign(r.loc.offset));
    }
}

/// What a commit did that waits to be published.
pub(crate) struct Applied {
    pub verdict: Verdict,
    /// Holds the blocks until then.
    pub effects: Effects,
}
