//! Plain pointers, as the paper of FG_MM has them: loads and stores through an address bring the
//! object into memory and change it, by any thread. `window` says how.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use crate::entry::{FREE, Handle, STATE, generation};
use crate::error::HeapError;
use crate::heap::ObjectHeap;
use crate::signal;
use crate::window::{MAX_POINTER_BYTES, Window};

/// The part of the budget that filled pages take, if the program does not say.
const PART: u64 = 8;
const MIN_WINDOW_BYTES: u64 = 256 << 10;

impl ObjectHeap {
    /// Lets the heap give out addresses, with a window of so many bytes of filled pages, which
    /// count in the budget; `None`: an eighth of it. The first address does this by itself.
    ///
    /// # Errors
    /// [`HeapError::Io`] if the system has no `userfaultfd` for this process, or no addresses;
    /// [`HeapError::NoMemory`] if the budget has no room for the window; [`HeapError::Options`] for
    /// a heap in an area.
    pub fn enable_pointers(&self, window_bytes: Option<u64>) -> Result<(), HeapError> {
        self.check_process()?;
        let shared = &self.shared;
        let _one = shared.enabling.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if shared.window.get().is_some() {
            return Ok(());
        }
        if shared.area.is_some() {
            return Err(HeapError::Options("a heap in an area has no plain pointers; use guards"));
        }
        let given = window_bytes.unwrap_or(shared.lock().budget / PART).max(MIN_WINDOW_BYTES);
        let window = Window::new(given, shared.storage.path())?;
        {
            let mut core = shared.lock();
            core.outside_bytes += window.bytes();
            if let Err(error) = core.check_metadata() {
                core.outside_bytes -= window.bytes();
                return Err(error);
            }
            core.min_chunks = 1;
        }
        signal::register(self.view())?;
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
    /// fails with `EFAULT` unless the page is filled.
    ///
    /// # Errors
    /// [`HeapError::NoObject`], [`HeapError::Size`], [`HeapError::NoMemory`] if the budget has no
    /// room for the page tables, and as [`ObjectHeap::enable_pointers`].
    pub fn pointer(&self, handle: Handle) -> Result<NonNull<u8>, HeapError> {
        if self.shared.window.get().is_none() {
            self.enable_pointers(None)?;
        }
        signal::rearm();
        let len = self.len_of(handle)?;
        let window = self.shared.window.get();
        let address = window.and_then(|window| window.address(handle.id(), len));
        let pointer = address.and_then(|address| NonNull::new(address as *mut u8));
        if let (Some(window), Some(_)) = (window, pointer) {
            window.count_table(&self.shared, handle.id())?;
        }
        pointer.ok_or(if len > MAX_POINTER_BYTES {
            HeapError::Size { len }
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
            return Err(HeapError::Size { len });
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
        let no_pointer = HeapError::NoPointer { address: pointer as usize };
        let window = self.shared.window.get();
        let found = window.and_then(|window| {
            let id = window.id_at(pointer as usize)?;
            let state = self.shared.table.get(id)?.state.load(std::sync::atomic::Ordering::Acquire);
            let handle = Handle::new(id, generation(state));
            let len = (state & STATE != FREE).then(|| self.len_of(handle).ok())??;
            (window.address(id, len) == Some(pointer as usize)).then_some(handle)
        });
        found.ok_or(no_pointer)
    }

    /// Whether plain pointers of any heap exist in the process: then a buffer of the caller's may
    /// be an object.
    pub fn any_pointers() -> bool {
        signal::any()
    }
}
