//! A program that crashes ends as it does without the library: by the same signal, after the same
//! words of its handlers, and not some time later (crashes.c). Its heap is hooked just before.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use swing::{AreaName, Namespace};

mod common;

/// Much longer than any crash takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a program says after it was ready and `before` was done, and how it ends: exit code or
/// signal.
fn ending(mut command: Command, before: impl FnOnce()) -> (String, Option<i32>, Option<i32>) {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = common::Ended(command.spawn().unwrap());
    let (mut go, out) = (child.0.stdin.take().unwrap(), child.0.stdout.take().unwrap());
    let mut out = BufReader::new(out);
    let mut said = String::new();
    out.read_line(&mut said).unwrap();
    assert_eq!(said, "ready\n");
    before();
    go.write_all(b"x").unwrap();
    let begun = Instant::now();
    let status = loop {
        match child.0.try_wait().unwrap() {
            Some(status) => break status,
            None => assert!(begun.elapsed() < PATIENCE, "the crash does not end"),
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    said.clear();
    out.read_to_string(&mut said).unwrap();
    (said, status.code(), status.signal())
}

fn same_with_the_library(home: &Path, plain: impl Fn() -> Command, command: Command, what: &str) {
    let namespace = Namespace::open(home).unwrap();
    let name = AreaName::new("program").unwrap();
    let expected = ending(plain(), || {});
    let got = ending(command, || {
        common::hook_now(&namespace, &name);
    });
    assert_eq!(got, expected, "{what}");
}

#[test]
fn crashes_end_as_they_do_elsewhere() {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let Some(program) = common::built("crashes.c", home.path()) else { return };
    for what in [
        "",
        "gives_up",
        "restored",
        "restored_by_signal",
        "stores",
        "reset",
        "once",
        "once_sent",
        "once_again",
        "raises",
        "on_its_stack",
        "overflow",
        "overflow_on_it",
        "overflow_in_a_thread",
        "told",
        "leaves",
        "ignored",
        "sent",
        "mends",
        "thread",
        "signal",
        "sysv_signal",
        "__sysv_signal",
        "ssignal",
        "sigset",
        "sigsetmask",
        "sigblock",
        "inherits",
        "protected",
        "abort",
        "wild",
    ] {
        let plain = || {
            let mut command = Command::new(&program);
            command.arg(what);
            command
        };
        let mut command = common::start(home.path(), program.to_str().unwrap());
        command.arg(what);
        same_with_the_library(home.path(), plain, command, what);
    }
}

/// Its alternate stack comes from `malloc`.
#[test]
fn python_tells_where_it_crashed() {
    if !common::installed("python3") {
        return;
    }
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let code = "
import ctypes, faulthandler, sys
faulthandler.enable(sys.stdout, all_threads=False)
print('ready', flush=True)
sys.stdin.read(1)
def here(): ctypes.string_at(0)
here()";
    let begun = |mut command: Command| {
        command.args(["-c", code]);
        command
    };
    for _ in 0..3 {
        let command = begun(common::start(home.path(), "python3"));
        let (said, _, signal) = ending(command, || {
            let namespace = Namespace::open(home.path()).unwrap();
            common::hook_now(&namespace, &AreaName::new("program").unwrap());
        });
        let (plain, _, plainly) = ending(begun(Command::new("python3")), || {});
        assert_eq!(signal, plainly);
        // But for the thread's number.
        let frames = |text: &str| text.split("first):").nth(1).map(str::to_owned);
        assert!(frames(&said).is_some_and(|frames| frames.contains("in here")), "{said}");
        assert_eq!(frames(&said), frames(&plain));
    }
}
