//! Programs that know nothing of areas, started with the library, while this process hooks their
//! heaps at any moment. Programs that are not installed are left out, loudly.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use swing::{AreaName, Namespace, Snapshot};
use swing_malloc::{Heap, Malloc};

/// The library, built beside the tests.
fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let folder = program.parent().unwrap().parent().unwrap();
    let built = Command::new(env!("CARGO"))
        .args(["build", "--release", "--locked", "-p", "swing-preload", "--lib"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    assert!(built.unwrap().success());
    folder.join("libswingmalloc_preload.so")
}

fn installed(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        println!("{program} is not installed: not tested");
    }
    found
}

fn start(home: &Path, program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", library()).env("SWINGDB_HOME", home);
    command.env("SWING_PRELOAD_NAME", "program").env("SWING_PRELOAD_GIB", "8");
    command
}

/// The heap of the snapshot is whole, and its new owner goes on allocating in it.
fn whole(snapshot: Snapshot) -> u64 {
    let area = Arc::new(snapshot.derive(None).unwrap());
    let malloc = Malloc::open(Heap::open(area).unwrap()).unwrap();
    let report = malloc.check().unwrap();
    let grant = malloc.allocate(swing::ByteLen(1000)).unwrap();
    malloc.free(grant.offset).unwrap();
    malloc.check().unwrap();
    report.blocks
}

/// Whether a hooked heap holds these bytes.
fn holds(snapshot: &Snapshot, text: &[u8]) -> bool {
    let geometry = snapshot.geometry();
    (0..geometry.extent_count()).any(|i| {
        let range = geometry.range(swing::ExtentId(i));
        if !snapshot.is_mapped(&range) {
            return false;
        }
        // SAFETY: the extent is mapped in the snapshot, whose bytes never change.
        let bytes = unsafe {
            let at = snapshot.base().as_ptr().add(range.start.as_usize());
            std::slice::from_raw_parts(at, geometry.len(swing::ExtentId(i)).as_usize())
        };
        bytes.windows(text.len()).any(|window| window == text)
    })
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_program_with_threads_forks_and_files_works_while_it_is_hooked() {
    if !installed("python3") {
        return;
    }
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let code = "
import os, threading, time, hashlib
def work(seed):
    d = {}
    for i in range(60000):
        d[i % 5000] = bytes([seed]) * (i % 3000)
        if i % 500 == 0:
            with open('/proc/self/status') as f: assert 'VmRSS' in f.read()
            os.listdir('/proc/self')
    assert all(v == bytes([seed]) * len(v) for v in d.values())
threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
[t.start() for t in threads]
for i in range(5):
    child = os.fork()
    if child == 0:
        x = {n: str(n) for n in range(20000)}
        os._exit(7 if x[77] == '77' else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
[t.join() for t in threads]
print('whole')
";
    let mut command = start(home.path(), "python3");
    let child = command.args(["-c", code]).stdout(Stdio::piped()).spawn().unwrap();
    let mut child = Ended(child);
    let namespace = Namespace::open(home.path()).unwrap();
    let name = AreaName::new("program").unwrap();
    let (mut hooks, mut most) = (0, 0);
    while child.0.try_wait().unwrap().is_none() {
        if let Ok(snapshot) = namespace.hook_live(&name) {
            most = most.max(whole(snapshot));
            hooks += 1;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut printed = String::new();
    let mut out = child.0.stdout.take().unwrap();
    std::io::Read::read_to_string(&mut out, &mut printed).unwrap();
    assert_eq!(printed, "whole\n");
    assert!(hooks > 0 && most > 1000, "hooked {hooks} times, {most} blocks");
}

#[test]
fn redis_serves_clients_while_its_heap_is_hooked_and_scanned() {
    if !installed("redis-server") || !installed("redis-cli") || !installed("redis-benchmark") {
        return;
    }
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let socket = home.path().join("redis.sock");
    let mut command = start(home.path(), "redis-server");
    command.args(["--port", "0", "--save", "", "--dir"]).arg(home.path());
    let server = command.arg("--unixsocket").arg(&socket).stdout(Stdio::null()).spawn().unwrap();
    let mut server = Ended(server);
    let client = |words: &[&str]| {
        let output = Command::new("redis-cli").arg("-s").arg(&socket).args(words).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let begun = Instant::now();
    while client(&["ping"]) != "PONG" {
        assert!(begun.elapsed() < Duration::from_secs(60), "the server does not answer");
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut load = Command::new("redis-benchmark");
    load.arg("-s").arg(&socket).args(["-q", "-n", "20000", "-r", "10000", "-d", "200"]);
    let load = load.args(["-t", "set,get,lpush,lpop,hset,zadd"]).stdout(Stdio::null()).spawn();
    let mut load = Ended(load.unwrap());
    let namespace = Namespace::open(home.path()).unwrap();
    let name = AreaName::new("program").unwrap();
    let mut round = 0;
    while load.0.try_wait().unwrap().is_none() || round < 3 {
        let text = format!("the value of round {round:04}");
        assert_eq!(client(&["set", "mark", &text]), "OK");
        let snapshot = namespace.hook_live(&name).unwrap();
        assert_eq!(client(&["set", "mark", "something else, and longer"]), "OK");
        assert!(holds(&snapshot, text.as_bytes()), "the state of the hook's moment");
        assert!(whole(snapshot) > 1000);
        round += 1;
    }
    assert!(load.0.wait().unwrap().success());
    assert_eq!(client(&["get", "mark"]), "something else, and longer");
    assert!(client(&["bgsave"]).contains("started"));
    let begun = Instant::now();
    while !client(&["info", "persistence"]).contains("rdb_bgsave_in_progress:0") {
        assert!(begun.elapsed() < Duration::from_secs(60), "saving does not end");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(client(&["info", "persistence"]).contains("rdb_last_bgsave_status:ok"));
    client(&["shutdown", "nosave"]);
    assert!(server.0.wait().unwrap().success());
}
