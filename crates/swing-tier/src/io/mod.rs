//! The two ways to move bytes on a real file system, behind [`Queue`](crate::storage::Queue):
//! `ring` (io_uring) and `pool` (threads that call `pread` and `pwrite`).

mod admission;
mod choose;
pub(crate) mod file;
pub(crate) mod kept;
mod pool;
mod progress;
mod ring;
mod uring;

pub(crate) use choose::choose;
pub use choose::{Choice, Engine};
pub(crate) use pool::{Pool, PoolQueue};
pub(crate) use ring::RingQueue;
