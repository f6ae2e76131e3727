//! A heap ends with its program, however that ends, and takes nothing from those who have it.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use swing::{AreaName, Namespace, Snapshot};
use swing_malloc::{Heap, Malloc};

mod common;
use common::{Ended, hook_now};

/// Fills some memory, says so, and waits to be told how to end.
const PROGRAM: &str = r#"
import os, signal, sys
kept = [bytes([i % 251]) * 100_000 for i in range(300)]
print("ready", flush=True)
how = sys.stdin.readline().strip()
if how == "kill": os.kill(os.getpid(), signal.SIGKILL)
if how == "hard": os._exit(0)
if how == "exec": os.execv("/bin/sh", ["sh", "-c", "exit 0"])
if how == "child":
    if (pid := os.fork()) == 0: sys.exit(0)
    os.waitpid(pid, 0)
    print(len(os.listdir(os.environ["SWINGDB_HOME"])), flush=True)
    sys.stdin.readline()
if how == "away": os.chdir("/")
"#;

fn python(home: &Path, named: bool) -> (Ended, impl FnMut(&str), impl FnMut() -> String) {
    let mut command = common::start(home, "python3");
    if !named {
        command.env_remove("SWING_PRELOAD_NAME");
    }
    command.args(["-c", PROGRAM]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child: Child = command.spawn().unwrap();
    let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut lines = BufReader::new(output).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    let tell = move |line: &str| writeln!(input, "{line}").unwrap();
    (Ended(child), tell, move || lines.next().unwrap().unwrap())
}

/// What is in the namespace, without its own files.
fn left(home: &Path) -> Vec<String> {
    let names = std::fs::read_dir(home).unwrap().map(|e| e.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

fn hooked(namespace: &Namespace) -> Snapshot {
    hook_now(namespace, &AreaName::new("program").unwrap())
}

/// The heap is whole, and holds what the program put there.
fn is_whole(snapshot: Snapshot) {
    let malloc = Malloc::open(Heap::open(Arc::new(snapshot.derive(None).unwrap())).unwrap());
    let report = malloc.unwrap().check().unwrap();
    assert!(report.bytes > 300 * 100_000, "{report:?}");
}

#[test]
fn nothing_is_left_of_a_heap_that_nobody_has() {
    if !common::installed("python3") {
        return;
    }
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    for named in [true, false] {
        for how in ["exit", "away"] {
            let (mut child, mut tell, _) = python(home.path(), named);
            assert_eq!(left(home.path()).len(), 1);
            tell(how);
            assert!(child.0.wait().unwrap().success());
            assert_eq!(left(home.path()), [""; 0], "{how}, named: {named}");
        }
    }
}

#[test]
fn a_quick_exit_takes_the_heap_away_but_not_a_childs() {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let programs = tempfile::tempdir().unwrap();
    let Some(program) = common::built("quickly.c", programs.path()) else { return };
    let mut command = common::start(home.path(), program.to_str().unwrap());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = Ended(command.spawn().unwrap());
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    // The child's handlers, then the parent.
    assert_eq!([(); 2].map(|()| lines.next().unwrap().unwrap()), ["last", "ready"]);
    assert_eq!(left(home.path()), ["program"], "the child takes nothing away");
    child.0.stdin.take().unwrap().write_all(b"x").unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(1));
    assert_eq!(lines.next().unwrap().unwrap(), "last");
    assert_eq!(left(home.path()), [""; 0]);
}

/// What a program says, and its exit code, if it ends at all.
fn ended(mut command: Command) -> (String, Option<i32>) {
    let mut child = Ended(command.stdout(Stdio::piped()).spawn().unwrap());
    let begun = Instant::now();
    let status = loop {
        match child.0.try_wait().unwrap() {
            Some(status) => break status,
            None => assert!(begun.elapsed() < Duration::from_secs(60), "it does not end"),
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let said = std::io::read_to_string(child.0.stdout.take().unwrap()).unwrap();
    (said, status.code())
}

#[test]
fn the_end_of_the_last_thread_ends_the_program() {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let programs = tempfile::tempdir().unwrap();
    let Some(program) = common::built("lastly.c", programs.path()) else { return };
    for way in ["alone", "", "joined", "child"] {
        let with_way = |mut command: Command| {
            command.arg(way);
            ended(command)
        };
        let plain = with_way(Command::new(&program));
        assert!(plain.0.contains("the program ends"), "{plain:?}");
        let preloaded = with_way(common::start(home.path(), program.to_str().unwrap()));
        assert_eq!(preloaded, plain, "{way}");
        assert_eq!(left(home.path()), [""; 0], "{way}");
    }
}

#[test]
fn who_has_hooked_a_heap_keeps_it() {
    if !common::installed("python3") {
        return;
    }
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let namespace = Namespace::open(home.path()).unwrap();
    let (mut child, mut tell, _) = python(home.path(), true);
    let (first, second) = (hooked(&namespace), hooked(&namespace));
    let derived = Arc::new(second.derive(None).unwrap());
    tell("exit");
    assert!(child.0.wait().unwrap().success());
    let gone = namespace.hook(&AreaName::new("program").unwrap());
    assert!(gone.is_err(), "its name is free: {gone:?}");
    namespace.gc().unwrap();
    Malloc::open(Heap::open(derived).unwrap()).unwrap().check().unwrap();
    drop(second);
    // Derived only now, from what lies aside.
    is_whole(first);
    namespace.gc().unwrap();
    assert_eq!(left(home.path()), [""; 0], "the last of them takes it away");
}

#[test]
fn what_killed_programs_left_goes_with_the_next_start() {
    if !common::installed("python3") {
        return;
    }
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut running: Vec<_> = (0..2).map(|_| python(home.path(), false)).collect();
    for how in ["kill", "hard", "exec"] {
        let (mut child, mut tell, _) = python(home.path(), false);
        tell(how);
        child.0.wait().unwrap();
    }
    // A start takes away what ended before it; the program that `exec` began has done so.
    let (mut child, mut tell, _) = python(home.path(), false);
    assert_eq!(left(home.path()).len(), 3, "those of living programs stay");
    tell("exit");
    assert!(child.0.wait().unwrap().success());
    for (child, tell, _) in &mut running {
        tell("exit");
        assert!(child.0.wait().unwrap().success());
    }
    assert_eq!(left(home.path()), [""; 0]);
}

/// A database may have the name that the heap of a process that has ended would have.
#[test]
fn a_database_with_the_name_of_a_heap_stays() {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let namespace = Namespace::open(home.path()).unwrap();
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let make = |pid: u32, payload: &[u8]| {
        let name = AreaName::new(&format!("heap-{pid}")).unwrap();
        let options = swing::AreaOptions::with_reserve(swing::ByteLen::mib(64));
        let area = namespace.create(&name, &options).unwrap();
        area.publish(swing::Publish::Committed, payload).unwrap();
        name
    };
    let name = make(ended.id(), b"its catalog");
    let mut command = common::start(home.path(), "ls");
    command.env_remove("SWING_PRELOAD_NAME");
    assert!(command.arg(home.path()).status().unwrap().success());
    assert_eq!(namespace.open_area(&name).unwrap().payload(), b"its catalog");
    assert_eq!(left(home.path()), [name.as_str()]);
}

#[test]
fn a_child_that_ends_takes_nothing_away() {
    if !common::installed("python3") {
        return;
    }
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let namespace = Namespace::open(home.path()).unwrap();
    let (mut child, mut tell, mut said) = python(home.path(), true);
    tell("child");
    assert_eq!(said(), "1");
    is_whole(hooked(&namespace));
    tell("");
    assert!(child.0.wait().unwrap().success());
    namespace.gc().unwrap();
    assert_eq!(left(home.path()), [""; 0]);
}

#[test]
fn a_pipeline_of_many_programs_leaves_no_memory() {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut command: Command = common::start(home.path(), "bash");
    command.env_remove("SWING_PRELOAD_NAME");
    let script = "for i in $(seq 10); do seq 2000 | sort -n | tail -1; done | sort | uniq -c";
    let done = command.args(["-c", script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&done.stdout).trim(), "10 2000");
    assert_eq!(left(home.path()), [""; 0]);
}

#[test]
fn names_and_lengths_may_be_odd() {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let run = |variable: &str, value: &str| {
        // Not sh, which may end by _exit.
        let mut command = common::start(home.path(), "bash");
        command.env(variable, value);
        let done = command.args(["-c", "ls -A \"$SWINGDB_HOME\" | wc -l"]).output().unwrap();
        let (out, err) = (done.stdout, done.stderr);
        assert_eq!(left(home.path()), [""; 0], "{variable} {value:?}");
        let number = String::from_utf8_lossy(&out).trim().to_owned();
        (number, String::from_utf8_lossy(&err).into_owned())
    };
    for name in ["a/b", "x y", ".hidden", "a%2Fb", "\u{fc}", "", &"n".repeat(300)] {
        let (heaps, said) = run("SWING_PRELOAD_NAME", name);
        // The shell's, and that of the program that counts.
        assert!(heaps.parse::<u32>().unwrap() >= 1 && said.is_empty(), "{name:?}: {heaps} {said}");
    }
    for variable in ["SWING_PRELOAD_GIB", "SWING_PRELOAD_EXTENT_KIB"] {
        for value in ["0", "-5", "abc", "999999", "1.5", ""] {
            let (heaps, said) = run(variable, value);
            assert!(heaps == "0" && said.contains(&format!("{variable} must be")), "{said}");
        }
    }
    let (heaps, said) = run("SWING_PRELOAD_EXTENT_KIB", "100");
    assert!(heaps == "0" && said.contains("must be a power of two"), "{heaps} {said}");
}

/// The library's own threads, which have just been started, may be allocating then.
#[test]
fn a_child_that_is_forked_at_once_allocates() {
    let programs = tempfile::tempdir().unwrap();
    let Some(program) = common::built("lastly.c", programs.path()) else { return };
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let home = tempfile::tempdir_in("/dev/shm").unwrap();
                for _ in 0..10 {
                    let mut command = common::start(home.path(), program.to_str().unwrap());
                    command.arg("child");
                    let (said, code) = ended(command);
                    assert!(said.contains("child 0") && code == Some(0), "{said}");
                }
            });
        }
    });
}

fn its_children_end(source: &str) {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let programs = tempfile::tempdir().unwrap();
    let Some(program) = common::built(source, programs.path()) else { return };
    let said = ended(common::start(home.path(), program.to_str().unwrap()));
    assert_eq!(said, ("all have ended\n".to_owned(), Some(0)));
    assert_eq!(left(home.path()), [""; 0]);
}

#[test]
fn children_end_whatever_other_threads_were_about() {
    its_children_end("forking.c");
}

/// The C library allocates under the locks of files, which a fork waits for.
#[test]
fn a_process_forks_while_threads_use_its_files() {
    its_children_end("lines.c");
}

#[test]
fn handlers_of_forks_that_were_there_before_the_heap_use_it() {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let programs = tempfile::tempdir().unwrap();
    let Some(program) = common::built_with_library("handlers.c", programs.path()) else { return };
    let said = ended(common::start(home.path(), program.to_str().unwrap()));
    assert_eq!(said, ("20 20 0\n".to_owned(), Some(0)));
}
