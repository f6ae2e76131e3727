//! A process that runs into a limit (address space, memory of its group, space for a file) ends
//! with an error or dies; the database is as it was committed, and nothing is left behind.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use swingdb::io::ExportOptions;
use swingdb::{Database, Error};
use swingdb_processes::contents::{difference, read};
use swingdb_processes::home::Home;
use swingdb_processes::journal::Progress;
use swingdb_processes::model::State;
use swingdb_processes::seed;

const VICTIM: &str = env!("CARGO_BIN_EXE_swingdb-victim");
/// What an empty namespace takes at most.
const EMPTY_BYTES: u64 = 8 << 20;
/// How long a victim that does not run into its limit may work.
const WORK: Duration = Duration::from_millis(700);
/// How long one may take that must run into it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the shell's `limit` and then a victim that changes a database, until it ends or is killed.
fn change_under(
    limit: &str,
    time: Duration,
    home: &Path,
    (seed, from): (u64, i64),
    journal: &Path,
) -> bool {
    let script = format!("{limit}; exec \"$@\"");
    let mut child = Command::new("sh")
        .args(["-c", &script, "sh", VICTIM, "change", "db", &seed.to_string(), &from.to_string()])
        .arg(journal)
        .arg("3")
        .env("SWINGDB_HOME", home)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a shell");
    let deadline = std::time::Instant::now() + time;
    let mut ended = false;
    while !ended && std::time::Instant::now() < deadline {
        ended = child.try_wait().expect("a child can be waited for").is_some();
        std::thread::sleep(Duration::from_millis(5));
    }
    // Whatever it is doing: this is the end of it.
    let _ = child.kill();
    child.wait().expect("a child can be waited for");
    ended
}

/// Compares what is there with the journal; how many steps were done.
fn check(home: &Home, seed: u64, journal: &Path, before: i64, context: &str) -> i64 {
    let start = Progress { done: before, begun: before, ..Progress::default() };
    let progress = Progress::read(&journal.to_path_buf(), start).unwrap_or(start);
    let database = Database::open_in(home.path(), "db").expect("adopting");
    database.connect().query(swingdb_processes::apply::CREATE).expect("the table");
    let found = read(&database).expect("reading");
    database.close().expect("closing");
    let done = State::after(seed, progress.done);
    if found == done {
        return progress.done;
    }
    let begun = State::after(seed, progress.begun);
    assert!(found == begun, "{context}: {}", difference(&found, &done));
    progress.begun
}

fn drop_everything(home: &Home) {
    swingdb::drop_in(home.path(), "db").expect("dropping");
    let _ = swingdb::gc_in(home.path());
    home.assert_is_emptied(EMPTY_BYTES);
}

#[test]
fn without_address_space_nothing_begins() {
    let home = Home::new();
    let journals = tempfile::tempdir().unwrap();
    let (limit, journal) = ("ulimit -v 4000000", journals.path().join("j"));
    let ended = change_under(limit, PATIENCE, home.path(), (1, 1), &journal);
    assert!(ended, "a victim works in less address space than a database reserves");
    assert!(home.bytes() < EMPTY_BYTES, "{} bytes are left", home.bytes());
    let database = Database::open_in(home.path(), "db").expect("opening afterwards");
    database.connect().query("SELECT 1").expect("working afterwards");
}

#[test]
fn too_little_address_space_loses_nothing() {
    let seed = seed("too_little_address_space_loses_nothing");
    let home = Home::new();
    let journals = tempfile::tempdir().unwrap();
    let (mut done, mut ended) = (0, 0);
    // From hardly enough to start to enough for a while, above what the area reserves.
    for (round, headroom_mib) in [40, 80, 160, 320, 640, 1200].into_iter().enumerate() {
        let kib = (128 << 20) + headroom_mib * 1024;
        let journal = journals.path().join(format!("j{round}"));
        let limit = format!("ulimit -v {kib}");
        let time = if round == 0 { PATIENCE } else { WORK };
        ended += usize::from(change_under(&limit, time, home.path(), (seed, done + 1), &journal));
        done = check(&home, seed, &journal, done, &format!("{headroom_mib} MiB, seed {seed}"));
    }
    eprintln!("{ended} victims ran into the limit, {done} changes were made");
    assert!(ended > 0, "no victim ran into its limit");
    drop_everything(&home);
}

/// A memory control group of its own, where this process may make one.
struct Group(PathBuf);

impl Group {
    fn new(bytes: u64) -> Option<Self> {
        let name = format!("swingdb-test-{}", std::process::id());
        for (parent, limit) in
            [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")]
        {
            let group = Path::new(parent).join(&name);
            if !Path::new(parent).join("cgroup.procs").exists() {
                continue;
            }
            if std::fs::create_dir(&group).is_err() {
                continue;
            }
            let made = Self(group);
            if std::fs::write(made.0.join(limit), bytes.to_string()).is_ok() {
                return Some(made);
            }
        }
        None
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its processes have just ended; the kernel may still count them.
        for _ in 0..200 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn a_group_out_of_memory_loses_nothing() {
    let Some(group) = Group::new(96 << 20) else {
        eprintln!("skipped: making a memory control group needs root");
        return;
    };
    let seed = seed("a_group_out_of_memory_loses_nothing");
    let home = Home::new();
    let journals = tempfile::tempdir().unwrap();
    let mut done = 0;
    for round in 0..3 {
        let journal = journals.path().join(format!("j{round}"));
        let join = format!("echo $$ > {}", group.0.join("cgroup.procs").display());
        let ended = change_under(&join, WORK, home.path(), (seed, done + 1), &journal);
        done = check(&home, seed, &journal, done, &format!("round {round}, seed {seed}"));
        eprintln!("round {round}: {}, {done} changes", if ended { "killed" } else { "worked" });
    }
    drop_everything(&home);
}

#[test]
fn an_export_to_a_full_disk_leaves_nothing() {
    let disk = tempfile::tempdir().unwrap();
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=1m", "swingdb-test"]).arg(disk.path());
    if !mount.output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: mounting a small file system needs root");
        return;
    }
    let home = Home::new();
    let database = Database::private_in(home.path()).unwrap();
    let con = database.connect();
    con.query("CREATE TABLE t AS SELECT range AS id, uuid() AS s FROM range(100000)").unwrap();
    std::fs::write(disk.path().join("f.csv"), "old").unwrap();
    let mut errors = Vec::new();
    for name in ["f.csv", "f.parquet", "f.json", "f.arrow", "f.csv.gz"] {
        errors.push((name, con.export_file("t", disk.path().join(name), ExportOptions::default())));
    }
    let left: Vec<_> = std::fs::read_dir(disk.path()).unwrap().flatten().collect();
    let old = std::fs::read_to_string(disk.path().join("f.csv"));
    let small = con.export_file("SELECT 1", disk.path().join("g.csv"), ExportOptions::default());
    let _ = Command::new("umount").arg("-l").arg(disk.path()).status();
    for (name, error) in errors {
        let error = error.map(|_| ()).expect_err(name);
        assert!(matches!(error, Error::Io { path: Some(_), .. }), "{name}: {error:?}");
        assert!(error.to_string().contains("o space left"), "{name}: {error}");
    }
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(old.unwrap(), "old");
    small.expect("a file for which there is room");
}
