//! Programs that know nothing of areas, started with the library, while this process hooks their
//! heaps at any moment. Programs that are not installed are left out, loudly.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use swing::{AreaName, AreaOptions, ByteLen, Namespace, Publish, Snapshot};
use swing_malloc::{Heap, Malloc};

mod common;
mod redis;
use common::{Ended, hook_now, installed, start};

/// The heap of the snapshot is whole, and its new owner goes on allocating in it.
fn whole(snapshot: Snapshot) -> u64 {
    let area = Arc::new(snapshot.derive(None).unwrap());
    let malloc = Malloc::open(Heap::open(area).unwrap()).unwrap();
    let report = malloc.check().unwrap();
    let grant = malloc.allocate(ByteLen(1000)).unwrap();
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

/// What a program prints that gets these pieces of input; `between` runs after each.
fn fed(mut command: Command, pieces: &[String], mut between: impl FnMut(usize)) -> String {
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut child = Ended(child);
    let (mut input, mut output) = (child.0.stdin.take().unwrap(), child.0.stdout.take().unwrap());
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        text
    });
    for (i, piece) in pieces.iter().enumerate() {
        input.write_all(piece.as_bytes()).unwrap();
        between(i);
    }
    drop(input);
    let text = reader.join().unwrap();
    assert!(child.0.wait().unwrap().success(), "{text}");
    text
}

/// A program prints the same whether its heap is hooked all the time or is an ordinary one.
fn same_when_hooked(program: &str, arguments: &[&str], pieces: &[String]) {
    same_with_extents(2048, program, arguments, pieces);
}

/// The same, with extents of another length.
fn same_with_extents(kib: u64, program: &str, arguments: &[&str], pieces: &[String]) {
    if !installed(program) {
        return;
    }
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut plain = Command::new(program);
    plain.args(arguments);
    let expected = fed(plain, pieces, |_| {});
    let namespace = Namespace::open(home.path()).unwrap();
    let name = AreaName::new("program").unwrap();
    let mut command = start(home.path(), program);
    command.args(arguments).env("SWING_PRELOAD_EXTENT_KIB", kib.to_string());
    let (mut hooks, mut blocks) = (0, 0);
    let got = fed(command, pieces, |i| {
        let begun = Instant::now();
        let retry = |why: &str| {
            assert!(begun.elapsed() < Duration::from_secs(60), "{why}");
            std::thread::sleep(Duration::from_millis(1));
        };
        let last = i + 1 == pieces.len();
        loop {
            match namespace.hook_live(&name) {
                Ok(snapshot) if last || i % 8 == 7 => {
                    assert_eq!(snapshot.geometry().data_extent(), ByteLen::kib(kib));
                    blocks = whole(snapshot);
                }
                Ok(_) => {}
                // At first the program may not have come to its heap.
                Err(e) => {
                    retry(&e.to_string());
                    continue;
                }
            }
            hooks += 1;
            // Its input may all be in the pipe before it has begun to read.
            if !last || blocks > 10 {
                break;
            }
            retry("the program has allocated next to nothing");
        }
    });
    assert_eq!(got, expected);
    assert!(hooks >= pieces.len(), "{hooks} hooks");
}

/// Lines of numbers, in pieces.
fn numbers(pieces: u32, lines: u32, show: impl Fn(u32) -> String) -> Vec<String> {
    let mix = |n: u32| n.wrapping_mul(2_654_435_761);
    let piece = |p| (0..lines).map(|i| show(mix(p * lines + i))).collect();
    (0..pieces).map(piece).collect()
}

#[test]
fn sort_sorts() {
    let lines = numbers(16, 4000, |n| format!("{n} {}\n", n % 77));
    same_when_hooked("sort", &["-n", "-S", "4M"], &lines);
}

#[test]
fn sort_sorts_whatever_is_copied_at_once() {
    let lines = numbers(16, 4000, |n| format!("{n} {}\n", n % 77));
    for kib in [64, 512, 32768] {
        same_with_extents(kib, "sort", &["-n", "-S", "4M"], &lines);
    }
}

