//! What a live hook and its owner say to each other through the owner's socket.
//!
//! A request and its answer have fixed lengths. Both sides are hostile to each other: a request is
//! a hint about time, an answer a status.

/// What a request begins with.
pub(crate) const REQUEST: [u8; 16] = *b"SWINGLIVEHOOK\0\0\x05";
/// The whole request: behind it stands the time when it was sent, in nanoseconds of the clock that
/// all processes share, or [`NOTIFIED`].
pub(crate) const REQUEST_BYTES: usize = 24;
/// The time of a request that only inquires what came of a notification.
pub(crate) const NOTIFIED: u64 = 0;
/// An answer: status, and the number of the thread that answers.
pub(crate) const ANSWER_BYTES: usize = 8;
pub(crate) const FRESH: u32 = 1;
pub(crate) const REFUSED: u32 = 2;
pub(crate) const FAILED: u32 = 3;
pub(crate) const PINNED: u32 = 4;
/// What the responder's thread is called.
pub(crate) const THREAD: &str = "swing-live";
