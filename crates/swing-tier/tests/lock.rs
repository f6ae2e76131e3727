//! The lock of a log beside children that are forked, and programs that are started, at any moment.

mod common;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::model::small_options;
use swing_tier::{Directory, DirectoryOptions, Log, OpenError};

/// Children live for so long.
const LIFE: std::time::Duration = std::time::Duration::from_millis(300);

/// Forks a child that sleeps and ends; returns its process.
fn sleeping_child() -> i32 {
    // SAFETY: the child calls async-signal-safe functions alone.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let life = libc::timespec { tv_sec: 0, tv_nsec: LIFE.as_nanos() as i64 };
        // SAFETY: sleeps, and ends the child without running what belongs to the parent.
        unsafe {
            libc::nanosleep(&life, std::ptr::null_mut());
            libc::_exit(0)
        }
    }
    child
}

fn wait(child: i32) {
    let mut status = 0;
    // SAFETY: waits for a child of this process.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
}

fn open(path: &Path) -> Arc<Directory> {
    Arc::new(Directory::open(path, DirectoryOptions::default()).unwrap())
}

/// Makes, opens and closes logs: each can be had at once, and only once.
fn make_and_open(path: &Path) {
    for round in 0..common::rounds(15) {
        let folder = path.join(round.to_string());
        std::fs::create_dir(&folder).unwrap();
        drop(Log::create(open(&folder), small_options()).unwrap());
        for _ in 0..2 {
            drop(Log::open(open(&folder), small_options()).unwrap());
            drop(Log::open_read_only(open(&folder), small_options()).unwrap());
        }
        let log = Log::open(open(&folder), small_options()).unwrap();
        let second = Log::open(open(&folder), small_options());
        assert!(matches!(second, Err(OpenError::InUse { .. })), "{second:?}");
        drop(log);
    }
}

#[test]
fn neither_children_nor_programs_hold_a_lock_that_was_given_up() {
    let done = AtomicBool::new(false);
    for folder in [Some(common::on_disk()), common::in_memory()].into_iter().flatten() {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut children = std::collections::VecDeque::new();
                while !done.load(Ordering::Relaxed) {
                    children.push_back(sleeping_child());
                    if children.len() > 100 {
                        wait(children.pop_front().unwrap());
                    }
                }
                children.into_iter().for_each(wait);
            });
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    assert!(Command::new("true").status().unwrap().success());
                }
            });
            scope.spawn(|| {
                let made = std::panic::catch_unwind(|| make_and_open(folder.path()));
                done.store(true, Ordering::Relaxed);
                made.unwrap();
            });
        });
        done.store(false, Ordering::Relaxed);
    }
}
