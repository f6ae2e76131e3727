//! The memory of an area: made with its first write, grown by planes, given a name by a publish.
//!
//! Before memory is taken, the free memory of the file system and of the machine is checked. So
//! running out of memory is an error of the call, not a SIGBUS at some later store (INV-AREA-9).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::io::Errno;

use crate::area::core::Core;
use crate::area::tables::{Memory, Tables};
use crate::memory::backing::headroom;
use crate::memory::copier::{self, COPY_STEP, Contents, Route, Target};
use crate::memory::mapping::mapping_fault;
use crate::model::backing::Backing;
use crate::model::error::{Fault, Result};
use crate::model::geometry::MAX_PLANES;
use crate::model::units::{AreaOffset, ByteLen};
use crate::namespace::files::MEMORY;
use crate::sys::copy_bytes::CopyFor;
use crate::sys::kept_file::{Access, KeptFile};
use crate::sys::{file, memfd, memory_limits};

/// A look at the file system is good for a 16th of what was free, at most this much.
const MAX_ALLOWANCE: u64 = 64 << 20;

impl Core {
    /// The own memory file, made with the first write, at least `len` bytes long.
    pub(crate) fn memory_of_len(&self, state: &mut Tables, len: u64) -> Result<Arc<KeptFile>> {
        let path = self.memory_path();
        if state.storage.memory.is_none() {
            // Without a name it vanishes with the process, however that ends, until a publish needs
            // it to stay.
            let (file, linked) = self.make_memory(state.storage.backing)?;
            if let Some(lock) = state.lock.as_ref().filter(|_| !linked) {
                lock.note_memory(file.here_for(&path)?);
            }
            state.storage.memory = Some(Memory { file: Arc::new(file), linked, len: 0 });
        }
        let Some(memory) = state.storage.memory.as_mut() else {
            return Err(Fault::Closed);
        };
        assert!(
            0 < len && len <= u64::from(MAX_PLANES) * self.geometry.reserve().0,
            "a length that ends with a plane"
        );
        if memory.len < len {
            let planes = len.div_ceil(self.geometry.reserve().0);
            let len = planes * self.geometry.reserve().0;
            file::set_len(memory.file.here_for(&path)?, len, &path)?;
            memory.len = len;
        }
        assert!(memory.len >= len, "INV-AREA-9: no mapping reaches beyond the file");
        Ok(memory.file.clone())
    }

    /// New memory, and whether it has a name.
    fn make_memory(&self, backing: Backing) -> Result<(KeptFile, bool)> {
        let path = self.memory_path();
        let (file, linked) = match backing {
            Backing::Memfd => (memfd::create(self.id, self.folder.path())?, false),
            _ => match self.folder.create_nameless() {
                Ok(file) => (file, false),
                Err(Fault::Io(_)) => (self.folder.create_new(MEMORY)?, true),
                Err(e) => return Err(e),
            },
        };
        let kept = KeptFile::new(file, Access::Write).map_err(|e| Fault::io("use", &path, e))?;
        Ok((if linked { kept.named(&path) } else { kept }, linked))
    }

    /// Gives the own memory file a name, so that others can open it and an adopter finds it.
    pub(crate) fn link_memory(&self, state: &mut Tables) -> Result<()> {
        if let Some(memory) = state.storage.memory.as_mut().filter(|m| !m.linked) {
            let path = self.folder.join(MEMORY);
            crate::memory::lookup::give_name(&self.folder, memory.file.here_for(&path)?, MEMORY)?;
            // Of a memfd that leads nowhere.
            memory.file.set_path(&path);
            memory.linked = true;
        }
        Ok(())
    }

    /// The file a run's bytes are in.
    pub(crate) fn file_of(&self, state: &Tables, source: u32) -> Result<Arc<KeptFile>> {
        self.kept_file_of(state, source).cloned().ok_or_else(|| {
            Fault::corrupt(self.folder.path(), format!("source {source} has no file"))
        })
    }

