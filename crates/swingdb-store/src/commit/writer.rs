//! Committing and publishing: which blocks become live, which die, and the records others read.
//!
//! Order of a commit that is published (INV-DB-4): blocks change their state in the process;
//! records and then the root are written to fresh blocks; the area publishes with the root's place
//! as its payload. Up to the publish nothing that an earlier published state reaches has changed,
//! so a crash or an error anywhere leaves that state as it was. So the commit can be interrupted up
//! to there, unless others are published with it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};

use swing::{Area, ByteLen, Publish};
use swingdb_common::error::{Error, Result};
use swingdb_common::runtime::cancel::to_the_end;

use crate::catalog::state::{Catalog, ForeignUse};
use crate::commit::effects::{Applied, Effects, Verdict};
use crate::commit::group::{Group, Ticket};
use crate::commit::root::payload;
use crate::durable::disk::Disk;
use crate::errors::area::publish_error;
use crate::keys::unique::Indexes;
use crate::memory::raw::Loc;
use crate::memory::space::{Blocks, Foreign, Ground};

/// After more changed bytes than these a commit prepares the first share: with pages of 4 KiB it
/// takes a tenth of a millisecond to protect as many.
const PREPARED_FROM: ByteLen = ByteLen::mib(4);
/// What a share frees of what was dropped before it: giving back 1 MiB in pages of 4 KiB takes a
/// quarter of a millisecond. The rest is freed by the next change.
const MAX_FREED_BY_SHARE: u64 = 1 << 20;

/// When commits have left more than this to be freed, a state without it is published. Less is left
/// to the next change.
pub(crate) const MAX_LEFT_BY_COMMITS: u64 = 4 << 20;

/// How many tables use each chunk that more than one uses, by its key.
type SharedCounts = HashMap<u64, u32>;

/// What only the holder of a store's writer slot has.
pub(crate) struct Writer {
    /// The area, before its heap was needed (a named snapshot without changes).
    pub area: Option<Arc<Area>>,
    /// The area and heap, once something is written.
    pub ground: Option<Arc<Ground>>,
    /// Blocks that the state this store was opened with has in limbo.
    pub inherited: Vec<Loc>,
    /// The root record in the area.
    pub root: Option<Arc<Blocks>>,
    /// [`Ground::changes`] when the root was written.
    root_changes: u64,
    /// Version of the catalog that the root describes.
    root_version: u64,
    /// Version of the catalog that was shared last.
    pub shared_version: Option<u64>,
    /// Every commit is published.
    pub published: bool,
    /// But not yet: the database is read from its store on a disk, and parts of it are not in
    /// memory. Meanwhile commits go there alone (`store/loading.rs`).
    pub held: bool,
    /// There are commits that were not published.
    pub changed: bool,
    /// Epoch of the last publish.
    pub epoch: Option<u64>,
    /// The store on a disk.
    pub disk: Option<Arc<Disk>>,
    /// Hash indexes of keys.
    pub unique: Indexes,
    /// Transactions that were committed and not published yet.
    pub group: Group,
    /// How many tables use a shared chunk; `None`: not counted yet.
    shared: Option<SharedCounts>,
    /// Records that were written but not published yet.
    pending: Vec<Weak<Blocks>>,
}

/// What a commit has come to.
pub(crate) enum Committed {
    /// The new state, and the epoch when it was published.
    Done(Arc<Catalog>, Option<u64>),
    /// It is published with others.
    Joined(Ticket),
}

impl Writer {
    /// A writer of a store that was opened with this root.
    pub fn new(root: Option<Arc<Blocks>>, version: u64, inherited: Vec<Loc>) -> Box<Self> {
        Box::new(Self {
            area: None,
            ground: None,
            inherited,
            root,
            root_changes: 0,
            root_version: version,
            shared_version: None,
            published: false,
            held: false,
            changed: false,
            epoch: None,
            disk: None,
            unique: Indexes::default(),
            group: Group::default(),
            shared: None,
            pending: Vec::new(),
        })
    }

    /// Whether nothing was ever published by it or before it.
    pub fn is_fresh(&self) -> bool {
        self.root.is_none() && self.root_version == 0 && self.epoch.is_none()
    }

