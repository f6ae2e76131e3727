//! How statements run: on which threads, until when, and within what memory.

pub mod accept;
pub mod allocator;
pub mod cancel;
pub mod held;
pub mod memory;
pub mod meter;
pub mod parallel;
pub mod temporary;
pub mod threads;
pub mod wait;

pub use swing::pipes;
