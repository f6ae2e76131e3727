//! The fuzzers' functions on random bytes from a seed: cheap enough for every run.
//!
//! `SWINGDB_FUZZ=20` runs twenty times as many.

use swingdb_processes::{fuzz, seed};

/// Hands random byte strings to a fuzzer's function.
fn run(name: &str, rounds: u64, longest: usize, function: fn(&[u8])) {
    let seed = seed(name);
    let times = std::env::var("SWINGDB_FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    for round in 0..rounds * times {
        let mut random = fastrand::Rng::with_seed(seed.wrapping_add(round));
        let bytes: Vec<u8> = (0..random.usize(2..longest)).map(|_| random.u8(..)).collect();
        let outcome = std::panic::catch_unwind(|| function(&bytes));
        if let Err(panic) = outcome {
            eprintln!("{name}, SWINGDB_SEED={seed}, round {round}: {bytes:?}");
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn sessions_from_random_bytes_follow_the_model() {
    run("fuzz_sessions", 25, 250, fuzz::session);
}

#[test]
fn damaged_manifests_never_crash() {
    let shared = fuzz::shared();
    let home = shared.path().to_path_buf();
    run("fuzz_manifests", 400, 100, fuzz::manifest);
    drop(shared);
    assert!(!home.exists(), "{} is left", home.display());
}

#[test]
fn any_text_is_csv_or_an_error_with_a_line() {
    run("fuzz_csv", 150, 300, |bytes| {
        // Random bytes are seldom lines: most become what CSV is made of.
        const CSV: &[u8] = b"0123456789,,,;;\n\n\n\r\"\"'ab -.:ex";
        let text =
            |byte: &u8| if *byte < 250 { CSV[usize::from(*byte) % CSV.len()] } else { *byte };
        let text: Vec<u8> =
            bytes.iter().take(6).copied().chain(bytes.iter().skip(6).map(text)).collect();
        fuzz::csv(&text);
    });
}

#[test]
fn damaged_files_are_rows_or_an_error() {
    run("fuzz_files", 120, 60, fuzz::files);
}

#[test]
fn any_text_is_a_statement_or_an_error() {
    run("fuzz_sql", 60, 400, fuzz::sql);
}
