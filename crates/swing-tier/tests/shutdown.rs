//! A power cut of a real file system: ext4 on a loop device is shut down under a log that commits
//! (`EXT4_IOC_SHUTDOWN`), unmounted, mounted again, and opened. Runs as root when `SWING_SHUTDOWN`
//! is set, because it mounts file systems.

mod common;

use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::model::small_options;
use common::mount::Mount;
use common::window::{check, commit};
use swing_tier::storage::Storage;
use swing_tier::{Directory, DirectoryOptions, Engine, Log};

/// `_IOR('X', 125, __u32)` of the kernel's `fs/ext4/ext4.h`.
const EXT4_IOC_SHUTDOWN: libc::c_ulong = 0x8004_587d;
/// Whether the file system's own journal is written before it goes: no, or yes.
const LOSSES: [(u32, &str); 2] = [(2, "nothing more is written"), (1, "its journal is written")];

fn storage(path: &Path, engine: Engine) -> Arc<dyn Storage> {
    Arc::new(Directory::open(path, DirectoryOptions { engine, create: true }).unwrap())
}

fn shut_down(path: &Path, how: u32) {
    let folder = std::fs::File::open(path).unwrap();
    // SAFETY: the call reads one number.
    let result = unsafe { libc::ioctl(folder.as_raw_fd(), EXT4_IOC_SHUTDOWN, &how) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// Commits until the power goes; opens what is left, and compares it with what was promised.
fn cut(path: &Path, mount: &Mount, engine: Engine, how: u32, pause: Duration) -> u64 {
    let log = Log::create(storage(path, engine), small_options()).unwrap();
    let gone = AtomicBool::new(false);
    let mut told = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(pause);
            shut_down(&mount.path(), how);
            gone.store(true, Ordering::SeqCst);
        });
        while let Ok(number) = commit(&log) {
            told = number;
        }
    });
    assert!(gone.load(Ordering::SeqCst), "commits fail while there is power");
    drop(log);
    mount.cycle();
    let log = Log::open(storage(path, engine), small_options());
    let log = log.unwrap_or_else(|error| panic!("after {told} commits: {error}"));
    let found = check(&log);
    assert!(found == told || found == told + 1, "{found} commits are there, {told} were promised");
    // It goes on from there.
    assert_eq!(commit(&log).unwrap(), found + 1);
    told
}

#[test]
fn a_file_system_that_is_shut_down_keeps_what_was_promised() {
    if std::env::var_os("SWING_SHUTDOWN").is_none() {
        println!("skipped: SWING_SHUTDOWN is not set");
        return;
    }
    let seed = common::seed();
    println!("SWING_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mount = Mount::new(64).unwrap();
    let mut commits = 0;
    for round in 0..common::rounds(6) {
        for engine in [Engine::Auto, Engine::Threads] {
            for (how, words) in LOSSES {
                let path = mount.path().join("log");
                let pause = Duration::from_millis(random.u64(0..200));
                let told = cut(&path, &mount, engine, how, pause);
                println!("round {round}, {engine:?}, {words}: {told} commits");
                commits += told;
                std::fs::remove_dir_all(&path).unwrap();
            }
        }
    }
    assert!(commits > 0, "no commit came before the power went");
}
