//! Copy-on-write memory areas shared between unrelated processes, on a stock Linux kernel,
//! unprivileged.
//!
//! One process writes an [`Area`]; it [publishes](Area::publish) states of it; any other process
//! [hooks](Namespace::hook) the newest one in microseconds, whatever its size, and may
//! [derive](Snapshot::derive) a writable area of its own from it, which others hook in turn.
//! Nothing is copied until somebody writes, and no write of anybody is ever visible to anybody
//! else.
//!
//! The model is that of Meng, Zhou, Wang, "Memory Instant Snapshot Sharing Mechanism and Its
//! Application in Database", Chinese Journal of Computers 2018, section 3, which patched the
//! kernel; here it is built from files in memory, `flock`, and `mmap`. Each folder's `mod.rs` says
//! what lives there; the order to read them in is that of ARCHITECTURE.md. Invariants are named in
//! `docs/invariants.md`, formats described in `docs/format.md`.
//!
//! ```
//! use swing::{AreaName, AreaOffset, AreaOptions, ByteLen, Namespace, Publish, WriteIntent};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
//! let ns = Namespace::open(dir.path())?;
//! let name = AreaName::new("numbers")?;
//! let area = ns.create(&name, &AreaOptions::with_reserve(ByteLen::gib(1)))?;
//! let at = area.geometry().small_zone().0;
//! area.make_writable(AreaOffset(at)..AreaOffset(at + 8), WriteIntent::Keep)?;
//! // SAFETY: these bytes have just been made writable, and nobody else uses them.
//! unsafe { area.base().add(at as usize).cast::<u64>().write(42) };
//! area.publish(Publish::Shared, b"root")?;
//!
//! // Usually in another process:
//! let snapshot = ns.hook(&name)?;
//! assert_eq!(snapshot.payload(), b"root");
//! // SAFETY: the offset is mapped in the snapshot, and its bytes never change.
//! let seen = unsafe { snapshot.base().add(at as usize).cast::<u64>().read() };
//! assert_eq!(seen, 42);
//! # Ok(())
//! # }
//! ```

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("areas are built on Linux system calls and need a 64-bit address space");

mod area;
mod hook;
mod lifecycle;
mod live;
mod memory;
mod model;
mod namespace;
mod policy;
mod publish;
mod reclaim;
mod recovery;
mod sys;
pub mod tracked;
mod trap;
mod write;

pub use area::announce::{Storing, WriteSession};
pub use area::handle::Area;
pub use area::live_slot::LiveGuard;
pub use area::options::AreaOptions;
pub use area::presence::Presence;
pub use area::stats::AreaStats;
pub use hook::options::{HookAt, HookOptions, IfStale};
pub use hook::snapshot::Snapshot;
pub use lifecycle::fork::handle_forks;
pub use memory::backing::{BACKING_VARIABLE, BackingChoice, MIN_SHARE};
pub use memory::mapping::Mapping;
pub use model::backing::Backing;
pub use model::error::{
    CreateError, DeriveError, HookError, IoFailure, MapForeignError, NamespaceError, NotFresh,
    OpenError, PublishError, RemoveError, TrackError, WriteError,
};
pub use model::extent_word::ExtentState;
pub use model::geometry::{self, Geometry};
pub use model::manifest::MAX_PAYLOAD_BYTES;
pub use model::name::{AreaName, MAX_NAME_BYTES, NameError};
pub use model::units::{AreaId, AreaOffset, ByteLen, Epoch, ExtentId, StateId};
pub use namespace::handle::{HOME_VARIABLE, Namespace};
pub use namespace::owner_lock::Owner;
pub use policy::switches::WITHOUT_VARIABLE;
pub use publish::protocol::Publish;
pub use recovery::dismantle::RemoveReport;
pub use recovery::gc::GcReport;
pub use recovery::list::{AreaInfo, ParentInfo};
pub use sys::descriptors;
pub use sys::file::{FreeSpace, free_space};
pub use sys::file_lock::ByteLock;
pub use sys::pipes;
pub use sys::process::exit_now;
pub use tracked::hold::HoldGuard;
pub use write::plan::WriteIntent;