    /// Makes the changes of a transaction the committed state. With `others_wait` the transaction
    /// may join a group in place of being published.
    pub fn commit(
        &mut self,
        ground: &Arc<Ground>,
        base: &Catalog,
        catalog: Arc<Catalog>,
        effects: &mut Effects,
        others_wait: bool,
    ) -> Result<Committed> {
        let mut catalog = Arc::unwrap_or_clone(catalog);
        let verdict = self.judge(base, &mut catalog, effects)?;
        let catalog = Arc::new(catalog);
        verdict.apply(ground, effects);
        if others_wait && self.may_group(&verdict, effects) {
            let effects = std::mem::take(effects);
            let ticket = self.group.join(catalog.clone(), Applied { verdict, effects });
            return Ok(Committed::Joined(ticket));
        }
        match self.make_lasting(ground, &catalog) {
            Ok(epoch) => {
                verdict.settle(ground);
                Ok(Committed::Done(catalog, epoch))
            }
            Err(error) => {
                self.undo_verdict(ground, verdict, effects, base);
                self.undo_group(&error);
                Err(error)
            }
        }
    }

    /// Publishes a state, if commits are published; its epoch then.
    fn make_lasting(&mut self, ground: &Arc<Ground>, catalog: &Catalog) -> Result<Option<u64>> {
        if self.held {
            self.changed = true;
            let disk = self.disk.clone();
            return disk.map_or(Ok(None), |disk| disk.bring_to(catalog, false).map(|_| None));
        }
        if !self.published {
            self.changed = true;
            return Ok(None);
        }
        let alone = self.group.is_empty();
        let mut publish = || self.publish(ground, catalog, Publish::Committed);
        if alone { publish() } else { to_the_end(publish) }.map(Some)
    }

    /// Whether a transaction may be published together with others: its commit waits for a sync,
    /// and it did nothing but to change rows and definitions.
    fn may_group(&self, verdict: &Verdict, effects: &Effects) -> bool {
        let waits = self.disk.as_ref().is_some_and(|disk| disk.with_each_commit());
        let plain = effects.ranges.is_empty() && effects.shared.is_empty();
        let plain = plain && verdict.listed.is_empty() && verdict.unlisted.is_empty();
        let published = self.published && !self.held && !self.is_fresh();
        waits && plain && published && self.group.has_room()
    }

    /// A commit that was applied is not published.
    fn undo_verdict(
        &mut self,
        ground: &Ground,
        verdict: Verdict,
        effects: &Effects,
        base: &Catalog,
    ) {
        let space = &ground.space;
        verdict.gone.iter().for_each(|b| b.revive());
        effects.created.iter().for_each(|b| b.demote());
        verdict.listed.iter().for_each(|r| space.set_foreign(r, false));
        // Those that were never listed are the transaction's to forget.
        let known = |r: &&Arc<Foreign>| base.foreign.contains_key(&r.loc.offset);
        let unlisted = verdict.unlisted.iter().filter(known);
        unlisted.for_each(|r| space.set_foreign(r, true));
        self.restore_counts(verdict.counts);
    }

    /// The group could not be published: the state is the one before it.
    pub fn undo_group(&mut self, error: &Error) {
        if self.group.is_empty() {
            return;
        }
        let mut group = std::mem::take(&mut self.group);
        group.undo(error, |applied| self.undo(applied));
        // They describe the group's state; each is built anew when it is needed.
        self.unique = Indexes::default();
    }

    /// Takes back a transaction of a group; it has no foreign ranges (see [`Writer::may_group`]).
    fn undo(&mut self, applied: Applied) {
        let Applied { verdict, effects } = applied;
        verdict.gone.iter().for_each(|b| b.revive());
        effects.created.iter().for_each(|b| b.demote());
        self.restore_counts(verdict.counts);
    }

