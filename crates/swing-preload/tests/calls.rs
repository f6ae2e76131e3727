//! System calls that write into frozen memory (calls.c), each right after a hook.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use swing::{AreaName, Namespace};

mod common;

#[test]
fn calls_write_into_frozen_memory() {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let Some(program) = common::built("calls.c", home.path()) else { return };
    let mut command = common::start(home.path(), program.to_str().unwrap());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut go, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let _child = common::Ended(child);
    let mut lines = BufReader::new(answers).lines().map(|line| line.unwrap());
    let namespace = Namespace::open(home.path()).unwrap();
    let name = AreaName::new("program").unwrap();
    let (mut bad, mut count) = (Vec::new(), 0);
    while let Some(call) = lines.next() {
        if call.ends_with(" calls") {
            assert_eq!(call, format!("{count} calls"));
            assert!(count > 60 && bad.is_empty(), "{bad:#?}");
            return;
        }
        // Kept, so that the program has to copy.
        let _snapshot = common::hook_now(&namespace, &name);
        assert!(go.write_all(b"x").is_ok(), "the program ended before {call}; {bad:#?}");
        let result = lines.next().unwrap_or_else(|| panic!("{call} ended the program"));
        if result != "good" {
            bad.push(format!("{call}: {result}"));
        }
        count += 1;
    }
    panic!("the program ended after {count} calls; {bad:#?}");
}
