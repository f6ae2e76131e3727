//! Moving on to a memfd when the file system of an area's memory is full.
//!
//! Nothing is copied. The area becomes one that depends on a state of itself: what it shows stays
//! in the file, which becomes a source like the memory of any other area, and every new version
//! goes to a memfd from here on. Other processes see no difference, only a manifest with one source
//! more. What is overwritten later leaves the file by itself, and when neither the live state nor a
//! live manifest shows anything of it, the file goes ([`Core::drop_former`]).
//!
//! **Private extents** are in the file, too, and somebody may be storing into them at this moment.
//! They stay what and where they are, and are frozen by the next publish as always. The manifest
//! that stands for the file's state describes them as they are now; that is harmless, since nobody
//! can hook it ([`crate::model::manifest::Kind::Anonymous`]), and whoever needs it finds what later
//! manifests say.
//!
//! **A crash** before the next publish leaves the file with the last committed state, as if nothing
//! had happened: the memfd has no name yet.
//!
//! **Tracked areas** ([`crate::tracked`]) do not move on: what the fault handler does is decided
//! ahead. Where the file system is small they are memfds from their begin.
//!
//! Room for the small files that this and every later publish need is kept free
//! ([`crate::memory::backing::headroom`]): an area moves on before its file system is full to the
//! last page.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::area::core::Core;
use crate::area::tables::{Former, Source, Tables};
use crate::model::backing::Backing;
use crate::model::error::{Fault, Result};
use crate::model::manifest::MAX_SOURCES;
use crate::model::old_versions::Versions;
use crate::model::own_versions::OwnTable;
use crate::model::runs::{Run, RunMap};
use crate::model::units::Epoch;
use crate::namespace::lease::Lease;
use crate::sys::file;

impl Core {
    /// Goes on in a memfd; `false` when that is not for this area. The caller has given back what
    /// can be.
    pub(crate) fn move_on(&self) -> Result<bool> {
        if !self.movable.load(Ordering::SeqCst) {
            return Ok(self.state.lock().storage.former.is_some());
        }
        self.idle_wanted.fetch_add(1, Ordering::Relaxed);
        let settled = self.lock_settled(0..self.geometry.extent_count());
        self.idle_wanted.fetch_sub(1, Ordering::Relaxed);
        let (mut state, _closed) = settled?;
        if !self.movable.load(Ordering::SeqCst) {
            // Another thread was faster.
            return Ok(state.storage.former.is_some());
        }
        assert!(state.busy == 0 && state.storage.former.is_none(), "INV-AREA-3: nobody is at work");
        self.exchange_memory(&mut state).map(|()| true)
    }

    fn exchange_memory(&self, state: &mut Tables) -> Result<()> {
        self.end_growth(state)?;
        let Some((_, identity)) =
            state.storage.memory.as_ref().map(|m| (m.file.clone(), m.file.identity()))
        else {
            // Nothing has been written yet.
            state.storage.backing = Backing::Memfd;
            self.movable.store(false, Ordering::SeqCst);
            return Ok(());
        };
        if state.sources.len() >= MAX_SOURCES {
            return Err(Fault::Limit { what: "areas depended on", limit: MAX_SOURCES as u64 });
        }
        let Some(reader) = self.own_memory_read_only(state)?.map(Arc::new) else {
            return Err(Fault::Closed);
        };
        let (epoch, lease) = self.describe_former(state)?;
        let lease = Arc::new(lease);
        self.mapping.keep(lease.clone(), Some(reader.clone()));
        let slot = state.sources.len() as u32;
        state.sources.push(Some(Source {
            area: self.id,
            epoch,
            name: self.name.clone(),
            file: reader,
            dev: identity.0,
            ino: identity.1,
            lease,
            via: None,
            pinned: false,
            first_published: None,
            last_published: None,
        }));
        let moved =
            |run: Run| Run { source: if run.source == 0 { slot } else { run.source }, ..run };
        let shown = state.runs.bytes();
        state.runs = RunMap::from_runs(state.runs.iter().map(moved));
        assert_eq!(state.runs.bytes(), shown, "INV-AREA-16: the same bytes, from elsewhere");
        state.storage.former = Some(Former { last: epoch });
        state.own = OwnTable::default();
        state.versions = Versions::default();
        state.changed.in_place.clear();
        state.storage.memory = None;
        state.storage.backing = Backing::Memfd;
        state.changed.dirty = true;
        self.movable.store(false, Ordering::SeqCst);
        assert_eq!(state.runs.bytes_of(0), 0, "nothing is in the new memory yet");
        Ok(())
    }

    /// A leased manifest of what the file holds.
    fn describe_former(&self, state: &mut Tables) -> Result<(Epoch, Lease)> {
        let (epoch, file) = self.write_view(state)?;
        let path = self.folder.join(&crate::namespace::files::manifest_name(epoch));
        if !file::try_lock(file.here_for(&path)?, false, &path)? {
            return Err(Fault::Contended);
        }
        let locked = file.here_for(&path)?;
        let lease = Lease::from_locked(locked, file.identity(), path.clone(), self.id, epoch)?;
        Ok((epoch, lease))
    }
}
