//! The fuzzers' functions on random bytes from a seed: cheap enough for every run.

use swingdb_processes::{fuzz, seed};

const SESSIONS: usize = 25;

#[test]
fn sessions_from_random_bytes_follow_the_model() {
    let seed = seed("fuzz_seeded");
    for session in 0..SESSIONS as u64 {
        let mut random = fastrand::Rng::with_seed(seed.wrapping_add(session));
        let bytes: Vec<u8> = (0..random.usize(20..250)).map(|_| random.u8(..)).collect();
        eprintln!("session {session}, {} bytes", bytes.len());
        fuzz::session(&bytes);
    }
}
