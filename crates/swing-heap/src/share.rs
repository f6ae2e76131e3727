//! Heaps in an area: opening, and sharing states that other processes read.
//!
//! The objects in memory, their table and the buffers lie in an area (`memory`). A shared state is
//! a publish of that area, and what `state` adds to it. Reading a state is in `snapshot`.
//!
//! **Why a state is one.** It is published while the heap's lock is held, and while nobody writes
//! an object (`writers`). So no object moves meanwhile: each entry says where the object is, in a
//! cell, in a buffer or in a block of the file; also a busy one, whose place changes under the lock
//! only.
//!
//! **Why its blocks stay.** A block that a state may show is not written anew as long as the
//! state is leased or the newest (INV-OBJ-9, `shares`). A leased state of a heap that has ended
//! stays, too: nobody writes to the file any more, and the reader has it open.
//!
//! **Crash.** The file of blocks has no name: it goes with the last process that has it open. The
//! area of a killed owner stays in its namespace until somebody collects what is left of dead
//! processes, or a heap of the name is opened again; its state cannot be opened any more.
//!
//! **Cycle.** The files with methods of the heap call each other.

use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use swing::{AreaName, CreateError, Epoch, Namespace, Publish};
use swing_tier::{Cause, Directory, DirectoryOptions, IoError};

use crate::core::Core;
use crate::entry::Handle;
use crate::error::HeapError;
use crate::heap::ObjectHeap;
use crate::memory::{AreaMemory, Memory, area_options};
use crate::options::{HeapOptions, check_options};
use crate::patience::Patience;
use crate::shared::{Kind, Shared};
use crate::state::State;
use crate::window::Settled;
use crate::writers::{Writers, Writing};

/// How long new writers are held up in one go. A thread that has one guard may want another before
/// it drops the first.
const SHUT_FOR: Duration = Duration::from_millis(20);

/// What listings call the area.
const LABEL: &str = "object heap";

/// What a heap in an area has besides.
pub(crate) struct InArea {
    memory: Arc<AreaMemory>,
    writers: Writers,
}

impl ObjectHeap {
    /// Opens an empty heap whose objects in memory lie in a new area of a namespace. What is shared
    /// of it ([`ObjectHeap::share`]) other processes read, with all objects, also those on the disk
    /// ([`crate::HeapSnapshot`]). The heap is ephemeral, as that of [`ObjectHeap::open`]. When it
    /// is dropped the name is free again; snapshots stay.
    ///
    /// An area of the name that a killed process left is replaced, if a heap was in it.
    ///
    /// ```
    /// use swing::{AreaName, Namespace};
    /// use swing_heap::{HeapOptions, HeapSnapshot, ObjectHeap};
    /// # let (temporary, home) = (tempfile::tempdir()?, tempfile::tempdir_in("/dev/shm")?);
    /// let namespace = Namespace::open(home.path())?;
    /// let (name, options) = (AreaName::new("sessions")?, HeapOptions::default());
    /// let heap = ObjectHeap::open_in(&namespace, &name, temporary.path(), options)?;
    /// let handle = heap.alloc_from(b"logged in")?;
    /// heap.set_root(Some(handle))?;
    /// heap.share()?;
    /// heap.write(handle)?.copy_from_slice(b"has gone!");
    ///
    /// // In this process or any other one:
    /// let snapshot = HeapSnapshot::open(&namespace, &name)?;
    /// let root = snapshot.root().ok_or("no root")?;
    /// assert_eq!(*snapshot.read(root)?, *b"logged in");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`HeapError::Area`] if the area cannot be made, for instance because its name is taken
    /// ([`crate::AreaProblem::NameTaken`]); and as [`ObjectHeap::open`].
    pub fn open_in(
        namespace: &Namespace,
        name: &AreaName,
        path: &Path,
        options: HeapOptions,
    ) -> Result<Self, HeapError> {
        check_options(&options)?;
        let storage =
            Directory::open(path, DirectoryOptions { create: true, ..Default::default() })?;
        let made = area_options(options.budget);
        let area = match namespace.create(name, &made) {
            Err(CreateError::AlreadyExists { .. }) => {
                remove_dead(namespace, name)?;
                namespace.create(name, &made)
            }
            made => made,
        }?;
        area.track()?;
        // Without its process, and the file that this has open, it is of no use.
        area.end_with_process(LABEL).map_err(HeapError::other_of_area)?;
        let memory = Arc::new(AreaMemory::new(area, namespace.clone(), name.clone()));
        let in_area = InArea { memory: memory.clone(), writers: Writers::default() };
        Self::open_empty(
            Arc::new(storage),
            &options,
            Memory::Area(memory),
            Kind::InArea(Box::new(in_area)),
        )
    }

