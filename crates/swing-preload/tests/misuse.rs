//! A program that frees a block twice, or an address inside a block, is ended as it would be with
//! glibc (misuse.c), where that can be noticed.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;

mod common;

/// Small, between 1 KiB and 64 KiB, and above 1 MiB.
const LENGTHS: [usize; 7] = [16, 100, 1024, 2000, 20_000, 60_000, 3 << 20];

fn ended(home: &Path, program: &Path, what: &str, length: usize) -> Option<i32> {
    let mut command = common::start(home, program.to_str().unwrap());
    let done = command.args([what, &length.to_string()]).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert_eq!(done.status.success(), out == "goes on\n", "{what} {length}: {out}{err}");
    assert_eq!(done.status.success(), err.is_empty(), "{what} {length}: {out}{err}");
    done.status.signal()
}

#[test]
fn wrong_frees_end_the_program() {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let Some(program) = common::built("misuse.c", home.path()) else { return };
    for length in LENGTHS {
        let ended = |what: &str| ended(home.path(), &program, what, length);
        assert_eq!(ended("once"), None, "{length}");
        for what in ["twice", "with another between", "by realloc", "one byte inside"] {
            assert_eq!(ended(what), Some(libc::SIGABRT), "{what} {length}");
        }
        if length > 1024 {
            assert_eq!(ended("in the middle"), Some(libc::SIGABRT), "{length}");
        }
        if length > 32 << 10 {
            assert_eq!(ended("in a thread"), Some(libc::SIGABRT), "{length}");
        }
    }
}