    /// The same for the fault handler.
    pub(crate) fn kept_file_of<'a>(
        &self,
        state: &'a Tables,
        source: u32,
    ) -> Option<&'a Arc<KeptFile>> {
        match source {
            0 => state.storage.memory.as_ref().map(|m| &m.file),
            s => state.sources.get(s as usize)?.as_ref().map(|s| &s.file),
        }
    }

    /// Maps a range again as the runs describe it, after a change of it failed half-way.
    pub(crate) fn restore(&self, state: &Tables, start: u64, end: u64) {
        assert!(start <= end && end <= self.geometry.reserve().0, "a part of the area");
        let mut at = start;
        let span = self.mapping.span();
        for run in state.runs.overlapping(start, end) {
            assert!(at <= run.start && run.end() <= end, "runs are ordered and cut");
            if run.start > at {
                let _ = span.unmap(at as usize, (run.start - at) as usize);
            }
            let mapped = self.file_of(state, run.source).and_then(|f| {
                let path = self.memory_path();
                self.mapping
                    .map_run(&run, &f, false)
                    .map_err(|e| crate::memory::mapping::mapping_fault(e, &path))
            });
            // Without the old contents the process would read other bytes than it wrote: crash
            // rather than corrupt.
            assert!(mapped.is_ok(), "cannot restore the mapping at {:#x}: {mapped:?}", run.start);
            at = run.end();
        }
        if at < end {
            let _ = span.unmap(at as usize, (end - at) as usize);
        }
    }

    /// A read-only open of the own memory file, if there is one.
    pub(crate) fn own_memory_read_only(&self, state: &Tables) -> Result<Option<KeptFile>> {
        let Some(memory) = &state.storage.memory else { return Ok(None) };
        let path = self.memory_path();
        let file = file::reopen_read(memory.file.here_for(&path)?)?;
        let kept = KeptFile::known(file, memory.file.identity(), Access::Read);
        Ok(Some(if memory.linked { kept.named(&path) } else { kept }))
    }

    /// Before memory is taken: whether there is so much, on the file system and in all.
    pub(crate) fn take_room(&self, len: u64) -> Result<()> {
        self.check_headroom(len)?;
        if !self.in_memory || len == 0 {
            return Ok(());
        }
        memory_limits::take(len).map_err(|shortage| Fault::OutOfMemory {
            needed: ByteLen(len),
            file_system: shortage.limit.to_owned(),
            free: shortage.free,
        })
    }

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
        let Some(room) = file::free_space(self.ns.path()) else { return Ok(()) };
        let kept = headroom(room.size).0;
        if let Some(rest) = room.free.0.checked_sub(len.saturating_add(kept)) {
            allowance.store((rest / 16).min(MAX_ALLOWANCE), Ordering::Relaxed);
            return Ok(());
        }
        let file_system = self.folder.path().to_owned();
        Err(Fault::OutOfMemory { needed: ByteLen(len), file_system, free: room.free })
    }

    /// Before an area is tracked: what the fault handler uses is decided once, so it does not move
    /// on later. Where the file system is small it begins in a memfd.
    pub(crate) fn settle_memory(&self, state: &mut Tables) {
        let was_movable = self.movable.swap(false, Ordering::SeqCst);
        if was_movable && self.on_small && state.storage.memory.is_none() {
            assert!(state.storage.former.is_none(), "it has never had memory");
            state.storage.backing = Backing::Memfd;
        }
    }

    /// Copies what some extents of one zone show to a place of a file, and shows that.
    ///
    /// # Safety
    /// The range is mapped readable, and nobody stores there.
    pub(crate) unsafe fn copy_shown(
        &self,
        start: u64,
        len: u64,
        to: (&KeptFile, u64),
        writable: bool,
        replaced: &mut u64,
    ) -> Result<()> {
        let contents = Contents::Copied(CopyFor::Storing);
        // SAFETY: the caller's promise.
        unsafe { self.make_and_place(start, len, to, contents, writable, replaced) }?;
        self.counters.copied_bytes.fetch_add(len, Ordering::Relaxed);
        Ok(())
    }

    /// Makes new versions of some extents of one zone, and shows them; large ones a piece at a
    /// time. `replaced` is how many of the bytes show something else afterwards, also when it
    /// fails.
    ///
    /// # Safety
    /// As of [`copier::make`].
    pub(crate) unsafe fn make_and_place(
        &self,
        start: u64,
        len: u64,
        (file, offset): (&KeptFile, u64),
        contents: Contents,
        writable: bool,
        replaced: &mut u64,
    ) -> Result<()> {
        let large = self.geometry.is_huge(self.geometry.extent_of(AreaOffset(start)));
        let (route, most) = match large {
            true => (Route::Mapping { small_pages: false }, COPY_STEP),
            false => (Route::File, len),
        };
        while *replaced < len {
            let piece = most.min(len - *replaced);
            let (from, offset) = (start + *replaced, offset + *replaced);
            let at = self.mapping.span().address_of(from as usize, piece as usize);
            // Whether there are old bytes is the caller's knowledge, and has led to `contents`.
            let spare = true;
            let target = Target { at, len: piece as usize, file, offset, spare };
            // SAFETY: the caller's promise.
            let made = unsafe { copier::make(&target, contents, route) };
            let made = made.map_err(|e| self.copying_fault(e, piece))?;
            if let Err(e) = copier::place(&target, &made, writable) {
                copier::leave_in_file(&target, made);
                return Err(self.copying_fault(e, piece));
            }
            *replaced += piece;
        }
        assert_eq!(*replaced, len, "all of it, and nothing beyond");
        Ok(())
    }

    fn copying_fault(&self, e: Errno, len: u64) -> Fault {
        match e {
            Errno::NOSPC => file::out_of_memory(self.folder.path(), ByteLen(len)),
            e => mapping_fault(e, &self.memory_path()),
        }
    }
}
