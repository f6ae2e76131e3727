//! Calls with odd, empty, huge and wrong arguments (edges.c), right after a hook: their results,
//! what they store and their errors must be those of the same program with an ordinary heap.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};
use swing::{AreaName, Namespace};

mod common;

/// What the program says about each of its calls; `before` runs before each.
fn transcript(mut command: Command, mut before: impl FnMut(&str)) -> Vec<(String, String)> {
    // Names of sockets are of one length, so that all runs see the same.
    static RUN: AtomicU32 = AtomicU32::new(0);
    command.arg(format!("{:010}-{:06}", std::process::id(), RUN.fetch_add(1, SeqCst)));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut go, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut child = common::Ended(child);
    let mut lines = BufReader::new(answers).lines().map(|line| line.unwrap());
    let mut all = Vec::new();
    while let Some(name) = lines.next() {
        before(&name);
        assert!(go.write_all(b"x").is_ok(), "the program ended before {name}");
        let answer = lines.next().unwrap_or_else(|| panic!("{name} ended the program"));
        all.push((name, answer));
    }
    assert!(child.0.wait().unwrap().success());
    all
}

fn hooked(home: &Path, program: &Path, kept: bool) -> Vec<(String, String)> {
    let namespace = Namespace::open(home).unwrap();
    let name = AreaName::new("program").unwrap();
    let mut snapshots = Vec::new();
    let command = common::start(home, program.to_str().unwrap());
    transcript(command, |_| {
        snapshots.push(common::hook_now(&namespace, &name));
        if !kept {
            snapshots.clear();
        }
    })
}

#[test]
fn calls_with_odd_arguments_do_what_they_do_elsewhere() {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let Some(program) = common::built("edges.c", home.path()) else { return };
    let expected = transcript(Command::new(&program), |_| {});
    let names: HashSet<_> = expected.iter().map(|(name, _)| name.clone()).collect();
    assert!(names.len() == expected.len() && names.len() > 20);
    for kept in [true, false] {
        let got = hooked(home.path(), &program, kept);
        assert_eq!(got.len(), expected.len());
        let mut differences = Vec::new();
        for ((name, want), (_, got)) in expected.iter().zip(&got) {
            let (want, got) = (want.split(" ").collect::<Vec<_>>(), got.split(" "));
            let differ = want.iter().zip(got).filter(|(want, got)| **want != *got);
            differences.extend(differ.map(|(want, got)| format!("{name}: {got}, not {want}")));
        }
        assert!(differences.is_empty(), "{differences:#?}");
    }
}

/// The same while hooks come all the time: at least one before each call, and in the middle of
/// calls, too.
#[test]
fn calls_do_what_they_do_elsewhere_while_others_hook() {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let Some(program) = common::built("edges.c", home.path()) else { return };
    let expected = transcript(Command::new(&program), |_| {});
    let namespace = Namespace::open(home.path()).unwrap();
    let name = AreaName::new("program").unwrap();
    let (done, hooks) = (AtomicBool::new(false), AtomicU32::new(0));
    let got = std::thread::scope(|scope| {
        let _end = common::AtTheEnd(&done);
        scope.spawn(|| {
            while !done.load(SeqCst) {
                hooks.fetch_add(u32::from(namespace.hook_live(&name).is_ok()), SeqCst);
                std::thread::sleep(Duration::from_micros(300));
            }
        });
        let command = common::start(home.path(), program.to_str().unwrap());
        let mut seen = 0;
        transcript(command, |name| {
            let begun = Instant::now();
            while hooks.load(SeqCst) == seen {
                assert!(begun.elapsed() < Duration::from_secs(60), "no hooks before {name}");
                std::thread::sleep(Duration::from_micros(300));
            }
            seen = hooks.load(SeqCst);
        })
    });
    assert!(hooks.load(SeqCst) as usize >= expected.len());
    for (expected, got) in expected.iter().zip(&got) {
        assert_eq!(got, expected);
    }
    assert_eq!(got.len(), expected.len());
}