    /// Shares the present state of all objects: snapshots that are opened from now on show it.
    /// Waits for write guards. What is stored through pins meanwhile is there or not. Stores
    /// through plain pointers are there up to one moment, which is the same for all threads; a copy
    /// of many bytes that another thread is just making may be there in part.
    ///
    /// Sharing copies nothing. Afterwards the first store to each part of memory copies that part
    /// (64 KiB to 1 MiB, by the budget), which comes on top of the budget as long as somebody can
    /// see the state; so do blocks of the file.
    ///
    /// # Errors
    /// [`HeapError::Options`] for a heap that is in no area; [`HeapError::Writing`] if a write
    /// guard stays for longer than `max_wait`, also one of the caller; [`HeapError::InUse`] if a
    /// read guard does whose object was changed through a pointer; [`HeapError::Area`]. The state
    /// before stays the newest.
    pub fn share(&self) -> Result<Epoch, HeapError> {
        self.check_process()?;
        let shared = &*self.shared;
        let Some(area) = &shared.area else {
            return Err(HeapError::Options("only a heap in an area is shared; see open_in"));
        };
        let started = Instant::now();
        let mut in_use = None;
        loop {
            let shut = area.writers.shut();
            let begun = Instant::now();
            while begun.elapsed() < SHUT_FOR {
                // Nobody comes in before the gate opens.
                if area.writers.is_empty() {
                    match shared.window.get().map(|window| window.settle(shared)).transpose()? {
                        Some(Settled::Stays(id)) => in_use = Some(shared.handle_of_id(id)),
                        // No page is filled before the state is published.
                        _settled => {
                            let mut core = shared.lock();
                            shared.check_whole()?;
                            return shared.share_locked(area, &mut core);
                        }
                    }
                } else {
                    in_use = None;
                }
                std::thread::sleep(Duration::from_micros(50));
            }
            drop(shut);
            let waited = started.elapsed();
            if waited > shared.max_wait() {
                let waited_ms = waited.as_millis() as u64;
                return Err(match in_use {
                    Some(handle) => HeapError::InUse { handle, waited_ms },
                    None => HeapError::Writing { waited_ms },
                });
            }
            std::thread::sleep(SHUT_FOR);
        }
    }

    /// Counts a writer in, of a heap in an area.
    #[inline]
    pub(crate) fn enter_writers(&self, handle: Handle) -> Result<Option<Writing<'_>>, HeapError> {
        match &self.shared.area {
            None => Ok(None),
            Some(area) => self.enter_area(area, handle).map(Some),
        }
    }

    fn enter_area<'a>(&self, area: &'a InArea, handle: Handle) -> Result<Writing<'a>, HeapError> {
        self.check_process()?;
        let mut patience = Patience::new(self.shared.max_wait());
        loop {
            match area.writers.enter() {
                Some(writing) => return Ok(writing),
                None => patience.wait(handle)?,
            }
        }
    }

    /// For a write guard that was forgotten on purpose.
    pub(crate) fn leave_writers(&self) {
        if let Some(area) = &self.shared.area {
            area.writers.leave();
        }
    }
}

impl Shared {
    fn share_locked(&self, area: &InArea, core: &mut Core) -> Result<Epoch, HeapError> {
        let Some(file) = self.file.descriptor() else {
            return Err(
                IoError::new("share the file in", self.storage.path(), Cause::Closed).into()
            );
        };
        let facts = rustix::fs::fstat(file)
            .map_err(|e| HeapError::Io(IoError::from_os("examine", self.storage.path(), e)))?;
        let state = State {
            ids: core.next_id,
            seed: core.disk.seed(),
            root: core.root,
            base: area.memory.area().base().as_ptr() as u64,
            pid: std::process::id(),
            fd: file.as_raw_fd() as u32,
            file: (facts.st_dev, facts.st_ino),
            blocks: core.disk.blocks() as u32,
            buffers: core.disk.blocks_in_memory(),
        };
        let memory = area.memory.area();
        let epoch = memory.publish(Publish::Shared, &state.encode())?;
        memory.give_back_later();
        core.disk.add_state(epoch);
        self.look_at_states(core);
        Ok(epoch)
    }

    /// Looks which states can be seen still. Whether that frees blocks of the file.
    pub(crate) fn look_at_states(&self, core: &mut Core) -> bool {
        let Some(area) = &self.area else { return false };
        match area.memory.area().live_states() {
            Ok(live) => core.disk.retain_states(&live),
            // Not known: all of them.
            Err(_) => false,
        }
    }
}

/// Removes an area that a killed owner of a heap has left.
fn remove_dead(namespace: &Namespace, name: &AreaName) -> Result<(), HeapError> {
    let payload = namespace.published_payload(name).map_err(HeapError::other_of_area)?;
    if payload.is_some_and(|bytes| State::decode(&bytes).is_err()) {
        let text = format!("{name} is an area of something else");
        return Err(HeapError::name_taken(text));
    }
    // Of a living owner it cannot be removed.
    namespace.remove(name).map(|_| ()).map_err(HeapError::name_taken)
}
