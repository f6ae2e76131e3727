//! A program that frees a block twice, or an address inside a block, is ended as it would be with
//! glibc (misuse.c), where that can be noticed.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;

mod common;

/// In slabs, without slabs, and what is given back at once when it has memory.
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
        for what in ["twice", "one byte inside"] {
            assert_eq!(ended(what), Some(libc::SIGABRT), "{what} {length}");
        }
        assert_eq!(ended("realloc in place"), None, "{length}");
        let large = ["in the middle", "by realloc", "by realloc in place"];
        for also in if length > 32 << 10 { &large[..] } else { &large[1..2] } {
            assert_eq!(ended(also), Some(libc::SIGABRT), "{also} {length}");
        }
    }
}
