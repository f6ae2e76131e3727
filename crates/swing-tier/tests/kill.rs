//! A process that commits is killed with SIGKILL, again and again: what it had been told is there.

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use common::model::small_options;
use swing_tier::storage::Storage;
use swing_tier::{Directory, DirectoryOptions, Engine, Log, LogOptions, RecordId};

const CHILD: &str = "SWING_TIER_CHILD";
/// How many records the log has at a time.
const WINDOW: u64 = 12;

fn log_at(path: &Path) -> Log {
    let storage = Directory::open(path, DirectoryOptions::default()).unwrap();
    let storage: Arc<dyn Storage> = Arc::new(storage);
    let options = LogOptions { background: true, dead_fraction: 0.3, ..small_options() };
    match storage.list().unwrap().iter().any(|name| name == "root") {
        true => Log::open(storage, options).unwrap(),
        false => Log::create(storage, options).unwrap(),
    }
}

/// The record of commit `number`.
fn record(number: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(number);
    let len = if number.is_multiple_of(7) { 90_000 } else { random.usize(1..2000) };
    vec![number as u8; len]
}

/// The root payload: the number of the last commit, then the ids of the last records.
fn parse_root(root: &[u8]) -> (u64, Vec<RecordId>) {
    let mut numbers = root.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().unwrap()));
    (numbers.next().unwrap_or(0), numbers.map(RecordId).collect())
}

/// Checks that the newest state is whole; returns the number of its commit.
fn check(log: &Log) -> u64 {
    let lease = log.lease();
    let (number, ids) = parse_root(lease.root());
    assert_eq!(lease.records(), ids, "exactly the records of the last commits");
    assert_eq!(ids.len() as u64, number.min(WINDOW));
    for (id, n) in ids.iter().rev().zip((1..=number).rev()) {
        assert_eq!(lease.read(*id).unwrap(), record(n), "record of commit {n}");
    }
    number
}

/// Runs in the child only: commits until it is killed, and says so each time.
#[test]
fn child() {
    let Ok(path) = std::env::var(CHILD) else { return };
    let log = log_at(Path::new(&path));
    let mut number = check(&log);
    let mut ids = parse_root(log.lease().root()).1;
    println!("\nopened {number}");
    loop {
        number += 1;
        let mut batch = log.batch().unwrap();
        ids.push(batch.put(&record(number)).unwrap());
        if ids.len() as u64 > WINDOW {
            batch.free(ids.remove(0)).unwrap();
        }
        let mut root = number.to_le_bytes().to_vec();
        ids.iter().for_each(|id| root.extend_from_slice(&id.0.to_le_bytes()));
        batch.set_root(&root).unwrap();
        batch.commit().unwrap();
        println!("committed {number}");
    }
}

fn kill_in_loops(path: &Path, kills: u64, random: &mut fastrand::Rng) {
    let mut least = 0;
    for kill in 0..kills {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env(CHILD, path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let reader = std::thread::spawn(move || {
            let numbers = output.lines().map_while(Result::ok).filter_map(|line| {
                line.strip_prefix("committed ").and_then(|n| n.parse::<u64>().ok())
            });
            numbers.max().unwrap_or(0)
        });
        std::thread::sleep(Duration::from_millis(random.u64(1..120)));
        process.kill().unwrap();
        process.wait().unwrap();
        let told = reader.join().unwrap().max(least);
        if path.join("root").exists() {
            let found = check(&log_at(path));
            assert!(found >= told, "kill {kill}: {found} commits are there, {told} were promised");
            assert!(found <= told + 1, "kill {kill}: {found} commits are there after {told}");
            least = found;
        }
    }
    assert!(least > 0, "no child came to a commit");
}

#[test]
fn sigkill_at_any_moment_loses_nothing_that_was_promised() {
    let seed = common::seed();
    println!("SWING_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let kills = common::rounds(25);
    kill_in_loops(common::on_disk().path(), kills, &mut random);
    match common::in_memory() {
        Some(folder) => kill_in_loops(folder.path(), kills, &mut random),
        None => println!("skipped: no file system in memory here"),
    }
}

#[test]
fn the_lock_goes_with_the_process() {
    let folder = common::on_disk();
    let mut random = fastrand::Rng::with_seed(1);
    kill_in_loops(folder.path(), 3, &mut random);
    let storage =
        Directory::open(folder.path(), DirectoryOptions { engine: Engine::Threads, create: false });
    drop(Log::open(Arc::new(storage.unwrap()), small_options()).unwrap());
}
