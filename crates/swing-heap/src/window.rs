//! Plain pointers: an address for each object, and a window of pages that are filled.
//!
//! A range of addresses has one page for each id. The page of an object is empty until somebody
//! loads from it or stores to it; then the kernel raises SIGBUS in that thread (`userfaultfd` with
//! `UFFD_FEATURE_SIGBUS`), and [`Window::fill`] puts a copy of the object into the page. At most
//! `capacity` pages are filled; the oldest makes room: its page is taken away, compared with the
//! object's cell, and copied back if it differs. The page then becomes that of the new object.
//!
//! Since Linux 6.8 the page itself moves (`UFFDIO_MOVE`): from the oldest object's address to the
//! *staging page* behind the last id, and from there to the new object's. Both are one system
//! call, and free and allocate no memory. Where the kernel cannot move a page, because it is older
//! or because the page is in use by a device, the page is write-protected, compared and dropped,
//! and a new one is filled by `UFFDIO_COPY`.
//!
//! Where the system gives no `userfaultfd`, as in most containers, pages are mapped and unmapped
//! one by one ([`Slots`]). The signal is SIGSEGV then, whose handler is that of tracked areas, and
//! threads of this library bring the objects (`servers`).
//!
//! **INV-OBJ-8.** A page is filled exactly while its entry has the mark `WINDOW`. Both change
//! under the window's lock. An entry with the mark is resident, has no writer, no pin and no new
//! reader, so page and cell are the only copies, and the page is the newer one. Guards, `free`,
//! `realloc` and a flush take the page back first.
//!
//! **Held pages.** A page that is held ([`Window::hold`]) stays filled, so system calls may use it.
//! Its entry has the mark `HELD` as well. Guards, `free` and `realloc` wait until it is released. A
//! flush and a share copy its bytes to the cell and leave the page where it is.
//!
//! **Heaps in an area.** Pages are memory of the process alone: a shared state does not show them.
//! So a share takes all pages back and keeps the window's lock until the state is published
//! ([`Window::settle`]). A thread that stores to a page meanwhile waits for the lock in the handler
//! of SIGBUS. So the state has exactly the stores that were executed before their pages were taken:
//! no store is missing while a later one of the same thread, or of one that saw it, is there.
//! Filling and taking back store into the area, where the handler of SIGSEGV traps them. That one
//! takes no lock of a heap, and waits for nothing but publishes that are going on.
//!
//! **Locks.** The window's lock comes before the heap's. No code touches a window's addresses while
//! it holds either. After a thread has panicked with the window's lock, nobody knows which pages
//! are filled, nor which of page and cell is the newer one. So the heap is broken (INV-OBJ-10): no
//! page is filled or taken back any more.
//!
//! **fork.** A child does not get the range (`MADV_DONTFORK`), or gets it without access: touching
//! it there is SIGSEGV, not zeros.
//!
//! **Cycle.** A heap has a window, whose pages are filled through the heap.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};
use swing_tier::IoError;

use crate::entry::{
    DIRTY, Entry, FREE, HELD, Handle, PINS, READER, READERS, STATE, WINDOW, WRITER,
    address_and_len, generation,
};
use crate::error::HeapError;
use crate::faults::Faults;
use crate::heap::ObjectHeap;
use crate::patience::Patience;
use crate::shared::Shared;
use crate::slots::{MAX_SLOTS, Slots};

/// The length of a page, and of the longest object with an address.
pub const MAX_POINTER_BYTES: usize = 4096;
const PAGE: usize = MAX_POINTER_BYTES;
/// Ids that have an address.
const IDS: usize = 1 << 28;
/// The part of the budget that filled pages take, if the program does not say.
const PART: u64 = 8;
const MIN_WINDOW_BYTES: u64 = 256 << 10;
/// What is known of a filled page, about: its places in queue and table.
const FACTS_BYTES: usize = 64;
/// The range of addresses: a page for each id, and the staging page.
const RANGE_BYTES: usize = (IDS + 1) * PAGE;
/// Memory of a page table with 512 pages.
const TABLE_BYTES: u64 = 4096;
const PAGES_OF_TABLE: usize = 512;

