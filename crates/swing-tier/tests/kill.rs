//! A process that commits is killed with SIGKILL, again and again: what it had been told is there.

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use common::model::small_options;
use common::window::{check, commit};
use swing_tier::scan::ScanOptions;
use swing_tier::storage::Storage;
use swing_tier::{Directory, DirectoryOptions, Engine, Log, LogOptions};

const CHILD: &str = "SWING_TIER_CHILD";
const SCANNER: &str = "SWING_TIER_SCANNER";

fn log_at(path: &Path) -> Log {
    let storage = Directory::open(path, DirectoryOptions::default()).unwrap();
    let storage: Arc<dyn Storage> = Arc::new(storage);
    let options = LogOptions { background: true, dead_fraction: 0.3, ..small_options() };
    match storage.list().unwrap().iter().any(|name| name == "root") {
        true => Log::open(storage, options).unwrap(),
        false => Log::create(storage, options).unwrap(),
    }
}

/// Runs in the child only: commits until it is killed, and says so each time.
#[test]
fn child() {
    let Ok(path) = std::env::var(CHILD) else { return };
    let log = log_at(Path::new(&path));
    println!("\nopened {}", check(&log));
    loop {
        println!("committed {}", commit(&log).unwrap());
    }
}

fn kill_in_loops(path: &Path, kills: u64, random: &mut fastrand::Rng) {
    let (mut least, mut kill) = (0, 0);
    while kill < kills || least == 0 {
        // On a busy machine no child may have come to a commit so far: they get more time.
        let longer = kill.saturating_sub(kills);
        assert!(longer < 10, "no child came to a commit");
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
        std::thread::sleep(Duration::from_millis(random.u64(1..120) << longer));
        process.kill().unwrap();
        process.wait().unwrap();
        let told = reader.join().unwrap().max(least);
        if path.join("root").exists() {
            let found = check(&log_at(path));
            assert!(found >= told, "kill {kill}: {found} commits are there, {told} were promised");
            assert!(found <= told + 1, "kill {kill}: {found} commits are there after {told}");
            least = found;
        }
        kill += 1;
    }
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

/// Runs in the child only: scans until it is killed, and keeps some of what it gets.
#[test]
fn scanner() {
    let Ok(path) = std::env::var(SCANNER) else { return };
    let storage = Directory::open(Path::new(&path), DirectoryOptions::default()).unwrap();
    let log = Log::open_read_only(Arc::new(storage), small_options()).unwrap();
    let lease = log.lease();
    let ids = lease.records();
    loop {
        let scan = lease.scan(&ids, &ScanOptions::default()).unwrap();
        let mut kept = None;
        while let Some(part) = scan.next_part() {
            kept = Some(part.unwrap());
        }
        println!("\nscanned {}", scan.stats().bytes);
        drop(kept);
    }
}

#[test]
fn a_scan_that_is_killed_leaves_the_log_to_others() {
    let folder = common::on_disk();
    let log = log_at(folder.path());
    let mut batch = log.batch().unwrap();
    let ids: Vec<_> = (0..40).map(|n| batch.put(&vec![n; 200_000]).unwrap()).collect();
    batch.commit().unwrap();
    drop(log);
    for kill in 0..common::rounds(8) {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "scanner", "--nocapture"])
            .env(SCANNER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut lines = lines.map_while(Result::ok);
        assert!(lines.any(|line| line == "scanned 8000000"), "kill {kill}");
        std::thread::sleep(Duration::from_millis(kill));
        process.kill().unwrap();
        process.wait().unwrap();
        // A writer gets the lock at once, and everything is as it was.
        let log = log_at(folder.path());
        let found = log.lease().read_many(&ids).unwrap();
        assert!(found.iter().zip(0..).all(|(record, n)| record[..] == [n; 200_000][..]));
    }
}
