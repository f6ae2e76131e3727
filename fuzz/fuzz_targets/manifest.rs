//! Damaged manifests, with wrong and with right checksums.

#![no_main]

use std::sync::{Arc, OnceLock};

use swingdb_processes::fuzz;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // One database for all inputs.
    static HELD: OnceLock<Arc<fuzz::Shared>> = OnceLock::new();
    HELD.get_or_init(fuzz::shared);
    fuzz::manifest(bytes);
});