/// A variable that chooses how pages are filled.
const WAY: &str = "SWING_HEAP_POINTERS";
const BY_FAULTS: &str = "userfaultfd";
const BY_MAPPINGS: &str = "mappings";

const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
const UFFDIO_COPY: libc::c_ulong = 0xc028_aa03;
const UFFDIO_MOVE: libc::c_ulong = 0xc028_aa05;
const UFFDIO_WRITEPROTECT: libc::c_ulong = 0xc018_aa06;
const API: u64 = 0xaa;
const FEATURE_WP: u64 = 1;
const FEATURE_SIGBUS: u64 = 1 << 7;
const FEATURE_MOVE: u64 = 1 << 16;
/// How often a move is tried again of which the kernel says that it may succeed then.
const MAX_MOVES: u32 = 16;
const REGISTER_MISSING_AND_WP: u64 = 3;
const PROTECT: u64 = 1;
const UNPROTECT: u64 = 0;

/// The range of addresses, and which pages are filled.
pub(crate) struct Window {
    way: Way,
    pub(crate) base: usize,
    /// The window that the program has asked for, in bytes; `None`: a part of the budget.
    chosen: Option<u64>,
    state: Mutex<State>,
}

/// How pages are filled.
enum Way {
    /// By `userfaultfd`; whether the kernel moves pages.
    Faults(Faults, bool),
    /// By mappings, see [`Slots`].
    Mappings,
}

pub(crate) struct State {
    filled: Filled,
    /// The most pages that are filled.
    capacity: usize,
    /// Ids of pages that stay filled, and how often each is held.
    held: HashMap<u32, u32>,
    /// Whether the staging page has memory: of an object that was taken back.
    is_staged: bool,
    /// What is copied into a page where none is moved.
    copied: Box<Page>,
    /// Parts of the range whose page tables are counted, a bit each.
    tables: Vec<u64>,
    has_range: bool,
    /// With pages of mappings.
    slots: Option<Slots>,
}

/// Ids of filled pages, the oldest first. One is taken out of the middle without a search: it stays
/// in the queue, and is passed over, because its number is another one.
#[derive(Default)]
struct Filled {
    order: VecDeque<(u32, u64)>,
    numbers: HashMap<u32, u64>,
    next: u64,
}

impl Filled {
    fn len(&self) -> usize {
        self.numbers.len()
    }

    fn push(&mut self, id: u32) {
        if self.order.len() > 2 * self.numbers.len() + 64 {
            let numbers = &self.numbers;
            self.order.retain(|(id, number)| numbers.get(id) == Some(number));
        }
        self.next += 1;
        self.numbers.insert(id, self.next);
        self.order.push_back((id, self.next));
    }

    fn remove(&mut self, id: u32) {
        self.numbers.remove(&id);
    }

    /// Takes the oldest one out.
    fn pop(&mut self) -> Option<u32> {
        while let Some((id, number)) = self.order.pop_front() {
            if self.numbers.get(&id) == Some(&number) {
                self.numbers.remove(&id);
                return Some(id);
            }
        }
        None
    }
}

/// All pages have been taken back, and none is filled before this is dropped; or one has to stay.
pub(crate) enum Settled<'a> {
    All {
        _lock: MutexGuard<'a, State>,
    },
    /// Somebody reads the object whose page has changed.
    Stays(u32),
}

#[repr(align(4096))]
struct Page([u8; PAGE]);

/// Asks for features of `userfaultfd`.
fn agree(faults: &Faults, features: u64) -> Result<(), i32> {
    let mut api = [API, features, 0];
    // SAFETY: the structure is three words.
    unsafe { faults.call(UFFDIO_API, api.as_mut_ptr()) }
}

impl Way {
    /// `userfaultfd`, or mappings where that is refused, or as the variable [`WAY`] says.
    fn choose() -> Result<Self, HeapError> {
        let asked = std::env::var(WAY).unwrap_or_default();
        if asked == BY_MAPPINGS {
            return Ok(Way::Mappings);
        }
        match Self::by_faults() {
            Err(HeapError::NoPointers { .. }) if asked != BY_FAULTS => Ok(Way::Mappings),
            found => found,
        }
    }