    /// Finds out which dropped blocks no table uses any more, and counts the uses of foreign
    /// ranges.
    fn judge(
        &mut self,
        base: &Catalog,
        catalog: &mut Catalog,
        effects: &Effects,
    ) -> Result<Verdict> {
        let mut verdict = Verdict::default();
        if base.sharing || !effects.shared.is_empty() {
            if self.shared.is_none() {
                self.shared = Some(if base.sharing { count(base)? } else { HashMap::new() });
            }
            let counts = self.shared.get_or_insert_default();
            for blocks in &effects.shared {
                let Some(key) = blocks.key() else { continue };
                let before = counts.insert(key, counts.get(&key).copied().unwrap_or(1) + 1);
                verdict.counts.push((key, before));
            }
            for blocks in &effects.dropped {
                let before = blocks.key().and_then(|key| Some((key, *counts.get(&key)?)));
                let Some((key, users)) = before else {
                    verdict.gone.push(blocks.clone());
                    continue;
                };
                verdict.counts.push((key, Some(users)));
                if users > 2 {
                    counts.insert(key, users - 1);
                } else {
                    counts.remove(&key);
                }
            }
            catalog.sharing = !counts.is_empty();
        } else {
            verdict.gone = effects.dropped.clone();
        }
        let fresh_ranges = !effects.ranges.is_empty();
        if fresh_ranges || verdict.gone.iter().any(|b| !b.foreign().is_empty()) {
            count_foreign(catalog, effects, &mut verdict);
        }
        Ok(verdict)
    }

    fn restore_counts(&mut self, changes: Vec<(u64, Option<u32>)>) {
        let Some(counts) = &mut self.shared else { return };
        for (key, before) in changes.into_iter().rev() {
            match before {
                Some(users) => counts.insert(key, users),
                None => counts.remove(&key),
            };
        }
    }

    /// Publishes a committed state.
    pub fn publish(
        &mut self,
        ground: &Arc<Ground>,
        catalog: &Catalog,
        kind: Publish,
    ) -> Result<u64> {
        let _session = ground.area().write_session();
        let current = self.root.is_some()
            && self.root_version == catalog.version
            && self.root_changes == ground.changes();
        let written = match current {
            true => Ok(()),
            false => {
                let most = if kind == Publish::Shared { MAX_FREED_BY_SHARE } else { u64::MAX };
                self.write_root(ground, catalog, most)
            }
        };
        let result = written.and_then(|()| self.publish_stored(ground, catalog, kind));
        match result {
            Ok(epoch) => {
                self.pending.clear();
                self.changed = false;
                self.epoch = Some(epoch);
                Ok(epoch)
            }
            Err(error) => {
                self.take_back(current);
                Err(error)
            }
        }
    }

    /// Publishes the root; where each commit goes to a store on a disk, the state is there before.
    fn publish_stored(
        &mut self,
        ground: &Arc<Ground>,
        catalog: &Catalog,
        kind: Publish,
    ) -> Result<u64> {
        let Some(disk) = self.disk.clone().filter(|disk| disk.with_each_commit()) else {
            return self.publish_root(ground, kind);
        };
        disk.bring_to(catalog, true)?;
        match self.publish_root(ground, kind) {
            Ok(epoch) => {
                disk.keep();
                Ok(epoch)
            }
            Err(error) => {
                disk.take_back()?;
                Err(error)
            }
        }
    }

    /// A publish has failed: a root that was written for it, and its records, are not live. Records
    /// of tables that the next state still has are found again through `pending`. A root that was
    /// `current` before stays for the next publish, and so do the records that it leads to.
    fn take_back(&mut self, current: bool) {
        if current {
            return;
        }
        for record in self.pending.iter().filter_map(Weak::upgrade) {
            record.demote();
        }
        if let Some(root) = self.root.take() {
            root.demote();
        }
    }

    /// Writes the records that are missing, and a new root in place of the old one; frees up to
    /// about `most` bytes of what was dropped.
    fn write_root(&mut self, ground: &Arc<Ground>, catalog: &Catalog, most: u64) -> Result<()> {
        let mut written = Vec::new();
        let persisted = catalog.persist_tables(ground, &mut written);
        self.pending.extend(written.iter().map(Arc::downgrade));
        persisted?;
        for record in self.pending.iter().filter_map(Weak::upgrade) {
            record.promote();
        }
        // Nobody in this process reads a root after it was decoded.
        if let Some(old) = self.root.take() {
            old.retire();
        }
        ground.drain_some(most)?;
        let root = ground.store(&catalog.root(&ground.space.limbo())?)?;
        root.promote();
        self.root = Some(root);
        self.root_version = catalog.version;
        self.root_changes = ground.changes();
        Ok(())
    }

