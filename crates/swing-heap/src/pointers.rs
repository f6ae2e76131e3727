//! Plain pointers, as the paper of FG_MM has them: loads and stores through an address bring the
//! object into memory and change it, by any thread. `window` says how.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use crate::entry::{FREE, Handle, STATE, generation};
use crate::error::HeapError;
use crate::heap::ObjectHeap;
use crate::signal;
use crate::window::{self, MAX_POINTER_BYTES, Window};

impl ObjectHeap {
    /// Lets the heap give out addresses, with a window of so many bytes of filled pages, which
    /// count in the budget, at most half of it; `None`: an eighth of it. The window follows
    /// [`ObjectHeap::set_budget`]. The first address does this by itself.
    ///
    /// # Errors
    /// [`HeapError::NoPointers`] if the system gives this process neither `userfaultfd` nor threads
    /// and mappings;
    /// [`HeapError::Io`] if it has no addresses;
    /// [`HeapError::NoMemory`] if the budget has no room for the window.
    pub fn enable_pointers(&self, window_bytes: Option<u64>) -> Result<(), HeapError> {
        self.check_process()?;
        let shared = &self.shared;
        let _one = shared.enabling.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if shared.window.get().is_some() {
            return Ok(());
        }
        let budget = shared.lock().budget;
        let window = Window::new(window_bytes, budget, shared.storage.path())?;
        {
            let mut core = shared.lock();
            core.outside_bytes += window.bytes();
            if let Err(error) = core.check_metadata() {
                core.outside_bytes -= window.bytes();
                return Err(error);
            }
            core.min_chunks = 1;
        }
        signal::register(self.view(), &window)?;
        if shared.window.set(window).is_err() {
            unreachable!("one thread at a time sets the window");
        }
        Ok(())
    }

    /// The heap for the handler of faults: it is never dropped as a heap.
    fn view(&self) -> ManuallyDrop<ObjectHeap> {
        let (shared, owner) = (self.shared.clone(), self.owner.clone());
        ManuallyDrop::new(ObjectHeap { shared, keeper: None, owner })
    }

    /// The address of an object of at most 4096 bytes, as long as the object exists and keeps its
    /// length. Loads and stores there are accesses to the object, by any thread of the process;
    /// they wait for write guards and pins of others, and guards see what was stored. An object
    /// that cannot be read ends the process by SIGBUS, as a mapped file would. In a forked child
    /// the address is not mapped. The kernel does not fill pages: a system call with such a buffer
    /// fails with `EFAULT` unless the page is filled; [`ObjectHeap::pin_pointer`] keeps it so.
    ///
    /// # Errors
    /// [`HeapError::NoObject`], [`HeapError::PointerSize`],
    /// [`HeapError::NoMemory`] if the budget has no
    /// room for the page tables, and as [`ObjectHeap::enable_pointers`].
    pub fn pointer(&self, handle: Handle) -> Result<NonNull<u8>, HeapError> {
        if self.shared.window.get().is_none() {
            self.enable_pointers(None)?;
        }
        let window = self.shared.window.get();
        window.into_iter().for_each(signal::rearm);
        let len = self.len_of(handle)?;
        let address = window.and_then(|window| window.address(handle.id(), len));
        let pointer = address.and_then(|address| NonNull::new(address as *mut u8));
        if let (Some(window), Some(_)) = (window, pointer) {
            window.count_table(&self.shared, handle.id())?;
        }
        pointer.ok_or(if len > MAX_POINTER_BYTES {
            HeapError::PointerSize { len }
        } else {
            HeapError::TooManyObjects
        })
    }

    /// A new object, all zeros, by its address.
    ///
    /// # Errors
    /// As [`ObjectHeap::alloc_zeroed`] and [`ObjectHeap::pointer`].
    pub fn alloc_pointer(&self, len: usize) -> Result<NonNull<u8>, HeapError> {
        if len > MAX_POINTER_BYTES {
            return Err(HeapError::PointerSize { len });
        }
        let handle = self.alloc_zeroed(len)?;
        self.pointer(handle).inspect_err(|_| drop(self.free(handle)))
    }

    /// The object whose address this is: where it begins.
    ///
    /// # Errors
    /// [`HeapError::NoPointer`] if no object begins there.
    pub fn handle_of(&self, pointer: *const u8) -> Result<Handle, HeapError> {
        self.check_process()?;
        match self.object_around(pointer) {
            Some((handle, 0)) => Ok(handle),
            _ => Err(HeapError::NoPointer { address: pointer as usize }),
        }
    }