    fn by_faults() -> Result<Self, HeapError> {
        let faults = Faults::open()?;
        let moves = agree(&faults, FEATURE_SIGBUS | FEATURE_WP | FEATURE_MOVE).is_ok();
        if !moves && let Err(errno) = agree(&faults, FEATURE_SIGBUS | FEATURE_WP) {
            let error = std::io::Error::from_raw_os_error(errno);
            let why = format!("userfaultfd lacks features of Linux 5.11: {error}");
            return Err(HeapError::NoPointers { why });
        }
        Ok(Way::Faults(faults, moves))
    }
}

impl Window {
    /// Reserves the range for a window of so many bytes; `None`: a part of the budget.
    pub(crate) fn new(chosen: Option<u64>, budget: u64, path: &Path) -> Result<Self, HeapError> {
        let failed = |what| move |e: std::io::Error| IoError::from_os(what, path, e);
        let way = Way::choose()?;
        let (slots, access) = match &way {
            Way::Faults(..) => (None, ProtFlags::READ | ProtFlags::WRITE),
            Way::Mappings => {
                let slots = Slots::new().map_err(failed("set up memory for"))?;
                (Some(slots), ProtFlags::empty())
            }
        };
        let len = RANGE_BYTES;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh mapping at an address of the kernel's choice disturbs nothing.
        let base = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), len, access, flags) }
            .map_err(|e| failed("reserve addresses for")(e.into()))?;
        let state = State {
            filled: Filled::default(),
            capacity: 0,
            held: HashMap::new(),
            is_staged: false,
            copied: Box::new(Page([0; PAGE])),
            tables: vec![0; IDS / PAGES_OF_TABLE / 64],
            has_range: true,
            slots,
        };
        let window = Window { way, base: base as usize, chosen, state: Mutex::new(state) };
        window.lock().capacity = window.capacity(budget);
        let Way::Faults(faults, _) = &window.way else { return Ok(window) };
        // SAFETY: the range is the window's own.
        unsafe { rustix::mm::madvise(base, len, Advice::LinuxDontFork) }
            .map_err(|e| failed("set up addresses for")(e.into()))?;
        // Kernels without huge pages refuse.
        // SAFETY: as above.
        let _ = unsafe { rustix::mm::madvise(base, len, Advice::LinuxNoHugepage) };
        let mut range = [base as u64, len as u64, REGISTER_MISSING_AND_WP, 0];
        // SAFETY: the structure is four words, and the range is the window's own.
        let registered = unsafe { faults.call(UFFDIO_REGISTER, range.as_mut_ptr()) };
        registered.map_err(|errno| {
            failed("watch addresses of")(std::io::Error::from_raw_os_error(errno))
        })?;
        Ok(window)
    }

    /// Whether pages are filled by mappings.
    pub(crate) fn is_of_mappings(&self) -> bool {
        matches!(self.way, Way::Mappings)
    }

    /// Pages that a budget allows.
    fn capacity(&self, budget: u64) -> usize {
        let most = if self.is_of_mappings() { MAX_SLOTS } else { usize::MAX };
        capacity_of(self.chosen, budget).min(most)
    }

    /// A call to the kernel about the window's pages.
    ///
    /// # Safety
    /// The argument is the structure that the call expects, about pages of the window.
    unsafe fn call(&self, request: libc::c_ulong, argument: *mut u64) -> Result<(), i32> {
        match &self.way {
            // SAFETY: the caller's promise.
            Way::Faults(faults, _) => unsafe { faults.call(request, argument) },
            Way::Mappings => Err(libc::ENOSYS),
        }
    }

    /// Memory that the window takes: its pages with what is known of each, and the bits of the page
    /// tables.
    pub(crate) fn bytes(&self) -> u64 {
        bytes_of(self.lock().capacity)
    }

    /// Fits the window to another budget of the heap.
    pub(crate) fn fit(&self, shared: &Shared, budget: u64) -> Result<(), HeapError> {
        let mut state = self.whole()?;
        let (before, capacity) = (state.capacity, self.capacity(budget));
        // Held pages stay, and count.
        state.capacity = capacity.max(2 * state.held.len());
        let after = state.capacity;
        let made = self.make_room(shared, &mut state, 0);
        state.slots.iter_mut().for_each(|slots| slots.trim(after));
        let mut core = shared.lock();
        core.outside_bytes = core.outside_bytes - bytes_of(before) + bytes_of(after);
        made
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock, if no thread has met a broken invariant while it had it (INV-OBJ-10).
    fn whole(&self) -> Result<MutexGuard<'_, State>, HeapError> {
        self.state.lock().map_err(|_| HeapError::Broken)
    }

    /// Whether a thread has panicked while it had the lock.
    pub(crate) fn is_broken(&self) -> bool {
        self.state.is_poisoned()
    }

    /// The id whose page has an address.
    pub(crate) fn id_at(&self, address: usize) -> Option<u32> {
        let page = address.checked_sub(self.base)? / PAGE;
        (page < IDS).then_some(page as u32)
    }

    fn page(&self, id: u32) -> usize {
        self.base + id as usize * PAGE
    }

    /// Where in its page an object begins. Not all at the begin, where they would compete for the
    /// same sets of the processor's caches.
    fn offset(id: u32, len: usize) -> usize {
        let room = (PAGE - len.min(PAGE)) / 64;
        id as usize * 7 % (room + 1) * 64
    }

    /// An object's address; `None` if it has none.
    pub(crate) fn address(&self, id: u32, len: usize) -> Option<usize> {
        let has = (id as usize) < IDS && len <= PAGE;
        has.then(|| self.page(id) + Self::offset(id, len))
    }

    fn protect(&self, id: u32, mode: u64) -> Result<(), i32> {
        let mut words = [self.page(id) as u64, PAGE as u64, mode];
        // SAFETY: the structure is three words, and the page is the window's own.
        unsafe { self.call(UFFDIO_WRITEPROTECT, words.as_mut_ptr()) }
    }

    /// Takes a page back: its bytes are the object's again. False if a read guard, which is older
    /// than the page, keeps the object from being changed.
    fn empty(&self, shared: &Shared, state: &mut State, id: u32) -> Result<bool, HeapError> {
        let Some(entry) = shared.table.get(id) else { unreachable!("a filled page has an entry") };
        let page = self.page(id);
        // The mark keeps new readers away. So without a reader the object can be changed below.
        let has_readers = entry.state.load(Acquire) & READERS != 0;
        if let Some(slots) = &mut state.slots {
            let emptied = self.unmap(shared, slots, (id, entry), has_readers, state.capacity);
            return emptied.map_err(|e| self.failed(shared, e));
        }
        // After a move a thread that touches the page waits for the lock.
        let moves = matches!(self.way, Way::Faults(_, true));
        let is_moved =
            moves && !has_readers && !state.is_staged && self.move_page(page, self.staging());
        if !is_moved {
            self.protect(id, PROTECT).map_err(|e| self.failed(shared, e))?;
        }
        let (cell, len) = address_and_len(entry.place.load(Relaxed));
        let start = if is_moved { self.staging() } else { page };
        let from = (start + Self::offset(id, len)) as *const u8;
        // SAFETY: the page has memory, and is protected or at an address that nobody else uses, so
        // the bytes do not change. The mark keeps the cell where it is, and nobody writes to it
        // (INV-OBJ-8).
        let (bytes, before) = unsafe {
            (
                std::slice::from_raw_parts(from, len),
                std::slice::from_raw_parts(cell as *const u8, len),
            )
        };
        if bytes != before {
            if has_readers {
                self.protect(id, UNPROTECT).map_err(|e| self.failed(shared, e))?;
                return Ok(false);
            }
            // SAFETY: as above; no reader is there, and the mark keeps new ones away.
            unsafe { std::ptr::copy_nonoverlapping(from, cell as *mut u8, len) };
            entry.state.fetch_or(DIRTY, Release);
            shared.changes.mark(id);
        }
        if is_moved {
            state.is_staged = true;
        } else {
            // SAFETY: the page is the window's own, and what it held lies in the cell.
            unsafe { rustix::mm::madvise(page as *mut _, PAGE, Advice::LinuxDontNeed) }
                .map_err(|e| self.failed(shared, e.raw_os_error()))?;
        }
        entry.state.fetch_and(!WINDOW, Release);
        Ok(true)
    }

    /// As [`Window::empty`], of a page of mappings.
    fn unmap(
        &self,
        shared: &Shared,
        slots: &mut Slots,
        (id, entry): (u32, &Entry),
        has_readers: bool,
        capacity: usize,
    ) -> Result<bool, i32> {
        let page = self.page(id);
        let (cell, len) = address_and_len(entry.place.load(Relaxed));
        let is_same = |start: usize| {
            let from = (start + Self::offset(id, len)) as *const libc::c_void;
            // SAFETY: the page has memory, and nobody stores to it: it is protected, or taken away.
            // The mark keeps the cell where it is, and nobody writes to it (INV-OBJ-8).
            unsafe { libc::memcmp(from, cell as *const _, len) == 0 }
        };
        if has_readers {
            // It may have to stay.
            Slots::allow(page, MprotectFlags::READ)?;
            if !is_same(page) {
                Slots::allow(page, MprotectFlags::READ | MprotectFlags::WRITE)?;
                return Ok(false);
            }
        }
        // From now on a thread that touches the page waits for the lock.
        Slots::hide(page)?;
        let Some(start) = slots.bytes_of(id) else { unreachable!("a filled page has a slot") };
        if !is_same(start) {
            let from = (start + Self::offset(id, len)) as *const u8;
            // SAFETY: as above; no reader is there, and the mark keeps new ones away.
            unsafe { std::ptr::copy_nonoverlapping(from, cell as *mut u8, len) };
            entry.state.fetch_or(DIRTY, Release);
            shared.changes.mark(id);
        }
        slots.give_back(id, capacity);
        entry.state.fetch_and(!WINDOW, Release);
        Ok(true)
    }

    fn staging(&self) -> usize {
        self.base + IDS * PAGE
    }

    /// Moves the memory of a page to another page of the range, which is empty. False: the kernel
    /// cannot, and nothing has changed.
    fn move_page(&self, from: usize, to: usize) -> bool {
        for _ in 0..MAX_MOVES {
            let mut words = [to as u64, from as u64, PAGE as u64, 0, 0];
            // SAFETY: the structure is five words, and both pages are the window's own.
            match unsafe { self.call(UFFDIO_MOVE, words.as_mut_ptr()) } {
                Ok(()) => return true,
                Err(libc::EAGAIN) => {}
                Err(_) => return false,
            }
        }
        false
    }

    fn failed(&self, shared: &Shared, errno: i32) -> HeapError {
        let error = std::io::Error::from_raw_os_error(errno);
        HeapError::Io(IoError::from_os("take back a page of", shared.storage.path(), error))
    }

    /// Copies a held page's bytes to the object's cell. False: somebody reads the object, and it
    /// has changed.
    fn copy_held(&self, shared: &Shared, id: u32) -> bool {
        let Some(entry) = shared.table.get(id) else { unreachable!("a filled page has an entry") };
        let (cell, len) = address_and_len(entry.place.load(Relaxed));
        let from = (self.page(id) + Self::offset(id, len)) as *const u8;
        // SAFETY: a held page has memory. Who stores there meanwhile has been told that this object
        // is seen as it is at any moment. The mark keeps the cell where it is, and nobody writes to
        // it (INV-OBJ-8).
        let is_same = unsafe { libc::memcmp(from.cast(), cell as *const _, len) == 0 };
        if is_same {
            return true;
        }
        if entry.state.load(Acquire) & READERS != 0 {
            return false;
        }
        // SAFETY: as above; the mark keeps new readers away.
        unsafe { std::ptr::copy_nonoverlapping(from, cell as *mut u8, len) };
        entry.state.fetch_or(DIRTY, Release);
        shared.changes.mark(id);
        true
    }

    /// Takes an object's page back, if it is filled. False: a read guard keeps it, or it is held.
    pub(crate) fn recall(
        &self,
        shared: &Shared,
        id: u32,
        entry: &Entry,
    ) -> Result<bool, HeapError> {
        let mut state = self.whole()?;
        if entry.state.load(Acquire) & STATE == FREE || !has_mark(entry) {
            return Ok(true);
        }
        if state.held.contains_key(&id) {
            return Ok(false);
        }
        let emptied = self.empty(shared, &mut state, id)?;
        if emptied {
            state.filled.remove(id);
        }
        Ok(emptied)
    }

    /// Takes back all pages that are not held.
    pub(crate) fn recall_all(&self, shared: &Shared) -> Result<(), HeapError> {
        self.recall_others(shared, &mut *self.whole()?).map(drop)
    }

    /// Brings all objects up to date: takes pages back, and copies those that are held.
    pub(crate) fn settle(&self, shared: &Shared) -> Result<Settled<'_>, HeapError> {
        let mut state = self.whole()?;
        if let Some(id) = self.recall_others(shared, &mut state)? {
            return Ok(Settled::Stays(id));
        }
        match state.held.keys().find(|&&id| !self.copy_held(shared, id)) {
            Some(&id) => Ok(Settled::Stays(id)),
            None => Ok(Settled::All { _lock: state }),
        }
    }

    /// Takes back all pages that are not held. Returns the id of one that has to stay, if any has.
    fn recall_others(&self, shared: &Shared, state: &mut State) -> Result<Option<u32>, HeapError> {
        let mut stays = None;
        for _ in 0..state.filled.len() {
            let Some(id) = state.filled.pop() else { break };
            let is_held = state.held.contains_key(&id);
            if is_held || !self.empty(shared, state, id)? {
                state.filled.push(id);
                stays = if is_held { stays } else { Some(id) };
            }
        }
        Ok(stays)
    }

    /// Keeps a page filled until [`Window::release`], if it is filled: false otherwise.
    fn hold_filled(&self, shared: &Shared, handle: Handle) -> Result<bool, HeapError> {
        let id = handle.id();
        let Some(entry) = shared.table.get(id) else { return Err(HeapError::NoObject { handle }) };
        let mut state = self.whole()?;
        let word = entry.state.load(Acquire);
        if generation(word) != handle.generation() || word & STATE == FREE {
            return Err(HeapError::NoObject { handle });
        }
        if !has_mark(entry) {
            return Ok(false);
        }
        if !state.held.contains_key(&id) && state.held.len() >= state.capacity / 2 {
            return Err(HeapError::TooManyHeld { held: state.held.len() });
        }
        *state.held.entry(id).or_insert(0) += 1;
        entry.state.fetch_or(HELD, AcqRel);
        Ok(true)
    }

    /// Ends a hold. False: the page is not held.
    pub(crate) fn release(&self, shared: &Shared, id: u32) -> bool {
        let mut state = self.lock();
        let Some(count) = state.held.get_mut(&id) else { return false };
        *count -= 1;
        if *count == 0 {
            state.held.remove(&id);
            if let Some(entry) = shared.table.get(id) {
                entry.state.fetch_and(!HELD, AcqRel);
            }
        }
        true
    }

    /// Takes the oldest pages back until there is room for so many more. Some have to stay.
    fn make_room(&self, shared: &Shared, state: &mut State, more: usize) -> Result<(), HeapError> {
        let mut looked = 0;
        while state.filled.len() + more > state.capacity && looked < state.filled.len() {
            looked += 1;
            let Some(oldest) = state.filled.pop() else { break };
            if state.held.contains_key(&oldest) || !self.empty(shared, state, oldest)? {
                state.filled.push(oldest);
            }
        }
        Ok(())
    }

    /// Fills a page whose object this thread reads (it is counted in the entry). Ends the read.
    fn fill(&self, heap: &ObjectHeap, id: u32, entry: &Entry) -> Result<bool, HeapError> {
        let shared = &*heap.shared;
        let ready = self.whole().and_then(|mut state| {
            let is_filled = has_mark(entry);
            if !is_filled {
                self.make_room(shared, &mut state, 1)?;
            }
            Ok((state, is_filled))
        });
        let (mut state, is_filled) = ready.inspect_err(|_| {
            entry.state.fetch_sub(READER, Release);
        })?;
        if is_filled {
            // Another thread was faster.
            entry.state.fetch_sub(READER, Release);
            return Ok(true);
        }
        let mark = |word: u64| (word & (WRITER | PINS) == 0).then(|| (word | WINDOW) - READER);
        if entry.state.fetch_update(AcqRel, Relaxed, mark).is_err() {
            entry.state.fetch_sub(READER, Release);
            return Ok(false);
        }
        let (cell, len) = address_and_len(entry.place.load(Relaxed));
        // SAFETY: the mark keeps the cell where it is, and nobody writes to it.
        let bytes = unsafe { std::slice::from_raw_parts(cell as *const u8, len) };
        let mut put = self.put(&mut state, id, bytes);
        while self.is_of_mappings() && put == Err(libc::ENOMEM) && state.filled.len() > 1 {
            // The process has no mapping more: with fewer pages it has.
            state.capacity = (state.filled.len() / 2).max(2 * state.held.len()).max(1);
            let before = state.filled.len();
            if self.make_room(shared, &mut state, 1).is_err() || state.filled.len() == before {
                break;
            }
            put = self.put(&mut state, id, bytes);
        }
        if let Err(errno) = put {
            entry.state.fetch_and(!WINDOW, Release);
            let error = std::io::Error::from_raw_os_error(errno);
            return Err(IoError::from_os("fill a page of", shared.storage.path(), error).into());
        }
        state.filled.push(id);
        Ok(true)
    }

    /// Puts an object's bytes into its page, which is empty: at once for all threads.
    fn put(&self, state: &mut State, id: u32, bytes: &[u8]) -> Result<(), i32> {
        let at = Self::offset(id, bytes.len());
        let lay = |page: &mut [u8]| {
            page[..at].fill(0);
            page[at..at + bytes.len()].copy_from_slice(bytes);
            page[at + bytes.len()..].fill(0);
        };
        if let Some(slots) = &mut state.slots {
            return slots.show(id, self.page(id), lay);
        }
        if state.is_staged {
            // SAFETY: the staging page has memory, and only the holder of the lock uses it.
            lay(unsafe { std::slice::from_raw_parts_mut(self.staging() as *mut u8, PAGE) });
            if self.move_page(self.staging(), self.page(id)) {
                state.is_staged = false;
                return Ok(());
            }
        }
        lay(&mut state.copied.0);
        let mut words = [self.page(id) as u64, state.copied.0.as_ptr() as u64, PAGE as u64, 0, 0];
        // SAFETY: the structure is five words, and the page is the window's own.
        unsafe { self.call(UFFDIO_COPY, words.as_mut_ptr()) }
    }

    /// Counts the page table that an id's page needs, before its address is given out.
    pub(crate) fn count_table(&self, shared: &Shared, id: u32) -> Result<(), HeapError> {
        let mut state = self.whole()?;
        let table = id as usize / PAGES_OF_TABLE;
        if state.tables[table / 64] >> (table % 64) & 1 == 1 {
            return Ok(());
        }
        let mut core = shared.lock();
        core.outside_bytes += TABLE_BYTES;
        if let Err(error) = core.check_metadata() {
            core.outside_bytes -= TABLE_BYTES;
            return Err(error);
        }
        state.tables[table / 64] |= 1 << (table % 64);
        Ok(())
    }

    /// Gives the range up. What was only in pages goes back to the objects, unless nobody knows
    /// what that is.
    pub(crate) fn close(&self, shared: &Shared) {
        let is_whole = !self.is_broken();
        let mut state = self.lock();
        while let (true, Some(id)) = (is_whole, state.filled.pop()) {
            let _ = self.empty(shared, &mut state, id);
        }
        state.slots = None;
        if std::mem::take(&mut state.has_range) {
            // SAFETY: the range is the window's own, and the heap is being closed.
            let _ = unsafe { rustix::mm::munmap(self.base as *mut _, RANGE_BYTES) };
        }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if state.has_range {
            // SAFETY: as in `close`.
            let _ = unsafe { rustix::mm::munmap(self.base as *mut _, RANGE_BYTES) };
        }
    }
}

