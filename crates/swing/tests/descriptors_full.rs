//! A process with no descriptor left gets errors, and is as before when it has some again. One
//! test: the table is the process's.

mod common;

use std::fs::File;

use common::*;
use swing::{AreaOptions, Backing, ByteLen, Publish, WriteError, WriteIntent};

/// All descriptors that the process may still have.
fn all_descriptors() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

#[test]
fn a_full_table_of_descriptors_is_an_error_and_no_more() {
    let limit = libc::rlimit { rlim_cur: 256, rlim_max: 256 };
    // SAFETY: a valid structure.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    let h = home();
    let ns = h.ns.clone().with_backing(Backing::Memfd);
    let long = AreaOptions::with_reserve(ByteLen::gib(1 << 10));
    // The first that this process wants of the system: how much memory there is.
    let full = all_descriptors();
    assert!(full.len() > 100);
    assert!(ns.create(&name("a"), &options()).is_err());
    drop(full);

    let area = ns.create(&name("long"), &long).unwrap();
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let kib: u64 = text.split_whitespace().nth(1).unwrap().parse().unwrap();
    let all = kib << 10;
    let too_much = range(ByteLen::gib(32).0, (all + all / 4).next_multiple_of(DATA));
    let refused = area.make_writable(too_much, WriteIntent::Overwrite);
    assert!(matches!(refused, Err(WriteError::OutOfMemory { .. })), "{refused:?}");
    drop(area);

    let area = ns.create(&name("kept"), &options()).unwrap();
    fill(&area, data_at(0), 4 * DATA, 1);
    area.publish(Publish::Shared, b"1").unwrap();
    let reader = ns.hook(&name("kept")).unwrap();
    fill(&area, data_at(0), 4 * DATA, 2);
    area.publish(Publish::Shared, b"2").unwrap();
    drop(reader);
    let full = all_descriptors();
    drop(area);
    drop(full);
    let area = ns.open_area(&name("kept")).unwrap();
    assert_eq!(area.payload(), b"2");
    assert_eq!(read(&area, data_at(3), 2), [2, 2]);

    // A child of that moment never sees what its parent stores later.
    let full = all_descriptors();
    // SAFETY: the child looks, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        std::thread::sleep(std::time::Duration::from_millis(300));
        let seen = area.base().as_ptr().wrapping_add(data_at(3) as usize);
        // SAFETY: a byte of the area, or nothing: then the child ends by the signal.
        let changed = unsafe { seen.read_volatile() } != 2;
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(changed)) };
    }
    drop(full);
    for value in 3..6 {
        fill(&area, data_at(0), 4 * DATA, value);
        area.publish(Publish::Shared, b"more").unwrap();
    }
    area.reclaim().unwrap();
    let mut status = 0;
    // SAFETY: waits for the child made above.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    let fine = libc::WIFSIGNALED(status) || libc::WEXITSTATUS(status) == 0;
    assert!(fine, "the child saw other bytes: {status:#x}");
}
