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
//! can hook it ([`crate::model::manifest::Kind::View`]), and whoever needs it finds what later
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

use crate::area::{Core, Source, State};
use crate::memory::backing::headroom;
use crate::model::backing::Backing;
use crate::model::error::{Fault, Result};
use crate::model::manifest::MAX_SOURCES;
use crate::model::old_versions::Versions;
use crate::model::own_versions::OwnTable;
use crate::model::runs::{Run, RunMap};
use crate::model::units::{ByteLen, Epoch};
use crate::namespace::files::MEMORY;
use crate::namespace::lease::Lease;
use crate::sys::file;

/// A look at the file system is good for a 16th of what was free, at most this much.
const MAX_ALLOWANCE: u64 = 64 << 20;

/// The file an area had before it moved on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Former {
    /// The last manifest whose own memory it is.
    pub last: Epoch,
}

impl Core {
    /// Before `len` bytes of memory are taken: whether the file system has room for them beyond
    /// what is kept free. Always, when nothing could be done about it.
    pub(crate) fn check_headroom(&self, len: u64) -> Result<()> {
        if len == 0 || !self.movable.load(Ordering::Relaxed) {
            return Ok(());
        }
        let granted = |now: u64| now.checked_sub(len);
        let allowance = &self.headroom_allowance;
        if allowance.fetch_update(Ordering::Relaxed, Ordering::Relaxed, granted).is_ok() {
            return Ok(());
        }
        let Some(room) = file::room_of(self.ns.path()) else { return Ok(()) };
        let kept = headroom(room.size).0;
        if let Some(rest) = room.free.0.checked_sub(len.saturating_add(kept)) {
            allowance.store((rest / 16).min(MAX_ALLOWANCE), Ordering::Relaxed);
            return Ok(());
        }
        let file_system = self.folder.path().to_owned();
        Err(Fault::OutOfMemory { needed: ByteLen(len), file_system, free: room.free })
    }

    /// Goes on in a memfd; `false` when that is not for this area. The caller has given back what
    /// can be.
    pub(crate) fn move_on(&self) -> Result<bool> {
        if !self.movable.load(Ordering::SeqCst) {
            return Ok(self.state.lock().former.is_some());
        }
        self.idle_wanted.fetch_add(1, Ordering::Relaxed);
        let settled = self.lock_settled(0..self.geometry.extent_count());
        self.idle_wanted.fetch_sub(1, Ordering::Relaxed);
        let (mut state, _closed) = settled?;
        if !self.movable.load(Ordering::SeqCst) {
            // Another thread was faster.
            return Ok(state.former.is_some());
        }
        assert!(state.busy == 0 && state.former.is_none(), "INV-AREA-3: nobody is at work");
        self.exchange_memory(&mut state).map(|()| true)
    }

    fn exchange_memory(&self, state: &mut State) -> Result<()> {
        let Some((_, identity)) =
            state.memory.as_ref().map(|m| (m.file.clone(), m.file.identity()))
        else {
            // Nothing has been written yet.
            state.backing = Backing::Memfd;
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
        state.former = Some(Former { last: epoch });
        state.own = OwnTable::default();
        state.versions = Versions::default();
        state.in_place.clear();
        state.memory = None;
        state.backing = Backing::Memfd;
        state.dirty = true;
        self.movable.store(false, Ordering::SeqCst);
        assert_eq!(state.runs.bytes_of(0), 0, "nothing is in the new memory yet");
        Ok(())
    }

    /// A leased manifest of what the file holds.
    fn describe_former(&self, state: &mut State) -> Result<(Epoch, Lease)> {
        let (epoch, file) = self.write_view(state)?;
        let path = self.folder.join(&crate::namespace::files::manifest_name(epoch));
        if !file::try_lock(file.here_for(&path)?, false, &path)? {
            return Err(Fault::Contended);
        }
        let locked = file.here_for(&path)?;
        let lease = Lease::from_locked(locked, file.identity(), path.clone(), self.id, epoch)?;
        Ok((epoch, lease))
    }

    /// Before an area is tracked: what the fault handler uses is decided once, so it does not move
    /// on later. Where the file system is small it begins in a memfd.
    pub(crate) fn settle_memory(&self, state: &mut State) {
        let was_movable = self.movable.swap(false, Ordering::SeqCst);
        if was_movable && self.on_small && state.memory.is_none() {
            assert!(state.former.is_none(), "it has never had memory");
            state.backing = Backing::Memfd;
        }
    }

    /// Takes the file's name away when no live manifest has it as its own memory any more, and
    /// nothing of it is shown.
    pub(crate) fn drop_former(&self, state: &mut State) -> Result<()> {
        let Some(former) = state.former else { return Ok(()) };
        let shown = state.sources.iter().flatten();
        let shown = shown.clone().any(|s| s.area == self.id && s.epoch == former.last);
        if shown || state.live.keys().any(|epoch| *epoch <= former.last) {
            return Ok(());
        }
        self.folder.unlink(MEMORY)?;
        state.former = None;
        Ok(())
    }
}