    /// The object whose bytes an address lies in, and the distance from where they begin.
    fn object_around(&self, pointer: *const u8) -> Option<(Handle, usize)> {
        let window = self.shared.window.get()?;
        let id = window.id_at(pointer as usize)?;
        let state = self.shared.table.get(id)?.state.load(std::sync::atomic::Ordering::Acquire);
        let handle = Handle::new(id, generation(state));
        let len = (state & STATE != FREE).then(|| self.len_of(handle).ok())??;
        let distance = (pointer as usize).checked_sub(window.address(id, len)?)?;
        (distance < len).then_some((handle, distance))
    }

    /// Brings the object that an address lies in into memory, and keeps it at that address while
    /// the guard lives: for system calls and devices, which do not fill pages. Threads may load and
    /// store there meanwhile. A flush and a share write down the bytes as they are at that moment.
    ///
    /// Guards of the object, `free` and `realloc` wait for the end of the pin, at most `max_wait`;
    /// so the thread that pins must not ask for them. At most half of the window's pages can be
    /// pinned.
    ///
    /// ```
    /// use std::io::Read;
    /// # use swing_heap::{HeapOptions, ObjectHeap};
    /// # let temporary = tempfile::tempdir()?;
    /// # let heap = ObjectHeap::open(temporary.path(), HeapOptions::default())?;
    /// # let mut file = std::fs::File::open("/dev/zero")?;
    /// let address = heap.alloc_pointer(100)?.as_ptr();
    /// let pin = heap.pin_pointer(address)?;
    /// // SAFETY: the object has 100 bytes there, which nobody else uses.
    /// file.read_exact(unsafe { std::slice::from_raw_parts_mut(address, 100) })?;
    /// drop(pin);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`HeapError::NoPointer`] if the address lies in no object; [`HeapError::TooManyHeld`];
    /// [`HeapError::InUse`] if another thread writes the object for too long; failures to read it.
    pub fn pin_pointer(&self, pointer: *const u8) -> Result<PointerPin<'_>, HeapError> {
        self.check_process()?;
        let (handle, distance) = self.pin_object(pointer)?;
        let start = pointer as usize - distance;
        Ok(PointerPin { heap: self, handle, start })
    }

    fn pin_object(&self, pointer: *const u8) -> Result<(Handle, usize), HeapError> {
        let no_pointer = HeapError::NoPointer { address: pointer as usize };
        let (Some((handle, distance)), Some(window)) =
            (self.object_around(pointer), self.shared.window.get())
        else {
            return Err(no_pointer);
        };
        signal::rearm(window);
        match window::hold(self, window, handle) {
            // Freed meanwhile.
            Err(HeapError::NoObject { .. }) => Err(no_pointer),
            held => held.map(|()| (handle, distance)),
        }
    }

    /// As [`ObjectHeap::pin_pointer`], for other languages: ended by [`ObjectHeap::unpin_address`].
    ///
    /// # Errors
    /// As [`ObjectHeap::pin_pointer`].
    pub fn pin_address(&self, pointer: *const u8) -> Result<(), HeapError> {
        self.pin_pointer(pointer).map(std::mem::forget)
    }

    /// Ends a pin of [`ObjectHeap::pin_address`], by any address in the object.
    ///
    /// # Errors
    /// [`HeapError::NoPointer`] if no object there is pinned.
    pub fn unpin_address(&self, pointer: *const u8) -> Result<(), HeapError> {
        self.check_process()?;
        let found = self.shared.window.get().and_then(|window| {
            let id = window.id_at(pointer as usize)?;
            window.release(&self.shared, id).then_some(())
        });
        found.ok_or(HeapError::NoPointer { address: pointer as usize })
    }

    /// Whether plain pointers of any heap exist in the process: then a buffer of the caller's may
    /// be an object.
    pub fn any_pointers() -> bool {
        signal::any()
    }
}

/// Keeps an object at its plain address; see [`ObjectHeap::pin_pointer`].
#[must_use]
#[derive(Debug)]
pub struct PointerPin<'heap> {
    heap: &'heap ObjectHeap,
    handle: Handle,
    start: usize,
}

impl PointerPin<'_> {
    /// The object.
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// Where the object begins.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start as *mut u8
    }
}

impl Drop for PointerPin<'_> {
    fn drop(&mut self) {
        // In a forked child the window's lock may be held for ever.
        if self.heap.check_process().is_ok() {
            let _ = self.heap.unpin_address(self.start as *const u8);
        }
    }
}
