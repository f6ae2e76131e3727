//! Threads that wait for something in the heap are woken, however often it was hooked meanwhile
//! (waits.c): also where it was made for several processes.

use swing::Namespace;

mod common;

#[test]
fn who_waits_is_woken() {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let Some(program) = common::built("waits.c", home.path()) else { return };
    let namespace = Namespace::open(home.path()).unwrap();
    for way in ["futex", "semaphore", "condition", "barrier", "lock"] {
        let mut command = common::start(home.path(), program.to_str().unwrap());
        command.arg(way);
        let said = common::hooked_all_the_time(command, &namespace);
        assert_eq!(said, "ready\nwoken\n", "{way}");
    }
}
