//! `malloc`'s whole family under the library (family.c): what every allocator does, and what the
//! heap in the area says about itself.

use std::process::{Command, Output};

mod common;

fn done(mut command: Command, argument: &str) -> (String, String) {
    let Output { status, stdout, stderr } = command.arg(argument).output().unwrap();
    let (out, err) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert!(status.success(), "{status}\n{out}\n{err}");
    (out, err)
}

#[test]
fn every_call_does_what_it_does_elsewhere() {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let Some(program) = common::built("family.c", home.path()) else { return };
    let (expected, _) = done(Command::new(&program), "lines");
    assert!(expected.contains("malloc null 12") && expected.contains("threads: done"));
    let command = common::start(home.path(), program.to_str().unwrap());
    assert_eq!(done(command, "lines").0, expected);
}

#[test]
fn the_heap_tells_about_itself_and_gives_memory_back() {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let Some(program) = common::built("family.c", home.path()) else { return };
    let (out, err) = done(common::start(home.path(), program.to_str().unwrap()), "heap");
    assert!(out.starts_with("<malloc version=\"swing-1\">\n<used bytes=\""), "{out}");
    assert!(out.contains("</malloc>\n") && out.ends_with("heap: done\n"), "{out}");
    let lines: Vec<_> = err.lines().collect();
    assert!(lines.len() == 7 && lines[1].starts_with("used"), "{err}");
    let used: u64 = lines[1].rsplit(' ').next().unwrap().parse().unwrap();
    // Nothing, but for what the library's own threads have from the C library.
    assert!(used < 1 << 20, "{err}");
}