/// Pages of a window of so many bytes, or of a part of the budget. A window that was chosen takes
/// at most half of it.
fn capacity_of(chosen: Option<u64>, budget: u64) -> usize {
    let bytes = chosen.map_or(budget / PART, |bytes| bytes.min(budget / 2)).max(MIN_WINDOW_BYTES);
    bytes as usize / PAGE
}

fn bytes_of(capacity: usize) -> u64 {
    ((capacity + 1) * PAGE + capacity * FACTS_BYTES + IDS / PAGES_OF_TABLE / 8) as u64
}

fn has_mark(entry: &Entry) -> bool {
    let state = entry.state.load(Acquire);
    state & STATE == crate::entry::RESIDENT && state & WINDOW != 0
}

/// Fills the page that a thread has touched. False if the heap has no object there.
pub(crate) fn touch(heap: &ObjectHeap, id: u32) -> Result<bool, HeapError> {
    let (Some(window), Some(entry)) = (heap.shared.window.get(), heap.shared.table.get(id)) else {
        return Ok(false);
    };
    let mut patience = Patience::new(heap.shared.max_wait());
    loop {
        let state = entry.state.load(Acquire);
        if state & STATE == FREE || generation(state) == 0 {
            return Ok(false);
        }
        // Filled meanwhile, or about to be emptied: the lock tells.
        drop(window.whole()?);
        if has_mark(entry) {
            return Ok(true);
        }
        let handle = Handle::new(id, generation(state));
        heap.acquire_for_window(handle)?;
        if window.fill(heap, id, entry)? {
            return Ok(true);
        }
        patience.wait(handle)?;
    }
}