#[test]
fn perl_reads_forks_and_sorts() {
    let code = "
chomp; $h{$_ % 1000} .= \"$_,\"; push @a, $_;
END {
    defined($p = fork) or die; if (!$p) { exit 3 } waitpid $p, 0; print $? >> 8, qq(\\n);
    open F, '/proc/self/stat' or die; $l = <F>; print length $l > 0 ? 'read' : 'not', qq(\\n);
    opendir D, '/' or die; print scalar(grep { /^proc$/ } readdir D), qq(\\n);
    print scalar(@a), ' ', join(';', map { $h{$_} } sort keys %h), qq(\\n);
    $x = `echo inner`; print $x;
}";
    same_when_hooked("perl", &["-ne", code], &numbers(16, 2000, |n| format!("{n}\n")));
}

#[test]
fn bash_reads_and_runs_programs() {
    let code = "
while read -r n; do ((a[n % 100] += n)); done
for i in 1 2 3; do echo \"$(printf %s \"${a[i]}\")\"; done
printf '%s\\n' \"${a[@]}\" | sort -n | tail -3
mapfile -t lines < <(seq 1 5000); echo \"${#lines[@]} ${lines[4999]}\"";
    same_when_hooked("bash", &["-c", code], &numbers(16, 1200, |n| format!("{n}\n")));
}

#[test]
fn sqlite_keeps_a_database() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("base");
    let begin = "DROP TABLE IF EXISTS t; CREATE TABLE t(a INTEGER, b TEXT); CREATE INDEX i ON t(a);
        BEGIN;\n";
    let end = "COMMIT; SELECT count(*), sum(a), sum(length(b)) FROM t; PRAGMA integrity_check;
        SELECT b FROM t ORDER BY a LIMIT 5; SELECT a % 7, count(*) FROM t GROUP BY 1 ORDER BY 1;\n";
    let row = |n| format!("INSERT INTO t VALUES({n}, printf('%.*c', {}, 'x') || {n});\n", n % 200);
    let mut pieces = numbers(16, 600, row);
    pieces[0].insert_str(0, begin);
    pieces[15].push_str(end);
    same_when_hooked("sqlite3", &[file.to_str().unwrap()], &pieces);
    same_when_hooked("sqlite3", &[":memory:"], &pieces);
}

#[test]
fn python_reads_and_keeps_objects() {
    let code = "
import hashlib, json, os, subprocess, sys, time
d, lines = {}, []
for line in sys.stdin:
    d.setdefault(int(line) % 500, []).append({'n': int(line), 't': line * 3})
    lines.append(line)
print(len(lines), hashlib.sha256(json.dumps(d, sort_keys=True).encode()).hexdigest())
print(hashlib.sha256(open(sys.executable, 'rb').read()).hexdigest())
print(sorted(os.listdir('/proc'))[-1], time.localtime(9).tm_year)
print(subprocess.run(['echo', 'inner'], capture_output=True, text=True).stdout)
";
    same_when_hooked("python3", &["-c", code], &numbers(16, 2000, |n| format!("{n}\n")));
}

#[test]
fn git_answers_from_its_objects() {
    if !installed("git") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let git = |arguments: &[&str], input: &[String]| {
        let mut command = Command::new("git");
        command.args(["-C", path]).args(arguments);
        fed(command, input, |_| {})
    };
    git(&["init", "-q"], &[]);
    let blobs = numbers(1, 2000, |n| {
        let text = format!("{n}").repeat(n as usize % 300 + 1);
        format!("blob\ndata {}\n{text}\n", text.len())
    });
    git(&["fast-import", "--quiet"], &blobs);
    let all = git(&["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"], &[]);
    let lines: Vec<&str> = all.split_inclusive('\n').collect();
    assert!(lines.len() > 1900, "{} objects", lines.len());
    let pieces: Vec<String> = lines.chunks(lines.len() / 16 + 1).map(|c| c.concat()).collect();
    same_when_hooked("git", &["-C", path, "cat-file", "--batch", "--buffer"], &pieces);
}

#[test]
fn gcc_compiles() {
    let functions = numbers(16, 40, |n| {
        format!(
            "int f{n}(int a) {{ for (int i = 0; i < {}; i++) a += i * a; return a; }}\n",
            n % 99
        )
    });
    let arguments = ["-x", "c", "-O2", "-Wall", "-S", "-o", "-", "-"];
    same_when_hooked("gcc", &arguments, &functions);
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
    out.read_to_string(&mut printed).unwrap();
    assert_eq!(printed, "whole\n");
    assert!(hooks > 0 && most > 1000, "hooked {hooks} times, {most} blocks");
}

