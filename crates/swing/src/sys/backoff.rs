//! How a thread waits between tries of something that takes moments.

/// Yields, and later sleeps, between tries.
pub(crate) fn pause(tries: u32) {
    if tries < 20 {
        std::thread::yield_now();
    } else {
        std::thread::sleep(std::time::Duration::from_micros(u64::from(tries) * 5));
    }
}