/// Fills an object's page, and keeps it filled until [`Window::release`].
pub(crate) fn hold(heap: &ObjectHeap, window: &Window, handle: Handle) -> Result<(), HeapError> {
    let mut patience = Patience::new(heap.shared.max_wait());
    while !window.hold_filled(&heap.shared, handle)? {
        touch(heap, handle.id())?;
        patience.wait(handle)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::error::HeapError;
    use crate::heap::ObjectHeap;
    use crate::options::HeapOptions;

    /// INV-OBJ-10.
    #[test]
    fn after_a_panic_with_the_lock_of_the_window_the_heap_is_broken() {
        let folder = tempfile::tempdir().unwrap();
        let options = HeapOptions { budget: 8 << 20, ..HeapOptions::default() };
        let heap = ObjectHeap::open_persistent(folder.path(), options).unwrap();
        let (filled, other) = (heap.alloc_from(b"filled").unwrap(), heap.alloc(100).unwrap());
        let Ok(pointer) = heap.pointer(filled) else {
            return; // The system gives this process no userfaultfd.
        };
        // Takes pages back, before this one is filled.
        heap.flush().unwrap();
        // SAFETY: the object exists, and has so many bytes.
        let bytes = unsafe { std::slice::from_raw_parts(pointer.as_ptr(), 6) };
        assert_eq!(bytes, b"filled");
        let shared = heap.shared.clone();
        let panics = std::thread::spawn(move || {
            let _state = shared.window.get().unwrap().lock();
            panic!("what a broken invariant does");
        });
        assert!(panics.join().is_err());
        assert_eq!(heap.alloc(1), Err(HeapError::Broken));
        assert_eq!(heap.free(other), Err(HeapError::Broken));
        assert_eq!(heap.realloc(other, 10), Err(HeapError::Broken));
        assert_eq!(heap.set_root(None), Err(HeapError::Broken));
        assert_eq!(heap.flush(), Err(HeapError::Broken));
        assert_eq!(heap.set_budget(7 << 20), Err(HeapError::Broken));
        assert_eq!(heap.pointer(other).err(), Some(HeapError::Broken));
        // Its page may be newer than what a guard would show.
        assert_eq!(heap.read(filled).err(), Some(HeapError::Broken));
        assert_eq!(heap.close(), Err(HeapError::Broken));
    }
}
