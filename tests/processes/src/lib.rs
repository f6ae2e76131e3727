//! Tests across processes: a model to compare with, children to kill, and a namespace to look into.
//!
//! The child is the program `swingdb-victim`. It applies a sequence of changes that both sides can
//! compute from a seed and a step number alone ([`model`]), and notes each step in a journal before
//! and after ([`journal`]). Whenever it dies, what the database holds must be the model's state
//! after the last step the journal calls done, or after the one that was under way.

#![forbid(unsafe_code)]

pub mod apply;
pub mod child;
pub mod contents;
pub mod fuzz;
pub mod home;
pub mod journal;
pub mod model;

use std::env;

/// The seed of this run: `SWINGDB_SEED`, else a random one. Printed, so that a failure is replayed.
pub fn seed(test: &str) -> u64 {
    let seed = env::var("SWINGDB_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| fastrand::u64(..1_000_000));
    eprintln!("{test}: SWINGDB_SEED={seed}");
    seed
}

/// This test's part of the kills of the run: `SWINGDB_KILLS` (default 600) times `share`, at least
/// 1.
pub fn kills(share: f64) -> usize {
    let all = env::var("SWINGDB_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(600);
    ((f64::from(all) * share) as usize).max(1)
}
