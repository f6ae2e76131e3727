//! Stacks that a program takes from `malloc` (stacks.c), for coroutines and for threads, hooked
//! while they are used and while they are not: what it says must be what it says with an ordinary
//! heap.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use swing::{AreaName, Namespace};

mod common;

/// All that the program says; it is told to go on after `before`, at each line that waits for it.
fn transcript(mut command: Command, mut before: impl FnMut()) -> Vec<String> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut go, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut child = common::Ended(child);
    let mut all = Vec::new();
    for line in BufReader::new(answers).lines().map(|line| line.unwrap()) {
        if line.starts_with("? ") {
            before();
            assert!(go.write_all(b"x").is_ok(), "the program ended in {line}");
        }
        all.push(line);
    }
    let status = child.0.wait().unwrap();
    assert!(status.success(), "{status}: {all:#?}");
    all
}

#[test]
fn stacks_may_lie_in_a_hooked_heap() {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let Some(program) = common::built("stacks.c", home.path()) else { return };
    let expected = transcript(Command::new(&program), || {});
    assert!(expected.len() > 60 && expected.last().is_some_and(|line| line == "end"));
    let namespace = Namespace::open(home.path()).unwrap();
    let name = AreaName::new("program").unwrap();
    for kept in [true, false] {
        let mut snapshots = Vec::new();
        let command = common::start(home.path(), program.to_str().unwrap());
        let got = transcript(command, || {
            snapshots.push(common::hook_now(&namespace, &name));
            if !kept {
                snapshots.clear();
            }
        });
        assert_eq!(got, expected);
    }
}

#[test]
fn stacks_may_be_hooked_at_any_moment() {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let Some(program) = common::built("stacks.c", home.path()) else { return };
    let quiet = |mut command: Command| {
        command.arg("quiet");
        command
    };
    let expected = transcript(quiet(Command::new(&program)), || {});
    let namespace = Namespace::open(home.path()).unwrap();
    let name = AreaName::new("program").unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let end = common::AtTheEnd(&done);
        let hooks = scope.spawn(|| {
            let mut hooks = 0;
            while !done.load(SeqCst) {
                hooks += u32::from(namespace.hook_live(&name).is_ok());
                std::thread::sleep(Duration::from_micros(200));
            }
            hooks
        });
        for _ in 0..5 {
            let command = common::start(home.path(), program.to_str().unwrap());
            let got = transcript(quiet(command), || std::thread::sleep(Duration::from_millis(2)));
            assert_eq!(got, expected);
        }
        drop(end);
        assert!(hooks.join().unwrap() > 50);
    });
}
