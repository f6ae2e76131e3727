//! `libswingmalloc_preload.so`: an unmodified program keeps its heap in an area.
//!
//! ```text
//! SWING_PRELOAD_NAME=redis LD_PRELOAD=libswingmalloc_preload.so redis-server
//! ```
//!
//! `malloc` and its relatives come from a [`swing_malloc::Malloc`] in a tracked area of the
//! namespace, which any process hooks at any moment (`Namespace::hook_live("redis")`) while the
//! program goes on. Variables: `SWING_PRELOAD_NAME`, else `heap-<pid>`; `SWING_PRELOAD_GIB`, the
//! address space of the heap, else 64; `SWING_PRELOAD_AHEAD=0`, copy nothing ahead;
//! `SWING_PRELOAD_EXTENT_KIB`, what is copied at once; `SWINGDB_HOME`, the namespace;
//! `SWINGDB_BACKING`, what the memory is.
//!
//! # Two allocators
//! What this library itself needs (tables of areas, threads) must not lie in the tracked area: it
//! comes from jemalloc, linked in under names of its own. So does what the program asks for before
//! the area exists, from inside this library, and in a forked child. Every block belongs to whose
//! address range it lies in.
//!
//! # Fork
//! The heap is paused while the process forks, so the child has a whole heap: private memory at the
//! same addresses, which it reads and writes. New blocks of the child come from jemalloc, whose
//! locks nobody holds there; blocks of the parent that it frees stay as they are. The handlers
//! of forks of jemalloc, `swing` and the heap are registered, in this order, before any of the
//! program's: those of `swing` and of the heap may allocate, and the program's use the heap.
//!
//! # System calls
//! Those that write into the heap are made to work: [`swing_calls`], and [`calls`].

mod alloc;
mod calls;
mod ending;
mod heap;
mod start;
mod tuning;

#[global_allocator]
static OWN: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
