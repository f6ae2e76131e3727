//! Programs that close what is not theirs, close twice, or put something at numbers of their choice
//! (descriptors.c) go on as without the library, and their heaps can be hooked.

use std::process::{Command, Stdio};
use swing::Namespace;

mod common;
use common::{hooked_all_the_time, installed, start};

#[test]
fn what_is_the_librarys_stays_open() {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let Some(program) = common::built("descriptors.c", home.path()) else { return };
    let namespace = Namespace::open(home.path()).unwrap();
    for way in ["", "close", "closefrom", "close_range", "numbers", "dup2", "pipes"] {
        let mut command = start(home.path(), program.to_str().unwrap());
        command.arg(way);
        assert_eq!(hooked_all_the_time(command, &namespace), "ready\nwhole\n", "{way}");
    }
}

/// A shell closes its pipes more than once, and puts files at numbers.
#[test]
fn pipelines_of_a_shell_get_what_is_written_into_them() {
    if !installed("bash") {
        return;
    }
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let namespace = Namespace::open(home.path()).unwrap();
    let code = "
exec 3</dev/zero 7>/dev/null
echo ready
for ((i = 1; i <= 100; i++)); do
    seq $i 500 | cat | while read -r n; do echo \"$n\" >&7; last=$n; done
    seq $i 5000 | md5sum
done
head -c 3 <&3 | od -An -c
read -r line; echo \"end $line\"";
    let expected = {
        let mut plain = Command::new("bash");
        plain.args(["-c", code]).stdin(Stdio::null());
        String::from_utf8(plain.output().unwrap().stdout).unwrap()
    };
    let mut command = start(home.path(), "bash");
    command.args(["-c", code]);
    assert_eq!(hooked_all_the_time(command, &namespace), expected);
}