/// What a program writes to a terminal is shown when it waits for an answer, and line by line.
#[test]
fn a_prompt_is_shown_before_its_answer() {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let Some(program) = common::built("prompt.c", home.path()) else { return };
    let (mut ours, mut theirs) = (0, 0);
    let none = std::ptr::null_mut();
    // SAFETY: makes two descriptors, which their owners close.
    let opened =
        unsafe { libc::openpty(&raw mut ours, &raw mut theirs, none, none.cast(), none.cast()) };
    assert_eq!(opened, 0);
    // SAFETY: just made.
    let (mut terminal, theirs) = unsafe { (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
    let mut command = start(home.path(), program.to_str().unwrap());
    let copy = || Stdio::from(theirs.try_clone().unwrap());
    command.stdin(copy()).stdout(copy()).stderr(copy());
    // SAFETY: two system calls in the child: the terminal becomes its own.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            libc::ioctl(0, libc::TIOCSCTTY, 0);
            Ok(())
        });
    }
    let mut child = Ended(command.spawn().unwrap());
    drop(theirs);
    let (said, heard) = std::sync::mpsc::channel();
    let mut screen = terminal.try_clone().unwrap();
    std::thread::spawn(move || {
        let mut bytes = [0; 1000];
        while let Ok(len @ 1..) = screen.read(&mut bytes) {
            let _ = said.send(String::from_utf8_lossy(&bytes[..len]).into_owned());
        }
    });
    let mut shown = String::new();
    let mut until = |text: &str| {
        while !shown.contains(text) {
            let more = heard.recv_timeout(Duration::from_secs(20));
            shown += &more.unwrap_or_else(|_| panic!("no {text:?} in {shown:?}"));
        }
    };
    until("name? ");
    terminal.write_all(b"world\n").unwrap();
    until("hello world");
    until("a line");
    terminal.write_all(b"end\n").unwrap();
    assert!(child.0.wait().unwrap().success());
}

/// A heap takes the place of a heap that was left, and of nothing else that has its name.
#[test]
fn what_is_no_heap_is_not_taken_away_for_one() {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let namespace = Namespace::open(home.path()).unwrap();
    let name = AreaName::new("program").unwrap();
    for how in [Publish::Shared, Publish::Committed] {
        let area = namespace.create(&name, &AreaOptions::with_reserve(ByteLen::mib(64))).unwrap();
        area.publish(how, b"a database").unwrap();
        drop(area);
        let done = start(home.path(), "true").output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && said.contains("the heap is called"), "{said}");
        let area = namespace.open_area(&name).unwrap();
        assert_eq!(area.payload(), b"a database");
        drop(area);
        namespace.remove(&name).unwrap();
    }
    // One that was killed.
    let is_owned = |area: &swing::AreaInfo| area.owner.is_some() && area.shared_epoch.is_some();
    let sleeps = || {
        let mut command = start(home.path(), "sleep");
        let child = Ended(command.arg("60").spawn().unwrap());
        let begun = Instant::now();
        while !namespace.list().unwrap().iter().any(is_owned) {
            assert!(begun.elapsed() < Duration::from_secs(60), "there is no heap");
            std::thread::sleep(Duration::from_millis(5));
        }
        child
    };
    let mut killed = sleeps();
    killed.0.kill().unwrap();
    killed.0.wait().unwrap();
    assert!(namespace.names().unwrap().contains(&name), "it is left");
    let _next = sleeps();
    whole(hook_now(&namespace, &name));
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
    load.arg("-s").arg(&socket).args(["-q", "-n", "10000", "-r", "10000", "-d", "200", "-P", "4"]);
    let mut load = Ended(load.stdout(Stdio::null()).spawn().unwrap());
    let at = socket.clone();
    let session = std::thread::spawn(move || redis::session(&at));
    let namespace = Namespace::open(home.path()).unwrap();
    let name = AreaName::new("program").unwrap();
    let mut round = 0;
    while load.0.try_wait().unwrap().is_none() || !session.is_finished() || round < 3 {
        let text = format!("the value of round {round:04}");
        assert_eq!(client(&["set", "mark", &text]), "OK");
        let snapshot = hook_now(&namespace, &name);
        assert_eq!(client(&["set", "mark", "something else, and longer"]), "OK");
        assert!(holds(&snapshot, text.as_bytes()), "the state of the hook's moment");
        assert!(whole(snapshot) > 1000);
        round += 1;
    }
    assert!(load.0.wait().unwrap().success());
    session.join().unwrap();
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
