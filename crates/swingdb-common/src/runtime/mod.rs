//! How statements run: on which threads, until when, and within what memory.

pub mod cancel;
pub mod held;
pub mod memory;
pub mod meter;
pub mod parallel;
pub mod threads;

pub use swing::pipes;
