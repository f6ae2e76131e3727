//! Files in the namespace that somebody has damaged: an error or the truth, never a crash.

use std::fs;
use std::path::PathBuf;

use std::time::{Duration, Instant};
use swingdb::Database;
use swingdb_processes::child::Victim;
use swingdb_processes::contents::read;
use swingdb_processes::home::Home;
use swingdb_processes::journal::Progress;
use swingdb_processes::model::{State, change};
use swingdb_processes::seed;

const VICTIM: &str = env!("CARGO_BIN_EXE_swingdb-victim");
const DAMAGES: usize = 400;
/// Larger files hold the data itself, which has no checksum by design: memory is trusted to the
/// extent that nobody but its owner can write it.
const MAX_DAMAGED_BYTES: u64 = 256 << 10;

/// Makes a shared database with a child; its contents.
fn made_by_a_child(home: &Home, seed: u64) -> State {
    let journals = tempfile::tempdir().unwrap();
    let journal = journals.path().join("journal");
    let arguments = ["change", "db", &seed.to_string(), "1", &journal.display().to_string(), "1"];
    let mut victim = Victim::start(VICTIM, home.path(), &arguments);
    victim.line();
    let begun = Instant::now();
    while Progress::read(&journal, Progress::default()).unwrap().shared.is_none() {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing is shared");
        std::thread::sleep(Duration::from_millis(5));
    }
    victim.kill_after(Duration::from_millis(300)).assert_killed_or_well("the maker");
    let progress = Progress::read(&journal, Progress::default()).unwrap();
    let shared = progress.shared.expect("something was shared by then");
    let found = read(&Database::snapshot_in(home.path(), "db").unwrap()).unwrap();
    let mut expected = State::default();
    for step in 1..=progress.sharing.unwrap_or(shared) {
        expected.apply(&change(seed, step));
        if step >= shared && expected == found {
            return found;
        }
    }
    panic!("the snapshot is no state that was shared");
}

/// Damages a file in one of the usual ways.
fn damage(contents: &mut Vec<u8>, random: &mut fastrand::Rng) {
    match random.u8(0..6) {
        0 => contents.truncate(random.usize(0..=contents.len())),
        1 => contents.fill(0),
        2 => contents.iter_mut().for_each(|byte| *byte = random.u8(..)),
        3 => contents.extend((0..random.usize(1..5000)).map(|i| i as u8)),
        _ if contents.is_empty() => contents.push(1),
        // A few bits, where a checksum is all that can tell.
        _ => {
            for _ in 0..random.usize(1..4) {
                let at = random.usize(0..contents.len());
                contents[at] ^= 1 << random.u8(0..8);
            }
        }
    }
}

#[test]
fn damaged_files_give_errors_or_the_truth() {
    let seed = seed("hostile");
    let mut random = fastrand::Rng::with_seed(seed);
    let home = Home::new();
    let truth = made_by_a_child(&home, seed);
    let small = |path: &PathBuf| {
        path.symlink_metadata().is_ok_and(|m| m.is_file() && m.len() <= MAX_DAMAGED_BYTES)
    };
    let files: Vec<PathBuf> = home.files().into_iter().filter(small).collect();
    assert!(!files.is_empty());
    let (mut errors, mut truths) = (0, 0);
    for round in 0..DAMAGES {
        let file = &files[random.usize(0..files.len())];
        let intact = fs::read(file).unwrap();
        let mut contents = intact.clone();
        damage(&mut contents, &mut random);
        fs::write(file, &contents).unwrap();
        match Database::snapshot_in(home.path(), "db").and_then(|snapshot| read(&snapshot)) {
            Ok(found) => {
                assert_eq!(found, truth, "round {round}, {file:?}: a lie");
                truths += 1;
            }
            Err(_) => errors += 1,
        }
        let _ = swingdb::list_in(home.path());
        fs::write(file, &intact).unwrap();
    }
    eprintln!("{errors} errors, {truths} times the truth");
    assert!(errors > 0, "no damage was ever noticed");
    assert_eq!(read(&Database::snapshot_in(home.path(), "db").unwrap()).unwrap(), truth);
}
