//! Readers killed at any moment disturb nobody and leave nothing; what they see is never half a
//! change.

use std::time::{Duration, Instant};

use swingdb_processes::child::Victim;
use swingdb_processes::home::Home;
use swingdb_processes::{kills, seed};

const VICTIM: &str = env!("CARGO_BIN_EXE_swingdb-victim");
const ACCOUNTS: &str = "60000";
/// A table of 1.5 MB; each state that a dead reader would keep costs at least one extent more.
const MAX_MEMORY_BYTES: u64 = 512 << 20;
const AUDITORS: usize = 3;

#[test]
fn snapshots_are_consistent_while_the_writer_shares_and_readers_die() {
    let mut random = fastrand::Rng::with_seed(seed("kill_reader"));
    let home = Home::new();
    let mut writer = Victim::start(VICTIM, home.path(), &["transfer", "bank", ACCOUNTS]);
    assert_eq!(writer.line(), "ready");
    let mut killed = 0;
    let rounds = kills(0.3).div_ceil(AUDITORS);
    for round in 0..rounds {
        let mut auditors: Vec<Victim> =
            (0..AUDITORS).map(|_| Victim::start(VICTIM, home.path(), &["audit", "bank"])).collect();
        auditors.iter_mut().for_each(|auditor| assert_eq!(auditor.line(), "ready"));
        for auditor in auditors {
            let ended = auditor.kill_after(Duration::from_micros(random.u64(0..40_000)));
            ended.assert_killed_or_well(&format!("round {round}"));
            killed += 1;
        }
        let bytes = home.bytes();
        assert!(bytes < MAX_MEMORY_BYTES, "round {round}: {bytes} bytes");
    }
    let ended = writer.kill_after(Duration::ZERO);
    ended.assert_killed_or_well("the writer");
    eprintln!("{killed} readers killed");
    swingdb::gc_in(home.path()).expect("collecting garbage");
    swingdb::drop_in(home.path(), "bank").expect("dropping");
    swingdb::gc_in(home.path()).expect("collecting garbage");
    home.assert_is_emptied(1 << 20);
}

#[test]
fn snapshots_taken_for_a_while_are_all_consistent() {
    let home = Home::new();
    let mut writer = Victim::start(VICTIM, home.path(), &["transfer", "bank", "2000"]);
    assert_eq!(writer.line(), "ready");
    let auditors: Vec<Victim> =
        (0..2).map(|_| Victim::start(VICTIM, home.path(), &["audit", "bank"])).collect();
    let until = Instant::now() + Duration::from_secs(3);
    std::thread::sleep(until - Instant::now());
    for auditor in auditors {
        // One that found something wrong has ended by itself, with an error.
        auditor.kill_after(Duration::ZERO).assert_killed_or_well("an auditor");
    }
    writer.kill_after(Duration::ZERO).assert_killed_or_well("the writer");
}