    /// What a large commit that is not published leaves to the first `share()`, done now: freeing
    /// what was dropped, writing the records, protecting the memory. A user who shares then does
    /// not wait for it. Whatever fails here is done, and may fail, then.
    pub fn prepare_share(&mut self, ground: &Arc<Ground>, catalog: &Catalog) {
        if self.published || ground.area().name().is_none() {
            return;
        }
        let _session = ground.area().write_session();
        let freed = ground.drain();
        debug_assert!(freed.is_ok(), "{freed:?}");
        if ground.area().stats().private <= PREPARED_FROM {
            return;
        }
        if self.write_root(ground, catalog, u64::MAX).is_err() {
            self.take_back(false);
        }
        let _pause = ground.heap.pause();
        let protected = ground.area().protect_ahead(ByteLen(0));
        debug_assert!(protected.is_ok(), "{protected:?}");
    }

    /// Frees what published commits have dropped, if that is much, and publishes the committed
    /// state once more, without it.
    ///
    /// The state of the commit itself still has the dropped blocks in limbo, and so their memory:
    /// only the publish after the next change would give it back, and that change may need it.
    /// Whatever fails here has changed nothing that is committed, and is done by the next change.
    pub fn give_back_dropped(&mut self, catalog: &Catalog) {
        let Some(ground) = self.ground.clone() else { return };
        if !self.published || self.held || ground.space.queued_bytes() <= MAX_LEFT_BY_COMMITS {
            return;
        }
        // A database in which nothing was committed yet does not begin to exist here.
        if ground.drain().is_ok() && !self.is_fresh() {
            // Without memory for the records of a state, the committed one stays.
            let _ = to_the_end(|| self.publish(&ground, catalog, Publish::Committed));
        }
    }

    fn publish_root(&mut self, ground: &Arc<Ground>, kind: Publish) -> Result<u64> {
        let root = self.root.as_ref().ok_or_else(|| Error::internal("no root to publish"))?;
        let payload = payload(root)?;
        let _pause = ground.heap.pause();
        let epoch = ground.area().publish(kind, &payload).map_err(publish_error)?;
        ground.area().give_back_later();
        Ok(epoch.0)
    }
}

/// How many chunks use each foreign range after the commit.
fn count_foreign(catalog: &mut Catalog, effects: &Effects, verdict: &mut Verdict) {
    let mut used: BTreeMap<u64, ForeignUse> = BTreeMap::clone(&catalog.foreign);
    let mut known: BTreeMap<u64, Arc<Foreign>> = BTreeMap::new();
    for range in effects.created.iter().flat_map(|b| b.foreign()) {
        let new = ForeignUse { len: range.loc.len, chunks: 0 };
        used.entry(range.loc.offset).or_insert(new).chunks += 1;
        known.insert(range.loc.offset, range.clone());
    }
    for range in verdict.gone.iter().flat_map(|b| b.foreign()) {
        if let Some(used) = used.get_mut(&range.loc.offset) {
            used.chunks = used.chunks.saturating_sub(1);
        }
        known.insert(range.loc.offset, range.clone());
    }
    for range in &effects.ranges {
        known.insert(range.loc.offset, range.clone());
    }
    used.retain(|_, used| used.chunks > 0);
    for (offset, range) in known {
        match (catalog.foreign.contains_key(&offset), used.contains_key(&offset)) {
            (false, true) => verdict.listed.push(range),
            (_, false) => verdict.unlisted.push(range),
            (true, true) => {}
        }
    }
    catalog.foreign = Arc::new(used);
}

/// How many tables use each chunk that more than one uses.
fn count(catalog: &Catalog) -> Result<SharedCounts> {
    let mut counts = SharedCounts::new();
    for table in catalog.all_tables()? {
        for segment in table.segments()?.iter() {
            for key in segment.blocks()?.iter().filter_map(|b| b.key()) {
                *counts.entry(key).or_insert(0) += 1;
            }
        }
    }
    counts.retain(|_, users| *users > 1);
    Ok(counts)
}
