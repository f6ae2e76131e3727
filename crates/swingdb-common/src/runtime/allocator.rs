//! What is wished of the allocator of a program that runs queries.
//!
//! The programs of this workspace allocate by jemalloc. The crates below them know no allocator:
//! they say here what [serves queries](JEMALLOC_OPTIONS), and [tell the program](at_first_query)
//! when queries begin.

use std::sync::OnceLock;

/// Options of jemalloc, as its variable `malloc_conf` takes them.
///
/// * `thp:always`: huge pages where the system lets a program ask for them. Queries make large
///   tables anew all the time, and first stores to pages of 4 KiB are a good part of their time.
/// * `oversize_threshold:0`: allocations of 8 MiB and more are kept for the next like others. By
///   default the system gets them back at once, and clears their pages again for the next query.
/// * `dirty_decay_ms`, `max_background_threads`: what nobody asks for within about a second goes
///   back to the system, also if the program does nothing more. The thread that does it starts with
///   the first query: see [`at_first_query`].
pub const JEMALLOC_OPTIONS: &[u8; 77] =
    b"thp:always,oversize_threshold:0,dirty_decay_ms:1000,max_background_threads:1\0";

static AT_FIRST_QUERY: OnceLock<fn()> = OnceLock::new();

/// Has `work` done when this process starts the threads that compute queries, and again by each
/// forked child that does. The first call counts.
pub fn at_first_query(work: fn()) {
    AT_FIRST_QUERY.get_or_init(|| work);
}

/// Queries begin in this process.
pub(super) fn queries_begin() {
    if let Some(work) = AT_FIRST_QUERY.get() {
        work();
    }
}
