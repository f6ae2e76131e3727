//! Sharing a state with other processes, and moving a snapshot to a newer one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use swing::{AreaName, Publish};
use swingdb_common::error::{Error, Result};
use swingdb_common::progress::Progress;

use crate::catalog::state::Catalog;
use crate::commit::writer::Writer;
use crate::errors::area::{hook_error, publish_error};
use crate::store::handle::Store;
use crate::store::in_memory::take_snapshot;

/// What [`Store::share`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareInfo {
    /// The epoch that is now current for other processes.
    pub epoch: u64,
    /// How long it took.
    pub duration: Duration,
    /// As [`Store::outlives_processes`].
    pub outlives_processes: bool,
}

impl Store {
    /// Makes the last committed state the one other processes get. While the database is still
    /// read from its store, that waits until all of it is in memory.
    pub fn share(&self) -> Result<ShareInfo> {
        self.share_with_progress(None)
    }

    /// As [`Store::share`]; tells `progress` how far reading from the store is.
    pub fn share_with_progress(&self, progress: Option<&dyn Progress>) -> Result<ShareInfo> {
        let start = Instant::now();
        if self.inner.name.is_none() {
            let message = "it has no name under which others could find it; open a named database, \
                           or take the snapshot under a name";
            return Err(Error::unsupported(format!("sharing this database: {message}")));
        }
        self.check_process()?;
        self.loaded(progress)?;
        let mut writer = self.take_writer()?;
        let catalog = self.latest();
        let shared = self.share_with(&mut writer, &catalog);
        let outlives_processes = self.outlives(&writer);
        self.give_back(writer);
        Ok(ShareInfo { epoch: shared?, duration: start.elapsed(), outlives_processes })
    }

    fn share_with(&self, writer: &mut Writer, catalog: &Catalog) -> Result<u64> {
        let epoch = if writer.ground.is_none() && !writer.changed {
            // A snapshot without own changes: the state it shows is shared on as it is.
            let area = self.area(writer)?;
            let epoch = area.publish(Publish::Shared, &area.payload());
            let epoch = epoch.map_err(publish_error)?.0;
            writer.epoch = Some(epoch);
            epoch
        } else {
            let ground = self.ground(writer)?;
            let epoch = writer.publish(&ground, catalog, Publish::Shared)?;
            let shared_before = writer.shared_version.replace(catalog.version);
            if catalog.has_no_tables() && shared_before == Some(catalog.version) {
                // Nothing is kept for the next writes: a database without tables takes no memory.
                // The first share of such a state does not wait for that, since much may have been
                // dropped just before; what is left behind for the next writes goes with a second.
                let given_back = ground.area().reclaim();
                debug_assert!(given_back.is_ok(), "{given_back:?}");
            }
            epoch
        };
        writer.published = true;
        Ok(epoch)
    }

    /// Moves a snapshot without own changes to the newest shared state of its origin, or of the
    /// database that has been made anew under its name since; `false`: it was the newest.
    pub fn refresh(&self) -> Result<bool> {
        let origin = self.origin()?;
        let mut writer = self.take_writer()?;
        let result = self.refresh_with(&mut writer, origin);
        self.give_back(writer);
        result
    }

    fn refresh_with(&self, writer: &mut Writer, origin: &AreaName) -> Result<bool> {
        if writer.published || writer.changed || writer.ground.is_some() {
            return Err(Error::transaction(
                "this snapshot has changes of its own or was shared; take a new snapshot instead",
            ));
        }
        let newest = self.inner.namespace.shared_state(origin);
        let newest = newest.map_err(|e| hook_error(e, origin.as_str()))?;
        let seen = self.snapshot_state();
        let is_newer = newest.is_some_and(|newest| newest.is_news_to(seen));
        if is_newer {
            let (snapshot, catalog, fresh) = take_snapshot(&self.inner.namespace, origin)?;
            // With it goes the old area, which nothing was written to.
            *writer = *fresh;
            *self.inner.snapshot.lock() = Some(snapshot);
            self.install(Arc::new(catalog));
        }
        if self.inner.name.is_some() {
            // Only now is the name free. Where this fails, the next call tries again.
            self.area(writer)?;
        }
        Ok(is_newer)
    }

    /// Waits until the origin of this snapshot has shared a newer state, or another database of its
    /// name one; `false` when the time is over.
    pub fn wait_newer(&self, timeout: Duration) -> Result<bool> {
        let origin = self.origin()?;
        let newer = self.inner.namespace.wait_newer(origin, self.snapshot_state(), timeout);
        newer.map_err(|e| hook_error(e, origin.as_str()))
    }
}
